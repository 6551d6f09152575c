//! Runs the verification of a rename. Scratch images load the unchanged project and the renamed
//! project, both from fasls, and report the results; the reports are compared. The report on the
//! unchanged project is cached until a file changes.

use crate::answer::LispKind;
use crate::answer::Location;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use steelbank_reader::Range;
use steelbank_tree::defines_systems;

use crate::Steelbank;
use crate::actions::change::rename::{
    AppliedEdit, ComparedDiagnostic, ComparedXref, EditPlan, FailedLoad, FileEdits, LoadReport,
    LoadReportRequest, NamePlaces, PlacesRequest, RemovedSymbol, RenamePlan, RenameRequest, Scope, Tested,
    Verified, compare,
};
use crate::actions::run::evaluate::EvaluateRequest;
use crate::actions::run::list_systems::ListSystemsRequest;
use crate::actions::run::run_tests::RunTestsRequest;
use crate::actions::run::trial::FrameReport;
use crate::actions::symbols::find_definition::FindDefinitionRequest;
use crate::actions::uses::code_find_references;
use crate::answer::designator::Designator;
use crate::answer::name::barred;
use crate::engine::control::Control;
use crate::engine::{Lane, deadline_after};
use crate::handle::Error;
use crate::handle::loaded::{LoadAnswer, LoadStatus};
use crate::handle::question::Action;
use crate::handle::requests::LoadOptions;
use crate::handle::scratch::ScratchError;
use crate::source::tap::sidecar::fnv_1a;
use crate::workspace::replacement::Replacement;
use crate::workspace::write;
use crate::workspace::{ProjectFiles, TextState};
use steelbank_xref::{Access, Index, Package, SymbolName};

/// The time limit of one test.
const EACH_TEST: Duration = Duration::from_secs(60);

/// The time limit for one file that belongs to no system. The file also gets at most the remaining
/// time divided by [`FILE_SHARE`].
const EACH_FILE: Duration = Duration::from_secs(60);
const FILE_SHARE: u32 = 4;

/// The maximum number of attempts to load without compiling a file.
const LOADS: usize = 3;
/// The name of the order that requests a [`LoadReport`] from a scratch image.
pub(crate) const LOAD_REPORT: &str = "load-report";

/// The granularity of file dates.
const CLOCK_GRAIN: Duration = Duration::from_millis(20);
/// The longest wait for a later date: a file's date may be in the future.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// The measured duration of a verification, relative to one load of the same systems.
const LOADS_OF_A_VERIFICATION: f64 = 1.5;

/// The duration of the last verification.
struct LastVerification {
    took: Duration,
    tests: bool,
}

/// The report on a load of the unchanged project, with the stamps of its input files.
#[derive(Debug)]
pub(crate) struct Before {
    request: LoadReportRequest,
    inputs: Vec<(PathBuf, u64)>,
    report: LoadReport,
}

/// A request to verify a plan. Scratch images load the loaded systems, the systems of edited files
/// and the systems that depend on edited systems, unchanged and renamed. Diagnostics and cross
/// references must be the same except for the name. No token may still mean the old symbol, and the
/// new symbol must occur exactly where the plan wrote it. This runs the project's code in copies,
/// and changes no file.
#[derive(Debug, Clone, Copy)]
pub struct RenameVerifyRequest<'a> {
    request: &'a RenameRequest,
    plan: &'a RenamePlan,
    tests: bool,
}

impl<'a> RenameVerifyRequest<'a> {
    /// Creates a request to verify the plan that answered `request`.
    pub fn new(request: &'a RenameRequest, plan: &'a RenamePlan) -> Self {
        Self { request, plan, tests: false }
    }

    /// Also runs the tests of the project's systems if `tests` is true: they must have the same
    /// results.
    #[must_use]
    pub fn tests(mut self, tests: bool) -> Self {
        self.tests = tests;
        self
    }
}

impl Action for RenameVerifyRequest<'_> {
    type Answer = Verified;

    /// Verifies the plan. Differences are part of the answer, not an error.
    fn run(&self, bank: &Steelbank, control: &Control) -> Result<Verified, Error> {
        let index = bank.index();
        let shown = |path: &Path| bank.project().shown(path);
        let places = Some(places_request(self.request, self.plan, &index));
        bank.verify_edits(self.plan, self.tests, places, control, &|files, before, after| {
            compare(self.plan, &written(self.plan, files), before, after, &bank.index(), &shown)
        })
    }
}

impl Steelbank {
    /// Loads the loaded systems, the systems of edited files and the systems that depend on edited
    /// systems in scratch images, before and after the edits of `plan`, and compares the reports
    /// with `compare`. `places` are the symbols to locate after the edits.
    pub(crate) fn verify_edits(
        &self,
        plan: &dyn EditPlan,
        tests: bool,
        places: Option<PlacesRequest>,
        control: &Control,
        compare: &dyn Fn(&[Replacement], &LoadReport, &LoadReport) -> Verified,
    ) -> Result<Verified, Error> {
        let begun = Instant::now();
        let deadline = deadline_after(control.allowed());
        let files = self.replacements(plan).map_err(|error| ScratchError::Call(error.to_string()))?;
        let asked = self.load_report_request(plan.files(), tests, control)?;
        let mut wanted = LoadReportRequest { places, ..asked.clone() };
        let texts: Vec<(PathBuf, &[u8])> =
            files.iter().map(|file| (file.path.clone(), file.new.as_slice())).collect();
        let until = control.until(deadline);
        let (before, after) =
            at_once(|| self.before(&asked, &until), || self.gather(&texts, &wanted, &until));
        let (before, mut after) = (before?, after?);
        let mut verified = compare(&files, &before.report, &after);
        if verified.may_be_stale() {
            // Recompile all files: a fasl may depend on an edited file although the system's
            // definition does not declare this.
            wanted.force = true;
            let asked = LoadReportRequest { places: None, ..wanted.clone() };
            let (before, again) =
                at_once(|| self.gather(&[], &asked, &until), || self.gather(&texts, &wanted, &until));
            after = again?;
            let compared = compare(&files, &before?, &after);
            verified = Verified { recompiled: compared.same, ..compared };
        }
        wanted.systems.retain(|system| after.failed.iter().all(|failed| failed.name != *system));
        verified.systems = wanted.systems;
        let took = begun.elapsed();
        verified.duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        self.inner.memo.put(LastVerification { took, tests });
        Ok(verified)
    }

    /// Estimates the duration of a verification: the duration of the last verification, or else a
    /// multiple of the load time. Returns `None` if neither is known. Only a verification with the
    /// same `tests` counts; with `tests`, the load time is not used.
    pub(crate) fn verification_takes(&self, tests: bool) -> Option<Duration> {
        let as_last = |last: &LastVerification| (last.tests == tests).then_some(last.took);
        let load = self.load_time();
        let by_load = || (!tests && !load.is_zero()).then(|| load.mul_f64(LOADS_OF_A_VERIFICATION));
        self.inner.memo.get(as_last).or_else(by_load)
    }

    /// Returns what to load: the project's loaded systems and files, the systems of edited files,
    /// and all systems that depend on an edited system.
    fn load_report_request(
        &self,
        edited: &[FileEdits],
        tests: bool,
        control: &Control,
    ) -> Result<LoadReportRequest, ScratchError> {
        let project = self.project();
        let known = self.ask(&ListSystemsRequest::new().files(true), control).map_err(call)?.systems;
        let edited: BTreeSet<&str> = edited.iter().map(|file| file.path.as_str()).collect();
        let has_edits = |files: &[String]| files.iter().any(|file| edited.contains(file.as_str()));
        let mut systems = self.loaded_systems();
        for system in &known {
            let wanted =
                system.loaded || has_edits(&system.components) || edited.contains(system.asd.as_str());
            if wanted && !systems.contains(&system.name) {
                systems.push(system.name.clone());
            }
        }
        // Add all systems that depend on an edited system.
        let mut reach: BTreeSet<&str> = known
            .iter()
            .filter(|system| has_edits(&system.components) || edited.contains(system.asd.as_str()))
            .map(|system| system.name.as_str())
            .collect();
        while let Some(system) = known.iter().find(|system| {
            !reach.contains(system.name.as_str())
                && system.depends_on.iter().any(|name| reach.contains(name.as_str()))
        }) {
            reach.insert(&system.name);
            if !systems.contains(&system.name) {
                systems.push(system.name.clone());
            }
        }
        let of_systems: BTreeSet<PathBuf> = project
            .root()
            .into_iter()
            .flat_map(|root| known.iter().flat_map(|system| &system.components).map(|file| root.join(file)))
            .collect();
        let files = project.loaded_project_files().into_iter().filter(|path| {
            !of_systems.contains(path) && !defines_systems(path) && self.is_loaded_completely(path)
        });
        let own = |system: &&String| known.iter().any(|known| known.name == **system);
        let tests = if tests { systems.iter().filter(own).cloned().collect() } else { Vec::new() };
        Ok(LoadReportRequest {
            files: files.collect(),
            systems,
            tests,
            places: None,
            from_fasls: false,
            force: false,
        })
    }

    /// Returns the report on a load of the unchanged project. The report is cached until the
    /// request or an input file changes.
    fn before(&self, request: &LoadReportRequest, control: &Control) -> Result<Arc<Before>, ScratchError> {
        let own = self.project().project_files();
        let known = self.inner.memo.get(|before: &Arc<Before>| Some(Arc::clone(before)));
        if let Some(known) = known.filter(|known| {
            known.request == *request && known.inputs.iter().all(|(path, was)| stamp(&own, path) == *was)
        }) {
            return Ok(known);
        }
        let report = self.gather(&[], request, control)?;
        let definitions = self.list_systems(control).map_err(call)?.systems;
        let root = self.project().root().map(Path::to_owned).unwrap_or_default();
        let definitions = definitions.into_iter().map(|system| root.join(system.asd));
        let own = self.project().project_files();
        let inputs: BTreeSet<PathBuf> = report.loaded.iter().cloned().chain(definitions).collect();
        let inputs =
            inputs.into_iter().map(|path| (stamp(&own, &path), path)).map(|(stamp, path)| (path, stamp));
        let before = Arc::new(Before { request: request.clone(), inputs: inputs.collect(), report });
        self.inner.memo.put(Arc::clone(&before));
        Ok(before)
    }

    /// Loads the project in a scratch image, with the given `texts` in place of files on disk, and
    /// returns the report. Reloads until nothing is compiled, so that compile-time side effects are
    /// not compared. After `LOADS` attempts, the next load counts even if it compiles files.
    fn gather(
        &self,
        texts: &[(PathBuf, &[u8])],
        request: &LoadReportRequest,
        control: &Control,
    ) -> Result<LoadReport, ScratchError> {
        let deadline = deadline_after(control.allowed());
        wait_for_later_date(texts, !request.tests.is_empty());
        let mut scratch = self.scratch_of(texts, control)?;
        let mut loading = LoadReportRequest { from_fasls: true, ..request.clone() };
        for _ in 0..LOADS {
            let report: LoadReport = scratch.order(LOAD_REPORT, &loading, &control.until(deadline))?;
            if report.compiled == 0 {
                return Ok(report);
            }
            scratch.restart(&control.until(deadline))?;
            loading.force = false;
        }
        loading.from_fasls = false;
        scratch.order(LOAD_REPORT, &loading, &control.until(deadline))
    }

    /// Loads the systems and files of `request` in this image, and reports the results.
    pub(crate) fn load_report(
        &self,
        request: &LoadReportRequest,
        control: &Control,
    ) -> Result<LoadReport, Error> {
        let deadline = deadline_after(control.allowed());
        let mut report = LoadReport::default();
        if let Some(places) = &request.places {
            self.note_look_ups(places, control)?;
        }
        for system in &request.systems {
            let answer = self.load_system(
                system,
                LoadOptions { force: request.force, ..LoadOptions::default() },
                &control.until(deadline),
            )?;
            self.add_load(&mut report, system, answer);
        }
        for file in &request.files {
            let path = file.display().to_string();
            let left = deadline.saturating_duration_since(Instant::now());
            let own = deadline_after((left / FILE_SHARE).min(EACH_FILE));
            let answer = self.load_file(&path, LoadOptions::default(), &control.until(own))?;
            // Do not count the file: a file without a system is compiled at every load.
            let compiled = report.compiled;
            self.add_load(&mut report, &self.project().shown(file), answer);
            report.compiled = compiled;
        }
        if report.compiled > 0 && request.from_fasls {
            // Skip the rest: after compiling files, the caller restarts the copy and requests
            // another report.
            return Ok(report);
        }
        // Collect garbage, so that neither image has unreachable functions.
        let collect = EvaluateRequest::new("(sb-ext:gc :full t)").values();
        self.run(&collect, &control.until(deadline))?;
        let (index, own) = (self.index(), self.project().project_files());
        report.records = index
            .loaded_records()
            .into_iter()
            // Skip dependencies: the process that compiled them determines which of their functions
            // are alive.
            .filter(|record| record.by.file.as_ref().is_none_or(|file| own.contains(Path::new(&**file))))
            .map(|record| ComparedXref {
                kind: record.kind,
                name: record.name,
                by: record.by.function.into_owned(),
                by_kind: record.by.kind,
                file: record.by.file.map(std::borrow::Cow::into_owned).unwrap_or_default(),
                form: record.by.toplevel_form,
                number: record.by.form,
                named: record.current,
            })
            .collect();
        report.symbols = index.loaded_symbols();
        report.loaded = self.project().loaded().into_iter().map(|(path, _)| path).collect();
        report.tests = self.tested(&request.tests, &control.until(deadline))?;
        if let Some(places) = &request.places {
            report.looked_up = self.look_ups(control)?;
            for removed in &places.removed {
                let form = EvaluateRequest::new(removed.interned()).values();
                let _ = self.run(&form, &control.until(deadline));
            }
            // Intern the new symbol: loading a fasl does not intern symbols that were used only at
            // compile time.
            let form = EvaluateRequest::new(places.new_symbol().interned()).values();
            let _ = self.run(&form, &control.until(deadline));
            report.places = Some(self.places(places, &control.until(deadline)));
        }
        Ok(report)
    }

    /// Makes Lisp record later lookups of the old name.
    fn note_look_ups(&self, places: &PlacesRequest, control: &Control) -> Result<(), Error> {
        let new = places.new_symbol();
        let Some(old) = places.removed.first().filter(|_| !new.symbol.package.is_empty()) else {
            return Ok(());
        };
        let arguments = vec![old.symbol.name.clone(), new.symbol.package, new.symbol.name];
        self.context().ask_on::<serde::de::IgnoredAny>(Lane::Work, "note-look-ups", arguments, control)?;
        Ok(())
    }

    /// Lists the calls that have looked up the old name.
    fn look_ups(&self, control: &Control) -> Result<Vec<(Option<Location>, String)>, Error> {
        let context = self.context();
        let (frames, _): (Vec<FrameReport>, _) =
            context.ask_on(Lane::Work, "look-ups", Vec::new(), control)?;
        let mut places = context.places();
        Ok(frames.iter().map(|frame| (frame.place(&mut places, None), frame.name().to_owned())).collect())
    }

    /// Runs the tests of `systems`. Omits the results of tests that already ran with an earlier
    /// system.
    fn tested(&self, systems: &[String], control: &Control) -> Result<Vec<Tested>, Error> {
        let deadline = deadline_after(control.allowed());
        let mut seen = BTreeSet::new();
        let mut all = Vec::new();
        for system in systems {
            let asked = RunTestsRequest {
                system: Some(system.clone()),
                each: EACH_TEST,
                ..RunTestsRequest::default()
            };
            let run = self.run(&asked, &control.until(deadline))?;
            let mut tests = run.tests;
            tests.retain(|test| seen.insert((test.framework.clone(), test.name.clone())));
            all.push(Tested { system: system.clone(), not_loaded: run.not_loaded, tests });
        }
        Ok(all)
    }

    fn add_load(&self, report: &mut LoadReport, name: &str, answer: LoadAnswer) {
        let project = self.project();
        report.compiled += answer.compiled.len();
        if answer.status != LoadStatus::Loaded {
            let (why, path) =
                answer.failure.map(|failure| (failure.message, failure.path)).unwrap_or_default();
            let path = path.map(|path| project.shown(Path::new(&path)));
            report.failed.push(FailedLoad { name: name.to_owned(), why, path });
        }
        let own = project.project_files();
        for said in answer.diagnostics {
            let place = said.place.unwrap_or_default().whole_line();
            let path = Path::new(&place.file);
            // Skip the diagnostics of dependencies: they depend on which image compiled them.
            if place.file.is_empty() || own.contains(path) {
                let place = Location { file: project.shown(path), ..place };
                let said = ComparedDiagnostic { severity: said.severity, place, message: said.message };
                if !report.diagnostics.contains(&said) {
                    report.diagnostics.push(said);
                }
            }
        }
    }

    /// Finds the places of the old and the new symbol in this image's project.
    fn places(&self, request: &PlacesRequest, control: &Control) -> NamePlaces {
        let mut places = NamePlaces::default();
        let planned = |name: &str, new_name: &str| {
            let asked = RenameRequest {
                scope: request.scope,
                comments: request.comments,
                strings: request.strings,
                derived: request.derived,
                ..RenameRequest::new(name, new_name)
            };
            self.ask(&asked, control)
        };
        let described = |left: Vec<Location>, symbol: &str| -> Vec<(String, String)> {
            let left = left.into_iter();
            left.map(|place| (place.file.clone(), format!("{place} still means {symbol}."))).collect()
        };
        let left = self.places_left(request, &planned).and_then(|left| {
            let mut left = described(left, &request.old);
            for along in request.removed.iter().skip(1) {
                let found = left_of(planned(&along.printed, &barred(&along.symbol.name)))?;
                left.extend(described(found, &along.printed));
            }
            Ok(left)
        });
        match left {
            Ok(left) => places.old = left,
            Err(error) => {
                places.trouble = Some(format!(
                    "The remaining places of the old name could not be found: {}",
                    sentence(&error)
                ))
            }
        }
        match planned(&request.new, &request.old_name) {
            Ok(plan) => {
                let edits = plan.files.into_iter().flat_map(|file| {
                    let path = file.path;
                    file.edits.into_iter().map(move |edit| (path.clone(), edit.range))
                });
                places.new = edits.collect();
            }
            Err(error) => {
                places.trouble =
                    Some(format!("The new symbol could not be found after the rename: {}", sentence(&error)));
            }
        }
        places
    }

    /// Lists the places that still mean the old symbol.
    fn places_left(
        &self,
        request: &PlacesRequest,
        planned: &dyn Fn(&str, &str) -> Result<RenamePlan, Error>,
    ) -> Result<Vec<Location>, Error> {
        if request.scope != Scope::Narrow {
            return left_of(planned(&request.old, &request.old_name));
        }
        let asked = code_find_references::CodeFindReferencesRequest {
            limit: usize::MAX,
            ..code_find_references::CodeFindReferencesRequest::new(request.old.as_str())
        };
        let found = self.ask(&asked, &Control::default()).and_then(|found| {
            let refs = found.refs.iter().flat_map(|found| found.tokens.iter().chain(&found.approximate));
            let defined = self.ask(&FindDefinitionRequest::new(request.old.as_str()), &Control::default())?;
            let defined = defined.definitions.iter().filter(|found| found.kind != LispKind::Declaration);
            let defined = defined.map(|found| &found.place);
            // Count text that is not loaded, but not strings: the rename leaves strings that may
            // contain another name.
            let text =
                found.text.iter().filter(|found| !found.possible && found.state != TextState::RuntimeName);
            let text = text.flat_map(|found| &found.tokens);
            Ok(refs.chain(defined).chain(text).cloned().collect())
        });
        or_empty(found)
    }
}

/// Returns a hash of the file at `path`: of the contents for a project file, or of size and date
/// for another file. Returns 0 if the file cannot be read.
fn stamp(own: &ProjectFiles, path: &Path) -> u64 {
    if own.contains(path) {
        return steelbank_tree::read_source(path).map_or(0, |bytes| fnv_1a(&bytes));
    }
    let Ok(metadata) = std::fs::metadata(path) else { return 0 };
    let date = metadata.modified().ok().and_then(|date| date.duration_since(UNIX_EPOCH).ok());
    fnv_1a(format!("{} {:?}", metadata.len(), date).as_bytes())
}

/// Runs both closures, the first on another thread, so that two copies load in parallel.
fn at_once<A: Send, B>(first: impl FnOnce() -> A + Send, second: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        (first.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), second)
    })
}

/// Lists the places that `planned` would edit, for a symbol that should have no places.
fn left_of(planned: Result<RenamePlan, Error>) -> Result<Vec<Location>, Error> {
    or_empty(
        planned
            .map(|plan| plan.files.into_iter().flat_map(|file| file.edits).map(|edit| edit.place).collect()),
    )
}

/// Returns no places if the symbol does not exist.
fn or_empty(found: Result<Vec<Location>, Error>) -> Result<Vec<Location>, Error> {
    match found {
        Err(Error::NotFound(_)) => Ok(Vec::new()),
        found => found,
    }
}

/// Waits until new fasls get a later date than `texts`. The overlay of a text has the file's date
/// plus one second, so a fasl that is compiled earlier counts as out of date. If `tests` is true,
/// waits longer: tests run ASDF, which compares dates in seconds.
fn wait_for_later_date(texts: &[(PathBuf, &[u8])], tests: bool) {
    let dates = texts.iter().filter_map(|(path, _)| std::fs::metadata(path).ok()?.modified().ok());
    let Some(newest) = dates.max() else { return };
    let second = newest.duration_since(UNIX_EPOCH).map_or(0, |age| age.as_secs());
    let later = UNIX_EPOCH + Duration::from_secs(second + if tests { 3 } else { 1 }) + CLOCK_GRAIN;
    if let Ok(left) = later.duration_since(SystemTime::now()) {
        std::thread::sleep(left.min(LONGEST_WAIT));
    }
}

fn sentence(error: &Error) -> String {
    format!("{}.", error.to_string().trim_end_matches('.'))
}

fn call(error: Error) -> ScratchError {
    ScratchError::Call(error.to_string())
}

impl RemovedSymbol {
    /// Looks up the symbol `printed`, in the form of answers, in `index`.
    fn new(printed: &str, index: &Index) -> Self {
        let name = parsed(printed);
        let symbol = index.named(&name);
        let exports = |package: &Package| {
            let found = index.find_symbol(&name.name, *package);
            found.is_some_and(|(found, access)| Some(found) == symbol && access == Access::External)
        };
        let exporters =
            index.packages().filter(exports).map(|package| index.package_name(package).into_owned());
        Self { printed: printed.to_owned(), exported_by: exporters.collect(), symbol: name }
    }

    /// Returns a form that interns and exports the symbol. A query needs an existing symbol, but
    /// text that is not loaded does not intern the symbol.
    fn interned(&self) -> String {
        let string = |text: &String| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        let exporters: Vec<String> = self.exported_by.iter().map(string).collect();
        format!(
            "(sb-ext:without-package-locks (let ((symbol (intern {} {}))) (dolist (package '({})) \
             (import symbol package) (export symbol package))))",
            string(&self.symbol.name),
            string(&self.symbol.package),
            exporters.join(" ")
        )
    }
}

impl PlacesRequest {
    /// Returns the new symbol, to be interned but not exported.
    fn new_symbol(&self) -> RemovedSymbol {
        RemovedSymbol { printed: self.new.clone(), symbol: parsed(&self.new), exported_by: Vec::new() }
    }
}

/// Parses a printed symbol. Ignores an error: the printer writes readable names.
fn parsed(printed: &str) -> SymbolName {
    let read = Designator::parse(printed).ok();
    read.map(|read| SymbolName::new(read.package.unwrap_or_default(), read.name)).unwrap_or_default()
}

fn places_request(request: &RenameRequest, plan: &RenamePlan, index: &Index) -> PlacesRequest {
    let along = plan.derived.iter().filter(|derived| derived.renamed).map(|derived| &derived.name);
    let removed: Vec<RemovedSymbol> = std::iter::once(&plan.symbol)
        .chain(along)
        .map(|name| RemovedSymbol::new(name.as_str(), index))
        .collect();
    let old = removed.first().map(|old| old.symbol.clone()).unwrap_or_default();
    PlacesRequest {
        old: plan.symbol.to_string(),
        new: format!("{}::{}", barred(&old.package), barred(&plan.new_name)),
        old_name: barred(&old.name),
        scope: plan.scope,
        comments: request.comments,
        strings: request.strings,
        derived: request.derived,
        removed,
    }
}

/// Lists the plan's edits of Lisp files with their places in the new texts.
fn written(plan: &RenamePlan, files: &[Replacement]) -> Vec<AppliedEdit> {
    let mut written = Vec::with_capacity(plan.edits);
    for (planned, file) in plan.files.iter().zip(files).filter(|(planned, _)| !planned.other) {
        let mut moved = 0_isize;
        for edit in &planned.edits {
            let length = write::encoded(&edit.new, &file.old).map_or(edit.new.len(), |bytes| bytes.len());
            let start = (edit.range.start as usize).saturating_add_signed(moved);
            written.push(AppliedEdit {
                path: planned.path.clone(),
                range: Range::of(start..start + length),
                place: edit.place.clone(),
            });
            moved += length as isize - edit.range.indices().len() as isize;
        }
    }
    written
}
