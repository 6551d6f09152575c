//! From SBCL's form numbers to lines and columns, with the evidence for each.
//!
//! A file is read through its sidecar where there is one (what SBCL's own reader reported), else through the
//! structural reader. Either way the symbol must be found where the record says, or the answer says that it was not.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use super::lines::Lines;
use super::lisp::{Dialect, Features, Form, LispText, TopLevelForm as TopLevelText};
use super::sidecar::{Event, EventKind, Name, Operator, Sidecar, TopLevelForm, UseKind};
use super::sidecar_roles::{
    Defined, Role, defined, is_certain_call, is_declared_special, is_evaluated_argument, is_looked_up,
    is_name_in_template, is_operator, is_single_datum, local_redefinition, package_role, role,
};

/// How sure a position is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Evidence {
    /// The symbol stands in the text at this very place.
    Exact,
    /// The form is right, but which of several places in it is meant, or where it stands by now, is not known.
    Approximate,
    /// The symbol does not stand there: the use comes from what this operator expands into.
    Via(String),
}

/// A stretch of one line, or the start of a longer one. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The line.
    pub line: u32,
    /// The column of the first character.
    pub column: u32,
    /// The column after the last character, if that is on the same line; else equal to `column`.
    pub end_column: u32,
}

/// Where a use stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placement {
    /// The place.
    pub place: Place,
    /// How sure it is.
    pub evidence: Evidence,
}

/// The symbol asked for.
#[derive(Debug, Clone)]
pub struct Sought {
    /// Name of the home package.
    pub package: String,
    /// The symbol's name, in its own case.
    pub name: String,
}

/// A use as the compiler recorded it: `kind` at sub-form `number` of top-level form `form`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recorded {
    /// What is done with the symbol.
    pub kind: UseKind,
    /// SBCL's number of the top-level form.
    pub form: u32,
    /// SBCL's number of the sub-form.
    pub number: u32,
    /// Where the top-level form starts, in octets, counted before the white space in front of it.
    pub octets: Option<u32>,
}

/// An occurrence of a symbol in live text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occurrence {
    /// Where.
    pub place: Place,
    /// What for.
    pub role: Role,
    /// The top-level form it stands in.
    pub form: u32,
    /// Whether a local variable or function of this name is bound in that form, so that it may be meant.
    pub local: bool,
    /// What the text tells of an operator or argument.
    pub standing: Standing,
    /// For a definition: what it makes of the name.
    pub defined: Option<Defined>,
}

/// What the text alone tells of a symbol that is an operator or an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It is called: it is the operator of a list that standard operators evaluate.
    Called,
    /// It is a variable: an argument that standard operators evaluate.
    Variable,
    /// It is an argument that a standard operator evaluates, in a template or in the arguments of another macro.
    Argument,
    /// It is the operator of a list in a template or in the arguments of another macro.
    Operator,
    /// It is a type, class, slot or datum in a template; or a datum that stands by itself.
    Name,
    /// Anything else.
    Open,
}

/// Which reader a file's positions come from.
#[derive(Debug)]
enum Reading {
    Tap(Box<Tapped>),
    Structure(Box<LispText>),
}

/// A sidecar with its symbols and strings filed by name.
#[derive(Debug)]
struct Tapped {
    sidecar: Sidecar,
    /// Indices into the sidecar's names, by the name without its package.
    by_name: HashMap<String, Vec<u32>>,
    /// For each of the sidecar's names, where it stands: (index of the form, index of the event).
    events: Vec<Vec<(u32, u32)>>,
}

impl Tapped {
    fn new(sidecar: Sidecar) -> Tapped {
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
        Tapped { sidecar, by_name, events }
    }

    /// The sought symbol among the file's names. Its home package may have been renamed since the file was read.
    fn symbol(&self, sought: &Sought, means: &dyn Fn(&str) -> bool) -> Option<u32> {
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
        let (number, around) = form.nearest_sub_form(recorded.number)?;
        let numbered = number == recorded.number;
        let inside = name.map_or_else(Vec::new, |name| tapped.inside(index, around, name));
        let mut found = TapUse { form, kind: recorded.kind, around, numbered, inside, sure: None };
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
        let chosen: Vec<usize> = match self.kind {
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
                .take(2)
                .collect(),
            _ => inside.filter(|&event| self.parent(event) == Some(self.around)).collect(),
        };
        match (chosen.len(), self.kind) {
            (1, _) => Some(chosen),
            // Equal records are kept once, so that of a form's own arguments all are meant.
            (2.., UseKind::References) => Some(chosen),
            _ => None,
        }
    }

    /// What can be meant, as far as the text tells.
    fn possibly_meant(&self, sidecar: &Sidecar) -> Vec<usize> {
        let meant = |event: usize| match (self.calls(), role(sidecar, self.form, event)) {
            (true, role) => matches!(role, Role::Operator | Role::Argument | Role::Function),
            (false, Role::Binding) => true,
            (false, role) => matches!(role, Role::Operator | Role::Argument | Role::Definition),
        };
        self.inside
            .iter()
            .copied()
            .filter(|&event| meant(event) && local_redefinition(sidecar, self.form, event).is_none())
            .collect()
    }
}

/// What the text tells of the symbol at `event`, which stands in `role`.
fn standing(sidecar: &Sidecar, form: &TopLevelForm, event: usize, role: Role) -> Standing {
    match role {
        Role::Operator if is_certain_call(sidecar, form, event) => Standing::Called,
        Role::Operator | Role::Template if is_operator(sidecar, form, event) => Standing::Operator,
        Role::Template if is_name_in_template(sidecar, form, event) => Standing::Name,
        Role::Quoted if is_single_datum(sidecar, form, event) => Standing::Name,
        Role::Argument => match is_evaluated_argument(sidecar, form, event) {
            Some(true) => Standing::Variable,
            Some(false) => Standing::Argument,
            None => Standing::Open,
        },
        _ => Standing::Open,
    }
}

/// What the structural reader knows of a recorded use.
struct Structured<'a> {
    top: &'a TopLevelText,
    /// The sub-form with the recorded number.
    form: Option<&'a Form>,
    /// Whether the numbers are SBCL's for certain.
    sure: bool,
    /// The form's operator, if that is the symbol: no other record can mean that token.
    operator: Option<usize>,
    /// The symbol's tokens inside the form.
    inside: Vec<usize>,
}

/// A source file together with what is known of the positions in it.
#[derive(Debug)]
pub struct PositionedFile {
    path: PathBuf,
    text: String,
    lines: Lines,
    has_mark: bool,
    /// Whether octets of the file are octets of the text.
    decoded_as_is: bool,
    fresh: bool,
    reading: Reading,
}

impl PositionedFile {
    /// Reads the file at `path`, of which the image holds the version written at `write_date` (universal time), and
    /// the file `sidecar`, if it exists and is of that file and version.
    ///
    /// # Errors
    /// If the file at `path` cannot be read. A sidecar that cannot be read counts as none.
    pub fn open(path: &Path, write_date: u64, sidecar: Option<&Path>) -> std::io::Result<PositionedFile> {
        let octets = std::fs::read(path)?;
        let truename = std::fs::canonicalize(path)?;
        let sidecar = sidecar
            .and_then(|sidecar| Sidecar::read(sidecar).ok())
            .filter(|sidecar| sidecar.path == truename && sidecar.write_date == write_date);
        let fresh = match &sidecar {
            Some(sidecar) => sidecar.matches(&octets),
            None => universal_write_date(&truename).is_none_or(|date| date == write_date),
        };
        Ok(PositionedFile::new(path.to_path_buf(), &octets, sidecar, fresh))
    }

    /// The file at `path` with the content `octets`. `fresh` tells whether the image was made from this content.
    pub fn new(path: PathBuf, octets: &[u8], sidecar: Option<Sidecar>, fresh: bool) -> PositionedFile {
        let format = sidecar.as_ref().map_or("UTF-8", |sidecar| sidecar.external_format.as_str());
        let text = decode_as(octets, format);
        let decoded_as_is = matches!(text, Cow::Borrowed(_));
        let text = text.into_owned();
        let lines = Lines::new(text.as_bytes());
        let has_mark = text.starts_with('\u{feff}');
        let reading = match sidecar {
            Some(sidecar) => Reading::Tap(Box::new(Tapped::new(sidecar))),
            None => Reading::Structure(Box::new(LispText::read(
                text.as_bytes(),
                Dialect::CommonLisp,
                &Features::sbcl(),
            ))),
        };
        PositionedFile { path, text, lines, has_mark, decoded_as_is, fresh, reading }
    }

    /// The file's path, as it was asked for.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// About how much memory this takes, in octets.
    pub fn size(&self) -> usize {
        let read = match &self.reading {
            Reading::Tap(tapped) => {
                let events: usize = tapped.sidecar.forms.iter().map(|form| form.events.len()).sum();
                events * (size_of::<Event>() + size_of::<(u32, u32)>()) + tapped.sidecar.names.len() * 128
            }
            Reading::Structure(text) => size_of_val(text.tokens()) + size_of_val(text.forms()),
        };
        self.text.len() + read
    }

    /// Whether the image was made from what the file holds now.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Whether SBCL's own reader reported the positions.
    pub fn is_tapped(&self) -> bool {
        matches!(self.reading, Reading::Tap(_))
    }

    /// The names, without their packages, of all symbols and package designators in live text. From a sidecar only.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let by_name = match &self.reading {
            Reading::Tap(tapped) => Some(&tapped.by_name),
            Reading::Structure(_) => None,
        };
        by_name.into_iter().flat_map(|by_name| by_name.keys().map(String::as_str))
    }

    /// The text of `line`, from 1, without its ending.
    pub fn line_text(&self, line: u32) -> Cow<'_, str> {
        let bytes = self.lines.bytes(self.text.as_bytes(), line);
        let text = String::from_utf8_lossy(bytes);
        match (line, self.has_mark, text) {
            (1, true, Cow::Borrowed(text)) => Cow::Borrowed(text.trim_start_matches('\u{feff}')),
            (_, _, text) => text,
        }
    }

    /// Where the recorded uses of `sought` stand, in their order. Several places for one only if all of them are that
    /// use; none if the file has no such form any more.
    ///
    /// All records of the file together, so that what one of them surely means is not taken for another's. `means`
    /// tells whether `sought` is what its name means in the package that it is given, by name or nickname.
    pub fn place(
        &self,
        sought: &Sought,
        recorded: &[Recorded],
        means: &dyn Fn(&str) -> bool,
    ) -> Vec<Vec<Placement>> {
        let mut placements: Vec<Vec<Placement>> = match &self.reading {
            Reading::Tap(tapped) => self.place_by_tap(tapped, tapped.symbol(sought, means), recorded),
            Reading::Structure(text) => self.place_by_structure(text, sought, recorded, means),
        };
        if !self.fresh {
            placements.iter_mut().flatten().for_each(outdate);
        }
        placements
    }

    /// How often an uninterned symbol of the sought symbol's name stands in live text where no package definition
    /// explains it, or a keyword where names are looked up: code that makes names may mean the symbol.
    pub fn unexplained_designators(&self, sought: &Sought, means: &dyn Fn(&str) -> bool) -> usize {
        let Reading::Tap(tapped) = &self.reading else { return 0 };
        let sidecar = &tapped.sidecar;
        let named = tapped.by_name.get(&sought.name).into_iter().flatten();
        named
            .flat_map(|&name| tapped.events[name as usize].iter().map(move |&event| (name, event)))
            .filter(|&(name, (form, event))| {
                let (form, event) = (&sidecar.forms[form as usize], event as usize);
                match &sidecar.names[name as usize] {
                    Name::Uninterned(_) => package_role(sidecar, form, event, means).is_none(),
                    Name::Symbol { package, .. } => {
                        package == "KEYWORD" && is_looked_up(sidecar, form, event)
                    }
                    Name::Text(_) => false,
                }
            })
            .count()
    }

    /// Where sub-form `number` of top-level form `form` starts.
    pub fn form_place(&self, form: u32, number: u32) -> Option<Place> {
        match &self.reading {
            Reading::Tap(tapped) => {
                let sidecar = &tapped.sidecar;
                let top = sidecar.form(form)?;
                let (_, event) = top.nearest_sub_form(number)?;
                Some(self.tap_place(sidecar, top.events[event].start, top.events[event].end))
            }
            Reading::Structure(text) => {
                let top = text.toplevel().get(form as usize)?;
                let span = text.numbered(top, number).map_or(top.span, |form| form.span);
                Some(self.byte_place(span.start, span.end))
            }
        }
    }

    /// What top-level code does with `sought`; SBCL itself keeps no record of it. From a sidecar only.
    pub fn toplevel_uses(&self, sought: &Sought, means: &dyn Fn(&str) -> bool) -> Vec<Recorded> {
        let Reading::Tap(tapped) = &self.reading else { return Vec::new() };
        let Some(name) = tapped.symbol(sought, means) else { return Vec::new() };
        tapped
            .sidecar
            .uses
            .iter()
            .filter(|found| found.name == name)
            .map(|found| Recorded { kind: found.kind, form: found.form, number: found.number, octets: None })
            .collect()
    }

    /// Every occurrence of `sought` in live text, package definitions included. From a sidecar only. `means` tells
    /// whether `sought` is what its name means in the package that it is given, by name or nickname.
    pub fn occurrences(&self, sought: &Sought, means: &dyn Fn(&str) -> bool) -> Vec<Occurrence> {
        let Reading::Tap(tapped) = &self.reading else { return Vec::new() };
        let sidecar = &tapped.sidecar;
        let symbol = tapped.symbol(sought, means);
        let mut found = Vec::new();
        for &name in tapped.by_name.get(&sought.name).into_iter().flatten() {
            for &(form, event) in &tapped.events[name as usize] {
                let form = &sidecar.forms[form as usize];
                let index = event as usize;
                let role = if Some(name) == symbol {
                    role(sidecar, form, index)
                } else {
                    match package_role(sidecar, form, index, means) {
                        Some(role) => role,
                        None => continue,
                    }
                };
                let event = &form.events[index];
                let standing = standing(sidecar, form, index, role);
                let redefined = local_redefinition(sidecar, form, index);
                let bare_slot = redefined == Some("WITH-SLOTS");
                let role = if bare_slot { Role::Slot } else { role };
                // Where only a variable of this name is bound, what is called for certain is the function.
                let special = || role == Role::Declaration && is_declared_special(sidecar, form, index);
                let local = Some(name) == symbol
                    && !bare_slot
                    && !special()
                    && (redefined.is_some()
                        || sidecar.is_local_function(form.number, name)
                        || (sidecar.is_local_variable(form.number, name) && standing != Standing::Called));
                let place = self.tap_place(sidecar, event.start, event.end);
                let defined =
                    matches!(role, Role::Definition | Role::Structure).then(|| defined(sidecar, form, index));
                found.push(Occurrence { place, role, form: form.number, local, standing, defined });
            }
        }
        found.sort_unstable_by_key(|occurrence| occurrence.place);
        found
    }

    /// The package and name of the symbol called `name` that stands at a line and column, as SBCL's reader resolved it.
    pub fn symbol_at(&self, name: &str, line: u32, column: u32) -> Option<(&str, &str)> {
        let Reading::Tap(tapped) = &self.reading else { return None };
        for &index in tapped.by_name.get(name)? {
            let Name::Symbol { package, name } = &tapped.sidecar.names[index as usize] else { continue };
            for &(form, event) in &tapped.events[index as usize] {
                let event = &tapped.sidecar.forms[form as usize].events[event as usize];
                let place = self.tap_place(&tapped.sidecar, event.start, event.end);
                if place.line == line && (place.column..place.end_column).contains(&column) {
                    return Some((package, name));
                }
            }
        }
        None
    }

    /// `name`: the sought symbol, if the file names it.
    fn place_by_tap(&self, tapped: &Tapped, name: Option<u32>, recorded: &[Recorded]) -> Vec<Vec<Placement>> {
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
        let at = |event: usize| self.tap_place(sidecar, form.events[event].start, form.events[event].end);
        let with = |events: &[usize], evidence: Evidence| {
            events.iter().map(|&event| Placement { place: at(event), evidence: evidence.clone() }).collect()
        };
        if let Some(events) = &found.sure {
            return with(events, Evidence::Exact);
        }
        if !found.numbered {
            return with(&[found.around], Evidence::Approximate);
        }
        let mut possible = found.possibly_meant(sidecar);
        possible.retain(|&event| !taken.contains(&(form.number, event)));
        // A variable may hide the function, and neither macro nor compiler tells where.
        let hidden = found.calls() && name.is_some_and(|name| sidecar.is_local_variable(form.number, name));
        let called = |event| standing(sidecar, form, event, role(sidecar, form, event)) == Standing::Called;
        match possible[..] {
            [only] if !hidden || called(only) => with(&possible, Evidence::Exact),
            [_, ..] => with(&possible, Evidence::Approximate),
            [] => {
                let operator = self.operator(sidecar, form, found.around);
                with(&[found.around], Evidence::Via(operator))
            }
        }
    }

    /// What the operator of a form is called, for people.
    fn operator(&self, sidecar: &Sidecar, form: &TopLevelForm, list: usize) -> String {
        let operator = form.child(list, 1).and_then(|event| match form.events[event].kind {
            EventKind::Symbol(name) => sidecar.names.get(name as usize),
            _ => None,
        });
        match (operator, form.events[list].operator) {
            (Some(name), _) => name.name().to_lowercase(),
            (None, Operator::Quote) => "quote".to_owned(),
            (None, Operator::Function) => "function".to_owned(),
            (None, Operator::Backquote) => "backquote".to_owned(),
            _ => "the form".to_owned(),
        }
    }

    fn place_by_structure(
        &self,
        text: &LispText,
        sought: &Sought,
        recorded: &[Recorded],
        means: &dyn Fn(&str) -> bool,
    ) -> Vec<Vec<Placement>> {
        let found: Vec<Option<Structured<'_>>> =
            recorded.iter().map(|&recorded| self.structured(text, sought, recorded, means)).collect();
        let taken: HashSet<usize> = found.iter().flatten().filter_map(|found| found.operator).collect();
        found
            .into_iter()
            .map(|found| {
                found.map_or_else(Vec::new, |found| vec![self.place_structured(text, found, &taken)])
            })
            .collect()
    }

    /// What the structural reader knows of a recorded use; None if the file has no such top-level form any more.
    fn structured<'a>(
        &self,
        text: &'a LispText,
        sought: &Sought,
        recorded: Recorded,
        means: &dyn Fn(&str) -> bool,
    ) -> Option<Structured<'a>> {
        let octets = self.text.as_bytes();
        // SBCL recorded where the top-level form starts, too: better than a count.
        let by_start = recorded
            .octets
            .filter(|_| self.decoded_as_is)
            .and_then(|octets| text.toplevel_from(octets).filter(|top| top.span.start >= octets));
        let (top, counted) = match (by_start, recorded.octets) {
            (Some(top), _) => (top, true),
            (None, octets) => {
                let top = text.toplevel().get(recorded.form as usize)?;
                (top, top.counted && (octets.is_none() || !self.decoded_as_is))
            }
        };
        let form = text.numbered(top, recorded.number);
        let names = |index: &usize| {
            let token = &text.tokens()[*index];
            token.active && token.is_named(octets, &sought.name) && {
                let prefix = token.symbol(octets).package;
                let package = prefix.as_deref().or(top.package.as_deref());
                package.is_none_or(|package| package == sought.package || means(package))
            }
        };
        let inside: Vec<usize> = form.into_iter().flat_map(Form::tokens).filter(names).collect();
        let calls = matches!(recorded.kind, UseKind::Calls | UseKind::Macroexpands);
        let head = form.filter(|_| calls).and_then(|form| text.head(form));
        let operator = inside
            .first()
            .copied()
            .filter(|&first| head.is_some_and(|head| head.span == text.tokens()[first].span));
        Some(Structured { top, form, sure: top.exact && counted, operator, inside })
    }

    fn place_structured(&self, text: &LispText, found: Structured<'_>, taken: &HashSet<usize>) -> Placement {
        let Structured { top, form, sure, operator, inside } = found;
        let whole = form.map_or(top.span, |form| form.span);
        let token = |index: usize| text.tokens()[index].span;
        let free: Vec<usize> = inside.into_iter().filter(|index| !taken.contains(index)).collect();
        let (span, evidence) = match (operator, &free[..]) {
            (Some(only), _) | (None, &[only]) if sure => (token(only), Evidence::Exact),
            (Some(first), _) | (None, &[first, ..]) => (token(first), Evidence::Approximate),
            (None, []) => match form.filter(|_| sure) {
                Some(form) => {
                    let octets = self.text.as_bytes();
                    let head = text.head(form).map(|token| token.symbol(octets).name.to_lowercase());
                    (whole, Evidence::Via(head.unwrap_or_else(|| "the form".to_owned())))
                }
                None => (whole, Evidence::Approximate),
            },
        };
        Placement { place: self.byte_place(span.start, span.end), evidence }
    }

    fn tap_place(&self, sidecar: &Sidecar, start: u32, end: u32) -> Place {
        let before = sidecar.newlines.partition_point(|&newline| newline < start);
        let line_start = if before == 0 { 0 } else { sidecar.newlines[before - 1] + 1 };
        let same_line = sidecar.newlines.get(before).is_none_or(|&newline| newline >= end);
        self.columns(before as u32 + 1, start - line_start + 1, same_line.then_some(end - start))
    }

    fn byte_place(&self, start: u32, end: u32) -> Place {
        let text = self.text.as_bytes();
        let (line, column) = self.lines.position(text, start);
        let (end_line, end_column) = self.lines.position(text, end);
        self.columns(line, column, (line == end_line).then(|| end_column - column))
    }

    /// Editors show no byte order mark, so the first line's columns do not count it.
    fn columns(&self, line: u32, column: u32, length: Option<u32>) -> Place {
        let column = if line == 1 && self.has_mark { column.max(2) - 1 } else { column };
        Place { line, column, end_column: column + length.unwrap_or(0) }
    }
}

fn outdate(placement: &mut Placement) {
    if placement.evidence == Evidence::Exact {
        placement.evidence = Evidence::Approximate;
    }
}

/// `octets` as the external format called `name` decodes them, as far as positions and text are concerned.
fn decode_as<'a>(octets: &'a [u8], name: &str) -> Cow<'a, str> {
    let wide = |pair: fn([u8; 2]) -> u16| {
        let units = octets.chunks_exact(2).map(|unit| pair([unit[0], unit[1]]));
        char::decode_utf16(units).map(|unit| unit.unwrap_or('\u{fffd}')).collect::<String>()
    };
    match name {
        "UTF-8" | "UTF8" | "US-ASCII" | "ASCII" => String::from_utf8_lossy(octets),
        "UTF-16LE" | "UCS-2LE" => Cow::Owned(wide(u16::from_le_bytes)),
        "UTF-16BE" | "UCS-2BE" => Cow::Owned(wide(u16::from_be_bytes)),
        _ => match std::str::from_utf8(octets) {
            Ok(text) if octets.is_ascii() => Cow::Borrowed(text),
            _ => Cow::Owned(octets.iter().map(|&octet| char::from(octet)).collect()),
        },
    }
}

/// The write date of a file as Lisp counts it: seconds since 1900.
pub fn universal_write_date(path: &Path) -> Option<u64> {
    const UNIX_EPOCH_IN_UNIVERSAL_TIME: u64 = 2_208_988_800;
    let modified = std::fs::metadata(path).ok()?.modified().ok()?;
    let seconds = modified.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
    Some(seconds + UNIX_EPOCH_IN_UNIVERSAL_TIME)
}
