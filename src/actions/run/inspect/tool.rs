//! Implements the tool inspect.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::actions::missing::{LookupReply, NotFoundReply};
use crate::actions::run::evaluate::{Evaluation, EvaluationStatus};
use crate::actions::run::inspect::{InspectRequest, InspectStatus, Inspected, Inspection, ObjectKind};
use crate::tools::arguments::{Timeout, default_package};
use crate::tools::page::{Paged, Paging, Part, Sequence, longest_page};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Permission, Session, Tool, ToolAnswer};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// A form to evaluate; its value is inspected.
    #[serde(default)]
    expression: String,
    /// Alternatively, a handle from an answer of evaluate or inspect.
    #[serde(default)]
    handle: String,
    /// The `path` of a part to inspect instead of the object itself, such as 2/0.
    #[serde(default)]
    path: String,
    /// The package for reading forms and printing values.
    #[serde(default = "default_package")]
    package: String,
    #[serde(flatten)]
    paging: Paging,
    #[serde(flatten)]
    timeout: Timeout,
}

impl Sequence for Inspection {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.parts);
    }
}

/// The number of parts on a page by default.
const PRINTED: usize = 200;

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "inspect",
        title: "Inspect an object",
        description: "Lists the type, printed form and parts of an object (elements, keys and values, slots, \
            closed-over values). Each part has a path for inspecting it in turn. Needs a server started with \
            --allow-eval.",
        effect: Effect::Runs,
    };
    Tool::new::<Arguments, LookupReply<Paged<Inspection>>>(about, inspect).needs(Permission::Eval).of_image()
}

fn inspect(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let subject = match (given.expression.trim().is_empty(), given.handle.is_empty()) {
        (false, true) => Inspected::Expression(given.expression),
        (true, false) => Inspected::Handle(given.handle),
        _ => return Err(Failure::arguments("Give either `expression` or `handle`.")),
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
            let (status, asked) = (InspectStatus::Unknown, handle.clone());
            Inspection { status, asked, ..Inspection::default() }
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
    let listed = Paged::new(inspection, total);
    if evaluated == Some(EvaluationStatus::NoPackage) {
        return NotFoundReply::package(bank, &request.package, None).with_partial(listed);
    }
    if outcome == CallOutcome::NotFound {
        return NotFoundReply::other(listed.answer.to_string(), Vec::new(), None).with_partial(listed);
    }
    longest_page(listed, (offset, total), call.budget(), |listed, range| {
        listed.cursor = range.cursor();
        let shown = &listed.answer;
        let text = if call.names_handles() { shown.to_string() } else { format!("{shown:#}") };
        ToolAnswer::new(
            text + &range.rest(),
            &LookupReply { found, answer: Some(&*listed), missing: None },
            outcome,
        )
    })
}

/// Prints the object's kind and printed form, its type, properties and parts. The alternate form
/// `{:#}` omits the handle.
impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.status, &self.evaluation) {
            (InspectStatus::Gone, _) => {
                let asked = &self.asked;
                return write!(
                    f,
                    "{asked} has expired: newer handles replaced it, or the heap was full. Evaluate the expression again."
                );
            }
            (InspectStatus::Unknown, _) => return write!(f, "No object has the handle {}.", self.asked),
            (InspectStatus::NoPart, _) => return f.write_str(&self.text),
            (InspectStatus::Failed, Some(Evaluation { failure: Some(failure), .. })) => {
                return write!(f, "{failure}");
            }
            (InspectStatus::Failed, Some(evaluation)) if evaluation.status == EvaluationStatus::NoPackage => {
                return write!(f, "{evaluation}");
            }
            (InspectStatus::Failed, _) => return f.write_str("The expression has no value."),
            (InspectStatus::Found, _) => (),
        }
        let cut = if self.cut { "..." } else { "" };
        write!(f, "{}: {}{cut}", self.kind.as_ref().map_or("", ObjectKind::name), self.text)?;
        if let Some(handle) = &self.handle {
            let handle = if !f.alternate() { format!(", handle {handle}") } else { String::new() };
            write!(f, "\n  ({}{handle})", self.kind_of)?;
        }
        for fact in &self.facts {
            write!(f, "\n  {}: {}", fact.name, fact.value.replace('\n', "\n    "))?;
        }
        if !self.parts.is_empty() {
            f.write_str("\n\nParts:")?;
        }
        for part in &self.parts {
            let name = part.name.as_deref().map(|name| format!("{name} = ")).unwrap_or_default();
            let on = if part.parts { " ..." } else { "" };
            write!(f, "\n  {}: {name}{}{on}", part.path, part.value.replace('\n', "\n    "))?;
        }
        Ok(())
    }
}
