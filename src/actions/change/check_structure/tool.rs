//! Implements the tool check-structure.

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
    /// The file, relative to the project. Alternatively give `text`.
    #[serde(default)]
    path: Option<String>,
    /// Lisp text to check instead of a file's contents.
    #[serde(default)]
    text: Option<String>,
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "check-structure",
        title: "Check parentheses",
        description: "Reports whether a Lisp file or text is balanced. If not, it locates the first form that is \
            unclosed or has an extra parenthesis, judging by indentation, and the position at which to insert or \
            delete text. Evaluates nothing. Use it when a file cannot be read, or before writing one.",
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
            match bank.project_text(path) {
                Ok((text, shown)) => check_structure(&text, Some(&shown)),
                Err(error) => return of_file(bank, error),
            }
        }
        (None, None) => {
            return Err(Failure::arguments("Give \"path\" or \"text\"."));
        }
    };
    ToolAnswer::new(answer.to_string(), &LookupReply::yes(answer), CallOutcome::Answered)
}

impl fmt::Display for StructureAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.path.as_deref().unwrap_or("The text");
        let within = self.path.as_deref().unwrap_or("the text");
        match &self.problem {
            None if self.balanced.is_none() => (),
            None => write!(f, "{what} is balanced.")?,
            Some(problem) => {
                let wrong = match problem.kind {
                    ProblemKind::Unclosed => "A list is not closed",
                    ProblemKind::ExtraClose => "Extra closing parenthesis",
                    ProblemKind::UnclosedString => "A string is not closed",
                    ProblemKind::UnclosedBar => "A | is not closed",
                    ProblemKind::UnclosedComment => "A #| comment is not closed",
                };
                let place = match &self.path {
                    Some(_) => problem.place.to_string(),
                    None => in_words(&problem.place),
                };
                write!(f, "{wrong}: {place}\n    {}\n", problem.text)?;
                write!(f, "The problem becomes visible at line {}. ", line(&problem.shows_at))?;
                let at = in_words(&problem.mend);
                match problem.insert.as_str() {
                    "" => write!(f, "Delete the parenthesis at {at}."),
                    insert => write!(f, "Insert {insert} at {at}."),
                }?;
            }
        }
        let Some(own) = &self.own_syntax else { return Ok(()) };
        let (line, form) = (line(&own.place), own.text.trim());
        match (&self.problem, self.balanced) {
            (Some(_), Some(_)) | (None, Some(false)) => Ok(()),
            (None, Some(_)) => {
                write!(
                    f,
                    "\nThis assumes standard syntax, but from line {line} on the text uses custom syntax: {form}"
                )
            }
            (None, None) => write!(
                f,
                "Cannot decide whether {within} is balanced: from line {line} on, it uses custom syntax: {form}"
            ),
            (Some(_), None) => write!(
                f,
                "\nThis may be a false alarm: from line {line} on, {within} uses custom syntax: {form}"
            ),
        }
    }
}

fn line(place: &Location) -> u32 {
    place.line.unwrap_or_default()
}

/// Formats a position without a file name.
fn in_words(place: &Location) -> String {
    format!("line {}, column {}", line(place), place.column.unwrap_or_default())
}
