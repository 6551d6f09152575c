//! `steelbank serve`: serves MCP on the standard streams and loads the systems of --system in the
//! background. `--host`, `--http` and `--share` continue in their own modules.
//!
//! The session starts SBCL at once, unless the client may still name the project and nothing needs
//! SBCL yet. If Lisp dies or becomes unusable, or a restart is requested, the process executes the
//! program again in place. The restarted program receives a [`Handover`] through a descriptor and
//! continues with the same client.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;

use super::config::{ProjectConfig, UserConfig, or_default};
use super::{CommandError, Exit, PROGRAM, Serve, Shell};
use crate::Steelbank;
use crate::answer::Wording;
use crate::doors::mcp::{RestartHooks, ServeError, serve_with_restarts};
use crate::doors::share::{ClientProtocol, ClientSettings};
use crate::doors::streams::take as take_streams;
use crate::engine::{
    ProcessStart, StartError, adopt_descriptor, end_children_at_signals, end_descendants, reap_children,
    reexecute,
};
use crate::handle::Error;
use crate::handle::LoadingGuard;
use crate::handle::recovery::{Handover, LoadedItem, Recovery};
use crate::tools::{Permissions, Session, Tools};
use crate::{Control, RecoverEditsRequest, StartedFrom};

/// The option with the descriptor of a handover; see [`Serve::restarted_from`].
const RESTARTED_FROM: &str = "--restarted-from=";
/// The option with the reason why a start uses no snapshot; see [`super::project::ProjectOptions`].
const FAILED_SNAPSHOT: &str = "--failed-snapshot=";

/// The source of this process's clients.
pub(super) enum Source {
    /// The streams of the only client.
    Client(OwnedFd, OwnedFd),
    /// The socket that clients connect to.
    Socket(UnixListener),
}

/// A session, the handover if this is a restart, and the hooks for the next restart. The session's
/// SBCL is starting, or starts later if the client may still name the project.
pub(super) struct StartedImage {
    pub(super) session: Session,
    pub(super) handover: Option<Handover>,
    pub(super) restarts: Option<RestartHooks>,
}

impl Serve {
    /// Serves until the client disconnects. Loads the systems of --system in the background.
    pub(super) fn run(&self, shell: &Arc<Shell>) -> Result<Exit, CommandError> {
        if let Some(name) = &self.host {
            return super::host::run(self, shell, name);
        }
        let settings = self.settings(shell)?;
        #[cfg(feature = "http")]
        if let Some(address) = &self.http {
            return super::http::run(self, shell, address, settings);
        }
        if std::io::stdin().is_terminal() {
            shell.output.error(
                "serving MCP: waiting for a client's messages on standard input. Usually an MCP host starts this command; see \
                 docs/hosts.md for its configuration. Press Ctrl-D to quit.",
            );
        }
        if self.share
            && self.restarted_from.is_none()
            && let Some(exit) = super::share::join(shell, settings.clone(), self.linger)?
        {
            return Ok(exit);
        }
        end_children_at_signals(|| ()).map_err(|error| Error::from(StartError::from(error)))?;
        let handover = self.handover()?;
        let of_client = handover.as_ref().and_then(|handover| handover.clients.first());
        let (input, output) = match of_client {
            None => take_streams()?,
            Some(client) => (adopt_descriptor(client.input)?, adopt_descriptor(client.output)?),
        };
        let source = Source::Client(input, output);
        let permissions = settings.permissions();
        let tools = selected_tools(&settings)?;
        let started = self.start_image(shell, handover, &source, permissions)?;
        let mut session = started.session.allowing(permissions).with_tools(tools);
        session.config_errors = settings.config_errors.into();
        let client = started.handover.as_ref().and_then(|handover| handover.clients.first());
        let Source::Client(input, output) = source else { return Ok(Exit::Answered) };
        let served = serve_with_restarts(input, output, session, client, started.restarts);
        end_descendants(std::process::id());
        served?;
        Ok(Exit::Answered)
    }

    /// Reads the client's settings from the options and the configuration files.
    fn settings(&self, shell: &Shell) -> Result<ClientSettings, CommandError> {
        let mut config_errors = shell.options.project.config_errors.clone();
        let user = or_default(UserConfig::load(), &mut config_errors);
        let permissions = user.permits(Permissions { eval: self.allow_eval, edits: self.allow_edits });
        let project = shell.options.project.root()?.folder();
        let project =
            project.map_or_else(|| Ok(ProjectConfig::default()), |folder| ProjectConfig::load(&folder));
        let project = or_default(project, &mut config_errors);
        let mut of_files = [project.tools, user.tools].into_iter().flatten();
        let is_valid = |choice: &String| {
            let why = crate::actions::tools().chosen(choice).err();
            let why = why.map(|why| format!("The configured tools {choice:?} are ignored: {why}"));
            config_errors.extend(why.clone());
            why.is_none()
        };
        let tools = self.tools.clone().or_else(|| of_files.find(is_valid));
        config_errors.iter().for_each(|error| shell.output.error(error));
        let Permissions { eval, edits } = permissions;
        if self.swank.is_some() && !eval {
            return Err(swank_not_allowed());
        }
        let protocol = ClientProtocol::Mcp;
        let settings = ClientSettings { eval, edits, tools, swank: self.swank, protocol, config_errors };
        selected_tools(&settings).map(|_| settings)
    }

    pub(super) fn handover(&self) -> Result<Option<Handover>, CommandError> {
        handed_over(self.restarted_from)
    }

    /// Creates the session, starts its SBCL, and runs the loads in the background. If a client may
    /// still name the project, SBCL starts only if something is to be loaded or Swank is requested.
    pub(super) fn start_image(
        &self,
        shell: &Arc<Shell>,
        handover: Option<Handover>,
        source: &Source,
        permissions: Permissions,
    ) -> Result<StartedImage, CommandError> {
        let first = self.first_loads(shell, handover.as_ref());
        let baked = first.clone();
        let session = shell.session_of(true, first)?;
        let recovery = session.recovery();
        let mut loads = Vec::new();
        if let Some(handover) = &handover {
            recovery.restore(handover);
            if let Some(folder) = &handover.project {
                session.name_project(folder.clone());
            }
            loads.clone_from(&handover.loads);
        }
        // After a restart, the port from before the restart is used again.
        if let (None, Some(port)) = (recovery.swank(), self.swank) {
            session.claim_swank(port)?;
        }
        let wants_swank = recovery.swank().is_some();
        let restarts = restart_hooks(
            shell,
            recovery,
            match source {
                Source::Client(..) => None,
                Source::Socket(listener) => Some(listener.as_raw_fd()),
            },
        );
        // Start SBCL later if the client may still name its project and nothing needs SBCL yet.
        if !session.awaits_project() || shell.options.project.any() || !loads.is_empty() || wants_swank {
            // Start SBCL now to report a broken installation at once.
            let bank = session.bank()?;
            if !matches!(bank.started_from(), StartedFrom::Core { .. })
                && bank.lisp().wait_until_ready().is_err()
                && let Some(without) = without_failed_snapshot(bank)
            {
                // Nothing has been read from the client yet, so the program can start again without
                // the snapshot.
                let error = match &handover {
                    Some(handover) => execute(&process_start(), handover),
                    None => {
                        source.put_back().map_err(std::io::Error::from)?;
                        let mut origin = process_start();
                        origin.arguments.insert(1.min(origin.arguments.len()), without);
                        reexecute(Path::new(PROGRAM), &origin, &[])
                    }
                };
                return Err(error.into());
            }
            if permissions.edits {
                // Roll back an interrupted edit before its files are loaded. Ignore a failure,
                // which `status` reports.
                let _ = bank.run(&RecoverEditsRequest::new(), &Control::default());
            }
            let complete =
                bank.started_from() == StartedFrom::Snapshot && loads.iter().all(|load| baked.contains(load));
            let expects = shell.options.project.any() || !loads.is_empty();
            // Announce the loads before the first call, so that no name is reported missing before
            // they end.
            let moving = (expects && !complete).then(|| bank.announce_loads(handover.is_some()));
            let (shell, session) = (Arc::clone(shell), session.clone());
            std::thread::Builder::new()
                .name("mcp-prepare".into())
                .spawn(move || prepare(&shell, &session, &loads, moving))
                .map_err(ServeError::from)?;
        }
        Ok(StartedImage { session, handover, restarts })
    }

    /// Returns the loads that a snapshot for this start must contain: those of --system, or else,
    /// after a restart, the earlier loads up to the first single file.
    fn first_loads(&self, shell: &Shell, handover: Option<&Handover>) -> Vec<LoadedItem> {
        if shell.options.project.any() {
            return shell.options.project.loads();
        }
        let loads = handover.map(|handover| handover.loads.as_slice()).unwrap_or_default();
        loads.iter().take_while(|load| !matches!(load, LoadedItem::File(_))).cloned().collect()
    }
}

/// Reads the handover at the descriptor `number`, which the program passed on when it restarted
/// itself.
pub(super) fn handed_over(number: Option<RawFd>) -> Result<Option<Handover>, CommandError> {
    let Some(number) = number else { return Ok(None) };
    reap_children();
    Ok(Some(adopt_descriptor(number).and_then(Handover::read)?))
}

/// Returns the hooks that execute the program again after Lisp has died or become unusable, or when
/// a restart is requested. Only the first call returns them.
pub(super) fn restart_hooks(
    shell: &Arc<Shell>,
    recovery: &Recovery,
    listener: Option<RawFd>,
) -> Option<RestartHooks> {
    let causes = recovery.arm()?;
    let (origin, shell) = (process_start(), Arc::clone(shell));
    let execute = Box::new(move |handover: Handover| {
        let error = execute(&origin, &handover);
        shell.output.error(&format!("Restarting the program failed: {error}."));
        error
    });
    Some(RestartHooks { causes, listener, execute })
}

impl Source {
    /// Moves the streams back to descriptors 0 and 1, where the program expects them at its start.
    fn put_back(&self) -> rustix::io::Result<()> {
        match self {
            Self::Client(input, output) => {
                rustix::stdio::dup2_stdin(input)?;
                rustix::stdio::dup2_stdout(output)
            }
            Self::Socket(listener) => rustix::stdio::dup2_stdin(listener),
        }
    }
}

/// Selects the tools that a client is offered.
pub(super) fn selected_tools(settings: &ClientSettings) -> Result<Tools, CommandError> {
    let tools = crate::actions::tools();
    let daily = || Ok(tools.daily(settings.permissions()));
    let chosen = settings.tools.as_ref().map_or_else(daily, |choice| tools.chosen(choice));
    chosen.map_err(|message| CommandError { exit: Exit::Usage, message })
}

/// Opens Swank and the text index, and runs the loads. Answers report a running load until `moving`
/// is dropped.
fn prepare(shell: &Shell, session: &Session, loads: &[LoadedItem], moving: Option<LoadingGuard>) {
    moving.iter().for_each(LoadingGuard::run_here);
    // Open Swank first, because a project may load for minutes.
    if let Some(sentence) = opened_swank(session) {
        shell.output.error(&sentence);
    }
    // Ignore the error: calls that need the text index report it.
    let _ = session.text();
    let loaded = shell.options.project.load(session, &shell.output);
    let named = shell.options.project.loads();
    let others = loads.iter().filter(|load| !named.contains(load));
    session.repeat_loads(crate::actions::tools(), &others.cloned().collect::<Vec<_>>());
    drop(moving);
    match loaded {
        // Make a snapshot even if some loads failed, because the successful loads may be worth a
        // snapshot.
        Ok(_) => shell.options.project.make_snapshot_later(session, false),
        Err(trouble) => shell.output.error(&trouble.message),
    }
    if named.is_empty()
        && let Some(bank) = session.started()
    {
        // Start to make a snapshot, so that a later restart is faster.
        let _ = bank.make_snapshot_later(false);
    }
}

/// Opens the requested Swank server and returns a sentence about it. `None` if Swank was not
/// requested.
pub(super) fn opened_swank(session: &Session) -> Option<String> {
    Some(match session.open_swank()? {
        Ok(server) => format!("{server}"),
        Err(failure) => failure.worded(Wording::CommandLine),
    })
}

/// Returns the error for `--swank` without permission to evaluate code.
pub(super) fn swank_not_allowed() -> CommandError {
    let message = "--swank allows clients to evaluate code, so it needs --allow-eval.".to_owned();
    CommandError { exit: Exit::Usage, message }
}

/// Records the process's arguments, environment and folder before Lisp code can change the latter
/// two. Omits the options that a restart adds.
pub(super) fn process_start() -> ProcessStart {
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
    let kept: Vec<RawFd> = handover.descriptors().into_iter().chain([file.as_raw_fd()]).collect();
    reexecute(Path::new(PROGRAM), &origin, &kept)
}

/// Removes the snapshot if `bank` could not start from it, and returns the option for a start
/// without a snapshot.
pub(super) fn without_failed_snapshot(bank: &Steelbank) -> Option<OsString> {
    bank.discard_failed_snapshot()?;
    Some(OsString::from(format!("{FAILED_SNAPSHOT}a start from it failed")))
}
