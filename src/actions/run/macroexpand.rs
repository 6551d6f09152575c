//! Implements macroexpand, which expands a form. Expansion runs the macros' code.

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
use steelbank_reader::lines::{LineColumn, LineIndex, PositionEncoding};
use steelbank_reader::{Datum, Dialect, Features, Form, FormId, FormKind, LispText, Range, Token, TokenKind};

words! {
    /// How far to expand.
    #[derive(Default)]
    Depth {
        /// One step of the form itself.
        Once = "once",
        /// Until the form itself is no longer a macro form.
        #[default]
        Full = "full",
        /// The form and all forms inside it.
        All = "all",
    }
}

/// A request to expand a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MacroexpandRequest {
    /// The form, as text.
    pub form: String,
    /// The package for reading the form.
    pub package: String,
    /// How far to expand.
    pub depth: Depth,
    /// Whether `#.` in the form is evaluated.
    pub read_eval: bool,
    /// Whether local definitions (MACROLET, COMPILER-LET) are evaluated. If not, forms with local
    /// definitions are not expanded, even if a macro generated these forms.
    pub local_definitions: bool,
}

impl MacroexpandRequest {
    /// Creates a request to fully expand `form`, read in CL-USER. Neither `#.` nor local
    /// definitions are evaluated.
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

/// The answer to macroexpand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct MacroexpandAnswer {
    /// Whether the package was found.
    pub status: LookupStatus,
    /// The package for reading the form.
    #[serde(default)]
    pub package: String,
    /// The form that was expanded, as given or as read from the file.
    #[serde(default)]
    pub form: String,
    /// Position of a form that was read from a file: `file:line:column`.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Location>,
    /// Whether the form's operator is a local function or macro, which is not expanded.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub local: bool,
    /// The place of the local definition of the operator, or of a symbol macro in the form, if it
    /// is in the file.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub local_definition: Option<Location>,
    /// Whether the compiler recorded no expansion of the macro at this place. A macro around the
    /// form may define it locally.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unrecorded: bool,
    /// Whether anything was expanded.
    #[serde(default)]
    pub expanded: bool,
    /// The expansion, printed in `package`.
    #[serde(default)]
    pub expansion: String,
    /// Whether the printed expansion was truncated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Whether the form's operator has a compiler macro, which may transform the call further.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub compiler_macro: bool,
    /// Number of expansion steps.
    #[serde(default)]
    pub step_count: u64,
    /// The steps in order; truncated if there are very many.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ExpansionStep>,
    /// The beginnings of forms that were not expanded, because their local definitions (MACROLET,
    /// COMPILER-LET) would have been evaluated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left: Vec<String>,
}

/// The expansion of one macro call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ExpansionStep {
    /// The macro.
    #[serde(rename = "macro")]
    pub macro_name: LispName,
    /// The beginning of the macro call.
    pub form: String,
    /// The beginning of the expansion.
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
    /// The form's text.
    pub text: String,
    /// The current package at the form, if the file sets a package.
    pub package: Option<String>,
    /// The form's position in the file.
    pub place: Location,
    /// The range of the operator, or of a local symbol macro, in bytes of the file.
    pub operator: Option<Range>,
    /// Whether `local_definition` defines the operator, or the form itself if it is a symbol.
    pub(crate) is_local: bool,
    /// The definition of the operator by FLET, LABELS or MACROLET around the form, or else that of
    /// a name in the form by SYMBOL-MACROLET.
    pub local_definition: Option<Location>,
}

/// Finds a form by its position in the file at `path`.
///
/// Without `column`, returns the outermost list that begins on `line`. With `column`, returns the
/// list that begins at that column or has its operator there, or else the first list that begins
/// after the column on the line. If there is no such list, returns the innermost list around the
/// start of the line. A symbol at the column that SYMBOL-MACROLET binds is a form, too. Returns
/// `None` if the file has no such line or no list contains it.
///
/// # Errors
/// Fails if the file cannot be read.
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
    // Other tools report the position of an operator, so accept that position for the operator's
    // form.
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
    let place = |span| Location::in_text(path.to_string_lossy(), &lines, &bytes, span);
    let found = |span: Range, operator: Option<&Token>| {
        let tokens = text.tokens().iter().filter(|token| span.contains(token.span.start));
        let mut inner = tokens.filter_map(|token| symbol_macro(&text, &bytes, token));
        let local = operator.and_then(|name| match name.span == span {
            true => symbol_macro(&text, &bytes, name),
            false => local_definition(&text, &bytes, name, &["FLET", "LABELS", "MACROLET"]),
        });
        let top = text.toplevel().iter().find(|top| top.span.contains(span.start));
        FormAt {
            text: String::from_utf8_lossy(&bytes[span.indices()]).into_owned(),
            package: top.and_then(|top| top.package.as_deref().map(String::from)),
            place: place(span),
            operator: operator.map(|operator| operator.span),
            is_local: local.is_some(),
            local_definition: local.or_else(|| inner.find(|local| local.start < span.start)).map(place),
        }
    };
    let at = column
        .and_then(|column| lines.offset(&bytes, LineColumn { line, column }, PositionEncoding::Characters));
    let token = at.and_then(|at| text.token_at(at));
    if let Some(token) = token.filter(|token| symbol_macro(&text, &bytes, token).is_some()) {
        return Ok(Some(found(token.span, Some(token))));
    }
    Ok(begins.or_else(around).map(|form| found(form.span, text.head(form))))
}

/// Finds the definition of the symbol `token` in a SYMBOL-MACROLET around it. Returns `None` for an
/// operator and for data.
fn symbol_macro(text: &LispText, bytes: &[u8], token: &Token) -> Option<Range> {
    let around = text.form(innermost(text, token)?)?;
    let is_operator = text.head(around).is_some_and(|head| head.span == token.span);
    let is_evaluated = token.kind == TokenKind::Symbol && around.kind == FormKind::List && !is_operator;
    is_evaluated.then(|| local_definition(text, bytes, token, &["SYMBOL-MACROLET"]))?
}

/// Returns the innermost form around `token`.
fn innermost(text: &LispText, token: &Token) -> Option<FormId> {
    let before = text.forms().partition_point(|form| form.span.start <= token.span.start);
    text.forms()[..before].iter().rposition(|form| form.span.contains(token.span.start)).map(FormId::new)
}

/// Finds the definition of the name `token` by one of `operators` around it.
fn local_definition(text: &LispText, bytes: &[u8], token: &Token, operators: &[&str]) -> Option<Range> {
    let name = token.symbol(bytes);
    std::iter::successors(innermost(text, token), |id| text.form(*id)?.parent).find_map(|id| {
        let operator = text.head(text.form(id)?)?.symbol(bytes).name;
        if !operators.contains(&&*operator) {
            return None;
        }
        let is_recursive = operator == "LABELS";
        let Datum::Form(bindings) = text.elements(id).nth(1)? else { return None };
        let is_in_scope = is_recursive || token.span.start >= text.form(bindings)?.span.end;
        let definitions = text.elements(bindings).filter(|_| is_in_scope).filter_map(|found| match found {
            Datum::Form(definition) => text.form(definition),
            Datum::Token(_) => None,
        });
        let mut heads = definitions.filter_map(|definition| text.head(definition));
        heads.find(|head| head.symbol(bytes) == name).map(|head| head.span)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operator_position_selects_its_form() {
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

    #[test]
    fn local_operators_are_recognized() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lisp");
        let check = |text: &str, column: u32, local: Option<u32>| {
            std::fs::write(&path, text).unwrap();
            let found = form_at(&path, 1, Some(column)).unwrap().unwrap();
            assert_eq!(found.local_definition.and_then(|place| place.column), local, "{text}");
        };
        check("(macrolet ((m (x) x)) (list (m 1)))", 29, Some(13));
        check("(flet ((m (x) (m x))) (m 1))", 23, Some(9));
        check("(flet ((m (x) (m x))) (m 1))", 15, None);
        check("(labels ((m (x) (m x))) (m 1))", 17, Some(11));
        check("(flet ((n (x) x)) (m 1))", 19, None);
        check("(symbol-macrolet ((m 1) (n m)) (list m))", 38, Some(20));
        check("(symbol-macrolet ((m 1)) (m 1))", 26, None);
        check("(symbol-macrolet ((m 1)) (list 'm))", 33, None);
        check("(list (symbol-macrolet ((m 1)) n) m)", 35, None);
    }
}
