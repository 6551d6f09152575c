//! Tests of `steelbank serve` over standard input and output, as MCP hosts run it.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::child::{wait_until, wait_while};
use crate::program::{Folder, STEELBANK, Streams, ends, ends_well, initialized, on, serve, server};
use crate::texts::{expect_text, write_project};

#[test]
fn pipes_and_socket_pairs_are_served() {
    for streams in [Streams::Pipes, Streams::SocketPairs, Streams::NonBlocking] {
        let (child, mut client) = initialized(server(), streams);
        let text = client.text("describe-symbol", json!({ "name": "cl:car" }));
        assert!(text.starts_with("COMMON-LISP::CAR"), "{streams:?}: {text}");
        let callers = client.text("who-calls", json!({ "name": "mapcar", "package": "CL" }));
        assert!(callers.lines().count() > 300, "{streams:?}");
        drop(client);
        assert_eq!(ends(child).code(), Some(0), "{streams:?}");
    }
}

#[test]
fn file_of_requests_is_answered() {
    let lines = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "file", "version": "1" } } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "describe-symbol", "arguments": { "name": "cl:car" } } }),
    ];
    let path = std::env::temp_dir().join(format!("steelbank-requests-{}", std::process::id()));
    // The last line has no newline.
    std::fs::write(&path, lines.map(|line| line.to_string()).join("\n")).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let output = Command::new(STEELBANK).arg("serve").stdin(file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("COMMON-LISP::CAR"), "{text}");
    assert_eq!((output.stderr.as_slice(), output.status.code()), (&b""[..], Some(0)));
}

#[test]
fn server_without_requests_exits_with_0() {
    let output = Command::new(STEELBANK).arg("serve").stdin(Stdio::null()).output().unwrap();
    assert_eq!((output.stdout.as_slice(), output.status.code()), (&b""[..], Some(0)));
}

#[test]
fn server_ends_if_client_stops_reading() {
    for streams in [Streams::Pipes, Streams::SocketPairs] {
        // The input stays open, so only a write can fail.
        let (keep, input) = std::io::pipe().map(|(reader, writer)| (writer, reader)).unwrap();
        let mut command = server();
        command.stdin(input);
        let child = match streams {
            Streams::Pipes => {
                let (output, theirs) = std::io::pipe().unwrap();
                let child = command.stdout(theirs).spawn().unwrap();
                leave(command, keep.try_clone().unwrap(), output);
                child
            }
            Streams::SocketPairs | Streams::NonBlocking => {
                let (output, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
                let child = command.stdout(std::os::fd::OwnedFd::from(theirs)).spawn().unwrap();
                leave(command, keep.try_clone().unwrap(), output);
                child
            }
        };
        assert_eq!(ends(child).code(), Some(0), "{streams:?}");
        drop(keep);
    }
}

/// Requests more than fits into a pipe, reads a little of it, and stops reading.
fn leave(command: Command, mut input: impl std::io::Write + Send + 'static, mut output: impl std::io::Read) {
    drop(command);
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "leaver", "version": "1" } } });
    writeln!(input, "{hello}").unwrap();
    for id in 2..20 {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "who-calls", "arguments": { "name": "cl:mapcar" } } });
        writeln!(input, "{request}").unwrap();
    }
    output.read_exact(&mut [0; 10_000]).unwrap();
}

#[test]
fn signals_end_the_server() {
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1), ("ABRT", 6)] {
        let (child, mut client) = initialized(server(), Streams::Pipes);
        client.text("describe-symbol", json!({ "name": "cl:car" }));
        let killed =
            Command::new("sh").args(["-c", &format!("kill -{name} {}", child.id())]).status().unwrap();
        assert!(killed.success());
        assert_eq!(ends(child).signal(), Some(number));
    }
}

/// Writes a project that defines the system `name` of one file, and returns the command of a server
/// for it.
fn server_over(folder: &Folder, name: &str, code: &str) -> Command {
    let definition = format!("(defsystem {name:?} :components ((:file \"code\")))\n");
    let project = folder.join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(project.join(format!("{name}.asd")), definition).unwrap();
    std::fs::write(project.join("code.lisp"), code).unwrap();
    let mut command = server();
    command.arg("--project").arg(&project).arg("--no-userinit").env("STEELBANK_CACHE", folder.join("cache"));
    command
}

#[test]
fn long_call_reports_progress_on_request() {
    let folder = Folder::new("progress");
    let command =
        server_over(&folder, "steelbank-progress", "(defun cl-user::steelbank-progress () (print 1))");
    let (child, mut client) = initialized(command, Streams::Pipes);
    let call =
        json!({ "name": "load-system", "arguments": { "system": "steelbank-progress", "force": true } });
    let mut asking = call.clone();
    asking["_meta"] = json!({ "progressToken": "news" });
    assert_eq!(client.request("tools/call", asking.clone())["result"]["isError"], false);
    let news: Vec<f64> = client
        .others
        .drain(..)
        .map(|notification| {
            assert_eq!(notification["method"], "notifications/progress");
            assert_eq!(notification["params"]["progressToken"], "news");
            assert!(!notification["params"]["message"].as_str().unwrap().is_empty());
            notification["params"]["progress"].as_f64().unwrap()
        })
        .collect();
    assert!(!news.is_empty() && news.is_sorted(), "{news:?}");
    // The second forced load has a longer ASDF plan.
    asking["_meta"] = json!({ "progressToken": "again" });
    client.request("tools/call", asking);
    for notification in client.others.drain(..) {
        let told = &notification["params"];
        assert!(
            told["total"].as_f64().is_none_or(|total| told["progress"].as_f64().unwrap() <= total),
            "{told}"
        );
    }
    assert_eq!(client.request("tools/call", call)["result"]["isError"], false);
    assert!(client.others.is_empty(), "nobody asked: {:?}", client.others);
    ends_well(child, client);
}

#[test]
fn cancelled_load_stops_and_lisp_continues() {
    let folder = Folder::new("cancelled");
    let command = server_over(&folder, "steelbank-endless", "(loop (sleep 0.01))");
    let (child, mut client) = initialized(command, Streams::SocketPairs);
    let call = json!({ "name": "load-system", "arguments": { "system": "steelbank-endless" } });
    let id = client.begin("tools/call", call);
    wait_while(|| client.status()["lisp"] != "busy");
    client.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id },
    }));
    wait_while(|| client.status()["lisp"] != "ready");
    assert!(!client.has_response(id));
    assert!(client.text("describe-symbol", json!({ "name": "cl:car" })).starts_with("COMMON-LISP::CAR"));
    ends_well(child, client);
}

#[test]
fn answers_during_a_load_have_a_note() {
    let folder = Folder::new("moving");
    let mut command = server_over(&folder, "steelbank-moving", "(loop (sleep 0.01))");
    command.args(["--no-snapshot", "--system", "steelbank-moving"]);
    let (mut child, mut client) = serve(command, Streams::Pipes);
    client.initialize();
    wait_while(|| client.status()["loading"] != true);
    let asked = [
        ("describe-symbol", json!({ "name": "cl:car" })),
        ("describe-symbol", json!({ "name": "not-yet-there" })),
        ("who-calls", json!({ "name": "cl:mapcar", "limit": 2 })),
        ("who-calls", json!({ "name": "not-yet-there" })),
        ("code-find-references", json!({ "symbol": "cl:car" })),
        ("find-definition", json!({ "name": "cl:car" })),
    ];
    for (tool, arguments) in asked {
        let answer = client.call(tool, arguments);
        assert_eq!(answer["structuredContent"]["loading"], true, "{tool}: {answer}");
        let note = answer["content"][1]["text"].as_str().unwrap();
        expect_text("loading", note);
        let contract = answer["content"][0]["text"].as_str().unwrap();
        assert!(!contract.contains(note), "the contract's text has the note: {contract}");
    }
    let answer = client.call("code-find-references", json!({ "symbol": "not-yet-there" }));
    // An error has the note as separate content, too.
    assert_eq!((&answer["isError"], &answer["structuredContent"]["loading"]), (&json!(true), &json!(true)));
    expect_text("loading", answer["content"][1]["text"].as_str().unwrap());
    // The load never ends.
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Calls that run code, and loads, wait for the loads at the start. Questions do not.
#[test]
fn code_waits_for_background_loads() {
    let folder = Folder::new("joined");
    let code = format!(
        "(defpackage :joined (:use :cl)) (in-package :joined) (defun one () 1) (defmacro two () 2)
        (eval-when (:compile-toplevel) (loop until (probe-file {:?}) do (sleep 0.02)))",
        folder.join("go")
    );
    let mut command = server_over(&folder, "steelbank-joined", &code);
    command.args(["--no-snapshot", "--system", "auto", "--allow-eval"]);
    let (child, mut client) = initialized(command, Streams::Pipes);
    let calls = [
        ("load-system", json!({ "system": "steelbank-joined" }), "is loaded (1 compiled"),
        ("check", json!({ "paths": ["code.lisp"] }), "steelbank-joined loads"),
        ("macroexpand", json!({ "form": "(two)", "package": "joined" }), "2"),
        ("evaluate", json!({ "code": "(joined::one)" }), "1"),
        ("run-tests", json!({ "system": "steelbank-joined" }), "No tests were run"),
        ("rename", json!({ "name": "joined::one", "new_name": "uno" }), "would be renamed"),
    ];
    let begun = calls.map(|(tool, arguments, text)| {
        (client.begin("tools/call", json!({ "name": tool, "arguments": arguments })), tool, text)
    });
    assert_eq!(client.structured("describe-symbol", json!({ "name": "cl:car" }))["loading"], true);
    assert!(begun.iter().all(|(id, ..)| !client.has_response(*id)));
    std::fs::write(folder.join("go"), "").unwrap();
    for (id, tool, text) in begun {
        let answer = client.response(id)["result"].clone();
        let found = answer["content"][0]["text"].as_str().unwrap_or_default();
        assert!(found.contains(text) && answer["isError"] == false, "{tool}: {answer}");
        if tool == "load-system" {
            assert_eq!(client.status()["loading"], false);
        }
    }
    ends_well(child, client);
}

#[test]
fn status_lists_failed_background_loads() {
    let folder = Folder::new("background");
    let mut command = server_over(&folder, "steelbank-background", "(defun f () (if))");
    command.args(["--no-snapshot", "--system", "steelbank-background", "--system", "no-such-system"]);
    let (child, mut client) = initialized(command, Streams::Pipes);
    let loads = loop {
        let status = client.status();
        if status["loads"].as_array().is_some_and(|loads| loads.len() == 2) {
            break status["loads"].clone();
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    };
    assert!(loads.as_array().unwrap().iter().all(|load| load["loaded"] == false), "{loads}");
    let outcomes = loads.as_array().unwrap().iter().map(|load| load["outcome"].as_str().unwrap());
    let mut outcomes: Vec<&str> = outcomes.collect();
    outcomes.sort_unstable();
    expect_text("failed in the background", &outcomes.join("\n"));
    ends_well(child, client);
}

#[test]
fn two_servers_fill_one_fresh_cache() {
    let folder = Folder::new("shared-cache");
    let files = 12;
    let components: String = (0..files).map(|number| format!("(:file \"file-{number}\")")).collect();
    let project = folder.join("project");
    std::fs::create_dir(&project).unwrap();
    std::fs::write(
        project.join("steelbank-shared.asd"),
        format!("(defsystem \"steelbank-shared\" :serial t :components ({components}))"),
    )
    .unwrap();
    for number in 0..files {
        std::fs::write(
            project.join(format!("file-{number}.lisp")),
            format!("(defun cl-user::f{number} () 1)"),
        )
        .unwrap();
    }
    for round in 0..4 {
        let cache = folder.join(format!("cache-{round}"));
        let load = || {
            let mut command = on(&project, &cache);
            command.args(["load-system", "steelbank-shared"]).stdout(Stdio::piped()).spawn().unwrap()
        };
        for child in [load(), load(), load()] {
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

#[test]
fn fasls_are_cached_without_a_project() {
    let folder = Folder::new("no-project");
    let (empty, away) = (folder.join("empty"), folder.join("away"));
    for folder in [&empty, &away] {
        std::fs::create_dir(folder).unwrap();
    }
    write_project(&away, include_str!("../projects/no_project.txt"));
    std::fs::write(folder.join(".sbclrc"), "(defvar cl-user::*steelbank-init* 1)").unwrap();
    let output = Command::new(STEELBANK)
        .args(["load-system", "steelbank-away"])
        .current_dir(&empty)
        .env("HOME", &folder)
        .env_remove("XDG_CACHE_HOME")
        .env("CL_SOURCE_REGISTRY", format!("{}//:", away.display()))
        // Name the cache relative to the current folder.
        .env("STEELBANK_CACHE", "../cache")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(folder.join("cache/projects/fasls").is_dir() && folder.join("cache/projects/taps").is_dir());
    assert!(!folder.join(".cache/common-lisp").exists());
}

#[test]
fn queued_loads_do_not_block_questions() {
    let folder = Folder::new("many-loads");
    let (child, mut client) =
        initialized(server_over(&folder, "steelbank-many", "(loop (sleep 0.01))"), Streams::Pipes);
    let call = json!({ "name": "load-system", "arguments": { "system": "steelbank-many" } });
    let loads: Vec<u64> = (0..100).map(|_| client.begin("tools/call", call.clone())).collect();
    assert!(client.structured("who-calls", json!({ "name": "cl:mapcar" }))["count"].as_u64() > Some(300));
    assert_eq!(client.status()["lisp"], "busy");
    assert_eq!(client.structured("describe-symbol", json!({ "name": "cl:car" }))["found"], true);
    for id in &loads {
        let params = json!({ "requestId": id });
        client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    }
    // The threads are free again.
    let again =
        client.begin("tools/call", json!({ "name": "load-system", "arguments": { "system": "uiop" } }));
    assert_eq!(client.response(again)["result"]["isError"], false);
    assert!(loads.iter().all(|id| !client.has_response(*id)));
    ends_well(child, client);
}

#[test]
fn unread_answers_do_not_fill_memory() {
    const MANY: usize = 3_000;
    let (child, mut client) = initialized(server(), Streams::Pipes);
    let call = json!({ "name": "who-calls", "arguments": { "name": "cl:mapcar" } });
    let ids: Vec<u64> = (0..MANY).map(|_| client.begin("tools/call", call.clone())).collect();
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak: u64 = peak.trim().strip_suffix(" kB").unwrap().parse().unwrap();
    for id in ids {
        assert_eq!(client.response(id)["result"]["isError"], false);
    }
    // The answers together are some 200 MB.
    assert!(peak < 250_000, "{peak} kB");
    ends_well(child, client);
}

#[test]
fn client_roots_name_the_project() {
    let folder = Folder::new("roots");
    let (empty, project) = (folder.join("empty"), folder.join("a project"));
    for folder in [&empty, &project] {
        std::fs::create_dir(folder).unwrap();
    }
    std::fs::write(project.join("steelbank-roots.asd"), "(defsystem \"steelbank-roots\")").unwrap();
    let start = || {
        let mut command = server();
        command.current_dir(&empty).env("HOME", &folder).env("STEELBANK_CACHE", folder.join("cache"));
        serve(command, Streams::Pipes)
    };
    let (child, mut client) = start();
    client.initialize();
    for (tool, arguments) in
        [("find_references", json!({ "pattern": "needle" })), ("list-systems", json!({}))]
    {
        expect_text(&format!("no project, {tool}"), &client.error(tool, arguments));
    }
    ends_well(child, client);

    let (child, mut client) = start();
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": { "roots": {} },
        "clientInfo": { "name": "roots", "version": "1" },
    });
    client.request("initialize", hello);
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let asked = client.read().unwrap();
    assert_eq!(asked["method"], "roots/list", "{asked}");
    let uri = format!("file://{}", project.display()).replace(' ', "%20");
    client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "roots": [{ "uri": uri }] } }));
    assert!(client.text("list-systems", json!({})).contains("steelbank-roots"));
    client.text("find_references", json!({ "pattern": "defsystem" }));
    ends_well(child, client);
}

#[test]
fn server_ends_if_client_leaves_during_a_load() {
    for streams in [Streams::Pipes, Streams::SocketPairs] {
        let folder = Folder::new("leaves");
        let (child, mut client) =
            initialized(server_over(&folder, "steelbank-left", "(loop (sleep 0.01))"), streams);
        client.begin(
            "tools/call",
            json!({ "name": "load-system", "arguments": { "system": "steelbank-left" } }),
        );
        wait_while(|| client.status()["lisp"] != "busy");
        ends_well(child, client);
    }
}

fn children_of(process: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    // A thread may end meanwhile.
    let children =
        threads.filter_map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")).ok());
    children
        .flat_map(|each| each.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

fn watches_folders(process: u32) -> bool {
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    descriptors
        .filter_map(|descriptor| std::fs::read_link(descriptor.unwrap().path()).ok())
        .any(|target| target.to_string_lossy().contains("inotify"))
}

#[test]
fn children_of_lisp_do_not_inherit_streams() {
    let folder = Folder::new("children");
    let code = "(ignore-errors (sb-ext:run-program \"/bin/sleep\" '(\"40\") :wait nil))
        (when (zerop (sb-alien:alien-funcall (sb-alien:extern-alien \"fork\" (function sb-alien:int))))
          (sb-alien:alien-funcall (sb-alien:extern-alien \"sleep\" (function sb-alien:unsigned-int sb-alien:unsigned-int)) 40)
          (sb-alien:alien-funcall (sb-alien:extern-alien \"raise\" (function sb-alien:int sb-alien:int)) 9))";
    let (child, mut client) = initialized(server_over(&folder, "steelbank-forks", code), Streams::Pipes);
    // The first query starts the watcher.
    client.call("who-calls", json!({ "name": "cl:car" }));
    assert!(watches_folders(child.id()));
    client.call("load-system", json!({ "system": "steelbank-forks", "timeout_seconds": 20 }));
    let children = children_of(child.id());
    assert!(children.len() > 1, "a program and a copy of the process");
    // A forked child closes the watcher's descriptors as soon as it runs.
    let is_closed = || !children.iter().any(|child| watches_folders(*child));
    wait_until("a child holds what watches folders", is_closed);
    let begun = std::time::Instant::now();
    client.leave();
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "a child keeps the stream open");
    assert_eq!(ends(child).code(), Some(0));
}
