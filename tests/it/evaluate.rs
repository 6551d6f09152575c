//! Compares evaluate and inspect with plain SBCL and its inspector, and evaluates misbehaving code.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use steelbank::Installation;
use steelbank::tools::{Call, Session};

use crate::fixtures::library_registry;
use crate::project::folder;
use crate::texts::expect_text;
use crate::tools_beside_sbcl::World;

/// Runs `forms` in a plain SBCL, and returns the lines that they write.
pub(crate) fn plain_sbcl(forms: &str) -> Vec<String> {
    let tree = Installation::built().sources.unwrap();
    let cache = folder("plain-sbcl");
    let output = Command::new(tree.join("src/runtime/sbcl"))
        .arg("--core")
        .arg(tree.join("output/sbcl.core"))
        .args(["--noinform", "--no-sysinit", "--no-userinit", "--non-interactive", "--eval", forms])
        .env("SBCL_HOME", tree.join("obj/sbcl-home"))
        .env("XDG_CACHE_HOME", &*cache)
        .env("CL_SOURCE_REGISTRY", library_registry())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn evaluate_and_inspect_agree_with_sbcl() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let world = World::of("cl-ppcre", &["cl-ppcre", "alexandria", "yason"]);
    values_agree_with_plain_sbcl(&world);
    frames_of_libraries_have_their_files(&world);
    whatever_code_does_is_answered(&world);
    parts_agree_with_the_inspector(&world);
    handles_are_bounded(&world);
    nothing_runs_without_permission(&world);
}

/// Forms, most of them on three libraries. Their printed values have no line breaks.
const FORMS: [&str; 16] = [
    "(cl-ppcre:split \",\" \"a,b,,c\")",
    "(cl-ppcre:scan \"(a+)(b*)\" \"xxaabb\")",
    "(cl-ppcre:regex-replace-all \"a\" \"banana\" \"o\")",
    "(cl-ppcre:parse-string \"a(?:b|c)*\")",
    "(cl-ppcre:all-matches-as-strings \"[0-9]+\" \"1 22 333\")",
    "(alexandria:flatten '(1 (2 (3 (4)))))",
    "(alexandria:hash-table-alist (alexandria:plist-hash-table '(:a 1)))",
    "(alexandria:parse-body '((declare (ignore x)) \"doc\" 1) :documentation t)",
    "(alexandria:iota 5 :start 1 :step 1/2)",
    "(alexandria:curry #'+ 1) 7/3",
    "(yason:parse \"[1, 2.5, null, true, \\\"x\\\"]\")",
    "(with-output-to-string (s) (yason:encode '(1 2 \"three\") s))",
    "(values 1 'two #\\3 \"four\" :five 1.5d0 #c(1 2))",
    "(values)",
    "(list 'cl-user::x 'cl-ppcre:scan 'alexandria::flatten)",
    "(make-array '(2 2) :initial-contents '((1 2) (3 4)))",
];

/// Compares all values, and how they are printed, with plain SBCL.
fn values_agree_with_plain_sbcl(world: &World) {
    let forms: Vec<String> = FORMS
        .iter()
        .map(|form| {
            format!(
                "(format t \"~&= ~{{~S~^ | ~}}~%\" (multiple-value-list (eval (read-from-string {:?}))))",
                format!("(progn {form})")
            )
        })
        .collect();
    let program = format!(
        "(progn (require :asdf) (let ((*standard-output* (make-broadcast-stream)) (*error-output* (make-broadcast-stream)))
           (handler-bind ((warning #'muffle-warning))
             (dolist (name '(\"cl-ppcre\" \"alexandria\" \"yason\")) (funcall (read-from-string \"asdf:load-system\") name))))
         (setf *print-pretty* nil) {})",
        forms.join(" ")
    );
    let lines = plain_sbcl(&program);
    let expected: Vec<&str> =
        lines.iter().filter_map(|line| line.strip_prefix("= ").or((line == "=").then_some(""))).collect();
    assert_eq!(expected.len(), FORMS.len(), "{lines:?}");
    for (form, expected) in FORMS.iter().zip(expected) {
        let answer = world.ask("evaluate", json!({ "code": form }));
        assert_eq!(answer["status"], "finished", "{form}: {answer}");
        let none = Vec::new();
        let values = answer["values"].as_array().unwrap_or(&none);
        let values: Vec<&str> = values.iter().map(|value| value["text"].as_str().unwrap()).collect();
        assert_eq!(values.join(" | "), expected, "{form}");
    }
}

fn frames_of_libraries_have_their_files(world: &World) {
    let answer = world.ask("evaluate", json!({ "code": "(cl-ppcre:scan-to-strings \"(\" \"x\")" }));
    assert_eq!(answer["failure"]["condition"], "cl-ppcre:ppcre-syntax-error");
    let frames = answer["backtrace"].as_array().unwrap();
    let last = frames.iter().rev().nth(1).unwrap();
    let place = last["place"].as_str().unwrap();
    let (file, line) = (place.split(':').next().unwrap(), place.split(':').nth(1).unwrap());
    let text = std::fs::read_to_string(world.root.join(file)).unwrap();
    let line: usize = line.parse().unwrap();
    assert!(text.lines().nth(line - 1).unwrap().contains('('), "{place}");
    assert!(answer["backtrace"].to_string().contains("parser.lisp:"), "{answer}");
}

fn whatever_code_does_is_answered(world: &World) {
    let define =
        "(define-condition bad (error) () (:report (lambda (c s) (declare (ignore c s)) (error \"no\"))))
        (defun deep (n) (1+ (deep (1+ n)))) 1";
    assert_eq!(world.ask("evaluate", json!({ "code": define }))["status"], "finished");
    let cases = [
        ("(loop)", "interrupted"),
        ("(handler-bind ((t #'identity)) (loop (ignore-errors (sleep 1))))", "interrupted"),
        ("(unwind-protect (loop) (loop repeat 2 do (sleep 0.1)))", "interrupted"),
        ("(sb-ext:exit)", "exit-refused"),
        ("(sb-ext:exit :abort t)", "exit-refused"),
        ("(deep 0)", "stack-exhausted"),
        ("(let ((list '())) (loop (push (make-array 100000) list)))", "heap-exhausted"),
        ("(make-array (floor (sb-ext:dynamic-space-size) 8))", "heap-exhausted"),
        ("(error 'bad)", "error"),
        ("(abort)", "error"),
        ("(throw 'steelbank::fault 3)", "error"),
        ("(break \"x\")", "error"),
        ("(sb-sys:sap-ref-8 (sb-sys:int-sap 0) 0)", "memory-fault"),
        ("(read)", "end-of-file"),
    ];
    for (code, kind) in cases {
        let seconds = if kind == "interrupted" { 1 } else { 60 };
        let answer = world.ask("evaluate", json!({ "code": code, "timeout_seconds": seconds }));
        let kind_of = &answer["failure"]["kind"];
        assert!(kind_of == kind, "{code}: {answer:#}");
        assert!(!answer["failure"]["report"].as_str().unwrap().is_empty(), "{code}");
        assert_eq!(
            world.ask("evaluate", json!({ "code": "(+ 1 2)" }))["values"],
            json!([{ "text": "3" }]),
            "{code}"
        );
    }
    // Output and printed values are truncated.
    let answer = world.ask(
        "evaluate",
        json!({ "code": "(dotimes (i 100000) (print i)) (loop for i below 100000 collect i)" }),
    );
    assert!(
        answer["output_dropped"].as_u64().unwrap() > 100_000
            && answer["values"][0]["text"].as_str().unwrap().ends_with(" 999 ...)"),
        "{answer}"
    );
}

/// Objects of three libraries and of SBCL, to compare with SBCL's inspector.
const OBJECTS: [&str; 8] = [
    "(cl-ppcre::make-charset)",
    "(cl-ppcre::convert (cl-ppcre:parse-string \"(a|b)*c\"))",
    "(make-condition 'cl-ppcre:ppcre-syntax-error :string \"x\" :pos 3 :format-control \"c\" :format-arguments nil)",
    "(make-instance 'yason::json-output-stream :output-stream *standard-output*)",
    "(sb-mop:find-slot-definition)",
    "(vector 1 :two \"three\")",
    "(find-method #'yason:encode '() (list (find-class 'integer)))",
    "(asdf:find-system \"alexandria\")",
];

fn parts_agree_with_the_inspector(world: &World) {
    let mut compared = 0;
    for form in OBJECTS {
        let inspected = world.ask(
            "evaluate",
            json!({ "code": format!("(defvar cl-user::*it*) (setf cl-user::*it* {form})") }),
        );
        if inspected["status"] != "finished" {
            continue;
        }
        let answer = world.ask("inspect", json!({ "expression": "cl-user::*it*", "limit": 100 }));
        assert_eq!(answer["status"], "found", "{form}: {answer}");
        let lines = world.lines(
            "(multiple-value-bind (text named elements) (sb-impl::inspected-parts cl-user::*it*)
               (declare (ignore text))
               (dolist (element elements)
                 (let ((value (if named (cdr element) element)) (*print-length* 20) (*print-level* 4) (*print-pretty* nil))
                   (format t \"~a~%\" (if (eq value sb-pcl:+slot-unbound+) \"(unbound)\"
                                        (substitute #\\Space #\\Newline (prin1-to-string value)))))))",
        );
        let parts = answer["parts"].as_array().cloned().unwrap_or_default();
        assert_eq!(parts.len(), lines.len(), "{form}: {answer}");
        for (part, line) in parts.iter().zip(&lines) {
            let value = part["value"].as_str().unwrap().replace('\n', " ");
            assert!(
                address_free(&value) == address_free(line) || value.len() >= 200,
                "{form}: {value} is not {line}"
            );
        }
        compared += 1;
    }
    assert!(compared >= 6, "{compared}");
    // Long lists come in pages.
    let (mut seen, mut cursor) = (Vec::new(), Value::Null);
    let list = world.ask("inspect", json!({ "expression": "(loop for i below 500 collect i)" }));
    loop {
        let page = world.ask("inspect", json!({ "handle": list["handle"], "limit": 150, "cursor": cursor }));
        seen.extend(
            page["parts"].as_array().unwrap().iter().map(|part| part["value"].as_str().unwrap().to_owned()),
        );
        cursor = page["cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    assert_eq!(seen, (0..500).map(|number| number.to_string()).collect::<Vec<_>>());
    for (form, kind) in [
        ("#'car", "function"),
        ("(let ((x 1)) (lambda () (incf x)))", "closure"),
        ("#'print-object", "generic-function"),
        ("'car", "symbol"),
        ("*package*", "package"),
        ("(find-class 'cl-ppcre::regex)", "class"),
        ("'(1 . 2)", "dotted-list"),
        ("(let ((l (list 1))) (setf (cdr l) l))", "circular-list"),
        ("(make-array '(2 3))", "array"),
        ("\"text\"", "string"),
        ("12345678901234567890", "integer"),
        ("1.5d0", "float"),
        ("1/3", "ratio"),
        ("#c(1 2)", "complex"),
        ("#\\a", "character"),
        ("*standard-output*", "stream"),
        ("nil", "symbol"),
        ("(sb-ext:make-weak-pointer \"x\")", "weak-pointer"),
    ] {
        assert_eq!(world.ask("inspect", json!({ "expression": form }))["kind"], kind, "{form}");
    }
}

/// Removes addresses from `text`: the collector moves objects.
fn address_free(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        kept.push_str(&rest[..at]);
        rest = rest[at..].find('}').map_or("", |end| &rest[at + end + 1..]);
    }
    kept + rest
}

fn handles_are_bounded(world: &World) {
    let first = world.ask("evaluate", json!({ "code": "(list 1 2)" }))["values"][0]["handle"].clone();
    for _ in 0..20 {
        // Inspecting a handle keeps it valid.
        assert_eq!(world.ask("inspect", json!({ "handle": first }))["status"], "found");
        world.ask("evaluate", json!({ "code": "(values-list (loop repeat 50 collect (list 1)))" }));
    }
    for _ in 0..20 {
        world.ask("evaluate", json!({ "code": "(values-list (loop repeat 50 collect (list 1)))" }));
    }
    assert_eq!(world.ask("inspect", json!({ "handle": first }))["status"], "gone");
    assert_eq!(world.ask("inspect", json!({ "handle": "h99999999" }))["status"], "unknown");
    let nonsense = world.ask("inspect", json!({ "handle": "nonsense" }));
    assert_eq!(nonsense["status"], "unknown");
    assert_eq!(nonsense["found"], false);
    expect_text("unknown handle", nonsense["message"].as_str().unwrap());
}

fn nothing_runs_without_permission(world: &World) {
    let session = Session::new(world.bank.clone());
    for (tool, arguments) in [("evaluate", json!({ "code": "1" })), ("inspect", json!({ "handle": "h1" }))] {
        let arguments = arguments.as_object().unwrap().clone();
        let why = steelbank::actions::tools().get(tool).unwrap().call(&session, arguments, &Call::default());
        expect_text(&format!("{tool} without permission"), &why.unwrap_err().to_string());
    }
}

#[test]
fn disassembly_and_compiler_notes_agree_with_sbcl() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let world = World::of("cl-ppcre", &["cl-ppcre", "alexandria", "yason"]);
    for name in
        ["cl-ppcre:split", "alexandria:curry", "yason::skip-whitespace", "cl:mapcar", "cl-ppcre:do-scans"]
    {
        let answer = world.ask("disassemble", json!({ "name": name }));
        let call = Call::default().without_limit();
        let arguments = json!({ "name": name }).as_object().unwrap().clone();
        let whole = steelbank::actions::tools()
            .get("disassemble")
            .unwrap()
            .call(&world.session, arguments, &call)
            .unwrap()
            .structured;
        let function = format!("(or (macro-function '{name}) (fdefinition '{name}))");
        // Code moves: addresses are not compared.
        let lines = world.lines(&format!(
            "(let ((*package* (find-package :cl)) (*print-pretty* nil) (*print-length* 10) (*print-level* 3)) (disassemble {function}))"
        ));
        let plain = |line: &str| line.split_once(':').map_or(line, |(_, rest)| rest).to_owned();
        let code = |lines: &[String]| -> Vec<String> {
            lines
                .iter()
                .filter(|line| !line.contains("#x") && !line.contains("&"))
                .map(|line| plain(line))
                .collect()
        };
        let found: Vec<String> =
            whole["lines"].as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect();
        assert_eq!(found.len(), lines.len(), "{name}");
        let same = code(&found).iter().zip(code(&lines)).filter(|(one, other)| *one == other).count();
        // Allow different bytes for addresses, as in calls.
        assert!(same * 10 >= lines.len() * 8, "{name}: {same} of {}", lines.len());
        let size: u64 = lines
            .iter()
            .filter_map(|line| line.strip_prefix("; Size: ")?.split(' ').next()?.parse::<u64>().ok())
            .sum();
        assert_eq!(whole["functions"][0]["bytes"].as_u64(), Some(size), "{name}");
        assert!(whole["functions"][0]["instructions"].as_u64().unwrap() as usize <= lines.len());
        assert!(answer["cursor"].is_string() || answer["lines"] == whole["lines"], "{name}");
    }
    let methods = world.ask("disassemble", json!({ "name": "cl-ppcre::regex-length" }));
    let count = world.lines("(print (length (sb-mop:generic-function-methods #'cl-ppcre::regex-length)))");
    assert_eq!(methods["functions"].as_array().unwrap().len().to_string(), count.last().unwrap().trim());
    assert_eq!(world.ask("disassemble", json!({ "name": "no-such-name-at-all" }))["found"], false);
    assert_eq!(
        world.ask("disassemble", json!({ "name": "cl-ppcre:*regex-char-code-limit*" }))["functions"],
        json!([])
    );
    notes_are_what_the_compiler_says(&world);
}

/// Checks that the notes are those of compiling the file, and that the definition is not replaced.
fn notes_are_what_the_compiler_says(world: &World) {
    let before = world.ask("evaluate", json!({ "code": "(setf (get 'cl-user::before 'x) (list #'cl-ppcre::create-bmh-matcher #'yason::skip-whitespace #'alexandria:shuffle))" }));
    assert_eq!(before["status"], "finished");
    for (name, file) in
        [("cl-ppcre::create-bmh-matcher", "scanner.lisp"), ("cl-ppcre::create-scanner-aux", "scanner.lisp")]
    {
        let answer = world.ask("compiler-notes", json!({ "name": name }));
        let place = answer["definitions"][0]["place"].as_str().unwrap();
        assert!(place.starts_with(file), "{answer}");
        assert_eq!(answer["definitions"][0]["skipped"], Value::Null, "{answer}");
        let first: usize = place.split(':').nth(1).unwrap().parse().unwrap();
        for note in answer["notes"].as_array().into_iter().flatten() {
            let at: usize = note["place"].as_str().unwrap().split(':').nth(1).unwrap().parse().unwrap();
            assert!(at >= first, "{note}");
            assert!(!note["message"].as_str().unwrap().is_empty());
        }
        // Compile the whole file in SBCL.
        let path = world.root.join(file);
        let said = world.lines(&format!(
            "(let ((*package* *package*) (*error-output* (make-broadcast-stream)))
               (handler-bind ((sb-ext:compiler-note (lambda (c) (format t \"~a~%\" (substitute #\\Space #\\Newline (princ-to-string c))))))
                 (let ((out *standard-output*)) (declare (ignorable out))
                   (compile-file {path:?} :output-file \"/tmp/steelbank-notes.fasl\" :verbose nil :print nil))))"
        ));
        let notes: Vec<&Value> = answer["notes"]
            .as_array()
            .into_iter()
            .flatten()
            .filter(|note| note["severity"] == "note")
            .collect();
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        for note in &notes {
            let message = words(note["message"].as_str().unwrap());
            assert!(
                said.iter().any(|line| words(line) == message),
                "{message} is not among {} notes",
                said.len()
            );
        }
        if name.ends_with("matcher") {
            assert!(notes.len() >= 5, "{answer}");
        }
    }
    let same = world.ask("evaluate", json!({ "code": "(equal (get 'cl-user::before 'x) (list #'cl-ppcre::create-bmh-matcher #'yason::skip-whitespace #'alexandria:shuffle))" }));
    assert_eq!(same["values"][0]["text"], "T");
    assert!(
        world.ask("compiler-notes", json!({ "name": "alexandria:shuffle" }))["definitions"][0]["place"]
            .as_str()
            .unwrap()
            .contains("sequences.lisp")
    );
    assert!(
        world.ask("compiler-notes", json!({ "name": "yason::skip-whitespace" }))["definitions"][0]["skipped"]
            .is_null()
    );
}
