//! Tests of folders that the kernel cannot watch: status and doctor report the reason, and answers
//! remain correct.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::Client;
use crate::program::{Folder, STEELBANK, Streams, ends, initialized, outcome};
use crate::texts::expect_text;

/// Returns the text of `status`, and its field about the watcher.
fn unwatched(client: &mut Client) -> (String, Value) {
    let status = client.call("status", json!({}));
    let text = status["content"][0]["text"].as_str().unwrap().to_owned();
    (text, status["structuredContent"]["unwatched"].clone())
}

/// Starts a server, and sends it a query. Returns the text of `status`, and its field about the
/// watcher.
fn after_a_question(command: Command, ask: impl FnOnce(&mut Client)) -> (String, String) {
    let (child, mut client) = initialized(command, Streams::Pipes);
    assert_eq!(unwatched(&mut client).1, Value::Null, "nothing was watched yet");
    client.call("who-calls", json!({ "name": "cl:mapcar" }));
    let (text, sentence) = unwatched(&mut client);
    ask(&mut client);
    client.leave();
    assert_eq!(ends(child).code(), Some(0));
    (text, sentence.as_str().unwrap_or_default().to_owned())
}

/// Returns a command that runs the program as a user with at most `watches` watches. Returns `None`
/// if this machine does not permit that.
fn limited(watches: u32, project: &Path, arguments: &[&str], cache: &Path) -> Option<Command> {
    let unshare = |script: &str| {
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "sh", "-c"])
            .arg(format!("echo {watches} 2>/dev/null >/proc/sys/user/max_inotify_watches && {script}"));
        command
    };
    let permitted = unshare("true").output().is_ok_and(|output| output.status.success());
    let mut command = unshare("exec \"$@\"");
    command.args(["sh", STEELBANK, "--no-userinit", "--project"]).arg(project).args(arguments);
    command.env("STEELBANK_CACHE", cache);
    permitted.then_some(command)
}

#[test]
fn exhausted_watches_are_reported_with_remedy() {
    let folder = Folder::new("watches");
    let (project, cache) = (folder.join("project"), folder.join("cache"));
    for name in 0..8 {
        std::fs::create_dir_all(project.join(format!("folder-{name}"))).unwrap();
    }
    let Some(server) = limited(5, &project, &["serve"], &cache) else { return };
    let (text, sentence) = after_a_question(server, |client| {
        // The new file is found.
        std::fs::write(project.join("folder-7/new.lisp"), "(cl:mapcar #'car '())").unwrap();
        let told = client.text("who-calls", json!({ "name": "cl:mapcar" }));
        assert!(told.contains("folder-7/new.lisp"), "{told}");
    });
    assert!(text.contains(&sentence) && sentence.contains("fs.inotify.max_user_watches="), "{text}");
    let doctor = limited(5, &project, &["doctor"], &cache).unwrap().output().unwrap();
    let (text, errors, code) = outcome(&doctor);
    assert!(code == Some(0) && text.contains(&sentence), "{text} {errors}");

    let (_, sentence) = after_a_question(limited(500, &project, &["serve"], &cache).unwrap(), |_| ());
    assert_eq!(sentence, "");
    let (text, ..) = outcome(&limited(500, &project, &["doctor"], &cache).unwrap().output().unwrap());
    assert!(!text.contains("inotify"), "{text}");
}

#[test]
fn unwatchable_file_system_is_reported() {
    let folder = Folder::new("unwatched");
    // A folder in /proc replaces a network file system, which a test cannot mount: the kernel does
    // not report all changes there, either.
    let command = |argument: &str| {
        let mut command = Command::new(STEELBANK);
        command.args(["--no-userinit", "--project", "/proc/sys/fs/inotify", argument]);
        command.env("STEELBANK_CACHE", folder.join("cache"));
        command
    };
    let (text, sentence) = after_a_question(command("serve"), |_| ());
    assert!(text.contains(&sentence), "{text}");
    expect_text("file system", &sentence);
    let (text, errors, code) = outcome(&command("doctor").output().unwrap());
    assert!(code == Some(0) && text.contains(&sentence), "{text} {errors}");
}
