//! Implements the tool edit-definition.

use std::fmt;

use crate::Control;
use crate::actions::change::edit_definition::{EditAnswer, EditError, EditOperation, EditRequest};
use crate::actions::missing::{LookupReply, NotFoundReply};
use crate::tools::phrases::sentence;
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Permission, Session, Tool, ToolAnswer};

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "edit-definition",
        title: "Edit one definition",
        description: "Replaces or deletes one top-level definition of a Lisp file, found by name and kind, or \
            inserts a new form before or after it. Preserves surrounding comments, line ends and encoding. Fails \
            without writing if the text is not exactly one readable form, if several definitions match, or if the \
            file has changed. Loads nothing; call reload afterwards.",
        effect: Effect::Writes,
    };
    Tool::new::<EditRequest, LookupReply<EditAnswer>>(about, edit).needs(Permission::Edits)
}

fn edit(session: &Session, request: EditRequest, call: &Call) -> Result<ToolAnswer, Failure> {
    if request.text.trim().is_empty() && request.operation != EditOperation::Delete {
        return Err(Failure::arguments("Give the new form in \"text\"."));
    }
    let bank = session.bank()?;
    call.begin_writing()?;
    let answer = match bank.run(&request, &Control::default()) {
        Ok(answer) => answer,
        Err(error) => {
            return match error.request() {
                Some(EditError::Missing { path }) => {
                    NotFoundReply::path(bank, path).answer(CallOutcome::NotFound)
                }
                _ => Err(error.into()),
            };
        }
    };
    ToolAnswer::new(answer.to_string(), &LookupReply::yes(answer), CallOutcome::Answered)
}

impl fmt::Display for EditAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = format!("{} {} at {}", self.operation.done(), self.definition, self.place);
        write!(f, "{}\n\n{}", sentence(&done), self.diff)?;
        self.cautions.iter().try_for_each(|caution| write!(f, "\nNote: {caution}"))
    }
}
