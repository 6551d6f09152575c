//! Verifies that a rename preserves the program. One scratch image loads the unchanged project, and
//! another loads the renamed project. Each returns a [`LoadReport`], and [`compare`] compares the
//! reports after replacing the names. It compares failures, diagnostics, cross references, the
//! symbols of packages, test results, and the places of the old and new symbols. The submodule
//! `run` creates the reports.

pub(super) mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use steelbank_reader::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::plan::{FileEdits, RenameEdit, RenamePlan, Scope};
use super::replaced::{Renamed, plain_text, split_symbol};
use crate::actions::run::run_tests::TestResult;
use crate::answer::Location;
use crate::answer::name::{self, readable};
use crate::handle::loaded::Severity;
use steelbank_xref::{FunctionKind, Index, Kind, SymbolName};

/// A request to load the project in a scratch image, and to report the results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoadReportRequest {
    pub(crate) systems: Vec<String>,
    /// Files that belong to no system.
    pub(crate) files: Vec<PathBuf>,
    /// Systems to test.
    pub(crate) tests: Vec<String>,
    /// The symbols to locate. `None` for the unchanged project.
    pub(crate) places: Option<PlacesRequest>,
    /// Whether to stop after the loads if a file of a system was compiled. The report then contains
    /// only the results of the loads.
    pub(crate) from_fasls: bool,
    /// Whether to compile all files of the systems, even if neither the files nor their
    /// dependencies have changed.
    pub(crate) force: bool,
}

/// The symbols to locate in the renamed project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PlacesRequest {
    /// The old symbol, as in answers.
    pub(crate) old: String,
    /// The new symbol.
    pub(crate) new: String,
    /// The old name, in a syntax that every reader accepts.
    pub(crate) old_name: String,
    pub(crate) scope: Scope,
    pub(crate) comments: bool,
    pub(crate) strings: bool,
    pub(crate) derived: bool,
    /// The old symbol, and the old symbols of derived names that are renamed too.
    pub(crate) removed: Vec<RemovedSymbol>,
}

/// A symbol that must not occur after the rename.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RemovedSymbol {
    /// The symbol as in answers.
    pub(crate) printed: String,
    pub(crate) symbol: SymbolName,
    /// The packages that exported the symbol. Text may still refer to the symbol through them.
    pub(crate) exported_by: Vec<String>,
}

/// The results of loading the project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LoadReport {
    /// The systems and files that do not load.
    pub(crate) failed: Vec<FailedLoad>,
    pub(crate) diagnostics: Vec<ComparedDiagnostic>,
    pub(crate) records: Vec<ComparedXref>,
    pub(crate) tests: Vec<Tested>,
    /// The symbols of new or changed packages: package, symbol, whether it is exported.
    pub(crate) symbols: Vec<(String, String, bool)>,
    /// The number of compiled files.
    pub(crate) compiled: usize,
    /// The loaded files.
    pub(crate) loaded: Vec<PathBuf>,
    pub(crate) places: Option<NamePlaces>,
    /// Calls that looked up the old name where the new symbol is meant: place and function.
    pub(crate) looked_up: Vec<(Option<Location>, String)>,
}

/// A system or file that does not load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FailedLoad {
    pub(crate) name: String,
    pub(crate) why: String,
    /// The file at which the load stopped.
    pub(crate) path: Option<String>,
}

/// A diagnostic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ComparedDiagnostic {
    pub(crate) severity: Severity,
    /// The diagnostic's file and line. The file name is empty if the place is unknown.
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
    /// Whether the function is reachable by its name. If not, it may be garbage collected at any
    /// time.
    pub(crate) named: bool,
}

/// The test results of a system, as `run-tests` reports them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tested {
    pub(crate) system: String,
    /// The reason why the tests did not run.
    pub(crate) not_loaded: Option<String>,
    pub(crate) tests: Vec<TestResult>,
}

/// The places of the names in the renamed project, as the image that loaded it reports them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamePlaces {
    /// Tokens that still read as the old symbol, or as another renamed symbol: file and sentence.
    pub(crate) old: Vec<(String, String)>,
    /// Tokens that read as the new symbol, or as another new name: file and byte range.
    pub(crate) new: Vec<(String, Range)>,
    /// The reason why the remaining tokens of the old symbol, or the tokens of the new symbol,
    /// could not be found.
    pub(crate) trouble: Option<String>,
}

/// An edit and its place in the new text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AppliedEdit {
    pub(crate) path: String,
    /// The range in bytes of the new file.
    pub(crate) range: Range,
    /// The place in the old text.
    pub(crate) place: Location,
}

/// The subject of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum DifferenceKind {
    /// A system or file does not load after the rename, fails for another reason, or loads only
    /// after the rename.
    Load,
    /// A token still reads as the old symbol.
    Left,
    /// Code generates the old name at run time, and looks it up.
    LookUp,
    /// The place of an edit does not read as the new symbol, or did not read as the old symbol
    /// before. Or the places could not be determined.
    Edit,
    /// A token reads as the new symbol but was not edited.
    Extra,
    /// A diagnostic.
    Diagnostic,
    /// A cross reference.
    Reference,
    /// A symbol of a package, or an export.
    Symbol,
    /// A test result.
    Test,
}

/// A difference between the old and the renamed program, other than the name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Difference {
    /// The subject.
    pub kind: DifferenceKind,
    /// A sentence.
    pub message: String,
    /// The file of the difference, if any.
    #[serde(skip)]
    #[schemars(skip)]
    pub(crate) path: Option<String>,
}

/// The result of verifying a rename.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Verified {
    /// Whether nothing but the name differs.
    pub same: bool,
    /// The systems that were loaded, before and after the rename.
    pub systems: Vec<String>,
    /// The number of compared cross references.
    pub references: usize,
    /// The number of compared diagnostics.
    pub diagnostics: usize,
    /// The systems that were tested.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tested: Vec<String>,
    /// The first differences.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub differences: Vec<Difference>,
    /// The number of all differences.
    #[serde(skip_serializing_if = "crate::answer::is_zero", default)]
    pub differences_total: usize,
    /// Whether the programs are the same only if all files are recompiled: some files use the name
    /// at read or compile time, and ASDF does not know of this dependency.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    #[serde(rename = "anew")]
    pub recompiled: bool,
    /// Names that macros generate and that changed with the renamed name.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[serde(rename = "made")]
    pub generated: Vec<String>,
    /// Edited files that the verification did not load, so that their edits were not verified.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub not_loaded: Vec<String>,
    /// Systems and files that do not load after the rename, with the reason. They were not
    /// verified.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub failed: Vec<String>,
    /// Places where code generates names at run time that may include the old name. These names are
    /// not verified completely.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub computed: Vec<String>,
    /// The duration in milliseconds.
    pub duration_ms: u64,
}

impl Verified {
    /// Returns whether the differences may come from fasls that were compiled before the rename.
    pub(crate) fn may_be_stale(&self) -> bool {
        use DifferenceKind::{Diagnostic, Reference, Symbol};
        // Differences are sorted by kind. The kinds before these three are direct effects of the
        // edits.
        self.differences.first().is_some_and(|first| matches!(first.kind, Diagnostic | Reference | Symbol))
    }

    /// Adds the differences, and what could not be verified after the edits of `files`.
    fn end(
        &mut self,
        mut found: Vec<Difference>,
        files: &[FileEdits],
        after: &LoadReport,
        shown: &dyn Fn(&Path) -> String,
    ) {
        found.sort();
        self.same = found.is_empty();
        self.differences_total = found.len();
        found.truncate(MOST_DIFFERENCES);
        self.differences = found;
        self.failed = after.failed.iter().map(|found| format!("{}: {}", found.name, found.why)).collect();
        let loaded: Vec<String> = after.loaded.iter().map(|path| shown(path)).collect();
        let edited = files.iter().filter(|file| !file.other).map(|file| &file.path);
        self.not_loaded =
            edited.filter(|path| !path.ends_with(".asd") && !loaded.contains(path)).cloned().collect();
    }
}

/// The maximum number of differences in an answer.
const MOST_DIFFERENCES: usize = 20;

/// Compares the results of loading before and after the rename `plan` with the edits `written`.
/// `index` belongs to the image before the rename; `shown` formats a path for answers.
pub(crate) fn compare(
    plan: &RenamePlan,
    written: &[AppliedEdit],
    before: &LoadReport,
    after: &LoadReport,
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
    let fails = failures(&names, before, after, &mut add);
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
            "{at}{} generates the name {} at run time and looks it up, but the symbol is now called {}.",
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
    // An edit that adds a list changes the numbers of the forms after the list. In that case, do
    // not compare the numbers.
    let mut edits = plan.lisp_files().flat_map(|file| &file.edits);
    let numbers = !edits.any(|edit| edit.new.contains('('));
    // If loading fails, the remaining definitions are missing for that reason.
    if !fails {
        let (references, generated) = references(&names, numbers, before, after, index, shown);
        for (path, reference) in references {
            add(DifferenceKind::Reference, reference, Some(path));
        }
        verified.generated = generated;
        for symbol in symbols(&names, plan.scope, before, after, index) {
            add(DifferenceKind::Symbol, symbol, None);
        }
    }
    tests(&names, before, after, &mut add);
    verified.end(found, &plan.files, after, shown);
    verified
}

/// Compares the results of loading before and after edits of `files` that may change cross
/// references and the lines of diagnostics. Failures, diagnostics and test results must be the
/// same, apart from the diagnostics of deleted text.
pub(crate) fn compare_loads(
    files: &[FileEdits],
    before: &LoadReport,
    after: &LoadReport,
    shown: &dyn Fn(&Path) -> String,
) -> Verified {
    let names = Renamed::none();
    let is_deleted = |said: &&ComparedDiagnostic| {
        let edits = files.iter().filter(|file| file.path == said.place.file).flat_map(|file| &file.edits);
        let lines = |edit: &RenameEdit| {
            let first = edit.place.line?;
            Some(first..=first + edit.old.matches('\n').count() as u32)
        };
        let mut deleted = edits.filter(|edit| edit.new.is_empty()).filter_map(lines);
        said.place.line.is_some_and(|line| deleted.any(|lines| lines.contains(&line)))
    };
    let mut verified = Verified {
        diagnostics: before.diagnostics.len(),
        tested: before.tests.iter().map(|test| test.system.clone()).collect(),
        ..Verified::default()
    };
    let mut found = Vec::new();
    let mut add = |kind, message, path| found.push(Difference { kind, message, path });
    failures(&names, before, after, &mut add);
    let mut originals = BTreeMap::new();
    let mut keys = |said: &[ComparedDiagnostic]| -> Vec<(String, Severity, String)> {
        let key = |said: &ComparedDiagnostic| {
            (said.place.file.clone(), said.severity, names.neutral_text(&said.message))
        };
        originals.extend(said.iter().map(|said| (key(said), said.text(&said.message))));
        said.iter().map(key).collect()
    };
    let kept: Vec<ComparedDiagnostic> =
        before.diagnostics.iter().filter(|said| !is_deleted(said)).cloned().collect();
    let (first, second) = (keys(&kept), keys(&after.diagnostics));
    for (change, key) in words(changes(first, second)) {
        let line = originals.get(&key).cloned().unwrap_or_default();
        add(DifferenceKind::Diagnostic, format!("{change}: {line}"), Some(key.0));
    }
    tests(&names, before, after, &mut add);
    verified.end(found, files, after, shown);
    verified
}

/// Adds the differences between the test results.
fn tests(
    names: &Renamed,
    before: &LoadReport,
    after: &LoadReport,
    add: &mut dyn FnMut(DifferenceKind, String, Option<String>),
) {
    for (first, second) in before.tests.iter().zip(&after.tests) {
        for message in names.tests(first, second) {
            add(DifferenceKind::Test, message, None);
        }
    }
}

/// Adds the loads that fail only after the rename, or fail for another reason: the systems and the
/// first diagnostic at which they stop. Returns whether there are such loads.
fn failures(
    names: &Renamed,
    before: &LoadReport,
    after: &LoadReport,
    add: &mut dyn FnMut(DifferenceKind, String, Option<String>),
) -> bool {
    let plain = |failed: &[FailedLoad]| -> Vec<String> {
        failed.iter().map(|found| format!("{}: {}", found.name, names.neutral_text(&found.why))).collect()
    };
    // If a failure is new or has changed, report all failures after the rename.
    let (_, new) = changes(plain(&before.failed), plain(&after.failed));
    if !new.is_empty() {
        let known: Vec<String> = before.diagnostics.iter().map(|said| names.diagnostic(said)).collect();
        for FailedLoad { name, why, path } in &after.failed {
            let here = after.diagnostics.iter().filter(|said| path.as_ref() == Some(&said.place.file));
            let new = here.filter(|said| !known.contains(&names.diagnostic(said)));
            let cause = new.min_by_key(|said| said.severity).map(|said| said.text(&said.message));
            let cause = cause.as_ref().unwrap_or(why);
            let message = format!("{name} does not load after the edit: {cause}");
            add(DifferenceKind::Load, message, path.clone());
        }
        return true;
    }
    if after.failed.len() < before.failed.len() {
        add(DifferenceKind::Load, "Some systems or files load only after the edit.".to_owned(), None);
    }
    false
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
            let message = format!("{}: the text after the edit does not read as {new_name}.", edit.place);
            add(DifferenceKind::Edit, message, Some(edit.place.file.clone()));
        }
    }
}

/// Compares the cross references. Returns the differences, each with its file, and the generated
/// names that have changed.
fn references(
    names: &Renamed,
    numbers: bool,
    before: &LoadReport,
    after: &LoadReport,
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
    // An unnamed function may be garbage collected in one image and not yet in the other.
    let alive = |record: &ComparedXref| (names.neutral_text(&record.by), record.file.clone(), record.form);
    let unnamed = |report: &LoadReport| -> BTreeSet<_> {
        report.records.iter().filter(|record| !record.named).map(alive).collect()
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
    let (mut removed, mut new) = changes(expected.collect(), found.collect());
    let mut made = Vec::new();
    removed.retain(|line| {
        // Pair a removed reference with a new reference to the name that a macro generates from the
        // new symbol.
        let Some(name) = names.generated(&line.name) else { return true };
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
    (words((removed, new)).map(say).collect(), made)
}

/// Lists the differences in symbols and exports.
fn symbols(
    names: &Renamed,
    scope: Scope,
    before: &LoadReport,
    after: &LoadReport,
    index: &Index,
) -> Vec<String> {
    let line = |(package, symbol, external): &(String, String, bool),
                symbol_text: &dyn Fn(&str) -> String| {
        (package.clone(), symbol_text(symbol), *external)
    };
    // Compare only exports, and names that contain the renamed name. Local variables and LOOP
    // keywords may keep the old name, and the presence of other symbols depends on the compiler.
    let other = |line: &(String, String, bool)| {
        line.2
            || (!names.is_own(&line.1) && {
                let (_, name) = split_symbol(&line.1);
                names.neutral_text(name) != name
            })
    };
    let expected = before.symbols.iter().map(|symbol| line(symbol, &|text| names.replaced_text(text)));
    let found = after.symbols.iter().map(|symbol| line(symbol, &plain_text));
    let (mut removed, mut new) = changes(expected.filter(other).collect(), found.filter(other).collect());
    if scope == Scope::Narrow {
        // Local variables keep the old name. If that symbol was inherited, the reader now interns
        // another symbol for them.
        new.retain(|(package, symbol, external)| {
            *external || split_symbol(symbol) != (format!("{package}::").as_str(), names.old())
        });
    }
    removed.retain(|(package, symbol, external)| {
        let Some(made) = names.generated(symbol) else { return true };
        let at = new.iter().position(|line| *line == (package.clone(), made.clone(), *external));
        at.map(|at| new.swap_remove(at)).is_none()
    });
    let say = |(change, (package, symbol, external)): (&str, (String, String, bool))| {
        let what = if external { "exports" } else { "has" };
        format!("{change}: package {package} {what} {}", name::written(index, &symbol))
    };
    words((removed, new)).map(say).collect()
}

/// A cross reference in comparable form.
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

/// Labels removed and new items.
fn words<T>((removed, new): (Vec<T>, Vec<T>)) -> impl Iterator<Item = (&'static str, T)> {
    removed.into_iter().map(|removed| ("removed", removed)).chain(new.into_iter().map(|new| ("new", new)))
}

/// Compares two lists as multisets. Returns the items that are only in the first list, and the
/// items that are only in the second.
fn changes<T: Ord>(mut before: Vec<T>, mut after: Vec<T>) -> (Vec<T>, Vec<T>) {
    before.sort();
    after.sort();
    let (mut removed, mut new) = (Vec::new(), Vec::new());
    let (mut before, mut after) = (before.into_iter().peekable(), after.into_iter().peekable());
    loop {
        let order = match (before.peek(), after.peek()) {
            (Some(first), Some(second)) => first.cmp(second),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => return (removed, new),
        };
        if order.is_le() {
            removed.extend(before.next().filter(|_| order.is_lt()));
        }
        if order.is_ge() {
            new.extend(after.next().filter(|_| order.is_gt()));
        }
    }
}
