//! Clause words: macros such as ITERATE recognize them by name, so that a symbol and the keyword
//! with the same name are equivalent.

use std::collections::BTreeSet;

use super::{PositionedFile, Reading};
use crate::source::tap::sidecar::{Abbreviation, EventKind, Name, NameKind, TapForm};
use steelbank_xref::SymbolName;

/// The operators of the lists that contain a clause word.
#[derive(Debug, Default)]
pub struct Clauses {
    /// The operators of lists with the symbol.
    pub of_symbol: BTreeSet<SymbolName>,
    /// The operators of lists with the keyword that has the symbol's name.
    pub of_keyword: BTreeSet<SymbolName>,
}

impl PositionedFile {
    /// Adds to `clauses` the operators of lists that contain the keyword `name`, or a token that
    /// starts at one of `starts`. Skips known functions, standard operators and keywords. Needs a
    /// sidecar.
    pub fn add_clauses(&self, name: &str, starts: &BTreeSet<u32>, clauses: &mut Clauses) {
        let Reading::Tap(tapped) = &self.reading else { return };
        let sidecar = &tapped.sidecar;
        let head = |form: &TapForm, event: usize| {
            let list = form.events[event].parent.filter(|_| form.events[event].place > 1)? as usize;
            let EventKind::Symbol(name) = form.events[form.child(list, 1)?].kind else { return None };
            match sidecar.names.get(name as usize)? {
                Name::Symbol(operator)
                    if sidecar.kind(name) != NameKind::Function
                        && !["COMMON-LISP", "KEYWORD"].contains(&operator.package.as_str()) =>
                {
                    Some(operator.clone())
                }
                _ => None,
            }
        };
        for &name in tapped.by_name.get(name).into_iter().flatten() {
            let keyword =
                matches!(&sidecar.names[name as usize], Name::Symbol(symbol) if symbol.package == "KEYWORD");
            for &(form, event) in &tapped.events[name as usize] {
                let (form, event) = (&sidecar.forms[form as usize], event as usize);
                if keyword {
                    clauses.of_keyword.extend(head(form, event));
                } else if starts.contains(&self.event_range(sidecar, &form.events[event]).start) {
                    clauses.of_symbol.extend(head(form, event));
                }
            }
        }
    }
    /// Returns the operators of lists that have a quoted `sought` as an argument. Omits standard
    /// operators and keywords. Needs a sidecar.
    pub fn operators_of_quoted(
        &self,
        sought: &SymbolName,
        means: &dyn Fn(&str) -> bool,
    ) -> BTreeSet<SymbolName> {
        let Reading::Tap(tapped) = &self.reading else { return BTreeSet::new() };
        let Some(symbol) = tapped.symbol(sought, means) else { return BTreeSet::new() };
        let sidecar = &tapped.sidecar;
        let given = |&(form, event): &(u32, u32)| {
            let form = &sidecar.forms[form as usize];
            let quote = form.events[event as usize].parent? as usize;
            let list =
                form.events[quote].parent.filter(|_| form.events[quote].operator == Abbreviation::Quote)?;
            let EventKind::Symbol(name) = form.events[form.child(list as usize, 1)?].kind else {
                return None;
            };
            match sidecar.names.get(name as usize)? {
                Name::Symbol(operator)
                    if !["COMMON-LISP", "KEYWORD"].contains(&operator.package.as_str()) =>
                {
                    Some(operator.clone())
                }
                _ => None,
            }
        };
        tapped.events[symbol as usize].iter().filter_map(given).collect()
    }
}
