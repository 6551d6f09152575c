//! Translates positions in the recorded version of a file to its current, changed text.

use std::collections::HashMap;

use super::super::tap::sidecar::{EventKind, Name, Sidecar, TapForm};
use steelbank_reader::{Dialect, Features, LispText, Range, Token, TokenKind, TopLevelForm};

/// The recorded top-level forms that are still in the text.
#[derive(Debug)]
pub(super) struct MovedForms(Vec<MovedForm>);

#[derive(Debug)]
struct MovedForm {
    /// The form's recorded range, in characters.
    before: Range,
    now: FormNow,
}

#[derive(Debug)]
enum FormNow {
    /// The form is unchanged: the current byte offset of each of its characters.
    Same(Vec<u32>),
    /// The form has changed: the form's current byte offset, and the recorded and current ranges of
    /// the unchanged symbols at its beginning and end, sorted.
    Changed { start: u32, symbols: Vec<(Range, Range)> },
}

impl MovedForms {
    /// Searches `text` for the forms of `sidecar`. A form with the same length and the same symbols
    /// at the same positions is unchanged. If exactly one remaining form of each text begins with
    /// the same two symbols, they are two versions of one changed form.
    pub(super) fn new(sidecar: &Sidecar, text: &str) -> Self {
        let bytes = text.as_bytes();
        let read = LispText::read(bytes, Dialect::CommonLisp, &Features::sbcl());
        let inside = |top: &TopLevelForm| {
            let form = text.get(top.span.indices()).unwrap_or_default();
            let starts = form.char_indices().map(|(at, _)| top.span.start + at as u32);
            starts.chain([top.span.end]).collect::<Vec<u32>>()
        };
        // The forms by length in characters, so that each form of a long file is compared only with
        // forms of its length.
        let mut left: HashMap<usize, Vec<(&TopLevelForm, Vec<u32>)>> = HashMap::new();
        for top in read.toplevel() {
            let now = inside(top);
            left.entry(now.len()).or_default().push((top, now));
        }
        let is_same = |form: &TapForm, before: Range, top: &TopLevelForm, now: &[u32]| {
            let mut tokens = read.tokens()[top.tokens()].iter().peekable();
            form.events.iter().all(|event| {
                let Some(name) = symbol(sidecar, event.kind) else { return true };
                let end = event.end.checked_sub(before.start).and_then(|end| now.get(end as usize).copied());
                while tokens.next_if(|token| Some(token.span.end) < end).is_some() {}
                tokens.peek().is_some_and(|token| Some(token.span.end) == end && token.is_named(bytes, name))
            })
        };
        let (mut found, mut others) = (Vec::new(), Vec::new());
        for form in &sidecar.forms {
            let Some(before) = form.events.last().map(|whole| Range::new(whole.start, whole.end)) else {
                continue;
            };
            let as_long = left.get_mut(&((before.end - before.start) as usize + 1));
            let same = as_long.and_then(|as_long| {
                let at = as_long.iter().position(|(top, now)| is_same(form, before, top, now))?;
                Some(as_long.remove(at).1)
            });
            match same {
                Some(now) => found.push(MovedForm { before, now: FormNow::Same(now) }),
                None => others.push((form, before)),
            }
        }
        let mut alike: HashMap<_, (Vec<_>, Vec<&TopLevelForm>)> = HashMap::new();
        for (form, before) in others {
            let name = |place| symbol(sidecar, form.events[form.child(form.events.len() - 1, place)?].kind);
            if let (Some(operator), Some(name)) = (name(1), name(2)) {
                alike.entry((operator.to_owned(), name.to_owned())).or_default().0.push((form, before));
            }
        }
        for (top, _) in left.into_values().flatten() {
            let elements = top.form.into_iter().flat_map(|form| read.elements(form));
            let mut named = elements.map(|datum| Some(read.token(datum)?.symbol(bytes).name.into_owned()));
            if let (Some(Some(operator)), Some(Some(name))) = (named.next(), named.next())
                && let Some((_, now)) = alike.get_mut(&(operator, name))
            {
                now.push(top);
            }
        }
        found.extend(alike.into_values().filter_map(|(before, now)| {
            let (&[(form, before)], &[top]) = (&*before, &*now) else { return None };
            let symbols = same_symbols(sidecar, form, &read.tokens()[top.tokens()], bytes);
            Some(MovedForm { before, now: FormNow::Changed { start: top.span.start, symbols } })
        }));
        found.sort_unstable_by_key(|form| form.before);
        Self(found)
    }

    /// Returns the current byte offset of the character at the recorded `offset`. If the form has
    /// changed and the character is not in an unchanged symbol, returns the form's start. Returns
    /// `None` if the form no longer exists.
    pub(super) fn of(&self, offset: u32) -> Option<u32> {
        let before = self.0.partition_point(|form| form.before.start <= offset);
        let form = self.0[..before].last().filter(|form| offset <= form.before.end)?;
        match &form.now {
            FormNow::Same(now) => now.get((offset - form.before.start) as usize).copied(),
            FormNow::Changed { start, symbols } => {
                let next = symbols.partition_point(|(before, _)| before.end <= offset);
                let kept = symbols.get(next).filter(|(before, _)| before.start <= offset);
                Some(kept.map_or(*start, |(before, now)| {
                    now.start.max(now.end.saturating_sub(before.end - offset))
                }))
            }
        }
    }
}

/// Pairs the unchanged symbols at the beginning and end of `form` with its current `tokens`.
fn same_symbols(sidecar: &Sidecar, form: &TapForm, tokens: &[Token], text: &[u8]) -> Vec<(Range, Range)> {
    let events = form.events.iter();
    let before: Vec<(&str, Range)> = events
        .filter_map(|event| Some((symbol(sidecar, event.kind)?, Range::new(event.start, event.end))))
        .collect();
    let now: Vec<&Token> =
        tokens.iter().filter(|token| token.kind == TokenKind::Symbol && token.active).collect();
    let is_kept = |(was, token): &(&(&str, Range), &&Token)| token.is_named(text, was.0);
    let first = before.iter().zip(&now).take_while(is_kept).count();
    let rest = (&before[first..], &now[first..]);
    let last = rest.0.iter().rev().zip(rest.1.iter().rev()).take_while(is_kept).count();
    let ends = (before.len() - last, now.len() - last);
    let begun = before[..first].iter().zip(&now[..first]);
    begun
        .chain(before[ends.0..].iter().zip(&now[ends.1..]))
        .map(|(&(_, was), token)| (was, token.span))
        .collect()
}

/// Returns the name of a symbol event, without its package.
fn symbol(sidecar: &Sidecar, kind: EventKind) -> Option<&str> {
    let EventKind::Symbol(name) = kind else { return None };
    match sidecar.names.get(name as usize)? {
        Name::Symbol(symbol) => Some(&symbol.name),
        _ => None,
    }
}
