//! Lisp's death survived in place: the same process, the same client, every request answered once.

use std::collections::HashMap;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::Client;
use crate::program::{Folder, Streams, ends, serve, server};

struct Server {
    child: Child,
    client: Client,
    folder: Folder,
}

/// A server of a project with a file to load, and one that ends Lisp for each of `ends_of_lisp`.
fn start(name: &str, ends_of_lisp: &[&str]) -> Server {
    let folder = Folder::new(name);
    let write = |name: &str, text: &str| std::fs::write(folder.0.join(name), text).unwrap();
    write("good.asd", "(defsystem \"good\" :components ((:file \"good\")))");
    write("good.lisp", "(defun cl-user::remembered (list) \"Kept.\" (mapcar #'car list))");
    write("slow.lisp", "(sleep 100)");
    for (number, form) in ends_of_lisp.iter().enumerate() {
        write(&format!("end-{number}.lisp"), form);
    }
    let mut command = server();
    command.current_dir(&folder.0).env("STEELBANK_CACHE", folder.0.join("cache"));
    command.args(["--no-userinit"]);
    let (child, mut client) = serve(command, Streams::Pipes);
    client.initialize();
    let loaded = client.call("load-file", json!({ "path": "good.lisp" }));
    assert_eq!(loaded["isError"], false, "{loaded}");
    Server { child, client, folder }
}

const LOSE: &str = "(sb-alien:alien-funcall (sb-alien:extern-alien \"lose\" (function sb-alien:void sb-alien:c-string)) \"on purpose\")";

/// What describe-symbol says once Lisp is there and has loaded again what it had. Calls restart-lisp where it must.
fn comes_back(client: &mut Client) -> Value {
    let patience = Instant::now();
    loop {
        assert!(patience.elapsed() < Duration::from_secs(60), "{}", client.call("status", json!({})));
        let asked = json!({ "name": "describe-symbol", "arguments": { "name": "remembered" } });
        let response = client.request("tools/call", asked);
        if !response["error"].is_null() {
            // It ran when the program was executed again, and says so.
            assert_eq!(response["error"]["code"], -32603, "{response}");
            continue;
        }
        let described = response["result"].clone();
        let text = described["content"][0]["text"].as_str().unwrap();
        if text.starts_with("COMMON-LISP-USER::REMEMBERED [FUNCTION]") {
            return described;
        }
        if text.contains("restart-lisp") {
            client.text("restart-lisp", json!({}));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
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
    // The session is the same: what was agreed holds, and ids go on.
    assert!(client.text("who-calls", json!({ "name": "cl:mapcar" })).contains("REMEMBERED"));
    assert!(server.child.try_wait().unwrap().is_none());
    drop(server.client);
    assert_eq!(ends(server.child).code(), Some(0));
    drop(server.folder);
}

#[test]
fn a_crash_loop_stops_and_the_index_goes_on() {
    let mut server = start("again-loop", &[LOSE]);
    let client = &mut server.client;
    for death in 1..=3 {
        let error = client.error("load-file", json!({ "path": "end-0.lisp" }));
        assert!(error.starts_with("Lisp has died: on purpose"), "{error}");
        if death < 3 {
            comes_back(client);
        }
    }
    let patience = Instant::now();
    loop {
        let status = client.text("status", json!({}));
        if status.contains("3 times within a minute") {
            break;
        }
        assert!(patience.elapsed() < Duration::from_secs(30), "{status}");
        std::thread::sleep(Duration::from_millis(10));
    }
    let error = client.error("describe-symbol", json!({ "name": "cl:car" }));
    assert!(error.contains("call restart-lisp"), "{error}");
    assert!(client.text("who-calls", json!({ "name": "cl:mapcar" })).lines().count() > 300);
    client.text("restart-lisp", json!({}));
    comes_back(client);
    drop(server.client);
    assert_eq!(ends(server.child).code(), Some(0));
}

/// The ways in which code ends Lisp. Where one only costs an answer, so much the better.
const ENDS: &[&str] = &[
    LOSE,
    "(sb-alien:alien-funcall (sb-alien:extern-alien \"abort\" (function sb-alien:void)))",
    "(sb-sys:%primitive sb-c:halt)",
    "(sb-thread:join-thread (sb-thread:make-thread (lambda ()
       (sb-alien:alien-funcall (sb-alien:extern-alien \"abort\" (function sb-alien:void))))))",
    "(sb-alien:alien-funcall (sb-alien:extern-alien \"raise\" (function sb-alien:int sb-alien:int)) 6)",
    "(sb-alien:alien-funcall (sb-alien:extern-alien \"raise\" (function sb-alien:int sb-alien:int)) 4)",
    "(labels ((f (n) (unwind-protect (1+ (f (1+ n))) (f n)))) (f 0))",
    "(loop for a from (+ sb-vm:dynamic-space-start 65536) by 8 repeat 2000000
           do (setf (sb-sys:sap-ref-64 (sb-sys:int-sap a) 0) 7))",
    "(progn (sb-int:unencapsulate 'sb-kernel::post-gc 'steelbank::steelbank)
            (let ((list '())) (loop (push (make-array 100000) list))))",
    "(progn (push (lambda () (sb-sys:%primitive sb-c:halt)) sb-ext:*after-gc-hooks*) (sb-ext:gc :full t) (sleep 5))",
];

#[test]
fn every_request_has_one_answer_while_lisp_dies() {
    let mut server = start("again-many", ENDS);
    let client = &mut server.client;
    let mut asked: HashMap<u64, &str> = HashMap::new();
    let ask = |client: &mut Client,
               asked: &mut HashMap<u64, &'static str>,
               tool: &'static str,
               arguments: Value| {
        let id = client.begin("tools/call", json!({ "name": tool, "arguments": arguments }));
        asked.insert(id, tool);
        id
    };
    for end in 0..ENDS.len() {
        // Eight in flight, of every kind; Lisp dies among them, and some come while the program is executed again.
        for round in 0..3 {
            ask(client, &mut asked, "who-calls", json!({ "name": "cl:mapcar" }));
            ask(client, &mut asked, "describe-symbol", json!({ "name": "cl:car" }));
            if round == 1 {
                ask(
                    client,
                    &mut asked,
                    "load-file",
                    json!({ "path": format!("end-{end}.lisp"), "timeout_seconds": 20 }),
                );
            }
            ask(client, &mut asked, "find-definition", json!({ "name": "cl:car" }));
        }
        let ids: Vec<u64> = asked.keys().copied().collect();
        for id in ids {
            let tool = asked.remove(&id).unwrap();
            let response = client.response(id);
            let text = response["result"]["content"][0]["text"].as_str().unwrap_or_default();
            let answered = match tool {
                "who-calls" => text.starts_with("Functions that call") || text.lines().count() > 300,
                "describe-symbol" => text.starts_with("COMMON-LISP::CAR [FUNCTION]"),
                _ => !text.is_empty(),
            };
            let failed = response["result"]["isError"] == true || response["error"].is_object();
            assert!(answered || failed, "{tool}: {response}");
        }
        comes_back(client);
    }
    drop(server.client);
    assert_eq!(ends(server.child).code(), Some(0));
}

#[test]
fn restarts_leak_nothing() {
    let mut server = start("again-leaks", &[LOSE]);
    let client = &mut server.client;
    let restart = |client: &mut Client| {
        // What waits while the program is executed again is answered by what comes after.
        client.text("restart-lisp", json!({}));
        comes_back(client);
    };
    (0..3).for_each(|_| restart(client));
    let before = descriptors(&server.child);
    let threads = |child: &Child| std::fs::read_dir(format!("/proc/{}/task", child.id())).unwrap().count();
    let many = threads(&server.child);
    (0..20).for_each(|_| restart(client));
    let after = descriptors(&server.child);
    assert!(after.len() <= before.len() + 1, "{before:?} {after:?}");
    assert!(threads(&server.child) <= many + 3);
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", server.child.id())).unwrap();
    assert!(!maps.contains("steelbank-handover"), "{maps}");
    drop(server.client);
    assert_eq!(ends(server.child).code(), Some(0));
}

/// The request fails, and the next image does not begin it again.
#[test]
#[ignore = "a race: some loads run to their end (100 s) before the restart is answered; the cause is not found yet"]
fn a_running_load_is_told_that_lisp_was_started_again() {
    let mut server = start("again-running", &[]);
    let client = &mut server.client;
    // A load that runs is ended with Lisp: the request fails, and is not begun again by the next image.
    let slow =
        client.begin("tools/call", json!({ "name": "load-file", "arguments": { "path": "slow.lisp" } }));
    std::thread::sleep(Duration::from_millis(300));
    client.text("restart-lisp", json!({}));
    let response = client.response(slow);
    let message = "Lisp was started again while this ran. What was done of it is lost: ask again.";
    assert_eq!(response["error"], json!({ "code": -32603, "message": message }), "{response}");
    comes_back(client);
    assert!(!client.text("status", json!({})).contains("slow.lisp"));
    drop(server.client);
    assert_eq!(ends(server.child).code(), Some(0));
}
