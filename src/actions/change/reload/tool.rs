//! Implements the tool reload.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::change::reload::{Leftover, ReloadAnswer, ReloadRequest};
use crate::actions::missing::{LookupReply, missing_path};
use crate::actions::run::load_system::{ListedLoad, relative};
use crate::answer::Advice;
use crate::handle::loaded::{LoadStatus, text};
use crate::tools::arguments::Timeout;
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

/// The maximum number of leftover definitions that are listed.
const MAX_LEFT: usize = 20;

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    #[serde(flatten)]
    request: ReloadRequest,
    #[serde(flatten)]
    timeout: Timeout,
}

/// The outcome of a reload, with long lists shortened.
#[derive(Debug, Serialize, JsonSchema)]
struct ListedReload {
    /// The files that had changed after they were loaded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed: Vec<String>,
    /// Definitions that are in the image but no longer in the project.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<Leftover>,
    /// Number of entries in `left`, if not all are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_total: Option<usize>,
    /// True if nothing of the project was loaded, so that there was nothing to reload.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    nothing_loaded: bool,
    #[serde(flatten)]
    load: ListedLoad,
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "reload",
        title: "Reload changed files",
        description: "Reloads the files that changed on disk after they were loaded, and their dependents, and lists \
            the compiler's diagnostics and the definitions that are no longer in their file. Call it after \
            editing files. Runs the project's code.",
        effect: Effect::Runs,
    };
    Tool::new::<Arguments, LookupReply<ListedReload>>(about, reload).joins_loads()
}

fn reload(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let control = call.control(Duration::from_secs(given.timeout.timeout_seconds));
    let request = given.request;
    let bank = session.bank()?;
    // Accept a file that was deleted after it was loaded: the deletion is a change.
    let is_known = |path: &Path| path.exists() || bank.project().loaded_date(path).is_some();
    if let Some(missing) = missing_path(bank, &request.paths, is_known) {
        return missing.answer(CallOutcome::NotFound);
    }
    let mut answer = bank.run(&request, &control)?;
    answer.load = relative(answer.load, |path| bank.project().shown(Path::new(path)));
    let kept = if request.remove { " (cannot be removed; restart-lisp starts a clean image)" } else { "" };
    let mut shown = text(&answer, kept);
    if answer.nothing_loaded {
        shown.extend([" ", &Advice::Load.worded(call.wording())]);
    }
    if !answer.left.is_empty() && !request.remove {
        shown.extend(["\n", &Advice::RemoveLeftovers.worded(call.wording())]);
    }
    let ended =
        if answer.load.status == LoadStatus::Loaded { CallOutcome::Answered } else { CallOutcome::Failed };
    let total = answer.left.len();
    answer.left.truncate(MAX_LEFT);
    let listed = ListedReload {
        changed: answer.changed,
        left: answer.left,
        left_total: Some(total).filter(|total| *total > MAX_LEFT),
        nothing_loaded: answer.nothing_loaded,
        load: ListedLoad::new(answer.load, str::to_owned, false),
    };
    ToolAnswer::new(shown, &LookupReply::yes(listed), ended)
}

impl fmt::Display for ReloadAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self, ""))
    }
}

/// Formats the answer. `kept` is printed after each definition that was not removed.
fn text(answer: &ReloadAnswer, kept: &str) -> String {
    let load = &answer.load;
    let is_unchanged = load.status == LoadStatus::Loaded
        && load.cautions.is_empty()
        && load.compiled.is_empty()
        && load.cached.is_empty();
    let mut text = match answer.changed.as_slice() {
        // Nothing was reloaded and nothing can be left over.
        _ if answer.nothing_loaded => return "Nothing of the project is loaded.".to_owned(),
        [] => "No loaded file has changed.".to_owned(),
        changed => format!("Changed after loading: {}.", changed.join(", ")),
    };
    // Writing to a string cannot fail.
    if !is_unchanged || !answer.changed.is_empty() {
        let _ = write!(text, "\n{}", text::reload(load));
    }
    if !answer.left.is_empty() {
        text.push_str("\nDefinitions in the image that are no longer in the project:");
    }
    for left in answer.left.iter().take(MAX_LEFT) {
        let removed = if left.removed { " (removed)" } else { kept };
        let _ = write!(text, "\n  {}: {} {}{removed}", left.path, left.kind, left.name);
    }
    if let Some(more) = answer.left.len().checked_sub(MAX_LEFT).filter(|more| *more > 0) {
        let _ = write!(text, "\n  … and {more} more");
    }
    text
}
