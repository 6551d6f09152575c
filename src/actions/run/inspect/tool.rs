//! The tool inspect: shows an object and its parts.

use std::fmt::Write as _;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::missing::{LookupReply, NotFoundReply};
use crate::actions::run::evaluate::EvaluationStatus;
use crate::actions::run::inspect::{InspectRequest, InspectStatus, Inspected, Inspection, ObjectKind};
use crate::actions::run::trial::tool::failure_text;
use crate::tools::arguments::{Timeout, default_package};
use crate::tools::page::{Page, PageRange, Paging, Part, Sequence, ToolReply};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Permission, Session, Tool, ToolAnswer};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// A form: its value is inspected.
    #[serde(default)]
    expression: String,
    /// Or a handle that evaluate or inspect gave.
    #[serde(default)]
    handle: String,
    /// Which part of it: a part's `path`, as 2/0.
    #[serde(default)]
    path: String,
    /// The package to read and print in.
    #[serde(default = "default_package")]
    package: String,
    #[serde(flatten)]
    paging: Paging,
    #[serde(flatten)]
    timeout: Timeout,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ListedParts {
    #[serde(flatten)]
    inspection: Inspection,
    /// How many parts there are in all.
    total: usize,
    /// Pass it as `cursor` to get the entries that follow; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl Sequence for ListedParts {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.inspection.parts);
    }
}

/// How many parts to print by default.
const PRINTED: usize = 200;

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "inspect",
        title: "Inspect an object",
        description: "Shows what an object is made of: type, printed form, and parts (elements, keys and values, slots, \
            closed-over values), each with a path that leads on. Needs a server started with --allow-eval.",
        effect: Effect::Runs,
    };
    Tool::paged::<Arguments, LookupReply<ListedParts>>(about, inspect).needs(Permission::Eval).of_image()
}

fn inspect(session: &Session, given: Arguments, call: &Call) -> Result<ToolReply, Failure> {
    let subject = match (given.expression.trim().is_empty(), given.handle.is_empty()) {
        (false, true) => Inspected::Expression(given.expression),
        (true, false) => Inspected::Handle(given.handle),
        _ => return Err(Failure::arguments("Give either an expression or a handle.")),
    };
    let offset = given.paging.offset()?;
    let request = InspectRequest {
        subject,
        package: given.package,
        path: given.path,
        offset,
        limit: given.paging.limit_or(PRINTED),
    };
    let control = call.control(Duration::from_secs(given.timeout.timeout_seconds));
    let bank = session.bank()?;
    let inspection = match &request.subject {
        Inspected::Handle(handle) if !session.owns_handle(handle) => {
            Inspection { status: InspectStatus::Unknown, ..Inspection::default() }
        }
        _ => bank.run(&request, &control)?,
    };
    let outcome = match inspection.status {
        InspectStatus::Found => CallOutcome::Answered,
        InspectStatus::Failed => CallOutcome::Failed,
        InspectStatus::Gone | InspectStatus::Unknown | InspectStatus::NoPart => CallOutcome::NotFound,
    };
    given.paging.within(inspection.count)?;
    let evaluated = inspection.evaluation.as_ref().map(|evaluation| evaluation.status);
    let found = inspection.status == InspectStatus::Found;
    let total = inspection.count;
    let listed = ListedParts { inspection, total, cursor: None };
    if evaluated == Some(EvaluationStatus::NoPackage) {
        return NotFoundReply::package(bank, &request.package, None)
            .with_partial(listed)
            .map(ToolReply::from);
    }
    if outcome == CallOutcome::NotFound {
        let text = text(&listed.inspection, &request.subject, None, call.names_handles());
        return NotFoundReply::other(text, Vec::new(), None).with_partial(listed).map(ToolReply::from);
    }
    Page::longest(listed, (offset, total), call.budget(), |listed, range| {
        listed.cursor = range.cursor();
        let text = text(&listed.inspection, &request.subject, Some(range), call.names_handles());
        ToolAnswer::new(text, &LookupReply { found, answer: Some(&*listed), missing: None }, outcome)
    })
}

fn text(
    inspection: &Inspection,
    subject: &Inspected,
    range: Option<&PageRange>,
    names_handles: bool,
) -> String {
    let asked = match subject {
        Inspected::Expression(_) => "",
        Inspected::Handle(handle) => handle,
    };
    match inspection.status {
        InspectStatus::Gone => {
            return format!(
                "The object of {asked} was forgotten since: only so many are kept. Evaluate again."
            );
        }
        InspectStatus::Unknown => return format!("No object has the handle {asked}."),
        InspectStatus::NoPart => return inspection.text.clone(),
        InspectStatus::Failed => {
            let failure = inspection.evaluation.as_ref().and_then(|evaluation| evaluation.failure.as_ref());
            return failure.map_or_else(|| "The expression has no value.".to_owned(), failure_text);
        }
        InspectStatus::Found => (),
    }
    let kind = inspection.kind.as_ref().map_or("", ObjectKind::name);
    let mut text = format!("{kind}: {}", inspection.text);
    if inspection.cut {
        text.push_str("...");
    }
    if let Some(handle) = &inspection.handle {
        let handle = if names_handles { format!(", handle {handle}") } else { String::new() };
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  ({}{handle})", inspection.kind_of);
    }
    for fact in &inspection.facts {
        let _ = write!(text, "\n  {}: {}", fact.name, fact.value.replace('\n', "\n    "));
    }
    if !inspection.parts.is_empty() {
        text.push_str("\n\nParts:");
        for part in &inspection.parts {
            let name = part.name.as_deref().map(|name| format!("{name} = ")).unwrap_or_default();
            let on = if part.parts { " ..." } else { "" };
            let _ = write!(text, "\n  {}: {name}{}{on}", part.path, part.value.replace('\n', "\n    "));
        }
    }
    text + &range.map(PageRange::rest).unwrap_or_default()
}
