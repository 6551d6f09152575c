//! Defines [`Location`], the type of every file position in answers.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use steelbank_reader::lines::{LineColumn, LineIndex};

pub use steelbank_reader::Range;

use crate::source::positions::PositionedFile;

/// The position of a token or a form in a file. A token includes its package prefix or `#:`.
/// Unknown parts are `None`.
///
/// Prints as `file:line:column`. In JSON, the object that has the location contains the location's
/// keys.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Location {
    /// The file. Files in the project are relative to its root.
    #[serde(rename = "path")]
    pub file: String,
    /// The line, from 1; absent if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line: Option<u32>,
    /// The column, from 1, in characters; absent for an entire line.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub column: Option<u32>,
    /// The byte range in the file's decoded text. `None` if at most the line and the column are
    /// known.
    #[serde(skip)]
    pub range: Option<Range>,
}

impl Location {
    /// Returns the location of the entire `file`.
    pub fn new(file: impl Into<String>) -> Self {
        Self { file: file.into(), ..Self::default() }
    }

    /// Sets the line and the column.
    #[must_use]
    pub fn at(self, LineColumn { line, column }: LineColumn) -> Self {
        Self { line: Some(line), column: Some(column), ..self }
    }

    /// Reads `file:line:column`.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let mut parts = text.rsplitn(3, ':');
        let (column, line) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
        Some(Self::new(parts.next()?).at(LineColumn { line, column }))
    }

    /// Formats the position without the file's name: `line:column`.
    pub fn in_file(&self) -> String {
        let parts = [self.line, self.column].into_iter().flatten();
        parts.map(|part| part.to_string()).collect::<Vec<_>>().join(":")
    }

    /// Drops the range, so that locations with the same start compare equal.
    #[must_use]
    pub fn start(self) -> Self {
        Self { range: None, ..self }
    }

    /// Drops the column and the range.
    #[must_use]
    pub fn whole_line(self) -> Self {
        Self { column: None, range: None, ..self }
    }

    /// Returns the location of `range` in the text of `file`. If the file has changed since it was
    /// compiled, the location has no range: its position is translated to the current text, or only
    /// the file is known.
    pub(crate) fn placed(file: impl Into<String>, text: &PositionedFile, range: Range) -> Self {
        let file = Self::new(file);
        match text.position(range.start) {
            Some(place) => Self { range: text.is_fresh().then_some(range), ..file.at(place) },
            None => file,
        }
    }

    /// Returns the location of `range` in `bytes`. `lines` holds the line starts of `bytes`.
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

/// Returns the columns of places that are all on one line.
pub fn columns(places: &[Location]) -> Vec<u32> {
    places.iter().filter_map(|place| place.column).collect()
}

/// Serializes places on one line as their columns.
pub(crate) fn as_columns<S: Serializer>(places: &[Location], serializer: S) -> Result<S::Ok, S::Error> {
    columns(places).serialize(serializer)
}

/// Serializes a place as its line number, for answers that list the file separately.
pub(crate) fn as_line<S: Serializer>(place: &Location, serializer: S) -> Result<S::Ok, S::Error> {
    place.line.unwrap_or_default().serialize(serializer)
}

/// Serializes a place as `file:line:column`.
pub(crate) fn as_text<'a, S: Serializer>(
    place: impl Into<Option<&'a Location>>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match place.into() {
        Some(place) => serializer.collect_str(place),
        None => serializer.serialize_none(),
    }
}

/// Serializes each place as `file:line:column`.
pub(crate) fn as_texts<S: Serializer>(places: &[Location], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(places.iter().map(Location::to_string))
}
