//! A range of a text.

/// A range of bytes in a text, from `start` inclusive to `end` exclusive.
/// [`LineIndex`](crate::lines::LineIndex) converts its ends to lines and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
pub struct Range {
    /// The first byte.
    pub start: u32,
    /// The offset after the last byte.
    pub end: u32,
}

impl Range {
    /// Creates the range from byte `start` to before byte `end`.
    pub fn new(start: u32, end: u32) -> Range {
        Range { start, end }
    }

    /// Converts a range of indices. Texts are smaller than 4 GiB; larger indices become `u32::MAX`.
    pub fn of(indices: std::ops::Range<usize>) -> Range {
        let at = |index| u32::try_from(index).unwrap_or(u32::MAX);
        Range { start: at(indices.start), end: at(indices.end) }
    }

    /// Returns the indices for slicing the text.
    pub fn indices(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Returns whether `offset` is inside the range.
    pub fn contains(self, offset: u32) -> bool {
        (self.start..self.end).contains(&offset)
    }

    /// Returns whether all of `other` is inside the range.
    pub fn encloses(self, other: Range) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}
