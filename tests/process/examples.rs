//! Runs the examples: they do what the documentation says.

use std::path::PathBuf;
use std::process::Command;

use crate::program::Folder;

/// Returns the path of an example that cargo has built, beside the folder of the tests.
fn example(name: &str) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.ancestors().nth(2).unwrap().join("examples").join(name)
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn callers() {
    let run = |arguments: &[&str]| run(Command::new(example("callers")).args(arguments));
    let text = run(&[]);
    assert!(text.starts_with("Functions that call COMMON-LISP::MAPCAR:\n\n  "), "{text}");
    assert!(text.lines().count() > 300, "{text}");
    assert_eq!(
        run(&["nonesuch", "cl"]),
        "Symbol NONESUCH not found in package CL. Load the system that defines it, or correct the name.\n"
    );
}

#[test]
fn load() {
    let text = run(&mut Command::new(example("load")));
    assert!(text.contains("compile"), "{text}");
    assert!(text.contains("demo is Loaded; 1 compiled\n"), "{text}");
    assert!(text.ends_with("TWICE calls MAPCAR: true\nslow was called off\n"), "{text}");
}

#[test]
fn tokio() {
    let text = run(&mut Command::new(example("tokio")));
    assert_eq!(
        text,
        "MAPCAR has hundreds of callers: true\nsquares: [0, 1, 4, 9, 16]\nCAR is described: true\n"
    );
}

#[test]
fn parallel() {
    let text = run(&mut Command::new(example("parallel")));
    assert_eq!(text.lines().count(), 8, "{text}");
    assert!(text.lines().all(|line| line.ends_with(" callers")), "{text}");
}

/// Checks that a program that uses the library is one file: copied away, and with an empty environment, it
/// answers.
#[test]
fn one_file() {
    let folder = Folder::new("example-one-file");
    let program = folder.join("program");
    std::fs::copy(example("one_file"), &program).unwrap();
    let text = run(Command::new(&program).env_clear().current_dir(&folder));
    assert!(text.starts_with("COMMON-LISP::*PRINT-BASE* [VARIABLE]\n  Value: 10\n"), "{text}");
    // And one that does not ask for the core has no section of it: the linker drops it.
    let has_core = |name: &str| {
        let sections = run(Command::new("readelf").args(["-S", "--wide"]).arg(example(name)));
        assert!(sections.contains(".text"), "{sections}");
        sections.contains("lisp.core")
    };
    assert!(has_core("one_file") && !has_core("callers"));
}
