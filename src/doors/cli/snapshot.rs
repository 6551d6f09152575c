//! `steelbank snapshot`: saves the project's image with its systems loaded, so that later starts
//! are fast.

use super::project::no_project;
use super::{CommandError, Exit, Shell};
use crate::answer::Wording;
use crate::handle::snapshot::MakeError;

/// Makes the snapshot of the systems of --system.
pub(super) fn run(shell: &Shell) -> Result<Exit, CommandError> {
    let options = &shell.options.project;
    let usage = |message| CommandError { exit: Exit::Usage, message };
    let root = options.root()?;
    let folder = root.folder().ok_or_else(|| usage(no_project().worded(Wording::CommandLine)))?;
    let settings = options.settings(&root).ok_or_else(|| {
        usage("There is no cache folder for the snapshot. Set STEELBANK_CACHE or HOME.".to_owned())
    })?;
    let builder = shell.builder().project(settings).loads(options.loads());
    let made = builder.make_snapshot(|news| shell.output.error(news));
    match made {
        Ok(made) => {
            shell.output.text(&format!(
                "Snapshot of {} in {}: {:.1} MB.\n{}",
                options.systems().join(", "),
                folder.display(),
                made.bytes as f64 / 1e6,
                made.path.display()
            ))?;
            Ok(Exit::Answered)
        }
        Err(error @ MakeError::NoSystems) => Err(usage(sentence(&error))),
        Err(error) => Err(CommandError { exit: Exit::Engine, message: sentence(&error) }),
    }
}

/// Formats the error as a sentence.
fn sentence(error: &MakeError) -> String {
    let text = error.to_string();
    let mut letters = text.chars();
    let first: String = letters.next().into_iter().flat_map(char::to_uppercase).collect();
    format!("{first}{}.", letters.as_str().trim_end_matches('.'))
}
