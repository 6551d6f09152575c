//! Places of a name in text that is no Lisp: manuals, scripts, configuration. They are words, and what they mean there
//! nothing tells.

use schemars::JsonSchema;
use serde::Serialize;
use steelbank_text::WordMatch;

use super::counted;
use super::location::{Location, as_texts};

/// How often a name stands in text that is no Lisp.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct OtherText {
    /// In all.
    pub count: usize,
    /// In how many files.
    pub files: usize,
    /// The first places: `file:line:column`.
    #[serde(serialize_with = "as_texts")]
    #[schemars(with = "Vec<String>")]
    pub places: Vec<Location>,
}

/// The most places that are listed.
const MOST_PLACES: usize = 10;

impl OtherText {
    /// Counts words, those of a file one after the other.
    pub(crate) fn new(words: &[WordMatch]) -> Self {
        let place = |word: &WordMatch| Location::new(word.path.to_string_lossy()).at(word.at);
        Self {
            count: words.len(),
            files: words.chunk_by(|left, right| left.path == right.path).count(),
            places: words.iter().take(MOST_PLACES).map(place).collect(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Says how often and where, as a sentence.
    pub fn sentence(&self) -> String {
        let (places, files) = (counted(self.count, "place", "places"), counted(self.files, "file", "files"));
        let shown: Vec<String> = self.places.iter().map(Location::to_string).collect();
        let more = if self.places.len() < self.count { ", …" } else { "" };
        format!("Other text: {places} in {files}: {}{more}.", shown.join(", "))
    }
}
