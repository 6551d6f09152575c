//! Tests of shell completion: names come from the last snapshot, without starting Lisp or running
//! code.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use crate::program::{Folder, STEELBANK, ask, outcome, run};
use crate::texts::write_project;

/// A project that writes a file when its code is loaded.
const PROJECT: &str = r#"
//- demo.asd
(defsystem "demo" :components ((:file "demo")))
(defsystem "demo/tests" :depends-on ("demo"))
//- demo.lisp
(defpackage :demo-store (:use :cl) (:export #:price #:with-price #:*rate*))
(in-package :demo-store)
(with-open-file (s (asdf:system-relative-pathname "demo" "loaded") :direction :output :if-exists :supersede) (print 1 s))
(defvar *rate* 1)
(defmacro with-price ((it) &body forms) `(let ((,it 1)) ,@forms))
(defun %helper (amount) (* amount *rate*))
(defun price (amount) (with-price (one) (+ one (%helper amount))))
(defun |Mixed| () (price 1))
(defpackage odd-names (:use))
(export (list (intern "it's \"$x\"!" :odd-names) (intern (format nil "line~%end") :odd-names)) :odd-names)
"#;

/// Returns the completions of the last word, with an SBCL that cannot start.
fn completed(root: &Path, cache: &Path, words: &[&str]) -> Vec<String> {
    let mut command = Command::new(STEELBANK);
    command.env("STEELBANK_COMPLETE", "bash").env("STEELBANK_CACHE", cache).env("STEELBANK_HOME", root);
    let output = command.args(["--", "steelbank"]).args(words).current_dir(root).output().unwrap();
    let (text, errors, code) = outcome(&output);
    assert_eq!((errors.as_str(), code), ("", Some(0)), "{words:?}");
    text.lines().map(str::to_owned).collect()
}

/// Lists the files below `folder` with their modification times.
fn files(folder: &Path) -> Vec<(String, SystemTime)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.path().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found
                .push((entry.path().display().to_string(), entry.metadata().unwrap().modified().unwrap())),
        }
    }
    found.sort();
    found
}

/// An image that cannot be saved still gives names, and slow commands report why it cannot.
#[test]
fn names_come_from_an_unsaveable_image() {
    let (root, cache) = (Folder::new("complete-unsaved"), Folder::new("complete-unsaved-cache"));
    write_project(&root, PROJECT);
    let text = fs::read_to_string(root.join("demo.lisp")).unwrap();
    let keeps = "(defvar *kept* (sb-alien:make-alien sb-alien:int 10))\n(sleep 1.1)\n";
    fs::write(root.join("demo.lisp"), format!("{text}{keeps}")).unwrap();
    let (_, errors, code) = ask(&root, &cache, &["--system", "demo", "snapshot"]);
    assert!(errors.contains("40 bytes") && code == Some(3), "{errors}");
    assert_eq!(completed(&root, &cache, &["who-calls", "demo-store:pr"]), ["demo-store:price"]);
    let (_, errors, code) = ask(&root, &cache, &["--system", "demo", "who-calls", "demo-store:price"]);
    assert!(errors.contains("no snapshot can be saved") && errors.contains("40 bytes"), "{errors}");
    assert_eq!(code, Some(0));
}

#[test]
fn names_come_from_the_last_snapshot() {
    let (root, cache) = (Folder::new("complete"), Folder::new("complete-cache"));
    write_project(&root, PROJECT);
    let of = |words: &[&str]| completed(&root, &cache, words);
    assert!(of(&["who-calls", "demo-store:"]).is_empty(), "there is no snapshot");
    assert_eq!(of(&["--system", "de"]), ["demo", "demo/tests"]);
    let (_, errors, code) = ask(&root, &cache, &["--system", "demo", "snapshot"]);
    assert_eq!(code, Some(0), "{errors}");
    // A stale snapshot still has names.
    fs::write(root.join("demo.lisp"), "(broken").unwrap();
    fs::remove_file(root.join("loaded")).unwrap();
    let before = (files(&root), files(&cache));
    assert_eq!(of(&["who-calls", "demo-s"]), ["demo-store:"]);
    assert_eq!(
        of(&["who-calls", "demo-store:"]),
        [
            "demo-store:*rate*", "demo-store::%helper", "demo-store::|Mixed|", "demo-store:price",
            "demo-store:with-price"
        ]
    );
    assert_eq!(of(&["--system", "demo", "rename", "demo-store::%"]), ["demo-store::%helper"]);
    assert_eq!(of(&["describe-symbol", "--package", "demo-"]), ["demo-store"]);
    assert_eq!(of(&["impact", "cl:car", "demo-store:pr"]), ["demo-store:price"], "a list");
    assert_eq!(of(&["who-calls", "mapca"]), ["mapcan", "mapcar"]);
    assert_eq!(of(&["describe-symbol", "cl:mapca"]), ["cl:mapcan", "cl:mapcar"]);
    assert_eq!(of(&["run-tests", "demo/"]), ["demo/tests"]);
    assert_eq!(of(&["call", "who-ca"]), ["who-calls"]);
    assert_eq!(of(&["outline", "demo.l"]), ["demo.lisp"]);
    // --project names the project from any folder.
    let elsewhere = Folder::new("complete-elsewhere");
    let project = root.display().to_string();
    let there = completed(&elsewhere, &cache, &["who-calls", "demo-store:p"]);
    assert!(there.is_empty(), "{there:?}");
    for line in [&["--project", &project][..], &[&format!("--project={project}")]] {
        let line = [line, &["who-calls", "demo-store:p"]].concat();
        assert_eq!(completed(&elsewhere, &cache, &line), ["demo-store:price"], "{line:?}");
    }
    assert_eq!(
        before,
        (files(&root), files(&cache)),
        "something was written, or the project's code was loaded"
    );
    // A damaged index has no names.
    let snapshots = fs::read_dir(cache.join("projects/snapshots")).unwrap().flatten();
    for index in snapshots.map(|entry| entry.path().join("index")).filter(|path| path.exists()) {
        let mut bytes = fs::read(&index).unwrap();
        bytes.truncate(100_000);
        fs::write(&index, bytes).unwrap();
    }
    assert!(of(&["who-calls", "demo-store:"]).is_empty());
}

#[test]
fn bash_completes_words_with_colons() {
    let (root, cache) = (Folder::new("complete-bash"), Folder::new("complete-bash-cache"));
    write_project(&root, PROJECT);
    let (_, errors, code) = ask(&root, &cache, &["--system", "demo", "snapshot"]);
    assert_eq!(code, Some(0), "{errors}");
    let (script, errors, code) = outcome(&run(&["completions", "bash"]));
    assert_eq!((errors.as_str(), code), ("", Some(0)));
    // Bash replaces the part after the last colon, unless the word is quoted.
    for (line, replies) in [
        ("steelbank who-calls demo-s", "demo-store: (no space)"),
        ("steelbank who-calls demo-store:pr", "price"),
        ("steelbank who-calls demo-store::", "%helper \\|Mixed\\|"),
        ("steelbank who-calls demo-store:\\*r", "\\*rate\\*"),
        ("steelbank who-calls 'demo-store:*r", "demo-store:*rate*"),
        ("steelbank who-calls 'odd-names:|i", r#"odd-names:|it'\''s "$x"!|"#),
        ("steelbank who-calls \"odd-names:|i", r#"odd-names:|it's \"\$x\""'!'"|"#),
        ("steelbank who-calls odd-names:|i", r#"\|it\'s\ \"\$x\"\!\|"#),
        // A name with a control character is not offered.
        ("steelbank who-calls odd-names:|l", ""),
        ("steelbank who-calls demo-store:none", ""),
        ("steelbank who-cal", "who-calls"),
    ] {
        let typed = format!(
            "{script}\ncompopt() {{ COMPREPLY+=('(no space)'); }}\nCOMP_LINE=$1 COMP_POINT=${{#1}}\n_steelbank\necho \"${{COMPREPLY[*]}}\""
        );
        let path = format!("{}:/usr/bin:/bin", Path::new(STEELBANK).parent().unwrap().display());
        let output = Command::new("bash")
            .args(["-c", &typed, "bash", line])
            .current_dir(&root)
            .env("PATH", path)
            .env("STEELBANK_CACHE", &*cache)
            .output();
        let (text, errors, _) = outcome(&output.unwrap());
        assert_eq!((text.trim_end(), errors.as_str()), (replies, ""), "{line}");
    }
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        let (script, _, code) = outcome(&run(&["completions", shell]));
        assert!(code == Some(0) && script.contains("STEELBANK_COMPLETE"), "{shell}: {script}");
    }
}
