//! The tools of the who family: page the answer of a [`WhoRequest`] and render it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::missing::{LookupReply, of_error};
use crate::actions::uses::source_text::{Sourced, sourced};
use crate::actions::uses::unloaded::UnloadedMatches;
use crate::actions::uses::who::{Elsewhere, Position, SetfUse, TopLevelUse, User, Users, WhoRequest, text};
use crate::answer::designator::PrintedName;
use crate::answer::lookup::NamedSymbol;
use crate::answer::{Caution, LispName, counted};
use crate::engine::Control;
use crate::source::positions::Evidence;
use crate::tools::page::{PageRange, Paging, Part, Sequence};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};
use steelbank_xref::Kind;

/// Longer lists omit places in SBCL's own sources, so that the names of a standard function's
/// callers are on one page.
const LONG_LIST: usize = 100;

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    #[serde(flatten)]
    symbol: NamedSymbol,
    #[serde(flatten)]
    page: Paging,
}

/// The functions that use a symbol.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ListedUsers {
    /// The symbol.
    symbol: LispName,
    /// The number of functions on all pages.
    count: usize,
    /// The functions.
    #[serde(skip)]
    users: Users,
    /// The functions of this page.
    #[serde(rename = "users")]
    #[schemars(with = "Vec<ShownUser>")]
    shown: Vec<ShownUser>,
    /// Uses by top-level code. They follow the functions on the same pages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    toplevel: Vec<TopLevel>,
    /// The number of uses by top-level code, if some are on other pages.
    #[serde(skip_serializing_if = "Option::is_none")]
    toplevel_count: Option<usize>,
    /// Matches of the name in text that the image does not have.
    #[serde(skip_serializing_if = "UnloadedMatches::is_empty", rename = "unseen")]
    unloaded: UnloadedMatches,
    /// Uses of other kinds, if there are none of this kind.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    elsewhere: Vec<Elsewhere>,
    /// Limits of the answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    cautions: Vec<Caution>,
    /// The `cursor` argument for the next entries; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
    #[serde(skip)]
    kind: Kind,
    /// The text below the lists.
    #[serde(skip)]
    notes: String,
    /// The number of uses by top-level code on all pages.
    #[serde(skip)]
    toplevel_total: usize,
    /// Whether places in SBCL's own sources are left out.
    #[serde(skip)]
    omits_sbcl_places: bool,
}

/// A function and the first place of its uses.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ShownUser {
    name: LispName,
    /// `file:line:column` of the first use.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<String>,
    /// How the place was determined; absent if exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Evidence>,
    /// For evidence `via`: the operator that expands into the use.
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<String>,
    /// The number of uses in the function, if there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    uses: Option<usize>,
    /// Whether the function uses `(SETF name)`: `only` this name, or `name` as well (`too`).
    #[serde(skip_serializing_if = "SetfUse::is_itself")]
    setf: SetfUse,
    /// False: the compiler recorded no use; only the text shows it.
    #[serde(skip_serializing_if = "is_true")]
    recorded: bool,
    /// The function's line in the text's list of places.
    #[serde(skip)]
    line: String,
}

fn is_true(value: &bool) -> bool {
    *value
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct TopLevel {
    at: String,
    context: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Evidence>,
}

impl Sequence for ListedUsers {
    fn lists(&mut self, part: &mut Part) {
        let range = part.take(self.users.len());
        self.users.keep(range);
        part.keep(&mut self.toplevel);
        part.keep(&mut self.unloaded.files);
    }
}

/// Whether the class is among the specializers of the method: `(METHOD P::F (P::ITEM (EQL P::X)))`
/// specializes on P::ITEM. Returns `true` if the specializers cannot be parsed.
fn is_specialized_on(method: &str, class: &str) -> bool {
    PrintedName::parse(method).specializers().is_none_or(|specializers| specializers.contains(&class))
}

impl ShownUser {
    fn new(user: User<'_>, kind: Kind, symbol: &LispName) -> Self {
        let mut line = String::new();
        if let Some(Position { place, .. }) = &user.position {
            line.extend(["\n  ", &place.to_string(), ": ", user.name.as_str()]);
            // Only functions have a SETF name.
            match if kind == Kind::Calls { user.called } else { SetfUse::Itself } {
                SetfUse::Itself => {}
                SetfUse::Setf => line.push_str(&format!(" uses (setf {symbol})")),
                SetfUse::Both => line.push_str(&format!(" uses {symbol} and (setf {symbol})")),
            }
            if kind == Kind::Specializes && !is_specialized_on(user.name.canonical(), symbol.canonical()) {
                line.push_str(" (by an eql specializer)");
            }
        }
        let (mut evidence, mut via) = (None, None);
        let is_in_sbcl = user.position.as_ref().is_some_and(|at| at.place.file.starts_with("SYS:"));
        match user.position.as_ref().map(|at| (at.evidence, &at.via)) {
            None | Some((Evidence::Exact, _)) => {}
            Some((found, Some(operator))) => {
                line.extend([" (via ", operator, ")"]);
                (evidence, via) = (Some(found), Some(operator.clone()));
            }
            // Only the top-level form is known in SBCL's own sources. Omit the mark
            // `(approximate)`, because every place would have it.
            Some(_) if is_in_sbcl => {}
            Some((found, None)) => {
                line.push_str(" (approximate)");
                evidence = Some(found);
            }
        }
        if !line.is_empty() {
            if user.uses > 1 {
                line.push_str(&format!(", {} uses", user.uses));
            }
            if !user.recorded {
                line.push_str(" (not recorded by the compiler)");
            }
        }
        Self {
            at: user.position.map(|at| at.place.to_string()),
            name: user.name,
            evidence,
            via,
            uses: Some(user.uses).filter(|uses| *uses > 1),
            setf: if kind == Kind::Calls { user.called } else { SetfUse::Itself },
            recorded: user.recorded,
            line,
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
        "Lists every function, method and macro that calls the given function, as the compiler \
         recorded it; text matches, comments and strings do not count. Use it before changing a signature or \
         behaviour, or to see how a function is used. Includes calls of (setf name), marked `setf`, of compiler macros and of \
         methods. Sorted by PACKAGE::NAME; a name such as (setf f) by the symbol in it. Each function has \
         the file:line:column of its first use. \
         code-find-references also gives the source line. Calls by top-level code follow, then matches in files that changed \
         since they were loaded or are not loaded.",
    )
}

pub(crate) fn references() -> Tool {
    tool(
        Kind::References,
        "who-references",
        "Who reads a variable",
        "Lists the code that reads a special variable, global or constant, sorted as in who-calls. \
         Lexical variables are not recorded. For writes use who-sets, for LET bindings who-binds.",
    )
}

pub(crate) fn binds() -> Tool {
    tool(
        Kind::Binds,
        "who-binds",
        "Who binds a variable",
        "Lists the code that binds a special variable dynamically (LET, LAMBDA lists, PROGV with a known symbol). \
         Use it to find where a configuration variable is rebound.",
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
        "Lists every use of a macro or compiler macro: the code to recompile when it changes.",
    )
}

pub(crate) fn specializes() -> Tool {
    tool(
        Kind::Specializes,
        "who-specializes",
        "Who specializes on a class",
        "Lists the methods with a class, or an object in an EQL specializer, as the specializer of a parameter: \
         the behaviour of a class across all generic functions.",
    )
}

fn tool(kind: Kind, name: &'static str, title: &'static str, description: &'static str) -> Tool {
    let about = About { name, title, description, effect: Effect::Reads };
    let list = move |session: &Session, given, call: &Call| who(session, kind, given, call);
    Tool::new::<Sourced<Arguments>, LookupReply<ListedUsers>>(about, sourced(list)).of_image().immediate()
}

fn who(session: &Session, kind: Kind, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let request = WhoRequest { kind, symbol: given.symbol, recorded_only: false };
    let answer = bank.ask(&request, &Control::default())?;
    let Some(subject) = &answer.symbol else {
        let missing = answer.unloaded.not_found(&answer.asked, answer.status);
        return of_error(bank, missing.into(), CallOutcome::NotFound);
    };
    let looked_up_in = answer.looked_up_in.clone();
    let listed = ListedUsers {
        symbol: subject.text.clone(),
        count: answer.count,
        users: answer.users,
        shown: Vec::new(),
        toplevel: answer.toplevel.iter().map(TopLevel::from).collect(),
        toplevel_count: None,
        notes: text::notes(&answer.unloaded, &answer.cautions),
        unloaded: answer.unloaded,
        elsewhere: answer.elsewhere,
        cautions: answer.cautions,
        cursor: None,
        kind,
        toplevel_total: answer.toplevel.len(),
        omits_sbcl_places: answer.count > LONG_LIST,
    };
    given.page.cut(listed, call.budget(), |listed, range| {
        Ok(page(listed, range)?.looked_up_in(looked_up_in.clone()))
    })
}

/// Renders a page.
fn page(listed: &mut ListedUsers, range: &PageRange) -> Result<ToolAnswer, Failure> {
    let is_in_sbcl =
        |user: &User<'_>| user.position.as_ref().is_some_and(|at| at.place.file.starts_with("SYS:"));
    let users = listed.users.iter().map(|mut user| {
        if listed.omits_sbcl_places && is_in_sbcl(&user) {
            user.position = None;
        }
        ShownUser::new(user, listed.kind, &listed.symbol)
    });
    listed.shown = users.collect();
    listed.cursor = range.cursor();
    listed.toplevel_count = Some(listed.toplevel_total).filter(|count| *count > listed.toplevel.len());
    ToolAnswer::new(text(listed, range), &LookupReply::yes(&*listed), CallOutcome::Answered)
}

fn text(listed: &ListedUsers, range: &PageRange) -> String {
    let symbol = &listed.symbol;
    if listed.count == 0 && listed.toplevel_total == 0 {
        return text::no_users(listed.kind, symbol, &listed.elsewhere) + &listed.notes;
    }
    let names = listed.shown.iter().map(|user| text::shown(listed.kind, &user.name));
    let toplevel = listed.toplevel.iter().map(|found| format!("{}: {}", found.at, found.context));
    let mut text = text::who_list(listed.kind, symbol, names);
    let next = range.end();
    text::omitted_note(&mut text, listed.count.saturating_sub(next), listed.count, Some(next));
    text::at_top_level(&mut text, listed.count > 0, toplevel);
    let shown = next.saturating_sub(listed.count).min(listed.toplevel_total);
    if next >= listed.count {
        let of = format!("{} at top level", counted(listed.toplevel_total, "use", "uses"));
        text::omitted_note(&mut text, listed.toplevel_total - shown, of, Some(next));
    }
    text.push_str(&listed.notes);
    if listed.shown.iter().any(|user| !user.line.is_empty()) {
        text.push_str("\n\nPlaces:\n");
        listed.shown.iter().for_each(|user| text.push_str(&user.line));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specialized_class_differs_from_other_names() {
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
