//! Compares the counts and places of run-tests with each framework's own runner.

use std::path::Path;

use serde_json::{Value, json};
use steelbank_reader::{Dialect, Features, LispText};

use crate::evaluate::plain_sbcl;
use crate::fixtures::{library_registry, lisp_libraries};
use crate::folder::Folder;
use crate::project::folder;
use crate::renames::copy;
use crate::sessions::frameworks;
use crate::texts::write_project;
use crate::tools_beside_sbcl::{World, strings};

/// Frameworks with Debian packages, and frameworks with test doubles in tests/frameworks.
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
        counts_agree(&world, framework, &run);
        places_are_those_of_the_forms(&world, framework, &run);
        reports_agree(&world, framework, &run);
        if framework == "fiveam" {
            expected_is_what_a_constant_says(&run);
        }
    }
}

/// In each framework, a test is a definition, and the caller of what it calls, with its place.
#[test]
fn tests_are_definitions_and_callers() {
    own_process!([("CL_SOURCE_REGISTRY", frameworks())]);
    let root = Folder::new("defined");
    write_project(&root, include_str!("../frameworks/suites.txt"));
    write_project(&root.join("doubles"), include_str!("../frameworks/doubles.txt"));
    let world = World::at(root, &[]);
    for (framework, test, place, uses) in [
        ("fiveam", "reason", "15:7", 2),
        ("fiasco", "wrong", "4:10", 2),
        ("rt", "wrong", "4:10", 1),
        ("1am", "wrong", "4:7", 1),
        ("rove", "wrong", "7:10", 2),
        ("parachute", "bad", "5:14", 1),
        ("lisp-unit2", "wrong", "4:14", 1),
        ("prove", "tested", "3:10", 2),
    ] {
        world.ask("load-system", json!({ "system": format!("fr/{framework}") }));
        let (file, name) = (format!("t-{framework}.lisp"), format!("t-{framework}::{test}"));
        let found = world.ask("find-definition", json!({ "name": name }));
        assert_eq!(strings(&found["definitions"], "at"), [format!("{file}:{place}")], "{found:#}");
        let outline = world.ask("outline", json!({ "path": file, "kinds": ["test"] }));
        assert!(strings(&outline["definitions"], "name").contains(&name), "{outline:#}");
        let found = world.ask("who-calls", json!({ "name": "fr.lib:twice" }));
        let users = found["users"].as_array().unwrap();
        let user = users.iter().find(|user| user["name"] == *name);
        let user = user.unwrap_or_else(|| panic!("{name}: {found:#}"));
        assert!(user["at"].as_str().unwrap().starts_with(&file), "{user:#}");
        assert_eq!(user["uses"].as_u64().unwrap_or(1), uses, "{user:#}");
        let is_lambda = |user: &Value| user["name"].as_str().unwrap().starts_with("(lambda");
        assert!(!users.iter().any(is_lambda), "{found:#}");
    }
}

/// Checks that the framework's own runner counts the same assertions.
fn counts_agree(world: &World, framework: &str, run: &Value) {
    let count = |status: &str| run["checks"][status].as_u64().unwrap_or_default();
    let told = [count("passed"), count("failed") + count("error"), count("skipped")];
    let own = world.ask("evaluate", json!({ "code": format!("(counts::{framework})") }));
    let own = own["values"][0]["text"].as_str().unwrap_or_else(|| panic!("{framework}: {own:#}"));
    assert_eq!(format!("({} {} {})", told[0], told[1], told[2]), own, "{framework}: {run:#}");
}

/// Checks tests with a report that differs from a plain result: status, and for each assertion the
/// part of the file at its place, or else its message.
fn reports_agree(world: &World, framework: &str, run: &Value) {
    let expected: &[(&str, &str, &[&str])] = match framework {
        // FiveAM has no status for errors: its report counts them as failures.
        "fiveam" => &[
            ("sig", "failed", &["ERROR", "Unexpected Error"]),
            ("fixed", "failed", &["Unexpected Error"]),
            ("shared", "failed", &["(equal (list 1 (list 2 3))"]),
        ],
        "fiasco" => &[
            ("part", "skipped", &[""]),
            ("called", "failed", &["(is (= (twice 2) 5))"]),
            ("caller", "failed", &["(is (= (twice 2) 5))", "(is (= x 9))"]),
        ],
        "rove" => &[("expanded", "failed", &["(expands '(when a b)"])],
        "parachute" => &[("twice-defined", "failed", &["(is = 5 (twice 2))"])],
        "lisp-unit2" => &[
            ("before", "error", &["fixture"]),
            ("after", "error", &["after"]),
            ("no-assertion", "empty", &[]),
        ],
        _ => &[],
    };
    let text = std::fs::read_to_string(world.root.join(format!("t-{framework}.lisp"))).unwrap();
    for (name, status, assertions) in expected {
        let name = format!("t-{framework}::{name}");
        let test = run["tests"].as_array().unwrap().iter().find(|test| test["name"] == *name);
        let test = test.unwrap_or_else(|| panic!("{name}: {run:#}"));
        assert_eq!(test["status"], *status, "{test:#}");
        let shown: Vec<String> = test["assertions"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| {
                let Some(place) = one["place"].as_str() else {
                    return one["message"].as_str().unwrap_or_default().to_owned();
                };
                let mut parts = place.rsplit(':').map(|part| part.parse::<usize>().unwrap_or_default());
                let (column, line) = (parts.next().unwrap(), parts.next().unwrap());
                text.lines().nth(line - 1).unwrap()[column - 1..].to_owned()
            })
            .collect();
        assert_eq!(shown.len(), assertions.len(), "{test:#}");
        assert!(
            shown.iter().zip(*assertions).all(|(shown, part)| shown.contains(part)),
            "{shown:?}: {test:#}"
        );
    }
}

/// Deletes all tests but the first of each framework, and reloads. The framework's own runner then
/// runs only the first, too.
#[test]
fn deleted_tests_do_not_run() {
    own_process!([("CL_SOURCE_REGISTRY", frameworks())]);
    let root = Folder::new("deleted");
    write_project(&root, include_str!("../frameworks/suites.txt"));
    write_project(&root.join("doubles"), include_str!("../frameworks/doubles.txt"));
    let world = World::at(root, &[]);
    let run = |framework: &str| world.ask("run-tests", json!({ "system": format!("fr/{framework}") }));
    for framework in ["fiveam", "fiasco", "rt", "1am", "rove", "parachute", "lisp-unit2"] {
        let all = strings(&run(framework)["tests"], "name");
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
        let result = run(framework);
        let left = strings(&result["tests"], "name");
        assert_eq!(left.len(), 1, "{framework}: {left:?}");
        assert!(all.contains(&left[0]), "{framework}: {left:?}");
        counts_agree(&world, framework, &result);
    }
}

/// The test systems of three libraries in FiveAM and RT, one of which tests threads, and a system
/// with tests in the package of another.
const SUITES: [&str; 4] =
    ["bordeaux-threads/test", "split-sequence/tests", "split-sequence/more", "alexandria-tests"];

/// Loads each system given as argument, runs the tests that the load added, and prints the
/// framework's counts.
const OWN_COUNTS: &str = r#"
(require :asdf)
(require :sb-rt)
(asdf:initialize-source-registry '(:source-registry (:tree "{root}") :inherit-configuration))
(let ((out *standard-output*)
      (*standard-output* (make-broadcast-stream))
      (*error-output* (make-broadcast-stream)))
  (asdf:load-system "fiveam")
  (progn
    (set (uiop:find-symbol* "*TEST-DRIBBLE*" "5AM") *standard-output*)
    (flet ((fiveam ()
             (remove-if-not (lambda (name)
                              (typep (uiop:symbol-call "5AM" "GET-TEST" name) (uiop:find-symbol* "TEST-CASE" "5AM")))
                            (uiop:symbol-call "5AM" "TEST-NAMES")))
           (rt () (rest (symbol-value (uiop:find-symbol* "*ENTRIES*" "SB-RT")))))
      (dolist (system '({systems}))
        (let ((fiveam (fiveam)) (rt (rt)) (passed 0) (failed 0) (skipped 0))
          (handler-bind ((warning #'muffle-warning)) (asdf:load-system system))
          (let ((tests (remove-if (lambda (test) (member test fiveam)) (fiveam)))
                (entries (remove-if (lambda (entry) (member entry rt)) (rt))))
            (dolist (result (and tests (uiop:symbol-call "5AM" "RUN" tests)))
              (cond ((typep result (uiop:find-symbol* "TEST-PASSED" "5AM")) (incf passed))
                    ((typep result (uiop:find-symbol* "TEST-SKIPPED" "5AM")) (incf skipped))
                    (t (incf failed))))
            (dolist (entry entries)
              (if (uiop:symbol-call "SB-RT" "DO-ENTRY" entry *standard-output*) (incf passed) (incf failed)))
            (format out "~&counts ~d tests (~d ~d ~d)~%"
                    (+ (length tests) (length entries)) passed failed skipped)))))))
"#;

/// Deletes tests, and compares the counts of suites in one image with those of a plain SBCL.
#[test]
fn suites_count_as_in_plain_sbcl() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let root = Folder::new("suites");
    for library in ["bordeaux-threads", "cl-split-sequence", "alexandria"] {
        copy(&lisp_libraries().join(library), &root.join(library));
    }
    // One test waits forever if a notification reaches the wrong thread, and one checks a varying
    // number of times.
    let threads = root.join("bordeaux-threads/test/bordeaux-threads-test.lisp");
    let text = std::fs::read_to_string(&threads).unwrap();
    let text = text
        .replace("(test condition-variable\n", "(defun condition-variable ()\n")
        .replace("(test should-have-thread-interaction\n", "(defun thread-interaction ()\n");
    std::fs::write(&threads, text).unwrap();
    let split = root.join("cl-split-sequence");
    let system = std::fs::read_to_string(split.join("split-sequence.asd")).unwrap()
        + "(defsystem :split-sequence/more :depends-on (:split-sequence/tests) :components ((:file \"more\")))";
    std::fs::write(split.join("split-sequence.asd"), system).unwrap();
    let more = "(in-package :split-sequence/tests)
        (defmacro def-made (name) `(test ,(intern (format nil \"MADE-~a\" name)) (is-true t) (is-true nil)))
        (def-made more)
        (test threads (is-true t) (is (= 1 (sb-thread:join-thread (sb-thread:make-thread (lambda () 1))))))
        (test deleted (is-true nil))";
    std::fs::write(split.join("more.lisp"), more).unwrap();
    let world = World::at(root, &[]);
    let counts = || {
        SUITES.map(|system| {
            let run = world.ask("run-tests", json!({ "system": system }));
            let count = |status: &str| run["checks"][status].as_u64().unwrap_or_default();
            let tests: u64 = run["counts"].as_object().unwrap().values().filter_map(Value::as_u64).sum();
            format!(
                "counts {tests} tests ({} {} {})",
                count("passed"),
                count("failed") + count("error"),
                count("skipped")
            )
        })
    };
    let own_counts = || {
        let systems = SUITES.map(|system| format!("{system:?}")).join(" ");
        let forms =
            OWN_COUNTS.replace("{root}", &world.root.display().to_string()).replace("{systems}", &systems);
        let scripts = folder("own-counts");
        let script = scripts.join("script.lisp");
        std::fs::write(&script, forms).unwrap();
        let lines = plain_sbcl(&format!("(load {script:?})"));
        lines.into_iter().filter(|line| line.starts_with("counts")).collect::<Vec<_>>()
    };
    let all = counts();
    assert_eq!(all.to_vec(), own_counts());
    for (file, deleted) in [
        ("bordeaux-threads/test/bordeaux-threads-test.lisp", 2),
        ("cl-split-sequence/tests.lisp", 3),
        ("cl-split-sequence/more.lisp", 1),
        ("alexandria/alexandria-1/tests.lisp", 20),
    ] {
        delete_last_tests(&world.root.join(file), deleted);
    }
    world.ask("reload", json!({}));
    let left = counts();
    assert_eq!(left.to_vec(), own_counts());
    assert!(all.iter().zip(&left).all(|(all, left)| all != left), "{all:?} {left:?}");
}

/// Replaces the last `count` forms that define a test in the file at `path`.
fn delete_last_tests(path: &Path, count: usize) {
    let mut text = std::fs::read_to_string(path).unwrap();
    let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
    let tests: Vec<_> = read
        .toplevel()
        .iter()
        .map(|form| form.span.indices())
        .filter(|span| {
            let operator = text[span.clone()].trim_start_matches('(').split([' ', '\n']).next();
            operator.is_some_and(|operator| ["test", "deftest"].contains(&operator))
        })
        .collect();
    assert!(tests.len() > count, "{}", path.display());
    for span in tests.into_iter().rev().take(count) {
        // A feature expression may precede the form.
        text.replace_range(span, "(progn)");
    }
    std::fs::write(path, text).unwrap();
}

/// Checks that a constant operand of an assertion is its `expected`, in either order. Without a
/// constant operand, `values` lists the operands instead.
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
