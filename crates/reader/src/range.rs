//! A range of a text.

/// A range of a decoded text in bytes, `start` included, `end` not. [`LineIndex`](crate::lines::LineIndex) converts its
/// ends to lines and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema))]
pub struct Range {
    /// The first byte.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
}

impl Range {
    /// From byte `start` to before byte `end`.
    pub fn new(start: u32, end: u32) -> Range {
        Range { start, end }
    }

    /// The range of these indices. A text has fewer than 4 GiB; what lies beyond is its end.
    pub fn of(indices: std::ops::Range<usize>) -> Range {
        let at = |index| u32::try_from(index).unwrap_or(u32::MAX);
        Range { start: at(indices.start), end: at(indices.end) }
    }

    /// The indices for slicing the text.
    pub fn indices(self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Whether `offset` lies inside.
    pub fn contains(self, offset: u32) -> bool {
        (self.start..self.end).contains(&offset)
    }

    /// Whether all of `other` lies inside.
    pub fn encloses(self, other: Range) -> bool {
        self.start <= other.start && other.end <= self.end
    }
}
