//! The supported languages: names, file names, identifier syntax, and syntax of comments and
//! strings. `languages.table` lists the languages and selects the syntaxes of each by name.

use std::path::Path;
use std::sync::LazyLock;
use steelbank_reader::Dialect;

/// A language of the text index. Files in any other language are [`Language::TEXT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Language(u8);

/// The identifier syntax of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Letters, digits and `_`, in any script.
    Word,
    /// Like `Word`, but identifiers can also contain `$`.
    Dollar,
    /// Like `Word`, but the name of a macro can end with `!`.
    Rust,
    /// Like `Word`; a query can include the `$` of a variable.
    Php,
    /// Like `Word`, but the name of a method can end with `?` or `!`. A query can include the `@`,
    /// `@@` or `$` of a variable.
    Ruby,
    /// Like `Word`; a query can include the `@` of a builtin.
    Zig,
    /// Lisp symbols.
    Lisp(Dialect),
}

/// The syntax of comments and strings.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lexis {
    /// The openings of comments that end at the end of the line.
    pub(crate) line: &'static [&'static str],
    /// The opening and the closing of block comments.
    pub(crate) block: Option<(&'static str, &'static str)>,
    /// Whether block comments can be nested.
    pub(crate) nested: bool,
    pub(crate) strings: &'static [Quote],
    pub(crate) apostrophe: Apostrophe,
}

/// A string syntax. In a list, longer openings come before shorter ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quote {
    pub(crate) open: &'static str,
    pub(crate) close: &'static str,
    /// Whether a backslash escapes the next character.
    pub(crate) escapes: bool,
    /// Whether the string can contain line feeds. Otherwise, it ends with its line.
    pub(crate) lines: bool,
    /// The opening of code embedded in the string; the code ends at the matching `}`.
    pub(crate) code: Option<&'static str>,
}

/// The meaning of `'` if it does not open a string.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Apostrophe {
    #[default]
    Nothing,
    /// Opens a character literal or a lifetime; a lifetime has no closing quote.
    Rust,
}

struct Info {
    name: &'static str,
    aliases: Vec<&'static str>,
    /// File name extensions, and full file names with a `/` in front.
    files: Vec<&'static str>,
    interpreters: Vec<&'static str>,
    rule: Rule,
    lexis: &'static Lexis,
}

const fn quote(open: &'static str, close: &'static str, escapes: bool, lines: bool) -> Quote {
    Quote { open, close, escapes, lines, code: None }
}

const DOUBLE: Quote = quote("\"", "\"", true, false);
const SINGLE: Quote = quote("'", "'", true, false);
const SLASHES: &[&str] = &["//"];
const STARS: Option<(&str, &str)> = Some(("/*", "*/"));
const C: Lexis = Lexis {
    line: SLASHES,
    block: STARS,
    nested: false,
    strings: &[DOUBLE, SINGLE],
    apostrophe: Apostrophe::Nothing,
};
const SCRIPT: Lexis = Lexis {
    strings: &[DOUBLE, SINGLE, Quote { open: "`", close: "`", escapes: true, lines: true, code: Some("${") }],
    ..C
};
const TRIPLE: Quote = quote("\"\"\"", "\"\"\"", true, true);
const HASH: Lexis = Lexis {
    line: &["#"],
    block: None,
    nested: false,
    strings: &[DOUBLE, SINGLE],
    apostrophe: Apostrophe::Nothing,
};
const PLAIN: Lexis =
    Lexis { line: &[], block: None, nested: false, strings: &[], apostrophe: Apostrophe::Nothing };

/// The syntaxes of comments and strings, by their names in `languages.table`.
const LEXES: &[(&str, Lexis)] = &[
    ("plain", PLAIN),
    ("c", C),
    ("script", SCRIPT),
    ("hash", HASH),
    (
        "rust",
        Lexis {
            line: SLASHES,
            block: STARS,
            nested: true,
            strings: &[
                quote("r##\"", "\"##", false, true),
                quote("r#\"", "\"#", false, true),
                quote("r\"", "\"", false, true),
                quote("\"", "\"", true, true),
            ],
            apostrophe: Apostrophe::Rust,
        },
    ),
    ("python", Lexis { strings: &[TRIPLE, quote("'''", "'''", true, true), DOUBLE, SINGLE], ..HASH }),
    ("go", Lexis { strings: &[DOUBLE, SINGLE, quote("`", "`", false, true)], ..C }),
    ("cpp", Lexis { strings: &[quote("R\"(", ")\"", false, true), DOUBLE, SINGLE], ..C }),
    ("java", Lexis { strings: &[TRIPLE, DOUBLE, SINGLE], ..C }),
    ("ruby", Lexis { strings: &[Quote { code: Some("#{"), ..DOUBLE }, SINGLE], ..HASH }),
    (
        "php",
        Lexis {
            line: &["//", "#"],
            strings: &[quote("\"", "\"", true, true), quote("'", "'", true, true)],
            ..C
        },
    ),
    ("csharp", Lexis { strings: &[TRIPLE, quote("@\"", "\"", false, true), DOUBLE, SINGLE], ..C }),
    ("zig", Lexis { block: None, strings: &[quote("\\\\", "\n", false, true), DOUBLE, SINGLE], ..C }),
    (
        "kotlin",
        Lexis {
            nested: true,
            strings: &[Quote { code: Some("${"), ..TRIPLE }, Quote { code: Some("${"), ..DOUBLE }, SINGLE],
            ..C
        },
    ),
    ("swift", Lexis { nested: true, strings: &[TRIPLE, DOUBLE], ..C }),
    ("json", Lexis { strings: &[DOUBLE], ..PLAIN }),
    ("css", Lexis { line: &[], block: STARS, ..PLAIN }),
];

static LANGUAGES: LazyLock<Vec<Info>> = LazyLock::new(|| {
    let rows = include_str!("languages.table").lines().filter(|row| !row.starts_with('#'));
    rows.filter_map(Info::read).collect()
});

impl Info {
    fn read(row: &'static str) -> Option<Info> {
        let mut columns = row.split('|').map(|column| column.split_whitespace().collect::<Vec<_>>());
        let mut column = || columns.next().unwrap_or_default();
        let (name, aliases, files, interpreters) = (*column().first()?, column(), column(), column());
        let rule = match *column().first()? {
            "word" => Rule::Word,
            "dollar" => Rule::Dollar,
            "rust" => Rule::Rust,
            "php" => Rule::Php,
            "ruby" => Rule::Ruby,
            "zig" => Rule::Zig,
            "common-lisp" => Rule::Lisp(Dialect::CommonLisp),
            "emacs-lisp" => Rule::Lisp(Dialect::EmacsLisp),
            "scheme" => Rule::Lisp(Dialect::Scheme),
            "clojure" => Rule::Lisp(Dialect::Clojure),
            _ => return None,
        };
        let lexis = *column().first()?;
        let (_, lexis) = LEXES.iter().find(|(name, _)| *name == lexis)?;
        Some(Info { name, aliases, files, interpreters, rule, lexis })
    }
}

impl Language {
    /// Text in any other language.
    pub const TEXT: Language = Language(0);

    /// Returns all languages.
    pub fn all() -> impl Iterator<Item = Language> {
        (0..LANGUAGES.len() as u8).map(Language)
    }

    /// Returns the language with this name or alias, ignoring case, spaces, `-` and `_`: `Common
    /// Lisp` is `commonlisp`.
    pub fn named(name: &str) -> Option<Language> {
        let is_joint = |char: char| char.is_whitespace() || matches!(char, '-' | '_');
        let name = name.replace(is_joint, "").to_lowercase();
        Language::all().find(|language| {
            let info = language.info();
            info.name == name || info.aliases.contains(&name.as_str())
        })
    }

    pub(crate) fn from_index(index: u8) -> Option<Language> {
        (usize::from(index) < LANGUAGES.len()).then_some(Language(index))
    }

    pub(crate) fn index(self) -> u8 {
        self.0
    }

    fn info(self) -> &'static Info {
        &LANGUAGES[usize::from(self.0).min(LANGUAGES.len() - 1)]
    }

    /// Returns the name of the language, such as `rust` or `commonlisp`.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Returns the identifier syntax of the language.
    pub fn rule(self) -> Rule {
        self.info().rule
    }

    /// Returns the Lisp dialect, or `None` if the language is not a Lisp.
    pub fn dialect(self) -> Option<Dialect> {
        match self.rule() {
            Rule::Lisp(dialect) => Some(dialect),
            _ => None,
        }
    }

    pub(crate) fn lexis(self) -> &'static Lexis {
        self.info().lexis
    }

    /// Returns the language of the file at `path` with content `text`, by file name, then by the
    /// `#!` line; [`Language::TEXT`] if neither shows a language. A `.h` file is C++ if its text
    /// looks like C++, and otherwise C.
    pub fn of(path: &Path, text: &[u8]) -> Language {
        let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        let named = Language::all().find(|language| {
            language.info().files.iter().any(|file| match file.strip_prefix('/') {
                Some(whole) => whole == name,
                None => Some(*file) == extension.as_deref(),
            })
        });
        match named {
            Some(language) if extension.as_deref() == Some("h") && looks_like_cpp(text) => {
                Language::named("cpp").unwrap_or(language)
            }
            Some(language) => language,
            None => interpreter(text)
                .and_then(|name| {
                    Language::all().find(|language| language.info().interpreters.contains(&name))
                })
                .unwrap_or(Language::TEXT),
        }
    }
}

/// Returns the program on a `#!` line, without its folder. If this is `env`, returns the program
/// that `env` starts.
fn interpreter(text: &[u8]) -> Option<&str> {
    let line = text.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let line = std::str::from_utf8(line.get(..200).unwrap_or(line)).ok()?;
    let mut words = line.split_ascii_whitespace();
    let program = words.next()?.rsplit('/').next()?;
    if program != "env" {
        return Some(program);
    }
    words.find(|word| !word.starts_with('-') && !word.contains('='))
}

/// Returns whether the text of a `.h` file is probably C++.
fn looks_like_cpp(text: &[u8]) -> bool {
    let head = &text[..text.len().min(64 << 10)];
    ["\nclass ", "\nnamespace ", "\ntemplate <", "\ntemplate<", "\nusing ", "public:", "std::"]
        .iter()
        .any(|sign| memchr::memmem::find(head, sign.as_bytes()).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_languages() {
        let check = |path: &str, text: &str, expect: &str| {
            assert_eq!(Language::of(Path::new(path), text.as_bytes()).name(), expect, "{path}");
        };
        check("src/a.rs", "", "rust");
        check("a.LISP", "", "commonlisp");
        check("x.asd", "", "commonlisp");
        check("init.el", "", "emacslisp");
        check("a.h", "int f(void);", "c");
        check("a.h", "\nnamespace x {}", "cpp");
        check("run", "#!/usr/bin/env -S python3 -u\n", "python");
        check("run", "#!/usr/bin/sbcl --script\n", "commonlisp");
        check("README", "hello", "text");
        check("Rakefile", "", "ruby");
    }

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> =
            LANGUAGES.iter().flat_map(|info| info.aliases.iter().chain([&info.name])).collect();
        let count = names.len();
        assert!(LANGUAGES.iter().any(|info| info.name == "css"), "every row is read");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(Language::named("TS"), Language::named("typescript"));
        assert_eq!(Language::named("cobol"), None);
    }
}
