//! Benchmarks code_find_references on libraries loaded through steelbank: every use of a name with
//! line, column and evidence. Run with `cargo bench --bench references`.
//!
//! Compares it with sb-introspect's five functions in the same image, which return neither lines
//! nor columns, and with ripgrep over the same files, which finds text. Also measures who-calls and
//! who-macroexpands, with lines and without. Rarely used names show that the cost depends on the
//! number of files in the answer, not on the amount of loaded code.

// Clippy counts only functions marked #[test] as tests.
#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use divan::Bencher;
use steelbank::Control;
use steelbank::LoadRequest;
use steelbank::ProjectSettings;
use steelbank::Steelbank;
use steelbank::actions::uses::code_find_references::CodeFindReferencesRequest;
use steelbank::actions::uses::who::WhoRequest;
use steelbank::loaded::LoadStatus;
use steelbank_xref::Kind;

#[allow(dead_code)]
#[path = "../tests/it/fixtures.rs"]
mod fixtures;

const SYSTEMS: [&str; 6] = ["chunga", "local-time", "iterate", "cl-unicode", "cffi", "yason"];

/// Names with few, some and many uses.
const NAMES: [&str; 4] = ["chunga:read-line*", "alexandria:with-gensyms", "cl-ppcre:scan", "cl:defun"];

fn main() {
    let bank = bank();
    for name in NAMES {
        let answer = bank
            .ask(&CodeFindReferencesRequest { limit: usize::MAX, ..request(name) }, &Control::default())
            .unwrap();
        let files: std::collections::BTreeSet<&str> =
            answer.refs.iter().map(|found| found.place.file.as_str()).collect();
        println!("{name}: {} lines in {} files", answer.total, files.len());
    }
    println!(
        "{} files are loaded; the index has {} records\n",
        bank.loaded_files().len(),
        bank.index().record_count()
    );
    divan::main();
}

fn bank() -> &'static Steelbank {
    static BANK: OnceLock<Steelbank> = OnceLock::new();
    BANK.get_or_init(|| {
        let root = fixtures::lisp_libraries();
        let cache = std::env::temp_dir().join("steelbank-bench-references");
        let bank =
            Steelbank::builder().project(ProjectSettings::in_folder(root).cache(cache)).start().unwrap();
        for system in SYSTEMS {
            let answer =
                bank.run(&LoadRequest::system(system), &Control::new(Duration::from_secs(600))).unwrap();
            assert_eq!(answer.status, LoadStatus::Loaded, "{answer:?}");
        }
        bank
    })
}

fn request(name: &str) -> CodeFindReferencesRequest {
    CodeFindReferencesRequest::new(name)
}

#[divan::bench(args = NAMES)]
fn code_find_references(bencher: Bencher<'_, '_>, name: &str) {
    bencher.bench_local(|| bank().ask(&request(name), &Control::default()).unwrap());
}

/// Runs who-calls and who-macroexpands, with lines and columns.
#[divan::bench(args = NAMES)]
fn who_calls_or_macroexpands(bencher: Bencher<'_, '_>, name: &str) {
    bencher.bench_local(|| {
        for kind in [Kind::Calls, Kind::Macroexpands] {
            bank().ask(&WhoRequest::new(kind, name), &Control::default()).unwrap();
        }
    });
}

/// Runs who-calls and who-macroexpands on the index alone, without lines.
#[divan::bench(args = NAMES)]
fn who_calls_or_macroexpands_without_lines(bencher: Bencher<'_, '_>, name: &str) {
    bencher.bench_local(|| {
        for kind in [Kind::Calls, Kind::Macroexpands] {
            bank().ask(&WhoRequest::new(kind, name).recorded(), &Control::default()).unwrap();
        }
    });
}

#[divan::bench(args = NAMES, sample_count = 10)]
fn sb_introspect(bencher: Bencher<'_, '_>, name: &str) {
    let lisp = bank().lisp();
    bencher.bench_local(|| {
        let form = format!(
            "(mapcar (lambda (who) (length (funcall who '{name})))
               (list 'sb-introspect:who-calls 'sb-introspect:who-macroexpands 'sb-introspect:who-binds
                     'sb-introspect:who-references 'sb-introspect:who-sets))"
        );
        lisp.run(Duration::from_secs(60), move |on_lisp| on_lisp.call("values", &["CL-USER", &form])).unwrap()
    });
}

#[divan::bench(args = NAMES, sample_count = 10)]
fn ripgrep(bencher: Bencher<'_, '_>, name: &str) {
    let name = name.rsplit(':').next().unwrap();
    bencher.bench_local(|| {
        Command::new(fixtures::rg())
            .args(["-n", "-w", "-i", name])
            .arg(fixtures::lisp_libraries())
            .output()
            .unwrap()
    });
}
