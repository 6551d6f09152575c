//! Unusual code: names between bars, definitions inside of other forms, setf functions and expanders,
//! packages that are asked for as symbols, and text that is longer than any answer.

use serde_json::{Value, json};

use crate::project::folder;
use crate::texts::write_project;
use crate::tools_beside_sbcl::World;

fn nodes(answer: &Value) -> Vec<String> {
    let nodes = answer["nodes"].as_array().unwrap();
    nodes.iter().map(|node| node["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn odd_names_and_places_are_answered() {
    own_process!();
    // A space and letters that are not ASCII.
    let root = folder("odd").join("a folder é");
    std::fs::create_dir_all(&root).unwrap();
    let root = root.canonicalize().unwrap();
    write_project(&root, include_str!("../projects/odd.txt"));
    let calls = (0..4000).map(|number| format!("(defun f{number} (x) (frob x))\n")).collect::<String>();
    std::fs::write(root.join("big.lisp"), format!("(in-package :odd.core)\n{calls}")).unwrap();
    let world = World::at(root, &["odd", "odd/empty"]);
    names_are_found(&world);
    callers_are_found(&world);
    failures_are_told(&world);
    long_answers_are_cut(&world);
    pages_are_of_the_text_as_it_is(&world);
}

fn names_are_found(world: &World) {
    // Print a name in one way in all tools.
    let graph = world.ask("call-graph", json!({ "name": "odd.core::|lower name|" }));
    assert_eq!(nodes(&graph), ["ODD.CORE::|lower name|", "ODD.CORE::|lower-exported|"], "{graph}");
    let impact = world.ask("impact", json!({ "names": ["odd.core::|lower name|"] }));
    assert_eq!(impact["changed"][0]["name"], "ODD.CORE::|lower name|");
    assert_eq!(impact["users"].as_array().unwrap().len(), 1, "{impact}");
    // Bars are suggested to those who leave them out.
    let missing = world.ask("describe-symbol", json!({ "name": "odd.core:lower-exported" }));
    assert_eq!(missing["suggestions"], json!(["|lower-exported|"]), "{missing}");
    let found = world.ask("describe-symbol", json!({ "name": "odd.core:|lower-exported|" }));
    assert_eq!(found["found"], true, "{found}");
    // A bare name is looked for in the project's packages by every tool.
    for (tool, arguments) in [
        ("call-graph", json!({ "name": "frob" })),
        ("impact", json!({ "names": ["frob"] })),
        ("describe-symbol", json!({ "name": "frob" })),
        ("who-calls", json!({ "name": "frob" })),
        ("find-definition", json!({ "name": "frob" })),
        ("code-find-references", json!({ "symbol": "frob" })),
        ("disassemble", json!({ "name": "frob" })),
        ("compiler-notes", json!({ "name": "frob" })),
    ] {
        let answer = world.ask(tool, arguments);
        assert_ne!(answer["found"], false, "{tool}: {answer}");
    }
    for (name, line) in [("slotty", 13), ("place-of", 19)] {
        let answer = world.answer("describe-symbol", json!({ "name": format!("odd.core::{name}") })).unwrap();
        let said = format!("Defined as setf expander: main.lisp:{line}:1");
        assert!(answer.text.contains(&said), "{}", answer.text);
    }
    let package = world.ask("describe-symbol", json!({ "name": "odd.core" }));
    assert_eq!(package["try"], json!(["ODD.CORE is a package: ask package-info."]), "{package}");
}

fn callers_are_found(world: &World) {
    for (name, callers) in [
        ("plus-twice", ["INCF-BY", "USER-OF-INCF-BY"]),
        ("put-slotty", ["(SETF ODD.CORE::SLOTTY)", "USE-SLOTTY"]),
        ("expander-helper", ["(SETF ODD.CORE::PLACE-OF)", "USE-PLACE-OF"]),
        ("cm-helper", ["(COMPILER-MACRO ODD.CORE::TOTAL)", "USE-TOTAL"]),
    ] {
        let graph = world.ask("call-graph", json!({ "name": format!("odd.core::{name}") }));
        for caller in callers {
            let printed =
                if caller.starts_with('(') { caller.to_owned() } else { format!("ODD.CORE::{caller}") };
            assert!(nodes(&graph).contains(&printed), "{name}: {graph}");
        }
        // A definition may stand in another form: its own lambda list counts.
        let impact = world.ask("impact", json!({ "names": [format!("odd.core::{name}")] }));
        assert_eq!(impact["calls_that_do_not_fit"], Value::Null, "{impact}");
    }
}

/// Checks the errors for names of nothing, and of things without the facet that is asked for.
fn failures_are_told(world: &World) {
    assert_eq!(world.ask("outline", json!({ "system": "odd/empty" }))["total"], 0);
    assert_eq!(
        world.ask("outline", json!({ "path": "nowhere.lisp" }))["message"],
        "Path nowhere.lisp not found"
    );
    let git = world.error("impact", json!({ "diff": true }));
    assert!(git.contains("ot a git repository") && git.lines().count() == 1, "{git}");
    // Count only the form's own steps: when a macro's function first runs, SBCL expands and compiles other
    // code.
    let answer = world.ask("macroexpand", json!({ "form": "(odd.core::incf-by (car x) 2)" }));
    assert_eq!(answer["step_count"], 1, "{answer}");
}

fn long_answers_are_cut(world: &World) {
    // World::ask checks the length of every page.
    let (mut lines, mut cursor) = (Vec::new(), Value::Null);
    for _ in 0..100 {
        let page =
            world.ask("code-find-references", json!({ "symbol": "frob", "limit": 1000, "cursor": cursor }));
        assert_eq!(page["text_total"], 4000, "{page}");
        for found in page["text"].as_array().into_iter().flatten() {
            lines.push(found["line"].as_u64().unwrap());
        }
        cursor = page["cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(lines, (2..4002).collect::<Vec<u64>>());
    // A plan of as many edits, in text that is not loaded; and one whose places are all doubtful.
    let plan = world.ask("rename", json!({ "name": "odd.core:frob", "new_name": "grab" }));
    assert!(plan["edits"].as_u64().unwrap() > 4000 && plan["cursor"].is_string(), "{plan}");
    let unknown = (0..4000).map(|_| "(use-slotty 1)\n").collect::<String>();
    std::fs::write(world.root.join("nowhere.lisp"), format!("(in-package :nobody-knows)\n{unknown}"))
        .unwrap();
    let plan = world.ask("rename", json!({ "name": "odd.core::use-slotty", "new_name": "user" }));
    let names = plan["cautions"].to_string();
    assert!(names.contains("and 3980 more") || !names.contains("nowhere.lisp"), "{names}");
}

fn pages_are_of_the_text_as_it_is(world: &World) {
    let page =
        |cursor: &Value| world.ask("outline", json!({ "path": "main.lisp", "limit": 5, "cursor": cursor }));
    let first = page(&json!(""));
    let second = page(&first["cursor"]);
    assert_eq!(second["definitions"][0]["name"], "ODD.CORE::USE-FROB", "{second}");
    assert_eq!(first["total"], second["total"]);
    let path = world.root.join("main.lisp");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}(defun one-more ())\n")).unwrap();
    let again = page(&json!(""));
    assert_eq!(again["total"].as_u64().unwrap(), first["total"].as_u64().unwrap() + 1, "{again}");
    assert_eq!(again["not_loaded"], json!(["main.lisp"]));
    std::fs::write(&path, text).unwrap();
    assert_eq!(page(&first["cursor"])["definitions"], second["definitions"]);
    let users = world.ask("impact", json!({ "names": ["odd.core::get-slotty"] }));
    assert_eq!(users["total"], 0, "{users}");
    let late = "(in-package :odd.core)\n(defun late () (get-slotty '(1)))\n";
    std::fs::write(world.root.join("late.lisp"), late).unwrap();
    world.ask("load-file", json!({ "path": "late.lisp" }));
    let users = world.ask("impact", json!({ "names": ["odd.core::get-slotty"] }));
    assert_eq!(users["total"], 1, "the image has changed: {users}");
}
