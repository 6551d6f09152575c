//! Prints answers on standard output and messages on standard error. [`Terminal`] implements
//! colours, truncation to the height of the screen, and `--quiet`.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use serde_json::Value;

use super::{CommandError, Exit};
use crate::answer::escape::escaped;

/// The standard output for answers, with the settings that affect how they are printed.
pub(super) struct Terminal {
    color: bool,
    quiet: bool,
    /// The height of the screen in lines. `None` if standard output is not a terminal.
    rows: Option<usize>,
}

/// The height of a terminal that does not report its size.
const ROWS: u16 = 24;

impl Terminal {
    /// Creates the terminal. A terminal gets colours unless NO_COLOR, TERM=dumb or the option
    /// disables them.
    pub(super) fn new(no_color: bool, quiet: bool) -> Self {
        let plain = no_color
            || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let rows = io::stdout().is_terminal().then(|| {
            let size = rustix::termios::tcgetwinsize(io::stdout()).map(|size| size.ws_row);
            usize::from(size.ok().filter(|rows| *rows > 0).unwrap_or(ROWS))
        });
        Self { color: !plain && rows.is_some(), quiet, rows }
    }

    /// Writes `text` and a line end. On a terminal, text that is longer than the screen is
    /// truncated. With colours, places look as in grep's output, and the first line is bold.
    pub(super) fn text(&self, text: &str) -> Result<(), CommandError> {
        let text = escaped(text);
        let (shown, rest) = self.rows.map_or((&*text, None), |rows| screen(&text, rows));
        let mut shown = if self.color { colored(shown) } else { format!("{shown}\n") };
        shown.extend(rest);
        self.write(&shown)
    }

    /// Writes `bytes`, with U+FFFD in place of invalid UTF-8.
    pub(super) fn bytes(&self, bytes: &[u8]) -> Result<(), CommandError> {
        self.write(&String::from_utf8_lossy(bytes))
    }

    /// Writes a JSON document.
    pub(super) fn json(&self, value: &Value) -> Result<(), CommandError> {
        self.write(&format!("{value:#}\n"))
    }

    /// Writes to standard output, or nothing with --quiet. A closed pipe is not an error.
    fn write(&self, text: &str) -> Result<(), CommandError> {
        if self.quiet {
            return Ok(());
        }
        let mut output = io::stdout().lock();
        match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            outcome => outcome.map_err(|error| CommandError {
                exit: Exit::Engine,
                message: format!("Cannot write the answer: {error}."),
            }),
        }
    }

    /// Writes a message to standard error.
    pub(super) fn error(&self, message: &str) {
        // Ignore the error: it could only be reported on standard error.
        let _ = writeln!(io::stderr(), "steelbank: {}", escaped(message));
    }
}

/// Truncates `text` to a screen of `rows` lines, but not to fewer than ten lines. The command's
/// line and the next prompt stay visible. Also returns a note on how to print the rest, or `None`
/// if nothing was truncated.
fn screen(text: &str, rows: usize) -> (&str, Option<String>) {
    let fits = rows.saturating_sub(3).max(10);
    let lines = text.lines().count();
    if lines <= fits {
        return (text, None);
    }
    let end = text.match_indices('\n').nth(fits - 1).map_or(text.len(), |(end, _)| end);
    (
        &text[..end],
        Some(format!("… {} more lines: add | less to the command to see them all\n", lines - fits)),
    )
}

fn colored(text: &str) -> String {
    let mut painted = String::with_capacity(text.len() * 2);
    for (number, line) in text.lines().enumerate() {
        // Ignore the result: writing to a string cannot fail.
        let _ = match place(line) {
            Some((before, path, digits, rest)) => {
                writeln!(painted, "{before}\x1b[35m{path}\x1b[0m:\x1b[32m{digits}\x1b[0m{rest}")
            }
            None if number == 0 => writeln!(painted, "\x1b[1m{line}\x1b[0m"),
            None => writeln!(painted, "{line}"),
        };
    }
    painted
}

/// Splits a line that begins, after white space, with a place `path:line:` into the white space,
/// the path, the line number and the rest.
fn place(line: &str) -> Option<(&str, &str, &str, &str)> {
    let (before, text) = line.split_at(line.len() - line.trim_start().len());
    for (colon, _) in text.match_indices(':') {
        let after = &text[colon + 1..];
        let digits = after.len() - after.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if colon > 0 && digits > 0 && after[digits..].starts_with(':') {
            return Some((before, &text[..colon], &after[..digits], &after[digits..]));
        }
        if text[..colon].contains(' ') {
            return None;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_screen_reports_omitted_lines() {
        let lines = (1..=30).map(|line| line.to_string()).collect::<Vec<_>>().join("\n");
        assert_eq!(screen(&lines, 33), (lines.as_str(), None));
        let (shown, rest) = screen(&lines, 24);
        assert_eq!((shown.lines().last(), shown.lines().count()), (Some("21"), 21));
        assert!(rest.unwrap().starts_with("… 9 more lines: "));
        assert_eq!(screen("a\n\nb", 1), ("a\n\nb", None));
    }

    #[test]
    fn places_are_found_at_line_start() {
        assert_eq!(place("  a.lisp:12:3: call"), Some(("  ", "a.lisp", "12", ":3: call")));
        assert_eq!(place("a b: 12:3: call"), None);
        assert_eq!(place("PACKAGE::NAME"), None);
        assert_eq!(place("Source: x.lisp:12"), None);
        let painted = colored("Head:\n\n  a.lisp:1:2: x");
        assert_eq!(painted, "\x1b[1mHead:\x1b[0m\n\n  \x1b[35ma.lisp\x1b[0m:\x1b[32m1\x1b[0m:2: x\n");
    }
}
