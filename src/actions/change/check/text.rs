//! Renders the answer of check.

use std::fmt::Write as _;

use crate::actions::change::check::CheckAnswer;
use crate::handle::loaded::{Diagnostic, Severity};

/// Renders whether the system or files load, the failures, and the diagnostics.
pub fn check(answer: &CheckAnswer) -> String {
    let what = match answer.systems.as_slice() {
        [] => "What was asked about".to_owned(),
        [system] => format!("System {system}"),
        systems => format!("Not all of {}", systems.join(", ")),
    };
    let mut text = match (answer.loads, answer.systems.len()) {
        (true, 2..) => format!("{} load", answer.systems.join(", ")),
        (true, _) => format!("{what} loads"),
        (false, 2..) => format!("{what} load"),
        (false, _) => format!("{what} does not load"),
    };
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        " ({} compiled, {:.1} s). It was tried in a {} of the image{}.",
        answer.compiled.len(),
        answer.duration_ms as f64 / 1000.0,
        if answer.confined { "confined copy" } else { "copy" },
        if answer.confined { ", which may write in a folder of its own only" } else { "" },
    );
    if !answer.refused.is_empty() {
        let _ = write!(text, "\nIt was refused to write {}.", answer.refused.join(", "));
    }
    if !answer.not_loaded.is_empty() {
        let _ = write!(
            text,
            "\nNo system that was checked loads {}: name one that does, or check the file without a system.",
            answer.not_loaded.join(", ")
        );
    }
    for failure in &answer.failures {
        let _ = write!(text, "\n{}", failure.message);
        for remedy in &failure.remedies {
            let _ = write!(text, "\n  Try: {remedy}");
        }
    }
    for said in &answer.diagnostics {
        diagnostic(&mut text, said);
    }
    if let Some(total) = answer.diagnostics_total {
        let _ = write!(text, "\n… {} more", total.saturating_sub(answer.diagnostics.len()));
    }
    text
}

fn diagnostic(text: &mut String, said: &Diagnostic) {
    text.push('\n');
    if let Some(place) = &said.place {
        let _ = write!(text, "{place}: ");
    }
    let _ = write!(text, "{}: {}", Severity::name(said.severity), said.message);
}
