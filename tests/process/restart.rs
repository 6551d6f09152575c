//! Tests of recovery from Lisp's death: process and client stay, and each request gets one answer.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::child::{small_or_full, wait_until, wait_while};
use crate::client::{Client, is_passing};
use crate::program::{Folder, Streams, ends_well, initialized, serve, server};
use crate::texts::expect_text;

struct Server {
    child: Child,
    client: Client,
    folder: Folder,
}

/// Starts a server for a project that has a file to load, and a file for each form of
/// `ends_of_lisp`.
fn start(name: &str, ends_of_lisp: &[&str]) -> Server {
    let folder = Folder::new(name);
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("good.asd", "(defsystem \"good\" :components ((:file \"good\")))");
    write("good.lisp", "(defun cl-user::remembered (list) \"Kept.\" (mapcar #'car list))");
    write("slow.lisp", "(sleep 1000)");
    for (number, form) in ends_of_lisp.iter().enumerate() {
        write(&format!("end-{number}.lisp"), form);
    }
    let mut command = server_of(&folder);
    // Use a small heap, which is soon full.
    command.args(["--no-userinit", "--dynamic-space-size", "512", "--allow-eval"]);
    let (child, mut client) = initialized(command, Streams::Pipes);
    let loaded = client.call("load-file", json!({ "path": "good.lisp" }));
    assert_eq!(loaded["isError"], false, "{loaded}");
    Server { child, client, folder }
}

/// Makes the command `steelbank serve` in `folder`.
fn server_of(folder: &Folder) -> Command {
    let mut command = server();
    command.current_dir(folder).env("STEELBANK_CACHE", folder.join("cache"));
    command
}

const LOSE: &str = "(sb-alien:alien-funcall (sb-alien:extern-alien \"lose\" (function sb-alien:void sb-alien:c-string)) \"on purpose\")";

/// Waits until Lisp has restarted and repeated its loads. Calls restart-lisp if an error names it.
/// Returns the result of describe-symbol.
fn comes_back(client: &mut Client) -> Value {
    let patience = Instant::now();
    loop {
        assert!(patience.elapsed() < Duration::from_secs(60), "{}", client.call("status", json!({})));
        let asked = json!({ "name": "describe-symbol", "arguments": { "name": "remembered" } });
        let response = client.request("tools/call", asked);
        assert!(response["error"].is_null(), "a question is asked again: {response}");
        let described = response["result"].clone();
        let text = described["content"][0]["text"].as_str().unwrap();
        // The index has the loaded code only when the load has ended.
        if described["structuredContent"]["found"] == true && client.status()["loading"] != true {
            return described;
        }
        if text.contains("restart-lisp") {
            client.text("restart-lisp", json!({}));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns how often Lisp was restarted in this session.
fn restarts(client: &mut Client) -> u64 {
    let status = client.call("status", json!({}));
    let restarts =
        status["structuredContent"]["restarts"].as_array().and_then(|restarts| restarts.last().cloned());
    restarts.map_or(0, |last| last["number"].as_u64().unwrap())
}

/// Waits until Lisp was restarted more often than `before`.
fn wait_for_restart(client: &mut Client, before: u64) {
    wait_until("Lisp is not started again", || restarts(client) != before);
}

/// Restarts Lisp on request, which resets the count of deaths.
fn restart(client: &mut Client) {
    let before = restarts(client);
    client.text("restart-lisp", json!({}));
    wait_for_restart(client, before);
    comes_back(client);
}

/// Ends Lisp by loading a file.
fn die(client: &mut Client) {
    let error = client.error("load-file", json!({ "path": "end-0.lisp" }));
    assert!(error.contains("on purpose"), "{error}");
}

fn descriptors(child: &Child) -> Vec<String> {
    let folder = format!("/proc/{}/fd", child.id());
    let mut targets: Vec<String> = std::fs::read_dir(Path::new(&folder))
        .unwrap()
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .map(|target| target.display().to_string())
        .collect();
    targets.sort();
    targets
}

#[test]
fn restart_repeats_the_loads() {
    let mut server = start("again", &[LOSE]);
    let client = &mut server.client;
    let error = client.error("load-file", json!({ "path": "end-0.lisp" }));
    expect_text("died", &error);
    comes_back(client);
    let status = client.status();
    let restarted = &status["restarts"][0];
    assert_eq!(restarted["loaded_again"], json!(["good.lisp"]), "{status}");
    assert!(restarted["why"].as_str().is_some_and(|why| why.contains("on purpose")), "{status}");
    // The session continues: the client need not initialize again.
    assert!(client.text("who-calls", json!({ "name": "cl:mapcar" })).contains("REMEMBERED"));
    // If Lisp dies while a system loads, the error names the file.
    std::fs::write(
        server.folder.join("fatal.asd"),
        "(defsystem \"fatal\" :components ((:file \"good\") (:file \"end-0\")))",
    )
    .unwrap();
    let error = client.error("load-system", json!({ "system": "fatal" }));
    expect_text("died in a system", &error);
    comes_back(client);
    assert!(server.child.try_wait().unwrap().is_none());
    ends_well(server.child, server.client);
    drop(server.folder);
}

#[test]
fn questions_after_a_restart_wait_for_its_loads() {
    let folder = Folder::new("restart-waits");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("late.asd", "(defsystem \"late\" :components ((:file \"late\")))");
    write("late.lisp", "(sleep 1) (defun cl-user::late (list) (mapcar #'car list))");
    let mut command = server_of(&folder);
    command.args(["--no-userinit", "--no-snapshot"]);
    let (child, mut client) = initialized(command, Streams::Pipes);
    assert_eq!(client.call("load-system", json!({ "system": "late" }))["isError"], false);
    client.text("restart-lisp", json!({}));
    let uses = client.text("code-find-references", json!({ "symbol": "cl:mapcar", "project_only": true }));
    assert!(uses.contains("late.lisp"), "{uses}");
    assert_eq!(client.structured("describe-symbol", json!({ "name": "late" }))["found"], true);
    ends_well(child, client);
}

/// Once a restart or a death was answered, all answers come from the next image.
#[test]
fn previous_image_answers_nothing_after_its_end() {
    let Server { child, mut client, folder: _folder } = start("restart-order", &[LOSE]);
    for number in 1..7 {
        match number % 3 {
            0 => die(&mut client),
            _ => drop(client.text("restart-lisp", json!({}))),
        }
        // Send several questions at once, of which none may be refused.
        let code = json!({ "code": "(boundp (quote cl-user::*old*))" });
        let ids = ["status", "describe-symbol", "evaluate"].map(|tool| {
            let arguments = match tool {
                "status" => json!({}),
                "evaluate" => code.clone(),
                _ => json!({ "name": "cl:car" }),
            };
            client.begin("tools/call", json!({ "name": tool, "arguments": arguments }))
        });
        let [status, described, evaluated] = ids.map(|id| client.response(id)["result"].clone());
        let restarts = status["structuredContent"]["restarts"].as_array().unwrap();
        assert_eq!(restarts.last().unwrap()["number"], number, "{status}");
        assert_eq!(described["structuredContent"]["found"], true, "{described}");
        assert!(evaluated["content"][0]["text"].as_str().unwrap().starts_with("NIL"), "{evaluated}");
        client.text("evaluate", json!({ "code": "(defvar cl-user::*old* 1)" }));
    }
    ends_well(child, client);
}

#[test]
fn restart_uses_a_snapshot() {
    let mut server = start("again-snapshot", &[LOSE]);
    // Single files make no snapshot, so load a system in another session.
    ends_well(server.child, server.client);
    let mut command = server_of(&server.folder);
    command.args(["--no-userinit"]);
    (server.child, server.client) = serve(command, Streams::Pipes);
    let client = &mut server.client;
    client.initialize();
    client.text("load-system", json!({ "system": "good" }));
    let process = format!("/proc/{}/maps", server.child.id());
    let from_snapshot = || std::fs::read_to_string(&process).unwrap().contains("/snapshots/");
    // The first restart loads the system again, and starts a snapshot writer.
    restart(client);
    assert!(!from_snapshot());
    let snapshots = server.folder.join("cache/projects/snapshots");
    wait_until("no snapshot was made", || {
        let entries = std::fs::read_dir(&snapshots).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.path().extension().is_none())
    });
    let before = restarts(client);
    die(client);
    wait_for_restart(client, before);
    comes_back(client);
    assert!(from_snapshot());
    ends_well(server.child, server.client);
}

#[test]
fn crash_loop_stops_and_the_index_still_answers() {
    let begun = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let mut server = start("again-loop", &[LOSE]);
    let client = &mut server.client;
    for death in 1..=3 {
        die(client);
        if death < 3 {
            comes_back(client);
        }
    }
    let mut describe =
        || client.call("describe-symbol", json!({ "name": "cl:car" }))["content"][0]["text"].to_string();
    wait_until("Lisp is restarted", || describe().contains("restart-lisp"));
    expect_text("crash loop", &describe());
    let answer = client.call("who-calls", json!({ "name": "cl:mapcar" }));
    assert!(answer["structuredContent"]["count"].as_u64().unwrap() > 300);
    // The answer has the state of the image at its death.
    let died = answer["structuredContent"]["as_of"].as_u64().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!((begun..=now).contains(&died), "{begun} {died} {now}");
    let as_of = format!("{:02}:{:02} UTC", died / 3600 % 24, died / 60 % 60);
    let notes = answer["content"].as_array().unwrap().iter().filter_map(|part| part["text"].as_str());
    assert!(notes.collect::<String>().contains(&as_of), "{answer}");
    client.text("restart-lisp", json!({}));
    comes_back(client);
    ends_well(server.child, server.client);
}

/// A form that ends Lisp, and whether concurrent queries are still answered. Queries are not
/// answered if the form damages data that they need. A form that only fails its request is
/// accepted, too.
#[derive(serde::Deserialize)]
struct End {
    form: String,
    spared: bool,
}

/// Lists the forms, which `tests/sdk.sh` shares. They end the runtime in this and other threads, by
/// signals, in the compiler, the reader and C's heap, by stack and heap exhaustion, during garbage
/// collection, or leave Lisp useless.
fn ways_to_end() -> Vec<End> {
    serde_json::from_str(include_str!("../sdk/ends.json")).unwrap()
}

#[test]
fn each_request_has_one_answer_when_lisp_dies() {
    let ends_of_lisp = ways_to_end();
    let forms: Vec<&str> = ends_of_lisp.iter().map(|end| end.form.as_str()).collect();
    let mut server = start("again-many", &forms);
    let client = &mut server.client;
    assert_eq!(forms.len(), 20);
    let mut deaths = 0;
    for (end, End { form, spared }) in ends_of_lisp.iter().enumerate() {
        let before = restarts(client);
        // Eight requests of all kinds: Lisp dies among them, and some arrive during the restart.
        let mut asked: Vec<(u64, &str)> = Vec::new();
        let ask = |client: &mut Client,
                   asked: &mut Vec<(u64, &str)>,
                   tool: &'static str,
                   arguments: Value| {
            asked.push((client.begin("tools/call", json!({ "name": tool, "arguments": arguments })), tool));
        };
        ask(client, &mut asked, "describe-symbol", json!({ "name": "cl:car" }));
        let file = format!("end-{end}.lisp");
        ask(client, &mut asked, "load-file", json!({ "path": file, "timeout_seconds": 1 }));
        for _ in 0..2 {
            ask(client, &mut asked, "who-calls", json!({ "name": "cl:mapcar" }));
            ask(client, &mut asked, "describe-symbol", json!({ "name": "cl:car" }));
            ask(client, &mut asked, "find-definition", json!({ "name": "remembered" }));
        }
        assert_eq!(asked.len(), 8);
        let mut ended = restarts(client) != before;
        for (id, tool) in asked {
            let response = client.response(id);
            let text = response["result"]["content"][0]["text"].as_str().unwrap_or_default();
            let failed = response["result"]["isError"] == true || response["error"].is_object();
            let answered = match tool {
                "who-calls" => text.lines().count() > 300,
                "describe-symbol" => response["result"]["structuredContent"]["found"] == true,
                "find-definition" => text.to_uppercase().contains("REMEMBERED"),
                _ => text.contains("end-"),
            };
            ended |= is_passing(&response);
            let may_fail = !spared || tool == "load-file";
            assert!(answered && !failed || failed && may_fail, "{form}: {tool}: {response}");
        }
        if ended {
            deaths += 1;
            wait_for_restart(client, before);
        }
        restart(client);
    }
    assert!(deaths >= 11, "{deaths}");
    ends_well(server.child, server.client);
}

/// The resources that a process and its cache hold.
#[derive(Debug)]
struct Held {
    descriptors: Vec<String>,
    mappings: usize,
    threads: usize,
    files: Vec<String>,
}

impl Held {
    fn now(server: &Server) -> Self {
        let process = format!("/proc/{}", server.child.id());
        let count = |name: &str| std::fs::read_dir(format!("{process}/{name}")).unwrap().count();
        let maps = std::fs::read_to_string(format!("{process}/maps")).unwrap();
        assert!(!maps.contains("steelbank-handover"), "{maps}");
        let mut files = Vec::new();
        let mut open = vec![server.folder.0.clone()];
        while let Some(folder) = open.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                match entry.path() {
                    path if path.is_dir() => open.push(path),
                    path => files.push(path.display().to_string()),
                }
            }
        }
        files.sort();
        Self {
            descriptors: descriptors(&server.child),
            mappings: maps.lines().count(),
            threads: count("task"),
            files,
        }
    }

    /// Asserts that `server` holds no more than this, except for a few threads.
    fn assert_no_more_in(&self, server: &Server) {
        // The cache is in the indexed tree, so the index may still be about to replace a
        // short-lived file.
        let patience = Instant::now() + Duration::from_secs(60);
        let mut now = Self::now(server);
        while now.files != self.files && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(50));
            now = Self::now(server);
        }
        assert_eq!(now.files, self.files);
        // A watcher has two descriptors, and may not have started before.
        assert!(now.descriptors.len() <= self.descriptors.len() + 2, "{self:?} {now:?}");
        assert!(now.mappings <= self.mappings + 24, "{} then, {} now", self.mappings, now.mappings);
        assert!(now.threads <= self.threads + 4, "{} then, {} now", self.threads, now.threads);
    }
}

#[test]
fn restarts_leak_nothing() {
    let mut server = start("again-leaks", &[]);
    (0..3).for_each(|_| restart(&mut server.client));
    let before = Held::now(&server);
    (0..12).for_each(|_| restart(&mut server.client));
    assert_eq!(restarts(&mut server.client), 15);
    before.assert_no_more_in(&server);
    ends_well(server.child, server.client);
}

#[test]
fn deaths_in_a_row_leak_nothing() {
    let deaths: u64 = small_or_full(15, 500);
    let mut server = start("again-deaths", &[LOSE]);
    let die_and_restart = |client: &mut Client| {
        let before = restarts(client);
        die(client);
        comes_back(client);
        wait_for_restart(client, before);
    };
    (0..3).for_each(|_| die_and_restart(&mut server.client));
    let before = Held::now(&server);
    (3..deaths).for_each(|_| die_and_restart(&mut server.client));
    assert!(restarts(&mut server.client) >= deaths);
    before.assert_no_more_in(&server);
    ends_well(server.child, server.client);
}

/// A restart fails a running load, which is not repeated, and repeats a waiting query.
#[test]
fn restart_fails_a_running_load() {
    let mut server = start("again-running", &[]);
    let client = &mut server.client;
    let call = |tool: &str, arguments: Value| json!({ "name": tool, "arguments": arguments });
    let slow = client.begin("tools/call", call("load-file", json!({ "path": "slow.lisp" })));
    wait_while(|| !client.status()["loading"].as_bool().unwrap());
    client.text("restart-lisp", json!({}));
    let waiting = client.begin("tools/call", call("describe-symbol", json!({ "name": "cl:car" })));
    let response = client.response(slow);
    let error = &response["error"];
    assert_eq!((&error["code"], &error["data"]), (&json!(-32603), &json!({ "passing": true })), "{response}");
    expect_text("interrupted load", error["message"].as_str().unwrap());
    let response = client.response(waiting);
    assert_eq!(response["result"]["isError"], false, "{response}");
    comes_back(client);
    assert!(!client.text("status", json!({})).contains("slow.lisp"));
    ends_well(server.child, server.client);
}

#[test]
fn file_that_kills_lisp_twice_is_not_reloaded() {
    let mut server = start("deadly", &[]);
    let client = &mut server.client;
    let path = server.folder.join("moody.lisp");
    let load = |client: &mut Client| {
        let call = json!({ "name": "load-file", "arguments": { "path": "moody.lisp" } });
        client.request("tools/call", call)
    };
    std::fs::write(&path, "(list 1)").unwrap();
    assert_eq!(load(client)["result"]["structuredContent"]["status"], "loaded");
    // Change the loaded file, so that Lisp dies when it is reloaded.
    std::fs::write(&path, LOSE).unwrap();
    load(client);
    comes_back(client);
    let told = loop {
        let restarts = client.status()["restarts"].clone();
        if restarts.as_array().is_some_and(|restarts| restarts.len() == 2) {
            break restarts;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    comes_back(client);
    assert_eq!(told[0]["loaded_again"], json!(["good.lisp", "moody.lisp"]), "{told}");
    assert_eq!(
        (&told[1]["loaded_again"], &told[1]["left_out"]),
        (&json!(["good.lisp"]), &json!(["moody.lisp"]))
    );
    // Correct the file, and load it on request.
    std::fs::write(&path, "(list 2)").unwrap();
    assert_eq!(load(client)["result"]["structuredContent"]["status"], "loaded");
    ends_well(server.child, server.client);
}

/// A test that kills Lisp has the status `died`, and later tests do not run. Earlier results and
/// the session are kept.
#[test]
fn test_that_kills_lisp_is_named() {
    let folder = Folder::new("again-tests");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
    write("suite.asd", "(defsystem \"suite\" :depends-on (\"fiveam\") :components ((:file \"suite\")))");
    write(
        "suite.lisp",
        &format!(
            "(defpackage :suite (:use :cl))
             (in-package :suite)
             (5am:def-suite all)
             (5am:in-suite all)
             (5am:test first-one (5am:is (= 1 1)))
             (5am:test second-one {LOSE})
             (5am:test third-one (5am:is (= 1 1)))"
        ),
    );
    let mut command = server_of(&folder);
    let libraries = crate::fixtures::lisp_libraries();
    command.args(["--no-userinit"]).env("CL_SOURCE_REGISTRY", format!("{}//", libraries.display()));
    let (child, mut client) = initialized(command, Streams::Pipes);
    let run = client.call("run-tests", json!({ "system": "suite" }));
    let tests: Vec<(&str, &str)> = run["structuredContent"]["tests"]
        .as_array()
        .unwrap_or_else(|| panic!("{run}"))
        .iter()
        .map(|test| (test["name"].as_str().unwrap(), test["status"].as_str().unwrap()))
        .collect();
    let named = |name: &str| tests.iter().find(|(known, _)| known.ends_with(name)).map(|(_, status)| *status);
    assert_eq!(
        (named("::first-one"), named("::second-one"), named("::third-one")),
        (Some("passed"), Some("died"), Some("not-run")),
        "{run}"
    );
    wait_for_restart(&mut client, 0);
    assert_eq!(client.structured("describe-symbol", json!({ "name": "cl:car" }))["found"], true);
    ends_well(child, client);
}
