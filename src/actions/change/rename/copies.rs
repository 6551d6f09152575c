//! Verifies that a rename leaves the program as it was: loads the project as it is and the project renamed in
//! scratch images, both from fasls, and compares.

use crate::answer::LispKind;
use crate::answer::Location;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};
use steelbank_reader::Range;
use steelbank_tree::defines_systems;

use crate::Steelbank;
use crate::actions::change::rename::{
    AppliedEdit, ComparedDiagnostic, ComparedXref, FailedLoad, GoneSymbol, LoadRecord, NamePlaces,
    PlacesRequest, RenamePlan, RenameRequest, Scope, Tested, TracesRequest, Verified, compare,
};
use crate::actions::run::evaluate::EvaluateRequest;
use crate::actions::run::list_systems::ListSystemsRequest;
use crate::actions::run::run_tests::RunTestsRequest;
use crate::actions::run::trial::FrameReport;
use crate::actions::symbols::find_definition::FindDefinitionRequest;
use crate::actions::uses::code_find_references;
use crate::answer::designator::Designator;
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
use crate::workspace::{Own, TextState};
use steelbank_xref::{Access, Index, Package};

/// The time limit of one test.
const EACH_TEST: Duration = Duration::from_secs(60);

/// The time limit of one file that no system has, and the share of the time left that it may take.
const EACH_FILE: Duration = Duration::from_secs(60);
const FILE_SHARE: u32 = 4;

/// The most loads until one compiles nothing.
const LOADS: usize = 3;
/// The order to a copy for the traces of a load.
pub(crate) const TRACES: &str = "traces";

/// How long a verification was measured to take, beside one load of the same systems.
const LOADS_OF_A_VERIFICATION: f64 = 1.5;

/// The last verification.
struct LastVerification {
    took: Duration,
    tests: bool,
}

/// The traces of a load of the unchanged project, with the stamps of its files.
#[derive(Debug)]
pub(crate) struct Before {
    request: TracesRequest,
    inputs: Vec<(PathBuf, u64)>,
    traces: LoadRecord,
}

/// A request to verify a plan: the systems that are loaded here, and those of edited files, are loaded in scratch images,
/// as they are and renamed. The diagnostics and cross references must be the same, with the one name replaced; no token
/// may still mean the old symbol; the new symbol must stand where the plan wrote it and nowhere else. This runs the
/// project's code, in copies; no file changes.
#[derive(Debug, Clone, Copy)]
pub struct RenameVerifyRequest<'a> {
    request: &'a RenameRequest,
    plan: &'a RenamePlan,
    tests: bool,
}

impl<'a> RenameVerifyRequest<'a> {
    /// Makes a request to verify the plan that answered `request`.
    pub fn new(request: &'a RenameRequest, plan: &'a RenamePlan) -> Self {
        Self { request, plan, tests: false }
    }

    /// Runs the tests of the project's systems, too, if `tests`: they must have the same results.
    #[must_use]
    pub fn tests(mut self, tests: bool) -> Self {
        self.tests = tests;
        self
    }
}

impl Action for RenameVerifyRequest<'_> {
    type Answer = Verified;

    /// Verifies. A difference is an answer.
    fn run(&self, bank: &Steelbank, control: &Control) -> Result<Verified, Error> {
        let begun = Instant::now();
        let deadline = deadline_after(control.allowed());
        let files = bank.replacements(self.plan).map_err(|error| ScratchError::Call(error.to_string()))?;
        let asked = bank.traces_request(self.plan, self.tests, control)?;
        let mut wanted = asked.clone();
        wanted.places = Some(places_request(self.request, self.plan, &bank.index()));
        let texts: Vec<(PathBuf, &[u8])> =
            files.iter().map(|file| (file.path.clone(), file.new.as_slice())).collect();
        let until = control.until(deadline);
        let (before, after) =
            at_once(|| bank.before(&asked, &until), || bank.gather(&texts, &wanted, &until));
        let (before, mut after) = (before?, after?);
        let shown = |path: &Path| bank.project().shown(path);
        let written = written(self.plan, &files);
        let index = bank.index();
        let mut verified = compare(self.plan, &written, &before.traces, &after, &index, &shown);
        if verified.may_be_stale() {
            // Compile anew: a fasl keeps definitions of files that ASDF does not know it depends on.
            wanted.anew = true;
            let asked = TracesRequest { places: None, ..wanted.clone() };
            let (before, again) =
                at_once(|| bank.gather(&[], &asked, &until), || bank.gather(&texts, &wanted, &until));
            after = again?;
            let anew = compare(self.plan, &written, &before?, &after, &index, &shown);
            verified = Verified { anew: anew.same, ..anew };
        }
        wanted.systems.retain(|system| after.failed.iter().all(|failed| failed.name != *system));
        verified.systems = wanted.systems;
        let took = begun.elapsed();
        verified.duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
        bank.inner.memo.put(LastVerification { took, tests: self.tests });
        Ok(verified)
    }
}

impl Steelbank {
    /// Estimates how long a verification takes here: as long as the last one; else from what loading took. None if neither is
    /// known, which is so for tests.
    pub(crate) fn verification_takes(&self, tests: bool) -> Option<Duration> {
        let as_last = |last: &LastVerification| (last.tests == tests).then_some(last.took);
        let load = self.load_time();
        let by_load = || (!tests && !load.is_zero()).then(|| load.mul_f64(LOADS_OF_A_VERIFICATION));
        self.inner.memo.get(as_last).or_else(by_load)
    }

    /// Lists what to load: the project's loaded systems and files, the systems of the edited files, and those that depend
    /// on these.
    fn traces_request(
        &self,
        plan: &RenamePlan,
        tests: bool,
        control: &Control,
    ) -> Result<TracesRequest, ScratchError> {
        let project = self.project();
        let known = self.ask(&ListSystemsRequest::new().files(true), control).map_err(call)?.systems;
        let edited: BTreeSet<&str> = plan.files.iter().map(|file| file.path.as_str()).collect();
        let has_edits = |files: &[String]| files.iter().any(|file| edited.contains(file.as_str()));
        let mut systems = self.loaded_systems();
        for system in &known {
            let wanted =
                system.loaded || has_edits(&system.components) || edited.contains(system.asd.as_str());
            if wanted && !systems.contains(&system.name) {
                systems.push(system.name.clone());
            }
        }
        // And whatever reaches an edited system.
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
        let files = project.own_loaded_files().into_iter().filter(|path| {
            !of_systems.contains(path) && !defines_systems(path) && self.is_loaded_completely(path)
        });
        let own = |system: &&String| known.iter().any(|known| known.name == **system);
        let tests = if tests { systems.iter().filter(own).cloned().collect() } else { Vec::new() };
        Ok(TracesRequest {
            files: files.collect(),
            systems,
            tests,
            places: None,
            from_fasls: false,
            anew: false,
        })
    }

    /// Returns the traces of a load of the unchanged project, cached until a file changes.
    fn before(&self, request: &TracesRequest, control: &Control) -> Result<Arc<Before>, ScratchError> {
        let own = self.project().own();
        let known = self.inner.memo.get(|before: &Arc<Before>| Some(Arc::clone(before)));
        if let Some(known) = known.filter(|known| {
            known.request == *request && known.inputs.iter().all(|(path, was)| stamp(&own, path) == *was)
        }) {
            return Ok(known);
        }
        let traces = self.gather(&[], request, control)?;
        let definitions = self.list_systems(control).map_err(call)?.systems;
        let root = self.project().root().map(Path::to_owned).unwrap_or_default();
        let definitions = definitions.into_iter().map(|system| root.join(system.asd));
        let own = self.project().own();
        let inputs: BTreeSet<PathBuf> = traces.loaded.iter().cloned().chain(definitions).collect();
        let inputs =
            inputs.into_iter().map(|path| (stamp(&own, &path), path)).map(|(stamp, path)| (path, stamp));
        let before = Arc::new(Before { request: request.clone(), inputs: inputs.collect(), traces });
        self.inner.memo.put(Arc::clone(&before));
        Ok(before)
    }

    /// Returns the traces of a load in a scratch image in which the files `texts` have these contents. Loads
    /// anew until nothing is compiled: what compiling leaves in the image is no part of the program.
    fn gather(
        &self,
        texts: &[(PathBuf, &[u8])],
        request: &TracesRequest,
        control: &Control,
    ) -> Result<LoadRecord, ScratchError> {
        let deadline = deadline_after(control.allowed());
        if !request.tests.is_empty() {
            wait_for_clock_tick(texts);
        }
        let mut scratch = self.scratch_of(texts, control)?;
        let mut loading = TracesRequest { from_fasls: true, ..request.clone() };
        // A text that was written within the grain of the clock may be compiled a second time.
        for _ in 0..LOADS {
            let traces: LoadRecord = scratch.order(TRACES, &loading, &control.until(deadline))?;
            if traces.compiled == 0 {
                return Ok(traces);
            }
            scratch.restart(&control.until(deadline))?;
            loading.anew = false;
        }
        loading.from_fasls = false;
        scratch.order(TRACES, &loading, &control.until(deadline))
    }

    /// Loads the systems and files of `request` in this image, and collects the traces.
    pub(crate) fn traces(&self, request: &TracesRequest, control: &Control) -> Result<LoadRecord, Error> {
        let deadline = deadline_after(control.allowed());
        let mut traces = LoadRecord::default();
        if let Some(places) = &request.places {
            self.note_look_ups(places, control)?;
        }
        for system in &request.systems {
            let answer = self.load_system(
                system,
                LoadOptions { force: request.anew, ..LoadOptions::default() },
                &control.until(deadline),
            )?;
            self.add_load(&mut traces, system, answer);
        }
        for file in &request.files {
            let path = file.display().to_string();
            let left = deadline.saturating_duration_since(Instant::now());
            let own = deadline_after((left / FILE_SHARE).min(EACH_FILE));
            let answer = self.load_file(&path, LoadOptions::default(), &control.until(own))?;
            // Do not count the file: without a system it is compiled at every load.
            let compiled = traces.compiled;
            self.add_load(&mut traces, &self.project().shown(file), answer);
            traces.compiled = compiled;
        }
        if traces.compiled > 0 && request.from_fasls {
            // Leave out the rest: the caller asks again after a load from fasls.
            return Ok(traces);
        }
        // Collect garbage, so that dead code counts in neither image.
        let collect = EvaluateRequest::new("(sb-ext:gc :full t)").values();
        self.run(&collect, &control.until(deadline))?;
        let (index, own) = (self.index(), self.project().own());
        traces.records = index
            .loaded_records()
            .into_iter()
            // Skip dependencies: which of their functions are alive depends on who compiled them.
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
        traces.symbols = index.loaded_symbols();
        traces.loaded = self.project().loaded().into_iter().map(|(path, _)| path).collect();
        traces.tests = self.tested(&request.tests, &control.until(deadline))?;
        if let Some(places) = &request.places {
            traces.looked_up = self.look_ups(control)?;
            for gone in &places.gone {
                let form = EvaluateRequest::new(gone.interned()).values();
                let _ = self.run(&form, &control.until(deadline));
            }
            // Intern the new symbol: a fasl has no symbols of code that was read only while it was compiled.
            let form = EvaluateRequest::new(places.new_symbol().interned()).values();
            let _ = self.run(&form, &control.until(deadline));
            traces.places = Some(self.places(places, &control.until(deadline)));
        }
        Ok(traces)
    }

    /// Has Lisp note who looks up the old name from now on.
    fn note_look_ups(&self, places: &PlacesRequest, control: &Control) -> Result<(), Error> {
        let new = places.new_symbol();
        let Some(old) = places.gone.first().filter(|_| !new.package.is_empty()) else { return Ok(()) };
        let arguments = vec![old.name.clone(), new.package, new.name];
        self.context().ask_on::<serde::de::IgnoredAny>(Lane::Work, "note-look-ups", arguments, control)?;
        Ok(())
    }

    /// Lists the calls that have looked it up.
    fn look_ups(&self, control: &Control) -> Result<Vec<(Option<Location>, String)>, Error> {
        let context = self.context();
        let (frames, _): (Vec<FrameReport>, _) =
            context.ask_on(Lane::Work, "look-ups", Vec::new(), control)?;
        let mut places = context.places();
        Ok(frames.iter().map(|frame| (frame.place(&mut places, None), frame.name().to_owned())).collect())
    }

    /// Runs the tests of `systems`. Skips tests that ran with a system before.
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

    fn add_load(&self, traces: &mut LoadRecord, name: &str, answer: LoadAnswer) {
        let project = self.project();
        traces.compiled += answer.compiled.len();
        if answer.status != LoadStatus::Loaded {
            let (why, path) =
                answer.failure.map(|failure| (failure.message, failure.path)).unwrap_or_default();
            let path = path.map(|path| project.shown(Path::new(&path)));
            traces.failed.push(FailedLoad { name: name.to_owned(), why, path });
        }
        let own = project.own();
        for said in answer.diagnostics {
            let place = said.place.unwrap_or_default().whole_line();
            let path = Path::new(&place.file);
            // Skip the diagnostics of dependencies: they depend on which image compiled them.
            if place.file.is_empty() || own.contains(path) {
                let place = Location { file: project.shown(path), ..place };
                let said = ComparedDiagnostic { severity: said.severity, place, message: said.message };
                if !traces.diagnostics.contains(&said) {
                    traces.diagnostics.push(said);
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
        let told = |left: Vec<Location>, symbol: &str| -> Vec<(String, String)> {
            let left = left.into_iter();
            left.map(|place| (place.file.clone(), format!("{place} means {symbol} still."))).collect()
        };
        let left = self.places_left(request, &planned).and_then(|left| {
            let mut left = told(left, &request.old);
            for along in request.gone.iter().skip(1) {
                let found = left_of(planned(&along.printed, &barred(&along.name)))?;
                left.extend(told(found, &along.printed));
            }
            Ok(left)
        });
        match left {
            Ok(left) => places.old = left,
            Err(error) => {
                places.trouble =
                    Some(format!("What is left of the old name cannot be told: {}", sentence(&error)))
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
                    Some(format!("After the rename, the new symbol cannot be found: {}", sentence(&error)));
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
            // Count text that is not loaded or left out, but not strings, in which the rename leaves what may
            // be another name.
            let text = found.text.iter().filter(|found| !found.possible && found.state != TextState::Named);
            let text = text.flat_map(|found| &found.tokens);
            Ok(refs.chain(defined).chain(text).cloned().collect())
        });
        or_none(found)
    }
}

/// Stamps the file at `path`: one of the project's own by its contents, others by size and date.
fn stamp(own: &Own, path: &Path) -> u64 {
    if own.contains(path) {
        return steelbank_tree::read_source(path).map_or(0, |bytes| fnv_1a(&bytes));
    }
    let Ok(metadata) = std::fs::metadata(path) else { return 0 };
    let date = metadata.modified().ok().and_then(|date| date.duration_since(UNIX_EPOCH).ok());
    fnv_1a(format!("{} {:?}", metadata.len(), date).as_bytes())
}

/// Does both, the first on a thread of its own: two copies load on two processors.
fn at_once<A: Send, B>(first: impl FnOnce() -> A + Send, second: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        (first.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), second)
    })
}

/// Lists the places that `planned` would edit, of a symbol that should have none.
fn left_of(planned: Result<RenamePlan, Error>) -> Result<Vec<Location>, Error> {
    or_none(
        planned
            .map(|plan| plan.files.into_iter().flat_map(|file| file.edits).map(|edit| edit.place).collect()),
    )
}

/// Returns the places; none if there is no such symbol.
fn or_none(found: Result<Vec<Location>, Error>) -> Result<Vec<Location>, Error> {
    match found {
        Err(Error::NotFound(_)) => Ok(Vec::new()),
        found => found,
    }
}

/// Waits until new fasls are dated later than files that were written just now: tests ask ASDF, which
/// compares dates in seconds.
fn wait_for_clock_tick(texts: &[(PathBuf, &[u8])]) {
    const COARSE: Duration = Duration::from_secs(3);
    let dates = texts.iter().filter_map(|(path, _)| std::fs::metadata(path).ok()?.modified().ok());
    let age = dates.max().and_then(|newest| newest.elapsed().ok());
    if let Some(left) = age.and_then(|age| COARSE.checked_sub(age)) {
        std::thread::sleep(left);
    }
}

fn sentence(error: &Error) -> String {
    format!("{}.", error.to_string().trim_end_matches('.'))
}

fn call(error: Error) -> ScratchError {
    ScratchError::Call(error.to_string())
}

/// Writes `name` between bars, so that it is read whatever its letters are.
fn barred(name: &str) -> String {
    format!("|{}|", name.replace('\\', "\\\\").replace('|', "\\|"))
}

impl GoneSymbol {
    /// Looks up the symbol that an answer has as `printed` in `index`.
    fn new(printed: &str, index: &Index) -> Self {
        // Ignore the error: the printer writes names that can be read.
        let read = Designator::parse(printed).ok();
        let (package, name) = read.map(|read| (read.package, read.name)).unwrap_or_default();
        let package = package.unwrap_or_default();
        let symbol = index.symbol_named(&package, &name).map(|(symbol, _)| symbol);
        let exports = |package: &Package| {
            let found = index.find_symbol(&name, *package);
            found.is_some_and(|(found, access)| Some(found) == symbol && access == Access::External)
        };
        let exporters =
            index.packages().filter(exports).map(|package| index.package_name(package).into_owned());
        Self { printed: printed.to_owned(), exported_by: exporters.collect(), name, package }
    }

    /// Returns a form that interns and exports the symbol. Text that is not loaded does not intern it, and it
    /// must exist to be asked about.
    fn interned(&self) -> String {
        let string = |text: &String| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        let exporters: Vec<String> = self.exported_by.iter().map(string).collect();
        format!(
            "(sb-ext:without-package-locks (let ((symbol (intern {} {}))) (dolist (package '({})) \
             (import symbol package) (export symbol package))))",
            string(&self.name),
            string(&self.package),
            exporters.join(" ")
        )
    }
}

impl PlacesRequest {
    /// Returns the new symbol as one to be interned; it is not exported.
    fn new_symbol(&self) -> GoneSymbol {
        let read = Designator::parse(&self.new).ok();
        let (package, name) = read.map(|read| (read.package, read.name)).unwrap_or_default();
        let package = package.unwrap_or_default();
        GoneSymbol { printed: self.new.clone(), name, package, exported_by: Vec::new() }
    }
}

fn places_request(request: &RenameRequest, plan: &RenamePlan, index: &Index) -> PlacesRequest {
    let along = plan.derived.iter().filter(|derived| derived.renamed).map(|derived| &derived.name);
    let gone: Vec<GoneSymbol> = std::iter::once(&plan.symbol)
        .chain(along)
        .map(|name| GoneSymbol::new(name.as_str(), index))
        .collect();
    let (package, name) =
        gone.first().map(|old| (old.package.as_str(), old.name.as_str())).unwrap_or_default();
    PlacesRequest {
        old: plan.symbol.to_string(),
        new: format!("{}::{}", barred(package), barred(&plan.new_name)),
        old_name: barred(name),
        scope: plan.scope,
        comments: request.comments,
        strings: request.strings,
        derived: request.derived,
        gone,
    }
}

/// Lists the plan's edits of Lisp by their places in the new texts.
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
