//! Walks lambda lists, local functions, type specifiers and declarations.

use super::{Binding, FormWalk, Lambda, LocalOperator, Mode, Space, SyntacticContext, SyntaxRole};
use crate::source::tap::sidecar::{Abbreviation, EventKind};

/// The section of a lambda list that contains a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ParameterSection {
    Required,
    Optional,
    Rest,
    Key,
}

impl FormWalk<'_> {
    fn is_plain_list(&self, event: usize) -> bool {
        matches!(self.form.events[event].kind, EventKind::Form(_) | EventKind::List)
            && self.operator_of(event) == Abbreviation::Any
    }

    /// Walks a lambda list. Adds its parameters to `pending`, or to the environment if a default
    /// form of a later parameter sees them.
    pub(super) fn lambda_list(
        &mut self,
        list: usize,
        by: &'static str,
        kind: Lambda,
        mode: Mode,
        pending: &mut Vec<Binding>,
    ) {
        if !self.is_plain_list(list) {
            return match self.symbol(list) {
                Some(_) => self.variable(list, by, mode, pending),
                None => self.form(list, mode.uncertain()),
            };
        }
        let mut section = ParameterSection::Required;
        for child in self.children(list) {
            if self.place(child) == 0 {
                self.read_time(child);
                continue;
            }
            let word = self.standard(child);
            if word.starts_with('&') {
                self.datum_role(child, SyntaxRole::Argument, mode);
                section = match word {
                    "&OPTIONAL" | "&AUX" => ParameterSection::Optional,
                    "&KEY" => ParameterSection::Key,
                    "&ALLOW-OTHER-KEYS" => section,
                    _ => ParameterSection::Rest,
                };
            } else if self.is_plain_list(child) {
                match (section, kind) {
                    (ParameterSection::Required, Lambda::Specialized) => {
                        self.specialized(child, by, mode, pending)
                    }
                    (ParameterSection::Required | ParameterSection::Rest, Lambda::Destructuring) => {
                        self.lambda_list(child, by, kind, mode, pending);
                    }
                    (ParameterSection::Required | ParameterSection::Rest, _) => {
                        self.variable(child, by, mode, pending)
                    }
                    _ => self.parameter(child, by, section == ParameterSection::Key, mode, pending),
                }
            } else {
                self.variable(child, by, mode, pending);
            }
        }
    }

    /// Walks `(variable class)` or `(variable (eql form))`.
    fn specialized(&mut self, list: usize, by: &'static str, mode: Mode, pending: &mut Vec<Binding>) {
        self.children_as(list, |walk, child| match walk.place(child) {
            1 => walk.variable(child, by, mode, pending),
            _ if walk.symbol(child).is_some() => walk.datum_role(child, SyntaxRole::Class, mode),
            _ if walk.head_is(child, "EQL") => walk.children_as(child, |walk, part| match walk.place(part) {
                1 => walk.datum_role(part, SyntaxRole::Class, mode),
                _ => walk.form(part, mode),
            }),
            _ => walk.form(child, mode.uncertain()),
        });
    }

    /// Walks the parameter `(variable default supplied-p)` or `((keyword variable) default
    /// supplied-p)`.
    fn parameter(
        &mut self,
        list: usize,
        by: &'static str,
        keyed: bool,
        mode: Mode,
        pending: &mut Vec<Binding>,
    ) {
        // The default form sees the preceding parameters, but not this one.
        let mut own = Vec::new();
        self.env.append(pending);
        self.children_as(list, |walk, child| match walk.place(child) {
            1 if keyed && walk.is_plain_list(child) => {
                walk.children_as(child, |walk, part| match walk.place(part) {
                    1 => walk.note(part, SyntaxRole::Quoted, SyntacticContext::Name, Space::Nowhere, mode),
                    _ => walk.lambda_list(part, by, Lambda::Destructuring, mode, &mut own),
                });
            }
            1 => walk.lambda_list(child, by, Lambda::Destructuring, mode, &mut own),
            3 => walk.variable(child, by, mode, &mut own),
            _ => walk.form(child, mode),
        });
        pending.append(&mut own);
    }

    /// Walks the definitions of FLET, LABELS or MACROLET. Leaves their names bound.
    pub(super) fn local_functions(&mut self, list: usize, by: &'static str, kind: LocalOperator, mode: Mode) {
        if !self.is_plain_list(list) {
            return self.form(list, mode.uncertain());
        }
        let is_macro = kind == LocalOperator::Macrolet;
        let level = mode.level;
        let mut bindings = Vec::new();
        for definition in self.children(list).filter(|&definition| self.is_plain_list(definition)) {
            let Some(named) = self.child(definition, 1) else { continue };
            let (space, named) = match self.head_is(named, "SETF") {
                true => (Space::Setf, self.child(named, 2)),
                false => (Space::Function, Some(named)),
            };
            if let Some(event) = named
                && let Some(name) = self.symbol(event)
            {
                bindings.push(Binding { space, name, level, by, is_macro, event: event as u32 });
            }
        }
        let depth = self.env.len();
        match kind {
            LocalOperator::Flet => {}
            LocalOperator::Labels => self.env.extend(&bindings),
            // Walk the templates with the names bound, because the generated code is inside the
            // scope.
            LocalOperator::Macrolet => {
                self.env.extend(bindings.iter().map(|binding| Binding { level: level + 1, ..*binding }));
            }
        }
        self.children_as(list, |walk, definition| match walk.is_plain_list(definition) {
            true => walk.local_function(definition, by, is_macro, mode),
            false => walk.form(definition, mode.uncertain()),
        });
        self.env.truncate(depth);
        self.env.extend(bindings);
    }

    fn local_function(&mut self, definition: usize, by: &'static str, is_macro: bool, mode: Mode) {
        let depth = self.env.len();
        let mut pending = Vec::new();
        let lambda = if is_macro { Lambda::Destructuring } else { Lambda::Ordinary };
        self.children_as(definition, |walk, child| match walk.place(child) {
            1 => {
                let named = match walk.head_is(child, "SETF") {
                    true => walk.child(child, 2),
                    false => Some(child),
                };
                let space = if named == Some(child) { Space::Function } else { Space::Setf };
                match named.filter(|&named| walk.symbol(named).is_some()) {
                    Some(named) => {
                        if space == Space::Setf {
                            walk.children_as(child, |walk, part| {
                                walk.datum_role(part, SyntaxRole::Argument, mode)
                            });
                        }
                        walk.note(named, SyntaxRole::Binding, SyntacticContext::Open, space, mode);
                        walk.note_bound(named, by);
                        walk.bind(named, Space::Block, by, mode, &mut pending);
                    }
                    None => walk.form(child, mode.uncertain()),
                }
            }
            2 => walk.lambda_list(child, by, lambda, mode, &mut pending),
            _ => {
                walk.env.append(&mut pending);
                walk.form(child, mode);
            }
        });
        self.env.truncate(depth);
    }

    /// Walks a type specifier.
    pub(super) fn type_specifier(&mut self, event: usize, mode: Mode) {
        if self.symbol(event).is_some() {
            return self.datum_role(event, SyntaxRole::Type, mode);
        }
        match self.operator_of(event) {
            Abbreviation::Comma | Abbreviation::Backquote => return self.form(event, mode),
            Abbreviation::Quote => return self.datum(event, SyntaxRole::Quoted, mode),
            Abbreviation::Any | Abbreviation::Function => {}
        }
        let head = self.child(event, 1).map_or("", |head| self.standard(head));
        self.depth += 1;
        if self.depth < super::MAX_DEPTH {
            self.children_as(event, |walk, child| match (head, walk.place(child)) {
                ("SATISFIES", 2..) => {
                    walk.note(child, SyntaxRole::Function, SyntacticContext::Name, Space::Nowhere, mode);
                }
                ("MEMBER" | "EQL", 2..) if walk.symbol(child).is_some() => {
                    walk.note(child, SyntaxRole::Quoted, SyntacticContext::Name, Space::Nowhere, mode);
                }
                ("MEMBER" | "EQL", 2..) => walk.datum(child, SyntaxRole::Quoted, mode),
                _ => walk.type_specifier(child, mode),
            });
        }
        self.depth -= 1;
    }

    /// Walks a specifier of DECLARE, DECLAIM or PROCLAIM.
    pub(super) fn declaration_specifier(&mut self, event: usize, mode: Mode) {
        if !matches!(self.form.events[event].kind, EventKind::Form(_) | EventKind::List)
            || matches!(self.operator_of(event), Abbreviation::Comma | Abbreviation::Backquote)
        {
            return match self.symbol(event) {
                Some(_) => self.datum_role(event, SyntaxRole::Declaration, mode),
                None => self.form(event, mode.uncertain()),
            };
        }
        let head = self.child(event, 1);
        let word = head.and_then(|head| self.name(head)).map_or("", |name| name.name());
        self.children_as(event, |walk, child| match (word, walk.place(child)) {
            (_, 1) | ("TYPE" | "FTYPE", 2) => walk.type_specifier(child, mode),
            ("FTYPE" | "INLINE" | "NOTINLINE" | "MAYBE-INLINE", _) => walk.declared_function(child, mode),
            ("OPTIMIZE" | "DECLARATION", _) => walk.datum(child, SyntaxRole::Declaration, mode),
            ("MUFFLE-CONDITIONS" | "UNMUFFLE-CONDITIONS", _) => walk.type_specifier(child, mode),
            _ if walk.symbol(child).is_some() => {
                walk.note(child, SyntaxRole::Declaration, SyntacticContext::Open, Space::Variable, mode);
                walk.seen[child].special = word == "SPECIAL" || word == "GLOBAL" || word == "ALWAYS-BOUND";
            }
            // A function name, as in (ignore #'f).
            _ => walk.children_as(child, |walk, part| match walk.place(part) {
                1 => walk.datum_role(part, SyntaxRole::Declaration, mode),
                _ => walk.declared_function(part, mode),
            }),
        });
    }

    fn declared_function(&mut self, event: usize, mode: Mode) {
        match self.symbol(event) {
            Some(_) => {
                self.note(event, SyntaxRole::Declaration, SyntacticContext::Open, Space::Function, mode)
            }
            None => self.children_as(event, |walk, child| match walk.place(child) {
                2 => walk.note(child, SyntaxRole::Declaration, SyntacticContext::Open, Space::Setf, mode),
                _ => walk.datum_role(child, SyntaxRole::Declaration, mode),
            }),
        }
    }
}
