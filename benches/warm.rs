//! Benches a project of many systems whose files are compiled already, beside plain SBCL: the load, the first
//! question after it, and the memory that the process then has. Run with `cargo bench --bench warm`; `--
//! PAIRS` says how often.
//!
//! Each side is a process of its own with the same SBCL and heap; both start at the same time, and have
//! loaded the project once before into their caches, which are outside of the project, as by default. No
//! snapshot is made or used. The process's processor time is that of its start and its load together: plain
//! SBCL has loaded ASDF and sb-introspect, and touched its heap, before its load begins, while ours still
//! starts as it begins. The figures are medians. Memory is measured twice: after the questions, and after a
//! full collection on both sides, as the first depends on when SBCL collected last.

// Clippy counts only functions marked #[test] as tests.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::panic, missing_docs)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use steelbank::Control;
use steelbank::actions::uses::who::{PlaceDetail, WhoRequest};
use steelbank::loaded::LoadStatus;
use steelbank::{ProjectSettings, Steelbank};
use steelbank_xref::Kind;

mod common;
#[allow(dead_code)]
#[path = "../tests/it/fixtures.rs"]
mod fixtures;

use common::LIBRARIES;
use steelbank::{EvaluateRequest, LoadRequest};

/// The environment variable that names the project's folder, for the process that loads it through steelbank.
const CHILD: &str = "STEELBANK_BENCH_WARM";

/// The largest library of the fixtures, and its dependency.
const MORE: [&str; 2] = ["ironclad", "trivial-features"];

/// The cost of one process, in the order of [`FIGURES`].
type Cost = [f64; 7];

const FIGURES: [&str; 7] = [
    "load, wall, ms", "load, processor, ms", "process, processor, ms", "first question, ms",
    "second question, ms", "resident, MiB", "resident, collected, MiB",
];

/// The Lisp form that returns the resident memory of the process, in MiB.
const RESIDENT: &str = "(with-open-file (status \"/proc/self/status\")
                          (loop for line = (read-line status)
                                when (eql 0 (search \"VmRSS:\" line))
                                  return (/ (parse-integer line :start 6 :junk-allowed t) 1024.0)))";

fn main() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return through_us(Path::new(&folder));
    }
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let pairs: usize = arguments.next().map_or(7, |pairs| pairs.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap().join("project");
    fs::create_dir(&root).unwrap();
    let systems: Vec<String> = LIBRARIES.iter().chain(&MORE).map(|system| format!("{system:?}")).collect();
    let listed = systems.join(" ");
    fs::write(root.join("warm.asd"), format!("(defsystem \"warm\" :depends-on ({listed}))\n")).unwrap();
    let pair = || -> [Cost; 2] {
        std::thread::scope(|scope| {
            let plain = scope.spawn(|| run(plain_load(&root)));
            let ours = run(ours(&root));
            [plain.join().unwrap(), ours]
        })
    };
    pair();
    let costs: Vec<[Cost; 2]> = (0..pairs).map(|_| pair()).collect();
    println!("{} systems, {pairs} pairs", systems.len());
    println!("{:<24} {:>10} {:>10} {:>7}", "", "plain", "steelbank", "ratio");
    for (number, figure) in FIGURES.iter().enumerate() {
        let median = |side: usize| {
            let mut values: Vec<f64> = costs.iter().map(|pair| pair[side][number]).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let (plain, ours) = (median(0), median(1));
        println!("{figure:<24} {plain:>10.2} {ours:>10.2} {:>7.3}", ours / plain);
    }
}

fn run(mut command: Command) -> Cost {
    let libraries = fixtures::lisp_libraries();
    let output = command.env("CL_SOURCE_REGISTRY", format!("{}//", libraries.display())).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = text.lines().find_map(|line| line.strip_prefix("cost "));
    let Some(figures) = figures else {
        panic!("the project does not load:\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
    };
    let figures: Vec<f64> = figures.split(' ').map(|figure| figure.parse().unwrap()).collect();
    figures.try_into().unwrap()
}

/// Makes the command that loads the project in plain SBCL; it asks sb-introspect.
fn plain_load(root: &Path) -> Command {
    let load = format!(
        "(let ((wall (get-internal-real-time)) (processor (get-internal-run-time)))
               (flet ((ms (then now) (* 1000.0 (/ (- now then) internal-time-units-per-second)))
                      (resident () {RESIDENT}))
                 (asdf:load-asd {:?})
                 (handler-bind ((warning #'muffle-warning)) (asdf:load-system \"warm\"))
                 (let* ((loaded (get-internal-real-time)) (used (get-internal-run-time))
                        (first (progn (sb-introspect:who-calls (find-symbol \"SCAN\" \"CL-PPCRE\")) (get-internal-real-time)))
                        (second (progn (sb-introspect:who-calls (find-symbol \"SCAN\" \"CL-PPCRE\")) (get-internal-real-time))))
                   (format t \"~&cost ~F ~F ~F ~F ~F ~F ~F~%\" (ms wall loaded) (ms processor used) (ms 0 used)
                           (ms loaded first) (ms first second) (resident)
                           (progn (sb-ext:gc :full t) (resident))))))",
        root.join("warm.asd").display().to_string()
    );
    common::plain_sbcl(&root.with_file_name("plain"), &["(require :sb-introspect)", &load])
}

fn ours(root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(CHILD, root);
    command
}

/// Loads the project in the child, asks twice, and prints the cost.
fn through_us(root: &Path) {
    let settings = ProjectSettings::in_folder(root).cache(root.with_file_name("ours"));
    let bank = Steelbank::builder().project(settings).start().unwrap();
    let milliseconds = |from: Instant| from.elapsed().as_secs_f64() * 1000.0;
    let (begun, before) = (Instant::now(), processor());
    let answer = bank.run(&LoadRequest::system("warm"), &Control::new(Duration::from_secs(900))).unwrap();
    let (wall, whole) = (milliseconds(begun), processor());
    let load = whole - before;
    assert_eq!(answer.status, LoadStatus::Loaded, "{answer:?}");
    let ask = || {
        let begun = Instant::now();
        let request = WhoRequest::new(Kind::Calls, "scan").package("CL-PPCRE").places(PlaceDetail::Lines);
        let answer = bank.ask(&request, &Control::default()).unwrap();
        assert!(answer.count > 5, "{answer:?}");
        milliseconds(begun)
    };
    let (first, second) = (ask(), ask());
    let before = resident();
    // Ask in Lisp, as plain SBCL does: after an evaluation the index is exported.
    let collected = bank
        .run(
            &EvaluateRequest::new(format!("(progn (sb-ext:gc :full t) {RESIDENT})")).values(),
            &Control::new(Duration::from_secs(60)),
        )
        .unwrap();
    println!("cost {wall} {load} {whole} {first} {second} {before} {}", collected.values[0]);
}

/// Reads the processor time of all threads of this process, in milliseconds; the kernel counts it in
/// hundredths of a second.
fn processor() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(") ").next().unwrap();
    let ticks = |field: usize| after_name.split(' ').nth(field).unwrap().parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) * 10.0
}

/// Reads the resident memory of this process, in MiB.
fn resident() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().split(' ').next().unwrap().parse::<f64>().unwrap() / 1024.0
}
