//! The who-calls family: finds the code that uses a symbol, as the compiler recorded it.

use crate::engine::Control;
use std::fmt::Write as _;
use std::rc::Rc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::missing::{LookupReply, of_error};
use crate::actions::uses::unseen::Unseen;
use crate::actions::uses::who::{
    CalledName, Elsewhere, PlaceDetail, RecordedPlace, Referrer, TopLevelUse, WhoRequest, text,
};
use crate::answer::designator::elements;
use crate::answer::lookup::NamedSymbol;
use crate::answer::{Caution, LispName, counted};
use crate::source::positions::Evidence;
use crate::tools::arguments::Detail;
use crate::tools::budget::fits;
use crate::tools::page::{PageRange, Paging, Part, Sequence, longest_page};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};
use steelbank_xref::Kind;

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    #[serde(flatten)]
    symbol: NamedSymbol,
    #[serde(flatten)]
    page: Paging,
    #[serde(flatten)]
    detail: Detail,
}

/// The most functions of an answer that have places; further ones are on other pages.
const LOCATED: usize = 600;

/// The fewest characters of an entry that is but a name.
const LEAST_NAME: usize = 15;

/// What does it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ListedReferrers<'a> {
    /// The symbol.
    symbol: LispName,
    /// How many functions there are, those left out included.
    count: usize,
    /// The functions.
    users: Vec<Rc<ShownReferrer<'a>>>,
    /// Uses by code outside of functions: they follow the functions, on the same pages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    toplevel: Vec<TopLevel>,
    /// How many such uses there are, if some are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    toplevel_count: Option<usize>,
    /// The places in text that the image does not have as it stands.
    #[serde(skip_serializing_if = "Unseen::is_empty")]
    unseen: Unseen,
    /// What is done with the symbol as another kind of thing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    elsewhere: Vec<Elsewhere>,
    /// What the answer cannot cover.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    cautions: Vec<Caution>,
    /// Where the list goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    /// From where on functions are here without their places: pass it as `cursor` to have them with their places.
    #[serde(skip_serializing_if = "Option::is_none")]
    places_cursor: Option<String>,
    #[serde(skip)]
    kind: Kind,
    /// What stands below the lists of the text.
    #[serde(skip)]
    notes: String,
    /// How many uses at top level there are in all.
    #[serde(skip)]
    toplevel_total: usize,
    /// How many entries there are in all.
    #[serde(skip)]
    total: usize,
    /// How many functions may have places.
    #[serde(skip)]
    located: usize,
    /// Whether all functions may be listed without their places.
    #[serde(skip)]
    may_be_bare: bool,
    /// Whether all functions are listed, and places alone are cut.
    #[serde(skip)]
    names_first: bool,
}

/// A function and where it does it: `file:line:column`, by how sure the place is.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ShownReferrer<'a> {
    name: LispName,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    places: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    approximate: Vec<String>,
    /// By the expansion of a macro that stands there.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    via: Vec<String>,
    /// Whether it uses `(SETF name)`, alone or too.
    #[serde(skip_serializing_if = "Option::is_none")]
    setf: Option<SetfUse>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    detail: Vec<RecordedPlace<'a>>,
    /// Its lines in the text's list of places.
    #[serde(skip)]
    lines: String,
}

/// How a function uses `(SETF F)`, where F was asked for.
#[derive(Debug, Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum SetfUse {
    /// It does not use F.
    Only,
    /// It uses F, too.
    Too,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct TopLevel {
    at: String,
    context: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Evidence>,
}

impl Sequence for ListedReferrers<'_> {
    fn lists(&mut self, part: &mut Part) {
        if self.names_first {
            let located = part.take(self.users.len());
            self.users.iter_mut().skip(located.end).for_each(|user| *user = Rc::new(user.without_places()));
        } else {
            part.keep(&mut self.users);
        }
        part.keep(&mut self.toplevel);
        part.keep(&mut self.unseen.files);
    }

    fn min_entries(&mut self, budget: usize) -> usize {
        if self.may_be_bare {
            let mut names = Self { names_first: true, ..self.clone() };
            names.lists(&mut Part::new(0, 0));
            let names = page(&mut names, &PageRange { offset: 0, count: 0, total: self.total });
            self.names_first = names.is_ok_and(|names| fits(&names, budget));
        }
        usize::from(!self.names_first)
    }
}

/// Whether the class is among the specializers of the method: `(METHOD P::F (P::ITEM (EQL P::X)))` has P::ITEM.
fn is_specialized_on(method: &str, class: &str) -> bool {
    let specializers = elements(method).and_then(|parts| elements(parts.last()?));
    specializers.is_none_or(|specializers| specializers.contains(&class))
}

impl<'a> ShownReferrer<'a> {
    fn new(
        user: Referrer<'a>,
        (kind, symbol): (Kind, &LispName),
        shown: impl Fn(&str) -> String,
        detail: bool,
    ) -> Self {
        let by_eql =
            kind == Kind::Specializes && !is_specialized_on(user.name.canonical(), symbol.canonical());
        let mut entry = Self {
            name: user.name,
            places: Vec::new(),
            approximate: Vec::new(),
            via: Vec::new(),
            setf: None,
            detail: Vec::new(),
            lines: String::new(),
        };
        let called = |called| user.places.iter().any(|place| place.called == called);
        entry.setf = match (called(CalledName::Setf), called(CalledName::Both), called(CalledName::Itself)) {
            (false, false, _) => None,
            (true, false, false) => Some(SetfUse::Only),
            _ => Some(SetfUse::Too),
        };
        // The places of a file, by what the text says about them.
        let mut lines: Vec<(String, String, Vec<String>)> = Vec::new();
        for place in &user.places {
            let mut how = match place.called {
                CalledName::Itself => String::new(),
                CalledName::Setf => format!(" uses (setf {symbol})"),
                CalledName::Both => format!(" uses {symbol} and (setf {symbol})"),
            };
            if by_eql {
                how.push_str(" (by an eql specializer)");
            }
            let Some(at) = &place.position else {
                entry.approximate.extend(place.file.as_deref().map(&shown));
                continue;
            };
            let (file, text) = (&at.place.file, at.place.to_string());
            let line = at.place.in_file();
            match (at.evidence, &at.via) {
                (Evidence::Exact, _) => entry.places.push(text),
                (Evidence::Via, Some(operator)) => {
                    how.extend([" (via ", operator, ")"]);
                    entry.via.push(format!("{text} {operator}"));
                }
                (Evidence::Via | Evidence::Approximate, _) => {
                    how.push_str(" (approximate)");
                    entry.approximate.push(text);
                }
            }
            // Of a form that its file does not have any more, the file is all that is known.
            let line = Some(line).filter(|line| !line.is_empty());
            match lines.iter_mut().find(|(of, said, _)| of == file && *said == how) {
                Some((.., places)) => places.extend(line.filter(|line| !places.contains(line))),
                None => lines.push((file.clone(), how, line.into_iter().collect())),
            }
        }
        for (file, how, places) in lines {
            let mut places = places.iter();
            entry.lines.extend(["\n  ", &file]);
            if let Some(first) = places.next() {
                entry.lines.extend([":", first]);
            }
            entry.lines.extend([": ", entry.name.as_str(), &how]);
            let others: Vec<&str> = places.map(String::as_str).collect();
            if !others.is_empty() {
                entry.lines.extend([", also at ", &others.join(", ")]);
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

    fn without_places(&self) -> Self {
        Self {
            name: self.name.clone(),
            setf: self.setf,
            places: Vec::new(),
            approximate: Vec::new(),
            via: Vec::new(),
            detail: Vec::new(),
            lines: String::new(),
        }
    }
}

impl From<&TopLevelUse> for TopLevel {
    fn from(found: &TopLevelUse) -> Self {
        Self {
            at: found.position.place.to_string(),
            context: found.context.clone(),
            evidence: Some(found.position.evidence).filter(|evidence| *evidence != Evidence::Exact),
        }
    }
}

pub(crate) fn calls() -> Tool {
    tool(
        Kind::Calls,
        "who-calls",
        "Who calls a function",
        "Lists every function, method and macro whose compiled code calls the given function, as the compiler \
         recorded it; text matches, comments and strings do not count. Use it before changing a signature or a \
         behaviour, or to see how a function is used. Calls of (setf name), marked `setf`, of compiler macros and of \
         methods are included. Sorted by PACKAGE::NAME as printed, a name that is a list by the symbol in it. Each has \
         its places, file:line:column, as far as they fit beside all names: `places_cursor` leads to the others. \
         code-find-references also gives the source line. Calls by top-level code follow, and files that changed \
         since they were loaded are listed.",
    )
}

pub(crate) fn references() -> Tool {
    tool(
        Kind::References,
        "who-references",
        "Who reads a variable",
        "Lists the code that reads the value of a special variable, global or constant, sorted as who-calls does. \
         Lexical variables are not recorded. For writes use who-sets, for LET bindings who-binds.",
    )
}

pub(crate) fn binds() -> Tool {
    tool(
        Kind::Binds,
        "who-binds",
        "Who binds a variable",
        "Lists the code that binds a special variable dynamically (LET, LAMBDA lists, PROGV with a known symbol). \
         Use it to learn where a configuration variable gets its value for a while.",
    )
}

pub(crate) fn sets() -> Tool {
    tool(
        Kind::Sets,
        "who-sets",
        "Who assigns a variable",
        "Lists the code that assigns a special or global variable (SETQ, SETF, INCF, PUSH and the like).",
    )
}

pub(crate) fn macroexpands() -> Tool {
    tool(
        Kind::Macroexpands,
        "who-macroexpands",
        "Who uses a macro",
        "Lists every use of a macro (or a compiler macro): all that must be recompiled when it changes.",
    )
}

pub(crate) fn specializes() -> Tool {
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
    Tool::new::<Arguments, LookupReply<ListedReferrers<'static>>>(about, move |session, given, call| {
        who(session, kind, given, call)
    })
    .of_image()
    .immediate()
}

fn who(session: &Session, kind: Kind, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let offset = given.page.offset()?;
    let limit = given.page.limit();
    let limited = call.budget() != usize::MAX;
    let located = if limited { LOCATED } else { usize::MAX };
    let most = if given.page.continues() { located } else { call.budget() / LEAST_NAME };
    let request = WhoRequest {
        kind,
        symbol: given.symbol,
        places: PlaceDetail::LinesUpTo(located),
        limit: limit.min(most),
        offset,
    };
    let answer = bank.ask(&request, &Control::default())?;
    let Some(subject) = &answer.symbol else {
        let missing = answer.unseen.not_found(&answer.asked, answer.status);
        return of_error(bank, missing.into(), CallOutcome::NotFound);
    };
    let (symbol, looked_up_in) = (subject.text.clone(), answer.looked_up_in.clone());
    let shown = |file: &str| bank.project().shown(std::path::Path::new(file));
    let users = answer
        .users
        .iter()
        .map(|user| Rc::new(ShownReferrer::new(user, (kind, &symbol), shown, given.detail.detail)));
    // Not all names fit: make no more entries than may have places, of which a page has fewer.
    let all = !limited || answer.count == answer.users.len();
    let mut listed = ListedReferrers {
        count: answer.count,
        users: users.take(if all { usize::MAX } else { located }).collect(),
        toplevel: answer.toplevel.iter().map(TopLevel::from).collect(),
        toplevel_count: None,
        notes: text::notes(&answer.unseen, &answer.cautions),
        unseen: answer.unseen,
        elsewhere: answer.elsewhere,
        cautions: answer.cautions,
        cursor: None,
        places_cursor: None,
        kind,
        toplevel_total: answer.toplevel.len(),
        total: 0,
        located,
        may_be_bare: limited && !given.page.continues() && all,
        names_first: false,
        symbol: symbol.clone(),
    };
    listed.total = listed.count + listed.toplevel_total + listed.unseen.files.len();
    given.page.within(listed.total)?;
    // Let what follows the functions begin behind the last of them.
    let users = listed.users.len();
    let behind = match offset.min(listed.count) + users == listed.count {
        true => limit.saturating_sub(users),
        false => 0,
    };
    let mut part = Part::new(offset.saturating_sub(listed.count), behind);
    part.keep(&mut listed.toplevel);
    part.keep(&mut listed.unseen.files);
    listed.users.iter_mut().skip(located).for_each(|user| *user = Rc::new(user.without_places()));
    let total = listed.total;
    longest_page(listed, (offset, total), call.budget(), |listed, range| {
        Ok(page(listed, range)?.looked_up_in(looked_up_in.clone()))
    })
}

/// Renders a page.
fn page(listed: &mut ListedReferrers<'_>, range: &PageRange) -> Result<ToolAnswer, Failure> {
    let users = listed.users.len();
    let with_places = if listed.names_first { range.count.min(users) } else { users };
    let located = with_places.min(listed.located);
    let without_places = users - located;
    let whole = PageRange { count: range.count.max(users), ..*range };
    listed.places_cursor = (without_places > 0).then(|| located.to_string());
    listed.cursor = whole.cursor();
    listed.toplevel_count = Some(listed.toplevel_total).filter(|count| *count > listed.toplevel.len());
    let text = text(listed, &whole, without_places);
    ToolAnswer::new(text, &LookupReply::yes(&*listed), CallOutcome::Answered)
}

fn text(listed: &ListedReferrers<'_>, range: &PageRange, without_places: usize) -> String {
    let symbol = &listed.symbol;
    if listed.count == 0 && listed.toplevel_total == 0 {
        return text::nobody(listed.kind, symbol, &listed.elsewhere) + &listed.notes;
    }
    let names = listed.users.iter().map(|user| text::shown(listed.kind, &user.name));
    let toplevel = listed.toplevel.iter().map(|found| format!("{}: {}", found.at, found.context));
    let mut text = text::who_list(listed.kind, symbol, names);
    let next = range.end();
    text::left_out(&mut text, listed.count.saturating_sub(next), listed.count, Some(next));
    text::at_top_level(&mut text, listed.count > 0, toplevel);
    let shown = next.saturating_sub(listed.count).min(listed.toplevel_total);
    if next >= listed.count {
        let of = format!("{} at top level", counted(listed.toplevel_total, "use", "uses"));
        text::left_out(&mut text, listed.toplevel_total - shown, of, Some(next));
    }
    text.push_str(&listed.notes);
    let heading = "\n\nPlaces:\n";
    let before = text.len();
    text.push_str(heading);
    listed.users.iter().for_each(|user| text.push_str(&user.lines));
    if text.len() == before + heading.len() {
        text.truncate(before);
    }
    if let Some(cursor) = &listed.places_cursor {
        let many = counted(without_places, "function", "functions");
        let _ = write!(text, "\n\nThe places of {many} are left out here: cursor {cursor} has them.");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_told_from_what_its_name_stands_in() {
        for (method, expected) in [
            ("(METHOD P::F (P::ITEM COMMON-LISP::T))", true),
            ("(METHOD P::ITEM-PRICE (COMMON-LISP::T (EQL P::A)))", false),
            ("(METHOD P::F :AROUND (P::ITEMS))", false),
            ("(METHOD (SETF P::ITEM) (COMMON-LISP::T P::ITEM))", true),
        ] {
            assert_eq!(is_specialized_on(method, "P::ITEM"), expected, "{method}");
        }
    }
}
