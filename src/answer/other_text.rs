//! Occurrences of a name in text that is not Lisp: manuals, scripts, configuration. They are found
//! as words, so whether they refer to the symbol is unknown.

use schemars::JsonSchema;
use serde::Serialize;
use steelbank_text::WordMatch;

use super::counted;
use super::location::{Location, as_texts};

/// The occurrences of a name in text that is not Lisp.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct OtherText {
    /// The number of occurrences.
    pub count: usize,
    /// The number of files with occurrences.
    pub files: usize,
    /// The first places: `file:line:column`.
    #[serde(serialize_with = "as_texts")]
    #[schemars(with = "Vec<String>")]
    pub places: Vec<Location>,
}

/// The maximum number of places that are listed.
const MOST_PLACES: usize = 10;

impl OtherText {
    /// Counts `words`, which must be grouped by file.
    pub(crate) fn new(words: &[WordMatch]) -> Self {
        let place = |word: &WordMatch| Location::new(word.path.to_string_lossy()).at(word.at);
        Self::of(words.iter().map(place).collect())
    }

    /// Counts `places`, which must be grouped by file.
    pub(crate) fn of(mut places: Vec<Location>) -> Self {
        let (count, files) = (places.len(), places.chunk_by(|left, right| left.file == right.file).count());
        places.truncate(MOST_PLACES);
        Self { count, files, places }
    }

    /// Returns whether there are no occurrences.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns a sentence with the counts and the first places.
    pub fn sentence(&self) -> String {
        format!("Other text: {}", self.listed())
    }

    /// Returns the counts and the first places.
    pub(crate) fn listed(&self) -> String {
        let (places, files) = (counted(self.count, "place", "places"), counted(self.files, "file", "files"));
        let shown: Vec<String> = self.places.iter().map(Location::to_string).collect();
        let more = if self.places.len() < self.count { ", …" } else { "" };
        format!("{places} in {files}: {}{more}.", shown.join(", "))
    }
}
