//! The answers of Lisp, and its failures.

use serde::{Deserialize, Serialize};

/// The Lisp thread that a job runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// Short questions. Lisp's main thread, until a job that cannot be stopped blocks it.
    Query = 0,
    /// Long work, such as compiling a system; questions are answered beside it.
    Work = 1,
}

impl Lane {
    pub(super) const ALL: [Self; 2] = [Self::Query, Self::Work];

    /// The lane of the number that Lisp uses for it.
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
    /// The runtime has ended. Nothing in Lisp can be asked any more; the process goes on.
    Dead {
        /// The runtime's message.
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
    /// Jobs that wait.
    pub queued: usize,
    /// Jobs that were run to their end.
    pub completed: u64,
    /// Threads that were given up because a job on them could not be stopped.
    pub abandoned_threads: u64,
    /// From the call to start until the image was ready, in microseconds.
    pub start_microseconds: Option<u64>,
    /// When the runtime ended, in seconds since 1970: what the index tells is as of then. None while it lives.
    pub died_at: Option<u64>,
    /// Errors reported by background Lisp threads, oldest first.
    pub reports: Vec<String>,
}

/// Troubles that may make Lisp unusable; see [`crate::engine::Lisp::wait_for_trouble`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EngineTrouble {
    /// Why it has died.
    pub death: Option<String>,
    /// Threads that were given up because a job on them could not be stopped.
    pub given_up: u64,
    /// How often a job ended because the heap was used up.
    pub filled: u64,
}

/// The answer of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallAnswer {
    /// The question's answer: UTF-8 JSON, or packed bytes, as the question documents.
    pub bytes: Vec<u8>,
    /// The output of the call to the standard streams, up to a limit.
    pub output: String,
    /// Characters of output after the limit.
    pub output_dropped: u64,
}

/// The class of a [`Fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FaultKind {
    /// An error that nobody handled, or a non-local exit out of the call.
    Error,
    /// The code tried to end the process.
    ExitRefused,
    /// The control stack was used up.
    StackExhausted,
    /// The heap was used up.
    HeapExhausted,
    /// Another kind of storage was used up.
    StorageExhausted,
    /// Memory was touched that is not there.
    MemoryFault,
    /// The code read past the end of a stream, such as the (empty) standard input.
    EndOfFile,
    /// The call was stopped by the host.
    Interrupted,
    /// The request was invalid: the question is not known.
    Misuse,
    /// A kind that this version does not know.
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
    /// The condition's report.
    pub message: String,
    /// The condition's type, with its package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The output of the code to the standard streams.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
}

/// Why a call on the Lisp thread has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The code failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The call was stopped: its own time was over, or its job was interrupted.
    #[error("the call was stopped")]
    Interrupted,
}

/// The fate of a job whose time is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Expired {
    /// It waited all the time: nothing of it was done.
    NeverBegan,
    /// It was stopped: what it had done before remains.
    Stopped,
    /// It could not be stopped, and runs on.
    StillRunning,
}

impl std::fmt::Display for Expired {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NeverBegan => ": it was busy with other work all that time, and this never began",
            Self::Stopped => "; the work was stopped",
            Self::StillRunning => {
                ", and the work could not be stopped: it runs without interrupts, or in foreign code"
            }
        })
    }
}

/// Why a job has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LispError {
    /// The code failed.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// The job was not done in time.
    #[error("Lisp did not answer within {milliseconds} ms{work}")]
    DeadlinePassed {
        /// The time allowed.
        milliseconds: u64,
        /// The fate of the work.
        work: Expired,
    },
    /// A job's own thread, such as that of a listener of its progress, was to wait for another job of the same lane.
    #[error(
        "this thread runs a job of Lisp's {lane} lane, and would wait for itself to run another; ask from another thread"
    )]
    WouldWaitForItself {
        /// The lane.
        lane: Lane,
    },
    /// The caller took the job back.
    #[error("the request was cancelled")]
    Cancelled,
    /// The runtime has ended.
    #[error("Lisp has died: {reason}")]
    Dead {
        /// The runtime's message.
        reason: String,
    },
    /// The answer is not what the question promises.
    #[error(
        "the Lisp half gave an answer that cannot be read ({0}); core and program may be of different builds"
    )]
    Unreadable(String),
    /// A bug in the host.
    #[error("a job panicked on the Lisp thread: {0}")]
    Panicked(String),
}

/// Deserializes an answer of Lisp's.
pub(crate) fn read_json<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T, LispError> {
    serde_json::from_slice(bytes).map_err(|error| LispError::Unreadable(error.to_string()))
}
