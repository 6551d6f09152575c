//! The languages: their names, their file names, their identifiers, and their syntax of comments and strings.

use std::path::Path;
use steelbank_reader::Dialect;

/// One of the languages that the text index knows. Every other text is [`Language::TEXT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Language(u8);

/// Which tokens of a language are identifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Letters, digits and `_`, in any script.
    Word,
    /// The same, with `$`.
    Dollar,
    /// The same as `Word`, with a macro's `!`.
    Rust,
    /// The same as `Word`; a variable may be asked for with its `$`.
    Php,
    /// The same as `Word`, with a method's `?` or `!`; a variable may be asked for with its `@`, `@@` or `$`.
    Ruby,
    /// The same as `Word`; a builtin may be asked for with its `@`.
    Zig,
    /// Lisp symbols.
    Lisp(Dialect),
}

/// The syntax of comments and strings.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Lexis {
    pub(crate) line: &'static [&'static str],
    pub(crate) block: Option<(&'static str, &'static str)>,
    pub(crate) nested: bool,
    pub(crate) strings: &'static [Quote],
    pub(crate) apostrophe: Apostrophe,
}

/// One way to write a string. Longer openings stand before shorter ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quote {
    pub(crate) open: &'static str,
    pub(crate) close: &'static str,
    pub(crate) escapes: bool,
    pub(crate) lines: bool,
    /// The opening of code inside the string, which goes up to the matching `}`.
    pub(crate) code: Option<&'static str>,
}

/// The meaning of `'` where it does not open a string.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Apostrophe {
    #[default]
    Nothing,
    /// A character, or a lifetime, which ends nowhere.
    Rust,
}

/// The grammar of a language.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Grammar {
    Rust,
    TypeScript,
    Tsx,
    JavaScript,
    Python,
    Go,
    C,
    Cpp,
    Java,
    Ruby,
    Php,
    CSharp,
    Zig,
    Kotlin,
    Swift,
}

struct Info {
    name: &'static str,
    aliases: &'static [&'static str],
    /// File name extensions, and whole file names with a `/` in front.
    files: &'static [&'static str],
    interpreters: &'static [&'static str],
    rule: Rule,
    lexis: Lexis,
    grammar: Option<Grammar>,
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

const fn info(
    name: &'static str,
    aliases: &'static [&'static str],
    files: &'static [&'static str],
    rule: Rule,
    lexis: Lexis,
    grammar: Option<Grammar>,
) -> Info {
    Info { name, aliases, files, interpreters: &[], rule, lexis, grammar }
}

const fn run_by(info: Info, interpreters: &'static [&'static str]) -> Info {
    Info { interpreters, ..info }
}

/// The order is part of the index format: a change needs a new `FORMAT` in `manifest.rs`.
const LANGUAGES: &[Info] = &[
    info("text", &["plain", "txt"], &[], Rule::Word, PLAIN, None),
    run_by(
        info(
            "commonlisp",
            &["common-lisp", "lisp", "cl"],
            &["lisp", "lsp", "cl", "asd", "asdf", "/.sbclrc"],
            Rule::Lisp(Dialect::CommonLisp),
            PLAIN,
            None,
        ),
        &["sbcl", "clisp", "ecl", "ccl"],
    ),
    run_by(
        info(
            "emacslisp",
            &["emacs-lisp", "elisp", "el"],
            &["el", "/.emacs", "/Cask", "/Eask"],
            Rule::Lisp(Dialect::EmacsLisp),
            PLAIN,
            None,
        ),
        &["emacs"],
    ),
    run_by(
        info(
            "scheme",
            &["scm", "racket"],
            &["scm", "ss", "sld", "sls", "sps", "rkt", "rktl"],
            Rule::Lisp(Dialect::Scheme),
            PLAIN,
            None,
        ),
        &["guile", "racket", "csi", "chez", "scheme"],
    ),
    run_by(
        info(
            "clojure",
            &["clj", "cljs", "clojurescript"],
            &["clj", "cljs", "cljc", "cljd", "edn", "bb"],
            Rule::Lisp(Dialect::Clojure),
            PLAIN,
            None,
        ),
        &["bb", "clojure"],
    ),
    info(
        "rust",
        &["rs"],
        &["rs"],
        Rule::Rust,
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
        Some(Grammar::Rust),
    ),
    info("typescript", &["ts"], &["ts", "mts", "cts"], Rule::Dollar, SCRIPT, Some(Grammar::TypeScript)),
    info("tsx", &[], &["tsx"], Rule::Dollar, SCRIPT, Some(Grammar::Tsx)),
    run_by(
        info(
            "javascript",
            &["js", "jsx"],
            &["js", "mjs", "cjs", "jsx"],
            Rule::Dollar,
            SCRIPT,
            Some(Grammar::JavaScript),
        ),
        &["node", "deno", "bun"],
    ),
    run_by(
        info(
            "python",
            &["py"],
            &["py", "pyi", "pyw", "/SConstruct"],
            Rule::Word,
            Lexis { strings: &[TRIPLE, quote("'''", "'''", true, true), DOUBLE, SINGLE], ..HASH },
            Some(Grammar::Python),
        ),
        &["python", "python2", "python3", "pypy3"],
    ),
    info(
        "go",
        &["golang"],
        &["go"],
        Rule::Word,
        Lexis { strings: &[DOUBLE, SINGLE, quote("`", "`", false, true)], ..C },
        Some(Grammar::Go),
    ),
    info("c", &[], &["c", "h"], Rule::Word, C, Some(Grammar::C)),
    info(
        "cpp",
        &["c++", "cxx"],
        &["cc", "cpp", "cxx", "c++", "hh", "hpp", "hxx", "h++", "ipp", "inl", "tpp"],
        Rule::Word,
        Lexis { strings: &[quote("R\"(", ")\"", false, true), DOUBLE, SINGLE], ..C },
        Some(Grammar::Cpp),
    ),
    info(
        "java",
        &[],
        &["java"],
        Rule::Dollar,
        Lexis { strings: &[TRIPLE, DOUBLE, SINGLE], ..C },
        Some(Grammar::Java),
    ),
    run_by(
        info(
            "ruby",
            &["rb"],
            &["rb", "rake", "gemspec", "ru", "/Rakefile", "/Gemfile"],
            Rule::Ruby,
            Lexis { strings: &[Quote { code: Some("#{"), ..DOUBLE }, SINGLE], ..HASH },
            Some(Grammar::Ruby),
        ),
        &["ruby"],
    ),
    run_by(
        info(
            "php",
            &[],
            &["php", "phtml", "php5"],
            Rule::Php,
            Lexis {
                line: &["//", "#"],
                strings: &[quote("\"", "\"", true, true), quote("'", "'", true, true)],
                ..C
            },
            Some(Grammar::Php),
        ),
        &["php"],
    ),
    info(
        "csharp",
        &["c#", "cs"],
        &["cs"],
        Rule::Word,
        Lexis { strings: &[TRIPLE, quote("@\"", "\"", false, true), DOUBLE, SINGLE], ..C },
        Some(Grammar::CSharp),
    ),
    info(
        "zig",
        &[],
        &["zig", "zon"],
        Rule::Zig,
        Lexis { block: None, strings: &[quote("\\\\", "\n", false, true), DOUBLE, SINGLE], ..C },
        Some(Grammar::Zig),
    ),
    info(
        "kotlin",
        &["kt"],
        &["kt", "kts"],
        Rule::Word,
        Lexis {
            nested: true,
            strings: &[Quote { code: Some("${"), ..TRIPLE }, Quote { code: Some("${"), ..DOUBLE }, SINGLE],
            ..C
        },
        Some(Grammar::Kotlin),
    ),
    info(
        "swift",
        &[],
        &["swift"],
        Rule::Word,
        Lexis { nested: true, strings: &[TRIPLE, DOUBLE], ..C },
        Some(Grammar::Swift),
    ),
    info("markdown", &["md"], &["md", "markdown"], Rule::Word, PLAIN, None),
    run_by(
        info("shell", &["sh", "bash"], &["sh", "bash", "zsh"], Rule::Word, HASH, None),
        &["sh", "bash", "dash", "zsh", "ksh"],
    ),
    info("json", &[], &["json", "jsonl"], Rule::Word, Lexis { strings: &[DOUBLE], ..PLAIN }, None),
    info("toml", &[], &["toml", "/Cargo.lock"], Rule::Word, HASH, None),
    info("yaml", &["yml"], &["yaml", "yml"], Rule::Word, HASH, None),
    info("html", &[], &["html", "htm", "xhtml"], Rule::Word, PLAIN, None),
    info("css", &[], &["css", "scss", "less"], Rule::Word, Lexis { line: &[], block: STARS, ..PLAIN }, None),
];

impl Language {
    /// Any text in no other language.
    pub const TEXT: Language = Language(0);

    /// All of them.
    pub fn all() -> impl Iterator<Item = Language> {
        (0..LANGUAGES.len() as u8).map(Language)
    }

    /// The language with this name, or alias, in any case, and in as many words as one likes: Common Lisp.
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

    /// Its name: `rust`, `commonlisp`.
    pub fn name(self) -> &'static str {
        self.info().name
    }

    /// Which of its tokens are identifiers.
    pub fn rule(self) -> Rule {
        self.info().rule
    }

    /// Which Lisp it is, if it is one.
    pub fn dialect(self) -> Option<Dialect> {
        match self.rule() {
            Rule::Lisp(dialect) => Some(dialect),
            _ => None,
        }
    }

    pub(crate) fn lexis(self) -> &'static Lexis {
        &self.info().lexis
    }

    pub(crate) fn grammar(self) -> Option<Grammar> {
        self.info().grammar
    }

    /// The language of the file at `path` with this text: by name, else by its `#!` line.
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

/// The program on a `#!` line, without its folder.
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

/// Whether a `.h` file is C++.
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
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
        assert_eq!(Language::named("TS"), Language::named("typescript"));
        assert_eq!(Language::named("cobol"), None);
    }
}
