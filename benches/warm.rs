//! Compares a project of many compiled systems with plain SBCL: the load, the first query after it,
//! and the memory of the process. Run with `cargo bench --bench warm`; `-- PAIRS FOLDER` sets the
//! number of pairs and a folder filled by tests/held-out.sh. All systems in FOLDER that plain SBCL
//! can load are then loaded from within the project.
//!
//! Each side is a process with the same SBCL and heap size. Both start at the same time, and have
//! loaded the project once before into their caches, which are outside the project. No snapshots
//! are used. The processor time of a process includes its start and its load: plain SBCL has loaded
//! ASDF and sb-introspect before its load starts, while steelbank is still starting. The figures
//! are medians. Memory is measured twice: after the queries, and after a full collection on both
//! sides, because the memory after the queries depends on when SBCL last collected garbage.
//!
//! Further rows break down time and memory. The time of garbage collections is SBCL's figure. The
//! export of the index and its preparation are repeated to measure them. Sidecars are read after
//! the load's answer. Lisp's memory is measured after a full collection, and garbage is the memory
//! that this collection freed. The index is the size of its prepared records; the rest of the host
//! is the host's other resident allocations.

// Clippy counts only functions marked #[test] as tests.
#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::panic, missing_docs)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};
use steelbank::Control;
use steelbank::actions::uses::who::WhoRequest;
use steelbank::loaded::LoadStatus;
use steelbank::{ProjectSettings, Steelbank};
use steelbank_xref::Kind;

#[allow(dead_code)]
mod common;
#[allow(dead_code)]
#[path = "../tests/it/fixtures.rs"]
mod fixtures;

use common::LIBRARIES;
use steelbank::{EvaluateRequest, LoadRequest};

/// The environment variable that passes the project's folder to the process that loads it through
/// steelbank.
const CHILD: &str = "STEELBANK_BENCH_WARM";

/// The largest library of the fixtures, and its dependency.
const MORE: [&str; 2] = ["ironclad", "trivial-features"];

/// The cost of one process, in the order of [`FIGURES`]; some figures exist only for steelbank.
type Cost = Vec<f64>;

const FIGURES: [&str; 15] = [
    "load, wall, ms", "load, processor, ms", "process, processor, ms", "first question, ms",
    "second question, ms", "resident, MiB", "resident, collected, MiB", "load: garbage collection, ms",
    "of memory: Lisp's data, MiB", "Lisp's garbage, MiB", "of the load: export of the index, ms",
    "building the index, ms", "after it: sidecars, questions, ms", "of memory: the index, MiB",
    "other memory of the host, MiB",
];

/// The upper limits of figures, as multiples of plain SBCL's.
const BARS: [(&str, f64); 2] = [("process, processor, ms", 1.3), ("resident, MiB", 2.0)];

/// A Lisp form that returns the resident memory of the process, in MiB.
const RESIDENT: &str = "(with-open-file (status \"/proc/self/status\")
                          (loop for line = (read-line status)
                                when (eql 0 (search \"VmRSS:\" line))
                                  return (/ (parse-integer line :start 6 :junk-allowed t) 1024.0)))";

/// A Lisp form that collects all garbage and returns a string, in MiB: resident memory after the
/// collection, live memory, and collected garbage.
const COLLECTED: &str = "(let ((before (sb-kernel:dynamic-usage)))
                           (sb-ext:gc :full t)
                           (let ((live (sb-kernel:dynamic-usage)))
                             (format nil \"~F ~F ~F\" RESIDENT (/ live 1048576.0)
                                     (/ (max 0 (- before live)) 1048576.0))))";

/// A Lisp form that returns the processor time of collections so far, in milliseconds.
const COLLECTING: &str = "(* 1000.0 (/ sb-ext:*gc-run-time* internal-time-units-per-second))";

fn collected() -> String {
    COLLECTED.replace("RESIDENT", RESIDENT)
}

fn main() {
    if let Some(folder) = std::env::var_os(CHILD) {
        return through_us(Path::new(&folder));
    }
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let pairs: usize = arguments.next().map_or(7, |pairs| pairs.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap().join("project");
    fs::create_dir(&root).unwrap();
    let systems: Vec<String> = match arguments.next() {
        None => LIBRARIES.iter().chain(&MORE).map(|system| (*system).to_owned()).collect(),
        Some(filled) => {
            for part in ["libraries", "others"] {
                common::copy(&Path::new(&filled).join(part), &root.join(part));
            }
            loadable(&root)
        }
    };
    let listed = systems.iter().map(|system| format!("{system:?}")).collect::<Vec<_>>().join(" ");
    fs::write(root.join("warm.asd"), format!("(defsystem \"warm\" :depends-on ({listed}))\n")).unwrap();
    let pair = || -> [Cost; 2] {
        std::thread::scope(|scope| {
            let plain = scope.spawn(|| run(&root, plain_load(&root)));
            let ours = run(&root, ours(&root));
            [plain.join().unwrap(), ours]
        })
    };
    pair();
    let costs: Vec<[Cost; 2]> = (0..pairs).map(|_| pair()).collect();
    println!("{} systems, {pairs} pairs of processes", systems.len());
    println!("{:<36} {:>10} {:>10} {:>7}", "", "plain", "steelbank", "ratio");
    let mut failed: Vec<&(&str, f64)> = Vec::new();
    for (number, figure) in FIGURES.iter().enumerate() {
        let median = |side: usize| {
            let mut values: Vec<f64> =
                costs.iter().filter_map(|pair| pair[side].get(number).copied()).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        match (median(0), median(1)) {
            (Some(plain), Some(ours)) => {
                let (ratio, bar) = (ours / plain, BARS.iter().find(|(barred, _)| barred == figure));
                println!("{figure:<36} {plain:>10.2} {ours:>10.2} {ratio:>7.3}");
                failed.extend(bar.filter(|(_, bar)| ratio > *bar));
            }
            (_, ours) => println!("{figure:<36} {:>10} {:>10.2}", "", ours.unwrap()),
        }
    }
    assert!(failed.is_empty(), "above the limits, as multiples of plain SBCL: {failed:?}");
}

/// Lists the systems in the project's folder that plain SBCL can load in one image: first the
/// systems with the names of the .asd files, then the other systems that those files define.
fn loadable(root: &Path) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut todo = vec![root.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            match path.extension() {
                _ if path.is_dir() => todo.push(path),
                Some(end) if end == "asd" => {
                    names.push(path.file_stem().unwrap().to_str().unwrap().to_owned())
                }
                _ => {}
            }
        }
    }
    names.sort();
    names.dedup();
    // cffi-uffi-compat defines a package that another library defines, too.
    names.retain(|name| name != "cffi-uffi-compat");
    let listed = names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(" ");
    let load = format!(
        "(flet ((try (name)
                  (when (handler-case (sb-ext:with-timeout 300
                                        (handler-bind ((warning #'muffle-warning)) (asdf:load-system name))
                                        t)
                          ((or serious-condition sb-ext:timeout) () nil))
                    (format t \"~&loads ~A~%\" name)
                    (finish-output))))
           (let ((names '({listed})))
             (mapc #'try names)
             (loop for name in (sort (asdf:registered-systems) #'string<)
                   for file = (asdf:system-source-file name)
                   when (and file (search {:?} (namestring file)) (not (member name names :test #'equal)))
                     do (try name))))",
        root.display().to_string()
    );
    let mut command = common::plain_sbcl(&root.with_file_name("plain"), &[&load]);
    let output = command.env("CL_SOURCE_REGISTRY", registry(root)).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().filter_map(|line| Some(line.strip_prefix("loads ")?.to_owned())).collect()
}

/// Returns ASDF's source registry: the project if it has libraries, else the fixtures.
fn registry(root: &Path) -> String {
    let libraries = root.join("libraries");
    let has = libraries.exists();
    format!("{}//", if has { root.to_owned() } else { fixtures::lisp_libraries() }.display())
}

fn run(root: &Path, mut command: Command) -> Cost {
    let output = command.env("CL_SOURCE_REGISTRY", registry(root)).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let figures = text.lines().find_map(|line| line.strip_prefix("cost "));
    let Some(figures) = figures else {
        panic!("the project does not load:\n{text}\n{}", String::from_utf8_lossy(&output.stderr));
    };
    figures.split(' ').map(|figure| figure.parse().unwrap()).collect()
}

/// Returns the command that loads the project in plain SBCL and queries sb-introspect.
fn plain_load(root: &Path) -> Command {
    let load = format!(
        "(let ((wall (get-internal-real-time)) (processor (get-internal-run-time)))
               (flet ((ms (then now) (* 1000.0 (/ (- now then) internal-time-units-per-second)))
                      (resident () {RESIDENT}))
                 (asdf:load-asd {:?})
                 (handler-bind ((warning #'muffle-warning)) (asdf:load-system \"warm\"))
                 (let* ((loaded (get-internal-real-time)) (used (get-internal-run-time)) (garbage {COLLECTING})
                        (first (progn (sb-introspect:who-calls (find-symbol \"SCAN\" \"CL-PPCRE\")) (get-internal-real-time)))
                        (second (progn (sb-introspect:who-calls (find-symbol \"SCAN\" \"CL-PPCRE\")) (get-internal-real-time)))
                        (before (resident)))
                   (destructuring-bind (collected &rest memory) (uiop:split-string {})
                     (format t \"~&cost ~F ~F ~F ~F ~F ~F ~A ~F~{{ ~A~}}~%\" (ms wall loaded) (ms processor used)
                             (ms 0 used) (ms loaded first) (ms first second) before collected garbage memory)))))",
        root.join("warm.asd").display().to_string(),
        collected()
    );
    common::plain_sbcl(&root.with_file_name("plain"), &["(require :sb-introspect)", &load])
}

fn ours(root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(CHILD, root);
    command
}

/// Loads the project in the child process, runs two queries, and prints the cost.
fn through_us(root: &Path) {
    let settings = ProjectSettings::in_folder(root).cache(root.with_file_name("ours"));
    let bank = Steelbank::builder().project(settings).start().unwrap();
    let milliseconds = |from: Instant| from.elapsed().as_secs_f64() * 1000.0;
    let (begun, before) = (Instant::now(), processor());
    let answer = bank.run(&LoadRequest::system("warm"), &Control::new(Duration::from_secs(7200))).unwrap();
    let (wall, whole) = (milliseconds(begun), processor());
    let load = whole - before;
    assert_eq!(answer.status, LoadStatus::Loaded, "{answer:?}");
    let ask = || {
        let begun = Instant::now();
        let request = WhoRequest::new(Kind::Calls, "scan").package("CL-PPCRE");
        let answer = bank.ask(&request, &Control::default()).unwrap();
        assert!(answer.count > 5, "{answer:?}");
        milliseconds(begun)
    };
    let (first, second) = (ask(), ask());
    let before = resident();
    // Wait until background work has ended.
    let mut sidecars = processor();
    loop {
        std::thread::sleep(Duration::from_millis(300));
        match processor() {
            now if now == sidecars => break,
            now => sidecars = now,
        }
    }
    let evaluate = |form: &str| -> String {
        let request = EvaluateRequest::new(form).values();
        let answer = bank.run(&request, &Control::new(Duration::from_secs(60))).unwrap();
        answer.values[0].trim_matches('"').to_owned()
    };
    let host = allocated();
    // Use one evaluation, because each evaluation exports the index, and that garbage would count.
    let asked = evaluate(&format!(
        "(let ((collecting {COLLECTING})) (format nil \"~F ~A\" collecting {}))",
        collected()
    ));
    let [garbage, resident, memory] = asked.splitn(3, ' ').collect::<Vec<_>>().try_into().unwrap();
    let file = root.with_file_name("export");
    let exporting = evaluate(&format!(
        "(let ((begun (get-internal-run-time)))
           (steelbank::write-octets (steelbank::xref-export 0) {:?})
           (* 1000.0 (/ (- (get-internal-run-time) begun) internal-time-units-per-second)))",
        file.display().to_string()
    ));
    let export = fs::read(file).unwrap();
    let begun = processor_exactly();
    let index = steelbank_xref::bake::bake(&export, &[]).unwrap().len() as f64 / f64::from(1 << 20);
    let baking = processor_exactly() - begun;
    let (after, host) = (sidecars - whole, host - index);
    println!(
        "cost {wall} {load} {whole} {first} {second} {before} {resident} {garbage} {memory} {exporting} {baking} {after} \
         {index} {host}"
    );
}

/// Returns the processor time of this thread, in milliseconds.
fn processor_exactly() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

/// Returns the resident memory that the host has allocated, in MiB: mappings without a file, except
/// Lisp's spaces, which have lower addresses.
fn allocated() -> f64 {
    let maps = fs::read_to_string("/proc/self/smaps").unwrap();
    let mut is_counted = false;
    let mut kilobytes = 0.0;
    for line in maps.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["Rss:", resident, _] if is_counted => kilobytes += resident.parse::<f64>().unwrap(),
            [addresses, _, _, _, _, ref name @ ..] if addresses.contains('-') => {
                let start = u64::from_str_radix(addresses.split('-').next().unwrap(), 16).unwrap();
                is_counted = name == ["[heap]"] || name.is_empty() && start >= 0x7000_0000_0000;
            }
            _ => {}
        }
    }
    kilobytes / 1024.0
}

/// Returns the processor time of all threads of this process, in milliseconds. The kernel counts in
/// hundredths of a second.
fn processor() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let after_name = stat.rsplit(") ").next().unwrap();
    let ticks = |field: usize| after_name.split(' ').nth(field).unwrap().parse::<f64>().unwrap();
    (ticks(11) + ticks(12)) * 10.0
}

/// Returns the resident memory of this process, in MiB.
fn resident() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().split(' ').next().unwrap().parse::<f64>().unwrap() / 1024.0
}
