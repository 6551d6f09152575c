//! The form of a file's path in answers.

use std::borrow::Cow;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file's path, relative to the project's root if the file is below the root. The text is created
/// only when it is printed, because an answer may have thousands of paths but print only one page.
/// Invalid UTF-8 is printed as replacement characters.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(into = "String", from = "String")]
#[schemars(with = "String")]
pub struct ShownPath {
    path: Arc<Path>,
    /// The byte offset of the shown part.
    start: usize,
}

impl ShownPath {
    /// Creates a path that shows the last `length` bytes of `path`.
    pub(crate) fn end_of(path: Arc<Path>, length: usize) -> Self {
        let start = path.as_os_str().len().saturating_sub(length);
        Self { path, start }
    }

    fn bytes(&self) -> &[u8] {
        self.path.as_os_str().as_bytes().get(self.start..).unwrap_or_default()
    }

    /// Returns the shown text.
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.bytes())
    }
}

impl PartialEq for ShownPath {
    fn eq(&self, other: &Self) -> bool {
        self.bytes() == other.bytes()
    }
}

impl Eq for ShownPath {}

impl PartialOrd for ShownPath {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ShownPath {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.bytes().cmp(other.bytes())
    }
}

impl fmt::Display for ShownPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.text().fmt(formatter)
    }
}

impl From<String> for ShownPath {
    fn from(text: String) -> Self {
        Self { path: Path::new(&text).into(), start: 0 }
    }
}

impl From<ShownPath> for String {
    fn from(path: ShownPath) -> Self {
        path.text().into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_below_root_is_relative() {
        let whole: Arc<Path> = Path::new("/root/src/a.lisp").into();
        let below = ShownPath::end_of(Arc::clone(&whole), 10);
        assert_eq!(below.to_string(), "src/a.lisp");
        assert_eq!(serde_json::to_string(&below).unwrap(), "\"src/a.lisp\"");
        assert_eq!(serde_json::from_str::<ShownPath>("\"src/a.lisp\"").unwrap(), below);
        assert!(
            ShownPath::end_of(Arc::clone(&whole), 16) < below,
            "a path outside of the root begins with a slash"
        );
        let odd = Path::new(std::ffi::OsStr::from_bytes(b"/root/\xff"));
        assert_eq!(ShownPath::end_of(odd.into(), 1).text(), "\u{fffd}");
    }
}
