//! The tool `check`: whether the project still loads, tried in a scratch image.

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arguments::Timeout;
use super::diagnostic::ShownDiagnostic;
use super::load_system::{MOST_FILES, shorter};
use super::missing::{MaybeFound, Missing, missing_path, systems};
use super::trial::scratch_failure;
use super::{
    About, Call, CallOutcome, Effect, Failure, Permission, Session, Starts, Tool, ToolAnswer, ToolProgress,
};
use crate::query::check::{CheckAnswer, CheckRequest};
use crate::query::load_system::LoadFailure;
use crate::render::check as text;
use crate::scratch::Overlay;

/// What check takes.
#[derive(Debug, Deserialize, JsonSchema)]
struct CheckArguments {
    /// Files to compile, changed or not, as they are on disk.
    #[serde(default)]
    paths: Vec<String>,
    /// Files with the text that they would have.
    #[serde(default)]
    edits: Vec<CheckedEdit>,
    /// The system to load; left out: those that are loaded.
    #[serde(default)]
    system: Option<String>,
    #[serde(flatten)]
    timeout: Timeout,
}

/// A file with the text that it would have.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CheckedEdit {
    /// The file; it need not exist.
    path: String,
    /// The whole text.
    text: String,
}

/// The outcome of a check, as it is listed.
#[derive(Debug, Serialize, JsonSchema)]
struct ListedCheck {
    /// Whether everything loads.
    loads: bool,
    /// The systems that were loaded in the scratch image.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    systems: Vec<String>,
    /// The files that were compiled, those that have changed and what depends on them: the first ones, if there are many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    compiled: Vec<String>,
    /// How many files were compiled.
    compiled_count: usize,
    /// What was said, the worst first, then in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    diagnostics: Vec<ShownDiagnostic>,
    /// How many diagnostics there were, if not all are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    diagnostics_total: Option<usize>,
    /// What stopped those that do not load.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    failures: Vec<LoadFailure>,
    /// Files among the edits that none of the systems has: of them, nothing was tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_loaded: Vec<String>,
    /// Whether it was tried in a confined copy, which may write in its own folder only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    confined: bool,
    /// Files to which writes were refused in the confined copy: the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refused: Vec<String>,
    duration_ms: u64,
}

impl From<CheckAnswer> for ListedCheck {
    /// The same; paths are relative to the project already.
    fn from(mut answer: CheckAnswer) -> Self {
        let compiled_count = answer.compiled.len();
        answer.compiled.truncate(MOST_FILES);
        let diagnostics = answer.diagnostics.into_iter();
        Self {
            loads: answer.loads,
            systems: answer.systems,
            compiled: answer.compiled,
            compiled_count,
            diagnostics: diagnostics.map(|said| ShownDiagnostic::new(said, str::to_owned, false)).collect(),
            diagnostics_total: answer.diagnostics_total,
            failures: answer.failures,
            not_loaded: answer.not_loaded,
            confined: answer.confined,
            refused: answer.refused,
            duration_ms: answer.duration_ms,
        }
    }
}

/// The permissions with either of which texts are tried in a copy that is not confined.
const FREE: &[Permission] = &[Permission::Eval, Permission::Edits];

pub(super) fn tool() -> Tool {
    let about = About {
        name: "check",
        title: "Check whether it loads",
        description: "Tells whether a system still loads with what is on disk now, or with texts that are not written \
            yet (edits), and what the compiler says, with file, line and column. It is tried in a copy of the image \
            that is thrown away: the loaded image does not change. Use it before writing an edit, or to see all \
            diagnostics of files (paths). This runs the system's code, in the copy; with edits, and unless the server \
            was started with --allow-eval or --allow-edits, that may write in a folder of its own only.",
        effect: Effect::Runs,
    };
    Tool::new::<CheckArguments, MaybeFound<ListedCheck>>(about, check).may_need(FREE).starts(Starts::Copy)
}

fn check(session: &Session, given: CheckArguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let texts: Vec<PathBuf> = given.edits.iter().map(|edit| bank.project().real(&edit.path)).collect();
    let is_known = |path: &Path| path.exists() || texts.iter().any(|text| text == path);
    if let Some(missing) = missing_path(bank, &given.paths, is_known) {
        return missing.answer(CallOutcome::NotFound);
    }
    let mut request = CheckRequest {
        paths: given.paths.into_iter().map(PathBuf::from).collect(),
        edits: given
            .edits
            .into_iter()
            .map(|edit| Overlay { path: PathBuf::from(edit.path), text: Some(edit.text) })
            .collect(),
        system: given.system,
        confined: false,
    };
    // Texts are the caller's code, files the project's.
    request.confined =
        !request.edits.is_empty() && !FREE.iter().any(|permission| session.allows(*permission));
    let control = call.control(Duration::from_secs(given.timeout.timeout_seconds));
    let answer = bank.check(&request, &control, |news| {
        call.report(ToolProgress { what: news.what, path: news.path, done: news.done, total: news.total });
    });
    let mut answer = answer.map_err(scratch_failure)?;
    let shown = |path: &str| bank.project().shown(Path::new(path));
    answer.compiled.iter_mut().for_each(|path| *path = shown(path));
    answer.failures = answer.failures.into_iter().map(|failure| shorter(failure, shown, false)).collect();
    for place in answer.diagnostics.iter_mut().filter_map(|said| said.place.as_mut()) {
        place.file = shown(&place.file);
    }
    if let Some(system) = &request.system
        && answer.failures.iter().any(|failure| failure.is_of_unknown(system))
    {
        // Drop the failure: the answer below reports it as missing.
        answer.failures.retain(|failure| !failure.is_of_unknown(system));
        return Missing::system(&systems(bank), system).beside(ListedCheck::from(answer));
    }
    let outcome = if answer.loads { CallOutcome::Answered } else { CallOutcome::Failed };
    let shown = text::check(&answer);
    ToolAnswer::new(shown, &MaybeFound::yes(ListedCheck::from(answer)), outcome)
}
