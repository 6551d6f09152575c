//! Standard output and standard error.

use std::io::{self, IsTerminal, Write};

use serde_json::Value;

/// Where answers go.
pub(super) struct Output {
    color: bool,
}

impl Output {
    /// Colours only for people: on a terminal that has them, unless NO_COLOR or the option says otherwise.
    pub(super) fn new(no_color: bool) -> Self {
        let plain = no_color
            || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
            || std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { color: !plain && io::stdout().is_terminal() }
    }

    /// Writes `text` and a line end. On a terminal the first line stands out.
    pub(super) fn text(&self, text: &str) -> io::Result<()> {
        match text.split_once('\n') {
            Some((first, rest)) if self.color => self.write(&format!("\x1b[1m{first}\x1b[0m\n{rest}\n")),
            _ => self.write(&format!("{text}\n")),
        }
    }

    /// Whether to use colours.
    pub(super) fn colored(&self) -> bool {
        self.color
    }

    /// Writes `text`, which has its own colours, and a line end.
    pub(super) fn plain(&self, text: &str) -> io::Result<()> {
        self.write(&format!("{text}\n"))
    }

    /// Writes a JSON document.
    pub(super) fn json(&self, value: &Value) -> io::Result<()> {
        self.write(&format!("{value:#}\n"))
    }

    /// A reader that has seen enough is no trouble.
    fn write(&self, text: &str) -> io::Result<()> {
        let mut output = io::stdout().lock();
        match output.write_all(text.as_bytes()).and_then(|()| output.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            outcome => outcome,
        }
    }

    /// Writes a sentence to standard error.
    pub(super) fn complain(&self, message: &str) {
        // There is nobody to tell if this fails.
        let _ = writeln!(io::stderr(), "steelbank: {message}");
    }
}
