//! The tool reload: brings the image up to date with the files on disk.

use std::fmt::{self, Write as _};
use std::path::Path;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::change::reload::{Leftover, ReloadAnswer, ReloadRequest};
use crate::actions::missing::{LookupReply, missing_path};
use crate::actions::run::load_system::{ListedLoad, relative};
use crate::answer::Advice;
use crate::handle::loaded::LoadStatus;
use crate::handle::loaded::text;
use crate::tools::arguments::Timeout;
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    #[serde(flatten)]
    request: ReloadRequest,
    #[serde(flatten)]
    timeout: Timeout,
}

/// What was loaded again, and what is left over, as it is listed.
#[derive(Debug, Serialize, JsonSchema)]
struct ListedReload {
    /// The files that had changed since they were loaded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    changed: Vec<String>,
    /// Definitions that the image has and their files do not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left: Vec<Leftover>,
    /// True if nothing of the project was loaded, so that there was nothing to bring up to date.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    nothing_loaded: bool,
    #[serde(flatten)]
    load: ListedLoad,
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "reload",
        title: "Reload what changed on disk",
        description: "Loads again what has changed on disk since it was loaded, and what depends on it, and reports what \
            the compiler says. Lists definitions that are no longer in their file (renamed, deleted); remove=true \
            deletes them from the image. Call it after editing files. This runs the project's code.",
        effect: Effect::Runs,
    };
    Tool::new::<Arguments, LookupReply<ListedReload>>(about, reload)
}

fn reload(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let control = call.control(Duration::from_secs(given.timeout.timeout_seconds));
    let request = given.request;
    let bank = session.bank()?;
    // Accept a file that was loaded and deleted since: it has changed.
    let is_known = |path: &Path| path.exists() || bank.project().loaded_date(path).is_some();
    if let Some(missing) = missing_path(bank, &request.paths, is_known) {
        return missing.answer(CallOutcome::NotFound);
    }
    let mut answer = bank.run(&request, &control)?;
    answer.load = relative(answer.load, |path| bank.project().shown(Path::new(path)));
    let kept = if request.remove { " (it cannot be removed: restart-lisp makes a clean image)" } else { "" };
    let mut shown = text(&answer, kept);
    if answer.nothing_loaded {
        shown.extend([" ", &Advice::Load.worded(call.wording())]);
    }
    if !answer.left.is_empty() && !request.remove {
        shown.extend(["\n", &Advice::RemoveLeftovers.worded(call.wording())]);
    }
    let ended =
        if answer.load.status == LoadStatus::Loaded { CallOutcome::Answered } else { CallOutcome::Failed };
    let listed = ListedReload {
        changed: answer.changed,
        left: answer.left,
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

/// Renders it; `kept` follows each definition that is not removed.
fn text(answer: &ReloadAnswer, kept: &str) -> String {
    let mut text = match answer.changed.as_slice() {
        // End here: nothing was loaded again, and nothing can be left.
        _ if answer.nothing_loaded => return "Nothing of the project is loaded.".to_owned(),
        [] => "No file has changed since it was loaded.".to_owned(),
        changed => format!("Changed since they were loaded: {}.", changed.join(", ")),
    };
    // Writing to a string cannot fail.
    let _ = write!(text, "\n{}", text::reload(&answer.load));
    if !answer.left.is_empty() {
        text.push_str("\nDefinitions in the image that the project no longer has:");
    }
    for left in &answer.left {
        let removed = if left.removed { " (removed)" } else { kept };
        let _ = write!(text, "\n  {}: {} {}{removed}", left.path, left.kind, left.name);
    }
    text
}
