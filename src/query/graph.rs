//! Who uses whom, step by step: what call graphs and impact are made of.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use steelbank_text::DefinitionKind;
use steelbank_xref::{Index, Kind};

use super::code_find_references::UseType;
use super::context::Context;
use super::designator::Designator;
use super::nearest::is_sbcls;
use super::outline::{Known, definitions_in, is_live};
use super::use_counts::{Counted, Counter};

/// A definition in the graph.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Node {
    /// The printed name, or the file and line of a top-level form that defines nothing.
    pub(super) name: String,
    /// The symbol under which it is used in turn: home package and name.
    pub(super) symbol: Option<(String, String)>,
}

/// A use of a node by another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UsedBy {
    pub(super) user: Node,
    pub(super) line: Counted,
    /// What the user is, where the text tells: a test, a definition by an operator of the project.
    pub(super) defined: Option<DefinitionKind>,
}

/// Finds users. Reads each file once.
pub(super) struct Users<'a> {
    context: &'a Context<'a>,
    pub(super) counter: Counter<'a>,
    files: RefCell<HashMap<String, Rc<Vec<Known>>>>,
}

impl<'a> Users<'a> {
    pub(super) fn new(context: &'a Context<'a>) -> Self {
        Self { context, counter: Counter::new(context), files: RefCell::default() }
    }

    /// The definitions in the file that answers show as `path`; none if it cannot be read.
    pub(super) fn definitions(&self, path: &str) -> Rc<Vec<Known>> {
        let mut files = self.files.borrow_mut();
        let known = files.entry(path.to_owned()).or_insert_with(|| {
            let root = self.context.project.root().map(std::path::Path::to_owned).unwrap_or_default();
            let known = definitions_in(self.context, &root.join(path));
            Rc::new(known.map(|(known, _)| known).unwrap_or_default())
        });
        Rc::clone(known)
    }

    /// Who uses the symbol: every line that runs, expands or names it, with the definition that it is in.
    pub(super) fn of(&self, package: &str, name: &str) -> Vec<UsedBy> {
        let lines = self.counter.lines(name, package);
        lines.into_iter().filter(is_live).map(|line| self.user(line)).collect()
    }

    fn user(&self, line: Counted) -> UsedBy {
        let definitions = self.definitions(&line.path);
        let around = line.line.and_then(|number| {
            let known = definitions.iter().filter(|known| {
                (known.definition.start..=known.definition.end).contains(&number)
                    && known.definition.kind != DefinitionKind::Accessor
            });
            known.min_by_key(|known| known.definition.end - known.definition.start)
        });
        let defined = around.map(|known| known.definition.kind);
        let user = match (&line.caller, around) {
            (Some(caller), _) => Node { name: caller.clone(), symbol: principal(caller) },
            (None, Some(known)) => Node {
                name: known.shown(),
                symbol: known.home.clone().map(|home| (home, known.definition.name.clone())),
            },
            (None, None) => {
                let place = line.line.map_or_else(String::new, |number| format!(":{number}"));
                Node { name: format!("top level of {}{place}", line.path), symbol: None }
            }
        };
        UsedBy { user, line, defined }
    }

    /// Whether a use is a call, or the expansion of a macro.
    pub(super) fn is_call(used: &UsedBy) -> bool {
        matches!(used.line.use_type, UseType::Call | UseType::Macro | UseType::Function)
    }
}

/// The symbol in a printed function name: that of `(METHOD P::F (P::C))` is F, of `(FLET G :IN P::F)` too.
pub(super) fn principal(printed: &str) -> Option<(String, String)> {
    let printed = printed.rsplit_once(":IN ").map_or(printed, |(_, rest)| rest.trim_end_matches(')'));
    let mut rest = printed;
    while let Some(inner) = rest.strip_prefix('(') {
        rest = inner.split_once(' ')?.1;
    }
    let mut end = rest.len();
    let mut quoted = false;
    for (at, character) in rest.char_indices() {
        match character {
            '|' => quoted = !quoted,
            ' ' | ')' | '(' if !quoted => {
                end = at;
                break;
            }
            _ => (),
        }
    }
    if rest.starts_with("#:") {
        return None;
    }
    let designator = Designator::parse(&rest[..end]).ok()?;
    Some((designator.package?, designator.name))
}

/// Who calls what, among the symbols whose home is in no package of SBCL's own: by the printed name of the caller.
pub(super) fn callees(index: &Index) -> HashMap<String, BTreeSet<String>> {
    let mut calls: HashMap<String, BTreeSet<String>> = HashMap::new();
    for symbol in index.symbols() {
        let Some(home) = index.symbol_package(symbol) else { continue };
        let package = index.package_name(home);
        if is_sbcls(&package) {
            continue;
        }
        for kind in [Kind::Calls, Kind::Macroexpands] {
            for found in index.who(kind, symbol, |role| role.denotes_function()) {
                let caller = found.function.into_owned();
                calls.entry(caller).or_default().insert(index.symbol_text(symbol));
            }
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::principal;

    #[test]
    fn printed_names_have_a_principal_symbol() {
        let check = |printed: &str, expect: Option<(&str, &str)>| {
            let expect = expect.map(|(package, name)| (package.to_owned(), name.to_owned()));
            assert_eq!(principal(printed), expect, "{printed}");
        };
        check("P::F", Some(("P", "F")));
        check("(SETF P::F)", Some(("P", "F")));
        check("(METHOD P::F :AROUND (Q::C (EQL 3)))", Some(("P", "F")));
        check("(METHOD (SETF P::F) (COMMON-LISP::T))", Some(("P", "F")));
        check("(FLET P::G :IN P::F)", Some(("P", "F")));
        check("P::|a b|", Some(("P", "a b")));
        check("#:G12", None);
    }
}
