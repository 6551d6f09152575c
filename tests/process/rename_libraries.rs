//! Tests of `rename` with random names in libraries: an applied rename verifies, a refused rename
//! has a reason, and a wrong plan is detected.
//!
//! Uses three small libraries, or all libraries in `cargo xtask full`.
//! `STEELBANK_RENAMES=babel,rt` selects libraries. `STEELBANK_RENAMES_NAMES`,
//! `STEELBANK_RENAMES_WRONG` and `STEELBANK_RENAMES_SEED` set the number of names, the number of
//! wrong plans, and the seed.

use std::path::{Path, PathBuf};
use std::time::Duration;

use steelbank::Control;
use steelbank::{ProjectSettings, Steelbank};

use crate::child::{command, is_child, run, small_or_full};
use crate::fixtures::lisp_libraries;
use crate::program::{Folder, STEELBANK};
use crate::renames;
use crate::renames::verified::{Random, make_wrong, rename_each, some_names};
use steelbank::LoadRequest;

const NAME: &str = "rename_libraries::random_renames_verify_and_wrong_plans_fail";
const LIBRARY: &str = "STEELBANK_RENAMES_LIBRARY";
const SMALL: [&str; 3] = ["anaphora", "cl-who", "parse-number"];

fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name).map_or(otherwise, |text| text.parse().unwrap())
}

#[test]
fn random_renames_verify_and_wrong_plans_fail() {
    if is_child() {
        return child(&PathBuf::from(std::env::var_os(LIBRARY).unwrap()));
    }
    let folder = Folder::new("renames");
    let mut libraries: Vec<PathBuf> = std::fs::read_dir(lisp_libraries())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .collect();
    libraries.sort();
    let asked = std::env::var("STEELBANK_RENAMES")
        .unwrap_or_else(|_| small_or_full(SMALL.join(","), "all".to_owned()));
    let (mut applied, mut wrong, mut missed, mut failed) = (0, 0, 0, Vec::new());
    for library in &libraries {
        let name = library.file_name().unwrap().to_str().unwrap();
        if asked != "all" && !asked.split(',').any(|one| one == name) {
            continue;
        }
        let root = folder.0.join(name);
        renames::copy(library, &root);
        let others = libraries.iter().filter(|other| *other != library);
        let registry: String = others.map(|other| format!("{}//:", other.display())).collect();
        // Run in the library's folder: some libraries write compiled C into their source folder.
        let mut child = command(NAME);
        let output = run(child.current_dir(&root).env(LIBRARY, &root).env("CL_SOURCE_REGISTRY", registry));
        let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        if !output.status.success() {
            println!("{name} failed: {said}");
            failed.push(name.to_owned());
        }
        for line in said.lines().filter_map(|line| line.split_once("seen: ").map(|(_, line)| line)) {
            println!("{name}: {line}");
            let count = |what: &str| -> usize {
                let words: Vec<&str> = line.split(' ').collect();
                let at = words.iter().position(|word| *word == what);
                at.map_or(0, |at| words[at + 1].parse().unwrap())
            };
            applied += count("applied:");
            wrong += count("less:") + count("more:");
            missed += count("missed:");
        }
    }
    println!("{applied} applied; {} of {wrong} wrong plans caught", wrong - missed);
    assert!(failed.is_empty(), "{failed:?}");
    assert!(applied > 0 && wrong > 0 && missed == 0);
}

fn child(root: &Path) {
    let settings = ProjectSettings::in_folder(root).cache(root.parent().unwrap().join("cache"));
    let bank = Steelbank::builder().project(settings).program(STEELBANK.into()).start().unwrap();
    let loaded = bank
        .run(&LoadRequest::project().failure_as_answer(), &Control::new(Duration::from_secs(600)))
        .unwrap();
    let failed = loaded.systems.iter().filter(|system| system.failure.is_some()).count();
    let mut random = Random::new(number("STEELBANK_RENAMES_SEED", 1) as u64);
    let names = some_names(&bank, usize::MAX, &mut random);
    let drawn = random.sample(names.clone(), number("STEELBANK_RENAMES_NAMES", 5));
    let outcomes = rename_each(&bank, &drawn);
    println!(
        "\nseen: {} of {} names, {failed} systems do not load; applied: {} conflicts: {:?} differ: {} in {:.1} s",
        drawn.len(),
        names.len(),
        outcomes.applied.len(),
        outcomes.conflicts,
        outcomes.differ.len(),
        outcomes.seconds
    );
    for line in outcomes.differ.iter().chain(&outcomes.unplanned) {
        println!("seen:   {}", line.chars().take(300).collect::<String>());
    }
    assert!(outcomes.unexplained.is_empty(), "{:?}", outcomes.unexplained);
    let wrong = make_wrong(&bank, &outcomes.applied, number("STEELBANK_RENAMES_WRONG", 4), &mut random);
    println!("seen: wrong: less: {} more: {} missed: {}", wrong.less, wrong.more, wrong.missed.len());
    for line in &wrong.missed {
        println!("seen:   not caught {line}");
    }
}
