//! The reader itself: one pass over the bytes with a stack of its own, so that no nesting is too deep.

use super::features::holds;
use super::text::{Datum, Form, FormId, FormKind, LispText, NONE, Span, TopLevelForm};
use super::token::is_number;
use super::{Dialect, Features, Marker, Token, TokenKind};
use crate::source::lines::decode;
use std::sync::Arc;

pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    dialect: Dialect,
    features: &'a Features,
    /// Whether a parenthesis in column 0 starts a top-level form, whatever is open.
    recovering: bool,
    text: LispText,
    stack: Vec<Frame>,
    /// How many of the frames are lists.
    lists: usize,
    /// How many of the frames skip a datum.
    skipping: usize,
    /// How many of the frames read a feature expression.
    testing: usize,
    package: Option<Arc<str>>,
    exact: bool,
    counted: bool,
}

/// What the reader is inside of.
struct Frame {
    kind: FrameKind,
    /// The innermost form here.
    form: Option<FormId>,
}

#[derive(Clone, Copy, PartialEq)]
enum FrameKind {
    /// A list, to its closing parenthesis.
    List { dotted: bool },
    /// A prefix that takes one datum.
    One,
    /// `#+` (true) or `#-` (false), up to its feature expression.
    Feature(bool),
    /// A datum that is read and left out.
    Skip,
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8], dialect: Dialect, features: &'a Features, recovering: bool) -> Self {
        let text = LispText {
            dialect,
            tokens: Vec::new(),
            forms: Vec::new(),
            toplevel: Vec::new(),
            numbers: Vec::new(),
            balanced: true,
        };
        Reader {
            bytes,
            at: 0,
            dialect,
            features,
            recovering,
            text,
            stack: Vec::new(),
            lists: 0,
            skipping: 0,
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

    // Forms.

    fn enclosing(&self) -> Option<FormId> {
        self.stack.last().and_then(|frame| frame.form)
    }

    /// Starts a form at the current byte, of which `length` bytes are its opening.
    fn begin(&mut self, kind: FormKind, length: usize) -> FormId {
        let id = FormId::new(self.text.forms.len());
        let start = self.at as u32;
        let tokens = self.text.tokens.len() as u32;
        self.text.forms.push(Form {
            kind,
            span: Span { start, end: start },
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
        self.stack.push(Frame { kind: FrameKind::List { dotted: false }, form: Some(id) });
        self.lists += 1;
    }

    fn prefix(&mut self, kind: FormKind, length: usize) {
        let id = self.begin(kind, length);
        self.stack.push(Frame { kind: FrameKind::One, form: Some(id) });
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

    /// Takes the top frame off. A form that it was reading ends here.
    fn pop(&mut self) -> Option<Frame> {
        let frame = self.stack.pop()?;
        match frame.kind {
            FrameKind::List { .. } => self.lists -= 1,
            FrameKind::Feature(_) => self.testing -= 1,
            FrameKind::Skip => self.skipping -= 1,
            FrameKind::One => {}
        }
        if let (FrameKind::List { .. } | FrameKind::One, Some(id)) = (frame.kind, frame.form) {
            self.end_form(id, self.at);
        }
        Some(frame)
    }

    /// A closing parenthesis.
    fn close(&mut self) {
        if self.lists == 0 {
            self.text.balanced = false;
            self.at += 1;
            return;
        }
        while !matches!(self.stack.last(), None | Some(Frame { kind: FrameKind::List { .. }, .. })) {
            self.pop();
            self.exact = false;
        }
        self.at += 1;
        if let Some(id) = self.pop().and_then(|frame| frame.form) {
            self.complete(Datum::Form(id));
        }
    }

    /// Ends whatever is open: the text is at its end, or a new top-level form starts.
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

    /// A datum has been read: it belongs to whatever is open.
    fn complete(&mut self, mut datum: Datum) {
        while let Some(&mut Frame { ref mut kind, form }) = self.stack.last_mut() {
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
                FrameKind::Feature(sense) => {
                    let holds = holds(self.features, &self.text, self.bytes, datum);
                    self.exact &= holds.is_some();
                    self.pop();
                    self.counted &= holds.is_some() || !self.stack.is_empty();
                    if holds.is_some_and(|holds| holds != sense) {
                        self.skip();
                    }
                    return;
                }
                FrameKind::Skip => {
                    self.pop();
                    return;
                }
            }
        }
        self.complete_toplevel(datum);
    }

    fn skip(&mut self) {
        let form = self.enclosing();
        self.stack.push(Frame { kind: FrameKind::Skip, form });
        self.skipping += 1;
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

    /// Whether a token is `cl:quote`.
    fn is_quote(&self, token: &Token) -> bool {
        let raw = self.bytes.get(token.span.range()).unwrap_or_default();
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

    /// Numbers the conses of a top-level form as `sb-c::find-source-paths` does: depth first; nothing after the
    /// symbol `quote` in a list, so nothing in quoted data; a comma is looked through, but not two in a row.
    fn number(&mut self, toplevel: FormId) -> (u32, u32) {
        let start = self.text.numbers.len();
        for index in toplevel.index()..self.text.forms.len() {
            let form = &self.text.forms[index];
            let parent = form
                .parent
                .filter(|&parent| parent >= toplevel)
                .map(|parent| &self.text.forms[parent.index()]);
            let reached = form.active && !form.after_quote && parent.is_none_or(|parent| parent.descend);
            let comma = matches!(form.kind, FormKind::Unquote | FormKind::UnquoteSplicing);
            let parent_is_comma = parent
                .is_some_and(|parent| matches!(parent.kind, FormKind::Unquote | FormKind::UnquoteSplicing));
            let cons = match form.kind {
                FormKind::List => form.elements > 0,
                FormKind::Quote | FormKind::Function | FormKind::Quasiquote => true,
                _ => false,
            };
            let descend = reached
                && match form.kind {
                    FormKind::List | FormKind::Function | FormKind::Quasiquote => true,
                    _ => comma && !parent_is_comma,
                };
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
        }
        (start as u32, self.text.numbers.len() as u32)
    }

    /// Follows `(in-package …)` and `(ns …)`, also within `progn` and `eval-when`.
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

    // Tokens.

    fn push_token(&mut self, kind: TokenKind, start: usize, name_start: usize, marker: Marker) -> usize {
        let span = Span { start: start as u32, end: self.at as u32 };
        self.text.tokens.push(Token {
            kind,
            span,
            name_start: name_start as u32,
            marker,
            form: self.enclosing(),
            active: self.skipping == 0,
            in_feature: self.testing > 0,
            dialect: self.dialect,
        });
        self.text.tokens.len() - 1
    }

    /// A token that is a datum by itself, from `start` to here.
    fn atom(&mut self, kind: TokenKind, start: usize) {
        let index = self.push_token(kind, start, start, Marker::None);
        self.complete(Datum::Token(index));
    }

    fn line_end(&self) -> usize {
        memchr::memchr(b'\n', &self.bytes[self.at..]).map_or(self.bytes.len(), |length| self.at + length)
    }

    fn comment_to(&mut self, end: usize) {
        let start = self.at;
        self.at = end;
        self.push_token(TokenKind::Comment, start, start, Marker::None);
    }

    /// `#| … |#`, nested.
    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        let mut end = self.at;
        while let Some(found) = self.bytes.get(end..).and_then(|rest| memchr::memchr2(b'#', b'|', rest)) {
            end += found;
            match self.bytes.get(end..end + 2) {
                Some(b"#|") => (depth, end) = (depth + 1, end + 2),
                Some(b"|#") => (depth, end) = (depth - 1, end + 2),
                _ => end += 1,
            }
            if depth == 0 {
                return self.comment_to(end);
            }
        }
        self.text.balanced = false;
        self.comment_to(self.bytes.len());
    }

    /// A string whose opening is `opening` bytes long.
    fn string(&mut self, opening: usize) {
        let start = self.at;
        self.at += opening;
        loop {
            match memchr::memchr2(b'"', b'\\', &self.bytes[self.at..]) {
                Some(found) if self.bytes[self.at + found] == b'"' => {
                    self.at += found + 1;
                    break;
                }
                Some(found) => self.at = (self.at + found + 2).min(self.bytes.len()),
                None => {
                    self.text.balanced = false;
                    self.at = self.bytes.len();
                    break;
                }
            }
        }
        self.atom(TokenKind::String, start);
    }

    /// Skips one character, however many bytes it has.
    fn skip_character(&mut self) {
        self.at = (self.at + 1).min(self.bytes.len());
        while self.peek(0).is_some_and(|byte| byte & 0xc0 == 0x80) {
            self.at += 1;
        }
    }

    /// Skips constituents and escapes. Says whether there were escapes.
    fn skip_constituents(&mut self) -> bool {
        let mut escaped = false;
        while let Some(byte) = self.peek(0) {
            if byte == b'\\' && self.dialect.has_single_escape() {
                escaped = true;
                self.at += 1;
                self.skip_character();
            } else if byte == b'|' && self.dialect.has_multiple_escape() {
                escaped = true;
                self.at += 1;
                while let Some(byte) = self.peek(0) {
                    self.at += 1;
                    if byte == b'|' {
                        break;
                    }
                    if byte == b'\\' {
                        self.skip_character();
                    }
                }
            } else if self.dialect.is_constituent(byte) {
                self.at += 1;
            } else {
                break;
            }
        }
        escaped
    }

    /// `#\x` or Clojure's `\x`, whose opening is `opening` bytes long.
    fn character(&mut self, opening: usize) {
        let start = self.at;
        self.at += opening;
        self.skip_character();
        self.skip_constituents();
        self.atom(TokenKind::Character, start);
    }

    /// `?a`, `?\(`, `?\C-x`.
    fn emacs_character(&mut self) {
        let start = self.at;
        self.at += 1;
        if self.peek(0) == Some(b'\\') {
            self.at += 1;
            self.skip_character();
            self.skip_constituents();
        } else {
            self.skip_character();
        }
        self.atom(TokenKind::Character, start);
    }

    fn token(&mut self) {
        let start = self.at;
        let escaped = self.skip_constituents();
        if self.at == start {
            // A byte that means nothing to this reader.
            self.at += 1;
            return;
        }
        let raw = &self.bytes[start..self.at];
        if raw == b"." && self.dialect != Dialect::Clojure {
            if let Some(Frame { kind: FrameKind::List { dotted }, .. }) = self.stack.last_mut() {
                *dotted = true;
            }
            return;
        }
        if !escaped && is_number(raw) {
            return self.atom(TokenKind::Number, start);
        }
        self.symbol(start, start);
    }

    /// A symbol from `start` to here, of which `from` is the first byte that can belong to a package marker.
    fn symbol(&mut self, start: usize, from: usize) {
        let raw = &self.bytes[from..self.at];
        let (name, marker) = match self.dialect {
            Dialect::CommonLisp => split_package(raw),
            Dialect::Clojure => split_namespace(raw),
            Dialect::EmacsLisp if raw.len() > 1 && raw[0] == b':' => (1, Marker::Keyword),
            _ => (0, Marker::None),
        };
        let index = self.push_token(TokenKind::Symbol, start, from + name, marker);
        // SBCL reads `package::(form)` with that package current: the prefix is no datum.
        let prefixes_form = marker == Marker::Internal && name == raw.len() && self.peek(0) == Some(b'(');
        if !prefixes_form {
            self.complete(Datum::Token(index));
        }
    }

    // The dispatching macro character `#`.

    fn feature(&mut self, sense: bool, length: usize) {
        self.at += length;
        let form = self.enclosing();
        self.stack.push(Frame { kind: FrameKind::Feature(sense), form });
        self.testing += 1;
    }

    /// A number with a radix, a bit vector, a label's use: an atom that goes on while constituents do.
    fn number_token(&mut self, length: usize) {
        let start = self.at;
        self.at += length;
        self.skip_constituents();
        self.atom(TokenKind::Number, start);
    }

    fn sharp_common(&mut self) {
        let digits = self.bytes[self.at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let length = digits + 2;
        let Some(byte) = self.peek(digits + 1) else {
            self.at = self.bytes.len();
            return;
        };
        match byte.to_ascii_lowercase() {
            b'|' => {
                self.at += digits;
                self.block_comment();
            }
            b'\\' => self.character(length),
            b'\'' => self.prefix(FormKind::Function, length),
            b'(' => self.open(FormKind::Literal, length),
            b'*' | b'b' | b'o' | b'x' | b'r' => self.number_token(length),
            b':' => {
                let start = self.at;
                self.at += length;
                self.skip_constituents();
                let index = self.push_token(TokenKind::Symbol, start, start + length, Marker::Uninterned);
                self.complete(Datum::Token(index));
            }
            b'.' => {
                self.exact &= self.skipping > 0;
                self.prefix(FormKind::ReadEval, length);
            }
            b'+' => self.feature(true, length),
            b'-' => self.feature(false, length),
            b'a' | b'c' | b'p' | b's' => self.prefix(FormKind::Literal, length),
            b'=' if digits > 0 => self.at += length,
            b'#' if digits > 0 => {
                let start = self.at;
                self.at += length;
                self.atom(TokenKind::Number, start);
            }
            other => {
                // A reader macro of the program's own, or an error: read on after it.
                self.exact &= self.skipping > 0;
                let ends_here = self.dialect.is_terminating(other) || self.dialect.is_whitespace(other);
                self.at += if ends_here || !other.is_ascii() { digits + 1 } else { length };
            }
        }
    }

    fn sharp_emacs(&mut self) {
        match self.peek(1) {
            Some(b'\'') => self.prefix(FormKind::Function, 2),
            Some(b'(' | b'[') => self.open(FormKind::Literal, 2),
            Some(b's') if self.peek(2) == Some(b'(') => self.open(FormKind::Literal, 3),
            _ => self.sharp_token(),
        }
    }

    fn sharp_scheme(&mut self) {
        match self.peek(1) {
            Some(b';') => {
                self.at += 2;
                self.skip();
            }
            Some(b'|') => self.block_comment(),
            Some(b'\\') => self.character(2),
            Some(b'\'') => self.prefix(FormKind::Quote, 2),
            Some(b'`') => self.prefix(FormKind::Quasiquote, 2),
            Some(b',') => self.prefix(FormKind::Unquote, 2),
            Some(b'(' | b'[') => self.open(FormKind::Literal, 2),
            Some(b'"') => self.string(2),
            _ => self.sharp_token(),
        }
    }

    fn sharp_clojure(&mut self) {
        match self.peek(1) {
            Some(b'_') => {
                self.at += 2;
                self.skip();
            }
            Some(b'!') => self.comment_to(self.line_end()),
            Some(b'"') => self.string(2),
            Some(b'\'') => self.prefix(FormKind::Function, 2),
            Some(b'^') => self.prefix(FormKind::Metadata, 2),
            Some(b'(') => self.open(FormKind::List, 2),
            Some(b'{') => self.open(FormKind::Literal, 2),
            Some(b'?') => self.at += if self.peek(2) == Some(b'@') { 3 } else { 2 },
            _ => self.sharp_token(),
        }
    }

    /// A token that starts with `#`, such as `#t`, `#u8`, `#inst`.
    fn sharp_token(&mut self) {
        let start = self.at;
        self.at += 1;
        self.skip_constituents();
        self.symbol(start, start);
    }
}

/// Where the name starts in a token of Common Lisp, and what stands before it.
fn split_package(raw: &[u8]) -> (usize, Marker) {
    let mut quoted = false;
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        match byte {
            b'\\' => at += 1,
            b'|' => quoted = !quoted,
            b':' if !quoted => {
                let colons = raw[at..].iter().take_while(|&&byte| byte == b':').count();
                return match (at, colons) {
                    (0, _) => (colons, Marker::Keyword),
                    (_, 1) => (at + 1, Marker::External),
                    _ => (at + colons, Marker::Internal),
                };
            }
            _ => {}
        }
        at += 1;
    }
    (0, Marker::None)
}

/// The same for Clojure, where `namespace/name` and `::keyword` are written.
fn split_namespace(raw: &[u8]) -> (usize, Marker) {
    let colons = raw.iter().take_while(|&&byte| byte == b':').count();
    if colons > 0 {
        return (colons, Marker::Keyword);
    }
    match raw.iter().position(|&byte| byte == b'/') {
        Some(at) if at > 0 && at + 1 < raw.len() => (at + 1, Marker::External),
        _ => (0, Marker::None),
    }
}

impl Token {
    /// The string that this token designates, as `string` does for symbols, characters and strings.
    pub(crate) fn designated(&self, text: &[u8]) -> Option<String> {
        match self.kind {
            TokenKind::Symbol => Some(self.symbol(text).name.into_owned()),
            TokenKind::String => {
                let raw = text.get(self.span.range())?.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
                Some(decode(raw).replace('\\', ""))
            }
            _ => None,
        }
    }
}
