//! Formats the answers of `rename` as text.

use std::fmt::{self, Write as _};

use super::{ListedRename, RunningRename};
use crate::actions::change::rename::{Applied, Doubt, FileEdits, Hunk, RenamePlan, Scope, Undone, Verified};
use crate::answer::name::readable;
use crate::answer::{Advice, Wording, counted, some_of};

/// Formats the plan or the applied edits. Writing to a string cannot fail.
pub(super) fn rename(answer: &ListedRename, wording: Wording) -> String {
    let mut text = head(&answer.plan, answer.file_count, answer.applied, Some(wording));
    if let Some(verified) = &answer.verified {
        let _ = write!(text, "\n{verified}");
    }
    edits(&mut text, &answer.plan, &answer.hunks);
    if let Some(seconds) = answer.verifying_takes_seconds {
        let _ = write!(text, "\nVerifying takes about {seconds} s here.");
    }
    let _ = write!(text, "\n{}", answer.next);
    if let Some(cursor) = &answer.cursor {
        let _ = write!(text, "\nMore follows: the next page has cursor {cursor}.");
    }
    text
}

impl fmt::Display for RenamePlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = head(self, self.files.len(), false, None);
        edits(&mut text, self, &[]);
        f.write_str(text.trim_end())
    }
}

/// Formats the effect of the rename and the number of `files`, with conflicts and cautions.
/// Includes advice if `worded` is given.
fn head(plan: &RenamePlan, files: usize, applied: bool, worded: Option<Wording>) -> String {
    let edits = counted(plan.edits, "edit", "edits");
    let files = counted(files, "file", "files");
    let new_name = readable(&plan.new_name);
    let mut text = match (plan.conflicts.is_empty(), applied) {
        (false, _) => format!("{} cannot be renamed to {new_name}:", plan.symbol),
        (true, true) => format!("{} was renamed to {new_name}: {edits} in {files}.", plan.symbol),
        (true, false) => format!("{} would be renamed to {new_name}: {edits} in {files}.", plan.symbol),
    };
    for conflict in &plan.conflicts {
        let _ = write!(text, "\n  {}", conflict.message);
    }
    let scope = match plan.scope {
        Scope::Narrow => "only this definition's uses",
        Scope::Auto | Scope::Symbol => "all tokens of the symbol, also local variables",
    };
    let _ = write!(text, "\nScope: {scope}. {}", plan.reason);
    if plan.key_parameters > 0 {
        let count = counted(plan.key_parameters, "keyword parameter", "keyword parameters");
        let _ = write!(text, "\n{count} will keep the keyword, as in ((:old new)).");
    }
    for derived in &plan.derived {
        let how = if derived.renamed { "is renamed too" } else { "is not renamed" };
        let places = counted(derived.places, "place", "places");
        let _ = write!(text, "\n{} ({places}) {how}: {}.", derived.name, readable(&derived.new_name));
    }
    for caution in &plan.cautions {
        let _ = write!(text, "\nNote: {}", caution.message);
        if !caution.names.is_empty() {
            let _ = write!(text, " {}", caution.names.join(", "));
        }
    }
    if !plan.made_when_run.is_empty() {
        let places = some_of(&plan.made_when_run, String::clone);
        let _ = write!(
            text,
            "\nNote: Code at these places generates names at run time, perhaps the old name: {places}."
        );
    }
    if !plan.strings.is_empty() {
        let _ = write!(text, "\nThe name is in strings that code may read: {}", plan.strings.listed());
    }
    if !plan.other_text.is_empty() {
        let _ = write!(text, "\n{}", plan.other_text.sentence());
        let _ = match (plan.edits_of_words(), worded) {
            (0, Some(wording)) => write!(text, " {}", Advice::IncludeText.worded(wording)),
            (0, None) => Ok(()),
            (words, _) => {
                write!(text, " {} of such words.", counted(words, "edit is", "edits are"))
            }
        };
    }
    text
}

/// Appends the edits as `hunks`, with edit counts by file unless all edits are shown, and the
/// doubtful places.
fn edits(text: &mut String, plan: &RenamePlan, hunks: &[Hunk]) {
    let shown: usize = hunks.iter().map(|hunk| hunk.edits.len()).sum();
    edits_text(text, &plan.files, shown < plan.edits, hunks, &plan.doubtful);
}

/// Appends the edits of a plan as `hunks`, with the edit counts of `files` if `counts` is true, and
/// the doubtful places.
pub(crate) fn edits_text(
    text: &mut String,
    files: &[FileEdits],
    counts: bool,
    hunks: &[Hunk],
    doubtful: &[Doubt],
) {
    text.push('\n');
    if counts {
        for file in files {
            let _ = write!(text, "\n  {}: {}", file.path, counted(file.edits.len(), "edit", "edits"));
        }
        text.push('\n');
    }
    let mut path = None;
    for hunk in hunks {
        if path != Some(&hunk.path) {
            let _ = write!(text, "\n--- {0}\n+++ {0}\n", hunk.path);
            path = Some(&hunk.path);
        }
        text.push_str(&hunk.diff);
    }
    if !doubtful.is_empty() {
        text.push_str("\nNot edited:\n");
        for left in doubtful {
            let _ = write!(text, "  {}: {}\n      {}\n", left.place, left.reason, left.context);
        }
    }
}

/// Formats the answer for a rename that is still being verified.
pub(super) fn running(answer: &RunningRename) -> String {
    let mut text = match (&answer.symbol, &answer.new_name) {
        (Some(symbol), Some(new_name)) => {
            format!("The rename of {symbol} to {new_name} is being verified, for {} s so far", answer.seconds)
        }
        _ => format!("The rename is still being verified, for {} s so far", answer.seconds),
    };
    if let Some(seconds) = answer.takes_seconds {
        let _ = write!(text, "; it takes about {seconds} s here");
    }
    let _ = write!(text, ". {}", answer.next);
    text
}

impl Verified {
    /// Returns a text for edits that may change cross references.
    pub(crate) fn of_loads(&self) -> impl fmt::Display {
        let mut text = String::new();
        let systems = self.systems.join(", ");
        let diagnostics = counted(self.diagnostics, "diagnostic", "diagnostics");
        // Writing to a string cannot fail.
        let _ =
            self.write(&mut text, &format!("the loads of {systems}, with {diagnostics},"), "are the same.");
        text
    }

    fn write(&self, f: &mut dyn fmt::Write, compared: &str, same: &str) -> fmt::Result {
        match self.same {
            true if self.recompiled => write!(f, "Verified, with all files recompiled: {compared} {same}"),
            true if self.systems.is_empty() && !self.failed.is_empty() => {
                f.write_str("Nothing was verified.")
            }
            true => write!(f, "Verified: {compared} {same}"),
            false => {
                let differences = counted(self.differences_total, "difference", "differences");
                write!(f, "Not equivalent; {differences}:")
            }
        }?;
        for difference in &self.differences {
            write!(f, "\n  {}", difference.message)?;
        }
        if let more @ 1.. = self.differences_total.saturating_sub(self.differences.len()) {
            write!(f, "\n  and {more} more")?;
        }
        if !self.tested.is_empty() {
            let end = if self.same { " with the same outcome" } else { "" };
            write!(f, "\nTested{end}: {}.", self.tested.join(", "))?;
        }
        if !self.generated.is_empty() {
            write!(f, "\nGenerated by macros: {}.", self.generated.join(", "))?;
        }
        if self.same && !self.computed.is_empty() {
            let shown = some_of(&self.computed, String::clone);
            write!(f, "\nNot verified, because code generates them at run time: names from {shown}.")?;
        }
        // A load that fails only after the rename is a difference.
        for failed in self.failed.iter().filter(|_| self.same) {
            write!(f, "\nNot verified, because loading fails: {failed}")?;
        }
        if self.same && !self.not_loaded.is_empty() {
            let files = self.not_loaded.join(", ");
            write!(f, "\nNot verified, because no system that loads contains them: {files}.")?;
        }
        Ok(())
    }
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let compared = format!(
            "{} and {} of {}",
            counted(self.references, "cross reference", "cross references"),
            counted(self.diagnostics, "diagnostic", "diagnostics"),
            self.systems.join(", ")
        );
        self.write(f, &compared, "are the same, apart from the new name.")
    }
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let files = counted(self.files.len(), "file", "files");
        write!(f, "Edit {} has written {files}: {}.", self.undo, self.files.join(", "))
    }
}

impl fmt::Display for Undone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Undone: {}.", self.what)?;
        match self.files.as_slice() {
            [] => f.write_str(" The files already had their old texts."),
            files => {
                write!(f, " {} restored: {}.", counted(files.len(), "file", "files"), files.join(", "))
            }
        }
    }
}
