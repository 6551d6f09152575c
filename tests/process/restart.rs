//! Recovery from Lisp's death in place: the same process, the same client, every request answered once.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::child::{small_or_full, wait_until, wait_while};
use crate::client::Client;
use crate::program::{Folder, Streams, ends_well, initialized, serve, server};

struct Server {
    child: Child,
    client: Client,
    folder: Folder,
}

/// Starts a server of a project with a file to load, and one that ends Lisp for each of `ends_of_lisp`.
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
    command.args(["--no-userinit", "--dynamic-space-size", "512"]);
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

/// Waits until Lisp is back and has repeated its loads. Returns describe-symbol's result. Calls restart-lisp
/// if advised to.
fn comes_back(client: &mut Client) -> Value {
    let patience = Instant::now();
    loop {
        assert!(patience.elapsed() < Duration::from_secs(60), "{}", client.call("status", json!({})));
        let asked = json!({ "name": "describe-symbol", "arguments": { "name": "remembered" } });
        let response = client.request("tools/call", asked);
        assert!(response["error"].is_null(), "a question is asked again: {response}");
        let described = response["result"].clone();
        let text = described["content"][0]["text"].as_str().unwrap();
        // Wait for the load's end: only then has the index what was loaded.
        let mut loading = || client.status()["loading"] == true;
        if text.starts_with("COMMON-LISP-USER::REMEMBERED [FUNCTION]") && !loading() {
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

/// Restarts Lisp on request, so that earlier deaths do not count any more.
fn restart(client: &mut Client) {
    let before = restarts(client);
    client.text("restart-lisp", json!({}));
    wait_for_restart(client, before);
    comes_back(client);
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
fn lisp_dies_and_comes_back_with_what_was_loaded() {
    let mut server = start("again", &[LOSE]);
    let client = &mut server.client;
    let error = client.error("load-file", json!({ "path": "end-0.lisp" }));
    assert!(error.starts_with("Lisp has died: on purpose") && error.contains("started again"), "{error}");
    comes_back(client);
    // The first answers told of it, and status goes on to.
    let told = client.text("status", json!({}));
    assert!(told.contains("Lisp was started again at") && told.contains("on purpose"), "{told}");
    assert!(told.contains("Loaded again: good.lisp"), "{told}");
    let status = client.call("status", json!({}));
    assert_eq!(status["structuredContent"]["restarts"][0]["loaded_again"][0], "good.lisp", "{status}");
    // Go on in the same session: the protocol's state holds, and ids continue.
    assert!(client.text("who-calls", json!({ "name": "cl:mapcar" })).contains("REMEMBERED"));
    // Of a system, the file is named at which Lisp died.
    std::fs::write(
        server.folder.join("fatal.asd"),
        "(defsystem \"fatal\" :components ((:file \"good\") (:file \"end-0\")))",
    )
    .unwrap();
    let error = client.error("load-system", json!({ "system": "fatal" }));
    assert!(error.contains("when end-0.lisp was being loaded; it is being started again"), "{error}");
    comes_back(client);
    assert!(server.child.try_wait().unwrap().is_none());
    ends_well(server.child, server.client);
    drop(server.folder);
}

#[test]
fn it_comes_back_from_a_snapshot() {
    let mut server = start("again-snapshot", &[LOSE]);
    // Load a system in another session: there is no snapshot of single files.
    ends_well(server.child, server.client);
    let mut command = server_of(&server.folder);
    command.args(["--no-userinit"]);
    (server.child, server.client) = serve(command, Streams::Pipes);
    let client = &mut server.client;
    client.initialize();
    client.text("load-system", json!({ "system": "good" }));
    let process = format!("/proc/{}/maps", server.child.id());
    let from_snapshot = || std::fs::read_to_string(&process).unwrap().contains("/snapshots/");
    // Restart once: Lisp loads the system again, and has a snapshot made.
    restart(client);
    assert!(!from_snapshot());
    let snapshots = server.folder.join("cache/projects/snapshots");
    wait_until("no snapshot was made", || {
        let entries = std::fs::read_dir(&snapshots).into_iter().flatten().flatten();
        entries.into_iter().any(|entry| entry.path().extension().is_none())
    });
    let before = restarts(client);
    let error = client.error("load-file", json!({ "path": "end-0.lisp" }));
    assert!(error.starts_with("Lisp has died: on purpose"), "{error}");
    wait_for_restart(client, before);
    comes_back(client);
    assert!(from_snapshot());
    ends_well(server.child, server.client);
}

#[test]
fn a_crash_loop_stops_and_the_index_goes_on() {
    let begun = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let mut server = start("again-loop", &[LOSE]);
    let client = &mut server.client;
    for death in 1..=3 {
        let error = client.error("load-file", json!({ "path": "end-0.lisp" }));
        assert!(error.starts_with("Lisp has died: on purpose"), "{error}");
        if death < 3 {
            comes_back(client);
        }
    }
    wait_until("it is started again", || {
        client.text("status", json!({})).contains("3 times within a minute")
    });
    let error = client.error("describe-symbol", json!({ "name": "cl:car" }));
    assert!(error.contains("call restart-lisp"), "{error}");
    let answer = client.call("who-calls", json!({ "name": "cl:mapcar" }));
    assert!(answer["structuredContent"]["count"].as_u64().unwrap() > 300);
    // The answer is of the image as it was at the death.
    let died = answer["structuredContent"]["as_of"].as_u64().unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!((begun..=now).contains(&died), "{begun} {died} {now}");
    let as_of = format!("as of {:02}:{:02} UTC", died / 3600 % 24, died / 60 % 60);
    let notes = answer["content"].as_array().unwrap().iter().filter_map(|part| part["text"].as_str());
    assert!(notes.collect::<String>().contains(&as_of), "{answer}");
    client.text("restart-lisp", json!({}));
    comes_back(client);
    ends_well(server.child, server.client);
}

/// A way in which code ends Lisp, and whether all questions beside it are still answered: not if the code
/// first damages what they need. A way that costs only an answer is accepted too.
#[derive(serde::Deserialize)]
struct End {
    form: String,
    spared: bool,
}

/// Lists the ways that `tests/sdk.sh` tries, too: ends of the runtime, also in other threads, by signals, in
/// the compiler, the reader and C's heap, by stack and heap exhaustion, during garbage collection, and by
/// leaving Lisp alive but useless.
fn ways_to_end() -> Vec<End> {
    serde_json::from_str(include_str!("../sdk/ends.json")).unwrap()
}

#[test]
fn every_request_has_one_answer_however_lisp_ends() {
    let ends_of_lisp = ways_to_end();
    let forms: Vec<&str> = ends_of_lisp.iter().map(|end| end.form.as_str()).collect();
    let mut server = start("again-many", &forms);
    let client = &mut server.client;
    assert_eq!(forms.len(), 20);
    let mut died = 0;
    for (end, End { form, spared }) in ends_of_lisp.iter().enumerate() {
        let before = restarts(client);
        // Eight in flight, of every kind; Lisp ends among them, and some come while the program is executed again.
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
        // Wait for the restart that follows also where the code costs only an answer; then request another
        // one.
        let mut ended = restarts(client) != before;
        for (id, tool) in asked {
            let response = client.response(id);
            let text = response["result"]["content"][0]["text"].as_str().unwrap_or_default();
            let failed = response["result"]["isError"] == true || response["error"].is_object();
            let answered = match tool {
                "who-calls" => text.lines().count() > 300,
                "describe-symbol" => text.starts_with("COMMON-LISP::CAR [FUNCTION]"),
                "find-definition" => text.to_uppercase().contains("REMEMBERED"),
                _ => text.contains("end-"),
            };
            ended |= text.contains("Lisp has died") || response["error"].is_object();
            let may_fail = !spared || tool == "load-file";
            assert!(answered && !failed || failed && may_fail, "{form}: {tool}: {response}");
        }
        if ended {
            died += 1;
            wait_for_restart(client, before);
        }
        restart(client);
    }
    // Recursion in clean-up forms ends Lisp no more.
    assert!(died >= 11, "{died}");
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

    /// Asserts that `server` comes to hold no more, but for a few threads, which come and go.
    fn assert_no_more_in(&self, server: &Server) {
        // The index of a tree in which our cache lies may be about to take a file of it that was there for a moment.
        let patience = Instant::now() + Duration::from_secs(60);
        let mut now = Self::now(server);
        while now.files != self.files && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(50));
            now = Self::now(server);
        }
        assert_eq!(now.files, self.files);
        // A watch, of two descriptors, may not have begun yet.
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
    let die = |client: &mut Client| {
        let before = restarts(client);
        let error = client.error("load-file", json!({ "path": "end-0.lisp" }));
        assert!(error.starts_with("Lisp has died: on purpose"), "{error}");
        // The third in a minute is asked for.
        comes_back(client);
        wait_for_restart(client, before);
    };
    (0..3).for_each(|_| die(&mut server.client));
    let before = Held::now(&server);
    (3..deaths).for_each(|_| die(&mut server.client));
    assert!(restarts(&mut server.client) >= deaths);
    before.assert_no_more_in(&server);
    ends_well(server.child, server.client);
}

/// Checks that a running load fails and is not repeated by the next image, and that a waiting question is
/// repeated.
#[test]
fn a_running_load_is_told_that_lisp_was_started_again() {
    let mut server = start("again-running", &[]);
    let client = &mut server.client;
    let call = |tool: &str, arguments: Value| json!({ "name": tool, "arguments": arguments });
    let slow = client.begin("tools/call", call("load-file", json!({ "path": "slow.lisp" })));
    wait_while(|| !client.status()["loading"].as_bool().unwrap());
    client.text("restart-lisp", json!({}));
    let waiting = client.begin("tools/call", call("describe-symbol", json!({ "name": "cl:car" })));
    let response = client.response(slow);
    let message = "Lisp was started again while this ran. What was done of it is lost: ask again.";
    assert_eq!(
        response["error"],
        json!({ "code": -32603, "message": message, "data": { "passing": true } }),
        "{response}"
    );
    let response = client.response(waiting);
    assert_eq!(response["result"]["isError"], false, "{response}");
    comes_back(client);
    assert!(!client.text("status", json!({})).contains("slow.lisp"));
    ends_well(server.child, server.client);
}

#[test]
fn what_kills_lisp_twice_is_not_loaded_again_by_itself() {
    let mut server = start("deadly", &[]);
    let client = &mut server.client;
    let path = server.folder.join("moody.lisp");
    let load = |client: &mut Client| {
        let call = json!({ "name": "load-file", "arguments": { "path": "moody.lisp" } });
        client.request("tools/call", call)
    };
    std::fs::write(&path, "(list 1)").unwrap();
    assert_eq!(load(client)["result"]["structuredContent"]["status"], "loaded");
    // Change the loaded file, so that Lisp dies when it is loaded again.
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
    let status = client.text("status", json!({}));
    assert!(
        status.contains("Not loaded again, as Lisp died twice while it was loaded: moody.lisp."),
        "{status}"
    );
    // Correct the file, and load it on request.
    std::fs::write(&path, "(list 2)").unwrap();
    assert_eq!(load(client)["result"]["structuredContent"]["status"], "loaded");
    ends_well(server.child, server.client);
}

/// Checks that a test that kills Lisp costs only that test and those after it: the earlier results are told,
/// and the session goes on.
#[test]
fn a_test_that_lisp_dies_of_is_told_by_name() {
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
    let described = client.text("describe-symbol", json!({ "name": "cl:car" }));
    assert!(described.starts_with("COMMON-LISP::CAR [FUNCTION]"), "{described}");
    ends_well(child, client);
}
