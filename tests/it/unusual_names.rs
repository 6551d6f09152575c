//! Tests pages of long answers, in a folder with an unusual name.

use serde_json::{Value, json};

use crate::project::folder;
use crate::texts::{expect_text, write_project};
use crate::tools_beside_sbcl::World;

#[test]
fn long_texts_are_paged() {
    own_process!();
    let root = folder("a folder é");
    write_project(&root, include_str!("../projects/odd.txt"));
    let calls = (0..4000).map(|number| format!("(defun f{number} (x) (frob x))\n")).collect::<String>();
    std::fs::write(root.join("big.lisp"), format!("(in-package :odd.core)\n{calls}")).unwrap();
    let world = World::at(root, &["odd", "odd/empty"]);
    let git = world.error("impact", json!({ "diff": true }));
    assert_eq!(git.lines().count(), 1, "{git}");
    expect_text("no repository", git.split(" (").next().unwrap());
    long_answers_are_cut(&world);
    pages_are_of_the_text_as_it_is(&world);
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
    // Check plans with 4000 edits in unloaded text, and with 4000 doubtful places.
    let plan = world.ask("rename", json!({ "name": "odd.core:frob", "new_name": "grab" }));
    assert!(plan["edits"].as_u64().unwrap() > 4000 && plan["cursor"].is_string(), "{plan}");
    let unknown = (0..4000).map(|_| "(use-slotty 1)\n").collect::<String>();
    std::fs::write(world.root.join("nowhere.lisp"), format!("(in-package :nobody-knows)\n{unknown}"))
        .unwrap();
    let plan = world.ask("rename", json!({ "name": "odd.core::use-slotty", "new_name": "user" }));
    expect_text("doubtful places", &format!("{:#}", plan["cautions"]));
}

fn pages_are_of_the_text_as_it_is(world: &World) {
    let page =
        |cursor: &Value| world.ask("outline", json!({ "path": "main.lisp", "limit": 5, "cursor": cursor }));
    let first = page(&json!(""));
    let second = page(&first["cursor"]);
    assert_eq!(second["definitions"][0]["name"], "odd.core::use-frob", "{second}");
    assert_eq!(first["total"], second["total"]);
    let path = world.root.join("main.lisp");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}(defun one-more ())\n")).unwrap();
    let again = page(&json!(""));
    assert_eq!(again["total"].as_u64().unwrap(), first["total"].as_u64().unwrap() + 1, "{again}");
    // The file itself is listed after the definitions, on the last page.
    assert_eq!(again["not_loaded_count"], 1, "{again}");
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
