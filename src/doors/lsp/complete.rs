//! Completion and signature help.

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use steelbank_reader::{Datum, FormId, Range};
use steelbank_xref::SymbolName;

use super::convert::Answered;
use super::documents::OpenDocument;
use super::navigate::describe;
use super::server::Server;
use crate::actions::symbols::names::{Accessible, AccessibleNamesRequest};
use crate::actions::uses::occurrences::OccurrenceKind;
use crate::answer::designator::elements;
use crate::engine::control::Control;

/// The maximum number of offered names.
const MAX_NAMES: usize = 200;

/// Rates how well `name` matches the typed text; both are in lower case. The lowest number is best.
/// `None` if the name does not match.
///
/// * 0: the name starts with the text.
/// * 1: words of the name start with the parts of the text (`m-v-b`) or with its letters (`mvb`).
/// * 2: the name contains the text, which has at least three characters.
fn fit(name: &str, typed: &str) -> Option<u8> {
    if name.starts_with(typed) {
        return Some(0);
    }
    // Both remaining kinds of matches require that all typed characters occur in the name in this
    // order.
    let mut letters = name.bytes();
    if !typed.bytes().all(|wanted| letters.any(|letter| letter == wanted)) {
        return None;
    }
    let mut words = name.split('-');
    let mut by_words = typed.split('-').flat_map(|part| match typed.contains('-') {
        true => vec![part.to_owned()],
        false => part.chars().map(String::from).collect(),
    });
    if by_words.all(|part| words.any(|word| word.starts_with(&part))) {
        return Some(1);
    }
    (typed.len() > 2 && name.contains(typed)).then_some(2)
}

/// A candidate: match quality, length and text, which determine the order; then the protocol's kind
/// number and the symbol. Local names and the keywords of a call's parameters have no symbol.
type Offered<'a> = (u8, usize, Cow<'a, str>, u32, Option<&'a Accessible>);

impl Server {
    pub(super) fn completion(&self, params: &Value, control: &Control) -> Answered {
        let (document, at) = self.at(params)?;
        let bytes = document.text.as_bytes();
        let start = bytes[..at as usize].iter().rposition(|byte| b" \t\r\n()'`,\";#@".contains(byte));
        let start = start.map_or(0, |before| before + 1);
        let typed = document.text.get(start..at as usize).unwrap_or_default().to_lowercase();
        let read = document.read();
        let inside = read.token_at(at.saturating_sub(1)).filter(|token| token.span.start < at);
        if inside.is_some_and(|token| {
            use steelbank_reader::TokenKind::{Comment, String};
            matches!(token.kind, Comment | String)
        }) {
            return Ok(json!([]));
        }
        let top = read.toplevel_from(at).or(read.toplevel().last());
        let current =
            top.and_then(|top| top.package.clone()).unwrap_or_else(|| Arc::from("COMMON-LISP-USER"));
        let colon = typed.rfind(':');
        let (prefix, name) = typed.split_at(colon.map_or(0, |colon| colon + 1));
        let request = AccessibleNamesRequest {
            package: current.to_string(),
            prefix: (!prefix.is_empty()).then(|| prefix.trim_end_matches(':').to_uppercase()),
            internal: prefix.ends_with("::"),
        };
        let names = self.names(&request, control)?;
        let mut found: Vec<Offered<'_>> = Vec::new();
        let view = if prefix.is_empty() { Some(self.view(&document, control)?) } else { None };
        if let Some(view) = &view {
            let form = read.toplevel().iter().find(|top| top.span.start <= at && at <= top.span.end);
            let mut locals: Vec<&str> = Vec::new();
            for local in view.occurrences.iter().filter(|local| {
                local.binding == Some(local.range)
                    && local.range.start as usize != start
                    && form.is_some_and(|form| form.span.encloses(local.range))
                    && matches!(local.kind, OccurrenceKind::LocalVariable | OccurrenceKind::LocalFunction)
            }) {
                let text = document.text.get(local.name_range.indices()).unwrap_or_default();
                if let Some(fit) = fit(&text.to_lowercase(), name).filter(|_| !locals.contains(&text)) {
                    locals.push(text);
                    let kind = if local.kind == OccurrenceKind::LocalVariable { 6 } else { 3 };
                    found.push((fit, text.len(), Cow::Borrowed(text), kind, None));
                }
            }
        }
        if prefix == ":" {
            found.extend(self.keywords(&document, at, control).into_iter().filter_map(|keyword| {
                let fit = fit(&keyword, name)?;
                Some((fit, keyword.len(), format!(":{keyword}").into(), 14, None))
            }));
        }
        found.extend(names.iter().filter_map(|known| {
            let fit = fit(&known.written, name)?;
            Some((fit, known.written.len(), Cow::Borrowed(known.written.as_str()), 3, Some(known)))
        }));
        let incomplete = found.len() > MAX_NAMES;
        let order = |one: &Offered<'_>, other: &Offered<'_>| {
            (one.0, one.1, &one.2).cmp(&(other.0, other.1, &other.2))
        };
        if incomplete {
            found.select_nth_unstable_by(MAX_NAMES, order);
            found.truncate(MAX_NAMES);
        }
        found.sort_by(order);
        let range = document.range(Range::of(start..at as usize), self.encoding());
        let items = found.into_iter().enumerate().map(|(number, (_, _, text, kind, known))| {
            let label = known.map_or_else(|| text.to_string(), |_| format!("{prefix}{text}"));
            let data = known.map(|known| &known.symbol);
            json!({
                "label": label,
                "kind": kind,
                "filterText": label,
                "sortText": format!("{number:05}"),
                "textEdit": { "range": range, "newText": label },
                "data": data,
            })
        });
        Ok(json!({ "isIncomplete": incomplete, "items": items.collect::<Vec<_>>() }))
    }

    pub(super) fn resolve_completion(&self, params: &Value, control: &Control) -> Answered {
        let mut item = params.clone();
        let data = &params["data"];
        if let Ok(symbol) = SymbolName::deserialize(data)
            && let Some(known) = self.described(describe(&symbol), control)
        {
            let function = known.function.as_ref();
            if let Some(arglist) = function.and_then(|function| function.arglist.clone()) {
                item["detail"] = arglist.into();
            }
            let documentation = function.and_then(|function| function.documentation.clone());
            let variable = || known.variable.and_then(|variable| variable.documentation);
            let class = known.class.and_then(|class| class.documentation);
            if let Some(documentation) = documentation.or_else(variable).or(class) {
                item["documentation"] = documentation.into();
            }
        }
        Ok(item)
    }

    /// Returns the innermost call around `at` for which the image has a lambda list: the operator's
    /// name as written, its lambda list, and the index of the argument at `at`, from 0.
    fn call_around(
        &self,
        document: &OpenDocument,
        at: u32,
        control: &Control,
    ) -> Option<(String, String, usize)> {
        let read = document.read();
        let view = self.view(document, control).ok()?;
        let open = read.forms().partition_point(|form| form.span.start < at);
        let closed = |end: u32| {
            end <= at
                && !(end == document.text.len() as u32 && document.text.as_bytes().last() != Some(&b')'))
        };
        for index in (0..open).rev() {
            let form = &read.forms()[index];
            if closed(form.span.end) {
                continue;
            }
            let Some(head) = read.head(form).filter(|head| head.span.end < at) else { continue };
            let Some(found) = view.at(head.span.start).filter(|found| found.binding.is_none()) else {
                continue;
            };
            let known = self.described(describe(&found.symbol), control);
            let Some(arglist) = known.and_then(|known| known.function?.arglist) else { continue };
            let elements = read.elements(FormId::new(index));
            let before = elements.filter(|datum: &Datum| read.span(*datum).end < at).count();
            let written = document.text.get(head.span.indices())?.to_owned();
            return Some((written, arglist, before.saturating_sub(1)));
        }
        None
    }

    /// Returns the initialization arguments of the class in the `make-instance` form around `at`.
    fn initargs(&self, document: &OpenDocument, at: u32, control: &Control) -> Option<Vec<String>> {
        let (read, view) = (document.read(), self.view(document, control).ok()?);
        let around = read.forms().iter().rposition(|form| form.span.start < at && at <= form.span.end)?;
        let head = view.at(read.head(&read.forms()[around])?.span.start)?;
        if *head.symbol != SymbolName::new("COMMON-LISP", "MAKE-INSTANCE") {
            return None;
        }
        let class = read.elements(FormId::new(around)).nth(1)?;
        let quote = document.text.get(read.span(class).indices())?;
        let class = view.at(read.span(class).start + u32::from(quote.starts_with('\'')))?;
        let slots = self.described(describe(&class.symbol), control)?.class?.slots;
        let initargs = slots.into_iter().flat_map(|slot| slot.initargs);
        Some(initargs.map(|name| name.trim_start_matches(':').to_lowercase()).collect())
    }

    /// Returns the keywords that the call around `at` accepts.
    fn keywords(&self, document: &OpenDocument, at: u32, control: &Control) -> Vec<String> {
        if let Some(initargs) = self.initargs(document, at, control) {
            return initargs;
        }
        let Some((_, arglist, _)) = self.call_around(document, at, control) else { return Vec::new() };
        let parameters = parameters(&arglist);
        let keys = parameters.iter().skip_while(|word| !word.eq_ignore_ascii_case("&key")).skip(1);
        let keys = keys.take_while(|word| !word.starts_with('&'));
        let name = |word: &String| {
            let word = word.trim_start_matches('(').split([' ', ')']).next().unwrap_or_default();
            word.trim_start_matches(':').to_lowercase()
        };
        keys.map(name).collect()
    }

    pub(super) fn signature_help(&self, params: &Value, control: &Control) -> Answered {
        let (document, at) = self.at(params)?;
        let Some((name, arglist, argument)) = self.call_around(&document, at, control) else {
            return Ok(Value::Null);
        };
        let all = parameters(&arglist);
        let label = format!("({name} {}", arglist.trim_start_matches('('));
        let rest = all
            .iter()
            .position(|word| ["&rest", "&body", "&key"].iter().any(|known| word.eq_ignore_ascii_case(known)));
        let named: Vec<usize> = (0..all.len()).filter(|&number| !all[number].starts_with('&')).collect();
        let active = match rest.map(|rest| named.iter().position(|&number| number > rest)) {
            Some(first) => argument.min(first.unwrap_or(named.len())),
            None => argument,
        };
        let parameters: Vec<Value> = named.iter().map(|&number| json!({ "label": all[number] })).collect();
        Ok(json!({
            "signatures": [{ "label": label, "parameters": parameters }],
            "activeSignature": 0,
            "activeParameter": active,
        }))
    }
}

/// Returns the elements of a printed lambda list.
pub(super) fn parameters(arglist: &str) -> Vec<String> {
    elements(arglist.trim()).unwrap_or_default().into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_match_by_prefix_words_or_substring() {
        for (typed, expect) in
            [("multi", Some(0)), ("mvb", Some(1)), ("m-v", Some(1)), ("bind", Some(2)), ("q", None)]
        {
            assert_eq!(fit("multiple-value-bind", typed), expect, "{typed}");
        }
    }

    #[test]
    fn parameters_splits_lambda_list() {
        assert_eq!(
            parameters("(a &optional (b 1) &key ((:c d) 2))"),
            ["a", "&optional", "(b 1)", "&key", "((:c d) 2)"]
        );
        assert!(parameters("()").is_empty());
    }
}
