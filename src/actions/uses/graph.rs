//! The graph of definitions and their users, which call-graph, path, impact and who-makes follow.
//!
//! A [`Node`] is a definition or a top-level form; its [`Target`] is the symbol, in one
//! [`FunctionRole`], that other nodes use. [`UserFinder`] finds the users of a target: it searches
//! the symbol's uses with [`UseLines`] and names the definition around each.

use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

use serde::Deserialize;
use steelbank_reader::{Datum, Form, FormKind};
use steelbank_text::DefinitionKind;
use steelbank_xref::{Access, FunctionKind, Index, Kind, NameRole, SymbolName};

use super::code_find_references::{UseType, found};
use super::enclosing::{Enclosing, innermost};
use super::outline::DefinitionInFile;
use super::use_counts::{UseLine, UseLines};
use super::who::SetfUse;
use crate::answer::designator::{Designator, FunctionName, PrintedName};
use crate::answer::lookup::Lookup;
use crate::answer::package_owner::PackageOwner;
use crate::answer::{LispName, name};
use crate::engine::Control;
use crate::handle::{Error, QueryContext};
use crate::workspace::{FileVersion, ProjectFiles};

/// Lists the printed names of all subclasses of a class.
pub(crate) fn subclasses(
    context: &QueryContext<'_>,
    class: &SymbolName,
    control: &Control,
) -> Result<Vec<String>, Error> {
    #[derive(Deserialize)]
    struct Subclasses {
        #[serde(default)]
        subclasses: Vec<String>,
    }
    let found: Subclasses =
        context.ask("subclasses", vec![class.name.clone(), class.package.clone()], control)?;
    Ok(found.subclasses)
}

/// A definition or a place in top-level code, as a node of the graph.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Node {
    /// The canonical name. For top-level code, a description with its file.
    pub(crate) name: String,
    /// The target that other nodes use. `None`: nothing can use the node by name.
    pub(crate) target: Option<Target>,
    /// Whether the node is top-level code that nothing can use by name.
    pub(crate) is_toplevel: bool,
}

/// A symbol in one of its roles.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Target {
    pub(crate) symbol: SymbolName,
    pub(crate) role: FunctionRole,
}

/// Selects uses of a symbol by the symbol's role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FunctionRole {
    /// Any role: function, variable, class and so on.
    Any,
    /// The function or macro.
    Function,
    /// The function or setf expander `(SETF NAME)`.
    Setf,
}

impl FunctionRole {
    /// Whether a use is of this role.
    fn accepts(self, used: &UseLine) -> bool {
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
            Self::Function => of_function && used.called != SetfUse::Setf,
            Self::Setf => of_function && used.called != SetfUse::Itself,
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
    pub(crate) fn any(symbol: SymbolName) -> Self {
        Self { symbol, role: FunctionRole::Any }
    }

    /// Creates the target for a name that a request gives. A symbol stands for everything that it
    /// names, `(SETF NAME)` only for itself, and `(CAS NAME)` or `(COMPILER-MACRO NAME)` for the
    /// function.
    pub(crate) fn requested(symbol: SymbolName, written: FunctionName) -> Self {
        let role = match written {
            FunctionName::Plain => FunctionRole::Any,
            FunctionName::Setf => FunctionRole::Setf,
            FunctionName::Cas | FunctionName::CompilerMacro => FunctionRole::Function,
        };
        Self { symbol, role }
    }

    /// Returns the target that a definition in the text defines. Returns `None` if code cannot use
    /// it by name.
    pub(crate) fn defined(known: &DefinitionInFile) -> Option<Self> {
        let definition = &known.definition;
        let symbol = known.full_name().filter(|_| !known.names_standard())?;
        let role = match definition.kind {
            DefinitionKind::Setf => FunctionRole::Setf,
            _ if definition.setf => FunctionRole::Setf,
            DefinitionKind::Function
            | DefinitionKind::GenericFunction
            | DefinitionKind::Method
            | DefinitionKind::Macro
            | DefinitionKind::CompilerMacro => FunctionRole::Function,
            _ => FunctionRole::Any,
        };
        Some(Self { symbol, role })
    }
}

impl Node {
    /// Creates the node of the function with the printed name `caller`.
    pub(crate) fn of(caller: &str) -> Self {
        let printed = PrintedName::parse(caller);
        let name = match printed.head {
            "MACRO-FUNCTION" => printed.name.to_owned(),
            "%DEFSETF" | "SETF-EXPANDER" => format!("(SETF {})", printed.name),
            _ => caller.to_owned(),
        };
        Self { name, target: function_in(caller), is_toplevel: false }
    }

    /// Returns the name as answers show it.
    pub(crate) fn name(&self, index: &Index) -> LispName {
        match self.is_toplevel {
            true => LispName::of_text(&*self.name),
            false => LispName::new(index, &*self.name),
        }
    }

    /// Whether the node is a method of a generic function that is defined outside the project.
    pub(crate) fn is_foreign_method(&self, users: &UserFinder<'_>) -> bool {
        self.specializers().is_some() && self.target.as_ref().is_some_and(|target| users.is_foreign(target))
    }

    /// Returns the printed specializers of a method. Returns `None` for other nodes.
    fn specializers(&self) -> Option<Vec<&str>> {
        PrintedName::parse(&self.name).specializers()
    }
}

/// A use of a node by another node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UsedBy {
    pub(crate) user: Node,
    pub(crate) line: UseLine,
    /// The kind of the definition around the use in the text.
    pub(crate) defined: Option<DefinitionKind>,
    /// Whether the use is the operator of the form around it: the used macro generates the
    /// definition.
    pub(crate) generated: bool,
    /// Whether the use is in a file of the project.
    pub(crate) in_project: bool,
}

impl UsedBy {
    /// Whether the use is in a test or in a test file.
    pub(crate) fn is_in_test(&self) -> bool {
        self.defined == Some(DefinitionKind::Test) || self.line.in_tests
    }
}

/// The position of an argument in a generic function's calls, and the classes that
/// [`UserFinder::may_pass`] compares the argument with.
pub(crate) struct ArgumentClasses {
    position: usize,
    /// The class and its subclasses, as printed names.
    classes: BTreeSet<String>,
}

/// Finds the users of symbols. Reads each file once.
pub(crate) struct UserFinder<'a> {
    context: &'a QueryContext<'a>,
    pub(crate) use_lines: UseLines<'a>,
    pub(crate) enclosing: Enclosing<'a>,
    own: Option<ProjectFiles>,
}

/// The standard operators that take a class as an argument and create an instance of this class.
/// CHANGE-CLASS, which changes an instance, is included.
const CONSTRUCTORS: [&str; 7] =
    ["MAKE-INSTANCE", "ALLOCATE-INSTANCE", "MAKE-CONDITION", "ERROR", "SIGNAL", "WARN", "CHANGE-CLASS"];

impl<'a> UserFinder<'a> {
    pub(crate) fn new(context: &'a QueryContext<'a>, control: &'a Control) -> Self {
        Self {
            context,
            use_lines: UseLines::new(context, control),
            enclosing: Enclosing::new(context),
            own: context.project.root().map(|_| context.project.project_files()),
        }
    }

    /// Whether the file that answers show as `path` belongs to the project. Without a project, all
    /// files belong to it.
    fn is_project_file(&self, path: &str) -> bool {
        let own = |own: &ProjectFiles| {
            !path.starts_with("SYS:") && own.contains(&self.context.project.native(path))
        };
        self.own.as_ref().is_none_or(own)
    }

    /// Finds the uses of `target` in its role, each with the definition around it. Exports,
    /// imports, declarations and block names are excluded.
    pub(crate) fn of(&self, target: &Target) -> Vec<UsedBy> {
        let uses = self.use_lines.uses(&target.symbol).into_iter();
        let uses = uses.filter(|used| !used.is_declaration && target.role.accepts(used));
        uses.map(|line| self.user(line)).collect()
    }

    /// Finds the users of a node. A node without a target has none. For a method on a generic
    /// function from outside the project, only the forms that construct its class or a subclass are
    /// found, and only if the generic function allocates or initializes instances. Other callers of
    /// such a method are unknown.
    pub(crate) fn of_node(&self, node: &Node, control: &Control) -> Result<Vec<UsedBy>, Error> {
        let Some(target) = &node.target else { return Ok(Vec::new()) };
        let Some(specializers) = node.specializers().filter(|_| node.is_foreign_method(self)) else {
            return Ok(self.of(target));
        };
        let makes = ["INITIALIZE-INSTANCE", "SHARED-INITIALIZE", "ALLOCATE-INSTANCE", "MAKE-INSTANCE"];
        let mut found = Vec::new();
        if makes.contains(&target.symbol.name.as_str())
            && let Some(class) = specializers.first().and_then(|class| Designator::parse(class).ok())
        {
            let class = SymbolName::new(class.package.unwrap_or_default(), class.name);
            found = self.constructions(class, control)?;
        }
        Ok(found)
    }

    /// Returns the position of the argument on which the methods of `function` specialize on
    /// `class`, and the printed names of the class and its subclasses. Without such a method, the
    /// position is 0.
    pub(crate) fn argument_classes(
        &self,
        context: &QueryContext<'_>,
        function: &Target,
        class: &str,
        control: &Control,
    ) -> Result<ArgumentClasses, Error> {
        let index = &context.index;
        let lookup = Lookup::resolved(index, class, Some(&function.symbol.package))?;
        let symbol = found(index, context.project, &lookup)?;
        let printed = index.symbol_text(symbol);
        let methods = index.who(Kind::Specializes, symbol, |_| true).into_iter();
        let place = methods.map(|found| Node::of(&found.function)).find_map(|method| {
            let is_its = method.target.as_ref() == Some(function);
            method.specializers().filter(|_| is_its)?.iter().position(|class| *class == printed)
        });
        let below = subclasses(context, &index.full_name(symbol), control)?;
        let classes = below.into_iter().chain([printed]).collect();
        Ok(ArgumentClasses { position: place.unwrap_or(0), classes })
    }

    /// Whether a call may pass an instance of one of the classes. Returns `false` only if the
    /// argument is a MAKE-INSTANCE form with another class.
    pub(crate) fn may_pass(&self, used: &UsedBy, passed: &ArgumentClasses) -> bool {
        let shows_another = || {
            let range = used.line.place.range?;
            let file = self.enclosing.text(&used.line.place.file)?;
            let (bytes, text) = (&file.0, &file.1);
            let call = text.token_at(range.start)?.form?;
            let Datum::Form(argument) = text.elements(call).nth(passed.position + 1)? else { return None };
            let mut parts = text.elements(argument);
            let head = text.token(parts.next()?)?;
            let Datum::Form(quoted) = parts.next()? else { return None };
            let class = text.token(text.elements(quoted).last()?)?.symbol(bytes);
            let generated =
                head.is_named(bytes, "MAKE-INSTANCE") && text.form(quoted)?.kind == FormKind::Quote;
            let index = &self.context.index;
            let package = class.package.as_deref().or(used.line.package.as_deref())?;
            let (symbol, _) = index.symbol_named(package, &class.name)?;
            generated.then(|| !passed.classes.contains(&index.symbol_text(symbol)))
        };
        !shows_another().unwrap_or(false)
    }

    /// Whether the target is from outside the project: its package is not the user's, or the text
    /// defines the generic function only in files outside the project.
    pub(crate) fn is_foreign(&self, target: &Target) -> bool {
        if PackageOwner::of(&target.symbol.package) != PackageOwner::User {
            return true;
        }
        let is_generic = |(_, known, at): &(FileVersion, Rc<Vec<DefinitionInFile>>, usize)| {
            matches!(known[*at].definition.kind, DefinitionKind::GenericFunction | DefinitionKind::Accessor)
        };
        let mut found = self.definitions_of(&target.symbol).into_iter().filter(is_generic).peekable();
        found.peek().is_some() && found.all(|(_, known, at)| !self.is_project_file(&known[at].path))
    }

    /// Lists the definitions of a symbol in loaded files: the file, its definitions, and the number
    /// of the symbol's definition among these.
    pub(crate) fn definitions_of(
        &self,
        symbol: &SymbolName,
    ) -> Vec<(FileVersion, Rc<Vec<DefinitionInFile>>, usize)> {
        let mut found = Vec::new();
        for version in self.context.project.naming(&symbol.name) {
            let all = self.enclosing.definitions(&self.context.project.shown(&version.path));
            let is_it = |at: &usize| all[*at].full_name().as_ref() == Some(symbol);
            found.extend((0..all.len()).filter(is_it).map(|at| (version.clone(), Rc::clone(&all), at)));
        }
        found
    }

    /// Whether the used symbol is an element of a quoted list or vector. In `'NAME`, where it may
    /// be called, it is not.
    pub(crate) fn is_in_data(&self, used: &UsedBy) -> bool {
        let kind = || {
            let file = self.enclosing.text(&used.line.place.file)?;
            let form = file.1.token_at(used.line.place.range?.start)?.form?;
            Some(file.1.form(form)?.kind)
        };
        used.line.use_type == UseType::Quoted && kind().is_some_and(|kind| kind != FormKind::Quote)
    }

    /// Finds the forms that create an instance of a class or of a subclass.
    pub(crate) fn constructions(&self, class: SymbolName, control: &Control) -> Result<Vec<UsedBy>, Error> {
        let below = subclasses(self.context, &class, control)?;
        let below = below.iter().filter_map(|class| function_in(class)).map(|class| class.symbol);
        let mut found = Vec::new();
        for class in std::iter::once(class).chain(below) {
            control.check()?;
            found.extend(self.direct_constructions(&class));
        }
        Ok(found)
    }

    /// Finds the forms that create an instance of exactly this class.
    pub(crate) fn direct_constructions(&self, class: &SymbolName) -> Vec<UsedBy> {
        let made = self.class_arguments(class).into_iter();
        made.filter(|(_, makes)| *makes).map(|(used, _)| used).collect()
    }

    /// Finds the forms with the quoted class as an argument. The flag is true if the form creates
    /// an instance, and false if it calls a non-standard function that may create an instance.
    pub(crate) fn class_arguments(&self, class: &SymbolName) -> Vec<(UsedBy, bool)> {
        let uses = self.use_lines.uses(class).into_iter();
        uses.filter_map(|used| self.is_construction(&used).map(|makes| (self.user(used), makes))).collect()
    }

    /// Returns `Some(true)` if the use is the class argument of a constructor such as
    /// MAKE-INSTANCE. Returns `Some(false)` if the class is passed to a function that may create an
    /// instance, and `None` for other uses.
    fn is_construction(&self, used: &UseLine) -> Option<bool> {
        let file = used.place.range.and_then(|_| self.enclosing.text(&used.place.file))?;
        let (bytes, text) = (&file.0, &file.1);
        let at = used.place.range.map_or(0, |range| range.start);
        let is_quote = |form: &Form| form.kind == FormKind::Quote && at < form.span.end;
        let quote = text.forms_before(at + 1).find(|id| text.form(*id).is_some_and(is_quote))?;
        let call = text.form(quote)?.parent?;
        let mut parts: Vec<Datum> = text.elements(call).collect();
        // For `#'NAME` and 'NAME: the name of the function that is applied.
        let named = |part: &Datum| {
            text.token(*part).or_else(|| text.parts(*part).into_iter().find_map(|part| text.token(part)))
        };
        let mut operator = named(parts.first()?)?.symbol(bytes).name;
        if ["APPLY", "FUNCALL"].contains(&operator.as_ref()) && parts.get(1) != Some(&Datum::Form(quote)) {
            parts.remove(0);
            operator = named(parts.first()?)?.symbol(bytes).name;
        }
        if CONSTRUCTORS.contains(&operator.as_ref()) {
            let place = if operator == "CHANGE-CLASS" { 2 } else { 1 };
            return (parts.get(place) == Some(&Datum::Form(quote))).then_some(true);
        }
        let index = &self.context.index;
        let standard = index.find_package("COMMON-LISP", None)?;
        let is_standard =
            index.find_symbol(&operator, standard).is_some_and(|(_, access)| access == Access::External);
        (!is_standard && parts.contains(&Datum::Form(quote))).then_some(false)
    }

    fn user(&self, line: UseLine) -> UsedBy {
        let definitions = self.enclosing.definitions(&line.place.file);
        let around = innermost(&definitions, &line.place, |_| true);
        let defined = around.map(|known| known.definition.kind);
        // A LAMBDA has no name: use the definition around it.
        let in_file = |caller| PrintedName::parse(caller).within.filter(|within| within.starts_with('"'));
        let is_lambda = |caller: &&String| PrintedName::parse(caller).head == "LAMBDA";
        let user = match (line.caller.as_ref().filter(|caller| !is_lambda(caller)), around) {
            // SBCL names a local function of top-level code after its file: replace the path by the
            // one that answers show.
            (Some(caller), _) => match in_file(caller).and_then(|file| caller.split_once(file)) {
                Some((before, _)) => {
                    let before = name::written(&self.context.index, before);
                    let name = format!("{before}{})", line.place.file);
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
        let generated = around.is_some_and(|known| line.caller.is_none() && line.is_operator(known));
        let in_project = self.is_project_file(&line.place.file);
        UsedBy { user, line, defined, generated, in_project }
    }

    /// Finds the functions that the compiler recorded as calling or expanding the target: those of
    /// the project, or of all code if `everywhere`. Functions without a file count as the
    /// project's. Lambda functions are omitted.
    pub(crate) fn recorded(&self, target: &Target, everywhere: bool) -> Vec<Node> {
        let index = &self.context.index;
        let Some(symbol) = index.named(&target.symbol) else { return Vec::new() };
        let kinds = [Kind::Calls, Kind::Macroexpands].into_iter();
        let found = kinds.flat_map(|kind| index.who(kind, symbol, |role| target.role.accepts_role(role)));
        let found = found.filter(|found| {
            found.kind != FunctionKind::Lambda
                && (everywhere || found.file.as_deref().is_none_or(|file| self.is_project_file(file)))
        });
        found.map(|found| Node::of(&found.function)).collect()
    }

    /// Lists the functions that use the node's target and were compiled without a file, each with
    /// the kind of use.
    pub(crate) fn without_file(&self, node: &Node) -> BTreeSet<(String, Kind)> {
        let found = node.target.as_ref().map(|target| self.use_lines.without_file(&target.symbol));
        found.unwrap_or_default()
    }

    /// Whether a use of `name` is a call, a reference to the function, a macro's expansion, or a
    /// call in the template of a macro, compiler macro or setf definition.
    pub(crate) fn is_call(used: &UsedBy, name: &str) -> bool {
        match used.line.use_type {
            UseType::Template => used.defined.is_some_and(has_templates) && used.line.calls_in_text(name),
            use_type => use_type.is_call(),
        }
    }

    /// Finds the functions of user packages that the templates of a macro, compiler macro or setf
    /// definition call.
    pub(crate) fn called_by_templates(&self, target: &Target) -> BTreeSet<SymbolName> {
        let mut called = BTreeSet::new();
        for (FileVersion { path, write_date }, known, at) in self.definitions_of(&target.symbol) {
            let known = &known[at];
            let is_it = Target::defined(known).is_some_and(|defined| defined.role == target.role);
            if !is_it || !has_templates(known.definition.kind) {
                continue;
            }
            let Ok(file) = self.context.project.positions(&path, write_date) else { continue };
            let is_users = |symbol: &&SymbolName| PackageOwner::of(&symbol.package) == PackageOwner::User;
            for symbol in file.symbols_in(known.definition.form as u32).into_iter().filter(is_users) {
                let here = |line: &UseLine| {
                    known.has(&line.place)
                        && line.use_type == UseType::Template
                        && line.calls_in_text(&symbol.name)
                };
                if self.use_lines.lines(symbol).iter().any(here) {
                    called.insert(symbol.clone());
                }
            }
        }
        called
    }
}

/// Whether a definition of this kind has templates that become code where it is used.
fn has_templates(kind: DefinitionKind) -> bool {
    matches!(kind, DefinitionKind::Macro | DefinitionKind::Setf | DefinitionKind::CompilerMacro)
}

/// Returns the function to which a printed name belongs: F for `(METHOD P::F (P::C))` and `(FLET G
/// :IN P::F)`. Returns `None` if the name cannot be read or has no package.
pub(crate) fn function_in(name: &str) -> Option<Target> {
    let found = Designator::parse(name).ok().filter(|found| !found.uninterned)?;
    let role = match found.function_name {
        FunctionName::Setf => FunctionRole::Setf,
        _ if PrintedName::parse(name).head == "TYPE-EXPANDER" => FunctionRole::Any,
        _ => FunctionRole::Function,
    };
    Some(Target { symbol: SymbolName::new(found.package?, found.name), role })
}

/// Maps the printed name of each caller to the functions and macros of user packages that it calls.
pub(crate) fn callees(index: &Index) -> HashMap<String, BTreeSet<Node>> {
    let mut calls: HashMap<String, BTreeSet<Node>> = HashMap::new();
    for symbol in index.symbols() {
        let Some(home) = index.symbol_package(symbol) else { continue };
        let package = index.package_name(home);
        if PackageOwner::of(&package) != PackageOwner::User {
            continue;
        }
        let kinds = [Kind::Calls, Kind::Macroexpands];
        for (kind, role) in
            kinds.into_iter().flat_map(|kind| [(kind, FunctionRole::Function), (kind, FunctionRole::Setf)])
        {
            for found in index.who(kind, symbol, |name| role.accepts_role(name)) {
                let text = index.symbol_text(symbol);
                let called = if role == FunctionRole::Setf { format!("(SETF {text})") } else { text };
                calls.entry(found.function.into_owned()).or_default().insert(Node::of(&called));
            }
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::{FunctionRole, Node, function_in};

    #[test]
    fn function_in_reads_printed_names() {
        let check = |printed: &str, expect: Option<(&str, &str, FunctionRole)>| {
            let found =
                function_in(printed).map(|found| (found.symbol.package, found.symbol.name, found.role));
            let expect = expect.map(|(package, name, role)| (package.to_owned(), name.to_owned(), role));
            assert_eq!(found, expect, "{printed}");
        };
        let function = |package, name| Some((package, name, FunctionRole::Function));
        check("P::F", function("P", "F"));
        check("(SETF P::F)", Some(("P", "F", FunctionRole::Setf)));
        check("(METHOD P::F :AROUND (Q::C (EQL 3)))", function("P", "F"));
        check("(METHOD (SETF P::F) (COMMON-LISP::T))", Some(("P", "F", FunctionRole::Setf)));
        check("(FLET P::G :IN P::F)", function("P", "F"));
        check("(FLET P::G :IN (SETF P::F))", Some(("P", "F", FunctionRole::Setf)));
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
