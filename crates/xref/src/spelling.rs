//! Finds candidates for names with a similar spelling, without comparing all names.

/// The indexes of names in a list, grouped by the length of the names, each with the name's
/// letters.
#[derive(Debug, Clone, Default)]
pub struct Spellings(Vec<Vec<(Letters, u32)>>);

/// The letters of a name in upper case. Each kind of letter has one bit for its first and one for
/// its second occurrence. Changing one letter sets at most one bit and clears at most one.
#[derive(Debug, Clone, Copy)]
struct Letters(u64);

impl Letters {
    fn of(name: &str) -> Self {
        Self(name.chars().fold(0, |letters, letter| {
            let once = match letter.to_ascii_uppercase() {
                letter @ 'A'..='Z' => letter as u32 - 'A' as u32,
                '-' => 26,
                '0'..='9' => 27,
                '*' => 28,
                '%' | '+' => 29,
                // The other ASCII characters are one kind of letter, and all non-ASCII characters
                // are another.
                letter if letter.is_ascii() => 30,
                _ => 31,
            };
            let bit = 1_u64 << once;
            letters | if letters & bit == 0 { bit } else { bit << 32 }
        }))
    }

    fn may_be_within(self, other: Self, edits: u32) -> bool {
        (self.0 & !other.0).count_ones() <= edits && (other.0 & !self.0).count_ones() <= edits
    }
}

impl Spellings {
    /// Records the spellings of `names`.
    pub fn of(names: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut by_length: Vec<Vec<(Letters, u32)>> = Vec::new();
        for (row, name) in (0..).zip(names) {
            let name = name.as_ref();
            let length = name.chars().count();
            if by_length.len() <= length {
                by_length.resize_with(length + 1, Vec::new);
            }
            by_length[length].push((Letters::of(name), row));
        }
        Self(by_length)
    }

    /// Returns the indexes of names that may be within `edits` edits of `name`, ignoring case.
    /// Includes all such names, and possibly others.
    pub fn near<'a>(&'a self, name: &str, edits: usize) -> impl Iterator<Item = u32> + use<'a> {
        let (letters, length) = (Letters::of(name), name.chars().count());
        let last = (length + edits + 1).min(self.0.len());
        let of_length = self.0.get(length.saturating_sub(edits).min(last)..last).unwrap_or_default();
        let edits = u32::try_from(edits).unwrap_or(u32::MAX);
        let near = of_length.iter().flatten().filter(move |(other, _)| letters.may_be_within(*other, edits));
        near.map(|(_, row)| *row)
    }
}
