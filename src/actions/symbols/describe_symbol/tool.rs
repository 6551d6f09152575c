//! The tool describe-symbol: all that the image knows about a symbol.

use super::{DescribeSymbolAnswer, DescribeSymbolRequest};
use crate::actions::missing::{LookupReply, NotFoundReply};
use crate::engine::ALLOWED;
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "describe-symbol",
        title: "Describe a symbol",
        description: "Get comprehensive information about a Lisp symbol including its type, value, documentation, \
            arglist, and source location. Uses SBCL introspection for detailed information. Use it first for any name \
            that you do not know, in place of guessing an argument order. The number after `Source:` is SBCL's: octets \
            before the top-level form and the white space in front of it; file:line:column stands below. \
            structuredContent has every facet when a symbol is several things at once.",
        effect: Effect::Reads,
    };
    Tool::new::<DescribeSymbolRequest, LookupReply<DescribeSymbolAnswer>>(about, describe).of_image()
}

fn describe(session: &Session, request: DescribeSymbolRequest, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let answer = bank.ask(&request, &call.control(ALLOWED))?;
    if answer.description.is_none() {
        let unseen = Some(answer.unseen).filter(|unseen| !unseen.is_empty());
        return NotFoundReply::new(bank, &answer.asked, answer.status, unseen).answer(CallOutcome::NotFound);
    }
    let looked_up_in = answer.looked_up_in.clone();
    Ok(ToolAnswer::new(answer.to_string(), &LookupReply::yes(answer), CallOutcome::Answered)?
        .looked_up_in(looked_up_in))
}
