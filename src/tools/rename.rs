//! The tool rename: renames a symbol in every file of the project, or in none.

mod text;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arguments::{NameAndPackage, Timeout};
use super::missing::{MaybeFound, Missing, of_error, resolve};
use super::page::{Paging, Part, Sequence, ToolReply};
use super::trial::scratch_failure;
use super::{
    About, Call, CallOutcome, Effect, Failure, Permission, Session, Starts, Tool, ToolAnswer, ToolProgress,
};
use crate::answer::Advice;
use crate::query::control::ALLOWED;
use crate::query::lookup::DEFAULT_PACKAGE;
use crate::query::rename::{
    self, Applied, CautionKind, Conflict, Derived, Doubt, Hunk, RenameCaution, RenameError, RenameRequest,
    Scope, UndoError, Verified,
};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// The symbol: my-func, pkg:name, pkg::name, |Mixed Case|.
    #[serde(default)]
    name: Option<String>,
    /// Its new name, without a package.
    #[serde(default)]
    new_name: Option<String>,
    /// The package to look the name up in if it has no prefix.
    #[serde(default)]
    #[schemars(extend("default" = DEFAULT_PACKAGE))]
    package: Option<String>,
    /// narrow: where it means what is renamed, if all that is exact. symbol: every token of the symbol, locals too. auto: narrow, else symbol.
    #[serde(default)]
    scope: Scope,
    /// Also words of comments, strings that code reads, names that macros make from it.
    #[serde(default)]
    include: Vec<Include>,
    /// Write the files. Without it, nothing is written.
    #[serde(default)]
    apply: bool,
    /// Load the project before and after in copies, and compare: nothing is applied if more than the name differs. Holds
    /// with apply unless false.
    #[serde(default)]
    verify: Option<bool>,
    /// Verify the outcome of the systems' tests, too.
    #[serde(default)]
    tests: bool,
    #[serde(flatten)]
    timeout: Timeout,
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
}

pub(super) fn tool() -> Tool {
    let about = About {
        name: "rename",
        title: "Rename a symbol",
        description: "Renames any symbol of the loaded project everywhere: exports, .asd files, quoted names, names that \
            defstruct makes from it, files that are not loaded. Without apply it only plans: edits as file:line:column \
            and diff, doubtful places, what may break, conflicts. With apply it writes all files or none, after \
            verifying in a copy of the image. Then call reload.",
        effect: Effect::Runs,
    };
    Tool::paged::<Arguments, MaybeFound<ListedRename>>(about, rename)
        .may_need(&[Permission::Edits])
        .starts(Starts::Copy)
        .of_image()
}

/// The outcome of a rename.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ListedRename {
    symbol: String,
    new_name: String,
    scope: Scope,
    /// Why that scope was taken.
    reason: String,
    applied: bool,
    /// What takes it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    undo: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verified: Option<Verified>,
    /// What is to be done now.
    next: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conflicts: Vec<Conflict>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cautions: Vec<RenameCaution>,
    /// How many edits there are in all.
    edits: usize,
    #[serde(skip)]
    file_count: usize,
    /// How many edits each file has.
    files: Vec<FileCount>,
    /// The edits, those near to each other together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hunks: Vec<Shown>,
    /// `&key` parameters that keep their keywords: `((:name new-name))`.
    #[serde(skip_serializing_if = "is_zero")]
    key_parameters: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    derived: Vec<Derived>,
    /// Places that are left as they are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    doubtful: Vec<Left>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct FileCount {
    path: String,
    edits: usize,
}

/// Edits, and the hunk of a unified diff that they are.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct Shown {
    path: String,
    edits: Vec<ShownChange>,
    diff: String,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ShownChange {
    /// `file:line:column`.
    at: String,
    old: String,
    new: String,
}

/// A place that is left.
#[derive(Debug, Clone, Serialize, JsonSchema)]
struct Left {
    /// `file:line:column`.
    at: String,
    context: String,
    reason: String,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Sequence for ListedRename {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.files);
        part.keep(&mut self.derived);
        part.keep(&mut self.hunks);
        part.keep(&mut self.doubtful);
    }
}

impl From<Hunk> for Shown {
    fn from(hunk: Hunk) -> Self {
        let edits = hunk.edits.iter();
        let edits = edits.map(|edit| ShownChange {
            at: edit.place.to_string(),
            old: edit.old.clone(),
            new: edit.new.clone(),
        });
        Self { edits: edits.collect(), path: hunk.path, diff: hunk.diff }
    }
}

impl From<Doubt> for Left {
    fn from(doubt: Doubt) -> Self {
        Self { at: doubt.place.to_string(), context: doubt.context, reason: doubt.reason }
    }
}

fn rename(session: &Session, given: Arguments, call: &Call) -> Result<ToolReply, Failure> {
    if let Some(id) = &given.undo {
        if given.name.is_some() || given.new_name.is_some() || given.apply {
            return Err(Failure::arguments("Give rename either a name and a new_name, or undo."));
        }
        return undo(session, id, call).map(ToolReply::from);
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
        let _ = bank.take_back_cut_edits();
    }
    let symbol = resolve(bank, NameAndPackage { name, package: given.package });
    let includes = |what| given.include.contains(&what);
    let request = RenameRequest {
        package: symbol.package,
        scope: given.scope,
        comments: includes(Include::Comments),
        strings: includes(Include::Strings),
        derived: includes(Include::Derived),
        ..RenameRequest::new(symbol.name, new_name)
    };
    let plan = match bank.rename_plan(&request, &call.control(ALLOWED)) {
        Ok(plan) => plan,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound).map(ToolReply::from),
    };
    let possible = plan.conflicts.is_empty();
    let allowed = session.permit(Permission::Edits);
    let applies = given.apply && possible && allowed.is_ok();
    let wanted = given.verify.unwrap_or(given.apply || given.tests);
    if given.tests && !wanted {
        return Err(Failure::arguments("The tests are run to verify: leave verify out, or tests."));
    }
    let mut hunks = bank.rename_diff(&plan).map_err(failure)?;
    let mut verified = None;
    if wanted && possible && (applies || !given.apply) {
        let control = call.control(Duration::from_secs(given.timeout.timeout_seconds));
        let outcome = bank.rename_verify(&request, &plan, given.tests, &control, |news| {
            call.report(ToolProgress {
                what: news.what,
                path: news.path,
                done: news.done,
                total: news.total,
            });
        });
        verified = Some(outcome.map_err(|error| {
            let why = scratch_failure(error);
            Failure::engine(format!("{why} Nothing was written.")).advised(Some(Advice::SkipVerifying))
        })?);
    }
    let differs = verified.as_ref().is_some_and(|verified| !verified.same);
    if differs {
        // Leave the plan out of the answer, which is about the difference.
        hunks.clear();
    }
    let applied = match applies && !differs {
        true => {
            call.begin_writing()?;
            Some(bank.rename_apply(&plan).map_err(failure)?)
        }
        false => None,
    };
    let next = match &applied {
        _ if !possible => "It cannot be renamed so. Nothing was written.".to_owned(),
        _ if differs => {
            let makers = verified.iter().flat_map(|verified| makers_that_differ(&plan, verified));
            let makers: Vec<&str> = makers.collect();
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
            let load = if anew { Advice::LoadAnew } else { Advice::Reload };
            let undo = Advice::UndoRename(applied.undo.clone());
            format!("{} {}", load.worded(call.wording()), undo.worded(call.wording()))
        }
        None => match allowed {
            Ok(()) => Advice::Apply.worded(call.wording()),
            Err(why) => format!("Nothing was written. {why}"),
        },
    };
    let outcome = match possible && !differs && (applied.is_some() || !given.apply) {
        true => CallOutcome::Answered,
        false => CallOutcome::Failed,
    };
    let paging = Paging::at(given.cursor.filter(|_| applied.is_none()));
    paging.cut(listed(plan, hunks, applied, verified, next), call.budget(), |listed, range| {
        // Give no cursor for an applied rename: it cannot be planned again.
        listed.cursor = range.cursor().filter(|_| !listed.applied);
        let answer = ToolAnswer::new(text::rename(listed), &MaybeFound::yes(&*listed), outcome)?;
        Ok(answer.looked_up_in(symbol.looked_up_in.clone()))
    })
}

/// Finds the places at which the plan warned that code makes the name from parts, in files in which something
/// differs.
fn makers_that_differ<'a>(
    plan: &'a rename::RenamePlan,
    verified: &'a Verified,
) -> impl Iterator<Item = &'a str> {
    let makers = plan.cautions.iter().filter(|caution| caution.kind == CautionKind::UseMade);
    let places = makers.flat_map(|caution| caution.names.iter());
    places.map(String::as_str).filter(|place| {
        let mut files = verified.differences.iter().filter_map(|found| found.path.as_deref());
        let file = place.rsplit_once(':').map(|(file, _)| file);
        files.any(|path| file == Some(path))
    })
}

/// Makes the answer, all of it.
fn listed(
    plan: rename::RenamePlan,
    hunks: Vec<Hunk>,
    applied: Option<Applied>,
    verified: Option<Verified>,
    next: String,
) -> ListedRename {
    let files = plan.files.iter();
    let files = files.map(|file| FileCount { path: file.path.clone(), edits: file.edits.len() });
    ListedRename {
        symbol: plan.symbol,
        new_name: plan.new_name,
        scope: plan.scope,
        reason: plan.reason,
        applied: applied.is_some(),
        undo: applied.map(|applied| applied.undo),
        verified,
        next,
        conflicts: plan.conflicts,
        cautions: plan.cautions,
        edits: plan.edits,
        file_count: plan.files.len(),
        files: files.collect(),
        hunks: hunks.into_iter().map(Shown::from).collect(),
        key_parameters: plan.key_parameters,
        derived: plan.derived,
        doubtful: plan.doubtful.into_iter().map(Left::from).collect(),
        cursor: None,
    }
}

/// The outcome of an undo.
#[derive(Debug, Serialize)]
struct UndoneRename {
    undo: String,
    what: String,
    restored: Vec<String>,
}

fn undo(session: &Session, id: &str, call: &Call) -> Result<ToolAnswer, Failure> {
    session.permit(Permission::Edits)?;
    let bank = session.bank()?;
    call.begin_writing()?;
    let undone = match bank.rename_undo(id) {
        Ok(undone) => undone,
        Err(UndoError::Missing { edit, kept }) => {
            return Missing::edit(&edit, kept).answer(CallOutcome::NotFound);
        }
        Err(error) => return Err(Failure::arguments(error.to_string())),
    };
    let restored = UndoneRename { undo: undone.undo, what: undone.what, restored: undone.files };
    ToolAnswer::new(text::undone(&restored), &MaybeFound::yes(restored), CallOutcome::Answered)
}

fn failure(error: RenameError) -> Failure {
    Failure::arguments(error.to_string())
}
