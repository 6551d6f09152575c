//! The tools about one symbol: describe-symbol, and the who-calls family.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tool::{Answer, Call, Effect, Failure, Outcome, Session, Tool};
use crate::query::control::ALLOWED;
use crate::query::describe_symbol::{DescribeSymbolAnswer, DescribeSymbolRequest};
use crate::query::lookup::{Asked, DEFAULT_PACKAGE, LookupStatus};
use crate::query::who::{WhoAnswer, WhoRequest};
use crate::render::text;
use crate::xref::Kind;

/// How many entries are listed unless more are asked for.
const DEFAULT_LIMIT: usize = 1_000;

/// What describe-symbol takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SymbolArguments {
    /// The symbol, in any case: mapcar, cl:mapcar, pkg::name, |Mixed Case|, (setf name). A prefix wins over `package`.
    name: String,
    /// The package to look the name up in.
    #[serde(default = "default_package")]
    package: String,
}

/// What the who-calls family takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WhoArguments {
    /// The symbol, in any case: mapcar, cl:mapcar, pkg::name, |Mixed Case|, (setf name). A prefix wins over `package`.
    name: String,
    /// The package to look the name up in.
    #[serde(default = "default_package")]
    package: String,
    /// The most entries to list.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 1_000_000))]
    limit: usize,
    /// Give the places also when the list is long: lists of more than 100 functions leave them out of structuredContent.
    #[serde(default)]
    places: bool,
}

fn default_package() -> String {
    DEFAULT_PACKAGE.to_owned()
}

fn default_limit() -> usize {
    DEFAULT_LIMIT
}

/// The longest list that has places unless they are asked for. They are ten times as long as the names, and some hosts
/// hand all of it to the model.
const LONGEST_WITH_PLACES: usize = 100;

/// An answer of the who-calls family.
#[derive(Debug, Serialize, JsonSchema)]
struct Listed {
    #[serde(flatten)]
    limited: Limited<WhoAnswer>,
    /// Whether the places were left out: ask again with `places`, or with a smaller `limit`.
    places_left_out: bool,
}

/// An answer that may have been cut.
#[derive(Debug, Serialize, JsonSchema)]
struct Limited<T> {
    #[serde(flatten)]
    answer: T,
    /// Whether something was left out: entries beyond the limit, or the end of a very long name.
    truncated: bool,
}

struct WhoTool {
    name: &'static str,
    title: &'static str,
    kind: Kind,
    description: &'static str,
}

const WHO_TOOLS: [WhoTool; 6] = [
    WhoTool {
        name: "who-calls",
        title: "Who calls a function",
        kind: Kind::Calls,
        description: "Lists every function, method and macro whose compiled code calls the given function, as the \
            compiler recorded it; text matches, comments and strings do not count. Use it before changing a signature \
            or a behaviour, or to see how a function is used. Calls of (setf name), of compiler macros and of methods \
            are included. structuredContent has the file and the form of each call; \
            for lines and columns in your project's own code ask code-find-references.",
    },
    WhoTool {
        name: "who-references",
        title: "Who reads a variable",
        kind: Kind::References,
        description: "Lists the code that reads the value of a special variable, global or constant. Lexical \
            variables are not recorded. For writes use who-sets, for LET bindings who-binds.",
    },
    WhoTool {
        name: "who-binds",
        title: "Who binds a variable",
        kind: Kind::Binds,
        description: "Lists the code that binds a special variable dynamically (LET, LAMBDA lists, PROGV with a known \
            symbol). Use it to learn where a configuration variable gets its value for a while.",
    },
    WhoTool {
        name: "who-sets",
        title: "Who assigns a variable",
        kind: Kind::Sets,
        description: "Lists the code that assigns a special or global variable (SETQ, SETF, INCF, PUSH and the like).",
    },
    WhoTool {
        name: "who-macroexpands",
        title: "Who uses a macro",
        kind: Kind::Macroexpands,
        description: "Lists the code in which a macro (or a compiler macro) was expanded: everything that must be \
            compiled again when the macro changes.",
    },
    WhoTool {
        name: "who-specializes",
        title: "Who specializes on a class",
        kind: Kind::Specializes,
        description: "Lists the methods that have a class, or an object under EQL, as the specializer of one of their \
            parameters: what a class can do, across all generic functions.",
    },
];

/// The family's tools.
pub(super) fn tools() -> Vec<Tool> {
    let mut tools = vec![Tool::new::<SymbolArguments, Limited<DescribeSymbolAnswer>>(
        "describe-symbol",
        "Describe a symbol",
        "Tells what a Common Lisp symbol is in the running image: function, macro, generic function, special operator, \
         variable with its value, class, type; with lambda list, documentation and the place of its definition. Use it \
         first for any name that you do not know, and in place of guessing an argument order. structuredContent has \
         every facet when a symbol is several things at once.",
        Effect::Reads,
        describe,
    )
    .of_image()];
    tools.extend(WHO_TOOLS.iter().map(|tool| {
        let kind = tool.kind;
        Tool::new::<WhoArguments, Listed>(
            tool.name,
            tool.title,
            tool.description,
            Effect::Reads,
            move |session, arguments, _| who(session, kind, arguments),
        )
        .of_image()
    }));
    tools
}

fn describe(session: &Session, arguments: SymbolArguments, call: &Call) -> Result<Answer, Failure> {
    let request = DescribeSymbolRequest::new(arguments.name).package(arguments.package);
    let mut answer = session.bank.describe(&request, &call.control(ALLOWED))?;
    let truncated = shorten(&mut answer.asked);
    let outcome = outcome(answer.status);
    Answer::new(text::describe_symbol(&answer), &Limited { answer, truncated }, outcome)
}

fn who(session: &Session, kind: Kind, arguments: WhoArguments) -> Result<Answer, Failure> {
    let request = WhoRequest::new(kind, arguments.name).package(arguments.package);
    let mut answer = session.bank.who(&request)?;
    let mut truncated = shorten(&mut answer.asked);
    if answer.users.len() > arguments.limit {
        answer.users.truncate(arguments.limit);
        truncated = true;
    }
    let places_left_out = answer.users.len() > LONGEST_WITH_PLACES && !arguments.places;
    if places_left_out {
        answer.users.iter_mut().for_each(|user| user.places.clear());
    } else {
        session.bank.locate(&request, &mut answer);
    }
    let text = text::who(&answer);
    let outcome = outcome(answer.status);
    Answer::new(text, &Listed { limited: Limited { answer, truncated }, places_left_out }, outcome)
}

fn outcome(status: LookupStatus) -> Outcome {
    match status {
        LookupStatus::Found => Outcome::Answered,
        LookupStatus::NoSymbol | LookupStatus::NoPackage => Outcome::NotFound,
    }
}

/// The longest name that an answer repeats, in characters.
const LONGEST_NAME: usize = 1_000;

/// Cuts names that nobody would read. True if something was cut.
fn shorten(asked: &mut Asked) -> bool {
    let mut cut = false;
    for name in [&mut asked.name, &mut asked.package] {
        if let Some((at, _)) = name.char_indices().nth(LONGEST_NAME) {
            let rest = name[at..].chars().count();
            name.truncate(at);
            name.push_str(&format!("... ({rest} more characters)"));
            cut = true;
        }
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_nobody_would_read_are_cut() {
        let mut asked = Asked { name: "Ä".repeat(LONGEST_NAME), package: "CL-USER".into() };
        assert!(!shorten(&mut asked));
        asked.name.push('X');
        assert!(shorten(&mut asked));
        assert!(asked.name.ends_with("Ä... (1 more characters)"), "{}", asked.name);
    }
}
