//! The call of a tool: [`Call`] holds its cancellation token, progress listener, patience and size
//! budget; [`ToolAnswer`] is its answer and [`Failure`] its error.

use crate::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::budget::BUDGET;
use super::phrases::sentence;
use super::remedy::with_remedy;
use super::session::Permission;
use super::structured::Structured;
use crate::answer::lookup::DEFAULT_PACKAGE;
use crate::answer::{Advice, Wording};
use crate::engine::control::{Cancellation, Control};
use crate::engine::{OnProgress, Progress, Writing};
use crate::handle::Error;
use crate::handle::scratch::ScratchError;
use crate::workspace::NoProject;

/// A call of a tool: its cancellation token, size budget, wording, patience and progress listener,
/// and options of its answer. Clones share the token and a write in progress.
#[derive(Clone)]
pub struct Call {
    cancellation: Cancellation,
    budget: usize,
    wording: Wording,
    has_handles: bool,
    listener: OnProgress,
    patience: Option<Duration>,
    writing: Arc<Mutex<Option<Writing>>>,
    has_one_time_notes: bool,
}

debug_fields!(Call, cancellation, budget);

impl Default for Call {
    fn default() -> Self {
        Self::new(|_| ())
    }
}

impl Call {
    /// Creates a call that reports its progress to `listener`, which must not block.
    pub fn new(listener: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self {
            cancellation: Cancellation::default(),
            budget: BUDGET,
            wording: Wording::default(),
            has_handles: true,
            listener: Arc::new(listener),
            patience: None,
            writing: Arc::default(),
            has_one_time_notes: true,
        }
    }

    /// Removes the limit on the answer's length.
    #[must_use]
    pub fn without_limit(self) -> Self {
        Self { budget: usize::MAX, ..self }
    }

    /// Sets the maximum length of the answer: of its text in characters, and of its JSON in bytes.
    #[must_use]
    pub fn with_budget(self, characters: usize) -> Self {
        Self { budget: characters, ..self }
    }

    /// Sets whether the answer includes notes that are shown only once. Pass false if the client
    /// does not show the notes.
    #[must_use]
    pub fn with_one_time_notes(self, tells: bool) -> Self {
        Self { has_one_time_notes: tells, ..self }
    }

    /// Returns whether the answer includes notes that are shown only once, such as the note on a
    /// restart.
    pub fn has_one_time_notes(&self) -> bool {
        self.has_one_time_notes
    }

    /// Returns the maximum length of the answer: of its text in characters, and of its JSON in
    /// bytes.
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// Sets whether advice names tools or commands.
    #[must_use]
    pub fn with_wording(self, wording: Wording) -> Self {
        Self { wording, ..self }
    }

    /// Returns whether advice names tools or commands.
    pub fn wording(&self) -> Wording {
        self.wording
    }

    /// Declares that no later call can use the answer's handles, which name objects to inspect.
    #[must_use]
    pub(crate) fn without_handles(self) -> Self {
        Self { has_handles: false, ..self }
    }

    /// Returns whether the answer's text shows handles. False for a command line, because handles
    /// end with its process, and after [`Call::without_handles`].
    pub(crate) fn names_handles(&self) -> bool {
        self.has_handles && self.wording == Wording::Tools
    }

    /// Sets how long the caller waits for an answer. By default, the caller waits until the call
    /// ends.
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Self {
        Self { patience: Some(patience), ..self }
    }

    /// Returns how long the caller waits for an answer; `None` for no limit.
    pub fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// Replaces the cancellation token.
    #[must_use]
    pub(crate) fn cancelled_by(self, cancellation: Cancellation) -> Self {
        Self { cancellation, ..self }
    }

    /// Returns the token that cancels this call.
    pub fn cancellation(&self) -> Cancellation {
        self.cancellation.clone()
    }

    /// Creates the control for the call's action: the action may take `allowed`, is cancelled with
    /// the call, and reports to the call's listener.
    pub fn control(&self, allowed: Duration) -> Control {
        Control::new(allowed).with_cancellation(self.cancellation()).reporting_to(Arc::clone(&self.listener))
    }

    /// Starts a write that must complete: from now on neither a restart nor a disconnect ends the
    /// call before its answer is sent.
    ///
    /// # Errors
    /// The call was cancelled, or the program is restarting or about to end.
    pub fn begin_writing(&self) -> Result<(), Failure> {
        let refused = |why: &str| Failure::engine(format!("{why} Nothing was changed."));
        let writing = Writing::begin()
            .ok_or_else(|| Failure { passing: true, ..refused("Lisp is restarting: retry in a moment.") })?;
        if self.cancellation.is_cancelled() {
            return Err(refused("The call was cancelled."));
        }
        *self.writing.lock() = Some(writing);
        Ok(())
    }

    /// Takes over the write that `other` has started, until this call's answer is sent.
    pub(crate) fn take_writing_of(&self, other: &Self) {
        if let Some(writing) = other.writing.lock().take() {
            *self.writing.lock() = Some(writing);
        }
    }

    /// Reports progress to the listener.
    pub fn report(&self, progress: Progress) {
        (self.listener)(progress);
    }
}

/// The outcome of a call that has an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallOutcome {
    /// The request was answered.
    Answered,
    /// The subject of the question does not exist, which is also an answer. The command line exits
    /// with 1.
    NotFound,
    /// Like `NotFound`, for tools with a contract that requires an error: MCP sets `isError`.
    NotFoundAsError,
    /// The action failed, and the answer explains why. MCP sets `isError`, the command line exits
    /// with 3.
    Failed,
}

/// The answer of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolAnswer {
    /// The text for models and people. If the tool has a contract, this is the contract's text.
    pub text: String,
    /// The text for a terminal, if it differs from `text`.
    pub shown: Option<String>,
    /// The answer for programs: an object that matches the output schema.
    pub structured: Structured,
    /// The outcome.
    pub outcome: CallOutcome,
    /// Additional notes, one sentence each.
    pub notes: Vec<String>,
    /// The package where an unqualified name was found, if that is not the default package.
    pub looked_up_in: Option<String>,
}

impl ToolAnswer {
    /// Creates an answer from `structured` and its `text`.
    ///
    /// # Errors
    /// `structured` cannot be serialized to JSON, which is a bug.
    pub fn new<T: Serialize>(text: String, structured: &T, outcome: CallOutcome) -> Result<Self, Failure> {
        let structured = Structured::new(structured).map_err(|error| Failure::engine(error.to_string()))?;
        Ok(Self { text, shown: None, structured, outcome, notes: Vec::new(), looked_up_in: None })
    }

    /// Adds a note that the name was found in `package` because the call gave no package. No effect
    /// for `None`.
    #[must_use]
    pub(crate) fn looked_up_in(mut self, package: Option<String>) -> Self {
        self.notes.extend(package.as_ref().map(|package| {
            format!("Found in package {package}: the call gave no package, and no symbol with this name is accessible in {DEFAULT_PACKAGE}.")
        }));
        self.looked_up_in = package;
        self
    }

    /// Creates an answer with the JSON of `structured` as its text; `shown` is the text for
    /// terminals.
    ///
    /// # Errors
    /// See [`ToolAnswer::new`].
    pub fn json<T: Serialize>(structured: &T, shown: String, outcome: CallOutcome) -> Result<Self, Failure> {
        let mut answer = Self::new(String::new(), structured, outcome)?;
        answer.text = answer.structured.json().to_owned();
        answer.shown = Some(shown);
        Ok(answer)
    }
}

/// The cause of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The arguments are wrong.
    Arguments,
    /// The engine cannot answer.
    Engine,
}

/// The error of a call: the reason, and advice on how to continue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The cause.
    pub blame: Blame,
    /// The reason, as a sentence.
    pub why: String,
    /// Advice on how to continue.
    pub advice: Option<Advice>,
    /// Whether the failure is temporary because Lisp has died, is restarting or is loading. The
    /// same call may succeed later.
    pub passing: bool,
}

impl Failure {
    /// Creates the failure of a call with wrong arguments.
    pub fn arguments(why: impl Into<String>) -> Self {
        Self { blame: Blame::Arguments, why: why.into(), advice: None, passing: false }
    }

    /// Creates the failure of an engine that cannot answer.
    pub fn engine(why: impl Into<String>) -> Self {
        Self { blame: Blame::Engine, why: why.into(), advice: None, passing: false }
    }

    /// Adds advice.
    #[must_use]
    pub fn advised(self, advice: Option<Advice>) -> Self {
        Self { advice, ..self }
    }

    /// Formats the reason and the advice.
    pub fn worded(&self, wording: Wording) -> String {
        match &self.advice {
            Some(advice) => advice.added_to(&sentence(&self.why), wording),
            None => self.why.clone(),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.worded(Wording::Tools))
    }
}

impl std::error::Error for Failure {}

impl From<String> for Failure {
    fn from(why: String) -> Self {
        Self::engine(why)
    }
}

impl From<NoProject> for Failure {
    fn from(error: NoProject) -> Self {
        Error::from(error).into()
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        if let Error::Scratch(error) = &error {
            return scratch_failure(error);
        }
        let why = with_remedy(&error);
        let kind = error.kind();
        let failure = if kind == ErrorKind::Request { Self::arguments(why) } else { Self::engine(why) };
        let passing = kind == ErrorKind::Dead || matches!(error, Error::NeverBegan);
        Self { passing, ..failure.advised(error.advice()) }
    }
}

/// Converts the error of a scratch image.
fn scratch_failure(error: &ScratchError) -> Failure {
    match error {
        ScratchError::Overlay { .. } => Failure::arguments(format!("{error}.")),
        ScratchError::Call(message) => Failure::engine(message.clone()),
        ScratchError::Unconfined(_) => {
            let [eval, edits] = [Permission::Eval, Permission::Edits].map(Permission::option);
            Failure::engine(format!(
                "{}. To allow it to run unconfined, the user can start the server with `steelbank serve {eval}` or \
                 `{edits}`.",
                sentence(&error.to_string()).trim_end_matches('.')
            ))
        }
        other => Failure::engine(sentence(&other.to_string())),
    }
}
