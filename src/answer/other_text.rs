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
        Self {
            count: words.len(),
            files: words.chunk_by(|left, right| left.path == right.path).count(),
            places: words.iter().take(MOST_PLACES).map(place).collect(),
        }
    }

    /// Returns whether there are no occurrences.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns a sentence with the counts and the first places.
    pub fn sentence(&self) -> String {
        let (places, files) = (counted(self.count, "place", "places"), counted(self.files, "file", "files"));
        let shown: Vec<String> = self.places.iter().map(Location::to_string).collect();
        let more = if self.places.len() < self.count { ", …" } else { "" };
        format!("Other text: {places} in {files}: {}{more}.", shown.join(", "))
    }
}
