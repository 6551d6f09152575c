//! edit-definition: replaces, deletes or adds one top-level form in a file. Compiles and loads nothing.

mod run;
pub(crate) mod tool;

use std::path::{Path, PathBuf};

use crate::answer::location::Range;
use crate::answer::{Caution, Location};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::unified::unified;
use crate::answer::lookup::find_package;
use crate::workspace::journal::EditPurpose;
use crate::workspace::replacement::Replacement;
use crate::workspace::write::FileError;
use crate::workspace::{NoProject, Project, version, write};
pub use steelbank_reader::edit::EditAction as EditOperation;
use steelbank_reader::edit::{self, DefinitionForm};
use steelbank_reader::lines::LineIndex;
use steelbank_reader::{Dialect, Features, LispText, Marker};
use steelbank_xref::{Access, Index};

/// An edit at one definition of a file.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct EditRequest {
    /// The file, relative to the project.
    pub path: PathBuf,
    /// The definition: its name, or its form's beginning: (defun area), (defun (setf area)), (defmethod area :around (square)).
    pub definition: String,
    /// What to do at it.
    pub operation: EditOperation,
    /// The new form, exactly one. Not for delete.
    #[serde(default)]
    pub text: String,
    /// The version of the file that an earlier answer told: refuse if it is another now.
    #[serde(default)]
    pub version: Option<String>,
}

impl EditRequest {
    /// Makes an edit of `definition` in the file at `path`, whatever version that has.
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

/// What was edited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct EditAnswer {
    /// The first line that is new, or where lines are gone.
    #[serde(flatten)]
    pub place: Location,
    /// The definition at which it was done.
    pub definition: String,
    /// What was done.
    pub operation: EditOperation,
    /// The change as a unified diff.
    pub diff: String,
    /// The file's version now: pass it to the next edit, to be sure that nobody else has changed the file.
    pub version: String,
    /// What could not be checked.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schemars(with = "Vec<String>")]
    pub cautions: Vec<Caution>,
}

/// The reason why nothing was edited.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EditError {
    /// There is no such file.
    #[error("Path {path} not found")]
    Missing {
        /// The path as it was given.
        path: String,
    },
    /// There is no project.
    #[error(transparent)]
    NoProject(#[from] NoProject),
    /// The edit was refused; the sentence says why.
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

/// Carries out `request` on a file of `project`.
///
/// # Errors
/// There is no such file, or none or several such definitions; the text is not exactly one form that reads in
/// that package; the file has another version. The file is unchanged then.
pub(crate) fn edit_definition(
    index: &Index,
    project: &Project,
    request: &EditRequest,
) -> Result<EditAnswer, EditError> {
    let path = write::own_file(project.own_root()?, &request.path)?;
    let edits = project.edits().map_err(EditError::Refused)?;
    let shown = project.shown(&path);
    let old = steelbank_tree::read_source(&path)
        .map_err(|error| EditError::Refused(format!("{shown} cannot be read: {error}.")))?;
    if let Some(wanted) = &request.version
        && *wanted != version(&old)
    {
        return Err(EditError::Refused(format!(
            "{shown} is of version {}, not {wanted}: it was changed meanwhile. Nothing was written; read it again.",
            version(&old)
        )));
    }
    let definition = only_definition(&old, &shown, &request.definition)?;
    let mut cautions = Vec::new();
    if request.operation != EditOperation::Delete {
        check_symbols(index, project, &path, definition.package.as_deref(), &request.text, &mut cautions)?;
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

/// Finds the one definition of `text` that `wanted` names.
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
                true => format!("{path} has no definition {wanted}: it has none at all."),
                false => format!("{path} has no definition {wanted}. It has {}.", named(&all)),
            }))
        }
        several => Err(EditError::Refused(format!(
            "{path} has {several} definitions that {wanted} names; name one as its form begins: {}.",
            named(&found)
        ))),
    }
}

/// Refuses a text that Lisp could not read: `pkg:name` where there is no PKG, or where it does not export
/// NAME. Adds a caution instead while files have changed since they were loaded.
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
                format!("There is no package {prefix}, which the text names in {prefix}:{}.", symbol.name)
            }
            Some(_) if token.marker == Marker::Internal => continue,
            Some(home) => match index.find_symbol(&symbol.name, home) {
                Some((_, Access::External)) => continue,
                // Accepts an inherited symbol: the package may export it again, which only Lisp's reader
                // knows.
                Some((_, Access::Inherited)) => continue,
                _ => format!("Package {prefix} exports no symbol {}, which the text names.", symbol.name),
            },
        };
        // Only warns if files were edited and not loaded: they may define the package otherwise.
        match project.has_changed_files() || project.has_changed(path) {
            true => cautions.push(Caution::NotInOldImage(problem)),
            false => return Err(EditError::Refused(format!("{problem} Nothing was written."))),
        }
    }
    Ok(())
}
