//! The tool describe-symbol: all that the image knows about a symbol.

use super::arguments::NameAndPackage;
use super::missing::{MaybeFound, Missing, resolve};
use super::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};
use crate::query::control::ALLOWED;
use crate::query::describe_symbol::{DescribeSymbolAnswer, DescribeSymbolRequest};
use crate::render::text;

pub(super) fn tool() -> Tool {
    let about = About {
        name: "describe-symbol",
        title: "Describe a symbol",
        description: "Tells what a Common Lisp symbol is in the running image: function, macro, generic function, \
            special operator, variable with its value, class, type; with lambda list, documentation and the place of \
            its definition. Use it first for any name that you do not know, and in place of guessing an argument \
            order. structuredContent has every facet when a symbol is several things at once.",
        effect: Effect::Reads,
    };
    Tool::new::<NameAndPackage, MaybeFound<DescribeSymbolAnswer>>(about, describe).of_image()
}

fn describe(session: &Session, given: NameAndPackage, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let symbol = resolve(bank, given);
    let request = DescribeSymbolRequest::new(symbol.name).package(symbol.package);
    let answer = bank.describe(&request, &call.control(ALLOWED))?;
    if answer.description.is_none() {
        return Missing::new(&bank.index(), &answer.asked, answer.status, None).answer(CallOutcome::NotFound);
    }
    ToolAnswer::new(text::describe_symbol(&answer), &MaybeFound::yes(answer), CallOutcome::Answered)
}
