//! The protocol of helper processes: orders and replies, a line of JSON each.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Overlay, ScratchAnswer, ScratchNews};
use crate::query::rename::{Traces, TracesRequest};
use crate::steelbank::snapshot::SnapshotKey;

/// The first line that a helper process reads: its task and settings.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HelperStart {
    pub(crate) what: HelperTask,
    pub(crate) root: Option<PathBuf>,
    /// The folder for fasls and sidecars.
    pub(crate) cache: PathBuf,
    pub(crate) userinit: Option<PathBuf>,
    /// The snapshot to start from, or to make.
    pub(crate) key: Option<SnapshotKey>,
    /// Whether a maker of snapshots outlives the process that started it.
    #[serde(default)]
    pub(crate) outlives: bool,
    /// The folder to make a snapshot in.
    pub(crate) folder: Option<PathBuf>,
    /// For a part of a snapshot, the files that must not be loaded in it.
    #[serde(default)]
    pub(crate) before: Vec<PathBuf>,
    /// Whether this is the last attempt: it accepts systems that compile something at every load.
    pub(crate) last: bool,
    pub(crate) dynamic_space_size: Option<usize>,
    pub(crate) overlays: Vec<Overlay>,
    /// Overlays: real paths, each with the file that holds its text.
    #[serde(default)]
    pub(crate) texts: Vec<(PathBuf, PathBuf)>,
    /// Whether the process may write in the folder `cache` only.
    #[serde(default)]
    pub(crate) confined: bool,
}

/// The task of a helper process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HelperTask {
    /// Answers calls of tools.
    Scratch,
    /// Has a snapshot made, and ends.
    Snapshot,
    /// Loads the systems of a snapshot, and saves itself.
    Save,
    /// Starts from a new snapshot, and reports whether that works.
    Trial,
}

/// A line that a scratch image reads after the first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ScratchOrder {
    Call {
        id: u64,
        tool: String,
        arguments: Value,
    },
    Cancel {
        id: u64,
    },
    /// Returns the files to which writes were refused.
    Refused {
        id: u64,
    },
    /// Loads the project, and returns the traces of the load.
    Examine {
        id: u64,
        request: TracesRequest,
        milliseconds: u64,
    },
}

/// A line that a helper process writes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reply {
    Ready,
    /// The helper cannot do its task: a sentence.
    Broken(String),
    /// The helper cannot be confined: a clause.
    Unconfined(String),
    /// The snapshot is saved.
    Saved,
    /// The snapshot is unfit, but another attempt may do better: a sentence's end.
    Again(String),
    News {
        id: u64,
        news: ScratchNews,
    },
    Answer {
        id: u64,
        answer: ScratchAnswer,
    },
    Traces {
        id: u64,
        traces: Box<Traces>,
    },
    Refused {
        id: u64,
        paths: Vec<String>,
    },
    /// The call failed: a sentence.
    Failure {
        id: u64,
        message: String,
    },
    /// Lisp has died during the call, for this reason.
    Died {
        id: u64,
        reason: String,
    },
}

impl Reply {
    /// Returns the id of the call that the reply belongs to.
    pub(super) fn of(&self) -> Option<u64> {
        match self {
            Self::News { id, .. }
            | Self::Answer { id, .. }
            | Self::Traces { id, .. }
            | Self::Refused { id, .. }
            | Self::Failure { id, .. }
            | Self::Died { id, .. } => Some(*id),
            Self::Ready | Self::Broken(_) | Self::Unconfined(_) | Self::Saved | Self::Again(_) => None,
        }
    }
}
