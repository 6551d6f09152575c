//! A call of a tool: its cancellation, progress, answer and errors.

use crate::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;

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

/// A call of a tool: its cancellation token, its budget and the listener for its progress.
#[derive(Clone)]
pub struct Call {
    cancellation: Cancellation,
    budget: usize,
    wording: Wording,
    keeps_handles: bool,
    listener: OnProgress,
    patience: Option<Duration>,
    writing: Arc<Mutex<Option<Writing>>>,
    tells_news: bool,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call")
            .field("cancellation", &self.cancellation)
            .field("budget", &self.budget)
            .finish_non_exhaustive()
    }
}

impl Default for Call {
    fn default() -> Self {
        Self::new(|_| ())
    }
}

impl Call {
    /// Makes a call that reports its progress to `listener`, which must not block.
    pub fn new(listener: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self {
            cancellation: Cancellation::default(),
            budget: BUDGET,
            wording: Wording::default(),
            keeps_handles: true,
            listener: Arc::new(listener),
            patience: None,
            writing: Arc::default(),
            tells_news: true,
        }
    }

    /// Asks for the whole answer, however long it is.
    #[must_use]
    pub fn whole(mut self) -> Self {
        self.budget = usize::MAX;
        self
    }

    /// Asks for an answer of at most `characters`, as text and as JSON.
    #[must_use]
    pub fn within(mut self, characters: usize) -> Self {
        self.budget = characters;
        self
    }

    /// Says whether the answer has what is told once, as nobody may read the notes of this one.
    #[must_use]
    pub fn telling_news(mut self, tells: bool) -> Self {
        self.tells_news = tells;
        self
    }

    /// Whether the answer has what is told once.
    pub fn tells_news(&self) -> bool {
        self.tells_news
    }

    /// Returns the most characters of the answer, as text and as JSON.
    pub fn budget(&self) -> usize {
        self.budget
    }

    /// Asks for advice in these terms.
    #[must_use]
    pub fn in_terms_of(mut self, wording: Wording) -> Self {
        self.wording = wording;
        self
    }

    /// Returns the terms in which advice is worded.
    pub fn wording(&self) -> Wording {
        self.wording
    }

    /// Says that no later call can ask about the handles in the answer.
    #[must_use]
    pub(crate) fn without_handles(mut self) -> Self {
        self.keeps_handles = false;
        self
    }

    /// Whether the text of the answer names handles. A command's end with it.
    pub(crate) fn names_handles(&self) -> bool {
        self.keeps_handles && self.wording == Wording::Tools
    }

    /// Says how long the caller waits for an answer: who does not say waits for the end.
    #[must_use]
    pub fn patient_for(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }

    /// Returns how long the caller waits for an answer; none if it is for as long as it takes.
    pub fn patience(&self) -> Option<Duration> {
        self.patience
    }

    /// Has `cancellation` call this off.
    #[must_use]
    pub(crate) fn cancelled_by(mut self, cancellation: Cancellation) -> Self {
        self.cancellation = cancellation;
        self
    }

    /// Returns the token that cancels this call.
    pub fn cancellation(&self) -> Cancellation {
        self.cancellation.clone()
    }

    /// Makes the control of this call's action: it may take `allowed`, is cancelled with the call, and reports to
    /// its listener.
    pub fn control(&self, allowed: Duration) -> Control {
        Control::new(allowed).with_cancellation(self.cancellation()).reporting_to(Arc::clone(&self.listener))
    }

    /// Has neither a restart nor the client's leaving cut the call from now on, its answer included.
    ///
    /// # Errors
    /// The call was called off, or the program is being started again.
    pub fn begin_writing(&self) -> Result<(), Failure> {
        let refused = |why: &str| Failure::engine(format!("{why} Nothing was changed."));
        let writing = Writing::begin()
            .ok_or_else(|| Failure { passing: true, ..refused("Lisp is being started again: ask again.") })?;
        if self.cancellation.is_cancelled() {
            return Err(refused("The call was called off."));
        }
        *self.writing.lock() = Some(writing);
        Ok(())
    }

    /// Takes over what `other` has begun to write, until the answer of this call is out.
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

/// The outcome of a call that was carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallOutcome {
    /// With an answer.
    Answered,
    /// The subject of the question does not exist, which is an answer too. The command line exits with 1.
    NotFound,
    /// The same, where a contract wants an error: MCP says `isError` too.
    NotFoundAsError,
    /// The action failed, and the answer tells how. MCP says `isError`, the command line exits with 3.
    Failed,
}

/// The answer of a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolAnswer {
    /// For models and people: the contract's text where there is a contract.
    pub text: String,
    /// For people at a terminal, where the contract's text is not for them.
    pub shown: Option<String>,
    /// For programs: an object as the output schema says.
    pub structured: Structured,
    /// The outcome.
    pub outcome: CallOutcome,
    /// Notes beside the answer, a sentence each.
    pub notes: Vec<String>,
    /// The package in which a name without one was looked up, if that is not the default.
    pub looked_up_in: Option<String>,
}

impl ToolAnswer {
    /// Makes the answer `structured`, shown as `text`.
    ///
    /// # Errors
    /// `structured` cannot be JSON, which is a bug.
    pub fn new<T: Serialize>(text: String, structured: &T, outcome: CallOutcome) -> Result<Self, Failure> {
        let structured = Structured::new(structured).map_err(|error| Failure::engine(error.to_string()))?;
        Ok(Self { text, shown: None, structured, outcome, notes: Vec::new(), looked_up_in: None })
    }

    /// Says that the name was looked up in `package`, which nobody named; none if it was not.
    #[must_use]
    pub(crate) fn looked_up_in(mut self, package: Option<String>) -> Self {
        self.notes.extend(package.as_ref().map(|package| {
            format!("Looked up in {package}: no package was given, and {DEFAULT_PACKAGE} has no symbol of that name.")
        }));
        self.looked_up_in = package;
        self
    }

    /// Makes the answer `structured`, whose text is the same JSON; `shown` is for terminals.
    ///
    /// # Errors
    /// As [`ToolAnswer::new`].
    pub fn json<T: Serialize>(structured: &T, shown: String, outcome: CallOutcome) -> Result<Self, Failure> {
        let mut answer = Self::new(String::new(), structured, outcome)?;
        answer.text = answer.structured.json().to_owned();
        answer.shown = Some(shown);
        Ok(answer)
    }
}

/// What is at fault if there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The arguments do not fit.
    Arguments,
    /// The engine cannot answer.
    Engine,
}

/// The reason for which there is no answer, and what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What is at fault.
    pub blame: Blame,
    /// The reason, as a sentence.
    pub why: String,
    /// What can be done.
    pub advice: Option<Advice>,
    /// Whether it is of the moment, as Lisp is dead, is being started again or loads: the same call may have an answer later.
    pub passing: bool,
}

impl Failure {
    /// Makes the failure of arguments that do not fit.
    pub fn arguments(why: impl Into<String>) -> Self {
        Self { blame: Blame::Arguments, why: why.into(), advice: None, passing: false }
    }

    /// Makes the failure of an engine that cannot answer.
    pub fn engine(why: impl Into<String>) -> Self {
        Self { blame: Blame::Engine, why: why.into(), advice: None, passing: false }
    }

    /// Adds advice.
    #[must_use]
    pub fn advised(self, advice: Option<Advice>) -> Self {
        Self { advice, ..self }
    }

    /// Words the reason and the advice.
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

/// Converts a scratch image's error into a tool's.
fn scratch_failure(error: &ScratchError) -> Failure {
    match error {
        ScratchError::Overlay { .. } => Failure::arguments(format!("{error}.")),
        ScratchError::Call(message) => Failure::engine(message.clone()),
        ScratchError::Unconfined(_) => {
            let [eval, edits] = [Permission::Eval, Permission::Edits].map(Permission::option);
            Failure::engine(format!(
                "{}. Its user can allow it to run unconfined by starting the server with `steelbank serve {eval}` or \
                 `{edits}`.",
                sentence(&error.to_string()).trim_end_matches('.')
            ))
        }
        other => Failure::engine(sentence(&other.to_string())),
    }
}
