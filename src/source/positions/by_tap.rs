//! Locates uses with the sidecar: the events that SBCL's reader and compiler reported.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use steelbank_xref::{Kind, SymbolName};

use super::super::tap::roles::SyntaxRole;
use super::super::tap::sidecar::{EventKind, Name, Sidecar, TapForm};
use super::super::tap::walk::{Space, SyntacticContext, SyntaxContext, contexts};
use super::forms::expander;
use super::tokens::{binds_alias, is_local_function};

use super::{Evidence, Placement, PositionedFile, XrefRecord};

/// A sidecar with an index of its symbols and strings by name.
#[derive(Debug)]
pub(super) struct Tapped {
    pub(super) sidecar: Sidecar,
    /// Indices into the sidecar's names, by name without package.
    pub(super) by_name: HashMap<String, Vec<u32>>,
    /// The events of each of the sidecar's names: (index of the form, index of the event).
    pub(super) events: Vec<Vec<(u32, u32)>>,
    /// The syntactic contexts of each form's symbols, computed on demand.
    walked: Vec<OnceLock<Box<[SyntaxContext]>>>,
}

impl Tapped {
    pub(super) fn new(sidecar: Sidecar) -> Tapped {
        let mut by_name: HashMap<String, Vec<u32>> = HashMap::new();
        for (index, name) in sidecar.names.iter().enumerate() {
            by_name.entry(name.name().to_owned()).or_default().push(index as u32);
        }
        let mut events = vec![Vec::new(); sidecar.names.len()];
        for (form_index, form) in sidecar.forms.iter().enumerate() {
            for (index, event) in form.events.iter().enumerate() {
                if let EventKind::Symbol(name) | EventKind::Text(name) = event.kind {
                    events[name as usize].push((form_index as u32, index as u32));
                }
            }
        }
        let walked = sidecar.forms.iter().map(|_| OnceLock::new()).collect();
        Tapped { sidecar, by_name, events, walked }
    }

    /// Returns the syntactic contexts of the symbols of the form at `index`.
    pub(super) fn contexts(&self, index: usize) -> &[SyntaxContext] {
        self.walked[index].get_or_init(|| contexts(&self.sidecar, &self.sidecar.forms[index]))
    }

    /// Lists the events of `symbol`: (index of the form, index of the event).
    pub(super) fn places(&self, symbol: &SymbolName) -> impl Iterator<Item = (u32, u32)> {
        let named = self.by_name.get(&symbol.name).into_iter().flatten();
        let is_it = move |name: &Name| matches!(name, Name::Symbol(found) if found == symbol);
        let named = named.filter(move |&&name| is_it(&self.sidecar.names[name as usize]));
        named.flat_map(|&name| &self.events[name as usize]).copied()
    }

    /// Returns the index of `sought` among the file's names. If its home package has been renamed
    /// since the file was read, `means` recognizes the old package.
    pub(super) fn symbol(&self, sought: &SymbolName, means: &dyn Fn(&str) -> bool) -> Option<u32> {
        let named = self.by_name.get(&sought.name)?;
        let name = |index: u32| &self.sidecar.names[index as usize];
        let same = named.iter().copied().find(|&index| name(index).is(&sought.package, &sought.name));
        same.or_else(|| {
            named.iter().copied().find(|&index| match name(index) {
                Name::Symbol(symbol) => means(&symbol.package),
                _ => false,
            })
        })
    }

    /// Lists the events of symbol `name` inside the event `around` of the form at `index`, in
    /// order. Omits events that are not elements of a list.
    fn inside(&self, index: usize, around: usize, name: u32) -> Vec<usize> {
        let (all, form) = (&self.events[name as usize], &self.sidecar.forms[index]);
        let start = form.events[around].start;
        let before =
            all.partition_point(|&(other, event)| (other as usize, event as usize) < (index, around));
        let mut inside: Vec<usize> = all[..before]
            .iter()
            .rev()
            .take_while(|&&(other, _)| other as usize == index)
            .map(|&(_, event)| event as usize)
            .take_while(|&event| form.events[event].start >= start)
            .filter(|&event| {
                form.events[event].kind == EventKind::Symbol(name) && form.events[event].place > 0
            })
            .collect();
        inside.reverse();
        inside
    }
}

/// A recorded use, as found in the sidecar.
struct TapUse<'a> {
    form: &'a TapForm,
    contexts: &'a [SyntaxContext],
    kind: Kind,
    /// The event of the sub-form with the recorded number, or else with the next lower number.
    around: usize,
    /// Whether `around` has exactly the recorded number.
    numbered: bool,
    /// The events of the symbol inside `around` or, without the exact number, in the top-level
    /// form; in order.
    inside: Vec<usize>,
    /// The events in `inside` that the record certainly refers to; `None` if that is uncertain.
    sure: Option<Vec<usize>>,
}

impl<'a> TapUse<'a> {
    /// Finds a recorded use in the sidecar. Returns `None` if the file has no such top-level form.
    /// `name` is the symbol's index, if the file contains it.
    fn new(tapped: &'a Tapped, name: Option<u32>, recorded: XrefRecord) -> Option<TapUse<'a>> {
        let index = tapped.sidecar.form_index(recorded.form)?;
        let form = &tapped.sidecar.forms[index];
        let contexts = tapped.contexts(index);
        let (number, around) = form.nearest_sub_form(recorded.number)?;
        let numbered = number == recorded.number;
        // A form that a reader macro produced has no position in the text: its symbols may be
        // anywhere in the top-level form.
        let within = if numbered { around } else { form.events.len().checked_sub(1)? };
        let mut inside = name.map_or_else(Vec::new, |name| tapped.inside(index, within, name));
        inside.retain(|&event| !contexts[event].generated);
        let mut found = TapUse { form, contexts, kind: recorded.kind, around, numbered, inside, sure: None };
        found.sure = if numbered { found.certain_events() } else { None };
        Some(found)
    }

    fn parent(&self, event: usize) -> Option<usize> {
        self.form.events[event].parent.map(|parent| parent as usize)
    }

    fn calls(&self) -> bool {
        matches!(self.kind, Kind::Calls | Kind::Macroexpands)
    }

    /// Returns the events that the record certainly refers to: the form's operator, the names that
    /// the form binds, or the form's direct arguments. Returns `None` if that is uncertain.
    fn certain_events(&self) -> Option<Vec<usize>> {
        if self.calls() {
            let operator = self.form.child(self.around, 1)?;
            return self.inside.contains(&operator).then(|| vec![operator]);
        }
        let inside = self.inside.iter().copied();
        let mut chosen: Vec<usize> = match self.kind {
            // (let ((x 1)) …), (lambda (x) …), (defun f (&key (x 1)) …): the name is an element of
            // a list that is an element of the form, or it begins a list inside such a list.
            Kind::Binds => inside
                .filter(|&event| {
                    self.parent(event).is_some_and(|list| {
                        let outer = self.parent(list);
                        outer == Some(self.around)
                            || (self.form.events[event].place == 1
                                && outer.is_some_and(|outer| self.parent(outer) == Some(self.around)))
                    })
                })
                .collect(),
            _ => inside.filter(|&event| self.parent(event) == Some(self.around)).collect(),
        };
        match self.kind {
            Kind::Binds => self.prefer(&mut chosen, |context| context.role == SyntaxRole::Binding),
            Kind::Sets => self.prefer(&mut chosen, |context| context.written),
            Kind::References => self.prefer(&mut chosen, |context| !context.written),
            _ => {}
        }
        match (chosen.len(), self.kind) {
            (1, _) => Some(chosen),
            // SBCL stores equal records once, so the record refers to all direct arguments.
            (2.., Kind::References) => Some(chosen),
            (2.., Kind::Sets) if chosen.iter().all(|&event| self.contexts[event].written) => Some(chosen),
            _ => None,
        }
    }

    /// Retains only the events that `wanted` accepts, if there are any.
    fn prefer(&self, chosen: &mut Vec<usize>, wanted: impl Fn(&SyntaxContext) -> bool) {
        if chosen.iter().any(|&event| wanted(&self.contexts[event])) {
            chosen.retain(|&event| wanted(&self.contexts[event]));
        }
    }

    /// Returns the events that the record may refer to, judging by the text.
    fn possible_events(&self) -> Vec<usize> {
        let meant = |context: &SyntaxContext| match (self.kind, context.role) {
            (Kind::Calls, SyntaxRole::Argument) => context.position != SyntacticContext::Variable,
            (Kind::Calls | Kind::Macroexpands, role) => {
                matches!(role, SyntaxRole::Operator | SyntaxRole::Argument | SyntaxRole::Function)
            }
            (_, SyntaxRole::Binding) => true,
            (_, SyntaxRole::Operator) => context.position != SyntacticContext::Called,
            (_, role) => matches!(role, SyntaxRole::Argument | SyntaxRole::Definition),
        };
        // A variable binding may bind a special variable, and then hides no use of the variable. A
        // call never refers to a variable.
        let hidden = |context: &SyntaxContext| {
            context.bound.is_some_and(|by| match context.space {
                Space::Unknown => is_local_function(by),
                Space::Variable => self.calls() || binds_alias(by),
                _ => true,
            })
        };
        let possible = |event: &usize| meant(&self.contexts[*event]) && !hidden(&self.contexts[*event]);
        self.inside.iter().copied().filter(possible).collect()
    }
}

impl PositionedFile {
    /// Locates all records of a symbol. `name` is the symbol's index, if the file contains it.
    pub(super) fn place_by_tap(
        &self,
        tapped: &Tapped,
        name: Option<u32>,
        recorded: &[XrefRecord],
    ) -> Vec<Vec<Placement>> {
        let found: Vec<Option<TapUse<'_>>> =
            recorded.iter().map(|&recorded| TapUse::new(tapped, name, recorded)).collect();
        let taken: HashSet<(u32, usize)> = found
            .iter()
            .flatten()
            .flat_map(|found| found.sure.iter().flatten().map(move |&event| (found.form.number, event)))
            .collect();
        let place = |found: &TapUse<'_>| self.place_one(&tapped.sidecar, found, name, &taken);
        found.iter().map(|found| found.as_ref().map_or_else(Vec::new, place)).collect()
    }

    /// Locates one record. `taken` contains the events that other records certainly refer to.
    fn place_one(
        &self,
        sidecar: &Sidecar,
        found: &TapUse<'_>,
        name: Option<u32>,
        taken: &HashSet<(u32, usize)>,
    ) -> Vec<Placement> {
        let form = found.form;
        let at = |event: usize| self.event_range(sidecar, &form.events[event]);
        let with = |events: &[usize], evidence: Evidence| {
            events.iter().map(|&event| Placement::new(at(event), evidence)).collect()
        };
        let via = || vec![Placement::via(at(found.around), expander(sidecar, form, found.around))];
        if let Some(events) = &found.sure {
            return with(events, Evidence::Exact);
        }
        let mut possible = found.possible_events();
        possible.retain(|&event| !taken.contains(&(form.number, event)));
        if !found.numbered {
            // A reader macro produced the recorded form. Tokens in the top-level form may explain
            // the use; otherwise the macro does.
            return match possible[..] {
                [] if found.inside.is_empty() => with(&[found.around], Evidence::Approximate),
                [] => via(),
                _ => with(&possible, Evidence::Approximate),
            };
        }
        // If the form binds a local variable with this name, a token may be the variable instead of
        // the function, and the compiler does not report which.
        let hidden = found.calls() && name.is_some_and(|name| sidecar.is_local_variable(form.number, name));
        let clear = |event: usize| {
            let context = &found.contexts[event];
            context.position == SyntacticContext::Called || context.role == SyntaxRole::Function
        };
        let clearly: Vec<usize> = possible.iter().copied().filter(|&event| clear(event)).collect();
        match (&possible[..], &clearly[..]) {
            ([_], _) if !hidden => with(&possible, Evidence::Exact),
            // Exactly one of the possible tokens certainly names the function; the others may name
            // anything.
            (_, [_]) if found.calls() => with(&clearly, Evidence::Exact),
            ([_, ..], _) => with(&possible, Evidence::Approximate),
            ([], _) => via(),
        }
    }
}
