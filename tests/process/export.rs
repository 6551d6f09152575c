//! `steelbank scip`, `steelbank site`: what is left when they are ended, when the disk is full, and when they are asked wrongly.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::cache::signal;
use crate::child::wait_until;
use crate::program::{Folder, STEELBANK, on, said};

/// A project that takes some time to export.
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

/// A command in the project.
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
fn a_full_disk_leaves_the_index_that_was_there() {
    let folder = Folder::new("export-full");
    write_project(&folder.join("project"));
    let out = folder.join("out");
    fs::create_dir(&out).unwrap();
    let index = out.join("index.scip");
    let arguments = ["--system", "much", "scip", "-o", index.to_str().unwrap()];
    let (_, errors, code) = said(&steelbank(&folder, &arguments).output().unwrap());
    assert_eq!(code, Some(0), "{errors}");
    let whole = fs::read(&index).unwrap();
    symlink("/dev/full", out.join("index.scip.part")).unwrap();
    let (text, errors, code) = said(&steelbank(&folder, &arguments).output().unwrap());
    assert_eq!((text.as_str(), code), ("", Some(3)), "{errors}");
    let said_so = format!("{} cannot be written: No space left on device", index.display());
    assert!(errors.contains(&said_so), "{errors}");
    assert_eq!(names(&out), ["index.scip"], "something half is left");
    assert_eq!(fs::read(&index).unwrap(), whole);
    // Standard output that is full is an error, too.
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = steelbank(&folder, &["--system", "much", "scip", "-o", "-"]).stdout(full).output();
    let (_, errors, code) = said(&output.unwrap());
    assert!(errors.contains("No space left on device") && code == Some(3), "{errors}");
}

#[test]
fn what_is_ended_leaves_nothing_half() {
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
        wait_until("nothing is begun", || begun.exists() || child.try_wait().unwrap().is_some());
        assert!(half(name).exists(), "{command} ended before it could be ended");
        signal(child.id().into(), libc::SIGINT);
        assert!(!child.wait().unwrap().success());
        assert_eq!(names(&out), [""; 0], "{command}");
    }
}

#[test]
fn what_is_asked_wrongly_is_refused_in_words() {
    let folder = Folder::new("export-wrong");
    write_project(&folder.join("project"));
    let foreign = folder.join("foreign");
    fs::create_dir(&foreign).unwrap();
    fs::write(foreign.join("thesis.txt"), "years").unwrap();
    let foreign = foreign.to_str().unwrap();
    for (arguments, exit, message) in [
        (&["site", "-o", foreign][..], 2, "is not empty, and no site was written into it before"),
        (&["scip", "-o", foreign], 3, "cannot be written: is a directory"),
        (&["scip", "-o", "no/such/folder/x"], 3, "cannot be written: No such file or directory"),
        (&["scip", "--format", "xml"], 2, "possible values: protobuf, json"),
        (&["site", "-o"], 2, "a value is required for '--output <DIR>'"),
        (&["site", "pages"], 2, "unexpected argument 'pages'"),
    ] {
        let (text, errors, code) = said(&steelbank(&folder, arguments).output().unwrap());
        assert_eq!((text.as_str(), code), ("", Some(exit)), "{arguments:?}: {errors}");
        assert!(errors.contains(message), "{arguments:?}: {errors}");
    }
    assert_eq!(names(Path::new(foreign)), ["thesis.txt"]);
    // A system that is not there: said, and the exit code with it; no folder that looks like pages of it.
    let (_, errors, code) = said(&steelbank(&folder, &["--system", "no-such", "site"]).output().unwrap());
    assert!(errors.contains("no-such") && code == Some(3), "{errors}");
    assert!(!folder.join("project/site").exists());
    // Outside of a project.
    let (_, errors, code) = said(&Command::new(STEELBANK).arg("scip").current_dir("/").output().unwrap());
    assert!(errors.contains("There is no project") && code == Some(2), "{errors}");
}
