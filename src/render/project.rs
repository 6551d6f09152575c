//! Renders answers about the project: references, definitions, loads, systems.

use std::fmt::Write as _;

use crate::answer::Wording;
use crate::answer::location::columns;
use crate::query::Evidence;
use crate::query::code_find_references::{self, UseType};
use crate::query::counted;
use crate::query::find_definition;
use crate::query::list_systems::SystemsAnswer;
use crate::query::load_system::{LoadAnswer, LoadStatus, Severity};
use crate::query::text::TextState;
use steelbank_watch::WatchRefusal;

/// Renders the reason for which the project's tree is not watched, with a remedy.
pub(crate) fn unwatched(refusal: WatchRefusal) -> String {
    format!(
        "The project's tree is not watched, as {refusal}: each question looks at every file. To have it watched, {}, and \
         start steelbank again.",
        refusal.remedy()
    )
}

/// Renders code-find-references: a line for each place, then the cautions.
pub fn references(answer: &code_find_references::CodeFindReferencesAnswer, wording: Wording) -> String {
    let unseen = match answer.text_total {
        0 => String::new(),
        total => format!(", and {} in text that the image does not have", counted(total, "place", "places")),
    };
    let mut text = match answer.total {
        0 if unseen.is_empty() => format!("No references found for {}", answer.symbol),
        0 => format!("0 references to {} in the image{unseen}:\n", answer.symbol),
        total => {
            format!("{} to {}{unseen}:\n", counted(total, "reference", "references"), answer.symbol)
        }
    };
    for found in &answer.refs {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {}: {}", found.place, use_name(found.use_type));
        match (found.evidence, &found.via) {
            (Evidence::Exact, _) => {}
            (Evidence::Via, Some(via)) => {
                let _ = write!(text, " via {via}");
            }
            (Evidence::Via | Evidence::Approximate, _) => text.push_str(" (approximate)"),
        }
        if let Some(caller) = &found.caller {
            let _ = write!(text, " in {caller}");
        }
        for (places, what) in [(&found.tokens, "also at"), (&found.approximate, "perhaps also at")] {
            let others = columns(places).into_iter().filter(|column| Some(*column) != found.place.column);
            let others: Vec<String> = others.map(|column| column.to_string()).collect();
            if !others.is_empty() {
                let _ = write!(text, ", {what} {}", others.join(", "));
            }
        }
        if found.stale {
            text.push_str(" (file changed since it was loaded)");
        }
        if let Some(context) = &found.context {
            let _ = write!(text, "\n      {context}");
        }
    }
    for found in &answer.text {
        let state = match found.state {
            TextState::NotLoaded => "not loaded",
            TextState::Changed => "changed since it was loaded",
            TextState::Unrecorded => "loaded without a record",
            TextState::LeftOut => "left out by a feature expression",
            TextState::Named => "a name from which code makes the symbol",
        };
        let possible = if found.possible { ", perhaps another symbol" } else { "" };
        let Some((first, others)) = found.tokens.split_first() else { continue };
        let _ = write!(text, "\n  {first}: text ({state}{possible})");
        let others: Vec<String> = columns(others).iter().map(u32::to_string).collect();
        if !others.is_empty() {
            let _ = write!(text, ", also at {}", others.join(", "));
        }
        let _ = write!(text, "\n      {}", found.context);
    }
    if !answer.cautions.is_empty() {
        text.push('\n');
    }
    for caution in &answer.cautions {
        let _ = write!(text, "\nNote: {}", caution.worded(wording));
    }
    text
}

fn use_name(use_type: UseType) -> &'static str {
    match use_type {
        UseType::Call => "call",
        UseType::Macro => "macro",
        UseType::Bind => "bind",
        UseType::Set => "set",
        UseType::Reference => "reference",
        UseType::Specialize => "specialize",
        UseType::Class => "class",
        UseType::Type => "type",
        UseType::Slot => "slot",
        UseType::Function => "function",
        UseType::Declaration => "declaration",
        UseType::Export => "export",
        UseType::Import => "import",
        UseType::Block => "block",
        UseType::Quoted => "quoted",
        UseType::Template => "template",
        UseType::ReadTime => "read-time",
        UseType::Mention => "mention",
    }
}

/// Renders find-definition: a line for each definition.
pub fn definitions(answer: &find_definition::FindDefinitionAnswer) -> String {
    if answer.definitions.is_empty() {
        return format!("No definition with a known source found for {}", answer.symbol);
    }
    let mut text = format!("Definitions of {}:\n", answer.symbol);
    for found in &answer.definitions {
        let _ = write!(text, "\n  {}: {} {}", found.place, found.kind, found.name);
        match found.evidence {
            Evidence::Exact => {}
            Evidence::Via => match &found.made_by {
                Some(operator) => {
                    let _ = write!(text, " (made by {operator})");
                }
                None => text.push_str(" (made by this form)"),
            },
            Evidence::Approximate => text.push_str(" (approximate)"),
        }
        if let Some(kind) = &found.defines {
            let _ = write!(text, " ({kind})");
        }
        if found.stale {
            text.push_str(" (file changed since it was loaded)");
        }
        if let Some(context) = &found.context {
            let _ = write!(text, "\n      {context}");
        }
    }
    text
}

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

/// Renders list-systems: a line for each system.
pub fn systems(answer: &SystemsAnswer) -> String {
    let mut text = match answer.systems.is_empty() {
        true => format!("No .asd file found below {}", answer.root),
        false => format!("Systems of {}:\n", answer.root),
    };
    for system in &answer.systems {
        let state = match (system.loaded, system.changed.len()) {
            (true, 0) => "loaded".to_owned(),
            (true, changed) => format!("loaded, {} changed since", counted(changed, "file", "files")),
            (false, _) => "not loaded".to_owned(),
        };
        let _ = write!(text, "\n  {} ({state}) {}", system.name, system.asd);
        for path in &system.changed {
            let _ = write!(text, "\n      changed: {path}");
        }
        for path in &system.components {
            let _ = write!(text, "\n      {path}");
        }
        if system.incomplete {
            text.push_str("\n      Its definition tells all of its files only when it is loaded.");
        }
    }
    if !answer.vendored.is_empty() {
        let _ = write!(text, "\nNot listed, as they are dependencies: {}", answer.vendored.join(", "));
    }
    for left_out in &answer.left_out {
        let _ = write!(text, "\nLeft out: {}: {}", left_out.path, left_out.reason);
    }
    text
}
