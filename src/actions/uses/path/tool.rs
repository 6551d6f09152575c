//! The tool path: how one definition reaches another.

use std::fmt;

use crate::actions::missing::{LookupReply, of_error};
use crate::actions::uses::path::{PathAnswer, PathLink, PathRequest};
use crate::answer::counted;
use crate::engine::ALLOWED;
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "path",
        title: "Find the way from one definition to another",
        description: "Finds how one definition reaches another: by calls and, marked as guesses, through variables that \
            hold it (tables, hooks) and quoted names. Of the paths with the fewest guesses it gives a shortest one, each \
            step with file:line:column. Use it to see how an event gets to its handler.",
        effect: Effect::Reads,
    };
    Tool::new::<PathRequest, LookupReply<PathAnswer>>(about, path).of_image()
}

fn path(session: &Session, request: PathRequest, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let answer = match bank.ask(&request, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    let looked_up_in = answer.looked_up_in.clone();
    Ok(ToolAnswer::new(answer.to_string(), &LookupReply::yes(answer), CallOutcome::Answered)?
        .looked_up_in(looked_up_in))
}

impl fmt::Display for PathAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, steps, .. } = self;
        if steps.is_empty() {
            let definitions = counted(self.looked_at, "definition was", "definitions were");
            let functions = counted(self.without_file, "function", "functions");
            let compiled =
                format!("{functions} compiled at run time may lead there, too: where is not known");
            let end = match self.without_file {
                _ if self.truncated => "the search ended there",
                0 => "there are no others that lead to it",
                _ => &compiled,
            };
            return write!(f, "No path found from {from} to {to}: {definitions} looked at, and {end}.");
        }
        let guesses = match steps.iter().filter(|step| step.guess).count() {
            0 => String::new(),
            count => format!(", {} of them", counted(count, "guess", "guesses")),
        };
        let count = counted(steps.len() - 1, "step", "steps");
        writeln!(f, "{from} reaches {to} in {count}{guesses}:")?;
        for step in steps {
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
