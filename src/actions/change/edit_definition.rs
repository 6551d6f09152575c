//! Implements edit-definition, which replaces, deletes or inserts one top-level form in a file. It
//! compiles and loads nothing.

mod run;
pub(crate) mod tool;

use std::path::{Path, PathBuf};

use crate::answer::location::Range;
use crate::answer::{Caution, Location};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::unified::unified;
use crate::actions::uses::graph::{Target, UserFinder};
use crate::actions::uses::outline::definitions_in;
use crate::answer::lookup::find_package;
use crate::engine::control::Control;
use crate::handle::context::QueryContext;
use crate::workspace::journal::EditPurpose;
use crate::workspace::replacement::Replacement;
use crate::workspace::write::FileError;
use crate::workspace::{NoProject, Project, version, write};
pub use steelbank_reader::edit::EditAction as EditOperation;
use steelbank_reader::edit::{self, DefinitionForm};
use steelbank_reader::lines::LineIndex;
use steelbank_reader::{Dialect, Features, LispText, Marker};
use steelbank_text::DefinitionKind;
use steelbank_xref::{Access, Index};

/// An edit of one definition in a file.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct EditRequest {
    /// The file, relative to the project.
    pub path: PathBuf,
    /// The definition: its name, or the beginning of its form, such as (defun area), (defun (setf
    /// area)) or (defmethod area :around (square)).
    pub definition: String,
    /// The operation on the definition.
    pub operation: EditOperation,
    /// The new form, exactly one. Omit it for delete.
    #[serde(default)]
    pub text: String,
    /// The file's version from an earlier answer; the edit is refused if the file has changed
    /// since.
    #[serde(default)]
    pub version: Option<String>,
}

impl EditRequest {
    /// Creates an edit of `definition` in the file at `path`, without a version check.
    pub fn new(path: impl Into<PathBuf>, definition: &str, operation: EditOperation, text: &str) -> Self {
        Self {
            path: path.into(),
            definition: definition.to_owned(),
            operation,
            text: text.to_owned(),
            version: None,
        }
    }
}

/// A completed edit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct EditAnswer {
    /// The first new line, or the line where lines were deleted.
    #[serde(flatten)]
    pub place: Location,
    /// The definition that was edited, or next to which the new form was inserted.
    pub definition: String,
    /// The operation.
    pub operation: EditOperation,
    /// The change as a unified diff.
    pub diff: String,
    /// The file's new version. Pass it to the next edit to detect changes by others.
    pub version: String,
    /// Warnings about remaining uses and incomplete checks.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schemars(with = "Vec<String>")]
    pub cautions: Vec<Caution>,
}

/// Why an edit was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// The file does not exist.
    #[error("Path {path} not found")]
    Missing {
        /// The path as given.
        path: String,
    },
    /// There is no project.
    #[error(transparent)]
    NoProject(#[from] NoProject),
    /// The edit was refused for the given reason.
    #[error("{0}")]
    Refused(String),
}

impl From<FileError> for EditError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Missing(path) => Self::Missing { path },
            FileError::NoProject(error) => Self::NoProject(error),
            FileError::Refused(why) => Self::Refused(why),
        }
    }
}

/// Performs `request` on a file of the project.
///
/// # Errors
/// Fails, leaving the file unchanged, for example in these cases: the file does not exist; no
/// definition or several match; the text is not exactly one form that can be read in the
/// definition's package; or the file's version differs from the version in the request.
pub(crate) fn edit_definition(
    context: &QueryContext<'_>,
    request: &EditRequest,
    control: &Control,
) -> Result<EditAnswer, EditError> {
    let (index, project) = (&context.index, context.project);
    let path = write::project_file(project.project_root()?, &request.path)?;
    let edits = project.edits().map_err(EditError::Refused)?;
    let shown = project.shown(&path);
    let old = steelbank_tree::read_source(&path)
        .map_err(|error| EditError::Refused(format!("Cannot read {shown}: {error}.")))?;
    if let Some(wanted) = &request.version
        && *wanted != version(&old)
    {
        return Err(EditError::Refused(format!(
            "{shown} has version {}, not {wanted}: the file has changed. Nothing was written; read the file again.",
            version(&old)
        )));
    }
    let definition = only_definition(&old, &shown, &request.definition)?;
    let mut cautions = Vec::new();
    match request.operation {
        EditOperation::Delete => cautions.extend(remaining_uses(context, &path, &old, &definition, control)),
        _ => {
            check_symbols(
                index,
                project,
                &path,
                definition.package.as_deref(),
                &request.text,
                &mut cautions,
            )?;
        }
    }
    let edit = edit::edit(&old, &definition, request.operation, &request.text).map_err(EditError::Refused)?;
    let text = write::encoded(&edit.text, &old).map_err(EditError::Refused)?;
    let (start, end) = (edit.span.start as usize, edit.span.end as usize);
    let new = [&old[..start], &text, &old[end..]].concat();
    let diff = unified(&shown, &old, &new);
    let what = format!("{} at {} in {shown}", request.operation.done(), definition.label);
    let file = Replacement { path, old, new };
    edits.replace_all(&what, EditPurpose::Plain, std::slice::from_ref(&file)).map_err(EditError::Refused)?;
    let first = start + text.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    let (lines, first) = (LineIndex::new(&file.new), Range::of(first..first));
    let place = Location::in_text(shown, &lines, &file.new, first).whole_line();
    Ok(EditAnswer {
        place,
        definition: definition.label,
        operation: request.operation,
        diff,
        version: version(&file.new),
        cautions,
    })
}

/// Returns a caution if code outside `form` uses the definition in `form`. Methods are skipped,
/// because their callers use the generic function.
fn remaining_uses(
    context: &QueryContext<'_>,
    path: &Path,
    text: &[u8],
    form: &DefinitionForm,
    control: &Control,
) -> Option<Caution> {
    let lines = LineIndex::new(text);
    let (first, last) = (lines.line(form.span.start), lines.line(form.span.end.saturating_sub(1)));
    let (definitions, _) = definitions_in(context, path).ok()?;
    let known = definitions.iter().find(|known| (first..=last).contains(&known.definition.place.line))?;
    if matches!(known.definition.kind, DefinitionKind::Method | DefinitionKind::CompilerMacro) {
        return None;
    }
    let uses = UserFinder::new(context, control).of(&Target::defined(known)?);
    let mut uses: Vec<Location> = uses.into_iter().map(|used| used.line.place.whole_line()).collect();
    let is_inside = |place: &Location| {
        place.file == known.path && place.line.is_some_and(|line| (first..=last).contains(&line))
    };
    // Skip uses without a line: they cannot be found in the current text.
    uses.retain(|place| place.line.is_some() && !is_inside(place));
    uses.sort();
    uses.dedup();
    Some(Caution::RemainingUses {
        name: known.name(&context.index).to_string(),
        lines: uses.len(),
        first: uses.first()?.clone(),
    })
}

/// Finds the definition in `text` that `wanted` names. Fails if no definition matches or several
/// match.
fn only_definition(text: &[u8], path: &str, wanted: &str) -> Result<DefinitionForm, EditError> {
    let mut found = edit::find_definitions(text, wanted).map_err(EditError::Refused)?;
    let lines = LineIndex::new(text);
    let named = |forms: &[DefinitionForm]| {
        let most = forms.iter().take(20);
        let named: Vec<String> =
            most.map(|form| format!("{} (line {})", form.label, lines.line(form.span.start))).collect();
        named.join(", ")
    };
    match found.len() {
        1 => Ok(found.remove(0)),
        0 => {
            let all = edit::definitions(text);
            Err(EditError::Refused(match all.is_empty() {
                true => format!("{path} contains no definitions, so no {wanted}."),
                false => format!("{path} has no definition {wanted}. It defines {}.", named(&all)),
            }))
        }
        several => Err(EditError::Refused(format!(
            "{path} has {several} definitions that match {wanted}. Give the beginning of one form: {}.",
            named(&found)
        ))),
    }
}

/// Rejects text that Lisp cannot read because a symbol's package does not exist or `pkg:name` is
/// not exported. Adds a caution instead if the image cannot be trusted for this: the file's package
/// is not loaded, or files have changed after they were loaded.
fn check_symbols(
    index: &Index,
    project: &Project,
    path: &Path,
    package: Option<&str>,
    text: &str,
    cautions: &mut Vec<Caution>,
) -> Result<(), EditError> {
    let within = package.and_then(|name| find_package(index, name));
    if let (Some(name), None) = (package, within) {
        cautions.push(Caution::PackageNotLoaded(name.to_owned()));
        return Ok(());
    }
    let bytes = text.as_bytes();
    let lisp = LispText::read(bytes, Dialect::CommonLisp, &Features::sbcl());
    for token in lisp.tokens().iter().filter(|token| token.active && !token.in_feature) {
        if !matches!(token.marker, Marker::External | Marker::Internal) {
            continue;
        }
        let symbol = token.symbol(bytes);
        let Some(prefix) = symbol.package else { continue };
        let problem = match index.find_package(&prefix, within) {
            None => {
                format!("The text refers to {prefix}:{}, but there is no package {prefix}.", symbol.name)
            }
            Some(_) if token.marker == Marker::Internal => continue,
            Some(home) => match index.find_symbol(&symbol.name, home) {
                Some((_, Access::External)) => continue,
                // Accept an inherited symbol. If the package does not export it, Lisp's reader will
                // reject it later.
                Some((_, Access::Inherited)) => continue,
                _ => format!(
                    "The text refers to {prefix}:{}, but package {prefix} does not export it.",
                    symbol.name
                ),
            },
        };
        // If files were edited and not reloaded, they may define the package differently than the
        // image, so only warn.
        match project.has_changed_files() || project.has_changed(path) {
            true => cautions.push(Caution::NotInStaleImage(problem)),
            false => return Err(EditError::Refused(format!("{problem} Nothing was written."))),
        }
    }
    Ok(())
}
