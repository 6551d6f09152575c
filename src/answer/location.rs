//! The one shape of a place.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use steelbank_reader::lines::{LineColumn, LineIndex};

pub use steelbank_reader::Range;

use crate::source::positions::PositionedFile;

/// A place in a file: a token with its prefix and its `#:`, or a form. As much of it as is known.
///
/// Prints as `file:line:column`. In JSON its keys stand among those of what is there.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Location {
    /// The file, relative to the project's root if it is below it.
    #[serde(rename = "path")]
    pub file: String,
    /// The line, from 1; absent where the source cannot be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line: Option<u32>,
    /// The column, from 1, in characters; absent where all of the line is meant.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub column: Option<u32>,
    /// From the first byte to the last, in the file's decoded text; none where only the line or the column is known.
    #[serde(skip)]
    pub range: Option<Range>,
}

impl Location {
    /// All of `file`.
    pub fn new(file: impl Into<String>) -> Self {
        Self { file: file.into(), ..Self::default() }
    }

    /// That place in the file.
    #[must_use]
    pub fn at(self, LineColumn { line, column }: LineColumn) -> Self {
        Self { line: Some(line), column: Some(column), ..self }
    }

    /// The place in its file: `line:column`.
    pub fn in_file(&self) -> String {
        let parts = [self.line, self.column].into_iter().flatten();
        parts.map(|part| part.to_string()).collect::<Vec<_>>().join(":")
    }

    /// Where it starts, which is the same place for all that starts there.
    #[must_use]
    pub fn start(self) -> Self {
        Self { range: None, ..self }
    }

    /// All of its line.
    #[must_use]
    pub fn whole_line(self) -> Self {
        Self { column: None, range: None, ..self }
    }

    /// Makes the place of `range` in the text of `file`. Of a file that has changed, ranges are not of its text: the place is where
    /// it stands now, or the file alone.
    pub(crate) fn placed(file: impl Into<String>, text: &PositionedFile, range: Range) -> Self {
        let file = Self::new(file);
        match text.position(range.start) {
            Some(place) => Self { range: text.is_fresh().then_some(range), ..file.at(place) },
            None => file,
        }
    }

    /// Makes the place of `range` in `bytes`, whose lines are `lines`.
    pub(crate) fn in_text(file: impl Into<String>, lines: &LineIndex, bytes: &[u8], range: Range) -> Self {
        Self { range: Some(range), ..Self::new(file).at(lines.position(bytes, range.start)) }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.file)?;
        [self.line, self.column].into_iter().flatten().try_for_each(|part| write!(formatter, ":{part}"))
    }
}

/// The columns of places on one line.
pub fn columns(places: &[Location]) -> Vec<u32> {
    places.iter().filter_map(|place| place.column).collect()
}

/// Serializes the places on one line as their columns.
pub(crate) fn as_columns<S: Serializer>(places: &[Location], serializer: S) -> Result<S::Ok, S::Error> {
    columns(places).serialize(serializer)
}

/// Serializes a place as its line, where the file is known and all of the line is meant.
pub(crate) fn as_line<S: Serializer>(place: &Location, serializer: S) -> Result<S::Ok, S::Error> {
    place.line.unwrap_or_default().serialize(serializer)
}

/// Serializes a place as it prints.
pub(crate) fn as_text<'a, S: Serializer>(
    place: impl Into<Option<&'a Location>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match place.into() {
        Some(place) => serializer.collect_str(place),
        None => serializer.serialize_none(),
    }
}

/// Writes places as [`as_text`] writes one.
pub(crate) fn as_texts<S: Serializer>(places: &[Location], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(places.iter().map(Location::to_string))
}
