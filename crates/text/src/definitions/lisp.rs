//! What a Lisp text defines, told by the operators that define.

use crate::kind::Kind;
use steelbank_reader::{Datum, Dialect, Form, FormId, FormKind, LispText, Marker, Range, Token, TokenKind};

/// One definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Definition {
    /// What it defines.
    pub(crate) kind: Kind,
    /// The name, without its package prefix, as it stands in the text.
    pub(crate) name: Range,
    /// The whole defining form.
    pub(crate) form: Range,
    /// Whether it only announces a definition that stands elsewhere.
    pub(crate) declaration: bool,
    /// False for what `#+` or `#-` leaves out.
    pub(crate) active: bool,
}

const COMMON_LISP: &[(&str, Kind)] = &[
    ("DEFUN", Kind::FUNCTION),
    ("DEFMACRO", Kind::MACRO),
    ("DEFINE-MODIFY-MACRO", Kind::MACRO),
    ("DEFINE-COMPILER-MACRO", Kind::COMPILER_MACRO),
    ("DEFINE-SYMBOL-MACRO", Kind::SYMBOL_MACRO),
    ("DEFGENERIC", Kind::GENERIC_FUNCTION),
    ("DEFMETHOD", Kind::METHOD),
    ("DEFVAR", Kind::VARIABLE),
    ("DEFPARAMETER", Kind::VARIABLE),
    ("DEFGLOBAL", Kind::VARIABLE),
    ("DEFINE-GLOBAL-VARIABLE", Kind::VARIABLE),
    ("DEFINE-GLOBAL-PARAMETER", Kind::VARIABLE),
    ("DEFCVAR", Kind::VARIABLE),
    ("DEFCONSTANT", Kind::CONSTANT),
    ("DEFINE-CONSTANT", Kind::CONSTANT),
    ("DEFCLASS", Kind::CLASS),
    ("DEFINE-CONDITION", Kind::CONDITION),
    ("DEFSTRUCT", Kind::STRUCT),
    ("DEFCSTRUCT", Kind::STRUCT),
    ("DEFTYPE", Kind::TYPE),
    ("DEFCTYPE", Kind::TYPE),
    ("DEFCENUM", Kind::ENUM),
    ("DEFSETF", Kind::SETF),
    ("DEFINE-SETF-EXPANDER", Kind::SETF),
    ("DEFPACKAGE", Kind::PACKAGE),
    ("DEFINE-PACKAGE", Kind::PACKAGE),
    ("DEFSYSTEM", Kind::SYSTEM),
    ("DEFINE-METHOD-COMBINATION", Kind::METHOD_COMBINATION),
    ("DEFCFUN", Kind::FUNCTION),
    ("DEFINE-ALIEN-ROUTINE", Kind::FUNCTION),
    ("DEFCALLBACK", Kind::FUNCTION),
    ("DEFTEST", Kind::TEST),
    ("DEF-TEST", Kind::TEST),
    ("DEFINE-TEST", Kind::TEST),
];

const EMACS_LISP: &[(&str, Kind)] = &[
    ("defun", Kind::FUNCTION),
    ("defsubst", Kind::FUNCTION),
    ("define-inline", Kind::FUNCTION),
    ("cl-defun", Kind::FUNCTION),
    ("cl-defsubst", Kind::FUNCTION),
    ("defalias", Kind::FUNCTION),
    ("define-minor-mode", Kind::FUNCTION),
    ("define-globalized-minor-mode", Kind::FUNCTION),
    ("define-derived-mode", Kind::FUNCTION),
    ("cl-defgeneric", Kind::GENERIC_FUNCTION),
    ("cl-defmethod", Kind::METHOD),
    ("defmacro", Kind::MACRO),
    ("cl-defmacro", Kind::MACRO),
    ("defvar", Kind::VARIABLE),
    ("defvar-local", Kind::VARIABLE),
    ("defvar-keymap", Kind::VARIABLE),
    ("defcustom", Kind::VARIABLE),
    ("defconst", Kind::CONSTANT),
    ("defclass", Kind::CLASS),
    ("cl-defstruct", Kind::STRUCT),
    ("cl-deftype", Kind::TYPE),
    ("define-error", Kind::CONDITION),
    ("ert-deftest", Kind::TEST),
];

const SCHEME: &[(&str, Kind)] = &[
    ("define", Kind::VARIABLE),
    ("define*", Kind::FUNCTION),
    ("define-public", Kind::VARIABLE),
    ("define/contract", Kind::VARIABLE),
    ("define/public", Kind::METHOD),
    ("define-inline", Kind::FUNCTION),
    ("define-generic", Kind::GENERIC_FUNCTION),
    ("define-method", Kind::METHOD),
    ("define-syntax", Kind::MACRO),
    ("define-syntax-rule", Kind::MACRO),
    ("define-syntax-parameter", Kind::MACRO),
    ("define-macro", Kind::MACRO),
    ("define-constant", Kind::CONSTANT),
    ("define-values", Kind::VARIABLE),
    ("define-parameter", Kind::VARIABLE),
    ("define-record-type", Kind::STRUCT),
    ("define-structure", Kind::STRUCT),
    ("define-struct", Kind::STRUCT),
    ("struct", Kind::STRUCT),
    ("define-class", Kind::CLASS),
    ("define-condition-type", Kind::CONDITION),
    ("define-type", Kind::TYPE),
    ("module", Kind::MODULE),
];

const CLOJURE: &[(&str, Kind)] = &[
    ("defn", Kind::FUNCTION),
    ("defn-", Kind::FUNCTION),
    ("defmacro", Kind::MACRO),
    ("defmulti", Kind::GENERIC_FUNCTION),
    ("defmethod", Kind::METHOD),
    ("def", Kind::VARIABLE),
    ("defonce", Kind::VARIABLE),
    ("declare", Kind::VARIABLE),
    ("defprotocol", Kind::PROTOCOL),
    ("definterface", Kind::INTERFACE),
    ("defrecord", Kind::STRUCT),
    ("deftype", Kind::TYPE),
    ("deftest", Kind::TEST),
    ("ns", Kind::NAMESPACE),
];

/// All definitions of `text`, a text read from `bytes`, in order. Quoted forms and templates define nothing.
pub(crate) fn definitions(text: &LispText, bytes: &[u8]) -> Vec<Definition> {
    let known = match text.dialect() {
        Dialect::CommonLisp => COMMON_LISP,
        Dialect::EmacsLisp => EMACS_LISP,
        Dialect::Scheme => SCHEME,
        Dialect::Clojure => CLOJURE,
    };
    let mut found = Vec::new();
    // Whether each form, by index, is data.
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
        let kind = known.iter().find(|(name, _)| *name == operator).map(|&(_, kind)| kind);
        let kind = kind.or_else(|| {
            let lower = operator.to_lowercase();
            let defines =
                lower.starts_with("def") && !matches!(lower.as_str(), "default" | "defer" | "deftransforms");
            (form.parent.is_none() && defines).then_some(Kind::DEFINITION)
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
    found: &'a mut Vec<Definition>,
}

impl Finder<'_> {
    fn define(&mut self, operator: &str, mut kind: Kind) {
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
            (Dialect::Scheme, _) if kind == Kind::VARIABLE => {
                let lambda = after.is_some_and(|value| self.is_lambda(value));
                if lambda || matches!(first, Datum::Form(_)) {
                    kind = Kind::FUNCTION;
                }
            }
            // `(defvar x)` without a value only says that it is special.
            (Dialect::CommonLisp, "DEFVAR") | (Dialect::EmacsLisp, "defvar") => {
                return self.add(first, kind, after.is_none());
            }
            (Dialect::CommonLisp, "DEFCLASS" | "DEFINE-CONDITION") => self.accessors(),
            _ => {}
        }
        self.add(first, kind, false);
    }

    fn is_lambda(&self, value: Datum) -> bool {
        let Datum::Form(id) = value else { return false };
        let head = self.text.form(id).and_then(|form| self.text.head(form));
        head.is_some_and(|head| {
            matches!(head.symbol(self.bytes).name.as_ref(), "lambda" | "λ" | "case-lambda" | "lambda*")
        })
    }

    /// The symbol or string that a name is or, of a list such as `(setf name)` or `(name option)`, that names it.
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

    fn add(&mut self, datum: Datum, kind: Kind, declaration: bool) {
        let Some(token) = self.name(datum) else { return };
        let mut name = token.name_span();
        if token.kind == TokenKind::String {
            name = Range::new(token.span.start + 1, token.span.end.saturating_sub(1));
        }
        if name.start >= name.end {
            return;
        }
        self.found.push(Definition {
            kind,
            name,
            form: self.form.span,
            declaration,
            active: self.form.active,
        });
    }

    /// What `:accessor`, `:reader` and `:writer` name in a class.
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
                self.found.push(Definition {
                    kind: Kind::ACCESSOR,
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
             (defmethod print-object ((x c) stream)) (default x)",
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
