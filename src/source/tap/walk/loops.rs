//! Walks LOOP forms. The clauses of a LOOP begin with words, at any position.

use super::super::operators::ClauseWords;
use super::{Binding, FormWalk, Mode, Space, SyntacticContext, SyntaxRole};

const BY: &str = "LOOP";

/// The expected kind of the next element of a LOOP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// A word.
    Word,
    /// A form, then a word.
    Form,
    /// Forms up to the next word.
    Forms,
    /// A variable, then an optional type.
    Variable,
    /// A variable that collects results.
    Into,
    /// The type of the preceding variable, or a word.
    TypeOrWord,
    /// A type.
    Type,
    /// The loop's name.
    Name,
    /// `each` or `the`, and then a word such as `hash-keys`.
    Being,
    /// The word `in` or `of` after a word such as `hash-keys`.
    Of,
    /// `(hash-value variable)`.
    Using,
}

impl FormWalk<'_> {
    /// Walks the entire LOOP around `event`, if `event` is its first element.
    pub(super) fn loop_form(&mut self, event: usize, mode: Mode, pending: &mut Vec<Binding>) {
        let Some(list) = self.form.events[event].parent.map(|list| list as usize) else { return };
        let elements: Vec<usize> = self.children(list).filter(|&child| self.place(child) >= 2).collect();
        if elements.first() != Some(&event) {
            return;
        }
        if self.symbol(event).is_none() && self.place(event) == 2 {
            return elements.into_iter().for_each(|form| self.form(form, mode));
        }
        let mut next = Next::Word;
        let mut place = 2;
        // The kind of clause that AND continues.
        let mut clause = Next::Word;
        for child in elements {
            // A gap between the places is a number, string or similar datum, which has no event. It
            // completes the clause, so that a word is expected next.
            if self.place(child) > place && !matches!(next, Next::Forms | Next::Word) {
                next = Next::Word;
            }
            place = self.place(child) + 1;
            let word = self.name(child).map(|name| name.name());
            next = match (next, word) {
                (Next::Form, _) => {
                    // (return it)
                    if word == Some("IT") {
                        self.datum_role(child, SyntaxRole::LoopKeyword, mode);
                    } else {
                        self.form(child, mode);
                    }
                    Next::Word
                }
                (Next::Variable | Next::Into, _) => {
                    self.variable(child, BY, mode, pending);
                    Next::TypeOrWord
                }
                (Next::Type, _) => {
                    self.type_specifier(child, mode);
                    Next::Word
                }
                (Next::Name, _) => {
                    self.note(child, SyntaxRole::Block, SyntacticContext::Open, Space::Block, mode);
                    self.note_bound(child, BY);
                    if let Some(name) = self.symbol(child) {
                        self.env.push(Binding {
                            space: Space::Block,
                            name,
                            level: mode.level,
                            by: BY,
                            is_macro: false,
                            event: child as u32,
                        });
                    }
                    Next::Word
                }
                (Next::Using, _) => {
                    self.children_as(child, |walk, part| match walk.place(part) {
                        1 => walk.datum_role(part, SyntaxRole::LoopKeyword, mode),
                        _ => walk.variable(part, BY, mode, pending),
                    });
                    Next::Word
                }
                (Next::Of, Some(word)) if !matches!(word, "IN" | "OF") => {
                    self.word(child, word, mode, &mut clause, pending)
                }
                (Next::Being | Next::Of, Some(word)) => {
                    self.datum_role(child, SyntaxRole::LoopKeyword, mode);
                    match (next, word) {
                        (Next::Being, "EACH" | "THE") => Next::Being,
                        (Next::Being, _) => Next::Of,
                        _ => Next::Form,
                    }
                }
                (Next::TypeOrWord, Some(word)) if !ClauseWords::Loop.contains(word) => {
                    self.type_specifier(child, mode);
                    Next::Word
                }
                (Next::TypeOrWord, None) => {
                    self.type_specifier(child, mode);
                    Next::Word
                }
                (Next::Word | Next::Being | Next::Of | Next::Forms, None) => {
                    // A list or comma in place of a word: a form of DO, or part of an extension.
                    self.form(child, mode);
                    next
                }
                (Next::Word | Next::TypeOrWord | Next::Forms, Some(word)) => {
                    self.word(child, word, mode, &mut clause, pending)
                }
            };
        }
        self.env.append(pending);
    }

    /// Walks a word of LOOP. Returns the expected kind of the next element.
    fn word(
        &mut self,
        child: usize,
        word: &str,
        mode: Mode,
        clause: &mut Next,
        pending: &mut Vec<Binding>,
    ) -> Next {
        if !ClauseWords::Loop.contains(word) {
            // A word of an extension, or a form in an unexpected place.
            self.note(child, SyntaxRole::Argument, SyntacticContext::Open, Space::Unknown, mode);
            return Next::Form;
        }
        self.datum_role(child, SyntaxRole::LoopKeyword, mode);
        let next = match word {
            "NAMED" => Next::Name,
            "FOR" | "AS" | "WITH" => Next::Variable,
            "INTO" => Next::Into,
            "OF-TYPE" => Next::Type,
            "BEING" => Next::Being,
            "USING" => Next::Using,
            "AND" => *clause,
            "ELSE" | "END" => Next::Word,
            "DO" | "DOING" | "INITIALLY" | "FINALLY" => Next::Forms,
            _ => Next::Form,
        };
        if !ClauseWords::LoopPreposition.contains(word) {
            *clause = if next == Next::Variable { Next::Variable } else { Next::Word };
            self.env.append(pending);
        } else if word == "THEN" {
            self.env.append(pending);
        }
        next
    }
}
