//! Plans renames of all global names of the installed libraries (or of one in
//! STEELBANK_RENAME_ONE_IN), and applies all plans without cautions at once. The result must load
//! and test as before in a new process. Outcomes are counted for all names.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steelbank::Steelbank;
use steelbank::loaded::LoadStatus;

use crate::fixtures::lisp_libraries;
use crate::project::{folder, in_a_process_of_its_own, load, project};
use crate::renames::{self, Class, copy};
use steelbank::{Control, EvaluateRequest};

/// The systems with the names to change.
const SYSTEMS: [&str; 20] = [
    "alexandria", "cl-ppcre", "flexi-streams", "split-sequence", "bordeaux-threads", "iterate", "local-time",
    "puri", "babel", "chunga", "usocket", "cffi", "cl-who", "yason", "parse-number", "anaphora", "nibbles",
    "named-readtables", "cl-unicode", "cl-interpol",
];

/// The test systems. Both runs omit those that this machine cannot load. cl-ppcre's tests are not
/// listed, because they read a file of forms as data.
const TESTS: [&str; 5] =
    ["split-sequence/tests", "parse-number/tests", "anaphora/test", "iterate/tests", "nibbles/tests"];

#[test]
fn renamed_libraries_load_and_test_as_before() {
    let work = folder("rename");
    copy(&lisp_libraries(), &work.join("before"));
    copy(&lisp_libraries(), &work.join("after"));
    let environment = [("STEELBANK_RENAME", &*work), ("CL_SOURCE_REGISTRY", Path::new("/nonexistent//"))];
    in_a_process_of_its_own("rename::rename", &environment);
    in_a_process_of_its_own("rename::load_renamed", &environment);
    let report = |name: &str| fs::read_to_string(work.join(name)).unwrap();
    assert_same(&report("before.txt"), &report("after.txt"));
    fs::remove_dir_all(&work).unwrap();
}

/// Asserts that two reports are the same. Shows only the differences: complete reports would fill a
/// log.
fn assert_same(before: &str, after: &str) {
    let mut different = before.lines().zip(after.lines()).filter(|(before, after)| before != after);
    if let Some((before, after)) = different.next() {
        let same = before.chars().zip(after.chars()).take_while(|(before, after)| before == after).count();
        let from = |line: &str| line.chars().skip(same.saturating_sub(200)).take(600).collect::<String>();
        panic!(
            "{} more lines differ; the first, before:\n{}\nafter:\n{}",
            different.count(),
            from(before),
            from(after)
        );
    }
    assert_eq!(before.lines().count(), after.lines().count());
}

fn work() -> PathBuf {
    PathBuf::from(std::env::var_os("STEELBANK_RENAME").unwrap())
}

#[test]
#[ignore = "run by renamed_libraries_load_and_test_as_before"]
fn rename() {
    let work = work();
    let bank = project(&work.join("before"), &work.join("cache-before"));
    fs::write(work.join("before.txt"), report(&bank, &work)).unwrap();
    let one_in = std::env::var("STEELBANK_RENAME_ONE_IN").map_or(1, |text| text.parse().unwrap());
    let names = renames::names(&bank, one_in);
    let table = renames::rename_all(&bank, &names, &work.join("after"));
    for line in table.to_string().lines() {
        println!("seen: rename: {line}");
    }
    assert_eq!(table.total(), names.len());
    let exact = table.count(Class::Narrow);
    let symbol = exact + table.count(Class::Symbol);
    let cautioned = symbol + table.count(Class::Cautioned);
    // Require a share of exact plans: plans without any exact place would pass the other checks.
    let at_least = |count: usize, percent: usize| assert!(count * 100 >= names.len() * percent, "{table}");
    at_least(exact, 73);
    at_least(symbol, 77);
    at_least(cautioned, 89);
    assert!(names.len() * one_in >= 2_500, "{table}");
}

#[test]
#[ignore = "run by renamed_libraries_load_and_test_as_before"]
fn load_renamed() {
    let work = work();
    let bank = project(&work.join("after"), &work.join("cache-after"));
    fs::write(work.join("after.txt"), report(&bank, &work)).unwrap();
}

/// Reports loading and testing. Omits the new names, times and numbers, which a rename changes.
fn report(bank: &Steelbank, work: &Path) -> String {
    let folders = [work.join("before"), work.join("after")];
    let folders = [folders[0].as_path(), folders[1].as_path()];
    let systems: Vec<String> = SYSTEMS.iter().map(|system| (*system).to_owned()).collect();
    let mut report = renames::report(bank, &systems, folders);
    for system in TESTS {
        if load(bank, system).status == LoadStatus::Loaded {
            let form = format!("(asdf:test-system {system:?})");
            let outcome = bank
                .run(&EvaluateRequest::new(form.as_str()).values(), &Control::new(Duration::from_secs(300)));
            let ended = outcome.is_ok();
            let output = outcome.map(|answer| answer.output).unwrap_or_default();
            report.push(format!("{system} tested: {ended}\n{}", renames::plain(&output, folders)));
            println!("seen: rename: {system} was run, {} characters of output", output.len());
        }
    }
    report.join("\n")
}
