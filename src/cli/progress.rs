//! A bar that tells how far long work is: on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

use crate::mcp::News;

/// Drawn from its first news on; a clone is the same bar.
#[derive(Clone)]
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new() -> Self {
        // The bar hides itself where standard error is no terminal.
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{bar:32} {pos}/{len} {wide_msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(bar)
    }

    /// `done` of `total` steps are done; `message` tells what is being done.
    pub(super) fn set(&self, done: u64, total: u64, message: String) {
        self.0.set_length(total.max(done));
        self.0.set_position(done);
        self.0.set_message(message);
    }

    /// Shows a call's news. Of a path only the file's name: the line is short.
    pub(super) fn tell(&self, news: &News) {
        let (what, path) = news.message.split_once(' ').unwrap_or((&news.message, ""));
        let message = format!("{what} {}", path.rsplit('/').next().unwrap_or(path));
        self.set(news.done as u64, news.total.unwrap_or(news.done) as u64, message);
    }

    /// Takes the bar off the screen.
    pub(super) fn end(&self) {
        self.0.finish_and_clear();
    }
}
