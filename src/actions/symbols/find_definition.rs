//! Implements find-definition, which lists every definition of a symbol, of any kind.
//!
//! The image records each definition and its top-level form. The text, as SBCL's reader saw it,
//! gives the position of the name in that form. A name that a macro generates (structure accessors,
//! `define-foo`) may not occur in the text; the answer then has the position of the form. If the
//! image lacks the symbol, the text of files that are not loaded is searched.

mod text;
pub(crate) mod tool;

use crate::actions::uses::computed::all_computed_names;
use crate::answer::{LispKind, LispName, Location, some_of};
use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::uses::code_find_references::found;
use crate::actions::uses::enclosing::Enclosing;
use crate::actions::uses::symbol_uses::SymbolUses;
use crate::actions::uses::unloaded::{TextDefined, text_definitions};
use crate::answer::NotFound;
use crate::answer::designator::{FunctionName, PrintedName};
use crate::answer::location::as_text;
use crate::answer::lookup::{Asked, NamedSymbol, about_symbol, find_package};
use crate::answer::package_owner::PackageOwner;
use crate::engine::{Control, Lane, read_json};
use crate::handle::{Error, QueryContext, Question};
use crate::source::positions::{Evidence, Occurrence, PositionedFile, universal_write_date};
use crate::source::tap::operators::Defined;
use crate::source::tap::roles::SyntaxRole;
use crate::workspace::{FileVersion, TreeView};
use steelbank_reader::{Dialect, Features, FormKind, LispText, Range};
use steelbank_xref::{Index, SymbolName};

/// The image's answer to the call `find-definitions`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ImageDefinitions {
    /// The definitions; absent if there are none.
    #[serde(default)]
    pub definitions: Vec<ImageDefinition>,
    /// Whether the symbol names a function, macro, class or global variable.
    #[serde(default)]
    pub defined: bool,
}

impl ImageDefinitions {
    /// Asks the image for the definitions of a symbol.
    ///
    /// # Errors
    /// Fails if Lisp cannot answer or the request was cancelled.
    pub(crate) fn ask(
        context: &QueryContext<'_>,
        sought: &SymbolName,
        control: &Control,
    ) -> Result<Self, Error> {
        let SymbolName { name, package } = sought.clone();
        let ticket = context.lisp.submit(Lane::Query, control.allowed(), None, move |on_lisp| {
            on_lisp.call("find-definitions", &[&name, &package])
        });
        let found: Self = read_json(&control.wait(ticket)?.bytes)?;
        let mut sources = found.definitions.iter().flat_map(|definition| &definition.sources);
        if sources.any(|source| source.write_date.is_some_and(|date| context.project.is_unknown_text(date))) {
            context.bank.learn_buffer_texts(control)?;
        }
        Ok(found)
    }

    /// Describes the definition of a user's symbol that the image records without a file, and the
    /// code that may generate its name. Returns `None` if there is no such definition.
    pub(crate) fn without_source(
        &self,
        context: &QueryContext<'_>,
        view: &TreeView,
        SymbolName { package, name }: &SymbolName,
    ) -> Option<String> {
        let is_recorded = self.definitions.iter().any(|found| found.kind != LispKind::Declaration);
        if !self.defined || is_recorded || PackageOwner::of(package) != PackageOwner::User {
            return None;
        }
        let made = "Code that ran, such as EVAL, made the definition, and the image records no file with it.";
        let all = all_computed_names(context, view);
        let makers = all.iter().filter(|found| !found.is_open() && found.may_make(name));
        let makers: Vec<String> = makers.map(|found| found.place.to_string()).collect();
        let generated =
            || format!("{made} Its name may be generated in {}.", some_of(&makers, String::clone));
        Some(if makers.is_empty() { made.to_owned() } else { generated() })
    }
}

/// One definition as the image reports it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct ImageDefinition {
    /// The kind: `function`, `macro`, `method`, `class`, …
    pub kind: LispKind,
    /// The canonical name.
    pub name: String,
    /// The definition's sources, as far as Lisp recorded them.
    #[serde(default)]
    pub sources: Vec<ImageSource>,
    /// Whether its function was created under another name or without a name. The sources are those
    /// of the function.
    #[serde(default)]
    pub(crate) alias: bool,
}

impl ImageDefinition {
    /// Returns the name in source spelling.
    pub(crate) fn name(&self, index: &Index) -> LispName {
        match self.kind {
            LispKind::Package => LispName::of_text(&*self.name),
            _ => LispName::new(index, &*self.name),
        }
    }
}

/// A definition's source as the image reports it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct ImageSource {
    /// A native path or a logical name.
    pub file: String,
    /// The top-level form's number, followed by the path inside the form.
    #[serde(default)]
    pub form_path: Vec<u32>,
    /// The number of the sub-form.
    #[serde(default)]
    pub form_number: Option<u32>,
    /// The file's write date when it was compiled.
    #[serde(default)]
    pub write_date: Option<u64>,
    /// Number of octets before the top-level form and the white space in front of it.
    #[serde(default)]
    pub octet_offset: Option<u32>,
}

/// One definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FoundDefinition {
    /// The kind: `function`, `generic-function`, `method`, `macro`, `variable`, `constant`,
    /// `class`, `structure`, `condition`, `type`, …; `name` for a definition of unclear kind in the
    /// text.
    pub kind: LispKind,
    /// The definition's name.
    pub name: LispName,
    /// Position of the name if it was found, otherwise of the form: `file:line:column`.
    #[serde(rename = "at", serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub place: Location,
    /// The text of the line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// How certain the position is, if it is not exact. `via`: the form generates the definition
    /// without containing its name.
    #[serde(skip_serializing_if = "Evidence::is_exact")]
    #[schemars(with = "Option<Evidence>")]
    pub evidence: Evidence,
    /// For a definition by one of the program's macros, `kind` is the macro's name and this is the
    /// kind that the image reports.
    #[serde(skip)]
    pub defines: Option<LispKind>,
    /// For evidence `via`: the operator of the form that generates the definition.
    #[serde(skip)]
    pub generated_by: Option<String>,
    /// Whether the file changed after it was loaded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// Whether the image lacks the definition, because its text is not loaded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub not_loaded: bool,
}

/// The answer to find-definition, sorted by path and line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FindDefinitionAnswer {
    /// The symbol, or the `(setf …)` name, that was requested.
    pub symbol: LispName,
    /// The definitions, by position.
    pub definitions: Vec<FoundDefinition>,
    /// Number of definitions.
    pub count: usize,
    /// The package where the name was found, if none was given and CL-USER lacks the name.
    #[serde(skip)]
    pub looked_up_in: Option<String>,
    /// A sentence if the image has a definition, but no file with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_source: Option<String>,
}

impl FindDefinitionAnswer {
    fn new(symbol: LispName, definitions: Vec<FoundDefinition>, looked_up_in: Option<String>) -> Self {
        Self { symbol, count: definitions.len(), definitions, looked_up_in, without_source: None }
    }
}

/// A symbol that was looked up, with the function name that the request gave.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The symbol, or the `(setf …)` name, that was requested.
    pub(crate) name: LispName,
    /// The symbol's name and home package, for calls to the image.
    pub sought: SymbolName,
    function_name: FunctionName,
    /// The package where the name was found, if none was given and CL-USER lacks the name.
    pub looked_up_in: Option<String>,
}

impl Resolved {
    pub(crate) fn of(uses: &SymbolUses<'_>) -> Self {
        let function_name = uses.function_name();
        Self { name: uses.name(), sought: uses.sought().clone(), function_name, looked_up_in: None }
    }

    /// Looks up the symbol that a request names.
    ///
    /// # Errors
    /// Fails if the symbol or package does not exist, or if the name cannot be parsed.
    pub(crate) fn new(context: &QueryContext<'_>, named: &NamedSymbol) -> Result<Self, Error> {
        let (context, lookup) = context.resolve_symbol(named)?;
        let index = &context.index;
        let symbol = found(index, context.project, &lookup)?;
        let uses = SymbolUses::new(index, symbol, lookup.function_name);
        Ok(Self { looked_up_in: lookup.looked_up_in, ..Self::of(&uses) })
    }

    /// Returns the head of a function name that is a list: `SETF`, `CAS` or `COMPILER-MACRO`.
    pub(crate) fn head(&self) -> Option<&'static str> {
        self.function_name.head()
    }

    /// Tests whether a definition has the requested function name: `(setf f)` and `(cas f)` are
    /// other names with the symbol `f`. A plain name accepts every definition of its symbol.
    pub(crate) fn accepts(&self, definition: &ImageDefinition) -> bool {
        let head = match PrintedName::parse(&definition.name) {
            PrintedName { head: "METHOD", name, .. } => PrintedName::parse(name).head,
            PrintedName { head, .. } => head,
        };
        match self.function_name {
            FunctionName::Plain => true,
            FunctionName::CompilerMacro => definition.kind == LispKind::CompilerMacro,
            FunctionName::Setf if definition.kind == LispKind::SetfExpander => true,
            FunctionName::Setf | FunctionName::Cas => Some(head) == self.head(),
        }
    }
}

/// A request for the definitions of a symbol.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct FindDefinitionRequest {
    /// The symbol.
    #[serde(flatten)]
    pub symbol: NamedSymbol,
}

about_symbol!(FindDefinitionRequest {});

impl Question for FindDefinitionRequest {
    type Answer = FindDefinitionAnswer;

    const REPEATABLE: bool = true;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<FindDefinitionAnswer, Error> {
        let resolved = match Resolved::new(context, &self.symbol) {
            Err(Error::NotFound(NotFound::Symbol { asked, .. }))
                if let Some(answer) = from_text(context, &asked) =>
            {
                return Ok(answer);
            }
            resolved => resolved?,
        };
        let image = ImageDefinitions::ask(context, &resolved.sought, control)?;
        let mut answer = find_definition(context, &resolved, &image);
        if answer.definitions.is_empty() {
            let view = context.project.tree_view();
            answer.without_source = image.without_source(context, &view, &resolved.sought);
        }
        Ok(answer)
    }
}

/// Answers from files that are not loaded, for a symbol that the image lacks. Returns `None` if no
/// file defines it.
fn from_text(context: &QueryContext<'_>, asked: &Asked) -> Option<FindDefinitionAnswer> {
    let (index, project) = (&context.index, context.project);
    let target = asked.symbol(index, find_package(index, &asked.package));
    let found = text_definitions(index, project, &project.tree_view(), &target);
    let symbol = found.first()?.symbol.clone();
    let definitions = found.into_iter().map(|TextDefined { symbol, place, kind, context }| FoundDefinition {
        kind: LispKind::from_name(kind.name()),
        name: symbol,
        place,
        context: Some(context),
        evidence: Evidence::Approximate,
        defines: None,
        generated_by: None,
        stale: false,
        not_loaded: true,
    });
    let definitions: Vec<FoundDefinition> = definitions.collect();
    Some(FindDefinitionAnswer::new(symbol, definitions, None))
}

/// Adds source positions to the definitions that the image reported, and adds definitions that
/// occur only in the text.
pub(crate) fn find_definition(
    context: &QueryContext<'_>,
    resolved: &Resolved,
    image: &ImageDefinitions,
) -> FindDefinitionAnswer {
    let (project, sought) = (context.project, &resolved.sought);
    let (mut definitions, mut own) = (Vec::new(), context.sbcl.places());
    let mut named: BTreeSet<(PathBuf, u32)> = BTreeSet::new();
    let mut aliased: Vec<(FoundDefinition, &ImageDefinition)> = Vec::new();
    for definition in image.definitions.iter().filter(|definition| resolved.accepts(definition)) {
        for source in &definition.sources {
            let (mut found, form) = placed(context, sought, definition, source);
            // For SBCL's own code, only the start of the top-level form is known.
            if let Some(octets) = source.octet_offset.filter(|_| source.file.starts_with("SYS:"))
                && let Some(at) = own.form_after(&source.file, octets)
            {
                found.place = found.place.at(at);
            }
            if let (Evidence::Exact, Some(form)) = (found.evidence, form) {
                named.insert((PathBuf::from(&source.file), form));
            }
            match definition.alias {
                true => aliased.push((found, definition)),
                false => definitions.push(found),
            }
        }
    }
    // Search the text for plain names only, because the search does not distinguish `(setf name)`
    // from other lists.
    let naming = match resolved.function_name {
        FunctionName::Plain => project.naming(&sought.name),
        _ => Vec::new(),
    };
    let enclosing = Enclosing::new(context);
    for (found, alias) in aliased {
        let assigned = assignments(context, sought, alias, &found);
        definitions.extend(if assigned.is_empty() { vec![found] } else { assigned });
    }
    for FileVersion { path, write_date } in naming {
        let Ok(file) = project.positions(&path, write_date) else { continue };
        for found in file.occurrences(sought, &|_| false) {
            // Skip a form if the image reported its definition, because the first argument of a
            // `def…` macro is not always the name that the form defines.
            let place = Location::placed(project.shown(&path), &file, found.range);
            let is_test = || found.definer.is_some() && enclosing.names_test(sought, &place);
            if named.contains(&(path.clone(), found.form)) || !(defines(found.role) || is_test()) {
                continue;
            }
            definitions.push(FoundDefinition {
                kind: found.definer.map_or(LispKind::Name, |definer| LispKind::from_name(&definer)),
                name: resolved.name.clone(),
                place,
                context: Some(file.line_at(found.range)),
                evidence: if file.is_fresh() { Evidence::Exact } else { Evidence::Approximate },
                defines: None,
                generated_by: None,
                stale: !file.is_fresh(),
                not_loaded: false,
            });
        }
    }
    definitions.sort_by(|a, b| (&a.place, a.kind.name(), &a.name).cmp(&(&b.place, b.kind.name(), &b.name)));
    definitions.dedup();
    FindDefinitionAnswer::new(resolved.name.clone(), definitions, resolved.looked_up_in.clone())
}

/// Finds the names in SETF forms that may assign the function of `alias`, such as
/// `(setf (symbol-function 'name) …)`. `found` is the place of that function.
fn assignments(
    context: &QueryContext<'_>,
    sought: &SymbolName,
    alias: &ImageDefinition,
    found: &FoundDefinition,
) -> Vec<FoundDefinition> {
    let is_setf = PrintedName::parse(&alias.name).head == "SETF";
    let mut assigned = Vec::new();
    for FileVersion { path, write_date } in context.project.naming(&sought.name) {
        let Ok(file) = context.project.positions(&path, write_date) else { continue };
        let bytes = file.text().as_bytes();
        let text = LispText::read(bytes, Dialect::CommonLisp, &Features::sbcl());
        for name in file.occurrences(sought, &|_| false) {
            let around = text.forms().iter().rev().filter(|form| form.span.contains(name.range.start));
            let operators = around.filter(|form| form.kind == FormKind::List).map(|form| text.head(form));
            let operators = operators.map(|head| head.map(|head| head.symbol(bytes).name));
            let mut operators = operators.skip(usize::from(is_setf));
            let operator = operators.next().flatten();
            let is_place = match operator.as_deref() {
                Some("FDEFINITION" | "SYMBOL-FUNCTION") => alias.kind == LispKind::Function,
                Some("MACRO-FUNCTION") => alias.kind == LispKind::Macro,
                _ => false,
            };
            if is_place && operators.next().flatten().as_deref() == Some("SETF") {
                let evidence = if file.is_fresh() { Evidence::Exact } else { Evidence::Approximate };
                let place = Location::placed(context.project.shown(&path), &file, name.range);
                let (line, stale) = (Some(file.line_at(name.range)), !file.is_fresh());
                let generated_by = None;
                assigned.push(FoundDefinition {
                    place,
                    context: line,
                    evidence,
                    stale,
                    generated_by,
                    ..found.clone()
                });
            }
        }
    }
    assigned
}

/// Finds the method printed as `(METHOD NAME QUALIFIER (CLASS))` in its generic function's
/// definition, by its specializers other than T. Qualifiers are ignored: of several matches,
/// returns the first. If the definition has only one method, returns that method.
fn inner_method(file: &PositionedFile, form: u32, name: &str) -> Option<Range> {
    let methods = file.inner_methods(form);
    let specializers = name.trim_end_matches(')').rsplit('(').next().unwrap_or_default();
    let bare = |class: &str| class.rsplit(':').next().unwrap_or_default().to_owned();
    let wanted: Vec<String> =
        specializers.split_whitespace().map(bare).filter(|class| class != "T").collect();
    let same = |classes: &[&str]| classes.iter().filter(|class| **class != "T").eq(wanted.iter());
    match &methods[..] {
        [(only, _)] => Some(*only),
        _ => methods.iter().find(|(_, classes)| same(classes)).map(|(place, _)| *place),
    }
}

/// Tests whether the definition in the text can be of the kind that the image reports.
fn fits(kind: &LispKind, found: &Occurrence) -> bool {
    let Some(defined) = found.defined else { return true };
    match kind {
        LispKind::Function
        | LispKind::GenericFunction
        | LispKind::Method
        | LispKind::SetfExpander
        | LispKind::CompilerMacro => defined == Defined::Function || defined == Defined::Macro,
        LispKind::Macro => defined == Defined::Macro || defined == Defined::Function,
        LispKind::Variable | LispKind::Constant | LispKind::SymbolMacro => defined == Defined::Variable,
        LispKind::Class | LispKind::Condition => {
            defined == Defined::Class || found.role == SyntaxRole::Structure
        }
        LispKind::Structure => found.role == SyntaxRole::Structure,
        LispKind::Type | LispKind::AlienType | LispKind::MethodCombination => {
            matches!(defined, Defined::Other | Defined::Class) || found.role == SyntaxRole::Structure
        }
        _ => true,
    }
}

fn defines(role: SyntaxRole) -> bool {
    matches!(role, SyntaxRole::Definition | SyntaxRole::Structure)
}

/// Finds the position of `definition` at `source`. Also returns the number of its top-level form.
pub(crate) fn placed(
    context: &QueryContext<'_>,
    sought: &SymbolName,
    definition: &ImageDefinition,
    source: &ImageSource,
) -> (FoundDefinition, Option<u32>) {
    let (project, path) = (context.project, PathBuf::from(&source.file));
    let mut found = FoundDefinition {
        kind: definition.kind.clone(),
        name: definition.name(&context.index),
        place: Location::new(project.shown(&path)),
        context: None,
        evidence: Evidence::Approximate,
        defines: None,
        generated_by: None,
        stale: false,
        not_loaded: false,
    };
    let form = source.form_path.first().copied();
    // SBCL records no date for variables, classes and methods, so use the version that was loaded
    // last.
    let date =
        source.write_date.or_else(|| project.loaded_date(&path)).or_else(|| universal_write_date(&path));
    let Some(file) = date.and_then(|date| project.positions(&path, date).ok()) else { return (found, form) };
    let Some(form_number) = form else { return (found, form) };
    found.stale = !file.is_fresh();
    let start = file.form_range(form_number, source.form_number.unwrap_or(0));
    let occurrences: Vec<Occurrence> =
        file.occurrences(sought, &|_| false).into_iter().filter(|found| found.form == form_number).collect();
    let proper = |found: &&Occurrence| match &definition.kind {
        LispKind::Declaration => found.role == SyntaxRole::Declaration || defines(found.role),
        kind => defines(found.role) && fits(kind, found),
    };
    let after = |found: &&Occurrence| start.is_none_or(|start: Range| found.range.start >= start.start);
    // A `:method` option of DEFGENERIC does not repeat the name, so use the position of the option.
    let inner = if definition.kind == LispKind::Method {
        inner_method(&file, form_number, &definition.name)
    } else {
        None
    };
    // A form may define several things of the same name, so take the first definition after the
    // start of the sub-form.
    let name = occurrences.iter().filter(proper).find(after);
    let name =
        name.or_else(|| occurrences.iter().find(|found| found.role == SyntaxRole::Named && after(found)));
    // Also accept the name in a form of a project's defining macro, since the image reports that
    // the form defines it.
    let name = name.or_else(|| occurrences.iter().find(|found| found.definer.is_some() && after(found)));
    let name = name.filter(|_| inner.is_none());
    if let Some(definer) = name.and_then(|name| name.definer.clone()) {
        found.defines = Some(std::mem::replace(&mut found.kind, LispKind::from_name(&definer)));
    }
    let name = name.map(|name| name.range).or_else(|| file.defined_in_buffer(form_number, sought));
    let (range, evidence) = match (name, inner.or(start)) {
        (Some(name), _) if file.is_fresh() => (Some(name), Evidence::Exact),
        (Some(name), _) => (Some(name), Evidence::Approximate),
        (None, start) if file.has_sidecar() && file.is_fresh() => {
            found.generated_by = match inner {
                Some(_) => Some("defgeneric".to_owned()),
                None => file
                    .expander_at(form_number, source.form_number.unwrap_or(0))
                    .map(|expander| expander.name.to_lowercase()),
            };
            (start, Evidence::Via)
        }
        (None, start) => (start, Evidence::Approximate),
    };
    found.evidence = evidence;
    if let Some(range) = range {
        found.place = Location::placed(found.place.file, &file, range);
        found.context = Some(file.line_at(range));
    }
    (found, form)
}
