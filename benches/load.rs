//! Compares loads through steelbank with the same loads in plain SBCL, all from source. Run with
//! `cargo bench --bench load`; `-- PAIRS SYSTEM…` sets the number of pairs and the systems.
//!
//! Loads through steelbank also record positions and uses, store diagnostics and update the index.
//! Both sides have the same SBCL, heap size and empty caches. They run at the same time in a
//! process each, so that changes of the machine's speed affect both. Compare the ratio of processor
//! time.

// Clippy counts only functions marked #[test] as tests.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, clippy::panic, missing_docs)]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use steelbank::Control;
use steelbank::ProjectSettings;
use steelbank::Steelbank;
use steelbank::loaded::LoadStatus;
use steelbank::{EvaluateRequest, LoadRequest};

#[allow(dead_code)]
mod common;
#[allow(dead_code)]
#[path = "../tests/it/fixtures.rs"]
mod fixtures;

/// The environment variable that names the system for the child to load, and the folder for its
/// cache.
const CHILD: &str = "STEELBANK_BENCH_LOAD";

const SYSTEMS: [&str; 7] =
    ["cl-ppcre", "local-time", "cl-unicode", "iterate", "cl-interpol", "cffi", "ironclad"];

/// The cost of a load.
#[derive(Debug, Clone, Copy)]
struct Cost {
    wall: f64,
    processor: f64,
}

fn main() {
    if let Some(child) = std::env::var_os(CHILD) {
        let child = child.into_string().unwrap();
        let (cache, system) = child.rsplit_once('|').unwrap();
        return load_through_us(Path::new(cache), system);
    }
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let pairs: usize = arguments.next().map_or(3, |pairs| pairs.parse().unwrap());
    let named: Vec<String> = arguments.collect();
    let systems = if named.is_empty() { SYSTEMS.map(str::to_owned).to_vec() } else { named };

    println!(
        "{:<14} {:>10} {:>10} {:>7} {:>10} {:>10} {:>7}",
        "", "plain", "steelbank", "", "plain", "steelbank", ""
    );
    println!(
        "{:<14} {:>10} {:>10} {:>7} {:>10} {:>10} {:>7}",
        "system", "cpu ms", "cpu ms", "ratio", "wall ms", "wall ms", "ratio"
    );
    let mut all = Vec::new();
    for system in &systems {
        let costs: Vec<[Cost; 2]> = (0..pairs).map(|_| pair(system)).collect();
        row(system, &costs);
        all.push(median(&costs));
    }
    let sum = |side: usize| Cost {
        wall: all.iter().map(|pair| pair[side].wall).sum(),
        processor: all.iter().map(|pair| pair[side].processor).sum(),
    };
    let all = [sum(0), sum(1)];
    let ratio = all[1].processor / all[0].processor;
    row("all", &[all]);
    assert!(ratio <= 1.15, "{ratio:.3} of plain SBCL's processor time");
}

/// Returns the pair with the median ratio of processor time.
fn median(costs: &[[Cost; 2]]) -> [Cost; 2] {
    let mut costs = costs.to_vec();
    let ratio = |pair: &[Cost; 2]| pair[1].processor / pair[0].processor;
    costs.sort_by(|one, other| ratio(one).total_cmp(&ratio(other)));
    costs[costs.len() / 2]
}

fn row(system: &str, costs: &[[Cost; 2]]) {
    let [plain, ours] = median(costs);
    println!(
        "{system:<14} {:>10.0} {:>10.0} {:>7.3} {:>10.0} {:>10.0} {:>7.3}",
        plain.processor,
        ours.processor,
        ours.processor / plain.processor,
        plain.wall,
        ours.wall,
        ours.wall / plain.wall
    );
}

/// Loads `system` in plain SBCL and through steelbank at the same time.
fn pair(system: &str) -> [Cost; 2] {
    std::thread::scope(|scope| {
        let plain = scope.spawn(|| run(system, true));
        let ours = run(system, false);
        [plain.join().unwrap(), ours]
    })
}

/// Loads `system` from source in a new process, in plain SBCL or through steelbank.
fn run(system: &str, plain: bool) -> Cost {
    let cache = tempfile::tempdir().unwrap();
    let mut command = if plain {
        plain_load(cache.path(), system)
    } else {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.env(CHILD, format!("{}|{system}", cache.path().display()));
        command
    };
    let output = command
        .env("CL_SOURCE_REGISTRY", format!("{}//", fixtures::lisp_libraries().display()))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = text.lines().find_map(|line| line.strip_prefix("cost "));
    let Some(figures) = figures else {
        panic!("{system} does not load:\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
    };
    let mut figures = figures.split(' ').map(|figure| figure.parse::<f64>().unwrap());
    Cost { wall: figures.next().unwrap(), processor: figures.next().unwrap() }
}

fn plain_load(cache: &Path, system: &str) -> Command {
    let load = format!(
        "(let ((wall (get-internal-real-time)) (processor (get-internal-run-time)))
           (handler-bind ((warning #'muffle-warning)) (asdf:load-system {system:?}))
           (flet ((ms (then now) (* 1000.0 (/ (- now then) internal-time-units-per-second))))
             (format t \"~&cost ~F ~F~%\" (ms wall (get-internal-real-time)) (ms processor (get-internal-run-time)))))"
    );
    common::plain_sbcl(cache, &[&load])
}

/// Loads `system` in the child process, and prints the cost over all threads.
fn load_through_us(cache: &Path, system: &str) {
    let settings = ProjectSettings::in_folder(cache).cache(cache.join("cache"));
    let bank = Steelbank::builder().project(settings).start().unwrap();
    let processor = || -> f64 {
        let answer = bank
            .run(
                &EvaluateRequest::new(
                    "(* 1000.0 (/ (get-internal-run-time) internal-time-units-per-second))",
                )
                .values(),
                &Control::new(Duration::from_secs(5)),
            )
            .unwrap();
        answer.values[0].parse().unwrap()
    };
    let before = processor();
    let start = Instant::now();
    let answer = bank.run(&LoadRequest::system(system), &Control::new(Duration::from_secs(900))).unwrap();
    let wall = start.elapsed().as_secs_f64() * 1000.0;
    assert_eq!(answer.status, LoadStatus::Loaded, "{answer:?}");
    println!("cost {wall} {}", processor() - before);
}
