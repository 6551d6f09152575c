//! Tests of `steelbank scip` and `steelbank site`: the files after an interrupt or with a full
//! disk, and wrong arguments.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cache::signal;
use crate::child::wait_until;
use crate::program::{Folder, STEELBANK, on, outcome, shown};
use crate::texts::expect_text;

/// Writes a project that takes some time to export.
fn write_project(folder: &Path) {
    let mut text = String::from("(defpackage :much (:use :cl))\n(in-package :much)\n");
    for number in 1..800 {
        let _ = writeln!(text, "(defun f{number} (x) (list x (f{} x) (f{} x)))", number - 1, number / 2);
    }
    fs::create_dir_all(folder).unwrap();
    fs::write(folder.join("much.lisp"), &text).unwrap();
    let components: String = (0..12).map(|number| format!("(:file \"more-{number}\")")).collect();
    for number in 0..12 {
        let text = text.replace(":much", &format!(":more-{number}"));
        fs::write(folder.join(format!("more-{number}.lisp")), text).unwrap();
    }
    fs::write(
        folder.join("much.asd"),
        format!(
            "(defsystem \"much\" :components ((:file \"much\")))\n(defsystem \"much/more\" :components ({components}))"
        ),
    )
    .unwrap();
}

/// Returns a command in the project.
fn steelbank(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = on(&folder.join("project"), &folder.join("cache"));
    command.args(arguments);
    command
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn full_disk_keeps_the_old_index() {
    let folder = Folder::new("export-full");
    write_project(&folder.join("project"));
    let out = folder.join("out");
    fs::create_dir(&out).unwrap();
    let index = out.join("index.scip");
    let arguments = ["--system", "much", "scip", "-o", index.to_str().unwrap()];
    let (_, errors, code) = outcome(&steelbank(&folder, &arguments).output().unwrap());
    assert_eq!(code, Some(0), "{errors}");
    let whole = fs::read(&index).unwrap();
    symlink("/dev/full", out.join("index.scip.part")).unwrap();
    expect_text("full disk", &shown(&steelbank(&folder, &arguments).output().unwrap()));
    assert_eq!(names(&out), ["index.scip"], "something half is left");
    assert_eq!(fs::read(&index).unwrap(), whole);
    // A failed write to standard output is an error, too.
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = steelbank(&folder, &["--system", "much", "scip", "-o", "-"]).stdout(full).output();
    expect_text("full output", &shown(&output.unwrap()));
}

#[test]
fn interrupted_export_leaves_no_files() {
    let folder = Folder::new("export-ended");
    write_project(&folder.join("project"));
    let out = folder.join("out");
    fs::create_dir(&out).unwrap();
    let half = |name: &str| out.join(format!("{name}.part"));
    for (name, command, begun) in [("index", "scip", half("index")), ("site", "site", half("site").join("f"))]
    {
        let to = out.join(name);
        let arguments = ["--system", "much/more", command, "-o", to.to_str().unwrap()];
        let mut child = steelbank(&folder, &arguments).stderr(Stdio::null()).spawn().unwrap();
        wait_until("the export does not begin", || begun.exists() || child.try_wait().unwrap().is_some());
        assert!(half(name).exists(), "{command} ended before it could be ended");
        signal(child.id().into(), libc::SIGINT);
        assert!(!child.wait().unwrap().success());
        assert_eq!(names(&out), [""; 0], "{command}");
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let folder = Folder::new("export-wrong");
    write_project(&folder.join("project"));
    let foreign = folder.join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("thesis.txt"), "years").unwrap();
    let foreign = foreign.to_str().unwrap();
    for (name, arguments) in [
        ("site, folder of another program", &["site", "-o", foreign][..]),
        ("scip, folder", &["scip", "-o", foreign]),
        ("scip, no folder", &["scip", "-o", "no/such/folder/x"]),
        ("scip, unknown format", &["scip", "--format", "xml"]),
        ("site, no value", &["site", "-o"]),
        ("site, unknown argument", &["site", "pages"]),
        ("site, unknown system", &["--system", "no-such", "site"]),
    ] {
        let output = steelbank(&folder, arguments).output().unwrap();
        assert!(output.stdout.is_empty(), "{arguments:?}");
        expect_text(name, &shown(&output));
    }
    assert_eq!(names(Path::new(foreign)), ["thesis.txt"]);
    assert!(!folder.join("project/site").exists());
    expect_text(
        "no project",
        &shown(&Command::new(STEELBANK).arg("scip").current_dir("/").output().unwrap()),
    );
}
