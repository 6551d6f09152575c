//! Refactorings other than rename. Each operation computes a [`RefactorPlan`], which writes
//! nothing. Plans are verified, written and undone as those of a rename:
//! [`RenameApplyRequest`](super::rename::RenameApplyRequest) writes a plan's edits, and
//! [`RefactorVerifyRequest`] loads the project before and after them in scratch images.

mod delete;
mod replace;
pub(crate) mod tool;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Steelbank;
use crate::actions::change::rename::{Doubt, EditPlan, FileEdits, Verified, compare_loads};
use crate::actions::text::search::FormSearchRequest;
use crate::actions::text::search::pattern::PatternError;
use crate::engine::Control;
use crate::handle::question::{Action, Question};
use crate::handle::{Error, QueryContext};

/// A refactoring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Operation {
    /// Deletes a definition that nothing uses.
    Delete,
    /// Replaces forms that match a pattern.
    Replace,
}

/// A request to replace the forms that match a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplaceRequest {
    /// The forms to replace.
    pub search: FormSearchRequest,
    /// The new form, with holes of the pattern.
    pub with: String,
    /// Whether to replace forms that a feature expression excludes.
    pub excluded: bool,
}

impl ReplaceRequest {
    /// Creates a request to replace the forms that match `pattern` by `with`.
    pub fn new(pattern: impl Into<String>, with: impl Into<String>) -> Self {
        Self { search: FormSearchRequest::new(pattern), with: with.into(), excluded: false }
    }
}

/// A request to delete a definition that nothing uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeleteRequest {
    /// The name, in the syntax of [`crate::answer::designator`].
    pub name: String,
    /// The package to look the name up in. Default: CL-USER, or else the only user package that has
    /// the name.
    pub package: Option<String>,
    /// Whether to delete definitions that only deleted ones use, too.
    pub unreferenced: bool,
}

impl DeleteRequest {
    /// Creates a request to delete the definition of `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), package: None, unreferenced: false }
    }
}

impl Question for DeleteRequest {
    type Answer = RefactorPlan;

    /// Plans the deletion, and writes nothing.
    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<RefactorPlan, Error> {
        delete::plan(self, context, control)
    }
}

/// The edits of a refactoring.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct RefactorPlan {
    /// The operation.
    pub operation: Operation,
    /// Describes the refactoring, for undoing it.
    #[serde(skip)]
    pub purpose: String,
    /// Why the refactoring is impossible. The edits must not be applied unless this is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conflicts: Vec<String>,
    /// The edits by file.
    pub files: Vec<FileEdits>,
    /// The number of edits.
    pub edits: usize,
    /// The risks of the refactoring, even if all edits are right.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
    /// Places that are not edited.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubtful: Vec<Doubt>,
}

impl RefactorPlan {
    fn new(operation: Operation, purpose: String) -> Self {
        Self {
            operation,
            purpose,
            conflicts: Vec::new(),
            files: Vec::new(),
            edits: 0,
            cautions: Vec::new(),
            doubtful: Vec::new(),
        }
    }
}

impl EditPlan for RefactorPlan {
    fn purpose(&self) -> String {
        self.purpose.clone()
    }

    fn files(&self) -> &[FileEdits] {
        &self.files
    }

    fn conflict(&self) -> Option<&str> {
        let nothing = self.files.is_empty().then_some("There is nothing to edit.");
        self.conflicts.first().map(String::as_str).or(nothing)
    }
}

/// Why a refactoring cannot be planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RefactorError {
    /// The new form is wrong.
    #[error(transparent)]
    With(#[from] PatternError),
    /// The new form has a hole that the pattern lacks.
    #[error("The new form has the hole {hole}, but the pattern {pattern} does not have it.")]
    UnknownHole {
        /// The hole.
        hole: String,
        /// The pattern.
        pattern: String,
    },
}

impl From<RefactorError> for Error {
    fn from(error: RefactorError) -> Self {
        Self::of_request(error, None)
    }
}

impl Question for ReplaceRequest {
    type Answer = RefactorPlan;

    /// Plans the replacement, and writes nothing.
    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<RefactorPlan, Error> {
        replace::plan(self, context, control)
    }
}

/// A request to verify a plan. Scratch images load the loaded systems, the systems of edited files
/// and the systems that depend on edited systems, before and after the edits. Failures and
/// diagnostics must be the same; cross references and lines may differ. This runs the project's
/// code in copies, and changes no file.
#[derive(Debug, Clone, Copy)]
pub struct RefactorVerifyRequest<'a> {
    plan: &'a RefactorPlan,
    tests: bool,
}

impl<'a> RefactorVerifyRequest<'a> {
    /// Creates a request to verify `plan`.
    pub fn new(plan: &'a RefactorPlan) -> Self {
        Self { plan, tests: false }
    }

    /// Also runs the tests of the project's systems if `tests` is true: they must have the same
    /// results.
    #[must_use]
    pub fn tests(self, tests: bool) -> Self {
        Self { tests, ..self }
    }
}

impl Action for RefactorVerifyRequest<'_> {
    type Answer = Verified;

    /// Verifies the plan. Differences are part of the answer, not an error.
    fn run(&self, bank: &Steelbank, control: &Control) -> Result<Verified, Error> {
        let shown = |path: &std::path::Path| bank.project().shown(path);
        bank.verify_edits(self.plan, self.tests, None, control, &|_, before, after| {
            compare_loads(&self.plan.files, before, after, &shown)
        })
    }
}
