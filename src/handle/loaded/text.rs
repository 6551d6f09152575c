//! A load's answer as text.

use std::fmt::Write as _;

use super::{LoadAnswer, LoadStatus, Severity};
use crate::answer::counted;

/// Renders load-system and load-file: the outcome, the failure, and the diagnostics.
pub fn load(answer: &LoadAnswer) -> String {
    let what = answer
        .system
        .as_deref()
        .map(|system| format!("System {system}"))
        .or_else(|| answer.path.as_deref().map(|path| format!("File {path}")))
        .unwrap_or_else(|| "The project".to_owned());
    let how = match answer.status {
        LoadStatus::Loaded => "is loaded",
        LoadStatus::Failed if !answer.systems.is_empty() => "is not loaded whole",
        LoadStatus::Failed => "is not loaded: it failed",
        LoadStatus::Cancelled => "is not loaded: it was called off",
        LoadStatus::TimedOut => "is not loaded: its time was over",
    };
    load_headed(answer, &format!("{what} {how}"))
}

/// Renders what reload loaded: systems, or else single files, loaded by hand or by a load that failed.
pub(crate) fn reload(answer: &LoadAnswer) -> String {
    match answer.systems.is_empty() && answer.status == LoadStatus::Loaded {
        true => load_headed(answer, "They are loaded again"),
        false => load(answer),
    }
}

fn load_headed(answer: &LoadAnswer, head: &str) -> String {
    let mut text = format!(
        "{head} ({} compiled, {} from the cache, {:.1} s).",
        answer.compiled.len(),
        answer.cached.len(),
        answer.duration_ms as f64 / 1000.0
    );
    for system in &answer.systems {
        let _ = match (&system.status, &system.failure) {
            (LoadStatus::Loaded, _) => write!(text, "\n  {}: loaded", system.system),
            (_, Some(failure)) => write!(text, "\n  {}: not loaded. {}", system.system, failure.message),
            (_, None) => write!(text, "\n  {}: not loaded", system.system),
        };
        for remedy in system.failure.iter().flat_map(|failure| &failure.remedies) {
            let _ = write!(text, "\n      Try: {remedy}");
        }
    }
    if let Some(failure) = &answer.failure {
        let _ = write!(text, "\n{}", failure.message);
        if let Some(path) = failure.path.as_deref().filter(|path| !failure.message.contains(path)) {
            let _ = write!(text, "\n  at {path}");
        }
        for remedy in &failure.remedies {
            let _ = write!(text, "\n  Try: {remedy}");
        }
    }
    for severity in [Severity::ReadError, Severity::Error, Severity::Warning, Severity::StyleWarning] {
        for found in answer.diagnostics.iter().filter(|found| found.severity == severity) {
            let _ = write!(text, "\n{}: ", severity.name());
            if let Some(place) = &found.place {
                let _ = write!(text, "{place}:");
            }
            let _ = write!(text, " {}", found.message.replace('\n', "\n    "));
            if found.kept {
                text.push_str(" (said when the file was compiled)");
            }
        }
    }
    for caution in &answer.cautions {
        let _ = write!(text, "\nNote: {caution}");
    }
    if let Some(total) = answer.diagnostics_total {
        let left = total - answer.diagnostics.len();
        let left = counted(left, "more diagnostic is", "more diagnostics are");
        let _ = write!(text, "\n... {left} left out.");
    }
    text
}
