//! The tool impact: finds the code to look at when definitions change.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arguments::NameAndPackage;
use super::missing::{MaybeFound, of_error, resolve};
use super::page::{Page, Paging};
use super::{About, Call, CallOutcome, Effect, Failure, Session, Starts, Tool, ToolAnswer};
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

#[derive(Debug, Serialize, JsonSchema)]
struct ListedImpact {
    #[serde(flatten)]
    answer: ImpactAnswer,
    /// The pages of `users`.
    #[serde(flatten)]
    page: Page,
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
    Tool::new::<Arguments, MaybeFound<ListedImpact>>(about, impact).starts(Starts::Git).of_image()
}

fn impact(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
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
    let mut answer = match bank.impact(&request, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    let (users, mut page) = given.paging.cut(std::mem::take(&mut answer.users))?;
    answer.users = users;
    // Halve the users until the other lists fit too.
    while serde_json::to_string(&answer).is_ok_and(|text| text.len() > super::page::MOST)
        && answer.users.len() > 1
    {
        answer.users.truncate(answer.users.len() / 2);
        page.cursor = Some((given.paging.offset()? + answer.users.len()).to_string());
    }
    let text = text(&answer, &page);
    let answer =
        ToolAnswer::new(text, &MaybeFound::yes(ListedImpact { answer, page }), CallOutcome::Answered)?;
    Ok(answer.looked_up_in(looked_up_in))
}

fn text(answer: &ImpactAnswer, page: &Page) -> String {
    let heading = if answer.changed.is_empty() { "No definition changes." } else { "Changes:" };
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
            let place = each.place.as_deref().unwrap_or_default();
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
    if !answer.unseen.is_empty() {
        let _ = write!(text, "\n\nNote: {}", answer.unseen.sentence());
    }
    text.push_str(&page.rest(answer.users.len()));
    text
}
