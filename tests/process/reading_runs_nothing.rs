//! Tests that tools marked as read-only run no code, in a project full of traps.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::program::{Folder, STEELBANK, Streams, ends, initialized};

/// Returns a form that leaves a file behind when it is evaluated.
fn trap(sprung: &Path, name: &str) -> String {
    let path = sprung.join(name);
    format!("(with-open-file (o {:?} :direction :output :if-exists :supersede) (print t o))", path.display())
}

fn write(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Writes traps into every file that code could be run from.
fn set_traps(project: &Path, home: &Path, sprung: &Path) {
    let trap = |name: &str| trap(sprung, name);
    let read = |name: &str| format!("#.{}", trap(name));
    write(project.join(".qlot/setup.lisp"), &trap("qlot"));
    write(project.join("quicklisp/setup.lisp"), &trap("quicklisp"));
    write(
        project.join("p.asd"),
        &format!(
            "{}\n{}\n(defsystem \"p\" :version {} :components ((:file \"a\") {}))\n(defsystem \"p/tests\")\n",
            trap("asd"),
            read("asd-toplevel"),
            read("asd-version"),
            read("asd-component"),
        ),
    );
    write(
        project.join("q.asd"),
        &format!("(eval-when (:compile-toplevel :load-toplevel :execute) {})", trap("asd-eval")),
    );
    write(
        project.join("a.lisp"),
        &format!("(defun needle (x) {} x)\n{}", read("source"), trap("source-form")),
    );
    write(project.join(".dir-locals.el"), &format!("((nil . ((eval . {}))))", trap("dir-locals")));
    for init in [".sbclrc", ".swank.lisp", ".config/common-lisp/asdf-output-translations.conf"] {
        write(home.join(init), &read(&init.replace('/', "-")));
    }
    write(
        home.join(".config/common-lisp/source-registry.conf"),
        &format!("(:source-registry {} :inherit-configuration)", read("registry")),
    );
    write(
        home.join(".config/common-lisp/source-registry.conf.d/50-trap.conf"),
        &format!("(:tree {})", read("registry-folder")),
    );
    let git = |arguments: &[&str]| {
        let done = Command::new("git").arg("-C").arg(project).args(arguments).output();
        assert!(done.is_ok_and(|done| done.status.success()), "git {arguments:?}");
    };
    git(&["init", "-q"]);
    let script = |name: &str| {
        let path = project.join(".git").join(format!("trap-{name}"));
        write(path.clone(), &format!("#!/bin/sh\n: > {}\n", sprung.join(format!("git-{name}")).display()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    for (key, name) in [
        ("core.fsmonitor", "fsmonitor"),
        ("core.pager", "pager"),
        ("core.editor", "editor"),
        ("diff.external", "diff"),
        ("diff.trap.textconv", "textconv"),
        ("filter.trap.clean", "clean"),
        ("filter.trap.smudge", "smudge"),
        ("core.sshCommand", "ssh"),
    ] {
        git(&["config", key, &script(name)]);
    }
    write(project.join(".gitattributes"), "*.lisp filter=trap diff=trap\n");
    for hook in
        ["post-index-change", "pre-commit", "post-checkout", "fsmonitor-watchman", "reference-transaction"]
    {
        let path = project.join(".git/hooks").join(hook);
        write(path.clone(), &format!("#!/bin/sh\n: > {}\n", sprung.join(format!("hook-{hook}")).display()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// Returns values for an argument by its schema: ordinary values, and traps that the Lisp reader
/// would spring.
fn values(name: &str, schema: &Value, sprung: &Path) -> Vec<Value> {
    let read = |what: &str| format!("#.{}", trap(sprung, &format!("argument-{what}-{name}")));
    if let Some(words) = schema["enum"].as_array() {
        return vec![words[0].clone()];
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str()).unwrap_or("string");
    match kind {
        "boolean" => vec![json!(true), json!(false)],
        "integer" | "number" => {
            vec![schema["minimum"].as_i64().map_or(json!(1), |least| json!(least.max(1)))]
        }
        "array" => vec![json!([read("array")]), json!(["a.lisp"]), json!(["needle"])],
        "object" => vec![json!({})],
        _ => vec![
            json!("needle"),
            json!("car"),
            json!("p"),
            json!("a.lisp"),
            json!("(needle 1)"),
            json!(read("read")),
            json!(format!("cl-user::{}", read("qualified"))),
            json!(format!("|{}|", read("bars"))),
            json!(".*"),
        ],
    }
}

/// Returns the arguments of a tool's calls: only the required arguments, then each argument once
/// with each of its values.
fn calls(tool: &Value, sprung: &Path) -> Vec<Map<String, Value>> {
    let schema = &tool["inputSchema"];
    let properties = schema["properties"].as_object().cloned().unwrap_or_default();
    let required: BTreeSet<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let base: Map<String, Value> = properties
        .iter()
        .filter(|(name, _)| required.contains(name.as_str()))
        .map(|(name, schema)| (name.clone(), values(name, schema, sprung).remove(0)))
        .collect();
    let mut calls = vec![base.clone()];
    for (name, schema) in &properties {
        for value in values(name, schema, sprung) {
            let mut call = base.clone();
            call.insert(name.clone(), value);
            calls.push(call);
        }
    }
    calls
}

/// Lists the traps that were sprung.
fn trapped(sprung: &Path) -> Vec<String> {
    let found = fs::read_dir(sprung).unwrap().flatten();
    found.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Calls each read-only tool, and checks that none springs a trap.
fn asks_all(client: &mut Client, sprung: &Path) {
    let tools = client.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
    let reading: Vec<&Value> =
        tools.iter().filter(|tool| tool["annotations"]["readOnlyHint"] == true).collect();
    assert!(reading.len() > 10, "{}", reading.len());
    for tool in reading {
        let name = tool["name"].as_str().unwrap();
        for arguments in calls(tool, sprung) {
            client.call(name, Value::Object(arguments.clone()));
            assert_eq!(trapped(sprung), [""; 0], "{name} {arguments:?}");
        }
    }
}

#[test]
fn reading_tools_run_no_changed_system_definition() {
    let folder = Folder::new("changed-traps");
    let [project, sprung] = ["project", "sprung"].map(|name| folder.join(name));
    fs::create_dir_all(&sprung).unwrap();
    let systems = "(defsystem \"p\" :components ((:file \"a\")))\n(defsystem \"p/tests\" :depends-on (\"p\") :components ((:file \"b\")))";
    write(project.join("p.asd"), systems);
    write(project.join("a.lisp"), "(in-package :cl-user)\n(defun needle (x) x)");
    write(project.join("b.lisp"), "(in-package :cl-user)\n(defun needle-user () (needle 1))");
    let mut command = Command::new(STEELBANK);
    command.arg("serve").current_dir(&project);
    command.env("HOME", &folder).env("STEELBANK_CACHE", folder.join("cache"));
    let (child, mut client) = initialized(command, Streams::Pipes);
    client.text("load-system", json!({ "system": "p/tests" }));
    assert!(client.text("who-calls", json!({ "name": "cl-user::needle" })).contains("needle-user"));
    write(project.join("p.asd"), &format!("{}\n{systems}", trap(&sprung, "asd")));
    asks_all(&mut client, &sprung);
    drop(client);
    ends(child);
}

#[test]
fn reading_tools_run_no_code() {
    let folder = Folder::new("traps");
    let [project, home, sprung] = ["project", "home", "sprung"].map(|name| folder.join(name));
    for folder in [&project, &home, &sprung] {
        fs::create_dir_all(folder).unwrap();
    }
    set_traps(&project, &home, &sprung);
    let command = |arguments: &[&str]| {
        let mut command = Command::new(STEELBANK);
        command.args(arguments).current_dir(&project).env("HOME", &home);
        for name in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "CL_SOURCE_REGISTRY"] {
            command.env_remove(name);
        }
        command.env("STEELBANK_CACHE", home.join("cache")).stderr(std::process::Stdio::null());
        command
    };
    let (child, mut client) = initialized(command(&["serve"]), Streams::Pipes);
    let trapped = || trapped(&sprung);
    asks_all(&mut client, &sprung);
    let systems = client.structured("list-systems", json!({}));
    let names: Vec<&str> =
        systems["systems"].as_array().unwrap().iter().filter_map(|system| system["name"].as_str()).collect();
    assert_eq!(names, ["p", "p/tests", "q"]);
    for arguments in [&["list-systems"][..], &["doctor"], &["index"], &["tools"]] {
        assert!(command(arguments).output().unwrap().status.code().is_some());
        assert_eq!(trapped(), [""; 0], "{arguments:?}");
    }
    // The traps work: a load springs them.
    client.call("load-system", json!({ "system": "p" }));
    let sprung = trapped();
    for name in ["qlot", ".sbclrc"] {
        assert!(sprung.iter().any(|trap| trap == name), "{name}: {sprung:?}");
    }
    drop(client);
    ends(child);
}
