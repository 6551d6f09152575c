//! Formats describe-symbol's answer as text. The first lines are fixed by the contract; further
//! lines follow below them.

use std::fmt::{self, Display, Write as _};

use super::{ClassFacet, DescribeSymbolAnswer, Description, FunctionFacet, VariableUses};
use crate::answer::{LispName, SourcePlace};
use crate::tools::phrases::listed;

/// Prints a heading, the contract's lines, and below them every facet with its position.
impl Display for DescribeSymbolAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&headed(self, LispName::canonical))
    }
}

/// Formats the answer, with the heading's name converted by `written`.
pub(crate) fn headed(answer: &DescribeSymbolAnswer, written: fn(&LispName) -> &str) -> String {
    let Some(description) = &answer.description else {
        return answer.asked.name.clone();
    };
    if let Some(operator) = &answer.operator {
        return describe_operator(operator, description);
    }
    let mut text = format!("{} [{}]", written(&description.symbol), description.classification.name());
    let value = description.variable.as_ref().and_then(|variable| variable.value.as_deref());
    let arglist = description.function.as_ref().and_then(|facet| facet.arglist.as_deref());
    contract_lines(&mut text, arglist, value, description.documentation(), description.source());
    facets(&mut text, description);
    answer.variable_uses.iter().for_each(|uses| variable_uses(&mut text, uses));
    text
}

/// Appends a variable's default and uses.
fn variable_uses(text: &mut String, uses: &VariableUses) {
    let lists = [
        ("Default", &uses.defined),
        ("Read by", &uses.read),
        ("Bound by", &uses.bound),
        ("Set by", &uses.set),
    ];
    // On a page, an empty list may have entries on another page, so omit it.
    for (heading, list) in lists.into_iter().filter(|(_, list)| !uses.is_part || !list.is_empty()) {
        let _ = write!(text, "\n  {heading}:{}", if list.is_empty() { " none" } else { "" });
        for each in list {
            let _ = write!(text, "\n    {}: {}", each.place, each.by.as_deref().unwrap_or_default());
        }
    }
    if !uses.other_text.is_empty() {
        let _ = write!(text, "\n  {}", uses.other_text.sentence());
    }
}

/// Describes a name that is a list, such as `(setf car)`: the function, not the symbol in the list.
fn describe_operator(operator: &str, description: &Description) -> String {
    let name = format!("({operator} {})", description.symbol.canonical());
    let function = description.setf_function.as_ref().filter(|_| operator == "SETF");
    let compiler_macro = description.compiler_macro.as_ref().filter(|_| operator == "COMPILER-MACRO");
    let (kind, arglist, documentation, sources) = match (function, compiler_macro) {
        (Some(facet), _) => (facet.kind.name(), &facet.arglist, &facet.documentation, &facet.sources),
        (None, Some(facet)) => ("compiler-macro", &facet.arglist, &facet.documentation, &facet.sources),
        (None, None) if operator == "SETF" && description.setf_expander => {
            return format!("{name} [SETF-EXPANDER]");
        }
        (None, None) => return format!("{name} is not defined"),
    };
    let mut text = format!("{name} [{}]", kind.to_uppercase());
    let source = sources.iter().find(|source| source.octet_offset.is_some());
    contract_lines(&mut text, arglist.as_deref(), None, documentation.as_deref(), source);
    definition(&mut text, &kind.replace('-', " "), None, sources);
    function.iter().for_each(|facet| methods(&mut text, facet));
    text
}

/// Appends a documentation string below a heading.
fn docstring(text: &mut String, heading: &str, documentation: &str) {
    let _ = write!(text, "\n  {heading}:");
    for line in documentation.strip_suffix('\n').unwrap_or(documentation).split('\n') {
        let indent = if line.trim_end().is_empty() { "" } else { "    " };
        let _ = write!(text, "\n{indent}{line}");
    }
}

fn contract_lines(
    text: &mut String,
    arglist: Option<&str>,
    value: Option<&str>,
    documentation: Option<&str>,
    source: Option<&SourcePlace>,
) {
    // Writing to a string cannot fail.
    if let Some(arglist) = arglist {
        let _ = write!(text, "\n  Arglist: {arglist}");
    }
    if let Some(value) = value {
        let _ = write!(text, "\n  Value: {value}");
    }
    if let Some(documentation) = documentation.filter(|text| !text.is_empty()) {
        docstring(text, "Documentation", documentation);
    }
    if let Some(source) = source
        && let Some(offset) = source.octet_offset
    {
        let _ = write!(text, "\n  Source: {}:{offset}", source.file);
    }
}

/// Appends every facet with its position, and the parts of a class or generic function.
fn facets(text: &mut String, description: &Description) {
    for (index, (kind, arglist, sources)) in description.definitions().into_iter().enumerate() {
        // Skip the operator's lambda list, which the contract's line already shows.
        let is_above = index == 0 && description.function.is_some();
        definition(text, &kind, arglist.filter(|_| !is_above), sources);
    }
    if description.setf_expander {
        definition(text, "setf expander", None, &description.setf_expander_sources);
    }
    // The contract's lines have the documentation of one kind only.
    let class = description.class.as_ref().and_then(|facet| facet.documentation.as_deref());
    if let Some(documentation) = class.filter(|class| Some(*class) != description.documentation()) {
        docstring(text, "Documentation as class", documentation);
    }
    if let Some(package) = &description.package_of_that_name {
        let _ = write!(text, "\n  Names the package {package}");
    }
    for facet in description.function.iter().chain(&description.setf_function) {
        methods(text, facet);
    }
    if let Some(class) = &description.class {
        class_parts(text, class);
    }
}

fn definition(text: &mut String, kind: &str, arglist: Option<&str>, sources: &[SourcePlace]) {
    let _ = write!(text, "\n  Defined as {kind}");
    if let Some(arglist) = arglist {
        let _ = write!(text, " {arglist}");
    }
    for (index, source) in sources.iter().enumerate() {
        let before = if index == 0 { ":" } else { "," };
        let stale = if source.stale { " (file changed after it was loaded)" } else { "" };
        let _ = write!(text, "{before} {}{stale}", source.place);
    }
}

fn methods(text: &mut String, facet: &FunctionFacet) {
    let Some(count) = facet.method_count else { return };
    let combination = facet.combination.as_deref().unwrap_or("STANDARD");
    let _ = write!(text, "\n  Methods: {count}, combined by {combination}");
    for method in &facet.methods {
        let _ = write!(text, "\n    {} {}", method.name, method.arglist);
        if let Some(source) = method.sources.first() {
            let _ = write!(text, ": {}", source.place);
        }
    }
    left_out(text, count, facet.methods.len());
}

fn class_parts(text: &mut String, class: &ClassFacet) {
    for (heading, names) in [("Superclasses", &class.superclasses), ("Precedence", &class.precedence)] {
        if !names.is_empty() {
            let _ = write!(text, "\n  {heading}: {}", listed(names));
        }
    }
    if class.subclass_count > 0 {
        let named = class.subclasses.iter().zip(&class.subclasses_at).map(|(name, at)| match &**at {
            "" => name.to_string(),
            at => format!("{name} ({at})"),
        });
        let _ = write!(text, "\n  Subclasses: {}", listed(&named.collect::<Vec<_>>()));
        left_out(text, class.subclass_count, class.subclasses.len());
    }
    if !class.slots.is_empty() {
        text.push_str("\n  Slots:");
    }
    for slot in &class.slots {
        let _ = write!(text, "\n    {}", slot.name);
        let part = |what: &'static str, value: &dyn Display| format!(", {what} {value}");
        text.extend(slot.initargs.iter().map(|name| part("initarg", name)));
        let setf = |name: &LispName| format!("(SETF {})", name.canonical());
        let is_accessor = |name: &&LispName| slot.writers.iter().any(|it| it.canonical() == setf(name));
        for name in &slot.readers {
            let what = if is_accessor(&name) { "accessor" } else { "reader" };
            text.push_str(&part(what, &name.beside(&slot.name)));
        }
        let is_accessors = |it: &&LispName| slot.readers.iter().any(|name| it.canonical() == setf(name));
        let writers = slot.writers.iter().filter(|it| !is_accessors(it));
        text.extend(writers.map(|name| part("writer", &name.beside(&slot.name))));
        text.extend(slot.slot_type.iter().map(|value| part("type", value)));
        text.extend(slot.initform.iter().map(|value| part("initform", value)));
        text.extend(slot.allocation.iter().map(|value| part("allocation", value)));
        text.extend(slot.from.iter().map(|name| part("from", name)));
        text.extend(slot.place.iter().map(|place| part("at", place)));
        if let Some(line) = slot.documentation.as_deref().and_then(|text| text.lines().next()) {
            let _ = write!(text, ": {line}");
        }
    }
    if !class.default_initargs.is_empty() {
        let _ = write!(text, "\n  Default initargs: {}", class.default_initargs.join(", "));
    }
    if let Some(structure) = &class.structure {
        let functions = [&structure.predicate, &structure.copier].into_iter().flatten();
        let made: Vec<&LispName> = structure.constructors.iter().chain(functions).collect();
        if !made.is_empty() {
            let _ = write!(text, "\n  Defined by defstruct: {}", listed(&made));
        }
    }
}

fn left_out(text: &mut String, count: u64, shown: usize) {
    let more = count.saturating_sub(shown as u64);
    if more > 0 {
        let _ = write!(text, "\n    and {more} more");
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
        let text = answer.to_string();
        assert!(text.starts_with(expected), "{text}");
        let ours = &text[expected.len()..];
        assert!(ours.is_empty() || ours.starts_with("\n  Defined as "), "after the contract's lines: {ours}");
    }

    #[test]
    fn function_lists_arglist_documentation_and_source() {
        check(
            json!({ "type": "FUNCTION", "function": {
                "name": "P::X", "kind": "function", "arglist": "(A &OPTIONAL B)", "documentation": "One.\n\nTwo.",
                "sources": [{ "file": "/a b/c.lisp", "octet_offset": 10 }] } }),
            "P::X [FUNCTION]\n  Arglist: (A &OPTIONAL B)\n  Documentation:\n    One.\n\n    Two.\n  \
             Source: /a b/c.lisp:10",
        );
    }

    #[test]
    fn unknown_lambda_list_is_omitted() {
        let function = |arglist: Value| json!({ "type": "FUNCTION", "function": { "name": "P::X", "kind": "function", "arglist": arglist } });
        check(function(json!("()")), "P::X [FUNCTION]\n  Arglist: ()");
        check(function(Value::Null), "P::X [FUNCTION]");
    }

    #[test]
    fn value_or_printing_error_is_shown() {
        let variable = |value: &str| {
            json!({ "type": "VARIABLE", "variable": {
                "kind": "special", "bound": true, "value": value, "documentation": "" } })
        };
        check(variable("NIL"), "P::X [VARIABLE]\n  Value: NIL");
        check(variable("<error printing value>"), "P::X [VARIABLE]\n  Value: <error printing value>");
    }

    #[test]
    fn source_without_position_is_omitted() {
        check(
            json!({ "type": "CLASS", "class": {
                "kind": "standard-class", "metaclass": "COMMON-LISP::STANDARD-CLASS", "subclass_count": 0,
                "documentation": "A class.", "sources": [{ "file": "x.lisp" }] } }),
            "P::X [CLASS]\n  Documentation:\n    A class.",
        );
    }

    #[test]
    fn type_lambda_list_is_no_arglist_line() {
        check(
            json!({ "type": "SYMBOL", "deftype": { "arglist": "(&OPTIONAL SIZE)", "documentation": "A.\r\n\r\nB." } }),
            "P::X [SYMBOL]\n  Documentation:\n    A.\r\n\r\n    B.\n  Defined as type (&OPTIONAL SIZE)",
        );
        check(json!({ "type": "SYMBOL" }), "P::X [SYMBOL]");
    }
}
