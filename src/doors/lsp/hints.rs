//! Inlay hints: the parameter names of optional arguments and of literals.

use std::collections::HashMap;

use serde_json::{Value, json};
use steelbank_reader::{FormId, FormKind};
use steelbank_xref::SymbolName;

use super::complete::parameters;
use super::convert::{self, Answered};
use super::navigate::describe;
use super::server::Server;
use crate::actions::uses::occurrences::OccurrenceKind;
use crate::engine::control::Control;

/// The maximum number of hints in an answer.
const MAX_HINTS: usize = 500;

impl Server {
    /// Returns hints for function calls in the requested range, except calls of COMMON-LISP
    /// functions. There is a hint at each optional argument, and at required arguments that are
    /// unsigned numbers, strings or characters. Skips arguments that contain the parameter's name.
    pub(super) fn hints(&self, params: &Value, control: &Control) -> Answered {
        let document = self.document_of(params)?;
        let encoding = self.encoding();
        let within = convert::range_from(&params["range"], &document.text, &document.lines, encoding)?;
        let view = self.view(&document, control)?;
        let image = self.bank()?.index();
        let read = document.read();
        let mut known: HashMap<&SymbolName, Vec<String>> = HashMap::new();
        let mut hints = Vec::new();
        for (index, form) in control.until_cancelled(read.forms().iter().enumerate()) {
            if form.kind != FormKind::List || !within.encloses(form.span) || hints.len() >= MAX_HINTS {
                continue;
            }
            let found = read.head(form).and_then(|head| view.at(head.span.start));
            let Some(found) = found.filter(|found| {
                found.kind == OccurrenceKind::Function
                    && found.binding.is_none()
                    && found.symbol.package != "COMMON-LISP"
            }) else {
                continue;
            };
            let all = known.entry(&found.symbol).or_insert_with(|| {
                // A failed description costs more: its error lists similar names.
                let function = image
                    .named(&found.symbol)
                    .and_then(|_| self.described(describe(&found.symbol), control)?.function);
                parameters(&function.and_then(|function| function.arglist).unwrap_or_default())
            });
            let mut is_optional = false;
            let mut positional = Vec::new();
            for parameter in all.iter() {
                match parameter.to_lowercase().as_str() {
                    "&optional" => is_optional = true,
                    word if word.starts_with('&') => break,
                    word => {
                        let name = word.trim_start_matches('(').split([' ', ')']).next().unwrap_or_default();
                        positional.push((name.to_owned(), is_optional));
                    }
                }
            }
            for (datum, (name, is_optional)) in read.elements(FormId::new(index)).skip(1).zip(positional) {
                let span = read.span(datum);
                let text = document.text.get(span.indices()).unwrap_or_default();
                let is_literal = text.starts_with(|first: char| first.is_ascii_digit() || first == '"')
                    || text.starts_with("#\\");
                if (is_optional || is_literal) && !text.to_lowercase().contains(&name) {
                    let at = document.range(span, encoding)["start"].clone();
                    let label = format!("{name}:");
                    hints.push(json!({ "position": at, "label": label, "kind": 2, "paddingRight": true }));
                }
            }
        }
        Ok(hints.into())
    }
}
