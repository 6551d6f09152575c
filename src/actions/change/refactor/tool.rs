//! The tool `refactor`: plans, verifies and writes a refactoring in all files of the project, or in
//! none.

use std::fmt::Write as _;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{DeleteRequest, Operation, RefactorPlan, RefactorVerifyRequest, ReplaceRequest};
use crate::actions::change::rename::tool::{EditArguments, Executed, PlannedEdit, edits_text, execute};
use crate::actions::change::rename::{EditPlan as _, Hunk, RenameDiffRequest, RenamePolicy, Verified};
use crate::actions::missing::{LookupReply, of_error};
use crate::actions::text::search::FormSearchRequest;
use crate::answer::lookup::DEFAULT_PACKAGE;
use crate::answer::{Advice, counted};
use crate::engine::control::ALLOWED;
use crate::tools::page::{Paging, Part, Sequence};
use crate::tools::{
    About, Call, CallOutcome, Effect, Failure, Permission, Session, Starts, Tool, ToolAnswer,
};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// replace: replace the forms that match `pattern` by `with`. delete: delete the definition of
    /// `name`, which nothing may use.
    #[serde(default)]
    #[schemars(with = "Operation")]
    operation: Option<Operation>,
    /// The forms to replace, with holes: ?x is one form, ?* any number of elements.
    #[serde(default)]
    pattern: Option<String>,
    /// The new form, with the pattern's holes.
    #[serde(default)]
    with: Option<String>,
    /// The definition to delete.
    #[serde(default)]
    name: Option<String>,
    /// Also delete what only deleted definitions use.
    #[serde(default)]
    unreferenced: bool,
    /// The package to look symbols up in.
    #[serde(default)]
    #[schemars(extend("default" = DEFAULT_PACKAGE))]
    package: Option<String>,
    /// Conditions as in search: "?x: keyword", "definition: NAME", "package: NAME".
    #[serde(default, rename = "where")]
    conditions: Vec<String>,
    /// Also edit forms that a feature expression excludes.
    #[serde(default)]
    include: Vec<ExcludedForms>,
    #[serde(flatten)]
    edit: EditArguments,
}

/// Additional text to edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum ExcludedForms {
    Excluded,
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "refactor",
        title: "Refactor code",
        description: "Refactors the loaded project. replace: replaces every form that matches a pattern with holes, for \
            example pattern (if ?x nil t), with (not ?x). delete: deletes a definition that nothing uses, with its exports. Without apply it only plans: edits, diff, places left out, \
            cautions. With apply it writes all files or none, after verifying in a copy of the image. Then call reload. \
            To rename a symbol, call rename.",
        effect: Effect::Runs,
    };
    Tool::new::<Arguments, LookupReply<ListedRefactoring>>(about, refactor)
        .may_need(&[Permission::Edits])
        .starts(Starts::Copy)
        .of_image()
}

/// The answer of the tool.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ListedRefactoring {
    #[serde(flatten)]
    plan: RefactorPlan,
    applied: bool,
    /// The name of the edit, to undo it.
    #[serde(skip_serializing_if = "Option::is_none")]
    undo: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<Verified>,
    /// Advice on the next step.
    next: String,
    #[serde(skip)]
    file_count: usize,
    /// The edits, grouped by proximity.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hunks: Vec<Hunk>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl Sequence for ListedRefactoring {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.plan.files);
        part.keep(&mut self.hunks);
        part.keep(&mut self.plan.doubtful);
    }
}

/// The answer for work that is still being verified.
#[derive(Debug, Clone, Serialize)]
struct RunningRefactoring {
    applied: bool,
    wait: String,
    seconds: u64,
    next: String,
}

fn running(number: u64, since: Duration, call: &Call) -> Result<ToolAnswer, Failure> {
    let next = Advice::WaitForRefactoring(number.to_string()).worded(call.wording());
    let answer =
        RunningRefactoring { applied: false, wait: number.to_string(), seconds: since.as_secs(), next };
    let text = format!("The refactoring is being verified, for {} s so far. {}", answer.seconds, answer.next);
    ToolAnswer::new(text, &LookupReply::yes(&answer), CallOutcome::Answered)
}

fn refactor(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let running = |number, since| running(number, since, call);
    let alone = given.operation.is_none();
    if let Some(answer) = given.edit.earlier(alone, "an operation", session, call, running) {
        return answer;
    }
    let needed = |argument: Option<String>, name: &str| {
        argument.ok_or_else(|| {
            Failure::arguments(format!(
                "refactor needs the argument \"{name}\" (a string), which is missing."
            ))
        })
    };
    let Some(operation) = given.operation else {
        return Err(Failure::arguments("refactor needs the argument \"operation\": replace or delete."));
    };
    let bank = session.bank()?;
    let policy = given.edit.policy(session)?;
    let control = call.control(ALLOWED);
    let plan = match operation {
        Operation::Replace => {
            let search = FormSearchRequest {
                package: given.package,
                conditions: given.conditions,
                ..FormSearchRequest::new(needed(given.pattern, "pattern")?)
            };
            let with = needed(given.with, "with")?;
            let excluded = given.include.contains(&ExcludedForms::Excluded);
            bank.ask(&ReplaceRequest { search, with, excluded }, &control)
        }
        Operation::Delete => {
            let name = needed(given.name, "name")?;
            let (package, unreferenced) = (given.package, given.unreferenced);
            bank.ask(&DeleteRequest { name, package, unreferenced }, &control)
        }
    };
    let plan = match plan {
        Ok(plan) => plan,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    let hunks = bank.ask(&RenameDiffRequest::new(&plan), &call.control(ALLOWED))?.hunks;
    let (verifying, cursor) = (given.edit.verifying(), given.edit.cursor.clone());
    let planned = PlannedRefactoring { plan, policy, hunks, verifying, cursor };
    given.edit.carry_out(planned, session, call, running)
}

/// A planned refactoring, and how to execute it.
struct PlannedRefactoring {
    plan: RefactorPlan,
    policy: RenamePolicy,
    hunks: Vec<Hunk>,
    /// The time limit for verification.
    verifying: Duration,
    cursor: Option<String>,
}

impl PlannedEdit for PlannedRefactoring {
    fn is_verified(&self) -> bool {
        self.policy.verifies(&self.plan)
    }

    fn execute(&self, session: &Session, call: &Call) -> Result<Executed, Failure> {
        let verification = RefactorVerifyRequest::new(&self.plan).tests(self.policy.tests);
        let control = call.control(self.verifying);
        execute(&self.plan, self.policy, session, call, |bank| bank.run(&verification, &control))
    }

    fn reply(mut self, session: &Session, done: Executed, call: &Call) -> Result<ToolAnswer, Failure> {
        let Executed { verified, applied } = done;
        let conflict = self.plan.conflict().is_some();
        let differs = verified.as_ref().is_some_and(|verified| !verified.same);
        if differs {
            // Omit the diff: the answer is about the differences.
            self.hunks.clear();
        }
        let next = match &applied {
            _ if !self.plan.conflicts.is_empty() => {
                "Nothing was written, because of the conflicts above.".to_owned()
            }
            _ if conflict => "Nothing was written: there is nothing to edit.".to_owned(),
            _ if differs => "Nothing was written. Check the differences.".to_owned(),
            Some(applied) => {
                let recompiled = verified.as_ref().is_some_and(|verified| verified.recompiled);
                let load = if recompiled { Advice::ForceLoad } else { Advice::Reload };
                let undo = Advice::UndoRefactoring(applied.undo.clone());
                format!("{} {}", load.worded(call.wording()), undo.worded(call.wording()))
            }
            None => match session.permit(Permission::Edits) {
                Ok(()) => Advice::Apply.worded(call.wording()),
                Err(why) => format!("Nothing was written. {why}"),
            },
        };
        let outcome = match !differs && (applied.is_some() || !self.policy.apply) {
            true => CallOutcome::Answered,
            false => CallOutcome::Failed,
        };
        let paging = Paging::at(self.cursor.filter(|_| applied.is_none()));
        let listed = ListedRefactoring {
            file_count: self.plan.files.len(),
            plan: self.plan,
            applied: applied.is_some(),
            undo: applied.map(|applied| applied.undo),
            verified,
            next,
            hunks: self.hunks,
            cursor: None,
        };
        paging.cut(listed, call.budget(), |listed, range| {
            // An applied refactoring has no cursor, because it cannot be planned again.
            listed.cursor = range.cursor().filter(|_| !listed.applied);
            ToolAnswer::new(listed.text(), &LookupReply::yes(&*listed), outcome)
        })
    }
}

impl ListedRefactoring {
    fn text(&self) -> String {
        let edits = counted(self.plan.edits, "edit", "edits");
        let files = counted(self.file_count, "file", "files");
        let tense = match (self.plan.conflicts.is_empty(), self.applied) {
            (false, _) => "Impossible",
            (true, true) => "Applied",
            (true, false) => "Planned",
        };
        let mut text = format!("{tense}: {}, {edits} in {files}.", self.plan.purpose);
        for conflict in &self.plan.conflicts {
            let _ = write!(text, "\n  {conflict}");
        }
        for caution in &self.plan.cautions {
            let _ = write!(text, "\nNote: {caution}");
        }
        if let Some(verified) = &self.verified {
            let _ = write!(text, "\n{}", verified.of_loads());
        }
        let shown: usize = self.hunks.iter().map(|hunk| hunk.edits.len()).sum();
        edits_text(&mut text, &self.plan.files, shown < self.plan.edits, &self.hunks, &self.plan.doubtful);
        let _ = write!(text, "\n{}", self.next);
        if let Some(cursor) = &self.cursor {
            let _ = write!(text, "\nMore follows: the next page has cursor {cursor}.");
        }
        text
    }
}
