//! Answers as the contracts' texts. The command line and the MCP server show the same.

use crate::query::lookup::{Asked, LookupStatus};
use crate::query::who::WhoAnswer;
use crate::xref::Kind;
use std::fmt::Write as _;

/// The who-calls family: a heading, an empty line, and one function a line; or a sentence.
pub fn who(answer: &WhoAnswer) -> String {
    let Some(symbol) = &answer.symbol else { return missing(&answer.asked, answer.status) };
    let (heading, nothing) = match answer.kind {
        Kind::Calls => ("Functions that call", "No callers found for"),
        Kind::Macroexpands => ("Code that expands", "No expansions found for"),
        Kind::Binds => ("Code that binds", "No bindings found for"),
        Kind::References => ("Code that references", "No references found for"),
        Kind::Sets => ("Code that sets", "No assignments found for"),
        Kind::Specializes => ("Methods that specialize on", "No methods found that specialize on"),
    };
    if answer.users.is_empty() {
        return format!("{nothing} {}", symbol.text);
    }
    let mut text = format!("{heading} {}:\n", symbol.text);
    for user in &answer.users {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {}", user.name);
    }
    text
}

/// The sentence that all tools have for a package or symbol that does not exist.
pub fn missing(asked: &Asked, status: LookupStatus) -> String {
    match status {
        LookupStatus::NoPackage => format!("Package {} not found", asked.package),
        LookupStatus::NoSymbol | LookupStatus::Found => {
            format!("Symbol {} not found in package {} (status: NIL)", asked.name, asked.package)
        }
    }
}
