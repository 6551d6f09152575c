//! `steelbank index`: builds the text index, keeps it up to date, or reports whether it is fresh.
//! The command does not start SBCL.

use std::path::Path;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::call::{call_with_progress, print_answer};
use super::{CommandError, Exit, Shell, installation};
use crate::tools::{CallOutcome, Object, Session, ToolAnswer};
use steelbank_text::{Freshness, TextIndex};

/// The options of the text index.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct TextOptions {
    /// Build and update the text index only on request (index_project, `steelbank index`)
    #[arg(long, global = true, help_heading = super::GLOBAL, display_order = 905)]
    no_auto_index: bool,
}

#[derive(Debug, Args)]
pub(super) struct IndexCommand {
    /// Rebuild the index from scratch
    #[arg(long)]
    force: bool,
    /// Index only files of this language; may be given several times
    #[arg(long = "lang", value_name = "LANGUAGE")]
    languages: Vec<String>,
    /// Keep watching the files and updating the index until interrupted
    #[arg(long, conflicts_with = "status")]
    watch: bool,
    /// Only report whether the index is fresh
    #[arg(long)]
    status: bool,
}

impl TextOptions {
    /// Returns the option that gives another process the same index settings.
    pub(super) fn argument(self) -> Option<&'static str> {
        self.no_auto_index.then_some("--no-auto-index")
    }

    /// Opens the text index of the files below `root`.
    ///
    /// # Errors
    /// There is no usable cache folder, or `root` is not a readable folder.
    pub(super) fn open(self, root: &Path) -> Result<TextIndex, String> {
        let cache = installation::cache().ok_or(
            "There is no cache folder for the text index. Set HOME, or set STEELBANK_CACHE to a folder's path.",
        )?;
        let freshness = if self.no_auto_index { Freshness::Manual } else { Freshness::Automatic };
        steelbank_cache::claim(&cache).map_err(|error| error.to_string())?;
        TextIndex::open(root, &cache.join("projects"), freshness).map_err(|error| error.to_string())
    }
}

impl IndexCommand {
    pub(super) fn run(&self, shell: &Shell) -> Result<Exit, CommandError> {
        let session = shell.session(false)?;
        if self.status {
            let answer = ask(&session, "check_index_status", Object::new())?;
            let fresh = answer.structured.get("status").and_then(Value::as_str) == Some("fresh");
            print_answer(shell, &answer)?;
            return Ok(if fresh { Exit::Answered } else { Exit::NotFound });
        }
        let index = session.text()?;
        let watched = self.watch && index.watch();
        if self.watch && !watched {
            shell.output.error("this system cannot watch folders; checking all files once a second instead");
        }
        let languages = Value::from(self.languages.clone());
        let arguments = |force: bool| {
            Object::from_iter([
                ("force".to_owned(), Value::from(force)),
                ("languages".to_owned(), languages.clone()),
            ])
        };
        print_answer(shell, &ask(&session, "index_project", arguments(self.force))?)?;
        if !self.watch {
            return Ok(Exit::Answered);
        }
        loop {
            if index.wait_for_change(Duration::from_secs(if watched { 3600 } else { 1 })) {
                // Wait briefly, because editors and builds change many files at once.
                std::thread::sleep(Duration::from_millis(100));
                let indexed = ask(&session, "index_project", arguments(false))?;
                if indexed
                    .structured
                    .get("files_updated")
                    .and_then(Value::as_u64)
                    .is_some_and(|files| files > 0)
                {
                    print_answer(shell, &indexed)?;
                }
            }
        }
    }
}

fn ask(session: &Session, tool: &str, arguments: Object) -> Result<ToolAnswer, CommandError> {
    let tool =
        crate::actions::tools().get(tool).map_err(|message| CommandError { exit: Exit::Engine, message })?;
    let answer = call_with_progress(tool, session, arguments)?;
    debug_assert_eq!(answer.outcome, CallOutcome::Answered);
    Ok(answer)
}
