//! The protocol of helper processes: orders and replies, a line of JSON each.

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
    /// The snapshot to start from, or to make.
    pub(crate) key: Option<SnapshotKey>,
    /// Whether a maker of snapshots outlives the process that started it.
    #[serde(default)]
    pub(crate) outlives: bool,
    /// The folder to make a snapshot in.
    pub(crate) folder: Option<PathBuf>,
    /// The systems of a snapshot of dependencies.
    #[serde(default)]
    pub(crate) systems: Vec<OrderedSystem>,
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

impl HelperStart {
    /// Makes a start in the project of `settings`, from no snapshot.
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
    Cancel {
        id: u64,
    },
    /// Carries out an order of an action, by name: see the actions' `carry_out`.
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
    /// The helper cannot do its task: a sentence.
    Broken(String),
    /// The helper cannot be confined: a clause.
    Unconfined(String),
    /// The snapshot is saved.
    Saved,
    /// The snapshot is unfit, but another attempt may do better: a sentence's end.
    Again(String),
    Progress {
        id: u64,
        progress: Progress,
    },
    /// What an order came to.
    Done {
        id: u64,
        answer: Value,
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
