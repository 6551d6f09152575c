//! The plan of a rename: its edits, conflicts and cautions; and the answers of applying and undoing it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use steelbank_reader::Range;

use super::Verified;
use crate::answer::location::{Location, as_text};
use crate::answer::name::as_readable;
use crate::answer::{LispName, OtherText};
use crate::workspace::version;

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
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RenameEdit {
    /// What is replaced: the name without its prefix. In bytes of the file, which are those of its text unless that is
    /// not UTF-8.
    #[serde(skip)]
    pub range: Range,
    /// Where that starts: `file:line:column`.
    #[serde(rename = "at", serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub place: Location,
    /// What stands there.
    pub old: String,
    /// What will stand there.
    pub new: String,
}

/// The edits of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FileEdits {
    /// The file, relative to the project's root.
    pub path: String,
    /// Whether it holds no Lisp, so that its edits are of words.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub other: bool,
    /// The version of the bytes that the plan was made for: a hash, in hexadecimal.
    #[serde(skip)]
    pub hash: String,
    /// In order, none overlapping another. In JSON it is told how many there are.
    #[serde(serialize_with = "as_count")]
    #[schemars(with = "usize")]
    pub edits: Vec<RenameEdit>,
}

impl FileEdits {
    /// Whether the plan was made for a file of these bytes.
    pub(crate) fn is_of(&self, bytes: &[u8]) -> bool {
        version(bytes) == self.hash
    }
}

fn as_count<S: Serializer>(edits: &[RenameEdit], serializer: S) -> Result<S::Ok, S::Error> {
    edits.len().serialize(serializer)
}

/// A place that is left as it is, though the symbol may be meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Doubt {
    /// The place: `file:line:column`.
    #[serde(rename = "at", serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub place: Location,
    /// The line's text.
    pub context: String,
    /// Why it is left.
    pub reason: String,
}

/// A name that a form makes from the renamed one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Derived {
    /// The symbol.
    pub name: LispName,
    /// The name of what the form will make in its place.
    #[serde(serialize_with = "as_readable")]
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
    /// A string names it that is read when the code runs, or that symbols' names may be compared with.
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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RenamePlan {
    /// The symbol.
    pub symbol: LispName,
    /// The package in which the name was looked up, if nobody named it.
    #[serde(skip)]
    pub looked_up_in: Option<String>,
    /// The new symbol's name.
    #[serde(serialize_with = "as_readable")]
    pub new_name: String,
    /// Which set of places was taken: `narrow` or `symbol`.
    pub scope: Scope,
    /// Why.
    pub reason: String,
    /// Why it cannot be done; nothing must be edited unless this is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
    /// What may break.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<RenameCaution>,
    /// The edits, by file.
    pub files: Vec<FileEdits>,
    /// How many edits there are.
    pub edits: usize,
    /// How many tokens of the symbol the project's files have.
    #[serde(skip)]
    pub places: usize,
    /// How many `&key` parameters keep their keyword by being written `((:name new-name))`.
    #[serde(skip_serializing_if = "crate::answer::is_zero")]
    pub key_parameters: usize,
    /// Where code makes names of this form when it runs, and will go on making the old one if it makes that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub made_when_run: Vec<String>,
    /// Where code makes names when it runs of which it may be one.
    #[serde(skip)]
    pub computed: Vec<String>,
    /// Names that are made from it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub derived: Vec<Derived>,
    /// Places that are left as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubtful: Vec<Doubt>,
    /// Where words of manuals, scripts and configuration spell the name: edited only if they were asked for.
    #[serde(skip_serializing_if = "OtherText::is_empty")]
    pub other_text: OtherText,
}

impl RenamePlan {
    /// Lists the files of Lisp that are edited.
    pub(super) fn lisp_files(&self) -> impl Iterator<Item = &FileEdits> {
        self.files.iter().filter(|file| !file.other)
    }

    /// Counts the edits of words in text that is no Lisp.
    pub(super) fn edits_of_words(&self) -> usize {
        self.files.iter().filter(|file| file.other).map(|file| file.edits.len()).sum()
    }

    /// Whether nothing forbids it.
    pub fn is_possible(&self) -> bool {
        self.conflicts.is_empty()
    }

    /// Finds the places at which code was said to make the name from parts, in files in which something differs.
    pub fn makers_that_differ(&self, verified: &Verified) -> Vec<&str> {
        let makers = self.cautions.iter().filter(|caution| caution.kind == CautionKind::UseMade);
        let places = makers.flat_map(|caution| caution.names.iter().map(String::as_str));
        let differs = |place: &&str| {
            let mut files = verified.differences.iter().filter_map(|found| found.path.as_deref());
            let file = place.rsplit_once(':').map(|(file, _)| file);
            files.any(|path| file == Some(path))
        };
        places.filter(differs).collect()
    }
}

/// What is done with a plan: whether it is written, and verified before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RenamePolicy {
    /// Whether its edits are to be written.
    pub apply: bool,
    /// Whether they may be.
    pub allowed: bool,
    /// Whether it is to be verified; by default what is written is.
    pub verify: Option<bool>,
    /// Whether tests are run to verify it.
    pub tests: bool,
}

impl RenamePolicy {
    /// Whether `plan` is verified: not for an order that cannot be carried out anyway.
    pub fn verifies(&self, plan: &RenamePlan) -> bool {
        self.verify.unwrap_or(self.apply || self.tests) && plan.is_possible() && (self.allowed || !self.apply)
    }

    /// Whether `plan` is written, after it was verified with this outcome, if it was.
    pub fn writes(&self, plan: &RenamePlan, verified: Option<&Verified>) -> bool {
        self.apply && self.allowed && plan.is_possible() && verified.is_none_or(|verified| verified.same)
    }
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Applied {
    /// What takes it back: see [`crate::UndoRequest`].
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
    /// What it had been, in words: `rename of p:old to new`.
    pub what: String,
    /// The files that have their old text again, relative to the project's root.
    #[serde(rename = "restored")]
    pub files: Vec<String>,
}

/// Why no file was changed, in a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RenameError(pub String);
