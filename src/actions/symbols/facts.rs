//! Fetches short descriptions of many symbols, and the systems that own packages, for the SCIP
//! export.

use serde::Deserialize;

use crate::engine::control::Control;
use crate::handle::context::QueryContext;
use crate::handle::{Error, Question};
use steelbank_xref::SymbolName;

/// A request for short descriptions of symbols.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FactsRequest {
    /// The symbols.
    pub symbols: Vec<SymbolName>,
}

/// A short description of a symbol, with a field for each namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SymbolFacts {
    /// Whether its home package exports it.
    pub exported: bool,
    /// The operator.
    pub function: Option<NamedFacts>,
    /// The function `(setf NAME)`.
    pub setf: Option<NamedFacts>,
    /// The variable.
    pub variable: Option<NamedFacts>,
    /// The class, structure or condition.
    pub class: Option<ClassFacts>,
    /// The type defined by `deftype`.
    #[serde(rename = "type")]
    pub deftype: Option<NamedFacts>,
}

/// A short description of a symbol in one namespace, such as functions or variables.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct NamedFacts {
    /// The kind, as in describe-symbol: `generic-function`, `constant`, …
    pub kind: String,
    /// The lambda list, without package prefixes; `None` if unknown.
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
    pub superclasses: Vec<SymbolName>,
    /// The direct slots.
    pub slots: Vec<SlotFacts>,
    /// A structure's constructors, predicate and copier.
    pub made: Vec<SymbolName>,
}

/// A direct slot of a class.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SlotFacts {
    /// The slot's name.
    pub name: SymbolName,
    /// The reader functions.
    pub readers: Vec<SymbolName>,
    /// The writers: the name of a function, or `F` for a function `(setf F)`.
    pub writers: Vec<SymbolName>,
    /// The type, unless it is T.
    #[serde(rename = "type")]
    pub slot_type: Option<String>,
    /// The documentation string.
    pub documentation: Option<String>,
}

/// The number of symbols in one call to Lisp.
const BATCH: usize = 2000;

impl Question for FactsRequest {
    /// One entry for each requested symbol; `None` for a symbol that does not exist.
    type Answer = Vec<Option<SymbolFacts>>;

    const REPEATABLE: bool = true;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<Self::Answer, Error> {
        let mut all = Vec::with_capacity(self.symbols.len());
        for batch in self.symbols.chunks(BATCH) {
            let names =
                batch.iter().flat_map(|symbol| [symbol.package.clone(), symbol.name.clone()]).collect();
            all.extend(context.ask::<Self::Answer>("symbol-facts", names, control)?);
        }
        Ok(all)
    }
}

/// A request for the loaded systems and the owners of packages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnersRequest {
    /// The packages.
    pub packages: Vec<String>,
}

/// The loaded systems and the requested packages.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct OwnersAnswer {
    /// SBCL's version.
    pub lisp: String,
    /// The loaded systems, sorted by name.
    pub systems: Vec<LoadedSystem>,
    /// The requested packages that exist.
    pub packages: Vec<OwnedPackage>,
}

/// A loaded system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LoadedSystem {
    /// Its name.
    pub name: String,
    /// The version in its definition.
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
    /// The system with the file that defines the package; `None` if unknown.
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
