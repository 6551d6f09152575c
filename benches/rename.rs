//! Renames all names of the libraries in a folder, with each library as a project, and prints the
//! outcomes: `cargo bench --bench rename -- FOLDER [LIBRARY...]`.
//!
//! Each library finds the other libraries, unrenamed, in the same folder and through
//! CL_SOURCE_REGISTRY. Each renamed library is reloaded, and diagnostics that it did not have
//! before are printed and counted. tests/held-out.sh fetches the libraries of README's table. With
//! STEELBANK_RENAME_SHOW, prints each name that has no rename at exact places without a caution,
//! and why. With STEELBANK_RENAME_KEEP, keeps the folders. STEELBANK_RENAME_VERIFY names a
//! steelbank program that verifies a sample of the renames with cautions;
//! STEELBANK_RENAME_VERIFY_NAMES sets the size of the sample.
// A bench is a program: it prints, and panics at unexpected results.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "../tests/renames/mod.rs"]
mod renames;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use renames::verified::{Random, rename_each};
use renames::{Class, Table};
use steelbank::Control;
use steelbank::{ListSystemsRequest, LoadRequest};
use steelbank::{ProjectSettings, Steelbank};

const CHILD: &str = "STEELBANK_RENAME_LIBRARY";

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let Some(library) = std::env::var_os(CHILD) {
        return child(&PathBuf::from(library), &arguments);
    }
    let Some(folder) = arguments.first() else {
        println!("Give a folder of libraries: cargo bench --bench rename -- FOLDER [LIBRARY...]");
        return;
    };
    let folder = Path::new(folder).canonicalize().unwrap();
    let work = std::env::temp_dir().join(format!("steelbank-renames-{}", std::process::id()));
    fs::create_dir_all(&work).unwrap();
    let mut libraries: Vec<PathBuf> = fs::read_dir(&folder)
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    libraries.sort();
    let wanted = |path: &Path| arguments.len() == 1 || arguments[1..].iter().any(|name| path.ends_with(name));
    let mut table = Table::default();
    let mut differences = Vec::new();
    for library in libraries.iter().filter(|path| wanted(path)) {
        let others = libraries.iter().filter(|other| other != &library);
        let around = std::env::var("CL_SOURCE_REGISTRY").unwrap_or_default();
        let registry: String =
            others.map(|other| format!("{}//:", other.display())).chain([around]).collect();
        let name = library.file_name().unwrap().to_string_lossy().into_owned();
        let before = work.join("before").join(&name);
        let after = work.join("after").join(&name);
        renames::copy(library, &before);
        renames::copy(library, &after);
        let run = |root: &Path, what: &str| {
            let output = Command::new(std::env::current_exe().unwrap())
                .args([what, work.to_str().unwrap(), name.as_str()])
                .env(CHILD, root)
                .env("CL_SOURCE_REGISTRY", &registry)
                .output()
                .unwrap();
            (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned(), output.stderr)
        };
        let (ended, said, errors) = run(&before, "rename");
        if !ended {
            println!("{name}: {}", String::from_utf8_lossy(&errors));
            continue;
        }
        let found = read(&said);
        println!(
            "{name}: {} names, {} exact, {} more by symbol, {} cautioned",
            found.total(),
            found.count(Class::Narrow),
            found.count(Class::Symbol),
            found.count(Class::Cautioned)
        );
        for line in said.lines().filter(|line| line.starts_with("seen: ")) {
            println!("  {line}");
        }
        table.add(&found);
        let (ended, _, errors) = run(&after, "load");
        let said = |what: &str| fs::read_to_string(work.join(format!("{name}.{what}"))).unwrap_or_default();
        let (first, second) = (said("rename"), said("load"));
        if !ended {
            differences.push(format!("{name}: {}", String::from_utf8_lossy(&errors)));
        }
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let (first, second) = (lines(&first), lines(&second));
        // Count only new diagnostics: those of dependencies depend on which project compiled them.
        for new in second.iter().filter(|line| !first.contains(line)) {
            println!("  + {new}");
            differences.push(format!("{name}: + {new}"));
        }
        for folder in [&before, &after] {
            let _ = std::env::var_os("STEELBANK_RENAME_KEEP").is_none().then(|| fs::remove_dir_all(folder));
        }
    }
    println!("\n{table}");
    println!("{} new diagnostics or failures after renaming", differences.len());
    for difference in &differences {
        println!("{}", difference.chars().take(400).collect::<String>());
    }
    match std::env::var_os("STEELBANK_RENAME_KEEP") {
        Some(_) => println!("Kept: {}", work.display()),
        None => fs::remove_dir_all(&work).unwrap(),
    }
}

fn bank(root: &Path, work: &Path, cache: &str) -> Steelbank {
    let settings = ProjectSettings::in_folder(root).cache(work.join(cache));
    Steelbank::builder().project(settings).start().unwrap()
}

fn child(root: &Path, arguments: &[String]) {
    let [what, work, name] = arguments else { panic!("{arguments:?}") };
    let work = Path::new(work);
    let bank = bank(root, work, "cache");
    let systems = bank.ask(&ListSystemsRequest::new(), &Control::default()).unwrap().systems;
    let systems: Vec<String> = systems.into_iter().map(|system| system.name).collect();
    let folders = [work.join("before"), work.join("after")];
    let report = renames::report(&bank, &systems, [&folders[0], &folders[1]]);
    fs::write(work.join(format!("{name}.{what}")), report.join("\n")).unwrap();
    if what == "rename" {
        let names = renames::names(&bank, 1);
        let table = renames::rename_all(&bank, &names, &work.join("after").join(name));
        write(&table);
        if let Some(program) = std::env::var_os("STEELBANK_RENAME_VERIFY") {
            drop(bank);
            verify(root, work, &names, program.into());
        }
    }
}

/// Verifies a sample of the renames with cautions.
fn verify(root: &Path, work: &Path, names: &[String], program: PathBuf) {
    let settings = ProjectSettings::in_folder(root).cache(work.join("cache"));
    let bank = Steelbank::builder().project(settings).program(program).start().unwrap();
    let loaded = bank.run(&LoadRequest::project(), &Control::new(Duration::from_secs(600))).unwrap();
    let failed = loaded.systems.iter().filter(|system| system.failure.is_some()).count();
    let cautioned = renames::cautioned(&bank, names);
    let count = std::env::var("STEELBANK_RENAME_VERIFY_NAMES").map_or(10, |text| text.parse().unwrap());
    let drawn = Random::new(1).sample(cautioned, count);
    let outcomes = rename_each(&bank, &drawn);
    println!(
        "seen: {failed} systems do not load; {} renames with cautions were tried; applied: {:?}",
        drawn.len(),
        outcomes.applied
    );
    for differ in &outcomes.differ {
        println!("seen: differs: {differ}");
    }
}

const CLASSES: [Class; 6] =
    [Class::Narrow, Class::Symbol, Class::Cautioned, Class::Made, Class::NoPlace, Class::Refused];

fn write(table: &Table) {
    for (at, class) in CLASSES.iter().enumerate() {
        println!("class {at} {}", table.count(*class));
    }
    for (caution, count) in &table.cautions {
        println!("caution {caution} {count}");
    }
    for (reason, count) in &table.reasons {
        println!("reason {} {count}", reason.replace(' ', "_"));
    }
    println!("edits all {}", table.edits);
    println!("overlapping all {}", table.overlapping);
}

fn read(text: &str) -> Table {
    let mut table = Table { classes: BTreeMap::new(), ..Table::default() };
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [what, which, count] = words[..] else { continue };
        let Ok(count) = count.parse::<usize>() else { continue };
        match what {
            "class" => {
                table.classes.insert(CLASSES[which.parse::<usize>().unwrap()], count);
            }
            "caution" => {
                table.cautions.insert(which.to_owned(), count);
            }
            "reason" => {
                table.reasons.insert(which.replace('_', " "), count);
            }
            "edits" => table.edits = count,
            "overlapping" => table.overlapping = count,
            _ => {}
        }
    }
    table
}
