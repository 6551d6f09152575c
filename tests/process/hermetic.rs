//! Tests of the core's ASDF and features.

use std::fs;
use std::process::Command;

use serde_json::json;

use crate::fixtures::{NO_LIBRARIES, newer_asdf};
use crate::program::{Folder, STEELBANK, Streams, ends_well, initialized, on, outcome, server};
use crate::texts::write_project;

/// ASDF takes a newer version of itself from the registry, such as Debian's cl-asdf: from
/// snapshots, in scratch images, and after a restart. Fasls that need it are not used without it.
#[test]
fn newer_asdf_in_the_registry_is_used() {
    let folder = Folder::new("newer-asdf");
    let (root, cache, registry) = (folder.join("project"), folder.join("cache"), newer_asdf());
    fs::create_dir_all(&root).unwrap();
    write_project(&root, include_str!("../projects/local_nicknames.txt"));
    let run = |registry: &str, arguments: &[&str]| {
        let mut command = on(&root, &cache);
        command.args(arguments).env("CL_SOURCE_REGISTRY", registry);
        let (text, errors, _) = outcome(&command.output().unwrap());
        text + &errors
    };
    let form = "(list (uiop:version<= \"3.3.5\" (asdf:asdf-version)) (mi/main:run 2))";
    for (arguments, expected) in [
        (&["snapshot"][..], "Snapshot of mi in"),
        (&["evaluate", form], "(T 5)"),
        (&["--no-snapshot", "evaluate", form], "(T 5)"),
        (&["who-calls", "mi/util:helper"], "main.lisp:4:17: mi/main:run"),
        (&["check"], "System mi loads"),
        (&["rename", "mi/util:helper", "mi/util:assist", "--apply"], "Verified"),
        (&["evaluate", form], "(T 5)"),
        (&["load-system", "any-version"], "System any-version is loaded"),
    ] {
        let text = run(&registry, &[&["--system", "mi"], arguments].concat());
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }

    let mut command = server();
    command.arg("--allow-eval").current_dir(&root);
    command.env("STEELBANK_CACHE", &cache).env("CL_SOURCE_REGISTRY", &registry);
    let (child, mut client) = initialized(command, Streams::Pipes);
    for _ in 0..2 {
        assert_eq!(client.structured("load-system", json!({ "system": "mi" }))["status"], "loaded");
        assert!(client.text("evaluate", json!({ "code": form })).starts_with("(T 5)"));
        client.text("restart-lisp", json!({}));
    }
    ends_well(child, client);

    let place = "macro.lisp:1:1: (during macroexpansion of (UIOP/PACKAGE:DEFINE-PACKAGE";
    for (system, expected) in [
        ("mi", "mi.asd:1:62: System asdf has version 3.3.1; mi depends on version 3.3.5."),
        ("any-version", place),
    ] {
        let text = run(NO_LIBRARIES, &["load-system", system]);
        assert!(text.contains(expected), "{system}: {text}");
    }
}

/// The reader has the core's features. `STEELBANK_BLESS=1` writes them.
#[test]
fn reader_has_the_cores_features() {
    let form = "(dolist (name (sort (mapcar #'string-downcase *features*) #'string<)) (write-line name))";
    let output = Command::new(STEELBANK).args(["--json", "evaluate", form]).output().unwrap();
    let (text, errors, code) = outcome(&output);
    assert_eq!(code, Some(0), "{text}{errors}");
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    let features = answer["output"].as_str().unwrap();
    let list = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/reader/src/sbcl-features.txt");
    if std::env::var_os("STEELBANK_BLESS").is_some() {
        fs::write(list, features).unwrap();
    }
    assert_eq!(fs::read_to_string(list).unwrap(), features, "STEELBANK_BLESS=1 writes them");
}
