//! The request and the answer of code-find-references.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::uses::unseen::TextUse;
use crate::actions::uses::who::CalledName;
use crate::answer::lookup::DEFAULT_PACKAGE;
use crate::answer::words::words;
use crate::answer::{Caution, LispName, Location};
use crate::source::positions::Evidence;
use steelbank_xref::Kind;

/// A request for the uses of a symbol.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct CodeFindReferencesRequest {
    /// The symbol, in any case: my-func, pkg:name, pkg::name, |Mixed Case|, (setf name).
    pub symbol: String,
    // Without one, the only package of the user's that has the name will do.
    /// Package name (defaults to CL-USER).
    #[serde(default)]
    #[schemars(extend("default" = DEFAULT_PACKAGE))]
    pub package: Option<String>,
    /// Only uses in the project's own files. False: in all that is loaded, SBCL itself included.
    #[serde(default = "yes")]
    pub project_only: bool,
    /// Only lines that write: the variable, the slot, or the place of the accessor.
    #[serde(default)]
    pub written: bool,
    /// How many entries to list at most.
    #[serde(skip)]
    pub limit: usize,
    /// How many entries to leave out first.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub offset: usize,
}

fn yes() -> bool {
    true
}

impl CodeFindReferencesRequest {
    /// Makes a request about `symbol`: uses in the project only, the first 200 entries. It is looked up in CL-USER, or
    /// else in the only one of the user's packages that has it.
    pub fn new(symbol: impl Into<String>) -> CodeFindReferencesRequest {
        CodeFindReferencesRequest {
            symbol: symbol.into(),
            package: None,
            project_only: true,
            written: false,
            limit: 200,
            offset: 0,
        }
    }
}

words! {
    /// What a use does with the symbol.
    #[derive(PartialOrd, Ord)]
    UseType {
        /// Calls the function, or refers to it by `#'`.
        Call = "call",
        /// Is expanded from the macro.
        Macro = "macro",
        /// Binds the special variable.
        Bind = "bind",
        /// Writes the variable.
        Set = "set",
        /// Reads the variable or constant.
        Reference = "reference",
        /// A method that specializes on the class.
        Specialize = "specialize",
        /// Names it as a class, structure or condition.
        Class = "class",
        /// Names it as a type, or within a type specifier.
        Type = "type",
        /// Names it as a slot.
        Slot = "slot",
        /// Names it as a function without the compiler having recorded a call.
        Function = "function",
        /// Names it in a declaration.
        Declaration = "declaration",
        /// Exports it, in a package definition.
        Export = "export",
        /// Imports or shadows it, in a package definition.
        Import = "import",
        /// Names a block, as in `(return-from x)`: a function's name does so within it.
        Block = "block",
        /// Stands in quoted data.
        Quoted = "quoted",
        /// Stands in a backquoted form, from which a macro makes code.
        Template = "template",
        /// Is read while the file is read, inside `#.` or the like.
        ReadTime = "read-time",
        /// Stands in the arguments of a macro, or where the compiler dropped the code.
        Mention = "mention",
    }
}

impl UseType {
    /// The kind of use that a who-tool lists, with the function that makes it. `None`: the use has no user.
    pub fn kind(self) -> Option<Kind> {
        match self {
            Self::Call | Self::Function => Some(Kind::Calls),
            Self::Macro => Some(Kind::Macroexpands),
            Self::Bind => Some(Kind::Binds),
            Self::Set => Some(Kind::Sets),
            Self::Reference => Some(Kind::References),
            Self::Specialize => Some(Kind::Specializes),
            _ => None,
        }
    }

    /// Whether the use only exports, imports or declares the symbol, or names a block: nothing depends on it.
    pub fn is_declaration(self) -> bool {
        matches!(self, Self::Export | Self::Import | Self::Declaration | Self::Block)
    }

    /// Whether the use is an edge of the call graph.
    pub fn is_call(self) -> bool {
        matches!(self, Self::Call | Self::Macro | Self::Function)
    }
}

/// One line with uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct CodeReference {
    /// The first use in the line.
    #[serde(flatten)]
    pub place: Location,
    /// The columns of all uses in the line that are exact, unless the entry's is the only one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub columns: Vec<u32>,
    /// Columns of uses in the line that are not sure.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub approximate_columns: Vec<u32>,
    /// All uses in the line that are exact.
    #[serde(skip)]
    pub tokens: Vec<Location>,
    /// Uses in the line that are not sure.
    #[serde(skip)]
    pub approximate: Vec<Location>,
    /// What the first use does.
    #[serde(rename = "type")]
    pub use_type: UseType,
    /// Whether a use in the line writes: the variable, the slot, or the place of the accessor.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub written: bool,
    /// The line's text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub context: Option<String>,
    /// Each use in the line.
    #[serde(skip)]
    pub uses: Vec<UseInLine>,
    /// The function, method or macro that contains the use, if it is in one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub caller: Option<LispName>,
    /// How sure the line is, if it is not exact.
    #[serde(skip_serializing_if = "Evidence::is_exact")]
    #[schemars(with = "Option<Evidence>")]
    pub evidence: Evidence,
    /// For evidence `via`: the operator whose expansion makes the use.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub via: Option<String>,
    /// For evidence `via`: the line on which the symbol stands in the definition of that operator, or of what it calls:
    /// a rename there changes this use.
    #[serde(skip)]
    pub via_stands_at: Option<Location>,
    /// For evidence `via`: the symbol stands in no such definition: the operator makes it, from these names in the form
    /// if from any. No rename of the symbol changes this use.
    #[serde(skip)]
    pub via_made_from: Option<Vec<String>>,
    /// The file has changed since it was loaded, so that lines may have moved.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub stale: bool,
}

/// One use in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UseInLine {
    /// What it does with the symbol.
    pub use_type: UseType,
    /// Whether F or `(SETF F)` is used.
    pub called: CalledName,
    /// The function, method or macro around it. `None`: top-level code.
    pub caller: Option<LispName>,
}

/// The answer: one entry per file and line, sorted by them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct CodeFindReferencesAnswer {
    /// The symbol as a person writes it: shop:price, shop::%helper, cl:mapcar.
    pub symbol: LispName,
    /// The entries.
    pub refs: Vec<CodeReference>,
    /// How many entries are listed.
    pub count: usize,
    /// How many there are in all.
    pub total: usize,
    /// Whether some were left out because of `limit`.
    #[serde(skip)]
    pub truncated: bool,
    /// Lines with the name in text that the image does not have as it stands on disk: files that are not loaded or have
    /// changed since, and what feature expressions leave out. Evidence `text`: the place is known, the meaning is not.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub text: Vec<TextUse>,
    /// How often the name stands in such text, those left out because of `limit` included.
    #[serde(skip_serializing_if = "crate::answer::is_zero", default)]
    pub text_total: usize,
    /// A system is being loaded just now: the answer may soon be another.
    #[serde(skip)]
    pub loading: bool,
    /// The package in which the name was looked up, if nobody named it.
    #[serde(skip)]
    pub looked_up_in: Option<String>,
    /// What a rename must know beyond the entries: names made from this one, uses made by macros, and the like.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schemars(with = "Vec<String>")]
    pub cautions: Vec<Caution>,
    /// The files that have changed since they were loaded.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub stale: Vec<String>,
    /// Where the list goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
