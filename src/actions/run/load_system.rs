//! Implements the tool load-system, which loads an ASDF system or all systems of the project, and
//! reports the compiler's diagnostics. `loaded` also builds the answer of load-file.

use crate::Error;
use std::path::Path;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::diagnostic::{LISTED_FILES, ShownDiagnostic};
use crate::LoadRequest;
use crate::Steelbank;
use crate::actions::missing::{LookupReply, NotFoundReply, systems};
use crate::answer::{Caution, Location};
use crate::engine::LispError;
use crate::handle::loaded::text;
use crate::handle::loaded::{
    Diagnostic, FailureKind, LoadAnswer, LoadCause, LoadFailure, LoadStatus, SystemOutcome,
};
use crate::handle::recovery::LoadedItem;
use crate::tools::arguments::Timeout;
use crate::tools::session::Load;
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// The system's name. Default: all systems of the project, including tests.
    #[serde(default)]
    system: Option<String>,
    /// Recompile the system's own files even if they have not changed.
    #[serde(default)]
    force: bool,
    /// Continue after files that fail to compile.
    #[serde(default)]
    keep_going: bool,
    #[serde(flatten)]
    timeout: Timeout,
    /// List every file, with its absolute path, and every system.
    #[serde(default)]
    detail: bool,
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "load-system",
        title: "Load a system",
        description: "Loads an ASDF system into the image. Reports errors, warnings and read errors with file, line \
            and column. Load the project's system before asking about its code, and again after editing \
            files: only changed files are compiled. Runs the system's code. If it fails, the answer says \
            what to correct.",
        effect: Effect::Runs,
    };
    Tool::new::<Arguments, LookupReply<ListedLoad>>(about, load)
}

fn load(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let order = given.system.clone().map_or(LoadedItem::Project, LoadedItem::System);
    let control = call.control(Duration::from_secs(given.timeout.timeout_seconds));
    let bank = session.bank()?;
    session.recovery().note_begun(&order);
    let request = given.system.map_or_else(LoadRequest::project, LoadRequest::system);
    let request = if given.force { request.force() } else { request };
    let request = if given.keep_going { request.keep_going() } else { request };
    loaded(session, order, bank.run(&request.failure_as_answer(), &control), given.detail)
}

/// Builds the answer for a load, and records the outcome with [`note_outcome`].
pub(crate) fn loaded(
    session: &Session,
    what: LoadedItem,
    outcome: Result<LoadAnswer, Error>,
    detail: bool,
) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let shown = |path: &str| bank.project().shown(Path::new(path));
    let missing = outcome.as_ref().ok().and_then(|answer| missing(bank, &what, answer));
    let text = match &outcome {
        Ok(_) if missing.is_some() => missing.as_ref().map(NotFoundReply::text).unwrap_or_default(),
        Ok(answer) if detail => text::load_in_detail(answer),
        Ok(answer) => relative(answer.clone(), shown).to_string(),
        Err(error) => error.to_string(),
    };
    let loaded = note_outcome(session, what, &outcome, &text);
    let mut answer = ListedLoad::new(outcome?, shown, detail);
    if let Some(missing) = missing {
        // The message of the "not found" answer repeats the failure, so omit the failure. With
        // `detail`, keep the failure, because programs read it from this field.
        answer.failure = answer.failure.filter(|_| detail);
        return missing.with_partial(answer);
    }
    let ended = match &answer.failure {
        _ if loaded => CallOutcome::Answered,
        Some(failure) if failure.kind == FailureKind::NoSystem => CallOutcome::NotFoundAsError,
        _ => CallOutcome::Failed,
    };
    ToolAnswer::new(text, &LookupReply::yes(answer), ended)
}

/// Records how a load of `what` ended. `status` reports the first line of `text`, and a restart
/// reloads `what` if the load succeeded. Returns whether everything was loaded.
pub(crate) fn note_outcome(
    session: &Session,
    what: LoadedItem,
    outcome: &Result<LoadAnswer, Error>,
    text: &str,
) -> bool {
    let loaded = outcome.as_ref().is_ok_and(|answer| answer.status == LoadStatus::Loaded);
    let outcome_line = text.lines().next().unwrap_or_default().to_owned();
    session.note_load(Load { name: Load::name_of(&what), loaded, outcome: outcome_line });
    if !matches!(outcome, Err(Error::Lisp(LispError::Dead { .. }))) {
        session.recovery().note_ended(&what);
    }
    if loaded {
        session.recovery().note_loaded(what);
    }
    loaded
}

/// Builds the answer for a system or file that does not exist. Returns `None` for other failures.
fn missing(bank: &Steelbank, what: &LoadedItem, answer: &LoadAnswer) -> Option<NotFoundReply> {
    let failure = answer.failure.as_ref()?;
    match what {
        LoadedItem::System(name) => {
            failure.is_of_unknown(name).then(|| NotFoundReply::system(&systems(bank), name))
        }
        LoadedItem::File(path) => {
            let loaded = answer.path.as_deref().is_some_and(|path| failure.is_of_missing(Path::new(path)));
            loaded.then(|| NotFoundReply::path(bank, path))
        }
        LoadedItem::Project => None,
    }
}

/// Replaces each path in `answer` by `shown(path)`.
pub(crate) fn relative(answer: LoadAnswer, shown: impl Fn(&str) -> String) -> LoadAnswer {
    let all = |paths: Vec<String>| paths.iter().map(|path| shown(path)).collect();
    let place = |place: Location| Location { file: shown(&place.file), ..place };
    let diagnostic = |diagnostic: Diagnostic| Diagnostic { place: diagnostic.place.map(place), ..diagnostic };
    let failure =
        |failure: Option<LoadFailure>| failure.map(|failure| shorten_failure(failure, &shown, false));
    LoadAnswer {
        path: answer.path.as_deref().map(&shown),
        compiled: all(answer.compiled),
        cached: all(answer.cached),
        diagnostics: answer.diagnostics.into_iter().map(diagnostic).collect(),
        failure: failure(answer.failure),
        systems: answer
            .systems
            .into_iter()
            .map(|system| SystemOutcome { failure: failure(system.failure), ..system })
            .collect(),
        ..answer
    }
}

/// The outcome of a load, with long lists shortened.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListedLoad {
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    status: LoadStatus,
    duration_ms: u64,
    /// The files that were compiled; without `detail`, only the first 30.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    compiled: Vec<String>,
    /// Number of files that were compiled.
    compiled_count: usize,
    /// With `detail`, the files that were loaded from the cache.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cached: Vec<String>,
    /// Number of files that were loaded from the cache.
    cached_count: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    diagnostics: Vec<ShownDiagnostic>,
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnostics_total: Option<usize>,
    /// The number of diagnostics of libraries, which are listed only with `detail`.
    #[serde(skip_serializing_if = "Option::is_none")]
    library_diagnostics: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<LoadFailure>,
    /// For a load of several systems: the number of loaded systems.
    #[serde(skip_serializing_if = "Option::is_none")]
    systems_loaded: Option<usize>,
    /// For a load of several systems: the number of systems.
    #[serde(skip_serializing_if = "Option::is_none")]
    systems_total: Option<usize>,
    /// Why systems are not loaded; the cause that blocks most systems comes first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    causes: Vec<LoadCause>,
    /// With `detail`, the outcome of each system.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    systems: Vec<SystemOutcome>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    cautions: Vec<Caution>,
}

impl ListedLoad {
    /// Builds the shortened form. With `detail` it keeps every file and absolute paths, so that a
    /// program can deserialize it as a [`LoadAnswer`].
    pub(crate) fn new(answer: LoadAnswer, shown: impl Fn(&str) -> String, detail: bool) -> Self {
        let mut answer = if detail { answer } else { relative(answer, shown) };
        let systems_total = Some(answer.systems.len()).filter(|total| *total > 0);
        let systems_loaded = systems_total.map(|_| answer.systems_loaded());
        let mut causes = answer.causes();
        causes.truncate(text::MAX_CAUSES);
        let (compiled_count, cached_count) = (answer.compiled.len(), answer.cached.len());
        let of_libraries = answer.diagnostics.iter().filter(|diagnostic| diagnostic.library).count();
        if !detail {
            answer.diagnostics.retain(|diagnostic| !diagnostic.library);
            answer.compiled.truncate(LISTED_FILES);
            answer.cached.clear();
            answer.systems.clear();
        }
        let listed = |diagnostic| ShownDiagnostic::new(diagnostic, str::to_owned, detail);
        Self {
            system: answer.system,
            path: answer.path,
            status: answer.status,
            duration_ms: answer.duration_ms,
            compiled: answer.compiled,
            compiled_count,
            cached: answer.cached,
            cached_count,
            diagnostics: answer.diagnostics.into_iter().map(listed).collect(),
            diagnostics_total: answer.diagnostics_total,
            library_diagnostics: Some(of_libraries).filter(|count| *count > 0 && !detail),
            failure: answer.failure,
            systems_loaded,
            systems_total,
            causes,
            systems: answer.systems,
            cautions: answer.cautions,
        }
    }
}

/// Replaces the failure's path by `shown(path)`, also in its message and remedies. With `detail`,
/// returns the failure unchanged.
pub(crate) fn shorten_failure(
    mut failure: LoadFailure,
    shown: impl Fn(&str) -> String,
    detail: bool,
) -> LoadFailure {
    if let Some(path) = failure.path.clone().filter(|_| !detail) {
        let short = shown(&path);
        failure.message = failure.message.replace(&path, &short);
        failure.remedies.iter_mut().for_each(|remedy| *remedy = remedy.replace(&path, &short));
        failure.path = Some(short);
    }
    failure
}
