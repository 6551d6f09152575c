//! Compares the counts and places of run-tests with each framework's own runner.

use serde_json::{Value, json};
use steelbank_reader::{Dialect, Features, LispText};

use crate::fixtures::library_registry;
use crate::folder::Folder;
use crate::sessions::frameworks;
use crate::texts::write_project;
use crate::tools_beside_sbcl::{World, strings};

/// Frameworks with Debian packages, and those with doubles in tests/frameworks.
const FRAMEWORKS: [&str; 9] =
    ["fiveam", "fiasco", "rt", "1am", "rove", "parachute", "lisp-unit2", "ptester", "prove"];

/// Runs the tests of Debian libraries in FiveAM, RT and ptester. All must pass, as they do
/// upstream.
#[test]
fn library_tests_pass() {
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

/// The suites have dependencies, parents, fixtures, skips, names of other packages, and errors in
/// and outside of assertions.
#[test]
fn assertion_counts_agree_with_the_frameworks() {
    let real = std::env::var("STEELBANK_FRAMEWORKS").map(|folder| format!("{folder}//:"));
    own_process!([(
        "CL_SOURCE_REGISTRY",
        format!("{}{}", real.as_deref().unwrap_or_default(), frameworks())
    )]);
    let root = Folder::new("counted");
    write_project(&root, include_str!("../frameworks/suites.txt"));
    if real.is_err() {
        write_project(&root.join("doubles"), include_str!("../frameworks/doubles.txt"));
    }
    let world = World::at(root, &[]);
    for framework in FRAMEWORKS {
        let run = world.ask("run-tests", json!({ "system": format!("fr/{framework}") }));
        assert!(run["not_loaded"].is_null(), "{framework}: {run:#}");
        let count = |status: &str| run["checks"][status].as_u64().unwrap_or_default();
        let told = [count("passed"), count("failed") + count("error"), count("skipped")];
        let own = world.ask("evaluate", json!({ "code": format!("(counts::{framework})") }));
        let own = own["values"][0]["text"].as_str().unwrap_or_else(|| panic!("{framework}: {own:#}"));
        assert_eq!(format!("({} {} {})", told[0], told[1], told[2]), own, "{framework}: {run:#}");
        places_are_those_of_the_forms(&world, framework, &run);
        if framework == "fiveam" {
            expected_is_what_a_constant_says(&run);
        }
    }
}

/// Deletes all tests but the first of each framework, and reloads.
#[test]
fn deleted_tests_do_not_run() {
    own_process!([("CL_SOURCE_REGISTRY", frameworks())]);
    let root = Folder::new("deleted");
    write_project(&root, include_str!("../frameworks/suites.txt"));
    write_project(&root.join("doubles"), include_str!("../frameworks/doubles.txt"));
    let world = World::at(root, &[]);
    let run = |framework: &str| {
        let run = world.ask("run-tests", json!({ "system": format!("fr/{framework}") }));
        strings(&run["tests"], "name")
    };
    for framework in ["fiveam", "fiasco", "rt", "1am", "rove", "parachute", "lisp-unit2"] {
        let all = run(framework);
        assert!(all.len() > 2, "{framework}: {all:?}");
        let path = world.root.join(format!("t-{framework}.lisp"));
        let text = std::fs::read_to_string(&path).unwrap();
        let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
        let first = read.toplevel().iter().find(|form| {
            let operator = text[form.span.indices()][1..].split(' ').next().unwrap();
            ["test", "deftest", "define-test"].contains(&operator)
        });
        std::fs::write(&path, &text[..first.unwrap().span.end as usize]).unwrap();
        world.ask("reload", json!({}));
        let left = run(framework);
        assert_eq!(left.len(), 1, "{framework}: {left:?}");
        assert!(all.contains(&left[0]), "{framework}: {left:?}");
    }
}

/// Checks that `expected` is a constant, in either order. Without a constant there is none.
fn expected_is_what_a_constant_says(run: &Value) {
    let tests = run["tests"].as_array().unwrap();
    let observed = tests.iter().find(|test| test["name"] == "t-fiveam::observed-first").unwrap();
    let told: Vec<Value> = observed["assertions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|told| json!([told["expected"], told["actual"], told["values"]]))
        .collect();
    let value = |form: &str, value: &str| json!({ "form": form, "value": value });
    assert_eq!(
        told,
        [
            json!(["4", "6", null]),
            json!(["4", "6", null]),
            json!([null, null, [value("(LIST 1 (TWICE 1))", "(1 3)"), value("(LIST 1 2)", "(1 2)")]]),
            json!([null, null, [value("(TWICE 2)", "6")]]),
        ],
        "{observed:#}"
    );
}

/// Checks that each assertion's place is a form of the file that begins with the asserted form's
/// operator.
fn places_are_those_of_the_forms(world: &World, framework: &str, run: &Value) {
    let path = format!("t-{framework}.lisp");
    let text = std::fs::read_to_string(world.root.join(&path)).unwrap();
    let mut placed = 0;
    for test in run["tests"].as_array().unwrap() {
        assert!(test["framework"] == "asdf" || test["place"].is_string(), "{framework}: {test}");
        for assertion in test["assertions"].as_array().into_iter().flatten() {
            let Some(place) = assertion["place"].as_str() else { continue };
            let mut parts = place.rsplit(':').map(|part| part.parse::<usize>().unwrap_or_default());
            let (column, line) = (parts.next().unwrap(), parts.next().unwrap());
            assert_eq!(place, format!("{path}:{line}:{column}"), "{assertion}");
            let at = &text.lines().nth(line - 1).unwrap()[column - 1..];
            let operator = |text: &str| {
                let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
                read.tokens()[0].symbol(text.as_bytes()).name.into_owned()
            };
            let form = assertion["form"].as_str().unwrap();
            assert_eq!(operator(at), operator(form), "{framework}: {assertion}");
            placed += 1;
        }
    }
    // prove and ptester run inside a test-op, so the positions of their forms are unknown.
    let least = if ["ptester", "prove"].contains(&framework) { 0 } else { 2 };
    assert!(placed >= least, "{framework}: {placed} assertions have places: {run:#}");
}
