//! The who family's answers as text, the same for the command line and the MCP server: that of who-calls and who-references is
//! the contracts'.

use std::fmt::{self, Write as _};

use steelbank_xref::Kind;

use super::{Elsewhere, WhoAnswer};
use crate::actions::uses::unseen::Unseen;
use crate::answer::{Caution, LispName, counted};

/// Renders a heading, an empty line, and a line for each function; or a sentence.
impl fmt::Display for WhoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(symbol) = &self.symbol else {
            write!(f, "{}", self.unseen.not_found(&self.asked, self.status))?;
            return f.write_str(&notes(&Unseen::default(), &self.cautions));
        };
        let notes = notes(&self.unseen, &self.cautions);
        if self.count == 0 && self.toplevel.is_empty() {
            return write!(f, "{}{notes}", nobody(self.kind, &symbol.text, &self.elsewhere));
        }
        let mut text = who_list(self.kind, &symbol.text, self.users.listed(self.kind));
        let toplevel =
            self.toplevel.iter().map(|found| format!("{}: {}", found.position.place, found.context));
        at_top_level(&mut text, self.count > 0, toplevel);
        write!(f, "{text}{notes}")
    }
}

/// Whether a contract says how the text is: then its names are the canonical ones.
pub(super) fn is_of_contract(kind: Kind) -> bool {
    matches!(kind, Kind::Calls | Kind::References)
}

/// Returns a name as the text of `kind` has it.
pub(super) fn shown(kind: Kind, name: &LispName) -> &str {
    if is_of_contract(kind) { name.canonical() } else { name.as_str() }
}

/// Renders that nothing does it, and what is done instead.
pub(super) fn nobody(kind: Kind, symbol: &LispName, elsewhere: &[Elsewhere]) -> String {
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
pub(super) fn who_list(
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

/// Tells how many are left out, if any are, and the cursor of the `next` page.
pub(super) fn left_out(text: &mut String, left_out: usize, of: impl fmt::Display, next: Option<usize>) {
    if left_out > 0 {
        let next = next.map_or_else(String::new, |next| format!(": the next page has cursor {next}"));
        // Writing to a string cannot fail.
        let _ = write!(text, "\n\n{left_out} of {of} are left out here{next}.");
    }
}

/// Renders the uses by code outside of functions, below a list of functions if there are `functions`.
pub(super) fn at_top_level(text: &mut String, functions: bool, uses: impl Iterator<Item = String>) {
    for (number, found) in uses.enumerate() {
        if number == 0 {
            text.push_str(if functions { "\n\n  at top level:" } else { "\n  at top level:" });
        }
        let _ = write!(text, "\n    {found}");
    }
}

/// Renders the places in unseen text, and the cautions.
pub(super) fn notes(unseen: &Unseen, cautions: &[Caution]) -> String {
    let mut text = unseen.note();
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
