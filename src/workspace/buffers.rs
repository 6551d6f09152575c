//! Stores text that was compiled from an editor's buffer. Such a text is a part of the buffer's
//! file, which may not contain the text until the buffer is saved. Lisp numbers these texts from
//! [`FIRST_TEXT_VERSION`], and uses the number where a definition would have the write date of its
//! file. Positions in the definition are mapped from the compiled text to the file.

use serde::Deserialize;

use super::Project;

/// The first number of a buffer text, equal to Lisp's `+first-text-version+`. Write dates are
/// smaller.
const FIRST_TEXT_VERSION: u64 = 1 << 40;

/// A text from a buffer, as Lisp reports it. Lisp reports the texts in the order of their numbers,
/// without gaps.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct BufferText {
    /// The text's position in the buffer, in characters from 1.
    position: u32,
    text: String,
}

/// Returns whether `version` is the number of a buffer text, not a write date.
pub(super) fn is_text(version: u64) -> bool {
    version >= FIRST_TEXT_VERSION
}

impl Project {
    /// Returns the number of buffer texts that were received.
    pub(crate) fn buffer_texts(&self) -> usize {
        self.buffers.read().len()
    }

    /// Returns whether `version` is the number of a buffer text that was not received yet.
    pub(crate) fn is_unknown_text(&self, version: u64) -> bool {
        version.checked_sub(FIRST_TEXT_VERSION).is_some_and(|at| at >= self.buffer_texts() as u64)
    }

    /// Adds `texts`, which follow the first `known` texts. Skips texts that another thread has
    /// added meanwhile.
    pub(crate) fn note_buffer_texts(&self, known: usize, texts: Vec<BufferText>) {
        let mut buffers = self.buffers.write();
        let added = buffers.len().saturating_sub(known);
        buffers.extend(texts.into_iter().skip(added));
    }

    /// Returns the buffer text with the number `version` and its position, in characters from 0.
    /// The text is empty if it was not received.
    pub(super) fn buffer_text(&self, version: u64) -> (String, usize) {
        let at = version.checked_sub(FIRST_TEXT_VERSION).and_then(|at| usize::try_from(at).ok());
        let buffers = self.buffers.read();
        let text = at.and_then(|at| buffers.get(at));
        text.map_or_else(Default::default, |found| {
            (found.text.clone(), found.position.saturating_sub(1) as usize)
        })
    }
}
