//! macroexpand: the expansion of a form. Expanding runs the macros.

pub(crate) mod tool;

use crate::answer::lookup::{DEFAULT_PACKAGE, LookupStatus, find_package};
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::location::as_text;
use crate::answer::words::words;
use crate::answer::{LispName, Location};
use crate::engine::{Control, Lane};
use crate::handle::{Error, QueryContext, Question};
use steelbank_reader::lines::LineIndex;
use steelbank_reader::{Dialect, Features, Form, FormKind, LispText};

words! {
    /// How far to expand.
    #[derive(Default)]
    Depth {
        /// One step of the form itself.
        Once = "once",
        /// Until the form itself is no macro form any more.
        #[default]
        Full = "full",
        /// The forms inside it too.
        All = "all",
    }
}

/// A request to expand a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MacroexpandRequest {
    /// The form, as text.
    pub form: String,
    /// The package that it is read in.
    pub package: String,
    /// How far to expand.
    pub depth: Depth,
    /// Whether `#.` in the form is evaluated.
    pub read_eval: bool,
    /// Whether local definitions (MACROLET, COMPILER-LET) are evaluated. If not, forms with them are left as
    /// they stand, wherever they come from.
    pub local_definitions: bool,
}

impl MacroexpandRequest {
    /// Makes a request to expand `form`, read in CL-USER, once; neither `#.` nor local definitions are evaluated.
    pub fn new(form: impl Into<String>) -> Self {
        Self {
            form: form.into(),
            package: DEFAULT_PACKAGE.to_owned(),
            depth: Depth::default(),
            read_eval: false,
            local_definitions: false,
        }
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct MacroexpandAnswer {
    /// Whether the package was found.
    pub status: LookupStatus,
    /// The package that the form was read in.
    #[serde(default)]
    pub package: String,
    /// The form that was expanded, as it was given or found.
    #[serde(default)]
    pub form: String,
    /// Where it stands, if it was found in a file: `file:line:column`.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Location>,
    /// Whether anything was expanded.
    #[serde(default)]
    pub expanded: bool,
    /// The expansion, printed as code of that package.
    #[serde(default)]
    pub expansion: String,
    /// Whether the expansion was too long to be printed whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Whether the form's operator has a compiler macro, which may transform the call further.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compiler_macro: bool,
    /// How many steps it took.
    #[serde(default)]
    pub step_count: u64,
    /// The steps in order; not all of very many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ExpansionStep>,
    /// The beginnings of forms that were left as they stand: their local definitions (MACROLET, COMPILER-LET)
    /// would have been evaluated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
}

/// One macro's expansion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ExpansionStep {
    /// The macro.
    #[serde(rename = "macro")]
    pub macro_name: LispName,
    /// The beginning of the form that it expanded.
    pub form: String,
    /// The beginning of what it made of it.
    pub into: String,
}

impl Question for MacroexpandRequest {
    type Answer = MacroexpandAnswer;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<MacroexpandAnswer, Error> {
        let package = match find_package(&context.index, &self.package) {
            Some(package) => context.index.package_name(package).into_owned(),
            None => self.package.to_uppercase(),
        };
        let flag = |set| if set { "yes".to_owned() } else { String::new() };
        let flags = [flag(self.read_eval), flag(self.local_definitions)];
        let arguments = [self.form.clone(), package.clone(), self.depth.name().to_owned()]
            .into_iter()
            .chain(flags)
            .collect();
        let (mut answer, _): (MacroexpandAnswer, _) =
            context.ask_on(Lane::Work, "macroexpand", arguments, control)?;
        answer.form = self.form.clone();
        answer.steps.iter_mut().for_each(|step| step.macro_name.write(&context.index));
        if answer.status != LookupStatus::Found {
            answer.package = package;
        }
        Ok(answer)
    }
}

/// A form found in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FormAt {
    /// Its text.
    pub text: String,
    /// The package that it is in, if the file says.
    pub package: Option<String>,
    /// Its place in the file.
    pub place: Location,
}

/// Finds the outermost list that begins on `line` of the file at `path`; if `column` is given, the list that
/// begins there or whose operator stands there, else the first after it on the line. If there is none, finds
/// the innermost list around the line's beginning.
///
/// # Errors
/// The file cannot be read.
pub fn form_at(path: &Path, line: u32, column: Option<u32>) -> std::io::Result<Option<FormAt>> {
    let bytes = steelbank_tree::read_source(path)?;
    let text = LispText::read(&bytes, Dialect::CommonLisp, &Features::sbcl());
    let lines = LineIndex::new(&bytes);
    if line == 0 || line as usize > lines.count() {
        return Ok(None);
    }
    let position = |start: u32| lines.position(&bytes, start);
    let lists = || text.forms().iter().filter(|form| form.kind == FormKind::List);
    let starts = |form: &&Form| position(form.span.start);
    let on_line = || lists().filter(|form| starts(form).line == line);
    // Takes the place of an operator, which is what other tools report, for that of its form.
    let headed = |form: &&Form| {
        let (Some(head), Some(column)) = (text.head(form), column) else { return false };
        let (first, last) = (position(head.span.start), position(head.span.end));
        first.line == line && (first.column..last.column).contains(&column)
    };
    let begins = match column {
        None => on_line().next(),
        Some(column) => on_line()
            .find(|form| starts(form).column == column)
            .or_else(|| lists().find(headed))
            .or_else(|| on_line().find(|form| starts(form).column >= column)),
    };
    let start = lines.start(line);
    let around = || {
        lists().filter(|form| form.span.contains(start)).min_by_key(|form| form.span.end - form.span.start)
    };
    Ok(begins.or_else(around).map(|form| {
        let top = text.toplevel().iter().find(|top| top.span.contains(form.span.start));
        FormAt {
            text: String::from_utf8_lossy(&bytes[form.span.indices()]).into_owned(),
            package: top.and_then(|top| top.package.as_deref().map(String::from)),
            place: Location::in_text(path.to_string_lossy(), &lines, &bytes, form.span),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_tells_of_an_operator_means_the_form_that_it_begins() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lisp");
        std::fs::write(&path, "(list (when a (unless b c)) (when d e))\n").unwrap();
        let at = |column| form_at(&path, 1, column).unwrap().unwrap().text;
        for column in [None, Some(1), Some(2), Some(5)] {
            assert!(at(column).starts_with("(list"), "{column:?}");
        }
        for column in [6, 7, 8, 11] {
            assert_eq!(at(Some(column)), "(when a (unless b c))", "{column}");
        }
        for column in [13, 15, 16, 21] {
            assert_eq!(at(Some(column)), "(unless b c)", "{column}");
        }
        assert_eq!(at(Some(30)), "(when d e)");
    }
}
