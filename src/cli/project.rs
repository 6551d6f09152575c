//! The commands about the user's project.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use serde_json::{Map, Value};

use super::{Exit, Shell, Trouble, call, installation};
use crate::query::control::Control;
use crate::query::load_system::{LoadNews, LoadStatus};
use crate::render::project::load as load_text;
use crate::{LoadListener, ProjectSettings, Steelbank};

/// Which project, and what of it is loaded first.
#[derive(Debug, Args)]
pub(super) struct ProjectOptions {
    /// The project's folder [default: the nearest one upwards with an .asd file, else with .git]
    #[arg(long, global = true, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Load this system first; may be given several times. `serve` loads it in the background
    #[arg(long = "system", global = true, value_name = "SYSTEM")]
    systems: Vec<String>,
    /// Do not load the init file (~/.sbclrc) before the first system
    #[arg(long, global = true)]
    no_userinit: bool,
}

/// How long --system may take.
const SYSTEM_ALLOWED: Duration = Duration::from_secs(3600);

impl ProjectOptions {
    /// The project's settings, if there is a project.
    pub(super) fn settings(&self) -> Result<Option<ProjectSettings>, Trouble> {
        let root = match &self.project {
            Some(folder) if !folder.is_dir() => {
                return Err(Trouble {
                    exit: Exit::Usage,
                    message: format!("--project {} is no folder.", folder.display()),
                });
            }
            Some(folder) => Some(folder.clone()),
            None => std::env::current_dir().ok().and_then(|folder| nearest_project(&folder)),
        };
        let Some((root, cache)) = root.zip(installation::cache()) else { return Ok(None) };
        let userinit =
            (!self.no_userinit).then(std::env::home_dir).flatten().map(|home| home.join(".sbclrc"));
        Ok(Some(ProjectSettings { root, cache: cache.join("projects"), userinit }))
    }

    /// The project's folder; the current one if there is no project.
    pub(super) fn folder(&self) -> Result<PathBuf, Trouble> {
        let current = std::env::current_dir().map_err(|error| Trouble {
            exit: Exit::Engine,
            message: format!("The current folder cannot be found: {error}. Name a folder with --project."),
        });
        match &self.project {
            Some(folder) => Ok(folder.clone()),
            None => current.map(|current| nearest_project(&current).unwrap_or(current)),
        }
    }

    /// Loads the systems of --system. Stops at the first that does not load.
    pub(super) fn load(&self, bank: &Steelbank) -> Result<(), Trouble> {
        for system in &self.systems {
            let bar = Bar::new();
            let listener = bar.listener();
            let answer = bank.load_system(system, false, &Control::new(SYSTEM_ALLOWED), Some(listener));
            bar.end();
            let answer = answer?;
            if answer.status != LoadStatus::Loaded {
                return Err(Trouble { exit: Exit::Engine, message: load_text(&answer) });
            }
        }
        Ok(())
    }

    /// Whether there is anything to load.
    pub(super) fn any(&self) -> bool {
        !self.systems.is_empty()
    }
}

/// The nearest folder from `start` upwards that holds a system definition; else one that holds a repository.
fn nearest_project(start: &Path) -> Option<PathBuf> {
    let defines_system = |folder: &Path| {
        std::fs::read_dir(folder).is_ok_and(|entries| {
            entries.flatten().any(|entry| entry.path().extension().is_some_and(|e| e == "asd"))
        })
    };
    let mut upwards = start.ancestors();
    upwards
        .clone()
        .find(|folder| defines_system(folder))
        .or_else(|| upwards.find(|folder| folder.join(".git").exists()))
        .map(Path::to_path_buf)
}

/// One line on a terminal that tells how far a load is. Elsewhere it says nothing.
struct Bar {
    shown: bool,
}

impl Bar {
    fn new() -> Self {
        Self { shown: std::io::stderr().is_terminal() }
    }

    fn listener(&self) -> LoadListener {
        let shown = self.shown;
        Arc::new(move |news: LoadNews| {
            if shown {
                let file = Path::new(&news.path).file_name().unwrap_or_default().to_string_lossy();
                // Nothing can be done if nobody can see it.
                let _ =
                    write!(std::io::stderr(), "\r\x1b[K[{}/{}] {} {file}", news.done, news.total, news.what);
            }
        })
    }

    fn end(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

#[derive(Debug, Args)]
pub(super) struct References {
    /// The symbol: my-func, pkg:name, pkg::name, '|Mixed Case|', '(setf name)'
    symbol: String,
    /// The package to look the symbol up in
    #[arg(long, short, default_value = "CL-USER")]
    package: String,
    /// Also uses outside of the project
    #[arg(long)]
    all: bool,
    /// Print JSON with all that is known
    #[arg(long)]
    json: bool,
}

impl References {
    pub(super) fn run(&self, shell: &Shell) -> Result<Exit, Trouble> {
        let arguments = Map::from_iter([
            ("symbol".to_owned(), Value::from(self.symbol.as_str())),
            ("package".to_owned(), Value::from(self.package.as_str())),
            ("project_only".to_owned(), Value::from(!self.all)),
            ("limit".to_owned(), Value::from(1_000_000)),
        ]);
        call::call(shell, "code-find-references", arguments, self.json)
    }
}

#[derive(Debug, Args)]
pub(super) struct LoadSystem {
    /// The system's name
    system: String,
    /// Compile the system's own files anew
    #[arg(long)]
    force: bool,
    /// The most seconds that it may take
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout_seconds: u64,
    /// Print JSON with all that is known
    #[arg(long)]
    json: bool,
}

impl LoadSystem {
    pub(super) fn run(&self, shell: &Shell) -> Result<Exit, Trouble> {
        let arguments = Map::from_iter([
            ("system".to_owned(), Value::from(self.system.as_str())),
            ("force".to_owned(), Value::from(self.force)),
            ("timeout_seconds".to_owned(), Value::from(self.timeout_seconds)),
        ]);
        call::call(shell, "load-system", arguments, self.json)
    }
}

#[derive(Debug, Args)]
pub(super) struct ListSystems {
    /// Print JSON with all that is known
    #[arg(long)]
    json: bool,
}

impl ListSystems {
    pub(super) fn run(&self, shell: &Shell) -> Result<Exit, Trouble> {
        call::call(shell, "list-systems", Map::new(), self.json)
    }
}
