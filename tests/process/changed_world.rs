//! Tests of projects that change under a server: each tool answers as a new server would, or
//! reports the change.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::client::Client;
use crate::program::{Folder, Streams, ends, ends_well, on, serve};
use crate::same_answers::{Asked, answers, program, session};
use crate::texts::{expect_text, git, write_project};

/// Lists the read-only tools, `rename` and `compiler-notes`, each with the schema of its arguments.
pub(crate) fn reading(client: &mut Client) -> Vec<(String, Value)> {
    let tools = client.request("tools/list", json!({}))["result"]["tools"].clone();
    let reads = |tool: &&Value| {
        tool["annotations"]["readOnlyHint"] == true
            || ["rename", "compiler-notes"].iter().any(|it| tool["name"] == *it)
    };
    let tools = tools.as_array().unwrap().iter().filter(reads);
    tools.map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool["inputSchema"].clone())).collect()
}

/// Returns the required arguments of a tool with this schema, with values for the function `name`,
/// its package and its file.
pub(crate) fn arguments(schema: &Value, name: &str, package: &str, path: &str) -> Value {
    let required = match &schema["properties"]["new_name"] {
        Value::Null => schema["required"].as_array().cloned().unwrap_or_default(),
        _ => vec![json!("name"), json!("new_name")],
    };
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
fn missing_project_folder_is_reported() {
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
    assert_eq!(client.structured("load-system", json!({ "system": "mv" }))["status"], "loaded");
    let reading = reading(&mut client).into_iter();
    let reading: Vec<(String, Value)> =
        reading.map(|(tool, schema)| (tool, arguments(&schema, "mv:one", "MV", "a.lisp"))).collect();
    assert!(reading.len() > 20, "{reading:?}");
    fs::rename(&project, &away).unwrap();
    let gone = client.structured("who-calls", json!({ "name": "mv:one" }))["project_gone"].clone();
    let gone = gone.as_str().unwrap();
    expect_text("project folder", gone);
    for (tool, arguments) in &reading {
        let answer = client.call(tool, arguments.clone()).to_string();
        assert!(answer.contains(gone), "{tool} {arguments}: {answer}");
    }
    fs::rename(&away, &project).unwrap();
    for (tool, arguments) in &reading {
        let answer = client.call(tool, arguments.clone()).to_string();
        assert!(!answer.contains(gone), "{tool} {arguments}: {answer}");
    }
    let callers = client.text("who-calls", json!({ "name": "mv:one" }));
    assert!(callers.contains("a.lisp:4:"), "{callers}");

    // Add a second definition of the system, as in a checkout inside the project.
    fs::create_dir_all(project.join("branch")).unwrap();
    fs::copy(project.join("mv.asd"), project.join("branch/mv.asd")).unwrap();
    expect_text("system defined twice", &client.text("list-systems", json!({})));
    client.leave();
    assert_eq!(ends(child).code(), Some(0));
}

/// Replaces text in a file of the project. The file must contain the text `from`.
fn edit(project: &Path, path: &str, from: &str, to: &str) {
    let path = project.join(path);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(path, text.replace(from, to)).unwrap();
}

const EXTRA: &str = "(defun extra () (user (price 3)))\n";

type Event = (&'static str, fn(&Path));

/// Changes to a project under a server.
const EVENTS: [Event; 18] = [
    ("nothing", |_| ()),
    ("a definition is replaced, and others move", |project| {
        edit(project, "extra.lisp", EXTRA, ";; More.\n\n(defun fresh () (total (price 9)))\n");
    }),
    ("definitions are cut off", |project| {
        let text = fs::read_to_string(project.join("app.lisp")).unwrap();
        fs::write(project.join("app.lisp"), &text[..text.find("(defun order").unwrap()]).unwrap();
    }),
    ("a comment", |project| edit(project, "app.lisp", "(in-package", "\n;;; This is it.\n(in-package")),
    ("another text of the same date", |project| {
        let dates = fs::metadata(project.join("extra.lisp")).unwrap().modified().unwrap();
        edit(project, "extra.lisp", "(defun extra ", "(defun fresh ");
        let file = fs::File::options().write(true).open(project.join("extra.lisp")).unwrap();
        file.set_modified(dates).unwrap();
    }),
    ("no closing parenthesis", |project| edit(project, "extra.lisp", "(price 3)))", "(price 3))")),
    ("an empty file", |project| fs::write(project.join("extra.lisp"), "").unwrap()),
    ("a file is removed", |project| fs::remove_file(project.join("extra.lisp")).unwrap()),
    ("a file is renamed", |project| {
        fs::rename(project.join("extra.lisp"), project.join("more.lisp")).unwrap();
        edit(project, "shop.asd", "\"extra\"", "\"more\"");
    }),
    ("a file is a link", |project| {
        fs::rename(project.join("extra.lisp"), project.join("real.lisp")).unwrap();
        symlink("real.lisp", project.join("extra.lisp")).unwrap();
    }),
    ("a file is added", |project| {
        fs::write(project.join("fresh.lisp"), "(in-package :shop)\n(defun fresh () (price 5))\n").unwrap();
        edit(project, "shop.asd", "(:file \"extra\")", "(:file \"extra\") (:file \"fresh\")");
    }),
    ("a component is taken out", |project| edit(project, "shop.asd", " (:file \"extra\")", "")),
    ("a definition of a system that cannot be read", |project| edit(project, "shop.asd", "\"tests\")))", "")),
    ("a definition that does something when it is read", |project| {
        let path = project.with_file_name("read");
        let trap = format!("(with-open-file (s {path:?} :direction :output))\n(defsystem \"shop\" ");
        edit(project, "shop.asd", "(defsystem \"shop\" ", &trap);
    }),
    ("a second definition of the system", |project| {
        fs::create_dir(project.join("branch")).unwrap();
        for file in ["shop.asd", "package.lisp", "base.lisp"] {
            fs::copy(project.join(file), project.join("branch").join(file)).unwrap();
        }
    }),
    ("an older commit", |project| git(project, &["checkout", "-q", "HEAD~1"])),
    ("files are ignored", |project| fs::write(project.join(".gitignore"), "extra.lisp\n").unwrap()),
    ("another project in its place", |project| {
        fs::remove_dir_all(project).unwrap();
        write_project(
            project,
            "//- other.asd\n(defsystem \"other\" :components ((:file \"o\")))\n//- o.lisp\n(in-package :cl-user)",
        );
    }),
];

/// Lists the places in an answer that are past the end of their files, or in lines that do not
/// contain the name of the definition.
fn wrong_places(project: &Path, value: &Value, wrong: &mut Vec<String>) {
    let mut look = |place: &str, name: Option<&str>| {
        let mut parts = place.split(':');
        let (Some(path), Some(line)) = (parts.next(), parts.next()) else { return };
        let Ok(line) = line.parse::<usize>() else { return };
        if path.ends_with(".lisp") || path.ends_with(".asd") {
            let text = fs::read_to_string(project.join(path)).unwrap_or_default();
            let found = text.lines().nth(line.saturating_sub(1));
            let bare = |name: &str| name.rsplit(':').next().unwrap_or_default().to_lowercase();
            let stands = |name| found.is_some_and(|found| found.to_lowercase().contains(&bare(name)));
            if found.is_none() || name.is_some_and(|name| !stands(name)) {
                wrong.push(format!("{place}, {name:?}: {found:?}"));
            }
        }
    };
    match value {
        Value::Object(fields) => {
            // The line of a definition contains the name.
            if let (Some(name), Some(place)) = (fields.get("name"), fields.get("place")) {
                let name =
                    name.as_str().filter(|name| !name.starts_with('(') && !fields.contains_key("does"));
                look(place.as_str().unwrap_or_default(), name);
            }
            if let (Some(path), Some(line)) = (fields.get("path").and_then(Value::as_str), fields.get("line"))
            {
                look(&format!("{path}:{line}"), None);
            }
            fields.values().for_each(|value| wrong_places(project, value, wrong));
        }
        Value::Array(all) => all.iter().for_each(|value| wrong_places(project, value, wrong)),
        Value::String(text) if !text.contains(' ') => look(text, None),
        _ => (),
    }
}

/// Removes the symbols of references in text. The image resolves them only in files that are loaded
/// and up to date.
fn unresolved(answer: &mut Value) {
    for found in answer[0]["references"].as_array_mut().into_iter().flatten() {
        found.as_object_mut().unwrap().remove("symbol");
    }
}

/// Returns whether an answer reports a difference between the image and the files. An error
/// contains `stale`, the start of the sentence about changed files.
fn is_reported(answer: &Value, stale: &str) -> bool {
    ["project_gone", "older_image", "only_in_image"].iter().any(|key| answer[0][key].is_string())
        || answer[2] == true && answer[1].as_str().is_some_and(|text| text.contains(stale))
}

#[test]
fn changed_project_answers_like_new_server() {
    let home = Folder::new("changed-beneath");
    let (pristine, project) = (home.join("pristine"), home.join("project"));
    fs::create_dir(&pristine).unwrap();
    git(&pristine, &["init", "-q"]);
    write_project(&pristine, include_str!("../projects/changed_world.txt"));
    let (system, extra) =
        (fs::read(pristine.join("shop.asd")).unwrap(), fs::read(pristine.join("extra.lisp")).unwrap());
    EVENTS.iter().find(|(event, _)| *event == "a component is taken out").unwrap().1(&pristine);
    fs::write(pristine.join("extra.lisp"), "").unwrap();
    edit(&pristine, "app.lisp", "(defun user (x) (with-log (price x)))", "(defun old-user () (price 1))");
    git(&pristine, &["add", "-A"]);
    git(&pristine, &["commit", "-q", "-m", "one"]);
    edit(&pristine, "app.lisp", "(defun old-user () (price 1))", "(defun user (x) (with-log (price x)))");
    fs::write(pristine.join("shop.asd"), system).unwrap();
    fs::write(pristine.join("extra.lisp"), extra).unwrap();
    git(&pristine, &["commit", "-q", "-a", "-m", "two"]);
    let restore = || {
        let _ = (fs::remove_dir_all(&project), fs::remove_file(home.join("read")));
        assert!(Command::new("cp").arg("-a").args([&pristine, &project]).status().unwrap().success());
    };
    restore();
    let asked = [
        Asked::new("shop:price", "SHOP", "app.lisp"),
        Asked::new("shop::extra", "SHOP", "extra.lisp"),
        Asked::new("shop:total", "SHOP", "base.lisp"),
        Asked::new("shop:*log*", "SHOP/TESTS", "shop.asd"),
        Asked::new("shop:with-log", "SHOP", "extra.lisp"),
        Asked::new("shop::fresh", "SHOP", "fresh.lisp"),
    ];
    let server = || {
        let mut command = program(&home, "shop/tests");
        command.args(["--no-snapshot", "serve", "--tools", "all"]);
        session(command)
    };
    let (child, mut client) = server();
    let mut wrong = Vec::new();
    for (event, happens) in EVENTS {
        happens(&project);
        let kept = answers(&mut client, &asked);
        if home.join("read").exists() {
            wrong.push(format!("{event}: a query evaluated the system definition"));
        }
        let (other, mut fresh) = server();
        let new = answers(&mut fresh, &asked);
        ends_well(other, fresh);
        let reloaded = client.call("reload", json!({ "remove": true }));
        let is_link = project.join("extra.lisp").is_symlink();
        let renames = kept.iter().filter(|(question, _)| question.starts_with("rename"));
        if is_link
            && renames
                .flat_map(|(_, it)| it[0]["files"].as_array())
                .flatten()
                .any(|it| it["path"] == "extra.lisp")
        {
            wrong.push(format!("{event}: a link would be edited"));
        }
        // After a failed load, no answers are compared, because the load itself reports the
        // differences. A file behind a link is not reloaded: its uses have the link's name.
        let is_loaded = reloaded["structuredContent"]["status"] == "loaded" && !is_link;
        let reloaded = if is_loaded { answers(&mut client, &asked) } else { Vec::new() };
        let stale = kept.iter().find_map(|(_, answer)| answer[0]["older_image"].as_str()).unwrap_or("\0");
        let stale = stale.split(':').next().unwrap();
        for (when, answers) in [("", &kept), (" and a reload", &reloaded)] {
            assert!(answers.is_empty() || answers.len() == new.len());
            for ((question, answer), (_, expected)) in answers.iter().zip(&new) {
                let (mut answer, mut expected) = (answer.clone(), expected.clone());
                if question.starts_with("find_references") {
                    unresolved(&mut answer);
                    unresolved(&mut expected);
                }
                let (answer, expected) = (&answer, &expected);
                let mut places = Vec::new();
                wrong_places(&project, answer, &mut places);
                wrong.extend(places.into_iter().map(|place| format!("{event}{when}: {question}: {place}")));
                if answer != expected && !is_reported(answer, stale) {
                    wrong.push(format!("{event}{when}: {question}:\n{answer}\nnot:\n{expected}"));
                }
            }
        }
        restore();
        client.call("reload", json!({ "remove": true }));
        let back = client.structured("load-system", json!({ "system": "shop/tests" }));
        assert_eq!(back["status"], "loaded", "{event}: {back}");
    }
    ends_well(child, client);
    assert!(wrong.is_empty(), "{} wrong answers\n{}", wrong.len(), wrong.join("\n\n"));
}
