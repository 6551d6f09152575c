//! The examples are what the documentation says they are.

use std::process::Command;

#[test]
fn callers() {
    // Cargo builds examples beside the folder of the tests.
    let tests = std::env::current_exe().unwrap();
    let example = tests.ancestors().nth(2).unwrap().join("examples/callers");
    let run = |arguments: &[&str]| {
        let output = Command::new(&example).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run(&[]);
    assert!(text.starts_with("Functions that call COMMON-LISP::MAPCAR:\n\n  "), "{text}");
    assert!(text.lines().count() > 300, "{text}");
    assert_eq!(run(&["nonesuch", "cl"]), "Symbol NONESUCH not found in package CL (status: NIL)\n");
}
