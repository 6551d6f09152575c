//! The protocol between the program and its helper processes: orders and replies, each a line of
//! JSON.

use crate::engine::Progress;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Overlay;
use crate::ProjectSettings;
use crate::handle::snapshot::{OrderedSystem, SnapshotKey};

/// The first line that a helper process reads: its task and settings.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HelperStart {
    pub(crate) what: HelperTask,
    pub(crate) root: Option<PathBuf>,
    /// The folder for fasls and sidecars.
    pub(crate) cache: PathBuf,
    pub(crate) userinit: Option<PathBuf>,
    /// The key of the snapshot to start from, or to create.
    pub(crate) key: Option<SnapshotKey>,
    /// Whether a process that creates snapshots may continue after the process that started it has
    /// ended.
    #[serde(default)]
    pub(crate) outlives: bool,
    /// The folder of the snapshot to create or to test.
    pub(crate) folder: Option<PathBuf>,
    /// The systems of a snapshot of dependencies.
    #[serde(default)]
    pub(crate) systems: Vec<OrderedSystem>,
    /// Whether this is the last attempt, which accepts systems that compile something at every
    /// load.
    pub(crate) last: bool,
    pub(crate) dynamic_space_size: Option<usize>,
    pub(crate) overlays: Vec<Overlay>,
    /// Further overlays: pairs of a real path and the path of a file with the new text.
    #[serde(default)]
    pub(crate) texts: Vec<(PathBuf, PathBuf)>,
    /// Whether the process may write only in the folder `cache`.
    #[serde(default)]
    pub(crate) confined: bool,
}

impl HelperStart {
    /// Creates the settings for a process in the project of `settings`, without a snapshot.
    pub(crate) fn new(
        what: HelperTask,
        settings: &ProjectSettings,
        dynamic_space_size: Option<usize>,
    ) -> Self {
        Self {
            what,
            root: settings.root.clone(),
            cache: settings.cache.clone(),
            userinit: settings.userinit.clone(),
            key: None,
            outlives: false,
            folder: None,
            systems: Vec::new(),
            last: false,
            dynamic_space_size,
            overlays: Vec::new(),
            texts: Vec::new(),
            confined: false,
        }
    }
}

/// The task of a helper process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum HelperTask {
    /// Runs orders, such as calls of tools.
    Scratch,
    /// Creates a snapshot by starting further helpers, and ends.
    Snapshot,
    /// Loads the systems of a snapshot and saves its image.
    Save,
    /// Starts from a new snapshot, and reports whether that works.
    Trial,
}

/// A line that a scratch image reads after the first one.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ScratchOrder {
    Cancel {
        id: u64,
    },
    /// Runs the order called `name`, which `crate::actions` dispatches.
    Order {
        id: u64,
        name: String,
        arguments: Value,
        milliseconds: u64,
    },
}

/// A line that a helper process writes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Reply {
    Ready,
    /// The helper cannot do its task. The text gives the reason.
    Broken(String),
    /// The helper cannot be confined. The text is a clause.
    Unconfined(String),
    /// The snapshot is saved.
    Saved,
    /// The snapshot is unusable, but another attempt may succeed. The text gives the reason as a
    /// clause, without a period.
    Again(String),
    Progress {
        id: u64,
        progress: Progress,
    },
    /// The result of an order.
    Done {
        id: u64,
        answer: Value,
    },
    /// The order failed. The text is a sentence.
    Failure {
        id: u64,
        message: String,
    },
    /// Lisp died during the order, for this reason.
    Died {
        id: u64,
        reason: String,
    },
}
