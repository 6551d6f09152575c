//! Renders the answers of the who family for the command line and the MCP server. Contracts fix the
//! texts of `who-calls` and `who-references`.

use std::fmt::{self, Write as _};

use steelbank_xref::Kind;

use super::{Elsewhere, SetfUse, User, WhoAnswer};
use crate::actions::uses::unloaded::UnloadedMatches;
use crate::answer::designator::PrintedName;
use crate::answer::{Caution, LispName, Location, counted};
use crate::source::positions::Evidence;

/// Longer lists omit places in SBCL's own sources, so that the names of a standard function's
/// callers are on one page.
pub(super) const LONG_LIST: usize = 100;

/// Renders a heading, one line for each function, the uses by top-level code, and the notes. If
/// there are no uses or no such symbol, a sentence replaces the lists.
impl fmt::Display for WhoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(symbol) = &self.symbol else {
            write!(f, "{}", self.unloaded.not_found(&self.asked, self.status))?;
            return f.write_str(&notes(&UnloadedMatches::default(), &self.cautions));
        };
        let notes = notes(&self.unloaded, &self.cautions);
        if self.count == 0 && self.toplevel.is_empty() {
            return write!(f, "{}{notes}", no_users(self.kind, &symbol.text, &self.elsewhere));
        }
        let shows_sbcl = self.count <= LONG_LIST;
        let users = self.users.iter().map(|user| {
            let is_shown = shows_sbcl || !user.is_in_sbcl();
            let line = Some(place(&user, self.kind, &symbol.text)).filter(|_| is_shown);
            (user.name, line.unwrap_or_default())
        });
        let users: Vec<_> = users.collect();
        let users: Vec<_> = users.iter().map(|(name, line)| (name, line.as_str())).collect();
        let mut text = who_list(self.kind, &symbol.text, &users);
        let toplevel =
            self.toplevel.iter().map(|found| format!("{}: {}", found.position.place, found.context));
        at_top_level(&mut text, self.count > 0, toplevel);
        write!(f, "{text}{notes}{}", places(self.kind, &users))
    }
}

/// Whether a contract fixes the text for `kind`. Such a text has canonical names.
pub(super) fn is_contract_text(kind: Kind) -> bool {
    matches!(kind, Kind::Calls | Kind::References)
}

/// Returns a name in the form that the text for `kind` uses.
pub(super) fn shown(kind: Kind, name: &LispName) -> &str {
    if is_contract_text(kind) { name.canonical() } else { name.as_str() }
}

/// Renders the sentence that there are no uses of this kind, followed by references to the tools
/// that list uses of other kinds.
pub(super) fn no_users(kind: Kind, symbol: &LispName, elsewhere: &[Elsewhere]) -> String {
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
        let _ = write!(text, "\n\n{}", other_tool_note(elsewhere));
    }
    text
}

/// Renders the place of the first use, the function, and the places of the other uses. The text is
/// empty if no place is known.
pub(super) fn place(user: &User<'_>, kind: Kind, symbol: &LispName) -> String {
    let Some(at) = &user.position else { return String::new() };
    let mut line = format!("{}: {}", at.place, user.name.beside(symbol));
    // Only functions have a SETF name.
    match if kind == Kind::Calls { user.called } else { SetfUse::Itself } {
        SetfUse::Itself => {}
        SetfUse::Setf => line.push_str(&format!(" uses (setf {symbol})")),
        SetfUse::Both => line.push_str(&format!(" uses {symbol} and (setf {symbol})")),
    }
    if kind == Kind::Specializes && !is_specialized_on(user.name.canonical(), symbol.canonical()) {
        line.push_str(" (by an eql specializer)");
    }
    match (at.evidence, &at.via) {
        (Evidence::Exact, _) => {}
        (_, Some(operator)) => line.extend([" (via ", operator, ")"]),
        // In SBCL's own sources, every place would have this mark.
        _ if user.is_in_sbcl() => {}
        _ => line.push_str(" (approximate)"),
    }
    let others: Vec<String> = user.others.iter().map(Location::in_file).collect();
    if !others.is_empty() {
        line.extend([", also at ", &others.join(", ")]);
    } else if user.uses > 1 {
        line.push_str(&format!(", {} uses", user.uses));
    }
    if !user.recorded {
        line.push_str(" (not recorded by the compiler)");
    }
    line
}

/// Whether the class is among the specializers of the method: `(METHOD P::F (P::ITEM (EQL P::X)))`
/// specializes on P::ITEM. Returns `true` if the specializers cannot be parsed.
fn is_specialized_on(method: &str, class: &str) -> bool {
    PrintedName::parse(method).specializers().is_none_or(|specializers| specializers.contains(&class))
}

/// Renders the heading and the functions. A contract may fix a list of names without places; other
/// lists have each user once, with its place.
pub(super) fn who_list(kind: Kind, symbol: &LispName, users: &[(&LispName, &str)]) -> String {
    let heading = match kind {
        Kind::Calls => "Functions that call",
        Kind::Macroexpands => "Code that expands",
        Kind::Binds => "Code that binds",
        Kind::References => "Code that references",
        Kind::Sets => "Code that sets",
        Kind::Specializes => "Methods that specialize on",
    };
    let mut text = format!("{heading} {}:\n", shown(kind, symbol));
    for (name, line) in users {
        let name = if line.is_empty() || is_contract_text(kind) { shown(kind, name) } else { line };
        let _ = write!(text, "\n  {name}");
    }
    text
}

/// Renders the places for a list of names that a contract fixes.
pub(super) fn places(kind: Kind, users: &[(&LispName, &str)]) -> String {
    let lines = users.iter().filter(|(_, line)| !line.is_empty()).map(|(_, line)| format!("\n  {line}"));
    let lines: String = lines.collect();
    if lines.is_empty() || !is_contract_text(kind) { String::new() } else { format!("\n\nPlaces:\n{lines}") }
}

/// Adds the number of omitted entries, if any, and the cursor of the `next` page.
pub(super) fn omitted_note(text: &mut String, left_out: usize, of: impl fmt::Display, next: Option<usize>) {
    if left_out > 0 {
        let next = next.map_or_else(String::new, |next| format!(": the next page has cursor {next}"));
        let _ = write!(text, "\n\n{left_out} of {of} are left out here{next}.");
    }
}

/// Adds the uses by top-level code. `functions`: whether a list of functions precedes them.
pub(super) fn at_top_level(text: &mut String, functions: bool, uses: impl Iterator<Item = String>) {
    for (number, found) in uses.enumerate() {
        if number == 0 {
            text.push_str(if functions { "\n\n  at top level:" } else { "\n  at top level:" });
        }
        let _ = write!(text, "\n    {found}");
    }
}

/// Renders the notes about unloaded matches, and the cautions.
pub(super) fn notes(unloaded: &UnloadedMatches, cautions: &[Caution]) -> String {
    let mut text = unloaded.note();
    for caution in cautions {
        let _ = write!(text, "\n\nNote: {caution}");
    }
    text
}

/// Renders a reference to the tool that lists another kind of use.
fn other_tool_note(elsewhere: &Elsewhere) -> String {
    let (one, several, how, tool) = match elsewhere.kind {
        Kind::Calls => ("calls", "call", "", "who-calls"),
        Kind::Macroexpands => ("expands", "expand", " as a macro", "who-macroexpands"),
        Kind::Binds => ("binds", "bind", " as a variable", "who-binds"),
        Kind::References => ("reads", "read", " as a variable", "who-references"),
        Kind::Sets => ("assigns", "assign", " as a variable", "who-sets"),
        Kind::Specializes => ("specializes on", "specialize on", " as a class", "who-specializes"),
    };
    let functions = counted(elsewhere.count, &format!("function {one}"), &format!("functions {several}"));
    format!("But {functions} it{how}: use {tool}.")
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
