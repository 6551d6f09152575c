//! The plan of a rename: its edits, conflicts and cautions. Also the answers to applying and
//! undoing a plan.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use steelbank_reader::Range;

use super::Verified;
use crate::answer::location::{Location, as_text};
use crate::answer::name::{as_readable, readable};
use crate::answer::{LispName, OtherText};
use crate::workspace::version;

/// The places that a rename edits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// The narrow set if all its places are exact, else the symbol's set.
    #[default]
    Auto,
    /// The places where the symbol means the renamed definition.
    Narrow,
    /// Every token that reads as the symbol, including local variables of this name.
    Symbol,
}

/// One edit.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RenameEdit {
    /// The replaced range in bytes of the file: usually the name without its prefix. If the file is
    /// UTF-8, the offsets are the same in its text.
    #[serde(skip)]
    pub range: Range,
    /// The start of the name: `file:line:column`.
    #[serde(rename = "at", serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub place: Location,
    /// The old text.
    pub old: String,
    /// The new text.
    pub new: String,
}

/// The edits of one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FileEdits {
    /// The file, relative to the project's root.
    pub path: String,
    /// Whether the file is not Lisp, so that its edits replace words.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub other: bool,
    /// A hexadecimal hash of the bytes that the file had when the rename was planned.
    #[serde(skip)]
    pub hash: String,
    /// The edits in order, without overlaps. In JSON, only their number.
    #[serde(serialize_with = "as_count")]
    #[schemars(with = "usize")]
    pub edits: Vec<RenameEdit>,
}

impl FileEdits {
    /// Returns whether the plan was made for a file with these bytes.
    pub(crate) fn is_for(&self, bytes: &[u8]) -> bool {
        version(bytes) == self.hash
    }
}

fn as_count<S: Serializer>(edits: &[RenameEdit], serializer: S) -> Result<S::Ok, S::Error> {
    edits.len().serialize(serializer)
}

/// A place that is not edited, although the symbol may be meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Doubt {
    /// The place: `file:line:column`.
    #[serde(rename = "at", serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub place: Location,
    /// The text of the line.
    pub context: String,
    /// Why it is not edited.
    pub reason: String,
}

/// A name that a form derives from the renamed name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Derived {
    /// The symbol.
    pub name: LispName,
    /// The name that the form will generate instead.
    #[serde(serialize_with = "as_readable")]
    pub new_name: String,
    /// The number of the derived name's tokens in the project's files.
    pub places: usize,
    /// Whether the edits rename it too.
    pub renamed: bool,
}

/// The reason for a conflict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ConflictKind {
    /// The new name equals the old name.
    Same,
    /// The symbol belongs to SBCL.
    Locked,
    /// The symbol is defined outside of the project.
    Outside,
    /// A symbol with the new name exists and is used.
    Exists,
    /// The new name is inherited from a used package.
    Inherited,
    /// The new name is a standard symbol.
    Standard,
    /// A form generates the symbol's name and cannot be edited to generate the new one.
    Made,
    /// The narrow set was requested, but not every place is exact.
    NotNarrow,
    /// The symbol does not occur in the project's files.
    NoPlace,
}

/// Why the rename is impossible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Conflict {
    /// The kind of conflict.
    pub kind: ConflictKind,
    /// A sentence.
    pub message: String,
}

/// The subject of a caution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CautionKind {
    /// Other names in use are generated from the symbol's name, or a macro generates the symbol's
    /// name.
    Maker,
    /// A use or a definition may be generated from parts of names, or code may look it up by name.
    UseMade,
    /// A keyword that code contains may be generated from the symbol's name.
    Initarg,
    /// The symbol is renamed with a slot, and some uses of the slot's name are of unknown objects.
    Slot,
    /// A string that code reads at run time, or may compare with symbol names, contains the name.
    InString,
    /// The name occurs in text with an unknown package.
    UnknownPackage,
    /// The name is a keyword of LOOP, ITERATE or another macro with clauses.
    LoopWord,
    /// Files outside of the project contain the symbol.
    UsedOutside,
    /// Some files could not be searched.
    Unread,
}

/// A risk of the rename, even if all edits are right.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RenameCaution {
    /// The subject.
    pub kind: CautionKind,
    /// A sentence.
    pub message: String,
    /// The names or places of the caution.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub names: Vec<String>,
}

/// The plan of a rename.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RenamePlan {
    /// The symbol.
    pub symbol: LispName,
    /// The package where the name was found, if none was given and CL-USER lacks the name.
    #[serde(skip)]
    pub looked_up_in: Option<String>,
    /// The new symbol's name.
    #[serde(serialize_with = "as_readable")]
    pub new_name: String,
    /// The set of places: `narrow` or `symbol`.
    pub scope: Scope,
    /// Why this set was chosen.
    pub reason: String,
    /// Why the rename is impossible. The edits must not be applied unless this is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<Conflict>,
    /// The risks of the rename, even if all edits are right.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<RenameCaution>,
    /// The edits, by file.
    pub files: Vec<FileEdits>,
    /// The number of edits.
    pub edits: usize,
    /// The number of the symbol's tokens in the project's files.
    #[serde(skip)]
    pub places: usize,
    /// The number of `&key` parameters that keep their keyword, rewritten as `((:name new-name))`.
    #[serde(skip_serializing_if = "crate::answer::is_zero")]
    pub key_parameters: usize,
    /// Places where code may generate the old name at run time, judging by constant parts of the
    /// names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub made_when_run: Vec<String>,
    /// Places where code generates names at run time that are unknown or may include the old name.
    #[serde(skip)]
    pub computed: Vec<String>,
    /// Names that are derived from the old name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub derived: Vec<Derived>,
    /// Places that are not edited.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubtful: Vec<Doubt>,
    /// Words in manuals, scripts and configuration that spell the name, edited only on request.
    #[serde(skip_serializing_if = "OtherText::is_empty")]
    pub other_text: OtherText,
    /// Strings in Lisp text that contain the name, and that code may read at run time. Strings that
    /// are equal to the name are in `doubtful`.
    #[serde(skip_serializing_if = "OtherText::is_empty")]
    pub strings: OtherText,
    /// Whether text that is not Lisp was not searched, because there is no text index.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub text_unsearched: bool,
}

impl RenamePlan {
    /// Lists the edited Lisp files.
    pub(super) fn lisp_files(&self) -> impl Iterator<Item = &FileEdits> {
        self.files.iter().filter(|file| !file.other)
    }

    /// Counts the edits in text that is not Lisp.
    pub(super) fn edits_of_words(&self) -> usize {
        self.files.iter().filter(|file| file.other).map(|file| file.edits.len()).sum()
    }

    /// Returns whether there are no conflicts.
    pub fn is_possible(&self) -> bool {
        self.conflicts.is_empty()
    }

    /// Lists the places that cautions report as perhaps generating the symbol's name, if the
    /// verification found differences in their files.
    pub fn generators_that_differ(&self, verified: &Verified) -> Vec<&str> {
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

/// Edits of the project's files. All plans are verified, written and undone in the same way.
pub trait EditPlan: std::fmt::Debug + Sync {
    /// Describes the edits, for undoing them: `rename of p:old to new`.
    fn purpose(&self) -> String;

    /// Returns the edits by file.
    fn files(&self) -> &[FileEdits];

    /// Returns the first reason why the edits must not be written.
    fn conflict(&self) -> Option<&str>;
}

impl EditPlan for RenamePlan {
    fn purpose(&self) -> String {
        format!("rename of {} to {}", self.symbol, readable(&self.new_name))
    }

    fn files(&self) -> &[FileEdits] {
        &self.files
    }

    fn conflict(&self) -> Option<&str> {
        self.conflicts.first().map(|conflict| conflict.message.as_str())
    }
}

/// How to execute a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RenamePolicy {
    /// Whether to write the plan's edits.
    pub apply: bool,
    /// Whether writing is permitted.
    pub allowed: bool,
    /// Whether to verify the plan. Default: only if its edits are written or tests are run.
    pub verify: Option<bool>,
    /// Whether to run tests for verification.
    pub tests: bool,
}

impl RenamePolicy {
    /// Returns whether to verify `plan`. A plan is not verified if it has conflicts, or if writing
    /// was requested but is not permitted.
    pub fn verifies(&self, plan: &dyn EditPlan) -> bool {
        self.verify.unwrap_or(self.apply || self.tests)
            && plan.conflict().is_none()
            && (self.allowed || !self.apply)
    }

    /// Returns whether `plan` is written, given the result of its verification, if any.
    pub fn writes(&self, plan: &dyn EditPlan, verified: Option<&Verified>) -> bool {
        self.apply
            && self.allowed
            && plan.conflict().is_none()
            && verified.is_none_or(|verified| verified.same)
    }
}

/// The edits that were written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Applied {
    /// The name of the edit, for [`crate::UndoRequest`].
    pub undo: String,
    /// The files, relative to the project's root.
    pub files: Vec<String>,
}

/// The result of an undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Undone {
    /// The name of the edit.
    pub undo: String,
    /// A description of the edit: `rename of p:old to new`.
    pub what: String,
    /// The restored files, relative to the project's root.
    #[serde(rename = "restored")]
    pub files: Vec<String>,
}

/// The reason why a request about a rename failed, as a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RenameError(pub String);
