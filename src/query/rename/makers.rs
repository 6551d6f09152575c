//! Names that are made from other names.

use steelbank_xref::{Index, Symbol};

/// The names of the project's symbols, for finding those that contain another.
#[derive(Debug, Default)]
pub struct ProjectSymbols {
    /// All names, each before a line feed.
    text: Vec<u8>,
    /// Where each name starts, with its symbol.
    starts: Vec<(usize, Symbol)>,
}

impl ProjectSymbols {
    /// Collects the names of all symbols in `index` but SBCL's own.
    pub fn new(index: &Index) -> ProjectSymbols {
        let mut names = ProjectSymbols::default();
        for symbol in index.symbols() {
            let own = index.symbol_package(symbol).is_some_and(|package| {
                let name = index.package_name(package);
                !name.starts_with("SB-")
                    && !["COMMON-LISP", "KEYWORD", "UIOP", "ASDF"].contains(&name.as_ref())
            });
            if own {
                names.starts.push((names.text.len(), symbol));
                names.text.extend_from_slice(index.symbol_name(symbol).replace('\n', " ").as_bytes());
                names.text.push(b'\n');
            }
        }
        names
    }

    /// Finds the symbols that are called `name`.
    pub(super) fn named(&self, index: &Index, name: &str) -> Vec<Symbol> {
        let line = format!("{}\n", name.replace('\n', " "));
        memchr::memmem::find_iter(&self.text, line.as_bytes())
            .filter_map(|at| {
                let place = self.starts.binary_search_by_key(&at, |(start, _)| *start).ok()?;
                Some(self.starts[place].1).filter(|&symbol| index.symbol_name(symbol) == name)
            })
            .collect()
    }

    /// Finds the symbols with longer names that have `name` as a part.
    pub(super) fn containing(&self, index: &Index, name: &str) -> Vec<(Symbol, String)> {
        let mut found: Vec<(Symbol, String)> = Vec::new();
        if name.is_empty() {
            return found;
        }
        for at in memchr::memmem::find_iter(&self.text, name.as_bytes()) {
            let place = self.starts.partition_point(|(start, _)| *start <= at);
            let Some(&(_, symbol)) = place.checked_sub(1).and_then(|place| self.starts.get(place)) else {
                continue;
            };
            let other = index.symbol_name(symbol);
            if other.len() > name.len()
                && part(&other, name).is_some()
                && found.last().is_none_or(|last| last.0 != symbol)
            {
                found.push((symbol, other.into_owned()));
            }
        }
        found
    }
}

/// Finds `name` as a part of `other` that neither begins nor ends inside a word.
fn part(other: &str, name: &str) -> Option<usize> {
    let is_word = |char: Option<char>| char.is_some_and(char::is_alphanumeric);
    let bounded = |at: &usize| {
        let (before, after) = (&other[..*at], &other[*at + name.len()..]);
        let starts = !is_word(before.chars().next_back()) || !is_word(name.chars().next());
        let ends = !is_word(after.chars().next()) || !is_word(name.chars().next_back());
        // Takes a final P for a word: FOOP is made from FOO, as FOO-P is.
        starts && (ends || after == "P")
    };
    let mut all = other.match_indices(name).map(|(at, _)| at).filter(bounded);
    let first = all.next()?;
    // Accessors begin with the structure's name, and end with the slot's.
    Some(if other.starts_with(name) { first } else { all.last().unwrap_or(first) })
}

/// Replaces the part `name` of `other` by `new`.
pub(super) fn replaced(other: &str, name: &str, new: &str) -> String {
    match part(other, name) {
        Some(at) => format!("{}{new}{}", &other[..at], &other[at + name.len()..]),
        None => other.to_owned(),
    }
}

/// Finds what `part` of `other` must become for `other` to become `new`.
pub(super) fn part_of_new<'a>(other: &str, part: &str, new: &'a str) -> Option<&'a str> {
    let at = self::part(other, part)?;
    let (before, after) = (&other[..at], &other[at + part.len()..]);
    new.strip_prefix(before)?.strip_suffix(after).filter(|part| !part.is_empty())
}

/// Whether an operator that is not the standard's may define classes, and so make initargs from slots.
pub(super) fn makes_slots(operator: &str) -> bool {
    operator.starts_with("DEF")
        && !matches!(
            operator,
            "DEFCLASS" | "DEFSTRUCT" | "DEFUN" | "DEFMETHOD" | "DEFMACRO" | "DEFVAR" | "DEFGENERIC"
        )
        && ["CLASS", "RECORD", "STRUCT", "SLOT", "MESSAGE", "CONDITION", "OBJECT", "ENTITY"]
            .iter()
            .any(|word| operator.contains(word))
        && operator != "DEFINE-CONDITION"
}

/// Whether the code before `column` of `line` makes a string of the quoted name there.
pub(super) fn is_taken_apart(line: &str, column: u32) -> bool {
    let before = before(line, column).trim_end_matches('\'').trim_end();
    ["(symbol-name", "(string", "symbolicate", "format-symbol", "concat-symbol"]
        .iter()
        .any(|operator| ends_with(before, operator))
        || (ends_with(before, "~a\"") && before.to_ascii_lowercase().contains("(intern "))
}

/// Whether the name at `column` of `line` is quoted.
pub(super) fn is_quoted(line: &str, column: u32) -> bool {
    let before = before(line, column);
    before.ends_with('\'') || ends_with(before, "(quote ")
}

/// Returns the text before `column` of `line`, with a short cut for ASCII: a long line may have many places.
fn before(line: &str, column: u32) -> &str {
    let count = column.saturating_sub(1) as usize;
    let end = match line.is_ascii() {
        true => count.min(line.len()),
        false => line.char_indices().nth(count).map_or(line.len(), |(at, _)| at),
    };
    &line[..end]
}

/// Whether `text` ends with `end`, in any case.
fn ends_with(text: &str, end: &str) -> bool {
    let tail = text.len().checked_sub(end.len()).and_then(|at| text.as_bytes().get(at..));
    tail.is_some_and(|tail| tail.eq_ignore_ascii_case(end.as_bytes()))
}

/// Whether the name is a word of LOOP or ITERATE.
pub(super) fn is_iterate_word(name: &str) -> bool {
    const WORDS: [&str; 60] = [
        "FOR",
        "AS",
        "WITH",
        "AND",
        "THEN",
        "FROM",
        "UPFROM",
        "DOWNFROM",
        "TO",
        "DOWNTO",
        "UPTO",
        "BELOW",
        "ABOVE",
        "BY",
        "IN",
        "ON",
        "ACROSS",
        "BEING",
        "EACH",
        "THE",
        "OF",
        "USING",
        "HASH-KEY",
        "HASH-VALUE",
        "WHILE",
        "UNTIL",
        "ALWAYS",
        "NEVER",
        "THEREIS",
        "COLLECT",
        "COLLECTING",
        "INTO",
        "SUM",
        "SUMMING",
        "COUNT",
        "COUNTING",
        "MAXIMIZE",
        "MINIMIZE",
        "MAXIMIZING",
        "MINIMIZING",
        "NCONC",
        "NCONCING",
        "APPEND",
        "APPENDING",
        "NAMED",
        "INITIALLY",
        "FINALLY",
        "DO",
        "DOING",
        "RETURN",
        "REPEAT",
        "WHEN",
        "UNLESS",
        "IF",
        "ELSE",
        "END",
        "IT",
        "INDEX",
        "REDUCING",
        "ACCUMULATE",
    ];
    WORDS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_whole_words() {
        for (other, name, expected) in [
            ("MAKE-POINT", "POINT", "MAKE-DOT"),
            ("POINT-X", "POINT", "DOT-X"),
            ("POINT-P", "POINT", "DOT-P"),
            ("POINTP", "POINT", "DOTP"),
            ("%POINT", "POINT", "%DOT"),
            ("POINT-POINT", "POINT", "DOT-POINT"),
        ] {
            assert_eq!(replaced(other, name, "DOT"), expected);
        }
        assert_eq!(part_of_new("MAKE-POINT", "POINT", "MAKE-DOT"), Some("DOT"));
        assert_eq!(part_of_new("MAKE-POINT", "POINT", "NEW-DOT"), None);
        assert!(part("APPOINTED", "POINT").is_none() && part("POINTS", "POINT").is_none());
    }

    #[test]
    fn names_that_become_strings_are_seen() {
        assert!(is_taken_apart("(intern (concatenate 'string (symbol-name 'request) \"-\"))", 44));
        assert!(!is_taken_apart("(list 'request)", 8));
    }
}
