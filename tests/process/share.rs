//! Tests of `serve --share`: many clients use one image, and each has its own permissions, edits
//! and objects.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::child::{small_or_full, wait_while};
use crate::client::Client;
use crate::program::{Folder, Streams, ask, ends_well, initialized, serve, server};
use crate::texts::expect_text;

const LOSE: &str = "(sb-alien:alien-funcall (sb-alien:extern-alien \"lose\" (function sb-alien:void sb-alien:c-string)) \"on purpose\")";

/// Writes a project with a function for each client.
pub(crate) fn project(name: &str) -> Folder {
    let folder = Folder::new(name);
    std::fs::create_dir(folder.0.join("project")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.0.join("project").join(name), text).unwrap();
    write("shop.asd", "(defsystem \"shop\" :components ((:file \"shop\")))");
    let definitions: String = (0..8)
        .map(|number| format!("(defun cl-user::of-client-{number} (list) (mapcar #'car list))\n"))
        .collect();
    write("shop.lisp", &format!("(in-package :cl-user)\n{definitions}"));
    write("end.lisp", LOSE);
    folder
}

/// Joins the image of the project in `folder`, with these options.
pub(crate) fn join(folder: &Folder, options: &[&str]) -> (Child, Client) {
    initialized(sharing(folder, options), Streams::Pipes)
}

fn sharing(folder: &Folder, options: &[&str]) -> Command {
    let mut command = server();
    command.args(["--share", "--linger", "1", "--no-userinit", "--system", "shop"]).args(options);
    command.current_dir(folder.0.join("project")).env("STEELBANK_CACHE", folder.0.join("cache"));
    command
}

/// Returns the host that `status` reports.
pub(crate) fn host(client: &mut Client) -> Value {
    client.call("status", json!({}))["structuredContent"]["host"].clone()
}

pub(crate) fn lives(process: &Value) -> bool {
    Path::new(&format!("/proc/{process}")).exists()
}

pub(crate) fn loaded(client: &mut Client) {
    wait_while(|| client.call("status", json!({}))["structuredContent"]["loading"] == true);
}

/// Disconnects all clients, and waits until the host has ended.
pub(crate) fn end(clients: Vec<(Child, Client)>, host: &Value) {
    clients.into_iter().for_each(|(child, client)| ends_well(child, client));
    wait_while(|| lives(host));
}

#[test]
fn commands_ask_the_shared_lisp() {
    let folder = project("share-command");
    let root = folder.0.join("project");
    let loads = folder.0.join("loads");
    let mark = format!(
        "(with-open-file (out {loads:?} :direction :output :if-exists :append :if-does-not-exist :create) (print 1 out))"
    );
    std::fs::write(root.join("mark.lisp"), mark).unwrap();
    let asd = "(defsystem \"shop\" :components ((:file \"shop\") (:file \"mark\")))";
    std::fs::write(root.join("shop.asd"), asd).unwrap();
    let ask = |arguments: &[&str], expected_loads: usize| {
        let options = ["--no-snapshot", "--system", "shop"];
        let answer = ask(&root, &folder.0.join("cache"), &[&options, arguments].concat());
        let loaded = std::fs::read_to_string(&loads).unwrap_or_default().split_whitespace().count();
        assert_eq!(loaded, expected_loads, "{arguments:?} {answer:?}");
        answer
    };
    let calls: [&[&str]; 5] = [
        &["who-calls", "cl:car"],
        &["--json", "describe-symbol", "of-client-1"],
        &["outline", "shop.lisp", "-c"],
        &["describe-symbol", "nowhere"],
        &["code-find-references", "mapcar", "--package", "cl"],
    ];
    let separate: Vec<_> = (1..).zip(calls).map(|(loads, call)| ask(call, loads)).collect();
    let mut client = join(&folder, &["--no-snapshot"]);
    loaded(&mut client.1);
    for (call, expected) in calls.iter().zip(&separate) {
        assert_eq!(ask(call, 6), *expected, "{call:?}");
    }
    // Another image, a tool that runs code, and text that the shared Lisp has not loaded.
    ask(&["evaluate", "(+ 1 2)"], 7);
    let text = std::fs::read_to_string(root.join("shop.lisp")).unwrap();
    std::fs::write(root.join("shop.lisp"), text + "(defun cl-user::later () (cl-user::of-client-1 '()))\n")
        .unwrap();
    let (answer, ..) = ask(&["who-calls", "of-client-1"], 8);
    assert!(answer.contains("LATER"), "{answer}");
    let host = host(&mut client.1);
    end(vec![client], &host);
    ask(calls[0], 9);
}

#[test]
fn clients_share_a_host_that_ends_after_them() {
    let folder = project("share-one");
    let mut first = join(&folder, &["--allow-eval"]);
    let mut second = join(&folder, &["--tools", "read,restart-lisp"]);
    loaded(&mut first.1);
    let (one, two) = (host(&mut first.1), host(&mut second.1));
    assert_eq!(one["process"], two["process"]);
    assert_ne!(one["process"], first.0.id());
    assert_ne!(one["you"], two["you"]);
    assert_eq!(two["clients"].as_array().unwrap().len(), 2, "{two}");
    assert_eq!(two["clients"][0]["name"], "tests 1");
    assert_eq!(two["clients"][0]["process"], first.0.id());
    assert_eq!(two["clients"][0]["allowed"], json!(["--allow-eval"]));
    assert_eq!(two["clients"][1]["allowed"], json!([]));
    // Clients share definitions, but not permissions.
    first.1.text("evaluate", json!({ "code": "(defun cl-user::fresh () 7)" }));
    assert!(second.1.text("describe-symbol", json!({ "name": "fresh" })).contains("::FRESH"));
    let refused = second
        .1
        .request("tools/call", json!({ "name": "evaluate", "arguments": { "code": "(cl-user::fresh)" } }));
    expect_text("tool without permission", refused["error"]["message"].as_str().unwrap());
    // A restart needs `force` because of the other clients.
    expect_text("restart refused", &second.1.error("restart-lisp", json!({})));
    assert!(first.1.text("describe-symbol", json!({ "name": "fresh" })).contains("::FRESH"));
    second.1.text("restart-lisp", json!({ "force": true }));
    wait_while(|| {
        first.1.call("describe-symbol", json!({ "name": "fresh" })).to_string().contains("FUNCTION")
    });
    // Both clients see the restart, in the same host.
    for (_, client) in [&mut first, &mut second] {
        let status = client.call("status", json!({}));
        assert_eq!(status["structuredContent"]["host"]["process"], one["process"], "{status}");
        assert_eq!(status["structuredContent"]["restarts"].as_array().unwrap().len(), 1, "{status}");
    }
    // Another image has another host.
    let mut command = sharing(&folder, &[]);
    command.arg("--no-snapshot");
    let mut third = initialized(command, Streams::Pipes);
    let three = host(&mut third.1);
    assert_ne!(three["process"], one["process"]);
    end(vec![third], &three["process"]);
    // The host outlives a killed client, and lingers after the last client.
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    wait_while(|| host(&mut second.1)["clients"].as_array().unwrap().len() > 1);
    // The killed client's streams are closed.
    first.1.leave();
    ends_well(second.0, second.1);
    let (child, mut client) = join(&folder, &[]);
    assert_eq!(host(&mut client)["process"], one["process"], "the host lingers for the next client");
    end(vec![(child, client)], &one["process"]);
    let left: Vec<_> = std::fs::read_dir(folder.0.join("cache/hosts")).unwrap().flatten().collect();
    assert!(left.iter().all(|entry| !entry.file_name().to_string_lossy().ends_with(".socket")), "{left:?}");
}

#[test]
fn each_client_undoes_its_own_renames() {
    let folder = project("share-undo");
    let mut first = join(&folder, &["--allow-edits"]);
    let mut second = join(&folder, &["--allow-edits"]);
    loaded(&mut first.1);
    let renamed = json!({ "name": "of-client-1", "new_name": "renamed", "apply": true });
    let answer = first.1.call("rename", renamed);
    assert_eq!(answer["structuredContent"]["applied"], true, "{answer}");
    let text = || std::fs::read_to_string(folder.0.join("project/shop.lisp")).unwrap();
    assert!(text().contains("cl-user::renamed "), "{}", text());
    let missing = second.1.call("rename", json!({ "undo": "last" }));
    let no_rename = missing["content"][0]["text"].as_str().unwrap();
    expect_text("no rename to undo", no_rename);
    assert!(text().contains("cl-user::renamed "), "{}", text());
    // A client's edits outlive a restart of the image.
    second.1.text("restart-lisp", json!({ "force": true }));
    wait_while(|| first.1.call("status", json!({}))["structuredContent"]["restarts"].is_null());
    first.1.text("rename", json!({ "undo": "last" }));
    assert!(text().contains("cl-user::of-client-1 "), "{}", text());
    let missing = first.1.call("rename", json!({ "undo": "last" }));
    assert!(missing["content"][0]["text"].as_str().unwrap().starts_with(no_rename), "{missing}");
    let host = host(&mut first.1)["process"].clone();
    end(vec![first, second], &host);
}

#[test]
fn each_client_inspects_its_own_objects() {
    let folder = project("share-handles");
    let mut first = join(&folder, &["--allow-eval"]);
    let mut second = join(&folder, &["--allow-eval"]);
    loaded(&mut first.1);
    let handle = |client: &mut Client| {
        let answer = client.call("evaluate", json!({ "code": "(list 1 2)" }));
        json!({ "handle": answer["structuredContent"]["values"][0]["handle"] })
    };
    let (own, others) = (handle(&mut first.1), handle(&mut second.1));
    let inspected = first.1.call("inspect", own.clone());
    assert_eq!(inspected["structuredContent"]["count"], 2, "{inspected}");
    assert_eq!(first.1.call("inspect", others)["structuredContent"]["status"], "unknown");
    assert_eq!(second.1.call("inspect", own)["structuredContent"]["status"], "unknown");
    let host = host(&mut first.1)["process"].clone();
    end(vec![first, second], &host);
}

/// Counts of a client's requests: answered, and interrupted by a restart.
#[derive(Debug, Default)]
struct Tally {
    answered: usize,
    cut: usize,
}

/// Sends `count` mixed requests, several at a time, as client `number`, and checks each answer.
fn ask_mixed(client: &mut Client, number: usize, may_evaluate: bool, count: usize) -> Tally {
    let mut tally = Tally::default();
    let mut next = 0;
    while next < count {
        let batch: Vec<(usize, u64)> = (next..(next + 5).min(count))
            .map(|at| {
                let (name, arguments) = match at % 5 {
                    0 => ("describe-symbol", json!({ "name": format!("of-client-{number}") })),
                    1 => ("evaluate", json!({ "code": format!("(list {number} {at})") })),
                    2 => ("status", json!({})),
                    3 => ("who-calls", json!({ "name": "cl:mapcar", "limit": number + 1 })),
                    _ => ("evaluate", json!({ "code": "(sleep 0.002)" })),
                };
                (at, client.begin("tools/call", json!({ "name": name, "arguments": arguments })))
            })
            .collect();
        next += batch.len();
        // Cancel one request: it is answered at most once.
        let called_off = batch.last().filter(|(at, _)| at % 5 == 4).map(|(_, id)| *id);
        if let Some(id) = called_off {
            let params = json!({ "requestId": id });
            client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
        }
        for (at, id) in batch.into_iter().filter(|(_, id)| Some(*id) != called_off) {
            let response = client.response(id);
            tally.answered += 1;
            if let Some(why) = response["error"]["message"].as_str() {
                // A restart fails only calls that run code.
                assert!(at % 5 == 1 && response["error"]["data"]["passing"] == true, "{why}");
                tally.cut += 1;
                continue;
            }
            let text = response["result"]["content"][0]["text"].as_str().unwrap();
            match at % 5 {
                0 if text.contains("COMMON-LISP-USER::") => {
                    assert!(text.contains(&format!("OF-CLIENT-{number} [")), "{response}");
                    // During the reload, the symbol may have no definition yet: `loading` must be
                    // set.
                    let is_loading = response["result"]["structuredContent"]["loading"] == true;
                    assert!(is_loading || text.contains("[FUNCTION]"), "{response}");
                }
                1 if !may_evaluate => assert!(text.contains("--allow-eval"), "{response}"),
                1 if response["result"]["isError"] == false => {
                    assert!(text.starts_with(&format!("({number} {at})\n")), "{response}");
                }
                0 if response["result"]["structuredContent"]["found"] == false => {
                    assert_eq!(response["result"]["structuredContent"]["loading"], true, "{response}");
                }
                2 => {
                    let host = &response["result"]["structuredContent"]["host"];
                    let clients = host["clients"].as_array().unwrap();
                    let own = clients.iter().find(|client| client["number"] == host["you"]).unwrap();
                    assert_eq!(own["allowed"].as_array().unwrap().len(), usize::from(may_evaluate), "{host}");
                }
                3 => {
                    let entries = response["result"]["structuredContent"]["entries"].as_array().map(Vec::len);
                    assert!(entries.is_none_or(|entries| entries <= number + 1), "{response}");
                }
                // Lisp died or is restarting.
                _ => assert_eq!(response["result"]["isError"], true, "{response}"),
            }
        }
    }
    // The client stores any answers to cancelled calls while it waits for this answer.
    client.request("ping", json!({}));
    tally
}

#[test]
fn concurrent_clients_get_only_their_answers() {
    let requests = small_or_full(1000, 10_000);
    let folder = project("share-eight");
    let mut clients: Vec<(Child, Client)> =
        (0..8).map(|number| join(&folder, if number % 2 == 0 { &["--allow-eval"] } else { &[] })).collect();
    loaded(&mut clients[0].1);
    let process = host(&mut clients[0].1)["process"].clone();
    let begun = Instant::now();
    let tallies = std::thread::scope(|scope| {
        let busy: Vec<_> = clients
            .iter_mut()
            .enumerate()
            .map(|(number, (_, client))| {
                scope.spawn(move || ask_mixed(client, number, number % 2 == 0, requests))
            })
            .collect();
        // Meanwhile, other clients connect, send requests and are killed. Lisp dies, and is
        // restarted.
        let mut round = 0;
        while !busy.iter().all(|thread| thread.is_finished()) {
            let (mut child, mut client) = join(&folder, &["--allow-eval"]);
            let call = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
            match round {
                // A restart for another reason may interrupt the call: repeat it.
                1 => {
                    let end = || call("load-file", json!({ "path": "end.lisp" }));
                    wait_while(|| !client.request("tools/call", end()).to_string().contains("on purpose"));
                }
                3 => drop(client.request("tools/call", call("restart-lisp", json!({ "force": true })))),
                _ => {
                    for _ in 0..3 {
                        client.begin("tools/call", call("evaluate", json!({ "code": "(sleep 0.05)" })));
                    }
                    std::thread::sleep(Duration::from_millis(200));
                }
            }
            child.kill().unwrap();
            child.wait().unwrap();
            round += 1;
        }
        assert!(round > 3, "the clients were done before the restarts");
        busy.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<Tally>>()
    });
    println!("{requests} requests of each in {:?}: {tallies:?}", begun.elapsed());
    // Each call that was not cancelled has one answer.
    let expected = requests - requests / 5;
    assert!(tallies.iter().all(|tally| tally.answered == expected), "{tallies:?}");
    wait_while(|| host(&mut clients[0].1)["clients"].as_array().unwrap().len() > 8);
    let status = clients[0].1.call("status", json!({}));
    let restarts = status["structuredContent"]["restarts"].as_array().unwrap();
    assert!(
        restarts.iter().any(|restart| restart["why"].as_str().unwrap().contains("on purpose")),
        "{status}"
    );
    assert!(restarts.len() > 1, "{status}");
    assert_eq!(host(&mut clients[7].1)["process"], process, "the same process");
    end(clients, &process);
}

/// Returns the proportional set size of a process in KiB.
fn memory(process: &Value) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap();
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn five_clients_need_at_most_half_more_memory() {
    let folder = project("share-memory");
    // Give the project the dependencies and data of a typical project.
    let held = "(defvar cl-user::*held* (make-array 4000000 :initial-element 7))\n";
    let path = folder.0.join("project/shop.lisp");
    std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + held).unwrap();
    let needed =
        "\"sb-posix\" \"sb-cltl2\" \"sb-introspect\" \"sb-bsd-sockets\" \"sb-md5\" \"sb-rotate-byte\"";
    let system = format!("(defsystem \"shop\" :depends-on ({needed}) :components ((:file \"shop\")))");
    std::fs::write(folder.0.join("project/shop.asd"), system).unwrap();
    let ask = |client: &mut Client, number: usize| {
        loaded(client);
        for _ in 0..20 {
            client.text("describe-symbol", json!({ "name": format!("of-client-{number}") }));
            client.text("who-calls", json!({ "name": "cl:mapcar" }));
            client.text("list-systems", json!({}));
        }
    };
    let mut command = server();
    command.args(["--no-userinit", "--system", "shop"]).current_dir(folder.0.join("project"));
    command.env("STEELBANK_CACHE", folder.0.join("cache"));
    let (alone, mut private) = initialized(command, Streams::Pipes);
    ask(&mut private, 0);
    let mut clients: Vec<(Child, Client)> = (0..5).map(|_| join(&folder, &[])).collect();
    clients.iter_mut().enumerate().for_each(|(number, (_, client))| ask(client, number));
    // Measure while all processes are alive, because they share the pages of one program.
    let process = host(&mut clients[0].1)["process"].clone();
    let one = memory(&json!(alone.id()));
    let (kept, five) =
        (memory(&process), clients.iter().map(|(child, _)| memory(&json!(child.id()))).sum::<u64>());
    println!("seen: one alone {one} KiB; a host {kept} KiB, and its five clients {five} KiB");
    assert!(2 * (kept + five) <= 3 * one, "{one} {kept} {five}");
    ends_well(alone, private);
    end(clients, &process);
}

/// Clients that do not read delay neither a restart nor a death's recovery, and miss no answer.
#[test]
fn unread_answers_survive_restarts() {
    let folder = project("share-unread");
    let mut good = join(&folder, &["--allow-eval"]);
    let process = host(&mut good.1)["process"].clone();
    loaded(&mut good.1);
    let mut silent: Vec<_> = (0..6).map(|_| join(&folder, &["--tools", "all"])).collect();
    let ids: Vec<Vec<u64>> = silent
        .iter_mut()
        .map(|(_, client)| (0..20).map(|_| client.begin("tools/list", json!({}))).collect())
        .collect();
    good.1.text("restart-lisp", json!({ "force": true }));
    assert_eq!(good.1.status()["restarts"].as_array().unwrap().len(), 1);
    good.1.error("load-file", json!({ "path": "end.lisp" }));
    let status = good.1.status();
    assert_eq!(status["restarts"].as_array().unwrap().len(), 2, "{status}");
    wait_while(|| host(&mut good.1)["clients"].as_array().unwrap().len() < 7);
    for ((_, client), ids) in silent.iter_mut().zip(ids) {
        for id in ids {
            assert!(client.response(id)["result"]["tools"].is_array());
        }
    }
    silent.push(good);
    end(silent, &process);
}

/// Clients that stop during their handover block nobody, and the host survives without free
/// descriptors.
#[test]
fn host_survives_broken_handovers() {
    let folder = project("share-half");
    let mut first = join(&folder, &["--allow-eval"]);
    let process = host(&mut first.1)["process"].clone();
    let mut sockets =
        std::fs::read_dir(folder.0.join("cache/hosts")).unwrap().flatten().map(|entry| entry.path());
    let socket = sockets.find(|path| path.extension().is_some_and(|it| it == "socket")).unwrap();
    let halves: Vec<_> = [&b""[..], b"{\"image\":", b"{}\n", b"\0\xff\n", &[b'x'; 3 << 20]]
        .into_iter()
        .map(|said| {
            let mut stream = UnixStream::connect(&socket).unwrap();
            // The host stops reading a handover that is too long.
            let _ = stream.write_all(said);
            stream
        })
        .collect();
    let second = join(&folder, &[]);
    let limit = rustix::process::Rlimit { current: Some(256), maximum: Some(256) };
    let number = rustix::process::Pid::from_raw(i32::try_from(process.as_i64().unwrap()).unwrap());
    rustix::process::prlimit(number, rustix::process::Resource::Nofile, limit).unwrap();
    let hold =
        "(defvar cl-user::*held* (loop for number = (sb-alien:alien-funcall (sb-alien:extern-alien \"dup\"
                  (function sb-alien:int sb-alien:int)) 2) while (plusp number) collect number))";
    first.1.text("evaluate", json!({ "code": hold }));
    let (child, mut client) = serve(sharing(&folder, &[]), Streams::Pipes);
    // Meanwhile, the host fails to accept the connection.
    std::thread::sleep(Duration::from_millis(500));
    // Then the host has free descriptors, but too few to serve a client.
    for _ in 0..3 {
        first.1.text(
            "evaluate",
            json!({ "code": "(loop repeat 2 do (sb-unix:unix-close (pop cl-user::*held*)))" }),
        );
        std::thread::sleep(Duration::from_millis(300));
    }
    let told = first.1.text("evaluate", json!({ "code": "(mapc #'sb-unix:unix-close cl-user::*held*)" }));
    client.initialize();
    assert_eq!(host(&mut client)["process"], process, "{told}");
    end(vec![first, second, (child, client)], &process);
    drop(halves);
}
