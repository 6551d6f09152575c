//! Requests the client's roots, and parses their folders from the response.

use std::path::PathBuf;

#[expect(deprecated, reason = "protocol version 2026-07-28 has no roots; earlier versions do")]
use rmcp::model::ListRootsResult;
use serde_json::json;
use serde_json::value::RawValue;

use super::message::{self, Id};

/// Appends our request for the client's roots.
pub(super) fn ask_for_roots(line: &mut Vec<u8>, id: &Id) {
    message::write_call(line, Some(id), "roots/list", &json!({}));
}

/// Returns the folders of a client's roots.
#[expect(deprecated, reason = "protocol version 2026-07-28 has no roots; earlier versions do")]
pub(super) fn folders(result: Option<&RawValue>) -> impl Iterator<Item = PathBuf> {
    let roots = result.and_then(|result| serde_json::from_str::<ListRootsResult>(result.get()).ok());
    roots.into_iter().flat_map(|roots| roots.roots).filter_map(|root| path_of(&root.uri))
}

/// Returns the path of a `file:` URI.
fn path_of(uri: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let path = uri.strip_prefix("file://")?;
    let bytes = decoded(path.strip_prefix("localhost").unwrap_or(path))?;
    bytes.starts_with(b"/").then(|| PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

/// Decodes a URI's percent-encoded part. Returns `None` if a `%` is not followed by two hexadecimal
/// digits.
pub(super) fn decoded(part: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = part.chars();
    while let Some(char) = rest.next() {
        match char {
            '%' => {
                let digits = [rest.next()?.to_digit(16)?, rest.next()?.to_digit(16)?];
                bytes.push((digits[0] * 16 + digits[1]) as u8);
            }
            char => bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_file_uris() {
        assert_eq!(path_of("file:///a%20b/%C3%A9"), Some(PathBuf::from("/a b/é")));
        assert_eq!(path_of("file://localhost/a"), Some(PathBuf::from("/a")));
        assert_eq!(path_of("https://example/a"), None);
        assert_eq!(path_of("file:///a%2"), None);
        assert_eq!(path_of("file:///a%+f"), None);
    }
}
