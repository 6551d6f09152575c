//! What becomes of the project beneath a server is told: by every tool that reads, no less than a new server knows.

use std::fs;

use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::program::{Folder, Streams, ends, on, serve};

/// The tools that only read, each with the schema of its arguments.
pub(crate) fn reading(client: &mut Client) -> Vec<(String, Value)> {
    let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
    let tools = tools.as_array().unwrap().iter().filter(|tool| tool["annotations"]["readOnlyHint"] == true);
    tools.map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool["inputSchema"].clone())).collect()
}

/// Returns arguments about the function `name`, its package and its file for a tool with this schema.
pub(crate) fn arguments(schema: &Value, name: &str, package: &str, path: &str) -> Value {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let argument = |key: &Value| {
        let key = key.as_str().unwrap().to_owned();
        let value = match (key.as_str(), schema["properties"][&key]["type"].as_str()) {
            ("path" | "file", _) => json!(path),
            ("package", _) => json!(package),
            ("names", _) => json!([name]),
            ("form" | "code" | "source" | "text", _) => json!(format!("({name} 1)")),
            (_, Some("integer")) => json!(1),
            (_, Some("array")) => json!([name]),
            ("new_name", _) => json!("two-of-them"),
            _ => json!(name),
        };
        (key, value)
    };
    Value::Object(required.iter().map(argument).collect::<Map<_, _>>())
}

#[test]
fn every_tool_says_that_the_projects_folder_is_gone_until_it_is_back() {
    let folder = Folder::new("changed-world");
    let (project, away) = (folder.join("project"), folder.join("away"));
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("mv.asd"), "(defsystem \"mv\" :components ((:file \"a\")))").unwrap();
    let text = "(defpackage :mv (:use :cl) (:export #:one))\n(in-package :mv)\n(defun one (x) x)\n(defun user () (one 1))\n";
    fs::write(project.join("a.lisp"), text).unwrap();
    let mut command = on(&project, &folder.join("cache"));
    command.args(["--no-snapshot", "serve", "--tools", "all"]);
    let (child, mut client) = serve(command, Streams::Pipes);
    client.initialize();
    let loaded = client.text("load-system", json!({ "system": "mv" }));
    assert!(loaded.contains("loaded"), "{loaded}");
    let reading = reading(&mut client).into_iter();
    let reading: Vec<(String, Value)> =
        reading.map(|(tool, schema)| (tool, arguments(&schema, "mv:one", "MV", "a.lisp"))).collect();
    assert!(reading.len() > 20, "{reading:?}");
    fs::rename(&project, &away).unwrap();
    for (tool, arguments) in &reading {
        let answer = client.call(tool, arguments.clone()).to_string();
        assert!(answer.contains(" is gone: it was moved or removed"), "{tool} {arguments}: {answer}");
    }
    fs::rename(&away, &project).unwrap();
    for (tool, arguments) in &reading {
        let answer = client.call(tool, arguments.clone()).to_string();
        assert!(!answer.contains("is gone"), "{tool} {arguments}: {answer}");
    }
    let callers = client.text("who-calls", json!({ "name": "mv:one" }));
    assert!(callers.contains("a.lisp:4:"), "{callers}");

    // A second definition of the system, as another checkout below the root has.
    fs::create_dir_all(project.join("branch")).unwrap();
    fs::copy(project.join("mv.asd"), project.join("branch/mv.asd")).unwrap();
    let systems = client.text("list-systems", json!({}));
    assert!(systems.contains("mv (loaded) mv.asd"), "{systems}");
    assert!(systems.contains("also defined in branch/mv.asd, which is not used"), "{systems}");
    client.leave();
    assert_eq!(ends(child).code(), Some(0));
}
