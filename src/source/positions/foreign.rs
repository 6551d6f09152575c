//! Foreign functions and variables: CFFI derives their Lisp names from strings with the C names.

use super::by_tap::Tapped;
use super::structures::symbol;
use super::{PositionedFile, Reading};
use crate::source::tap::sidecar::TapForm;
use steelbank_reader::Range;
use steelbank_xref::SymbolName;

impl PositionedFile {
    /// Finds the list in top-level form `form` that makes CFFI derive the name `made`, as in
    /// `(defcfun "get_it" …)`. Returns the list's operator, and the range of its first argument,
    /// the string. Returns `None` unless there is exactly one such list. Needs a sidecar.
    pub fn foreign_name(&self, form: u32, made: &str) -> Option<(SymbolName, Range)> {
        let Reading::Tap(tapped) = &self.reading else { return None };
        let form = tapped.sidecar.form(form)?;
        let makes = |text: &str| {
            let name = text.to_uppercase().replace('_', "-");
            name == made || format!("*{name}*") == made
        };
        let mut found = (0..form.events.len()).filter_map(|event| {
            let event = &form.events[event];
            let list = event.parent.filter(|_| event.place == 1)? as usize;
            let operator = form.child(list, 1).filter(|&operator| tapped.is_user_macro(form, operator))?;
            let (text, place) = self.string_after(tapped, form, list, operator)?;
            makes(&text).then_some((symbol(tapped, form, operator)?, place))
        });
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }

    /// Returns whether any list in the file with the operator `operator` has `("get_it" name …)` as
    /// its first argument. Needs a sidecar.
    pub fn has_foreign_pair(&self, operator: &SymbolName) -> bool {
        let Reading::Tap(tapped) = &self.reading else { return false };
        let mut places = tapped.places(operator);
        places.any(|(form, event)| self.is_foreign_pair(tapped, &tapped.sidecar.forms[form as usize], event))
    }

    fn is_foreign_pair(&self, tapped: &Tapped, form: &TapForm, operator: u32) -> bool {
        let event = &form.events[operator as usize];
        let list = event.parent.filter(|_| event.place == 1);
        let pair = list.and_then(|list| form.child(list as usize, 2));
        let Some((pair, named)) = pair.and_then(|pair| Some((pair, form.child(pair, 2)?))) else {
            return false;
        };
        let range = |event: usize| self.event_range(&tapped.sidecar, &form.events[event]);
        let text = self.text_between(range(pair).start + 1, range(named).start);
        let is_symbol = symbol(tapped, form, named).is_some_and(|symbol| symbol.package != "KEYWORD");
        is_symbol && text.trim().len() > 2 && text.trim().starts_with('"') && text.trim().ends_with('"')
    }

    /// Returns the string after the event `operator` in `list`, and its range including the quotes.
    fn string_after(
        &self,
        tapped: &Tapped,
        form: &TapForm,
        list: usize,
        operator: usize,
    ) -> Option<(String, Range)> {
        let range = |event: usize| self.event_range(&tapped.sidecar, &form.events[event]);
        let next = form.children(list).find(|&child| form.events[child].place > 1);
        let from = range(operator).end;
        let text = self.text_between(from, next.map_or(range(list).end, |next| range(next).start));
        let start = from + u32::try_from(text.len() - text.trim_start().len()).ok()?;
        let inside = text.trim_start().strip_prefix('"')?;
        let inside = &inside[..inside.find('"')?];
        let end = start + u32::try_from(inside.len()).ok()? + 2;
        (!inside.contains('\\')).then(|| (inside.to_owned(), Range::new(start, end)))
    }

    fn text_between(&self, from: u32, to: u32) -> &str {
        self.text.get(from as usize..to as usize).unwrap_or_default()
    }
}
