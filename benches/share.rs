//! Compares an image shared by five clients with an unshared image: processor time and duration of
//! calls, and memory. Both serve the same project at the same time, and calls alternate between
//! both. Run with `cargo bench --bench share`; `-- ROUNDS` sets the number of rounds.
//!
//! Processor time is that of the server, or of the host and all its clients. Memory is the
//! proportional set size, which divides shared pages among their processes.

// Clippy counts only functions marked #[test] as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, missing_docs)]

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

#[path = "../tests/client/mod.rs"]
mod client;
#[allow(dead_code)]
mod common;
#[allow(dead_code)]
#[path = "../tests/it/fixtures.rs"]
mod fixtures;

use client::Client;
use common::LIBRARIES;

const CLIENTS: usize = 5;

/// A server or client: its process and the connection to it.
struct Served(Child, Client);

impl Served {
    fn start(root: &Path, cache: &Path, options: &[&str]) -> Self {
        let program = std::env::var_os("STEELBANK_PROGRAM");
        let mut child = Command::new(program.unwrap_or(env!("CARGO_BIN_EXE_steelbank").into()))
            .args(["--no-userinit", "serve", "--system", "share"])
            .args(options)
            .current_dir(root)
            .env("STEELBANK_CACHE", cache)
            .env("CL_SOURCE_REGISTRY", fixtures::library_registry())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut client = Client::new(child.stdin.take().unwrap(), child.stdout.take().unwrap());
        client.initialize();
        while client.status()["loads"].is_null() || client.status()["loading"] == true {
            std::thread::sleep(Duration::from_millis(20));
        }
        Self(child, client)
    }

    fn id(&self) -> u64 {
        self.0.id().into()
    }
}

/// The calls: each tool, its arguments, and how often it is called in a turn. `status` is excluded,
/// because it lists all clients.
const QUESTIONS: [(&str, &str, usize); 5] = [
    ("describe-symbol", r#"{"name":"alexandria:flatten"}"#, 600),
    ("who-references", r#"{"name":"cl:*print-base*"}"#, 1000),
    ("who-calls", r#"{"name":"alexandria:ensure-list"}"#, 400),
    ("code-find-references", r#"{"symbol":"cl-ppcre:scan","project_only":false}"#, 30),
    ("outline", r#"{"package":"split-sequence"}"#, 200),
];

/// Returns the processor time of the processes, including ended threads, in hundredths of a second.
fn processor(processes: &[u64]) -> u64 {
    let of = |process: &u64| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
        fields[11..13].iter().map(|field| field.parse::<u64>().unwrap()).sum::<u64>()
    };
    processes.iter().map(of).sum()
}

/// Returns the proportional set size of the processes in MiB.
fn memory(processes: &[u64]) -> f64 {
    let of = |process: &u64| {
        let rollup = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap();
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() / 1024.0
    };
    processes.iter().map(of).sum()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let rounds: usize = arguments.next().map_or(15, |rounds| rounds.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let (root, cache) = (folder.path().canonicalize().unwrap().join("project"), folder.path().join("cache"));
    fs::create_dir(&root).unwrap();
    let systems = LIBRARIES.map(|system| format!("{system:?}")).join(" ");
    fs::write(root.join("share.asd"), format!("(defsystem \"share\" :depends-on ({systems}))\n")).unwrap();
    // Compile once, so that both sides load from the cache.
    let first = Served::start(&root, &cache, &[]);
    end(vec![first]);

    let mut private = Served::start(&root, &cache, &[]);
    let mut sharing: Vec<Served> =
        (0..CLIENTS).map(|_| Served::start(&root, &cache, &["--share", "--linger", "1"])).collect();
    let host = sharing[0].1.status()["host"]["process"].as_u64().unwrap();
    let alone = vec![private.id()];
    let shared: Vec<u64> = sharing.iter().map(Served::id).chain([host]).collect();

    println!("{} systems, {rounds} rounds of questions, in turns", LIBRARIES.len());
    println!(
        "{:<24} {:>12} {:>12} {:>6} {:>14} {:>14} {:>6}",
        "", "alone, µs", "shared, µs", "", "cpu alone, µs", "cpu shared, µs", ""
    );
    for (tool, arguments, turns) in QUESTIONS {
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let turn = |client: &mut Client, processes: &[u64]| {
            let (before, begun) = (processor(processes), Instant::now());
            for _ in 0..turns {
                let params = json!({ "name": tool, "arguments": arguments });
                assert!(client.request("tools/call", params)["result"]["isError"] == false);
            }
            let time = begun.elapsed().as_secs_f64() * 1e6 / turns as f64;
            (time, processor(processes) - before)
        };
        turn(&mut private.1, &alone);
        turn(&mut sharing[0].1, &shared);
        let (mut times, mut costs) = ([Vec::new(), Vec::new()], [0, 0]);
        for round in 0..rounds {
            // The sides alternate in going first, and the clients take turns.
            for side in [round % 2, 1 - round % 2] {
                let (time, cost) = match side {
                    0 => turn(&mut private.1, &alone),
                    _ => turn(&mut sharing[round % CLIENTS].1, &shared),
                };
                times[side].push(time);
                costs[side] += cost;
            }
        }
        let [one, many] = times.map(median);
        let [cost, shared_cost] = costs.map(|cost| cost as f64 * 1e4 / (rounds * turns) as f64);
        println!(
            "{tool:<24} {one:>12.1} {many:>12.1} {:>5.2}x {:>14.1} {:>14.1} {:>5.2}x",
            many / one,
            cost,
            shared_cost,
            shared_cost / cost
        );
    }
    let (one, many) = (memory(&alone), memory(&shared));
    println!("memory, MiB: unshared {one:.1}, {CLIENTS} clients and host {many:.1}: {:.2}x", many / one);
    println!("the host: {:.1}, each client: {:.1}", memory(&[host]), memory(&shared[..1]));
    end(sharing);
    end(vec![private]);
}

fn end(served: Vec<Served>) {
    for Served(mut child, client) in served {
        client.leave();
        child.wait().unwrap();
    }
}
