//! The who-calls family: finds the code that uses a symbol, as the compiler recorded it.

use std::borrow::Cow;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arguments::{Detail, NameAndPackage, PageArguments};
use super::budget::{all_fit, fit, most_as_json};
use super::missing::{MaybeFound, Missing, ResolvedName, resolve};
use super::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};
use crate::query::Evidence;
use crate::query::text::Unseen;
use crate::query::who::{Elsewhere, PlaceDetail, Position, RecordedPlace, User, WhoRequest};
use crate::render::text;
use steelbank_xref::Kind;

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    #[serde(flatten)]
    symbol: NameAndPackage,
    #[serde(flatten)]
    page: PageArguments,
    #[serde(flatten)]
    detail: Detail,
}

/// The most functions on a page; further ones need no places.
const MOST: usize = 600;

/// What does it.
#[derive(Debug, Serialize, JsonSchema)]
struct ListedReferrers<'a> {
    /// The symbol as it is printed.
    symbol: String,
    /// How many functions there are, those left out included.
    count: usize,
    /// The functions.
    users: Vec<ShownReferrer<'a>>,
    /// Uses by code outside of functions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    toplevel: Vec<TopLevel>,
    /// The places in text that the image does not have as it stands.
    #[serde(skip_serializing_if = "Unseen::is_empty")]
    unseen: Unseen,
    /// What is done with the symbol as another kind of thing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    elsewhere: Vec<Elsewhere>,
    /// What the answer cannot cover.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cautions: Vec<String>,
    /// Where the list goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

/// A function and where it does it: `file:line:column`, by how sure the place is.
#[derive(Debug, Serialize, JsonSchema)]
struct ShownReferrer<'a> {
    name: Cow<'a, str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    places: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    approximate: Vec<String>,
    /// By the expansion of a macro that stands there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    via: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    detail: Vec<RecordedPlace<'a>>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct TopLevel {
    at: String,
    context: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Evidence>,
}

impl<'a> ShownReferrer<'a> {
    fn new(user: User<'a>, shown: impl Fn(&str) -> String, detail: bool) -> Self {
        let mut entry = Self {
            name: user.name,
            places: Vec::new(),
            approximate: Vec::new(),
            via: Vec::new(),
            detail: Vec::new(),
        };
        for place in &user.places {
            let Some(mut text) = place.file.as_deref().map(&shown) else { continue };
            let Some(at) = &place.position else {
                entry.approximate.push(text);
                continue;
            };
            // Writing to a string cannot fail.
            let _ = write!(text, ":{}:{}", at.line, at.column);
            match (at.evidence, &at.via) {
                (Evidence::Exact, _) => entry.places.push(text),
                (Evidence::Via, Some(operator)) => entry.via.push(format!("{text} {operator}")),
                (Evidence::Via | Evidence::Approximate, _) => entry.approximate.push(text),
            }
        }
        for places in [&mut entry.places, &mut entry.approximate, &mut entry.via] {
            places.dedup();
        }
        if detail {
            entry.detail = user.places;
        }
        entry
    }

    /// Renders the referrer as lines of the text's list of places.
    fn lines(&self, text: &mut String) {
        let named = |places: &[String]| places.iter().any(|place| place.contains(':'));
        for (places, how) in [(&self.places, ""), (&self.approximate, " (approximate)")] {
            if named(places) {
                places.iter().for_each(|place| text.extend(["\n  ", place, ": ", &self.name, how]));
            }
        }
        for place in &self.via {
            let (place, operator) = place.split_once(' ').unwrap_or((place, ""));
            text.extend(["\n  ", place, ": ", &self.name, " (via ", operator, ")"]);
        }
    }

    fn text_length(&self) -> usize {
        let mut text = String::new();
        self.lines(&mut text);
        text.len() + self.name.len() + 3
    }

    /// Returns an upper bound of the length in bytes, as text and as JSON.
    fn at_most(&self) -> usize {
        if !self.detail.is_empty() {
            return usize::MAX;
        }
        let places = [&self.places, &self.approximate, &self.via].into_iter().flatten();
        let places = places.map(|place| most_as_json(place) + self.name.len() + 22);
        most_as_json(&self.name) + 50 + places.sum::<usize>()
    }
}

fn top_level(path: &str, at: &Position, context: &str) -> TopLevel {
    TopLevel {
        at: format!("{path}:{}:{}", at.line, at.column),
        context: context.to_owned(),
        evidence: Some(at.evidence).filter(|evidence| *evidence != Evidence::Exact),
    }
}

pub(super) fn calls() -> Tool {
    tool(
        Kind::Calls,
        "who-calls",
        "Who calls a function",
        "Lists every function, method and macro whose compiled code calls the given function, as the compiler \
         recorded it; text matches, comments and strings do not count. Use it before changing a signature or a \
         behaviour, or to see how a function is used. Calls of (setf name), of compiler macros and of methods are \
         included. Each has its places, file:line:column; for the lines' text ask code-find-references. Calls by top-level code are listed below, and files that the image does not \
         have as they stand are named.",
    )
}

pub(super) fn references() -> Tool {
    tool(
        Kind::References,
        "who-references",
        "Who reads a variable",
        "Lists the code that reads the value of a special variable, global or constant. Lexical variables are not \
         recorded. For writes use who-sets, for LET bindings who-binds.",
    )
}

pub(super) fn binds() -> Tool {
    tool(
        Kind::Binds,
        "who-binds",
        "Who binds a variable",
        "Lists the code that binds a special variable dynamically (LET, LAMBDA lists, PROGV with a known symbol). \
         Use it to learn where a configuration variable gets its value for a while.",
    )
}

pub(super) fn sets() -> Tool {
    tool(
        Kind::Sets,
        "who-sets",
        "Who assigns a variable",
        "Lists the code that assigns a special or global variable (SETQ, SETF, INCF, PUSH and the like).",
    )
}

pub(super) fn macroexpands() -> Tool {
    tool(
        Kind::Macroexpands,
        "who-macroexpands",
        "Who uses a macro",
        "Lists the code in which a macro (or a compiler macro) was expanded: everything that must be compiled again \
         when the macro changes.",
    )
}

pub(super) fn specializes() -> Tool {
    tool(
        Kind::Specializes,
        "who-specializes",
        "Who specializes on a class",
        "Lists the methods that have a class, or an object under EQL, as the specializer of one of their parameters: \
         what a class can do, across all generic functions.",
    )
}

fn tool(kind: Kind, name: &'static str, title: &'static str, description: &'static str) -> Tool {
    let about = About { name, title, description, effect: Effect::Reads };
    Tool::new::<Arguments, MaybeFound<ListedReferrers<'static>>>(about, move |session, given, call| {
        who(session, kind, given, call)
    })
    .of_image()
    .at_once()
    .turns_pages()
}

fn who(session: &Session, kind: Kind, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let ResolvedName { name, package, looked_up_in } = resolve(bank, given.symbol);
    let offset = given.page.offset()?;
    let most = if call.budget() == usize::MAX { usize::MAX } else { MOST };
    let mut request = WhoRequest::new(kind, name)
        .package(package)
        .places(PlaceDetail::LinesUpTo(MOST))
        .limit(given.page.limit().min(most));
    request.offset = offset;
    let answer = bank.who(&request)?;
    let Some(subject) = &answer.symbol else {
        let note = Some(&answer.unseen).filter(|unseen| !unseen.is_empty()).map(Unseen::sentence);
        return Missing::new(&bank.index(), &answer.asked, answer.status, note).answer(CallOutcome::NotFound);
    };
    given.page.within(answer.count)?;
    let symbol = subject.text.clone();
    let shown = |file: &str| bank.project().shown(std::path::Path::new(file));
    let mut users: Vec<ShownReferrer<'_>> =
        answer.users.iter().map(|user| ShownReferrer::new(user, shown, given.detail.detail)).collect();
    let fitting = match all_fit(&users, call.budget(), ShownReferrer::at_most) {
        true => users.len(),
        false => fit(&users, call.budget(), ShownReferrer::text_length),
    };
    users.truncate(fitting);
    let next = offset.saturating_add(fitting);
    let left_out = answer.count.saturating_sub(next);
    let mut text = text::who_page(&answer, offset, fitting);
    let heading = "\n\nPlaces:\n";
    let before = text.len();
    text.push_str(heading);
    users.iter().for_each(|user| user.lines(&mut text));
    if text.len() == before + heading.len() {
        text.truncate(before);
    }
    let toplevel = answer.toplevel.iter();
    let listed = ListedReferrers {
        symbol,
        count: answer.count,
        users,
        toplevel: toplevel.map(|found| top_level(&found.path, &found.position, &found.context)).collect(),
        unseen: answer.unseen,
        elsewhere: answer.elsewhere,
        cautions: answer.cautions,
        cursor: (left_out > 0).then(|| next.to_string()),
    };
    let answer = ToolAnswer::new(text, &MaybeFound::yes(listed), CallOutcome::Answered)?;
    Ok(answer.looked_up_in(looked_up_in))
}
