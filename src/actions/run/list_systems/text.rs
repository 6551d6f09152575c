//! list-systems' answer as text.

use std::fmt::Write as _;

use super::SystemsAnswer;
use crate::answer::counted;

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
        for path in &system.also_defined_in {
            let how = if system.loaded { "which is not used" } else { "of which ASDF takes one" };
            let _ = write!(text, "\n      also defined in {path}, {how}");
        }
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
