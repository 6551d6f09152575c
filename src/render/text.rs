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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[track_caller]
    fn check(description: Value, expected: &str) {
        let mut whole = json!({
            "name": "X", "package": "P", "symbol": "P::X", "accessibility": "internal", "setf_expander": false,
        });
        for (name, value) in description.as_object().into_iter().flatten() {
            whole[name] = value.clone();
        }
        let answer: DescribeSymbolAnswer = serde_json::from_value(json!({
            "status": "found", "asked": { "name": "X", "package": "P" }, "description": whole,
        }))
        .unwrap();
        assert_eq!(describe_symbol(&answer), expected);
    }

    #[test]
    fn a_function_with_everything() {
        check(
            json!({ "type": "FUNCTION", "function": {
                "name": "P::X", "kind": "function", "arglist": "(A &OPTIONAL B)", "documentation": "One.\n\nTwo.",
                "sources": [{ "file": "/a b/c.lisp", "offset": 12, "octet_offset": 10 }] } }),
            "P::X [FUNCTION]\n  Arglist: (A &OPTIONAL B)\n  Documentation:\n    One.\n    \n    Two.\n  \
             Source: /a b/c.lisp:12",
        );
    }

    #[test]
    fn no_parameters_and_unknown_parameters_differ() {
        let function = |arglist: Value| json!({ "type": "FUNCTION", "function": { "name": "P::X", "kind": "function", "arglist": arglist } });
        check(function(json!("()")), "P::X [FUNCTION]\n  Arglist: ()");
        check(function(Value::Null), "P::X [FUNCTION]");
    }

    #[test]
    fn values_and_what_cannot_be_printed() {
        let variable = |value: &str| {
            json!({ "type": "VARIABLE", "variable": {
                "kind": "special", "bound": true, "value": value, "documentation": "" } })
        };
        check(variable("NIL"), "P::X [VARIABLE]\n  Value: NIL");
        check(variable("<error printing value>"), "P::X [VARIABLE]\n  Value: <error printing value>");
    }

    #[test]
    fn a_source_without_a_position_is_left_out() {
        check(
            json!({ "type": "CLASS", "class": {
                "kind": "standard-class", "metaclass": "COMMON-LISP::STANDARD-CLASS", "subclasses": 0,
                "documentation": "A class.", "sources": [{ "file": "x.lisp" }] } }),
            "P::X [CLASS]\n  Documentation:\n    A class.",
        );
    }

    #[test]
    fn a_type_has_its_own_lambda_list() {
        check(
            json!({ "type": "SYMBOL", "deftype": { "arglist": "(&OPTIONAL SIZE)", "documentation": "Doc." } }),
            "P::X [SYMBOL]\n  Arglist: (&OPTIONAL SIZE)\n  Documentation:\n    Doc.",
        );
        check(json!({ "type": "SYMBOL" }), "P::X [SYMBOL]");
    }

    #[test]
    fn what_is_missing_is_told_in_the_contracts_words() {
        let asked = Asked { name: "FOO".into(), package: "CL-USER".into() };
        assert_eq!(
            missing(&asked, LookupStatus::NoSymbol),
            "Symbol FOO not found in package CL-USER (status: NIL)"
        );
        assert_eq!(missing(&asked, LookupStatus::NoPackage), "Package CL-USER not found");
    }
}
