//! Text that stands for a file's: what an editor has open and not saved, or what a trial puts over a file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::stamp::FileStamp;

/// The text that counts for the file at a path, whatever is on disk there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct Document {
    /// The version that whoever holds the text gave it.
    pub(crate) version: i32,
    /// The text, as bytes of a file.
    pub(crate) text: Arc<[u8]>,
    pub(super) stamp: FileStamp,
}

impl Document {
    /// Makes a document.
    pub(crate) fn new(version: i32, text: impl Into<Arc<[u8]>>) -> Document {
        let text = text.into();
        let stamp = FileStamp::of_text(version, &text);
        Document { version, text, stamp }
    }
}

/// The open documents, by the real paths of their files.
#[derive(Debug, Default)]
pub(crate) struct Documents(BTreeMap<PathBuf, Arc<Document>>);

impl Documents {
    pub(crate) fn get(&self, path: &Path) -> Option<Arc<Document>> {
        self.0.get(path).cloned()
    }

    pub(super) fn set(&mut self, path: &Path, document: Option<Document>) {
        match document {
            Some(document) => drop(self.0.insert(path.to_owned(), Arc::new(document))),
            None => drop(self.0.remove(path)),
        }
    }
}
