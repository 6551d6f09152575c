//! Tests of projects with odd files, which may come from untrusted people. Queries that only read
//! are answered quickly, with little memory, and start no program.

use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::child::{Random, small_or_full};
use crate::client::Client;
use crate::program::{Folder, Streams, ask, ends, initialized, on};
use crate::texts::{expect_text, git, write_project};

const SOURCE: &str = "(defpackage :good (:use :cl) (:export #:target))\n(in-package :good)\n\
                      (defun target (x) (mapcar #'car x))\n(defun caller () (target ()))\n";

fn write(root: &Path, files: &[(&str, &str)]) {
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn good(root: &Path) {
    write(
        root,
        &[("good.asd", "(defsystem \"good\" :components ((:file \"good\")))\n"), ("good.lisp", SOURCE)],
    );
}

fn server(root: &Path, cache: &Path, more: &[&str]) -> (Child, Client) {
    let mut command = on(root, cache);
    command.args(["serve", "--tools", "all"]).args(more).env("HOME", cache).stderr(Stdio::null());
    initialized(command, Streams::Pipes)
}

/// Creates an odd file at `path`. Returns `false` if this machine cannot create it.
fn odd(path: &Path, kind: usize) -> bool {
    let text = |text: String| fs::write(path, text).is_ok();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let link = |to: &str| symlink(to, path).is_ok();
    match kind {
        0 => Command::new("mkfifo").arg(path).status().unwrap().success(),
        1 => File::create(path).and_then(|file| file.set_len(3 << 30)).is_ok(),
        2 => link("/dev/zero"),
        3 => link("/proc/kmsg"),
        4 => link(path.file_name().unwrap().to_str().unwrap()),
        5 => link("/"),
        6 => link("good.lisp"),
        7 => UnixListener::bind(path).is_ok(),
        8 => fs::create_dir(path).is_ok(),
        9 => text("(".repeat(1_000_000)),
        10 => text("(defsystem ".repeat(180_000)),
        11 => text((0..100_000).map(|number| format!("(defsystem \"s{number}\")\n")).collect()),
        12 => text((0..10_000).map(|number| format!("**/a{number}*/**/b\n")).collect()),
        13 => {
            text(format!("(defsystem \"m\" :components ({}", "(:module \"m\" :components (".repeat(50_000)))
        }
        14 => text("\"".repeat(300_001)),
        15 => text("#|".repeat(500_000)),
        16 => text("'`,@#'".repeat(150_000)),
        17 => fs::write(path, [0xff, 0, 0xc2, b'(', 0x1b].repeat(100_000)).is_ok(),
        18 => text(format!("(in-package :good)\n({})", "target ".repeat(100_000))),
        _ => {
            text("gitdir: /dev/zero\n".to_owned())
                && fs::set_permissions(path, fs::Permissions::from_mode(0o000)).is_ok()
        }
    }
}

const KINDS: usize = 20;
const NAMES: [&str; 14] = [
    "x.asd", "x.lisp", ".gitignore", ".ignore", ".git/info/exclude", "a/.gitignore", "a/x.asd", "a/.git",
    "a/x.lisp", "systems.csv", "systems/lib-1.0/x.asd", "quicklisp/setup.lisp", "x",
    "a\u{1b}]0;x\u{7}\u{202e}\nb.asd",
];
/// Files that made version 0.2.0 hang or fill memory, and similar files.
const FOUND: [(&str, usize); 16] = [
    ("x.asd", 0),
    ("x.lisp", 0),
    (".gitignore", 0),
    (".ignore", 0),
    ("x.asd", 1),
    ("x.lisp", 1),
    (".gitignore", 1),
    ("x.asd", 2),
    ("x.lisp", 2),
    (".gitignore", 2),
    ("x.asd", 3),
    ("x.asd", 9),
    ("x.asd", 10),
    ("x.asd", 11),
    ("d", 5),
    (".gitignore", 12),
];

/// Kills a server that hangs, so that the test fails.
struct Patience(Arc<AtomicBool>);

impl Patience {
    fn with(child: &Child) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (seen, process) = (Arc::clone(&over), child.id().to_string());
        std::thread::spawn(move || {
            let begun = Instant::now();
            while !seen.load(Ordering::Relaxed) {
                if begun.elapsed() > Duration::from_secs(120) {
                    let _ = Command::new("kill").args(["-KILL", &process]).status();
                    return;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        Self(over)
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns a value for a required argument.
fn argument(name: &str) -> Value {
    match name {
        "pattern" => json!("target"),
        "symbol" | "name" | "from" | "to" => json!("cl:mapcar"),
        "package" => json!("cl-user"),
        other => panic!("there is no value for {other}"),
    }
}

/// The limit of processor time for an answer, in hundredths of a second. A debug build takes about
/// eight times as much. A hang uses none: then [`Patience`] kills the server.
const BOUND: u64 = if cfg!(debug_assertions) { 4000 } else { 500 };

/// Returns the processor time of a process and its finished children, in hundredths of a second.
pub(crate) fn processor_time(process: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields = stat.rsplit_once(')').unwrap().1.split_whitespace().skip(11).take(4);
    fields.map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

/// The limit of resident memory in MiB. A debug build takes a fifth more.
const MEMORY: u64 = if cfg!(debug_assertions) { 640 } else { 512 };

/// Calls each reading tool in the project at `root`. Lists slow answers and other faults.
fn ask_everything(root: &Path, cache: &Path) -> Vec<String> {
    let (child, mut client) = server(root, cache, &["--no-snapshot"]);
    let _patience = Patience::with(&child);
    let tools = client.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().clone();
    let mut wrong = Vec::new();
    let (mut asked, mut slowest) = (0, 0);
    for tool in tools.iter().filter(|tool| tool["annotations"]["readOnlyHint"] == true) {
        let name = tool["name"].as_str().unwrap();
        let required = tool["inputSchema"]["required"].as_array().cloned().unwrap_or_default();
        let mut given: serde_json::Map<String, Value> = required
            .iter()
            .map(|name| name.as_str().unwrap())
            .map(|name| (name.to_owned(), argument(name)))
            .collect();
        let optional = &tool["inputSchema"]["properties"];
        let mut questions = vec![Value::Object(given.clone())];
        for path in ["good.lisp", "x.lisp", ".", "a"] {
            if optional.get("path").is_some() {
                given.insert("path".to_owned(), json!(path));
            } else if optional.get("paths").is_some() {
                given.insert("paths".to_owned(), json!([path]));
            } else {
                break;
            }
            questions.push(Value::Object(given.clone()));
        }
        for arguments in questions {
            let begun = processor_time(child.id());
            let answer = client.request("tools/call", json!({ "name": name, "arguments": arguments }));
            asked += 1;
            let taken = processor_time(child.id()) - begun;
            slowest = slowest.max(taken);
            if taken > BOUND {
                wrong.push(format!("{name} {arguments} took {taken}"));
            }
            for part in answer["result"]["content"].as_array().into_iter().flatten() {
                let text = part["text"].as_str().unwrap();
                let acts = |c: char| (c.is_control() && !"\n\t\r".contains(c)) || c == '\u{202e}';
                if text.contains(acts) {
                    wrong.push(format!("{name} {arguments} tells {text:?}"));
                }
            }
        }
    }
    assert!(asked > 20, "{asked} questions");
    let proc = format!("/proc/{}", child.id());
    let status = fs::read_to_string(format!("{proc}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
    if kilobytes > MEMORY << 10 {
        wrong.push(format!("{kilobytes} kB of memory"));
    }
    // A started program is still a child, or its page faults count as those of children (field 11).
    let stat = fs::read_to_string(format!("{proc}/stat")).unwrap();
    let faults = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(8).unwrap();
    let children: String = fs::read_dir(format!("{proc}/task"))
        .unwrap()
        .flatten()
        .map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default())
        .collect();
    if faults != "0" || !children.is_empty() {
        wrong.push(format!("a program was started: {faults} faults, children {children:?}"));
    }
    // This call is last because it starts Git.
    let begun = processor_time(child.id());
    let answer = client.call("impact", json!({ "diff": true }));
    let taken = processor_time(child.id()) - begun;
    if taken > BOUND || root.join(".git/HEAD").exists() && answer["isError"] != false {
        wrong.push(format!("impact of the difference took {taken}: {answer}"));
    }
    println!("seen: at most {} hundredths of a second, {kilobytes} kB", slowest.max(taken));
    client.leave();
    ends(child);
    wrong
}

#[test]
fn reading_questions_hang_on_no_tree() {
    let folder = Folder::new("odd-trees");
    let cache = folder.join("cache");
    let mut random = Random(1);
    let mut trees: Vec<Vec<(&str, usize)>> = small_or_full(
        // These trees combine places where a query once hung.
        vec![
            vec![
                ("x.asd", 0),
                ("x.lisp", 0),
                (".gitignore", 0),
                (".ignore", 0),
                ("a/.git", 0),
                ("a/x.asd", 9),
            ],
            vec![
                ("x.asd", 1),
                ("x.lisp", 1),
                (".gitignore", 2),
                (".git/info/exclude", 2),
                ("a/.gitignore", 1),
            ],
            vec![("x.asd", 2), ("x.lisp", 2), (".gitignore", 12), ("a/x.asd", 10), ("d", 5)],
            vec![("x.asd", 3), ("x.lisp", 9), (".ignore", 1), ("a/x.asd", 13), (NAMES[13], 11)],
        ],
        FOUND.iter().map(|tree| vec![*tree]).collect(),
    );
    for _ in 0..small_or_full(2, 200) {
        trees.push(
            (0..1 + random.below(4))
                .map(|_| (NAMES[random.below(NAMES.len())], random.below(KINDS)))
                .collect(),
        );
    }
    let mut wrong = Vec::new();
    for (number, tree) in trees.iter().enumerate() {
        let root = folder.join(format!("p{number}"));
        good(&root);
        if number % 2 == 1 {
            git(&root, &["init", "-q"]);
            git(&root, &["add", "good.lisp"]);
            git(&root, &["commit", "-q", "-m", "x"]);
            fs::write(root.join("good.lisp"), SOURCE.replace("#'car", "#'cdr")).unwrap();
        }
        for (name, kind) in tree {
            // Existing files stay.
            let path = root.join(name);
            if path.symlink_metadata().is_err()
                && path.parent().unwrap().symlink_metadata().is_ok_and(|it| it.is_dir())
                || path.parent().unwrap().symlink_metadata().is_err()
            {
                odd(&path, *kind);
            }
        }
        wrong.extend(ask_everything(&root, &cache).into_iter().map(|what| format!("{tree:?}: {what}")));
        fs::remove_dir_all(&root).unwrap();
    }
    assert!(wrong.is_empty(), "{} trees: {wrong:#?}", trees.len());
    println!("seen: {} trees", trees.len());
}

#[test]
fn other_worktrees_are_outside_of_the_project() {
    let folder = Folder::new("worktrees");
    let (root, cache) = (folder.join("p"), folder.join("cache"));
    good(&root);
    git(&root, &["init", "-q"]);
    git(&root, &["add", "-A"]);
    git(&root, &["commit", "-q", "-m", "x"]);
    git(&root, &["worktree", "add", "-q", "a-wt"]);
    write_project(&root, include_str!("../projects/worktrees.txt"));
    git(&root.join("other"), &["init", "-q"]);
    fs::write(root.join("other/.git/hooks/x.lisp"), "(defun cl-user::hook () 1)").unwrap();
    let (child, mut client) = server(&root, &cache, &["--allow-edits", "--system", "auto"]);
    let is_own = |text: &str| !text.contains("a-wt/") && !text.contains("other/");
    let systems = client.call("list-systems", json!({}));
    let structured = &systems["structuredContent"];
    assert_eq!(structured["count"], 1, "{structured}");
    let left_out: Vec<_> =
        structured["left_out"].as_array().unwrap().iter().map(|each| &each["path"]).collect();
    assert_eq!(left_out, ["a-wt", "other"]);
    let loaded = client.text("load-system", json!({ "system": "good" }));
    for (tool, arguments) in [
        ("find_references", json!({ "pattern": "target" })),
        ("code-find-references", json!({ "symbol": "good:target" })),
        ("outline", json!({ "path": "." })),
        ("rename", json!({ "name": "good:target", "new_name": "aim" })),
    ] {
        let text = client.text(tool, arguments);
        assert!(text.contains("good.lisp") && is_own(&text), "{loaded}\n{tool}: {text}");
    }
    for (path, definition) in [
        ("a-wt/good.lisp", "good::target"),
        ("other/other.lisp", "cl-user::other"),
        ("other/.git/hooks/x.lisp", "cl-user::hook"),
        (".envrc", "target"),
        (".githooks/pre-commit", "target"),
    ] {
        let before = fs::read(root.join(path)).unwrap();
        let edit = json!({ "path": path, "definition": definition, "operation": "delete" });
        let refused = client.error("edit-definition", edit);
        expect_text(path, &refused);
        assert_eq!(fs::read(root.join(path)).unwrap(), before);
    }
    // A Lisp file in another hidden folder can be edited. A nested repository that a system depends
    // on is included.
    let edit = json!({ "path": ".ci/build.lisp", "definition": "cl-user::build", "operation": "delete" });
    client.text("edit-definition", edit);
    fs::write(
        root.join("good.asd"),
        "(defsystem \"good\" :depends-on (\"other\") :components ((:file \"good\")))",
    )
    .unwrap();
    assert_eq!(client.structured("list-systems", json!({}))["count"], 2);
    let found = client.text("find_references", json!({ "pattern": "target" }));
    assert!(found.contains("other/other.lisp") && !found.contains("a-wt/"), "{found}");
    client.leave();
    ends(child);
}

#[test]
fn tools_search_the_same_files() {
    let folder = Folder::new("one-tree");
    let (root, cache) = (folder.join("p"), folder.join("cache"));
    good(&root);
    git(&root, &["init", "-q"]);
    let use_it = "(in-package :good) (defun more () (target ()))";
    let files = [
        ".hidden/a.lisp", "by-ignore/a.lisp", "by-git/a.lisp", "by-git/below/a.lisp", "by-user/a.lisp",
        "by-exclude/a.lisp", "some/left/a.lisp", "some/kept/a.lisp", "repository/a.lisp", "kept/a.lisp",
        "ocicl/lib/a.lisp", "b.txt",
    ];
    files.iter().for_each(|path| write(&root, &[(path, use_it)]));
    git(&root.join("repository"), &["init", "-q"]);
    write_project(&root, include_str!("../projects/one_tree.txt"));
    write(&cache, &[(".config/git/ignore", "by-user/\n")]);
    let (child, mut client) = server(&root, &cache, &[]);
    client.text("load-system", json!({ "system": "good" }));
    let mut named = |tool: &str, arguments: Value| {
        let text = client.text(tool, arguments);
        files.into_iter().filter(|path| text.contains(path)).collect::<Vec<_>>()
    };
    for changed in [None, Some(".ignore"), Some(".gitignore")] {
        let mut expected = vec!["some/kept/a.lisp", "kept/a.lisp"];
        if let Some(file) = changed {
            fs::write(root.join(file), "kept/\n").unwrap();
            expected.clear();
        }
        let text = named("find_references", json!({ "pattern": "target", "glob": ["**/a.lisp"] }));
        let code = named("code-find-references", json!({ "symbol": "good:target" }));
        assert!(text.contains(&"kept/a.lisp") != changed.is_some(), "{changed:?}: {text:?}");
        let code: Vec<_> = code.into_iter().filter(|path| path.ends_with(".lisp")).collect();
        assert_eq!(text, code, "{changed:?}");
        assert!(expected.iter().all(|path| code.contains(path)));
    }
    client.leave();
    ends(child);
}

#[test]
fn huge_source_is_refused() {
    let folder = Folder::new("huge");
    let (root, cache) = (folder.join("p"), folder.join("cache"));
    good(&root);
    File::create(root.join("huge.lisp")).unwrap().set_len(4 << 30).unwrap();
    symlink("good.lisp", root.join("link.lisp")).unwrap();
    let (child, mut client) = server(&root, &cache, &["--allow-edits"]);
    let edit = |path: &str| json!({ "path": path, "definition": "good::caller", "operation": "delete" });
    expect_text("huge file", &client.error("edit-definition", edit("huge.lisp")));
    // A link to a file of the project edits that file.
    client.text("edit-definition", edit("link.lisp"));
    assert!(!fs::read_to_string(root.join("good.lisp")).unwrap().contains("caller"));
    // The name of a temporary file must not become too long.
    let long = format!("{}.lisp", "n".repeat(250));
    write(&root, &[(&long, SOURCE)]);
    client.text("edit-definition", edit(&long));
    assert!(!fs::read_to_string(root.join(long)).unwrap().contains("caller"));
    client.leave();
    ends(child);
}

#[test]
fn folder_in_place_of_the_index_is_replaced() {
    let folder = Folder::new("index-folder");
    let (root, cache) = (folder.join("p"), folder.join("cache"));
    good(&root);
    let find = || ask(&root, &cache, &["find-references", "target"]);
    let (expected, ..) = find();
    assert!(expected.contains("good.lisp:3"), "{expected}");
    let index = fs::read_dir(cache.join("projects/text")).unwrap().next().unwrap().unwrap().path();
    let mut names: Vec<_> = fs::read_dir(&index).unwrap().flatten().map(|entry| entry.path()).collect();
    names.sort();
    assert!(names.len() >= 3, "{names:?}");
    for path in names {
        fs::remove_file(&path).unwrap();
        fs::create_dir_all(path.join("full")).unwrap();
        // Add a file, so that the index is written.
        fs::write(
            root.join(format!("{}.txt", path.display().to_string().len())),
            path.as_os_str().as_encoded_bytes(),
        )
        .unwrap();
        assert_eq!(find(), (expected.clone(), String::new(), Some(0)), "{}", path.display());
        assert!(path.is_file() || !path.exists(), "{}", path.display());
    }
}

#[test]
fn terminal_output_has_no_control_characters() {
    let folder = Folder::new("terminal");
    let root = folder.join("p");
    good(&root);
    fs::write(
        root.join("e\u{1b}[31m.lisp"),
        "(in-package :good)\n(defun |\u{1b}]0;x\u{7}| () \"\u{9b}\u{202e}\" (target ()))\n",
    )
    .unwrap();
    for arguments in [
        &["find-references", "target"][..],
        &["outline", "."],
        &["outline", "none\u{1b}[31m\u{202e}.lisp"],
        &["describe-symbol", "none\u{7}\u{2066}"],
        &["load-system", "\u{1b}[31m"],
    ] {
        let (text, errors, _) = ask(&root, &folder.join("cache"), arguments);
        let shown = format!("{text}{errors}");
        assert!(
            !shown.contains(|c: char| (c.is_control() && c != '\n') || "\u{202e}\u{2066}".contains(c)),
            "{shown:?}"
        );
        // Such characters are escaped, or replaced by the text index.
        assert!(
            ["\\u001b", "\\u2066", "\u{fffd}"].iter().any(|it| shown.contains(it)),
            "{arguments:?}: {shown}"
        );
    }
}
