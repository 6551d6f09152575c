//! The cache: whom it lets in, and what becomes of damage to it.

use std::os::unix::fs::{FileExt, MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use steelbank::{Error, ProjectSettings, Steelbank};

use crate::child::in_own_process;
use crate::client::Client;
use crate::program::{Folder, STEELBANK, Streams, ends, said, serve};

const SOURCE: &str =
    "(defpackage :good (:use :cl))\n(in-package :good)\n(defun target (x) (mapcar #'car x))\n";

/// Writes a project with the system good.
fn write_project(root: &Path) {
    std::fs::create_dir_all(root).unwrap();
    std::fs::write(root.join("good.asd"), "(defsystem \"good\" :components ((:file \"good\")))").unwrap();
    std::fs::write(root.join("good.lisp"), SOURCE).unwrap();
}

/// Makes the command `steelbank` on the project in `folder`, with the cache there, behind `shell`'s commands.
fn command(folder: &Path, shell: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{shell}\nexec \"$0\" \"$@\""), STEELBANK, "--no-userinit", "--project"]);
    command.arg(folder.join("project")).env("STEELBANK_CACHE", folder.join("cache"));
    command
}

fn run(command: &mut Command, arguments: &[&str]) -> Output {
    command.args(arguments).output().unwrap()
}

/// Lists what is below `folder`, each with its mode, and whether it is a folder.
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
fn what_is_cached_is_its_users_alone_whatever_the_umask() {
    let folder = Folder::new("cache-modes");
    write_project(&folder.0.join("project"));
    std::fs::write(folder.0.join("project/alone.lisp"), "(defun cl-user::alone () 1)\n").unwrap();
    for arguments in [
        &["--no-snapshot", "--system", "good", "find-references", "target"][..],
        &["load-file", "alone.lisp"],
        &["--system", "good", "snapshot"],
        &["evaluate", "(require :sb-cover)"],
        &["--system", "good", "rename", "good:target", "aim", "--apply"],
    ] {
        let (text, errors, code) = said(&run(&mut command(&folder.0, "umask 0"), arguments));
        assert_eq!(code, Some(0), "{arguments:?}: {text}{errors}");
    }
    let cache = folder.0.join("cache");
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
fn another_users_cache_is_refused_and_an_open_one_is_closed() {
    let folder = Folder::new("cache-foreign");
    write_project(&folder.0.join("project"));
    let cache = folder.0.join("cache");
    std::fs::create_dir(&cache).unwrap();
    assert_eq!(
        run(&mut command(&folder.0, "chmod 777 \"$STEELBANK_CACHE\""), &["list-systems"]).status.code(),
        Some(0)
    );
    assert_eq!(std::fs::metadata(&cache).unwrap().mode() & 0o777, 0o700);
    // Only root can give a folder away, and still write to it.
    if chown(&cache, Some(12_345), None).is_err() {
        return;
    }
    let foreign = cache.as_path();
    for arguments in
        [&["describe-symbol", "car"][..], &["find-references", "target"], &["serve"], &["cache", "--clear"]]
    {
        let (text, errors, code) =
            said(&run(command(&folder.0, "").env("STEELBANK_CACHE", foreign), arguments));
        assert_eq!((text.as_str(), code), ("", Some(3)), "{arguments:?}: {errors}");
        assert!(
            errors.contains(&format!("The cache folder {} belongs to user", foreign.display())),
            "{errors}"
        );
    }
    assert_eq!(
        run(command(&folder.0, "").env("STEELBANK_CACHE", foreign), &["tools"]).status.code(),
        Some(0)
    );
}

/// Returns the folders of the snapshots in the cache of `folder`.
fn snapshots(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder.join("cache/projects/snapshots")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.join("manifest").exists()).collect()
}

/// Makes the snapshot of the system good, and returns the folder of the whole one.
fn make_snapshot(folder: &Path) -> PathBuf {
    write_project(&folder.join("project"));
    let (text, errors, code) = said(&run(&mut command(folder, ""), &["--system", "good", "snapshot"]));
    assert_eq!(code, Some(0), "{text}{errors}");
    PathBuf::from(text.lines().last().unwrap())
}

/// Fills most of the core in `snapshot` with zeros, and has it count as compared: what a disk does to it after that.
fn damage(snapshot: &Path) {
    let core = std::fs::File::options().write(true).open(snapshot.join("core")).unwrap();
    let size = core.metadata().unwrap().len();
    core.write_all_at(&vec![0; (size / 2) as usize], size / 4).unwrap();
    let mut state = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    for name in ["core", "index", "names"] {
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
fn a_core_that_does_not_start_is_removed_and_the_command_answers_from_the_base_core() {
    let folder = Folder::new("cache-core");
    let snapshot = make_snapshot(&folder.0);
    damage(&snapshot);
    let (text, errors, code) = said(&run(&mut command(&folder.0, ""), &WITH_GOOD));
    assert!(code == Some(0) && text.starts_with("GOOD::TARGET [FUNCTION]"), "{code:?} {text}{errors}");
    assert!(!snapshot.exists());
}

#[test]
fn a_touched_core_is_compared_whole_before_it_is_started_from() {
    let folder = Folder::new("cache-touched");
    let snapshot = make_snapshot(&folder.0);
    let core = std::fs::File::options().read(true).write(true).open(snapshot.join("core")).unwrap();
    // A page with contents, far from the ends.
    let (mut at, mut page) = (core.metadata().unwrap().len() / 2 / 4096 * 4096, [0; 4096]);
    while page == [0; 4096] {
        at += 4096;
        core.read_exact_at(&mut page, at).unwrap();
    }
    core.write_all_at(&[0; 4096], at).unwrap();
    let (child, mut client) = server(&folder.0, &["--system", "good", "serve"]);
    settle(&mut client);
    let text = client.text("describe-symbol", json!({ "name": "good::target" }));
    assert!(text.contains("GOOD::TARGET [FUNCTION]"), "{text}");
    // It was not started from: another one is made.
    wait_until("no other is made", || !snapshot.exists());
    assert_eq!(client.call("status", json!({}))["structuredContent"]["restarts"], Value::Null);
    drop(client);
    ends(child);
}

/// Starts a server on the project in `folder`, and connects a client.
fn server(folder: &Path, arguments: &[&str]) -> (Child, Client) {
    let mut command = command(folder, "");
    command.args(arguments).stderr(Stdio::null());
    let (child, mut client) = serve(command, Streams::Pipes);
    client.initialize();
    (child, client)
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
fn a_server_goes_on_from_the_base_core_where_its_snapshot_does_not_start() {
    let folder = Folder::new("cache-server");
    let snapshot = make_snapshot(&folder.0);
    damage(&snapshot);
    let (child, mut client) = server(&folder.0, &["--system", "good", "serve"]);
    settle(&mut client);
    for _ in 0..3 {
        let text = client.text("describe-symbol", json!({ "name": "good::target" }));
        assert!(text.contains("GOOD::TARGET [FUNCTION]"), "{text}");
    }
    assert!(!snapshot.exists());
    drop(client);
    ends(child);
}

#[test]
fn a_library_user_gets_a_typed_error_where_a_snapshot_does_not_start() {
    in_own_process("cache::a_library_user_gets_a_typed_error_where_a_snapshot_does_not_start", || {
        let folder = Folder::new("cache-library");
        write_project(&folder.0.join("project"));
        let project =
            ProjectSettings::in_folder(folder.0.join("project")).cache(folder.0.join("cache/projects"));
        let builder =
            Steelbank::builder().project(project).program(STEELBANK.into()).systems(vec!["good".into()]);
        let made = builder.clone().make_snapshot(|_| ()).unwrap();
        damage(&made.path);
        match builder.start() {
            Err(Error::Snapshot { path, .. }) => assert_eq!(path, made.path),
            other => panic!("{other:?}"),
        }
        assert!(!made.path.exists());
    });
}

#[test]
fn cutting_the_files_that_a_server_started_from_does_not_end_it() {
    let folder = Folder::new("cache-cut");
    make_snapshot(&folder.0);
    let (child, mut client) = server(&folder.0, &["--system", "good", "serve"]);
    settle(&mut client);
    let parts = snapshots(&folder.0);
    assert!(!parts.is_empty());
    for part in parts {
        for name in ["index", "names"] {
            std::fs::File::options().write(true).open(part.join(name)).unwrap().set_len(0).unwrap();
        }
    }
    for entry in std::fs::read_dir(folder.0.join("cache/text")).into_iter().flatten().flatten() {
        for file in std::fs::read_dir(entry.path()).unwrap().flatten() {
            std::fs::File::options().write(true).open(file.path()).unwrap().set_len(0).unwrap();
        }
    }
    for (tool, arguments, wanted) in [
        ("who-calls", json!({ "name": "cl:mapcar" }), "Functions that call COMMON-LISP::MAPCAR"),
        ("find-definition", json!({ "name": "good::target" }), "good.lisp"),
    ] {
        let text = client.text(tool, arguments);
        assert!(text.contains(wanted), "{tool}: {text}");
    }
    // An answer, or an error of its own: the index of the text was cut, too.
    client.call("find_references", json!({ "pattern": "target" }));
    assert!(client.text("describe-symbol", json!({ "name": "car" })).contains("COMMON-LISP::CAR"));
    drop(client);
    assert_eq!(ends(child).code(), Some(0));
}

#[test]
fn a_sidecar_of_another_file_is_made_again() {
    let folder = Folder::new("cache-sidecars");
    let root = folder.0.join("project");
    std::fs::create_dir_all(&root).unwrap();
    std::fs::write(
        root.join("two.asd"),
        "(defsystem \"two\" :components ((:file \"one\") (:file \"other\")))",
    )
    .unwrap();
    std::fs::write(root.join("one.lisp"), "(defun cl-user::one () 1)\n").unwrap();
    std::fs::write(root.join("other.lisp"), "\n\n\n(defun cl-user::other () (cl-user::one))\n").unwrap();
    let load = || -> usize {
        let output = run(command(&folder.0, "").args(["--no-snapshot"]), &["load-system", "two", "--json"]);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        answer["compiled_count"].as_u64().unwrap() as usize
    };
    assert_eq!([load(), load()], [2, 0]);
    let taps: Vec<PathBuf> = modes(&folder.0.join("cache"))
        .into_iter()
        .map(|(path, ..)| PathBuf::from(path))
        .filter(|path| path.extension().is_some_and(|extension| extension == "tap"))
        // That of two.asd is no fasl's.
        .filter(|path| !String::from_utf8_lossy(&std::fs::read(path).unwrap()).contains("two.asd"))
        .collect();
    let [one, other] = taps.as_slice() else { panic!("{taps:?}") };
    let texts = [std::fs::read(one).unwrap(), std::fs::read(other).unwrap()];
    std::fs::write(one, &texts[1]).unwrap();
    std::fs::write(other, &texts[0]).unwrap();
    assert_eq!(load(), 2, "the other file's sidecars count");
    assert_eq!([std::fs::read(one).unwrap(), std::fs::read(other).unwrap()], texts);
    assert_eq!(load(), 0);
}

/// Whether the process `number` runs.
fn runs(number: i64) -> bool {
    let text = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
    text.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with('Z'))
}

/// Lists the copies of the program that work with the cache in `folder`.
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

/// Waits until `done`. Fails rather than hang.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(300);
    while !done() {
        assert!(Instant::now() < patience, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn signal(number: i64, signal: i32) {
    // SAFETY: the call sends a signal to a process of this test's.
    unsafe { libc::kill(i32::try_from(number).unwrap(), signal) };
}

#[test]
fn what_run_program_has_started_ends_with_the_server() {
    let folder = Folder::new("cache-children");
    write_project(&folder.0.join("project"));
    for how in [None, Some(libc::SIGTERM), Some(libc::SIGHUP), Some(libc::SIGINT)] {
        let (child, mut client) = server(&folder.0, &["--no-snapshot", "serve", "--allow-eval"]);
        let mut start = |program: &str| -> i64 {
            let code = format!(
                "(sb-ext:process-pid (sb-ext:run-program \"/bin/sh\" '(\"-c\" \"{program}\") :wait nil))"
            );
            client.call("evaluate", json!({ "code": code }))["structuredContent"]["values"][0]["text"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap()
        };
        // One that has a child, one that does not listen.
        let started = [start("sleep 600; true"), start("trap '' TERM HUP INT; while :; do sleep 1; done")];
        let theirs = |parent: i64| {
            let text =
                std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).unwrap_or_default();
            text.split_whitespace().next().and_then(|number| number.parse::<i64>().ok())
        };
        wait_until("it starts no child", || theirs(started[0]).is_some());
        let all = [started[0], started[1], theirs(started[0]).unwrap()];
        assert!(all.iter().all(|number| runs(*number)));
        match how {
            None => drop(client),
            Some(number) => signal(child.id().into(), number),
        }
        ends(child);
        wait_until(&format!("{how:?}: {all:?} live on"), || !all.iter().any(|number| runs(*number)));
    }
}

/// Writes a project whose load takes long in a copy of the program.
fn write_slow_project(root: &Path) {
    write_project(root);
    let slow = "(with-open-file (line \"/proc/self/cmdline\") (when (search \"helper\" (read-line line nil \"\")) (sleep 500)))";
    std::fs::write(root.join("good.lisp"), format!("{SOURCE}{slow}\n")).unwrap();
}

#[test]
fn the_maker_of_a_servers_snapshot_ends_with_the_server() {
    let folder = Folder::new("cache-maker");
    write_slow_project(&folder.0.join("project"));
    for how in [None, Some(libc::SIGKILL)] {
        let (child, mut client) = server(&folder.0, &["--system", "good", "serve"]);
        settle(&mut client);
        wait_until("no snapshot is made", || copies(&folder.0).len() == 2);
        match how {
            None => drop(client),
            Some(number) => signal(child.id().into(), number),
        }
        ends(child);
        wait_until("the maker goes on", || copies(&folder.0).is_empty());
    }
}

#[test]
fn the_maker_of_a_commands_snapshot_goes_on_and_is_the_only_one() {
    let folder = Folder::new("cache-command");
    write_slow_project(&folder.0.join("project"));
    write_slow_project(&folder.0.join("other"));
    assert_eq!(run(&mut command(&folder.0, ""), &WITH_GOOD).status.code(), Some(0));
    wait_until("no snapshot is made", || copies(&folder.0).len() == 2);
    let first = copies(&folder.0);
    let other = folder.0.join("other");
    let mut second = Command::new(STEELBANK);
    second.args(["--no-userinit", "--project"]).arg(other).env("STEELBANK_CACHE", folder.0.join("cache"));
    let output = run(&mut second, &WITH_GOOD);
    let (_, errors, code) = said(&output);
    assert_eq!(code, Some(0), "{errors}");
    wait_until("another is made", || copies(&folder.0) == first);
    first.iter().for_each(|number| signal(*number, libc::SIGKILL));
    wait_until("the makers go on", || copies(&folder.0).is_empty());
}
