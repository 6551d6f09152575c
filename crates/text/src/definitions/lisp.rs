//! Finds the definitions in a Lisp text by their operators: those in `definers.table`, and at top
//! level also other operators with names that begin with `def`.

use crate::kind::DefinitionKind;
use crate::language::Language;
use std::collections::HashMap;
use std::sync::LazyLock;
use steelbank_reader::{Datum, Dialect, Form, FormId, FormKind, LispText, Marker, Range, Token, TokenKind};

/// A definition in a text of any language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LispTextDefinition {
    /// The kind of definition.
    pub(crate) kind: DefinitionKind,
    /// The range of the name, without its package prefix and without the quotes of a string.
    pub(crate) name: Range,
    /// The range of the defining form.
    pub(crate) form: Range,
    /// Whether it only declares something that is defined elsewhere, such as `(defvar x)` or a C
    /// prototype.
    pub(crate) declaration: bool,
    /// `false` inside text excluded by `#+`, `#-`, `#;` or `#_`.
    pub(crate) active: bool,
}

/// Maps each defining operator of a dialect to the kind of definition.
static DEFINERS: LazyLock<HashMap<(Dialect, &str), DefinitionKind>> = LazyLock::new(|| {
    let mut definers = HashMap::new();
    for row in include_str!("definers.table").lines() {
        let mut words = row.split_whitespace();
        let dialect = words.next().and_then(Language::named).and_then(Language::dialect);
        let (Some(dialect), Some(kind)) = (dialect, words.next().and_then(DefinitionKind::named)) else {
            continue;
        };
        definers.extend(words.map(|operator| ((dialect, operator), kind)));
    }
    definers
});

/// Returns all definitions of `text`, which was read from `bytes`, sorted by the start of their
/// names. Nothing is defined inside quoted forms, templates and literals.
pub(crate) fn definitions(text: &LispText, bytes: &[u8]) -> Vec<LispTextDefinition> {
    let mut found = Vec::new();
    // For each form, by index, whether it is data.
    let mut data: Vec<bool> = Vec::with_capacity(text.forms().len());
    for (index, form) in text.forms().iter().enumerate() {
        let within = form.parent.is_some_and(|parent| data.get(parent.index()).copied().unwrap_or(true));
        data.push(within || matches!(form.kind, FormKind::Quote | FormKind::Quasiquote | FormKind::Literal));
        if within || form.kind != FormKind::List {
            continue;
        }
        let Some(head) = text.head(form).filter(|head| head.kind == TokenKind::Symbol) else { continue };
        if head.marker == Marker::Keyword {
            continue;
        }
        let operator = head.symbol(bytes).name;
        let kind = DEFINERS.get(&(text.dialect(), &*operator)).copied().or_else(|| {
            let lower = operator.to_lowercase();
            let defines =
                lower.starts_with("def") && !matches!(lower.as_str(), "default" | "defer" | "deftransforms");
            (form.parent.is_none() && defines).then_some(DefinitionKind::Definition)
        });
        if let Some(kind) = kind {
            Finder { text, bytes, form, id: FormId::new(index), found: &mut found }.define(&operator, kind);
        }
    }
    found.sort_by_key(|definition| definition.name.start);
    found
}

struct Finder<'a> {
    text: &'a LispText,
    bytes: &'a [u8],
    form: &'a Form,
    id: FormId,
    found: &'a mut Vec<LispTextDefinition>,
}

impl Finder<'_> {
    fn define(&mut self, operator: &str, mut kind: DefinitionKind) {
        let mut rest = self.text.elements(self.id).skip(1);
        let Some(first) = rest.next() else { return };
        let after = rest.next();
        match (self.text.dialect(), operator) {
            (Dialect::Clojure, "declare") => {
                let all: Vec<_> = self.text.elements(self.id).skip(1).collect();
                for datum in all {
                    self.add(datum, kind, true);
                }
                return;
            }
            (Dialect::Scheme, "define-values") => {
                let Datum::Form(names) = first else { return };
                let all: Vec<_> = self.text.elements(names).collect();
                all.into_iter().for_each(|datum| self.add(datum, kind, false));
                return;
            }
            (Dialect::Scheme, _) if kind == DefinitionKind::Variable => {
                let lambda = after.is_some_and(|value| self.is_lambda(value));
                if lambda || matches!(first, Datum::Form(_)) {
                    kind = DefinitionKind::Function;
                }
            }
            // `(defvar x)` without a value only proclaims the variable special.
            (Dialect::CommonLisp, "DEFVAR") | (Dialect::EmacsLisp, "defvar") => {
                return self.add(first, kind, after.is_none());
            }
            (Dialect::CommonLisp, "DEFCLASS" | "DEFINE-CONDITION") => self.accessors(),
            (Dialect::CommonLisp, "TEST") if !self.is_test(first) => return,
            _ => {}
        }
        self.add(first, kind, false);
    }

    /// Whether `(test first …)` defines a test, as in FiveAM and 1AM: it is at top level, and names
    /// the test by a symbol or a list `(name :option …)`. Otherwise it calls a function TEST.
    fn is_test(&self, first: Datum) -> bool {
        let is_symbol = |datum: Option<Datum>, keyword: bool| {
            let Some(Datum::Token(index)) = datum else { return false };
            self.text.tokens().get(index).is_some_and(|token| {
                token.kind == TokenKind::Symbol && (token.marker == Marker::Keyword) == keyword
            })
        };
        let named = match first {
            Datum::Token(_) => is_symbol(Some(first), false),
            Datum::Form(id) => {
                let mut elements = self.text.elements(id);
                is_symbol(elements.next(), false) && is_symbol(elements.next(), true)
            }
        };
        named && self.form.parent.is_none()
    }

    fn is_lambda(&self, value: Datum) -> bool {
        let Datum::Form(id) = value else { return false };
        let head = self.text.form(id).and_then(|form| self.text.head(form));
        head.is_some_and(|head| {
            matches!(head.symbol(self.bytes).name.as_ref(), "lambda" | "λ" | "case-lambda" | "lambda*")
        })
    }

    /// Returns the token that names a definition: the datum itself, or the name in a list such as
    /// `(setf name)` or `(name option)`.
    fn name(&self, mut datum: Datum) -> Option<&Token> {
        for _ in 0..8 {
            match datum {
                Datum::Token(index) => {
                    let token = self.text.tokens().get(index)?;
                    return matches!(token.kind, TokenKind::Symbol | TokenKind::String).then_some(token);
                }
                Datum::Form(id) => {
                    let mut elements = self.text.elements(id);
                    let first = elements.next()?;
                    let second = elements.next();
                    let skips = match first {
                        Datum::Token(index) => self.text.tokens().get(index).is_some_and(|token| {
                            token.kind == TokenKind::String || token.is_named(self.bytes, "SETF")
                        }),
                        Datum::Form(_) => false,
                    };
                    datum = if skips { second.unwrap_or(first) } else { first };
                }
            }
        }
        None
    }

    fn add(&mut self, datum: Datum, kind: DefinitionKind, declaration: bool) {
        let Some(token) = self.name(datum) else { return };
        let mut name = token.name_span();
        if token.kind == TokenKind::String {
            name = Range::new(token.span.start + 1, token.span.end.saturating_sub(1));
        }
        if name.start >= name.end {
            return;
        }
        self.found.push(LispTextDefinition {
            kind,
            name,
            form: self.form.span,
            declaration,
            active: self.form.active,
        });
    }

    /// Adds the accessors that a class or condition definition defines with `:accessor`, `:reader`
    /// and `:writer`.
    fn accessors(&mut self) {
        let tokens: Vec<_> = self.text.tokens().get(self.form.tokens()).unwrap_or_default().iter().collect();
        let mut option = false;
        for token in tokens.into_iter().filter(|token| token.kind != TokenKind::Comment) {
            let is_symbol = token.kind == TokenKind::Symbol;
            if option
                && is_symbol
                && matches!(token.marker, Marker::None)
                && !token.is_named(self.bytes, "SETF")
            {
                self.found.push(LispTextDefinition {
                    kind: DefinitionKind::Accessor,
                    name: token.name_span(),
                    form: self.form.span,
                    declaration: false,
                    active: token.active && self.form.active,
                });
            }
            let still = option && token.is_named(self.bytes, "SETF");
            option = still
                || (is_symbol
                    && token.marker == Marker::Keyword
                    && matches!(token.symbol(self.bytes).name.as_ref(), "ACCESSOR" | "READER" | "WRITER"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steelbank_reader::Features;

    #[track_caller]
    fn check(dialect: Dialect, text: &str, expect: &[(&str, &str)]) {
        let read = LispText::read(text.as_bytes(), dialect, &Features::sbcl());
        let found: Vec<_> = definitions(&read, text.as_bytes())
            .iter()
            .filter(|definition| definition.active && !definition.declaration)
            .map(|definition| (definition.kind.name(), &text[definition.name.indices()]))
            .collect();
        assert_eq!(found, expect);
    }

    #[test]
    fn common_lisp_defines() {
        check(
            Dialect::CommonLisp,
            "(defpackage #:app) (defun f ()) (cl:defmacro pkg::m ()) (defun (setf f) (x)) (defstruct (point (:copier nil)) x)
             (progn (defvar *x* 1)) (eval-when (:load-toplevel) (defconstant +k+ 1)) (asdf:defsystem \"app\")
             (defclass c () ((a :accessor c-a :reader a) (b :writer (setf c-b)))) '(defun no ()) `(defun ,no ()) #+nil (defun gone ())
             (define-frob thing 1) (let () (defun inner ())) (defcfun (\"strlen\" c-strlen) :int) (defvar *only-special*)
             (defmethod print-object ((x c) stream)) (default x) (deftest t1 () (test inner (is 1))) (5am:test t2 (is 1))
             (test (t3 :suite s) (is 1)) (test 4 (f)) (test (f 1) 2) (test 'x 1) (test :y 1) (parachute:define-test \"t4\")",
            &[
                ("package", "app"),
                ("function", "f"),
                ("macro", "m"),
                ("function", "f"),
                ("struct", "point"),
                ("variable", "*x*"),
                ("constant", "+k+"),
                ("system", "app"),
                ("class", "c"),
                ("accessor", "c-a"),
                ("accessor", "a"),
                ("accessor", "c-b"),
                ("definition", "thing"),
                ("function", "inner"),
                ("function", "c-strlen"),
                ("method", "print-object"),
                ("test", "t1"),
                ("test", "t2"),
                ("test", "t3"),
                ("test", "t4"),
            ],
        );
    }

    #[test]
    fn other_lisps_define() {
        check(
            Dialect::EmacsLisp,
            "(defun f ()) (defcustom v 1 \"\") (defalias 'g #'f) (defvar w)",
            &[("function", "f"), ("variable", "v"), ("function", "g")],
        );
        check(
            Dialect::Scheme,
            "(define (f x) (define y 1) y) (define g (lambda (x) x)) (define ((c a) b) a) (define-syntax m x)",
            &[("function", "f"), ("variable", "y"), ("function", "g"), ("function", "c"), ("macro", "m")],
        );
        check(
            Dialect::Clojure,
            "(ns a.b) (defn ^:private f [x]) (def v 1) (declare later) (defprotocol P (m [this]))",
            &[("namespace", "a.b"), ("function", "f"), ("variable", "v"), ("protocol", "P")],
        );
    }
}
