//! Implements the tool disassemble.

use std::fmt;

use super::{DisassembleRequest, Disassembly, FunctionCode};
use crate::actions::missing::{LookupReply, of_error};
use crate::engine::ALLOWED;
use crate::tools::page::{Continued, Part, Sequence};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

impl Sequence for Disassembly {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.functions);
        part.keep(&mut self.lines);
    }
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "disassemble",
        title: "Disassemble a function",
        description: "Lists the machine code of a function, macro, setf function or compiler macro, or of all \
            methods of a generic function, as SBCL disassembles it, with code size and number of instructions.",
        effect: Effect::Reads,
    };
    Tool::new::<Continued<DisassembleRequest>, LookupReply<Disassembly>>(about, disassemble).of_image()
}

fn disassemble(
    session: &Session,
    given: Continued<DisassembleRequest>,
    call: &Call,
) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let answer = match bank.ask(&given.request, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    if answer.functions.is_empty() {
        let text = answer.to_string();
        let nothing = LookupReply { found: false, answer: Some(answer), missing: None };
        return ToolAnswer::new(text, &nothing, CallOutcome::NotFound);
    }
    let looked_up_in = answer.looked_up_in.clone();
    let page = given.page(answer, call.budget(), |answer| {
        ToolAnswer::new(code(answer), &LookupReply::yes(answer), CallOutcome::Answered)
    })?;
    Ok(page.looked_up_in(looked_up_in))
}

/// Prints the size of each function, followed by the code.
impl fmt::Display for Disassembly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.functions.is_empty() {
            return write!(f, "{} names no function.", self.symbol);
        }
        f.write_str(&code(self))
    }
}

fn code(answer: &Disassembly) -> String {
    let figures = answer.functions.iter().map(|FunctionCode { name, instructions, bytes }| {
        format!("{name}: {instructions} instructions, {bytes} bytes\n")
    });
    figures.collect::<String>() + "\n" + &answer.lines.join("\n")
}
