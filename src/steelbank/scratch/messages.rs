//! The protocol of helper processes: orders and replies, a line of JSON each.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Overlay, ScratchAnswer, ScratchNews};
use crate::query::rename::{Traces, TracesRequest};
use crate::steelbank::snapshot::SnapshotKey;

/// The first line that a helper process reads: what it is to be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HelperStart {
    pub(crate) what: HelperTask,
    pub(crate) root: Option<PathBuf>,
    /// Where fasls and sidecars go.
    pub(crate) cache: PathBuf,
    pub(crate) userinit: Option<PathBuf>,
    /// The snapshot to start from, if there is one, or the one to make.
    pub(crate) key: Option<SnapshotKey>,
    /// Where a snapshot is made.
    pub(crate) folder: Option<PathBuf>,
    /// For a snapshot of a part, the files that are to come after it.
    #[serde(default)]
    pub(crate) before: Vec<PathBuf>,
    /// Whether it is the last try: then a system may compile something at every load.
    pub(crate) last: bool,
    pub(crate) dynamic_space_size: Option<usize>,
    pub(crate) overlays: Vec<Overlay>,
    /// Files whose text is not what is on disk, by their real paths, and the files that hold it.
    #[serde(default)]
    pub(crate) texts: Vec<(PathBuf, PathBuf)>,
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
    /// Starts from the snapshot that was made, and tells whether that went well.
    Trial,
}

/// A line that a scratch image reads later.
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
    /// Loads the project and tells what that shows.
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
    /// It cannot do what it is for: a sentence.
    Broken(String),
    /// The snapshot is saved.
    Saved,
    /// The snapshot is not as it should be, and another try may be better: a sentence's end.
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
    /// The call has no answer: a sentence.
    Failure {
        id: u64,
        message: String,
    },
}

impl Reply {
    /// The call that it is about.
    pub(super) fn of(&self) -> Option<u64> {
        match self {
            Self::News { id, .. }
            | Self::Answer { id, .. }
            | Self::Traces { id, .. }
            | Self::Failure { id, .. } => Some(*id),
            Self::Ready | Self::Broken(_) | Self::Saved | Self::Again(_) => None,
        }
    }
}
