//! Implements the tool check.

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::actions::change::check::{CheckAnswer, CheckRequest};
use crate::actions::missing::{LookupReply, NotFoundReply, missing_path, systems};
use crate::actions::run::load_system::shorten_failure;
use crate::handle::scratch::Overlay;
use crate::tools::arguments::Timeout;
use crate::tools::{
    About, Call, CallOutcome, Effect, Failure, Permission, Session, Starts, Tool, ToolAnswer,
};

/// The arguments of check.
#[derive(Debug, Deserialize, JsonSchema)]
struct CheckArguments {
    /// Files to compile from disk, whether changed or not.
    #[serde(default)]
    paths: Vec<String>,
    /// Files with their proposed text.
    #[serde(default)]
    edits: Vec<CheckedEdit>,
    /// The system to load; default: the loaded systems.
    #[serde(default)]
    system: Option<String>,
    #[serde(flatten)]
    timeout: Timeout,
}

/// A file with its proposed text.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct CheckedEdit {
    /// The file; it may be new.
    path: String,
    /// The complete text.
    text: String,
}

/// With either of these permissions, texts are checked in a copy that is not confined.
const FREE: &[Permission] = &[Permission::Eval, Permission::Edits];

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "check",
        title: "Check whether it loads",
        description: "Reports whether a system still loads with the files on disk, or with texts that are not written \
            yet (edits), and lists the compiler's diagnostics by file, line and column. Runs the system's \
            code in a throwaway copy of the image, which writes only to its own folder if there are edits \
            and neither --allow-eval nor --allow-edits. Use it before writing an edit.",
        effect: Effect::Runs,
    };
    Tool::new::<CheckArguments, LookupReply<CheckAnswer>>(about, check)
        .may_need(FREE)
        .starts(Starts::Copy)
        .joins_loads()
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
    // Files on disk are the project's code. Given texts are the caller's code, so confine the copy
    // unless the caller may run code or edit files.
    request.confined =
        !request.edits.is_empty() && !FREE.iter().any(|permission| session.allows(*permission));
    let control = call.control(Duration::from_secs(given.timeout.timeout_seconds));
    let mut answer = bank.run(&request, &control)?;
    let shown = |path: &str| bank.project().shown(Path::new(path));
    answer.compiled.iter_mut().for_each(|path| *path = shown(path));
    answer.failures =
        answer.failures.into_iter().map(|failure| shorten_failure(failure, shown, false)).collect();
    for place in answer.diagnostics.iter_mut().filter_map(|diagnostic| diagnostic.place.as_mut()) {
        place.file = shown(&place.file);
    }
    if let Some(system) = &request.system
        && answer.failures.iter().any(|failure| failure.is_of_unknown(system))
    {
        // The "not found" answer reports this failure.
        answer.failures.retain(|failure| !failure.is_of_unknown(system));
        return NotFoundReply::system(&systems(bank), system).with_partial(answer);
    }
    let outcome = if answer.loads { CallOutcome::Answered } else { CallOutcome::Failed };
    ToolAnswer::new(answer.to_string(), &LookupReply::yes(answer), outcome)
}
