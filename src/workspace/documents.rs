//! Text that stands for a file's in a copy: what a trial puts over it. What an editor has open is its alone, in
//! `doors/lsp/documents.rs`: an image may have several editors, and clients that see the disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::stamp::FileStamp;

/// The text that counts for the file at a path, whatever is on disk there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct Document {
    /// The text, as bytes of a file.
    pub(crate) text: Arc<[u8]>,
    pub(super) stamp: FileStamp,
}

impl Document {
    /// Makes a document.
    pub(crate) fn new(text: impl Into<Arc<[u8]>>) -> Document {
        let text = text.into();
        Document { stamp: FileStamp::of_text(&text), text }
    }
}

/// The documents, by the real paths of their files.
#[derive(Debug, Default)]
pub(crate) struct Documents(BTreeMap<PathBuf, Arc<Document>>);

impl Documents {
    pub(crate) fn get(&self, path: &Path) -> Option<Arc<Document>> {
        self.0.get(path).cloned()
    }

    pub(super) fn set(&mut self, path: &Path, document: Document) {
        self.0.insert(path.to_owned(), Arc::new(document));
    }
}
