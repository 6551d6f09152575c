//! The commands about the user's project.

use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Map, Value};

use super::output::Output;
use super::{Exit, Shell, Trouble, call, installation};
use crate::ProjectSettings;
use crate::mcp::{Failure, Outcome, Session, Tools};

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
const SYSTEM_SECONDS: u64 = 3600;

fn load_arguments(system: &str, force: bool, timeout_seconds: u64) -> Map<String, Value> {
    Map::from_iter([
        ("system".to_owned(), Value::from(system)),
        ("force".to_owned(), Value::from(force)),
        ("timeout_seconds".to_owned(), Value::from(timeout_seconds)),
    ])
}

impl ProjectOptions {
    /// How files are loaded, and the project, if there is one. None if there is no cache folder.
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
        let Some(cache) = installation::cache() else { return Ok(None) };
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

    /// Loads the systems of --system, and tells of those that do not load; what of them was loaded stays. True if
    /// all were loaded.
    pub(super) fn load(&self, session: &Session, output: &Output) -> Result<bool, Trouble> {
        let tools = Tools::all();
        let mut all = true;
        for system in &self.systems {
            let tool = tools.get("load-system").map_err(Failure::Engine)?;
            let arguments = load_arguments(system, false, SYSTEM_SECONDS);
            let answer = call::followed(tool, session, arguments)?;
            if answer.outcome != Outcome::Answered {
                output.complain(&answer.text);
                all = false;
            }
        }
        Ok(all)
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
        let arguments = load_arguments(&self.system, self.force, self.timeout_seconds);
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
