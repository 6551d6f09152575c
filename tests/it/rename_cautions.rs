//! Tests cautions: a rename can break code that it does not edit. The tested code resembles code in
//! libraries.

use std::fs;

use steelbank::Control;
use steelbank::Steelbank;
use steelbank::actions::change::rename::{CautionKind, RenamePlan, RenameRequest};
use steelbank::loaded::LoadStatus;

use crate::project::{folder, load, project};
use crate::texts::write_project;

#[test]
fn plan_warns_of_code_that_may_break() {
    own_process!();
    let root = folder("rename-cautions");
    write_project(&root, include_str!("../projects/rename_cautions.txt"));
    let own = format!("(in-package :ct)\n(compile-file {:?})\n", root.join("contrib.lisp"));
    fs::write(root.join("own.lisp"), own).unwrap();
    let bank = project(&root, &root.join("cache"));
    let loaded = load(&bank, "ct");
    assert_eq!(loaded.status, LoadStatus::Loaded, "{loaded:#?}");

    for (name, kind) in [
        ("thing-kind", CautionKind::UseMade),
        ("chain", CautionKind::UseMade),
        ("starter", CautionKind::InString),
        ("weakness", CautionKind::UseMade),
        ("strong", CautionKind::UseMade),
        ("use-only", CautionKind::UseMade),
        ("start", CautionKind::LoopWord),
        ("loose", CautionKind::UseMade),
    ] {
        let plan = plan(&bank, name);
        let kinds: Vec<CautionKind> = plan.cautions.iter().map(|caution| caution.kind).collect();
        assert_eq!(kinds, [kind], "{name}: {plan:#?}");
        assert!(plan.conflicts.is_empty(), "{name}: {plan:#?}");
    }
    let keyword = plan(&bank, "sort-of");
    let told: Vec<_> =
        keyword.cautions.iter().map(|caution| (caution.kind, caution.names.as_slice())).collect();
    assert_eq!(told, [(CautionKind::Initarg, &["main.lisp:33".to_owned()][..])], "{keyword:#?}");
    let plain = plan(&bank, "plain");
    assert!(plain.cautions.is_empty() && plain.edits == 2, "{plain:#?}");

    // The file is compiled but not loaded: the image has no definitions of the accessors.
    let item = plan(&bank, "item");
    let edits: Vec<(&str, u32, &str)> = item
        .files
        .iter()
        .flat_map(|file| {
            file.edits.iter().map(|edit| (file.path.as_str(), edit.place.line.unwrap(), edit.new.as_str()))
        })
        .collect();
    assert_eq!(
        edits,
        [("contrib.lisp", 2, "item-2"), ("contrib.lisp", 3, "item-2-id"), ("contrib.lisp", 3, "make-item-2")],
        "{item:#?}"
    );
}

fn plan(bank: &Steelbank, name: &str) -> RenamePlan {
    let request = RenameRequest::new(format!("ct::{name}"), format!("{name}-2"));
    bank.ask(&request, &Control::default()).unwrap()
}
