//! The request and the answer of code-find-references.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::uses::unloaded::TextUse;
use crate::actions::uses::who::SetfUse;
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
    // Without a package, the name is looked up in CL-USER, then in the only user package that has
    // it.
    /// Package name (defaults to CL-USER).
    #[serde(default)]
    #[schemars(extend("default" = DEFAULT_PACKAGE))]
    pub package: Option<String>,
    /// Only uses in the project's files. False: uses in all loaded code, including SBCL.
    #[serde(default = "yes")]
    pub project_only: bool,
    /// Only uses of these types; `setf`: all writes; `method`: specialize. `handler` adds handlers
    /// of parent conditions.
    #[serde(default, rename = "type")]
    pub types: Vec<UseType>,
    /// Only lines that write the variable, the slot, or the accessor's place.
    #[serde(default)]
    pub written: bool,
    /// The maximum number of entries.
    #[serde(skip)]
    pub limit: usize,
    /// The number of entries to skip.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    pub offset: usize,
}

fn yes() -> bool {
    true
}

impl CodeFindReferencesRequest {
    /// Creates a request for the first 200 lines with uses in the project. The name is looked up in
    /// CL-USER, and otherwise in the only user package that has it.
    pub fn new(symbol: impl Into<String>) -> CodeFindReferencesRequest {
        CodeFindReferencesRequest {
            symbol: symbol.into(),
            package: None,
            project_only: true,
            types: Vec::new(),
            written: false,
            limit: 200,
            offset: 0,
        }
    }
}

words! {
    /// The kind of a use.
    #[derive(PartialOrd, Ord)]
    UseType {
        /// Calls the function, or refers to it by `#'`.
        Call = "call",
        /// A use of the macro.
        Macro = "macro",
        /// Binds the special variable.
        Bind = "bind",
        /// Writes the variable.
        #[serde(alias = "setf")]
        Set = "set",
        /// Reads the variable or constant.
        Reference = "reference",
        /// A specializer of a method.
        #[serde(alias = "method")]
        Specialize = "specialize",
        /// The name of a class, structure or condition.
        Class = "class",
        /// A superclass in a definition of a class or condition, or an included structure.
        Subclass = "subclass",
        /// The type of a clause in HANDLER-CASE or HANDLER-BIND.
        Handler = "handler",
        /// A type specifier, or a part of one.
        Type = "type",
        /// The name of a slot.
        Slot = "slot",
        /// `#'name`, or a name that is passed to FUNCALL or a similar function, where the compiler
        /// recorded no call.
        Function = "function",
        /// The subject of a declaration.
        Declaration = "declaration",
        /// An export in a package definition, or in a call to `export` or `unexport`.
        Export = "export",
        /// An imported, shadowing or interned symbol in a package definition, or in a call to
        /// `import`, `shadow` or a similar function.
        Import = "import",
        /// The name of a block, as in `(return-from x)`. Every function establishes a block of its
        /// name.
        Block = "block",
        /// Part of quoted data.
        Quoted = "quoted",
        /// Part of a backquoted form, which a macro turns into code.
        Template = "template",
        /// Evaluated by the reader, for example inside `#.`.
        ReadTime = "read-time",
        /// An argument of a macro, or part of code that the compiler dropped.
        Mention = "mention",
    }
}

impl UseType {
    /// Returns the kind under which the who tools list the use. `None`: no who tool lists it.
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

    /// Whether the use only exports, imports or declares the symbol, or names a block. The who
    /// tools and the graph of users ignore such uses.
    pub fn is_declaration(self) -> bool {
        matches!(self, Self::Export | Self::Import | Self::Declaration | Self::Block)
    }

    /// Whether the use is in a list of exported or imported symbols.
    pub(super) fn is_listing(self) -> bool {
        matches!(self, Self::Export | Self::Import)
    }

    /// Whether the use is an edge of the call graph.
    pub fn is_call(self) -> bool {
        matches!(self, Self::Call | Self::Macro | Self::Function)
    }
}

/// A line with uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct CodeReference {
    /// The leftmost use with the strongest evidence.
    #[serde(flatten)]
    pub place: Location,
    /// The columns of all exact uses in the line, unless the entry's is the only one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub columns: Vec<u32>,
    /// The columns of uncertain uses in the line.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub approximate_columns: Vec<u32>,
    /// The places of all exact uses in the line.
    #[serde(skip)]
    pub tokens: Vec<Location>,
    /// The places of uncertain uses in the line.
    #[serde(skip)]
    pub approximate: Vec<Location>,
    /// The kind of the leftmost use with the strongest evidence.
    #[serde(rename = "type")]
    pub use_type: UseType,
    /// Whether a use in the line writes the variable, the slot, or the accessor's place.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub written: bool,
    /// The line's text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub context: Option<String>,
    /// All uses in the line.
    #[serde(skip)]
    pub uses: Vec<UseInLine>,
    /// The function, method or macro that contains the use.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub caller: Option<LispName>,
    /// For a handler of a parent condition: that condition.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub handles: Option<LispName>,
    /// How the place was determined; absent if exact.
    #[serde(skip_serializing_if = "Evidence::is_exact")]
    #[schemars(with = "Option<Evidence>")]
    pub evidence: Evidence,
    /// For evidence `via`: the operator that expands into the use.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub via: Option<String>,
    /// For evidence `via`: the line in the operator's definition, or in a function called there,
    /// that contains the symbol. A rename there changes this use.
    #[serde(skip)]
    pub via_template: Option<Location>,
    /// For evidence `via`: the names in the form from which the operator builds the symbol; empty
    /// if it uses none. A rename of the symbol does not change this use. `None`: the symbol is not
    /// built.
    #[serde(skip)]
    pub via_name_parts: Option<Vec<String>>,
    /// The file has changed since it was loaded, so that lines may have moved.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub stale: bool,
}

/// One use in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UseInLine {
    /// The kind of the use.
    pub use_type: UseType,
    /// Whether F, `(SETF F)` or both are used.
    pub called: SetfUse,
    /// The function, method or macro around the use. `None`: top-level code.
    pub caller: Option<LispName>,
}

/// The answer: one entry for each line, sorted by file and line. Uses without a known line have one
/// entry for each file and caller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct CodeFindReferencesAnswer {
    /// The symbol as it is written in code: shop:price, shop::%helper, cl:mapcar.
    pub symbol: LispName,
    /// The entries.
    pub refs: Vec<CodeReference>,
    /// The number of entries listed.
    pub count: usize,
    /// The total number of entries.
    pub total: usize,
    /// Whether entries were omitted because of `limit`.
    #[serde(skip)]
    pub truncated: bool,
    /// Lines with the name in text that the image does not have, such as unloaded or stale files
    /// and code that feature expressions exclude. The place is certain, the meaning is not.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub text: Vec<TextUse>,
    /// The number of matches in `text`, including those omitted because of `limit`.
    #[serde(skip_serializing_if = "crate::answer::is_zero", default)]
    pub text_total: usize,
    /// A system is loading; the answer may be incomplete.
    #[serde(skip)]
    pub loading: bool,
    /// The package where the name was found, if none was given and CL-USER lacks the name.
    #[serde(skip)]
    pub looked_up_in: Option<String>,
    /// Risks of a rename that the entries do not show, such as derived names and uses that macros
    /// generate.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schemars(with = "Vec<String>")]
    pub cautions: Vec<Caution>,
    /// The files that have changed since they were loaded.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub stale: Vec<String>,
    /// The cursor of the next page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}
