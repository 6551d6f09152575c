//! Implements the tool macroexpand.

use std::fmt;
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::Steelbank;
use crate::actions::missing::{LookupReply, NotFoundReply, of_file};
use crate::actions::run::macroexpand::{Depth, MacroexpandAnswer, MacroexpandRequest, form_at};
use crate::actions::uses::code_find_references::UseType;
use crate::actions::uses::occurrences::{FileOccurrence, OccurrenceKind, OccurrencesRequest};
use crate::answer::lookup::LookupStatus;
use crate::answer::{Location, NotFound, counted};
use crate::engine::Control;
use crate::source::positions::Evidence;
use crate::tools::arguments::{Timeout, default_package};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Permission, Session, Tool, ToolAnswer};
use crate::workspace::write::FileError;
use std::time::Duration;
use steelbank_reader::Range;
use steelbank_reader::lines::LineIndex;

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// The form to expand. Alternatively give `path` and `line`.
    #[serde(default)]
    form: String,
    /// The file that contains the form, relative to the project.
    #[serde(default)]
    path: String,
    /// The line on which the form begins, from 1.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000_000))]
    line: u32,
    /// The column of the form, from 1. 0: the first form of the line.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000_000))]
    column: u32,
    /// The package for reading a form that is not in a file.
    #[serde(default = "default_package")]
    package: String,
    /// `once`: one step. `full`: until it is no macro form. `all`: also the forms inside.
    #[serde(default)]
    #[schemars(extend("type" = "string", "enum" = ["once", "full", "all"]))]
    depth: Depth,
    #[serde(flatten)]
    timeout: Timeout,
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "macroexpand",
        title: "Expand a macro form",
        description: "Returns the expansion of a macro form, given as text or by file and line, and the macro of each \
            step. Use it to see what a macro call defines or evaluates. Runs the macros' code. Forms inside \
            macrolet are expanded only under `serve --allow-eval`, because their definitions are evaluated.",
        effect: Effect::Runs,
    };
    Tool::new::<Arguments, LookupReply<MacroexpandAnswer>>(about, expand)
        .may_need(&[Permission::Eval])
        .of_image()
        .joins_loads()
}

fn expand(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let control = call.control(Duration::from_secs(given.timeout.timeout_seconds));
    let (mut place, mut inner, mut unrecorded) = (None, None, false);
    let mut request = MacroexpandRequest {
        form: given.form,
        package: given.package,
        depth: given.depth,
        read_eval: false,
        local_definitions: session.allows(Permission::Eval),
    };
    if request.form.trim().is_empty() {
        if given.path.is_empty() || given.line == 0 {
            return Err(Failure::arguments("Give `form`, or `path` and `line`."));
        }
        let root = bank.project().root().map(std::path::Path::to_owned).unwrap_or_default();
        let path = root.join(&given.path);
        let column = (given.column > 0).then_some(given.column);
        let found = match form_at(&path, given.line, column) {
            Ok(found) => found,
            Err(error) => return of_file(bank, FileError::new(&given.path, &error)),
        };
        let Some(found) = found else {
            return Err(Failure::arguments(format!(
                "No form begins on or contains line {} of {}.",
                given.line, given.path
            )));
        };
        let shown = bank.project().shown(&path);
        let operator = found.operator.and_then(|range| operator_at(bank, &path, range, &control));
        let written = found.local_definition.map(|local| Location { file: shown.clone(), ..local });
        inner = written.clone().filter(|_| !found.is_local);
        let written = written.filter(|_| found.is_local);
        let local = match operator {
            Some((operator, binding)) if operator.kind == OccurrenceKind::LocalFunction => {
                Some(written.or(binding))
            }
            // A variable may shadow a symbol macro.
            Some((_, binding)) if binding.is_some() && binding == written => Some(written),
            Some((operator, _)) => {
                unrecorded =
                    operator.use_type == Some(UseType::Macro) && operator.evidence != Evidence::Exact;
                None
            }
            None => written.map(Some),
        };
        place = Some(Location { file: shown, ..found.place });
        request.form = found.text;
        if let Some(local_definition) = local {
            let answer = MacroexpandAnswer {
                package: found.package.unwrap_or(request.package),
                expansion: request.form.clone(),
                form: request.form,
                place,
                local: true,
                local_definition,
                ..MacroexpandAnswer::default()
            };
            return ToolAnswer::new(answer.to_string(), &LookupReply::yes(answer), CallOutcome::Answered);
        }
        if let Some(package) = found.package {
            request.package = package;
        }
        request.read_eval = request.local_definitions;
    }
    let mut answer = bank.ask(&request, &control)?;
    answer.place = place;
    answer.local_definition = inner;
    answer.unrecorded = unrecorded;
    if answer.status != LookupStatus::Found {
        return NotFoundReply::package(bank, &answer.package, None).with_partial(answer);
    }
    ToolAnswer::new(answer.to_string(), &LookupReply::yes(answer), CallOutcome::Answered)
}

/// Finds the operator at `range` of a loaded file, with the place that binds it if it is local.
/// Returns `None` if the file is not loaded or was changed since.
fn operator_at(
    bank: &Steelbank,
    path: &Path,
    range: Range,
    control: &Control,
) -> Option<(FileOccurrence, Option<Location>)> {
    bank.project().loaded_date(path)?;
    let request = OccurrencesRequest { elsewhere: false, on_disk: true, ..OccurrencesRequest::new(path) };
    let answer = bank.ask(&request, control).ok().filter(|answer| answer.fresh)?;
    let found = answer.occurrences.iter().find(|found| found.range == range)?;
    let bytes = answer.text.as_bytes();
    let place = |span| Location::in_text(answer.path.clone(), &LineIndex::new(bytes), bytes, span);
    Some((found.clone(), found.binding.map(place)))
}

/// Prints the expansion, its steps, and the forms that were not expanded.
impl fmt::Display for MacroexpandAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.status != LookupStatus::Found {
            return write!(f, "{}", NotFound::Package(self.package.clone()));
        }
        if self.local {
            let defined = match &self.local_definition {
                Some(place) => format!("at {place}"),
                None => "by a macro around the form".to_owned(),
            };
            let what = match self.form.starts_with('(') {
                true => "operator is a local function or macro",
                false => "symbol is a local symbol macro",
            };
            return write!(f, "The {what}, defined {defined}. It was not expanded.\n\n{}", self.expansion);
        }
        if self.expanded {
            let cut = if self.cut { "\n... truncated" } else { "" };
            write!(f, "{}{cut}\n\n{}:", self.expansion, counted(self.step_count, "step", "steps"))?;
            self.steps.iter().try_for_each(|step| write!(f, "\n  {}", step.macro_name))?;
            let more = self.step_count.saturating_sub(self.steps.len() as u64);
            if more > 0 {
                write!(f, "\n  and {more} more")?;
            }
        } else {
            let hint = if self.compiler_macro { " Its operator has a compiler macro." } else { "" };
            write!(f, "This is not a macro form.{hint}\n\n{}", self.expansion)?;
        }
        self.left.iter().try_for_each(|form| {
            write!(
                f,
                "\n\nNot expanded, because its local definitions would be evaluated (`steelbank serve \
                    --allow-eval` permits that): {form}"
            )
        })?;
        if let Some(place) = &self.local_definition {
            write!(
                f,
                "\n\nNote: The form has the name of a local symbol macro, defined at {place}, which was not expanded."
            )?;
        }
        if self.unrecorded {
            f.write_str(
                "\n\nNote: The compiler recorded no expansion of this macro here. A macro around the form may \
                    define it locally.",
            )?;
        }
        Ok(())
    }
}
