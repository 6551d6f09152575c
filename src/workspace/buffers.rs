//! Text that code was compiled from in an editor's buffer: a part of what the buffer's file holds, or will.

use serde::Deserialize;

use super::Project;

/// The least number that stands for such a text where a file's write date would stand: Lisp's `+first-text-version+`.
const FIRST_TEXT_VERSION: u64 = 1 << 40;

/// A text from a buffer, as Lisp tells of it. They are told in the order of their versions, and none is left out.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct BufferText {
    /// Where it stood in the buffer: a count of characters, from 1.
    position: u32,
    text: String,
}

/// Whether `version` stands for a text from a buffer, and is no write date.
pub(super) fn is_text(version: u64) -> bool {
    version >= FIRST_TEXT_VERSION
}

impl Project {
    /// Returns how many texts from buffers are known.
    pub(crate) fn buffer_texts(&self) -> usize {
        self.buffers.read().len()
    }

    /// Whether `version` stands for a text from a buffer that is not known.
    pub(crate) fn is_unknown_text(&self, version: u64) -> bool {
        version.checked_sub(FIRST_TEXT_VERSION).is_some_and(|at| at >= self.buffer_texts() as u64)
    }

    /// Adds the texts after the first `known`, as far as nobody else has.
    pub(crate) fn note_buffer_texts(&self, known: usize, texts: Vec<BufferText>) {
        let mut buffers = self.buffers.write();
        let added = buffers.len().saturating_sub(known);
        buffers.extend(texts.into_iter().skip(added));
    }

    /// Returns the text for which `version` stands, empty if it is not known, and where it stood, in characters from 0.
    pub(super) fn buffer_text(&self, version: u64) -> (String, usize) {
        let at = version.checked_sub(FIRST_TEXT_VERSION).and_then(|at| usize::try_from(at).ok());
        let buffers = self.buffers.read();
        let text = at.and_then(|at| buffers.get(at));
        text.map_or_else(Default::default, |found| {
            (found.text.clone(), found.position.saturating_sub(1) as usize)
        })
    }
}
