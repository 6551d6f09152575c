//! The `name` argument that every tool takes: a symbol as people write it, read without interning anything.
//!
//! `mapcar`, `MAPCAR`, `cl:mapcar`, `cl::mapcar`, `|mixed Case|`, `a\b`, `:keyword`, `'quoted`, `#'function`,
//! and function names that are lists: `(setf car)`.

use std::str::Chars;

use steelbank_reader::upcase;

/// What a name argument denotes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Designator {
    /// The package prefix, already upcased and unescaped; it wins over a package argument.
    pub package: Option<String>,
    /// The symbol's name, already upcased and unescaped.
    pub name: String,
    /// What the list around the symbol says, if there is one.
    pub of: Option<Operator>,
}

/// The heads of function names that are lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// `(SETF NAME)`
    Setf,
    /// `(CAS NAME)`
    Cas,
    /// `(COMPILER-MACRO NAME)`
    CompilerMacro,
}

impl Operator {
    /// The head as it is printed.
    pub fn text(self) -> &'static str {
        match self {
            Self::Setf => "SETF",
            Self::Cas => "CAS",
            Self::CompilerMacro => "COMPILER-MACRO",
        }
    }
}

/// A name argument that is no name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DesignatorError {
    /// Nothing but white space.
    #[error("The name is empty; give a symbol's name, such as mapcar or cl:mapcar.")]
    Empty,
    /// A `|` or `\` without its end.
    #[error("The name {0} ends inside | or after \\; close it, or escape the character with \\.")]
    Unfinished(String),
    /// Colons that do not separate one package from one name.
    #[error(
        "The name {0} has its colons wrong; write package:name or package::name, and escape a colon of the name with \\."
    )]
    Colons(String),
    /// A list that is not a function's name.
    #[error(
        "The list {0} is not a function's name; only (setf name), (cas name) and (compiler-macro name) are."
    )]
    List(String),
}

impl Designator {
    /// Reads a name argument.
    pub fn parse(text: &str) -> Result<Self, DesignatorError> {
        let mut rest = text.trim();
        for prefix in ["#'", "'"] {
            rest = rest.strip_prefix(prefix).unwrap_or(rest).trim_start();
        }
        match rest.strip_prefix('(') {
            None => Self::symbol(rest),
            Some(list) => Self::list(rest, list),
        }
    }

    fn list(whole: &str, list: &str) -> Result<Self, DesignatorError> {
        let error = || DesignatorError::List(whole.to_owned());
        let inside = list.strip_suffix(')').ok_or_else(error)?.trim();
        let (head, name) = inside.split_once(char::is_whitespace).ok_or_else(error)?;
        let of = match Self::symbol(head)?.name.as_str() {
            "SETF" => Operator::Setf,
            "CAS" => Operator::Cas,
            "COMPILER-MACRO" => Operator::CompilerMacro,
            _ => return Err(error()),
        };
        let name = name.trim();
        if name.starts_with('(') || has_bare_space(name) {
            return Err(error());
        }
        Ok(Self { of: Some(of), ..Self::symbol(name)? })
    }

    fn symbol(text: &str) -> Result<Self, DesignatorError> {
        if text.is_empty() {
            return Err(DesignatorError::Empty);
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
        Ok(Self { package, name, of: None })
    }
}

/// Adds one character of a token, or the run that it escapes. True if something was escaped, none if the end is missing.
fn token(char: char, rest: &mut Chars<'_>, part: &mut String) -> Option<bool> {
    match char {
        '\\' => part.push(rest.next()?),
        '|' => loop {
            match rest.next()? {
                '|' => break,
                '\\' => part.push(rest.next()?),
                other => part.push(other),
            }
        },
        other => {
            part.push(upcase(other));
            return Some(false);
        }
    }
    Some(true)
}

fn has_bare_space(text: &str) -> bool {
    let (mut bars, mut escape) = (false, false);
    text.chars().any(|char| {
        let bare = char.is_whitespace() && !bars && !escape;
        bars ^= char == '|' && !escape;
        escape = char == '\\' && !escape;
        bare
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, package: Option<&str>, name: &str, of: Option<Operator>) {
        let expected = Designator { package: package.map(str::to_owned), name: name.to_owned(), of };
        assert_eq!(Designator::parse(text), Ok(expected), "{text}");
    }

    #[test]
    fn names_are_upcased_unless_escaped() {
        check("mapcar", None, "MAPCAR", None);
        check("  *Print-Base* ", None, "*PRINT-BASE*", None);
        check("|foo|", None, "foo", None);
        check("|foo bar|", None, "foo bar", None);
        check("foo|Bar|baz", None, "FOOBarBAZ", None);
        check(r"\foo", None, "fOO", None);
        check(r"|a\|b\\c|", None, r"a|b\c", None);
        check("||", None, "", None);
        check("1+", None, "1+", None);
        check("straße", None, "STRAßE", None);
        check("äöü", None, "ÄÖÜ", None);
        check("µ", None, "µ", None);
        check("foo bar", None, "FOO BAR", None);
    }

    #[test]
    fn prefixes_are_packages() {
        check("cl:mapcar", Some("CL"), "MAPCAR", None);
        check("cl-user::x", Some("CL-USER"), "X", None);
        check("|my pkg|::|x|", Some("my pkg"), "x", None);
        check("a.b/c:d", Some("A.B/C"), "D", None);
        check(":foo", Some("KEYWORD"), "FOO", None);
        check(r"a\:b", None, "A:B", None);
        check("|a::b|", None, "a::b", None);
        check("cl::||", Some("CL"), "", None);
    }

    #[test]
    fn quotes_and_lists_are_understood() {
        check("'foo", None, "FOO", None);
        check("#'cl:car", Some("CL"), "CAR", None);
        check("(setf car)", None, "CAR", Some(Operator::Setf));
        check("#'(SETF cl:car)", Some("CL"), "CAR", Some(Operator::Setf));
        check("( setf   |a b| )", None, "a b", Some(Operator::Setf));
        check("(sb-ext:cas car)", None, "CAR", Some(Operator::Cas));
        check("(compiler-macro foo)", None, "FOO", Some(Operator::CompilerMacro));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in ["", "  ", "'", "#'"] {
            assert_eq!(Designator::parse(text), Err(DesignatorError::Empty), "{text:?}");
        }
        for text in ["|foo", r"foo\", r"|foo\|"] {
            assert!(matches!(Designator::parse(text), Err(DesignatorError::Unfinished(_))), "{text:?}");
        }
        for text in ["a:", "a::", "::a", "a:::b", "a:b:c", ":", "::", "a:b::c"] {
            assert!(matches!(Designator::parse(text), Err(DesignatorError::Colons(_))), "{text:?}");
        }
        for text in ["()", "(setf)", "(setf car", "(lambda x)", "(setf (setf x))", "(setf a b)", "(car)"] {
            assert!(matches!(Designator::parse(text), Err(DesignatorError::List(_))), "{text:?}");
        }
    }

    #[test]
    fn any_text_is_read_or_refused() {
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
