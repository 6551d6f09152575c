//! The tool search: renders the forms that match a pattern.

use std::fmt;

use crate::actions::missing::{LookupReply, of_error};
use crate::actions::text::search::{FormSearchAnswer, FormSearchRequest, SearchMatch};
use crate::answer::counted;
use crate::engine::ALLOWED;
use crate::tools::page::{Continued, Part, Sequence};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

impl Sequence for FormSearchAnswer {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.matches);
    }
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "search",
        title: "Find forms by a pattern",
        description: "Finds the forms of the project that match a pattern with holes, such as (if ?test nil ?else): ?x is \
            any form, ?* any number of elements, and a hole that stands twice must match equal forms. Compares symbols \
            with their packages, skips comments, quoted data and calls of local functions. refactor replaces the forms.",
        effect: Effect::Reads,
    };
    Tool::new::<Continued<FormSearchRequest>, LookupReply<FormSearchAnswer>>(about, search).of_image()
}

fn search(
    session: &Session,
    given: Continued<FormSearchRequest>,
    call: &Call,
) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let answer = match bank.ask(&given.request, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    given.page(answer, call.budget(), |answer| {
        ToolAnswer::new(answer.to_string(), &LookupReply::yes(answer), CallOutcome::Answered)
    })
}

impl fmt::Display for FormSearchAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.total {
            0 => f.write_str("No form matches.")?,
            total => write!(f, "{}:", counted(total, "form matches", "forms match"))?,
        }
        self.matches.iter().try_for_each(|found| write!(f, "\n{found}"))?;
        self.cautions.iter().try_for_each(|caution| write!(f, "\nNote: {caution}"))
    }
}

impl fmt::Display for SearchMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.text)?;
        self.state.iter().try_for_each(|state| write!(f, " ({state})"))
    }
}
