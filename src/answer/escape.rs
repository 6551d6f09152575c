//! Escapes text for display, so that it can neither control the user's terminal nor reorder what
//! the user reads.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};

/// Replaces each character of `text` that could act on a terminal by `\u` and four digits: control
/// characters except tabs and line ends, Unicode's line and paragraph separators, and characters
/// that control bidirectional text. JSON text still encodes the same data.
pub fn escaped(text: &str) -> Cow<'_, str> {
    // Scan all bytes without a branch, because nearly every text has no such character. The last
    // three bytes of the list begin the encodings of those characters above ASCII that are
    // replaced.
    let suspect = |byte: u8| {
        (byte < 0x20 && byte != b'\n' && byte != b'\t') || [0x7f, 0xc2, 0xd8, 0xe2].contains(&byte)
    };
    if !text.bytes().fold(false, |found, byte| found | suspect(byte)) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let acts = match character {
            '\n' | '\t' => false,
            '\r' => characters.peek() != Some(&'\n'),
            character => character.is_control() || reorders(character),
        };
        match acts {
            // Writing to a string cannot fail.
            true => drop(write!(escaped, "\\u{:04x}", u32::from(character))),
            false => escaped.push(character),
        }
    }
    Cow::Owned(escaped)
}

/// Returns whether a character is a separator of lines or paragraphs, or controls bidirectional
/// text.
fn reorders(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text, formatted with escapes for HTML or XML content outside of tags. `\r` is omitted. Other
/// control characters except line ends and tabs, and characters such as U+FFFE and U+FFFF, are
/// replaced by U+FFFD. Characters that reorder text are replaced as in [`escaped`].
pub(crate) struct Markup<'a>(pub(crate) &'a str);

impl Display for Markup<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut rest = self.0;
        let special = |letter: char| {
            matches!(letter, '&' | '<' | '>')
                || letter.is_control() && !"\n\t".contains(letter)
                || matches!(letter as u32 & 0xffff, 0xfffe | 0xffff)
                || reorders(letter)
        };
        while let Some(at) = rest.find(special) {
            formatter.write_str(&rest[..at])?;
            let mut letters = rest[at..].chars();
            match letters.next() {
                Some('&') => formatter.write_str("&amp;")?,
                Some('<') => formatter.write_str("&lt;")?,
                Some('>') => formatter.write_str("&gt;")?,
                Some('\r') => (),
                Some(letter) if reorders(letter) => write!(formatter, "\\u{:04x}", u32::from(letter))?,
                _ => formatter.write_char('\u{fffd}')?,
            }
            rest = letters.as_str();
        }
        formatter.write_str(rest)
    }
}

/// Percent-encodes the bytes of a path for a URI: every byte except ASCII letters, digits and
/// `/-._~`.
pub(crate) fn uri_path(path: &[u8]) -> String {
    let mut uri = String::with_capacity(path.len());
    for &byte in path {
        match byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            true => uri.push(char::from(byte)),
            // Writing to a string cannot fail.
            false => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_control_characters_are_escaped() {
        for plain in ["", "(f)\n\t; é λ 日本 • “x” \r\n", "\u{200b}\u{2070}"] {
            assert_eq!(escaped(plain), plain);
        }
        for (text, expected) in [
            ("\x1b]0;x\x07", "\\u001b]0;x\\u0007"),
            ("a\rb\r\n\x0c\x7f\0", "a\\u000db\r\n\\u000c\\u007f\\u0000"),
            ("\u{9b}31m\u{85}", "\\u009b31m\\u0085"),
            (
                "\u{202a}\u{202e}\u{2066}\u{2069}\u{200e}\u{200f}\u{61c}",
                "\\u202a\\u202e\\u2066\\u2069\\u200e\\u200f\\u061c",
            ),
        ] {
            assert_eq!(escaped(text), expected);
        }
    }

    #[test]
    fn escaped_json_encodes_the_same_data() {
        let data = serde_json::json!({ "\u{202e}": "\x1b\u{9b}\r\n\x7f" });
        let text = escaped(&data.to_string()).into_owned();
        assert!(text.chars().all(|character| !character.is_control() && character != '\u{202e}'), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), data);
    }
}
