//! Queries about a top-level form in the sidecar: its symbols, inner methods, and the operators
//! that expand into definitions and uses.

use super::super::tap::roles::SyntaxRole;
use super::super::tap::sidecar::{Abbreviation, EventKind, Name, NameKind, Sidecar, TapForm};
use super::{PositionedFile, Reading};
use steelbank_reader::Range;
use steelbank_xref::SymbolName;

impl PositionedFile {
    /// Lists the symbols in top-level form `form`, by package and name. Needs a sidecar.
    pub fn symbols_in(&self, form: u32) -> Vec<&SymbolName> {
        let Reading::Tap(tapped) = &self.reading else { return Vec::new() };
        let Some(form) = tapped.sidecar.form(form) else { return Vec::new() };
        let mut names: Vec<u32> = form
            .events
            .iter()
            .filter_map(|event| match event.kind {
                EventKind::Symbol(name) => Some(name),
                _ => None,
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        names
            .into_iter()
            .filter_map(|name| match &tapped.sidecar.names[name as usize] {
                Name::Symbol(symbol) => Some(symbol),
                _ => None,
            })
            .collect()
    }

    /// Lists the names of the symbols in sub-form `number` of top-level form `form` that are proper
    /// substrings of `whole`. A name of one character must be a word of `whole`, between hyphens.
    /// Omits names that are substrings of a longer listed name. Needs a sidecar.
    pub fn name_parts_in(&self, form: u32, number: u32, whole: &str) -> Vec<String> {
        let Reading::Tap(tapped) = &self.reading else { return Vec::new() };
        let Some(form) = tapped.sidecar.form(form) else { return Vec::new() };
        let Some((_, around)) = form.nearest_sub_form(number) else { return Vec::new() };
        let span = &form.events[around];
        let mut parts: Vec<&str> = form
            .events
            .iter()
            .filter(|event| span.start <= event.start && event.end <= span.end)
            .filter_map(|event| match event.kind {
                EventKind::Symbol(name) => Some(tapped.sidecar.names[name as usize].name()),
                _ => None,
            })
            .filter(|name| {
                let word = || whole.split('-').any(|word| word == *name);
                name.len() < whole.len() && whole.contains(name) && (name.len() > 1 || word())
            })
            .collect();
        parts.sort_unstable_by_key(|part| (std::cmp::Reverse(part.len()), *part));
        parts.dedup();
        let mut longest: Vec<String> = Vec::new();
        for part in parts {
            if !longest.iter().any(|other| other.contains(part)) {
                longest.push(part.to_owned());
            }
        }
        longest
    }

    /// Lists the methods inside a generic function's definition, top-level form `form`: for each
    /// method, its range and the classes that it specializes on. Needs a sidecar.
    pub fn inner_methods(&self, form: u32) -> Vec<(Range, Vec<&str>)> {
        let Reading::Tap(tapped) = &self.reading else { return Vec::new() };
        let sidecar = &tapped.sidecar;
        let Some(index) = sidecar.form_index(form) else { return Vec::new() };
        let (form, contexts) = (&sidecar.forms[index], tapped.contexts(index));
        let name = |event: usize| match form.events[event].kind {
            EventKind::Symbol(name) => sidecar.names.get(name as usize),
            _ => None,
        };
        let is_method = |&list: &usize| {
            form.child(list, 1).and_then(name).is_some_and(|name| name.is("KEYWORD", "METHOD"))
        };
        (0..form.events.len())
            .filter(is_method)
            .map(|list| {
                let (start, end) = (form.events[list].start, form.events[list].end);
                let inside = |event: &usize| {
                    let event = &form.events[*event];
                    start < event.start && event.end < end
                };
                let classes = (0..form.events.len())
                    .filter(inside)
                    .filter(|&event| contexts[event].role == SyntaxRole::Class)
                    .filter_map(|event| name(event).map(Name::name))
                    .collect();
                (self.event_range(sidecar, &form.events[list]), classes)
            })
            .collect()
    }

    /// Returns the macro that expands into the definition that the image records at sub-form
    /// `number` of top-level form `form`. It is the nearest macro that is the operator of the
    /// sub-form or of a list around it. Needs a sidecar.
    pub fn expander_at(&self, form: u32, number: u32) -> Option<SymbolName> {
        let Reading::Tap(tapped) = &self.reading else { return None };
        let form = tapped.sidecar.form(form)?;
        let (_, list) = form.nearest_sub_form(number)?;
        let sidecar = &tapped.sidecar;
        std::iter::once(list).chain(form.ancestors(list)).find_map(|list| {
            let EventKind::Symbol(name) = form.events[form.child(list, 1)?].kind else { return None };
            match sidecar.names.get(name as usize)? {
                Name::Symbol(operator) if sidecar.kind(name) == NameKind::Macro => Some(operator.clone()),
                _ => None,
            }
        })
    }

    /// Returns the operator that expands into a use recorded for top-level form `form` itself.
    /// Needs a sidecar.
    pub fn form_expander(&self, form: u32) -> Option<SymbolName> {
        let Reading::Tap(tapped) = &self.reading else { return None };
        let form = tapped.sidecar.form(form)?;
        let whole = form.events.len().checked_sub(1)?;
        Some(expander(&tapped.sidecar, form, whole))
    }
}

/// Returns the operator that expands into a use without a token in `list`. It is the first of
/// these: the operator of `list`, if it is neither standard nor a function; a symbol macro in
/// `list`; the nearest user macro around `list`; the operator of `list` in any case; a word for the
/// kind of form.
pub(super) fn expander(sidecar: &Sidecar, form: &TapForm, list: usize) -> SymbolName {
    let named = |event: usize| match form.events[event].kind {
        EventKind::Symbol(name) => match &sidecar.names[name as usize] {
            Name::Symbol(symbol) => Some((sidecar.kind(name), symbol)),
            _ => None,
        },
        _ => None,
    };
    let head = |list: usize| form.child(list, 1).and_then(named);
    let is_own = |found: &(NameKind, &SymbolName)| found.1.package != "COMMON-LISP";
    let own = head(list);
    let symbol_macro =
        || form.children(list).filter_map(named).find(|found| found.0 == NameKind::SymbolMacro);
    let around =
        || form.ancestors(list).filter_map(head).find(|found| found.0 == NameKind::Macro && is_own(found));
    let macro_ = own.filter(|found| found.0 != NameKind::Function && is_own(found));
    if let Some((_, operator)) = macro_.or_else(symbol_macro).or_else(around).or(own) {
        return operator.clone();
    }
    let name = match form.events[list].operator {
        Abbreviation::Quote => "quote",
        Abbreviation::Function => "function",
        Abbreviation::Backquote => "backquote",
        _ => "the form",
    };
    SymbolName::new("", name)
}
