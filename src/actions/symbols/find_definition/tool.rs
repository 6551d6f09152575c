//! Implements the tool find-definition.

use super::{FindDefinitionAnswer, FindDefinitionRequest};
use crate::actions::missing::{LookupReply, of_error};
use crate::actions::uses::source_text::{Sourced, sourced};
use crate::engine::ALLOWED;
use crate::tools::page::{Continued, Part, Sequence};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

impl Sequence for FindDefinitionAnswer {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.definitions);
    }
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "find-definition",
        title: "Find where a symbol is defined",
        description: "Lists every definition of a symbol with path, line and column: function, method, macro, \
            variable, class, structure or type. Evidence `via` marks a form that generates the definition \
            without containing its name, as defstruct does for accessors.",
        effect: Effect::Reads,
    };
    type Request = Sourced<Continued<FindDefinitionRequest>>;
    Tool::new::<Request, LookupReply<FindDefinitionAnswer>>(about, sourced(definition)).of_image()
}

fn definition(
    session: &Session,
    given: Continued<FindDefinitionRequest>,
    call: &Call,
) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let answer = match bank.ask(&given.request, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    let looked_up_in = answer.looked_up_in.clone();
    let page = given.page(answer, call.budget(), |answer| {
        ToolAnswer::new(answer.to_string(), &LookupReply::yes(answer), CallOutcome::Answered)
    })?;
    Ok(page.looked_up_in(looked_up_in))
}
