//! Renames all names of a project, and counts the outcomes, for a test and a bench.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub(crate) mod verified;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;
use std::time::Duration;
use steelbank::actions::symbols::find_definition::FindDefinitionRequest;

use steelbank::Control;
use steelbank::LoadRequest;
use steelbank::Steelbank;
use steelbank::actions::change::rename::{
    CautionKind, ConflictKind, RenameEdit, RenamePlan, RenameRequest, Scope,
};
use steelbank::actions::uses::code_find_references::{
    CodeFindReferencesRequest as References, CodeReference,
};
use steelbank::answer::LispKind;
use steelbank::loaded::{FailureKind, LoadAnswer};
use steelbank::source::positions::Evidence;

/// The suffix of every renamed name.
pub(crate) const SUFFIX: &str = "-ZZ";

/// The outcome of a rename.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Class {
    /// Renamed at exact places, without a caution.
    Narrow,
    /// Renamed at every token of the symbol, without a caution.
    Symbol,
    /// Renamed, with cautions about code that may break.
    Cautioned,
    /// Not renamed alone: the name is derived from another one.
    Made,
    /// Absent from the text.
    NoPlace,
    /// The plan refuses for another reason.
    Refused,
}

/// Counts of the outcomes of renames.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Table {
    pub(crate) classes: BTreeMap<Class, usize>,
    pub(crate) cautions: BTreeMap<String, usize>,
    /// Counts the reasons why names are not renamed at exact places.
    pub(crate) reasons: BTreeMap<String, usize>,
    /// The number of edits in the applied plans.
    pub(crate) edits: usize,
    /// The number of plans that are not applied because they overlap an applied plan.
    pub(crate) overlapping: usize,
}

impl Table {
    pub(crate) fn count(&self, class: Class) -> usize {
        self.classes.get(&class).copied().unwrap_or(0)
    }

    pub(crate) fn total(&self) -> usize {
        self.classes.values().sum()
    }

    pub(crate) fn add(&mut self, other: &Table) {
        for (class, count) in &other.classes {
            *self.classes.entry(*class).or_default() += count;
        }
        for (caution, count) in &other.cautions {
            *self.cautions.entry(caution.clone()).or_default() += count;
        }
        for (reason, count) in &other.reasons {
            *self.reasons.entry(reason.clone()).or_default() += count;
        }
        self.edits += other.edits;
        self.overlapping += other.overlapping;
    }

    fn note(&mut self, plan: &RenamePlan) -> Class {
        let class = class(plan);
        *self.classes.entry(class).or_default() += 1;
        let reason = match class {
            Class::Narrow => None,
            Class::Symbol | Class::Cautioned => Some(plan.reason.clone()),
            Class::Made | Class::NoPlace => None,
            Class::Refused => plan.conflicts.first().map(|conflict| format!("refused: {:?}", conflict.kind)),
        };
        if let Some(reason) = reason {
            let reason = reason.replace(|char: char| char.is_ascii_digit(), "");
            *self.reasons.entry(reason.trim().to_owned()).or_default() += 1;
        }
        if class == Class::Cautioned {
            let mut kinds: Vec<String> =
                plan.cautions.iter().map(|caution| format!("{:?}", caution.kind)).collect();
            kinds.sort();
            kinds.dedup();
            for kind in kinds {
                *self.cautions.entry(kind).or_default() += 1;
            }
        }
        class
    }
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        let placed = total - self.count(Class::NoPlace);
        let share = |part: usize, whole: usize| 100.0 * part as f64 / whole.max(1) as f64;
        writeln!(out, "{:<52} {:>7} {:>8} {:>8}", "", "names", "of all", "placed")?;
        let mut row = |what: &str, count: usize| {
            let (all, placed) = (share(count, total), share(count, placed).min(100.0));
            writeln!(out, "{what:<52} {count:>7} {all:>6.1} % {placed:>6.1} %")
        };
        let [narrow, symbol, cautioned] =
            [Class::Narrow, Class::Symbol, Class::Cautioned].map(|class| self.count(class));
        row("all names", total)?;
        row("exact places", narrow)?;
        row("+ the symbol's set, no caution", narrow + symbol)?;
        row("+ the symbol's set, with a caution beforehand", narrow + symbol + cautioned)?;
        row("made from other names: changes with them", self.count(Class::Made))?;
        row("no place in the text", self.count(Class::NoPlace))?;
        row("refused", self.count(Class::Refused))?;
        for (caution, count) in &self.cautions {
            row(&format!("  caution: {caution}"), *count)?;
        }
        for (reason, count) in &self.reasons {
            row(&format!("  not exact: {}", reason.chars().take(39).collect::<String>()), *count)?;
        }
        writeln!(out, "{} edits; {} names overlap others", self.edits, self.overlapping)
    }
}

fn class(plan: &RenamePlan) -> Class {
    match plan.conflicts.first().map(|conflict| conflict.kind) {
        Some(ConflictKind::NoPlace) => Class::NoPlace,
        Some(ConflictKind::Made) => Class::Made,
        Some(_) => Class::Refused,
        None if !plan.cautions.is_empty() => Class::Cautioned,
        None if plan.scope == Scope::Narrow => Class::Narrow,
        None => Class::Symbol,
    }
}

/// Lists the global names that the loaded project defines, as they are printed, one in `one_in` of
/// them.
pub(crate) fn names(bank: &Steelbank, one_in: usize) -> Vec<String> {
    let index = bank.index();
    let control = Control::default();
    let mut names: Vec<String> = index
        .symbols()
        .filter(|&symbol| {
            index.symbol_package(symbol).is_some_and(|home| {
                let home = index.package_name(home);
                !["SB-", "UIOP", "ASDF", "STEELBANK"].iter().any(|own| home.starts_with(own))
                    && !["COMMON-LISP", "COMMON-LISP-USER", "KEYWORD"].contains(&home.as_ref())
            })
        })
        .map(|symbol| index.symbol_text(symbol))
        .collect();
    names.sort();
    names.dedup();
    names.retain(|name| {
        let found = bank.ask(&FindDefinitionRequest::new(name).package("CL-USER"), &control);
        found.is_ok_and(|found| {
            found.definitions.iter().any(|found| {
                // A package with the symbol's name is not the symbol.
                found.kind != LispKind::Package
                    && !Path::new(&found.place.file).is_absolute()
                    && !found.place.file.starts_with("SYS:")
            })
        })
    });
    names.into_iter().step_by(one_in.max(1)).collect()
}

/// Plans the rename of each name, and counts the outcomes. Applies the plans without cautions that
/// do not overlap, in `copy`.
pub(crate) fn rename_all(bank: &Steelbank, names: &[String], copy: &Path) -> Table {
    let mut table = Table::default();
    let mut files: BTreeMap<String, BTreeMap<u32, RenameEdit>> = BTreeMap::new();
    for name in names {
        let request = RenameRequest::new(name.as_str(), renamed(name));
        let plan = match bank.ask(&request, &Control::default()) {
            Ok(plan) => plan,
            Err(error) => {
                println!("seen: rename: {name}: {error}");
                *table.classes.entry(Class::Refused).or_default() += 1;
                continue;
            }
        };
        let class = table.note(&plan);
        if class != Class::Narrow && std::env::var_os("STEELBANK_RENAME_SHOW").is_some() {
            let (reason, conflicts, cautions) = (&plan.reason, &plan.conflicts, &plan.cautions);
            println!("seen: {class:?} {name}: {reason} {conflicts:?} {cautions:?}");
            if reason.starts_with("The meaning of") {
                show_doubts(bank, name);
            }
        }
        if !matches!(class, Class::Narrow | Class::Symbol) {
            continue;
        }
        // Skip plans that overlap, such as those of a structure and its accessors.
        let free = plan.files.iter().all(|file| {
            let taken = files.get(&file.path);
            file.edits.iter().all(|edit| {
                taken.is_none_or(|taken| {
                    let before = taken.range(..edit.range.end).next_back();
                    before.is_none_or(|(_, other)| other.range.end <= edit.range.start)
                })
            })
        });
        if !free {
            table.overlapping += 1;
            continue;
        }
        for file in plan.files {
            table.edits += file.edits.len();
            let taken = files.entry(file.path).or_default();
            taken.extend(file.edits.into_iter().map(|edit| (edit.range.start, edit)));
        }
    }
    for (path, edits) in files {
        let path = copy.join(path);
        let mut bytes = fs::read(&path).unwrap();
        for edit in edits.into_values().rev() {
            let old = String::from_utf8_lossy(&bytes[edit.range.indices()]).into_owned();
            assert!(old == edit.old || !edit.old.is_ascii(), "{} {edit:?} {old}", path.display());
            bytes.splice(edit.range.indices(), edit.new.bytes());
        }
        fs::write(path, bytes).unwrap();
    }
    table
}

/// Selects the names with renames that have only cautions about derived names or slots.
pub(crate) fn cautioned(bank: &Steelbank, names: &[String]) -> Vec<String> {
    let warns = |name: &&String| {
        let request = RenameRequest::new(name.as_str(), renamed(name));
        let plan = bank.ask(&request, &Control::default());
        plan.is_ok_and(|plan| {
            class(&plan) == Class::Cautioned
                && plan
                    .cautions
                    .iter()
                    .all(|caution| matches!(caution.kind, CautionKind::Maker | CautionKind::Slot))
        })
    };
    names.iter().filter(warns).cloned().collect()
}

fn renamed(name: &str) -> String {
    let bare = name.rsplit("::").next().unwrap();
    match bare.strip_prefix('|').and_then(|bare| bare.strip_suffix('|')) {
        Some(bare) => format!("|{bare}{SUFFIX}|"),
        None => format!("{bare}{SUFFIX}"),
    }
}

/// Prints places where the meaning of `name` is uncertain.
fn show_doubts(bank: &Steelbank, name: &str) {
    let request = References { limit: usize::MAX, ..References::new(name) };
    let Ok(found) = bank.ask(&request, &Control::default()) else { return };
    let unsure =
        |found: &&CodeReference| found.evidence == Evidence::Approximate || !found.approximate.is_empty();
    for found in found.refs.iter().filter(unsure).take(3) {
        let (place, context) =
            (found.place.clone().whole_line(), found.context.as_deref().unwrap_or_default());
        println!("seen: doubt {place} {:?} {context}", found.use_type);
    }
}

/// Loads `systems`. Returns the status and the sorted diagnostics of each, as [`plain`] writes
/// them.
pub(crate) fn report(bank: &Steelbank, systems: &[String], folders: [&Path; 2]) -> Vec<String> {
    let mut report = Vec::new();
    for system in systems {
        let answer = bank
            .run(&LoadRequest::system(system).failure_as_answer(), &Control::new(Duration::from_secs(3600)))
            .unwrap();
        report.push(format!("{system}: {:?} {:?}", answer.status, failure(&answer)));
        let mut said: Vec<String> = answer
            .diagnostics
            .iter()
            .map(|said| format!("  {system}: {:?} {}", said.severity, plain(&said.message, folders)))
            .collect();
        said.sort();
        report.extend(said);
    }
    report
}

fn failure(answer: &LoadAnswer) -> Option<FailureKind> {
    answer.failure.as_ref().map(|failure| failure.kind)
}

/// Converts a message to upper case, and removes what differs between runs: the suffix of new
/// names, `folders`, words with digits, and SB-RT's memory dumps of failed values.
pub(crate) fn plain(text: &str, folders: [&Path; 2]) -> String {
    let hexadecimal = |word: &str| !word.is_empty() && word.chars().all(|char| char.is_ascii_hexdigit());
    let dumped = |line: &&str| {
        line.split_once(": ").is_some_and(|(address, word)| {
            hexadecimal(address)
                && word.split(' ').next().is_some_and(|word| word.len() == 16 && hexadecimal(word))
        })
    };
    let lines: Vec<&str> = text.lines().filter(|line| !dumped(line)).collect();
    let mut text = lines.join("\n").to_uppercase().replace(SUFFIX, "");
    for folder in folders {
        text = text.replace(&folder.display().to_string().to_uppercase(), "");
    }
    let words = text.split_whitespace().filter(|word| !word.contains(|char: char| char.is_ascii_digit()));
    words.collect::<Vec<_>>().join(" ")
}

/// Copies a folder's files and folders.
pub(crate) fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else if path.is_file() {
            fs::copy(&path, &target).unwrap();
        }
    }
}
