//! Compares plans of renames, with their cautions and errors, with rename_plan.txt.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use steelbank::Control;
use steelbank::actions::change::rename::{Derived, RenamePlan, RenameRequest, Scope};
use steelbank::loaded::LoadStatus;

use crate::project::{folder, load, project};
use crate::texts::{expect, write_project};

#[test]
fn rename_plans_match_the_table() {
    own_process!();
    let root = folder("rename-plan");
    let text = include_str!("../projects/renames.txt");
    write_project(&root, &text.replace("LONG", &"x".repeat(5000)));
    let bank = project(&root, &root.join("cache"));
    assert_eq!(load(&bank, "rn").status, LoadStatus::Loaded);

    let mut text = String::new();
    // The headings of the expected text are the requests.
    let headings = include_str!("rename_plan.txt").lines();
    for line in headings.filter(|line| line.starts_with("# ") || line.starts_with("== ")) {
        writeln!(text, "\n{line}").unwrap();
        let Some(renamed) = line.strip_prefix("== ") else { continue };
        let words: Vec<&str> = renamed.split(' ').collect();
        let [name, new, options @ ..] = &words[..] else { panic!("{line}") };
        let has = |option: &str| options.contains(&option);
        let request = RenameRequest {
            scope: if has("symbol") { Scope::Symbol } else { Scope::Auto },
            comments: has("comments"),
            strings: has("strings"),
            derived: has("derived"),
            ..RenameRequest::new(*name, *new)
        };
        match bank.ask(&request, &Control::default()) {
            Ok(plan) => report(&mut text, &root, &plan),
            Err(error) => writeln!(text, "error: {error}").unwrap(),
        }
    }
    expect("it/rename_plan.txt", &text.replace(&"x".repeat(5000), "LONG"));
}

/// Writes the plan, with the lines that it changes.
fn report(text: &mut String, root: &Path, plan: &RenamePlan) {
    writeln!(text, "{:?}, edits: {}, places: {}", plan.scope, plan.edits, plan.places).unwrap();
    writeln!(text, "because: {}", plan.reason).unwrap();
    if plan.key_parameters > 0 {
        writeln!(text, "key parameters: {}", plan.key_parameters).unwrap();
    }
    for file in &plan.files {
        let before = fs::read_to_string(root.join(&file.path)).unwrap();
        let mut after = before.clone();
        for edit in file.edits.iter().rev() {
            assert_eq!(&after[edit.range.indices()], edit.old);
            let (line, column) = (edit.place.line.unwrap() as usize, edit.place.column.unwrap() as usize);
            let there: String = before.lines().nth(line - 1).unwrap().chars().skip(column - 1).collect();
            assert!(there.starts_with(&edit.old), "{}: {}", edit.place, edit.old);
            after.replace_range(edit.range.indices(), &edit.new);
        }
        for (number, (old, new)) in before.lines().zip(after.lines()).enumerate() {
            if old != new {
                writeln!(text, "{}:{}: {new}", file.path, number + 1).unwrap();
            }
        }
    }
    for conflict in &plan.conflicts {
        writeln!(text, "conflict {:?}: {}", conflict.kind, conflict.message).unwrap();
    }
    for caution in &plan.cautions {
        writeln!(text, "caution {:?} {}: {}", caution.kind, caution.names.join(" "), caution.message)
            .unwrap();
    }
    for derived in &plan.derived {
        let Derived { name, new_name, places, renamed, .. } = derived;
        writeln!(text, "derived {name}: {new_name}, places: {places}, renamed: {renamed}").unwrap();
    }
    for doubt in &plan.doubtful {
        writeln!(text, "doubtful {}: {}", doubt.place, doubt.reason).unwrap();
    }
}
