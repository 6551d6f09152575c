//! Walks definitions: names, structures, classes, methods, packages, alien definitions.

use super::{Binding, Defined, FormPart, FormWalk, Lambda, Mode, Space, SyntacticContext, SyntaxRole};
use crate::source::tap::sidecar::{Abbreviation, EventKind};

impl FormWalk<'_> {
    /// Walks the name that a form defines. The name of a function or macro also names a block.
    pub(super) fn defines(&mut self, event: usize, defined: Defined, mode: Mode, pending: &mut Vec<Binding>) {
        let named = match self.symbol(event) {
            Some(_) => Some(event),
            None => self.child(event, 2).filter(|_| self.operator_of(event) == Abbreviation::Any),
        };
        let Some(named) = named.filter(|&named| self.symbol(named).is_some()) else {
            return self.form(event, mode.uncertain());
        };
        if named != event {
            self.children_as(event, |walk, part| walk.datum_role(part, SyntaxRole::Argument, mode));
        }
        self.definition(named, defined, mode);
        if matches!(defined, Defined::Function | Defined::Macro)
            && let Some(name) = self.symbol(named)
        {
            // With an empty `by`, the block does not count as a local binding: a rename of the
            // function changes the block's name, too.
            let (space, level, event) = (Space::Block, mode.level, named as u32);
            pending.push(Binding { space, name, level, by: "", is_macro: false, event });
        }
    }

    fn definition(&mut self, event: usize, defined: Defined, mode: Mode) {
        self.datum_role(event, SyntaxRole::Definition, mode);
        self.seen[event].defined = Some(defined);
    }

    pub(super) fn definition_part(
        &mut self,
        event: usize,
        part: &'static FormPart,
        by: &'static str,
        mode: Mode,
        pending: &mut Vec<Binding>,
    ) {
        match part {
            FormPart::Structure => self.structure(event, mode),
            FormPart::StructureSlot => self.structure_slot(event, mode),
            FormPart::Slots => self.slots(event, mode),
            FormPart::ClassOption => self.class_option(event, mode),
            FormPart::GenericOption => self.generic_option(event, by, mode),
            FormPart::Method => self.once(event, 3, |walk, list| walk.method(list, 3, by, mode)),
            FormPart::MethodCombination => {
                self.once(event, 3, |walk, list| walk.method_combination(list, by, mode));
            }
            FormPart::PackageClause => self.datum(event, SyntaxRole::Quoted, mode),
            FormPart::AlienName => {
                let defined =
                    if by == "DEFINE-ALIEN-VARIABLE" { Defined::Variable } else { Defined::Function };
                let names = by.starts_with("DEFINE");
                let note = |walk: &mut Self, event: usize| match names {
                    true if walk.symbol(event).is_some() => walk.definition(event, defined, mode),
                    _ => walk.datum(event, SyntaxRole::Quoted, mode),
                };
                match self.symbol(event) {
                    Some(_) => note(self, event),
                    None => self.children_as(event, |walk, child| note(walk, child)),
                }
            }
            FormPart::AlienTypeName => match self.symbol(event) {
                Some(_) => self.definition(event, Defined::Other, mode),
                None => self.datum(event, SyntaxRole::Quoted, mode),
            },
            FormPart::AlienType => self.type_specifier(event, mode),
            FormPart::AlienParameter => self.children_as(event, |walk, child| match walk.place(child) {
                1 => walk.variable(child, by, mode, &mut Vec::new()),
                _ => walk.type_specifier(child, mode),
            }),
            FormPart::AlienParameters => self.children_as(event, |walk, parameter| {
                walk.children_as(parameter, |walk, child| match walk.place(child) {
                    1 => walk.variable(child, by, mode, pending),
                    _ => walk.type_specifier(child, mode),
                });
            }),
            FormPart::AlienBinding => self.children_as(event, |walk, child| match walk.place(child) {
                1 => walk.variable(child, by, mode, pending),
                2 => walk.type_specifier(child, mode),
                _ => walk.form(child, mode),
            }),
            _ => self.form(event, mode.uncertain()),
        }
    }

    /// Calls `walk_list` with the list around `event` if `event` is that list's first element at
    /// index `first` or later. Otherwise does nothing, because `walk_list` has already walked the
    /// element.
    fn once(&mut self, event: usize, first: u32, walk_list: impl FnOnce(&mut Self, usize)) {
        let Some(list) = self.form.events[event].parent.map(|list| list as usize) else { return };
        if self.children(list).find(|&child| self.place(child) >= first) == Some(event) {
            walk_list(self, list);
        }
    }

    fn structure(&mut self, event: usize, mode: Mode) {
        if self.symbol(event).is_some() {
            self.datum_role(event, SyntaxRole::Structure, mode);
            self.seen[event].defined = Some(Defined::Other);
            return;
        }
        self.children_as(event, |walk, child| match walk.place(child) {
            1 if walk.symbol(child).is_some() => {
                walk.datum_role(child, SyntaxRole::Structure, mode);
                walk.seen[child].defined = Some(Defined::Other);
            }
            1 => walk.form(child, mode.uncertain()),
            _ if walk.symbol(child).is_some() => walk.datum_role(child, SyntaxRole::Quoted, mode),
            _ => walk.structure_option(child, mode),
        });
    }

    fn structure_option(&mut self, option: usize, mode: Mode) {
        let word = self.child(option, 1).and_then(|head| self.keyword(head)).unwrap_or("");
        self.children_as(option, |walk, child| match (word, walk.place(child)) {
            (_, 1) => walk.datum_role(child, SyntaxRole::Quoted, mode),
            ("INCLUDE", 2) => walk.named_datum(child, SyntaxRole::Class, mode),
            ("INCLUDE", _) => walk.structure_slot(child, mode),
            ("CONSTRUCTOR", 3..) => walk.children_as(child, |walk, parameter| match walk.symbol(parameter) {
                Some(_) => walk.datum_role(parameter, SyntaxRole::Slot, mode),
                None => walk.children_as(parameter, |walk, part| match walk.place(part) {
                    1 | 3 if walk.symbol(part).is_some() => walk.datum_role(part, SyntaxRole::Slot, mode),
                    1 => walk.datum(part, SyntaxRole::Slot, mode),
                    _ => walk.form(part, mode),
                }),
            }),
            // (:copier nil) defines no copier.
            ("CONSTRUCTOR" | "COPIER" | "PREDICATE", 2)
                if walk.symbol(child).is_some() && walk.standard(child) != "NIL" =>
            {
                walk.definition(child, Defined::Function, mode);
            }
            ("PRINT-FUNCTION" | "PRINT-OBJECT", _) => walk.function_name(child, SyntaxRole::Function, mode),
            ("TYPE", _) => walk.type_specifier(child, mode),
            _ => walk.datum(child, SyntaxRole::Quoted, mode),
        });
    }

    fn structure_slot(&mut self, event: usize, mode: Mode) {
        if self.symbol(event).is_some() {
            return self.datum_role(event, SyntaxRole::Slot, mode);
        }
        if self.operator_of(event) == Abbreviation::Comma {
            return self.form(event, mode);
        }
        self.children_as(event, |walk, child| {
            let place = walk.place(child);
            match place {
                1 => walk.named_datum(child, SyntaxRole::Slot, mode),
                2 => walk.form(child, mode),
                _ if place.is_multiple_of(2) => match walk.key(event, place) {
                    Some("TYPE") => walk.type_specifier(child, mode),
                    _ => walk.form(child, mode),
                },
                _ => walk.datum_role(child, SyntaxRole::Quoted, mode),
            }
        });
    }

    /// Returns the keyword before index `place` in `list`.
    fn key(&self, list: usize, place: u32) -> Option<&str> {
        self.child(list, place - 1).and_then(|key| self.keyword(key))
    }

    fn slots(&mut self, list: usize, mode: Mode) {
        if !matches!(self.form.events[list].kind, EventKind::Form(_) | EventKind::List) {
            return self.form(list, mode.uncertain());
        }
        self.children_as(list, |walk, slot| match walk.symbol(slot) {
            Some(_) => walk.datum_role(slot, SyntaxRole::Slot, mode),
            None if walk.operator_of(slot) == Abbreviation::Comma => walk.form(slot, mode),
            None => walk.children_as(slot, |walk, child| {
                let place = walk.place(child);
                match place {
                    1 => walk.named_datum(child, SyntaxRole::Slot, mode),
                    _ if place.is_multiple_of(2) => walk.datum_role(child, SyntaxRole::Quoted, mode),
                    _ => match walk.key(slot, place) {
                        Some("READER" | "WRITER" | "ACCESSOR") => {
                            walk.defines(child, Defined::Function, mode, &mut Vec::new());
                        }
                        Some("TYPE") => walk.type_specifier(child, mode),
                        Some("INITFORM") => walk.form(child, mode),
                        Some("INITARG") => walk.named_datum(child, SyntaxRole::Quoted, mode),
                        _ => walk.form(child, mode.uncertain()),
                    },
                }
            }),
        });
    }

    fn class_option(&mut self, option: usize, mode: Mode) {
        let word = self.child(option, 1).and_then(|head| self.keyword(head)).unwrap_or("");
        self.children_as(option, |walk, child| match (word, walk.place(child)) {
            (_, 1) => walk.datum_role(child, SyntaxRole::Quoted, mode),
            ("DEFAULT-INITARGS", place) if place % 2 == 1 => walk.form(child, mode),
            ("METACLASS", _) => walk.named_datum(child, SyntaxRole::Class, mode),
            ("REPORT", _) => walk.function_name(child, SyntaxRole::Function, mode),
            _ if walk.symbol(child).is_some() => walk.datum_role(child, SyntaxRole::Quoted, mode),
            _ => walk.form(child, mode.uncertain()),
        });
    }

    fn generic_option(&mut self, option: usize, by: &'static str, mode: Mode) {
        let word = self.child(option, 1).and_then(|head| self.keyword(head)).unwrap_or("");
        match word {
            "METHOD" => {
                if let Some(head) = self.child(option, 1) {
                    self.datum_role(head, SyntaxRole::Quoted, mode);
                }
                self.method(option, 2, by, mode);
            }
            "" => self.form(option, mode),
            _ => self.children_as(option, |walk, child| match (word, walk.place(child)) {
                ("GENERIC-FUNCTION-CLASS" | "METHOD-CLASS", 2) => {
                    walk.named_datum(child, SyntaxRole::Class, mode)
                }
                // The short form of a method combination calls the function with the same name.
                ("METHOD-COMBINATION", 2) if walk.symbol(child).is_some() => {
                    walk.note(child, SyntaxRole::Function, SyntacticContext::Name, Space::Nowhere, mode);
                }
                ("ARGUMENT-PRECEDENCE-ORDER", 2..) if walk.symbol(child).is_some() => {
                    walk.variable(child, by, mode, &mut Vec::new());
                }
                _ => walk.datum(child, SyntaxRole::Quoted, mode),
            }),
        }
    }

    /// Walks a method: qualifiers from index `first` on, lambda list and body.
    fn method(&mut self, list: usize, first: u32, by: &'static str, mode: Mode) {
        // An empty lambda list has no event.
        let qualifies = |walk: &Self, place: u32| {
            walk.child(list, place).is_some_and(|child| walk.symbol(child).is_some())
        };
        let lambda = (first..).find(|&place| !qualifies(self, place)).unwrap_or(first);
        let depth = self.env.len();
        let mut pending = Vec::new();
        self.children_from(list, first, |walk, child| match walk.place(child) {
            place if place < lambda => {
                walk.note(child, SyntaxRole::Quoted, SyntacticContext::Name, Space::Nowhere, mode);
            }
            place if place == lambda => {
                walk.lambda_list(child, by, Lambda::Specialized, mode, &mut pending);
            }
            _ => {
                walk.env.append(&mut pending);
                walk.form(child, mode);
            }
        });
        self.env.truncate(depth);
    }

    fn method_combination(&mut self, list: usize, by: &'static str, mode: Mode) {
        let short = self.child(list, 3).is_some_and(|option| self.keyword(option).is_some());
        let depth = self.env.len();
        let mut pending = Vec::new();
        self.children_from(list, 3, |walk, child| {
            let place = walk.place(child);
            match place {
                _ if short => match walk.key(list, place) {
                    Some("OPERATOR") => walk.function_name(child, SyntaxRole::Function, mode),
                    _ => walk.datum(child, SyntaxRole::Quoted, mode),
                },
                3 => walk.lambda_list(child, by, Lambda::Ordinary, mode, &mut pending),
                4 => walk.children_as(child, |walk, group| {
                    walk.children_as(group, |walk, part| match walk.place(part) {
                        1 => walk.variable(part, by, mode, &mut pending),
                        2 if walk.symbol(part).is_some() && walk.keyword(part).is_none() => {
                            walk.function_name(part, SyntaxRole::Function, mode);
                        }
                        _ => walk.datum(part, SyntaxRole::Quoted, mode),
                    });
                }),
                _ => match walk.child(child, 1).and_then(|head| walk.keyword(head)) {
                    Some("ARGUMENTS" | "GENERIC-FUNCTION") => {
                        walk.children_from(child, 2, |walk, part| {
                            walk.variable(part, by, mode, &mut pending)
                        });
                    }
                    _ => {
                        walk.env.append(&mut pending);
                        walk.form(child, mode);
                    }
                },
            }
        });
        self.env.truncate(depth);
    }
}
