//! Renders code-find-references' answer as the contract's text.

use std::fmt::Write as _;

use super::{CodeFindReferencesAnswer, UseType};
use crate::actions::uses::unloaded::TextState;
use crate::answer::location::columns;
use crate::answer::{Caution, counted};
use crate::source::positions::Evidence;

impl std::fmt::Display for CodeFindReferencesAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&references(self, Caution::to_string))
    }
}

/// Renders each entry with its line of code, then the cautions; `worded` formats a caution.
pub(super) fn references(answer: &CodeFindReferencesAnswer, worded: impl Fn(&Caution) -> String) -> String {
    let unloaded = match answer.text_total {
        0 => String::new(),
        total if answer.text.iter().all(|found| found.state == TextState::InString) => {
            format!(", and {total} in strings")
        }
        total => format!(", and {total} in text that is not loaded"),
    };
    let symbol = &answer.symbol;
    let mut text = match answer.total {
        0 if unloaded.is_empty() => format!("No references found for {symbol}"),
        0 => format!("0 references to {symbol}{unloaded}:\n"),
        total => {
            format!("{} to {symbol}{unloaded}:\n", counted(total, "reference", "references"))
        }
    };
    for found in &answer.refs {
        // The line of a package definition shows nothing about the symbol.
        let context = found.context.as_deref().unwrap_or_default();
        let context = if found.use_type.is_listing() { "" } else { context };
        // Most uses are calls, so the text marks other uses only.
        let mut said = String::new();
        if found.use_type != UseType::Call {
            said.push_str(found.use_type.name());
        }
        if let Some(parent) = &found.handles {
            let _ = write!(said, " of the parent {parent}");
        }
        if found.written && found.use_type != UseType::Set {
            said.push_str(" written");
        }
        match (found.evidence, &found.via) {
            (Evidence::Exact, _) => {}
            (Evidence::Via, Some(via)) => said.extend([" via ", via]),
            (Evidence::Via | Evidence::Approximate, _) => said.push_str(" (approximate)"),
        }
        let caller = found.caller.as_ref().and_then(|caller| caller.unless_in(context, &answer.symbol));
        caller.iter().for_each(|caller| said.extend([" in ", caller]));
        for (columns, what) in
            [(&found.columns, "also column"), (&found.approximate_columns, "perhaps column")]
        {
            let others = columns.iter().filter(|column| Some(**column) != found.place.column);
            let others: Vec<String> = others.map(u32::to_string).collect();
            if !others.is_empty() {
                said.extend([" ", what, " ", &others.join(", ")]);
            }
        }
        if found.stale {
            said.push_str(" (file changed since it was loaded)");
        }
        let parts = [&found.place.to_string(), said.trim_start(), context];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        let _ = write!(text, "\n{}", parts.join(": "));
    }
    for found in &answer.text {
        let possible = if found.possible { ", perhaps another symbol" } else { "" };
        let Some((first, others)) = found.tokens.split_first() else { continue };
        let _ = write!(text, "\n{first}: text ({}{possible})", found.state);
        let others: Vec<String> = columns(others).iter().map(u32::to_string).collect();
        if !others.is_empty() {
            let _ = write!(text, ", also column {}", others.join(", "));
        }
        let _ = write!(text, ": {}", found.context);
    }
    if !answer.cautions.is_empty() {
        text.push('\n');
    }
    for caution in &answer.cautions {
        let _ = write!(text, "\nNote: {}", worded(caution));
    }
    text
}
