//! Implements the tool check_index_status.

use super::find_references::tool::controlled;
use crate::actions::text::index_project::{IndexStatus, check_index_status};
use crate::handle::Error;
use crate::tools::arguments::NoArguments;
use crate::tools::page::Continued;
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "check_index_status",
        title: "Check the text index",
        description: "Reports whether the text index of the project is fresh, stale or missing, and how many files \
            changed after it was built. Changes nothing.",
        effect: Effect::Reads,
    };
    Tool::new::<Continued<NoArguments>, IndexStatus>(about, status)
}

fn status(session: &Session, given: Continued<NoArguments>, call: &Call) -> Result<ToolAnswer, Failure> {
    given.on_one_page()?;
    let index = session.text()?;
    let status = controlled(call, |control| check_index_status(index, control)).map_err(Error::from)?;
    ToolAnswer::json(&status, status.to_string(), CallOutcome::Answered)
}

impl std::fmt::Display for IndexStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.status.name())?;
        self.reason.iter().try_for_each(|reason| write!(f, ": {reason}"))
    }
}
