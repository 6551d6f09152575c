//! The tool restart-lisp: starts Lisp again with a clean image.

use schemars::JsonSchema;
use serde::Serialize;

use super::arguments::NoArguments;
use super::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};
use crate::steelbank::recovery::Cause;

/// That it begins.
#[derive(Debug, Serialize, JsonSchema)]
struct RestartAnswer {
    /// Always true: what cannot be begun is an error.
    restarting: bool,
}

pub(super) fn tool() -> Tool {
    let about = About {
        name: "restart-lisp",
        title: "Start Lisp again",
        description: "Starts Lisp again with a clean image, and loads again what was loaded: for definitions that should \
            be gone, a load that left things half done, a heap that is full, or a Lisp that died too often to come back by \
            itself. Calls that are running are ended. What was evaluated by hand is lost.",
        effect: Effect::Runs,
    };
    Tool::new::<NoArguments, RestartAnswer>(about, restart).brief()
}

fn restart(session: &Session, _: NoArguments, _: &Call) -> Result<ToolAnswer, Failure> {
    if !session.recovery().ask(Cause::Asked) {
        return Err(Failure::engine(
            "There is no Lisp here that stays: each command starts its own. `steelbank serve` can start its Lisp again.",
        ));
    }
    let text =
        "Lisp is being started again. Questions wait until it is there; what was loaded is loaded again.";
    ToolAnswer::new(text.to_owned(), &RestartAnswer { restarting: true }, CallOutcome::Answered)
}
