//! Lists the definitions of a Common Lisp text, as found by the structural reader.

use crate::definitions::lisp::definitions;
use crate::kind::DefinitionKind;
use crate::scan::lisp::read;
use steelbank_reader::lines::{AscendingColumns, LineColumn, LineIndex, decode};
use steelbank_reader::{Dialect, LispText, Marker, Range, TokenKind};

/// A definition in a Common Lisp text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LispDefinition {
    /// The kind of definition.
    pub kind: DefinitionKind,
    /// The name as the Lisp reader would read it, without package prefix.
    pub name: String,
    /// The package prefix of the name, if it has one.
    pub prefix: Option<String>,
    /// The keyword, uninterned symbol or string, as written, that names a test or an object defined
    /// by a custom operator. Such a name is not a symbol of the current package.
    pub literal: Option<String>,
    /// Whether the name is a list `(setf …)`.
    pub setf: bool,
    /// The defining operator after reading, without package prefix.
    pub operator: String,
    /// Line and column of the name, from 1; the column counts characters.
    pub place: LineColumn,
    /// The first line of the defining form.
    pub start: u32,
    /// The last line of the defining form.
    pub end: u32,
    /// The index of the top-level form that contains the definition, from 0.
    pub form: usize,
    /// The current package at the form; `None` if the text sets none before the form.
    pub package: Option<String>,
    /// The first line of the form, at most 240 bytes.
    pub line: String,
    /// Whether it only declares something that is defined elsewhere.
    pub declaration: bool,
}

/// Returns all definitions of a Common Lisp text, in order. Forms excluded by `#+` or `#-` are
/// omitted.
pub fn lisp_definitions(bytes: &[u8]) -> Vec<LispDefinition> {
    let text = read(bytes, Dialect::CommonLisp);
    let lines = LineIndex::new(bytes);
    let (mut columns, mut counted) = (AscendingColumns::new(bytes), 0);
    let found = definitions(&text, bytes).into_iter().filter(|definition| definition.active).filter_map(
        |definition| {
            let at = definition.form.start;
            let form = text.toplevel().partition_point(|top| top.span.end <= at);
            text.toplevel().get(form).filter(|top| top.span.contains(at))?;
            let first = text.forms().partition_point(|form| form.span.start < at);
            let operator = text.forms()[first..]
                .iter()
                .take_while(|form| form.span.start == at)
                .find(|form| form.span == definition.form)
                .and_then(|form| text.head(form))
                .map(|head| head.symbol(bytes).name.into_owned());
            let (name, prefix) = name(&text, bytes, definition.name);
            let may_be_literal = matches!(definition.kind, DefinitionKind::Definition | DefinitionKind::Test);
            let literal = text.token_at(definition.name.start).filter(|token| {
                may_be_literal
                    && (token.kind == TokenKind::String
                        || matches!(token.marker, Marker::Keyword | Marker::Uninterned))
            });
            let literal = literal.map(|token| decode(&bytes[token.span.indices()]).into_owned());
            let start = lines.line(at);
            // Count columns from the previous name: a line can be as long as the file.
            let place = match definition.name.start >= counted {
                true => {
                    counted = definition.name.start;
                    LineColumn { line: lines.line(counted), column: columns.of(counted) as u32 }
                }
                false => lines.position(bytes, definition.name.start),
            };
            let before = decode(bytes.get(definition.form.start as usize..definition.name.start as usize)?);
            Some(LispDefinition {
                kind: definition.kind,
                name,
                prefix,
                literal,
                setf: before.trim_end().to_uppercase().ends_with("(SETF"),
                operator: operator.unwrap_or_default(),
                place,
                start,
                end: lines.line(definition.form.end.saturating_sub(1)),
                form,
                package: text.toplevel()[form].package.as_deref().map(String::from),
                line: decode(beginning(lines.bytes(bytes, start))).trim().to_owned(),
                declaration: definition.declaration,
            })
        },
    );
    found.collect()
}

/// Returns the start of a line for display; a line can be as long as the file.
fn beginning(line: &[u8]) -> &[u8] {
    let mut end = line.len().min(240);
    while end < line.len() && end > 0 && line[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    &line[..end]
}

/// Returns the name at `range` as the Lisp reader would read it, and its package prefix.
fn name(text: &LispText, bytes: &[u8], range: Range) -> (String, Option<String>) {
    match text.token_at(range.start) {
        Some(token) if token.kind == TokenKind::Symbol => {
            let symbol = token.symbol(bytes);
            (symbol.name.into_owned(), symbol.package.map(|package| package.into_owned()))
        }
        _ => (decode(bytes.get(range.indices()).unwrap_or_default()).into_owned(), None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definition_has_name_package_and_extent() {
        let text = "(in-package :app)\n\n(defun (setf part)\n    (new x)\n  (list new x))\n#+nil (defun gone ())\n(other::define-thing app::|x y| 1)\n(define-key :up 1)\n(defpackage \"LOWER\")\n";
        let found = lisp_definitions(text.as_bytes());
        let shown: Vec<_> = found
            .iter()
            .map(|each| {
                (
                    each.kind.name(),
                    each.name.as_str(),
                    each.setf,
                    (each.place.line, each.place.column),
                    (each.start, each.end),
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("function", "PART", true, (3, 14), (3, 5)),
                ("definition", "x y", false, (7, 27), (7, 7)),
                ("definition", "UP", false, (8, 14), (8, 8)),
                ("package", "LOWER", false, (9, 14), (9, 9)),
            ]
        );
        assert_eq!(found[0].package.as_deref(), Some("APP"));
        assert_eq!((found[1].operator.as_str(), found[1].prefix.as_deref()), ("DEFINE-THING", Some("APP")));
        assert_eq!(found[0].line, "(defun (setf part)");
        let literals: Vec<_> = found.iter().map(|each| each.literal.as_deref()).collect();
        assert_eq!(literals, [None, None, Some(":up"), None]);
    }
}
