//! Tests of `run-tests` with a test that kills Lisp, in the image and in a scratch image. Earlier
//! results are kept.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use steelbank::tools::{Call, Permissions, Session};
use steelbank::{Control, LoadRequest, ProjectSettings, Steelbank};

use crate::asks::Asks;
use crate::program::{Folder, STEELBANK};

#[test]
fn test_that_kills_lisp_has_status_died() {
    own_process!();
    let folder = Folder::new("run-tests-die");
    let root = folder.join("project");
    fs::create_dir_all(&root).unwrap();
    let system = "(defsystem \"die\" :depends-on (\"sb-rt\") :components ((:file \"t\")))\n";
    fs::write(root.join("die.asd"), system).unwrap();
    let tests = "(defpackage :die (:use :cl))\n(in-package :die)\n(sb-rt:deftest before 1 1)\n(sb-rt:deftest dies \
            (sb-alien:alien-funcall (sb-alien:extern-alien \"lose\" (function sb-alien:void sb-alien:c-string)) \"lost\") 1)\n\
            (sb-rt:deftest after 1 1)\n";
    fs::write(root.join("t.lisp"), tests).unwrap();
    let settings = ProjectSettings::in_folder(root).cache(folder.join("cache"));
    let bank = Steelbank::builder().project(settings).program(STEELBANK.into()).start().unwrap();
    let loaded = bank
        .run(&LoadRequest::system("die").failure_as_answer(), &Control::new(Duration::from_secs(300)))
        .unwrap();
    assert!(loaded.failure.is_none(), "{loaded:?}");
    let session =
        Session::new(bank.clone()).with_tools(steelbank::actions::tools().clone()).allowing(Permissions::ALL);
    let run = |scratch: bool| {
        let arguments = json!({ "system": "die", "scratch": scratch });
        let tool = steelbank::actions::tools().get("run-tests").unwrap();
        let answer = tool.call(&session, arguments.as_object().unwrap().clone(), &Call::default());
        answer.unwrap().structured
    };
    let told = |answer: &Value| {
        for (name, status) in [("die::before", "passed"), ("die::dies", "died"), ("die::after", "not-run")] {
            let tests = answer["tests"].as_array().unwrap();
            let test = tests.iter().find(|test| test["name"] == name).unwrap();
            assert_eq!(test["status"], status, "{answer}");
            assert!(test["ms"].as_u64().unwrap() < 60_000,);
        }
    };
    told(&run(true));
    // The image is unaffected.
    assert_eq!(bank.values("(+ 1 2)"), ["3"]);
    told(&run(false));
}
