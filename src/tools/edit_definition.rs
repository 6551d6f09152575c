//! The tool edit-definition: edits one definition of a file.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;

use super::missing::{MaybeFound, Missing};
use super::words::sentence;
use super::{About, Call, CallOutcome, Effect, Failure, Permission, Session, Tool, ToolAnswer};
use crate::query::edit_definition::{EditAnswer, EditError, EditOperation, EditRequest};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// The file, relative to the project.
    path: String,
    /// The definition: its name, or its form's beginning: (defun area), (defun (setf area)), (defmethod area :around (square)).
    definition: String,
    /// What to do at it.
    operation: EditOperation,
    /// The new form, exactly one. Not for delete.
    #[serde(default)]
    text: String,
    /// The version of the file that an earlier answer told: refuse if it is another now.
    #[serde(default)]
    version: Option<String>,
}

pub(super) fn tool() -> Tool {
    let about = About {
        name: "edit-definition",
        title: "Edit one definition",
        description: "Replaces or deletes one top-level definition of a Lisp file, found by name and kind, or puts a new \
            form before or after it. Comments around it, line ends and encoding stay. Refused if the text is not exactly \
            one form that can be read there, if several definitions have that name, or if the file changed meanwhile; \
            then nothing is written. Nothing is loaded: call reload afterwards.",
        effect: Effect::Writes,
    };
    Tool::new::<Arguments, MaybeFound<EditAnswer>>(about, edit).needs(Permission::Edits)
}

fn edit(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    if given.text.trim().is_empty() && given.operation != EditOperation::Delete {
        return Err(Failure::arguments("edit-definition needs the argument \"text\", the new form."));
    }
    let mut request = EditRequest::new(given.path, &given.definition, given.operation, &given.text);
    request.version = given.version;
    let bank = session.bank()?;
    call.begin_writing()?;
    let answer = match bank.edit_definition(&request) {
        Ok(answer) => answer,
        Err(EditError::Missing { path }) => return Missing::path(bank, &path).answer(CallOutcome::NotFound),
        Err(EditError::NoProject(error)) => return Err(error.into()),
        Err(EditError::Refused(why)) => return Err(Failure::arguments(why)),
    };
    let done = format!("{} {} at {}", answer.operation.word(), answer.definition, answer.place);
    let mut text = format!("{}\n\n{}", sentence(&done), answer.diff);
    for caution in &answer.cautions {
        // Writing to a string cannot fail.
        let _ = write!(text, "\nNote: {caution}");
    }
    ToolAnswer::new(text, &MaybeFound::yes(answer), CallOutcome::Answered)
}
