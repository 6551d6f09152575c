//! The tool impact: finds the code to look at when definitions change.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arguments::NameAndPackage;
use super::missing::{MaybeFound, of_error, resolve};
use super::page::{PageRange, Paging, Part, Sequence, ToolReply};
use super::{About, Call, CallOutcome, Effect, Failure, Session, Starts, Tool, ToolAnswer};
use crate::answer::Location;
use crate::query::control::ALLOWED;
use crate::query::impact::{Affected, ImpactAnswer, ImpactRequest};
use crate::query::lookup::DEFAULT_PACKAGE;

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// The symbols that change: functions, macros, classes, variables.
    #[serde(default)]
    names: Vec<String>,
    /// The package to look the names up in.
    #[serde(default)]
    #[schemars(extend("default" = DEFAULT_PACKAGE))]
    package: Option<String>,
    /// Files that change, relative to the project: everything that they define.
    #[serde(default)]
    paths: Vec<String>,
    /// What has changed in the working tree since the last commit of git: tracked files, by their bytes.
    #[serde(default)]
    diff: bool,
    /// How many steps to follow those who use what changes.
    #[serde(default = "default_depth")]
    #[schemars(range(min = 1, max = 20))]
    depth: u32,
    #[serde(flatten)]
    paging: Paging,
}

fn default_depth() -> u32 {
    3
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ListedImpact {
    #[serde(flatten)]
    answer: ImpactAnswer,
    /// How many users there are in all.
    total: usize,
    /// Pass it as `cursor` to get the entries that follow; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl Sequence for ListedImpact {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.answer.changed);
        part.keep(&mut self.answer.calls_that_do_not_fit);
        part.keep(&mut self.answer.made_by_macros);
        part.keep(&mut self.answer.tests);
        part.keep(&mut self.answer.users);
        part.keep(&mut self.answer.subclasses);
        part.keep(&mut self.answer.methods);
        part.keep(&mut self.answer.recompiled);
        part.keep(&mut self.answer.unseen.files);
    }
}

pub(super) fn tool() -> Tool {
    let about = About {
        name: "impact",
        title: "Tell what a change affects",
        description: "Tells what must be looked at when functions, macros, classes or files change, or when the \
            working tree is as it is (diff=true): who uses them, directly and through others; calls whose number of \
            arguments does not fit the new lambda list, whole; what changed macros define; subclasses and methods; the \
            tests that reach it; the files that are compiled again. Use it before or after an edit, in place of many \
            who-calls.",
        effect: Effect::Reads,
    };
    Tool::paged::<Arguments, MaybeFound<ListedImpact>>(about, impact).starts(Starts::Git).of_image()
}

fn impact(session: &Session, given: Arguments, call: &Call) -> Result<ToolReply, Failure> {
    let request = ImpactRequest {
        names: given.names,
        package: given.package,
        paths: given.paths,
        diff: given.diff,
        depth: given.depth,
    };
    let bank = session.bank()?;
    let looked_up_in = request.names.iter().find_map(|name| {
        resolve(bank, NameAndPackage { name: name.clone(), package: request.package.clone() }).looked_up_in
    });
    let answer = match bank.impact(&request, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound).map(ToolReply::from),
    };
    let unseen = Some(&answer.unseen).filter(|unseen| !unseen.is_empty());
    let note = unseen.map_or_else(String::new, |unseen| format!("\n\nNote: {}", unseen.sentence()));
    let listed = ListedImpact { total: answer.users.len(), answer, cursor: None };
    given.paging.cut(listed, call.budget(), |listed, range| {
        listed.cursor = range.cursor();
        let text = text(&listed.answer, range) + &note + &range.rest();
        let answer = ToolAnswer::new(text, &MaybeFound::yes(&*listed), CallOutcome::Answered)?;
        Ok(answer.looked_up_in(looked_up_in.clone()))
    })
}

fn text(answer: &ImpactAnswer, range: &PageRange) -> String {
    let heading =
        if answer.changed.is_empty() && range.offset == 0 { "No definition changes." } else { "Changes:" };
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
            let _ = write!(
                text,
                "\n  {}{} {place}",
                "  ".repeat(each.steps.saturating_sub(1) as usize),
                each.name
            );
        }
    }
    let names = [
        ("Subclasses", &answer.subclasses),
        ("Methods", &answer.methods),
        ("Compiled again", &answer.recompiled),
    ];
    for (heading, list) in names {
        if !list.is_empty() {
            let _ = write!(text, "\n\n{heading}: {}", list.join(", "));
        }
    }
    text
}
