//! The graph of definitions and their users, which call-graph and impact follow.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use steelbank_text::DefinitionKind;
use steelbank_xref::{Index, Kind};

use super::code_find_references::UseType;
use super::context::QueryContext;
use super::designator::Designator;
use super::nearest::is_sbcls;
use super::outline::{DefinitionInFile, definitions_in, is_live};
use super::use_counts::{Counted, Counter};
use crate::project::FileVersion;

/// A definition in the graph.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Node {
    /// The printed name, or the file and line of a top-level form that defines nothing.
    pub(super) name: String,
    /// The symbol by which other nodes use it: home package and name.
    pub(super) symbol: Option<(String, String)>,
    /// Whether it is a top-level form that defines nothing.
    pub(super) is_toplevel: bool,
}

impl Node {
    /// Makes the node of the function that is printed as `caller`.
    pub(super) fn of(caller: &str) -> Self {
        Self { name: place_function(caller), symbol: principal(caller), is_toplevel: false }
    }
}

/// A use of a node by another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UsedBy {
    pub(super) user: Node,
    pub(super) line: Counted,
    /// What the user is, where the text tells: a test, a definition by an operator of the project.
    pub(super) defined: Option<DefinitionKind>,
}

/// Finds the users of symbols. Reads each file once.
pub(super) struct UserFinder<'a> {
    context: &'a QueryContext<'a>,
    pub(super) counter: Counter<'a>,
    files: RefCell<HashMap<String, Rc<Vec<DefinitionInFile>>>>,
}

impl<'a> UserFinder<'a> {
    pub(super) fn new(context: &'a QueryContext<'a>) -> Self {
        Self { context, counter: Counter::new(context), files: RefCell::default() }
    }

    /// Lists the definitions in the file that answers show as `path`; empty if it cannot be read.
    pub(super) fn definitions(&self, path: &str) -> Rc<Vec<DefinitionInFile>> {
        let mut files = self.files.borrow_mut();
        let known = files.entry(path.to_owned()).or_insert_with(|| {
            let root = self.context.project.root().map(std::path::Path::to_owned).unwrap_or_default();
            let known = definitions_in(self.context, &root.join(path));
            Rc::new(known.map(|(known, _)| known).unwrap_or_default())
        });
        Rc::clone(known)
    }

    /// Finds the users of a symbol: every line that runs, expands or names it, with the definition around it.
    pub(super) fn of(&self, package: &str, name: &str) -> Vec<UsedBy> {
        let lines = self.counter.lines(name, package);
        lines.into_iter().filter(is_live).map(|line| self.user(line)).collect()
    }

    fn user(&self, line: Counted) -> UsedBy {
        let definitions = self.definitions(&line.place.file);
        let around = line.place.line.and_then(|number| {
            let known = definitions.iter().filter(|known| {
                (known.definition.start..=known.definition.end).contains(&number)
                    && known.definition.kind != DefinitionKind::Accessor
            });
            known.min_by_key(|known| known.definition.end - known.definition.start)
        });
        let defined = around.map(|known| known.definition.kind);
        let user = match (&line.caller, around) {
            (Some(caller), _) => Node::of(caller),
            (None, Some(known)) => Node {
                name: match known.definition.kind {
                    DefinitionKind::Setf if !known.definition.setf => format!("(SETF {})", known.shown()),
                    DefinitionKind::CompilerMacro => format!("(COMPILER-MACRO {})", known.shown()),
                    _ => known.shown(),
                },
                symbol: known.home.clone().map(|home| (home, known.definition.name.clone())),
                is_toplevel: false,
            },
            (None, None) => {
                let name = format!("top level of {}", line.place.clone().whole_line());
                Node { name, symbol: None, is_toplevel: true }
            }
        };
        UsedBy { user, line, defined }
    }

    /// Finds the functions that the compiler recorded as calling or expanding the symbol.
    pub(super) fn recorded(&self, package: &str, name: &str) -> Vec<Node> {
        let index = &self.context.index;
        let home = index.find_package(package, None);
        let Some((symbol, _)) = home.and_then(|home| index.find_symbol(name, home)) else {
            return Vec::new();
        };
        let kinds = [Kind::Calls, Kind::Macroexpands].into_iter();
        let found = kinds.flat_map(|kind| index.who(kind, symbol, |role| role.denotes_function()));
        found.map(|found| Node::of(&found.function)).collect()
    }

    /// Whether a use of `name` is a call, a macro's expansion, or a call in the template of a macro or setf
    /// definition.
    pub(super) fn is_call(used: &UsedBy, name: &str) -> bool {
        match used.line.use_type {
            UseType::Call | UseType::Macro | UseType::Function => true,
            UseType::Template => used.defined.is_some_and(makes_code) && used.line.calls_in_text(name),
            _ => false,
        }
    }

    /// Finds what the templates of a macro or setf definition call: home packages and names.
    pub(super) fn called_by_templates(&self, package: &str, name: &str) -> BTreeSet<(String, String)> {
        let project = self.context.project;
        let mut called = BTreeSet::new();
        for FileVersion { path, write_date } in project.naming(name) {
            let shown = project.shown(&path);
            for known in self.definitions(&shown).iter() {
                let (definition, home) = (&known.definition, known.home.as_deref());
                if !makes_code(definition.kind) || definition.name != name || home != Some(package) {
                    continue;
                }
                let Ok(file) = project.positions(&path, write_date) else { continue };
                let forms = self.counter.forms(&shown);
                let form = forms.as_ref().as_ref().and_then(|forms| forms.at(definition.start));
                let symbols = form.map_or_else(Vec::new, |(form, _)| file.symbols_in(form as u32));
                for (package, name) in symbols.into_iter().filter(|(package, _)| !is_sbcls(package)) {
                    let lines = self.counter.lines(name, package);
                    let here = |line: &Counted| {
                        line.place.file == shown
                            && line.use_type == UseType::Template
                            && line
                                .place
                                .line
                                .is_some_and(|line| (definition.start..=definition.end).contains(&line))
                            && line.calls_in_text(name)
                    };
                    if lines.iter().any(here) {
                        called.insert((package.to_owned(), name.to_owned()));
                    }
                }
            }
        }
        called
    }
}

/// Whether a definition's templates become code where it is used.
fn makes_code(kind: DefinitionKind) -> bool {
    matches!(kind, DefinitionKind::Macro | DefinitionKind::Setf | DefinitionKind::CompilerMacro)
}

/// Returns the name under which a caller is listed: that of the macro for a macro function, `(SETF …)` for a
/// setf expander.
fn place_function(caller: &str) -> String {
    if let Some(name) = caller.strip_prefix("(MACRO-FUNCTION ").and_then(|name| name.strip_suffix(')')) {
        return name.to_owned();
    }
    let place = ["(%DEFSETF ", "(SETF-EXPANDER "].iter().find_map(|before| caller.strip_prefix(before));
    place.map_or_else(|| caller.to_owned(), |place| format!("(SETF {place}"))
}

/// Finds the symbol in a printed function name: F in `(METHOD P::F (P::C))` and in `(FLET G :IN P::F)`.
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

/// Maps the printed name of each caller to the symbols that it calls, SBCL's own left out.
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
