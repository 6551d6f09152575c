//! Tests of edits that are interrupted, fail, or run concurrently. Each edit is applied completely
//! or not at all, and a completed edit is never lost.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::Pid;
use serde_json::{Value, json};
use steelbank::actions::change::edit_definition::{EditOperation, EditRequest};
use steelbank::actions::change::rename::{RenamePlan, RenameRequest};
use steelbank::{
    Control, LoadRequest, ProjectSettings, RecoverEditsRequest, RenameApplyRequest, Steelbank, UndoRequest,
};

use crate::asks::Asks;
use crate::child::{command, is_child, small_or_full, wait_until};
use crate::client::Client;
use crate::program::{Folder, STEELBANK, Streams, ends, initialized, server, shown};
use crate::texts::expect_text;
use crate::tracer::{CAN_FAIL, Fate, trace};

const FILES: usize = 50;

/// Creates a folder in memory, if possible.
fn folder(name: &str) -> Folder {
    let memory = PathBuf::from(format!("/dev/shm/steelbank-{name}-{}", std::process::id()));
    match fs::create_dir(&memory) {
        Ok(()) => Folder(memory),
        Err(_) => Folder::new(name),
    }
}

fn text(number: usize, name: &str) -> String {
    format!("(in-package :cut)\n(defun user-{number} (x) (list ({name} x) '{name}))\n")
}

/// Writes a project of fifty files that use `hub`. The first file has a hard link outside of the
/// project, and the second file an unusual mode.
fn project(folder: &Path) -> PathBuf {
    let root = folder.join("project");
    fs::create_dir(&root).unwrap();
    let files: String = (0..FILES).map(|number| format!("(:file \"f{number}\")")).collect();
    let package = "(defpackage :cut (:use :cl) (:export #:hub))\n(in-package :cut)\n(defun hub (x) x)\n";
    fs::write(
        root.join("cut.asd"),
        format!("(defsystem \"cut\" :serial t :components ((:file \"package\") {files}))"),
    )
    .unwrap();
    fs::write(root.join("package.lisp"), package).unwrap();
    for number in 0..FILES {
        fs::write(root.join(format!("f{number}.lisp")), text(number, "hub")).unwrap();
    }
    fs::hard_link(root.join("f0.lisp"), folder.join("second-name")).unwrap();
    fs::set_permissions(root.join("f1.lisp"), fs::Permissions::from_mode(0o4750)).unwrap();
    root.canonicalize().unwrap()
}

/// A project with a plan to rename `hub` to `centre` in 51 files.
struct Cut {
    folder: Folder,
    root: PathBuf,
    bank: Steelbank,
    plan: RenamePlan,
    old: Vec<(PathBuf, String)>,
    random: u64,
}

impl Cut {
    fn new(name: &str) -> Self {
        let folder = folder(name);
        let root = project(&folder);
        let settings = ProjectSettings::in_folder(&root).cache(folder.join("home/projects"));
        let bank = Steelbank::builder().project(settings).program(STEELBANK.into()).start().unwrap();
        let loaded = bank
            .run(&LoadRequest::system("cut").failure_as_answer(), &Control::new(Duration::from_secs(300)))
            .unwrap();
        assert!(loaded.failure.is_none());
        let plan = bank.answer(&RenameRequest::new("cut:hub", "centre"));
        assert_eq!(plan.files.len(), FILES + 1);
        let old = plan.files.iter().map(|file| {
            let path = root.join(&file.path);
            let text = fs::read_to_string(&path).unwrap();
            (path, text)
        });
        let old = old.collect();
        Self { folder, root, bank, plan, old, random: 20 }
    }

    fn apply(&self) -> bool {
        self.bank.run(&RenameApplyRequest::new(&self.plan), &Control::default()).is_ok()
    }

    fn undo(&self) -> bool {
        self.bank.run(&UndoRequest::new("last"), &Control::default()).is_ok()
    }

    /// Returns a number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) as usize % end
    }

    /// Returns whether the files have the new texts. Fails if only some files have the new text, if
    /// the hard link or the mode is lost, or if a temporary file or an unfinished edit exists.
    fn is_new(&self, what: &str) -> bool {
        let new = |text: &str| text.replace("hub", "centre");
        let found: BTreeSet<bool> = self
            .old
            .iter()
            .map(|(path, old)| {
                let now = fs::read_to_string(path).unwrap();
                assert!(now == *old || now == new(old), "{what}: {}: {now}", path.display());
                now != *old
            })
            .collect();
        assert_eq!(found.len(), 1, "{what}: half");
        let second = fs::read_to_string(self.folder.join("second-name")).unwrap();
        assert_eq!(second, fs::read_to_string(self.root.join("f0.lisp")).unwrap(), "{what}");
        let mode = fs::metadata(self.root.join("f1.lisp")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o4750, "{what}");
        assert_eq!(hidden(&self.root), [""; 0], "{what}");
        assert_eq!(self.records("journal-3"), 0, "{what}");
        found.contains(&true)
    }

    fn undo_folder(&self) -> PathBuf {
        self.folder.join("home/projects/undo")
    }

    /// Counts the records with an extension in the cache.
    fn records(&self, kind: &str) -> usize {
        let folders = fs::read_dir(self.undo_folder()).into_iter().flatten().flatten();
        let files = folders.flat_map(|folder| fs::read_dir(folder.path()).unwrap().flatten());
        files.filter(|file| file.path().extension().is_some_and(|found| found == kind)).count()
    }

    /// Restores all files, and removes all edit records.
    fn reset(&self) {
        self.old.iter().for_each(|(path, old)| fs::write(path, old).unwrap());
        fs::set_permissions(self.root.join("f1.lisp"), fs::Permissions::from_mode(0o4750)).unwrap();
        if self.undo_folder().exists() {
            fs::remove_dir_all(self.undo_folder()).unwrap();
        }
    }
}

/// Lists the temporary files of a folder.
fn hidden(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().flatten();
    names
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with('.'))
        .collect()
}

#[test]
fn interrupted_edit_is_complete_or_undone() {
    own_process!();
    let mut cut = Cut::new("edits-cut");
    let done = cut.folder.join("done");
    let applies = |cut: &Cut| cut.apply() && fs::write(&done, "").is_ok();
    let (status, applying) = trace(|| applies(&cut), |_| Fate::Goes);
    assert!(status.success() && cut.is_new("whole"), "{status}");
    let (status, undoing) = trace(|| cut.undo(), |_| Fate::Goes);
    assert!(status.success() && !cut.is_new("undone"), "{status}");
    let (mut halves, mut news) = (0, 0);
    let rounds = small_or_full(50, 1000);
    for round in 0..rounds {
        cut.reset();
        let _ = fs::remove_file(&done);
        // Some rounds have a file system that cannot exchange files.
        let refuses = CAN_FAIL && round % 5 == 4;
        let at = match round % 3 {
            2 => {
                assert!(cut.apply());
                cut.below(undoing)
            }
            _ => cut.below(applying),
        };
        let what = format!("round {round}, cut at {at} of {applying} or {undoing}");
        let body = || if round % 3 == 2 { cut.undo() } else { applies(&cut) };
        let (status, stops) = trace(body, |stop| match stop.call {
            _ if stop.at == at + 1 => Fate::Ends,
            Some(libc::SYS_renameat2) if refuses => Fate::Fails(libc::EINVAL),
            _ => Fate::Goes,
        });
        assert!(stops == at + 1 || status.code() == Some(0), "{what}: {status}");
        let told = done.exists();
        halves += usize::from(cut.records("journal-3") > 0);
        if round % 3 == 1 {
            // Interrupt the recovery, too.
            let at = cut.below(applying / 2);
            trace(
                || cut.bank.run(&RecoverEditsRequest::new(), &Control::default()).is_ok(),
                |stop| match stop.at == at + 1 {
                    true => Fate::Ends,
                    false => Fate::Goes,
                },
            );
        }
        cut.bank.done(&RecoverEditsRequest::new());
        let new = cut.is_new(&what);
        news += usize::from(new);
        assert!(new || !told, "{what}: an edit is lost although its answer reported success");
        // Any recorded edit can be undone.
        if cut.records("edit-3") > 0 {
            cut.bank.done(&UndoRequest::new("last"));
            assert!(!cut.is_new(&what), "{what}");
        }
    }
    println!("\nseen: {rounds} ends in {applying} stops: {halves} in the middle, {news} whole");
    assert!(halves > rounds / 2, "{halves}");
}

#[cfg(target_arch = "x86_64")]
#[test]
fn failed_system_call_leaves_no_partial_edit() {
    own_process!();
    let mut cut = Cut::new("edits-fail");
    // System calls that can fail, except those for memory and exit.
    let can_fail = [
        libc::SYS_openat,
        libc::SYS_write,
        libc::SYS_pwrite64,
        libc::SYS_read,
        libc::SYS_fsync,
        libc::SYS_fchmod,
        libc::SYS_flistxattr,
        libc::SYS_ftruncate,
        libc::SYS_fallocate,
        libc::SYS_rename,
        libc::SYS_renameat2,
        libc::SYS_unlink,
        libc::SYS_mkdir,
        libc::SYS_flock,
    ];
    let fallible = |call: Option<i64>| call.is_some_and(|call| can_fail.contains(&call));
    let mut calls = 0;
    let (status, _) = trace(
        || cut.apply(),
        |stop| {
            calls += usize::from(fallible(stop.call));
            Fate::Goes
        },
    );
    assert!(status.success());
    let (mut failed, rounds) = (0, small_or_full(50, 1000));
    for round in 0..rounds {
        cut.reset();
        let mut left = cut.below(calls) + 1;
        let error = [libc::EIO, libc::ENOSPC, libc::EPERM, libc::EINVAL][round % 4];
        let mut which = 0;
        let (status, _) = trace(
            || cut.apply(),
            |stop| {
                left -= usize::from(left > 0 && fallible(stop.call));
                if left > 0 || which > 0 {
                    return Fate::Goes;
                }
                which = stop.call.unwrap_or(-1);
                Fate::Fails(error)
            },
        );
        let what = format!("round {round}, call {which} fails with {error}: {status}");
        assert!(matches!(status.code(), Some(0 | 1)), "{what}");
        failed += usize::from(status.code() == Some(1));
        assert_eq!(cut.is_new(&what), status.success(), "{what}");
    }
    println!("\nseen: {rounds} failures among {calls} calls, {failed} edits refused");
    assert!(failed > 0);
}

#[test]
fn concurrent_writes_of_other_programs_stay() {
    own_process!();
    let cut = Cut::new("edits-others");
    let old = cut.old.iter().filter(|(path, _)| !path.ends_with("f0.lisp"));
    let old: Vec<_> = old.cloned().collect();
    for (turn, in_place) in [(0, true), (20, false), (40, true)] {
        let (path, text) = &old[turn];
        let mut exchanges = 0;
        let (status, _) = trace(
            || cut.apply(),
            |stop| {
                if stop.call == Some(libc::SYS_renameat2) {
                    exchanges += 1;
                    if exchanges == turn + 1 {
                        write_mine(&cut, path, in_place);
                    }
                }
                Fate::Goes
            },
        );
        assert_eq!(status.code(), Some(1), "{status}");
        assert_eq!(fs::read_to_string(path).unwrap(), "(mine)");
        fs::write(path, text).unwrap();
        fs::set_permissions(cut.root.join("f1.lisp"), fs::Permissions::from_mode(0o4750)).unwrap();
        assert!(!cut.is_new("refused"));
    }
}

fn write_mine(cut: &Cut, path: &Path, in_place: bool) {
    if in_place {
        return fs::write(path, "(mine)").unwrap();
    }
    let other = cut.folder.join("other");
    fs::write(&other, "(mine)").unwrap();
    fs::rename(other, path).unwrap();
}

#[test]
fn next_start_undoes_an_interrupted_edit() {
    own_process!();
    let cut = Cut::new("edits-next");
    // Kill the process when half of the files are exchanged.
    let end = || {
        cut.reset();
        let mut exchanges = 0;
        trace(
            || cut.apply(),
            |stop| {
                exchanges += usize::from(stop.call == Some(libc::SYS_renameat2));
                if exchanges > FILES / 2 { Fate::Ends } else { Fate::Goes }
            },
        );
        assert!(fs::read_to_string(cut.root.join("f10.lisp")).unwrap().contains("centre"));
        assert!(hidden(&cut.root).len() >= FILES);
        // Other users cannot read the records.
        for folder in fs::read_dir(cut.undo_folder()).unwrap().flatten() {
            for file in fs::read_dir(folder.path()).unwrap().flatten() {
                assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{file:?}");
            }
            assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        }
    };
    let start = |options: &[&str]| {
        let mut command = server();
        command.args(["--no-userinit", "--no-snapshot"]).args(options);
        command.current_dir(&cut.root).env("STEELBANK_CACHE", cut.folder.join("home"));
        let (child, client) = initialized(command, Streams::Pipes);
        (child, client)
    };
    let notes = |result: &Value| {
        let content = result["content"].as_array().unwrap();
        content[1..].iter().map(|note| note["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };

    // A server without permission to write reports the edit, and names the command that undoes it.
    end();
    let (child, mut client) = start(&[]);
    let first = client.call("list-systems", json!({}));
    let told = notes(&first);
    expect_text("interrupted edit", &told.join("\n").replace(cut.folder.to_str().unwrap(), "{folder}"));
    let status = client.call("status", json!({}));
    let edit = &status["structuredContent"]["unfinished_edits"][0];
    assert_eq!((&edit["edit"], &edit["taken_back"]), (&json!("1"), &json!(false)), "{status}");
    assert!(status["content"][0]["text"].as_str().unwrap().contains("rename --undo 1"), "{status}");
    assert!(notes(&status).is_empty(), "the note is repeated: {status}");
    client.leave();
    ends(child);
    assert!(!hidden(&cut.root).is_empty());

    // The command undoes the edit.
    let command = Command::new(STEELBANK)
        .args(["--project", cut.root.to_str().unwrap(), "--no-snapshot", "rename", "--undo", "1"])
        .env("STEELBANK_CACHE", cut.folder.join("home"))
        .output()
        .unwrap();
    expect_text(
        "undo of an interrupted edit",
        &shown(&command).replace(cut.folder.to_str().unwrap(), "{folder}"),
    );
    assert!(!cut.is_new("taken back by the command"));

    // A server with the permission undoes the edit when it starts, and reports this.
    end();
    let (child, mut client) = start(&["--allow-edits"]);
    let first = client.call("list-systems", json!({}));
    assert_eq!(notes(&first).len(), 1, "{first}");
    assert!(!cut.is_new("taken back by the server"));
    let status = client.call("status", json!({}));
    let edit = &status["structuredContent"]["unfinished_edits"][0];
    assert_eq!(edit["taken_back"], true, "{status}");
    assert!(edit["restored"].as_array().unwrap().len() > FILES / 2 - 2, "{status}");
    let undone = client.call("rename", json!({ "undo": "last" }));
    assert_eq!(undone["structuredContent"]["restored"], json!([]), "{undone}");
    assert!(!cut.is_new("undone"));
    client.leave();
    ends(child);

    // The next edit in any session undoes an interrupted edit, too.
    end();
    let request = EditRequest::new("package.lisp", "hub", EditOperation::Replace, "(defun hub (x) (list x))");
    cut.bank.done(&request);
    let package = cut.root.join("package.lisp");
    assert!(fs::read_to_string(&package).unwrap().contains("(list x)"));
    let old = cut.old.iter().find(|(path, _)| *path == package).unwrap();
    fs::write(&package, &old.1).unwrap();
    assert!(!cut.is_new("taken back by the next edit"));
}

/// A server with an edit that waits for a lock, which the test holds.
struct Waiting {
    folder: Folder,
    child: std::process::Child,
    client: Client,
    edit: u64,
    lock: fs::File,
}

impl Waiting {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        fs::write(folder.join("w.asd"), "(defsystem \"w\" :components ((:file \"w\")))").unwrap();
        fs::write(folder.join("w.lisp"), "(in-package :cl-user)\n(defun one () 1)\n").unwrap();
        fs::write(folder.join("end.lisp"), "(sb-alien:alien-funcall (sb-alien:extern-alien \"lose\" (function sb-alien:void sb-alien:c-string)) \"on purpose\")").unwrap();
        let mut command = server();
        command.args(["--no-userinit", "--allow-edits"]);
        command.current_dir(&folder).env("STEELBANK_CACHE", folder.join("cache"));
        let (child, mut client) = initialized(command, Streams::Pipes);
        let edit = |client: &mut Client, text: &str| {
            let arguments =
                json!({ "path": "w.lisp", "definition": "one", "operation": "replace", "text": text });
            client.begin("tools/call", json!({ "name": "edit-definition", "arguments": arguments }))
        };
        // The first edit creates the lock.
        let first = edit(&mut client, "(defun one () 2)");
        assert_eq!(client.response(first)["result"]["isError"], false);
        let records = fs::read_dir(folder.join("cache/projects/undo")).unwrap().next().unwrap().unwrap();
        let path = records.path().join("lock");
        let lock = fs::File::open(&path).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        let edit = edit(&mut client, "(defun one () 3)");
        let waits = || {
            let open = fs::read_dir(format!("/proc/{}/fd", child.id())).unwrap().flatten();
            open.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|open| open == path)
        };
        wait_until("the edit does not reach the lock", waits);
        Self { folder, child, client, edit, lock }
    }

    /// Releases the lock after a time that suffices to interrupt the edit.
    fn release(&self) {
        std::thread::sleep(Duration::from_millis(1500));
        flock(&self.lock, FlockOperation::Unlock).unwrap();
    }

    fn text(&self) -> String {
        fs::read_to_string(self.folder.join("w.lisp")).unwrap()
    }
}

#[test]
fn restart_waits_for_a_running_edit() {
    for (name, tool) in [("edits-restart", json!("restart-lisp")), ("edits-death", json!("load-file"))] {
        let mut waiting = Waiting::new(name);
        let arguments = if tool == "load-file" { json!({ "path": "end.lisp" }) } else { json!({}) };
        waiting.client.begin("tools/call", json!({ "name": tool, "arguments": arguments }));
        waiting.release();
        let response = waiting.client.response(waiting.edit);
        assert_eq!(response["result"]["isError"], false, "{name}: {response}");
        assert!(waiting.text().contains("(defun one () 3)"), "{name}");
        // The restart follows the edit.
        wait_until(name, || !waiting.client.status()["restarts"].is_null());
        let Waiting { child, client, folder, .. } = waiting;
        client.leave();
        ends(child);
        drop(folder);
    }
}

#[test]
fn server_ends_after_a_running_edit() {
    for (name, signal) in [("edits-leave", None), ("edits-term", Some(rustix::process::Signal::TERM))] {
        let Waiting { child, client, folder, lock, .. } = Waiting::new(name);
        let release = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(1500));
            flock(&lock, FlockOperation::Unlock).unwrap();
        });
        match signal {
            None => client.leave(),
            Some(signal) => rustix::process::kill_process(Pid::from_child(&child), signal).unwrap(),
        }
        ends(child);
        release.join().unwrap();
        let written = fs::read_to_string(folder.join("w.lisp")).unwrap();
        assert!(written.contains("(defun one () 3)"), "{name}: {written}");
    }
}

const WRITER: &str = "STEELBANK_TEST_WRITER";
const WRITERS: usize = 4;
const SHARED_FILES: usize = 25;

/// Four processes edit the same files, with two caches.
#[test]
fn writers_lose_no_edit() {
    if is_child() {
        return write_much();
    }
    let folder = folder("edits-writers");
    let root = folder.join("project");
    fs::create_dir(&root).unwrap();
    fs::write(root.join("w.asd"), "(defsystem \"w\")").unwrap();
    for number in 0..SHARED_FILES {
        fs::write(root.join(format!("f{number}.lisp")), "(in-package :cl-user)\n(defun base ())\n").unwrap();
    }
    let edits = small_or_full(500, 25_000);
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let mut command = command("edits::writers_lose_no_edit");
            command.env(WRITER, format!("{writer} {edits} {}", folder.display()));
            command.stdout(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let (mut done, mut count, mut refused) = (BTreeSet::new(), 0, 0);
    for writer in writers {
        let output = writer.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success(), "{said}");
        let names = said.lines().filter_map(|line| line.split_once("done: ")).map(|(_, name)| name);
        let names: BTreeSet<String> = names.map(str::to_owned).collect();
        count += names.len();
        let gone: BTreeSet<String> =
            said.lines().filter_map(|line| Some(line.split_once("gone: ")?.1.to_owned())).collect();
        done.extend(names.difference(&gone).cloned());
        refused += said.lines().filter(|line| line.contains("refused: ")).count();
    }
    println!("\nseen: {count} edits done, {refused} refused");
    assert_eq!((count, refused), (WRITERS * edits, 0));
    let mut found = BTreeSet::new();
    for number in 0..SHARED_FILES {
        let text = fs::read_to_string(root.join(format!("f{number}.lisp"))).unwrap();
        let names = text.split("(defun ").filter_map(|form| form.split(' ').next());
        for name in names.filter(|name| name.starts_with('w')) {
            assert!(found.insert(name.to_owned()), "{name} is there twice");
        }
    }
    assert_eq!(found, done);
    assert_eq!(hidden(&root), [""; 0]);
}

/// Runs the edits of one writer: adds definitions, and later replaces earlier definitions.
fn write_much() {
    const KEPT: usize = 10 * SHARED_FILES;
    let told = std::env::var(WRITER).unwrap();
    let told: Vec<&str> = told.splitn(3, ' ').collect();
    let (writer, edits): (usize, usize) = (told[0].parse().unwrap(), told[1].parse().unwrap());
    let folder = Path::new(told[2]);
    let cache = folder.join(format!("cache-{}", writer % 2));
    let settings = ProjectSettings::in_folder(folder.join("project")).cache(cache);
    let bank = Steelbank::builder().project(settings).start().unwrap();
    for number in 0..edits {
        let path = format!("f{}.lisp", number % SHARED_FILES);
        let (name, form) =
            (format!("w{writer}-{number}"), format!("(defun w{writer}-{number} (x) (list x {number}))"));
        let replaced = number.checked_sub(KEPT).map(|earlier| format!("w{writer}-{earlier}"));
        let (at, operation) = match &replaced {
            Some(earlier) => (earlier.as_str(), EditOperation::Replace),
            None => ("base", EditOperation::InsertAfter),
        };
        match bank.run(&EditRequest::new(path, at, operation, &form), &Control::default()) {
            Ok(_) => {
                println!("done: {name}");
                replaced.into_iter().for_each(|earlier| println!("gone: {earlier}"));
            }
            Err(error) => println!("refused: {name}: {error}"),
        }
    }
}
