//! Verification that a rename leaves the program what it was: what loading the project shows before and after
//! is compared, with the names replaced.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use steelbank_reader::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plan::{RenamePlan, Scope};
use super::replaced::{Renamed, parts, plain_text};
use crate::actions::run::run_tests::TestResult;
use crate::answer::Location;
use crate::answer::name::{self, readable};
use crate::handle::loaded::Severity;
use steelbank_xref::{FunctionKind, Index, Kind};

/// A request to load the project in an image, and to report what that shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TracesRequest {
    pub(crate) systems: Vec<String>,
    /// Files that no system has.
    pub(crate) files: Vec<PathBuf>,
    /// Systems to test.
    pub(crate) tests: Vec<String>,
    /// The tokens to report, in the renamed project.
    pub(crate) places: Option<PlacesRequest>,
    /// Whether to report only how many files were compiled, if any were.
    pub(crate) from_fasls: bool,
    /// Whether to compile all files of the systems, also those that depend on nothing that changed.
    pub(crate) anew: bool,
}

/// The symbols whose tokens are reported in the renamed project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlacesRequest {
    /// The symbol before, as answers have it.
    pub(crate) old: String,
    /// The symbol after.
    pub(crate) new: String,
    /// The old name as it is read.
    pub(crate) old_name: String,
    pub(crate) scope: Scope,
    pub(crate) comments: bool,
    pub(crate) strings: bool,
    pub(crate) derived: bool,
    /// The old symbol, and those that are renamed along, as they were.
    pub(crate) gone: Vec<GoneSymbol>,
}

/// A symbol that must stand nowhere after the rename.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GoneSymbol {
    /// As answers have it.
    pub(crate) printed: String,
    pub(crate) name: String,
    pub(crate) package: String,
    /// The packages that exported it, through which text may still mean it.
    pub(crate) exported_by: Vec<String>,
}

/// What loading the project shows.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoadRecord {
    /// The systems and files that do not load.
    pub(crate) failed: Vec<FailedLoad>,
    pub(crate) diagnostics: Vec<ComparedDiagnostic>,
    pub(crate) records: Vec<ComparedXref>,
    pub(crate) tests: Vec<Tested>,
    /// The symbols of the packages that were made or changed: package, symbol, whether it is exported.
    pub(crate) symbols: Vec<(String, String, bool)>,
    /// How many files were compiled.
    pub(crate) compiled: usize,
    /// The files that were loaded.
    pub(crate) loaded: Vec<PathBuf>,
    pub(crate) places: Option<NamePlaces>,
    /// Code that has looked up the old name where the new symbol is meant: its place and function.
    pub(crate) looked_up: Vec<(Option<Location>, String)>,
}

/// A system or file that does not load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FailedLoad {
    pub(crate) name: String,
    pub(crate) why: String,
    /// The file at which it stopped.
    pub(crate) path: Option<String>,
}

/// A diagnostic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ComparedDiagnostic {
    pub(crate) severity: Severity,
    /// The line; an empty file if it is about none.
    pub(crate) place: Location,
    pub(crate) message: String,
}

impl ComparedDiagnostic {
    pub(super) fn text(&self, message: &str) -> String {
        format!("{} {}: {message}", self.severity.name(), self.place)
    }
}

/// A cross reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ComparedXref {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) by: String,
    pub(crate) by_kind: FunctionKind,
    pub(crate) file: String,
    pub(crate) form: Option<u32>,
    pub(crate) number: Option<u32>,
    /// Whether the function is reached by its name; if not, it may be collected at any time.
    pub(crate) named: bool,
}

/// How a system's tests ended, as run-tests tells it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tested {
    pub(crate) system: String,
    /// Why they did not run.
    pub(crate) not_loaded: Option<String>,
    pub(crate) tests: Vec<TestResult>,
}

/// Where the names stand in the renamed project, as its own image tells.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamePlaces {
    /// Tokens that still read as the old symbol, or as one that is renamed along: file, and a sentence.
    pub(crate) old: Vec<(String, String)>,
    /// Tokens that read as the new symbol, or as a name that is renamed along: file, and bytes.
    pub(crate) new: Vec<(String, Range)>,
    /// Why the new symbol's tokens cannot be told.
    pub(crate) trouble: Option<String>,
}

/// An edit, where it stands in the new text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AppliedEdit {
    pub(crate) path: String,
    /// In bytes of the new file.
    pub(crate) range: Range,
    /// Its place in the old text.
    pub(crate) place: Location,
}

/// What a difference is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DifferenceKind {
    /// A system does not load, or for another reason.
    Load,
    /// A token that reads as the old symbol still.
    Left,
    /// Code that makes the old name when it runs, and looks it up.
    LookUp,
    /// An edit after which the new symbol does not stand there.
    Edit,
    /// A token that reads as the new symbol, and was not edited.
    Extra,
    /// A diagnostic.
    Diagnostic,
    /// A cross reference.
    Reference,
    /// A symbol of a package, or an export.
    Symbol,
    /// The outcome of a test.
    Test,
}

/// Something that the rename changes besides the name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Difference {
    /// What it is about.
    pub kind: DifferenceKind,
    /// A sentence.
    pub message: String,
    /// The file that it is about, if it is about one.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) path: Option<String>,
}

/// Whether a rename leaves the program what it was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Verified {
    /// Whether nothing differs but the name.
    pub same: bool,
    /// The systems that were loaded, before and after.
    pub systems: Vec<String>,
    /// How many cross references were compared.
    pub references: usize,
    /// How many diagnostics were compared.
    pub diagnostics: usize,
    /// The systems that were tested.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tested: Vec<String>,
    /// What differs: the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub differences: Vec<Difference>,
    /// How much differs.
    #[serde(skip_serializing_if = "crate::answer::is_zero", default)]
    pub differences_total: usize,
    /// Whether the same program came only when all files were compiled anew: some know the name when they are read, and ASDF
    /// is not told that they depend on it.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub anew: bool,
    /// Names that macros make, which have changed with the one that they are made from.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub made: Vec<String>,
    /// Edited files that none of the systems loads: of them, nothing was verified.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub not_loaded: Vec<String>,
    /// What could not be loaded, before and after alike, and why: of it, nothing was verified.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub failed: Vec<String>,
    /// Code that makes names when it runs, of which the old one may be one: nobody has seen all that it makes.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub computed: Vec<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
}

impl Verified {
    /// Whether the differences may come from fasls of files that were compiled before the rename.
    pub(crate) fn may_be_stale(&self) -> bool {
        use DifferenceKind::{Diagnostic, Reference, Symbol};
        // They are sorted by kind: what the edits themselves did comes first.
        self.differences.first().is_some_and(|first| matches!(first.kind, Diagnostic | Reference | Symbol))
    }
}

/// The most differences that an answer lists.
const MOST_DIFFERENCES: usize = 20;

/// Compares what loading showed before and after the rename `plan`, whose edits are `written`. `index` is of the image
/// before; `shown` returns how answers show a file.
pub(crate) fn compare(
    plan: &RenamePlan,
    written: &[AppliedEdit],
    before: &LoadRecord,
    after: &LoadRecord,
    index: &Index,
    shown: &dyn Fn(&Path) -> String,
) -> Verified {
    let names = Renamed::new(plan);
    let mut verified = Verified {
        references: before.records.len(),
        diagnostics: before.diagnostics.len(),
        computed: plan.computed.clone(),
        tested: before.tests.iter().map(|test| test.system.clone()).collect(),
        ..Verified::default()
    };
    let mut found = Vec::new();
    let mut add = |kind, message, path| found.push(Difference { kind, message, path });
    failures(&names, before, after, &mut add);
    for edit in plan.lisp_files().flat_map(|file| &file.edits) {
        if !names.has(&edit.old) && !names.is_part(edit) {
            let message = format!("{}: {} is not {}.", edit.place, edit.old, plan.symbol);
            add(DifferenceKind::Edit, message, Some(edit.place.file.clone()));
        }
    }
    if let Some(places) = &after.places {
        compare_places(plan, written, places, &mut add);
    }
    for (place, function) in &after.looked_up {
        let at = place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        let message = format!(
            "{at}{} makes the name {} when it runs, and looks it up: that symbol is called {} now.",
            name::written(index, function),
            plan.symbol,
            readable(&plan.new_name)
        );
        add(DifferenceKind::LookUp, message, place.as_ref().map(|place| place.file.clone()));
    }
    let mut originals = BTreeMap::new();
    let mut diagnostics = |said: &[ComparedDiagnostic]| -> Vec<String> {
        let plain: Vec<String> = said.iter().map(|said| names.diagnostic(said)).collect();
        originals.extend(plain.iter().cloned().zip(said.iter().cloned()));
        plain
    };
    let (first, second) = (diagnostics(&before.diagnostics), diagnostics(&after.diagnostics));
    for (change, line) in words(changes(first, second)) {
        let said = originals.get(&line);
        let line = said.map_or(line, |said| said.text(&said.message));
        let path = said.map(|said| said.place.file.clone());
        add(DifferenceKind::Diagnostic, format!("{change}: {line}"), path);
    }
    // A list more moves the numbers of the forms behind it.
    let mut edits = plan.lisp_files().flat_map(|file| &file.edits);
    let numbers = !edits.any(|edit| edit.new.contains('('));
    let (references, made) = references(&names, numbers, before, after, index, shown);
    for (path, reference) in references {
        add(DifferenceKind::Reference, reference, Some(path));
    }
    verified.made = made;
    for symbol in symbols(&names, plan.scope, before, after, index) {
        add(DifferenceKind::Symbol, symbol, None);
    }
    for (first, second) in before.tests.iter().zip(&after.tests) {
        for message in names.tests(first, second) {
            add(DifferenceKind::Test, message, None);
        }
    }
    found.sort();
    verified.same = found.is_empty();
    verified.differences_total = found.len();
    found.truncate(MOST_DIFFERENCES);
    verified.differences = found;
    let loaded: Vec<String> = after.loaded.iter().map(|path| shown(path)).collect();
    let edited = plan.lisp_files().map(|file| &file.path);
    verified.failed = after.failed.iter().map(|found| format!("{}: {}", found.name, found.why)).collect();
    verified.not_loaded =
        edited.filter(|path| !path.ends_with(".asd") && !loaded.contains(path)).cloned().collect();
    verified
}

fn failures(
    names: &Renamed,
    before: &LoadRecord,
    after: &LoadRecord,
    add: &mut dyn FnMut(DifferenceKind, String, Option<String>),
) {
    let plain = |failed: &[FailedLoad]| -> Vec<String> {
        failed.iter().map(|found| format!("{}: {}", found.name, names.neutral_text(&found.why))).collect()
    };
    // A failure that changed is reported with the new ones.
    let (_, new) = changes(plain(&before.failed), plain(&after.failed));
    if !new.is_empty() {
        for FailedLoad { name, why, path } in &after.failed {
            let message = format!("{name} does not load after the rename: {why}");
            add(DifferenceKind::Load, message, path.clone());
        }
        return;
    }
    if after.failed.len() < before.failed.len() {
        add(DifferenceKind::Load, "More loads after the rename than before.".to_owned(), None);
    }
}

fn compare_places(
    plan: &RenamePlan,
    written: &[AppliedEdit],
    places: &NamePlaces,
    add: &mut dyn FnMut(DifferenceKind, String, Option<String>),
) {
    if let Some(trouble) = &places.trouble {
        add(DifferenceKind::Edit, trouble.clone(), None);
        return;
    }
    for (path, message) in &places.old {
        add(DifferenceKind::Left, message.clone(), Some(path.clone()));
    }
    let mut hit = vec![0_usize; written.len()];
    for (path, token) in &places.new {
        let edit = written.iter().position(|edit| edit.path == *path && edit.range.encloses(*token));
        match edit {
            Some(edit) => hit[edit] += 1,
            None => add(
                DifferenceKind::Extra,
                format!(
                    "{path} has a token at byte {} that means the new symbol and was not edited.",
                    token.start
                ),
                Some(path.clone()),
            ),
        }
    }
    for (edit, hit) in written.iter().zip(hit) {
        if hit != 1 {
            let new_name = readable(&plan.new_name);
            let message = format!("{}: what stands there after the edit is not {new_name}.", edit.place);
            add(DifferenceKind::Edit, message, Some(edit.place.file.clone()));
        }
    }
}

/// Compares the cross references. Returns those that differ, each with its file, and the names that macros make otherwise now.
fn references(
    names: &Renamed,
    numbers: bool,
    before: &LoadRecord,
    after: &LoadRecord,
    index: &Index,
    shown: &dyn Fn(&Path) -> String,
) -> (Vec<(String, String)>, Vec<String>) {
    let line = |record: &ComparedXref, name: String| ComparedUse {
        name,
        kind: record.kind,
        by: names.neutral_text(&record.by),
        by_kind: format!("{:?}", record.by_kind),
        file: record.file.clone(),
        form: record.form,
        number: record.number.filter(|_| numbers),
    };
    // A function that nothing refers to may have been collected in one image, and not yet in the other.
    let alive = |record: &ComparedXref| (names.neutral_text(&record.by), record.file.clone(), record.form);
    let unnamed = |traces: &LoadRecord| -> BTreeSet<_> {
        traces.records.iter().filter(|record| !record.named).map(alive).collect()
    };
    let (first, second) = (unnamed(before), unnamed(after));
    let compared = |record: &&ComparedXref| {
        record.named || {
            let function = alive(record);
            first.contains(&function) && second.contains(&function)
        }
    };
    let expected =
        before.records.iter().filter(compared).map(|record| line(record, names.replaced_text(&record.name)));
    let found = after.records.iter().filter(compared).map(|record| line(record, plain_text(&record.name)));
    let (mut gone, mut new) = changes(expected.collect(), found.collect());
    let mut made = Vec::new();
    gone.retain(|line| {
        // Pairs a reference that is gone with a new one, to a name that a macro makes from the new symbol's.
        let Some(name) = names.made(&line.name) else { return true };
        let expected = ComparedUse { name, ..line.clone() };
        let Some(at) = new.iter().position(|line| *line == expected) else { return true };
        new.swap_remove(at);
        made.push(format!(
            "{} is {} now",
            name::written(index, &line.name),
            name::written(index, &expected.name)
        ));
        false
    });
    made.sort();
    made.dedup();
    let all = before.records.iter().chain(&after.records);
    let originals: BTreeMap<String, &str> =
        all.map(|record| (names.neutral_text(&record.by), record.by.as_str())).collect();
    let say = |(change, line): (&str, ComparedUse)| {
        let by = name::written(index, originals.get(&line.by).copied().unwrap_or(&line.by));
        let name = name::written(index, &line.name);
        let form = line.form.map(|form| format!(", form {form}")).unwrap_or_default();
        let kind = match line.kind {
            Kind::Calls => "calls",
            Kind::Macroexpands => "expands",
            Kind::Binds => "binds",
            Kind::References => "reads",
            Kind::Sets => "writes",
            Kind::Specializes => "specializes on",
        };
        let file = if line.file.is_empty() { String::new() } else { shown(Path::new(&line.file)) };
        let message = format!("{change}: {by} {kind} {name} ({file}{form})");
        (file, message)
    };
    (words((gone, new)).map(say).collect(), made)
}

/// Lists the symbols and exports that differ.
fn symbols(
    names: &Renamed,
    scope: Scope,
    before: &LoadRecord,
    after: &LoadRecord,
    index: &Index,
) -> Vec<String> {
    let line = |(package, symbol, external): &(String, String, bool),
                symbol_text: &dyn Fn(&str) -> String| {
        (package.clone(), symbol_text(symbol), *external)
    };
    // Compares exports, and names that contain the renamed one: locals and LOOP's words may keep the old
    // name, and which other names are there depends on what the compiler keeps.
    let other = |line: &(String, String, bool)| {
        line.2
            || (!names.is_own(&line.1) && {
                let (_, name) = parts(&line.1);
                names.neutral_text(name) != name
            })
    };
    let expected = before.symbols.iter().map(|symbol| line(symbol, &|text| names.replaced_text(text)));
    let found = after.symbols.iter().map(|symbol| line(symbol, &plain_text));
    let (mut gone, mut new) = changes(expected.filter(other).collect(), found.filter(other).collect());
    if scope == Scope::Narrow {
        // Local variables keep the name: where it was inherited, they have a symbol of their own now.
        new.retain(|(package, symbol, external)| {
            *external || parts(symbol) != (format!("{package}::").as_str(), names.old())
        });
    }
    gone.retain(|(package, symbol, external)| {
        let Some(made) = names.made(symbol) else { return true };
        let at = new.iter().position(|line| *line == (package.clone(), made.clone(), *external));
        at.map(|at| new.swap_remove(at)).is_none()
    });
    let say = |(change, (package, symbol, external)): (&str, (String, String, bool))| {
        let what = if external { "exports" } else { "has" };
        format!("{change}: package {package} {what} {}", name::written(index, &symbol))
    };
    words((gone, new)).map(say).collect()
}

/// A cross reference as it is compared.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ComparedUse {
    name: String,
    kind: Kind,
    by: String,
    by_kind: String,
    file: String,
    form: Option<u32>,
    number: Option<u32>,
}

/// Names what is gone, and what is new.
fn words<T>((gone, new): (Vec<T>, Vec<T>)) -> impl Iterator<Item = (&'static str, T)> {
    gone.into_iter().map(|gone| ("gone", gone)).chain(new.into_iter().map(|new| ("new", new)))
}

/// Lists what the first of two lists has more often than the second, once for each time; and the other way round.
fn changes<T: Ord>(mut before: Vec<T>, mut after: Vec<T>) -> (Vec<T>, Vec<T>) {
    before.sort();
    after.sort();
    let (mut gone, mut new) = (Vec::new(), Vec::new());
    let (mut before, mut after) = (before.into_iter().peekable(), after.into_iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (Some(first), Some(second)) => first.cmp(second),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return (gone, new),
        };
        if order.is_le() {
            gone.extend(before.next().filter(|_| order.is_lt()));
        }
        if order.is_ge() {
            new.extend(after.next().filter(|_| order.is_gt()));
        }
    }
}
