//! Runs the tasks of examples/tasks with limits of calls and tokens.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::fixtures::{library_registry, lisp_libraries};
use crate::program::{Folder, Streams, ends_well, initialized, on};
use crate::renames::copy;

/// The tasks and their limits of calls.
const CALLS: [(&str, usize); 5] = [
    ("dead-code", 1),
    ("impact-of-a-macro", 1),
    ("signature-change", 2),
    ("module-overview", 2),
    ("rename", 1),
];

#[test]
fn tasks_take_few_calls_and_tokens() {
    let folder = Folder::new("tasks");
    let project = folder.join("cl-ppcre");
    copy(&lisp_libraries().join("cl-ppcre"), &project);
    let mut command = on(&project, &folder.join("cache"));
    command.args(["--no-snapshot", "serve", "--allow-edits"]);
    command.env("CL_SOURCE_REGISTRY", library_registry());
    let (child, mut client) = initialized(command, Streams::Pipes);
    client.text("load-system", json!({ "system": "cl-ppcre" }));
    for (name, most_calls) in CALLS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/tasks/{name}.json"));
        let task: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
        let calls = task["calls"].as_array().unwrap();
        assert!(calls.len() <= most_calls, "{name}");
        let mut tokens = 0;
        for call in calls {
            let result = client.call(call["tool"].as_str().unwrap(), call["arguments"].clone());
            assert_eq!(result["isError"], false, "{name}: {result}");
            let answer = result["structuredContent"].to_string();
            for told in call["tells"].as_array().unwrap() {
                assert!(answer.contains(told.as_str().unwrap()), "{name}: no {told} in {answer}");
            }
            tokens += answer.chars().count() / 4;
        }
        println!("{name}: {} calls, {tokens} tokens", calls.len());
        assert!(tokens <= task["most_tokens"].as_u64().unwrap() as usize, "{name}: {tokens} tokens");
    }
    // The text contains only the new name.
    let text = fs::read_to_string(project.join("regex-class-util.lisp")).unwrap();
    assert!(text.contains("(regex-total-length") && !text.contains("(regex-length"), "{text}");
    ends_well(child, client);
}
