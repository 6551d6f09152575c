//! The command line: answers, exit codes, errors, and closed pipes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cache::signal;
use crate::child::small_or_full;
use crate::program::{Folder, STEELBANK, Streams, ask, ends, ends_well, initialized, on, run, said};
use crate::texts::write_project;

#[test]
fn answers_are_on_standard_output_and_exit_with_0() {
    let (text, errors, code) = said(&run(&["who-calls", "mapcar", "--package", "cl"]));
    assert!(text.starts_with("Functions that call COMMON-LISP::MAPCAR:\n\n  "), "{text}");
    assert!(text.lines().count() > 300);
    assert_eq!((errors.as_str(), code), ("", Some(0)));
    assert!(!text.contains('\x1b'));
}

#[test]
fn every_question_has_a_subcommand_and_json() {
    for (question, name) in [
        ("describe-symbol", "cl:mapcar"),
        ("who-calls", "cl:mapcar"),
        ("who-references", "cl:*print-base*"),
        ("who-binds", "cl:*package*"),
        ("who-sets", "cl:*gensym-counter*"),
        ("who-macroexpands", "cl:when"),
        ("who-specializes", "cl:integer"),
    ] {
        let (text, errors, code) = said(&run(&[question, name]));
        assert_eq!((errors.as_str(), code), ("", Some(0)), "{question}");
        let (json, errors, code) = said(&run(&[question, name, "--json"]));
        assert_eq!((errors.as_str(), code), ("", Some(0)), "{question}");
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["found"], true, "{question}");
        // Call the tool as a model does.
        let arguments = format!("{{\"name\": {name:?}, \"package\": \"CL-USER\"}}");
        let (called, _, code) = said(&run(&["call", question, &arguments]));
        assert_eq!(code, Some(0), "{question}");
        assert_eq!(called, text, "{question}");
    }
}

/// SBCL sets up handlers of its own where it starts; one of them would run Lisp, or wait for ever, where the host's ends the process.
#[test]
fn an_interrupt_while_lisp_starts_ends_the_process() {
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
fn what_is_not_found_exits_with_1() {
    let (text, errors, code) = said(&run(&["describe-symbol", "nonexistent-symbol"]));
    assert_eq!(text, "Symbol NONEXISTENT-SYMBOL not found in package CL-USER (status: NIL)\n");
    assert_eq!((errors.as_str(), code), ("", Some(1)));
    // The contract's sentence; what the project's own text has of that name is told below it.
    let (text, _, code) = said(&run(&["call", "who-calls", "{\"name\": \"x\", \"package\": \"nope\"}"]));
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
        let (json, errors, code) = said(&run(&["call", tool, arguments, "--json"]));
        assert_eq!((errors.as_str(), code), ("", Some(1)), "{tool}");
        let answer: serde_json::Value = serde_json::from_str(&json).unwrap();
        let told = (&answer["found"], &answer["message"]);
        assert_eq!(told, (&false.into(), &message.into()), "{tool}");
    }
}

#[test]
fn wrong_usage_exits_with_2_and_a_sentence() {
    let cases: [(&[&str], &str); 8] = [
        (&["no-such-command"], "no-such-command"),
        (&["who-calls"], "NAME"),
        (&["who-calls", ""], "The name is empty"),
        (&["who-calls", "a:b:c"], "has its colons wrong"),
        (&["call", "no-such-tool"], "There is no tool called \"no-such-tool\""),
        (&["call", "who-calls", "{}"], "\"name\""),
        (&["call", "who-calls", "[1]"], "must be a JSON object"),
        (&["--dynamic-space-size", "lots", "who-calls", "car"], "lots"),
    ];
    for (arguments, named) in cases {
        let (text, errors, code) = said(&run(arguments));
        assert_eq!((text.as_str(), code), ("", Some(2)), "{arguments:?}");
        assert!(errors.contains(named), "{arguments:?}: {errors}");
    }
}

#[test]
fn the_program_alone_tells_what_it_sees_and_json_may_stand_first() {
    let run = |folder: &Path, arguments: &[&str]| {
        said(&Command::new(STEELBANK).args(arguments).current_dir(folder).output().unwrap())
    };
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/shop");
    let (text, _, code) = run(&shop, &[]);
    assert!(text.contains("defines 2 systems: shop, shop/tests\n") && code == Some(0), "{text}");
    let commands: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("  steelbank ")).collect();
    assert_eq!(commands.len(), 5, "{text}");
    for command in commands {
        let command =
            command.split("  ").next().unwrap().replace("NEW-NAME", "amount").replace("NAME", "shop:total");
        let (said, errors, code) = run(&shop, &command.split(' ').collect::<Vec<_>>());
        assert_eq!(code, Some(0), "{command}: {said}{errors}");
    }
    let (text, _, code) = run(Path::new("/"), &[]);
    assert!(text.contains("Usage: steelbank") && code == Some(2), "{text}");
    let before = run(&shop, &["--json", "who-calls", "cl:mapcar"]);
    assert_eq!(before, run(&shop, &["who-calls", "cl:mapcar", "--json"]));
    assert!(before.0.starts_with('{'), "{before:?}");
}

#[test]
fn a_folder_without_an_image_exits_with_3_and_names_file_and_remedy() {
    let folder = Folder::new("no-image");
    for subcommand in [&["who-calls", "car"][..], &["describe-symbol", "car"], &["serve"]] {
        let output = Command::new(STEELBANK)
            .args(subcommand)
            .env("STEELBANK_HOME", &folder)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let (text, errors, code) = said(&output);
        assert_eq!((text.as_str(), code), ("", Some(3)), "{subcommand:?}");
        assert!(errors.contains(&*folder.0.to_string_lossy()) && errors.contains("build"), "{errors}");
    }
}

#[test]
fn the_split_form_answers_as_the_embedded_one() {
    let output = Command::new(STEELBANK)
        .args(["describe-symbol", "cl:mapcar"])
        .env("STEELBANK_HOME", steelbank::Installation::BUILT)
        .output()
        .unwrap();
    assert_eq!(said(&output), said(&run(&["describe-symbol", "cl:mapcar"])));
}

#[test]
fn the_program_carries_the_notices_of_what_it_is_made_of() {
    let notices = said(&run(&["licenses"])).0;
    for of in ["SBCL", "libloading", "rmcp", "tree-sitter", "Permission is hereby granted, free of charge"] {
        assert!(notices.contains(of), "{of}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_trouble() {
    for command in ["who-calls cl:car", "who-calls cl:car --json", "tools --json", "--help"] {
        let script = format!("'{STEELBANK}' {command} | head -1; exit ${{PIPESTATUS[0]}}");
        let output = Command::new("bash").args(["-c", &script]).output().unwrap();
        let (text, errors, code) = said(&output);
        assert_eq!((text.lines().count(), errors.as_str(), code), (1, "", Some(0)), "{command}");
    }
}

#[test]
fn tools_lists_what_the_server_offers() {
    let (text, _, code) = said(&run(&["tools"]));
    assert_eq!(code, Some(0));
    assert!(text.lines().any(|line| line.starts_with("who-calls")
        && line.contains("(name, [package], [cursor], [detail], [limit])")));
    let (json, _, _) = said(&run(&["tools", "--json"]));
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json, steelbank::doors::mcp::listing(steelbank::actions::tools()));
}

#[test]
fn doctor_checks_what_it_is_made_of() {
    let (text, errors, code) = said(&run(&["doctor"]));
    assert_eq!((errors.as_str(), code), ("", Some(0)), "{text}");
    assert!(text.contains("with SBCL ") && text.contains("in this program"), "{text}");
    let (json, _, _) = said(&run(&["doctor", "--json"]));
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
        let told = said(&output).0.contains("on PATH       SBCL 9.9.9: ");
        assert_eq!(told, version != own, "{output:?}");
    }
}

#[test]
fn help_has_examples_that_work() {
    let (help, _, code) = said(&run(&["--help"]));
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
fn a_system_that_does_not_load_leaves_the_others_to_answer() {
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
        said(&command.args(systems.iter().flat_map(|system| ["--system", system])).output().unwrap())
    };
    let (text, errors, code) = ask(&["two"], "good-one");
    assert_eq!((errors.as_str(), code), ("", Some(0)));
    assert!(text.contains("\"line\": 2"), "{text}");
    for name in ["good-one", "first-one"] {
        let (text, errors, code) = ask(&["two/broken", "two"], name);
        assert_eq!(code, Some(3), "what did not load may hold more uses");
        assert!(errors.contains("broken.lisp"), "{errors}");
        assert!(text.contains("\"line\": 2"), "what was loaded answers: {text}");
    }
}

#[test]
fn manual_pages_know_the_tools() {
    let (page, _, code) = said(&run(&["man"]));
    assert!(code == Some(0) && page.contains(".TH steelbank") && page.contains("who\\-calls"), "{page}");
    let (page, _, code) = said(&run(&["man", "who-calls"]));
    assert!(code == Some(0) && page.contains("cursor"), "{page}");
    let (_, errors, code) = said(&run(&["man", "who-cals"]));
    assert!(code == Some(2) && errors.contains("Did you mean who-calls?"), "{errors}");
}

#[test]
fn advice_is_for_the_one_who_reads_it() {
    let (_, errors, code) = said(&run(&["find-references", "f"]));
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("--force") && !errors.contains("force=true"), "{errors}");
}

#[test]
fn text_tools_start_no_sbcl_and_want_a_project() {
    let folder = Folder::new("text-only");
    let ask = |arguments: &[&str]| {
        let output = Command::new(STEELBANK)
            .args(arguments)
            .current_dir(&folder)
            .env("HOME", &folder)
            .env("STEELBANK_CACHE", folder.join("cache"))
            // Name a folder without an SBCL.
            .env("STEELBANK_HOME", &folder)
            .output();
        said(&output.unwrap())
    };
    std::fs::write(folder.join("a.py"), "def needle():\n    pass\n").unwrap();
    let (_, errors, code) = ask(&["find-references", "needle"]);
    assert!(code == Some(3) && errors.contains("There is no project"), "{errors}");
    for command in [
        &["--project", ".", "find-references", "needle"][..],
        &["--project", ".", "call", "find_references", "{\"pattern\": \"needle\"}"],
    ] {
        let (text, errors, code) = ask(command);
        assert_eq!((errors.as_str(), code), ("", Some(0)));
        assert!(text.starts_with("a.py:1:5: function needle"), "{text}");
    }
}

/// Runs a command in a folder, whose cache is in it.
fn ask_in(folder: &Path, arguments: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(STEELBANK);
    command.args(["--no-userinit", "--no-snapshot"]).args(arguments).current_dir(folder);
    said(&command.env("STEELBANK_CACHE", folder.join("cache")).stdin(Stdio::null()).output().unwrap())
}

#[test]
fn what_a_person_types_first_comes_by_position() {
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
    for (arguments, shown) in [
        (&["check-structure", "src/a.lisp"][..], "src/a.lisp is balanced."),
        (&["outline", "src/a.lisp"], "src/a.lisp:3:8-3 function by::place"),
        (&["--system", "by", "impact", "by:place", "by::user"], "function by:place src/a.lisp:3:8"),
        (&["macroexpand", "(when 1 2)"], "(if 1"),
        (&["inspect", "(list 1 2)"], "(1 2)"),
        (&["--system", "by", "reload", "src/a.lisp"], "No file has changed"),
        (&["check", "src/a.lisp"], "loads (1 compiled"),
        (&["run-tests", "by/tests"], "by/tests"),
        (&["load-system", "by"], "System by is loaded"),
        (
            &["edit-definition", "src/a.lisp", "user", "insert-after", "(defun other () 2)"],
            "+(defun other () 2)",
        ),
    ] {
        let text = ask(arguments);
        assert!(text.contains(shown), "{arguments:?}: {text}");
    }
    // The name that the tool has for it is an option still, but not beside it.
    let named = ["check-structure", "--path", "src/a.lisp"];
    assert_eq!(ask(&named), ask(&["check-structure", "src/a.lisp"]));
    assert_eq!(
        ask(&["--system", "by", "impact", "--names", "by:place", "--names", "by::user"]),
        ask(&["--system", "by", "impact", "by:place", "by::user"])
    );
    let (_, errors, code) = ask_in(&root, &["check-structure", "src/a.lisp", "--path", "src/a.lisp"]);
    assert!(code == Some(2) && errors.contains("cannot be used with"), "{errors}");
    // Files are named as the shell completes them, in a folder of the project too.
    let (text, errors, code) = ask_in(&root.join("src"), &["check-structure", "a.lisp"]);
    assert_eq!((text.trim_end(), errors.as_str(), code), ("src/a.lisp is balanced.", "", Some(0)));
}

/// Checks that what is typed wrongly is answered in terms of what can be typed.
#[test]
fn errors_speak_of_what_was_typed() {
    let folder = Folder::new("errors");
    std::fs::write(folder.join("shop.asd"), "(defsystem \"shop\" :components ((:file \"shop\")))\n").unwrap();
    let text = "(defpackage :shop (:use :cl))\n(in-package :shop)\n(defun price ())\n";
    std::fs::write(folder.join("shop.lisp"), text).unwrap();
    for (arguments, exit, wanted, unwanted) in [
        (&["who-cals", "car"][..], 2, "a similar subcommand exists: 'who-calls'", "who-binds"),
        (&["steelbank"], 2, "unrecognized subcommand 'steelbank'", "similar"),
        (&["find_references", "price"], 0, "shop.lisp", "error"),
        (&["run-tests"], 2, "Name one: steelbank run-tests SYSTEM.", "\"system\""),
        (&["impact"], 2, "Say what changes: names, --paths, or --diff.", "diff=true"),
        (&["inspect", "1"], 0, "(cl:fixnum)", "handle"),
        (&["compiler-notes", "car"], 0, "not compiled", "says nothing"),
        (
            &["rename", "--undo", "last"],
            1,
            "No edit of this project is kept: there is nothing to undo.",
            "Edit last",
        ),
        (&["package-info", "nope"], 1, "Load the system that defines it", "Perhaps"),
        (&["describe-symbol", "shop:price"], 1, "commands take --system shop.", "Perhaps"),
        (&["who-calls", "shop:price"], 1, "commands take --system shop.", "Perhaps"),
        (
            &["find-definition", "shop:price"],
            0,
            "shop.lisp:3:8: function shop::price (not loaded)",
            "not found",
        ),
        (&["outline", "nope.lisp"], 1, "Name a file that exists", "Perhaps"),
        (&["call-graph", "car", "--svg", "/no/such/folder/x.svg"], 3, "cannot be written", "Drawn"),
    ] {
        let (text, errors, code) = ask_in(&folder, arguments);
        let said = text + &errors;
        assert!(
            code == Some(exit) && said.contains(wanted) && !said.contains(unwanted),
            "{arguments:?}: {code:?} {said}"
        );
    }
    let (text, errors, code) = ask_in(&folder, &["call-graph", "car", "--svg", "car.svg"]);
    assert_eq!((text.trim_end(), code), ("Drawn into car.svg.", Some(0)), "{errors}");
    let svg = std::fs::read_to_string(folder.join("car.svg")).unwrap();
    assert!(svg.starts_with("<?xml") && svg.contains("Not drawn: ") && svg.len() < 100_000, "{svg}");
}

/// Checks that the help of each command names its positional arguments.
#[test]
fn every_command_says_what_it_takes_by_position() {
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
        let (help, _, _) = said(&run(&[command, "--help"]));
        let usage = help.lines().find(|line| line.starts_with("Usage:")).unwrap();
        assert_eq!(usage, format!("Usage: steelbank {command} [OPTIONS] {positions}"));
    }
}

#[test]
fn counts_and_files_stand_for_lists_and_quiet_for_an_exit_code() {
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
    assert_eq!(
        ask(&["describe-symbol", "cl-user::alone", "--count"]),
        told("", 2),
        "it answers with no list"
    );
    assert_eq!(ask(&["who-calls", "cl-user::alone", "-c", "-l"]), told("", 2));
}

#[test]
fn a_long_answer_stops_at_a_screen_of_a_terminal_alone() {
    let whole = said(&run(&["who-calls", "mapcar", "--package", "cl"])).0;
    // `script` runs it on a terminal.
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
    assert!(
        shown
            .trim_end()
            .ends_with(&format!("… {left_out} more lines: add | less to the command to see them all")),
        "{shown}"
    );
    assert_eq!(shown.lines().count(), 18);
}

#[test]
fn the_help_fits_its_terminal() {
    let (help, _, code) =
        said(&Command::new(STEELBANK).args(["who-calls", "--help"]).env("COLUMNS", "80").output().unwrap());
    assert_eq!(code, Some(0));
    let long = help.lines().find(|line| line.chars().count() > 80);
    assert_eq!(long, None);
}

#[test]
fn a_projects_file_names_systems_and_tools_and_permits_nothing() {
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
    let ask = |arguments: &[&str]| said(&command().args(arguments).output().unwrap());
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

    std::fs::write(&file, "allow = [\"edits\"]\n").unwrap();
    let (_, errors, code) = ask(&["serve"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains(".steelbank.toml: line 1: unknown field `allow`"), "{errors}");
    assert!(errors.contains("config/steelbank/config.toml"), "{errors}");
    std::fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    let (_, errors, code) = ask(&["--system", "auto", "list-systems"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains(".steelbank.toml: it cannot be read: it is no plain file."), "{errors}");
    std::fs::remove_file(&file).unwrap();
    for (text, wrong) in [("allow = [\"all\"]\n", "line 1: unknown variant"), ("\nallow = 1\n", "line 2: ")] {
        std::fs::write(own.join("config.toml"), text).unwrap();
        let (_, errors, code) = ask(&["serve"]);
        assert_eq!(code, Some(2), "{errors}");
        assert!(errors.contains(wrong), "{errors}");
    }
    std::fs::write(own.join("config.toml"), "allow = [\"eval\"]\n").unwrap();
    let (child, mut client) = served(&[]);
    assert!(client.text("evaluate", json!({"code": "(* 111 3)"})).contains("333"));
    ends_well(child, client);
}
