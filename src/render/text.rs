//! Answers as the contracts' texts. The command line and the MCP server show the same.

use crate::query::describe_symbol::{DescribeSymbolAnswer, Description};
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
    let left_out = answer.count.saturating_sub(answer.users.len());
    if left_out > 0 {
        let _ =
            write!(text, "\n\n{left_out} more are left out; ask with \"limit\": {} for all.", answer.count);
    }
    text
}

/// describe-symbol: a heading, and a line for each thing that is known.
pub fn describe_symbol(answer: &DescribeSymbolAnswer) -> String {
    let Some(description) = &answer.description else { return missing(&answer.asked, answer.status) };
    let mut text = format!("{} [{}]", description.symbol, description.classification);
    // Writing to a string cannot fail.
    if let Some(arglist) = arglist(description) {
        let _ = write!(text, "\n  Arglist: {arglist}");
    }
    if let Some(value) = description.variable.as_ref().and_then(|variable| variable.value.as_deref()) {
        let _ = write!(text, "\n  Value: {value}");
    }
    if let Some(documentation) = description.documentation().filter(|text| !text.is_empty()) {
        text.push_str("\n  Documentation:");
        for line in documentation.lines() {
            let _ = write!(text, "\n    {line}");
        }
    }
    if let Some(source) = description.source()
        && let Some(offset) = source.offset
    {
        let _ = write!(text, "\n  Source: {}:{offset}", source.file);
    }
    text
}

/// The lambda list of the operator, or else of the type that DEFTYPE made.
fn arglist(description: &Description) -> Option<&str> {
    let operator = description.function.as_ref().map(|facet| facet.arglist.as_deref());
    operator.unwrap_or_else(|| description.deftype.as_ref().and_then(|facet| facet.arglist.as_deref()))
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
