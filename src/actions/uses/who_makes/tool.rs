//! The tool who-makes: lists the code that creates instances of a class.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::actions::missing::{LookupReply, of_error};
use crate::actions::uses::source_text::{Sourced, sourced};
use crate::actions::uses::who_makes::{WhoMakesAnswer, WhoMakesRequest};
use crate::engine::ALLOWED;
use crate::tools::page::{Paged, Paging, Part, Sequence};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    #[serde(flatten)]
    request: WhoMakesRequest,
    #[serde(flatten)]
    paging: Paging,
}

impl Sequence for WhoMakesAnswer {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.makers);
    }
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "who-makes",
        title: "Who makes instances of a class",
        description: "Lists the code that creates instances of a class, structure or condition, or of a subclass: \
            make-instance and similar operators with a quoted class, calls of a structure's constructors, error and signal; marked as possible, code that passes the class to \
            another function. Use it before adding a slot or an initarg. Computed classes are not found.",
        effect: Effect::Reads,
    };
    let list = |session: &Session, given: Arguments, call: &Call| {
        who_makes(session, given.request, given.paging, call)
    };
    Tool::new::<Sourced<Arguments>, LookupReply<Paged<WhoMakesAnswer>>>(about, sourced(list)).of_image()
}

/// Answers a call.
pub(crate) fn who_makes(
    session: &Session,
    request: WhoMakesRequest,
    paging: Paging,
    call: &Call,
) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let answer = match bank.ask(&request, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    let total = answer.makers.len();
    paging.cut(Paged::new(answer, total), call.budget(), |listed, range| {
        listed.cursor = range.cursor();
        let text = format!("{}{}", listed.answer, range.rest());
        let looked_up_in = listed.answer.looked_up_in.clone();
        Ok(ToolAnswer::new(text, &LookupReply::yes(&*listed), CallOutcome::Answered)?
            .looked_up_in(looked_up_in))
    })
}

impl fmt::Display for WhoMakesAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.makers.is_empty() {
            return write!(f, "No code found that makes an instance of {}", self.class);
        }
        writeln!(f, "Code that makes an instance of {}:", self.class)?;
        for maker in &self.makers {
            let context = maker.context.as_deref().unwrap_or_default();
            let by = maker.by.unless_in(context, &self.class);
            let class = maker.class.beside(&self.class);
            let class = match maker.possible {
                true => Some(format!("may make {class}: it passes the class to a function")),
                false => Some(format!("makes {class}")).filter(|_| maker.class != self.class),
            };
            let said: Vec<String> = by.into_iter().chain(class).collect();
            let parts = [maker.place.to_string(), said.join(" "), context.to_owned()];
            let parts: Vec<&str> = parts.iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
            write!(f, "\n  {}", parts.join(": "))?;
        }
        Ok(())
    }
}
