//! A progress bar on standard error for long calls.

use indicatif::{ProgressBar, ProgressStyle};

use crate::answer::escape::escaped;
use crate::engine::Progress;

/// The progress bar. It appears at the first report of progress. Clones share one bar.
#[derive(Clone)]
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new() -> Self {
        // The bar is drawn on standard error and stays hidden if that is not a terminal.
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{bar:32} {pos}/{len} {elapsed} {wide_msg}") {
            bar.set_style(style.progress_chars("=> "));
        }
        Self(bar)
    }

    /// Shows the progress of a call. Shows only the file name of a path, because the line is short.
    pub(super) fn update(&self, progress: &Progress) {
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
