//! Implements describe-symbol, which reports everything that the image knows about one symbol. Lisp
//! reports one facet for each namespace (function, variable, class, …). This module prints a
//! variable's value in a separate call, adds source positions, and on request lists a variable's
//! uses. The first lines of the text are fixed by a contract; see `text`.

pub(crate) mod text;
pub(crate) mod tool;

mod kinds;
mod uses;

use crate::actions::uses::code_find_references::describe_unloaded;
use crate::actions::uses::enclosing::Enclosing;
use crate::actions::uses::graph::function_in;
use crate::answer::{LispName, NotFound, SourcePlace};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::lookup::{Asked, LookupStatus, NamedSymbol, about_symbol};
use crate::engine::control::Control;
use crate::engine::{CallError, Lane, OnLisp, read_json};
use crate::handle::Error;
use crate::handle::context::{DefinitionPlaces, QueryContext};
use crate::handle::question::Question;
use crate::source::sbcl::SbclSources;
use crate::workspace::Project;
pub use kinds::{ClassKind, Classification, Inlining, OperatorKind, VariableKind};
use steelbank_xref::{Access, Index, Package, Symbol};
pub use uses::{VariableUse, VariableUses};

/// Time limit for printing a value, because print-object methods are user code.
const PRINTING: Duration = Duration::from_secs(2);
/// Replaces a value that cannot be printed. The contract fixes this text.
const UNPRINTABLE: &str = "<error printing value>";

/// A request to describe a symbol.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct DescribeSymbolRequest {
    /// The symbol.
    #[serde(flatten)]
    pub symbol: NamedSymbol,
    /// Also list a variable's readers, bindings, assignments and other text with its name.
    #[serde(default)]
    pub uses: bool,
}

about_symbol!(DescribeSymbolRequest { uses: false });

/// The answer to describe-symbol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct DescribeSymbolAnswer {
    /// Whether the symbol was found.
    pub status: LookupStatus,
    /// The name and package that were looked up.
    pub asked: Asked,
    /// The package where the name was found, if none was given and CL-USER lacks the name.
    #[serde(skip)]
    pub looked_up_in: Option<String>,
    /// `SETF`, `CAS` or `COMPILER-MACRO` if the name was a list such as `(setf car)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// The symbol, if it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Description>,
    /// With `uses`, its uses as a variable.
    #[serde(default, skip_deserializing, skip_serializing_if = "Option::is_none")]
    pub variable_uses: Option<VariableUses>,
}

/// A symbol, with one field for each namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Description {
    /// The symbol.
    pub symbol: LispName,
    /// Its exact name.
    pub name: String,
    /// Its home package; null if it has none.
    pub package: Option<String>,
    /// How it is accessible in the package of the lookup: `internal`, `external` or `inherited`.
    #[schemars(with = "String")]
    pub accessibility: Access,
    /// The first that applies of `MACRO`, `GENERIC-FUNCTION`, `FUNCTION`, `CLASS`, `VARIABLE` or
    /// `SYMBOL`.
    #[serde(rename = "type")]
    pub classification: Classification,
    /// The operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<FunctionFacet>,
    /// The function `(setf NAME)`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setf_function: Option<FunctionFacet>,
    /// Whether `defsetf` or `define-setf-expander` defines it as a place.
    #[serde(default)]
    pub setf_expander: bool,
    /// The sources of the setf expander.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setf_expander_sources: Vec<SourcePlace>,
    /// Its compiler macro.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiler_macro: Option<PlainFacet>,
    /// The variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<VariableFacet>,
    /// The class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ClassFacet>,
    /// The type defined by `deftype`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deftype: Option<PlainFacet>,
    /// The method combination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method_combination: Option<PlainFacet>,
    /// The package that has this name or nickname.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_of_that_name: Option<String>,
    /// The indicators on its property list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<LispName>,
}

/// A symbol as an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct FunctionFacet {
    /// The function's name.
    pub name: LispName,
    /// `function`, `generic-function`, `macro` or `special-operator`.
    pub kind: OperatorKind,
    /// The lambda list, without package prefixes; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arglist: Option<String>,
    /// The documentation string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// The function's type, declared or derived.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub function_type: Option<String>,
    /// A generic function's method combination, with its options.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub combination: Option<String>,
    /// Number of methods of a generic function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method_count: Option<u64>,
    /// A generic function's methods by name; truncated if there are very many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<MethodFacet>,
    /// Whether it is traced.
    #[serde(default)]
    pub traced: bool,
    /// `inline` or `notinline`, if declaimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<Inlining>,
    /// Where it is defined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourcePlace>,
}

/// A method of a generic function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct MethodFacet {
    /// Its name: generic function, qualifiers, specializers.
    pub name: LispName,
    /// The qualifiers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub qualifiers: Vec<String>,
    /// The specializers of the required parameters.
    #[serde(default, skip_serializing)]
    pub specializers: Vec<LispName>,
    /// The lambda list, without package prefixes.
    pub arglist: String,
    /// The documentation string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// Where it is defined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourcePlace>,
}

/// A symbol as a variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct VariableFacet {
    /// `special`, `constant`, `global`, `symbol-macro`, `alien` or `undeclared`.
    pub kind: VariableKind,
    /// Whether it has a value.
    pub bound: bool,
    /// The value, printed within the contract's limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Whether `value` was truncated.
    #[serde(default)]
    pub value_cut: bool,
    /// Why the value could not be printed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_error: Option<String>,
    /// The documentation string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// The declared type.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub variable_type: Option<String>,
    /// Where it is defined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourcePlace>,
}

/// A symbol as a class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ClassFacet {
    /// `standard-class`, `structure-class`, `condition-class`, `built-in-class`, …
    pub kind: ClassKind,
    /// The metaclass's name.
    pub metaclass: LispName,
    /// The documentation string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// The direct superclasses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superclasses: Vec<LispName>,
    /// The class precedence list; empty if the class is not finalized.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub precedence: Vec<LispName>,
    /// Number of direct subclasses.
    pub subclass_count: u64,
    /// The direct subclasses by name; truncated if there are very many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subclasses: Vec<LispName>,
    /// The `file:line:column` of each of `subclasses`; empty if it is unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subclasses_at: Vec<String>,
    /// The slots: direct slots first, then inherited slots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<SlotFacet>,
    /// The direct default initialization arguments, each with its form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub default_initargs: Vec<String>,
    /// The functions defined by defstruct.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub structure: Option<StructureFacet>,
    /// Where it is defined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourcePlace>,
}

/// A slot of a class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SlotFacet {
    /// Its name.
    pub name: LispName,
    /// The initialization arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub initargs: Vec<String>,
    /// The reader functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub readers: Vec<LispName>,
    /// The writer functions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub writers: Vec<LispName>,
    /// The declared type, if it is not T.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub slot_type: Option<String>,
    /// The beginning of the form that initializes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initform: Option<String>,
    /// The allocation, if it is not `:INSTANCE`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocation: Option<String>,
    /// The documentation string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// Where its name is in the definition of its class.
    #[serde(default, rename = "at", skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// The class that it is inherited from; absent for direct slots.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<LispName>,
}

/// The functions defined by defstruct.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct StructureFacet {
    /// The constructors as calls with their parameters, or only their names if the parameters are
    /// unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub constructors: Vec<LispName>,
    /// The predicate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<LispName>,
    /// The copier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copier: Option<LispName>,
}

/// A symbol as a compiler macro, a type or a method combination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct PlainFacet {
    /// The lambda list, without package prefixes; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arglist: Option<String>,
    /// The documentation string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// Where it is defined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<SourcePlace>,
}

#[derive(Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
enum Facets {
    Found(Box<Description>),
    NoPackage,
    NoSymbol,
}

#[derive(Deserialize)]
struct PrintedText {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    cut: bool,
}

fn missing(
    context: &QueryContext<'_>,
    asked: Asked,
    package: Option<Package>,
    status: LookupStatus,
) -> Error {
    let unseen = describe_unloaded(&context.index, context.project, &asked, package);
    NotFound::Symbol { asked, status, unseen }.into()
}

impl Question for DescribeSymbolRequest {
    type Answer = DescribeSymbolAnswer;

    const REPEATABLE: bool = true;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<DescribeSymbolAnswer, Error> {
        let (context, lookup) = context.resolve_symbol(&self.symbol)?;
        let (context, index) = (&*context, &context.index);
        if let Ok((symbol, accessibility)) = lookup.found
            && index.is_from_text(symbol)
        {
            return Ok(DescribeSymbolAnswer {
                status: LookupStatus::Found,
                asked: lookup.asked,
                looked_up_in: lookup.looked_up_in,
                operator: lookup.function_name.head().map(str::to_owned),
                description: Some(Description::bare(index, symbol, accessibility)),
                variable_uses: None,
            });
        }
        let operator = lookup.function_name.head().map(str::to_owned);
        let (name, package) = match &lookup.found {
            // Pass the package of the request, because accessibility depends on it.
            Ok(_) => {
                let package = lookup.package.map(|package| index.package_name(package).into_owned());
                (lookup.asked.name.clone(), package.unwrap_or_else(|| lookup.asked.package.clone()))
            }
            Err(status @ (LookupStatus::NoPackage | LookupStatus::Uninterned)) => {
                return Err(missing(context, lookup.asked, lookup.package, *status));
            }
            // A symbol created after the last export is not in the index, so ask the image.
            Err(_) => (lookup.asked.name.clone(), lookup.asked.package.clone()),
        };
        let (asked, looked_up_in) = (lookup.asked, lookup.looked_up_in);
        let ticket = context
            .lisp
            .submit(Lane::Query, control.allowed(), None, move |on_lisp| describe(on_lisp, &name, &package));
        let (answer, value) = control.wait(ticket)?;
        Ok(match read_json(&answer)? {
            Facets::Found(mut description) => {
                if let (Some(variable), Some(value)) = (&mut description.variable, value) {
                    value.put(variable)?;
                }
                description.names().into_iter().for_each(|name| name.write(index));
                locate(&mut description, context.sbcl, context.project);
                locate_class_parts(&mut description, context);
                let variable_uses = description
                    .variable
                    .as_ref()
                    .filter(|_| self.uses)
                    .and_then(|_| lookup.found.ok())
                    .map(|(symbol, _)| VariableUses::of(context, symbol, control));
                let description = Some(*description);
                DescribeSymbolAnswer {
                    status: LookupStatus::Found,
                    asked,
                    looked_up_in,
                    operator,
                    description,
                    variable_uses,
                }
            }
            Facets::NoPackage => return Err(missing(context, asked, None, LookupStatus::NoPackage)),
            Facets::NoSymbol => return Err(missing(context, asked, lookup.package, LookupStatus::NoSymbol)),
        })
    }
}

impl Description {
    /// Describes a symbol that occurs only in texts, so it has no definitions.
    fn bare(index: &Index, symbol: Symbol, accessibility: Access) -> Self {
        Self {
            symbol: LispName::new(index, index.symbol_text(symbol)),
            name: index.symbol_name(symbol).into_owned(),
            package: index.home_name(symbol),
            accessibility,
            classification: Classification::Symbol,
            function: None,
            setf_function: None,
            setf_expander: false,
            setf_expander_sources: Vec::new(),
            compiler_macro: None,
            variable: None,
            class: None,
            deftype: None,
            method_combination: None,
            package_of_that_name: None,
            properties: Vec::new(),
        }
    }
}

/// The outcome of printing a value.
enum Value {
    Printed(Vec<u8>),
    Failed(String),
}

impl Value {
    fn put(self, variable: &mut VariableFacet) -> Result<(), Error> {
        match self {
            Self::Printed(bytes) => {
                let printed: PrintedText = read_json(&bytes)?;
                variable.value = printed.text;
                variable.value_cut = printed.cut;
            }
            Self::Failed(why) => {
                variable.value = Some(UNPRINTABLE.to_owned());
                variable.value_error = Some(why);
            }
        }
        Ok(())
    }
}

fn describe(on_lisp: &OnLisp<'_>, name: &str, package: &str) -> Result<(Vec<u8>, Option<Value>), CallError> {
    let facets = on_lisp.call("describe-symbol", &[name, package])?.bytes;
    // Search the raw JSON for the flag of a bound variable, and leave parsing to the caller's
    // thread.
    let bound = facets.windows(BOUND.len()).any(|window| window == BOUND);
    let value = bound.then(|| match on_lisp.call_within(PRINTING, "print-value", &[name, package]) {
        Ok(answer) => Value::Printed(answer.bytes),
        Err(CallError::Fault(fault)) => Value::Failed(fault.to_string()),
        Err(CallError::Interrupted) => {
            Value::Failed(format!("printing took longer than {} s", PRINTING.as_secs()))
        }
    });
    Ok((facets, value))
}

const BOUND: &[u8] = br#""bound":true"#;

/// Computes the positions of all sources.
fn locate(description: &mut Description, files: &SbclSources, project: &Project) {
    let mut places = DefinitionPlaces::new(project, files);
    let functions = [&mut description.function, &mut description.setf_function].into_iter().flatten();
    let plain =
        [&mut description.compiler_macro, &mut description.deftype, &mut description.method_combination];
    let lists = functions
        .flat_map(|facet| {
            facet.methods.iter_mut().map(|method| &mut method.sources).chain([&mut facet.sources])
        })
        .chain(plain.into_iter().flatten().map(|facet| &mut facet.sources))
        .chain(description.variable.iter_mut().map(|facet| &mut facet.sources))
        .chain(description.class.iter_mut().map(|facet| &mut facet.sources))
        .chain([&mut description.setf_expander_sources]);
    lists.flatten().for_each(|source| places.put(source));
}

/// Adds the places of the subclasses and slots that the text of loaded files shows.
fn locate_class_parts(description: &mut Description, context: &QueryContext<'_>) {
    let enclosing = Enclosing::new(context);
    let symbol = |name: &LispName| function_in(name.canonical()).map(|target| target.symbol);
    let own = description.symbol.clone();
    let Some(class) = &mut description.class else { return };
    let place = |name: &LispName| Some(enclosing.class(&symbol(name)?)?.place.to_string());
    class.subclasses_at = class.subclasses.iter().map(|name| place(name).unwrap_or_default()).collect();
    for slot in &mut class.slots {
        let class = symbol(slot.from.as_ref().unwrap_or(&own)).and_then(|class| enclosing.class(&class));
        let place = class.zip(symbol(&slot.name)).and_then(|(class, slot)| class.slot(&slot.name));
        slot.place = place.map(|place| place.to_string());
    }
}

impl Description {
    /// Lists all symbol names in Lisp's report.
    fn names(&mut self) -> Vec<&mut LispName> {
        let mut names = vec![&mut self.symbol];
        names.extend(&mut self.properties);
        for facet in self.function.iter_mut().chain(&mut self.setf_function) {
            names.push(&mut facet.name);
            for method in &mut facet.methods {
                names.push(&mut method.name);
                names.extend(&mut method.specializers);
            }
        }
        if let Some(class) = &mut self.class {
            names.push(&mut class.metaclass);
            for list in [&mut class.superclasses, &mut class.precedence, &mut class.subclasses] {
                names.extend(list);
            }
            for slot in &mut class.slots {
                names.push(&mut slot.name);
                names.extend(slot.readers.iter_mut().chain(&mut slot.writers).chain(&mut slot.from));
            }
            if let Some(made) = &mut class.structure {
                names.extend(made.constructors.iter_mut().chain(&mut made.predicate).chain(&mut made.copier));
            }
        }
        names
    }

    /// Returns the documentation of the facet that the classification names. If that facet has
    /// none, returns the documentation of another facet.
    pub fn documentation(&self) -> Option<&str> {
        let function = self.function.as_ref().and_then(|facet| facet.documentation.as_deref());
        let class = self.class.as_ref().and_then(|facet| facet.documentation.as_deref());
        let variable = self.variable.as_ref().and_then(|facet| facet.documentation.as_deref());
        let deftype = self.deftype.as_ref().and_then(|facet| facet.documentation.as_deref());
        match self.classification {
            Classification::Class => class.or(variable).or(deftype),
            Classification::Variable => variable.or(deftype),
            Classification::Symbol => variable.or(deftype),
            _ => function.or(class).or(variable).or(deftype),
        }
    }

    /// Lists the facets as definitions: kind, lambda list and sources. Omits the setf expander.
    pub fn definitions(&self) -> Vec<(String, Option<&str>, &[SourcePlace])> {
        let mut all: Vec<(String, Option<&str>, &[SourcePlace])> = Vec::new();
        let plain = self.function.iter().map(|facet| (facet, false));
        for (facet, is_setf) in plain.chain(self.setf_function.iter().map(|facet| (facet, true))) {
            let kind = facet.kind.name().replace('-', " ");
            let kind = if is_setf { format!("{kind} {}", facet.name) } else { kind };
            all.push((kind, facet.arglist.as_deref(), &facet.sources));
        }
        if let Some(facet) = &self.variable {
            let kind = match facet.kind {
                kind @ (VariableKind::Constant | VariableKind::SymbolMacro) => kind.name().replace('-', " "),
                kind => format!("{} variable", kind.name()),
            };
            all.push((kind, None, &facet.sources));
        }
        if let Some(facet) = &self.class {
            let kind = match facet.kind {
                ClassKind::Structure => "structure",
                ClassKind::Condition => "condition",
                ClassKind::BuiltIn => "built-in class",
                ClassKind::Standard | ClassKind::FuncallableStandard | ClassKind::Other => "class",
            };
            all.push((kind.to_owned(), None, &facet.sources));
        }
        let plain = [
            ("compiler macro", &self.compiler_macro),
            ("type", &self.deftype),
            ("method combination", &self.method_combination),
        ];
        for (kind, facet) in plain {
            if let Some(facet) = facet {
                all.push((kind.to_owned(), facet.arglist.as_deref(), &facet.sources));
            }
        }
        all
    }

    /// Returns a source of the facet that the classification names. For the classification
    /// `SYMBOL`, returns a source of one of the other facets. Returns `None` if no source has a
    /// known position.
    pub fn source(&self) -> Option<&SourcePlace> {
        let sources: &[SourcePlace] = match self.classification {
            Classification::Class => self.class.as_ref().map_or(&[], |facet| &facet.sources),
            Classification::Variable => self.variable.as_ref().map_or(&[], |facet| &facet.sources),
            Classification::Symbol => {
                let variable = self.variable.iter().map(|facet| &facet.sources);
                let others = [&self.deftype, &self.method_combination, &self.compiler_macro];
                let others = others.into_iter().flatten().map(|facet| &facet.sources);
                let all = variable.chain(others).chain([&self.setf_expander_sources]);
                return all.flatten().find(|source| source.octet_offset.is_some());
            }
            _ => self.function.as_ref().map_or(&[], |facet| &facet.sources),
        };
        sources.iter().find(|source| source.octet_offset.is_some())
    }
}
