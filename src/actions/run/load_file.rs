//! Implements the tool load-file, which compiles and loads one file.

use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;

use super::load_system::{ListedLoad, loaded};
use crate::LoadRequest;
use crate::actions::missing::LookupReply;
use crate::handle::recovery::LoadedItem;
use crate::tools::arguments::Timeout;
use crate::tools::{About, Call, Effect, Failure, Session, Tool, ToolAnswer};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// Path of the file, relative to the project.
    path: String,
    #[serde(flatten)]
    timeout: Timeout,
    /// List every file, with its absolute path.
    #[serde(default)]
    detail: bool,
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "load-file",
        title: "Load one file",
        description: "Compiles and loads one Lisp source file into the image, and reports the compiler's errors and \
            warnings with line and column. Use it after editing a single file of a loaded system. Runs the file's \
            code.",
        effect: Effect::Runs,
    };
    Tool::new::<Arguments, LookupReply<ListedLoad>>(about, load)
}

fn load(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let control = call.control(Duration::from_secs(given.timeout.timeout_seconds));
    let order = LoadedItem::File(given.path.clone());
    let bank = session.bank()?;
    session.recovery().note_begun(&order);
    let outcome = bank.run(&LoadRequest::file(&given.path), &control);
    loaded(session, order, outcome, given.detail)
}
