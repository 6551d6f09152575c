//! The documents that are open in the editor.

use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use steelbank_reader::lines::{LineIndex, PositionEncoding};
use steelbank_reader::{Dialect, Features, LispText, Range};

use super::convert::{self, RequestRefusal};
use crate::actions::uses::open_text::OpenTextAnswer;

/// The maximum size of an analysed text, in bytes. Larger files are assumed to be data.
const MAX_TEXT: usize = 8 << 20;
/// The message about texts above that limit.
pub(super) const TOO_LARGE: &str = "This text is larger than 8 MB, so steelbank does not analyse it.";

fn is_too_large(text: &str) -> bool {
    text.len() > MAX_TEXT
}

/// Returns the text to analyse, which is empty if `text` is too large.
fn analysed_text(text: &Arc<str>) -> Arc<str> {
    if is_too_large(text) { Arc::from("") } else { Arc::clone(text) }
}

/// An open document whose text is unknown, because a change could not be applied.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct OutOfSync {
    pub(super) uri: String,
    /// The reason, as the end of a sentence.
    pub(super) why: String,
}

impl OutOfSync {
    /// Returns the error for requests about the document.
    pub(super) fn refusal(&self) -> RequestRefusal {
        let OutOfSync { uri, why } = self;
        RequestRefusal::failed(format!(
            "{uri} is out of sync: {why}. Close and reopen it to send its whole text."
        ))
    }
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
    /// The occurrences in this version, and the index's stamp when they were computed.
    pub(super) view: Mutex<Option<(u64, Arc<OpenTextAnswer>)>>,
    /// The compiler's diagnostics for this version.
    pub(super) compiled: Mutex<Vec<Value>>,
}

impl OpenDocument {
    pub(super) fn new(uri: String, path: PathBuf, version: i32, text: Arc<str>) -> Self {
        let lines = LineIndex::new(text.as_bytes());
        let read = LispText::read(analysed_text(&text).as_bytes(), Dialect::CommonLisp, &Features::sbcl());
        Self { uri, path, version, text, lines, read, view: Mutex::default(), compiled: Mutex::default() }
    }

    /// Returns the text to analyse.
    pub(super) fn analysed_text(&self) -> Arc<str> {
        analysed_text(&self.text)
    }

    pub(super) fn is_too_large(&self) -> bool {
        is_too_large(&self.text)
    }

    /// Returns whether the text equals the file on disk.
    pub(super) fn is_saved(&self) -> bool {
        steelbank_tree::read_source(&self.path).is_ok_and(|disk| disk == self.text.as_bytes())
    }

    /// Returns the document after `changes`, applied in order.
    pub(super) fn changed(
        &self,
        version: i32,
        changes: &[Value],
        encoding: PositionEncoding,
    ) -> Result<Self, RequestRefusal> {
        // Changes before the last whole text have no effect.
        let whole = changes.iter().rposition(|change| change["range"].is_null()).unwrap_or(0);
        let mut text = self.text.to_string();
        for change in &changes[whole.min(changes.len())..] {
            let new =
                change["text"].as_str().ok_or_else(|| RequestRefusal::params("a change has no text"))?;
            if change["range"].is_null() {
                text = new.to_owned();
                continue;
            }
            let lines = LineIndex::new(text.as_bytes());
            let range = convert::range_from(&change["range"], &text, &lines, encoding)?;
            for (position, offset) in [("start", range.start), ("end", range.end)] {
                let column = lines.position_in(text.as_bytes(), offset, encoding).column;
                let given = change["range"][position]["character"].as_u64();
                if given.is_some_and(|given| given + 1 < u64::from(column)) {
                    return Err(RequestRefusal::params(format!(
                        "the {position} of a range is inside a character"
                    )));
                }
            }
            text.replace_range(range.indices(), new);
        }
        Ok(Self::new(self.uri.clone(), self.path.clone(), version, text.into()))
    }

    /// Converts a byte range of the text to a range of the protocol.
    pub(super) fn range(&self, range: Range, encoding: PositionEncoding) -> Value {
        convert::range(range, &self.text, &self.lines, encoding)
    }
}
