//! The results of calls to Lisp: lanes, states, answers and errors.

use serde::{Deserialize, Serialize};

/// The Lisp thread that a job runs on. If a job cannot be stopped, a new thread takes over its
/// lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Short questions. They run on Lisp's main thread until another thread takes over the lane.
    Query = 0,
    /// Long work, such as compiling a system, in parallel with questions.
    Work = 1,
}

impl Lane {
    pub(super) const ALL: [Self; 2] = [Self::Query, Self::Work];

    /// Returns the lane with the number that Lisp uses for it.
    pub(super) fn from_number(number: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|lane| *lane as u64 == number)
    }
}

impl std::fmt::Display for Lane {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Query => "query",
            Self::Work => "work",
        })
    }
}

/// The state of Lisp.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum EngineState {
    /// Not started.
    Cold,
    /// SBCL is starting; jobs wait.
    Starting,
    /// Waiting for jobs.
    Ready,
    /// Running a job.
    Busy,
    /// The runtime has ended or hangs, or the core has another interface version. Lisp answers no
    /// more questions; the process continues.
    Dead {
        /// The runtime's message, or the engine's description of the cause.
        reason: String,
    },
}

/// A snapshot of the engine's state, for display.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct EngineStatus {
    /// The state of Lisp.
    #[serde(flatten)]
    pub state: EngineState,
    /// The number of waiting jobs.
    pub queued: usize,
    /// The number of jobs that ran and ended, with any outcome.
    pub completed: u64,
    /// The number of threads abandoned because a job on them could not be stopped.
    pub abandoned_threads: u64,
    /// The time from the start until the image was ready, in microseconds, or `None` if it was
    /// never ready.
    pub start_microseconds: Option<u64>,
    /// The time at which the runtime ended, in seconds since 1970, or `None` while it is alive. The
    /// index is not updated after that time.
    pub died_at: Option<u64>,
    /// Problems that Lisp and the engine have reported: the latest 100, oldest first.
    pub reports: Vec<String>,
}

/// Conditions that may make Lisp unusable; see [`crate::engine::Lisp::wait_for_trouble`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineTrouble {
    /// The reason why Lisp died, if it has.
    pub death: Option<String>,
    /// The number of threads abandoned because a job on them could not be stopped.
    pub given_up: u64,
    /// The number of calls and loads that failed because the heap was exhausted.
    pub filled: u64,
}

/// The answer of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallAnswer {
    /// JSON in UTF-8 or packed bytes; the documentation of the question states which.
    pub bytes: Vec<u8>,
    /// The call's output to the standard streams, up to a limit.
    pub output: String,
    /// The number of characters that were dropped because the output exceeded the limit.
    pub output_dropped: u64,
}

/// The class of a [`Fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FaultKind {
    /// An unhandled error, or a non-local exit out of the call.
    Error,
    /// The code tried to end the process.
    ExitRefused,
    /// The control stack was exhausted.
    StackExhausted,
    /// The heap was exhausted.
    HeapExhausted,
    /// Another kind of storage was exhausted, or the heap was too full to examine the error.
    StorageExhausted,
    /// An access to unmapped memory.
    MemoryFault,
    /// The code read past the end of a stream, such as the (empty) standard input.
    EndOfFile,
    /// The host stopped the call.
    Interrupted,
    /// The request was invalid, for example because there is no such question.
    Misuse,
    /// A kind that this version does not support.
    #[serde(other)]
    Other,
}

/// A fault of Lisp code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Fault {
    /// The class.
    pub kind: FaultKind,
    /// The condition's report, or another description if no condition was signalled.
    pub message: String,
    /// The condition's type, with its package; `None` if no condition was signalled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The code's output to the standard streams.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
}

/// The reason why a call on the Lisp thread has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The code failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The call was stopped or refused: its limit or the job's deadline has passed, the job was
    /// cancelled, its thread was abandoned, or Lisp is dead.
    #[error("the call was stopped")]
    Interrupted,
}

/// The state of a job at its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expired {
    /// The deadline passed before the job entered Lisp.
    NeverBegan,
    /// The job was stopped. Its effects until then remain.
    Stopped,
    /// The job could not be stopped, and continues to run.
    StillRunning,
}

impl std::fmt::Display for Expired {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NeverBegan => ": it was starting or busy with other work, and the request never reached it",
            Self::Stopped => "; the work was stopped",
            Self::StillRunning => {
                ", and the work could not be stopped: it runs with interrupts disabled, or in foreign code"
            }
        })
    }
}

/// The reason why a job has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LispError {
    /// The code failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The deadline passed before the job ended.
    #[error("Lisp did not answer within {milliseconds} ms{work}")]
    DeadlinePassed {
        /// The job's time limit.
        milliseconds: u64,
        /// Whether the job was started, and whether it was stopped.
        work: Expired,
    },
    /// Code on a Lisp thread (a job or a listener) tried to wait for another job of the thread's
    /// lane.
    #[error(
        "this thread runs a job of Lisp's {lane} lane and would deadlock waiting for another job of that lane; wait on another thread"
    )]
    WouldDeadlock {
        /// The lane.
        lane: Lane,
    },
    /// The caller cancelled the job.
    #[error("the request was cancelled")]
    Cancelled,
    /// The runtime has ended or hangs, or the core has another interface version.
    #[error("Lisp has died: {reason}")]
    Dead {
        /// The runtime's message, or the engine's description of the cause.
        reason: String,
    },
    /// The answer does not have the format that the question documents.
    #[error(
        "Lisp returned an answer that cannot be read ({0}); core and program may be from different builds"
    )]
    Unreadable(String),
    /// The job's Rust code panicked, which is a bug in the host.
    #[error("a job panicked on the Lisp thread: {0}")]
    Panicked(String),
}

/// Deserializes an answer of Lisp.
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, LispError> {
    serde_json::from_slice(bytes).map_err(|error| LispError::Unreadable(error.to_string()))
}
