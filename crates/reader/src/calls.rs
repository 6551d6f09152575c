//! Finds the lists that are not calls, as far as the surrounding operators show: lambda lists and
//! their parameters, bindings, local function definitions, slots, and clauses such as those of
//! CASE.

use crate::operators::{FormPart, OperatorKind, Shape, operators_named};
use crate::{Datum, FormId, FormKind, LispText, Marker, TokenKind};

/// The lists of a text that are not calls.
#[derive(Debug, Default)]
pub struct NonCalls {
    /// For each form, by index, whether it is a list that is not a call.
    lists: Vec<bool>,
    /// For each form, by index, whether it is a lambda list of DEFGENERIC or a parameter in such a
    /// list. These parameters are only names, because DEFGENERIC binds no variables.
    generic: Vec<bool>,
}

impl NonCalls {
    /// Finds the lists that are not calls in the Common Lisp text `bytes`. `text` is the result of
    /// reading `bytes`.
    pub fn of(text: &LispText, bytes: &[u8]) -> NonCalls {
        let count = text.forms().len();
        let mut finder = NonCallFinder {
            text,
            bytes,
            found: NonCalls { lists: vec![false; count], generic: vec![false; count] },
        };
        for index in 0..count {
            finder.form(FormId::new(index));
        }
        finder.found
    }

    /// Returns whether the form is a list that is not a call.
    pub fn contains(&self, id: FormId) -> bool {
        self.lists.get(id.index()).copied().unwrap_or_default()
    }

    /// Returns whether the form is a lambda list of DEFGENERIC, or a parameter in such a list.
    pub fn has_generic_parameters(&self, id: FormId) -> bool {
        self.generic.get(id.index()).copied().unwrap_or_default()
    }
}

struct NonCallFinder<'a> {
    text: &'a LispText,
    bytes: &'a [u8],
    found: NonCalls,
}

impl NonCallFinder<'_> {
    fn form(&mut self, id: FormId) {
        let text = self.text;
        let Some(form) = text.form(id).filter(|form| form.kind == FormKind::List) else { return };
        let Some(head) = text.head(form).filter(|head| head.kind == TokenKind::Symbol) else { return };
        if head.marker == Marker::Keyword || self.found.contains(id) {
            return;
        }
        let name = head.symbol(self.bytes).name;
        let Some(operator) = operators_named(&name).find(|found| found.kind != OperatorKind::Function) else {
            return;
        };
        let arguments: Vec<Datum> = text.elements(id).skip(1).collect();
        self.parts(&operator.shape, &arguments);
        if operator.shape.part(2) == Some(&FormPart::GenericOption)
            && let Some(Datum::Form(list)) = arguments.get(1)
        {
            let parameters = text.elements(*list).filter_map(|datum| match datum {
                Datum::Form(parameter) => Some(parameter),
                Datum::Token(_) => None,
            });
            for list in parameters.chain([*list]) {
                self.found.generic[list.index()] = true;
            }
        }
    }

    fn parts(&mut self, shape: &Shape, elements: &[Datum]) {
        for (at, datum) in elements.iter().enumerate() {
            match shape.part(at) {
                Some(FormPart::Method) => return self.method(&elements[at..]),
                Some(FormPart::Loop) => return self.clauses(&elements[at..]),
                Some(part) => self.part(part, *datum),
                None => return,
            }
        }
    }

    fn part(&mut self, part: &FormPart, datum: Datum) {
        let Datum::Form(id) = datum else { return };
        let elements: Vec<Datum> = self.text.elements(id).collect();
        match part {
            FormPart::Either(_, list) => self.part(list, datum),
            FormPart::List(shape) => {
                // Do not mark a clause such as those of HANDLER-CASE and TYPECASE: its head names a
                // condition or type, which has a global definition.
                if !matches!(shape.part(0), Some(FormPart::Condition | FormPart::Type)) {
                    self.mark(id);
                }
                self.parts(shape, &elements);
            }
            FormPart::LambdaList | FormPart::MacroLambdaList => self.lambda_list(id, part),
            FormPart::Functions | FormPart::Labels | FormPart::Macros => {
                let list =
                    if *part == FormPart::Macros { FormPart::MacroLambdaList } else { FormPart::LambdaList };
                self.mark(id);
                for definition in elements {
                    let Datum::Form(definition) = definition else { continue };
                    self.mark(definition);
                    let parameters = self.text.elements(definition).nth(1);
                    parameters.into_iter().for_each(|parameters| self.part(&list, parameters));
                }
            }
            FormPart::Slots => {
                self.mark(id);
                elements.into_iter().for_each(|slot| self.part(&FormPart::StructureSlot, slot));
            }
            FormPart::GenericOption => self.method(elements.get(1..).unwrap_or_default()),
            FormPart::StructureSlot
            | FormPart::Structure
            | FormPart::SymbolMacroBinding
            | FormPart::Keys
            | FormPart::AlienBinding
            | FormPart::AlienParameter => self.mark(id),
            _ => {}
        }
    }

    fn mark(&mut self, id: FormId) {
        if self.text.form(id).is_some_and(|form| form.kind == FormKind::List)
            && let Some(is_none) = self.found.lists.get_mut(id.index())
        {
            *is_none = true;
        }
    }

    /// Marks a lambda list, its parameters, and the nested lambda lists of a macro.
    fn lambda_list(&mut self, id: FormId, part: &FormPart) {
        self.mark(id);
        let mut has_defaults = false;
        let elements: Vec<Datum> = self.text.elements(id).collect();
        for datum in elements {
            match datum {
                Datum::Token(at) => {
                    let token = self.text.tokens().get(at);
                    let is = |name: &str| token.is_some_and(|token| token.is_named(self.bytes, name));
                    has_defaults = (has_defaults || is("&OPTIONAL") || is("&KEY") || is("&AUX"))
                        && !is("&REST")
                        && !is("&BODY");
                }
                Datum::Form(parameter) if *part == FormPart::MacroLambdaList && !has_defaults => {
                    self.lambda_list(parameter, part);
                }
                Datum::Form(parameter) => {
                    self.mark(parameter);
                    // The first element can be `(:keyword variable)` or a destructuring list.
                    let first = self.text.elements(parameter).next();
                    first.into_iter().for_each(|first| self.part(&FormPart::Keys, first));
                }
            }
        }
    }

    /// Marks the lambda list after a method's qualifiers.
    fn method(&mut self, elements: &[Datum]) {
        let list = elements.iter().find(|datum| matches!(datum, Datum::Form(_)));
        list.into_iter().for_each(|list| self.part(&FormPart::LambdaList, *list));
    }

    /// Marks the destructuring lists after FOR, AS and WITH in LOOP.
    fn clauses(&mut self, elements: &[Datum]) {
        for pair in elements.windows(2) {
            let [Datum::Token(word), variables @ Datum::Form(_)] = pair else { continue };
            let word = self.text.tokens().get(*word);
            if word
                .is_some_and(|word| ["FOR", "AS", "WITH"].iter().any(|name| word.is_named(self.bytes, name)))
            {
                self.part(&FormPart::MacroLambdaList, *variables);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dialect, Features};

    #[test]
    fn binding_is_not_a_call() {
        let check = |text: &str, expected: &[&str]| {
            let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
            let none = NonCalls::of(&read, text.as_bytes());
            let found: Vec<&str> = (0..read.forms().len())
                .map(FormId::new)
                .filter(|id| !none.contains(*id))
                .filter_map(|id| read.form(id).filter(|form| form.kind == FormKind::List))
                .map(|form| &text[form.span.indices()])
                .collect();
            assert_eq!(found[1..], *expected, "{text}");
        };
        check("(defun f (a &optional (b (g 1)) &key ((:c d) 2)) (h a))", &["(g 1)", "(h a)"]);
        check("(defmacro f ((a (b)) &key (c (g))) (h))", &["(g)", "(h)"]);
        check("(defmethod f :around ((a b) (c (eql (d))) e) (g))", &["(eql (d))", "(d)", "(g)"]);
        check("(defgeneric f (a &key b) (:method ((a b)) (g)))", &["(:method ((a b)) (g))", "(g)"]);
        check("(let ((a (b)) c) (d))", &["(b)", "(d)"]);
        check("(flet ((a (b &optional (c 1)) (d))) (a 1))", &["(d)", "(a 1)"]);
        check("(case (a) (b (c)) ((d e) (f)))", &["(a)", "(c)", "(f)"]);
        check("(handler-case (a) (b (c) (d)))", &["(a)", "(b (c) (d))", "(d)"]);
        check("(loop for (a b) in (c) do (d))", &["(c)", "(d)"]);
        check("(defclass a (b) ((c :initform (d))))", &["(d)"]);
        check("(defstruct (a (:include b)) (c (d)))", &["(:include b)", "(d)"]);
    }
}
