//! symbol-facts: what many symbols name, in few words each; and whose their packages are.

use serde::Deserialize;

use crate::engine::control::Control;
use crate::handle::context::QueryContext;
use crate::handle::{Error, Question};

/// A symbol's home package and name.
pub type HomeAndName = (String, String);

/// A request for what symbols name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FactsRequest {
    /// The symbols.
    pub symbols: Vec<HomeAndName>,
}

/// What a symbol names, with a field for each namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SymbolFacts {
    /// Whether its home package exports it.
    pub exported: bool,
    /// As an operator.
    pub function: Option<NamedFacts>,
    /// `(setf NAME)` as a function.
    pub setf: Option<NamedFacts>,
    /// As a variable.
    pub variable: Option<NamedFacts>,
    /// As a class, structure or condition.
    pub class: Option<ClassFacts>,
    /// As a type that is no class.
    #[serde(rename = "type")]
    pub deftype: Option<NamedFacts>,
}

/// What a symbol is in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct NamedFacts {
    /// As describe-symbol tells it: `generic-function`, `constant`, …
    pub kind: String,
    /// The lambda list, without package prefixes; none if unknown.
    pub arglist: Option<String>,
    /// The documentation string.
    pub documentation: Option<String>,
}

/// A class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct ClassFacts {
    /// `class`, `structure` or `condition`.
    pub kind: String,
    /// The documentation string.
    pub documentation: Option<String>,
    /// The direct superclasses.
    pub superclasses: Vec<HomeAndName>,
    /// The direct slots.
    pub slots: Vec<SlotFacts>,
    /// A structure's constructors, predicate and copier.
    pub made: Vec<HomeAndName>,
}

/// A direct slot of a class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SlotFacts {
    /// The slot's name.
    pub name: HomeAndName,
    /// The functions that read it.
    pub readers: Vec<HomeAndName>,
    /// Those that `(setf READER)`, or functions of that name, write it by.
    pub writers: Vec<HomeAndName>,
    /// The type, unless it is T.
    #[serde(rename = "type")]
    pub slot_type: Option<String>,
    /// The documentation string.
    pub documentation: Option<String>,
}

/// The symbols that one call asks for.
const BATCH: usize = 2000;

impl Question for FactsRequest {
    /// One entry for each symbol; none for what does not exist.
    type Answer = Vec<Option<SymbolFacts>>;

    const REPEATABLE: bool = true;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<Self::Answer, Error> {
        let mut all = Vec::with_capacity(self.symbols.len());
        for batch in self.symbols.chunks(BATCH) {
            let names = batch.iter().flat_map(|(package, name)| [package.clone(), name.clone()]).collect();
            all.extend(context.ask::<Self::Answer>("symbol-facts", names, control)?);
        }
        Ok(all)
    }
}

/// A request for the systems that are loaded, and for whose packages are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnersRequest {
    /// The packages.
    pub packages: Vec<String>,
}

/// The loaded systems, and the packages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct OwnersAnswer {
    /// SBCL's version.
    pub lisp: String,
    /// The loaded systems, by name.
    pub systems: Vec<LoadedSystem>,
    /// Those of the packages that exist.
    pub packages: Vec<OwnedPackage>,
}

/// A system that is loaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LoadedSystem {
    /// Its name.
    pub name: String,
    /// Its version, as its definition tells it.
    pub version: Option<String>,
    /// Its description.
    pub description: Option<String>,
}

/// A package.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct OwnedPackage {
    /// Its name.
    pub name: String,
    /// The system whose file defines it; none if that is not known.
    pub system: Option<String>,
    /// Its documentation string.
    pub documentation: Option<String>,
    /// The packages that it uses.
    pub uses: Vec<String>,
    /// Its nicknames.
    pub nicknames: Vec<String>,
}

impl Question for OwnersRequest {
    type Answer = OwnersAnswer;

    const REPEATABLE: bool = true;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<OwnersAnswer, Error> {
        context.ask("package-owners", self.packages.clone(), control)
    }
}
