//! The request, the answer and the errors of code-find-references.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::Caution;
use crate::answer::location::{Location, as_columns, as_text};
use crate::project::NoProject;
use crate::query::Evidence;
use crate::query::designator::DesignatorError;
use crate::query::lookup::DEFAULT_PACKAGE;
use crate::query::text::TextUse;

/// A request for the uses of a symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeFindReferencesRequest {
    /// The name, as [`crate::query::designator`] reads it.
    pub symbol: String,
    /// The package in which the name is looked up.
    pub package: String,
    /// Only uses in files below the project's root.
    pub project_only: bool,
    /// How many entries to list at most.
    pub limit: usize,
    /// How many entries to skip.
    pub offset: usize,
}

impl CodeFindReferencesRequest {
    /// Makes a request about `symbol`, looked up in CL-USER: uses in the project only, the first 200 entries.
    pub fn new(symbol: impl Into<String>) -> CodeFindReferencesRequest {
        CodeFindReferencesRequest {
            symbol: symbol.into(),
            package: DEFAULT_PACKAGE.to_owned(),
            project_only: true,
            limit: 200,
            offset: 0,
        }
    }
}

/// The reason why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodeFindReferencesError {
    /// The name cannot be read.
    #[error(transparent)]
    Designator(#[from] DesignatorError),
    /// There is no such package.
    #[error("Package {package} not found. Load the system that defines it, or name another package.{unseen}")]
    NoPackage {
        /// The symbol's name.
        name: String,
        /// The package in which it was looked up.
        package: String,
        /// A sentence that says where files that are not loaded have the name; empty if none has it.
        unseen: String,
    },
    /// There is no such symbol.
    #[error(
        "Symbol {name} not found in package {package}. Load the system that defines it, or correct the name.{unseen}"
    )]
    NoSymbol {
        /// The symbol's name.
        name: String,
        /// The package in which it was looked up.
        package: String,
        /// A sentence that says where files that are not loaded have the name; empty if none has it.
        unseen: String,
    },
    /// The name is that of an uninterned symbol.
    #[error(
        "Symbol {name} not found in package {package}. No package has an uninterned symbol: name one that is interned."
    )]
    Uninterned {
        /// The symbol's name, with `#:` in front of it.
        name: String,
        /// The package in which it was looked up.
        package: String,
    },
    /// `project_only` without a project.
    #[error(transparent)]
    NoProject(#[from] NoProject),
}

/// What a use does with the symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UseType {
    /// Calls the function, or refers to it by `#'`.
    Call,
    /// Is expanded from the macro.
    Macro,
    /// Binds the special variable.
    Bind,
    /// Writes the variable.
    Set,
    /// Reads the variable or constant.
    Reference,
    /// A method that specializes on the class.
    Specialize,
    /// Names it as a class, structure or condition.
    Class,
    /// Names it as a type, or within a type specifier.
    Type,
    /// Names it as a slot.
    Slot,
    /// Names it as a function without the compiler having recorded a call.
    Function,
    /// Names it in a declaration.
    Declaration,
    /// Exports it, in a package definition.
    Export,
    /// Imports or shadows it, in a package definition.
    Import,
    /// Names a block, as in `(return-from x)`: a function's name does so within it.
    Block,
    /// Stands in quoted data.
    Quoted,
    /// Stands in a backquoted form, from which a macro makes code.
    Template,
    /// Is read while the file is read, inside `#.` or the like.
    ReadTime,
    /// Stands in the arguments of a macro, or where the compiler dropped the code.
    Mention,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// One line with uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct CodeReference {
    /// The first use in the line.
    #[serde(flatten)]
    pub place: Location,
    /// All uses in the line that are exact.
    #[serde(rename = "columns", serialize_with = "as_columns", skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<u32>", default)]
    pub tokens: Vec<Location>,
    /// Uses in the line that are not sure.
    #[serde(
        rename = "approximate_columns",
        serialize_with = "as_columns",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "Vec<u32>", default)]
    pub approximate: Vec<Location>,
    /// What the first use does.
    #[serde(rename = "type")]
    pub use_type: UseType,
    /// The line's text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub context: Option<String>,
    /// The function, method or macro that contains the use, if it is in one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub caller: Option<String>,
    /// How sure the line is.
    pub evidence: Evidence,
    /// For evidence `via`: the operator whose expansion makes the use.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub via: Option<String>,
    /// For evidence `via`: the line on which the symbol stands in the definition of that operator, or of what it calls:
    /// a rename there changes this use.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub via_stands_at: Option<Location>,
    /// For evidence `via`: the symbol stands in no such definition: the operator makes it, from these names in the form
    /// if from any. No rename of the symbol changes this use.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub via_made_from: Option<Vec<String>>,
    /// The file has changed since it was loaded, so that lines may have moved.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub stale: bool,
}

/// The answer: one entry per file and line, sorted by them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct CodeFindReferencesAnswer {
    /// The symbol as it is printed, with its home package.
    pub symbol: String,
    /// The symbol as a person writes it: shop:price, shop::%helper, cl:mapcar.
    pub typed: String,
    /// The entries.
    pub refs: Vec<CodeReference>,
    /// How many entries are listed.
    pub count: usize,
    /// How many there are in all.
    pub total: usize,
    /// Whether some were left out because of `limit`.
    pub truncated: bool,
    /// Lines with the name in text that the image does not have as it stands on disk: files that are not loaded or have
    /// changed since, and what feature expressions leave out. Evidence `text`: the place is known, the meaning is not.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub text: Vec<TextUse>,
    /// How often the name stands in such text, those left out because of `limit` included.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub text_total: usize,
    /// A system is being loaded just now: the answer may soon be another.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub loading: bool,
    /// What a rename must know beyond the entries: names made from this one, uses made by macros, and the like.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schemars(with = "Vec<String>")]
    pub cautions: Vec<Caution>,
    /// The files that have changed since they were loaded.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub stale: Vec<String>,
}
