//! Implements the tool compiler-notes.

use std::fmt;

use super::{CompilerNote, CompilerNotes, CompilerNotesRequest, NotedDefinition};
use crate::actions::missing::{LookupReply, of_error};
use crate::engine::ALLOWED;
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "compiler-notes",
        title: "List the compiler's notes on a definition",
        description: "Recompiles one definition of a loaded file without replacing it, and lists SBCL's optimization \
            notes and warnings by line: what it could not optimize, and why. Runs the macros that the definition \
            uses.",
        effect: Effect::Runs,
    };
    Tool::new::<CompilerNotesRequest, LookupReply<CompilerNotes>>(about, notes).of_image().joins_loads()
}

fn notes(session: &Session, request: CompilerNotesRequest, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let answer = match bank.ask(&request, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    let found = !answer.definitions.is_empty();
    let outcome = if found { CallOutcome::Answered } else { CallOutcome::NotFound };
    let (text, looked_up_in) = (answer.to_string(), answer.looked_up_in.clone());
    let answer = ToolAnswer::new(text, &LookupReply { found, answer: Some(answer), missing: None }, outcome)?;
    Ok(answer.looked_up_in(looked_up_in))
}

/// Lists the definitions, with the reason for each definition that was not compiled, then the
/// compiler's notes.
impl fmt::Display for CompilerNotes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.definitions.is_empty() {
            return write!(f, "{} is not a function or macro loaded from a file.", self.symbol);
        }
        for NotedDefinition { name, kind, place, skipped } in &self.definitions {
            let skipped = skipped.as_deref().map(|why| format!(" (not compiled: {why})")).unwrap_or_default();
            writeln!(f, "{place}: {kind} {name}{skipped}")?;
        }
        if self.notes.is_empty() && self.definitions.iter().any(|definition| definition.skipped.is_none()) {
            f.write_str("\nThe compiler has no notes.")?;
        }
        self.notes.iter().try_for_each(|CompilerNote { place, severity, message }| {
            write!(f, "\n  {place}: {severity}: {}", message.replace('\n', "\n      "))
        })
    }
}
