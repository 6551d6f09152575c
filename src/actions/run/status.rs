//! The tool `status`: the state of the server. It answers in every state, also when Lisp has died.

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

/// How the server is.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct StatusAnswer {
    /// The version of steelbank.
    version: &'static str,
    /// The version of SBCL.
    sbcl: &'static str,
    /// What Lisp is doing: starting, ready, busy or dead.
    lisp: LispState,
    /// Why Lisp has died.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Jobs that wait for Lisp.
    queued: usize,
    /// Jobs that Lisp has done.
    completed: u64,
    /// Lisp threads that were given up, because what ran on them could not be stopped.
    abandoned_threads: u64,
    /// How long SBCL took to start, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    start_microseconds: Option<u64>,
    /// Cross references in the index, from which the who-calls family is answered.
    records: usize,
    /// The project's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    project: Option<String>,
    /// Why the project's tree is not watched, so that each question looks at every file of it and is slower, and what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    unwatched: Option<String>,
    /// Why no snapshot can be made of the systems of --system as they are, so that each start loads some of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_snapshot: Option<String>,
    /// The process that keeps the image, and the clients that share it: of `serve --share`.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<SharedImage>,
    /// The way of a person's editor into the image: of `serve --swank`.
    #[serde(skip_serializing_if = "Option::is_none")]
    swank: Option<OpenSwank>,
    /// Why there is no such way, although one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_swank: Option<String>,
    /// Whether a system or file is being loaded now.
    loading: bool,
    /// How loading systems and files ended, those of --system included; each one's last time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    loads: Vec<Load>,
    /// When and why Lisp was started again, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    restarts: Vec<LispRestart>,
    /// Edits of files that were cut because their program ended, and what became of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unfinished_edits: Vec<UnfinishedEdit>,
    /// Advice on what to do about a dead Lisp.
    #[serde(skip)]
    advice: Advice,
    /// What is to be known of restarts.
    #[serde(skip)]
    recovery: Vec<String>,
    /// Trouble that was not a call's own, oldest first.
    reports: Vec<String>,
}

/// An image that several clients share.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct SharedImage {
    /// The number of the process that keeps it.
    process: u32,
    /// The number of the client that asks.
    you: u64,
    /// All clients.
    clients: Vec<ConnectedClient>,
}

/// A Swank or Slynk that serves editors.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct OpenSwank {
    /// Which, and where.
    #[serde(flatten)]
    server: SwankServer,
    /// How many editors are connected.
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
        description: "Tells whether Lisp is ready, busy or dead, how many calls wait, and what went wrong in the \
            background. Use it when another tool timed out or says that Lisp has died.",
        effect: Effect::Reads,
    };
    Tool::new::<Continued<NoArguments>, StatusAnswer>(about, answer).at_once()
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
    let unwatched = bank.project().unwatched().or_else(of_text);
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
        host: session.seat().map(|seat| SharedImage {
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
        reports: status.reports,
    })
}

fn text(answer: &StatusAnswer, wording: Wording) -> String {
    let mut text = match (answer.lisp, &answer.reason) {
        (LispState::Starting, _) => "Lisp is starting.".to_owned(),
        (LispState::Ready, _) => "Lisp is ready.".to_owned(),
        (LispState::Busy, _) if answer.loading => {
            format!("Lisp is loading a system; {} jobs wait.", answer.queued)
        }
        (LispState::Busy, _) => format!("Lisp is busy; {} jobs wait.", answer.queued),
        (LispState::Dead, reason) => format!(
            "Lisp has died: {}. The who-calls family still answers from the index; for the rest {}",
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
            "\n{} threads were given up, because what ran on them could not be stopped.",
            answer.abandoned_threads
        );
    }
    if let Some(project) = &answer.project {
        let _ = write!(text, "\nProject: {project}");
    }
    if let Some(host) = &answer.host {
        let _ = write!(
            text,
            "\nProcess {} keeps this image for {}:",
            host.process,
            counted(host.clients.len() as u64, "client", "clients")
        );
        for client in &host.clients {
            let you = if client.number == host.you { "; this is you" } else { "" };
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
    let snapshot = snapshot.map(|why| format!("There is no snapshot of all that is loaded first: {why}"));
    let notes = answer.no_swank.iter().chain(&answer.unwatched).cloned().chain(snapshot);
    let notes = notes.chain(answer.recovery.iter().cloned());
    let notes = notes.chain(answer.unfinished_edits.iter().map(ToString::to_string));
    let loads = answer.loads.iter().map(|load| &load.outcome);
    let notes = notes.chain(loads.chain(&answer.reports).cloned());
    notes.for_each(|note| text.extend(["\n- ", &note]));
    text
}
