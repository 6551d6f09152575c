//! The graph of definitions and their users, which call-graph and impact follow.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;
use steelbank_reader::{Datum, FormId, FormKind};
use steelbank_text::DefinitionKind;
use steelbank_xref::{Access, FunctionKind, Index, Kind, NameRole};

use super::code_find_references::{UseType, found};
use super::enclosing::{Enclosing, innermost};
use super::outline::DefinitionInFile;
use super::use_counts::{Counted, Counter};
use super::who::CalledName;
use crate::answer::designator::{Designator, FunctionName, elements};
use crate::answer::lookup::Lookup;
use crate::answer::package_owner::PackageOwner;
use crate::answer::{LispName, name};
use crate::engine::Control;
use crate::handle::{Error, QueryContext};
use crate::workspace::{FileVersion, Own};

/// The answer of Lisp's question `subclasses`.
#[derive(Deserialize)]
pub(crate) struct Subclasses {
    #[serde(default)]
    pub(crate) subclasses: Vec<String>,
}

/// A definition in the graph.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    /// The canonical name, or the file and line of a top-level form that defines nothing.
    pub(crate) name: String,
    /// What other nodes use of it.
    pub(crate) target: Option<Target>,
    /// Whether it is a top-level form that defines nothing.
    pub(crate) is_toplevel: bool,
}

/// What is used: a symbol, by its home package and name, as one of the things that it names.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Target {
    pub(crate) package: String,
    pub(crate) name: String,
    pub(crate) sense: Sense,
}

/// Which of the things that a symbol names is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Sense {
    /// All of them.
    Any,
    /// The function or macro.
    Function,
    /// The function or expander `(SETF NAME)`.
    Setf,
}

impl Sense {
    /// Whether a use is of it.
    fn accepts(self, used: &Counted) -> bool {
        let of_function = matches!(
            used.use_type,
            UseType::Call
                | UseType::Macro
                | UseType::Function
                | UseType::Quoted
                | UseType::Template
                | UseType::ReadTime
                | UseType::Mention
        );
        match self {
            Self::Any => true,
            Self::Function => of_function && used.called != CalledName::Setf,
            Self::Setf => of_function && used.called != CalledName::Itself,
        }
    }

    fn accepts_role(self, role: NameRole) -> bool {
        match self {
            Self::Any => role.denotes_function(),
            Self::Function => role.denotes_function() && role != NameRole::Setf,
            Self::Setf => role == NameRole::Setf,
        }
    }
}

impl Target {
    pub(crate) fn any(package: impl Into<String>, name: impl Into<String>) -> Self {
        Self { package: package.into(), name: name.into(), sense: Sense::Any }
    }

    /// What a name argument means in a graph of functions.
    pub(crate) fn function(package: &str, name: &str, written: FunctionName) -> Self {
        let sense = if written == FunctionName::Setf { Sense::Setf } else { Sense::Function };
        Self { sense, ..Self::any(package, name) }
    }

    /// What a definition in a text defines; none if it names nothing that code could use.
    pub(crate) fn defined(known: &DefinitionInFile) -> Option<Self> {
        let definition = &known.definition;
        let home = known.home.as_deref().filter(|_| !known.names_standard())?;
        let sense = match definition.kind {
            DefinitionKind::Setf => Sense::Setf,
            _ if definition.setf => Sense::Setf,
            DefinitionKind::Function
            | DefinitionKind::GenericFunction
            | DefinitionKind::Method
            | DefinitionKind::Macro
            | DefinitionKind::CompilerMacro => Sense::Function,
            _ => Sense::Any,
        };
        Some(Self { sense, ..Self::any(home, &*definition.name) })
    }
}

impl Node {
    /// Makes the node of the function that is printed as `caller`.
    pub(crate) fn of(caller: &str) -> Self {
        Self { name: place_function(caller), target: function_in(caller), is_toplevel: false }
    }

    /// Returns the name for an answer.
    pub(crate) fn name(&self, index: &Index) -> LispName {
        match self.is_toplevel {
            true => LispName::of_text(&*self.name),
            false => LispName::new(index, &*self.name),
        }
    }

    /// Whether it is a method of a generic function that is defined outside of the project.
    pub(crate) fn is_foreign_method(&self, users: &UserFinder<'_>) -> bool {
        self.specializers().is_some() && self.target.as_ref().is_some_and(|target| users.is_foreign(target))
    }

    /// The specializers of a method, as they are printed; none for what is no method.
    fn specializers(&self) -> Option<Vec<&str>> {
        let parts = elements(&self.name).filter(|parts| parts.first() == Some(&"METHOD"))?;
        elements(parts.last()?)
    }
}

/// A use of a node by another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsedBy {
    pub(crate) user: Node,
    pub(crate) line: Counted,
    /// What the user is, where the text tells: a test, a definition by an operator of the project.
    pub(crate) defined: Option<DefinitionKind>,
    /// Whether the user is the form that the operator which it uses has made.
    pub(crate) is_made: bool,
    /// Whether the use is in a file of the project.
    pub(crate) in_project: bool,
}

/// What is passed to a generic function: see [`UserFinder::passed`].
pub(crate) struct Passed {
    place: usize,
    /// As they are printed.
    classes: BTreeSet<String>,
}

/// Finds the users of symbols. Reads each file once.
pub(crate) struct UserFinder<'a> {
    context: &'a QueryContext<'a>,
    pub(crate) counter: Counter<'a>,
    pub(crate) enclosing: Enclosing<'a>,
    own: Option<Own>,
}

/// The operators that make an instance of the class that their first argument names.
const MAKERS: [&str; 7] =
    ["MAKE-INSTANCE", "ALLOCATE-INSTANCE", "MAKE-CONDITION", "ERROR", "SIGNAL", "WARN", "CHANGE-CLASS"];

impl<'a> UserFinder<'a> {
    pub(crate) fn new(context: &'a QueryContext<'a>) -> Self {
        Self {
            context,
            counter: Counter::new(context),
            enclosing: Enclosing::new(context),
            own: context.project.root().map(|_| context.project.own()),
        }
    }

    /// Whether the file that answers show as `path` is the project's; if there is no project, all are.
    fn is_own(&self, path: &str) -> bool {
        let own = |own: &Own| !path.starts_with("SYS:") && own.contains(&self.context.project.native(path));
        self.own.as_ref().is_none_or(own)
    }

    /// Finds the uses of what `target` means: every use that runs, expands or names it, with the definition around it.
    pub(crate) fn of(&self, target: &Target) -> Vec<UsedBy> {
        let uses = self.counter.uses(&target.name, &target.package).into_iter();
        let uses = uses.filter(|used| !used.is_declaration && target.sense.accepts(used));
        uses.map(|line| self.user(line)).collect()
    }

    /// Finds the uses of a node. Of a method of somebody else's generic function these are the forms that make an
    /// instance of its class, if instances are what it is about; nobody else is known to reach it.
    pub(crate) fn of_node(&self, node: &Node, control: &Control) -> Result<Vec<UsedBy>, Error> {
        let Some(target) = &node.target else { return Ok(Vec::new()) };
        let Some(specializers) = node.specializers().filter(|_| node.is_foreign_method(self)) else {
            return Ok(self.of(target));
        };
        let makes = ["INITIALIZE-INSTANCE", "SHARED-INITIALIZE", "ALLOCATE-INSTANCE", "MAKE-INSTANCE"];
        let mut found = Vec::new();
        if makes.contains(&target.name.as_str())
            && let Some(class) = specializers.first().and_then(|class| Designator::parse(class).ok())
        {
            let package = class.package.unwrap_or_default();
            found = self.makers(&package, &class.name, control)?;
        }
        Ok(found)
    }

    /// Finds what passes an instance of `class` to the generic function `function`: the place of the argument on which its
    /// methods specialize so, and the classes that are it or below it.
    pub(crate) fn passed(
        &self,
        context: &QueryContext<'_>,
        function: &Target,
        class: &str,
        control: &Control,
    ) -> Result<Passed, Error> {
        let index = &context.index;
        let lookup = Lookup::resolved(index, class, Some(&function.package))?;
        let symbol = found(index, context.project, &lookup)?;
        let printed = index.symbol_text(symbol);
        let methods = index.who(Kind::Specializes, symbol, |_| true).into_iter();
        let place = methods.map(|found| Node::of(&found.function)).find_map(|method| {
            let is_its = method.target.as_ref() == Some(function);
            method.specializers().filter(|_| is_its)?.iter().position(|class| *class == printed)
        });
        let (name, home) =
            (index.symbol_name(symbol).into_owned(), index.home_name(symbol).unwrap_or_default());
        let below: Subclasses = context.ask("subclasses", vec![name, home], control)?;
        let classes = below.subclasses.into_iter().chain([printed]).collect();
        Ok(Passed { place: place.unwrap_or(0), classes })
    }

    /// Whether a call may pass an instance of one of the classes: not if it shows that it makes one of another.
    pub(crate) fn may_pass(&self, used: &UsedBy, passed: &Passed) -> bool {
        let shows_another = || {
            let range = used.line.place.range?;
            let file = self.enclosing.text(&used.line.place.file)?;
            let (bytes, text) = (&file.0, &file.1);
            let call = text.token_at(range.start)?.form?;
            let Datum::Form(argument) = text.elements(call).nth(passed.place + 1)? else { return None };
            let mut parts = text.elements(argument);
            let Datum::Token(head) = parts.next()? else { return None };
            let Datum::Form(quoted) = parts.next()? else { return None };
            let Datum::Token(class) = text.elements(quoted).last()? else { return None };
            let is_made = text.tokens().get(head)?.is_named(bytes, "MAKE-INSTANCE")
                && text.form(quoted)?.kind == FormKind::Quote;
            let class = text.tokens().get(class)?.symbol(bytes);
            let index = &self.context.index;
            let package = class.package.as_deref().or(used.line.package.as_deref())?;
            let (symbol, _) = index.symbol_named(package, &class.name)?;
            is_made.then(|| !passed.classes.contains(&index.symbol_text(symbol)))
        };
        !shows_another().unwrap_or(false)
    }

    /// Whether the generic function is defined outside of the project.
    pub(crate) fn is_foreign(&self, target: &Target) -> bool {
        if PackageOwner::of(&target.package) != PackageOwner::User {
            return true;
        }
        let mut elsewhere = false;
        for FileVersion { path, .. } in self.context.project.naming(&target.name) {
            let shown = self.context.project.shown(&path);
            let defines = |known: &DefinitionInFile| {
                known.definition.name == target.name
                    && known.home.as_deref() == Some(&target.package)
                    && matches!(
                        known.definition.kind,
                        DefinitionKind::GenericFunction | DefinitionKind::Accessor
                    )
            };
            if self.enclosing.definitions(&shown).iter().any(defines) {
                if self.is_own(&shown) {
                    return false;
                }
                elsewhere = true;
            }
        }
        elsewhere
    }

    /// Finds the forms that make an instance of a class or of one below it.
    pub(crate) fn makers(&self, package: &str, name: &str, control: &Control) -> Result<Vec<UsedBy>, Error> {
        let below: Subclasses =
            self.context.ask("subclasses", vec![name.to_owned(), package.to_owned()], control)?;
        let mut classes = vec![Target::any(package, name)];
        classes.extend(below.subclasses.iter().filter_map(|class| function_in(class)));
        let mut found = Vec::new();
        for class in classes {
            control.check()?;
            found.extend(self.made(&class));
        }
        Ok(found)
    }

    /// Finds the forms that make an instance of the class itself.
    pub(crate) fn made(&self, class: &Target) -> Vec<UsedBy> {
        let made = self.given(class).into_iter();
        made.filter(|(_, makes)| *makes).map(|(used, _)| used).collect()
    }

    /// Finds the forms to which the class itself is given quoted, and whether they make an instance of it. If not they are calls of
    /// what is not the standard's, which may.
    pub(crate) fn given(&self, class: &Target) -> Vec<(UsedBy, bool)> {
        let uses = self.counter.uses(&class.name, &class.package).into_iter();
        uses.filter_map(|used| self.makes(&used).map(|makes| (self.user(used), makes))).collect()
    }

    /// Whether the class that is used stands quoted where an operator takes the class of what it makes; none if what it is given
    /// to makes nothing.
    fn makes(&self, used: &Counted) -> Option<bool> {
        let file = used.place.range.and_then(|_| self.enclosing.text(&used.place.file))?;
        let (bytes, text) = (&file.0, &file.1);
        let at = used.place.range.map_or(0, |range| range.start);
        let quote = text
            .forms()
            .iter()
            .rposition(|form| form.kind == FormKind::Quote && form.span.start <= at && at < form.span.end)
            .map(FormId::new)?;
        let call = text.form(quote)?.parent?;
        let mut parts: Vec<Datum> = text.elements(call).collect();
        let named = |part: &Datum| match *part {
            Datum::Token(token) => text.tokens().get(token),
            // The name of the function that is applied.
            Datum::Form(form) => text.elements(form).find_map(|inner| match inner {
                Datum::Token(token) => text.tokens().get(token),
                Datum::Form(_) => None,
            }),
        };
        let mut operator = named(parts.first()?)?.symbol(bytes).name;
        if ["APPLY", "FUNCALL"].contains(&operator.as_ref()) && parts.get(1) != Some(&Datum::Form(quote)) {
            parts.remove(0);
            operator = named(parts.first()?)?.symbol(bytes).name;
        }
        if MAKERS.contains(&operator.as_ref()) {
            let place = if operator == "CHANGE-CLASS" { 2 } else { 1 };
            return (parts.get(place) == Some(&Datum::Form(quote))).then_some(true);
        }
        let index = &self.context.index;
        let standard = index.find_package("COMMON-LISP", None)?;
        let is_standard =
            index.find_symbol(&operator, standard).is_some_and(|(_, access)| access == Access::External);
        (!is_standard && parts.contains(&Datum::Form(quote))).then_some(false)
    }

    fn user(&self, line: Counted) -> UsedBy {
        let definitions = self.enclosing.definitions(&line.place.file);
        let around = innermost(&*definitions, &line.place);
        let defined = around.map(|known| known.definition.kind);
        // A function without a name is told by the definition around it.
        let is_lambda =
            |caller: &&String| elements(caller).is_some_and(|parts| parts.first() == Some(&"LAMBDA"));
        let user = match (line.caller.as_ref().filter(|caller| !is_lambda(caller)), around) {
            // A local function of top-level code is told by its file as answers show it.
            (Some(caller), _) => match caller.split_once(":IN \"") {
                Some((before, _)) => {
                    let before = name::written(&self.context.index, before);
                    let name = format!("{before}:in {})", line.place.file);
                    Node { name, target: None, is_toplevel: true }
                }
                None => Node::of(caller),
            },
            (None, Some(known)) => self.enclosing.node(known),
            (None, None) => Node {
                name: format!("top level of {}", line.place.clone().whole_line()),
                target: None,
                is_toplevel: true,
            },
        };
        let is_made = around.is_some_and(|known| line.caller.is_none() && line.is_operator(known));
        let in_project = self.is_own(&line.place.file);
        UsedBy { user, line, defined, is_made, in_project }
    }

    /// Finds the functions of the project that the compiler recorded as calling or expanding the target; those of
    /// others, too, if `everywhere`.
    pub(crate) fn recorded(&self, target: &Target, everywhere: bool) -> Vec<Node> {
        let index = &self.context.index;
        let Some((symbol, _)) = index.symbol_named(&target.package, &target.name) else { return Vec::new() };
        let kinds = [Kind::Calls, Kind::Macroexpands].into_iter();
        let found = kinds.flat_map(|kind| index.who(kind, symbol, |role| target.sense.accepts_role(role)));
        let found = found.filter(|found| {
            found.kind != FunctionKind::Lambda
                && (everywhere || found.file.as_deref().is_none_or(|file| self.is_own(file)))
        });
        found.map(|found| Node::of(&found.function)).collect()
    }

    /// Lists the functions that use what the node names and were compiled without a file, each with what it does.
    pub(crate) fn without_file(&self, node: &Node) -> BTreeSet<(String, Kind)> {
        let found = node.target.as_ref().map(|it| self.counter.without_file(&it.name, &it.package));
        found.unwrap_or_default()
    }

    /// Whether a use of `name` is a call, a macro's expansion, or a call in the template of a macro or setf
    /// definition.
    pub(crate) fn is_call(used: &UsedBy, name: &str) -> bool {
        match used.line.use_type {
            UseType::Template => used.defined.is_some_and(makes_code) && used.line.calls_in_text(name),
            use_type => use_type.is_call(),
        }
    }

    /// Finds what the templates of a macro or setf definition call: home packages and names.
    pub(crate) fn called_by_templates(&self, target: &Target) -> BTreeSet<(String, String)> {
        let (package, name) = (target.package.as_str(), target.name.as_str());
        let project = self.context.project;
        let mut called = BTreeSet::new();
        for FileVersion { path, write_date } in project.naming(name) {
            let shown = project.shown(&path);
            for known in self.enclosing.definitions(&shown).iter() {
                let (definition, home) = (&known.definition, known.home.as_deref());
                let is_it = Target::defined(known).is_some_and(|defined| defined.sense == target.sense);
                if !is_it || !makes_code(definition.kind) || definition.name != name || home != Some(package)
                {
                    continue;
                }
                let Ok(file) = project.positions(&path, write_date) else { continue };
                let forms = self.counter.forms(&shown);
                let form = forms.as_ref().as_ref().and_then(|forms| forms.at(definition.start));
                let symbols = form.map_or_else(Vec::new, |(form, _)| file.symbols_in(form as u32));
                for (package, name) in
                    symbols.into_iter().filter(|(package, _)| PackageOwner::of(package) == PackageOwner::User)
                {
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

/// Finds the function that a name is of, or local to: F of `(METHOD P::F (P::C))` and `(FLET G :IN P::F)`.
pub(crate) fn function_in(name: &str) -> Option<Target> {
    let found = Designator::parse(name).ok().filter(|found| !found.uninterned)?;
    let target = Target::function(&found.package?, &found.name, found.function_name);
    let is_type = elements(name).is_some_and(|parts| parts.first() == Some(&"TYPE-EXPANDER"));
    Some(if is_type { Target { sense: Sense::Any, ..target } } else { target })
}

/// Maps the printed name of each caller to the functions that it calls, SBCL's own left out.
pub(crate) fn callees(index: &Index) -> HashMap<String, BTreeSet<Node>> {
    let mut calls: HashMap<String, BTreeSet<Node>> = HashMap::new();
    for symbol in index.symbols() {
        let Some(home) = index.symbol_package(symbol) else { continue };
        let package = index.package_name(home);
        if PackageOwner::of(&package) != PackageOwner::User {
            continue;
        }
        let kinds = [Kind::Calls, Kind::Macroexpands];
        for (kind, sense) in kinds.into_iter().flat_map(|kind| [(kind, Sense::Function), (kind, Sense::Setf)])
        {
            for found in index.who(kind, symbol, |role| sense.accepts_role(role)) {
                let text = index.symbol_text(symbol);
                let called = if sense == Sense::Setf { format!("(SETF {text})") } else { text };
                calls.entry(found.function.into_owned()).or_default().insert(Node::of(&called));
            }
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::{Node, Sense, function_in};

    #[test]
    fn printed_names_tell_the_function_that_they_are_of() {
        let check = |printed: &str, expect: Option<(&str, &str, Sense)>| {
            let found = function_in(printed).map(|found| (found.package, found.name, found.sense));
            let expect = expect.map(|(package, name, sense)| (package.to_owned(), name.to_owned(), sense));
            assert_eq!(found, expect, "{printed}");
        };
        let function = |package, name| Some((package, name, Sense::Function));
        check("P::F", function("P", "F"));
        check("(SETF P::F)", Some(("P", "F", Sense::Setf)));
        check("(METHOD P::F :AROUND (Q::C (EQL 3)))", function("P", "F"));
        check("(METHOD (SETF P::F) (COMMON-LISP::T))", Some(("P", "F", Sense::Setf)));
        check("(FLET P::G :IN P::F)", function("P", "F"));
        check("(FLET P::G :IN (SETF P::F))", Some(("P", "F", Sense::Setf)));
        check("(FLET P::G :IN \"/a b/c.lisp\")", None);
        check("P::|a b|", function("P", "a b"));
        check("(METHOD P::|a b| (P::|c )|))", function("P", "a b"));
        check("#:G12", None);
        assert_eq!(
            Node::of("(METHOD P::F :AROUND (Q::C (EQL 3)))").specializers(),
            Some(vec!["Q::C", "(EQL 3)"])
        );
        assert_eq!(Node::of("(SETF P::F)").specializers(), None);
    }
}
