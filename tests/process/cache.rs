//! Tests of the cache: permissions, damage, clearing, and the processes that write to it.

use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use steelbank::{Error, ProjectSettings, Steelbank};

use crate::child::{small_or_full, wait_until};
use crate::client::Client;
use crate::program::{Folder, STEELBANK, Streams, ask, ends, ends_well, initialized, outcome};
use crate::texts::expect_text;

const SOURCE: &str =
    "(defpackage :good (:use :cl))\n(in-package :good)\n(defun target (x) (mapcar #'car x))\n";

/// Writes a project with the system good.
fn write_project(root: &Path) {
    std::fs::create_dir_all(root).unwrap();
    std::fs::write(root.join("good.asd"), "(defsystem \"good\" :components ((:file \"good\")))").unwrap();
    std::fs::write(root.join("good.lisp"), SOURCE).unwrap();
}

/// Returns a command on the project in `folder`, with its cache in the same folder. The shell code
/// `shell` runs first.
fn command(folder: &Path, shell: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{shell}\nexec \"$0\" \"$@\""), STEELBANK, "--no-userinit", "--project"]);
    command.arg(folder.join("project")).env("STEELBANK_CACHE", folder.join("cache"));
    command
}

fn run(command: &mut Command, arguments: &[&str]) -> Output {
    command.args(arguments).output().unwrap()
}

/// Lists the files and folders below `folder`, without links. Each has its mode, and whether it is
/// a folder.
fn modes(folder: &Path) -> Vec<(String, u32, bool)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let (path, metadata) = (entry.path(), entry.metadata().unwrap());
        if !metadata.is_symlink() {
            found.push((path.display().to_string(), metadata.mode() & 0o777, metadata.is_dir()));
        }
        if metadata.is_dir() {
            found.extend(modes(&path));
        }
    }
    found
}

#[test]
fn cache_is_private_with_any_umask() {
    let folder = Folder::new("cache-modes");
    write_project(&folder.join("project"));
    std::fs::write(folder.join("project/alone.lisp"), "(defun cl-user::alone () 1)\n").unwrap();
    for arguments in [
        &["--no-snapshot", "--system", "good", "find-references", "target"][..],
        &["load-file", "alone.lisp"],
        &["--system", "good", "snapshot"],
        &["evaluate", "(require :sb-cover)"],
        &["--system", "good", "rename", "good:target", "aim", "--apply"],
    ] {
        let (text, errors, code) = outcome(&run(&mut command(&folder, "umask 0"), arguments));
        assert_eq!(code, Some(0), "{arguments:?}: {text}{errors}");
    }
    let cache = folder.join("cache");
    assert_eq!(std::fs::metadata(&cache).unwrap().mode() & 0o777, 0o700);
    let found = modes(&cache);
    for part in
        ["good.fasl", ".record", ".tap", "/core", "/manifest", "/text/", "/files/", "/contrib-", "/undo/"]
    {
        assert!(found.iter().any(|(path, ..)| path.contains(part)), "no {part} in {found:#?}");
    }
    let wanted = |is_folder| if is_folder { 0o700 } else { 0o600 };
    let open: Vec<_> = found.iter().filter(|(_, mode, is_folder)| *mode != wanted(*is_folder)).collect();
    assert!(open.is_empty(), "{open:#?}");
}

#[test]
fn foreign_cache_is_refused_and_modes_are_restored() {
    let folder = Folder::new("cache-foreign");
    write_project(&folder.join("project"));
    let cache = folder.join("cache");
    std::fs::create_dir(&cache).unwrap();
    assert_eq!(
        run(&mut command(&folder, "chmod 777 \"$STEELBANK_CACHE\""), &["list-systems"]).status.code(),
        Some(0)
    );
    assert_eq!(std::fs::metadata(&cache).unwrap().mode() & 0o777, 0o700);
    // Only root can change the owner and still write to the folder.
    if chown(&cache, Some(12_345), None).is_err() {
        return;
    }
    let foreign = cache.as_path();
    for arguments in
        [&["describe-symbol", "car"][..], &["find-references", "target"], &["serve"], &["cache", "--clear"]]
    {
        let (text, errors, code) =
            outcome(&run(command(&folder, "").env("STEELBANK_CACHE", foreign), arguments));
        assert_eq!((text.as_str(), code), ("", Some(3)), "{arguments:?}: {errors}");
        expect_text("foreign cache", &errors);
    }
    assert_eq!(run(command(&folder, "").env("STEELBANK_CACHE", foreign), &["tools"]).status.code(), Some(0));
}

#[test]
fn undo_records_are_cleared_only_by_name() {
    let folder = Folder::new("cache-undo");
    let kept = [("projects/undo/p/1.edit-3", true), ("projects/taps/a-1.tap", false)];
    let clear = |what: &[&str]| {
        let arguments: Vec<&str> = ["cache", "--clear"].iter().chain(what).copied().collect();
        outcome(&run(&mut command(&folder, ""), &arguments))
    };
    for (path, _) in kept {
        let path = folder.join("cache").join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "text").unwrap();
    }
    expect_text("cleared", &clear(&[]).0);
    for (path, stays) in kept {
        assert_eq!(folder.join("cache").join(path).exists(), stays, "{path}");
    }
    expect_text("cleared undo", &clear(&["undo"]).0);
    assert!(!folder.join("cache").join(kept[0].0).exists());
}

/// Returns the folders of the snapshots in the cache of `folder`.
fn snapshots(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("cache/projects/snapshots")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.join("manifest").exists()).collect()
}

/// Writes the snapshots of the system good, and returns the folder of the full snapshot.
fn make_snapshot(folder: &Path) -> PathBuf {
    write_project(&folder.join("project"));
    let (text, errors, code) = outcome(&run(&mut command(folder, ""), &["--system", "good", "snapshot"]));
    assert_eq!(code, Some(0), "{text}{errors}");
    PathBuf::from(text.lines().last().unwrap())
}

/// Fills half of the core in `snapshot` with zeros and marks it as checked, as if a disk damaged it
/// after the check.
fn damage(snapshot: &Path) {
    let core = std::fs::File::options().write(true).open(snapshot.join("core")).unwrap();
    let size = core.metadata().unwrap().len();
    core.write_all_at(&vec![0; (size / 2) as usize], size / 4).unwrap();
    let mut state = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    for name in ["core", "index"] {
        let found = std::fs::metadata(snapshot.join(name)).unwrap();
        let (written, changed) = ((found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec()));
        state.push_str(&format!("{} {} {written:?} {changed:?}\n", found.dev(), found.ino()));
    }
    assert_eq!(
        state.lines().count(),
        std::fs::read_to_string(snapshot.join("checked")).unwrap().lines().count(),
        "the format has changed"
    );
    std::fs::write(snapshot.join("checked"), state).unwrap();
}

const WITH_GOOD: [&str; 4] = ["--system", "good", "describe-symbol", "good::target"];

#[test]
fn damaged_core_is_removed_and_base_core_answers() {
    let folder = Folder::new("cache-core");
    let snapshot = make_snapshot(&folder);
    damage(&snapshot);
    let (text, errors, code) = outcome(&run(&mut command(&folder, ""), &WITH_GOOD));
    assert!(code == Some(0) && text.starts_with("GOOD::TARGET"), "{code:?} {text}{errors}");
    assert!(!snapshot.exists());
}

#[test]
fn modified_core_is_checked_before_it_starts() {
    let folder = Folder::new("cache-touched");
    let snapshot = make_snapshot(&folder);
    let core = std::fs::File::options().read(true).write(true).open(snapshot.join("core")).unwrap();
    // Find a page with contents, far from both ends.
    let (mut at, mut page) = (core.metadata().unwrap().len() / 2 / 4096 * 4096, [0; 4096]);
    while page == [0; 4096] {
        at += 4096;
        core.read_exact_at(&mut page, at).unwrap();
    }
    core.write_all_at(&[0; 4096], at).unwrap();
    let (child, mut client) = server(&folder, &["--system", "good", "serve"]);
    settle(&mut client);
    let text = client.text("describe-symbol", json!({ "name": "good::target" }));
    assert!(text.contains("GOOD::TARGET"), "{text}");
    // The server did not start from the damaged snapshot, so it writes another snapshot.
    wait_until("the old snapshot remains", || !snapshot.exists());
    assert_eq!(client.status()["restarts"], Value::Null);
    drop(client);
    ends(child);
}

/// Starts a server on the project in `folder`, and connects a client.
fn server(folder: &Path, arguments: &[&str]) -> (Child, Client) {
    let mut command = command(folder, "");
    command.args(arguments).stderr(Stdio::null());
    initialized(command, Streams::Pipes)
}

/// Waits until the server has loaded the system good.
fn settle(client: &mut Client) {
    wait_until("good is not loaded", || {
        let answer = client.call("describe-symbol", json!({ "name": "good::target" }));
        assert_ne!(answer["isError"], true, "{answer}");
        answer["structuredContent"]["found"] == true
    });
}

#[test]
fn server_falls_back_to_the_base_core() {
    let folder = Folder::new("cache-server");
    let snapshot = make_snapshot(&folder);
    damage(&snapshot);
    let (child, mut client) = server(&folder, &["--system", "good", "serve"]);
    settle(&mut client);
    for _ in 0..3 {
        let text = client.text("describe-symbol", json!({ "name": "good::target" }));
        assert!(text.contains("GOOD::TARGET"), "{text}");
    }
    assert!(!snapshot.exists());
    drop(client);
    ends(child);
}

#[test]
fn library_reports_a_damaged_snapshot_as_typed_error() {
    own_process!();
    let folder = Folder::new("cache-library");
    write_project(&folder.join("project"));
    let project = ProjectSettings::in_folder(folder.join("project")).cache(folder.join("cache/projects"));
    let builder =
        Steelbank::builder().project(project).program(STEELBANK.into()).systems(vec!["good".into()]);
    let made = builder.clone().make_snapshot(|_| ()).unwrap();
    damage(&made.path);
    match builder.start() {
        Err(Error::Snapshot { path, .. }) => assert_eq!(path, made.path),
        other => panic!("{other:?}"),
    }
    assert!(!made.path.exists());
}

#[test]
fn server_survives_truncation_of_its_cache_files() {
    let folder = Folder::new("cache-cut");
    make_snapshot(&folder);
    let (child, mut client) = server(&folder, &["--system", "good", "serve"]);
    settle(&mut client);
    let parts = snapshots(&folder);
    assert!(!parts.is_empty());
    for part in parts {
        std::fs::File::options().write(true).open(part.join("index")).unwrap().set_len(0).unwrap();
    }
    for file in std::fs::read_dir(folder.join("cache/projects/taps")).unwrap().flatten() {
        std::fs::File::options().write(true).open(file.path()).unwrap().set_len(0).unwrap();
    }
    for entry in std::fs::read_dir(folder.join("cache/projects/text")).into_iter().flatten().flatten() {
        for file in std::fs::read_dir(entry.path()).unwrap().flatten() {
            std::fs::File::options().write(true).open(file.path()).unwrap().set_len(0).unwrap();
        }
    }
    for (tool, arguments, wanted) in [
        ("who-calls", json!({ "name": "cl:mapcar" }), "GOOD::TARGET"),
        ("find-definition", json!({ "name": "good::target" }), "good.lisp"),
    ] {
        let text = client.text(tool, arguments);
        assert!(text.contains(wanted), "{tool}: {text}");
    }
    // The text index was truncated, too: the answer may be an error.
    client.call("find_references", json!({ "pattern": "target" }));
    assert!(client.text("describe-symbol", json!({ "name": "car" })).contains("COMMON-LISP::CAR"));
    ends_well(child, client);
}

#[test]
fn sidecar_of_another_file_is_rebuilt() {
    let folder = Folder::new("cache-sidecars");
    let root = folder.join("project");
    std::fs::create_dir_all(&root).unwrap();
    crate::texts::write_project(&root, include_str!("../projects/cache_sidecars.txt"));
    let load = || -> usize {
        let output = run(command(&folder, "").args(["--no-snapshot"]), &["load-system", "two", "--json"]);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        answer["compiled_count"].as_u64().unwrap() as usize
    };
    assert_eq!([load(), load()], [2, 0]);
    let taps: Vec<PathBuf> = modes(&folder.join("cache"))
        .into_iter()
        .map(|(path, ..)| PathBuf::from(path))
        .filter(|path| path.extension().is_some_and(|extension| extension == "tap"))
        // The sidecar of two.asd belongs to no fasl.
        .filter(|path| !String::from_utf8_lossy(&std::fs::read(path).unwrap()).contains("two.asd"))
        .collect();
    let [one, other] = taps.as_slice() else { panic!("{taps:?}") };
    let texts = [std::fs::read(one).unwrap(), std::fs::read(other).unwrap()];
    std::fs::write(one, &texts[1]).unwrap();
    std::fs::write(other, &texts[0]).unwrap();
    assert_eq!(load(), 2, "a file with another file's sidecar must be compiled again");
    assert_eq!([std::fs::read(one).unwrap(), std::fs::read(other).unwrap()], texts);
    assert_eq!(load(), 0);
}

/// Returns whether the process `number` is running.
fn runs(number: i64) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    text.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Returns the parent of the process `number`, if it is running.
fn parent(number: i64) -> Option<i64> {
    let text = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Lists the worker processes that use the cache in `folder`.
fn copies(folder: &Path) -> Vec<i64> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i64>().ok());
    let cache = format!("STEELBANK_CACHE={}", folder.join("cache").display());
    let is_copy = |number: &i64| {
        let read = |name: &str| std::fs::read(format!("/proc/{number}/{name}")).unwrap_or_default();
        let has =
            |bytes: &[u8], text: &str| bytes.split(|byte| *byte == 0).any(|word| word == text.as_bytes());
        has(&read("cmdline"), "helper") && has(&read("environ"), &cache) && runs(*number)
    };
    numbers.filter(is_copy).collect()
}

pub(crate) fn signal(number: i64, signal: i32) {
    // SAFETY: the call sends a signal to a process that this test started.
    unsafe { libc::kill(i32::try_from(number).unwrap(), signal) };
}

#[test]
fn programs_started_by_lisp_end_with_the_server() {
    let folder = Folder::new("cache-children");
    write_project(&folder.join("project"));
    for how in [None, Some(libc::SIGTERM), Some(libc::SIGHUP), Some(libc::SIGINT), Some(libc::SIGKILL)] {
        let (child, mut client) = server(&folder, &["--no-snapshot", "serve", "--allow-eval"]);
        let mut start = |program: &str| -> i64 {
            let code = format!(
                "(sb-ext:process-pid (sb-ext:run-program \"/bin/sh\" '(\"-c\" \"{program}\") :wait nil))"
            );
            client.structured("evaluate", json!({ "code": code }))["values"][0]["text"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap()
        };
        // One program has a child, the other ignores signals.
        let started = [start("sleep 600; true"), start("trap '' TERM HUP INT; while :; do sleep 1; done")];
        let theirs = |parent: i64| {
            let text =
                std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
            text.split_whitespace().next().and_then(|number| number.parse::<i64>().ok())
        };
        wait_until("it starts no child", || theirs(started[0]).is_some());
        let mut all = vec![started[0], started[1], theirs(started[0]).unwrap()];
        // A program outlives the Lisp thread that started it.
        let thread = "(sb-thread:join-thread (sb-thread:make-thread (lambda () (sb-ext:process-pid
            (sb-ext:run-program \"sleep\" '(\"600\") :search t :wait nil)))))";
        let answer = client.call("evaluate", json!({ "code": thread }));
        all.push(answer["structuredContent"]["values"][0]["text"].as_str().unwrap().parse().unwrap());
        let status = "(sb-ext:process-exit-code (sb-ext:run-program \"sh\" '(\"-c\" \"exit 7\") :search t))";
        let answer = client.call("evaluate", json!({ "code": status }));
        assert_eq!(answer["structuredContent"]["values"][0]["text"], "7", "{answer}");
        let none = "(handler-case (sb-ext:run-program \"/none/such\" '()) (error () :none))";
        let answer = client.call("evaluate", json!({ "code": none }));
        assert_eq!(answer["structuredContent"]["values"][0]["text"], ":NONE", "{answer}");
        assert!(all.iter().all(|number| runs(*number)));
        if how == Some(libc::SIGKILL) {
            // The kernel ends the programs that Lisp started, but not the children of these
            // programs.
            signal(all.remove(2), libc::SIGKILL);
        }
        match how {
            None => drop(client),
            Some(number) => signal(child.id().into(), number),
        }
        ends(child);
        wait_until(&format!("{how:?}: {all:?} still run"), || !all.iter().any(|number| runs(*number)));
    }
}

/// Writes a project that takes long to load in a worker process.
fn write_slow_project(root: &Path) {
    write_project(root);
    let slow = "(with-open-file (line \"/proc/self/cmdline\") (when (search \"helper\" (read-line line nil \"\")) (sleep 500)))";
    std::fs::write(root.join("good.lisp"), format!("{SOURCE}{slow}\n")).unwrap();
}

#[test]
fn snapshot_writer_of_a_server_ends_with_it() {
    let folder = Folder::new("cache-maker");
    write_slow_project(&folder.join("project"));
    for how in [None, Some(libc::SIGKILL)] {
        let (child, mut client) = server(&folder, &["--system", "good", "serve"]);
        settle(&mut client);
        wait_until("no snapshot writer runs", || copies(&folder).len() == 2);
        match how {
            None => drop(client),
            Some(number) => signal(child.id().into(), number),
        }
        ends(child);
        wait_until("the snapshot writer still runs", || copies(&folder).is_empty());
    }
}

#[test]
fn snapshot_writer_outlives_its_command_and_others_wait() {
    let folder = Folder::new("cache-command");
    write_slow_project(&folder.join("project"));
    write_slow_project(&folder.join("other"));
    assert_eq!(run(&mut command(&folder, ""), &WITH_GOOD).status.code(), Some(0));
    wait_until("no snapshot writer runs", || copies(&folder).len() == 2);
    let first = copies(&folder);
    let other = folder.join("other");
    let (_, errors, code) = ask(&other, &folder.join("cache"), &WITH_GOOD);
    assert_eq!(code, Some(0), "{errors}");
    wait_until("the other project's snapshot writer does not run", || copies(&folder).len() == 3);
    let third = copies(&folder).into_iter().find(|number| !first.contains(number)).unwrap();
    // The child of a snapshot writer ends with the writer.
    let has_parent =
        |number: &&i64, parents: &[i64]| parent(**number).is_some_and(|own| parents.contains(&own));
    let maker = first.iter().find(|number| !has_parent(number, &first)).unwrap();
    signal(*maker, libc::SIGKILL);
    wait_until("the waiting snapshot writer does not continue", || {
        let now = copies(&folder);
        now.len() == 2 && now.iter().any(|number| has_parent(&number, &[third]))
    });
    signal(third, libc::SIGKILL);
    wait_until("snapshot writers still run", || copies(&folder).is_empty());
}

/// A description of an odd replacement for a cache file, and a function that replaces the file. The
/// function gets the path and the contents of the file.
type Oddity = (&'static str, fn(&Path, &[u8]));

const ODDITIES: [Oddity; 5] = [
    ("a FIFO", |path, _| {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
    }),
    ("a folder", |path, _| std::fs::create_dir_all(path.join("deep")).unwrap()),
    ("a link to /dev/zero", |path, _| std::os::unix::fs::symlink("/dev/zero", path).unwrap()),
    ("an empty file", |path, _| std::fs::write(path, "").unwrap()),
    ("half of it", |path, whole| std::fs::write(path, &whole[..whole.len() / 2]).unwrap()),
];

/// The index of "a folder".
const A_FOLDER: usize = 1;

/// Runs the command, and returns its output and exit code, or `None` if it hangs.
fn run_in_time(command: &mut Command) -> Option<(String, Option<i32>)> {
    let file = || tempfile::tempfile().unwrap();
    let (mut output, mut text) = (file(), String::new());
    let both = || Stdio::from(output.try_clone().unwrap());
    let mut child = command.stdin(Stdio::null()).stdout(both()).stderr(both()).spawn().unwrap();
    let patience = Instant::now() + Duration::from_secs(180);
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() > patience => {
                child.kill().unwrap();
                child.wait().unwrap();
                return None;
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    output.seek(SeekFrom::Start(0)).unwrap();
    output.read_to_string(&mut text).unwrap();
    Some((text, status.code()))
}

#[test]
fn commands_answer_and_replace_odd_cache_files() {
    let folder = Folder::new("cache-oddities");
    let (root, cache, kept) = (folder.join("project"), folder.join("cache"), folder.join("kept"));
    write_project(&root);
    std::fs::write(root.join("alone.lisp"), "(require :sb-cover)\n(defun cl-user::alone () 1)\n").unwrap();
    // Together, these commands read and write every file of the cache. The last command undoes the
    // rename before it.
    let commands: [(&[&str], &str); 7] = [
        (&["--system", "good", "describe-symbol", "good::target"], "GOOD::TARGET"),
        (&["--system", "good", "snapshot"], "snapshots/"),
        (&["--no-snapshot", "--system", "good", "who-calls", "cl:mapcar", "--json"], "good::target"),
        (&["--no-snapshot", "load-file", "alone.lisp"], "alone.lisp"),
        (&["find-references", "target"], "good.lisp:3"),
        (&["--system", "good", "rename", "good::target", "aim", "--apply"], "+(defun aim"),
        (&["rename", "--undo", "last"], "good.lisp"),
    ];
    let ask = |place: &str, waits: bool| -> Vec<String> {
        let mut wrong = Vec::new();
        for (arguments, wanted) in &commands {
            match run_in_time(command(&folder, "").args(*arguments)) {
                Some((text, Some(0))) if text.contains(wanted) => {}
                other => wrong.push(format!("{place}: {arguments:?}: {other:?}")),
            }
            // A snapshot writer outlives its command, and would write into the next round.
            if waits {
                wait_until("a snapshot writer still runs", || copies(&folder).is_empty());
            }
            copies(&folder).iter().for_each(|number| signal(*number, libc::SIGKILL));
        }
        wrong
    };
    assert_eq!(ask("the whole cache", false), [""; 0]);
    let restore = |from: &Path, to: &Path| {
        wait_until("a snapshot writer still runs", || copies(&folder).is_empty());
        let _ = std::fs::remove_dir_all(to);
        assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
    };
    restore(&cache, &kept);
    let files: Vec<String> = modes(&kept)
        .into_iter()
        .filter(|(_, _, is_folder)| !is_folder)
        .map(|(path, ..)| path[kept.display().to_string().len() + 1..].to_owned())
        // All contrib fasls are read in the same way, so it is enough to test one loaded contrib.
        .filter(|path| !path.contains("contrib-") || path.ends_with("sb-cover.fasl"))
        .collect();
    for part in [".fasl", ".record", ".tap", "/core", "/manifest", "/text/", "/files/", "contrib-", "/lock"] {
        assert!(files.iter().any(|path| path.contains(part)), "no {part} in {files:#?}");
    }
    let mut wrong = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let whole = std::fs::read(kept.join(file)).unwrap();
        // Sidecars of earlier versions are deleted instead of replaced, so always try a folder.
        let few = if file.ends_with(".tap") { vec![A_FOLDER] } else { vec![number % 5] };
        let some = small_or_full(few, (0..5).collect());
        for (what, put) in some.into_iter().map(|oddity| ODDITIES[oddity]) {
            restore(&kept, &cache);
            let path = cache.join(file);
            std::fs::remove_file(&path).unwrap();
            put(&path, &whole);
            let place = format!("{what} in place of {file}");
            wrong.extend(ask(&place, false));
            // The path must be a plain file again, or be removed.
            let is_replaced = || match std::fs::symlink_metadata(&path) {
                Err(_) => true,
                Ok(now) => {
                    now.is_file()
                        && (whole.is_empty() || std::fs::read(&path).unwrap().len() * 2 >= whole.len())
                }
            };
            // Retry: the process that would write the file may have been killed.
            let mut more = 0..10;
            while !is_replaced() && more.next().is_some() {
                wrong.extend(ask(&place, true));
            }
            if !is_replaced() {
                wrong.push(format!("{place} stays"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn odd_edit_records_are_reported() {
    let folder = Folder::new("cache-records");
    let root = folder.join("project");
    write_project(&root);
    let ask = |arguments: &[&str]| run_in_time(command(&folder, "").args(arguments)).expect("it hangs");
    let rename = ["--system", "good", "rename", "good::target", "aim", "--apply"];
    assert_eq!(ask(&rename).1, Some(0));
    let records = folder.join("cache/projects/undo");
    let record = modes(&records).into_iter().find(|(path, ..)| path.ends_with("1.edit-3")).unwrap().0;
    let journal = Path::new(&record).with_extension("journal-3");
    let whole = std::fs::read(&record).unwrap();
    for (what, put) in ODDITIES {
        std::fs::remove_file(&record).unwrap();
        put(Path::new(&record), &whole);
        let (text, code) = ask(&["rename", "--undo", "1"]);
        expect_text(&format!("undo record is {what}"), &format!("{text}exit {code:?}"));
        // The commands must also survive an odd journal of an interrupted edit.
        std::fs::rename(&record, &journal).unwrap();
        write_project(&root);
        let (text, code) = ask(&rename);
        assert!(code == Some(0) || text.contains("journal-3"), "{what}: {code:?} {text}");
        let _ = std::fs::remove_dir_all(&journal).or_else(|_| std::fs::remove_file(&journal));
        write_project(&root);
        assert_eq!(ask(&rename).1, Some(0), "{what}");
        std::fs::write(&record, &whole).unwrap();
    }
}

#[test]
fn snapshot_writer_stops_after_five_minutes() {
    if small_or_full(true, false) {
        return;
    }
    let folder = Folder::new("cache-minutes");
    write_slow_project(&folder.join("project"));
    assert_eq!(run(&mut command(&folder, ""), &WITH_GOOD).status.code(), Some(0));
    wait_until("no snapshot writer runs", || copies(&folder).len() == 2);
    let begun = Instant::now();
    while !copies(&folder).is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(330), "{:?} still run", copies(&folder));
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!(begun.elapsed() > Duration::from_secs(200), "{:?}", begun.elapsed());
}

/// Edits, evaluates, reloads and restarts in random sequences. After each step, a new process with
/// the kept cache must answer as one with an empty cache.
#[test]
fn fasls_fit_the_text_and_not_the_image() {
    const SEQUENCES: usize = 6;
    const MACRO: &str = "(defmacro seq::twice (x) `(list ,x ,x))";
    let texts = |number: usize| {
        let unbalanced = format!("{MACRO} (");
        let before = [MACRO, "(defun seq::twice (x) (* 2 x))", "", &unbalanced][number % 4];
        let after = [MACRO, ""][number / 4 % 2];
        let feature = "#+seq-feature (defun seq::helper (x) (- x)) #-seq-feature (defun seq::helper (x) x)";
        let first = format!("(defpackage seq (:use :cl))\n{before}\n{feature}\n");
        (first, format!("(defun seq::user (x) (seq::twice (seq::helper x)))\n{after}\n"))
    };
    let mut random = 20_261_128_usize;
    let mut choose = |most: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % most
    };
    for sequence in 0..crate::child::small_or_full(SEQUENCES, 40) {
        let folder = Folder::new("cache-sequence");
        let (root, cache) = (folder.join("project"), folder.join("cache"));
        std::fs::create_dir(&root).unwrap();
        let asd = "(defsystem \"seq\" :serial t :components ((:file \"first\") (:file \"second\")))";
        std::fs::write(root.join("seq.asd"), asd).unwrap();
        let write = |number| {
            let (first, second) = texts(number);
            std::fs::write(root.join("first.lisp"), first).unwrap();
            std::fs::write(root.join("second.lisp"), second).unwrap();
        };
        write(choose(8));
        let (child, mut client) =
            server(&folder, &["--no-snapshot", "--system", "seq", "serve", "--allow-eval"]);
        let mut steps = Vec::new();
        for _ in 0..4 {
            let (tool, arguments) = match choose(5) {
                0 => {
                    let code =
                        [MACRO, "(push :seq-feature *features*)", "(fmakunbound 'seq::twice)"][choose(3)];
                    ("evaluate", json!({ "code": code, "package": "CL-USER" }))
                }
                1 => ("check", json!({})),
                2 => ("restart-lisp", json!({})),
                _ => {
                    let number = choose(8);
                    write(number);
                    steps.push(format!("edit {number}"));
                    ("reload", json!({ "remove": choose(2) == 0 }))
                }
            };
            steps.push(format!("{tool} {arguments}"));
            client.call(tool, arguments);
            wait_until("it still loads", || client.status()["loading"] != true);
            let new = |cache: &Path| {
                let run = |arguments: &[&str]| {
                    let arguments = [&["--no-snapshot", "--system", "seq"], arguments].concat();
                    let (text, errors, code) = ask(&root, cache, &arguments);
                    crate::texts::in_general(&format!("{text}\n{errors}\n{code:?}"), &[])
                };
                [run(&["who-calls", "seq::helper"]), run(&["evaluate", "(seq::user 5)"])]
            };
            let empty = folder.join("empty");
            assert_eq!(new(&cache), new(&empty), "sequence {sequence}: {steps:?}");
            std::fs::remove_dir_all(&empty).unwrap();
        }
        drop(client);
        ends(child);
    }
}
