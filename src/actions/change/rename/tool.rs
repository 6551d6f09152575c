//! The tool rename: renames a symbol in every file of the project, or in none.

mod text;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::change::rename::{
    Applied, Hunk, RecoverEditsRequest, RenameApplyRequest, RenameDiffRequest, RenamePlan, RenamePolicy,
    RenameRequest, RenameVerifyRequest, Scope, UndoError, UndoRequest, Verified,
};
use crate::actions::missing::{LookupReply, NotFoundReply, of_error};
use crate::answer::Advice;
use crate::answer::lookup::DEFAULT_PACKAGE;
use crate::answer::name::readable;
use crate::engine::control::{ALLOWED, Control};
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
    /// Its new name, without a package.
    #[serde(default)]
    new_name: Option<String>,
    /// The package of a name without a prefix.
    #[serde(default)]
    #[schemars(extend("default" = DEFAULT_PACKAGE))]
    package: Option<String>,
    /// narrow: only this definition's uses; refused if one is not exact. symbol: every token of the symbol, locals too. auto: narrow, else symbol.
    #[serde(default)]
    scope: Scope,
    /// Also words of comments, strings that code reads, names that macros make from it, words of manuals, scripts and
    /// other text.
    #[serde(default)]
    include: Vec<Include>,
    /// Write the files. Without it, nothing is written.
    #[serde(default)]
    apply: bool,
    /// Load the project before and after in copies, and compare: nothing is applied if more than the name differs.
    /// Default: true with apply.
    #[serde(default)]
    verify: Option<bool>,
    /// Verify with the systems' tests, too.
    #[serde(default)]
    tests: bool,
    #[serde(flatten)]
    timeout: Timeout,
    /// The most seconds until an answer; what takes longer goes on. Default: 45.
    #[serde(default)]
    #[schemars(range(min = 0, max = 86_400))]
    answer_within_seconds: Option<u64>,
    /// Alone: wait for a rename that goes on, by its answer's `wait`.
    #[serde(default)]
    wait: Option<String>,
    /// Alone: take back a rename, by the `undo` that its answer gave, or last.
    #[serde(default)]
    undo: Option<String>,
    /// Continues a cut plan: the `cursor` that it gave.
    #[serde(default)]
    cursor: Option<String>,
}

/// What is renamed besides.
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
        description: "Renames any symbol of the loaded project everywhere: exports, .asd files, quoted names, names that \
            defstruct makes from it, files that are not loaded. Without apply it only plans: edits as file:line:column \
            and diff, doubtful places, what may break, conflicts. With apply it writes all files or none, after \
            verifying in a copy of the image. Then call reload.",
        effect: Effect::Runs,
    };
    Tool::new::<Arguments, LookupReply<ListedRename>>(about, rename)
        .may_need(&[Permission::Edits])
        .starts(Starts::Copy)
        .of_image()
}

/// The outcome of a rename.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ListedRename {
    #[serde(flatten)]
    plan: RenamePlan,
    applied: bool,
    /// What takes it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    undo: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<Verified>,
    /// How long verifying takes here, if that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    verifying_takes_seconds: Option<u64>,
    /// What is to be done now.
    next: String,
    #[serde(skip)]
    file_count: usize,
    /// The edits, those near to each other together.
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
    if let Some(id) = given.undo.as_ref().or(given.wait.as_ref()) {
        let alone = given.name.is_none() && given.new_name.is_none() && !given.apply;
        return match (&given.undo, &given.wait) {
            (Some(_), None) if alone => undo(session, id, call),
            (None, Some(_)) if alone => {
                let number = id.parse().map_err(|_| unknown_work(session, id))?;
                wait(session, number, RunningRename::default(), given.answer_within_seconds, call)
            }
            _ => Err(Failure::arguments("Give rename either a name and a new_name, or undo, or wait.")),
        };
    }
    let needed = |argument: &Option<String>, name: &str| {
        argument.clone().ok_or_else(|| {
            Failure::arguments(format!("rename needs the argument \"{name}\" (a string), which is missing."))
        })
    };
    let (name, new_name) = (needed(&given.name, "name")?, needed(&given.new_name, "new_name")?);
    Paging::at(given.cursor.clone()).offset()?;
    let bank = session.bank()?;
    if session.permit(Permission::Edits).is_ok() {
        // Plan on whole edits. What cannot be taken back is told of by the answer's notes.
        let _ = bank.run(&RecoverEditsRequest::new(), &Control::default());
    }
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
    let policy = RenamePolicy {
        apply: given.apply,
        allowed: session.permit(Permission::Edits).is_ok(),
        verify: given.verify,
        tests: given.tests,
    };
    if given.tests && given.verify == Some(false) {
        return Err(Failure::arguments("The tests are run to verify: leave verify out, or tests."));
    }
    let hunks = bank.ask(&RenameDiffRequest::new(&plan), &call.control(ALLOWED))?.hunks;
    let takes = bank.verification_takes(given.tests);
    let planned = Planned {
        request,
        plan,
        policy,
        hunks,
        takes,
        verifying: Duration::from_secs(given.timeout.timeout_seconds),
        cursor: given.cursor,
    };
    if !planned.policy.verifies(&planned.plan) {
        let done = planned.carry_out(session, call)?;
        return planned.reply(session, done, call);
    }
    let running = planned.running();
    let work = session.for_work();
    let begun = session.work().begin(call, move |call| {
        let done = planned.carry_out(&work, call);
        Box::new(move |call| planned.reply(&work, done?, call))
    });
    let number = begun.map_err(|error| Failure::engine(format!("The system gives no thread: {error}.")))?;
    wait(session, number, running, given.answer_within_seconds, call)
}

fn unknown_work(session: &Session, number: impl std::fmt::Display) -> Failure {
    let running = session.work().numbers();
    let others = match running.as_slice() {
        [] => "none runs".to_owned(),
        _ => format!("these do: {}", running.join(", ")),
    };
    Failure::arguments(format!(
        "No rename {number} runs, or its outcome was told; {others}. If Lisp was started again meanwhile, it was called off: status \
         tells. To undo what was written: rename with undo=\"last\"."
    ))
}

/// Waits for the rename of this number for as long as the caller says, if the call does not wait for the end anyway. What is
/// known of it, `running`, is the answer if it goes on.
fn wait(
    session: &Session,
    number: u64,
    running: RunningRename,
    seconds: Option<u64>,
    call: &Call,
) -> Result<ToolAnswer, Failure> {
    let patience = call.patience().map(|usual| seconds.map_or(usual, Duration::from_secs));
    match session.work().wait(number, call, patience) {
        WaitResult::Ended(outcome) => outcome(call),
        WaitResult::Running(since) => running.reply(number, since, call),
        WaitResult::Unknown => Err(unknown_work(session, number)),
    }
}

/// A rename that is planned, and what is to be done of it.
struct Planned {
    request: RenameRequest,
    plan: RenamePlan,
    policy: RenamePolicy,
    hunks: Vec<Hunk>,
    /// How long verifying takes, as far as that is known.
    takes: Option<Duration>,
    /// How long it may take.
    verifying: Duration,
    cursor: Option<String>,
}

/// What was done of a planned rename.
struct Done {
    verified: Option<Verified>,
    applied: Option<Applied>,
}

impl Planned {
    /// Verifies and writes it, as the policy says.
    fn carry_out(&self, session: &Session, call: &Call) -> Result<Done, Failure> {
        let (bank, Self { request, plan, policy, .. }) = (session.bank()?, self);
        let mut verified = None;
        if policy.verifies(plan) {
            let verification = RenameVerifyRequest::new(request, plan).tests(policy.tests);
            verified = Some(bank.run(&verification, &call.control(self.verifying)).map_err(|error| {
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
        Ok(Done { verified, applied })
    }

    fn reply(mut self, session: &Session, done: Done, call: &Call) -> Result<ToolAnswer, Failure> {
        let Done { verified, applied } = done;
        let possible = self.plan.is_possible();
        let differs = verified.as_ref().is_some_and(|verified| !verified.same);
        if differs {
            // Leave the plan out of the answer, which is about the difference.
            self.hunks.clear();
        }
        let next = match &applied {
            _ if !possible => "It cannot be renamed so. Nothing was written.".to_owned(),
            _ if differs => {
                let makers = verified
                    .as_ref()
                    .map(|verified| self.plan.makers_that_differ(verified))
                    .unwrap_or_default();
                match makers.as_slice() {
                    [] => "Nothing was written. Look at what differs; another scope may do, or load-system what has \
                        the places that were not seen."
                        .to_owned(),
                    makers => format!(
                        "Nothing was written. Code at {} makes the old name from parts, and goes on to: edit by hand what it is made \
                        from, together with these places.",
                        makers.join(", ")
                    ),
                }
            }
            Some(applied) => {
                let anew = verified.as_ref().is_some_and(|verified| verified.anew);
                let load = if anew { Advice::ForceLoad } else { Advice::Reload };
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
        paging.cut(listed, call.budget(), |listed, range| {
            // Give no cursor for an applied rename: it cannot be planned again.
            listed.cursor = range.cursor().filter(|_| !listed.applied);
            let answer =
                ToolAnswer::new(text::rename(listed, call.wording()), &LookupReply::yes(&*listed), outcome)?;
            Ok(answer.looked_up_in(looked_up_in.clone()))
        })
    }

    /// What is told of it while it is verified.
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

/// A rename that is still being verified.
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
        // Of several clients, each has a last edit of its own.
        let own = session.client_slot().filter(|_| id == "last").map(|seat| (seat, seat.edits().pop()));
        let number = match &own {
            None => id,
            Some((_, Some(number))) => number,
            Some((_, None)) => return NotFoundReply::no_edit_of_client().answer(CallOutcome::NotFound),
        };
        match bank.run(&UndoRequest::new(number), &Control::default()) {
            Ok(undone) => break undone,
            Err(error) => match (error.request(), &own) {
                // Others may have undone it by its number.
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
    let text = format!("{undone} If the new name was loaded: reload with remove=true.");
    ToolAnswer::new(text, &LookupReply::yes(undone), CallOutcome::Answered)
}
