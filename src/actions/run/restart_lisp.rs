//! The tool restart-lisp: starts Lisp again with a clean image.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::counted;
use crate::handle::recovery::Cause;
use crate::tools::clients::Seat;
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// Also if others work in the same image, whose calls end, too.
    #[serde(default)]
    force: bool,
}

/// That it begins.
#[derive(Debug, Serialize, JsonSchema)]
struct RestartAnswer {
    /// Always true: what cannot be begun is an error.
    restarting: bool,
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "restart-lisp",
        title: "Start Lisp again",
        description: "Starts Lisp again with a clean image, and loads again what was loaded: for definitions that should \
            be gone, a load that left things half done, a heap that is full, or a Lisp that died too often to come back by \
            itself. Calls that are running are ended. What was evaluated by hand is lost.",
        effect: Effect::Runs,
    };
    Tool::new::<Arguments, RestartAnswer>(about, restart).brief()
}

fn restart(session: &Session, given: Arguments, _: &Call) -> Result<ToolAnswer, Failure> {
    let others = session.seat().map(Seat::others).unwrap_or_default();
    let mut others: Vec<String> = others.iter().map(ToString::to_string).collect();
    let editors = session.swank().map(|server| (server.connections(), server));
    if let Some((count @ 1.., server)) = editors {
        others.push(format!(
            "{} to port {} of {}",
            counted(count as u64, "editor connected", "editors connected"),
            server.port,
            server.system
        ));
    }
    if !given.force && !others.is_empty() {
        return Err(Failure::engine(format!(
            "Others work in this Lisp, too: {}. A restart ends their calls, and loses what they evaluated by hand; `force` \
             starts it again all the same.",
            others.join(", ")
        )));
    }
    if !session.recovery().ask(Cause::Asked) {
        return Err(Failure::engine(
            "There is no Lisp here that stays: each command starts its own. `steelbank serve` can start its Lisp again.",
        ));
    }
    let text =
        "Lisp is being started again. Questions wait until it is there; what was loaded is loaded again.";
    ToolAnswer::new(text.to_owned(), &RestartAnswer { restarting: true }, CallOutcome::Answered)
}
