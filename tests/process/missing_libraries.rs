//! Tests of a project with missing libraries: one answer for all systems, no repeated attempts, and
//! answers from text.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{Folder, on, outcome, shown};
use crate::texts::expect_text;

fn write_system(root: &Path, number: usize, needs: &str) {
    let name = format!("part-{number:03}");
    let folder = root.join(&name);
    fs::create_dir_all(&folder).unwrap();
    let system = format!("(defsystem {name:?} :depends-on ({needs}) :components ((:file \"main\")))\n");
    fs::write(folder.join(format!("{name}.asd")), system).unwrap();
    let text = format!(
        "(defpackage :{name} (:use :cl))\n(in-package :{name})\n(defun run-{number} (x)\n  (list x))\n(defvar *v-{number}* 1)\n"
    );
    fs::write(folder.join("main.lisp"), text).unwrap();
}

#[test]
fn missing_libraries_are_reported_once() {
    let folder = Folder::new("missing-libraries");
    let (root, cache, loads) = (folder.join("project"), folder.join("cache"), folder.join("loads"));
    fs::create_dir_all(root.join(".git")).unwrap();
    for number in 0..116 {
        let needs = match number {
            0 => "\"no-such-deploy\"",
            1..98 => "\"part-000\"",
            110..113 => "\"no-such-types\"",
            _ => "",
        };
        write_system(&root, number, needs);
    }
    // Count the loads of a system with all its libraries.
    let counts = format!(
        "(with-open-file (out {:?} :direction :output :if-exists :append :if-does-not-exist :create) (write-line \"once\" out))\n",
        loads.display().to_string()
    );
    fs::write(root.join("part-114/main.lisp"), counts).unwrap();
    fs::write(root.join("part-115/main.lisp"), "(defun broken (x)\n  (car\n").unwrap();
    let loaded = || fs::read_to_string(&loads).map_or(0, |text| text.lines().count());

    let run = |arguments: &[&str]| on(&root, &cache).args(arguments).output().unwrap();
    let text = shown(&run(&["load-system"]));
    expect_text("load-system", &text);
    assert!(text.len() / 4 <= 400, "{text}");
    let (json, _, _) = outcome(&run(&["load-system", "--json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json.to_string().len() / 4 <= 400, "{json}");
    assert_eq!((&json["systems_loaded"], &json["systems_total"]), (&14.into(), &116.into()), "{json}");
    assert_eq!(json["causes"][0]["missing"], "no-such-deploy", "{json}");
    let detail = outcome(&run(&["load-system", "--detail"])).0;
    let of_two = detail.lines().filter(|line| line.contains("part-003") || line.contains("part-098"));
    expect_text("load-system --detail", &of_two.collect::<Vec<_>>().join("\n"));

    let (_, errors, code) = outcome(&run(&["--system", "auto", "snapshot"]));
    assert_eq!(code, Some(0), "{errors}");
    let before = loaded();
    assert!(before > 0);
    let ask = |tool: &str, name: &str| shown(&run(&["--system", "auto", tool, name]));
    expect_text("describe-symbol, not loaded", &ask("describe-symbol", "part-003::run-3"));
    expect_text("describe-symbol, without package", &ask("describe-symbol", "*v-7*"));
    expect_text("find-definition, not loaded", &ask("find-definition", "run-3"));
    expect_text("describe-symbol, loaded", &ask("describe-symbol", "part-098::run-98"));
    assert_eq!(loaded(), before, "failed loads were repeated without a change");

    // A failed load is repeated when its inputs change.
    fs::create_dir(root.join("no-such-types")).unwrap();
    let library = "(defsystem \"no-such-types\")\n";
    fs::write(root.join("no-such-types/no-such-types.asd"), library).unwrap();
    expect_text("describe-symbol, library added", &ask("describe-symbol", "part-110::run-110"));
}
