//! Parses the `name` argument of tools: a symbol as people write it. Parsing interns nothing.
//!
//! Accepts `mapcar`, `MAPCAR`, `cl:mapcar`, `cl::mapcar`, `|mixed Case|`, `a\b`, `:keyword`,
//! `'quoted`, `#'function`, and function names that are lists: `(setf car)`. The names that answers
//! give to parts of a function resolve to that function: `(method total :after (cart))`, `(flet
//! helper :in total)`.

use std::str::Chars;

use steelbank_reader::{Dialect, read_name};

/// A parsed `name` argument: a symbol, or a function name that contains a symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Designator {
    /// The package prefix, upcased and unescaped; `KEYWORD` for a keyword. The prefix overrides a
    /// `package` argument.
    pub package: Option<String>,
    /// The symbol's name, upcased and unescaped.
    pub name: String,
    /// The form of the function name.
    pub function_name: FunctionName,
    /// Whether the symbol is written as `#:name`, so that it is in no package.
    pub uninterned: bool,
}

/// The form of a function name that contains a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FunctionName {
    /// `NAME`: everything that the symbol names.
    Plain,
    /// `(SETF NAME)`
    Setf,
    /// `(CAS NAME)`
    Cas,
    /// `(COMPILER-MACRO NAME)`
    CompilerMacro,
}

impl FunctionName {
    /// Returns the first element of the function name, as it is printed, if the name is a list.
    pub fn head(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Setf => Some("SETF"),
            Self::Cas => Some("CAS"),
            Self::CompilerMacro => Some("COMPILER-MACRO"),
        }
    }

    /// Formats the function name for the symbol printed as `symbol`.
    pub fn text(self, symbol: String) -> String {
        match self.head() {
            None => symbol,
            Some(head) => format!("({head} {symbol})"),
        }
    }
}

/// The reason why a `name` argument cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DesignatorError {
    /// The name is empty or white space.
    #[error("The name is empty; give a symbol's name, such as mapcar or cl:mapcar.")]
    Empty,
    /// A `|` or `\` is not terminated.
    #[error("The name {0} ends inside | or after \\; close it, or escape the character with \\.")]
    Unfinished(String),
    /// The colons do not separate one package from one name.
    #[error(
        "The name {0} has misplaced colons; write package:name or package::name, and escape a colon in a name with \\."
    )]
    Colons(String),
    /// The list is not a function name.
    #[error(
        "The list {0} is not a function name; supported are (setf name), (cas name), (compiler-macro name) and (method name ...)."
    )]
    List(String),
    /// The new name of a symbol has the prefix of another package.
    #[error(
        "The new name {text} is in another package than {home}. A rename keeps the package; omit the prefix."
    )]
    OtherPackage {
        /// The new name as it was given.
        text: String,
        /// The home package of the symbol.
        home: String,
    },
    /// The new name of a symbol is a function name such as `(setf f)`.
    #[error("The new name {0} is not a symbol; give the name alone.")]
    NoSymbol(String),
}

/// The heads of the list names that SBCL gives to the code of a macro, type, condition, class or
/// function.
const PARTS: [&str; 7] = [
    "MACRO-FUNCTION", "TYPE-EXPANDER", "CONDITION-REPORT", "MAKE-INSTANCE", "DEFTRANSFORM",
    "SOURCE-TRANSFORM", "VOP",
];

impl Designator {
    /// Parses a `name` argument.
    pub fn parse(text: &str) -> Result<Self, DesignatorError> {
        let mut rest = text.trim();
        for prefix in ["#'", "'"] {
            rest = rest.strip_prefix(prefix).unwrap_or(rest).trim_start();
        }
        match rest.starts_with('(') {
            false => Self::symbol(rest),
            true => Self::list(rest),
        }
    }

    fn list(list: &str) -> Result<Self, DesignatorError> {
        let PrintedName { head, name, rest, within } = PrintedName::parse(list);
        let head = head.to_uppercase();
        let function_name = match (head.rsplit(':').next().unwrap_or_default(), &rest[..]) {
            // A local function is resolved to the function that contains it.
            _ if let Some(within) = within.filter(|within| !within.starts_with('"')) => {
                return Self::parse(within);
            }
            ("METHOD", [_, ..]) => return Self::parse(name),
            (head, []) if PARTS.contains(&head) => return Self::parse(name),
            ("SETF" | "%DEFSETF" | "SETF-EXPANDER", []) => Some(FunctionName::Setf),
            ("CAS", []) => Some(FunctionName::Cas),
            ("COMPILER-MACRO", []) => Some(FunctionName::CompilerMacro),
            _ => None,
        };
        match function_name.filter(|_| !name.starts_with('(')) {
            Some(function_name) => Ok(Self { function_name, ..Self::symbol(name)? }),
            None => Err(DesignatorError::List(list.to_owned())),
        }
    }

    fn symbol(text: &str) -> Result<Self, DesignatorError> {
        if text.is_empty() {
            return Err(DesignatorError::Empty);
        }
        if let Some(name) = text.strip_prefix("#:") {
            let named = Self::symbol(name)?;
            return match named.package {
                None if !named.uninterned => Ok(Self { uninterned: true, ..named }),
                _ => Err(DesignatorError::Colons(text.to_owned())),
            };
        }
        let mut parts = vec![String::new()];
        let mut colons = 0;
        let mut escaped = false;
        let mut chars = text.chars();
        while let Some(char) = chars.next() {
            if char == ':' {
                colons += 1;
                if !chars.as_str().starts_with(':') {
                    parts.push(String::new());
                    escaped = false;
                }
            } else if let Some(part) = parts.last_mut() {
                escaped |= token(char, &mut chars, part)
                    .ok_or_else(|| DesignatorError::Unfinished(text.to_owned()))?;
            }
        }
        let wrong = || DesignatorError::Colons(text.to_owned());
        let read = |part: String| read_name(part.as_bytes(), Dialect::CommonLisp).into_owned();
        let mut parts: Vec<String> = parts.into_iter().map(read).collect();
        let name = parts.pop().unwrap_or_default();
        if name.is_empty() && !escaped {
            return Err(wrong());
        }
        let package = match (parts.len(), colons) {
            (0, 0) => None,
            (1, 1) if parts[0].is_empty() => Some("KEYWORD".to_owned()),
            (1, 1 | 2) if !parts[0].is_empty() => parts.pop(),
            _ => return Err(wrong()),
        };
        Ok(Self { package, name, function_name: FunctionName::Plain, uninterned: false })
    }
}

/// Appends `char`, a character of a token, to `part`. If `char` begins an escape, also appends the
/// escaped characters. All are appended as written. Returns whether `char` begins an escape, or
/// `None` if the escape is not terminated.
fn token(char: char, rest: &mut Chars<'_>, part: &mut String) -> Option<bool> {
    part.push(char);
    match char {
        '\\' => part.push(rest.next()?),
        '|' => loop {
            let next = rest.next()?;
            part.push(next);
            match next {
                '|' => break,
                '\\' => part.push(rest.next()?),
                _ => (),
            }
        },
        _ => return Some(false),
    }
    Some(true)
}

/// A function's name in canonical form, such as `(METHOD P::F (P::C))`, in parts that borrow its
/// text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PrintedName<'a> {
    /// The first element of a list, such as `METHOD` or `FLET`. Empty for a symbol.
    pub(crate) head: &'a str,
    /// The symbol, or the element after the head: `(SETF P::F)` in `(METHOD (SETF P::F) (P::C))`.
    pub(crate) name: &'a str,
    /// The elements after the name: for a method, its qualifiers, and its specializers as a list.
    pub(crate) rest: Vec<&'a str>,
    /// The element after `:IN`: the function around a local function, or its file in quotes.
    pub(crate) within: Option<&'a str>,
}

impl<'a> PrintedName<'a> {
    /// Parses a printed name. Text that is no list of at least two elements counts as a symbol.
    pub(crate) fn parse(text: &'a str) -> Self {
        let mut parts = elements(text).unwrap_or_default().into_iter();
        let (Some(head), Some(name)) = (parts.next(), parts.next()) else {
            return Self { head: "", name: text, rest: Vec::new(), within: None };
        };
        let rest: Vec<&str> = parts.collect();
        let mut after = [name].into_iter().chain(rest.iter().copied());
        let within = after.find(|part| part.eq_ignore_ascii_case(":in")).and_then(|_| after.next());
        Self { head, name, rest, within }
    }

    /// Returns the text of the symbol in the name: `P::F` for `(METHOD (SETF P::F) (P::C))`.
    pub(crate) fn symbol(&self) -> &'a str {
        if self.head.is_empty() { self.name } else { Self::parse(self.name).symbol() }
    }

    /// Returns a method's specializers as they are printed. Returns `None` for other functions.
    pub(crate) fn specializers(&self) -> Option<Vec<&'a str>> {
        elements(self.rest.last().filter(|_| self.head == "METHOD")?)
    }
}

/// Splits the text of a list into its elements. Returns `None` if it is not a list.
pub(crate) fn elements(list: &str) -> Option<Vec<&str>> {
    let inside = list.strip_prefix('(')?.strip_suffix(')')?;
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_usize);
    let (mut quoted, mut escaped) = (None, false);
    for (at, character) in inside.char_indices() {
        match character {
            _ if std::mem::take(&mut escaped) => (),
            '\\' => escaped = true,
            '|' | '"' if quoted.is_none() => quoted = Some(character),
            _ if quoted == Some(character) => quoted = None,
            _ if quoted.is_some() => (),
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1)?,
            _ if depth == 0 && character.is_whitespace() => {
                parts.push(&inside[start..at]);
                start = at + character.len_utf8();
            }
            _ => (),
        }
    }
    parts.push(&inside[start..]);
    parts.retain(|part| !part.is_empty());
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, package: Option<&str>, name: &str, function_name: FunctionName) {
        let package = package.map(str::to_owned);
        let expected = Designator { package, name: name.to_owned(), function_name, uninterned: false };
        assert_eq!(Designator::parse(text), Ok(expected), "{text}");
    }

    #[test]
    fn an_uninterned_symbol_has_no_package() {
        for text in ["#:foo", "'#:foo", " #:|FOO|", "(setf #:foo)"] {
            let read = Designator::parse(text).unwrap();
            assert!(read.uninterned && read.package.is_none() && read.name == "FOO", "{text}");
        }
        for text in ["#:a:b", "#::foo", "#:#:foo", "#:"] {
            assert!(Designator::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn names_are_upcased_unless_escaped() {
        check("mapcar", None, "MAPCAR", FunctionName::Plain);
        check("  *Print-Base* ", None, "*PRINT-BASE*", FunctionName::Plain);
        check("|foo|", None, "foo", FunctionName::Plain);
        check("|foo bar|", None, "foo bar", FunctionName::Plain);
        check("foo|Bar|baz", None, "FOOBarBAZ", FunctionName::Plain);
        check(r"\foo", None, "fOO", FunctionName::Plain);
        check(r"|a\|b\\c|", None, r"a|b\c", FunctionName::Plain);
        check("||", None, "", FunctionName::Plain);
        check("1+", None, "1+", FunctionName::Plain);
        check("straße", None, "STRAßE", FunctionName::Plain);
        check("äöü", None, "ÄÖÜ", FunctionName::Plain);
        check("µ", None, "Μ", FunctionName::Plain);
        check(r"|µ|\µ", None, "µµ", FunctionName::Plain);
        check("ﬁx²", None, "FIX2", FunctionName::Plain);
        check("foo bar", None, "FOO BAR", FunctionName::Plain);
    }

    #[test]
    fn prefixes_are_packages() {
        check("cl:mapcar", Some("CL"), "MAPCAR", FunctionName::Plain);
        check("cl-user::x", Some("CL-USER"), "X", FunctionName::Plain);
        check("|my pkg|::|x|", Some("my pkg"), "x", FunctionName::Plain);
        check("a.b/c:d", Some("A.B/C"), "D", FunctionName::Plain);
        check(":foo", Some("KEYWORD"), "FOO", FunctionName::Plain);
        check(r"a\:b", None, "A:B", FunctionName::Plain);
        check("|a::b|", None, "a::b", FunctionName::Plain);
        check("cl::||", Some("CL"), "", FunctionName::Plain);
    }

    #[test]
    fn quotes_and_lists_are_parsed() {
        check("'foo", None, "FOO", FunctionName::Plain);
        check("#'cl:car", Some("CL"), "CAR", FunctionName::Plain);
        check("(setf car)", None, "CAR", FunctionName::Setf);
        check("#'(SETF cl:car)", Some("CL"), "CAR", FunctionName::Setf);
        check("( setf   |a b| )", None, "a b", FunctionName::Setf);
        check("(sb-ext:cas car)", None, "CAR", FunctionName::Cas);
        check("(compiler-macro foo)", None, "FOO", FunctionName::CompilerMacro);
        check("(method shop:total :after (shop:cart))", Some("SHOP"), "TOTAL", FunctionName::Plain);
        check("(METHOD (SETF P::F) (Q::C (EQL #\\|)))", Some("P"), "F", FunctionName::Setf);
        check("(flet g :in (lambda (x) :in p::|a b|))", Some("P"), "a b", FunctionName::Plain);
    }

    #[test]
    fn invalid_names_are_errors() {
        for text in ["", "  ", "'", "#'"] {
            assert_eq!(Designator::parse(text), Err(DesignatorError::Empty), "{text:?}");
        }
        for text in ["|foo", r"foo\", r"|foo\|"] {
            assert!(matches!(Designator::parse(text), Err(DesignatorError::Unfinished(_))), "{text:?}");
        }
        for text in ["a:", "a::", "::a", "a:::b", "a:b:c", ":", "::", "a:b::c"] {
            assert!(matches!(Designator::parse(text), Err(DesignatorError::Colons(_))), "{text:?}");
        }
        for text in [
            "()", "(setf)", "(setf car", "(lambda x)", "(setf (setf x))", "(setf a b)", "(car)",
            "(method f)", "(lambda (x) :in \"f\")",
        ] {
            assert!(matches!(Designator::parse(text), Err(DesignatorError::List(_))), "{text:?}");
        }
    }

    #[test]
    fn printed_names_have_parts() {
        for (text, symbol) in [
            ("P::F", "P::F"),
            ("(SETF P::F)", "P::F"),
            ("(METHOD (SETF P::F) :AFTER (Q::C))", "P::F"),
            ("(LABELS P::G :IN P::F)", "P::G"),
            ("(LAMBDA () :IN P::F)", "()"),
        ] {
            assert_eq!(PrintedName::parse(text).symbol(), symbol, "{text}");
        }
        let method = PrintedName::parse("(METHOD P::F :AROUND (Q::C (EQL \"a )\")))");
        assert_eq!(method.specializers(), Some(vec!["Q::C", "(EQL \"a )\")"]));
        assert_eq!(PrintedName::parse("(LABELS P::G :IN (SETF P::F))").within, Some("(SETF P::F)"));
    }

    #[test]
    fn parsing_never_panics() {
        let pieces = ["|", "\\", ":", "(", ")", "'", "#", " ", "a", "ß", "\u{0}", "setf "];
        for a in pieces {
            for b in pieces {
                for c in pieces {
                    for d in pieces {
                        let _ = Designator::parse(&[a, b, c, d].concat());
                    }
                }
            }
        }
    }
}
