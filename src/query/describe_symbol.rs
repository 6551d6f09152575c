//! describe-symbol: everything that the image knows about one symbol.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::control::Control;
use super::lookup::{Asked, DEFAULT_PACKAGE, Lookup, LookupStatus};
use super::{Error, read_json};
use crate::engine::{CallError, Lane, Lisp, OnLisp, Operation};
use crate::source::sbcl::SbclSources;
use crate::xref::Index;

/// How long a value may take to print: print-object methods are the user's code.
const PRINTING: Duration = Duration::from_secs(2);
/// What the contract shows in place of a value that cannot be printed.
const UNPRINTABLE: &str = "<error printing value>";

/// The question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribeSymbolRequest {
    /// The name, as [`super::designator`] reads it.
    pub name: String,
    /// The package in which the name is looked up.
    pub package: String,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DescribeSymbolAnswer {
    /// Whether the symbol was found.
    pub status: LookupStatus,
    /// What was looked up.
    pub asked: Asked,
    /// The symbol, if it was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Description>,
}

/// A symbol, with one field for each thing that it names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Description {
    /// As it is printed: home package, two colons, name.
    pub symbol: String,
    /// Its name, exactly.
    pub name: String,
    /// Its home package; null if it has none.
    pub package: Option<String>,
    /// `internal`, `external` or `inherited`: how it is accessible where it was looked up.
    pub accessibility: String,
    /// `MACRO`, `GENERIC-FUNCTION`, `FUNCTION`, `CLASS`, `VARIABLE` or `SYMBOL`: the first that fits.
    #[serde(rename = "type")]
    pub classification: String,
    /// As an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<FunctionFacet>,
    /// `(setf NAME)` as a function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub setf_function: Option<FunctionFacet>,
    /// Whether `defsetf` or `define-setf-expander` made it a place.
    #[serde(default)]
    pub setf_expander: bool,
    /// Its compiler macro.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiler_macro: Option<PlainFacet>,
    /// As a variable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<VariableFacet>,
    /// As a class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<ClassFacet>,
    /// As a type that `deftype` made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deftype: Option<PlainFacet>,
    /// As a method combination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method_combination: Option<PlainFacet>,
    /// The package that has this name or nickname.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package_of_that_name: Option<String>,
    /// The indicators on its property list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<String>,
}

/// A symbol as an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionFacet {
    /// The function's printed name.
    pub name: String,
    /// `function`, `generic-function`, `macro` or `special-operator`.
    pub kind: String,
    /// The lambda list, without package prefixes; none if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arglist: Option<String>,
    /// The documentation string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// The function's type, declared or derived.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub function_type: Option<String>,
    /// How many methods a generic function has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub methods: Option<u64>,
    /// Whether it is traced.
    #[serde(default)]
    pub traced: bool,
    /// `inline` or `notinline`, if declaimed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inline: Option<String>,
    /// Where it is defined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
}

/// A symbol as a variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VariableFacet {
    /// `special`, `constant`, `global`, `symbol-macro`, `alien` or `undeclared`.
    pub kind: String,
    /// Whether it has a value.
    pub bound: bool,
    /// The value as it prints with the contract's limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Whether `value` was cut.
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
    pub sources: Vec<Source>,
}

/// A symbol as a class.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassFacet {
    /// `standard-class`, `structure-class`, `condition-class`, `built-in-class`, …
    pub kind: String,
    /// The metaclass's name.
    pub metaclass: String,
    /// The documentation string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// The direct superclasses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superclasses: Vec<String>,
    /// How many direct subclasses there are.
    pub subclasses: u64,
    /// The names of the direct slots.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<String>,
    /// Where it is defined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
}

/// A symbol as a compiler macro, a type or a method combination.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlainFacet {
    /// The lambda list, without package prefixes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arglist: Option<String>,
    /// The documentation string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// Where it is defined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
}

/// Where a definition stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Source {
    /// A native path, or a logical name such as `SYS:SRC;CODE;LIST.LISP`.
    pub file: String,
    /// The native path, where a logical name's file is at hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native: Option<String>,
    /// SBCL's offset: octets before the top-level form and the white space in front of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub octet_offset: Option<u64>,
    /// Characters before the form itself; SBCL's offset if the file is not at hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The form's line, from 1; none if the file is not at hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// The form's column in characters, from 1; none if the file is not at hand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    /// The universal time at which the file that was compiled had been written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_date: Option<u64>,
    /// Whether the file has been written since.
    #[serde(default)]
    pub stale: bool,
}

#[derive(Deserialize)]
#[serde(tag = "status", rename_all = "kebab-case")]
enum Facets {
    Found(Box<Description>),
    NoPackage,
    NoSymbol,
}

#[derive(Deserialize)]
struct Printed {
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    cut: bool,
}

impl DescribeSymbolRequest {
    /// The question about `name` in CL-USER.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), package: DEFAULT_PACKAGE.to_owned() }
    }

    /// The same question with the name looked up in `package`.
    #[must_use]
    pub fn package(mut self, package: impl Into<String>) -> Self {
        self.package = package.into();
        self
    }

    /// The answer. A variable's value is printed by the image, which runs print-object methods, for a limited time.
    ///
    /// # Errors
    /// The name cannot be read, or Lisp cannot answer. A symbol or package that does not exist is an answer.
    pub fn answer(
        &self,
        lisp: Lisp,
        index: &Index,
        sources: &SbclSources,
        control: &Control,
    ) -> Result<DescribeSymbolAnswer, Error> {
        let lookup = Lookup::new(index, &self.name, &self.package)?;
        let (name, package) = match &lookup.found {
            // By the name of the package that was named, so that accessibility is answered from there.
            Ok(_) => {
                let package = lookup.package.map(|package| index.package_name(package).into_owned());
                (lookup.asked.name.clone(), package.unwrap_or_else(|| lookup.asked.package.clone()))
            }
            Err(LookupStatus::NoPackage) => return Ok(missing(lookup.asked, LookupStatus::NoPackage)),
            // A symbol made since the last export is not in the index, so the image decides.
            Err(_) => (lookup.asked.name.clone(), lookup.asked.package.clone()),
        };
        let asked = lookup.asked;
        let ticket = lisp
            .submit(Lane::Query, control.allowed(), None, move |on_lisp| describe(on_lisp, &name, &package));
        let (answer, value) = control.wait(ticket)?;
        Ok(match read_json(&answer)? {
            Facets::Found(mut description) => {
                if let (Some(variable), Some(value)) = (&mut description.variable, value) {
                    value.put(variable)?;
                }
                locate(&mut description, sources);
                DescribeSymbolAnswer { status: LookupStatus::Found, asked, description: Some(*description) }
            }
            Facets::NoPackage => missing(asked, LookupStatus::NoPackage),
            Facets::NoSymbol => missing(asked, LookupStatus::NoSymbol),
        })
    }
}

fn missing(asked: Asked, status: LookupStatus) -> DescribeSymbolAnswer {
    DescribeSymbolAnswer { status, asked, description: None }
}

/// What came of printing a value.
enum Value {
    Printed(Vec<u8>),
    Failed(String),
}

impl Value {
    fn put(self, variable: &mut VariableFacet) -> Result<(), Error> {
        match self {
            Self::Printed(octets) => {
                let printed: Printed = read_json(&octets)?;
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
    let facets = on_lisp.call(Operation::DescribeSymbol, &[name, package])?.octets;
    // The Lisp half writes this and nothing else for a bound variable; parsing is left to the caller's thread.
    let bound = facets.windows(BOUND.len()).any(|window| window == BOUND);
    let value = bound.then(|| match on_lisp.call_within(PRINTING, Operation::PrintValue, &[name, package]) {
        Ok(answer) => Value::Printed(answer.octets),
        Err(CallError::Fault(fault)) => Value::Failed(fault.to_string()),
        Err(CallError::Interrupted) => {
            Value::Failed(format!("printing took longer than {} s", PRINTING.as_secs()))
        }
    });
    Ok((facets, value))
}

const BOUND: &[u8] = br#""bound":true"#;

fn locate(description: &mut Description, files: &SbclSources) {
    let functions = [&mut description.function, &mut description.setf_function];
    let plain =
        [&mut description.compiler_macro, &mut description.deftype, &mut description.method_combination];
    let lists = functions
        .into_iter()
        .flatten()
        .map(|facet| &mut facet.sources)
        .chain(plain.into_iter().flatten().map(|facet| &mut facet.sources))
        .chain(description.variable.iter_mut().map(|facet| &mut facet.sources))
        .chain(description.class.iter_mut().map(|facet| &mut facet.sources));
    for source in lists.flatten() {
        source.offset = source.octet_offset;
        let Some(path) = files.native(&source.file) else { continue };
        source.native = (path.as_os_str() != source.file.as_str()).then(|| path.display().to_string());
        source.stale = source.write_date.is_some_and(|date| files.written_since(&path, date));
        if let Some(octets) = source.octet_offset
            && let Some(place) = files.form_after(&path, octets)
        {
            source.offset = Some(place.offset);
            source.line = Some(place.line);
            source.column = Some(place.column);
        }
    }
}

impl Description {
    /// The documentation of what the classification names, or else of any other facet.
    pub fn documentation(&self) -> Option<&str> {
        let function = self.function.as_ref().and_then(|facet| facet.documentation.as_deref());
        let class = self.class.as_ref().and_then(|facet| facet.documentation.as_deref());
        let variable = self.variable.as_ref().and_then(|facet| facet.documentation.as_deref());
        let deftype = self.deftype.as_ref().and_then(|facet| facet.documentation.as_deref());
        match self.classification.as_str() {
            "CLASS" => class.or(variable).or(deftype),
            "VARIABLE" => variable.or(deftype),
            "SYMBOL" => deftype,
            _ => function.or(class).or(variable).or(deftype),
        }
    }

    /// The source of what the classification names, if its position is known.
    pub fn source(&self) -> Option<&Source> {
        let sources: &[Source] = match self.classification.as_str() {
            "CLASS" => self.class.as_ref().map_or(&[], |facet| &facet.sources),
            "VARIABLE" => self.variable.as_ref().map_or(&[], |facet| &facet.sources),
            "SYMBOL" => self.deftype.as_ref().map_or(&[], |facet| &facet.sources),
            _ => self.function.as_ref().map_or(&[], |facet| &facet.sources),
        };
        sources.iter().find(|source| source.offset.is_some())
    }
}
