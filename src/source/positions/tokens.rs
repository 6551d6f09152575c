//! Finds the occurrences of a symbol in code and their roles. Uses the file's sidecar.

use std::collections::{BTreeSet, HashSet};

use super::super::tap::roles::{
    SyntaxRole, is_key_parameter, is_looked_up, names_package, package_clause, package_role,
};
use super::super::tap::sidecar::{EventKind, Name, NameKind, ReadEvent, Sidecar, TapForm};
use super::super::tap::walk::{PlaceAccess, SLOT, Space, SyntacticContext, SyntaxContext};
use super::by_tap::Tapped;
use super::{Notation, Occurrence, PositionedFile, Reading, SymbolToken, XrefRecord};
use steelbank_reader::lines::LineColumn;
use steelbank_reader::{Range, normalized};
use steelbank_xref::SymbolName;

/// Returns whether an operator binds functions or macros.
pub(super) fn is_local_function(by: &str) -> bool {
    matches!(by, "FLET" | "LABELS" | "MACROLET" | "DX-FLET")
}

/// Returns whether an operator binds variables that are aliases for other places.
pub(super) fn binds_alias(by: &str) -> bool {
    matches!(by, "SYMBOL-MACROLET" | "WITH-SLOTS" | "WITH-ACCESSORS" | SLOT)
}

impl Tapped {
    /// Returns the name, in lower case, of the user macro that has `event` as an argument, at most
    /// two lists deep.
    fn definer(&self, form: &TapForm, event: usize) -> Option<String> {
        let list = form.ancestors(event).take(3).find(|&list| {
            let head = form.child(list, 1);
            head.is_some_and(|head| {
                head != event && form.events[head].place == 1 && self.is_user_macro(form, head)
            })
        })?;
        match form.events[form.child(list, 1)?].kind {
            EventKind::Symbol(name) => Some(self.sidecar.names.get(name as usize)?.name().to_lowercase()),
            _ => None,
        }
    }

    /// Returns the access to the slot or variable that a quoted token names, judging by the
    /// accessor that takes the token.
    fn named_access(&self, token: &SeenToken<'_>) -> PlaceAccess {
        let quote = token.form.events[token.event].parent;
        let list = quote.and_then(|quote| token.form.events[quote as usize].parent);
        let Some(accessor) = list.and_then(|list| token.form.child(list as usize, 1)) else {
            return PlaceAccess::Read;
        };
        let name = match token.form.events[accessor].kind {
            EventKind::Symbol(name) => self.sidecar.names.get(name as usize).and_then(Name::standard),
            _ => None,
        };
        match name {
            Some("SET" | "MAKUNBOUND") => PlaceAccess::Write,
            _ => self.contexts(token.index)[accessor].access,
        }
    }

    /// Returns whether the symbol at `event` may be a user's macro: it is not standard, and it
    /// names a macro or a local function.
    pub(super) fn is_user_macro(&self, form: &TapForm, event: usize) -> bool {
        let EventKind::Symbol(name) = form.events[event].kind else { return false };
        let standard = self.sidecar.names.get(name as usize).and_then(Name::standard);
        let local = || self.sidecar.is_local_function(form.number, name);
        standard.is_none() && (self.sidecar.kind(name) == NameKind::Macro || local())
    }

    /// Returns whether symbol `name` at `event` may refer to a local binding: of a variable,
    /// function, block or tag.
    fn is_local(&self, index: usize, event: usize, name: u32) -> bool {
        let (form, contexts) = (&self.sidecar.forms[index], self.contexts(index));
        let context = &contexts[event];
        let bound = context.bound.is_some();
        let function = self.sidecar.is_local_function(form.number, name);
        let variable = self.sidecar.is_local_variable(form.number, name);
        // The compiler reports only that a form binds the name locally. A binding in the text
        // explains the report.
        let explained = |space: Space| {
            let same = |other: &usize| form.events[*other].kind == EventKind::Symbol(name);
            (0..form.events.len()).filter(same).any(|other| {
                let context = &contexts[other];
                context.role == SyntaxRole::Binding && context.space == space
            })
        };
        let certain = matches!(context.position, SyntacticContext::Called | SyntacticContext::Variable);
        match context.space {
            _ if context.special => false,
            Space::Nowhere => false,
            Space::Function | Space::Setf => {
                let designated = context.role == SyntaxRole::Function;
                let hidden = || function && !((certain || designated) && explained(Space::Function));
                let in_binding =
                    || variable && !certain && !designated && context.role == SyntaxRole::Operator;
                bound || hidden() || in_binding()
            }
            Space::Variable => {
                let another = context.bound.is_some_and(binds_alias);
                let hidden = || variable && (bound || !(certain && explained(Space::Variable)));
                another || hidden()
            }
            Space::Block | Space::Tag => bound,
            // A binding by LET does not count here, because LET may bind a special variable.
            Space::Unknown => {
                let local = |by| is_local_function(by) || binds_alias(by);
                function || variable || context.bound.is_some_and(local)
            }
        }
    }
}

impl PositionedFile {
    /// Lists every occurrence of `sought` in code, including package definitions. Needs a sidecar.
    /// `means(package)` must return whether the name of `sought` refers to `sought` in that
    /// package, which is given by name or nickname.
    pub fn occurrences(&self, sought: &SymbolName, means: &dyn Fn(&str) -> bool) -> Vec<Occurrence> {
        let mut variables = HashSet::new();
        let mut found = self.tokens_as(sought, means, |tapped, token| {
            let context = &token.context;
            if matches!(context.space, Space::Variable | Space::Unknown) && context.level == 0 {
                variables.insert(token.form.number);
            }
            let slot = token.itself && context.bound == Some(SLOT) && context.space == Space::Variable;
            let role = if slot { SyntaxRole::Slot } else { token.role };
            let event = &token.form.events[token.event];
            Occurrence {
                range: self.event_range(&tapped.sidecar, event),
                role,
                form: token.form.number,
                local: token.local && !slot,
                bound: context.bound.is_some(),
                variable: matches!(context.space, Space::Variable | Space::Unknown),
                has_variable: tapped.sidecar.is_local_variable(token.form.number, token.name),
                position: context.position,
                becomes: context.becomes,
                never_variable: false,
                defined: context
                    .defined
                    .filter(|_| matches!(role, SyntaxRole::Definition | SyntaxRole::Structure)),
                definer: (role == SyntaxRole::Named || token.may_be_defined(&tapped.sidecar))
                    .then(|| tapped.definer(token.form, token.event))
                    .flatten(),
                access: match role {
                    SyntaxRole::Slot if !slot => tapped.named_access(token),
                    SyntaxRole::Variable => tapped.named_access(token),
                    _ => context.access,
                },
                binding: context
                    .binding
                    .map(|event| self.event_range(&tapped.sidecar, &token.form.events[event as usize])),
                space: context.space,
                operator: tapped.sidecar.kind(token.name),
            }
        });
        for occurrence in &mut found {
            occurrence.never_variable = !variables.contains(&occurrence.form);
        }
        found.sort_unstable_by_key(|occurrence| occurrence.range);
        found.dedup_by_key(|occurrence| occurrence.range);
        found
    }

    /// Returns the symbols in the text, by home package and name. Includes the names in package
    /// definitions, with the package of the symbol that each designates. Needs a sidecar.
    pub fn symbols(&self) -> HashSet<(&str, &str)> {
        let Reading::Tap(tapped) = &self.reading else { return HashSet::new() };
        let sidecar = &tapped.sidecar;
        let mut found = HashSet::new();
        for (index, name) in sidecar.names.iter().enumerate() {
            if let Name::Symbol(SymbolName { package, name }) = name {
                found.insert((package.as_str(), name.as_str()));
            }
            found.extend(tapped.events[index].iter().filter_map(|&(form, event)| {
                let clause = package_clause(sidecar, &sidecar.forms[form as usize], event as usize)?;
                Some((clause.1, name.name()))
            }));
        }
        found
    }

    /// Lists every token that SBCL's reader read as `sought`, and every designator of it in a
    /// package definition, in order. Needs a sidecar. The symbol's meaning at the token does not
    /// matter: it may be a function, a local variable or data. `means` is as for
    /// [`PositionedFile::occurrences`].
    pub fn tokens(&self, sought: &SymbolName, means: &dyn Fn(&str) -> bool) -> Vec<SymbolToken> {
        let mut tokens = self.tokens_as(sought, means, |tapped, token| {
            let sidecar = &tapped.sidecar;
            let event = &token.form.events[token.event];
            SymbolToken {
                range: self.event_range(sidecar, event),
                written: match &sidecar.names[token.name as usize] {
                    _ if token.itself => Notation::Symbol,
                    Name::Symbol(symbol) if symbol.package == "KEYWORD" => Notation::Keyword,
                    Name::Symbol(_) => Notation::Namesake,
                    Name::Uninterned(_) => Notation::Uninterned,
                    Name::Text(_) => Notation::Text,
                },
                role: token.role,
                form: token.form.number,
                local: token.local,
                binds: token.role == SyntaxRole::Binding || token.context.becomes == SyntaxRole::Binding,
                definable: token.role == SyntaxRole::Named
                    || (token.may_be_defined(&tapped.sidecar)
                        && tapped.definer(token.form, token.event).is_some()),
                key_parameter: token.itself && is_key_parameter(sidecar, token.form, token.event),
            }
        });
        tokens.sort_unstable_by_key(|token| token.range.start);
        tokens.dedup_by_key(|token| token.range.start);
        tokens
    }

    /// Collects the results of `make` for every token of `sought` and every designator of it. Omits
    /// tokens where the text does not contain the name.
    fn tokens_as<T>(
        &self,
        sought: &SymbolName,
        means: &dyn Fn(&str) -> bool,
        mut make: impl FnMut(&Tapped, &SeenToken<'_>) -> T,
    ) -> Vec<T> {
        let Reading::Tap(tapped) = &self.reading else { return Vec::new() };
        let sidecar = &tapped.sidecar;
        let symbol = tapped.symbol(sought, means);
        let mut found = Vec::new();
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
                let ReadEvent { start, end, .. } = form.events[event];
                if context.generated || !self.reads_as(sidecar, start, end, &sought.name) {
                    continue;
                }
                let role = named.unwrap_or(context.role);
                let local = itself && named.is_none() && tapped.is_local(index, event, name);
                found.push(make(
                    tapped,
                    &SeenToken { form, index, event, name, itself, role, local, context },
                ));
            }
        }
        found
    }

    /// Returns whether the text between the characters `start` and `end` is a token or string that
    /// reads as `name`. The text may differ, because a reader macro can produce a symbol from any
    /// text.
    fn reads_as(&self, sidecar: &Sidecar, start: u32, end: u32, name: &str) -> bool {
        let token = self.characters(sidecar, start, end);
        // Fast path for nearly every token, without a copy.
        if token.eq_ignore_ascii_case(name) {
            return true;
        }
        let plain = |text: &str| -> String {
            let text = normalized(text);
            let letters = text.chars().filter(|char| !matches!(char, '|' | '\\'));
            letters.flat_map(char::to_uppercase).collect()
        };
        let (token, name) = (plain(token.trim_matches('"')), plain(name));
        token.strip_suffix(name.as_str()).is_some_and(|prefix| prefix.is_empty() || prefix.ends_with(':'))
    }

    /// Returns the current text between two character positions of SBCL's reader.
    pub(super) fn characters(&self, sidecar: &Sidecar, start: u32, end: u32) -> &str {
        let range = Range::new(self.byte_of(sidecar, start), self.byte_of(sidecar, end));
        self.text.get(range.indices()).unwrap_or_default()
    }

    /// Counts the designators that may mean `sought`: uninterned symbols with its name that no
    /// package definition explains and that name no package, and keywords with its name where names
    /// are looked up. `exists(package)` must return whether `package` is the name of a package.
    pub fn unexplained_designators(&self, sought: &SymbolName, exists: &dyn Fn(&str) -> bool) -> usize {
        let Reading::Tap(tapped) = &self.reading else { return 0 };
        let sidecar = &tapped.sidecar;
        let named = tapped.by_name.get(&sought.name).into_iter().flatten();
        named
            .flat_map(|&name| tapped.events[name as usize].iter().map(move |&event| (name, event)))
            .filter(|&(name, (form, event))| {
                let (form, event) = (&sidecar.forms[form as usize], event as usize);
                match &sidecar.names[name as usize] {
                    // In the definition of an existing package, the name certainly designates
                    // either the symbol or another package's symbol.
                    Name::Uninterned(_) => {
                        !package_clause(sidecar, form, event).is_some_and(|(_, package)| exists(package))
                            && !names_package(sidecar, form, event)
                    }
                    Name::Symbol(symbol) => symbol.package == "KEYWORD" && is_looked_up(sidecar, form, event),
                    Name::Text(_) => false,
                }
            })
            .count()
    }

    /// Returns the offsets at which SBCL's reader read the name `name`: a symbol of any package, or
    /// a string in a package definition. Returns `None` without a sidecar.
    pub fn places_read(&self, name: &str) -> Option<BTreeSet<u32>> {
        let Reading::Tap(tapped) = &self.reading else { return None };
        let names = tapped.by_name.get(name).into_iter().flatten();
        let events = names.flat_map(|&name| &tapped.events[name as usize]);
        let starts = events.map(|&(form, event)| {
            let event = &tapped.sidecar.forms[form as usize].events[event as usize];
            self.event_range(&tapped.sidecar, event).start
        });
        Some(starts.collect())
    }

    /// Returns the names, without packages, of the symbols that top-level code uses. Needs a
    /// sidecar.
    pub fn toplevel_names(&self) -> HashSet<&str> {
        let Reading::Tap(tapped) = &self.reading else { return HashSet::new() };
        let names = &tapped.sidecar.names;
        tapped.sidecar.uses.iter().filter_map(|found| Some(names.get(found.name as usize)?.name())).collect()
    }

    /// Lists the uses of `sought` by top-level code, which SBCL does not record. `setf` limits the
    /// list to uses of `(setf sought)` (`Some(true)`) or to other uses (`Some(false)`). Needs a
    /// sidecar.
    pub fn toplevel_uses(
        &self,
        sought: &SymbolName,
        setf: Option<bool>,
        means: &dyn Fn(&str) -> bool,
    ) -> Vec<XrefRecord> {
        let Reading::Tap(tapped) = &self.reading else { return Vec::new() };
        let Some(name) = tapped.symbol(sought, means) else { return Vec::new() };
        tapped
            .sidecar
            .uses
            .iter()
            .filter(|found| found.name == name && setf.is_none_or(|setf| found.setf == setf))
            .map(|found| XrefRecord { kind: found.kind, form: found.form, number: found.number, bytes: None })
            .collect()
    }

    /// Returns the package and name of the symbol called `name` at `position`, as SBCL's reader
    /// resolved the symbol. Needs a sidecar.
    pub fn symbol_at(&self, name: &str, position: LineColumn) -> Option<&SymbolName> {
        let Reading::Tap(tapped) = &self.reading else { return None };
        let offset = self.offset(position)?;
        for &index in tapped.by_name.get(name)? {
            let Name::Symbol(symbol) = &tapped.sidecar.names[index as usize] else { continue };
            for &(form, event) in &tapped.events[index as usize] {
                let event = &tapped.sidecar.forms[form as usize].events[event as usize];
                if self.event_range(&tapped.sidecar, event).contains(offset) {
                    return Some(symbol);
                }
            }
        }
        None
    }
}

/// A token of the target symbol, or a designator of it.
struct SeenToken<'a> {
    form: &'a TapForm,
    /// The form's index.
    index: usize,
    event: usize,
    name: u32,
    /// Whether the token is the symbol itself, not a designator.
    itself: bool,
    role: SyntaxRole,
    local: bool,
    context: SyntaxContext,
}

impl SeenToken<'_> {
    /// Returns whether the token is where a user macro may expect a name to define: `(define name
    /// …)`, `(define () ("name" name) …)`, `(define x (slots (name …)))`. A token after `:type` is
    /// not.
    fn may_be_defined(&self, sidecar: &Sidecar) -> bool {
        let place = |event: &usize| self.form.events[*event].place;
        let around: Vec<u32> = self.form.ancestors(self.event).take(2).map(|list| place(&list)).collect();
        let own = self.form.events[self.event].place;
        let first = own == 2 || (own == 1 && around.first() == Some(&2));
        // The first element of a list is its operator, except in nested lists.
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
        self.itself
            && matches!(self.role, SyntaxRole::Argument | SyntaxRole::Operator)
            && (first || listed)
            && !is_type()
    }
}
