//! Walks forms with an operator in the operator table: each element as the part of the operator's
//! shape at its place.

use super::super::operators::{FormPart, Operator, OperatorKind, Shape};
use super::super::roles::SyntaxRole;
use super::super::sidecar::{Abbreviation, EventKind};
use super::{Binding, FormWalk, Lambda, LocalOperator, MAX_DEPTH, Mode, SLOT, Space, SyntacticContext};

impl FormWalk<'_> {
    /// Walks a form with the operator `known` of the table.
    pub(super) fn known(&mut self, list: usize, known: &'static Operator, mode: Mode) {
        let depth = self.env.len();
        let mut pending = Vec::new();
        if known.kind == OperatorKind::Function {
            for child in self.children(list) {
                match self.place(child) {
                    0 => self.read_time(child),
                    1 => {}
                    place => {
                        let named = match known.shape.part(place as usize - 2) {
                            Some(FormPart::Names(named)) => Some(*named),
                            _ => None,
                        };
                        self.argument(child, list, named, mode);
                    }
                }
            }
        } else {
            self.parts(list, 2, &known.shape, &known.name, mode, &mut pending);
        }
        self.env.truncate(depth);
    }

    /// Walks the elements of `list` from index `first` as `shape` describes. Adds their bindings to
    /// `pending`; a part that sees the bindings moves them to the environment.
    pub(super) fn parts(
        &mut self,
        list: usize,
        first: u32,
        shape: &'static Shape,
        by: &'static str,
        mode: Mode,
        pending: &mut Vec<Binding>,
    ) {
        if shape.rest.first() == Some(&FormPart::Tagbody) {
            let from = first + shape.first.len() as u32;
            let tags = self.form.children(list).filter(|&tag| self.form.events[tag].place >= from);
            for tag in tags.collect::<Vec<_>>() {
                self.bind(tag, Space::Tag, by, mode, pending);
            }
        }
        for child in self.children(list) {
            let place = self.place(child);
            if place == 0 {
                self.read_time(child);
            } else if place >= first {
                match shape.part((place - first) as usize).or(trailing(shape)) {
                    Some(part) => self.part(child, part, by, mode, pending),
                    None => self.form(child, mode.uncertain()),
                }
                if shape.sequential {
                    self.env.append(pending);
                }
            }
        }
    }

    pub(super) fn bind(
        &mut self,
        event: usize,
        space: Space,
        by: &'static str,
        mode: Mode,
        pending: &mut Vec<Binding>,
    ) {
        if let Some(name) = self.symbol(event) {
            pending.push(Binding {
                space,
                name,
                level: mode.level,
                by,
                is_macro: false,
                event: event as u32,
            });
        }
    }

    /// Walks one element of a form.
    pub(super) fn part(
        &mut self,
        event: usize,
        part: &'static FormPart,
        by: &'static str,
        mode: Mode,
        pending: &mut Vec<Binding>,
    ) {
        // A comma may produce anything, so the code after it is walked as a form, not as this part.
        if self.operator_of(event) == Abbreviation::Comma {
            if matches!(part, FormPart::Inner | FormPart::Tagbody) {
                self.env.append(pending);
            }
            return self.form(event, mode);
        }
        match part {
            FormPart::Form => self.form(event, mode),
            FormPart::Inner => {
                self.env.append(pending);
                self.form(event, mode);
            }
            FormPart::RestartBody => {
                self.env.append(pending);
                let before = self.place(event).checked_sub(1).zip(self.form.events[event].parent);
                let key = before.and_then(|(place, list)| self.child(list as usize, place));
                match key.and_then(|key| self.keyword(key)) {
                    Some("REPORT" | "INTERACTIVE" | "TEST") => {
                        self.function_name(event, SyntaxRole::Function, mode)
                    }
                    _ => self.form(event, mode),
                }
            }
            FormPart::Place => {
                let reads = !matches!(by, "SETF" | "SETQ" | "PSETF" | "PSETQ" | "MULTIPLE-VALUE-SETQ");
                self.form(event, Mode { place: true, reads, ..mode });
            }
            FormPart::Tagbody => {
                self.env.append(pending);
                match self.symbol(event) {
                    Some(_) => self.note(event, SyntaxRole::Block, SyntacticContext::Open, Space::Tag, mode),
                    None => self.form(event, mode),
                }
            }
            FormPart::Defines(defined) => self.defines(event, *defined, mode, pending),
            FormPart::Variable => self.variable(event, by, mode, pending),
            FormPart::SymbolMacro => self.variable(event, by, mode, pending),
            FormPart::SlotVariable => match self.symbol(event) {
                Some(_) => {
                    self.datum_role(event, SyntaxRole::Slot, mode);
                    self.bind(event, Space::Variable, SLOT, mode, pending);
                }
                None => self.form(event, mode.uncertain()),
            },
            FormPart::SymbolMacroBinding => self.children_as(event, |walk, child| match walk.place(child) {
                1 => walk.variable(child, by, mode, pending),
                _ => walk.form(child, mode),
            }),
            FormPart::LocalMacro => {
                if let Some(name) = self.symbol(event) {
                    let (space, level) = (Space::Function, mode.level);
                    pending.push(Binding { space, name, level, by, is_macro: true, event: event as u32 });
                    self.note(event, SyntaxRole::Binding, SyntacticContext::Open, Space::Function, mode);
                    self.note_bound(event, by);
                }
            }
            FormPart::Functions => self.local_functions(event, by, LocalOperator::Flet, mode),
            FormPart::Labels => self.local_functions(event, by, LocalOperator::Labels, mode),
            FormPart::Macros => self.local_functions(event, by, LocalOperator::Macrolet, mode),
            FormPart::Block => {
                self.note(event, SyntaxRole::Block, SyntacticContext::Open, Space::Block, mode);
                if self.symbol(event).is_some() {
                    self.note_bound(event, by);
                }
                self.bind(event, Space::Block, by, mode, pending);
            }
            FormPart::ToBlock => {
                self.note(event, SyntaxRole::Block, SyntacticContext::Open, Space::Block, mode)
            }
            FormPart::ToTag => self.note(event, SyntaxRole::Block, SyntacticContext::Open, Space::Tag, mode),
            FormPart::LambdaList => self.lambda_list(event, by, Lambda::Ordinary, mode, pending),
            FormPart::MacroLambdaList => self.lambda_list(event, by, Lambda::Destructuring, mode, pending),
            FormPart::Type => self.type_specifier(event, mode),
            FormPart::Condition => self.datum(event, SyntaxRole::Class, mode),
            FormPart::FunctionName => self.function_name(event, SyntaxRole::Function, mode),
            FormPart::Class => self.named_datum(event, SyntaxRole::Class, mode),
            FormPart::Slot => self.named_datum(event, SyntaxRole::Slot, mode),
            FormPart::Datum => match self.symbol(event) {
                Some(_) => self.note(event, SyntaxRole::Quoted, SyntacticContext::Name, Space::Nowhere, mode),
                None => self.datum(event, SyntaxRole::Quoted, mode),
            },
            FormPart::Keys => self.keys(event, mode),
            FormPart::Declaration => self.declaration_specifier(event, mode),
            FormPart::Loop => self.loop_form(event, mode, pending),
            FormPart::List(shape) => match self.symbol(event) {
                // NIL, or a symbol in place of a list.
                Some(_) => {
                    self.note(event, SyntaxRole::Argument, SyntacticContext::Open, Space::Unknown, mode)
                }
                None => self.parts(event, 1, shape, by, mode, pending),
            },
            FormPart::Either(atom, list) => {
                let part = if self.symbol(event).is_some() { atom } else { list };
                self.part(event, part, by, mode, pending);
            }
            FormPart::Names(named) => {
                let list = self.form.events[event].parent.map_or(event, |parent| parent as usize);
                self.argument(event, list, Some(*named), mode);
            }
            FormPart::Structure
            | FormPart::StructureSlot
            | FormPart::Slots
            | FormPart::ClassOption
            | FormPart::GenericOption
            | FormPart::Method
            | FormPart::MethodCombination
            | FormPart::PackageClause
            | FormPart::AlienName
            | FormPart::AlienTypeName
            | FormPart::AlienType
            | FormPart::AlienParameter
            | FormPart::AlienParameters
            | FormPart::AlienBinding => self.definition_part(event, part, by, mode, pending),
        }
    }

    /// Records the name of a class or slot, or walks what is in its place as data.
    pub(super) fn named_datum(&mut self, event: usize, role: SyntaxRole, mode: Mode) {
        match self.symbol(event) {
            Some(_) => self.datum_role(event, role, mode),
            None => self.datum(event, role, mode),
        }
    }

    /// Records all symbols in data with the role `role`. Commas in a template contain code again.
    pub(super) fn datum(&mut self, event: usize, role: SyntaxRole, mode: Mode) {
        if self.place(event) == 0 && self.form.events[event].parent.is_some() {
            return self.read_time(event);
        }
        if self.operator_of(event) == Abbreviation::Comma && mode.level > 0 {
            return self.comma(event, mode);
        }
        self.depth += 1;
        if self.depth < MAX_DEPTH {
            match self.form.events[event].kind {
                EventKind::Symbol(_) => self.datum_role(event, role, mode),
                EventKind::Text(_) => {}
                // Walk quoted code without bindings, because names in it refer to no local
                // variables.
                _ => self.children_as(event, |walk, child| walk.datum(child, role, mode)),
            }
        }
        self.depth -= 1;
    }

    /// Walks `name`, `(setf name)`, or a lambda expression.
    pub(super) fn function_name(&mut self, event: usize, role: SyntaxRole, mode: Mode) {
        if self.symbol(event).is_some() {
            let position = if mode.level > 0 { SyntacticContext::Operator } else { SyntacticContext::Open };
            return self.note(event, role, position, Space::Function, mode);
        }
        if self.operator_of(event) == Abbreviation::Any
            && (self.head_is(event, "SETF") || self.head(event).is_some_and(|name| name.is("SB-EXT", "CAS")))
        {
            return self.children_as(event, |walk, child| match walk.place(child) {
                2 => walk.note(child, role, SyntacticContext::Open, Space::Setf, mode),
                _ => walk.datum_role(child, SyntaxRole::Argument, mode),
            });
        }
        self.form(event, mode);
    }

    /// Walks a bound variable, or a destructuring list of variables.
    pub(super) fn variable(
        &mut self,
        event: usize,
        by: &'static str,
        mode: Mode,
        pending: &mut Vec<Binding>,
    ) {
        match self.form.events[event].kind {
            EventKind::Symbol(_) => {
                self.note(event, SyntaxRole::Binding, SyntacticContext::Open, Space::Variable, mode);
                self.note_bound(event, by);
                self.bind(event, Space::Variable, by, mode, pending);
            }
            EventKind::Form(_) | EventKind::List if self.operator_of(event) == Abbreviation::Any => {
                self.children_as(event, |walk, child| walk.variable(child, by, mode, pending));
            }
            _ => self.form(event, mode.uncertain()),
        }
    }

    pub(super) fn keys(&mut self, event: usize, mode: Mode) {
        match self.symbol(event) {
            Some(_) => self.note(event, SyntaxRole::Quoted, SyntacticContext::Name, Space::Nowhere, mode),
            None => self.children_as(event, |walk, child| match walk.symbol(child) {
                Some(_) => walk.note(child, SyntaxRole::Quoted, SyntacticContext::Name, Space::Nowhere, mode),
                None => walk.datum(child, SyntaxRole::Quoted, mode),
            }),
        }
    }
}

/// Returns the last part of the shape, if it covers all remaining elements.
fn trailing(shape: &'static Shape) -> Option<&'static FormPart> {
    shape
        .first
        .last()
        .filter(|part| matches!(part, FormPart::Method | FormPart::MethodCombination | FormPart::Loop))
}
