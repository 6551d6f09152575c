//! The tool `rename`: renames a symbol in all files of the project, or in none.

mod text;

pub(in crate::actions::change) use text::edits_text;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Steelbank;
use crate::actions::change::rename::{
    Applied, EditPlan, Hunk, RecoverEditsRequest, RenameApplyRequest, RenameDiffRequest, RenamePlan,
    RenamePolicy, RenameRequest, RenameVerifyRequest, Scope, UndoError, UndoRequest, Verified,
};
use crate::actions::missing::{LookupReply, NotFoundReply, of_error};
use crate::answer::Advice;
use crate::answer::lookup::DEFAULT_PACKAGE;
use crate::answer::name::readable;
use crate::engine::control::{ALLOWED, Control};
use crate::handle::Error;
use crate::tools::arguments::Timeout;
use crate::tools::page::{Paging, Part, Sequence};
use crate::tools::work::WaitResult;
use crate::tools::{
    About, Call, CallOutcome, Effect, Failure, Permission, Session, Starts, Tool, ToolAnswer,
};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// The symbol: my-func, pkg:name, pkg::name, |Mixed Case|.
    #[serde(default)]
    name: Option<String>,
    /// The new name, without a package.
    #[serde(default)]
    new_name: Option<String>,
    /// The package of a name without a prefix.
    #[serde(default)]
    #[schemars(extend("default" = DEFAULT_PACKAGE))]
    package: Option<String>,
    /// narrow: only this definition's uses, all exact. symbol: every token of the symbol. auto:
    /// narrow if possible.
    #[serde(default)]
    scope: Scope,
    /// Also rename in comments, strings that code reads, names that macros derive, manuals and
    /// scripts.
    #[serde(default)]
    include: Vec<Include>,
    #[serde(flatten)]
    edit: EditArguments,
}

/// The arguments of tools that plan, verify and write edits.
#[derive(Debug, Deserialize, JsonSchema)]
pub(in crate::actions::change) struct EditArguments {
    /// Write the files. Default: only plan.
    #[serde(default)]
    pub(in crate::actions::change) apply: bool,
    /// Load both versions of the project in copies and compare; a difference forbids apply. Default
    /// with apply.
    #[serde(default)]
    verify: Option<bool>,
    /// Also run the systems' tests to verify.
    #[serde(default)]
    tests: bool,
    #[serde(flatten)]
    timeout: Timeout,
    /// Answer after at most this time (default 45); the work continues.
    #[serde(default)]
    #[schemars(range(min = 0, max = 86_400))]
    answer_within_seconds: Option<u64>,
    /// Alone: wait for running work, given the `wait` of its answer.
    #[serde(default)]
    wait: Option<String>,
    /// Alone: undo an edit, given the `undo` of its answer, or last.
    #[serde(default)]
    undo: Option<String>,
    /// Continues a truncated plan, given its `cursor`.
    #[serde(default)]
    pub(in crate::actions::change) cursor: Option<String>,
}

impl EditArguments {
    /// Undoes an edit or waits for running work, if the arguments request this. `alone` states
    /// whether the tool's own arguments are absent, and `alternative` names them. `running` returns
    /// the answer for work that has not ended, given its number and duration.
    pub(in crate::actions::change) fn earlier(
        &self,
        alone: bool,
        alternative: &str,
        session: &Session,
        call: &Call,
        running: impl FnOnce(u64, Duration) -> Result<ToolAnswer, Failure>,
    ) -> Option<Result<ToolAnswer, Failure>> {
        let alone = alone && !self.apply;
        Some(match (&self.undo, &self.wait) {
            (None, None) => return None,
            (Some(id), None) if alone => undo(session, id, call),
            (None, Some(id)) if alone => match id.parse() {
                Ok(number) => self.wait(session, number, call, |since| running(number, since)),
                Err(_) => Err(unknown_work(session, id)),
            },
            _ => Err(Failure::arguments(format!("Give either {alternative}, or only undo, or only wait."))),
        })
    }

    /// Returns how to execute a plan. Rolls back interrupted edits before, if writing is permitted;
    /// the answer's notes report failures.
    ///
    /// # Errors
    /// The arguments contradict each other, or the cursor is wrong.
    pub(in crate::actions::change) fn policy(&self, session: &Session) -> Result<RenamePolicy, Failure> {
        Paging::at(self.cursor.clone()).offset()?;
        if self.tests && self.verify == Some(false) {
            return Err(Failure::arguments("tests needs verification: omit verify=false, or omit tests."));
        }
        let allowed = session.permit(Permission::Edits).is_ok();
        if allowed {
            let _ = session.bank()?.run(&RecoverEditsRequest::new(), &Control::default());
        }
        Ok(RenamePolicy { apply: self.apply, allowed, verify: self.verify, tests: self.tests })
    }

    /// Returns the time limit for verification.
    pub(in crate::actions::change) fn verifying(&self) -> Duration {
        Duration::from_secs(self.timeout.timeout_seconds)
    }

    /// Executes the plan: at once, or on another thread if it is verified.
    pub(in crate::actions::change) fn carry_out<P: PlannedEdit>(
        &self,
        planned: P,
        session: &Session,
        call: &Call,
        running: impl FnOnce(u64, Duration) -> Result<ToolAnswer, Failure>,
    ) -> Result<ToolAnswer, Failure> {
        if !planned.is_verified() {
            let done = planned.execute(session, call)?;
            return planned.reply(session, done, call);
        }
        let work = session.for_work();
        let begun = session.work().begin(call, move |call| {
            let done = planned.execute(&work, call);
            Box::new(move |call| planned.reply(&work, done?, call))
        });
        let number = begun.map_err(|error| Failure::engine(format!("Cannot create a thread: {error}.")))?;
        self.wait(session, number, call, |since| running(number, since))
    }

    /// Waits for the work `number` for at most the requested time, or for the usual time. If the
    /// work is still running then, returns the answer of `running`, given its duration. A call
    /// without a time limit waits until the work has ended.
    fn wait(
        &self,
        session: &Session,
        number: u64,
        call: &Call,
        running: impl FnOnce(Duration) -> Result<ToolAnswer, Failure>,
    ) -> Result<ToolAnswer, Failure> {
        let seconds = self.answer_within_seconds.map(Duration::from_secs);
        let patience = call.patience().map(|usual| seconds.unwrap_or(usual));
        match session.work().wait(number, call, patience) {
            WaitResult::Ended(outcome) => outcome(call),
            WaitResult::Running(since) => running(since),
            WaitResult::Unknown => Err(unknown_work(session, number)),
        }
    }
}

/// A planned edit, and how to execute it.
pub(in crate::actions::change) trait PlannedEdit: Send + Sized + 'static {
    /// Returns whether the plan is verified.
    fn is_verified(&self) -> bool;

    /// Verifies and writes the plan, as its policy requires.
    fn execute(&self, session: &Session, call: &Call) -> Result<Executed, Failure>;

    /// Returns the answer for the outcome.
    fn reply(self, session: &Session, done: Executed, call: &Call) -> Result<ToolAnswer, Failure>;
}

/// Additional text to rename in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Include {
    Comments,
    Strings,
    Derived,
    Text,
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "rename",
        title: "Rename a symbol",
        description: "Renames a symbol of the loaded project everywhere: exports, .asd files, quoted names, names that \
            defstruct derives, files that are not loaded. Without apply it only plans: edits as \
            file:line:column and diff, doubtful places, conflicts. With apply it writes all files or none, \
            after verifying in a copy of the image. Then call reload.",
        effect: Effect::Runs,
    };
    Tool::new::<Arguments, LookupReply<ListedRename>>(about, rename)
        .may_need(&[Permission::Edits])
        .starts(Starts::Copy)
        .of_image()
        .joins_loads()
}

/// The answer of the tool.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ListedRename {
    #[serde(flatten)]
    plan: RenamePlan,
    applied: bool,
    /// The name of the edit, to undo it.
    #[serde(skip_serializing_if = "Option::is_none")]
    undo: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<Verified>,
    /// The expected time for verification, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    verifying_takes_seconds: Option<u64>,
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

impl Sequence for ListedRename {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.plan.files);
        part.keep(&mut self.plan.derived);
        part.keep(&mut self.hunks);
        part.keep(&mut self.plan.doubtful);
    }
}

fn rename(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let alone = given.name.is_none() && given.new_name.is_none();
    let running = |number, since| RunningRename::default().reply(number, since, call);
    if let Some(answer) = given.edit.earlier(alone, "name and new_name", session, call, running) {
        return answer;
    }
    let needed = |argument: &Option<String>, name: &str| {
        argument.clone().ok_or_else(|| {
            Failure::arguments(format!("rename needs the argument \"{name}\" (a string), which is missing."))
        })
    };
    let (name, new_name) = (needed(&given.name, "name")?, needed(&given.new_name, "new_name")?);
    let bank = session.bank()?;
    let policy = given.edit.policy(session)?;
    let includes = |what| given.include.contains(&what);
    let request = RenameRequest {
        package: given.package,
        scope: given.scope,
        comments: includes(Include::Comments),
        strings: includes(Include::Strings),
        derived: includes(Include::Derived),
        text: includes(Include::Text),
        ..RenameRequest::new(name, new_name)
    };
    let plan = match bank.ask(&request, &call.control(ALLOWED)) {
        Ok(plan) => plan,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    let hunks = bank.ask(&RenameDiffRequest::new(&plan), &call.control(ALLOWED))?.hunks;
    let takes = bank.verification_takes(policy.tests);
    let planned = Planned {
        request,
        plan,
        policy,
        hunks,
        takes,
        verifying: given.edit.verifying(),
        cursor: given.edit.cursor.clone(),
    };
    let running = planned.running();
    given.edit.carry_out(planned, session, call, |number, since| running.reply(number, since, call))
}

fn unknown_work(session: &Session, number: impl std::fmt::Display) -> Failure {
    let running = session.work().numbers();
    let others = match running.as_slice() {
        [] => "no rename is running".to_owned(),
        _ => format!("running: {}", running.join(", ")),
    };
    Failure::arguments(format!(
        "Rename {number} is not running, or its outcome was already returned; {others}. If Lisp was restarted, the rename was cancelled: see status. \
         To undo written files: rename with undo=\"last\"."
    ))
}

/// A planned rename, and how to execute it.
struct Planned {
    request: RenameRequest,
    plan: RenamePlan,
    policy: RenamePolicy,
    hunks: Vec<Hunk>,
    /// The expected time for verification, if known.
    takes: Option<Duration>,
    /// The time limit for verification.
    verifying: Duration,
    cursor: Option<String>,
}

/// The outcome of executing a plan.
pub(in crate::actions::change) struct Executed {
    pub(in crate::actions::change) verified: Option<Verified>,
    pub(in crate::actions::change) applied: Option<Applied>,
}

/// Verifies the plan with `verify` if the policy requires it. Then writes the plan's edits if the
/// policy permits it.
pub(in crate::actions::change) fn execute(
    plan: &dyn EditPlan,
    policy: RenamePolicy,
    session: &Session,
    call: &Call,
    verify: impl FnOnce(&Steelbank) -> Result<Verified, Error>,
) -> Result<Executed, Failure> {
    let bank = session.bank()?;
    let mut verified = None;
    if policy.verifies(plan) {
        verified = Some(verify(bank).map_err(|error| {
            let why = Failure::from(error);
            Failure::engine(format!("{why} Nothing was written.")).advised(Some(Advice::SkipVerifying))
        })?);
    }
    let mut applied = None;
    if policy.writes(plan, verified.as_ref()) {
        call.begin_writing()?;
        let written = bank.run(&RenameApplyRequest::new(plan), &Control::default())?;
        session.client_slot().iter().for_each(|seat| seat.note_edit(&written.undo));
        applied = Some(written);
    }
    Ok(Executed { verified, applied })
}

impl PlannedEdit for Planned {
    fn is_verified(&self) -> bool {
        self.policy.verifies(&self.plan)
    }

    fn execute(&self, session: &Session, call: &Call) -> Result<Executed, Failure> {
        let Self { request, plan, policy, .. } = self;
        let verification = RenameVerifyRequest::new(request, plan).tests(policy.tests);
        execute(plan, *policy, session, call, |bank| bank.run(&verification, &call.control(self.verifying)))
    }

    fn reply(mut self, session: &Session, done: Executed, call: &Call) -> Result<ToolAnswer, Failure> {
        let Executed { verified, applied } = done;
        let possible = self.plan.is_possible();
        let differs = verified.as_ref().is_some_and(|verified| !verified.same);
        if differs {
            // Omit the diff: the answer is about the differences.
            self.hunks.clear();
        }
        let next = match &applied {
            _ if !possible => "Nothing was written, because of the conflicts above.".to_owned(),
            _ if differs => {
                let makers = verified
                    .as_ref()
                    .map(|verified| self.plan.generators_that_differ(verified))
                    .unwrap_or_default();
                match makers.as_slice() {
                    [] => "Nothing was written. Check the differences. Try another scope, or first load the systems \
                        with the missing places (load-system)."
                        .to_owned(),
                    makers => format!(
                        "Nothing was written. Code at {} generates the old name from parts, and still does after the rename: edit by hand \
                        the names that it is generated from, and these places.",
                        makers.join(", ")
                    ),
                }
            }
            Some(applied) => {
                let recompiled = verified.as_ref().is_some_and(|verified| verified.recompiled);
                let load = if recompiled { Advice::ForceLoad } else { Advice::Reload };
                let undo = Advice::UndoRename(applied.undo.clone());
                format!("{} {}", load.worded(call.wording()), undo.worded(call.wording()))
            }
            None => match session.permit(Permission::Edits) {
                Ok(()) => Advice::Apply.worded(call.wording()),
                Err(why) => format!("Nothing was written. {why}"),
            },
        };
        let outcome = match possible && !differs && (applied.is_some() || !self.policy.apply) {
            true => CallOutcome::Answered,
            false => CallOutcome::Failed,
        };
        let looked_up_in = self.plan.looked_up_in.clone();
        let unsearched = self.plan.text_unsearched && call.has_one_time_notes();
        let paging = Paging::at(self.cursor.filter(|_| applied.is_none()));
        let takes = self.takes.filter(|_| possible && verified.is_none() && applied.is_none());
        let listed = ListedRename {
            file_count: self.plan.files.len(),
            plan: self.plan,
            applied: applied.is_some(),
            undo: applied.map(|applied| applied.undo),
            verified,
            verifying_takes_seconds: takes.map(seconds),
            next,
            hunks: self.hunks,
            cursor: None,
        };
        let mut answer = paging.cut(listed, call.budget(), |listed, range| {
            // An applied rename has no cursor, because it cannot be planned again.
            listed.cursor = range.cursor().filter(|_| !listed.applied);
            let answer =
                ToolAnswer::new(text::rename(listed, call.wording()), &LookupReply::yes(&*listed), outcome)?;
            Ok(answer.looked_up_in(looked_up_in.clone()))
        })?;
        answer.notes.extend(unsearched.then(|| session.take_index_note()).flatten());
        Ok(answer)
    }
}

impl Planned {
    /// Returns the answer for a rename that is still being verified.
    fn running(&self) -> RunningRename {
        RunningRename {
            symbol: Some(self.plan.symbol.to_string()),
            new_name: Some(readable(&self.plan.new_name)),
            takes_seconds: self.takes.map(seconds),
            ..RunningRename::default()
        }
    }
}

fn seconds(time: Duration) -> u64 {
    time.as_secs_f64().ceil() as u64
}

/// The answer for a rename that is still being verified.
#[derive(Debug, Clone, Default, Serialize)]
struct RunningRename {
    #[serde(skip_serializing_if = "Option::is_none")]
    symbol: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    new_name: Option<String>,
    applied: bool,
    wait: String,
    seconds: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    takes_seconds: Option<u64>,
    next: String,
}

impl RunningRename {
    fn reply(mut self, number: u64, since: Duration, call: &Call) -> Result<ToolAnswer, Failure> {
        (self.wait, self.seconds) = (number.to_string(), since.as_secs());
        self.next = Advice::WaitForRename(number.to_string()).worded(call.wording());
        ToolAnswer::new(text::running(&self), &LookupReply::yes(&self), CallOutcome::Answered)
    }
}

fn undo(session: &Session, id: &str, call: &Call) -> Result<ToolAnswer, Failure> {
    session.permit(Permission::Edits)?;
    let bank = session.bank()?;
    call.begin_writing()?;
    let undone = loop {
        // With `last`, undo this client's last edit, even if another client made a later one.
        let own = session.client_slot().filter(|_| id == "last").map(|seat| (seat, seat.edits().pop()));
        let number = match &own {
            None => id,
            Some((_, Some(number))) => number,
            Some((_, None)) => return NotFoundReply::no_edit_of_client().answer(CallOutcome::NotFound),
        };
        match bank.run(&UndoRequest::new(number), &Control::default()) {
            Ok(undone) => break undone,
            Err(error) => match (error.request(), &own) {
                // Another client may have undone this edit by its number.
                (Some(UndoError::Missing { .. }), Some((seat, _))) => seat.forget_edit(number),
                (Some(UndoError::Missing { edit, kept }), None) => {
                    return NotFoundReply::edit(edit, kept.clone()).answer(CallOutcome::NotFound);
                }
                _ => return Err(error.into()),
            },
        }
    };
    if let Some(seat) = session.client_slot() {
        seat.forget_edit(&undone.undo);
    }
    let text = format!("{undone} If the edit was loaded, reload with remove=true.");
    ToolAnswer::new(text, &LookupReply::yes(undone), CallOutcome::Answered)
}
