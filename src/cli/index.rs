//! `steelbank index`: building the text index, watching the tree, telling how old the index is. No SBCL is started.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use clap::Args;

use super::progress::Bar;
use super::{Exit, Shell, Trouble, installation};
use crate::mcp::Failure;
use crate::query::index_project::{Error, Indexed, Request, State, check_index_status, index_project};
use crate::source::text::{Control, Freshness, TextIndex};

/// How the text index is kept.
#[derive(Debug, Args)]
pub(super) struct TextOptions {
    /// Build and update the text index only when told to (index_project, `steelbank index`)
    #[arg(long, global = true)]
    no_auto_index: bool,
}

#[derive(Debug, Args)]
pub(super) struct Index {
    /// Build the index from nothing
    #[arg(long)]
    force: bool,
    /// Index only files of this language; may be given several times
    #[arg(long = "lang", value_name = "LANGUAGE")]
    languages: Vec<String>,
    /// Go on watching the tree, and keep the index up to date until interrupted
    #[arg(long, conflicts_with = "status")]
    watch: bool,
    /// Only tell whether the index is fresh
    #[arg(long)]
    status: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The index of the project's text.
pub(super) fn open(shell: &Shell) -> Result<TextIndex, Trouble> {
    let root = shell.options.project.folder()?;
    let cache = installation::cache().ok_or_else(|| Trouble {
        exit: Exit::Engine,
        message:
            "There is no cache folder for the text index. Set HOME, or STEELBANK_CACHE to a folder's path."
                .to_owned(),
    })?;
    let freshness = if shell.options.text.no_auto_index { Freshness::Manual } else { Freshness::Automatic };
    TextIndex::open(&root, &cache, freshness).map_err(|error| Failure::Engine(error.to_string()).into())
}

/// Runs `work` with a bar on the terminal that tells how far indexing is.
pub(super) fn followed<T>(work: impl FnOnce(&Control<'_>) -> T) -> T {
    let bar = Bar::new();
    let last = AtomicUsize::new(0);
    let progress = |done: usize, total: usize| {
        if total > 0 && last.fetch_max(done, Ordering::Relaxed) < done {
            bar.set(done as u64, total as u64, "files indexed".to_owned());
        }
    };
    let result = work(&Control { cancelled: &|| false, progress: &progress });
    bar.end();
    result
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error {
            Error::Language { .. } => Failure::Arguments(error.to_string()).into(),
            _ => Failure::Engine(error.to_string()).into(),
        }
    }
}

impl Index {
    pub(super) fn run(&self, shell: &Shell) -> Result<Exit, Trouble> {
        let index = open(shell)?;
        if self.status {
            return self.tell_status(&index, shell);
        }
        let watched = self.watch && index.watch();
        if self.watch && !watched {
            shell
                .output
                .complain("this system cannot watch folders; looking at every file once a second instead");
        }
        let request = Request { force: self.force, languages: self.languages.clone() };
        self.tell(&followed(|control| index_project(&index, &request, control))?, shell)?;
        let again = Request { force: false, ..request };
        if !self.watch {
            return Ok(Exit::Answered);
        }
        loop {
            if index.wait_for_change(Duration::from_secs(if watched { 3600 } else { 1 })) {
                // Editors and builds change many files at once.
                std::thread::sleep(Duration::from_millis(100));
                let indexed = index_project(&index, &again, &Control::none())?;
                if indexed.files_updated > 0 {
                    self.tell(&indexed, shell)?;
                }
            }
        }
    }

    fn tell(&self, indexed: &Indexed, shell: &Shell) -> Result<(), Trouble> {
        if self.json {
            let value = serde_json::to_value(indexed).map_err(std::io::Error::from)?;
            return Ok(shell.output.json(&value)?);
        }
        let mut text = format!(
            "{} files indexed, {} of them read now, {} left out, in {} ms; index of {:.1} MB for {:.1} MB of text",
            indexed.files_indexed,
            indexed.files_updated,
            indexed.files_skipped,
            indexed.duration_ms,
            indexed.index_bytes as f64 / 1e6,
            indexed.text_bytes as f64 / 1e6,
        );
        for file in &indexed.skipped_files {
            text += &format!("\n  left out: {} ({})", file.path, file.reason.name());
        }
        for failure in &indexed.failures {
            text += &format!("\n  not listed: {failure}");
        }
        Ok(shell.output.text(&text)?)
    }

    fn tell_status(&self, index: &TextIndex, shell: &Shell) -> Result<Exit, Trouble> {
        let status = check_index_status(index, &Control::none())?;
        if self.json {
            let value = serde_json::to_value(&status).map_err(std::io::Error::from)?;
            shell.output.json(&value)?;
        } else {
            let name = match status.status {
                State::Fresh => "fresh",
                State::Stale => "stale",
                State::Missing => "missing",
            };
            let reason = status.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            shell.output.text(&format!("{name}{reason}"))?;
        }
        Ok(if status.status == State::Fresh { Exit::Answered } else { Exit::NotFound })
    }
}
