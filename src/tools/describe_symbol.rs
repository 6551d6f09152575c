//! The tool describe-symbol: all that the image knows about a symbol.

use super::arguments::{NameAndPackage, default_package};
use super::missing::{MaybeFound, Missing, resolve};
use super::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};
use crate::query::control::ALLOWED;
use crate::query::describe_symbol::{DescribeSymbolAnswer, DescribeSymbolRequest};
use crate::render::text;

pub(super) fn tool() -> Tool {
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
    Tool::new::<NameAndPackage, MaybeFound<DescribeSymbolAnswer>>(about, describe).of_image()
}

fn describe(session: &Session, given: NameAndPackage, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let symbol = resolve(bank, given);
    let request = DescribeSymbolRequest::new(symbol.name).package(symbol.package);
    let mut answer = bank.describe(&request, &call.control(ALLOWED))?;
    if symbol.looked_up_in.is_some() {
        answer.asked.package = default_package();
    }
    if answer.description.is_none() {
        return Missing::new(&bank.index(), &answer.asked, answer.status, None).answer(CallOutcome::NotFound);
    }
    let text = text::describe_symbol(&answer);
    let answer = ToolAnswer::new(text, &MaybeFound::yes(answer), CallOutcome::Answered)?;
    Ok(answer.looked_up_in(symbol.looked_up_in))
}
