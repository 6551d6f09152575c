//! The tools of the who family: page the answer of a [`WhoRequest`] and render it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::missing::{LookupReply, of_error};
use crate::actions::uses::source_text::{Sourced, sourced};
use crate::actions::uses::unloaded::UnloadedMatches;
use crate::actions::uses::who::{Elsewhere, SetfUse, TopLevelUse, User, Users, WhoRequest, text};
use crate::actions::uses::who_makes::{WhoMakesRequest, tool::who_makes};
use crate::answer::lookup::NamedSymbol;
use crate::answer::{Caution, LispName, counted};
use crate::engine::Control;
use crate::source::positions::Evidence;
use crate::tools::page::{PageRange, Paging, Part, Sequence};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};
use steelbank_xref::Kind;

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    #[serde(flatten)]
    symbol: NamedSymbol,
    #[serde(flatten)]
    page: Paging,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct ReferencesArguments {
    #[serde(flatten)]
    arguments: Arguments,
    /// The use: `reference` (read), `set` (assigned), `bind` (LET, LAMBDA list) of a variable;
    /// `macro`: an expansion; `specialize`: a method on a class or object; `make`: an instance.
    #[serde(default, rename = "type")]
    use_type: ListedUse,
}

/// The uses that who-references lists. The words are those of code-find-references.
#[derive(Debug, Clone, Copy, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum ListedUse {
    #[default]
    Reference,
    Set,
    Bind,
    Macro,
    Specialize,
    Make,
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
    /// The function's entry in the text's list of places.
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

impl ShownUser {
    fn new(user: User<'_>, kind: Kind, symbol: &LispName) -> Self {
        let line = text::place(&user, kind, symbol);
        let is_in_sbcl = user.is_in_sbcl();
        let (mut evidence, mut via) = (None, None);
        // Only the top-level form is known in SBCL's own sources, so no place there is exact.
        if let Some(at) = user.position.as_ref().filter(|at| at.via.is_some() || !is_in_sbcl) {
            evidence = Some(at.evidence).filter(|evidence| *evidence != Evidence::Exact);
            via.clone_from(&at.via);
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
        "Lists every function, method and macro that calls the given function, as the compiler recorded it. Use it \
         before changing a signature or behaviour. Includes calls of (setf name), marked `setf`, of compiler macros \
         and of methods. Sorted by PACKAGE::NAME. Each function has the file:line:column of its first use; \
         code-find-references also gives the source line. Calls by top-level code follow, then matches in files that \
         are not loaded.",
    )
}

pub(crate) fn references() -> Tool {
    let about = About {
        name: "who-references",
        title: "Who reads a variable",
        description: "Lists the code that reads a special variable, global or constant, sorted as in who-calls. \
            Lexical variables are not recorded. `type` selects other uses: who sets or binds the variable, expands a \
            macro, specializes methods on a class, makes instances of it.",
        effect: Effect::Reads,
    };
    let list = |session: &Session, given: ReferencesArguments, call: &Call| {
        let ReferencesArguments { arguments, use_type } = given;
        let kind = match use_type {
            ListedUse::Reference => Kind::References,
            ListedUse::Set => Kind::Sets,
            ListedUse::Bind => Kind::Binds,
            ListedUse::Macro => Kind::Macroexpands,
            ListedUse::Specialize => Kind::Specializes,
            ListedUse::Make => {
                return who_makes(
                    session,
                    WhoMakesRequest { symbol: arguments.symbol },
                    arguments.page,
                    call,
                );
            }
        };
        who(session, kind, arguments, call)
    };
    Tool::new::<Sourced<ReferencesArguments>, LookupReply<ListedUsers>>(about, sourced(list))
        .of_image()
        // Only the search for constructors asks Lisp.
        .immediate_if(|given| given.get("type").is_none_or(|use_type| use_type != "make"))
}

const OLD_NAME: &str = "The same as who-references with the use as `type`.";

pub(crate) fn binds() -> Tool {
    tool(Kind::Binds, "who-binds", "Who binds a variable", OLD_NAME)
}

pub(crate) fn sets() -> Tool {
    tool(Kind::Sets, "who-sets", "Who assigns a variable", OLD_NAME)
}

pub(crate) fn macroexpands() -> Tool {
    tool(Kind::Macroexpands, "who-macroexpands", "Who uses a macro", OLD_NAME)
}

pub(crate) fn specializes() -> Tool {
    tool(Kind::Specializes, "who-specializes", "Who specializes on a class", OLD_NAME)
}

fn tool(kind: Kind, name: &'static str, title: &'static str, description: &'static str) -> Tool {
    let about = About { name, title, description, effect: Effect::Reads };
    let list = move |session: &Session, given, call: &Call| who(session, kind, given, call);
    Tool::new::<Sourced<Arguments>, LookupReply<ListedUsers>>(about, sourced(list)).of_image().immediate()
}

fn who(session: &Session, kind: Kind, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let request = WhoRequest { kind, symbol: given.symbol, recorded_only: false };
    let answer = match bank.ask(&request, &Control::default()) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    let looked_up_in = answer.looked_up_in.clone();
    let listed = ListedUsers {
        symbol: answer.symbol.map(|symbol| symbol.text).unwrap_or_default(),
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
        omits_sbcl_places: answer.count > text::LONG_LIST,
    };
    given.page.cut(listed, call.budget(), |listed, range| {
        Ok(page(listed, range)?.looked_up_in(looked_up_in.clone()))
    })
}

/// Renders a page.
fn page(listed: &mut ListedUsers, range: &PageRange) -> Result<ToolAnswer, Failure> {
    let users = listed.users.iter().map(|mut user| {
        if listed.omits_sbcl_places && user.is_in_sbcl() {
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
    let users: Vec<_> = listed.shown.iter().map(|user| (&user.name, user.line.as_str())).collect();
    let toplevel = listed.toplevel.iter().map(|found| format!("{}: {}", found.at, found.context));
    let mut text = text::who_list(listed.kind, symbol, &users);
    let next = range.end();
    text::omitted_note(&mut text, listed.count.saturating_sub(next), listed.count, Some(next));
    text::at_top_level(&mut text, listed.count > 0, toplevel);
    let shown = next.saturating_sub(listed.count).min(listed.toplevel_total);
    if next >= listed.count {
        let of = format!("{} at top level", counted(listed.toplevel_total, "use", "uses"));
        text::omitted_note(&mut text, listed.toplevel_total - shown, of, Some(next));
    }
    text.push_str(&listed.notes);
    text.push_str(&text::places(listed.kind, &users));
    text
}
