//! find-definition's answer as text.

use std::fmt::Write as _;

use super::FindDefinitionAnswer;
use crate::source::positions::Evidence;

/// Renders find-definition: a line for each definition.
pub fn definitions(answer: &FindDefinitionAnswer) -> String {
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
            Evidence::Approximate if found.not_loaded => text.push_str(" (not loaded)"),
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
