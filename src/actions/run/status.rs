//! Implements the tool `status`, which reports the state of the server. It answers in every state,
//! even when Lisp is dead, because it never waits for a Lisp thread.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;

use crate::actions::change::rename::UnfinishedEdit;
use crate::answer::{Advice, Wording, counted};
use crate::engine::EngineState;
use crate::handle::recovery::LispRestart;
use crate::handle::swank::SwankServer;
use crate::tools::arguments::NoArguments;
use crate::tools::page::{Continued, Part, Sequence};
use crate::tools::session::Load;
use crate::tools::{About, Call, CallOutcome, ConnectedClient, Effect, Failure, Session, Tool, ToolAnswer};
use steelbank_text::TextIndex;

/// The state of the server.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct StatusAnswer {
    /// The version of steelbank.
    version: &'static str,
    /// The version of SBCL.
    sbcl: &'static str,
    /// State of the Lisp process: starting, ready, busy or dead.
    lisp: LispState,
    /// Why Lisp died, if it is dead.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Number of jobs waiting for Lisp.
    queued: usize,
    /// Number of jobs that Lisp has completed.
    completed: u64,
    /// Number of Lisp threads that were abandoned because their code could not be interrupted.
    abandoned_threads: u64,
    /// How long SBCL took to start, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_microseconds: Option<u64>,
    /// Number of cross references in the index, which who-calls and similar tools use.
    records: usize,
    /// The project's root folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    /// Why the project's files are not watched for changes, and how to fix that. Without a watcher,
    /// every call checks all files and is slower.
    #[serde(skip_serializing_if = "Option::is_none")]
    unwatched: Option<String>,
    /// Why no snapshot of the systems given by --system can be written. Without a snapshot, each
    /// start reloads some of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_snapshot: Option<String>,
    /// The process that owns the shared image, and its clients; only under `serve --share`.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<SharedImage>,
    /// The Swank or Slynk server for editors; only under `serve --swank`.
    #[serde(skip_serializing_if = "Option::is_none")]
    swank: Option<OpenSwank>,
    /// Why the Swank or Slynk server that was requested is not running.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_swank: Option<String>,
    /// Whether a system or file is being loaded.
    loading: bool,
    /// The last load of each system and file, including those of --system, and how it ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    loads: Vec<Load>,
    /// When and why Lisp was restarted, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    restarts: Vec<LispRestart>,
    /// Multi-file edits that were interrupted because their process ended, and whether they were
    /// completed or undone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unfinished_edits: Vec<UnfinishedEdit>,
    /// Advice on how to recover from a dead Lisp.
    #[serde(skip)]
    advice: Advice,
    /// Notes on restarts, as full sentences.
    #[serde(skip)]
    recovery: Vec<String>,
    /// Errors in configuration files, then errors in background work, oldest first.
    reports: Vec<String>,
}

/// An image that several clients share.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct SharedImage {
    /// Process id of the owner.
    process: u32,
    /// Number of the calling client.
    you: u64,
    /// All connected clients.
    clients: Vec<ConnectedClient>,
}

/// A Swank or Slynk server in the image.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct OpenSwank {
    /// The server's name and port.
    #[serde(flatten)]
    server: SwankServer,
    /// Number of connected editors.
    connections: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum LispState {
    Starting,
    Ready,
    Busy,
    Dead,
}

impl Sequence for StatusAnswer {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.restarts);
        part.keep(&mut self.unfinished_edits);
        part.keep(&mut self.loads);
        part.keep(&mut self.reports);
    }
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "status",
        title: "State of the server",
        description: "Reports whether Lisp is ready, busy or dead, how many calls wait, and errors of background \
            work. Use it when another tool timed out or reported that Lisp has died.",
        effect: Effect::Reads,
    };
    Tool::new::<Continued<NoArguments>, StatusAnswer>(about, answer).immediate()
}

fn answer(session: &Session, given: Continued<NoArguments>, call: &Call) -> Result<ToolAnswer, Failure> {
    given.page(status(session)?, call.budget(), |answer| {
        ToolAnswer::new(text(answer, call.wording()), answer, CallOutcome::Answered)
    })
}

fn status(session: &Session) -> Result<StatusAnswer, Failure> {
    let bank = session.bank()?;
    let status = bank.status();
    let of_text = || session.opened_text().and_then(TextIndex::unwatched);
    let unwatched = bank.project().watch_refusal().or_else(of_text);
    let (lisp, reason) = match status.state {
        EngineState::Cold | EngineState::Starting => (LispState::Starting, None),
        EngineState::Ready => (LispState::Ready, None),
        EngineState::Busy => (LispState::Busy, None),
        EngineState::Dead { reason } => (LispState::Dead, Some(reason)),
    };
    Ok(StatusAnswer {
        version: env!("CARGO_PKG_VERSION"),
        sbcl: bank.lisp().sbcl_version(),
        lisp,
        reason,
        queued: status.queued,
        completed: status.completed,
        abandoned_threads: status.abandoned_threads,
        start_microseconds: status.start_microseconds,
        records: bank.index().record_count(),
        project: bank.project().root().map(|root| root.display().to_string()),
        unwatched: unwatched.map(crate::handle::unwatched),
        no_snapshot: bank.refused_snapshot().map(str::to_owned),
        host: session.client_slot().map(|seat| SharedImage {
            process: std::process::id(),
            you: seat.number(),
            clients: seat.all(),
        }),
        swank: session.swank().map(|server| OpenSwank { connections: server.connections(), server }),
        no_swank: session.swank_trouble(),
        loading: bank.is_loading(),
        loads: session.loads(),
        restarts: session.recovery().restarts(),
        unfinished_edits: bank.project().unfinished_edits(),
        advice: session.recovery().advice(),
        recovery: session.recovery().sentences(),
        reports: [&session.config_errors[..], &status.reports].concat(),
    })
}

fn text(answer: &StatusAnswer, wording: Wording) -> String {
    let mut text = match (answer.lisp, &answer.reason) {
        (LispState::Starting, _) => "Lisp is starting.".to_owned(),
        (LispState::Ready, _) => "Lisp is ready.".to_owned(),
        (LispState::Busy, _) if answer.loading => {
            format!("Lisp is loading a system or file; waiting jobs: {}.", answer.queued)
        }
        (LispState::Busy, _) => format!("Lisp is busy; waiting jobs: {}.", answer.queued),
        (LispState::Dead, reason) => format!(
            "Lisp has died: {}. who-calls and similar tools still answer from the index; for other tools {}",
            reason.as_deref().unwrap_or("for no known reason").trim_end_matches('.'),
            answer.advice.worded(wording)
        ),
    };
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "\nsteelbank {} with SBCL {}, {} jobs done, {} cross references in the index.",
        answer.version, answer.sbcl, answer.completed, answer.records
    );
    if let Some(microseconds) = answer.start_microseconds {
        let _ = write!(text, "\nSBCL started in {:.1} ms.", microseconds as f64 / 1000.0);
    }
    if answer.abandoned_threads > 0 {
        let _ = write!(
            text,
            "\n{} Lisp threads were abandoned because their code could not be interrupted.",
            answer.abandoned_threads
        );
    }
    if let Some(project) = &answer.project {
        let _ = write!(text, "\nProject: {project}");
    }
    if let Some(host) = &answer.host {
        let _ = write!(
            text,
            "\nProcess {} owns this image, shared by {}:",
            host.process,
            counted(host.clients.len() as u64, "client", "clients")
        );
        for client in &host.clients {
            let you = if client.number == host.you { " (this client)" } else { "" };
            let allowed = client.allowed.iter().map(|option| format!(", {option}")).collect::<String>();
            let _ = write!(text, "\n- {client}{allowed}{you}");
        }
    }
    if let Some(OpenSwank { server, connections }) = &answer.swank {
        let _ = write!(
            text,
            "\n{server}; {} connected.",
            counted(*connections as u64, "editor is", "editors are")
        );
    }
    let snapshot = answer.no_snapshot.iter();
    let snapshot = snapshot.map(|why| format!("No snapshot of the systems loaded at start: {why}"));
    let notes = answer.no_swank.iter().chain(&answer.unwatched).cloned().chain(snapshot);
    let notes = notes.chain(answer.recovery.iter().cloned());
    let notes = notes.chain(answer.unfinished_edits.iter().map(ToString::to_string));
    let loads = answer.loads.iter().map(|load| &load.outcome);
    let notes = notes.chain(loads.chain(&answer.reports).cloned());
    notes.for_each(|note| text.extend(["\n- ", &note]));
    text
}
