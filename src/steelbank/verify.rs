//! Verifies that a rename leaves the program as it was: loads the project as it is and the project renamed in
//! scratch images, both from fasls, and compares.

use crate::answer::Location;
use crate::query::LispKind;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};
use steelbank_reader::Range;

use super::scratch::{ScratchError, ScratchNews};
use crate::engine::deadline_after;
use crate::project::TextState;
use crate::project::replacement::Replacement;
use crate::project::write;
use crate::query::Error;
use crate::query::code_find_references::{self, CodeFindReferencesError};
use crate::query::control::Control;
use crate::query::designator::Designator;
use crate::query::evaluate::EvaluateRequest;
use crate::query::load_system::{LoadAnswer, LoadStatus};
use crate::query::lookup::DEFAULT_PACKAGE;
use crate::query::rename::{
    AppliedEdit, ComparedDiagnostic, ComparedXref, FailedLoad, GoneSymbol, NamePlaces, PlacesRequest,
    RenamePlan, RenameRequest, Scope, Tested, Traces, TracesRequest, Verified, compare,
};
use crate::query::run_tests::RunTestsRequest;
use crate::source::tap::sidecar::fnv_1a;
use crate::{LoadListener, Steelbank};
use steelbank_xref::{Access, Index, Package};

/// The time limit of one test.
const EACH_TEST: Duration = Duration::from_secs(60);

/// The time limit of one file that no system has, and the share of the time left that it may take.
const EACH_FILE: Duration = Duration::from_secs(60);
const FILE_SHARE: u32 = 4;

/// The traces of a load of the unchanged project, with the stamps of its files.
#[derive(Debug)]
pub(super) struct Before {
    request: TracesRequest,
    inputs: Vec<(PathBuf, u64)>,
    traces: Traces,
}

impl Steelbank {
    /// Verifies a plan of the rename `request`: loads the systems that are loaded here, and those of edited
    /// files, in scratch images, as they are and renamed. The diagnostics and cross references must be the
    /// same, with the one name replaced; no token may still mean the old symbol; the new symbol must stand
    /// where the plan wrote it and nowhere else; with `tests`, the tests of the project's systems must have
    /// the same results. This runs the project's code, in copies; no file changes.
    ///
    /// # Errors
    /// There is no scratch image, a file has changed since the plan was made, or `control` ended the wait. A
    /// difference is an answer.
    pub fn rename_verify(
        &self,
        request: &RenameRequest,
        plan: &RenamePlan,
        tests: bool,
        control: &Control,
        mut news: impl FnMut(ScratchNews),
    ) -> Result<Verified, ScratchError> {
        let begun = Instant::now();
        let deadline = deadline_after(control.allowed());
        let files = self.replacements(plan).map_err(|error| ScratchError::Call(error.to_string()))?;
        let mut wanted = self.traces_request(plan, tests, control)?;
        let before = self.before(&wanted, &control.until(deadline), &mut news)?;
        wanted.places = Some(places_request(request, plan, &self.index()));
        let texts: Vec<(PathBuf, &[u8])> =
            files.iter().map(|file| (file.path.clone(), file.new.as_slice())).collect();
        let after = self.gather(&texts, &wanted, &control.until(deadline), &mut news)?;
        let shown = |path: &Path| self.project().shown(path);
        let written = written(plan, &files);
        let mut verified = compare(plan, &written, &before.traces, &after, &shown);
        if verified.may_be_stale() {
            // Compile anew: a fasl keeps definitions of files that ASDF does not know it depends on.
            wanted.anew = true;
            let after = self.gather(&texts, &wanted, &control.until(deadline), &mut news)?;
            let asked = TracesRequest { places: None, ..wanted.clone() };
            let before = self.gather(&[], &asked, &control.until(deadline), &mut news)?;
            let anew = compare(plan, &written, &before, &after, &shown);
            verified = Verified { anew: anew.same, ..anew };
        }
        verified.systems = wanted.systems;
        verified.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(verified)
    }

    /// Lists what to load: the project's loaded systems and files, and the systems of the edited files.
    fn traces_request(
        &self,
        plan: &RenamePlan,
        tests: bool,
        control: &Control,
    ) -> Result<TracesRequest, ScratchError> {
        let project = self.project();
        let known = self.list_systems_with_files(control).map_err(call)?.systems;
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
        let of_systems: BTreeSet<PathBuf> = project
            .root()
            .into_iter()
            .flat_map(|root| known.iter().flat_map(|system| &system.components).map(|file| root.join(file)))
            .collect();
        let files = project.own_loaded_files().into_iter().filter(|path| {
            !of_systems.contains(path)
                && path.extension().is_none_or(|ending| ending != "asd")
                && self.is_whole(path)
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
    fn before(
        &self,
        request: &TracesRequest,
        control: &Control,
        news: &mut impl FnMut(ScratchNews),
    ) -> Result<Arc<Before>, ScratchError> {
        let known = self.inner.before.lock().clone();
        if let Some(known) = known.filter(|known| {
            known.request == *request && known.inputs.iter().all(|(path, was)| self.stamp(path) == *was)
        }) {
            return Ok(known);
        }
        let traces = self.gather(&[], request, control, news)?;
        let definitions = self.list_systems(control).map_err(call)?.systems;
        let root = self.project().root().map(Path::to_owned).unwrap_or_default();
        let definitions = definitions.into_iter().map(|system| root.join(system.asd));
        let inputs: BTreeSet<PathBuf> = traces.loaded.iter().cloned().chain(definitions).collect();
        let inputs =
            inputs.into_iter().map(|path| (self.stamp(&path), path)).map(|(stamp, path)| (path, stamp));
        let before = Arc::new(Before { request: request.clone(), inputs: inputs.collect(), traces });
        *self.inner.before.lock() = Some(Arc::clone(&before));
        Ok(before)
    }

    /// Stamps the file at `path`: one of the project's own by its contents, others by size and date.
    fn stamp(&self, path: &Path) -> u64 {
        if self.project().contains(path) {
            return steelbank_tree::read_source(path).map_or(0, |bytes| fnv_1a(&bytes));
        }
        let Ok(metadata) = std::fs::metadata(path) else { return 0 };
        let date = metadata.modified().ok().and_then(|date| date.duration_since(UNIX_EPOCH).ok());
        fnv_1a(format!("{} {:?}", metadata.len(), date).as_bytes())
    }

    /// Returns the traces of a load in a scratch image in which the files `texts` have these contents. Loads
    /// once more if anything was compiled: what compiling leaves in the image is no part of the program.
    fn gather(
        &self,
        texts: &[(PathBuf, &[u8])],
        request: &TracesRequest,
        control: &Control,
        news: &mut impl FnMut(ScratchNews),
    ) -> Result<Traces, ScratchError> {
        let deadline = deadline_after(control.allowed());
        if !request.tests.is_empty() {
            settle(texts);
        }
        let mut scratch = self.scratch_of(texts, control)?;
        let only_loading = TracesRequest { from_fasls: true, ..request.clone() };
        let first = scratch.examine(&only_loading, &control.until(deadline), &mut *news)?;
        if first.compiled == 0 {
            return Ok(first);
        }
        scratch.again(&control.until(deadline))?;
        let loading = TracesRequest { anew: false, ..request.clone() };
        scratch.examine(&loading, &control.until(deadline), news)
    }

    /// Loads the systems and files of `request` in this image, and collects the traces.
    pub(crate) fn traces(
        &self,
        request: &TracesRequest,
        control: &Control,
        listener: Option<&LoadListener>,
    ) -> Result<Traces, Error> {
        let deadline = deadline_after(control.allowed());
        let mut traces = Traces::default();
        for system in &request.systems {
            let answer =
                self.load_system(system, request.anew, &control.until(deadline), listener.cloned())?;
            self.add_load(&mut traces, system, answer);
        }
        for file in &request.files {
            let path = file.display().to_string();
            let left = deadline.saturating_duration_since(Instant::now());
            let own = deadline_after((left / FILE_SHARE).min(EACH_FILE));
            let answer = self.load_file(&path, &control.until(own), listener.cloned())?;
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
        self.evaluate_request(&EvaluateRequest::new("(sb-ext:gc :full t)"), &control.until(deadline))?;
        let index = self.index();
        traces.records = index
            .loaded_records()
            .into_iter()
            // Skip dependencies: which of their functions are alive depends on who compiled them.
            .filter(|record| {
                record.by.file.as_ref().is_none_or(|file| self.project().contains(Path::new(&**file)))
            })
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
        traces.tests = self.tested(&request.tests, &control.until(deadline), listener)?;
        if let Some(places) = &request.places {
            for gone in &places.gone {
                let form = EvaluateRequest::new(gone.interned());
                let _ = self.evaluate_request(&form, &control.until(deadline));
            }
            // Intern the new symbol: a fasl has no symbols of code that was read only while it was compiled.
            let form = EvaluateRequest::new(places.new_symbol().interned());
            let _ = self.evaluate_request(&form, &control.until(deadline));
            traces.places = Some(self.places(places, &control.until(deadline)));
        }
        Ok(traces)
    }

    /// Runs the tests of `systems`. Skips tests that ran with a system before.
    fn tested(
        &self,
        systems: &[String],
        control: &Control,
        listener: Option<&LoadListener>,
    ) -> Result<Vec<Tested>, Error> {
        let deadline = deadline_after(control.allowed());
        let mut seen = BTreeSet::new();
        let mut all = Vec::new();
        for system in systems {
            let asked = RunTestsRequest {
                system: Some(system.clone()),
                each: EACH_TEST,
                ..RunTestsRequest::default()
            };
            let run = self.run_tests(&asked, &control.until(deadline), listener.cloned(), |_, _, _| ())?;
            let mut tests = run.tests;
            tests.retain(|test| seen.insert((test.framework.clone(), test.name.clone())));
            all.push(Tested { system: system.clone(), not_loaded: run.not_loaded, tests });
        }
        Ok(all)
    }

    fn add_load(&self, traces: &mut Traces, name: &str, answer: LoadAnswer) {
        let project = self.project();
        traces.compiled += answer.compiled.len();
        if answer.status != LoadStatus::Loaded {
            let (why, path) =
                answer.failure.map(|failure| (failure.message, failure.path)).unwrap_or_default();
            let path = path.map(|path| project.shown(Path::new(&path)));
            traces.failed.push(FailedLoad { name: name.to_owned(), why, path });
        }
        for said in answer.diagnostics {
            let place = said.place.unwrap_or_default().whole_line();
            let path = Path::new(&place.file);
            // Skip the diagnostics of dependencies: they depend on which image compiled them.
            if place.file.is_empty() || project.contains(path) {
                let place = Location { file: project.shown(path), ..place };
                let said = ComparedDiagnostic { severity: said.severity, place, message: said.message };
                if !traces.said.contains(&said) {
                    traces.said.push(said);
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
            self.rename_plan(&asked, control)
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
        let found = self.code_find_references(&asked).and_then(|found| {
            let refs = found.refs.iter().flat_map(|found| found.tokens.iter().chain(&found.approximate));
            let defined = self.find_definition(&request.old, DEFAULT_PACKAGE, &Control::default())?;
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
        Err(Error::References(
            CodeFindReferencesError::NoSymbol { .. } | CodeFindReferencesError::NoPackage { .. },
        )) => Ok(Vec::new()),
        found => found,
    }
}

/// Waits until new fasls are dated later than files that were written just now: tests ask ASDF, which
/// compares dates in seconds.
fn settle(texts: &[(PathBuf, &[u8])]) {
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
    /// Looks up the symbol that is printed as `printed` in `index`.
    fn new(printed: &str, index: &Index) -> Self {
        // Ignore the error: the printer writes names that can be read.
        let read = Designator::parse(printed).ok();
        let (package, name) = read.map(|read| (read.package, read.name)).unwrap_or_default();
        let package = package.unwrap_or_default();
        let home = index.find_package(&package, None);
        let symbol = home.and_then(|home| index.find_symbol(&name, home)).map(|(symbol, _)| symbol);
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
    let gone: Vec<GoneSymbol> =
        std::iter::once(&plan.symbol).chain(along).map(|printed| GoneSymbol::new(printed, index)).collect();
    let (package, name) =
        gone.first().map(|old| (old.package.as_str(), old.name.as_str())).unwrap_or_default();
    PlacesRequest {
        old: plan.symbol.clone(),
        new: format!("{}::{}", barred(package), barred(&plan.new_name)),
        old_name: barred(name),
        scope: plan.scope,
        comments: request.comments,
        strings: request.strings,
        derived: request.derived,
        gone,
    }
}

/// Lists the plan's edits by their places in the new texts.
fn written(plan: &RenamePlan, files: &[Replacement]) -> Vec<AppliedEdit> {
    let mut written = Vec::with_capacity(plan.edits);
    for (planned, file) in plan.files.iter().zip(files) {
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
