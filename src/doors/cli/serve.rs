//! `steelbank serve`: MCP on the standard streams, and the program executed again in place when Lisp has died.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

use super::{CommandError, Exit, PROGRAM, Serve, Shell};
use crate::Steelbank;
use crate::doors::mcp::{RestartHooks, ServeError, serve_with_restarts, take_streams};
use crate::engine::{
    ProcessStart, StartError, adopt_descriptor, end_children, end_children_at_signals, execute_again,
    reap_children,
};
use crate::query::Error;
use crate::recovery::{Handover, LoadedItem};
use crate::steelbank::Moving;
use crate::tools::{Permissions, Session, Tools};

/// The option that names the descriptor of a handover; see [`Serve::restarted_from`].
const RESTARTED_FROM: &str = "--restarted-from=";
/// The option with the reason for which a start uses no snapshot; see [`super::project::ProjectOptions`].
const FAILED_SNAPSHOT: &str = "--failed-snapshot=";

impl Serve {
    /// Serves until the client leaves. Loads the systems of --system meanwhile.
    pub(super) fn run(&self, shell: &Arc<Shell>) -> Result<Exit, CommandError> {
        let tools =
            Tools::chosen(&self.tools).map_err(|message| CommandError { exit: Exit::Usage, message })?;
        if std::io::stdin().is_terminal() {
            shell.output.error(
                "serving MCP: waiting for a client's messages on standard input. An MCP host starts this command itself; \
                 see docs/hosts.md for how to tell it. Ctrl-D ends it.",
            );
        }
        end_children_at_signals().map_err(|error| Error::from(StartError::from(error)))?;
        let handover = match self.restarted_from {
            None => None,
            Some(number) => {
                reap_children();
                Some(adopt_descriptor(number).and_then(Handover::read)?)
            }
        };
        let (input, output) = match &handover {
            None => take_streams()?,
            Some(handover) => {
                (adopt_descriptor(handover.client.input)?, adopt_descriptor(handover.client.output)?)
            }
        };
        let systems = self.systems_of(shell, handover.as_ref());
        let previous = handover.clone();
        let baked = systems.clone();
        let permissions = Permissions { eval: self.allow_eval, edits: self.allow_edits };
        let session = shell.session_of(true, systems)?.allowing(permissions).with_tools(tools);
        let recovery = session.recovery();
        let mut loads = Vec::new();
        if let Some(handover) = &handover {
            recovery.restore(handover);
            if let Some(folder) = &handover.project {
                session.name_project(folder.clone());
            }
            loads.clone_from(&handover.loads);
        }
        let restarts = recovery.arm().map(|causes| {
            let (origin, shell) = (origin(), Arc::clone(shell));
            let execute = Box::new(move |handover: Handover| {
                let error = execute(&origin, &handover);
                shell.output.error(&format!("The program could not be executed again: {error}."));
                error
            });
            RestartHooks { causes, handover, execute }
        });
        // Wait for a client that may name its project, unless there is something to load already.
        if !session.awaits_project() || shell.options.project.any() || !loads.is_empty() {
            // Start SBCL now, so that a broken installation is reported at once.
            let bank = session.bank()?;
            if bank.is_from_snapshot()
                && bank.lisp().wait_until_ready().is_err()
                && let Some(without) = without_failed_snapshot(bank)
            {
                // Nothing was read from the client yet.
                let error = match &previous {
                    Some(handover) => execute(&origin(), handover),
                    None => {
                        rustix::stdio::dup2_stdin(&input).map_err(std::io::Error::from)?;
                        rustix::stdio::dup2_stdout(&output).map_err(std::io::Error::from)?;
                        let mut origin = origin();
                        origin.arguments.insert(1.min(origin.arguments.len()), without);
                        execute_again(Path::new(PROGRAM), &origin, &[])
                    }
                };
                return Err(error.into());
            }
            if self.allow_edits {
                // Take back what was cut before its files are loaded. Status tells of it, also if this fails.
                let _ = bank.take_back_cut_edits();
            }
            let complete =
                bank.is_from_fresh_snapshot() && loads.iter().all(|load| is_system_of(load, &baked));
            let expects = shell.options.project.any() || !loads.is_empty();
            // Announce the loads before the first question, so that no name is reported missing before they
            // end.
            let moving = (expects && !complete).then(|| bank.announce_loads());
            let (shell, session) = (Arc::clone(shell), session.clone());
            std::thread::Builder::new()
                .name("mcp-prepare".into())
                .spawn(move || prepare(&shell, &session, &loads, moving))
                .map_err(ServeError::from)?;
        }
        let served = serve_with_restarts(input, output, session, restarts);
        end_children();
        served?;
        Ok(Exit::Answered)
    }
}

impl Serve {
    /// Returns the systems of the snapshot to start from: those of --system, or else the ones that the image
    /// before this one had loaded first.
    fn systems_of(&self, shell: &Shell, handover: Option<&Handover>) -> Vec<String> {
        if shell.options.project.any() {
            return shell.options.project.snapshot_systems();
        }
        let loads = handover.map(|handover| handover.loads.as_slice()).unwrap_or_default();
        let systems = loads.iter().map_while(|load| match load {
            LoadedItem::System(name) => Some(name.clone()),
            LoadedItem::Project | LoadedItem::File(_) => None,
        });
        systems.collect()
    }
}

/// Whether `load` is the load of one of `systems`.
fn is_system_of(load: &LoadedItem, systems: &[String]) -> bool {
    matches!(load, LoadedItem::System(name) if systems.contains(name))
}

/// Opens the index of the text, and runs the loads. Answers say that a load is under way until `moving` is
/// dropped.
fn prepare(shell: &Shell, session: &Session, loads: &[LoadedItem], moving: Option<Moving>) {
    // Ignore the error: questions about text report it.
    let _ = session.text();
    match shell.options.project.load(session, &shell.output) {
        Ok(true) => shell.options.project.make_snapshot_later(session, false),
        Ok(false) => {}
        Err(trouble) => shell.output.error(&trouble.message),
    }
    let named = shell.options.project.systems();
    let others = loads.iter().filter(|load| !is_system_of(load, named));
    session.load_again(&others.cloned().collect::<Vec<_>>());
    drop(moving);
    if named.is_empty()
        && let Some(bank) = session.started()
    {
        // Make a snapshot now: if Lisp dies again, the restart is faster with one.
        let _ = bank.make_snapshot_later(false);
    }
}

/// Records the arguments, environment and folder of the process's start, before Lisp code can change the
/// latter two. Leaves out what was for this image of the program alone.
pub(super) fn origin() -> ProcessStart {
    let is_given = |argument: &OsString| {
        [RESTARTED_FROM, FAILED_SNAPSHOT]
            .iter()
            .all(|option| !argument.as_encoded_bytes().starts_with(option.as_bytes()))
    };
    ProcessStart {
        arguments: std::env::args_os().filter(is_given).collect(),
        environment: std::env::vars_os().collect(),
        folder: std::env::current_dir().unwrap_or_default(),
    }
}

fn execute(origin: &ProcessStart, handover: &Handover) -> io::Error {
    let file = match handover.write() {
        Ok(file) => file,
        Err(error) => return error,
    };
    let mut origin = origin.clone();
    origin.arguments.extend(Steelbank::get().and_then(|bank| without_failed_snapshot(&bank)));
    origin.arguments.push(OsString::from(format!("{RESTARTED_FROM}{}", file.as_raw_fd())));
    execute_again(
        Path::new(PROGRAM),
        &origin,
        &[file.as_raw_fd(), handover.client.input, handover.client.output],
    )
}

/// Removes the snapshot that `bank` did not start from, if so, and returns the option for a start without.
pub(super) fn without_failed_snapshot(bank: &Steelbank) -> Option<OsString> {
    bank.discard_failed_snapshot()?;
    Some(OsString::from(format!("{FAILED_SNAPSHOT}a start from it failed")))
}
