//! The tool `check`: whether the project still loads, tried in a scratch image.

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::actions::change::check::{CheckAnswer, CheckRequest};
use crate::actions::missing::{LookupReply, NotFoundReply, missing_path, systems};
use crate::actions::run::load_system::shorter;
use crate::handle::scratch::Overlay;
use crate::tools::arguments::Timeout;
use crate::tools::{
    About, Call, CallOutcome, Effect, Failure, Permission, Session, Starts, Tool, ToolAnswer,
};

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

/// The permissions with either of which texts are tried in a copy that is not confined.
const FREE: &[Permission] = &[Permission::Eval, Permission::Edits];

pub(crate) fn tool() -> Tool {
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
    Tool::new::<CheckArguments, LookupReply<CheckAnswer>>(about, check).may_need(FREE).starts(Starts::Copy)
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
    let mut answer = bank.run(&request, &control)?;
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
        return NotFoundReply::system(&systems(bank), system).with_partial(answer);
    }
    let outcome = if answer.loads { CallOutcome::Answered } else { CallOutcome::Failed };
    ToolAnswer::new(answer.to_string(), &LookupReply::yes(answer), outcome)
}
