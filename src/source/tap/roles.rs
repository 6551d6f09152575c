//! The roles of symbols in code, and the meaning of designators in package definitions and symbol
//! lookups.
//!
//! [`super::walk`] finds the role of every symbol of a form. The functions here inspect only the
//! neighbourhood of one token.

use super::operators::{defines_package, looks_up, names_symbol_at, takes_symbols};
use super::sidecar::{Abbreviation, EventKind, Name, Sidecar, TapForm};

/// The role of a symbol's occurrence in its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SyntaxRole {
    /// The name being defined, including accessors, constructors and similar names.
    Definition,
    /// The name of a structure, from which `defstruct` derives other names: `make-x`, `x-p`,
    /// `x-slot`.
    Structure,
    /// The first name passed to a macro called `def…`: probably what it defines.
    Named,
    /// A name in a package definition's `:export`, or in a call to `export` or `unexport`.
    Export,
    /// A name in another clause of a package definition, or in a call to `import`, `shadow` or a
    /// similar function.
    Import,
    /// A class, structure or condition: superclass, specializer, `make-instance 'x`, `handler-case`
    /// clause.
    Class,
    /// A type specifier.
    Type,
    /// A slot name.
    Slot,
    /// Part of quoted data, or another datum that is not evaluated, such as a key of CASE, a
    /// restart's name or the keyword of an option.
    Quoted,
    /// `#'x`, or the name passed to `funcall` and similar functions.
    Function,
    /// The name of a variable, passed to `symbol-value` or a similar function.
    Variable,
    /// Part of a declaration.
    Declaration,
    /// Part of a backquoted form, outside of commas.
    Template,
    /// Not a token of the form: inside `#.`, in the test of `#+`, or produced by a reader macro.
    ReadTime,
    /// A block name, as in `(return-from x)`, which can also be a function's name; or a tag.
    Block,
    /// A variable or local function that a lambda list, LET, FLET or a similar operator binds.
    Binding,
    /// A keyword of the LOOP macro. LOOP compares keywords by name, not as symbols.
    LoopKeyword,
    /// The operator of a list.
    Operator,
    /// Any other element of a list.
    Argument,
}

/// Returns whether the keyword `event` designates a symbol with the same name: it is the name that
/// a function such as INTERN or FIND-SYMBOL looks up, or the class of a component in DEFSYSTEM.
pub fn is_looked_up(sidecar: &Sidecar, form: &TapForm, event: usize) -> bool {
    let walk = RoleFinder { sidecar, form };
    let operator = |list: usize| walk.operator(list).map_or("", Name::name);
    let Some(parent) = walk.parent(event) else { return false };
    match walk.place(event).checked_sub(2) {
        Some(argument) => looks_up(operator(parent), argument as usize),
        None => walk.place(event) == 1 && form.ancestors(parent).any(|list| operator(list) == "DEFSYSTEM"),
    }
}

/// Returns whether the designator `event` names a package: as an argument of IN-PACKAGE,
/// FIND-PACKAGE or a function that takes symbols and a package, such as INTERN or EXPORT; or in a
/// package definition.
pub fn names_package(sidecar: &Sidecar, form: &TapForm, event: usize) -> bool {
    let walk = RoleFinder { sidecar, form };
    let operator = |list: usize| walk.operator(list).map_or("", Name::name);
    let is_quote = |list: &usize| form.events[*list].operator == Abbreviation::Quote;
    let argument = walk.parent(event).filter(is_quote).unwrap_or(event);
    let Some((list, at)) = walk.parent(argument).zip(walk.place(argument).checked_sub(2)) else {
        return false;
    };
    let defines = |list: usize| defines_package(operator(list));
    match operator(list) {
        "IN-PACKAGE" | "FIND-PACKAGE" => true,
        "IMPORT-FROM" | "SHADOWING-IMPORT-FROM" => at == 0 && walk.parent(list).is_some_and(defines),
        "USE" | "NICKNAMES" | "MIX" | "REEXPORT" | "USE-REEXPORT" => walk.parent(list).is_some_and(defines),
        name if defines_package(name) => at == 0,
        name => takes_symbols(name) && !names_symbol_at(name, at as usize),
    }
}

/// Returns whether `event` is a parameter after `&key` that determines the name of its keyword.
pub fn is_key_parameter(sidecar: &Sidecar, form: &TapForm, event: usize) -> bool {
    let walk = RoleFinder { sidecar, form };
    let after_key = |parameter: usize| {
        let Some(list) = walk.parent(parameter) else { return false };
        let mut before = (1..walk.place(parameter)).rev().filter_map(|place| form.child(list, place));
        // Any list counts, because only the macro knows whether its argument is a lambda list.
        before.find_map(|word| walk.name(word).and_then(Name::standard).filter(|word| word.starts_with('&')))
            == Some("&KEY")
    };
    let in_list = || {
        walk.place(event) == 1 && walk.parent(event).is_some_and(|list| walk.is_list(list) && after_key(list))
    };
    walk.place(event) > 0 && (after_key(event) || in_list())
}

/// Returns the role of `event`, a string, keyword or uninterned symbol in a package definition, if
/// it designates the searched symbol. `means(package)` must return whether the event's name refers
/// to that symbol in the package named `package`.
pub fn package_role(
    sidecar: &Sidecar,
    form: &TapForm,
    event: usize,
    means: &dyn Fn(&str) -> bool,
) -> Option<SyntaxRole> {
    let (role, package) = package_clause(sidecar, form, event)?;
    means(package).then_some(role)
}

/// Returns the role of a designator in a clause of a package definition, and the package of the
/// symbol that it designates there.
pub fn package_clause<'a>(
    sidecar: &'a Sidecar,
    form: &'a TapForm,
    event: usize,
) -> Option<(SyntaxRole, &'a str)> {
    let walk = RoleFinder { sidecar, form };
    let list = form.events[event].parent? as usize;
    // (:export . #1=(#:name)): a list that is not an element is the tail of the list around it.
    let is_rest = form.events[list].place == 0 && walk.is_list(list);
    let clause = if is_rest { form.events[list].parent? as usize } else { list };
    let definition = form.events[clause].parent? as usize;
    if form.events[event].place < if is_rest { 1 } else { 2 } {
        return None;
    }
    let word = walk.operator(clause)?;
    // Macros that expand into a package definition count, too: their clauses have the same
    // keywords.
    let own = walk.operator(definition).is_some_and(|operator| defines_package(operator.name()));
    if !own && !word.is("KEYWORD", word.name()) {
        return None;
    }
    let named = |list: usize| form.child(list, 2).and_then(|package| walk.name(package)).map(Name::name);
    match word.name() {
        "EXPORT" => Some((SyntaxRole::Export, named(definition)?)),
        "SHADOW" | "INTERN" => Some((SyntaxRole::Import, named(definition)?)),
        "IMPORT-FROM" | "SHADOWING-IMPORT-FROM" if form.events[event].place > 2 || is_rest => {
            Some((SyntaxRole::Import, named(clause)?))
        }
        _ => None,
    }
}

struct RoleFinder<'a> {
    sidecar: &'a Sidecar,
    form: &'a TapForm,
}

impl<'a> RoleFinder<'a> {
    fn name(&self, event: usize) -> Option<&'a Name> {
        match self.form.events[event].kind {
            EventKind::Symbol(name) | EventKind::Text(name) => self.sidecar.names.get(name as usize),
            _ => None,
        }
    }

    fn operator(&self, list: usize) -> Option<&'a Name> {
        self.name(self.form.child(list, 1)?)
    }

    fn place(&self, event: usize) -> u32 {
        self.form.events[event].place
    }

    fn parent(&self, event: usize) -> Option<usize> {
        self.form.events[event].parent.map(|parent| parent as usize)
    }

    /// Returns whether the event is a list, not a comma, vector or similar.
    fn is_list(&self, event: usize) -> bool {
        matches!(self.form.events[event].kind, EventKind::Form(_) | EventKind::List)
    }
}
