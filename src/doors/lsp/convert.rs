//! Converts positions, ranges, URIs and errors to and from the protocol.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use steelbank_reader::Range;
use steelbank_reader::lines::{LineColumn, LineIndex, PositionEncoding};

use crate::actions::uses::occurrences::OccurrenceKind;
use crate::answer::escape::uri_path;
use crate::handle::{Error, ErrorKind};
use crate::tools::Failure;

/// The error response to a request.
#[derive(Debug)]
pub(super) struct RequestRefusal {
    pub(super) code: i32,
    pub(super) message: String,
}

/// The result of a request.
pub(super) type Answered = Result<Value, RequestRefusal>;

impl RequestRefusal {
    /// The error code of a cancelled request.
    pub(super) const CANCELLED: i32 = -32800;

    pub(super) fn cancelled() -> Self {
        Self { code: Self::CANCELLED, message: "The request was cancelled.".into() }
    }

    pub(super) fn params(message: impl Into<String>) -> Self {
        Self { code: -32602, message: message.into() }
    }

    pub(super) fn failed(message: impl Into<String>) -> Self {
        Self { code: -32803, message: message.into() }
    }
}

impl From<Error> for RequestRefusal {
    fn from(error: Error) -> Self {
        let code = match error.kind() {
            ErrorKind::Cancelled => Self::CANCELLED,
            _ => -32803,
        };
        Self { code, message: error.to_string() }
    }
}

impl From<Failure> for RequestRefusal {
    fn from(failure: Failure) -> Self {
        Self::failed(failure.why)
    }
}

/// Returns the path of a `file:` URI.
pub(super) fn path_of(uri: &str) -> Option<PathBuf> {
    let rest = uri.strip_prefix("file://")?;
    let path = &rest.as_bytes()[rest.find('/')?..];
    let mut bytes = Vec::with_capacity(path.len());
    let mut at = 0;
    while let Some(&byte) = path.get(at) {
        let escaped = path.get(at + 1..at + 3).filter(|_| byte == b'%');
        let escaped = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(escaped) => {
                bytes.push(escaped);
                at += 3;
            }
            None => {
                bytes.push(byte);
                at += 1;
            }
        }
    }
    Some(PathBuf::from(<std::ffi::OsStr as OsStrExt>::from_bytes(&bytes)))
}

/// Returns the URI of the file at `path`.
pub(super) fn uri_of(path: &Path) -> String {
    format!("file://{}", uri_path(path.as_os_str().as_bytes()))
}

/// Returns the byte offset of a position. A position past the end of a line is the line's end, and
/// a position past the last line is the text's end. A position inside a character is that
/// character's end.
pub(super) fn offset_from(
    position: &Value,
    text: &str,
    lines: &LineIndex,
    encoding: PositionEncoding,
) -> Result<u32, RequestRefusal> {
    let number = |key: &str| position[key].as_u64().and_then(|number| u32::try_from(number).ok());
    let at = number("line").zip(number("character"));
    let (line, column) =
        at.ok_or_else(|| RequestRefusal::params("a position has no line or no character"))?;
    let at = LineColumn { line: line.saturating_add(1), column: column.saturating_add(1) };
    let mut offset = lines.offset(text.as_bytes(), at, encoding).unwrap_or(text.len() as u32);
    while !text.is_char_boundary(offset as usize) {
        offset += 1;
    }
    Ok(offset)
}

pub(super) fn range_from(
    range: &Value,
    text: &str,
    lines: &LineIndex,
    encoding: PositionEncoding,
) -> Result<Range, RequestRefusal> {
    let start = offset_from(&range["start"], text, lines, encoding)?;
    let end = offset_from(&range["end"], text, lines, encoding)?;
    match start <= end {
        true => Ok(Range::new(start, end)),
        false => Err(RequestRefusal::params("a range ends before it starts")),
    }
}

/// Converts a byte range of `text` to a range of the protocol.
pub(super) fn range(range: Range, text: &str, lines: &LineIndex, encoding: PositionEncoding) -> Value {
    let position = |offset: u32| {
        let LineColumn { line, column } = lines.position_in(text.as_bytes(), offset, encoding);
        json!({ "line": line - 1, "character": column - 1 })
    };
    json!({ "start": position(range.start), "end": position(range.end) })
}

/// The types of semantic tokens, in the order of their numbers.
pub(super) const TOKEN_TYPES: [&str; 10] = [
    "function", "macro", "keyword", "variable", "parameter", "class", "type", "property", "enumMember",
    "label",
];

/// Returns the number of an occurrence's semantic token type, if it has one.
pub(super) fn token_type(kind: OccurrenceKind) -> Option<u32> {
    let name = match kind {
        OccurrenceKind::Function | OccurrenceKind::LocalFunction => "function",
        OccurrenceKind::Macro => "macro",
        OccurrenceKind::SpecialOperator => "keyword",
        OccurrenceKind::Variable => "variable",
        OccurrenceKind::LocalVariable => "parameter",
        OccurrenceKind::Class => "class",
        OccurrenceKind::Type => "type",
        OccurrenceKind::Slot => "property",
        OccurrenceKind::Keyword => "enumMember",
        OccurrenceKind::Block => "label",
        OccurrenceKind::Datum => return None,
    };
    TOKEN_TYPES.iter().position(|known| *known == name).map(|number| number as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uris_round_trip() {
        for path in ["/a b/ü%/x.lisp", "/", "/c++/#.lisp"] {
            assert_eq!(path_of(&uri_of(Path::new(path))).as_deref(), Some(Path::new(path)));
        }
        assert_eq!(path_of("file:///a%20b%zz"), Some("/a b%zz".into()));
        assert_eq!(path_of("untitled:1"), None);
    }

    #[test]
    fn positions_count_units_of_encoding() {
        let text = "a𝒳b\r\nc";
        let lines = LineIndex::new(text.as_bytes());
        for (encoding, column) in [(PositionEncoding::Utf8, 5), (PositionEncoding::Utf16, 3)] {
            let found = range(Range::new(5, 6), text, &lines, encoding);
            assert_eq!(found["start"], json!({ "line": 0, "character": column }));
            assert_eq!(offset_from(&found["start"], text, &lines, encoding).unwrap(), 5);
            let far = json!({ "line": 0, "character": 99 });
            assert_eq!(offset_from(&far, text, &lines, encoding).unwrap(), 6, "the line's end");
            let below = json!({ "line": 9, "character": 0 });
            assert_eq!(offset_from(&below, text, &lines, encoding).unwrap(), text.len() as u32);
        }
        let inside = json!({ "line": 0, "character": 2 });
        assert_eq!(offset_from(&inside, text, &lines, PositionEncoding::Utf16).unwrap(), 5);
        assert!(offset_from(&json!({}), text, &lines, PositionEncoding::Utf8).is_err());
    }
}
