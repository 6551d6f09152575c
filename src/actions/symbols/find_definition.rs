//! find-definition: every place where a symbol is defined, as whatever kind of thing.
//!
//! The image knows what is defined and in which top-level form; the text, as SBCL's reader saw it, tells
//! where the name stands in that form. Names that a macro makes (structure accessors, `define-foo`) may stand
//! nowhere in it: then the place of the form is all that is known.

mod text;
pub(crate) mod tool;

use crate::answer::{LispKind, LispName, Location};
use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::uses::code_find_references::found;
use crate::actions::uses::symbol_uses::SymbolUses;
use crate::actions::uses::unseen::{SoughtSymbol, TextDefined, text_definitions};
use crate::answer::NotFound;
use crate::answer::designator::FunctionName;
use crate::answer::location::as_text;
use crate::answer::lookup::{Asked, NamedSymbol, about_symbol, find_package};
use crate::engine::{Control, Lane, read_json};
use crate::handle::{Error, QueryContext, Question};
use crate::source::positions::{Evidence, Occurrence, PositionedFile, SearchTarget, universal_write_date};
use crate::source::tap::operators::Defined;
use crate::source::tap::roles::SyntaxRole;
use crate::workspace::FileVersion;
use steelbank_reader::Range;
use steelbank_xref::Index;

/// The image's answer to operation `find-definitions`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ImageDefinitions {
    /// The definitions; absent if there are none.
    #[serde(default)]
    pub definitions: Vec<ImageDefinition>,
}

impl ImageDefinitions {
    /// Asks the image for the definitions of a symbol.
    ///
    /// # Errors
    /// Lisp cannot answer, or the question was called off.
    pub(crate) fn ask(
        context: &QueryContext<'_>,
        sought: &SearchTarget,
        control: &Control,
    ) -> Result<Self, Error> {
        let SearchTarget { name, package } = sought.clone();
        let ticket = context.lisp.submit(Lane::Query, control.allowed(), None, move |on_lisp| {
            on_lisp.call("find-definitions", &[&name, &package])
        });
        let found: Self = read_json(&control.wait(ticket)?.bytes)?;
        let mut sources = found.definitions.iter().flat_map(|definition| &definition.sources);
        if sources.any(|source| source.write_date.is_some_and(|date| context.project.is_unknown_text(date))) {
            context.bank.learn_buffer_texts()?;
        }
        Ok(found)
    }
}

/// One definition as the image knows it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct ImageDefinition {
    /// What it is: `function`, `macro`, `method`, `class`, …
    pub kind: LispKind,
    /// Its canonical name.
    pub name: String,
    /// Where it is, as far as that is known.
    #[serde(default)]
    pub sources: Vec<ImageSource>,
}

impl ImageDefinition {
    /// Returns the name for an answer.
    pub(crate) fn name(&self, index: &Index) -> LispName {
        match self.kind {
            LispKind::Package => LispName::of_text(&*self.name),
            _ => LispName::new(index, &*self.name),
        }
    }
}

/// A definition's source as the image knows it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct ImageSource {
    /// A native path or a logical name.
    pub file: String,
    /// The top-level form's number and the path inside it.
    #[serde(default)]
    pub form_path: Vec<u32>,
    /// The number of the sub-form.
    #[serde(default)]
    pub form_number: Option<u32>,
    /// The file's write date when it was compiled.
    #[serde(default)]
    pub write_date: Option<u64>,
    /// The octets before the top-level form and the white space in front of it.
    #[serde(default)]
    pub octet_offset: Option<u32>,
}

/// One definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FoundDefinition {
    /// What it is: `function`, `generic-function`, `method`, `macro`, `variable`, `constant`, `class`, `structure`,
    /// `condition`, `type`, …; `name` where the text names it as a definition that the image does not tell apart.
    pub kind: LispKind,
    /// Its name.
    pub name: LispName,
    /// The name if the evidence is exact, else the form: `file:line:column`, as far as it is known.
    #[serde(rename = "at", serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub place: Location,
    /// The line's text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// How sure the place is, if it is not exact. `via`: the form makes the definition without naming it there.
    #[serde(skip_serializing_if = "Evidence::is_exact")]
    #[schemars(with = "Option<Evidence>")]
    pub evidence: Evidence,
    /// For a definition by a macro of the program's own, of which `kind` is the name: what the image says it is.
    #[serde(skip)]
    pub defines: Option<LispKind>,
    /// For evidence `via`: the operator whose form makes the definition.
    #[serde(skip)]
    pub made_by: Option<String>,
    /// The file has changed since it was loaded.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stale: bool,
    /// The image does not have it: the text of a file that is not loaded says so.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub not_loaded: bool,
}

/// The answer, sorted by path and line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FindDefinitionAnswer {
    /// The symbol, or the list that was asked for.
    pub symbol: LispName,
    /// Its definitions, by place.
    pub definitions: Vec<FoundDefinition>,
    /// How many there are.
    pub count: usize,
    /// The package in which the name was looked up, if nobody named it.
    #[serde(skip)]
    pub looked_up_in: Option<String>,
}

/// A symbol whose definitions are looked for.
#[derive(Debug, Clone)]
pub struct Resolved {
    /// The symbol, or the list that was asked for.
    pub(crate) name: LispName,
    /// The symbol's name and home package, to ask the image for.
    pub sought: SearchTarget,
    function_name: FunctionName,
    /// The package in which the name was looked up, if nobody named it.
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
    /// There is no such symbol or package, or the name cannot be read.
    pub(crate) fn new(context: &QueryContext<'_>, named: &NamedSymbol) -> Result<Self, Error> {
        let context = context.knowing_symbol(named);
        let index = &context.index;
        let lookup = named.lookup(index)?;
        let symbol = found(index, context.project, &lookup)?;
        let uses = SymbolUses::new(index, symbol, lookup.function_name);
        Ok(Self { looked_up_in: lookup.looked_up_in, ..Self::of(&uses) })
    }

    /// The head of the function name, if it is a list: `SETF`, `CAS` or `COMPILER-MACRO`.
    pub(crate) fn head(&self) -> Option<&'static str> {
        self.function_name.head()
    }

    /// Whether a definition has the function name that was asked for, and not merely the same symbol.
    pub(crate) fn accepts(&self, definition: &ImageDefinition) -> bool {
        let names = |list: &str| {
            let name = definition.name.strip_prefix("(METHOD ").unwrap_or(&definition.name);
            name.starts_with(list)
        };
        match self.function_name {
            FunctionName::Plain => true,
            FunctionName::Setf => names("(SETF ") || definition.kind == LispKind::SetfExpander,
            FunctionName::Cas => names("(CAS "),
            FunctionName::CompilerMacro => definition.kind == LispKind::CompilerMacro,
        }
    }
}

/// A request for the places where a symbol is defined.
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
        Ok(find_definition(context, &resolved, &image))
    }
}

/// Answers from text that is not loaded about a symbol that the image does not have; none if no text defines it.
fn from_text(context: &QueryContext<'_>, asked: &Asked) -> Option<FindDefinitionAnswer> {
    let (index, project) = (&context.index, context.project);
    let target = SoughtSymbol::missing(index, asked, find_package(index, &asked.package));
    let found = text_definitions(index, project, &project.now(), &target);
    let symbol = found.first()?.symbol.clone();
    let definitions = found.into_iter().map(|TextDefined { symbol, place, kind, context }| FoundDefinition {
        kind: LispKind::named(kind.name()),
        name: symbol,
        place,
        context: Some(context),
        evidence: Evidence::Approximate,
        defines: None,
        made_by: None,
        stale: false,
        not_loaded: true,
    });
    let definitions: Vec<FoundDefinition> = definitions.collect();
    Some(FindDefinitionAnswer { symbol, count: definitions.len(), definitions, looked_up_in: None })
}

/// Places a symbol's definitions, given those that the image knows.
pub(crate) fn find_definition(
    context: &QueryContext<'_>,
    resolved: &Resolved,
    image: &ImageDefinitions,
) -> FindDefinitionAnswer {
    let (project, sought) = (context.project, &resolved.sought);
    let (mut definitions, mut own) = (Vec::new(), context.sbcl.places());
    let mut named: BTreeSet<(PathBuf, u32)> = BTreeSet::new();
    for definition in image.definitions.iter().filter(|definition| resolved.accepts(definition)) {
        for source in &definition.sources {
            let (mut found, form) = placed(context, sought, definition, source);
            // Of SBCL's own code, the start of the top-level form is all that is known.
            if let Some(octets) = source.octet_offset.filter(|_| source.file.starts_with("SYS:"))
                && let Some(at) = own.form_after(&source.file, octets)
            {
                found.place = found.place.at(at);
            }
            if let (Evidence::Exact, Some(form)) = (found.evidence, form) {
                named.insert((PathBuf::from(&source.file), form));
            }
            definitions.push(found);
        }
    }
    // Searches the text for plain names only: it does not tell `(setf name)` from other lists.
    let naming = match resolved.function_name {
        FunctionName::Plain => project.naming(&sought.name),
        _ => Vec::new(),
    };
    for FileVersion { path, write_date } in naming {
        let Ok(file) = project.positions(&path, write_date) else { continue };
        for found in file.occurrences(sought, &|_| false) {
            // Skips a form whose definition the image knows: what a `def…` macro defines need not have the
            // name that is its first argument.
            if !defines(found.role) || named.contains(&(path.clone(), found.form)) {
                continue;
            }
            definitions.push(FoundDefinition {
                kind: found.definer.map_or(LispKind::Name, |definer| LispKind::named(&definer)),
                name: resolved.name.clone(),
                place: Location::placed(project.shown(&path), &file, found.range),
                context: Some(file.line_at(found.range)),
                evidence: if file.is_fresh() { Evidence::Exact } else { Evidence::Approximate },
                defines: None,
                made_by: None,
                stale: !file.is_fresh(),
                not_loaded: false,
            });
        }
    }
    definitions.sort_by(|a, b| (&a.place, a.kind.name(), &a.name).cmp(&(&b.place, b.kind.name(), &b.name)));
    definitions.dedup();
    FindDefinitionAnswer {
        symbol: resolved.name.clone(),
        count: definitions.len(),
        definitions,
        looked_up_in: resolved.looked_up_in.clone(),
    }
}

/// Finds the method printed as `name`, `(METHOD NAME QUALIFIER (CLASS))`, in its generic function's
/// definition.
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

/// Whether the definition in the text can be of the kind that the image knows.
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

fn placed(
    context: &QueryContext<'_>,
    sought: &SearchTarget,
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
        made_by: None,
        stale: false,
        not_loaded: false,
    };
    let form = source.form_path.first().copied();
    // SBCL keeps no date of variables, classes and methods: take the version that was loaded last.
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
    // Places a `:method` option of DEFGENERIC by its own form, which does not repeat the name.
    let inner = if definition.kind == LispKind::Method {
        inner_method(&file, form_number, &definition.name)
    } else {
        None
    };
    // Take the nearest name after the sub-form: a form may define several things of one name.
    let name = occurrences.iter().filter(proper).find(after);
    let name =
        name.or_else(|| occurrences.iter().find(|found| found.role == SyntaxRole::Named && after(found)));
    // Accepts the name in a form of the project's own defining macro: the image has said that the form
    // defines it.
    let name = name.or_else(|| occurrences.iter().find(|found| found.definer.is_some() && after(found)));
    let name = name.filter(|_| inner.is_none());
    if let Some(definer) = name.and_then(|name| name.definer.clone()) {
        found.defines = Some(std::mem::replace(&mut found.kind, LispKind::named(&definer)));
    }
    let name = name.map(|name| name.range).or_else(|| file.defined_in_buffer(form_number, sought));
    let (range, evidence) = match (name, inner.or(start)) {
        (Some(name), _) if file.is_fresh() => (Some(name), Evidence::Exact),
        (Some(name), _) => (Some(name), Evidence::Approximate),
        (None, start) if file.is_tapped() && file.is_fresh() => {
            found.made_by = match inner {
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
