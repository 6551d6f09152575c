//! The options that select the project and the systems to load, and the loading of these systems.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use clap_complete::ArgValueCompleter;
use serde_json::Value;

use super::config::ProjectConfig;
use super::images::SbclImage;
use super::output::Terminal;
use super::{CommandError, Exit, call, complete, images, installation};
use crate::ProjectSettings;
use crate::answer::Advice;
use crate::handle::recovery::LoadedItem;
use crate::tools::{CallOutcome, Failure, Object, ProjectRoot, Session};

/// Selects the project and the systems that are loaded first.
#[derive(Debug, Default, Clone, Args)]
pub(super) struct ProjectOptions {
    /// The project's folder [default: the nearest folder upwards with an .asd file, else with .git]
    #[arg(long, global = true, help_heading = super::GLOBAL, display_order = 901, value_name = "DIR")]
    project: Option<PathBuf>,
    /// Load this system first; can be repeated. auto: the systems in the project's .steelbank.toml,
    /// else all of the project's systems. serve loads in the background
    #[arg(long = "system", global = true, help_heading = super::GLOBAL, display_order = 902, value_name = "SYSTEM|auto", add = ArgValueCompleter::new(complete::systems))]
    systems: Vec<String>,
    /// Skip loading the init file (~/.sbclrc)
    #[arg(long, global = true, help_heading = super::GLOBAL, display_order = 903)]
    no_userinit: bool,
    /// Run this version of SBCL instead of the one inside the program; ./bootstrap --sbcl builds
    /// its image
    #[arg(long, global = true, help_heading = super::GLOBAL, display_order = 904, value_name = "VERSION")]
    sbcl: Option<String>,
    /// Disable snapshots of the systems of --system
    #[arg(long, global = true)]
    no_snapshot: bool,
    /// The reason why the program could not start from the snapshot before it was restarted
    #[arg(long, global = true, hide = true, value_name = "WHY")]
    failed_snapshot: Option<String>,
    /// The reasons why a server ignores configuration files.
    #[arg(skip)]
    pub(super) config_errors: Vec<String>,
}

/// The value of --system that selects the project's systems.
pub(super) const AUTO: &str = "auto";

/// The time limit for loading a system of --system, and for each load and the writing of an export,
/// in seconds.
pub(super) const SYSTEM_SECONDS: u64 = 3600;

impl ProjectOptions {
    /// Returns the options of a command line with `project` as its only option.
    pub(super) fn of(project: Option<PathBuf>) -> Self {
        Self { project, ..Self::default() }
    }

    /// Returns the project's folder, if there is a project: the value of --project, or else the
    /// nearest project's folder, from the current folder upwards.
    pub(super) fn root(&self) -> Result<Arc<ProjectRoot>, CommandError> {
        Ok(ProjectRoot::new(match &self.project {
            Some(folder) if !folder.is_dir() => {
                return Err(CommandError {
                    exit: Exit::Usage,
                    message: format!("--project {} is not a folder.", folder.display()),
                });
            }
            Some(folder) => Some(folder.clone()),
            None => std::env::current_dir().ok().and_then(|folder| nearest_project(&folder)),
        }))
    }

    /// Returns the options that give another process the same image of the project in `folder`.
    pub(super) fn arguments(&self, folder: &Path) -> Vec<OsString> {
        let systems = self.systems.iter().flat_map(|system| ["--system".into(), system.into()]);
        let flags = [("--no-userinit", self.no_userinit), ("--no-snapshot", self.no_snapshot)];
        let flags = flags.iter().filter(|(_, given)| *given).map(|(flag, _)| flag.into());
        let sbcl = self.sbcl_options().into_iter().map(Into::into);
        ["--project".into(), folder.into()].into_iter().chain(systems).chain(flags).chain(sbcl).collect()
    }

    /// Returns the options that give another process the same SBCL.
    pub(super) fn sbcl_options(&self) -> Vec<String> {
        self.sbcl.iter().flat_map(|version| ["--sbcl".to_owned(), version.clone()]).collect()
    }

    /// Returns the image of --sbcl. `None` if the SBCL inside the program is to be used.
    pub(super) fn image(&self) -> Result<Option<SbclImage>, CommandError> {
        self.sbcl.as_deref().map_or(Ok(None), images::find)
    }

    /// Replaces `auto` with the systems that the project's configuration file lists, if it lists
    /// any.
    pub(super) fn resolve_auto_systems(&mut self) -> Result<(), CommandError> {
        if self.systems.iter().any(|system| system == AUTO)
            && let Some(folder) = self.root()?.folder()
            && let own @ [_, ..] = &*ProjectConfig::load(&folder)?.systems
        {
            let named = |system: &String| if system == AUTO { own.to_vec() } else { vec![system.clone()] };
            self.systems = self.systems.iter().flat_map(named).collect();
        }
        Ok(())
    }

    /// Returns the settings for the project in `root`, or for no project. `None` if there is no
    /// cache folder.
    pub(super) fn settings(&self, root: &ProjectRoot) -> Option<ProjectSettings> {
        let cache = installation::cache()?;
        let userinit =
            (!self.no_userinit).then(std::env::home_dir).flatten().map(|home| home.join(".sbclrc"));
        let cache = match self.image() {
            Ok(Some(image)) => image.projects(),
            _ => cache.join("projects"),
        };
        Some(ProjectSettings { root: root.folder(), cache, userinit })
    }

    /// Loads the systems of --system and prints the errors of those that fail; partly loaded
    /// systems stay loaded. Returns [`Exit::NotFound`] if the project defines no system, and
    /// [`Exit::Engine`] if a system failed or was skipped because Lisp had died while loading it.
    pub(super) fn load(&self, session: &Session, output: &Terminal) -> Result<Exit, CommandError> {
        let tools = crate::actions::tools();
        let mut exit = Exit::Answered;
        for order in self.loads() {
            if session.recovery().is_deadly(&order) {
                // Skip this load: Lisp has died during it twice in succession, which `status`
                // reports.
                exit = Exit::Engine;
                continue;
            }
            let tool = tools.get("load-system").map_err(Failure::engine)?;
            let mut arguments =
                Object::from_iter([("timeout_seconds".to_owned(), Value::from(SYSTEM_SECONDS))]);
            if let LoadedItem::System(system) = order {
                arguments.insert("system".to_owned(), Value::from(system));
            } else if session.awaits_project() || session.bank()?.project().root().is_none() {
                // Skip `auto` without a project, because there are no systems to find. A client may
                // name the project later.
                continue;
            }
            let answer = call::call_with_progress(tool, session, arguments)?;
            if answer.outcome != CallOutcome::Answered {
                output.error(&answer.text);
                exit = match answer.outcome {
                    CallOutcome::NotFoundAsError if exit == Exit::Answered => Exit::NotFound,
                    _ => Exit::Engine,
                };
            }
        }
        Ok(exit)
    }

    /// Starts a helper process that makes a snapshot of the systems of --system, if the snapshot is
    /// worth its cost. With `outlives`, the helper continues after this process ends.
    pub(super) fn make_snapshot_later(&self, session: &Session, outlives: bool) {
        if self.any()
            && let Ok(bank) = session.bank()
        {
            // Ignore a failure: it only makes the next start slower.
            let _ = bank.make_snapshot_if_it_pays(outlives);
        }
    }

    /// Returns the reason why this start uses no snapshot, if an earlier start from a snapshot
    /// failed.
    pub(super) fn failed_snapshot(&self) -> Option<String> {
        self.failed_snapshot.clone()
    }

    /// Returns whether snapshots are used and made.
    pub(super) fn snapshots(&self) -> bool {
        !self.no_snapshot
    }

    /// Returns the systems of --system.
    pub(super) fn systems(&self) -> &[String] {
        &self.systems
    }

    /// Returns the items to load for --system.
    pub(super) fn loads(&self) -> Vec<LoadedItem> {
        let load = |system: &String| match system.as_str() {
            AUTO => LoadedItem::Project,
            _ => LoadedItem::System(system.clone()),
        };
        self.systems.iter().map(load).collect()
    }

    /// Returns whether --system was given.
    pub(super) fn any(&self) -> bool {
        !self.systems.is_empty()
    }
}

/// Finds the nearest folder from `start` upwards with a system definition, or else with a
/// repository. Skips the root of the file system and the user's home.
fn nearest_project(start: &Path) -> Option<PathBuf> {
    let home = std::env::home_dir();
    let defines_system = |folder: &Path| {
        std::fs::read_dir(folder).is_ok_and(|entries| {
            entries.flatten().any(|entry| steelbank_tree::defines_systems(&entry.path()))
        })
    };
    let mut upwards = start
        .ancestors()
        .filter(|folder| folder.parent().is_some() && home.as_deref().is_none_or(|home| *folder != home));
    upwards
        .clone()
        .find(|folder| defines_system(folder))
        .or_else(|| upwards.find(|folder| folder.join(".git").exists()))
        .map(Path::to_path_buf)
}

/// Returns the error of a command that needs a project.
pub(super) fn no_project() -> Failure {
    let here = std::env::current_dir();
    let here = here.map_or_else(|_| "the current folder".to_owned(), |here| here.display().to_string());
    let why = format!(
        "There is no project: neither {here} nor a folder above it has an .asd file or a .git (/ and the home folder are \
         ignored)."
    );
    Failure::engine(why).advised(Some(Advice::SetProject))
}
