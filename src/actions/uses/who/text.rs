//! The who family's answers as text, the same for the command line and the MCP server: that of who-calls and who-references is
//! the contracts'.

use std::fmt::Write as _;

use steelbank_xref::Kind;

use super::{Elsewhere, WhoAnswer};
use crate::actions::uses::unseen::Unseen;
use crate::answer::lookup::missing;
use crate::answer::{Caution, LispName, counted};

/// Renders the who-calls family: a heading, an empty line, and a line for each function; or a sentence.
pub fn who(answer: &WhoAnswer) -> String {
    let notes = notes(&answer.unseen, &answer.cautions);
    let Some(symbol) = &answer.symbol else {
        return missing(&answer.asked, answer.status) + &notes;
    };
    if answer.count == 0 && answer.toplevel.is_empty() {
        return nobody(answer.kind, &symbol.text, &answer.elsewhere) + &notes;
    }
    let mut text = who_list(answer.kind, &symbol.text, answer.users.listed(answer.kind));
    let next = answer.users.len();
    if let left_out @ 1.. = answer.count.saturating_sub(next) {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n\n{left_out} of {} are left out here.", answer.count);
    }
    let toplevel = answer.toplevel.iter().map(|found| format!("{}: {}", found.position.place, found.context));
    at_top_level(&mut text, answer.count > 0, toplevel);
    text + &notes
}

/// Whether a contract says how the text is: then its names are the canonical ones.
pub(super) fn is_of_contract(kind: Kind) -> bool {
    matches!(kind, Kind::Calls | Kind::References)
}

/// Returns a name as the text of `kind` has it.
pub(crate) fn shown(kind: Kind, name: &LispName) -> &str {
    if is_of_contract(kind) { name.canonical() } else { name.as_str() }
}

/// Renders that nothing does it, and what is done instead.
pub(crate) fn nobody(kind: Kind, symbol: &LispName, elsewhere: &[Elsewhere]) -> String {
    let nothing = match kind {
        Kind::Calls => "No callers found for",
        Kind::Macroexpands => "No expansions found for",
        Kind::Binds => "No bindings found for",
        Kind::References => "No references found for",
        Kind::Sets => "No assignments found for",
        Kind::Specializes => "No methods found that specialize on",
    };
    let mut text = format!("{nothing} {}", shown(kind, symbol));
    for elsewhere in elsewhere {
        let _ = write!(text, "\n\n{}", of_another_kind(elsewhere));
    }
    text
}

/// Renders the list: the functions of these `names`.
pub(crate) fn who_list(
    kind: Kind,
    symbol: &LispName,
    names: impl Iterator<Item = impl std::fmt::Display>,
) -> String {
    let heading = match kind {
        Kind::Calls => "Functions that call",
        Kind::Macroexpands => "Code that expands",
        Kind::Binds => "Code that binds",
        Kind::References => "Code that references",
        Kind::Sets => "Code that sets",
        Kind::Specializes => "Methods that specialize on",
    };
    let mut text = format!("{heading} {}:\n", shown(kind, symbol));
    for name in names {
        let _ = write!(text, "\n  {name}");
    }
    text
}

/// Renders the uses by code outside of functions, below a list of functions if there are `functions`.
pub(crate) fn at_top_level(text: &mut String, functions: bool, uses: impl Iterator<Item = String>) {
    for (number, found) in uses.enumerate() {
        if number == 0 {
            text.push_str(if functions { "\n\n  at top level:" } else { "\n  at top level:" });
        }
        let _ = write!(text, "\n    {found}");
    }
}

/// Renders the places in unseen text, and the cautions.
pub(crate) fn notes(unseen: &Unseen, cautions: &[Caution]) -> String {
    let mut text = String::new();
    if !unseen.is_empty() {
        let _ = write!(text, "\n\nNote: {}", unseen.sentence());
    }
    for caution in cautions {
        let _ = write!(text, "\n\nNote: {caution}");
    }
    text
}

/// Renders the advice to ask another tool, if the name has uses of its kind.
fn of_another_kind(elsewhere: &Elsewhere) -> String {
    let (one, several, how, tool) = match elsewhere.kind {
        Kind::Calls => ("calls", "call", "", "who-calls"),
        Kind::Macroexpands => ("expands", "expand", " as a macro", "who-macroexpands"),
        Kind::Binds => ("binds", "bind", " as a variable", "who-binds"),
        Kind::References => ("reads", "read", " as a variable", "who-references"),
        Kind::Sets => ("assigns", "assign", " as a variable", "who-sets"),
        Kind::Specializes => ("specializes on", "specialize on", " as a class", "who-specializes"),
    };
    let functions = counted(elsewhere.count, &format!("function {one}"), &format!("functions {several}"));
    format!("But {functions} it{how}: ask {tool}.")
}
