//! The tool path: renders the path from one definition to another.

use std::fmt;

use crate::actions::missing::{LookupReply, of_error};
use crate::actions::uses::path::{PathAnswer, PathLink, PathRequest, PathStep};
use crate::answer::counted;
use crate::engine::ALLOWED;
use crate::tools::page::{Continued, Part, Sequence};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

impl Sequence for PathAnswer {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.steps);
    }
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "path",
        title: "Find a call path between two definitions",
        description: "Finds a path from one definition to another: by calls and, marked as guesses, through variables \
            that hold it (tables, hooks) and quoted names. Returns the shortest path among those with the \
            fewest guesses. Use it to see how an event reaches its handler.",
        effect: Effect::Reads,
    };
    Tool::new::<Continued<PathRequest>, LookupReply<PathAnswer>>(about, path).of_image()
}

fn path(session: &Session, given: Continued<PathRequest>, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let answer = match bank.ask(&given.request, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    let (heading, looked_up_in) = (heading(&answer), answer.looked_up_in.clone());
    let page = given.page(answer, call.budget(), |answer| {
        let text = format!("{heading}{}", Steps(&answer.steps));
        ToolAnswer::new(text, &LookupReply::yes(answer), CallOutcome::Answered)
    })?;
    Ok(page.looked_up_in(looked_up_in))
}

impl fmt::Display for PathAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", heading(self), Steps(&self.steps))
    }
}

/// Renders the sentence that a path was found or not.
fn heading(answer: &PathAnswer) -> String {
    let PathAnswer { from, to, steps, .. } = answer;
    if steps.is_empty() {
        let definitions = counted(answer.looked_at, "definition was", "definitions were");
        let functions = counted(answer.without_file, "function", "functions");
        let compiled = format!("{functions} compiled at run time without a file may lead there");
        let end = match answer.without_file {
            _ if answer.truncated => "the search stopped at this limit",
            0 => "no others lead to it",
            _ => &compiled,
        };
        return format!("No path found from {from} to {to}: {definitions} searched, and {end}.");
    }
    let guesses = match steps.iter().filter(|step| step.guess).count() {
        0 => String::new(),
        count => format!(", {} of them", counted(count, "guess", "guesses")),
    };
    let count = counted(steps.len() - 1, "step", "steps");
    format!("{from} reaches {to} in {count}{guesses}:\n")
}

/// Renders one line for each step.
struct Steps<'a>(&'a [PathStep]);

impl fmt::Display for Steps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for step in self.0 {
            write!(f, "\n  {}", step.name)?;
            match (&step.place, step.does) {
                (Some(place), Some(PathLink::Holds)) => write!(f, " {place}: may hold")?,
                (Some(place), Some(does)) => write!(f, " {place}: {does}")?,
                _ => (),
            }
            if step.guess {
                f.write_str(" (a guess)")?;
            }
        }
        Ok(())
    }
}
