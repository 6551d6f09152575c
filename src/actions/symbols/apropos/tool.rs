//! Implements the tool apropos.

use std::fmt::{self, Display};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::actions::missing::{LookupReply, NotFoundReply, of_error};
use crate::actions::symbols::apropos::{AproposAnswer, AproposRequest, Summary};
use crate::engine::ALLOWED;
use crate::tools::page::{Paged, Paging, Part, Sequence, longest_page};
use crate::tools::phrases::{listed_kinds, quoted};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    #[serde(flatten)]
    request: AproposRequest,
    #[serde(flatten)]
    paging: Paging,
}

impl Sequence for AproposAnswer {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.symbols);
    }
}

/// The number of symbols on a page by default, about as many as fit.
const DESCRIBED: usize = 200;

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "apropos",
        title: "Find symbols by a part of their name",
        description: "Searches the image for symbols with matching names. Lists each with its kinds, lambda list, \
            first line of documentation and position. Exact matches come first, SBCL's symbols last. Use it \
            when you do not know the exact name or its package.",
        effect: Effect::Reads,
    };
    Tool::new::<Arguments, LookupReply<Paged<AproposAnswer>>>(about, apropos).of_image()
}

fn apropos(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let offset = given.paging.offset()?;
    let request = AproposRequest { offset, limit: given.paging.limit_or(DESCRIBED), ..given.request };
    let bank = session.bank()?;
    let answer = match bank.ask(&request, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    given.paging.within(answer.total)?;
    let total = answer.total;
    if let Some(nothing) = answer.nothing.clone() {
        let missing = NotFoundReply::pattern(answer.to_string(), nothing);
        return missing.with_partial(Paged::new(answer, total));
    }
    longest_page(Paged::new(answer, total), (offset, total), call.budget(), |listed, range| {
        listed.cursor = range.cursor();
        let text = listed.answer.to_string() + &range.rest();
        ToolAnswer::new(text, &LookupReply::yes(&*listed), CallOutcome::Answered)
    })
}

/// Prints each symbol with its kinds, lambda list and position, and the first line of its
/// documentation.
impl Display for AproposAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(nothing) = &self.nothing {
            return write!(f, "No symbol matches {}", quoted(&nothing.pattern));
        }
        let symbols: Vec<String> = self.symbols.iter().map(Summary::to_string).collect();
        f.write_str(symbols.join("\n").trim_end())
    }
}

impl Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.name, listed_kinds(&self.kinds))?;
        self.arglist.iter().try_for_each(|arglist| write!(f, " {arglist}"))?;
        self.place.iter().try_for_each(|place| write!(f, " {place}"))?;
        self.documentation.iter().try_for_each(|line| write!(f, "\n    {line}"))
    }
}
