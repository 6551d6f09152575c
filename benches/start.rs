//! Process start to first right answer: from a snapshot of a project of many systems, beside the same question about an empty
//! image, in the same run. Run with `cargo bench --bench start`; `-- SYSTEMS RUNS` says how many systems and how often.
//!
//! The project is generated: each system has three files and depends on three others. The figures are medians of whole
//! processes, `steelbank who-calls …`, from start to end.

// Clippy takes only functions marked #[test] for tests.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::panic, missing_docs)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let systems: usize = arguments.next().map_or(100, |systems| systems.parse().unwrap());
    let runs: usize = arguments.next().map_or(21, |runs| runs.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap().join("project");
    write_project(&root, systems);
    let cache = folder.path().join("cache");
    let last = format!("s{}", systems - 1);
    let question = format!("{last}::c-of-{last}");
    let ask = |options: &[&str], name: &str, wanted: &str| -> Duration {
        let begun = Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_steelbank"))
            .args(["--no-userinit", "--project"])
            .arg(&root)
            .args(options)
            .args(["who-calls", name])
            .env("STEELBANK_CACHE", &cache)
            .output()
            .unwrap();
        let took = begun.elapsed();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(wanted), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        took
    };
    let loaded = ["--no-snapshot", "--system", &last];
    let cold = ask(&loaded, &question, "USER");
    let warm = ask(&loaded, &question, "USER");
    let begun = Instant::now();
    let made = Command::new(env!("CARGO_BIN_EXE_steelbank"))
        .args(["--no-userinit", "--system", &last, "--project"])
        .arg(&root)
        .arg("snapshot")
        .env("STEELBANK_CACHE", &cache)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let making = begun.elapsed();

    // One of each in turn: a machine whose speed changes changes it for both.
    let mut pairs: Vec<(Duration, Duration)> = (0..runs)
        .map(|_| (ask(&[], "cl:mapcar", "SB-"), ask(&["--system", &last], &question, "USER")))
        .collect();
    let empty = median(pairs.iter().map(|pair| pair.0));
    let snapshot = median(pairs.iter().map(|pair| pair.1));
    pairs.sort_by(|one, other| ratio(*one).total_cmp(&ratio(*other)));
    println!("{systems} systems, {} files; medians of {runs} whole processes", systems * 3);
    println!("compiled and loaded        {:>9.1} ms", milliseconds(cold));
    println!("loaded from warm fasls     {:>9.1} ms", milliseconds(warm));
    println!("making the snapshot        {:>9.1} ms", milliseconds(making));
    println!("an empty image             {:>9.1} ms", milliseconds(empty));
    println!(
        "from the snapshot          {:>9.1} ms   {:.2} of the empty image's",
        milliseconds(snapshot),
        ratio(pairs[runs / 2])
    );
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn ratio((empty, snapshot): (Duration, Duration)) -> f64 {
    snapshot.as_secs_f64() / empty.as_secs_f64()
}

fn median(durations: impl Iterator<Item = Duration>) -> Duration {
    let mut durations: Vec<Duration> = durations.collect();
    durations.sort();
    durations[durations.len() / 2]
}

/// Systems s0, s1, …; each depends on up to three before it, and the last one on all.
fn write_project(root: &Path, systems: usize) {
    for number in 0..systems {
        let name = format!("s{number}");
        let folder = root.join(&name);
        fs::create_dir_all(&folder).unwrap();
        let first = if number + 1 == systems { 0 } else { number.saturating_sub(3) };
        let depends: Vec<String> = (first..number).map(|other| format!("\"s{other}\"")).collect();
        let files = ["a", "b", "c"];
        let components: Vec<String> = files.iter().map(|file| format!("(:file {file:?})")).collect();
        fs::write(
            folder.join(format!("{name}.asd")),
            format!(
                "(defsystem {name:?} :serial t :depends-on ({}) :components ({}))",
                depends.join(" "),
                components.join(" ")
            ),
        )
        .unwrap();
        for file in files {
            let package =
                if file == "a" { format!("(defpackage :{name} (:use :cl))\n") } else { String::new() };
            let functions: String = (0..20)
                .map(|index| format!("(defun {file}{index}-of-{name} (x) (list (mapcar #'1+ x) {index}))\n"))
                .collect();
            let text = format!(
                "{package}(in-package :{name})\n{functions}(defun {file}-of-{name} (x) (list x))\n\
                 (defun user-of-{file} (x) ({file}-of-{name} x))\n"
            );
            fs::write(folder.join(format!("{file}.lisp")), text).unwrap();
        }
    }
}
