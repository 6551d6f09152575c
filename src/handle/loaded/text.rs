//! Formats the answer of a load as text.

use std::collections::BTreeSet;
use std::fmt::{self, Display, Write as _};

use super::{Diagnostic, LoadAnswer, LoadCause, LoadStatus, SystemOutcome};
use crate::answer::counted;

/// The maximum number of missing libraries in the text, and also of other reasons.
pub(crate) const MAX_CAUSES: usize = 12;

/// Formats the outcome, the failure, the diagnostics and the cautions. For several systems, lists
/// the reasons why some are not loaded.
impl Display for LoadAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&load_headed(self, &head(self), causes, false))
    }
}

/// Formats the answer with the outcome of each system and the diagnostics of libraries.
pub(crate) fn load_in_detail(answer: &LoadAnswer) -> String {
    load_headed(answer, &head(answer), systems, true)
}

fn head(answer: &LoadAnswer) -> String {
    let what = answer
        .system
        .as_deref()
        .map(|system| format!("System {system}"))
        .or_else(|| answer.path.as_deref().map(|path| format!("File {path}")))
        .unwrap_or_else(|| "The project".to_owned());
    let how = match answer.status {
        LoadStatus::Loaded => "is loaded",
        LoadStatus::Failed if !answer.systems.is_empty() => "is not loaded completely",
        LoadStatus::Failed => "is not loaded: the load failed",
        LoadStatus::Cancelled => "is not loaded: the load was cancelled",
        LoadStatus::TimedOut => "is not loaded: the time limit passed",
    };
    format!("{what} {how}")
}

/// Formats the answer of reload. If only files were reloaded, and all of them are loaded, the
/// heading names files.
pub(crate) fn reload(answer: &LoadAnswer) -> String {
    match answer.systems.is_empty() && answer.status == LoadStatus::Loaded {
        true => load_headed(answer, "The files are loaded again", causes, false),
        false => answer.to_string(),
    }
}

/// Adds the reasons why systems are not loaded, each once.
fn causes(answer: &LoadAnswer, text: &mut String) {
    let causes = answer.causes();
    if causes.is_empty() {
        return;
    }
    let of = counted(answer.systems.len(), "system is", "systems are");
    let _ = write!(text, "\n{} of {of} loaded.", answer.systems_loaded());
    let is_missing = |cause: &&LoadCause| cause.missing.is_some();
    let named = causes.iter().filter(is_missing).enumerate().take(MAX_CAUSES).map(|(at, cause)| {
        let need = counted(cause.systems, "system needs it", "systems need it");
        let need = if at == 0 { need } else { cause.systems.to_string() };
        format!("{} ({need})", cause.missing.as_deref().unwrap_or_default())
    });
    let mut named: Vec<String> = named.collect();
    let missing = causes.iter().filter(is_missing).count();
    if missing > MAX_CAUSES {
        named.push(format!("{} more", missing - MAX_CAUSES));
    }
    if !named.is_empty() {
        let _ = write!(text, " Missing: {}.", named.join(", "));
    }
    for remedy in answer.remedies_of_missing(&causes[..causes.len().min(MAX_CAUSES)]) {
        let _ = write!(text, "\n  Try: {remedy}");
    }
    let others: Vec<&LoadCause> = causes.iter().filter(|cause| cause.missing.is_none()).collect();
    for cause in others.iter().take(MAX_CAUSES) {
        let more = counted(cause.systems - 1, "other", "others");
        let more = if cause.systems > 1 { format!(" and {more}") } else { String::new() };
        let why = cause.message.as_deref().unwrap_or_default();
        let _ = write!(text, "\n  {}{more}: not loaded. {why}", cause.system);
        let failure = answer.systems.iter().find(|outcome| outcome.system == cause.system);
        failure.iter().for_each(|outcome| remedies(outcome, text));
    }
    if others.len() > MAX_CAUSES {
        let _ = write!(text, "\n  {} more not shown.", counted(others.len() - MAX_CAUSES, "cause", "causes"));
    }
}

/// Adds the outcome of each system.
fn systems(answer: &LoadAnswer, text: &mut String) {
    for system in &answer.systems {
        let _ = match (&system.status, &system.failure) {
            (LoadStatus::Loaded, _) => write!(text, "\n  {}: loaded", system.system),
            (_, Some(failure)) => write!(text, "\n  {}: not loaded. {}", system.system, failure.message),
            (_, None) => write!(text, "\n  {}: not loaded", system.system),
        };
        remedies(system, text);
    }
}

/// Adds the remedies for a system that is not loaded.
fn remedies(system: &SystemOutcome, text: &mut String) {
    for remedy in system.failure.iter().flat_map(|failure| &failure.remedies) {
        let _ = write!(text, "\n      Try: {remedy}");
    }
}

/// Formats the number of diagnostics of libraries. The text is empty if there are none.
pub(crate) fn of_libraries(diagnostics: &[Diagnostic]) -> String {
    let found = diagnostics.iter().filter(|diagnostic| diagnostic.library);
    let files: Vec<&str> = found.filter_map(|found| Some(found.place.as_ref()?.file.as_str())).collect();
    let (count, files) = (files.len(), files.into_iter().collect::<BTreeSet<_>>().len());
    let (found, files) = (counted(count, "diagnostic", "diagnostics"), counted(files, "file", "files"));
    if count == 0 { String::new() } else { format!("\n{found} in {files} of libraries") }
}

fn load_headed(
    answer: &LoadAnswer,
    head: &str,
    several: fn(&LoadAnswer, &mut String),
    libraries: bool,
) -> String {
    let mut text = format!(
        "{head} ({} compiled, {} from the cache, {:.1} s).",
        answer.compiled.len(),
        answer.cached.len(),
        answer.duration_ms as f64 / 1000.0
    );
    several(answer, &mut text);
    if let Some(failure) = &answer.failure {
        let _ = write!(text, "\n{}", failure.message);
        if let Some(path) = failure.path.as_deref().filter(|_| !failure.names_path()) {
            let _ = write!(text, "\n  at {path}");
        }
        for remedy in &failure.remedies {
            let _ = write!(text, "\n  Try: {remedy}");
        }
    }
    for found in answer.diagnostics.iter().filter(|found| libraries || !found.library) {
        let _ = write!(text, "\n{}:", found.severity.name());
        if let Some(place) = &found.place {
            let _ = write!(text, " {place}:");
        }
        let _ = write!(text, " {}", found.message.replace('\n', "\n    "));
        if found.kept {
            text.push_str(" (reported when the file was compiled)");
        }
    }
    let rest = if libraries { String::new() } else { of_libraries(&answer.diagnostics) };
    if !rest.is_empty() {
        text.extend([&rest, " (`detail` lists them)."]);
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
