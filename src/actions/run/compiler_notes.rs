//! Implements compiler-notes, which lists the compiler's notes and warnings on the functions that a
//! symbol names. Lisp compiles each definition's form again from its source, but the image keeps
//! the old definitions.

pub(crate) mod tool;

use crate::answer::location::as_text;
use crate::answer::lookup::{NamedSymbol, about_symbol};
use crate::answer::{LispKind, LispName, Location};
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steelbank_reader::{Dialect, Features, LispText};

use crate::actions::symbols::find_definition::{ImageDefinitions, ImageSource, Resolved};
use crate::engine::{Control, Lane};
use crate::handle::loaded::Severity;
use crate::handle::{Error, QueryContext, Question};

/// A request for the compiler's notes on a definition.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct CompilerNotesRequest {
    /// The symbol.
    #[serde(flatten)]
    pub symbol: NamedSymbol,
}

about_symbol!(CompilerNotesRequest {});

/// The answer to compiler-notes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CompilerNotes {
    /// The symbol, or the `(setf …)` name, that was requested.
    pub symbol: LispName,
    /// The package where the name was found, if none was given and CL-USER lacks the name.
    #[serde(skip)]
    pub looked_up_in: Option<String>,
    /// The definitions that were compiled or skipped.
    pub definitions: Vec<NotedDefinition>,
    /// The compiler's notes by definition, in source order for each.
    pub notes: Vec<CompilerNote>,
}

/// A definition, and whether it could be compiled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct NotedDefinition {
    /// The definition's name.
    pub name: LispName,
    /// `function`, `macro`, `method` or `compiler-macro`.
    pub kind: LispKind,
    /// `file:line:column`.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub place: Location,
    /// Why it was not compiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
}

/// One note or warning of the compiler.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CompilerNote {
    /// `file:line:column` of the form.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub place: Location,
    /// `note`, `style-warning`, `warning` or `error`.
    pub severity: Severity,
    /// The compiler's message.
    pub message: String,
}

#[derive(Deserialize)]
struct NotesReport {
    #[serde(default)]
    notes: Vec<NoteReport>,
}

#[derive(Deserialize)]
struct NoteReport {
    severity: Severity,
    message: String,
    number: Option<u32>,
}

/// The kinds of definition that are compiled to functions.
const KINDS: [LispKind; 4] = [LispKind::Function, LispKind::Macro, LispKind::Method, LispKind::CompilerMacro];

impl Question for CompilerNotesRequest {
    type Answer = CompilerNotes;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<CompilerNotes, Error> {
        let resolved = Resolved::new(context, &self.symbol)?;
        let image = ImageDefinitions::ask(context, &resolved.sought, control)?;
        let mut answer = CompilerNotes {
            symbol: resolved.name.clone(),
            looked_up_in: resolved.looked_up_in.clone(),
            ..CompilerNotes::default()
        };
        let wanted = image
            .definitions
            .iter()
            .filter(|definition| KINDS.contains(&definition.kind) && resolved.accepts(definition));
        for definition in wanted {
            for source in &definition.sources {
                control.check()?;
                let mut noted = NotedDefinition {
                    name: definition.name(&context.index),
                    kind: definition.kind.clone(),
                    place: Location::default(),
                    skipped: None,
                };
                match compile(context, source, &mut noted, control) {
                    Ok(notes) => answer.notes.extend(notes),
                    Err(NotesError::Skipped(why)) => noted.skipped = Some(why),
                    Err(NotesError::Failed(error)) => return Err(error),
                }
                if !answer.definitions.contains(&noted) {
                    answer.definitions.push(noted);
                }
            }
        }
        Ok(answer)
    }
}

enum NotesError {
    Skipped(String),
    Failed(Error),
}

impl From<Error> for NotesError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

fn skipped<T>(why: impl Into<String>) -> Result<T, NotesError> {
    Err(NotesError::Skipped(why.into()))
}

/// Compiles the top-level form of `source` in Lisp and returns the compiler's notes. The
/// optimization settings of the DECLAIM forms before it in the file take effect. Sets the place in
/// `noted`. Returns `NotesError::Skipped` if the definition was not loaded from a file, if the file
/// cannot be read or has changed, or if the form is not found there.
fn compile(
    context: &QueryContext<'_>,
    source: &ImageSource,
    noted: &mut NotedDefinition,
    control: &Control,
) -> Result<Vec<CompilerNote>, NotesError> {
    let path = Path::new(&source.file);
    let shown = context.project.shown(path);
    noted.place = Location::new(&*shown);
    let (Some(&form), true) = (source.form_path.first(), path.is_absolute()) else {
        return skipped(format!("{} was not loaded from a file.", noted.name));
    };
    let date = source.write_date.or_else(|| context.project.loaded_date(path));
    let Some(file) = date.and_then(|date| context.project.positions(path, date).ok()) else {
        return skipped(format!("cannot read {shown}."));
    };
    if !file.is_fresh() || context.project.has_changed(path) {
        return skipped(format!("{shown} changed after it was loaded; reload it first."));
    }
    let Ok(bytes) = steelbank_tree::read_source(path) else {
        return skipped(format!("cannot read {shown}."));
    };
    let text = LispText::read(&bytes, Dialect::CommonLisp, &Features::sbcl());
    let begins = file.form_range(form, 0).and_then(|range| Some(file.position(range.start)?.line));
    let lines = steelbank_reader::lines::LineIndex::new(&bytes);
    let top = text.toplevel().iter().find(|top| Some(lines.position(&bytes, top.span.start).line) == begins);
    let Some(top) = top else { return skipped("the form was not found in the file.") };
    noted.place = context.places().of_form(path, date, Some(form), source.form_number);
    let before = text.toplevel().iter().take_while(|other| other.span.start < top.span.start);
    let declaims: Vec<String> = before
        .filter(|other| {
            let head = other.form.and_then(|form| text.form(form)).and_then(|form| text.head(form));
            head.is_some_and(|head| head.is_named(&bytes, "DECLAIM"))
        })
        .map(|other| String::from_utf8_lossy(&bytes[other.span.indices()]).into_owned())
        .collect();
    let arguments = vec![
        top.package.as_deref().unwrap_or("COMMON-LISP-USER").to_owned(),
        String::from_utf8_lossy(&bytes[top.span.indices()]).into_owned(),
        declaims.join("\n"),
    ];
    let (report, _): (NotesReport, _) = context.ask_on(Lane::Work, "compiler-notes", arguments, control)?;
    let notes = report.notes.into_iter().map(|note| {
        let range = file.form_range(form, note.number.unwrap_or(0));
        let place =
            range.map_or_else(|| Location::new(&*shown), |range| Location::placed(&*shown, &file, range));
        CompilerNote { place, severity: note.severity, message: note.message }
    });
    let mut notes: Vec<CompilerNote> = notes.collect();
    notes.sort_by(|note, other| {
        let key = |note: &CompilerNote| (note.place.clone(), note.severity.name());
        key(note).cmp(&key(other)).then_with(|| note.message.cmp(&other.message))
    });
    Ok(notes)
}
