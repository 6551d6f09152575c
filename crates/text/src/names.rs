//! Reads a Lisp text without running Lisp. [`FileTokens`] holds all names with their occurrences,
//! and the packages that the text defines ([`PackageText`]). Each occurrence has a [`TokenClass`]:
//! package marker, prefix, current package and context, which determine the symbol that it denotes.
//! The index stores the classes, so that queries for names need not read the files.

mod scan;

use crate::scan::lisp;
use crate::store::codec::{Decoder, put_bytes, put_number};
use crate::store::segment::KeyMap;
use std::ops::Deref;
use std::sync::Arc;
use steelbank_reader::{Dialect, LispText, Marker, Range};

/// A package, as defined by a form in a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PackageText {
    /// The package name, followed by its nicknames.
    pub names: Vec<String>,
    /// The packages that it uses, mixes or reexports.
    pub uses: Vec<String>,
    /// The imported names, each with the package it comes from.
    pub imports: Vec<(String, String)>,
    /// The shadowed names.
    pub shadows: Vec<String>,
    /// The local nicknames, each with the name of the package that it refers to.
    pub local_nicknames: Vec<(String, String)>,
    /// Whether the form has a clause that this reader does not understand. The other fields may
    /// then be incomplete.
    pub is_open: bool,
}

/// The kind of text that contains a name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub enum TextContext {
    /// A symbol in a form.
    #[default]
    Code,
    /// A name in a package definition: one of the package's symbols, or a symbol imported from
    /// `from`.
    Package {
        /// The defined package.
        package: Arc<str>,
        /// The package that the name is imported from.
        from: Option<Arc<str>>,
    },
    /// The name of a symbol that is looked up at run time, as by INTERN, in the package that the
    /// adjacent argument names. `None` if that argument is missing or not constant.
    Lookup(Option<Arc<str>>),
    /// A word in a string, or a LOOP keyword.
    Prose,
    /// A word in a string that is probably read as a symbol: in code for an operator such as
    /// READ-FROM-STRING, in a FORMAT directive, in an expression of cl-interpol, or as the only
    /// word if it has a package prefix.
    Read,
    /// A word in a comment.
    Comment,
    /// A parameter in the lambda list of a DEFGENERIC, which binds no variables.
    Parameter,
}

/// The properties of an occurrence of a name that determine which symbol it denotes, whether the
/// reader reads it, and whether a form defines it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TokenClass {
    /// The package marker before the name.
    pub marker: Marker,
    /// The package prefix.
    pub prefix: Option<Arc<str>>,
    /// The current package at the token, as far as the text shows; COMMON-LISP-USER in a FORMAT
    /// directive.
    pub package: Option<Arc<str>>,
    /// The kind of text that contains the token.
    pub context: TextContext,
    /// `false` if a feature expression excludes the token.
    pub active: bool,
    /// Whether the value of a feature expression that includes or excludes the token depends on the
    /// image, so that the text alone does not show whether the token is read.
    pub guarded: bool,
    /// Whether a form such as `(def… name)`, `(def… (setf name))` or `(def… (name …))` defines the
    /// name.
    pub defines: bool,
}

impl TokenClass {
    /// Returns the package that a symbol in code belongs to according to the text: its prefix, or
    /// else the current package. `None` for keywords, uninterned symbols and tokens outside code.
    pub fn home(&self) -> Option<&str> {
        let is_named = matches!(self.marker, Marker::None | Marker::External | Marker::Internal);
        let is_code = is_named && self.context == TextContext::Code;
        self.prefix.as_deref().or(self.package.as_deref()).filter(|_| is_code)
    }
}

const MARKERS: [Marker; 5] =
    [Marker::None, Marker::External, Marker::Internal, Marker::Keyword, Marker::Uninterned];

impl TokenClass {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let marker = MARKERS.iter().position(|marker| *marker == self.marker).unwrap_or(0) as u8;
        let (context, first, second) = match &self.context {
            TextContext::Code => (0, None, None),
            TextContext::Package { package, from } => (1, Some(package), from.as_ref()),
            TextContext::Lookup(package) => (2, package.as_ref(), None),
            TextContext::Prose => (3, None, None),
            TextContext::Read => (4, None, None),
            TextContext::Comment => (5, None, None),
            TextContext::Parameter => (6, None, None),
        };
        let mut out = vec![
            marker | u8::from(self.active) << 3 | u8::from(self.defines) << 4 | u8::from(self.guarded) << 5,
            context,
        ];
        for text in [self.prefix.as_ref(), self.package.as_ref(), first, second] {
            out.push(u8::from(text.is_some()));
            text.into_iter().for_each(|text| put_bytes(&mut out, text.as_bytes()));
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Option<TokenClass> {
        let mut decoder = Decoder::new(bytes);
        let (flags, context) = (decoder.byte()?, decoder.byte()?);
        let mut text = || -> Option<Option<Arc<str>>> {
            let is_there = decoder.byte()? != 0;
            let mut read = || Some(Arc::from(std::str::from_utf8(decoder.bytes()?).ok()?));
            if is_there { read().map(Some) } else { Some(None) }
        };
        let (prefix, package, first, second) = (text()?, text()?, text()?, text()?);
        let context = match context {
            0 => TextContext::Code,
            1 => TextContext::Package { package: first?, from: second },
            2 => TextContext::Lookup(first),
            3 => TextContext::Prose,
            4 => TextContext::Read,
            6 => TextContext::Parameter,
            _ => TextContext::Comment,
        };
        let marker = *MARKERS.get(usize::from(flags & 7))?;
        Some(TokenClass {
            marker,
            prefix,
            package,
            context,
            active: flags & 8 != 0,
            guarded: flags & 32 != 0,
            defines: flags & 16 != 0,
        })
    }
}

impl PackageText {
    fn lists(&self) -> [Vec<&String>; 5] {
        fn pairs(pairs: &[(String, String)]) -> Vec<&String> {
            pairs.iter().flat_map(|(left, right)| [left, right]).collect()
        }
        [
            self.names.iter().collect(),
            self.uses.iter().collect(),
            self.shadows.iter().collect(),
            pairs(&self.imports),
            pairs(&self.local_nicknames),
        ]
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.is_open));
        for list in self.lists() {
            put_number(out, list.len() as u64);
            list.iter().for_each(|text| put_bytes(out, text.as_bytes()));
        }
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> Option<PackageText> {
        let is_open = decoder.byte()? != 0;
        let mut list = || -> Option<Vec<String>> {
            let mut list = Vec::new();
            for _ in 0..decoder.number()? {
                list.push(std::str::from_utf8(decoder.bytes()?).ok()?.to_owned());
            }
            Some(list)
        };
        let (names, uses, shadows) = (list()?, list()?, list()?);
        let pairs = |list: Vec<String>| {
            list.as_chunks::<2>().0.iter().map(|[left, right]| (left.clone(), right.clone())).collect()
        };
        let (imports, local_nicknames) = (pairs(list()?), pairs(list()?));
        Some(PackageText { names, uses, imports, shadows, local_nicknames, is_open })
    }
}

/// An occurrence of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextToken {
    /// The range of the token including its package prefix, in bytes of the decoded text.
    pub span: Range,
    /// The offset of the name without its prefix.
    pub name_start: u32,
    /// Whether the name is the operator of a call, or follows `#'`.
    pub calls: bool,
    /// Whether the name is quoted by itself, or is a specializer of a method. Such a name is not a
    /// local variable.
    pub names: bool,
    /// Determines which symbol the token denotes; shared between tokens.
    pub class: Arc<TokenClass>,
}

impl Deref for TextToken {
    type Target = TokenClass;

    fn deref(&self) -> &TokenClass {
        &self.class
    }
}

/// The names of one text and their occurrences.
#[derive(Debug, Default)]
pub struct FileTokens {
    names: KeyMap<Box<str>, Vec<TextToken>>,
    packages: Vec<PackageText>,
    size: usize,
}

impl FileTokens {
    /// Reads `text`, the decoded text of a file.
    pub fn read(text: &[u8]) -> FileTokens {
        FileTokens::of(text, &lisp::read(text, Dialect::CommonLisp))
    }

    /// Does the same as [`FileTokens::read`] for a text that has already been parsed to `lisp`.
    pub(crate) fn of(text: &[u8], lisp: &LispText) -> FileTokens {
        scan::scan(text, lisp)
    }

    fn add(&mut self, name: &str, token: TextToken) {
        let found = match self.names.get_mut(name) {
            Some(found) => found,
            None => {
                self.size += name.len() + 64;
                self.names.entry(name.into()).or_default()
            }
        };
        if found.last().is_none_or(|last| last.span != token.span) {
            self.size += size_of::<TextToken>();
            found.push(token);
        }
    }

    /// Returns the occurrences of `name`, in order.
    pub fn named(&self, name: &str) -> &[TextToken] {
        self.names.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns all names with their occurrences.
    pub fn names(&self) -> impl Iterator<Item = (&str, &[TextToken])> {
        self.names.iter().map(|(name, tokens)| (&**name, tokens.as_slice()))
    }

    /// Returns the packages that the text defines.
    pub fn packages(&self) -> &[PackageText] {
        &self.packages
    }

    /// Estimates the memory use, in bytes.
    pub fn size(&self) -> usize {
        self.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_reverses_encode() {
        let tokens = tokens();
        for token in tokens.names().flat_map(|(_, tokens)| tokens) {
            let bytes = token.class.encode();
            assert_eq!(TokenClass::decode(&bytes).as_ref(), Some(&*token.class));
            (0..bytes.len()).for_each(|end| assert_eq!(TokenClass::decode(&bytes[..end]), None));
        }
        let mut bytes = Vec::new();
        tokens.packages()[0].encode(&mut bytes);
        assert_eq!(PackageText::decode(&mut Decoder::new(&bytes)).as_ref(), Some(&tokens.packages()[0]));
    }

    const TEXT: &str = "(defpackage #:app (:use #:cl #:lib) (:nicknames :a) (:local-nicknames (:l :lib.long))
  (:import-from #:other #:thing) (:export #:run \"STOP\"))
(in-package :app)
(defun run (x) #+nothing (stop x) (l:go-on \"see lib:run.\" x) (uiop:symbol-call :tests :run))
(format nil \"~/fmt::pr/ and RUN\" 1) ; run it
(read-from-string \"(stop 1)\") (find-symbol \"RUN\" :app)
(q \"app::begin\") (q \"see app::begin\")
";

    fn tokens() -> FileTokens {
        FileTokens::read(TEXT.as_bytes())
    }

    #[track_caller]
    fn check(name: &str, expected: &[(&str, TextContext, bool)]) {
        let tokens = tokens();
        let found: Vec<_> = tokens
            .named(name)
            .iter()
            .map(|token| (&TEXT[token.span.indices()], token.context.clone(), token.active))
            .collect();
        assert_eq!(found, expected, "{name}");
    }

    #[test]
    fn names_have_their_context() {
        let own = TextContext::Package { package: "APP".into(), from: None };
        check(
            "RUN",
            &[
                ("#:run", own.clone(), true),
                ("run", TextContext::Code, true),
                ("lib:run", TextContext::Prose, true),
                (":run", TextContext::Lookup(Some("TESTS".into())), true),
                ("RUN", TextContext::Prose, true),
                ("run", TextContext::Comment, true),
                ("\"RUN\"", TextContext::Lookup(Some("APP".into())), true),
            ],
        );
        check(
            "STOP",
            &[("\"STOP\"", own, true), ("stop", TextContext::Code, false), ("stop", TextContext::Read, true)],
        );
        let imported = TextContext::Package { package: "APP".into(), from: Some("OTHER".into()) };
        check("THING", &[("#:thing", imported, true)]);
        check("PR", &[("fmt::pr", TextContext::Read, true)]);
        check("BEGIN", &[("app::begin", TextContext::Read, true), ("app::begin", TextContext::Prose, true)]);
        check(
            "X",
            &[
                ("x", TextContext::Code, true),
                ("x", TextContext::Code, false),
                ("x", TextContext::Code, true),
            ],
        );
        check("GO-ON", &[("l:go-on", TextContext::Code, true)]);
    }

    #[test]
    fn packages_are_read_from_their_definitions() {
        let tokens = tokens();
        let [package] = tokens.packages() else { panic!("{:?}", tokens.packages()) };
        assert_eq!(package.names, ["APP", "A"]);
        assert_eq!(package.uses, ["CL", "LIB"]);
        assert_eq!(package.imports, [("THING".to_owned(), "OTHER".to_owned())]);
        assert_eq!(package.local_nicknames, [("L".to_owned(), "LIB.LONG".to_owned())]);
        assert!(!package.is_open);
    }

    #[test]
    fn tokens_have_current_package_and_prefix() {
        let tokens = tokens();
        let run = &tokens.named("RUN")[1];
        assert_eq!(run.package.as_deref(), Some("APP"));
        let go = &tokens.named("GO-ON")[0];
        assert_eq!((go.prefix.as_deref(), go.marker), (Some("L"), Marker::External));
    }
}
