//! The plan of a rename: its edits, conflicts and cautions; and the answers of applying and undoing it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steelbank_reader::Range;

use crate::answer::Location;

/// Which places a rename takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// The narrow set where every place is exact, else the symbol's.
    #[default]
    Auto,
    /// The places where the symbol means what is renamed.
    Narrow,
    /// Every token that reads as the symbol, local variables of the name among them.
    Symbol,
}

/// One edit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RenameEdit {
    /// What is replaced: the name without its prefix. In bytes of the file, which are those of its text unless that is
    /// not UTF-8.
    #[serde(flatten)]
    pub range: Range,
    /// The token.
    #[serde(flatten)]
    pub place: Location,
    /// What stands there.
    pub old: String,
    /// What will stand there.
    pub new: String,
}

/// The edits of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct FileEdits {
    /// The file, relative to the project's root.
    pub path: String,
    /// FNV-1a of the bytes that the plan was made for, in hexadecimal.
    pub hash: String,
    /// In order, none overlapping another.
    pub edits: Vec<RenameEdit>,
}

/// A place that is left as it is, though the symbol may be meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Doubt {
    /// The place.
    #[serde(flatten)]
    pub place: Location,
    /// The line's text.
    pub context: String,
    /// Why it is left.
    pub reason: String,
}

/// A name that a form makes from the renamed one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Derived {
    /// The symbol as it is printed.
    pub name: String,
    /// What the form will make in its place.
    pub new_name: String,
    /// How many tokens it has in the project's files.
    pub places: usize,
    /// Whether the edits rename it too.
    pub renamed: bool,
}

/// What a conflict is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConflictKind {
    /// The new name is the old one.
    Same,
    /// The symbol is SBCL's own.
    Locked,
    /// The symbol is defined outside of the project.
    Outside,
    /// A symbol of the new name exists and is used.
    Exists,
    /// The new name is inherited from a package that is used.
    Inherited,
    /// The new name is a symbol of the standard.
    Standard,
    /// The symbol is made by a form in which it does not stand.
    Made,
    /// The narrow set was asked for, and not every place is exact.
    NotNarrow,
    /// The symbol stands nowhere in the project's files.
    NoPlace,
}

/// Why the rename cannot be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Conflict {
    /// What it is about.
    pub kind: ConflictKind,
    /// A sentence.
    pub message: String,
}

/// What a caution is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CautionKind {
    /// Other names that are written somewhere are made from it.
    Maker,
    /// A use may be made from parts.
    UseMade,
    /// A keyword that is written may be made from it.
    Initarg,
    /// It changes with a slot, and of which object a slot of that name is meant somewhere is not known.
    Slot,
    /// A string that is read when the code runs names it.
    InString,
    /// It stands in text whose package is not known.
    UnknownPackage,
    /// It is a word of LOOP or ITERATE.
    LoopWord,
    /// Files outside of the project name it.
    UsedOutside,
    /// Files could not be searched.
    Unread,
}

/// What may break although all edits are right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RenameCaution {
    /// What it is about.
    pub kind: CautionKind,
    /// A sentence.
    pub message: String,
    /// The names or places that it is about.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub names: Vec<String>,
}

/// The plan of a rename.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RenamePlan {
    /// The symbol as it is printed.
    pub symbol: String,
    /// The new symbol's name.
    pub new_name: String,
    /// Which set of places was taken: `narrow` or `symbol`.
    pub scope: Scope,
    /// Why.
    pub reason: String,
    /// Why it cannot be done; nothing must be edited unless this is empty.
    pub conflicts: Vec<Conflict>,
    /// What may break.
    pub cautions: Vec<RenameCaution>,
    /// The edits, by file.
    pub files: Vec<FileEdits>,
    /// How many edits there are.
    pub edits: usize,
    /// How many tokens of the symbol the project's files have.
    pub places: usize,
    /// How many `&key` parameters keep their keyword by being written `((:name new-name))`.
    pub key_parameters: usize,
    /// Names that are made from it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub derived: Vec<Derived>,
    /// Places that are left as they are.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub doubtful: Vec<Doubt>,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Applied {
    /// What takes it back: see [`Steelbank::rename_undo`](crate::Steelbank::rename_undo).
    pub undo: String,
    /// The files, relative to the project's root.
    pub files: Vec<String>,
}

/// The outcome of an undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Undone {
    /// The name of the edit.
    pub undo: String,
    /// What it had been, in words: `P::OLD became NEW`.
    pub what: String,
    /// The files that have their old text again, relative to the project's root.
    pub files: Vec<String>,
}

/// Why no file was changed, in a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RenameError(pub String);
