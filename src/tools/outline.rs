//! The tool outline: the definitions of a file, package or system; and dead code.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::missing::{MaybeFound, of_error};
use super::page::{PageRange, Paging, Part, Sequence, ToolReply};
use super::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};
use crate::query::control::ALLOWED;
use crate::query::counted;
use crate::query::outline::{OutlineRequest, OutlineTarget, Outlined};

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
    /// Only these kinds: function, macro, generic-function, method, variable, class, struct, condition, type, …
    #[serde(default)]
    kinds: Vec<String>,
    /// Only what nothing else uses, surest first, each with what might still reach it.
    #[serde(default)]
    unused: bool,
    #[serde(flatten)]
    paging: Paging,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ListedOutline {
    definitions: Vec<Outlined>,
    /// How many definitions there are in all.
    total: usize,
    /// Pass it as `cursor` to get the entries that follow; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    /// How many definitions were looked at.
    looked_at: usize,
    /// Files that are not loaded as they are: read off the text, uses not counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    not_loaded: Vec<String>,
}

impl Sequence for ListedOutline {
    fn lists(&mut self, part: &mut Part) {
        // Tell first what was not seen.
        part.keep(&mut self.not_loaded);
        part.keep(&mut self.definitions);
    }
}

pub(super) fn tool() -> Tool {
    let about = About {
        name: "outline",
        title: "List definitions, or find dead code",
        description: "Lists the definitions of a file, folder, package or system, each with kind, place, whether it is \
            exported, and how many lines use it: in other definitions, in tests, in itself. With unused=true it finds \
            dead code: what nothing else uses, the surest first, with what might still reach it (exported, quoted, \
            named in a string, used by tests, in files that are not loaded). Use it to get to know a module in one \
            call.",
        effect: Effect::Reads,
    };
    Tool::paged::<Arguments, MaybeFound<ListedOutline>>(about, outline).of_image()
}

fn outline(session: &Session, given: Arguments, call: &Call) -> Result<ToolReply, Failure> {
    let mut targets =
        [given.path, given.package, given.system].map(|text| Some(text).filter(|text| !text.is_empty()));
    let of = match &mut targets {
        [Some(path), None, None] => OutlineTarget::Path(std::mem::take(path)),
        [None, Some(package), None] => OutlineTarget::Package(std::mem::take(package)),
        [None, None, Some(system)] => OutlineTarget::System(std::mem::take(system)),
        [None, None, None] => OutlineTarget::Path(".".to_owned()),
        _ => return Err(Failure::arguments("Give one of path, package and system.")),
    };
    let request = OutlineRequest { of, kinds: given.kinds, unused: given.unused };
    let text = session.text().ok();
    let bank = session.bank()?;
    let answer = match bank.outline(&request, text.map(|text| &**text), &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound).map(ToolReply::from),
    };
    let listed = ListedOutline {
        total: answer.definitions.len(),
        definitions: answer.definitions,
        cursor: None,
        looked_at: answer.looked_at,
        not_loaded: answer.not_loaded,
    };
    given.paging.cut(listed, call.budget(), |listed, range| {
        listed.cursor = range.cursor();
        let text = text_of(listed, request.unused, range);
        ToolAnswer::new(text, &MaybeFound::yes(&*listed), CallOutcome::Answered)
    })
}

fn text_of(listed: &ListedOutline, unused: bool, range: &PageRange) -> String {
    let mut text = match (unused, listed.total) {
        (true, 0) => match listed.looked_at {
            1 => "The one definition is used.".to_owned(),
            several => format!("All of {several} definitions are used."),
        },
        (true, total) => format!(
            "{total} of {} {} used by no other:",
            counted(listed.looked_at, "definition", "definitions"),
            if total == 1 { "is" } else { "are" }
        ),
        (false, total) => format!("{}:", counted(total, "definition", "definitions")),
    };
    for each in &listed.definitions {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{}-{} {} {}", each.place, each.end, each.kind, each.name);
        if each.exported {
            text.push_str(" exported");
        }
        if let Some(uses) = each.uses {
            let _ =
                write!(text, " uses: {} others, {} tests, {} itself", uses.others, uses.tests, uses.itself);
        }
        if let Some(line) = &each.text {
            let _ = write!(text, "\n    {line}");
        }
        for reason in &each.reached_by {
            let _ = write!(text, "\n    {reason}");
        }
    }
    text.push_str(&range.rest());
    if !listed.not_loaded.is_empty() {
        let _ = write!(
            text,
            "\n\nNot loaded as they are, so their uses are not counted: {}.",
            listed.not_loaded.join(", ")
        );
    }
    text
}
