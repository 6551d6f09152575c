//! Runs the programs in examples/.

use std::path::PathBuf;
use std::process::Command;

use crate::program::Folder;
use crate::texts::expect_text;

/// Returns the path of an example that cargo built.
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
    let text = run(&mut Command::new(example("callers")));
    assert!(text.lines().count() > 300, "{text}");
    let output = Command::new(example("callers")).args(["nonesuch", "cl"]).output().unwrap();
    expect_text("callers, not found", &String::from_utf8(output.stderr).unwrap());
}

#[test]
fn load() {
    let text = run(&mut Command::new(example("load")));
    assert!(text.contains("compile"), "{text}");
    let lines = text.lines().filter(|line| !line.contains("demo.lisp"));
    expect_text("load", &lines.collect::<Vec<_>>().join("\n"));
}

#[test]
fn tokio() {
    let text = run(&mut Command::new(example("tokio")));
    expect_text("tokio", &text);
}

#[test]
fn parallel() {
    let text = run(&mut Command::new(example("parallel")));
    assert_eq!(text.lines().count(), 8, "{text}");
    assert!(text.lines().all(|line| line.ends_with(" callers")), "{text}");
}

/// A program that uses the library is a single file: it works in another folder with an empty
/// environment.
#[test]
fn one_file() {
    let folder = Folder::new("example-one-file");
    let program = folder.join("program");
    std::fs::copy(example("one_file"), &program).unwrap();
    let text = run(Command::new(&program).env_clear().current_dir(&folder));
    assert!(text.lines().nth(1).is_some_and(|value| value.ends_with(" 10")), "{text}");
    // The linker drops the core from programs that do not use it.
    let has_core = |name: &str| {
        let sections = run(Command::new("readelf").args(["-S", "--wide"]).arg(example(name)));
        assert!(sections.contains(".text"), "{sections}");
        sections.contains("lisp.core")
    };
    assert!(has_core("one_file") && !has_core("callers"));
}
