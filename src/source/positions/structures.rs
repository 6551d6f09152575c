//! Parses DEFSTRUCT forms, to find the names that DEFSTRUCT derives.

use super::by_tap::Tapped;
use super::{PositionedFile, Reading};
use crate::source::tap::sidecar::{EventKind, Name, TapForm};
use steelbank_reader::Range;
use steelbank_xref::SymbolName;

/// The parts of a DEFSTRUCT form that determine derived names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StructureDefinition {
    /// The number of the top-level form.
    pub form: u32,
    /// The form's range.
    pub range: Range,
    /// The structure's name.
    pub name: SymbolName,
    /// The range of the name.
    pub name_range: Range,
    /// Whether the form has no options, only the name.
    pub is_bare: bool,
    /// The prefix of the accessors' names.
    pub prefix: Prefix,
    /// The structure that `:include` names.
    pub included: Option<SymbolName>,
    /// The slots that the form itself defines.
    pub slots: Vec<SymbolName>,
    /// The ranges of these slots, and of included slots with a new default.
    pub slot_places: Vec<(SymbolName, Range)>,
    /// The ranges of the constructors' lambda lists.
    pub lambda_lists: Vec<Range>,
    /// The keywords of the form's options.
    pub options: Vec<String>,
    /// For constructor, copier and predicate: whether the name is derived from the structure's name
    /// by adding MAKE-, COPY- or -P.
    pub derives_name: [bool; 3],
    /// For constructor, copier and predicate: whether the form has such an option.
    pub has_option: [bool; 3],
    /// The constructors with an explicit name that take slots as keyword arguments.
    pub constructors: Vec<SymbolName>,
}

/// The prefix of the names of a structure's accessors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Prefix {
    /// The structure's name and a hyphen.
    OfName,
    /// A symbol's name.
    Symbol(SymbolName),
    /// A string, possibly empty.
    Text(String),
    /// Cannot be determined from the text.
    Unknown,
}

impl PositionedFile {
    /// Lists the structures that the file defines. Needs a sidecar.
    pub fn structures(&self) -> Vec<StructureDefinition> {
        let Reading::Tap(tapped) = &self.reading else { return Vec::new() };
        self.structures_of(tapped, tapped.places(&SymbolName::new("COMMON-LISP", "DEFSTRUCT")))
    }

    /// Returns the user macro that is the operator of top-level form `form`. Needs a sidecar.
    pub fn user_macro_operator(&self, form: u32) -> Option<SymbolName> {
        let Reading::Tap(tapped) = &self.reading else { return None };
        let form = tapped.sidecar.form(form)?;
        let operator = form.child(form.events.len().checked_sub(1)?, 1)?;
        tapped.is_user_macro(form, operator).then(|| symbol(tapped, form, operator))?
    }

    /// Lists the structures defined by forms that have the operator `operator` and the syntax of
    /// DEFSTRUCT. Needs a sidecar.
    pub fn structures_like(&self, operator: &SymbolName) -> Vec<StructureDefinition> {
        let Reading::Tap(tapped) = &self.reading else { return Vec::new() };
        self.structures_of(tapped, tapped.places(operator))
    }

    /// Parses the lists with an operator at one of `places`.
    fn structures_of(
        &self,
        tapped: &Tapped,
        places: impl Iterator<Item = (u32, u32)>,
    ) -> Vec<StructureDefinition> {
        let mut found = Vec::new();
        for (index, event) in places {
            let form = &tapped.sidecar.forms[index as usize];
            let event = &form.events[event as usize];
            let Some(list) = event.parent.filter(|_| event.place == 1) else { continue };
            found.extend(self.structure(tapped, form, list as usize));
        }
        found
    }

    /// Returns whether a structure definition in the file defines the slot `sought`. Ignores
    /// included slots. Needs a sidecar.
    pub fn has_structure_slot(&self, sought: &SymbolName) -> bool {
        self.structures().iter().any(|found| found.slots.contains(sought))
    }

    fn structure(&self, tapped: &Tapped, form: &TapForm, list: usize) -> Option<StructureDefinition> {
        let symbol = |event: usize| symbol(tapped, form, event);
        let range = |event: usize| self.event_range(&tapped.sidecar, &form.events[event]);
        // A slot is a symbol, or a list that begins with a symbol.
        let slot = |event: usize| match symbol(event) {
            Some(name) => Some((name, range(event))),
            None => {
                let first = form.child(event, 1)?;
                Some((symbol(first)?, range(first)))
            }
        };
        let keyword = |event: usize| symbol(event).filter(|symbol| symbol.package == "KEYWORD");
        let head = form.child(list, 2)?;
        let options = match symbol(head) {
            Some(_) => None,
            None => Some(head),
        };
        let named = match options {
            Some(options) => form.child(options, 1)?,
            None => head,
        };
        let mut structure = StructureDefinition {
            form: form.number,
            range: range(list),
            name: symbol(named)?,
            name_range: range(named),
            is_bare: options.is_none(),
            prefix: Prefix::OfName,
            included: None,
            slots: Vec::new(),
            slot_places: Vec::new(),
            lambda_lists: Vec::new(),
            options: Vec::new(),
            derives_name: [true; 3],
            has_option: [false; 3],
            constructors: Vec::new(),
        };
        let (mut constructors, mut default_constructor) = (0, false);
        for option in options.into_iter().flat_map(|options| form.children(options)) {
            let place = form.events[option].place;
            let word = keyword(option).or_else(|| form.child(option, 1).and_then(keyword));
            let Some(SymbolName { name: word, .. }) = word.filter(|_| place > 1) else { continue };
            let argument = form.child(option, 2).and_then(symbol);
            structure.options.push(word.clone());
            let is_nil = argument.as_ref().is_some_and(|symbol| symbol.name == "NIL");
            // A string has no event, so its text is read.
            let text = || self.second_text(tapped, form, option);
            match word.as_str() {
                "CONC-NAME" => {
                    structure.prefix = match argument {
                        Some(_) if is_nil => Prefix::Text(String::new()),
                        Some(symbol) => Prefix::Symbol(symbol),
                        None => text(),
                    };
                }
                "INCLUDE" => {
                    structure.included = argument;
                    let others = form.children(option).filter(|&slot| form.events[slot].place > 2);
                    structure.slot_places.extend(others.filter_map(slot));
                }
                "CONSTRUCTOR" => {
                    constructors += 1;
                    default_constructor |= argument.is_none();
                    structure.lambda_lists.extend(form.child(option, 3).map(&range));
                    // A constructor with a lambda list takes slots by position.
                    if form.child(option, 3).is_none() && !is_nil {
                        structure.constructors.extend(argument);
                    }
                }
                "COPIER" | "PREDICATE" => {
                    let which = if word == "COPIER" { 1 } else { 2 };
                    structure.derives_name[which] &= argument.is_none();
                    structure.has_option[which] = true;
                }
                _ => {}
            }
        }
        structure.derives_name[0] = constructors == 0 || default_constructor;
        structure.has_option[0] = constructors > 0;
        let slots = form.children(list).filter(|&slot| form.events[slot].place > 2);
        let slots: Vec<(SymbolName, Range)> = slots.filter_map(slot).collect();
        structure.slots = slots.iter().map(|(slot, _)| slot.clone()).collect();
        structure.slot_places.extend(slots);
        Some(structure)
    }

    /// Returns the string that is the second element of `list`, as a prefix. The prefix is empty
    /// without a second element, and unknown if that is not a simple string.
    fn second_text(&self, tapped: &Tapped, form: &TapForm, list: usize) -> Prefix {
        let Some(first) = form.child(list, 1) else { return Prefix::Text(String::new()) };
        let (from, to) = (form.events[first].end, form.events[list].end.saturating_sub(1));
        let text = self.characters(&tapped.sidecar, from, to);
        match text.trim() {
            "" => Prefix::Text(String::new()),
            text => match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
                Some(text) if !text.contains(['\\', '"']) => Prefix::Text(text.to_owned()),
                _ => Prefix::Unknown,
            },
        }
    }
}

pub(super) fn symbol(tapped: &Tapped, form: &TapForm, event: usize) -> Option<SymbolName> {
    let EventKind::Symbol(name) = form.events[event].kind else { return None };
    match &tapped.sidecar.names[name as usize] {
        Name::Symbol(symbol) => Some(symbol.clone()),
        _ => None,
    }
}

impl PositionedFile {
    /// Lists the ranges of the keyword `keyword` in calls of `sought` that pass keyword arguments
    /// only. Needs a sidecar.
    pub fn keyword_arguments(
        &self,
        sought: &SymbolName,
        means: &dyn Fn(&str) -> bool,
        keyword: &str,
    ) -> Vec<Range> {
        let mut found = Vec::new();
        let Reading::Tap(tapped) = &self.reading else { return found };
        let Some(name) = tapped.symbol(sought, means) else { return found };
        let is_keyword = |name: u32| tapped.sidecar.names[name as usize].is("KEYWORD", keyword);
        for &(index, event) in &tapped.events[name as usize] {
            let form = &tapped.sidecar.forms[index as usize];
            let event = &form.events[event as usize];
            let Some(list) = event.parent.filter(|_| event.place == 1) else { continue };
            let arguments = form.children(list as usize).map(|child| &form.events[child]);
            found.extend(
                arguments
                    .filter(|argument| argument.place % 2 == 0)
                    .filter(|argument| matches!(argument.kind, EventKind::Symbol(name) if is_keyword(name)))
                    .map(|argument| self.event_range(&tapped.sidecar, argument)),
            );
        }
        found
    }
}
