//! The tool list-systems: lists the project's systems and whether they are loaded.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};
use crate::query::control::ALLOWED;
use crate::query::list_systems::SystemsAnswer;
use crate::render::project as text;

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// Also list the Lisp files of each system.
    #[serde(default)]
    files: bool,
}

pub(super) fn tool() -> Tool {
    let about = About {
        name: "list-systems",
        title: "List the project's systems",
        description: "Lists the systems that the project's .asd files define (read, not run), secondary ones and tests \
            included, which of them are loaded, and which files have changed on disk since they were loaded. Tells which \
            other repositories and worktrees in the folder are no part of the project.",
        effect: Effect::Reads,
    };
    Tool::new::<Arguments, SystemsAnswer>(about, systems).of_image()
}

fn systems(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let (bank, control) = (session.bank()?, call.control(ALLOWED));
    let answer = match given.files {
        true => bank.list_systems_with_files(&control)?,
        false => bank.list_systems(&control)?,
    };
    ToolAnswer::new(text::systems(&answer), &answer, CallOutcome::Answered)
}
