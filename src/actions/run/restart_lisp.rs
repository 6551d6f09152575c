//! Implements the tool restart-lisp, which restarts Lisp with a clean image.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::counted;
use crate::handle::recovery::Cause;
use crate::tools::clients::ClientSlot;
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// Restart even if other clients or editors use the same image; their running calls are ended.
    #[serde(default)]
    force: bool,
}

/// The acknowledgement of a restart.
#[derive(Debug, Serialize, JsonSchema)]
struct RestartAnswer {
    /// Always true; a restart that cannot begin is an error.
    restarting: bool,
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "restart-lisp",
        title: "Restart Lisp",
        description: "Restarts Lisp with a clean image and reloads the systems and files that were loaded. Use it to \
            drop stale definitions, after a load that failed halfway, when the heap is full, or when Lisp crashed \
            too often to restart by itself. Ends running calls; definitions that were only evaluated are lost.",
        effect: Effect::Runs,
    };
    Tool::new::<Arguments, RestartAnswer>(about, restart).brief()
}

fn restart(session: &Session, given: Arguments, _: &Call) -> Result<ToolAnswer, Failure> {
    let others = session.client_slot().map(ClientSlot::others).unwrap_or_default();
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
            "Other clients use this Lisp: {}. A restart ends their calls and loses what they evaluated. Pass `force` \
                to restart anyway.",
            others.join(", ")
        )));
    }
    if !session.recovery().ask(Cause::Requested) {
        return Err(Failure::engine(
            "This command runs its own short-lived Lisp, so there is nothing to restart. `steelbank serve` has a \
                Lisp that can be restarted.",
        ));
    }
    let text = "Lisp is restarting. Calls wait until it is ready. Loaded systems and files are reloaded.";
    ToolAnswer::new(text.to_owned(), &RestartAnswer { restarting: true }, CallOutcome::Answered)
}
