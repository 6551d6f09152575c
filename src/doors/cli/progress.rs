//! A progress bar for long work, on standard error if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

use crate::answer::escape::escaped;
use crate::engine::Progress;

/// The bar, drawn from the first progress on. A clone is the same bar.
#[derive(Clone)]
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new() -> Self {
        // Draw on standard error: the bar hides itself where that is no terminal.
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{bar:32} {pos}/{len} {elapsed} {wide_msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(bar)
    }

    /// Shows the progress of a call. Of a path it shows only the file's name, as the line is short.
    pub(super) fn tell(&self, progress: &Progress) {
        self.0.set_length(progress.total.unwrap_or(progress.done));
        self.0.set_position(progress.done);
        let file = progress.path.as_deref().map(|path| path.rsplit('/').next().unwrap_or(path));
        self.0.set_message(format!("{} {}", progress.what, escaped(file.unwrap_or_default())));
    }

    /// Removes the bar from the terminal.
    pub(super) fn end(&self) {
        self.0.finish_and_clear();
    }
}
