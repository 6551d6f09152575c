//! Scans a text for names and package definitions.

use std::collections::HashSet;
use std::sync::Arc;

use steelbank_reader::lines::decode;
use steelbank_reader::operators::{ClauseWords, defines_package, names_symbol_at, takes_symbols};
use steelbank_reader::{
    Datum, FormId, FormKind, LispText, Marker, NonCalls, Range, Token, TokenKind, normalized, upcase,
};

use super::{FileTokens, PackageText, TextContext, TextToken, TokenClass};
use crate::store::segment::{KeyHashing, KeyMap};

/// Scans `text`, the decoded text of a file. `lisp` is the result of parsing it.
pub(super) fn scan(text: &[u8], lisp: &LispText) -> FileTokens {
    let mut scan = Scan {
        text,
        lisp,
        operators: operators(text, lisp),
        none: NonCalls::of(lisp, text),
        known: KeyMap::default(),
        classes: HashSet::default(),
        last: None,
        toplevel: 0,
        word: String::new(),
        tokens: FileTokens::default(),
    };
    scan.packages();
    scan.tokens();
    scan.tokens
}

struct Scan<'a> {
    text: &'a [u8],
    lisp: &'a LispText,
    /// The properties of each form's operator, by the form's index.
    operators: Vec<FormOperator>,
    /// The lists that are not calls.
    none: NonCalls,
    /// The names of packages, shared between tokens.
    known: KeyMap<Box<str>, Arc<str>>,
    /// The token classes, shared between tokens.
    classes: HashSet<Arc<TokenClass>, KeyHashing>,
    /// The class of the previous token; the next token often has the same class.
    last: Option<Arc<TokenClass>>,
    /// The index of the top-level form that contains the current token.
    toplevel: usize,
    /// A reusable buffer for the name of a word.
    word: String,
    tokens: FileTokens,
}

/// The properties of a form's operator. All except `is_keyword` follow from its name.
#[derive(Debug, Clone, Copy, Default)]
struct FormOperator {
    /// Whether its name begins with DEF.
    defines: bool,
    /// The number of elements before a method's qualifiers and lambda list, for `(defmethod name
    /// …)` and `(:method …)`.
    method: Option<usize>,
    is_setf: bool,
    is_symbol_call: bool,
    defines_package: bool,
    takes_symbols: bool,
    is_keyword: bool,
    reads: Option<InString>,
}

impl FormOperator {
    fn new(name: &str) -> FormOperator {
        FormOperator {
            defines: name.starts_with("DEF"),
            method: match name {
                "DEFMETHOD" => Some(2),
                "METHOD" => Some(1),
                _ => None,
            },
            is_setf: name == "SETF",
            is_symbol_call: name == "SYMBOL-CALL",
            defines_package: defines_package(name),
            takes_symbols: takes_symbols(name),
            is_keyword: false,
            reads: reads(name),
        }
    }
}

/// Returns the properties of every form's operator.
fn operators(text: &[u8], lisp: &LispText) -> Vec<FormOperator> {
    let mut known: KeyMap<&[u8], FormOperator> = KeyMap::default();
    let forms = lisp.forms().iter().map(|form| {
        let head = lisp.head(form).filter(|head| head.kind == TokenKind::Symbol)?;
        let written = text.get(head.name_span().indices())?;
        let operator = *known.entry(written).or_insert_with(|| FormOperator::new(&head.symbol(text).name));
        Some(FormOperator { is_keyword: head.marker == Marker::Keyword, ..operator })
    });
    forms.map(Option::unwrap_or_default).collect()
}

/// Returns which words of a constant string name symbols if the string is an argument of
/// `operator`.
fn reads(operator: &str) -> Option<InString> {
    match operator {
        "READ-FROM-STRING" | "SAFE-READ-FROM-STRING" | "EVAL-INPUT" | "EVAL-STRING" => Some(InString::All),
        "FORMAT" | "FORMATTER" | "ERROR" | "WARN" | "CERROR" | "SIGNAL" => Some(InString::Directives),
        _ => None,
    }
}

/// The words in a string that name symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InString {
    /// All words: the string is code.
    All,
    /// The words in `~/name/`.
    Directives,
    /// The words in `${name}` and `@{name}`.
    Interpolated,
}

impl<'a> Scan<'a> {
    fn shared(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.known.get(name) {
            return Arc::clone(known);
        }
        let shared: Arc<str> = Arc::from(name);
        self.known.insert(name.into(), Arc::clone(&shared));
        shared
    }

    /// Returns the shared class equal to `class`.
    fn class(&mut self, class: TokenClass) -> Arc<TokenClass> {
        if let Some(last) = self.last.as_ref().filter(|last| ***last == class) {
            return Arc::clone(last);
        }
        let shared = match self.classes.get(&class) {
            Some(known) => Arc::clone(known),
            None => Arc::new(class),
        };
        self.classes.insert(Arc::clone(&shared));
        self.last = Some(Arc::clone(&shared));
        shared
    }

    fn operator(&self, id: FormId) -> FormOperator {
        self.operators.get(id.index()).copied().unwrap_or_default()
    }

    /// Returns the name of the operator of the form `id`.
    fn operator_name(&self, id: FormId) -> Option<String> {
        let head = self.lisp.head(self.lisp.form(id)?)?;
        (head.kind == TokenKind::Symbol).then(|| head.symbol(self.text).name.into_owned())
    }

    fn designated(&self, datum: Datum) -> Option<String> {
        match datum {
            Datum::Token(index) => self.lisp.tokens().get(index)?.designated(self.text),
            // Unwrap a quoted name.
            Datum::Form(id) => match self.lisp.elements(id).next()? {
                inner @ Datum::Token(_) => self.designated(inner),
                Datum::Form(_) => None,
            },
        }
    }

    /// Reads all forms that define packages, at any depth.
    fn packages(&mut self) {
        for index in 0..self.lisp.forms().len() {
            let id = FormId::new(index);
            if self.operator(id).defines_package {
                let mut elements = self.lisp.elements(id).skip(1);
                let Some(name) = elements.next().and_then(|datum| self.designated(datum)) else { continue };
                let mut package = PackageText { names: vec![name], ..PackageText::default() };
                for clause in elements {
                    match clause {
                        Datum::Form(clause) => self.clause(clause, &mut package),
                        Datum::Token(_) => package.is_open = true,
                    }
                }
                self.tokens.packages.push(package);
            }
        }
    }

    fn clause(&self, clause: FormId, package: &mut PackageText) {
        let Some(kind) = self.operator_name(clause) else {
            package.is_open = true;
            return;
        };
        let rest = || self.lisp.elements(clause).skip(1);
        let mut names = rest().filter_map(|datum| self.designated(datum));
        match kind.as_str() {
            "NICKNAMES" => package.names.extend(names),
            "USE" | "USE-REEXPORT" | "MIX" | "MIX-REEXPORT" | "REEXPORT" => package.uses.extend(names),
            "SHADOW" => package.shadows.extend(names),
            "IMPORT-FROM" | "SHADOWING-IMPORT-FROM" => {
                if let Some(from) = names.next() {
                    package.imports.extend(names.map(|name| (name, from.clone())));
                }
            }
            "LOCAL-NICKNAMES" => {
                for pair in rest() {
                    let Datum::Form(pair) = pair else { continue };
                    let mut pair = self.lisp.elements(pair).filter_map(|datum| self.designated(datum));
                    if let (Some(nickname), Some(name)) = (pair.next(), pair.next()) {
                        package.local_nicknames.push((nickname, name));
                    }
                }
            }
            "EXPORT" | "INTERN" | "DOCUMENTATION" | "SIZE" | "LOCK" | "UNEXPORT" => {}
            _ => package.is_open = true,
        }
    }

    fn tokens(&mut self) {
        let lisp = self.lisp;
        for token in lisp.tokens() {
            match token.kind {
                TokenKind::Symbol => self.symbol(token),
                TokenKind::String => self.string(token),
                TokenKind::Comment => self.words(token, &TextContext::Comment, None),
                TokenKind::Number | TokenKind::Character => {}
            }
        }
    }

    /// Returns the current package at `token`. Must be called with ascending tokens.
    fn current(&mut self, token: &Token) -> Option<Arc<str>> {
        let all = self.lisp.toplevel();
        while all.get(self.toplevel).is_some_and(|top| top.span.end <= token.span.start) {
            self.toplevel += 1;
        }
        all.get(self.toplevel).or(all.last()).and_then(|top| top.package.clone())
    }

    fn symbol(&mut self, token: &Token) {
        let symbol = token.symbol(self.text);
        let prefix = symbol.package.map(|package| self.shared(&package));
        let package = self.current(token);
        let context = match token.marker {
            Marker::None if self.is_loop_word(token, &symbol.name) => TextContext::Prose,
            Marker::None if token.form.is_some_and(|id| self.none.has_generic_parameters(id)) => {
                TextContext::Parameter
            }
            Marker::None | Marker::External | Marker::Internal => TextContext::Code,
            Marker::Keyword | Marker::Uninterned => match self.designator(token) {
                Some(context) => context,
                None => TextContext::Code,
            },
        };
        let (active, guarded, defines) = (token.active, token.guarded, self.is_defined(token));
        let class = TokenClass { marker: token.marker, prefix, package, context, active, guarded, defines };
        let entry = TextToken {
            span: token.span,
            name_start: token.name_start,
            calls: self.is_operator(token),
            names: self.is_quoted(token) || self.is_specializer(token),
            class: self.class(class),
        };
        self.tokens.add(&symbol.name, entry);
    }

    fn is_operator(&self, token: &Token) -> bool {
        let form = token.form.filter(|id| !self.none.contains(*id)).and_then(|id| self.lisp.form(id));
        form.is_some_and(|form| match form.kind {
            FormKind::Function => true,
            FormKind::List => self.lisp.head(form).is_some_and(|head| head.span == token.span),
            _ => false,
        })
    }

    /// Returns whether `token` is a keyword of an extended LOOP, and not the variable or form after
    /// a keyword.
    fn is_loop_word(&self, token: &Token, name: &str) -> bool {
        // A list or another keyword usually follows these keywords. An atom after them that is
        // itself a keyword of LOOP therefore counts as one.
        const ALONE: [&str; 10] =
            ["AND", "BEING", "DO", "DOING", "EACH", "ELSE", "END", "FINALLY", "INITIALLY", "THE"];
        let Some(id) = token.form.filter(|_| ClauseWords::Loop.contains(name)) else { return false };
        if self.operator_name(id).as_deref() != Some("LOOP") {
            return false;
        }
        let mut parts = self.lisp.elements(id).skip(1).peekable();
        let mut is_argument = !matches!(parts.peek(), Some(Datum::Token(_)));
        for part in parts {
            let found = self.lisp.token(part);
            let word = found.filter(|_| !is_argument).map(|found| found.symbol(self.text).name);
            let word = word.filter(|word| ClauseWords::Loop.contains(word));
            if found.is_some_and(|found| found.span == token.span) {
                return word.is_some();
            }
            is_argument = word.is_some_and(|word| !ALONE.contains(&word.as_ref()));
        }
        false
    }

    fn is_quoted(&self, token: &Token) -> bool {
        let form = token.form.and_then(|id| self.lisp.form(id));
        form.is_some_and(|form| form.kind == FormKind::Quote)
    }

    /// Returns whether `token` is a specializer, as in `(defmethod name ((parameter token)))`.
    fn is_specializer(&self, token: &Token) -> bool {
        let Some(id) = token.form else { return false };
        let lambda_list = self.lisp.form(id).and_then(|form| form.parent);
        let method = lambda_list.and_then(|list| self.lisp.form(list)?.parent);
        let mut elements = self.lisp.elements(id);
        let before = method.and_then(|id| self.operator(id).method);
        before.is_some()
            && elements.nth(1).is_some_and(|datum| self.lisp.span(datum) == token.span)
            && elements.next().is_none()
            && lambda_list.is_some_and(|list| {
                let lists = method.into_iter().flat_map(|method| self.lisp.elements(method));
                let lists = lists.skip(before.unwrap_or_default());
                lists.into_iter().find(|datum| matches!(datum, Datum::Form(_))) == Some(Datum::Form(list))
            })
    }

    /// Returns whether a form `(def… token)`, `(def… (setf token))` or `(def… (token …))` defines
    /// `token`.
    fn is_defined(&self, token: &Token) -> bool {
        let by = |id: FormId, span: Range| {
            self.operator(id).defines
                && self.lisp.elements(id).nth(1).is_some_and(|datum| self.lisp.span(datum) == span)
        };
        let Some(id) = token.form else { return false };
        by(id, token.span)
            || self.lisp.form(id).is_some_and(|form| {
                form.parent.is_some_and(|parent| by(parent, form.span))
                    && self.operator(id).is_setf
            })
            // Accept a name with options, as in `(defstruct (name …) …)`.
            || self.lisp.form(id).is_some_and(|form| {
                form.parent.is_some_and(|parent| by(parent, form.span))
                    && self.lisp.head(form).is_some_and(|head| head.span == token.span)
            })
    }

    fn string(&mut self, token: &Token) {
        let context = self.designator(token);
        if let (Some(context @ (TextContext::Package { .. } | TextContext::Lookup(_))), Some(name)) =
            (context.clone(), token.designated(self.text))
        {
            let package = self.current(token);
            let name_start = token.span.start + 1;
            let class = self.class(TokenClass {
                marker: Marker::None,
                prefix: None,
                package,
                context,
                active: token.active,
                guarded: token.guarded,
                defines: false,
            });
            let entry = TextToken { span: token.span, name_start, calls: false, names: false, class };
            return self.tokens.add(&name, entry);
        }
        let before = self.text.get(..token.span.start as usize).unwrap_or_default();
        let read = match before.ends_with(b"#?") {
            true => Some(InString::Interpolated),
            false => self.read_by(token).or(self.is_qualified_name(token).then_some(InString::All)),
        };
        self.words(token, &TextContext::Prose, read);
    }

    /// Returns whether a string consists of just a symbol with a package prefix. Such a string is
    /// probably read as a symbol.
    fn is_qualified_name(&self, token: &Token) -> bool {
        let inside = self.text.get(token.span.indices()).and_then(|text| text.strip_prefix(b"\""));
        let Some(inside) = inside.and_then(|text| text.strip_suffix(b"\"")) else { return false };
        let colons = |text: &[u8]| text.iter().take_while(|&&byte| byte == b':').count();
        let (prefix, rest) = inside.split_at(memchr::memchr(b':', inside).unwrap_or(0));
        let name = &rest[colons(rest)..];
        let is_part = |&byte: &u8| is_part_of_name(byte) && byte != b':';
        !prefix.is_empty() && colons(rest) <= 2 && !name.is_empty() && prefix.iter().chain(name).all(is_part)
    }

    /// Returns which words of a string name symbols because the operator of the form that contains
    /// the string, or of the form around that form, reads it.
    fn read_by(&self, token: &Token) -> Option<InString> {
        let inner = token.form?;
        let around = [Some(inner), self.lisp.form(inner)?.parent];
        around.into_iter().flatten().find_map(|id| self.operator(id).reads)
    }

    /// Returns the context of a keyword, uninterned symbol or string that designates another
    /// symbol, if the enclosing forms show that it does.
    fn designator(&mut self, token: &Token) -> Option<TextContext> {
        let lisp = self.lisp;
        let inner = token.form?;
        let mut at = Some(inner);
        let mut clause: Option<FormId> = None;
        let mut steps = 0;
        // Limit the depth: every token searches its enclosing forms, and lists can be nested as
        // deeply as the text is long.
        while let Some(id) = at.filter(|_| steps < 16) {
            let form = lisp.form(id)?;
            let operator = self.operator(id);
            if operator.defines_package {
                return self.in_package_definition(id, clause, token);
            }
            if steps < 3 && !operator.is_keyword && operator.takes_symbols {
                let arguments: Vec<Datum> = lisp.elements(id).skip(1).collect();
                let at = arguments.iter().position(|&datum| lisp.span(datum).contains(token.span.start))?;
                // The adjacent argument names the package.
                let name = self.operator_name(id)?;
                return names_symbol_at(&name, at)
                    .then(|| TextContext::Lookup(self.adjacent_package(id, &arguments, at)));
            }
            clause = Some(id);
            at = form.parent;
            steps += 1;
        }
        None
    }

    fn in_package_definition(
        &mut self,
        definition: FormId,
        clause: Option<FormId>,
        token: &Token,
    ) -> Option<TextContext> {
        let name = self.lisp.elements(definition).nth(1).and_then(|datum| self.designated(datum))?;
        let package = self.shared(&name);
        let clause = clause?;
        let kind = self.operator_name(clause)?;
        let first = self.lisp.elements(clause).nth(1);
        let is_first = first.is_some_and(|datum| self.lisp.span(datum) == token.span);
        match kind.as_str() {
            "IMPORT-FROM" | "SHADOWING-IMPORT-FROM" if !is_first => {
                let from = first.and_then(|datum| self.designated(datum))?;
                let from = self.shared(&from);
                Some(TextContext::Package { package, from: Some(from) })
            }
            "EXPORT" | "INTERN" | "SHADOW" | "UNEXPORT" => Some(TextContext::Package { package, from: None }),
            _ => None,
        }
    }

    /// Returns the package that the argument next to argument number `at` names: the previous
    /// argument for SYMBOL-CALL, otherwise the following argument.
    fn adjacent_package(&mut self, form: FormId, arguments: &[Datum], at: usize) -> Option<Arc<str>> {
        let beside = if self.operator(form).is_symbol_call { at.checked_sub(1)? } else { at + 1 };
        let name = self.designated(*arguments.get(beside)?)?;
        Some(self.shared(&name))
    }

    /// Adds the words of a string or comment.
    fn words(&mut self, token: &Token, context: &TextContext, read: Option<InString>) {
        let (start, end) = (token.span.start as usize, token.span.end as usize);
        let Some(inside) = self.text.get(start..end) else { return };
        let package = self.current(token);
        let mut at = 0;
        while at < inside.len() {
            if !is_part_of_name(inside[at]) {
                at += 1;
                continue;
            }
            let length = inside[at..].iter().take_while(|&&byte| is_part_of_name(byte)).count();
            let word = at..at + length;
            at += length;
            let text = &inside[word.clone()];
            let is_read = match read {
                Some(InString::All) => true,
                Some(InString::Interpolated) => is_interpolated(&inside[..word.start]),
                Some(InString::Directives) | None => false,
            };
            let context = if is_read { &TextContext::Read } else { context };
            self.word(text, start + word.start, token, context, package.as_ref());
            // Also add the pieces between slashes, as in `~/name/` or `a/b`.
            if text.contains(&b'/') {
                let mut from = 0;
                for piece in text.split(|&byte| byte == b'/') {
                    let directive = read == Some(InString::Directives) && is_directive(&text[..from]);
                    let context = if directive { &TextContext::Read } else { context };
                    // Without a prefix, FORMAT looks up the name in `~/name/` in CL-USER.
                    let package =
                        if directive { Some(self.shared("COMMON-LISP-USER")) } else { package.clone() };
                    self.word(piece, start + word.start + from, token, context, package.as_ref());
                    from += piece.len() + 1;
                }
            }
        }
    }

    fn word(
        &mut self,
        word: &[u8],
        start: usize,
        token: &Token,
        context: &TextContext,
        package: Option<&Arc<str>>,
    ) {
        // Strip punctuation around a name in prose.
        let front = word.iter().take_while(|&&byte| b"~@".contains(&byte)).count();
        let back = word.iter().rev().take_while(|&&byte| b".:?!,".contains(&byte)).count();
        if front + back >= word.len() {
            return;
        }
        let (word, start) = (&word[front..word.len() - back], start + front);
        let colon = word.iter().position(|&byte| byte == b':');
        let colons = colon.map_or(0, |at| word[at..].iter().take_while(|&&byte| byte == b':').count());
        let name_at = colon.map_or(0, |at| at + colons);
        let mut name = std::mem::take(&mut self.word);
        name.clear();
        name.extend(normalized(&decode(&word[name_at..])).chars().map(upcase));
        if !name.bytes().all(|byte| !byte.is_ascii_alphabetic() && byte < 0x80) {
            let marker = match (colon, colons) {
                (None, _) => Marker::None,
                (Some(0), _) => Marker::Keyword,
                (Some(_), 1) => Marker::External,
                (Some(_), _) => Marker::Internal,
            };
            let prefix = colon.filter(|&at| at > 0).map(|at| {
                let prefix: String = decode(&word[..at]).chars().map(upcase).collect();
                self.shared(&prefix)
            });
            let class = self.class(TokenClass {
                marker,
                prefix,
                package: package.cloned(),
                context: context.clone(),
                active: token.active,
                guarded: token.guarded,
                defines: false,
            });
            let (start, end) = (start as u32, (start + word.len()) as u32);
            let name_start = start + name_at as u32;
            let span = Range::new(start, end);
            self.tokens.add(&name, TextToken { span, name_start, calls: false, names: false, class });
        }
        self.word = name;
    }
}

/// Returns whether a word may contain `byte`.
fn is_part_of_name(byte: u8) -> bool {
    byte >= 0x80 || byte.is_ascii_alphanumeric() || b"!$%&*+-./:<=>?@^_~[]".contains(&byte)
}

/// Returns whether `before` ends in an unclosed `${` or `@{`.
fn is_interpolated(before: &[u8]) -> bool {
    let Some(open) = before.iter().rposition(|&byte| byte == b'{') else { return false };
    let opens = open > 0 && matches!(before[open - 1], b'$' | b'@');
    opens && !before[open..].contains(&b'}')
}

/// Returns whether `before` ends in `~/`, possibly with FORMAT parameters after the `~`.
fn is_directive(before: &[u8]) -> bool {
    let Some(before) = before.strip_suffix(b"/") else { return false };
    let modifiers = before.iter().rev().take_while(|&&byte| b":@0123456789,".contains(&byte)).count();
    before[..before.len() - modifiers].ends_with(b"~")
}
