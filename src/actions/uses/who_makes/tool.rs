//! The tool who-makes: the code that makes instances of a class.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::actions::missing::{LookupReply, of_error};
use crate::actions::uses::who_makes::{WhoMakesAnswer, WhoMakesRequest};
use crate::engine::ALLOWED;
use crate::tools::page::{PageRange, Paged, Paging, Part, Sequence, ToolReply};
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
        description: "Lists the code that makes instances of a class, structure or condition, or of one below it: \
            make-instance and its kin with the class quoted, calls of a structure's constructors, error and signal; and, as possible, what gives the class to \
            another function. Use it before adding a slot or an initarg. A class that is computed is not seen.",
        effect: Effect::Reads,
    };
    Tool::paged::<Arguments, LookupReply<Paged<WhoMakesAnswer>>>(about, who).of_image()
}

fn who(session: &Session, given: Arguments, call: &Call) -> Result<ToolReply, Failure> {
    let bank = session.bank()?;
    let answer = match bank.ask(&given.request, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound).map(ToolReply::from),
    };
    let total = answer.makers.len();
    given.paging.cut(Paged::new(answer, total), call.budget(), |listed, range| {
        listed.cursor = range.cursor();
        let text = text(&listed.answer, listed.total, range);
        let looked_up_in = listed.answer.looked_up_in.clone();
        Ok(ToolAnswer::new(text, &LookupReply::yes(&*listed), CallOutcome::Answered)?
            .looked_up_in(looked_up_in))
    })
}

fn text(answer: &WhoMakesAnswer, total: usize, range: &PageRange) -> String {
    if total == 0 {
        return format!("No code found that makes an instance of {}", answer.class);
    }
    let mut text = format!("Code that makes an instance of {}:\n", answer.class);
    for maker in &answer.makers {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {}: {}", maker.place, maker.by);
        if maker.possible {
            let _ = write!(text, " may make {}: it gives the class to a function", maker.class);
        } else if maker.class != answer.class {
            let _ = write!(text, " makes {}", maker.class);
        }
        if let Some(context) = &maker.context {
            let _ = write!(text, "\n      {context}");
        }
    }
    text + &range.rest()
}
