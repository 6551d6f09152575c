//! Tests of the program as a single file: in an empty folder with an empty environment.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::program::{Folder, STEELBANK, outcome};

/// Runs `program` in its folder with an empty environment.
fn run_alone(program: &Path, arguments: &[&str]) -> Output {
    let folder = program.parent().unwrap();
    Command::new(program).args(arguments).env_clear().current_dir(folder).output().unwrap()
}

fn answers(program: &Path) {
    let (text, errors, code) = outcome(&run_alone(program, &["who-calls", "mapcar", "--package", "cl"]));
    assert_eq!((errors.as_str(), code), ("", Some(0)));
    assert!(text.lines().count() > 300, "{text}");
    let (text, errors, code) =
        outcome(&run_alone(program, &["describe-symbol", "*print-base*", "--package", "cl"]));
    assert_eq!((errors.as_str(), code), ("", Some(0)));
    assert!(text.lines().nth(1).is_some_and(|value| value.ends_with(" 10")), "{text}");
    // The program contains the lines of SBCL's functions, because the sources are not installed.
    let questions: [&[&str]; 3] =
        [&["find-definition"], &["describe-symbol"], &["code-find-references", "--no-project-only"]];
    for question in questions {
        let (text, errors, code) = outcome(&run_alone(program, &[question, &["cl:mapcar"]].concat()));
        assert_eq!((errors.as_str(), code), ("", Some(0)), "{question:?}");
        let lined = text.split("SYS:SRC;").skip(1).filter(|place| {
            let line = place.split_once(".LISP:").map(|(_, line)| line);
            line.is_some_and(|line| line.starts_with(|first: char| first.is_ascii_digit()))
        });
        assert!(lined.count() > 0, "{question:?}: {text}");
    }
    let mine: Vec<_> = fs::read_dir(program.parent().unwrap()).unwrap().collect();
    assert_eq!(mine.len(), 1, "the program leaves no files where it is run");
}

#[test]
fn single_file_runs_alone() {
    let folder = Folder::new("one-file");
    let program = folder.join("steelbank");
    fs::copy(STEELBANK, &program).unwrap();
    answers(&program);
    let stripped = Command::new("strip").arg(&program).status().unwrap();
    assert!(stripped.success());
    answers(&program);
}

#[test]
fn only_the_c_library_is_linked() {
    let output = Command::new("readelf").args(["-d", STEELBANK]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let needed: Vec<&str> = text.lines().filter(|line| line.contains("(NEEDED)")).collect();
    assert!(!needed.is_empty());
    for library in needed {
        let known = ["libc.so", "libm.so", "libgcc_s.so", "ld-linux", "libdl.so", "libpthread.so"];
        assert!(known.iter().any(|known| library.contains(known)), "{library}");
    }
}
