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
    let symbol = answer.symbol.canonical();
    let mut text = match answer.total {
        0 if unloaded.is_empty() => format!("No references found for {symbol}"),
        0 => format!("0 references to {symbol}{unloaded}:\n"),
        total => {
            format!("{} to {symbol}{unloaded}:\n", counted(total, "reference", "references"))
        }
    };
    for found in &answer.refs {
        let _ = write!(text, "\n  {}: {}", found.place, found.use_type);
        if let Some(parent) = &found.handles {
            let _ = write!(text, " of the parent {parent}");
        }
        if found.written && found.use_type != UseType::Set {
            text.push_str(", written");
        }
        match (found.evidence, &found.via) {
            (Evidence::Exact, _) => {}
            (Evidence::Via, Some(via)) => {
                let _ = write!(text, " via {via}");
            }
            (Evidence::Via | Evidence::Approximate, _) => text.push_str(" (approximate)"),
        }
        if let Some(caller) = &found.caller {
            let _ = write!(text, " in {}", caller.canonical());
        }
        for (columns, what) in [(&found.columns, "also at"), (&found.approximate_columns, "perhaps also at")]
        {
            let others = columns.iter().filter(|column| Some(**column) != found.place.column);
            let others: Vec<String> = others.map(u32::to_string).collect();
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
            TextState::NoSidecar => "loaded without a record",
            TextState::FeatureExcluded => "left out by a feature expression",
            TextState::RuntimeName => "interned as the symbol at run time",
            TextState::InString => "a string that code may read",
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
        let _ = write!(text, "\nNote: {}", worded(caution));
    }
    text
}
