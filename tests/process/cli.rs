//! Tests of the command line: answers, exit codes, errors, and closed pipes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cache::signal;
use crate::child::small_or_full;
use crate::program::{
    Folder, STEELBANK, Streams, ask, ends, ends_well, initialized, on, outcome, run, shown,
};
use crate::texts::{expect_text, write_project};

#[test]
fn answers_go_to_stdout_with_exit_0() {
    let (text, errors, code) = outcome(&run(&["who-calls", "mapcar", "--package", "cl"]));
    assert!(text.lines().count() > 300);
    assert_eq!((errors.as_str(), code), ("", Some(0)));
    assert!(!text.contains('\x1b'));
}

#[test]
fn questions_have_subcommands_and_json() {
    for (question, name) in [
        ("describe-symbol", "cl:mapcar"),
        ("who-calls", "cl:mapcar"),
        ("who-references", "cl:*print-base*"),
        ("who-binds", "cl:*package*"),
        ("who-sets", "cl:*gensym-counter*"),
        ("who-macroexpands", "cl:when"),
        ("who-specializes", "cl:integer"),
    ] {
        let (text, errors, code) = outcome(&run(&[question, name]));
        assert_eq!((errors.as_str(), code), ("", Some(0)), "{question}");
        let (json, errors, code) = outcome(&run(&[question, name, "--json"]));
        assert_eq!((errors.as_str(), code), ("", Some(0)), "{question}");
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["found"], true, "{question}");
        let arguments = format!("{{\"name\": {name:?}, \"package\": \"CL-USER\"}}");
        let (called, _, code) = outcome(&run(&["call", question, &arguments]));
        assert_eq!(code, Some(0), "{question}");
        assert_eq!(called, text, "{question}");
    }
}

/// While SBCL starts, it installs signal handlers, which would run Lisp or hang.
#[test]
fn interrupt_during_start_ends_the_process() {
    let runs = small_or_full(60, 3000);
    for run in 0..runs {
        let mut command = Command::new(STEELBANK);
        command.args(["describe-symbol", "cl:car"]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = child.stderr.take().unwrap();
        std::thread::sleep(Duration::from_millis(40) * run / runs);
        signal(child.id().into(), libc::SIGINT);
        let status = ends(child);
        let errors = std::io::read_to_string(&mut errors).unwrap();
        let has_ended_well = status.signal() == Some(libc::SIGINT) || status.success();
        assert!(has_ended_well && errors.is_empty(), "{run}: {status}, {errors}");
    }
}

#[test]
fn missing_names_exit_with_1() {
    let (text, errors, code) = outcome(&run(&["describe-symbol", "nonexistent-symbol"]));
    assert_eq!(text, "Symbol NONEXISTENT-SYMBOL not found in package CL-USER (status: NIL)\n");
    assert_eq!((errors.as_str(), code), ("", Some(1)));
    // The first line is the contract's. Matches in the project's text may follow.
    let (text, _, code) = outcome(&run(&["call", "who-calls", "{\"name\": \"x\", \"package\": \"nope\"}"]));
    assert_eq!((text.lines().next(), code), (Some("Package NOPE not found"), Some(1)));
    for (tool, arguments, message) in [
        ("find-definition", "{\"name\": \"nope:x\"}", "Package NOPE not found"),
        ("package-info", "{\"package\": \"nope\"}", "Package NOPE not found"),
        ("apropos", "{\"pattern\": \"x\", \"packages\": [\"nope\"]}", "Package NOPE not found"),
        ("outline", "{\"system\": \"nope\"}", "System nope not found"),
        ("check", "{\"system\": \"nope\"}", "System nope not found"),
        ("load-system", "{\"system\": \"nope\"}", "System nope not found"),
        ("check", "{\"paths\": [\"nope.lisp\"]}", "Path nope.lisp not found"),
        ("outline", "{\"path\": \"nope.lisp\"}", "Path nope.lisp not found"),
        ("load-file", "{\"path\": \"nope.lisp\"}", "Path nope.lisp not found"),
    ] {
        let (json, errors, code) = outcome(&run(&["call", tool, arguments, "--json"]));
        assert_eq!((errors.as_str(), code), ("", Some(1)), "{tool}");
        let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
        let told = (&answer["found"], &answer["message"]);
        assert_eq!(told, (&false.into(), &message.into()), "{tool}");
    }
}

#[test]
fn wrong_usage_exits_with_2_and_an_error() {
    let cases: [&[&str]; 8] = [
        &["no-such-command"],
        &["who-calls"],
        &["who-calls", ""],
        &["who-calls", "a:b:c"],
        &["call", "no-such-tool"],
        &["call", "who-calls", "{}"],
        &["call", "who-calls", "[1]"],
        &["--dynamic-space-size", "lots", "who-calls", "car"],
    ];
    let session = cases.map(|arguments| {
        let output = run(arguments);
        assert!(output.stdout.is_empty() && output.status.code() == Some(2), "{output:?}");
        format!("$ steelbank {arguments:?}\n{}", shown(&output))
    });
    expect_text("wrong usage", &session.join("\n"));
}

#[test]
fn program_without_arguments_lists_commands() {
    let run = |folder: &Path, arguments: &[&str]| {
        outcome(&Command::new(STEELBANK).args(arguments).current_dir(folder).output().unwrap())
    };
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/shop");
    let (text, _, code) = run(&shop, &[]);
    assert_eq!(code, Some(0), "{text}");
    expect_text("without arguments", &text);
    let commands: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("  steelbank ")).collect();
    assert_eq!(commands.len(), 5, "{text}");
    for command in commands {
        let command =
            command.split("  ").next().unwrap().replace("NEW-NAME", "amount").replace("NAME", "shop:total");
        let (said, errors, code) = run(&shop, &command.split(' ').collect::<Vec<_>>());
        assert_eq!(code, Some(0), "{command}: {said}{errors}");
    }
    let (text, _, code) = run(Path::new("/"), &[]);
    assert!(text.contains("steelbank --help") || text.contains("Usage:"), "{text}");
    assert_eq!(code, Some(2), "{text}");
    let before = run(&shop, &["--json", "who-calls", "cl:mapcar"]);
    assert_eq!(before, run(&shop, &["who-calls", "cl:mapcar", "--json"]));
    assert!(before.0.starts_with('{'), "{before:?}");
}

#[test]
fn folder_without_image_exits_with_3() {
    let folder = Folder::new("no-image");
    for subcommand in [&["who-calls", "car"][..], &["describe-symbol", "car"], &["serve"]] {
        let output = Command::new(STEELBANK)
            .args(subcommand)
            .env("STEELBANK_HOME", &folder)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.stdout.is_empty(), "{subcommand:?}");
        expect_text("no image", &shown(&output));
    }
}

#[test]
fn separate_files_answer_as_the_embedded_ones() {
    let output = Command::new(STEELBANK)
        .args(["describe-symbol", "cl:mapcar"])
        .env("STEELBANK_HOME", steelbank::Installation::BUILT)
        .output()
        .unwrap();
    assert_eq!(outcome(&output), outcome(&run(&["describe-symbol", "cl:mapcar"])));
}

#[test]
fn licenses_lists_all_parts() {
    let notices = outcome(&run(&["licenses"])).0;
    for of in ["SBCL", "libloading", "rmcp", "tree-sitter", "Permission"] {
        assert!(notices.contains(of), "{of}");
    }
}

#[test]
fn closed_pipe_is_no_error() {
    for command in ["who-calls cl:car", "who-calls cl:car --json", "tools --json", "--help"] {
        let script = format!("'{STEELBANK}' {command} | head -1; exit ${{PIPESTATUS[0]}}");
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        let (text, errors, code) = outcome(&output);
        assert_eq!((text.lines().count(), errors.as_str(), code), (1, "", Some(0)), "{command}");
    }
}

#[test]
fn tools_lists_what_the_server_offers() {
    let (text, _, code) = outcome(&run(&["tools"]));
    assert_eq!(code, Some(0));
    expect_text("tools", text.lines().find(|line| line.starts_with("who-calls")).unwrap());
    let (json, _, _) = outcome(&run(&["tools", "--json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json, steelbank::doors::mcp::listing(steelbank::actions::tools()));
}

#[test]
fn doctor_checks_the_installation() {
    let (text, errors, code) = outcome(&run(&["doctor"]));
    assert_eq!((errors.as_str(), code), ("", Some(0)), "{text}");
    let (json, _, _) = outcome(&run(&["doctor", "--json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json["checks"].as_array().unwrap().iter().all(|check| check["holds"] == true), "{json}");
    assert!(json["records"].as_u64().unwrap() > 400_000);
    assert_ne!(json["engine"]["state"], "dead");
    let modules = json["modules"].as_array().unwrap();
    assert!(modules.iter().any(|module| module == "asdf"));
    assert!(modules.windows(2).all(|pair| pair[0] != pair[1]), "{json}");
    let own = json["sbcl"].as_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    for version in [own, "9.9.9"] {
        let program = folder.path().join("sbcl");
        fs::write(&program, format!("#!/bin/sh\necho SBCL {version}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let output = Command::new(STEELBANK).args(["doctor"]).env("PATH", folder.path()).output().unwrap();
        let is_listed = outcome(&output).0.contains("9.9.9");
        assert_eq!(is_listed, version != own, "{output:?}");
    }
}

#[test]
fn help_has_examples_that_work() {
    let (help, _, code) = outcome(&run(&["--help"]));
    assert_eq!(code, Some(0));
    let examples: Vec<&str> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  steelbank "))
        .filter(|line| !line.contains("serve") && !line.contains("my-app"))
        .collect();
    assert!(examples.len() >= 3, "{help}");
    for example in examples {
        let script = format!("'{STEELBANK}' {example}");
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(output.status.success() && !output.stdout.is_empty(), "{example}");
    }
}

#[test]
fn systems_answer_beside_a_broken_one() {
    let folder = Folder::new("two-systems");
    for (name, text) in [
        (
            "two.asd",
            "(asdf:defsystem \"two\" :components ((:file \"good\")))
             (asdf:defsystem \"two/broken\" :serial t :components ((:file \"first\") (:file \"broken\")))",
        ),
        ("good.lisp", "(defun good-one () (car '(1)))\n(defun caller () (good-one))\n"),
        ("first.lisp", "(defun first-one () 1)\n(defun first-caller () (first-one))\n"),
        ("broken.lisp", "(defun broken-one () (if))\n"),
    ] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let ask = |systems: &[&str], name: &str| {
        let mut command = on(&folder, &folder.join("cache"));
        command.args(["--no-snapshot", "code-find-references", name, "--json"]);
        outcome(&command.args(systems.iter().flat_map(|system| ["--system", system])).output().unwrap())
    };
    let (text, errors, code) = ask(&["two"], "good-one");
    assert_eq!((errors.as_str(), code), ("", Some(0)));
    let line = |text: &str| serde_json::from_str::<Value>(text).unwrap()["refs"][0]["line"].clone();
    assert_eq!(line(&text), 2, "{text}");
    for name in ["good-one", "first-one"] {
        let (text, errors, code) = ask(&["two/broken", "two"], name);
        assert_eq!(code, Some(3), "the broken system may have more uses");
        assert!(errors.contains("broken.lisp"), "{errors}");
        assert_eq!(line(&text), 2, "{text}");
    }
}

#[test]
fn manual_pages_list_the_tools() {
    let (page, _, code) = outcome(&run(&["man"]));
    assert!(code == Some(0) && page.contains(".TH") && page.contains("who\\-calls"), "{page}");
    let (page, _, code) = outcome(&run(&["man", "who-calls"]));
    assert!(code == Some(0) && page.contains("cursor"), "{page}");
    expect_text("man, misspelt", &shown(&run(&["man", "who-cals"])));
}

#[test]
fn advice_names_options_of_the_command_line() {
    let (_, errors, code) = outcome(&run(&["find-references", "f"]));
    assert!(code == Some(2) && errors.contains("--force") && !errors.contains("force="), "{errors}");
}

#[test]
fn text_tools_need_no_sbcl() {
    let folder = Folder::new("text-only");
    let ask = |arguments: &[&str]| {
        let output = Command::new(STEELBANK)
            .args(arguments)
            .current_dir(&folder)
            .env("HOME", &folder)
            .env("STEELBANK_CACHE", folder.join("cache"))
            // This folder has no SBCL.
            .env("STEELBANK_HOME", &folder)
            .output();
        shown(&output.unwrap())
    };
    std::fs::write(folder.join("a.py"), "def needle():\n    pass\n").unwrap();
    expect_text("no project", &ask(&["find-references", "needle"]));
    for command in [
        &["--project", ".", "find-references", "needle"][..],
        &["--project", ".", "call", "find_references", "{\"pattern\": \"needle\"}"],
    ] {
        expect_text("find-references", &ask(command));
    }
}

/// Runs a command in a folder, with the cache in the same folder.
fn ask_in(folder: &Path, arguments: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(STEELBANK);
    command.args(["--no-userinit", "--no-snapshot"]).args(arguments).current_dir(folder);
    outcome(&command.env("STEELBANK_CACHE", folder.join("cache")).stdin(Stdio::null()).output().unwrap())
}

#[test]
fn main_arguments_are_positional() {
    let folder = Folder::new("by-position");
    let root = folder.join("project");
    std::fs::create_dir_all(root.join("src")).unwrap();
    let text = "(defpackage :by (:use :cl) (:export #:place))\n(in-package :by)\n(defun place () 1)\n(defun user () (place))\n";
    std::fs::write(root.join("src/a.lisp"), text).unwrap();
    let systems = "(defsystem \"by\" :pathname \"src\" :components ((:file \"a\")))\n\
        (defsystem \"by/tests\" :depends-on (\"by\") :perform (test-op (o c) (print (uiop:symbol-call :by :user))))\n";
    std::fs::write(root.join("by.asd"), systems).unwrap();
    let ask = |arguments: &[&str]| {
        let (text, errors, code) = ask_in(&root, arguments);
        assert_eq!((errors.as_str(), code), ("", Some(0)), "{arguments:?}: {text}");
        text
    };
    for arguments in [
        &["check-structure", "src/a.lisp"][..],
        &["outline", "src/a.lisp"],
        &["--system", "by", "impact", "by:place", "by::user"],
        &["macroexpand", "(when 1 2)"],
        &["inspect", "(list 1 2)"],
        &["--system", "by", "reload", "src/a.lisp"],
        &["check", "src/a.lisp"],
        &["run-tests", "by/tests"],
        &["load-system", "by"],
        &["edit-definition", "src/a.lisp", "user", "insert-after", "(defun other () 2)"],
    ] {
        expect_text(&arguments.join(" "), &ask(arguments));
    }
    // A positional argument can also be given as an option with the name of the tool's argument,
    // but not in both ways at once.
    let named = ["check-structure", "--path", "src/a.lisp"];
    assert_eq!(ask(&named), ask(&["check-structure", "src/a.lisp"]));
    assert_eq!(
        ask(&["--system", "by", "impact", "--names", "by:place", "--names", "by::user"]),
        ask(&["--system", "by", "impact", "by:place", "by::user"])
    );
    assert_eq!(ask_in(&root, &["check-structure", "src/a.lisp", "--path", "src/a.lisp"]).2, Some(2));
    // Paths are relative to the current folder.
    assert_eq!(ask_in(&root.join("src"), &["check-structure", "a.lisp"]).0, ask(&named));
}

#[test]
fn errors_name_commands_and_options() {
    let folder = Folder::new("errors");
    std::fs::write(folder.join("shop.asd"), "(defsystem \"shop\" :components ((:file \"shop\")))\n").unwrap();
    let text = "(defpackage :shop (:use :cl))\n(in-package :shop)\n(defun price ())\n";
    std::fs::write(folder.join("shop.lisp"), text).unwrap();
    for arguments in [
        &["who-cals", "car"][..],
        &["steelbank"],
        &["find_references", "price"],
        &["run-tests"],
        &["impact"],
        &["inspect", "1"],
        &["compiler-notes", "car"],
        &["rename", "--undo", "last"],
        &["package-info", "nope"],
        &["describe-symbol", "shop:price"],
        &["who-calls", "shop:price"],
        &["find-definition", "shop:price"],
        &["outline", "nope.lisp"],
        &["call-graph", "car", "--svg", "/no/such/folder/x.svg"],
        &["call-graph", "car", "--svg", "car.svg"],
    ] {
        let (text, errors, code) = ask_in(&folder, arguments);
        expect_text(&arguments.join(" "), &format!("{text}{errors}exit {}\n", code.unwrap()));
    }
    let svg = std::fs::read_to_string(folder.join("car.svg")).unwrap();
    assert!(svg.starts_with("<?xml") && svg.len() < 100_000, "{svg}");
}

#[test]
fn help_names_positional_arguments() {
    for (command, positions) in [
        ("apropos", "<PATTERN>"),
        ("call-graph", "<NAME>"),
        ("check", "[PATHS]..."),
        ("check-structure", "[PATH]"),
        ("code-find-references", "<SYMBOL>"),
        ("edit-definition", "<PATH> <DEFINITION> <OPERATION> [TEXT]"),
        ("evaluate", "<CODE>"),
        ("find-references", "<PATTERN>"),
        ("impact", "[NAMES]..."),
        ("inspect", "[EXPRESSION]"),
        ("load-file", "<PATH>"),
        ("load-system", "[SYSTEM]"),
        ("macroexpand", "[FORM]"),
        ("outline", "[PATH]"),
        ("package-info", "<PACKAGE>"),
        ("reload", "[PATHS]..."),
        ("rename", "[NAME] [NEW_NAME]"),
        ("run-tests", "[SYSTEM]"),
    ] {
        let (help, _, _) = outcome(&run(&[command, "--help"]));
        let usage = help.lines().find(|line| line.starts_with("Usage:")).unwrap();
        assert_eq!(usage, format!("Usage: steelbank {command} [OPTIONS] {positions}"));
    }
}

#[test]
fn counts_and_files_can_replace_lists() {
    let folder = Folder::new("summaries");
    write_project(&folder, include_str!("../projects/summaries.txt"));
    let ask = |arguments: &[&str]| {
        let (text, _, code) = ask(&folder, &folder.join("cache"), &[&["--system", "p"], arguments].concat());
        (text, code)
    };
    let told = |text: &str, code| (text.to_owned(), Some(code));
    assert_eq!(ask(&["who-calls", "cl-user::summed-up", "--count"]), told("1\n", 0));
    assert_eq!(ask(&["who-calls", "cl-user::alone", "-c"]), told("0\n", 1));
    assert_eq!(ask(&["code-find-references", "cl-user::summed-up", "-l"]), told("p.lisp\n", 0));
    assert_eq!(
        ask(&["outline", "--files-with-matches", "--json"]),
        told("[\n  \"p.asd\",\n  \"p.lisp\"\n]\n", 0)
    );
    assert_eq!(ask(&["who-calls", "cl-user::summed-up", "-q"]), told("", 0));
    assert_eq!(ask(&["-q", "who-calls", "cl-user::alone"]), told("", 1));
    assert_eq!(ask(&["-q", "describe-symbol", "cl-user::no-such-name"]), told("", 1));
    assert_eq!(ask(&["describe-symbol", "cl-user::alone", "--count"]), told("", 2), "the answer is no list");
    assert_eq!(ask(&["who-calls", "cl-user::alone", "-c", "-l"]), told("", 2));
}

#[test]
fn long_answer_is_truncated_at_a_terminal() {
    let whole = outcome(&run(&["who-calls", "mapcar", "--package", "cl"])).0;
    // `script` runs the command on a terminal.
    let shown = Command::new("script")
        .args([
            "-qec",
            &format!("stty rows 20 cols 80; {STEELBANK} who-calls mapcar --package cl"),
            "/dev/null",
        ])
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let shown = String::from_utf8(shown.stdout).unwrap();
    let left_out = whole.lines().count() - 17;
    let last = shown.lines().last().unwrap();
    expect_text("truncated", &last.replace(&left_out.to_string(), "{left_out}"));
    assert_eq!(shown.lines().count(), 18);
}

#[test]
fn help_fits_the_terminal() {
    let (help, _, code) = outcome(
        &Command::new(STEELBANK).args(["who-calls", "--help"]).env("COLUMNS", "80").output().unwrap(),
    );
    assert_eq!(code, Some(0));
    let long = help.lines().find(|line| line.chars().count() > 80);
    assert_eq!(long, None);
}

#[test]
fn folder_without_system_is_not_found() {
    let folder = Folder::new("no-system");
    fs::write(folder.join("a.lisp"), "(defun a () 1)").unwrap();
    let ask =
        |arguments: &[&str]| outcome(&on(&folder, &folder.join("cache")).args(arguments).output().unwrap());
    for arguments in [&["load-system"][..], &["--system", "auto", "load-system"]] {
        let (text, _, code) = ask(arguments);
        assert!(text.contains("Its Lisp files: a.lisp."), "{text}");
        assert_eq!(code, Some(1), "{arguments:?}");
    }
    let (text, errors, code) = ask(&["--system", "auto", "outline", "a.lisp"]);
    assert!(text.contains("function a") && errors.contains("a.lisp"), "{text}{errors}");
    assert_eq!(code, Some(1));
}

#[test]
fn project_file_configures_but_permits_nothing() {
    let folder = Folder::new("config");
    write_project(&folder, include_str!("../projects/config.txt"));
    let file = folder.join(".steelbank.toml");
    let own = folder.join("config/steelbank");
    std::fs::create_dir_all(&own).unwrap();
    let command = || {
        let mut command = on(&folder, &folder.join("cache"));
        command.env("XDG_CONFIG_HOME", folder.join("config"));
        command
    };
    let ask = |arguments: &[&str]| outcome(&command().args(arguments).output().unwrap());
    let has = |system: &[&str], name: &str| ask(&[system, &["describe-symbol", name]].concat()).2 == Some(0);
    assert!(has(&["--system", "auto"], "of-b"));
    std::fs::write(&file, "systems = [\"a\"]\n").unwrap();
    assert!(has(&["--system", "auto"], "of-a"));
    assert!(!has(&["--system", "auto"], "of-b"));
    assert!(!has(&[], "of-a"), "the file alone loads nothing");
    assert!(has(&["--system", "auto", "--system", "b"], "of-b"));

    let served = |more: &[&str]| {
        let mut command = command();
        command.arg("serve").args(more).stderr(Stdio::null());
        initialized(command, Streams::Pipes)
    };
    let offered = |more: &[&str]| {
        let (child, mut client) = served(more);
        let count = client.request("tools/list", json!({}))["result"]["tools"].as_array().unwrap().len();
        ends_well(child, client);
        count
    };
    let daily = offered(&[]);
    let all = offered(&["--tools", "all"]);
    assert!(daily < all, "{daily} of {all}");
    std::fs::write(&file, "tools = \"core\"\n").unwrap();
    let core = offered(&[]);
    assert!(core < all, "{core} of {all}");
    assert_eq!(offered(&["--tools", "all"]), all, "the option wins");

    // A server ignores a file that it cannot use, and reports that; a command refuses it.
    let ignored = |name: &str| {
        let refused = shown(&command().args(["--system", "auto", "list-systems"]).output().unwrap());
        let mut command = command();
        command.args(["--system", "auto", "serve"]).stderr(Stdio::piped());
        let (mut child, mut client) = initialized(command, Streams::Pipes);
        let errors = child.stderr.take().unwrap();
        let status = client.text("status", json!({}));
        let call = json!({"name": "evaluate", "arguments": {"code": "(* 111 3)"}});
        let denied = client.request("tools/call", call).to_string();
        assert!(denied.contains("--allow-eval") && !denied.contains("333"), "{denied}");
        let load = client.text("load-system", json!({"system": "b"}));
        assert!(load.starts_with("System b is loaded"), "{name}: {load}");
        ends_well(child, client);
        let errors = std::io::read_to_string(errors).unwrap();
        let reported: Vec<&str> = status.lines().filter(|line| line.contains("ignored")).collect();
        let told = format!("{refused}serve: {errors}status: {}\n", reported.join("\n"));
        // Leave out the list of all tools.
        let told: Vec<&str> = told.lines().map(|line| line.split(" The tools are").next().unwrap()).collect();
        expect_text(name, &told.join("\n"));
    };
    for (name, text) in [
        ("project file permits", "allow = [\"edits\"]\n"),
        ("project file of a newer version", "systems = [\"a\"]\nspeed = \"high\"\n"),
        ("project file with unknown tools", "tools = \"read,foretell\"\n"),
        ("project file is no TOML", "systems = [\n"),
    ] {
        std::fs::write(&file, text).unwrap();
        ignored(name);
    }
    std::fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    ignored("project file is a FIFO");
    let output = command().args(["--system", "auto", "lsp"]).output().unwrap();
    let errors = outcome(&output).1;
    assert!(errors.contains("not a regular file. The file is ignored.") && output.status.code() != Some(2));
    std::fs::remove_file(&file).unwrap();
    for (name, text) in
        [("unknown permission", "allow = [\"all\"]\n"), ("permission is no list", "\nallow = 1\n")]
    {
        std::fs::write(own.join("config.toml"), text).unwrap();
        ignored(name);
    }
    std::fs::write(own.join("config.toml"), "allow = [\"eval\"]\n").unwrap();
    let (child, mut client) = served(&[]);
    assert!(client.text("evaluate", json!({"code": "(* 111 3)"})).contains("333"));
    ends_well(child, client);
}
