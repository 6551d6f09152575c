//! Places by the sidecar: what SBCL's own reader and compiler reported.

use std::collections::{HashMap, HashSet};
use std::sync::OnceLock;

use super::super::tap::roles::{Role, is_key_parameter, is_looked_up, package_clause, package_role};
use super::super::tap::sidecar::{
    Event, EventKind, Name, NameKind, Operator, Sidecar, TopLevelForm, UseKind,
};
use super::super::tap::walk::{Context, SLOT, Space, Standing, contexts};
use steelbank_reader::Range;
use steelbank_reader::lines::LineColumn;

use super::{
    Evidence, Expander, Occurrence, Placement, PositionedFile, Reading, Recorded, Sought, Token, Written,
};

/// A sidecar with its symbols and strings filed by name.
#[derive(Debug)]
pub(super) struct Tapped {
    pub(super) sidecar: Sidecar,
    /// Indices into the sidecar's names, by the name without its package.
    pub(super) by_name: HashMap<String, Vec<u32>>,
    /// For each of the sidecar's names, where it stands: (index of the form, index of the event).
    pub(super) events: Vec<Vec<(u32, u32)>>,
    /// For each form, once it has been asked for: what its symbols are there for.
    walked: Vec<OnceLock<Box<[Context]>>>,
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

    /// What the symbols of the form at `index` are there for.
    fn contexts(&self, index: usize) -> &[Context] {
        self.walked[index].get_or_init(|| contexts(&self.sidecar, &self.sidecar.forms[index]))
    }

    /// The sought symbol among the file's names. Its home package may have been renamed since the file was read.
    pub(super) fn symbol(&self, sought: &Sought, means: &dyn Fn(&str) -> bool) -> Option<u32> {
        let named = self.by_name.get(&sought.name)?;
        let name = |index: u32| &self.sidecar.names[index as usize];
        let same = named.iter().copied().find(|&index| name(index).is(&sought.package, &sought.name));
        same.or_else(|| {
            named.iter().copied().find(|&index| match name(index) {
                Name::Symbol { package, .. } => means(package),
                _ => false,
            })
        })
    }

    /// The events of symbol `name` inside the event `around` of the form at `index`, in order.
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

/// What the tap knows of a recorded use.
struct TapUse<'a> {
    form: &'a TopLevelForm,
    contexts: &'a [Context],
    kind: UseKind,
    /// The event of the sub-form with the recorded number, or of the nearest one before it.
    around: usize,
    /// Whether it is that very sub-form.
    numbered: bool,
    /// The events of the symbol inside it, in order.
    inside: Vec<usize>,
    /// Of these, those that are meant without doubt.
    sure: Option<Vec<usize>>,
}

impl<'a> TapUse<'a> {
    /// None if the file has no such top-level form. `name`: the symbol, if the file names it.
    fn new(tapped: &'a Tapped, name: Option<u32>, recorded: Recorded) -> Option<TapUse<'a>> {
        let index = tapped.sidecar.form_index(recorded.form)?;
        let form = &tapped.sidecar.forms[index];
        let contexts = tapped.contexts(index);
        let (number, around) = form.nearest_sub_form(recorded.number)?;
        let numbered = number == recorded.number;
        // A form that a reader macro made is nowhere in the text: its symbols may be anywhere in the top-level form.
        let within = if numbered { around } else { form.events.len().checked_sub(1)? };
        let mut inside = name.map_or_else(Vec::new, |name| tapped.inside(index, within, name));
        inside.retain(|&event| !contexts[event].made);
        let mut found = TapUse { form, contexts, kind: recorded.kind, around, numbered, inside, sure: None };
        found.sure = if numbered { found.surely_meant() } else { None };
        Some(found)
    }

    fn parent(&self, event: usize) -> Option<usize> {
        self.form.events[event].parent.map(|parent| parent as usize)
    }

    fn calls(&self) -> bool {
        matches!(self.kind, UseKind::Calls | UseKind::Macroexpands)
    }

    /// What is meant without doubt: the form's operator, what it binds, or its own arguments.
    fn surely_meant(&self) -> Option<Vec<usize>> {
        if self.calls() {
            let operator = self.form.child(self.around, 1)?;
            return self.inside.contains(&operator).then(|| vec![operator]);
        }
        let inside = self.inside.iter().copied();
        let mut chosen: Vec<usize> = match self.kind {
            // (let ((x 1)) …), (lambda (x) …), (defun f (&key (x 1)) …): an element of a list that is an element of
            // the form, or the operator of a list in there.
            UseKind::Binds => inside
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
            UseKind::Binds => self.prefer(&mut chosen, |context| context.role == Role::Binding),
            UseKind::Sets => self.prefer(&mut chosen, |context| context.written),
            UseKind::References => self.prefer(&mut chosen, |context| !context.written),
            _ => {}
        }
        match (chosen.len(), self.kind) {
            (1, _) => Some(chosen),
            // Equal records are kept once, so that of a form's own arguments all are meant.
            (2.., UseKind::References) => Some(chosen),
            (2.., UseKind::Sets) if chosen.iter().all(|&event| self.contexts[event].written) => Some(chosen),
            _ => None,
        }
    }

    /// Leaves only what `wanted` accepts, if there is any.
    fn prefer(&self, chosen: &mut Vec<usize>, wanted: impl Fn(&Context) -> bool) {
        if chosen.iter().any(|&event| wanted(&self.contexts[event])) {
            chosen.retain(|&event| wanted(&self.contexts[event]));
        }
    }

    /// What can be meant, as far as the text tells.
    fn possibly_meant(&self) -> Vec<usize> {
        let meant = |context: &Context| match (self.kind, context.role) {
            (UseKind::Calls, Role::Argument) => context.standing != Standing::Variable,
            (UseKind::Calls | UseKind::Macroexpands, role) => {
                matches!(role, Role::Operator | Role::Argument | Role::Function)
            }
            (_, Role::Binding) => true,
            (_, Role::Operator) => context.standing != Standing::Called,
            (_, role) => matches!(role, Role::Argument | Role::Definition),
        };
        // LET binds special variables as well; calls cannot mean what it binds.
        let hidden = |context: &Context| {
            context.bound.is_some_and(|by| match context.space {
                Space::Unknown => is_local_function(by),
                Space::Variable => self.calls() || stands_for_another(by),
                _ => true,
            })
        };
        let possible = |event: &usize| meant(&self.contexts[*event]) && !hidden(&self.contexts[*event]);
        self.inside.iter().copied().filter(possible).collect()
    }
}

/// Whether an operator binds functions or macros.
fn is_local_function(by: &str) -> bool {
    matches!(by, "FLET" | "LABELS" | "MACROLET" | "DX-FLET")
}

/// Whether an operator makes variables stand for something else.
fn stands_for_another(by: &str) -> bool {
    matches!(by, "SYMBOL-MACROLET" | "WITH-SLOTS" | "WITH-ACCESSORS" | SLOT)
}

impl Tapped {
    /// The name, in lower case, of the program's own macro that is given `event`, in a list or in a list of lists.
    fn definer(&self, form: &TopLevelForm, event: usize) -> Option<String> {
        let list = form.ancestors(event).take(3).find(|&list| {
            let head = form.child(list, 1);
            head.is_some_and(|head| {
                head != event && form.events[head].place == 1 && self.is_own_macro(form, head)
            })
        })?;
        match form.events[form.child(list, 1)?].kind {
            EventKind::Symbol(name) => Some(self.sidecar.names.get(name as usize)?.name().to_lowercase()),
            _ => None,
        }
    }

    /// Whether the symbol at `event` is a macro, and none of the standard's.
    fn is_own_macro(&self, form: &TopLevelForm, event: usize) -> bool {
        let EventKind::Symbol(name) = form.events[event].kind else { return false };
        let standard = self.sidecar.names.get(name as usize).and_then(Name::standard);
        let local = || self.sidecar.is_local_function(form.number, name);
        standard.is_none() && (self.sidecar.kind(name) == NameKind::Macro || local())
    }

    /// Whether a local variable or function may be meant by symbol `name` at `event`.
    fn is_local(&self, index: usize, event: usize, name: u32) -> bool {
        let (form, contexts) = (&self.sidecar.forms[index], self.contexts(index));
        let context = &contexts[event];
        let bound = context.bound.is_some();
        let function = self.sidecar.is_local_function(form.number, name);
        let variable = self.sidecar.is_local_variable(form.number, name);
        // What the compiler found bound is explained where the text shows a binding.
        let explained = |space: Space| {
            let same = |other: &usize| form.events[*other].kind == EventKind::Symbol(name);
            (0..form.events.len()).filter(same).any(|other| {
                let context = &contexts[other];
                context.role == Role::Binding && context.space == space
            })
        };
        let certain = matches!(context.standing, Standing::Called | Standing::Variable);
        match context.space {
            _ if context.special => false,
            Space::Nowhere => false,
            Space::Function | Space::Setf => {
                let designated = context.role == Role::Function;
                let hidden = || function && !((certain || designated) && explained(Space::Function));
                let in_binding = || variable && !certain && !designated && context.role == Role::Operator;
                bound || hidden() || in_binding()
            }
            Space::Variable => {
                let another = context.bound.is_some_and(stands_for_another);
                let hidden = || variable && (bound || !(certain && explained(Space::Variable)));
                another || hidden()
            }
            Space::Block | Space::Tag => bound,
            // LET may bind a special variable.
            Space::Unknown => {
                let local = |by| is_local_function(by) || stands_for_another(by);
                function || variable || context.bound.is_some_and(local)
            }
        }
    }
}

impl PositionedFile {
    /// Every occurrence of `sought` in live text, package definitions included. From a sidecar only. `means` tells
    /// whether `sought` is what its name means in the package that it is given, by name or nickname.
    pub fn occurrences(&self, sought: &Sought, means: &dyn Fn(&str) -> bool) -> Vec<Occurrence> {
        let mut variables = HashSet::new();
        let mut found = self.tokens_as(sought, means, |tapped, token| {
            let context = &token.context;
            if matches!(context.space, Space::Variable | Space::Unknown) && context.level == 0 {
                variables.insert(token.form.number);
            }
            let slot = token.itself && context.bound == Some(SLOT) && context.space == Space::Variable;
            let role = if slot { Role::Slot } else { token.role };
            let event = &token.form.events[token.event];
            Occurrence {
                range: self.event_range(&tapped.sidecar, event),
                role,
                form: token.form.number,
                local: token.local && !slot,
                bound: context.bound.is_some(),
                variable: matches!(context.space, Space::Variable | Space::Unknown),
                has_variable: tapped.sidecar.is_local_variable(token.form.number, token.name),
                standing: context.standing,
                becomes: context.becomes,
                never_variable: false,
                defined: context.defined.filter(|_| matches!(role, Role::Definition | Role::Structure)),
                definer: (role == Role::Named || token.may_be_defined(&tapped.sidecar))
                    .then(|| tapped.definer(token.form, token.event))
                    .flatten(),
            }
        });
        for occurrence in &mut found {
            occurrence.never_variable = !variables.contains(&occurrence.form);
        }
        found.sort_unstable_by_key(|occurrence| occurrence.range);
        found.dedup_by_key(|occurrence| occurrence.range);
        found
    }

    /// Every token that SBCL's reader read as `sought`, and every designator of it in a package definition; in order.
    /// From a sidecar only. This says which symbol stands there and not what it means: a function, a local variable,
    /// data. `means` tells whether `sought` is what its name means in the package that it is given.
    pub fn tokens(&self, sought: &Sought, means: &dyn Fn(&str) -> bool) -> Vec<Token> {
        let mut tokens = self.tokens_as(sought, means, |tapped, token| {
            let sidecar = &tapped.sidecar;
            let event = &token.form.events[token.event];
            Token {
                range: self.event_range(sidecar, event),
                written: match &sidecar.names[token.name as usize] {
                    _ if token.itself => Written::Symbol,
                    Name::Symbol { package, .. } if package == "KEYWORD" => Written::Keyword,
                    Name::Symbol { .. } => Written::Namesake,
                    Name::Uninterned(_) => Written::Uninterned,
                    Name::Text(_) => Written::Text,
                },
                role: token.role,
                form: token.form.number,
                local: token.local,
                binds: token.role == Role::Binding || token.context.becomes == Role::Binding,
                definable: token.role == Role::Named
                    || (token.may_be_defined(&tapped.sidecar)
                        && tapped.definer(token.form, token.event).is_some()),
                key_parameter: token.itself && is_key_parameter(sidecar, token.form, token.event),
            }
        });
        tokens.sort_unstable_by_key(|token| token.range.start);
        tokens.dedup_by_key(|token| token.range.start);
        tokens
    }

    /// What `make` makes of every token of `sought` whose text reads as its name.
    fn tokens_as<T>(
        &self,
        sought: &Sought,
        means: &dyn Fn(&str) -> bool,
        mut make: impl FnMut(&Tapped, &Seen<'_>) -> T,
    ) -> Vec<T> {
        let Reading::Tap(tapped) = &self.reading else { return Vec::new() };
        let sidecar = &tapped.sidecar;
        let symbol = tapped.symbol(sought, means);
        let mut made = Vec::new();
        for &name in tapped.by_name.get(&sought.name).into_iter().flatten() {
            let itself = Some(name) == symbol;
            for &(index, event) in &tapped.events[name as usize] {
                let (index, event) = (index as usize, event as usize);
                let form = &sidecar.forms[index];
                let named = package_role(sidecar, form, event, means);
                if named.is_none() && !itself {
                    continue;
                }
                let context = tapped.contexts(index)[event];
                let Event { start, end, .. } = form.events[event];
                if context.made || !self.reads_as(sidecar, start, end, &sought.name) {
                    continue;
                }
                let role = named.unwrap_or(context.role);
                let local = itself && named.is_none() && tapped.is_local(index, event, name);
                made.push(make(tapped, &Seen { form, event, name, itself, role, local, context }));
            }
        }
        made
    }

    /// Whether the text from character `start` to before `end` is a token, or a string, that reads as `name`. A reader
    /// macro may make a symbol of any text.
    fn reads_as(&self, sidecar: &Sidecar, start: u32, end: u32, name: &str) -> bool {
        let token = self.characters(sidecar, start, end);
        let plain = |text: &str| -> String {
            let letters = text.chars().filter(|char| !matches!(char, '|' | '\\'));
            letters.flat_map(char::to_uppercase).collect()
        };
        let (token, name) = (plain(token.trim_matches('"')), plain(name));
        token.strip_suffix(name.as_str()).is_some_and(|prefix| prefix.is_empty() || prefix.ends_with(':'))
    }

    /// The text that stands now where SBCL's reader read from character `start` to before `end`.
    pub(super) fn characters(&self, sidecar: &Sidecar, start: u32, end: u32) -> &str {
        let range = Range::new(self.byte_of(sidecar, start), self.byte_of(sidecar, end));
        self.text.get(range.indices()).unwrap_or_default()
    }

    /// How often an uninterned symbol of the sought symbol's name stands in live text where no package definition
    /// explains it, or a keyword where names are looked up: code that makes names may mean the symbol. `exists` tells
    /// whether there is a package of that name.
    pub fn unexplained_designators(&self, sought: &Sought, exists: &dyn Fn(&str) -> bool) -> usize {
        let Reading::Tap(tapped) = &self.reading else { return 0 };
        let sidecar = &tapped.sidecar;
        let named = tapped.by_name.get(&sought.name).into_iter().flatten();
        named
            .flat_map(|&name| tapped.events[name as usize].iter().map(move |&event| (name, event)))
            .filter(|&(name, (form, event))| {
                let (form, event) = (&sidecar.forms[form as usize], event as usize);
                match &sidecar.names[name as usize] {
                    // What a package definition names is the symbol, or surely another package's.
                    Name::Uninterned(_) => {
                        !package_clause(sidecar, form, event).is_some_and(|(_, package)| exists(package))
                    }
                    Name::Symbol { package, .. } => {
                        package == "KEYWORD" && is_looked_up(sidecar, form, event)
                    }
                    Name::Text(_) => false,
                }
            })
            .count()
    }

    /// The names, without their packages, of the symbols that top-level code uses. From a sidecar only.
    pub fn toplevel_names(&self) -> HashSet<&str> {
        let Reading::Tap(tapped) = &self.reading else { return HashSet::new() };
        let names = &tapped.sidecar.names;
        tapped.sidecar.uses.iter().filter_map(|found| Some(names.get(found.name as usize)?.name())).collect()
    }

    /// What top-level code does with `sought`; SBCL itself keeps no record of it. `setf` limits it to uses of
    /// `(setf sought)`, or to others. From a sidecar only.
    pub fn toplevel_uses(
        &self,
        sought: &Sought,
        setf: Option<bool>,
        means: &dyn Fn(&str) -> bool,
    ) -> Vec<Recorded> {
        let Reading::Tap(tapped) = &self.reading else { return Vec::new() };
        let Some(name) = tapped.symbol(sought, means) else { return Vec::new() };
        tapped
            .sidecar
            .uses
            .iter()
            .filter(|found| found.name == name && setf.is_none_or(|setf| found.setf == setf))
            .map(|found| Recorded { kind: found.kind, form: found.form, number: found.number, bytes: None })
            .collect()
    }

    /// Where `sought` is the operator of a list that is evaluated outside of any function's definition. From a sidecar
    /// only.
    pub fn toplevel_operators(&self, sought: &Sought, means: &dyn Fn(&str) -> bool) -> Vec<Range> {
        self.tokens_as(sought, means, |tapped, token| {
            let event = &token.form.events[token.event];
            let called = token.role == Role::Operator && token.context.standing == Standing::Called;
            (token.itself && called && !defines_function(&tapped.sidecar, token.form))
                .then(|| self.event_range(&tapped.sidecar, event))
        })
        .into_iter()
        .flatten()
        .collect()
    }

    /// The package and name of the symbol called `name` that stands at `position`, as SBCL's reader resolved it.
    pub fn symbol_at(&self, name: &str, position: LineColumn) -> Option<(&str, &str)> {
        let Reading::Tap(tapped) = &self.reading else { return None };
        let offset = self.offset(position)?;
        for &index in tapped.by_name.get(name)? {
            let Name::Symbol { package, name } = &tapped.sidecar.names[index as usize] else { continue };
            for &(form, event) in &tapped.events[index as usize] {
                let event = &tapped.sidecar.forms[form as usize].events[event as usize];
                if self.event_range(&tapped.sidecar, event).contains(offset) {
                    return Some((package, name));
                }
            }
        }
        None
    }

    /// `name`: the sought symbol, if the file names it.
    pub(super) fn place_by_tap(
        &self,
        tapped: &Tapped,
        name: Option<u32>,
        recorded: &[Recorded],
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

    /// `taken`: what other records surely mean.
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
        let mut possible = found.possibly_meant();
        possible.retain(|&event| !taken.contains(&(form.number, event)));
        if !found.numbered {
            // What a reader macro made: what stands in the form explains it, or the macro does.
            return match possible[..] {
                [] if found.inside.is_empty() => with(&[found.around], Evidence::Approximate),
                [] => via(),
                _ => with(&possible, Evidence::Approximate),
            };
        }
        // A variable may hide the function, and neither macro nor compiler tells where.
        let hidden = found.calls() && name.is_some_and(|name| sidecar.is_local_variable(form.number, name));
        let clear = |event: usize| {
            let context = &found.contexts[event];
            context.standing == Standing::Called || context.role == Role::Function
        };
        let clearly: Vec<usize> = possible.iter().copied().filter(|&event| clear(event)).collect();
        match (&possible[..], &clearly[..]) {
            ([_], _) if !hidden => with(&possible, Evidence::Exact),
            // One of them names the function, and the others could be anything.
            (_, [_]) if found.calls() => with(&clearly, Evidence::Exact),
            ([_, ..], _) => with(&possible, Evidence::Approximate),
            ([], _) => via(),
        }
    }

    /// The symbols, by package and name, that stand in top-level form `form`. From a sidecar only.
    pub fn symbols_in(&self, form: u32) -> Vec<(&str, &str)> {
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
                Name::Symbol { package, name } => Some((package.as_str(), name.as_str())),
                _ => None,
            })
            .collect()
    }

    /// The names of symbols in sub-form `number` of top-level form `form` of which `whole` can be made: the longest
    /// that are part of it. From a sidecar only.
    pub fn parts_in(&self, form: u32, number: u32, whole: &str) -> Vec<String> {
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

    /// The methods within a generic function's definition, top-level form `form`: where each starts, and the names of
    /// the classes that it specializes on. From a sidecar only.
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
                    .filter(|&event| contexts[event].role == Role::Class)
                    .filter_map(|event| name(event).map(Name::name))
                    .collect();
                (self.event_range(sidecar, &form.events[list]), classes)
            })
            .collect()
    }

    /// The macro that makes what the image says is defined by sub-form `number` of top-level form `form`. From a sidecar only.
    pub fn expander_at(&self, form: u32, number: u32) -> Option<Expander> {
        let Reading::Tap(tapped) = &self.reading else { return None };
        let form = tapped.sidecar.form(form)?;
        let (_, list) = form.nearest_sub_form(number)?;
        let sidecar = &tapped.sidecar;
        std::iter::once(list).chain(form.ancestors(list)).find_map(|list| {
            let EventKind::Symbol(name) = form.events[form.child(list, 1)?].kind else { return None };
            match sidecar.names.get(name as usize)? {
                Name::Symbol { package, name: text } if sidecar.kind(name) == NameKind::Macro => {
                    Some(Expander { package: package.clone(), name: text.clone(), symbol_macro: false })
                }
                _ => None,
            }
        })
    }

    /// What makes a use that the compiler recorded of top-level form `form` as a whole.
    pub fn form_expander(&self, form: u32) -> Option<Expander> {
        let Reading::Tap(tapped) = &self.reading else { return None };
        let form = tapped.sidecar.form(form)?;
        let whole = form.events.len().checked_sub(1)?;
        Some(expander(&tapped.sidecar, form, whole))
    }
}

/// What makes a use of which nothing stands in `list`: its operator if that is a macro, else a symbol macro among its
/// elements, else the nearest macro around.
fn expander(sidecar: &Sidecar, form: &TopLevelForm, list: usize) -> Expander {
    let named = |event: usize| match form.events[event].kind {
        EventKind::Symbol(name) => match &sidecar.names[name as usize] {
            Name::Symbol { package, name: text } => Some((sidecar.kind(name), package, text)),
            _ => None,
        },
        _ => None,
    };
    let head = |list: usize| form.child(list, 1).and_then(named);
    let is_own = |found: &(NameKind, &String, &String)| found.1 != "COMMON-LISP";
    let own = head(list);
    let symbol_macro =
        || form.children(list).filter_map(named).find(|found| found.0 == NameKind::SymbolMacro);
    let around =
        || form.ancestors(list).filter_map(head).find(|found| found.0 == NameKind::Macro && is_own(found));
    let macro_ = own.filter(|found| found.0 != NameKind::Function && is_own(found));
    if let Some((kind, package, name)) = macro_.or_else(symbol_macro).or_else(around).or(own) {
        return Expander {
            package: package.clone(),
            name: name.clone(),
            symbol_macro: kind == NameKind::SymbolMacro,
        };
    }
    let name = match form.events[list].operator {
        Operator::Quote => "quote",
        Operator::Function => "function",
        Operator::Backquote => "backquote",
        _ => "the form",
    };
    Expander { package: String::new(), name: name.to_owned(), symbol_macro: false }
}

/// Whether a top-level form defines a function or macro, of whose body the compiler keeps records.
fn defines_function(sidecar: &Sidecar, form: &TopLevelForm) -> bool {
    let Some(last) = form.events.len().checked_sub(1) else { return false };
    let operator = form.child(last, 1).and_then(|event| match form.events[event].kind {
        EventKind::Symbol(name) => sidecar.names.get(name as usize)?.standard(),
        _ => None,
    });
    matches!(operator, Some("DEFUN" | "DEFMACRO" | "DEFMETHOD" | "DEFGENERIC"))
}

/// A token of the sought symbol, or a designator of it.
struct Seen<'a> {
    form: &'a TopLevelForm,
    event: usize,
    name: u32,
    /// It is the symbol itself.
    itself: bool,
    role: Role,
    local: bool,
    context: Context,
}

impl Seen<'_> {
    /// Whether it stands where a macro may be given what it defines: `(define name …)`, `(define () ("name" name) …)`,
    /// `(define x (slots (name …)))`.
    fn may_be_defined(&self, sidecar: &Sidecar) -> bool {
        let place = |event: &usize| self.form.events[*event].place;
        let around: Vec<u32> = self.form.ancestors(self.event).take(2).map(|list| place(&list)).collect();
        let own = self.form.events[self.event].place;
        let first = own == 2 || (own == 1 && around.first() == Some(&2));
        // As an operator it is called, but in a list of lists.
        let listed = own >= 2 || (own == 1 && around.get(1).is_some_and(|&place| place > 2));
        let is_type = || {
            let before = self.form.ancestors(self.event).next().zip(own.checked_sub(1));
            let before = before.and_then(|(list, place)| self.form.child(list, place));
            before.is_some_and(|before| match self.form.events[before].kind {
                EventKind::Symbol(name) => {
                    sidecar.names.get(name as usize).is_some_and(|name| name.is("KEYWORD", "TYPE"))
                }
                _ => false,
            })
        };
        self.itself && matches!(self.role, Role::Argument | Role::Operator) && (first || listed) && !is_type()
    }
}
