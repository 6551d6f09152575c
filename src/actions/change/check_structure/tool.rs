//! The tool check-structure: finds unbalanced parentheses.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;
use steelbank_reader::structure::ProblemKind;

use crate::actions::change::check_structure::{StructureAnswer, check_structure};
use crate::actions::missing::{LookupReply, of_file};
use crate::answer::Location;
use crate::tools::page::Continued;
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// The file, relative to the project. Or give `text`.
    #[serde(default)]
    path: Option<String>,
    /// Lisp text to check in place of a file's.
    #[serde(default)]
    text: Option<String>,
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "check-structure",
        title: "Check parentheses",
        description: "Tells whether a Lisp file or text is balanced, and if not, where the first form begins that is not \
            closed or closes too much, judged by indentation, and what to insert or take out where. Reads only: nothing \
            is evaluated. Use it when a file does not read, or before writing one.",
        effect: Effect::Reads,
    };
    Tool::new::<Continued<Arguments>, LookupReply<StructureAnswer>>(about, check)
}

fn check(session: &Session, given: Continued<Arguments>, _: &Call) -> Result<ToolAnswer, Failure> {
    let given = given.on_one_page()?;
    let answer = match (&given.path, &given.text) {
        (None, Some(text)) => check_structure(text.as_bytes(), None),
        (Some(path), Some(text)) => check_structure(text.as_bytes(), Some(path)),
        (Some(path), None) => {
            let bank = session.bank()?;
            match bank.own_text(path) {
                Ok((text, shown)) => check_structure(&text, Some(&shown)),
                Err(error) => return of_file(bank, error),
            }
        }
        (None, None) => {
            return Err(Failure::arguments("check-structure needs \"path\" or \"text\"."));
        }
    };
    ToolAnswer::new(answer.to_string(), &LookupReply::yes(answer), CallOutcome::Answered)
}

impl fmt::Display for StructureAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.path.as_deref().unwrap_or("The text");
        match &self.problem {
            None if self.balanced.is_none() => (),
            None => write!(f, "{what} is balanced.")?,
            Some(problem) => {
                let wrong = match problem.kind {
                    ProblemKind::Unclosed => "A list is not closed",
                    ProblemKind::ExtraClose => "A parenthesis closes too much",
                    ProblemKind::UnclosedString => "A string is not closed",
                    ProblemKind::UnclosedBar => "A | is not closed",
                    ProblemKind::UnclosedComment => "A #| comment is not closed",
                };
                let place = match &self.path {
                    Some(_) => problem.place.to_string(),
                    None => in_words(&problem.place),
                };
                write!(f, "{wrong}: {place}\n    {}\n", problem.text)?;
                write!(f, "It shows at line {}. ", line(&problem.shows_at))?;
                let at = in_words(&problem.mend);
                match problem.insert.as_str() {
                    "" => write!(f, "Take out the parenthesis at {at}."),
                    insert => write!(f, "Insert {insert} at {at}."),
                }?;
            }
        }
        let Some(own) = &self.own_syntax else { return Ok(()) };
        let (line, form) = (line(&own.place), own.text.trim());
        match (&self.problem, self.balanced) {
            (Some(_), Some(_)) | (None, Some(false)) => Ok(()),
            (None, Some(_)) => {
                write!(f, "\nThat is so by the standard syntax; from line {line} on it has its own: {form}")
            }
            (None, None) => write!(
                f,
                "Whether {what} is balanced cannot be judged: from line {line} on it has a syntax of its own, and by the \
                 standard one it is not: {form}"
            ),
            (Some(_), None) => write!(
                f,
                "\nThat may be no fault: from line {line} on {what} has a syntax of its own, which cannot be judged: {form}"
            ),
        }
    }
}

fn line(place: &Location) -> u32 {
    place.line.unwrap_or_default()
}

/// Says where a place is in a text that may have no name.
fn in_words(place: &Location) -> String {
    format!("line {}, column {}", line(place), place.column.unwrap_or_default())
}
