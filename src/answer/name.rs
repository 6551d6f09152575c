//! Names of Lisp objects in answers, in their canonical and their readable form.
//!
//! The *canonical* form is the one in Lisp's answers: the home package's full name, two colons and
//! the symbol's name, possibly in a list, `(METHOD SHOP::TOTAL (SHOP::CART))`. Names are looked
//! up, compared and sorted by their canonical form. Lines that the tool contracts prescribe also
//! print this form. All other output uses the *readable* form, which a person would write:
//! `shop:total` if the package exports the symbol, `shop::%helper` if it does not, `cl:mapcar`,
//! `:key`, `#:g12`, `shop::|Mixed|`, and lists of these, `(method shop:total (shop:cart))`. Every
//! tool accepts both forms.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};
use steelbank_reader::{Dialect, Features, LispText, Marker, TokenKind, WrittenSymbol, normalized, upcase};
use steelbank_xref::{Access, Index, Symbol};

use crate::answer::designator::{Designator, PrintedName};

/// A name in an answer. Prints and serializes in readable form. Names sort by their canonical form;
/// a name compares with a string by its readable form. A name deserialized from Lisp's answer has
/// only the canonical form until `write` is called with the index, and prints in that form.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(from = "String")]
pub struct LispName {
    canonical: String,
    written: String,
}

impl LispName {
    /// Returns the name with the canonical form `canonical`.
    pub(crate) fn new(index: &Index, canonical: impl Into<String>) -> Self {
        let canonical = canonical.into();
        Self { written: written(index, &canonical), canonical }
    }

    /// Returns a name for something without a Lisp name, such as a line of top-level code.
    pub(crate) fn of_text(text: impl Into<String>) -> Self {
        Self::from(text.into())
    }

    /// Computes the readable form of a name that came from Lisp's answer.
    pub(crate) fn write(&mut self, index: &Index) {
        *self = Self::new(index, std::mem::take(&mut self.canonical));
    }

    /// Returns the name in canonical form, with home package and two colons: `COMMON-LISP::MAPCAR`.
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// Returns the name as a person writes it: `cl:mapcar`.
    pub fn as_str(&self) -> &str {
        &self.written
    }

    /// Returns the name as a person writes it in the home package of `symbol`: without the prefixes
    /// of this package and of COMMON-LISP.
    pub(crate) fn beside(&self, symbol: &Self) -> String {
        let own = Designator::parse(PrintedName::parse(&symbol.canonical).symbol()).ok();
        let home = own.and_then(|own| own.package);
        with_symbols(&self.written, |marker, WrittenSymbol { package, name }| {
            let package = package.filter(|package| package != "CL" && home.as_deref() != Some(&**package));
            let package = package.map(|package| prefix(&package)).unwrap_or_default();
            let colons = match marker {
                Marker::Uninterned => "#:",
                Marker::Keyword => ":",
                _ if package.is_empty() => "",
                Marker::Internal => "::",
                _ => ":",
            };
            format!("{package}{colons}{}", readable(&name))
        })
    }

    /// Returns [`LispName::beside`] of `symbol`, without the head of a method's or a macro's name,
    /// unless `line` begins the name's definition, such as `(defun total (cart)`.
    pub(crate) fn unless_in(&self, line: &str, symbol: &Self) -> Option<String> {
        let symbols = |text: &str| -> Vec<(bool, String)> {
            let (bytes, read) = (text.as_bytes(), &Features::default());
            let read = LispText::read(bytes, Dialect::CommonLisp, read);
            let symbols = read.tokens().iter().filter(|token| token.kind == TokenKind::Symbol);
            let symbols = symbols.map(|token| token.symbol(bytes)).take(3);
            symbols.map(|symbol| (symbol.package.is_some(), symbol.name.into_owned())).collect()
        };
        let own = symbols(&self.canonical).into_iter().find(|(has_package, _)| *has_package);
        let shown = symbols(line);
        let is_definition = shown.first().is_some_and(|(_, operator)| operator.starts_with("DEF"));
        let is_own = |(_, name): &(bool, String)| own.as_ref().is_some_and(|(_, own)| own == name);
        // The name follows the operator, for `(setf name)` after another symbol.
        let at = if shown.get(1).is_some_and(|(_, name)| name == "SETF") { 2 } else { 1 };
        let is_shown = is_definition && line.starts_with('(') && shown.get(at).is_some_and(is_own);
        (!is_shown).then(|| {
            let name = self.beside(symbol);
            let printed = PrintedName::parse(&name);
            match printed.head {
                "method" | "macro-function" => [&[printed.name], &*printed.rest].concat().join(" "),
                _ => name,
            }
        })
    }
}

impl From<String> for LispName {
    fn from(canonical: String) -> Self {
        Self { written: canonical.clone(), canonical }
    }
}

impl Display for LispName {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        formatter.pad(&self.written)
    }
}

impl PartialEq<str> for LispName {
    fn eq(&self, written: &str) -> bool {
        self.written == written
    }
}

impl PartialEq<&str> for LispName {
    fn eq(&self, written: &&str) -> bool {
        self == *written
    }
}

impl Serialize for LispName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.written)
    }
}

impl JsonSchema for LispName {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

/// Returns whether `byte` is an ASCII character that can be in a symbol's name without bars.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !byte.is_ascii_lowercase() && !b"()'\"`,;:|\\#".contains(&byte)
}

/// Escapes a symbol's name for the Lisp reader. Encloses the name in bars if it is empty, has
/// lower-case letters or special characters, or is not in the normal form that the reader uses.
pub(crate) fn escaped(name: &str) -> String {
    if !name.is_empty() && name.bytes().all(is_plain) {
        return name.to_owned();
    }
    let plain = |char: char| upcase(char) == char && !char.is_whitespace() && !"()'\"`,;:|\\#".contains(char);
    match !name.is_empty() && name.chars().all(plain) && normalized(name) == name {
        true => name.to_owned(),
        false => barred(name),
    }
}

/// Writes a symbol's name in bars, so that the reader reads any name.
pub(crate) fn barred(name: &str) -> String {
    format!("|{}|", name.replace('\\', "\\\\").replace('|', "\\|"))
}

/// Formats a symbol's name in readable form: in lower case, or in bars.
pub(crate) fn readable(name: &str) -> String {
    if !name.is_empty() && name.bytes().all(is_plain) {
        return name.to_ascii_lowercase();
    }
    let (text, lower) = (escaped(name), name.to_lowercase());
    match text == name && lower.chars().map(upcase).eq(name.chars()) {
        true => lower,
        false if text.starts_with('|') => text,
        // Use bars, because the reader would not upcase some letter to the original letter.
        false => format!("|{text}|"),
    }
}

/// Serializes a symbol's name in readable form.
pub(crate) fn as_readable<S: Serializer>(name: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&readable(name))
}

/// Returns the canonical name of the symbol called `name` with the home package `package`.
pub(crate) fn canonical(package: &str, name: &str) -> String {
    format!("{}::{}", escaped(package), escaped(name))
}

/// Formats `symbol` in readable form.
pub(crate) fn of_symbol(index: &Index, symbol: Symbol) -> String {
    let name = index.symbol_name(symbol);
    match index.symbol_package(symbol) {
        Some(home) => qualified(index, &index.package_name(home), &name),
        None => format!("#:{}", readable(&name)),
    }
}

/// Converts a `canonical` name to its readable form.
pub(crate) fn written(index: &Index, canonical: &str) -> String {
    // Fast path: most names are single symbols without bars and need no parsing.
    let is_bare = |part: &str| !part.is_empty() && part.bytes().all(is_plain);
    match canonical.split("::").collect::<Vec<_>>()[..] {
        [package, name] if is_bare(package) && is_bare(name) => return qualified(index, package, name),
        _ => (),
    }
    with_symbols(canonical, |marker, WrittenSymbol { package, name }| match (package, marker) {
        (Some(package), _) => qualified(index, &package, &name),
        (None, Marker::Keyword) => format!(":{}", readable(&name)),
        (None, Marker::Uninterned) => format!("#:{}", readable(&name)),
        (None, _) => readable(&name),
    })
}

/// Removes the package prefixes from a readable name. A keyword keeps its colon.
pub(crate) fn short(written: &str) -> String {
    with_symbols(written, |marker, symbol| {
        format!("{}{}", if marker == Marker::Keyword { ":" } else { "" }, readable(&symbol.name))
    })
}

/// Formats a package's name as a symbol's prefix, without colons.
pub(crate) fn prefix(package: &str) -> String {
    match package {
        "COMMON-LISP" => "cl".to_owned(),
        "COMMON-LISP-USER" => "cl-user".to_owned(),
        other => readable(other),
    }
}

/// Formats the symbol `name` of the home package `package` with its prefix.
pub(crate) fn qualified(index: &Index, package: &str, name: &str) -> String {
    let is_external = index.symbol_named(package, name).is_some_and(|(_, access)| access == Access::External);
    let prefix = if package == "KEYWORD" { String::new() } else { prefix(package) };
    let colons = if is_external || prefix.is_empty() { ":" } else { "::" };
    format!("{prefix}{colons}{}", readable(name))
}

/// Replaces each symbol in the text of a name by the result of `write`. In the name of a local or
/// anonymous function, also replaces the path of its file by the file's name.
fn with_symbols(text: &str, write: impl Fn(Marker, WrittenSymbol<'_>) -> String) -> String {
    let (bytes, mut made, mut end) = (text.as_bytes(), String::with_capacity(text.len()), 0);
    let read = LispText::read(bytes, Dialect::CommonLisp, &Features::default());
    let mut after_in = false;
    for token in read.tokens() {
        let span = token.span.indices();
        let is_file = after_in && token.kind == TokenKind::String;
        after_in = token.is_named(bytes, "IN");
        if let Some(folder) = text[span.clone()].rfind('/').filter(|_| is_file) {
            made.push_str(&text[end..=span.start]);
            end = span.start + folder + 1;
        }
        if token.kind != TokenKind::Symbol {
            continue;
        }
        // Leave an object without a readable name as it is printed: #<P::TYPE>.
        if text[..span.start].ends_with("#<") {
            continue;
        }
        made.push_str(&text[end..span.start]);
        made.push_str(&write(token.marker, token.symbol(bytes)));
        end = span.end;
    }
    made.push_str(&text[end..]);
    made
}

#[cfg(test)]
mod tests {
    use super::*;
    use steelbank_xref::{bake, writer::ExportWriter};

    fn index() -> Index {
        let mut writer = ExportWriter::new(0, 10);
        let lisp = writer.package("COMMON-LISP", &["CL"]);
        writer.intern(lisp, "T", true);
        let keyword = writer.package("KEYWORD", &[]);
        writer.intern(keyword, "AFTER", true);
        let shop = writer.package("SHOP", &[]);
        for (name, exported) in
            [("TOTAL", true), ("CART", true), ("%HELPER", false), ("Mixed", true), ("ẞ", false)]
        {
            writer.intern(shop, name, exported);
        }
        writer.package("COMMON-LISP-USER", &["CL-USER"]);
        writer.package("my pkg", &[]);
        Index::open(bake::bake(&writer.finish(), &[]).unwrap()).unwrap()
    }

    #[test]
    fn canonical_names_become_readable() {
        let index = index();
        for (canonical, expected) in [
            ("SHOP::TOTAL", "shop:total"),
            ("SHOP::%HELPER", "shop::%helper"),
            ("SHOP::|Mixed|", "shop:|Mixed|"),
            ("SHOP::ẞ", "shop::|ẞ|"),
            ("COMMON-LISP::T", "cl:t"),
            ("COMMON-LISP-USER::X", "cl-user::x"),
            ("KEYWORD::AFTER", ":after"),
            (":AFTER", ":after"),
            ("#:G12", "#:g12"),
            ("|my pkg|::|a \\| b|", "|my pkg|::|a \\| b|"),
            ("GONE::NOTHING", "gone::nothing"),
            ("(SETF SHOP::TOTAL)", "(setf shop:total)"),
            (
                "(METHOD SHOP::TOTAL :AFTER (SHOP::CART COMMON-LISP::T))",
                "(method shop:total :after (shop:cart cl:t))",
            ),
            (
                "(METHOD (SETF SHOP::TOTAL) ((EQL :A) (EQL 1.0E10)))",
                "(method (setf shop:total) ((eql :a) (eql 1.0E10)))",
            ),
            (
                "(METHOD SHOP::TOTAL ((EQL \"A::B\") (EQL #\\A)))",
                "(method shop:total ((eql \"A::B\") (eql #\\A)))",
            ),
            ("(METHOD SHOP::TOTAL ((EQL #<SHOP::CART>)))", "(method shop:total ((eql #<SHOP::CART>)))"),
            (
                "(LAMBDA (SHOP::X &KEY SHOP::Y) :IN \"/A/b.lisp\")",
                "(lambda (shop::x &key shop::y) :in \"b.lisp\")",
            ),
            ("(FLET SHOP::X :IN \"SYS:SRC;A.LISP\")", "(flet shop::x :in \"SYS:SRC;A.LISP\")"),
            ("(EQL (SHOP::TOTAL . SHOP::X) ...)", "(eql (shop:total . shop::x) ...)"),
        ] {
            assert_eq!(written(&index, canonical), expected, "{canonical}");
        }
        let name = LispName::new(&index, "SHOP::TOTAL");
        assert_eq!((name.canonical(), name.to_string().as_str()), ("SHOP::TOTAL", "shop:total"));
        assert_eq!(serde_json::to_value(&name).unwrap(), "shop:total");
    }

    #[test]
    fn names_omit_home_package_of_symbol() {
        let index = index();
        let name = |canonical: &str| LispName::new(&index, canonical);
        let method = name("(METHOD OTHER::F :AFTER (SHOP::CART COMMON-LISP::T #:G))");
        assert_eq!(method.beside(&name("SHOP::%HELPER")), "(method other::f :after (cart t #:g))");
        assert_eq!(method.beside(&name("(SETF OTHER::X)")), "(method f :after (shop:cart t #:g))");
        assert_eq!(name("SHOP::|Mixed|").beside(&name("|my pkg|::X")), "shop:|Mixed|");
        let setf = name("(METHOD (SETF SHOP::TOTAL) (SHOP::CART))");
        assert_eq!(setf.unless_in("(defmethod (setf total) ((c cart))", &method), None);
        assert_eq!(setf.unless_in("(total (defvar c))", &setf).unwrap(), "(setf total) (cart)");
    }

    #[test]
    fn short_names_have_no_packages() {
        assert_eq!(short("(method shop:total :after (shop:cart cl:t))"), "(method total :after (cart t))");
        assert_eq!(short("shop::|a:b|"), "|a:b|");
    }
}
