//! Trees that the kernel cannot watch: status and doctor say so, and the answers stay right.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::client::Client;
use crate::program::{Folder, STEELBANK, Streams, ends, initialized, said};

/// Returns what `status` says of the watch, as text and as JSON.
fn unwatched(client: &mut Client) -> (String, Value) {
    let status = client.call("status", json!({}));
    let text = status["content"][0]["text"].as_str().unwrap().to_owned();
    (text, status["structuredContent"]["unwatched"].clone())
}

/// Starts a server with `command` and asks it a question. Returns what it says of the watch.
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

/// Makes the command that runs the program over `project` as a user with at most `watches` watches. None if
/// this machine does not permit that.
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
fn a_limit_of_watches_that_is_reached_is_told_with_what_to_do() {
    let folder = Folder::new("watches");
    let (project, cache) = (folder.join("project"), folder.join("cache"));
    for name in 0..8 {
        std::fs::create_dir_all(project.join(format!("folder-{name}"))).unwrap();
    }
    let Some(server) = limited(5, &project, &["serve"], &cache) else { return };
    let (text, sentence) = after_a_question(server, |client| {
        // Expect the new file to be found all the same.
        std::fs::write(project.join("folder-7/new.lisp"), "(cl:mapcar #'car '())").unwrap();
        let told = client.text("who-calls", json!({ "name": "cl:mapcar" }));
        assert!(told.contains("folder-7/new.lisp"), "{told}");
    });
    assert!(sentence.contains("fs.inotify.max_user_watches=") && text.contains(&sentence), "{text}");
    let doctor = limited(5, &project, &["doctor"], &cache).unwrap().output().unwrap();
    let (text, errors, code) = said(&doctor);
    assert!(code == Some(0) && text.contains(&format!("watch         {sentence}")), "{text} {errors}");

    let (_, sentence) = after_a_question(limited(500, &project, &["serve"], &cache).unwrap(), |_| ());
    assert_eq!(sentence, "");
    let (text, ..) = said(&limited(500, &project, &["doctor"], &cache).unwrap().output().unwrap());
    assert!(!text.contains("watch         "), "{text}");
}

#[test]
fn a_file_system_that_the_kernel_does_not_tell_of_is_told() {
    let folder = Folder::new("unwatched");
    // Stand in for a network file system, which a test cannot mount.
    let command = |argument: &str| {
        let mut command = Command::new(STEELBANK);
        command.args(["--no-userinit", "--project", "/proc/sys/fs/inotify", argument]);
        command.env("STEELBANK_CACHE", folder.join("cache"));
        command
    };
    let (text, sentence) = after_a_question(command("serve"), |_| ());
    assert!(sentence.contains("on a disk of this machine") && text.contains(&sentence), "{text}");
    let (text, errors, code) = said(&command("doctor").output().unwrap());
    assert!(code == Some(0) && text.contains(&sentence), "{text} {errors}");
}
