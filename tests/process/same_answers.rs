//! Compares the answers of all reading tools in three sessions: compiled, from the cache, and from
//! a snapshot.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::changed_world::{arguments, reading};
use crate::child::{small_or_full, wait_while};
use crate::client::Client;
use crate::fixtures::{library_registry, lisp_libraries};
use crate::program::{Folder, STEELBANK, Streams, ends_well, initialized};
use crate::renames::copy;
use crate::texts::{expect_text, in_general, write_project};

/// A definition that questions are about.
pub(crate) struct Asked {
    name: String,
    package: String,
    path: String,
    /// The new name for `rename`. `None`: a name that is not in use.
    new_name: Option<String>,
}

impl Asked {
    pub(crate) fn new(name: &str, package: &str, path: &str) -> Asked {
        let [name, package, path] = [name, package, path].map(str::to_owned);
        Asked { name, package, path, new_name: None }
    }

    fn becoming(mut self, new_name: &str) -> Asked {
        self.new_name = Some(new_name.to_owned());
        self
    }
}

pub(crate) fn program(home: &Path, system: &str) -> Command {
    let mut command = Command::new(STEELBANK);
    command.args(["--no-userinit", "--system", system, "--project"]).arg(home.join("project"));
    command.env("STEELBANK_CACHE", home.join("cache")).env("CL_SOURCE_REGISTRY", library_registry());
    command
}

/// Removes fields and text that differ between processes: addresses and times.
fn without_process_state(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(key, _)| {
                let of_process =
                    ["duration_ms", "query_time_ms", "elapsed_ms", "indexed_at", "verifying_takes_seconds"];
                !of_process.contains(&key.as_str())
            });
            Value::Object(kept.map(|(key, value)| (key.clone(), without_process_state(value))).collect())
        }
        Value::Array(all) => all.iter().map(without_process_state).collect(),
        Value::String(text) => json!(in_general(text.trim_end(), &[])),
        other => other.clone(),
    }
}

/// Begins a session and waits until its system is loaded.
pub(crate) fn session(mut command: Command) -> (Child, Client) {
    command.stderr(Stdio::null());
    let (child, mut client) = initialized(command, Streams::Pipes);
    wait_while(|| client.status()["loading"] == true);
    (child, client)
}

/// Returns the answers of all reading tools, each with its question.
pub(crate) fn answers(client: &mut Client, asked: &[Asked]) -> Vec<(String, Value)> {
    let mut said = Vec::new();
    for (tool, schema) in reading(client) {
        // These describe the process itself.
        if matches!(tool.as_str(), "status" | "index_project" | "check_index_status") {
            continue;
        }
        let mut known = BTreeSet::new();
        for Asked { name, package, path, new_name } in asked {
            let mut arguments = arguments(&schema, name, package, path);
            if let (Some(new_name), Some(argument)) = (new_name, arguments.get_mut("new_name")) {
                *argument = json!(new_name);
            }
            if known.insert(arguments.to_string()) {
                let answer = client.call(&tool, arguments.clone());
                let mut answer =
                    json!([answer["structuredContent"], answer["content"][0]["text"], answer["isError"]]);
                // The duration is an estimate, and its line is only in the text of plans that have
                // one.
                if let (Some(seconds), Some(text)) =
                    (answer[0]["verifying_takes_seconds"].as_u64(), answer[1].as_str())
                {
                    let lines = text.split_inclusive('\n');
                    answer[1] = lines
                        .filter(|line| !line.contains(&format!(" {seconds} s")))
                        .collect::<String>()
                        .into();
                }
                if matches!(tool.as_str(), "find_references" | "disassemble") {
                    (answer[0]["lines"], answer[1]) = (Value::Null, Value::Null);
                }
                said.push((format!("{tool} {arguments}"), without_process_state(&answer)));
            }
        }
    }
    said
}

/// Lists the questions that `others` answers differently.
fn differences(how: &str, answers: &[(String, Value)], others: &[(String, Value)]) -> Vec<String> {
    assert!(answers.len() > 50 && others.len() == answers.len(), "{} {}", answers.len(), others.len());
    let pairs = answers.iter().zip(others).filter(|((_, answer), (_, other))| answer != other);
    pairs
        .map(|((question, answer), (_, other))| format!("{question}, {how}:\n{other}\nnot:\n{answer}"))
        .collect()
}

/// Asks about the definitions that `about` returns in all three kinds of session, and compares the
/// answers.
#[track_caller]
fn compare(home: &Path, system: &str, about: &dyn Fn(&mut Client) -> Vec<Asked>) {
    let ask = |arguments: &[&str]| {
        let mut command = program(home, system);
        command.args(arguments);
        let (child, mut client) = session(command);
        let asked = about(&mut client);
        let said = answers(&mut client, &asked);
        ends_well(child, client);
        said
    };
    let compiled = ask(&["--no-snapshot", "serve", "--tools", "all"]);
    let cached = ask(&["--no-snapshot", "serve", "--tools", "all"]);
    let made = program(home, system).arg("snapshot").output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let restored = ask(&["serve", "--tools", "all"]);
    let mut all = differences("from the cache", &compiled, &cached);
    all.extend(differences("from a snapshot", &compiled, &restored));
    assert!(all.is_empty(), "{} differences\n{}", all.len(), all.join("\n\n"));
}

#[test]
fn unreferenced_names_are_found_in_all_sessions() {
    let home = Folder::new("same-names");
    let project = home.join("project");
    fs::create_dir_all(&project).unwrap();
    write_project(&project, include_str!("../projects/same_names.txt"));
    let names = [
        "cold::space-p", "cold::lonely-function", "cold::only-here", "cold:user", "cold::quoted",
        "cold::no-such", "lonely-function", "cold::*matchers*", "cold::lonely-functio", "only-her",
        "cl-user::lonely-function", "cold::space lonely", "cold::balance", "cold::owner",
    ];
    // Only sidecars have these names.
    let taken = ["space-p", "only-here"];
    let about = |client: &mut Client| {
        for new in taken {
            let plan = client.structured("rename", json!({ "name": "cold:user", "new_name": new }));
            assert!(plan["conflicts"].to_string().contains(&format!("cold::{new}")), "{plan}");
        }
        // They are suggested for misspelt names.
        for (tool, argument, misspelt) in [
            ("describe-symbol", "name", "cold::lonely-functio"),
            ("find-definition", "name", "cold::lonely-functio"),
            ("who-calls", "name", "cl-user::lonely-functio"),
            ("apropos", "pattern", "lonely-functio"),
            ("apropos", "pattern", "functin lonely"),
        ] {
            let answer = client.call(tool, json!({ argument: misspelt })).to_string();
            assert!(answer.contains("lonely-function"), "{tool} {misspelt}: {answer}");
        }
        // who-sets notes assignments to slots and places.
        for name in ["balance", "owner", "user"] {
            let text = client.text("who-sets", json!({ "name": format!("cold::{name}") }));
            expect_text(&format!("who-sets {name}"), &text);
        }
        let asked = |name: &&str| Asked::new(name, "COLD", "a.lisp");
        let plain = names.iter().map(asked);
        let renamed = taken.iter().flat_map(|new| names.iter().map(asked).map(move |it| it.becoming(new)));
        plain.chain(renamed).collect::<Vec<_>>()
    };
    compare(&home, "cold", &about);
}

#[test]
fn derived_names_conflict_in_all_sessions() {
    let home = Folder::new("same-conflicts");
    let project = home.join("project");
    fs::create_dir_all(&project).unwrap();
    let text = "\
//- cold.asd
(defsystem \"cold\" :components ((:file \"a\")))
//- a.lisp
(defpackage :cold (:use :cl)) (in-package :cold)
(defmacro quiet (&rest forms) (declare (ignore forms)) nil)
(defstruct pair left)
(defmacro define-thing (name) `(defun ,(intern (format nil \"~A-THING\" name)) () ,(string name)))
(define-thing big)
(defun user (x) (quiet (duo-left x) (large-thing)) (list (pair-left x) (big-thing)))
";
    write_project(&project, text);
    let about = |client: &mut Client| {
        for (name, new, taken) in [("pair", "duo", "duo-left"), ("big", "large", "large-thing")] {
            let rename = json!({ "name": format!("cold::{name}"), "new_name": new, "include": ["derived"] });
            let plan = client.structured("rename", rename);
            assert!(plan["conflicts"].to_string().contains(&format!("cold::{taken}")), "{plan}");
        }
        let renamed = [
            ("pair", "duo"),
            ("pair-left", "duo-left"),
            ("big", "large"),
            ("big-thing", "large-thing"),
            ("user", "duo-left"),
        ];
        let asked =
            renamed.map(|(name, new)| Asked::new(&format!("cold::{name}"), "COLD", "a.lisp").becoming(new));
        Vec::from(asked)
    };
    compare(&home, "cold", &about);
}

#[test]
fn libraries_answer_alike_in_all_sessions() {
    const LIBRARIES: [&str; 3] = ["alexandria", "cl-ppcre", "yason"];
    let home = Folder::new("same-libraries");
    let project = home.join("project");
    for library in LIBRARIES {
        copy(&lisp_libraries().join(library), &project.join(library));
    }
    fs::write(
        project.join("all.asd"),
        "(defsystem \"all\" :depends-on (\"alexandria\" \"cl-ppcre\" \"yason\"))",
    )
    .unwrap();
    let files = [
        "alexandria/alexandria-1/lists.lisp", "alexandria/alexandria-1/macros.lisp", "cl-ppcre/api.lisp",
        "cl-ppcre/util.lisp", "yason/encode.lisp", "yason/parse.lisp",
    ];
    let about = |client: &mut Client| {
        let mut asked = Vec::new();
        for path in files.iter().filter(|path| project.join(path).exists()) {
            let outline = client.call("outline", json!({ "path": path }));
            let listed = outline["structuredContent"]["definitions"].as_array().unwrap();
            let step = (listed.len() / small_or_full(3, 30)).max(1);
            for definition in listed.iter().step_by(step) {
                let Some(name) = definition["name"].as_str() else { continue };
                let package = name.split("::").next().unwrap_or_default();
                asked.push(Asked::new(name, package, path));
            }
        }
        assert!(asked.len() > 9, "{}", asked.len());
        asked
    };
    compare(&home, "all", &about);
}

/// Writes a state of a project's history. Each state has other functions, files and calls.
fn write_state(project: &Path, state: usize) -> Vec<Asked> {
    let mut asked = Vec::new();
    for (file, count) in [("a", 3 + state % 3), ("b", 2 + state % 2), ("c", state % 3)] {
        let mut text = "(in-package :history)\n".to_owned();
        for number in 0..count {
            // Lines and callees change.
            let blank = "\n".repeat((state + number) % 3);
            let called =
                if file == "a" { "list".to_owned() } else { format!("a-{}", (state * 7 + number) % 3) };
            let defined = match number {
                1 => format!("(defmacro {file}-1 (x) `({called} (list ,x {state})))"),
                2 => format!("(defgeneric {file}-2 (x) (:method ((x t)) ({called} x)))"),
                _ => format!("(defun {file}-{number} (x) ({called} x))"),
            };
            text.push_str(&format!("{blank}{defined}\n"));
            asked.push(Asked::new(&format!("history::{file}-{number}"), "HISTORY", &format!("{file}.lisp")));
        }
        match count {
            0 => drop(fs::remove_file(project.join(format!("{file}.lisp")))),
            _ => fs::write(project.join(format!("{file}.lisp")), text).unwrap(),
        }
    }
    let last = if !state.is_multiple_of(3) { " (:file \"c\")" } else { "" };
    let components = format!("(:file \"package\") (:file \"a\") (:file \"b\"){last}");
    fs::write(
        project.join("history.asd"),
        format!("(defsystem \"history\" :serial t :components ({components}))"),
    )
    .unwrap();
    asked
}

#[test]
fn reloading_server_answers_as_a_new_one() {
    let home = Folder::new("same-history");
    let project = home.join("project");
    fs::create_dir_all(&project).unwrap();
    fs::write(project.join("package.lisp"), "(defpackage :history (:use :cl))\n").unwrap();
    write_state(&project, 0);
    let server = || {
        let mut command = program(&home, "history");
        command.args(["--no-snapshot", "serve", "--tools", "all"]);
        session(command)
    };
    let (child, mut client) = server();
    let states = small_or_full(3, 20);
    let mut all = Vec::new();
    for state in (1..=states).chain((0..states).rev()) {
        let asked = write_state(&project, state);
        let reloaded = client.call("reload", json!({ "remove": true }));
        assert_eq!(reloaded["isError"], false, "state {state}: {reloaded}");
        let kept = answers(&mut client, &asked);
        let (other, mut fresh) = server();
        all.extend(differences(&format!("reloaded in state {state}"), &answers(&mut fresh, &asked), &kept));
        ends_well(other, fresh);
    }
    ends_well(child, client);
    assert!(all.is_empty(), "{} differences\n{}", all.len(), all.join("\n\n"));
}
