//! The structural reader's result for a text.

use super::reader::LispReader;
use super::{Dialect, Features, Range, Token, TokenKind};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::Arc;

/// The place of a form in its [`LispText`], in the order in which forms start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FormId(NonZeroU32);

impl FormId {
    /// The form at `index` in [`LispText::forms`].
    pub fn new(index: usize) -> FormId {
        FormId(NonZeroU32::MIN.saturating_add(index as u32))
    }

    /// Index of the form in [`LispText::forms`].
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// The kinds of form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FormKind {
    /// A list, `nil` written `()` included; in Scheme and Clojure also one in brackets or braces.
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
    /// `#(…)`, `#1A…`, `#S(…)`, `#C(…)`, `#P"…"`, Emacs Lisp's `[…]`, Clojure's `@x`: a datum that is no list.
    Literal,
    /// `#.x`: what it stands for is known only after evaluation.
    ReadEval,
    /// Clojure's `^x`, which belongs to the next datum and is no element of the list around it.
    Metadata,
}

/// One form: a list, or what a macro character makes.
#[derive(Debug, Clone)]
pub struct Form {
    /// What it is.
    pub kind: FormKind,
    /// Its text, from the parenthesis or macro character to its end.
    pub span: Range,
    /// The form around it; `None` at top level.
    pub parent: Option<FormId>,
    /// False within what `#+`, `#-`, `#;` or `#_` leaves out, and for feature expressions themselves.
    pub active: bool,
    /// How many elements a list has. A dotted tail counts as one.
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

/// What ends the keyword parameters of a lambda list.
const AFTER_KEYS: [&str; 5] = ["&AUX", "&BODY", "&OPTIONAL", "&ENVIRONMENT", "&REST"];

/// The absence of a head in `Form::head`, or of a number in `Form::number`.
pub(super) const NONE: u32 = u32::MAX;

impl Form {
    /// The number that SBCL's compiler gives this form within its top-level form
    /// (`sb-c::find-source-paths`): conses in depth-first order, vectors left out, and quoted data and commas as
    /// [`Numbering`](super::Numbering) says.
    pub fn number(&self) -> Option<u32> {
        (self.number != NONE).then_some(self.number)
    }

    /// The indices of all tokens inside, those of inner forms and comments included.
    pub fn tokens(&self) -> std::ops::Range<usize> {
        self.tokens.0 as usize..self.tokens.1 as usize
    }
}

/// One datum at top level. The n-th is the one to which SBCL gives top-level form number n.
#[derive(Debug, Clone)]
pub struct TopLevelForm {
    /// Its text, from its first character, whatever stands in front left out.
    pub span: Range,
    /// The form, unless the datum is an atom.
    pub form: Option<FormId>,
    /// The package that `in-package` (`ns` in Clojure) made current here; `None` before the first.
    pub package: Option<Arc<str>>,
    /// Whether the form numbers are SBCL's for certain. They need not be when the form contains `#.`, an unknown
    /// reader macro, or an unknown feature expression.
    pub exact: bool,
    /// Whether its place among the top-level forms is SBCL's for certain. It is not after a feature expression at top
    /// level that only evaluation could decide, such as `#+#.(…)`.
    pub counted: bool,
    /// Whether the text ended, or another top-level form began, before this one was closed.
    pub unterminated: bool,
    pub(super) tokens: (u32, u32),
    pub(super) numbers: (u32, u32),
}

impl TopLevelForm {
    /// The indices of all its tokens, comments included.
    pub fn tokens(&self) -> std::ops::Range<usize> {
        self.tokens.0 as usize..self.tokens.1 as usize
    }
}

/// A datum inside a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Datum {
    /// An atom, by its index among the tokens.
    Token(usize),
    /// Anything else.
    Form(FormId),
}

/// A Lisp text, read. It holds spans, not the text: pass the same bytes again where they are asked for.
#[derive(Debug, Clone)]
pub struct LispText {
    pub(super) dialect: Dialect,
    pub(super) tokens: Vec<Token>,
    pub(super) forms: Vec<Form>,
    pub(super) toplevel: Vec<TopLevelForm>,
    pub(super) numbers: Vec<FormId>,
    /// `#+` and `#-`, each with its feature expression, whose datum is read.
    pub(super) guards: Vec<Range>,
    pub(super) balanced: bool,
}

impl LispText {
    /// Reads `text`. Any bytes are accepted; time and memory are linear in their number. Of a text of 4 GiB or
    /// more only what comes before is read.
    ///
    /// If a list is still open at the end, the text is read once more, and a parenthesis in column 0 is then taken
    /// for the start of a top-level form, so that one missing parenthesis does not hide the rest of a file.
    pub fn read(text: &[u8], dialect: Dialect, features: &Features) -> LispText {
        let text = &text[..text.len().min(u32::MAX as usize - 1)];
        let read = LispReader::new(text, dialect, features, false).read();
        if read.toplevel.last().is_some_and(|last| last.unterminated) {
            return LispReader::new(text, dialect, features, true).read();
        }
        read
    }

    /// Which Lisp it was read as.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// All tokens in order, comments included.
    pub fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// All forms in the order in which they start.
    pub fn forms(&self) -> &[Form] {
        &self.forms
    }

    /// The data at top level that are read, in order.
    pub fn toplevel(&self) -> &[TopLevelForm] {
        &self.toplevel
    }

    /// Whether every parenthesis has its partner.
    pub fn balanced(&self) -> bool {
        self.balanced
    }

    /// The form with this id.
    pub fn form(&self, id: FormId) -> Option<&Form> {
        self.forms.get(id.index())
    }

    /// The form to which SBCL gives `number` within `toplevel`, a top-level form of this text.
    pub fn numbered(&self, toplevel: &TopLevelForm, number: u32) -> Option<&Form> {
        let all = self.numbers.get(toplevel.numbers.0 as usize..toplevel.numbers.1 as usize)?;
        self.form(*all.get(number as usize)?)
    }

    /// How many forms of `toplevel` have numbers.
    pub fn numbered_count(&self, toplevel: &TopLevelForm) -> u32 {
        toplevel.numbers.1 - toplevel.numbers.0
    }

    /// The top-level form at `offset`, or else the first one that starts after it. SBCL's `character-offset` of a
    /// top-level form is taken before the whitespace and comments in front of it.
    pub fn toplevel_from(&self, offset: u32) -> Option<&TopLevelForm> {
        let index = self.toplevel.partition_point(|toplevel| toplevel.span.end <= offset);
        self.toplevel.get(index)
    }

    /// The first element of a list, if it is an atom: the operator of a call.
    pub fn head(&self, form: &Form) -> Option<&Token> {
        self.tokens.get(form.head as usize)
    }

    /// The elements of a form in order. Comments, feature expressions and what these leave out are no elements.
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

    /// Everything directly inside a form.
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

    /// Where the feature expressions in front of the datum at `start` begin, of which it is read; `start` without any.
    pub(super) fn guarded(&self, start: u32) -> u32 {
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

    /// The span of a datum.
    pub fn span(&self, datum: Datum) -> Range {
        match datum {
            Datum::Token(index) => self.tokens.get(index).map(|token| token.span),
            Datum::Form(id) => self.form(id).map(|form| form.span),
        }
        .unwrap_or(Range::new(0, 0))
    }

    /// Where the parameters after `&key` start that have no keyword of their own, in the text that was read: in all lists,
    /// whatever they are.
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

    /// The token at `offset`, if one stands there.
    pub fn token_at(&self, offset: u32) -> Option<&Token> {
        let index = self.tokens.partition_point(|token| token.span.end <= offset);
        self.tokens.get(index).filter(|token| token.span.contains(offset))
    }
}
