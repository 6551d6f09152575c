//! The tool interface: renders the names that cross the boundary of a file, package or system.

use std::fmt::{self, Write as _};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::actions::missing::{LookupReply, of_error};
use crate::actions::uses::interface::{CrossingName, InterfaceAnswer, InterfaceRequest};
use crate::actions::uses::outline::tool::target;
use crate::answer::counted;
use crate::engine::ALLOWED;
use crate::tools::page::{Paged, Paging, Part, Sequence};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// A file or folder, relative to the project.
    #[serde(default)]
    path: String,
    /// Or a package.
    #[serde(default)]
    package: String,
    /// Or a system of the project that is loaded.
    #[serde(default)]
    system: String,
    #[serde(flatten)]
    paging: Paging,
}

impl Sequence for InterfaceAnswer {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.not_loaded);
        part.keep(&mut self.used);
        part.keep(&mut self.uses);
    }
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "interface",
        title: "List the names that cross a module's boundary",
        description: "Lists the names that a file, folder, package or system uses from the rest of the project, and \
            the names that the rest uses from it, with the files on the other side. Marks internal names. \
            Use it before you move code or split a package: internal names would have to be exported.",
        effect: Effect::Reads,
    };
    Tool::new::<Arguments, LookupReply<Paged<InterfaceAnswer>>>(about, interface).of_image()
}

fn interface(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let request = InterfaceRequest::new(target(given.path, given.package, given.system)?);
    let answer = match bank.ask(&request, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    let (heading, total) = (heading(&answer), answer.uses.len() + answer.used.len());
    given.paging.cut(Paged::new(answer, total), call.budget(), |listed, range| {
        listed.cursor = range.cursor();
        let text = format!("{heading}{}{}", names(&listed.answer), range.rest());
        ToolAnswer::new(text, &LookupReply::yes(&*listed), CallOutcome::Answered)
    })
}

impl fmt::Display for InterfaceAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", heading(self), names(self))
    }
}

fn heading(answer: &InterfaceAnswer) -> String {
    format!(
        "{}: {} used from outside, {} of other code used here.",
        counted(answer.definitions, "definition", "definitions"),
        counted(answer.used.len(), "name", "names"),
        counted(answer.uses.len(), "name", "names"),
    )
}

fn names(answer: &InterfaceAnswer) -> String {
    let mut text = String::new();
    let sides: [(&str, &str, &[CrossingName]); 2] =
        [("Used from outside", "in", &answer.used), ("Names of other code used here", "from", &answer.uses)];
    for (heading, whence, names) in sides {
        if names.is_empty() {
            continue;
        }
        let _ = write!(text, "\n\n{heading}:");
        for each in names {
            let access = if each.exported { "" } else { " (internal)" };
            let uses = counted(each.count, "use", "uses");
            let _ = write!(text, "\n  {}{access} {uses}", each.name);
            if !each.files.is_empty() {
                let _ = write!(text, " {whence} {}", each.files.join(", "));
            }
        }
    }
    if !answer.not_loaded.is_empty() {
        let _ = write!(text, "\n\nNot loaded or stale: {}.", answer.not_loaded.join(", "));
    }
    text
}
