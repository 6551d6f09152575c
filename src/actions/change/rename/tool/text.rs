//! Renders rename's answers as text.

use std::fmt::Write as _;

use super::{ListedRename, RunningRename, UndoneRename};
use crate::actions::change::rename::{Scope, Verified};
use crate::answer::name::readable;
use crate::answer::{Advice, Wording, counted, some_of};

/// Renders the plan or the applied edits. Writing to a string cannot fail.
pub(crate) fn rename(answer: &ListedRename, wording: Wording) -> String {
    let edits = counted(answer.plan.edits, "edit", "edits");
    let files = counted(answer.file_count, "file", "files");
    let mut text = format!("{} ", answer.plan.symbol);
    let new_name = readable(&answer.plan.new_name);
    let _ = match (answer.plan.conflicts.is_empty(), answer.applied) {
        (false, _) => write!(text, "cannot become {new_name}:"),
        (true, true) => write!(text, "is {new_name} now: {edits} in {files}."),
        (true, false) => write!(text, "would become {new_name}: {edits} in {files}."),
    };
    for conflict in &answer.plan.conflicts {
        let _ = write!(text, "\n  {}", conflict.message);
    }
    let scope = match answer.plan.scope {
        Scope::Narrow => "only this definition's uses",
        Scope::Auto | Scope::Symbol => "all tokens of the symbol, local variables too",
    };
    let _ = write!(text, "\nScope: {scope}. {}", answer.plan.reason);
    if answer.plan.key_parameters > 0 {
        let count = counted(answer.plan.key_parameters, "keyword parameter", "keyword parameters");
        let _ = write!(text, "\n{count} keep the keyword: ((:old new)).");
    }
    for derived in &answer.plan.derived {
        let how = if derived.renamed { "is renamed along" } else { "is not renamed" };
        let places = counted(derived.places, "place", "places");
        let _ = write!(text, "\n{} ({places}) {how}: {}.", derived.name, readable(&derived.new_name));
    }
    for caution in &answer.plan.cautions {
        let _ = write!(text, "\nNote: {}", caution.message);
        if !caution.names.is_empty() {
            let _ = write!(text, " {}", caution.names.join(", "));
        }
    }
    if !answer.plan.made_when_run.is_empty() {
        let places = some_of(&answer.plan.made_when_run, String::clone);
        let _ =
            write!(text, "\nNote: Code makes names of this form when it runs, maybe the old one: {places}.");
    }
    if !answer.plan.other_text.is_empty() {
        let _ = write!(text, "\n{} ", answer.plan.other_text.sentence());
        let _ = match answer.plan.edits_of_words() {
            0 => write!(text, "{}", Advice::IncludeText.worded(wording)),
            words => write!(text, "{} of them, by the word alone.", counted(words, "edit is", "edits are")),
        };
    }
    if let Some(verified) = &answer.verified {
        text.push('\n');
        text.push_str(&verification(verified));
    }
    hunks(answer, &mut text);
    if !answer.plan.doubtful.is_empty() {
        text.push_str("\nLeft as they are:\n");
        for left in &answer.plan.doubtful {
            let _ = write!(text, "  {}: {}\n      {}\n", left.place, left.reason, left.context);
        }
    }
    if let Some(seconds) = answer.verifying_takes_seconds {
        let _ = write!(text, "\nVerifying takes about {seconds} s here.");
    }
    let _ = write!(text, "\n{}", answer.next);
    if let Some(cursor) = &answer.cursor {
        let _ = write!(text, "\nMore follows: the next page has cursor {cursor}.");
    }
    text
}

/// Renders what is told of a rename that is still being verified.
pub(crate) fn running(answer: &RunningRename) -> String {
    let mut text = match (&answer.symbol, &answer.new_name) {
        (Some(symbol), Some(new_name)) => {
            format!("{symbol} is being verified as {new_name}, for {} s now", answer.seconds)
        }
        _ => format!("It is still being verified, for {} s now", answer.seconds),
    };
    if let Some(seconds) = answer.takes_seconds {
        let _ = write!(text, "; it takes about {seconds} s here");
    }
    let _ = write!(text, ". {}", answer.next);
    text
}

fn verification(verified: &Verified) -> String {
    let compared = format!(
        "{} and {} of {}",
        counted(verified.references, "cross reference", "cross references"),
        counted(verified.diagnostics, "diagnostic", "diagnostics"),
        verified.systems.join(", ")
    );
    let mut text = match verified.same {
        true if verified.anew => {
            format!(
                "Verified, with all files compiled anew: {compared} are the same, apart from the new name."
            )
        }
        true if verified.systems.is_empty() && !verified.failed.is_empty() => {
            "Nothing was verified.".to_owned()
        }
        true => format!("Verified: {compared} are the same, apart from the new name."),
        false => format!(
            "Not the same ({compared} were compared); {}:",
            counted(verified.differences_total, "difference", "differences")
        ),
    };
    for difference in &verified.differences {
        let _ = write!(text, "\n  {}", difference.message);
    }
    if verified.differences.len() < verified.differences_total {
        let _ = write!(text, "\n  and {} more", verified.differences_total - verified.differences.len());
    }
    if !verified.tested.is_empty() {
        let end = if verified.same { " with the same outcome" } else { "" };
        let _ = write!(text, "\nTested{end}: {}.", verified.tested.join(", "));
    }
    if !verified.made.is_empty() {
        let _ = write!(text, "\nMade by macros: {}.", verified.made.join(", "));
    }
    if verified.same && !verified.computed.is_empty() {
        let shown = some_of(&verified.computed, String::clone);
        let _ = write!(text, "\nNot verified, for it is made when code runs: a name that {shown} may make.");
    }
    for failed in &verified.failed {
        let _ = write!(text, "\nNot verified, for it does not load, before and after alike: {failed}");
    }
    if !verified.not_loaded.is_empty() {
        let files = verified.not_loaded.join(", ");
        let _ = write!(text, "\nNot verified, for no system that loads has them: {files}.");
    }
    text
}

fn hunks(answer: &ListedRename, text: &mut String) {
    text.push('\n');
    let shown: usize = answer.hunks.iter().map(|hunk| hunk.edits.len()).sum();
    if shown < answer.plan.edits {
        for file in &answer.plan.files {
            let _ = write!(text, "\n  {}: {}", file.path, counted(file.edits.len(), "edit", "edits"));
        }
        text.push('\n');
    }
    let mut path = None;
    for hunk in &answer.hunks {
        if path != Some(&hunk.path) {
            let _ = write!(text, "\n--- {0}\n+++ {0}\n", hunk.path);
            path = Some(&hunk.path);
        }
        text.push_str(&hunk.diff);
    }
}

/// Renders the outcome of an undo.
pub(crate) fn undone(answer: &UndoneRename) -> String {
    let mut text = format!("Undone: {}.", answer.what);
    match answer.restored.as_slice() {
        [] => text.push_str(" The files had their old texts already."),
        files => {
            let _ =
                write!(text, " {} restored: {}.", counted(files.len(), "file", "files"), files.join(", "));
        }
    }
    text.push_str(" If the new name was loaded: reload with remove=true.");
    text
}
