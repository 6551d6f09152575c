//! The tool compiler-notes: the compiler's diagnostics for one definition.

use std::fmt::Write as _;

use super::{CompilerNotes, CompilerNotesRequest};
use crate::actions::missing::{LookupReply, of_error};
use crate::engine::ALLOWED;
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "compiler-notes",
        title: "Tell what the compiler says of a definition",
        description: "Compiles one definition of a loaded file once more, without replacing it, and lists SBCL's optimisation \
            notes and warnings by line: what it could not optimise, and why. Runs the macros that it uses.",
        effect: Effect::Runs,
    };
    Tool::new::<CompilerNotesRequest, LookupReply<CompilerNotes>>(about, notes).of_image()
}

fn notes(session: &Session, request: CompilerNotesRequest, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let answer = match bank.ask(&request, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    let found = !answer.definitions.is_empty();
    let outcome = if found { CallOutcome::Answered } else { CallOutcome::NotFound };
    let (text, looked_up_in) = (text(&answer), answer.looked_up_in.clone());
    let answer = ToolAnswer::new(text, &LookupReply { found, answer: Some(answer), missing: None }, outcome)?;
    Ok(answer.looked_up_in(looked_up_in))
}

fn text(answer: &CompilerNotes) -> String {
    if answer.definitions.is_empty() {
        return format!("{} is no function or macro that was loaded from a file.", answer.symbol);
    }
    let mut text = String::new();
    for definition in &answer.definitions {
        let skipped =
            definition.skipped.as_deref().map(|why| format!(" (not compiled: {why})")).unwrap_or_default();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}: {} {}{skipped}", definition.place, definition.kind, definition.name);
    }
    if answer.notes.is_empty() && answer.definitions.iter().any(|definition| definition.skipped.is_none()) {
        text.push_str("\nThe compiler says nothing.");
    }
    for note in &answer.notes {
        let _ =
            write!(text, "\n  {}: {}: {}", note.place, note.severity, note.message.replace('\n', "\n      "));
    }
    text
}
