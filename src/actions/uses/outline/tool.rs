//! The tool outline: renders the definitions of a file, package or system, or the unused ones.

use crate::handle::QueryContext;
use std::fmt::{self, Write as _};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::actions::missing::{LookupReply, of_error};
use crate::actions::uses::outline::{OutlineAnswer, OutlineRequest, OutlineTarget};
use crate::answer::counted;
use crate::engine::ALLOWED;
use crate::tools::page::{Paged, Paging, Part, Sequence};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// A file or folder, relative to the project.
    #[serde(default)]
    path: String,
    /// Or a package: its definitions in all loaded files.
    #[serde(default)]
    package: String,
    /// Or a system of the project that is loaded.
    #[serde(default)]
    system: String,
    /// Only these kinds: function, macro, method, variable, class, …
    #[serde(default)]
    kinds: Vec<String>,
    /// Only definitions without other users, the most certain first, with reasons for doubt.
    #[serde(default)]
    unused: bool,
    #[serde(flatten)]
    paging: Paging,
}

impl Sequence for OutlineAnswer {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.definitions);
        part.keep(&mut self.not_loaded);
    }
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "outline",
        title: "List definitions, or find dead code",
        description: "Lists the definitions of a file, folder, package or system, each with kind, place, whether it is \
            exported, and how many lines use it: in other definitions, in tests, in itself. Use it to get to \
            know a module in one call. With unused=true it finds dead code.",
        effect: Effect::Reads,
    };
    Tool::new::<Arguments, LookupReply<Paged<OutlineAnswer>>>(about, outline).of_image()
}

/// Returns the target that the nonempty argument gives. Without arguments, the target is the
/// project's root. Several arguments are an error.
pub(crate) fn target(path: String, package: String, system: String) -> Result<OutlineTarget, Failure> {
    let targets = [path, package, system].map(|text| Some(text).filter(|text| !text.is_empty()));
    Ok(match targets {
        [Some(path), None, None] => OutlineTarget::Path(path),
        [None, Some(package), None] => OutlineTarget::Package(package),
        [None, None, Some(system)] => OutlineTarget::System(system),
        [None, None, None] => OutlineTarget::Path(".".to_owned()),
        _ => return Err(Failure::arguments("Give one of path, package and system.")),
    })
}

fn outline(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let of = target(given.path, given.package, given.system)?;
    let request = OutlineRequest { of, kinds: given.kinds, unused: given.unused, only: None };
    let index = session.text().ok();
    let bank = session.bank()?;
    let answer = match request.answer_once(
        &QueryContext { text: index.map(|index| &**index), ..bank.context() },
        &call.control(ALLOWED),
    ) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    let total = answer.definitions.len();
    given.paging.cut(Paged::new(answer, total), call.budget(), |listed, range| {
        listed.cursor = range.cursor();
        let text = text(&listed.answer, listed.total, &range.rest());
        ToolAnswer::new(text, &LookupReply::yes(&*listed), CallOutcome::Answered)
    })
}

impl fmt::Display for OutlineAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text(self, self.definitions.len(), ""))
    }
}

/// Renders an outline of `total` definitions, or a page of it. `rest` describes the entries on
/// other pages.
fn text(answer: &OutlineAnswer, total: usize, rest: &str) -> String {
    let mut text = match (answer.unused, total) {
        (true, 0) => match answer.looked_at {
            0 => "No uses were counted: no definition here is loaded and up to date.".to_owned(),
            count => format!("No unused definition found; definitions checked: {count}."),
        },
        (true, total) => format!(
            "{total} of {} {} used by nothing else:",
            counted(answer.looked_at, "definition", "definitions"),
            if total == 1 { "is" } else { "are" }
        ),
        (false, total) => format!("{}:", counted(total, "definition", "definitions")),
    };
    for each in &answer.definitions {
        let _ = write!(text, "\n{}-{} {} {}", each.place, each.end, each.kind, each.name);
        if each.exported {
            text.push_str(" exported");
        }
        if let Some(uses) = each.uses {
            let counts = [(uses.others, "by others"), (uses.tests, "by tests"), (uses.itself, "by itself")];
            let counts = counts.iter().filter(|(count, _)| *count > 0);
            let counts: Vec<String> = counts.map(|(count, by)| format!("{count} {by}")).collect();
            match counts.is_empty() {
                true => text.push_str(" unused"),
                false => drop(write!(text, " used {}", counts.join(", "))),
            }
        }
        if let Some(line) = &each.text {
            let _ = write!(text, "\n    {line}");
        }
        for reason in each.reached_by.iter().chain(&each.also_in) {
            let _ = write!(text, "\n    {reason}");
        }
    }
    text.push_str(rest);
    if answer.not_loaded_count > 0 {
        let files = match answer.not_loaded.len() == answer.not_loaded_count {
            true => answer.not_loaded.join(", "),
            false => counted(answer.not_loaded_count, "file", "files") + ", listed after the definitions",
        };
        let _ = write!(text, "\n\nNot loaded or stale, so their uses are not counted: {files}.");
    }
    text
}
