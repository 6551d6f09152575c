//! The documents that the editor has open.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use steelbank_reader::lines::{LineIndex, PositionEncoding};
use steelbank_reader::{Dialect, Features, LispText, Range};

use super::convert::{self, RequestRefusal};
use crate::actions::uses::open_text::OpenTextAnswer;

/// The largest text that is looked into, in bytes: larger files are data.
const LARGEST_TEXT: usize = 8 << 20;
/// What is said of larger ones.
pub(super) const TOO_LARGE: &str = "This text is larger than 8 MB: steelbank does not look into it.";

fn is_too_large(text: &str) -> bool {
    text.len() > LARGEST_TEXT
}

/// Returns what is looked into of `text`: nothing of one that is too large.
fn looked_into(text: &Arc<str>) -> Arc<str> {
    if is_too_large(text) { Arc::from("") } else { Arc::clone(text) }
}

/// One version of a document.
pub(super) struct OpenDocument {
    pub(super) uri: String,
    /// The file's real path.
    pub(super) path: PathBuf,
    pub(super) version: i32,
    pub(super) text: Arc<str>,
    pub(super) lines: LineIndex,
    pub(super) read: LispText,
    /// What stands in it, with the stamp of the index that it was asked with.
    pub(super) view: Mutex<Option<(u64, Arc<OpenTextAnswer>)>>,
    /// What the compiler said of this version.
    pub(super) compiled: Mutex<Vec<Value>>,
}

impl OpenDocument {
    pub(super) fn new(uri: String, path: PathBuf, version: i32, text: Arc<str>) -> Self {
        let lines = LineIndex::new(text.as_bytes());
        let read = LispText::read(looked_into(&text).as_bytes(), Dialect::CommonLisp, &Features::sbcl());
        Self { uri, path, version, text, lines, read, view: Mutex::default(), compiled: Mutex::default() }
    }

    /// The text that is looked into.
    pub(super) fn looked_into(&self) -> Arc<str> {
        looked_into(&self.text)
    }

    pub(super) fn is_too_large(&self) -> bool {
        is_too_large(&self.text)
    }

    /// Whether the text is what is on disk.
    pub(super) fn is_saved(&self) -> bool {
        steelbank_tree::read_source(&self.path).is_ok_and(|disk| disk == self.text.as_bytes())
    }

    /// The document after `changes`, in order.
    pub(super) fn changed(
        &self,
        version: i32,
        changes: &[Value],
        encoding: PositionEncoding,
    ) -> Result<Self, RequestRefusal> {
        let mut text = self.text.to_string();
        for change in changes {
            let new =
                change["text"].as_str().ok_or_else(|| RequestRefusal::params("a change has no text"))?;
            if change["range"].is_null() {
                text = new.to_owned();
                continue;
            }
            let lines = LineIndex::new(text.as_bytes());
            let range = convert::range_from(&change["range"], &text, &lines, encoding)?;
            text.replace_range(range.indices(), new);
        }
        Ok(Self::new(self.uri.clone(), self.path.clone(), version, text.into()))
    }

    /// The protocol's range of `range` of the text.
    pub(super) fn range(&self, range: Range, encoding: PositionEncoding) -> Value {
        convert::range(range, &self.text, &self.lines, encoding)
    }
}
