//! Tests of low resource limits, and of an unknown user, home or project. The program answers, or
//! names the missing resource.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output, Stdio};

use crate::child::wait_while;
use crate::program::{Folder, STEELBANK, outcome, run, shown};
use crate::texts::expect_text;

/// A user id that is not in use.
const NOBODY: u32 = 12_347;

/// Runs the program with `input` in a shell, after the shell code `limits`. With `user`, runs it as
/// that user, without HOME and a configured cache.
fn under(limits: &str, arguments: &str, folder: &Folder, user: Option<u32>, input: Stdio) -> Output {
    use std::os::unix::process::CommandExt;
    let path = if user.is_some() { copied(folder) } else { STEELBANK.to_owned() };
    let mut command = Command::new("bash");
    command.args(["-c", &format!("{limits}\nexec '{path}' {arguments}")]);
    command.current_dir(folder).env("STEELBANK_CACHE", folder.join("cache")).stdin(input);
    command.env("RUST_BACKTRACE", "0");
    if let Some(user) = user {
        command.env_remove("STEELBANK_CACHE").env_remove("HOME").env_remove("XDG_CACHE_HOME");
        command.uid(user).gid(user);
    }
    command.output().unwrap()
}

/// Copies the program to a path where all users can run it.
fn copied(folder: &Folder) -> String {
    let path = folder.join("steelbank");
    if !path.exists() {
        fs::copy(STEELBANK, &path).unwrap();
        for path in [&folder.0, &path] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }
    path.display().to_string()
}

/// Returns whether the program answered. If not, it must exit with 3 and an error of steelbank.
fn has_answered(what: &str, output: &Output) -> bool {
    let (text, errors, code) = outcome(output);
    assert_eq!(output.status.signal(), None, "{what}: {errors}");
    assert!(!errors.contains("panicked") && !errors.contains("Unhandled"), "{what}: {errors}");
    match code {
        Some(0) => assert!(text.contains("COMMON-LISP::CAR"), "{what}: {text} {errors}"),
        Some(3) => assert!(errors.contains("steelbank: "), "{what}: {text} {errors}"),
        _ => panic!("{what}: {code:?} {text} {errors}"),
    }
    code == Some(0)
}

#[test]
fn low_limits_give_answers_or_errors() {
    let folder = Folder::new("limits");
    let run = |limits: &str| {
        let output = under(limits, "describe-symbol car", &folder, None, Stdio::null());
        (has_answered(limits, &output), outcome(&output).1)
    };
    for megabytes in [200, 256, 512, 1000, 1500, 2000, 2500] {
        let (answered, errors) = run(&format!("ulimit -v {}", megabytes * 1000));
        let has_remedy = errors.contains("--dynamic-space-size") || errors.contains("ulimit");
        assert!(!answered && has_remedy, "{errors}");
    }
    for descriptors in [4, 5, 6, 8, 12] {
        let (answered, errors) = run(&format!("ulimit -n {descriptors}"));
        assert!(answered || errors.contains("files"), "{errors}");
        assert!(!errors.contains("bootstrap"), "{errors}");
    }
    for blocks in [0, 1, 100] {
        let (answered, errors) = run(&format!("ulimit -f {blocks}"));
        assert!(answered || errors.contains("ulimit"), "{errors}");
        assert!(!errors.contains("memfd_create"), "{errors}");
    }
    for other in ["ulimit -s 256", "ulimit -l 0", "ulimit -d 100000", "ulimit -t 60"] {
        run(other);
    }
}

/// Limits the user's threads. The superuser has no such limit, so the program runs as another user.
#[test]
fn too_few_threads_give_answers_or_errors() {
    let folder = Folder::new("threads");
    // SAFETY: the call only returns a number.
    let user = (unsafe { libc::geteuid() } == 0).then_some(NOBODY);
    if user.is_none() {
        // The limit includes the user's other processes, so only a limit of one is certainly too
        // low.
        let output = under("ulimit -u 1", "describe-symbol car", &folder, None, Stdio::null());
        assert!(!has_answered("ulimit -u 1", &output));
        return;
    }
    let requests = folder.join("requests");
    let text = [
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"describe-symbol","arguments":{"name":"car"}}}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"who-calls","arguments":{"name":"cl:mapcar"}}}"#,
        r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"load-system","arguments":{"system":"uiop","timeout_seconds":5}}}"#,
    ];
    fs::write(&requests, text.join("\n")).unwrap();
    for threads in 0..16 {
        let limits = format!("ulimit -u {threads}");
        let output = under(&limits, "describe-symbol car", &folder, user, Stdio::null());
        let answered = has_answered(&limits, &output);
        assert!(answered || outcome(&output).1.contains("ulimit"), "{limits}: {}", outcome(&output).1);
        assert!(answered || threads < 12, "{limits}: {}", outcome(&output).1);
        let input = Stdio::from(fs::File::open(&requests).unwrap());
        let output = under(&limits, "serve", &folder, user, input);
        let (text, errors, code) = outcome(&output);
        assert_eq!(output.status.signal(), None, "{limits}: {errors}");
        assert!(!errors.contains("panicked"), "{limits}: {errors}");
        match code {
            // Each request has an answer or an error.
            Some(0) => assert_eq!(text.lines().count(), 4, "{limits}: {text} {errors}"),
            code => assert!(code == Some(3) && errors.contains("ulimit"), "{limits}: {code:?} {errors}"),
        }
        assert!(!text.contains("exhausted") && !errors.contains("exhausted"), "{limits}: {text} {errors}");
    }
}

#[test]
fn unknown_user_is_served() {
    // SAFETY: the call only returns a number.
    let user = (unsafe { libc::geteuid() } == 0).then_some(NOBODY + 2);
    let folder = Folder::new("unknown-user");
    let output = under("unset HOME", "describe-symbol car", &folder, user, Stdio::null());
    assert!(has_answered("no HOME", &output));
    for home in ["", "relative/home", "/nowhere/at/all", "/dev/null"] {
        let limits = format!("export HOME='{home}'");
        let output = under(&limits, "describe-symbol car", &folder, user, Stdio::null());
        assert!(has_answered(&limits, &output), "{home}");
        let output = under(&limits, "call load-system '{\"system\":\"uiop\"}'", &folder, user, Stdio::null());
        let (text, errors, code) = outcome(&output);
        assert!(
            matches!(code, Some(0 | 3)) && !(text.clone() + &errors).is_empty(),
            "{home}: {text} {errors}"
        );
        assert!(!errors.contains("panicked"), "{errors}");
    }
}

#[test]
fn missing_project_folder_is_an_error() {
    for arguments in [&["list-systems"][..], &["find-references", "x"], &["serve"]] {
        let output = run(&[&["--project", "/nowhere/my-project"], arguments].concat());
        assert!(output.stdout.is_empty());
        expect_text("no project folder", &shown(&output));
    }
}

/// Runs the program as a user who may not write to the cache folder.
#[test]
fn temporary_folder_replaces_an_unwritable_cache() {
    use std::os::unix::process::CommandExt;
    let folder = Folder::new("cache-denied");
    // SAFETY: the call only returns a number.
    // Another test limits the threads of NOBODY.
    let user = (unsafe { libc::geteuid() } == 0).then_some(NOBODY + 1);
    let (closed, temporary, project) = (folder.join("closed"), folder.join("tmp"), folder.join("p"));
    for path in [&closed, &temporary, &project] {
        fs::create_dir(path).unwrap();
    }
    fs::write(project.join("p.asd"), "(defsystem \"p\" :components ((:file \"a\")))").unwrap();
    fs::write(project.join("a.lisp"), "(defun one () 1)\n(defun two () (one))\n").unwrap();
    let program = copied(&folder);
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(&temporary, fs::Permissions::from_mode(0o777)).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir(&project).stdin(Stdio::null());
        command.env("STEELBANK_CACHE", closed.join("cache")).env("TMPDIR", &temporary);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        outcome(&command.output().unwrap())
    };
    for arguments in [&["--system", "p", "who-calls", "cl-user::one"][..], &["find-references", "one"]] {
        let (text, errors, code) = run(arguments);
        assert!(code == Some(0) && text.to_lowercase().contains("a.lisp"), "{arguments:?}: {text} {errors}");
        let named = [&closed.join("cache"), &temporary].map(|path| errors.contains(path.to_str().unwrap()));
        assert!(named == [true, true] && errors.contains("STEELBANK_CACHE"), "{errors}");
    }
    let stand_in = fs::read_dir(&temporary)
        .unwrap()
        .map(|entry| entry.unwrap())
        .find(|entry| entry.file_name().to_string_lossy().starts_with("steelbank-"))
        .unwrap();
    assert_eq!(stand_in.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    // Retry the removal: a snapshot writer may still use the folder.
    wait_while(|| fs::remove_dir_all(stand_in.path()).is_err());
    // A link in place of the folder must be refused, because any user can create one.
    std::os::unix::fs::symlink(&project, stand_in.path()).unwrap();
    let (_, errors, code) = run(&["find-references", "one"]);
    assert!(code == Some(3) && errors.contains(stand_in.path().to_str().unwrap()), "{errors}");
}
