//! Holds texts that replace files in a scratch image, such as the new texts of a trial or rename.
//! Texts that an editor has open are not here but in `doors/lsp/documents.rs`: one image may serve
//! several editors, and clients that see only the disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::stamp::FileStamp;

/// The text to use for a file, in place of its text on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct Document {
    /// The text, as bytes of a file.
    pub(crate) text: Arc<[u8]>,
    pub(super) stamp: FileStamp,
}

impl Document {
    /// Creates a document with `text`.
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
