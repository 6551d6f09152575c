//! The parser. It reads the bytes in one pass, with an explicit stack, so that deep nesting cannot
//! overflow the call stack.

mod lexer;

use super::features::outcome;
use super::text::{Datum, Form, FormId, FormKind, LispText, NONE, TopLevelForm};
use super::{Dialect, Features, Marker, Numbering, Range, Token, TokenKind};
use std::sync::Arc;

pub(super) struct LispReader<'a> {
    bytes: &'a [u8],
    at: usize,
    dialect: Dialect,
    features: &'a Features,
    /// Whether an opening parenthesis in column 0 starts a top-level form even if lists are open.
    recovering: bool,
    text: LispText,
    stack: Vec<OpenConstruct>,
    /// The number of [`FrameKind::List`] constructs on the stack.
    lists: usize,
    /// The number of [`FrameKind::Skip`] constructs on the stack.
    skipping: usize,
    /// The number of open constructs that depend on a feature expression with an uncertain value.
    guarded: usize,
    /// The number of feature expressions on the stack.
    testing: usize,
    /// The current package; `None` before the first `in-package`.
    package: Option<Arc<str>>,
    /// The value of [`TopLevelForm::exact`] for the current top-level form.
    exact: bool,
    /// The value of [`TopLevelForm::counted`] for the current top-level form.
    counted: bool,
}

/// The maximum depth of lists that SBCL numbers with [`Numbering::Data`].
const DEEPEST: u32 = 100;

/// An open construct on the parser's stack.
struct OpenConstruct {
    kind: FrameKind,
    /// The form of the construct, or the enclosing form if the construct has none.
    form: Option<FormId>,
}

#[derive(Clone, Copy, PartialEq)]
enum FrameKind {
    /// A list, up to its closing parenthesis.
    List { dotted: bool },
    /// A prefix that takes one datum.
    One,
    /// A feature expression that is not yet complete: `#+` (`true`) or `#-` (`false`), and the
    /// offset where it starts.
    Feature(bool, u32),
    /// The next datum is read but excluded. `certain`: the text alone shows that it is excluded.
    Skip { certain: bool },
    /// The next datum is included although the value of its feature expression is uncertain.
    Guarded,
}

impl<'a> LispReader<'a> {
    pub(super) fn new(bytes: &'a [u8], dialect: Dialect, features: &'a Features, recovering: bool) -> Self {
        let text = LispText {
            dialect,
            tokens: Vec::new(),
            forms: Vec::new(),
            toplevel: Vec::new(),
            numbers: Vec::new(),
            guards: Vec::new(),
            balanced: true,
        };
        LispReader {
            bytes,
            at: 0,
            dialect,
            features,
            recovering,
            text,
            stack: Vec::new(),
            lists: 0,
            skipping: 0,
            guarded: 0,
            testing: 0,
            package: None,
            exact: true,
            counted: true,
        }
    }

    pub(super) fn read(mut self) -> LispText {
        if self.bytes.starts_with(b"#!") {
            self.comment_to(self.line_end());
        }
        while let Some(&byte) = self.bytes.get(self.at) {
            self.step(byte);
        }
        self.abandon();
        self.text.tokens.shrink_to_fit();
        self.text.forms.shrink_to_fit();
        self.text
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn step(&mut self, byte: u8) {
        let clojure = self.dialect == Dialect::Clojure;
        match byte {
            _ if self.dialect.is_whitespace(byte) => self.at += 1,
            b';' => self.comment_to(self.line_end()),
            b'"' => self.string(1),
            b'\'' => self.prefix(FormKind::Quote, 1),
            b'`' => self.prefix(FormKind::Quasiquote, 1),
            b',' | b'~' if (byte == b'~') == clojure => match self.peek(1) {
                Some(b'@') => self.prefix(FormKind::UnquoteSplicing, 2),
                Some(b'.') if !clojure && self.dialect == Dialect::CommonLisp => {
                    self.prefix(FormKind::UnquoteSplicing, 2)
                }
                _ => self.prefix(FormKind::Unquote, 1),
            },
            b'@' if clojure => self.prefix(FormKind::Literal, 1),
            b'^' if clojure => self.prefix(FormKind::Metadata, 1),
            b'\\' if clojure => self.character(1),
            b'?' if self.dialect == Dialect::EmacsLisp => self.emacs_character(),
            b'#' => match self.dialect {
                Dialect::CommonLisp => self.sharp_common(),
                Dialect::EmacsLisp => self.sharp_emacs(),
                Dialect::Scheme => self.sharp_scheme(),
                Dialect::Clojure => self.sharp_clojure(),
            },
            _ if self.dialect.closing(byte).is_some() => {
                let emacs_vector = byte == b'[' && self.dialect == Dialect::EmacsLisp;
                self.open(if emacs_vector { FormKind::Literal } else { FormKind::List }, 1);
            }
            _ if self.dialect.is_closing(byte) => self.close(),
            _ => self.token(),
        }
    }

    fn enclosing(&self) -> Option<FormId> {
        self.stack.last().and_then(|frame| frame.form)
    }

    /// Starts a form at the current byte. `length` is the length of its opening characters.
    fn begin(&mut self, kind: FormKind, length: usize) -> FormId {
        let id = FormId::new(self.text.forms.len());
        let start = self.at as u32;
        let tokens = self.text.tokens.len() as u32;
        self.text.forms.push(Form {
            kind,
            span: Range { start, end: start },
            parent: self.enclosing(),
            active: self.skipping == 0 && self.testing == 0,
            elements: 0,
            tokens: (tokens, tokens),
            forms_end: 0,
            head: NONE,
            number: NONE,
            quote_seen: false,
            after_quote: false,
            spliced: false,
            descend: false,
        });
        self.at += length;
        id
    }

    fn open(&mut self, kind: FormKind, length: usize) {
        let column_zero = self.at == 0 || self.bytes[self.at - 1] == b'\n';
        if self.recovering && column_zero && self.lists > 0 {
            self.abandon();
        }
        let id = self.begin(kind, length);
        self.stack.push(OpenConstruct { kind: FrameKind::List { dotted: false }, form: Some(id) });
        self.lists += 1;
    }

    fn prefix(&mut self, kind: FormKind, length: usize) {
        let id = self.begin(kind, length);
        self.stack.push(OpenConstruct { kind: FrameKind::One, form: Some(id) });
    }

    fn end_form(&mut self, id: FormId, end: usize) {
        let tokens = self.text.tokens.len() as u32;
        let forms = self.text.forms.len() as u32;
        if let Some(form) = self.text.forms.get_mut(id.index()) {
            form.span.end = end as u32;
            form.tokens.1 = tokens;
            form.forms_end = forms;
        }
    }

    /// Pops the top construct and ends its form, if it has one.
    fn pop(&mut self) -> Option<OpenConstruct> {
        let frame = self.stack.pop()?;
        match frame.kind {
            FrameKind::List { .. } => self.lists -= 1,
            FrameKind::Feature(..) => self.testing -= 1,
            FrameKind::Skip { certain } => {
                self.skipping -= 1;
                self.guarded -= usize::from(!certain);
            }
            FrameKind::Guarded => self.guarded -= 1,
            FrameKind::One => {}
        }
        if let (FrameKind::List { .. } | FrameKind::One, Some(id)) = (frame.kind, frame.form) {
            self.end_form(id, self.at);
        }
        Some(frame)
    }

    /// Reads a closing parenthesis.
    fn close(&mut self) {
        if self.lists == 0 {
            self.text.balanced = false;
            self.at += 1;
            return;
        }
        while !matches!(self.stack.last(), None | Some(OpenConstruct { kind: FrameKind::List { .. }, .. })) {
            self.pop();
            self.exact = false;
        }
        self.at += 1;
        if let Some(id) = self.pop().and_then(|frame| frame.form) {
            self.complete(Datum::Form(id));
        }
    }

    /// Closes all open constructs at the end of the text or at the start of a new top-level form.
    /// Adds the outermost form as an unterminated top-level form if it is active.
    fn abandon(&mut self) {
        self.text.balanced &= self.lists == 0;
        let mut outermost = None;
        while let Some(frame) = self.pop() {
            outermost = frame.form.or(outermost);
        }
        self.exact = true;
        let toplevel = outermost.filter(|&id| self.text.form(id).is_some_and(|form| form.active));
        if let Some(id) = toplevel {
            self.exact = false;
            self.complete(Datum::Form(id));
            if let Some(last) = self.text.toplevel.last_mut() {
                last.unterminated = true;
            }
        }
    }

    /// Adds a complete datum to the innermost open list, completing any prefixes in front of the
    /// datum. Outside all lists, the datum becomes a top-level form. A feature expression is
    /// evaluated instead. An excluded datum and Clojure's metadata are dropped.
    fn complete(&mut self, mut datum: Datum) {
        while let Some(&mut OpenConstruct { ref mut kind, form }) = self.stack.last_mut() {
            match *kind {
                FrameKind::List { dotted } => {
                    if let Some(list) = form {
                        self.add_element(list, datum, dotted);
                    }
                    return;
                }
                FrameKind::One => {
                    let Some(id) = self.pop().and_then(|frame| frame.form) else { return };
                    if self.text.form(id).is_some_and(|form| form.kind == FormKind::Metadata) {
                        return;
                    }
                    datum = Datum::Form(id);
                }
                FrameKind::Feature(sense, start) => {
                    let outcome = outcome(self.features, &self.text, self.bytes, datum);
                    let certain = outcome.is_some_and(|outcome| outcome.certain);
                    self.exact &= certain;
                    self.pop();
                    self.counted &= certain || !self.stack.is_empty();
                    if outcome.is_some_and(|outcome| outcome.holds != sense) {
                        self.skip(certain);
                    } else {
                        if !certain {
                            self.guard();
                        }
                        self.text.guards.push(Range { start, end: self.at as u32 });
                    }
                    return;
                }
                FrameKind::Skip { .. } => {
                    self.pop();
                    return;
                }
                FrameKind::Guarded => drop(self.pop()),
            }
        }
        self.complete_toplevel(datum);
    }

    fn skip(&mut self, certain: bool) {
        let form = self.enclosing();
        self.stack.push(OpenConstruct { kind: FrameKind::Skip { certain }, form });
        self.skipping += 1;
        self.guarded += usize::from(!certain);
    }

    /// Marks the next datum as included by a feature expression with an uncertain value.
    fn guard(&mut self) {
        let form = self.enclosing();
        self.stack.push(OpenConstruct { kind: FrameKind::Guarded, form });
        self.guarded += 1;
    }

    fn add_element(&mut self, list: FormId, datum: Datum, dotted: bool) {
        let is_quote = match datum {
            Datum::Token(index) => self.text.tokens.get(index).is_some_and(|token| self.is_quote(token)),
            Datum::Form(_) => false,
        };
        let Some(form) = self.text.forms.get_mut(list.index()) else { return };
        if let (0, Datum::Token(index)) = (form.elements, datum) {
            form.head = index as u32;
        }
        form.elements += 1;
        let after_quote = form.quote_seen;
        form.quote_seen |= is_quote;
        if let Datum::Form(id) = datum
            && let Some(child) = self.text.forms.get_mut(id.index())
        {
            child.after_quote = after_quote;
            child.spliced = dotted;
        }
    }

    /// Returns whether a token is the symbol `quote`, without a prefix or with that of COMMON-LISP.
    fn is_quote(&self, token: &Token) -> bool {
        let raw = self.bytes.get(token.span.indices()).unwrap_or_default();
        let Some(tail) = raw.len().checked_sub(5).map(|at| &raw[at..]) else { return false };
        if !tail.eq_ignore_ascii_case(b"quote") || token.kind != TokenKind::Symbol {
            return false;
        }
        let symbol = token.symbol(self.bytes);
        let ours = match symbol.package.as_deref() {
            None => token.marker == Marker::None,
            Some(package) => matches!(package, "CL" | "COMMON-LISP"),
        };
        ours && symbol.name.eq_ignore_ascii_case("quote")
    }

    fn complete_toplevel(&mut self, datum: Datum) {
        let package = self.package.clone();
        let (span, form, tokens, numbers) = match datum {
            Datum::Token(index) => {
                let start = self.text.numbers.len() as u32;
                (self.text.span(datum), None, (index as u32, index as u32 + 1), (start, start))
            }
            Datum::Form(id) => {
                let numbers = self.number(id);
                self.note_package(id);
                let form = &self.text.forms[id.index()];
                (form.span, Some(id), form.tokens, numbers)
            }
        };
        let exact = std::mem::replace(&mut self.exact, true);
        let counted = self.counted;
        let toplevel =
            TopLevelForm { span, form, package, exact, counted, unterminated: false, tokens, numbers };
        self.text.toplevel.push(toplevel);
    }

    /// Numbers the conses of a top-level form as `sb-c::find-source-paths` does, depth first.
    ///
    /// With [`Numbering::Code`], the elements after the symbol `quote` in a list are not numbered,
    /// so quoted data has no numbers. A comma has no number; the form after it has one, unless the
    /// comma directly follows another comma. With [`Numbering::Data`], quoted data is numbered, and
    /// a comma counts as a list that contains its form; nothing nested deeper than [`DEEPEST`]
    /// lists is numbered.
    fn number(&mut self, toplevel: FormId) -> (u32, u32) {
        let start = self.text.numbers.len();
        let data = self.features.numbering == Numbering::Data;
        let mut depths: Vec<u32> = Vec::new();
        for index in toplevel.index()..self.text.forms.len() {
            let form = &self.text.forms[index];
            let parent = form.parent.filter(|&parent| parent >= toplevel);
            let depth = parent.and_then(|parent| depths.get(parent.index() - toplevel.index()));
            let depth = depth.map_or(0, |depth| depth + u32::from(!form.spliced));
            let parent = parent.map(|parent| &self.text.forms[parent.index()]);
            let reached =
                form.active && (data || !form.after_quote) && parent.is_none_or(|parent| parent.descend);
            let is_comma = |form: &Form| matches!(form.kind, FormKind::Unquote | FormKind::UnquoteSplicing);
            let comma = is_comma(form);
            let cons = match form.kind {
                FormKind::List => form.elements > 0,
                FormKind::Quote | FormKind::Function | FormKind::Quasiquote => true,
                _ => comma && data,
            };
            let descend = reached
                && match form.kind {
                    FormKind::List | FormKind::Function | FormKind::Quasiquote => true,
                    FormKind::Quote => data,
                    _ => comma && (data || !parent.is_some_and(is_comma)),
                }
                && (!data || depth < DEEPEST);
            let numbered = reached && cons && !form.spliced;
            if numbered {
                self.text.numbers.push(FormId::new(index));
            }
            let number = self.text.numbers.len() - start;
            let form = &mut self.text.forms[index];
            form.descend = descend;
            if numbered {
                form.number = number as u32 - 1;
            }
            if data {
                depths.push(depth);
            }
        }
        (start as u32, self.text.numbers.len() as u32)
    }

    /// Sets the current package if the form is `in-package` (`ns` or `in-ns` in Clojure), or a
    /// `progn` or `eval-when` that directly contains an `in-package` form.
    fn note_package(&mut self, id: FormId) {
        let Some(head) = self.head_name(id) else { return };
        match head.as_str() {
            "PROGN" | "EVAL-WHEN" => {
                let inner: Vec<_> = self.text.elements(id).collect();
                for datum in inner {
                    if let Datum::Form(id) = datum
                        && self.head_name(id).as_deref() == Some("IN-PACKAGE")
                    {
                        self.set_package(id);
                    }
                }
            }
            "IN-PACKAGE" | "ns" | "in-ns" => self.set_package(id),
            _ => {}
        }
    }

    fn head_name(&self, id: FormId) -> Option<String> {
        let form = self.text.form(id)?;
        let head = self.text.head(form).filter(|_| form.kind == FormKind::List)?;
        let name = head.symbol(self.bytes).name;
        let known = match self.dialect {
            Dialect::CommonLisp => ["IN-PACKAGE", "PROGN", "EVAL-WHEN"].as_slice(),
            Dialect::Clojure => ["ns", "in-ns"].as_slice(),
            _ => [].as_slice(),
        };
        known.contains(&name.as_ref()).then(|| name.into_owned())
    }

    fn set_package(&mut self, id: FormId) {
        let mut designator = self.text.elements(id).nth(1);
        if let Some(Datum::Form(inner)) = designator {
            designator = self.text.elements(inner).next();
        }
        let Some(Datum::Token(index)) = designator else { return };
        if let Some(name) = self.text.tokens.get(index).and_then(|token| token.designated(self.bytes)) {
            self.package = Some(name.into());
        }
    }
}
