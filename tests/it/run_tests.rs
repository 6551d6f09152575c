//! run-tests: runs each test of a framework by itself.

use std::process::Command;

use serde_json::{Value, json};
use steelbank::tools::CallOutcome;

use crate::fixtures::library_registry;
use crate::project::folder;
use crate::texts::write_project;
use crate::tools_beside_sbcl::World;

#[test]
fn tests_are_run_one_by_one() {
    let fixtures = crate::fixtures::fixtures();
    let registry = format!("{0}/lisp//:{0}/frameworks//", fixtures.display());
    own_process!([("CL_SOURCE_REGISTRY", registry)]);
    let root = folder("tested");
    // The tests of one system in several frameworks.
    write_project(&root, include_str!("../projects/run_tests.txt"));
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("-C").arg(&root).args(["-c", "user.name=x", "-c", "user.email=x@x"]).args(arguments);
        assert!(command.output().unwrap().status.success(), "{arguments:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "-A"]);
    git(&["commit", "-q", "-m", "x"]);
    let world = World::at(root.clone(), &[]);
    let results = |answer: &Value| -> Vec<(String, String)> {
        let text = |test: &Value, key: &str| test[key].as_str().unwrap().to_owned();
        let mut all: Vec<(String, String)> = answer["tests"]
            .as_array()
            .unwrap()
            .iter()
            .map(|test| (text(test, "name"), text(test, "status")))
            .collect();
        all.sort();
        all
    };
    let expected = |all: &[(&str, &str)]| -> Vec<(String, String)> {
        all.iter().map(|(name, status)| ((*name).to_owned(), (*status).to_owned())).collect()
    };
    let test = |answer: &Value, name: &str| {
        answer["tests"].as_array().unwrap().iter().find(|test| test["name"] == name).unwrap().clone()
    };
    let answer = world.ask("run-tests", json!({ "system": "tested", "test_timeout_seconds": 10 }));
    assert_eq!(
        results(&answer),
        expected(&[
            ("TESTED-FIVE::BAD", "failed"),
            ("TESTED-FIVE::BOOM", "error"),
            ("TESTED-FIVE::CHANGES", "passed"),
            ("TESTED-FIVE::DEEP", "error"),
            ("TESTED-FIVE::FILLS", "error"),
            ("TESTED-FIVE::GOOD", "passed"),
            ("TESTED-FIVE::HANGS", "timed-out"),
            ("TESTED-FIVE::LAST-ONE", "passed"),
            ("TESTED-FIVE::LEAVES", "error"),
            ("TESTED-FIVE::MADE-ALPHA", "passed"),
            ("TESTED-FIVE::MADE-BETA", "passed"),
            ("TESTED-FIVE::ODD-ONE", "passed"),
            ("TESTED-FIVE::SKIPPED", "skipped"),
        ]),
        "{answer:#}"
    );
    let bad = test(&answer, "TESTED-FIVE::BAD");
    assert_eq!(bad["place"], "five.lisp:9:1");
    let assertion = &bad["assertions"][0];
    assert_eq!((&assertion["expected"], &assertion["actual"]), (&json!("4"), &json!("3")), "{bad}");
    assert_eq!(test(&answer, "TESTED-FIVE::HANGS")["place"], "five.lisp:12:1");
    assert_eq!(test(&answer, "TESTED-FIVE::GOOD")["passed"], 2);
    // Place tests that macros make at the form that makes them.
    for (name, line) in [("ODD-ONE", 22), ("MADE-ALPHA", 23), ("MADE-BETA", 23)] {
        let place = test(&answer, &format!("TESTED-FIVE::{name}"))["place"].clone();
        assert_eq!(place, format!("five.lisp:{line}:1"), "{name}");
    }
    assert_eq!(answer["counts"]["passed"], 6);
    // Select tests by name, and by changes.
    for name in ["good", "tested-five::good"] {
        let answer = world.ask("run-tests", json!({ "system": "tested", "tests": [name] }));
        assert_eq!(results(&answer), expected(&[("TESTED-FIVE::GOOD", "passed")]));
    }
    // Report a missing test, and run the others.
    for (asked, ran) in [(vec!["good", "godo"], 1), (vec!["tested-five::godo"], 0)] {
        let unknown = *asked.last().unwrap();
        let answer = world.answer("run-tests", json!({ "system": "tested", "tests": asked })).unwrap();
        assert_eq!(answer.outcome, CallOutcome::NotFound);
        let said = answer.structured.into_value();
        assert_eq!((&said["found"], &said["suggestions"]), (&json!(false), &json!(["GOOD"])), "{said}");
        assert_eq!(said["message"], format!("Test {unknown} not found"));
        assert_eq!(said["tests"].as_array().unwrap().len(), ran, "{said}");
    }
    let text = std::fs::read_to_string(root.join("main.lisp")).unwrap();
    std::fs::write(root.join("main.lisp"), text.replace("(* 3 x)", "(* x 3)")).unwrap();
    let answer = world.ask("run-tests", json!({ "system": "tested", "only_affected_by": "diff" }));
    assert_eq!(results(&answer), expected(&[("TESTED-FIVE::BAD", "failed")]), "{answer:#}");
    // The other frameworks.
    let answer = world.ask("run-tests", json!({ "system": "rts" }));
    assert_eq!(
        results(&answer),
        expected(&[
            ("TESTED-RTS::FAILS", "failed"),
            ("TESTED-RTS::RIGHT", "passed"),
            ("TESTED-RTS::WRONG", "failed")
        ])
    );
    let wrong = test(&answer, "TESTED-RTS::WRONG");
    assert_eq!(
        (&wrong["place"], &wrong["assertions"][0]["expected"]),
        (&json!("rts.lisp:4:1"), &json!("3")),
        "{wrong}"
    );
    assert_eq!(wrong["assertions"][0]["message"], "Actual value: 2");
    let answer = world.ask("run-tests", json!({ "system": "fias" }));
    assert_eq!(
        results(&answer),
        expected(&[
            ("TESTED-FIAS::FAILS", "error"),
            ("TESTED-FIAS::RIGHT", "passed"),
            ("TESTED-FIAS::WRONG", "failed")
        ]),
        "{answer:#}"
    );
    let wrong = test(&answer, "TESTED-FIAS::WRONG");
    let assertion = &wrong["assertions"][0];
    assert_eq!((&assertion["expected"], &assertion["actual"]), (&json!("3"), &json!("2")), "{wrong}");
    let answer = world.ask("run-tests", json!({ "system": "pt" }));
    let op = &answer["tests"][0];
    assert_eq!((&op["status"], &op["passed"]), (&json!("failed"), &json!(2)), "{answer:#}");
    assert_eq!(
        (&op["assertions"][0]["expected"], &op["assertions"][0]["actual"]),
        (&json!("3"), &json!("2"))
    );
    // No framework at all, and what does not load.
    let answer = world.ask("run-tests", json!({ "system": "plain" }));
    assert_eq!(results(&answer), expected(&[("test-op of plain", "done")]));
    assert!(answer["tests"][0]["output"].as_str().unwrap().contains("said by plain"), "{answer}");
    // A test-op that does nothing is no test; that of the system's tests is performed if nothing leads to it.
    let answer = world.ask("run-tests", json!({ "system": "untested" }));
    assert_eq!(results(&answer), expected(&[]));
    assert!(answer["note"].as_str().unwrap().starts_with("No tests were run: untested has none"), "{answer}");
    for (system, tested) in [("apart", "apart/tests"), ("joined", "joined"), ("after", "after")] {
        let answer = world.ask("run-tests", json!({ "system": system }));
        assert_eq!(results(&answer), expected(&[(&format!("test-op of {tested}"), "done")]), "{answer}");
        assert!(answer["tests"][0]["output"].as_str().unwrap().contains(system), "{answer}");
    }
    let answer = world.ask("run-tests", json!({ "system": "broken" }));
    assert!(answer["not_loaded"].as_str().unwrap().contains("broken"), "{answer}");
    assert_eq!(world.ask("evaluate", json!({ "code": "(+ 1 2)" }))["values"], json!([{ "text": "3" }]));
}

/// Runs the tests of Debian libraries in FiveAM, RT and ptester: all pass, as upstream says.
#[test]
fn tests_of_libraries_pass() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let world = World::of("cl-split-sequence", &[]);
    for (system, least) in [("split-sequence", 100), ("alexandria", 200), ("anaphora", 50)] {
        let answer = world.ask("run-tests", json!({ "system": system }));
        let count = answer["counts"]["passed"].as_u64().unwrap_or_default();
        assert!(
            count >= least && answer["counts"].as_object().unwrap().len() == 1,
            "{system}: {}",
            answer["counts"]
        );
    }
    let puri = world.ask("run-tests", json!({ "system": "puri" }));
    assert_eq!(
        (&puri["tests"][0]["status"], &puri["tests"][0]["passed"]),
        (&json!("passed"), &json!(128)),
        "{puri}"
    );
}
