//! Implements the tool list-systems.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::actions::run::list_systems::{ListSystemsRequest, SystemsAnswer};
use crate::engine::control::ALLOWED;
use crate::tools::page::{Continued, Part, Sequence};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// Also list the Lisp files of each system.
    #[serde(default)]
    files: bool,
}

impl Sequence for SystemsAnswer {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.systems);
        part.keep(&mut self.vendored);
        part.keep(&mut self.left_out);
    }
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "list-systems",
        title: "List the project's systems",
        description: "Lists the systems that the project's .asd files define, which of them are loaded, and which \
            files changed after loading. Runs no code. Also lists nested repositories and worktrees, which \
            are not searched.",
        effect: Effect::Reads,
    };
    Tool::new::<Continued<Arguments>, SystemsAnswer>(about, systems).of_image()
}

fn systems(session: &Session, given: Continued<Arguments>, call: &Call) -> Result<ToolAnswer, Failure> {
    let request = ListSystemsRequest::new().files(given.request.files);
    let answer = session.bank()?.ask(&request, &call.control(ALLOWED))?;
    given.page(answer, call.budget(), |answer| {
        ToolAnswer::new(answer.to_string(), answer, CallOutcome::Answered)
    })
}
