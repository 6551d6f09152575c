//! Measures answers in tokens, and checks that paging loses no entry.

use serde_json::{Value, json};
use steelbank::doors::mcp::listing;
use steelbank::tools::{Call, CallOutcome, Permissions, Session, ToolAnswer};

use crate::image::{bank, evaluate};
use crate::texts::expect_text;

/// The approximate number of characters in a token.
const TOKEN: usize = 4;

fn ask(tool: &str, arguments: Value) -> ToolAnswer {
    let Value::Object(arguments) = arguments else { panic!("{arguments}") };
    let session = Session::new(bank().clone());
    steelbank::actions::tools().get(tool).unwrap().call(&session, arguments, &Call::default()).unwrap()
}

#[test]
fn tool_lists_fit_their_token_budget() {
    let tokens = |value: &Value| value.to_string().len() / TOKEN;
    let all = tokens(&listing(steelbank::actions::tools()));
    assert!(all <= 12_800, "all tools take {all} tokens");
    let daily = tokens(&listing(&steelbank::actions::tools().daily(Permissions::default())));
    assert!(daily <= 7_500, "the default takes {daily} tokens");
    let core = tokens(&listing(&steelbank::actions::tools().chosen("core").unwrap()));
    assert!(core <= 6_000, "the core takes {core} tokens");
    println!("seen: all {all}, daily {daily}, core {core}");
}

#[test]
fn pages_fit_and_reach_every_entry() {
    for (tool, name) in [("who-calls", "cl:car"), ("who-macroexpands", "cl:when")] {
        let (mut names, mut cursor) = (Vec::new(), Value::Null);
        let count = loop {
            let answer = ask(tool, json!({ "name": name, "cursor": cursor }));
            let structured = answer.structured.to_string();
            assert!(structured.len() <= 10_000 * TOKEN, "{tool}: {}", structured.len());
            assert!(answer.text.chars().count() <= 10_000 * TOKEN, "{tool}: {}", answer.text.len());
            let page = answer.structured["users"].as_array().unwrap();
            assert!(!page.is_empty());
            let listed: Vec<&str> = page.iter().map(|user| user["name"].as_str().unwrap()).collect();
            let entries = answer.text.lines().skip(2).take_while(|line| !line.is_empty());
            let entries: Vec<&str> = entries.map(|line| line.strip_prefix("  ").unwrap()).collect();
            // The contract's lines have the home package's full name, two colons, and absolute
            // paths.
            let plain = |names: &[&str]| -> Vec<String> {
                let plain = |name: &&str| {
                    let name = name.to_lowercase().replace("common-lisp::", "cl:").replace("::", ":");
                    match name.split_once(":in \"") {
                        Some((function, file)) => {
                            format!("{function}:in \"{}", file.rsplit('/').next().unwrap())
                        }
                        None => name,
                    }
                };
                names.iter().map(plain).collect()
            };
            // The other tools have the places in the same lines.
            if tool == "who-calls" {
                assert_eq!(plain(&listed), plain(&entries), "{tool}");
            }
            names.extend(listed.into_iter().map(str::to_owned));
            cursor = answer.structured["cursor"].clone();
            if cursor.is_null() {
                break answer.structured["count"].as_u64().unwrap();
            }
        };
        assert_eq!(names.len() as u64, count, "{tool}");
        let mut once = names.clone();
        once.sort();
        once.dedup();
        assert_eq!(once.len(), names.len(), "each once");
    }
}

#[test]
fn entries_omit_offsets() {
    let lean = ask("who-references", json!({ "name": "cl:*print-base*" })).structured;
    let text = lean.to_string();
    for key in ["octet_offset", "form_number", "file_written", "toplevel_form", "\"kind\""] {
        assert!(!text.contains(key), "{key} in {text}");
    }
    let place = lean["users"][0]["at"].as_str().unwrap();
    assert!(place.starts_with("SYS:SRC;CODE;") && place.matches(':').count() >= 1, "{place}");
}

#[test]
fn missing_names_share_one_message() {
    evaluate(
        "(progn (defpackage \"LEAN-ONE\" (:use \"CL\") (:export \"LEAN-TWICE\"))
                (defpackage \"LEAN-TWO\" (:use \"CL\"))
                (eval (read-from-string \"(progn (defun lean-one::lean-twice () 1) (defun lean-two::lean-twice () 2)
                  (defun lean-one::lean-single () (lean-one::lean-twice))
                  (compile 'lean-one::lean-single))\")))",
    );
    for tool in ["describe-symbol", "who-calls", "find-definition", "code-find-references"] {
        let error = tool == "code-find-references";
        let ask = |name: &str| ask(tool, json!({ "name": name, "project_only": null }));
        let twice = ask("lean-twice");
        assert_eq!(twice.structured["found"], false, "{tool}");
        assert_eq!(twice.outcome, if error { CallOutcome::NotFoundAsError } else { CallOutcome::NotFound });
        let message = twice.structured["message"].as_str().unwrap();
        expect_text("missing symbol", message);
        assert_eq!(twice.text.lines().next(), Some(message), "{tool}");
        let all = json!(["lean-one:lean-twice", "lean-two::lean-twice"]);
        assert_eq!(twice.structured["suggestions"], all, "{tool}");
        let near = ask("cl:mapcra");
        assert_eq!(near.structured["suggestions"][0], "mapcar", "{tool}: {}", near.structured);
        assert_eq!(ask("lean-one:lean-twise").structured["suggestions"][0], "lean-twice");
        assert_eq!(ask("lean-on:lean-nothing-at-all").structured["suggestions"][0], "LEAN-ONE", "{tool}");
    }
    // An unqualified name is found in the only user package that contains it.
    let single = ask("who-calls", json!({ "name": "lean-single" }));
    assert_eq!(
        (&single.structured["found"], &single.structured["symbol"]),
        (&json!(true), &json!("lean-one::lean-single"))
    );
    let called = ask("who-calls", json!({ "symbol": "lean-one:lean-twice" }));
    assert_eq!(called.structured["users"][0]["name"], "lean-one::lean-single");
}

#[test]
fn hyphens_and_underscores_are_equal_in_tool_names() {
    assert_eq!(steelbank::actions::tools().get("who_calls").unwrap().name(), "who-calls");
    assert_eq!(steelbank::actions::tools().get("find-references").unwrap().name(), "find_references");
    let why = steelbank::actions::tools().get("who-cals").err().unwrap();
    expect_text("misspelled tool", &why.to_string());
}
