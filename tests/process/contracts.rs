//! Tests of the contracts on the command line: `steelbank call TOOL JSON`, as text and as JSON.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::contracts_table::{Answer, Row, check, make_project, rows};
use crate::program::{Folder, STEELBANK, outcome, run};

/// The number of concurrent calls.
const THREADS: usize = 4;

/// Calls the row's tool in the project at `root`.
fn call(root: &Path, row: &Row, json: bool) -> (String, String, Option<i32>) {
    let mut command = Command::new(STEELBANK);
    command.arg("--project").arg(root).stdin(Stdio::null());
    match row.is_manual {
        true => command.arg("--no-auto-index"),
        false => command.args(["--system", "contracts"]),
    };
    command.args(["call", row.tool, row.given]);
    if json {
        command.arg("--json");
    }
    outcome(&command.output().unwrap())
}

fn ask(root: &Path, row: &Row, listed: &Value) -> Answer {
    if row.is_of_list() {
        return Answer { text: None, is_error: false, is_missing: None, structured: listed.clone() };
    }
    // On the command line, find_references prints another text: lines as grep writes them.
    let has_text = row.tool != "find_references";
    let (text, errors, code) = call(root, row, !has_text);
    let structured = match has_text {
        true if row.has_fields() => call(root, row, true).0,
        true => String::new(),
        false => text.clone(),
    };
    let is_error = matches!(code, Some(2 | 3));
    let text = match (is_error, has_text) {
        (true, _) => Some(errors.trim_end_matches('\n').replacen("steelbank: ", "", 1)),
        (false, true) => Some(text.strip_suffix('\n').unwrap_or(&text).to_owned()),
        (false, false) => None,
    };
    Answer {
        text,
        // Exit code 1 does not show whether the tool reports an error.
        is_error: is_error || (code == Some(1) && row.is_missing_error()),
        is_missing: (!is_error).then_some(code == Some(1)),
        structured: serde_json::from_str(&structured).unwrap_or_default(),
    }
}

#[test]
fn contracts_hold_on_the_command_line() {
    let folder = Folder::new("contracts");
    let root = make_project(&folder.join("project"));
    let apart = make_project(&folder.join("apart"));
    let listed: Value = serde_json::from_str(&outcome(&run(&["tools", "--json"])).0).unwrap();
    let tools = listed["tools"].as_array().unwrap().iter();
    let listed = tools.map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool.clone())).collect();
    let listed = Value::Object(listed);
    // Fill the cache before the threads start.
    assert_eq!(
        run(&["--project", root.to_str().unwrap(), "--system", "contracts", "status"]).status.code(),
        Some(0)
    );
    let rows = rows();
    let share = |thread: usize| -> Vec<(usize, Answer)> {
        // One thread runs the rows that depend on state, in order.
        let is_mine = |at: usize, row: &Row| if row.is_manual { thread == 0 } else { at % THREADS == thread };
        let mine = rows.iter().enumerate().filter(|(at, row)| is_mine(*at, row));
        let asked = mine.map(|(at, row)| {
            row.write_before(&apart);
            (at, ask(if row.is_manual { &apart } else { &root }, row, &listed))
        });
        asked.collect()
    };
    let share = &share;
    let mut answers: Vec<(usize, Answer)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || share(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    answers.sort_by_key(|(at, _)| *at);
    let mut answers = answers.into_iter();
    check(&root, &rows, |_| answers.next().unwrap().1);
}
