//! The structure of a document: its definitions, folding ranges, and the forms around a position.

use serde_json::{Value, json};
use steelbank_reader::lines::{LineIndex, PositionEncoding};
use steelbank_reader::{Datum, Dialect, Features, LispText, Range, TokenKind};
use steelbank_text::{DefinitionKind, lisp_definitions};

use super::convert::{self, Answered};
use super::server::Server;
use crate::engine::control::Control;

/// A definition in a text.
pub(super) struct DefinitionRange {
    /// The name as Lisp's reader returns it.
    pub(super) spelt: String,
    pub(super) kind: DefinitionKind,
    pub(super) operator: String,
    /// The package prefix of the name, or else the current package at the definition.
    pub(super) package: Option<String>,
    pub(super) name: Range,
    /// The top-level form with the definition.
    pub(super) form: Range,
}

/// Lists the definitions in a text, in order.
pub(super) fn definitions(text: &str) -> Vec<DefinitionRange> {
    let lines = LineIndex::new(text.as_bytes());
    let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
    let found = lisp_definitions(text.as_bytes()).into_iter().filter_map(|known| {
        let start = lines.offset(text.as_bytes(), known.place, PositionEncoding::Characters)?;
        Some(DefinitionRange {
            name: read.token_at(start)?.span,
            form: read.toplevel().get(known.form)?.span,
            spelt: known.name,
            kind: known.kind,
            operator: known.operator,
            package: known.prefix.or(known.package),
        })
    });
    found.collect()
}

/// Returns the protocol's symbol kind.
pub(super) fn symbol_kind(kind: DefinitionKind) -> u32 {
    match kind {
        DefinitionKind::Function | DefinitionKind::GenericFunction | DefinitionKind::Macro => 12,
        DefinitionKind::Method => 6,
        DefinitionKind::Variable => 13,
        DefinitionKind::Constant => 14,
        DefinitionKind::Class => 5,
        _ => 12,
    }
}

impl Server {
    pub(super) fn document_symbols(&self, params: &Value, control: &Control) -> Answered {
        let document = self.document_of(params)?;
        let symbols = control.until_cancelled(definitions(&document.analysed_text())).map(|known| {
            json!({
                "name": known.spelt.to_lowercase(),
                "detail": known.operator.to_lowercase(),
                "kind": symbol_kind(known.kind),
                "range": document.range(known.form, self.encoding()),
                "selectionRange": document.range(known.name, self.encoding()),
            })
        });
        Ok(symbols.collect())
    }

    pub(super) fn folding(&self, params: &Value, control: &Control) -> Answered {
        let document = self.document_of(params)?;
        let read = document.read();
        let forms = read.forms().iter().map(|form| (form.span, Value::Null));
        let comments = read.tokens().iter().filter(|token| token.kind == TokenKind::Comment);
        let comments = comments.map(|token| (token.span, Value::from("comment")));
        let mut folds = Vec::new();
        for (span, kind) in control.until_cancelled(forms.chain(comments)) {
            let (start, end) =
                (document.lines.line(span.start), document.lines.line(span.end.saturating_sub(1)));
            if start < end {
                let mut fold = json!({ "startLine": start - 1, "endLine": end - 1 });
                if !kind.is_null() {
                    fold["kind"] = kind;
                }
                folds.push(fold);
            }
        }
        folds.dedup_by_key(|fold| fold["startLine"].clone());
        Ok(folds.into())
    }

    pub(super) fn selection(&self, params: &Value, control: &Control) -> Answered {
        let document = self.document_of(params)?;
        let positions = params["positions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let (read, mut answer) = (document.read(), Vec::new());
        for position in control.until_cancelled(positions) {
            let at = convert::offset_from(position, &document.text, &document.lines, self.encoding())?;
            let mut around: Vec<Range> = read
                .forms_before(at.saturating_add(1))
                .map(|id| read.span(Datum::Form(id)))
                .filter(|span| at <= span.end)
                .collect();
            around.reverse();
            let token = read.token_at(at).map(|token| token.span);
            let whole = Range::new(0, document.text.len() as u32);
            let mut selection = Value::Null;
            for range in std::iter::once(whole).chain(around).chain(token) {
                let range = document.range(range, self.encoding());
                selection = match selection {
                    Value::Null => json!({ "range": range }),
                    parent => json!({ "range": range, "parent": parent }),
                };
            }
            answer.push(selection);
        }
        Ok(answer.into())
    }
}
