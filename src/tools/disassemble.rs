//! The tool disassemble: the machine code of a function.

use super::arguments::NameAndPackage;
use super::missing::{MaybeFound, of_error, resolve};
use super::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};
use crate::query::control::ALLOWED;
use crate::query::disassemble::{DisassembleRequest, Disassembly};

pub(super) fn tool() -> Tool {
    let about = About {
        name: "disassemble",
        title: "Disassemble a function",
        description: "Shows the machine code of a function, macro, setf function, compiler macro, or of the methods of a \
            generic function, as SBCL disassembles it, with size and number of instructions.",
        effect: Effect::Reads,
    };
    Tool::new::<NameAndPackage, MaybeFound<Disassembly>>(about, disassemble).of_image()
}

fn disassemble(session: &Session, given: NameAndPackage, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let symbol = resolve(bank, given);
    let request = DisassembleRequest { name: symbol.name, package: symbol.package };
    let answer = match bank.disassemble(&request, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    if answer.functions.is_empty() {
        let text = format!("{} names no function.", answer.symbol);
        let nothing = MaybeFound { found: false, answer: Some(answer), missing: None };
        return ToolAnswer::new(text, &nothing, CallOutcome::NotFound);
    }
    let heading = answer.functions.iter().map(|function| {
        format!("{}: {} instructions, {} bytes", function.name, function.instructions, function.bytes)
    });
    let text = format!("{}\n\n{}", heading.collect::<Vec<_>>().join("\n"), answer.lines.join("\n"));
    let answer = ToolAnswer::new(text, &MaybeFound::yes(answer), CallOutcome::Answered)?;
    Ok(answer.looked_up_in(symbol.looked_up_in))
}
