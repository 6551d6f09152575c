//! Implements the tool index_project.

use std::fmt;

use crate::actions::text::find_references::tool::controlled;
use crate::actions::text::index_project::{IndexProjectRequest, Indexed, index_project};
use crate::answer::counted;
use crate::handle::Error;
use crate::tools::page::Continued;
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "index_project",
        title: "Index the project's text",
        description: "Builds or updates the index of find_references, in the user's cache folder. Rarely needed, \
            because queries update it. Call it if an error reports \"Index not found\" or \"stale\".",
        effect: Effect::Reads,
    };
    Tool::new::<Continued<IndexProjectRequest>, Indexed>(about, index)
}

fn index(
    session: &Session,
    given: Continued<IndexProjectRequest>,
    call: &Call,
) -> Result<ToolAnswer, Failure> {
    let request = given.on_one_page()?;
    let index = session.text()?;
    let indexed = controlled(call, |control| index_project(index, &request, control)).map_err(Error::from)?;
    ToolAnswer::json(&indexed, indexed.to_string(), CallOutcome::Answered)
}

/// Prints the number of files and the size of the index, then skipped files and failures.
impl fmt::Display for Indexed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} indexed, {} new or changed, {} skipped, in {} ms; index of {:.1} MB for {:.1} MB of text",
            counted(self.files_indexed, "file", "files"),
            self.files_updated,
            self.files_skipped,
            self.duration_ms,
            self.index_bytes as f64 / 1e6,
            self.text_bytes as f64 / 1e6,
        )?;
        for file in &self.skipped_files {
            write!(f, "\n  skipped: {} ({})", file.path, file.reason.name())?;
        }
        self.failures.iter().try_for_each(|failure| write!(f, "\n  not listed: {failure}"))
    }
}
