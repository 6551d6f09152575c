//! Adds the code to an answer: the definitions at its places, or the forms around its uses.
//!
//! [`sourced`] wraps the body of a tool. It collects the places in a page of the answer, finds the
//! form around each, once for all places in it, and shortens the longest forms to the room that the
//! page leaves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::enclosing::{Enclosing, innermost};
use crate::answer::{Location, counted};
use crate::handle::QueryContext;
use crate::tools::budget::length;
use crate::tools::{Call, Failure, Session, ToolAnswer};

/// A request with an answer that may include code.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Sourced<R> {
    #[serde(flatten)]
    request: R,
    /// Also return the code.
    #[serde(default)]
    source: bool,
}

/// The code at a place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct SourceText {
    /// `file:line`, or `file:first line-last line`.
    at: String,
    text: String,
}

/// Returns the form around each place, each form once: the innermost definition, or otherwise the
/// top-level form.
fn forms_around(context: &QueryContext<'_>, places: &[Location]) -> Vec<SourceText> {
    let enclosing = Enclosing::new(context);
    let mut forms: Vec<SourceText> = Vec::new();
    for place in places {
        let (Some(line), Some(file)) = (place.line, enclosing.text(&place.file)) else { continue };
        let (bytes, text, lines) = &*file;
        let definitions = enclosing.definitions(&place.file);
        let definition = innermost(&definitions, place, |_| true);
        let definition = definition.map(|known| (known.definition.start, known.definition.end));
        let mut toplevel = text
            .toplevel()
            .iter()
            .map(|form| (lines.line(form.span.start), lines.line(form.span.end.saturating_sub(1))));
        let toplevel = || toplevel.find(|(first, last)| (*first..=*last).contains(&line));
        let Some((first, last)) = definition.or_else(toplevel) else { continue };
        let shown = if first == last { first.to_string() } else { format!("{first}-{last}") };
        let at = format!("{}:{shown}", place.file);
        if forms.iter().all(|form| form.at != at) {
            let code = (first..=last).map(|line| String::from_utf8_lossy(lines.bytes(bytes, line)));
            let code: Vec<String> = code.map(|line| line.trim_end().to_owned()).collect();
            forms.push(SourceText { at, text: code.join("\n") });
        }
    }
    forms
}

/// Makes the body of a tool return the code at the places of its answer, if the request wants it.
pub(crate) fn sourced<R>(
    body: impl Fn(&Session, R, &Call) -> Result<ToolAnswer, Failure>,
) -> impl Fn(&Session, Sourced<R>, &Call) -> Result<ToolAnswer, Failure> {
    move |session, Sourced { request, source }, call| {
        if !source {
            return body(session, request, call);
        }
        let budget = call.budget();
        let half = if budget == usize::MAX { budget } else { budget / 2 };
        let mut page = body(session, request, &call.clone().with_budget(half))?;
        let mut places = Vec::new();
        add_places(&page.structured, &mut places);
        let mut forms = forms_around(&session.bank()?.context(), &places);
        if !forms.is_empty() {
            let used = page.text.len().max(page.structured.json().len());
            // The heading of the code has 40 characters at most.
            shorten(&mut forms, budget.saturating_sub(used + 40));
            page.text.push_str("\n\nSource:");
            forms.iter().for_each(|form| page.text.extend(["\n\n", &form.at, "\n", &form.text]));
            page.structured.insert("source", json!(forms));
        }
        Ok(page)
    }
}

/// Collects the places in an answer: the texts `file:line:column` of the fields `at` and `place`,
/// and objects with a path and a line.
fn add_places(answer: &Value, places: &mut Vec<Location>) {
    if let Ok(place) = Location::deserialize(answer) {
        places.extend(Some(place).filter(|place| place.line.is_some()));
    }
    for (name, value) in answer.as_object().into_iter().flatten() {
        match (name.as_str(), value.as_str()) {
            ("at" | "place", Some(text)) => places.extend(Location::read(text)),
            _ => add_places(value, places),
        }
    }
    answer.as_array().into_iter().flatten().for_each(|value| add_places(value, places));
}

/// Removes lines from the middle of the longest texts, until all fit into `room` as JSON.
fn shorten(forms: &mut [SourceText], room: usize) {
    let size = |most: usize| forms.iter().map(|form| length(form).min(most) + 1).sum::<usize>();
    let mut most = room;
    while most > 0 && size(most) > room {
        most -= most / 16 + 1;
    }
    for form in forms.iter_mut().filter(|form| length(*form) > most && form.text.contains('\n')) {
        let text = std::mem::take(&mut form.text);
        let lines: Vec<&str> = text.split('\n').collect();
        for shown in (1..lines.len()).rev() {
            // Two lines at the start for each at the end.
            let (start, end) = lines.split_at(shown - shown / 3);
            let (left_out, end) = end.split_at(lines.len() - shown);
            let left_out = format!("… {} left out …", counted(left_out.len(), "line", "lines"));
            form.text = [start, &[left_out.as_str()], end].concat().join("\n");
            if length(form) <= most {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longest_text_loses_its_middle() {
        let form = |count: usize| SourceText {
            at: format!("a.lisp:1-{count}"),
            text: (1..=count).map(|line| format!("line {line}")).collect::<Vec<_>>().join("\n"),
        };
        let mut forms = vec![form(3), form(200), form(100)];
        let whole = forms.clone();
        shorten(&mut forms, usize::MAX);
        assert_eq!(forms, whole);
        shorten(&mut forms, 1_500);
        assert!(length(&forms) <= 1_500, "{}", length(&forms));
        assert_eq!(forms[0], whole[0]);
        for (form, count) in [(&forms[1], 200), (&forms[2], 100)] {
            let lines: Vec<&str> = form.text.lines().collect();
            let left_out = format!("… {} lines left out …", count - (lines.len() - 1));
            assert!(lines.contains(&&*left_out), "{form:?}");
            assert_eq!((lines[0], *lines.last().unwrap()), ("line 1", &*format!("line {count}")));
        }
    }
}
