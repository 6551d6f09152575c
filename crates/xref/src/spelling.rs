//! Which names may be spelt nearly as another, without reading the rest of them.

/// The places of names in a list, by the length of the names, each with its name's letters.
#[derive(Debug, Clone, Default)]
pub struct Spellings(Vec<Vec<(Letters, u32)>>);

/// The letters of a name in upper case: a bit each for the first and for the second time that one of its kind occurs.
/// An edit of one letter sets a bit at most, and clears one at most.
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
                // Upper case is not told from lower case beyond ASCII.
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
    /// Notes the spellings of `names`.
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

    /// Lists the places of the names that may be made of `name` with so many `edits`, letters' cases aside: all that can,
    /// and others.
    pub fn near<'a>(&'a self, name: &str, edits: usize) -> impl Iterator<Item = u32> + use<'a> {
        let (letters, length) = (Letters::of(name), name.chars().count());
        let last = (length + edits + 1).min(self.0.len());
        let of_length = self.0.get(length.saturating_sub(edits).min(last)..last).unwrap_or_default();
        let edits = u32::try_from(edits).unwrap_or(u32::MAX);
        let near = of_length.iter().flatten().filter(move |(other, _)| letters.may_be_within(*other, edits));
        near.map(|(_, row)| *row)
    }
}
