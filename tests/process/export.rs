//! Tests of the commands that write files where the user names them (`scip`, `site`, `call-graph
//! --svg`): the files after an interrupt or with a full disk, files of others, and wrong arguments.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::cache::signal;
use crate::child::{Random, small_or_full, wait_until};
use crate::program::{Folder, STEELBANK, ends, on, outcome, shown};
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
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 40; exec \"$0\" --no-userinit \"$@\"", STEELBANK]).args(arguments);
    limited.current_dir(folder.join("project")).env("STEELBANK_CACHE", folder.join("cache"));
    // The SBCL inside the program is copied to a file in memory, which the limit applies to, too.
    limited.env("STEELBANK_HOME", steelbank::Installation::BUILT);
    expect_text("full disk", &shown(&limited.output().unwrap()));
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
    for (command, begun, rest) in
        [("scip", "", &[][..]), ("site", "f", &[]), ("call-graph", "", &["much::f1", "--svg"])]
    {
        let to = out.join(command);
        let option = if rest.is_empty() { &["-o"][..] } else { rest };
        let arguments = [&["--system", "much/more", command], option, &[to.to_str().unwrap()]].concat();
        let mut child = steelbank(&folder, &arguments).stderr(Stdio::null()).spawn().unwrap();
        let has_begun =
            || names(&out).iter().any(|name| begun.is_empty() || out.join(name).join(begun).exists());
        wait_until("the export does not begin", || has_begun() || child.try_wait().unwrap().is_some());
        assert!(has_begun() && !to.exists(), "{command} ended before it could be ended");
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

/// Returns what is at each path below `folder`: the content of files, the targets of links, and the
/// types of others.
fn tree(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
    while let Some(at) = folders.pop() {
        for entry in fs::read_dir(at).unwrap().map(Result::unwrap) {
            let (path, kind) = (entry.path(), entry.file_type().unwrap());
            let content = match kind {
                _ if kind.is_file() => fs::read(&path).unwrap(),
                _ if kind.is_symlink() => fs::read_link(&path).unwrap().into_os_string().into_vec(),
                _ => format!("{kind:?}").into_bytes(),
            };
            found.insert(path.clone(), content);
            folders.extend(kind.is_dir().then_some(path));
        }
    }
    found
}

/// The files that the commands of the test write.
const TARGETS: [&str; 5] = ["index.scip", "index.scip.json", "site", "pages", "graph.svg"];

/// Creates an entry of one of ten kinds that a repository or another program may have put at
/// `path`. Links lead to `victims`.
fn put_foreign(path: &Path, kind: usize, victims: &Path) {
    // Skip names that exist, or that the file system does not allow.
    if path.symlink_metadata().is_ok() {
        return;
    }
    let link = |to: &Path| drop(symlink(to, path));
    let folder = |file: &str, text: &str| {
        let _ = fs::create_dir(path).and_then(|()| fs::write(path.join(file), text));
    };
    match kind {
        0 => drop(fs::write(path, "text of others")),
        1 => link(&victims.join("file")),
        2 => link(&victims.join("folder")),
        3 => link(&victims.join("missing")),
        4 => link(path),
        5 => link(Path::new("/dev/full")),
        6 => assert!(Command::new("mkfifo").arg(path).stderr(Stdio::null()).status().is_ok()),
        7 => folder("thesis.txt", "years"),
        8 => folder("steelbank-site.txt", "Written by steelbank site"),
        _ => drop(UnixListener::bind(path)),
    }
}

/// Returns a name that an export or an editor may use beside one of [`TARGETS`].
fn foreign_name(random: &mut Random) -> OsString {
    const BEFORE: [&[u8]; 6] = [b"", b".", b".steelbank-", b"\xff", b"\x1b]0;", "\u{202e}".as_bytes()];
    const AFTER: [&[u8]; 8] = [b".part", b".old", b".tmp", b"~", b".lock", b"\n", b" '\"$(x)`", b".0"];
    let target = TARGETS[random.below(TARGETS.len())].as_bytes();
    let mut name = [BEFORE[random.below(6)], target, AFTER[random.below(8)]].concat();
    if random.below(8) == 0 {
        name.resize(255, b'x');
    }
    OsString::from_vec(name)
}

/// Puts files of others beside and in place of the outputs, and checks that exports change nothing
/// but their own output, and end.
#[test]
fn exports_change_no_files_of_others() {
    let folder = Folder::new("export-foreign");
    let (root, victims) = (folder.join("project"), folder.join("victims"));
    fs::create_dir_all(victims.join("folder")).unwrap();
    fs::write(victims.join("file"), "precious").unwrap();
    let source: String = (0..60).map(|number| format!("(defun f{number} () (f{}))\n", number / 2)).collect();
    let mut random = Random(42);
    let longest = Duration::from_secs(small_or_full(20, 5));
    let (mut written, mut refused, mut ended) = (0, 0, 0);
    for round in 0..small_or_full(50, 400) {
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("much.asd"), "(defsystem \"much\" :components ((:file \"much\")))").unwrap();
        fs::write(root.join("much.lisp"), &source).unwrap();
        for _ in 0..30 {
            put_foreign(&root.join(foreign_name(&mut random)), random.below(10), &victims);
        }
        let target = TARGETS[round % TARGETS.len()];
        if random.below(3) == 0 {
            put_foreign(&root.join(target), random.below(10), &victims);
        }
        let arguments = match target {
            "index.scip" => &["scip"][..],
            "index.scip.json" => &["scip", "--format", "json"],
            "site" => &["site"],
            "pages" => &["site", "-o", "pages/"],
            _ => &["call-graph", "f7", "--svg", target],
        };
        let before = tree(&folder);
        let begun = Instant::now();
        let mut command = on(&root, &folder.with_extension("cache"));
        let child = command.args(["--system", "much"]).args(arguments).stdout(Stdio::null());
        let child = child.stderr(Stdio::null()).spawn().unwrap();
        if random.below(3) == 0 {
            std::thread::sleep(Duration::from_millis(random.below(300) as u64));
            signal(child.id().into(), libc::SIGINT);
        }
        let status = ends(child);
        let (took, what) = (begun.elapsed(), format!("round {round}: {arguments:?}, {status}"));
        assert!(took < longest, "{what}: {took:?}");
        let mut after = tree(&folder);
        if status.success() {
            // A regular file may be replaced: the user has named it.
            let output = root.join(target);
            let old = before.get(&output);
            assert!(old.is_none_or(|text| text == b"text of others"), "{what}");
            after.retain(|path, _| !path.starts_with(&output));
            after.extend(old.map(|old| (output, old.clone())));
        }
        let changed: Vec<&PathBuf> =
            before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
        assert!(changed.is_empty(), "{what} changed {changed:?}");
        match status.code() {
            Some(0) => written += 1,
            Some(_) => refused += 1,
            None => ended += 1,
        }
    }
    println!("{written} written, {refused} refused, {ended} ended by signals");
    assert!(written > 10 && refused > 2 && ended > 2, "{written} {refused} {ended}");
    let _ = fs::remove_dir_all(folder.with_extension("cache"));
}
