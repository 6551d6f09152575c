//! The tool impact: finds the code to look at when definitions change.

use std::fmt::{self, Write as _};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::actions::missing::{LookupReply, of_error};
use crate::actions::uses::impact::{Affected, ImpactAnswer, ImpactRequest};
use crate::answer::{Location, counted};
use crate::engine::ALLOWED;
use crate::tools::page::{Paged, Paging, Part, Sequence};
use crate::tools::phrases::listed;
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Starts, Tool, ToolAnswer};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    #[serde(flatten)]
    request: ImpactRequest,
    #[serde(flatten)]
    paging: Paging,
}

impl Sequence for ImpactAnswer {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.changed);
        part.keep(&mut self.calls_that_do_not_fit);
        part.keep(&mut self.made_by_macros);
        part.keep(&mut self.tests);
        part.keep(&mut self.users);
        part.keep(&mut self.subclasses);
        part.keep(&mut self.methods);
        part.keep(&mut self.recompiled);
        part.keep(&mut self.unseen.files);
    }
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "impact",
        title: "Tell what a change affects",
        description: "Tells what to check when these functions, macros, classes or files change; with diff=true, for \
            your uncommitted changes: who uses them, directly and through others; calls whose number of \
            arguments does not fit the new lambda list, whole; what changed macros define; subclasses and methods; the \
            tests that reach it; the files that are recompiled. Use it before or after an edit, in place of many \
            who-calls.",
        effect: Effect::Reads,
    };
    Tool::new::<Arguments, LookupReply<Paged<ImpactAnswer>>>(about, impact).starts(Starts::Git).of_image()
}

fn impact(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let answer = match bank.ask(&given.request, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    let (notes, total) = (notes(&answer), answer.users.len());
    given.paging.cut(Paged::new(answer, total), call.budget(), |listed, range| {
        listed.cursor = range.cursor();
        let text = lists(&listed.answer, range.offset == 0) + &notes + &range.rest();
        let answer = ToolAnswer::new(text, &LookupReply::yes(&*listed), CallOutcome::Answered)?;
        Ok(answer.looked_up_in(listed.answer.looked_up_in.clone()))
    })
}

impl fmt::Display for ImpactAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", lists(self, true), notes(self))
    }
}

fn notes(answer: &ImpactAnswer) -> String {
    let other = match answer.other_text.is_empty() {
        true => String::new(),
        false => format!("\n\nNote: {}", answer.other_text.sentence()),
    };
    answer.unseen.note() + &other
}

/// Renders the lists, or those of a page, the `first` or another.
fn lists(answer: &ImpactAnswer, first: bool) -> String {
    let heading = if answer.changed.is_empty() && first { "No definition changes." } else { "Changes:" };
    let mut text = heading.to_owned();
    for touched in &answer.changed {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {} {}", touched.kind, touched.name);
        if let Some(place) = &touched.place {
            let _ = write!(text, " {place}");
        }
        if touched.gone {
            text.push_str(" (gone)");
        }
    }
    if !answer.calls_that_do_not_fit.is_empty() {
        text.push_str("\n\nCalls that do not fit:");
        for bad in &answer.calls_that_do_not_fit {
            let _ =
                write!(text, "\n  {}: {}\n    {}", bad.place, bad.problem, bad.call.replace('\n', "\n    "));
        }
    }
    let lists: [(&str, &[Affected]); 3] = [
        ("Made by changed macros", &answer.made_by_macros),
        ("Tests that reach it", &answer.tests),
        ("Used by", &answer.users),
    ];
    for (heading, list) in lists {
        if list.is_empty() {
            continue;
        }
        let _ = write!(text, "\n\n{heading}:");
        for each in list {
            let place = each.place.as_ref().map(Location::to_string).unwrap_or_default();
            let _ = write!(text, "\n  {} {place}", each.name);
            if let Some(through) = &each.through {
                let _ = write!(text, " through {through}");
            }
        }
    }
    if answer.outside > 0 {
        let _ = write!(text, "\n\nAnd {} outside of the project.", counted(answer.outside, "user", "users"));
    }
    let names = [
        ("Subclasses", listed(&answer.subclasses)),
        ("Methods", listed(&answer.methods)),
        ("Compiled again", listed(&answer.recompiled)),
    ];
    for (heading, list) in names {
        if !list.is_empty() {
            let _ = write!(text, "\n\n{heading}: {list}");
        }
    }
    text
}
