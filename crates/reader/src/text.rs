//! The result of reading a text: tokens, forms and top-level forms.

use super::reader::LispReader;
use super::{Dialect, Features, Range, Token, TokenKind};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

/// The index of a form in its [`LispText`], in order of the forms' starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormId(NonZeroU32);

impl FormId {
    /// Returns the id of the form at `index` in [`LispText::forms`].
    pub fn new(index: usize) -> FormId {
        FormId(NonZeroU32::MIN.saturating_add(index as u32))
    }

    /// Returns the form's index in [`LispText::forms`].
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// The kinds of form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FormKind {
    /// A list, including `()`; in Scheme and Clojure also a list in brackets or braces.
    List,
    /// `'x`
    Quote,
    /// `#'x`
    Function,
    /// `` `x ``
    Quasiquote,
    /// `,x`
    Unquote,
    /// `,@x` or `,.x`
    UnquoteSplicing,
    /// A datum that is not a list, such as `#(…)`, `#1A…`, `#S(…)`, `#C(…)`, `#P"…"`, Emacs Lisp's
    /// `[…]` or Clojure's `@x`.
    Literal,
    /// `#.x`, with a value that is known only after evaluation.
    ReadEval,
    /// Clojure's `^x`. It belongs to the next datum and is not an element of the enclosing list.
    Metadata,
}

/// A form: a list, or a datum that begins with a macro character and can contain other data, such
/// as `'x` or `#(…)`.
#[derive(Debug, Clone)]
pub struct Form {
    /// The kind of form.
    pub kind: FormKind,
    /// The range from the opening parenthesis or macro character to the end.
    pub span: Range,
    /// The enclosing form; `None` at top level.
    pub parent: Option<FormId>,
    /// `false` for feature expressions and inside text excluded by `#+`, `#-`, `#;` or `#_`.
    pub active: bool,
    /// The number of elements of a list. A dotted tail counts as one.
    pub elements: u32,
    pub(super) tokens: (u32, u32),
    pub(super) forms_end: u32,
    pub(super) head: u32,
    pub(super) number: u32,
    pub(super) quote_seen: bool,
    pub(super) after_quote: bool,
    pub(super) spliced: bool,
    pub(super) descend: bool,
}

/// Lambda list keywords that end the keyword parameters.
const AFTER_KEYS: [&str; 5] = ["&AUX", "&BODY", "&OPTIONAL", "&ENVIRONMENT", "&REST"];

/// Marks an absent `Form::head` or `Form::number`.
pub(super) const NONE: u32 = u32::MAX;

impl Form {
    /// Returns the form number of SBCL's compiler within the top-level form
    /// (`sb-c::find-source-paths`). The compiler counts conses in depth-first order and skips
    /// vectors; [`Numbering`](super::Numbering) determines whether quoted data and commas count.
    /// `None` for a form without a number.
    pub fn number(&self) -> Option<u32> {
        (self.number != NONE).then_some(self.number)
    }

    /// Returns the index range of all tokens inside, including those of inner forms and comments.
    pub fn tokens(&self) -> std::ops::Range<usize> {
        self.tokens.0 as usize..self.tokens.1 as usize
    }
}

/// A datum at top level. Its index in [`LispText::toplevel`] is its top-level form number in SBCL,
/// if `counted` is `true`.
#[derive(Debug, Clone)]
pub struct TopLevelForm {
    /// The range of the datum from its first character, without preceding comments or feature
    /// expressions.
    pub span: Range,
    /// The form; `None` if the datum is an atom.
    pub form: Option<FormId>,
    /// The package set by the last `in-package` (`ns` or `in-ns` in Clojure) before the datum;
    /// `None` if there is none.
    pub package: Option<Arc<str>>,
    /// Whether the form numbers certainly equal SBCL's. They may differ, for example, if the form
    /// contains `#.`, an unknown reader macro, or an uncertain feature expression.
    pub exact: bool,
    /// Whether the number of the top-level form certainly equals SBCL's. It may differ after a
    /// feature expression at top level with an uncertain value, such as `#+#.(…)` or
    /// `#+my-feature`.
    pub counted: bool,
    /// Whether the text ended, or another top-level form began, before this form was closed.
    pub unterminated: bool,
    pub(super) tokens: (u32, u32),
    pub(super) numbers: (u32, u32),
}

impl TopLevelForm {
    /// Returns the index range of all its tokens, including comments.
    pub fn tokens(&self) -> std::ops::Range<usize> {
        self.tokens.0 as usize..self.tokens.1 as usize
    }
}

/// A datum: an atom or a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datum {
    /// An atom, by its index among the tokens.
    Token(usize),
    /// Any other datum.
    Form(FormId),
}

/// A parsed Lisp text. It holds ranges, not the text, so methods with a `text` parameter need the
/// same bytes again.
#[derive(Debug, Clone)]
pub struct LispText {
    pub(super) dialect: Dialect,
    pub(super) tokens: Vec<Token>,
    pub(super) forms: Vec<Form>,
    pub(super) toplevel: Vec<TopLevelForm>,
    pub(super) numbers: Vec<FormId>,
    /// The range of each `#+` or `#-` that includes the next datum, with its feature expression.
    pub(super) guards: Vec<Range>,
    pub(super) balanced: bool,
}

impl LispText {
    /// Reads `text`. Accepts any bytes; time and memory are linear in their number. Ignores
    /// everything after the first 4 GiB.
    ///
    /// If a form is still open at the end, reads the text again with recovery: a parenthesis in
    /// column 0 then starts a top-level form, so that one missing parenthesis does not hide the
    /// rest of a file.
    pub fn read(text: &[u8], dialect: Dialect, features: &Features) -> LispText {
        let text = &text[..text.len().min(u32::MAX as usize - 1)];
        let read = LispReader::new(text, dialect, features, false).read();
        if read.toplevel.last().is_some_and(|last| last.unterminated) {
            return LispReader::new(text, dialect, features, true).read();
        }
        read
    }

    /// Returns the dialect.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Returns all tokens in order, including comments.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Returns all forms, in order of their starts.
    pub fn forms(&self) -> &[Form] {
        &self.forms
    }

    /// Returns the active data at top level, in order.
    pub fn toplevel(&self) -> &[TopLevelForm] {
        &self.toplevel
    }

    /// Returns whether all parentheses match, and all strings and block comments are closed.
    pub fn balanced(&self) -> bool {
        self.balanced
    }

    /// Returns the form with this id.
    pub fn form(&self, id: FormId) -> Option<&Form> {
        self.forms.get(id.index())
    }

    /// Returns the form with SBCL's form number `number` within `toplevel`, a top-level form of
    /// this text.
    pub fn numbered(&self, toplevel: &TopLevelForm, number: u32) -> Option<&Form> {
        let all = self.numbers.get(toplevel.numbers.0 as usize..toplevel.numbers.1 as usize)?;
        self.form(*all.get(number as usize)?)
    }

    /// Returns the number of forms in `toplevel` that have form numbers.
    pub fn numbered_count(&self, toplevel: &TopLevelForm) -> u32 {
        toplevel.numbers.1 - toplevel.numbers.0
    }

    /// Returns the top-level form that contains `offset`, or else the first one that starts after
    /// it. This finds the form for SBCL's `character-offset`, which precedes the whitespace and
    /// comments in front of a top-level form.
    pub fn toplevel_from(&self, offset: u32) -> Option<&TopLevelForm> {
        let index = self.toplevel.partition_point(|toplevel| toplevel.span.end <= offset);
        self.toplevel.get(index)
    }

    /// Returns the first element of a list if it is an atom: the operator of a call.
    pub fn head(&self, form: &Form) -> Option<&Token> {
        self.tokens.get(form.head as usize)
    }

    /// Returns the token of an element that is an atom.
    pub fn token(&self, datum: Datum) -> Option<&Token> {
        match datum {
            Datum::Token(index) => self.tokens.get(index),
            Datum::Form(_) => None,
        }
    }

    /// Returns the elements of an element that is a form; empty for an atom.
    pub fn parts(&self, datum: Datum) -> Vec<Datum> {
        match datum {
            Datum::Form(id) => self.elements(id).collect(),
            Datum::Token(_) => Vec::new(),
        }
    }

    /// Returns the elements of a form in order, without comments, feature expressions, Clojure
    /// metadata, and text that is excluded inside the form.
    pub fn elements(&self, id: FormId) -> impl Iterator<Item = Datum> + '_ {
        let active = self.form(id).is_some_and(|form| form.active);
        self.children(id).filter(move |&child| match child {
            Datum::Token(index) => self.tokens.get(index).is_some_and(|token| {
                token.active == active && !token.in_feature && token.kind != TokenKind::Comment
            }),
            Datum::Form(id) => {
                self.form(id).is_some_and(|form| form.active == active && form.kind != FormKind::Metadata)
            }
        })
    }

    /// Returns all tokens and forms directly inside a form, including comments, feature expressions
    /// and excluded text.
    pub(super) fn children(&self, id: FormId) -> impl Iterator<Item = Datum> + '_ {
        let (mut token, tokens_end) = self.form(id).map_or((0, 0), |form| form.tokens);
        let mut next_form = id.index() + 1;
        let forms_end = self.form(id).map_or(0, |form| form.forms_end as usize).min(self.forms.len());
        std::iter::from_fn(move || {
            let form = self.forms.get(next_form).filter(|_| next_form < forms_end);
            match form {
                Some(form) if form.tokens.0 <= token => {
                    let id = FormId::new(next_form);
                    next_form = (form.forms_end as usize).max(next_form + 1);
                    token = form.tokens.1.max(token);
                    Some(Datum::Form(id))
                }
                _ if token < tokens_end => {
                    token += 1;
                    Some(Datum::Token(token as usize - 1))
                }
                _ => None,
            }
        })
    }

    /// Returns the start of the feature expressions in front of the datum at `start`, or `start` if
    /// there are none.
    pub(super) fn guard_start(&self, start: u32) -> u32 {
        let before = self.guards.partition_point(|guard| guard.end <= start);
        let mut at = start;
        for guard in self.guards[..before].iter().rev() {
            let from = self.tokens.partition_point(|token| token.span.start < guard.end);
            let mut between = self.tokens[from..].iter().take_while(|token| token.span.start < at);
            if !between.all(|token| token.kind == TokenKind::Comment) {
                break;
            }
            at = guard.start;
        }
        at
    }

    /// Returns the range of a datum.
    pub fn span(&self, datum: Datum) -> Range {
        match datum {
            Datum::Token(index) => self.tokens.get(index).map(|token| token.span),
            Datum::Form(id) => self.form(id).map(|form| form.span),
        }
        .unwrap_or(Range::new(0, 0))
    }

    /// Returns the starts of the names of all parameters after `&key` that have no explicit
    /// keyword. Considers all lists, whether or not they are lambda lists.
    pub fn key_parameters(&self, text: &[u8]) -> BTreeSet<u32> {
        let marker = |token: &Token| text.get(token.span.start as usize) == Some(&b'&');
        let keys = self.tokens.iter().filter(|token| marker(token) && token.is_named(text, "&KEY"));
        let lists: BTreeSet<FormId> = keys.filter_map(|token| token.form).collect();
        let mut found = BTreeSet::new();
        for list in lists {
            let mut after_key = false;
            for datum in self.elements(list) {
                let name = match datum {
                    Datum::Token(index) => self.tokens.get(index),
                    Datum::Form(id) => self.form(id).and_then(|form| self.head(form)),
                };
                let Some(name) = name else { continue };
                match datum {
                    Datum::Token(_) if name.is_named(text, "&KEY") => after_key = true,
                    Datum::Token(_) if AFTER_KEYS.iter().any(|other| name.is_named(text, other)) => {
                        after_key = false
                    }
                    _ if after_key => drop(found.insert(name.span.start)),
                    _ => {}
                }
            }
        }
        found
    }

    /// Lists the last form that starts before `offset`, and the forms around that form, innermost
    /// first.
    pub fn forms_before(&self, offset: u32) -> impl Iterator<Item = FormId> + '_ {
        let last = self.forms.partition_point(|form| form.span.start < offset).checked_sub(1);
        std::iter::successors(last.map(FormId::new), |id| self.forms[id.index()].parent)
    }

    /// Returns the token at `offset`, if there is one.
    pub fn token_at(&self, offset: u32) -> Option<&Token> {
        let index = self.tokens.partition_point(|token| token.span.end <= offset);
        self.tokens.get(index).filter(|token| token.span.contains(offset))
    }
}
