//! Finds the project's names that contain another name as a component, as `make-point` contains
//! `point`. Also determines how operators use a name that they take as an argument.

use crate::actions::uses::via::{ExpansionOrigin, Origins};
use crate::answer::package_owner::PackageOwner;
use crate::source::tap::sidecar::Name;
use crate::workspace::{Project, TreeView};
use steelbank_reader::operators::class_definers;
use steelbank_reader::{FormId, FormKind, LispText};
use steelbank_xref::{Index, Symbol, SymbolName};

/// An index of symbol names, for finding names that contain another name.
#[derive(Debug, Default)]
pub struct ProjectSymbols {
    /// All names, each followed by a line feed.
    text: Vec<u8>,
    /// The start of each name in `text`, with its symbol.
    starts: Vec<(usize, Symbol)>,
}

impl ProjectSymbols {
    /// Collects the names of all symbols in `index`, except those of the standard, SBCL and ASDF,
    /// and uninterned symbols.
    pub fn new(index: &Index) -> ProjectSymbols {
        let mut names = ProjectSymbols::default();
        for symbol in index.symbols() {
            let own = index.symbol_package(symbol).is_some_and(|package| {
                !matches!(
                    PackageOwner::of(&index.package_name(package)),
                    PackageOwner::Standard | PackageOwner::Sbcl | PackageOwner::Asdf
                )
            });
            if own {
                names.starts.push((names.text.len(), symbol));
                names.text.extend_from_slice(index.symbol_name(symbol).replace('\n', " ").as_bytes());
                names.text.push(b'\n');
            }
        }
        names
    }

    /// Finds the symbols called `name`.
    pub(super) fn named(&self, index: &Index, name: &str) -> Vec<Symbol> {
        let line = format!("{}\n", name.replace('\n', " "));
        memchr::memmem::find_iter(&self.text, line.as_bytes())
            .filter_map(|at| {
                let place = self.starts.binary_search_by_key(&at, |(start, _)| *start).ok()?;
                Some(self.starts[place].1).filter(|&symbol| index.symbol_name(symbol) == name)
            })
            .collect()
    }

    /// Finds the symbols with longer names that contain `name` as a component.
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

/// Finds `name` as a component of `other`: a part that neither begins nor ends inside a word.
fn part(other: &str, name: &str) -> Option<usize> {
    let is_word = |char: Option<char>| char.is_some_and(char::is_alphanumeric);
    let bounded = |at: &usize| {
        let (before, after) = (&other[..*at], &other[*at + name.len()..]);
        let starts = !is_word(before.chars().next_back()) || !is_word(name.chars().next());
        let ends = !is_word(after.chars().next()) || !is_word(name.chars().next_back());
        // Accept a final P without a hyphen: FOOP is derived from FOO, like FOO-P.
        starts && (ends || after == "P")
    };
    let mut all = other.match_indices(name).map(|(at, _)| at).filter(bounded);
    let first = all.next()?;
    // Accessors begin with the structure's name, and end with the slot's name.
    Some(if other.starts_with(name) { first } else { all.last().unwrap_or(first) })
}

/// Replaces the component `name` of `other` by `new`. Returns `other` unchanged if it does not
/// contain the component.
pub(super) fn replaced(other: &str, name: &str, new: &str) -> String {
    match part(other, name) {
        Some(at) => format!("{}{new}{}", &other[..at], &other[at + name.len()..]),
        None => other.to_owned(),
    }
}

/// Returns the replacement of the component `part` that turns `other` into `new`, if there is one.
pub(super) fn component_of_new<'a>(other: &str, part: &str, new: &'a str) -> Option<&'a str> {
    let at = self::part(other, part)?;
    let (before, after) = (&other[..at], &other[at + part.len()..]);
    new.strip_prefix(before)?.strip_suffix(after).filter(|part| !part.is_empty())
}

/// Returns whether a macro's definition, directly or through other operators, defines a class.
/// Returns false for standard operators: the slots in their forms are known.
pub(super) fn defines_class(project: &Project, view: &TreeView, operator: &Name) -> bool {
    let Name::Symbol(operator) = operator else { return false };
    // A macro's definition may call this function instead of DEFCLASS.
    let ensure_class = SymbolName::new("SB-MOP", "ENSURE-CLASS");
    !PackageOwner::of(&operator.package).is_locked()
        && class_definers().map(|maker| SymbolName::new("COMMON-LISP", maker)).chain([ensure_class]).any(
            |maker| {
                let origin = Origins::new(project, view).of(&maker, &|_| false, operator, Vec::new());
                matches!(origin, Some(ExpansionOrigin::InTemplate(_)))
            },
        )
}

/// How code uses a name as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NameAsDatum {
    /// The code converts the name to a string.
    String,
    /// The code quotes the name.
    Quoted,
    /// Any other use.
    Other,
}

impl NameAsDatum {
    /// Determines how code uses the token that starts at `offset`.
    pub(super) fn read(text: &LispText, bytes: &[u8], offset: u32) -> Self {
        let operator = |form: Option<FormId>| {
            let head = form.and_then(|form| text.head(text.form(form)?));
            head.map(|head| head.symbol(bytes).name.into_owned()).unwrap_or_default()
        };
        let parent = |form: Option<FormId>| form.and_then(|form| text.form(form)?.parent);
        let quote = text.token_at(offset).and_then(|token| token.form);
        let is_quote =
            quote.and_then(|quote| text.form(quote)).is_some_and(|form| form.kind == FormKind::Quote);
        if !is_quote && operator(quote) != "QUOTE" {
            return Self::Other;
        }
        let list = parent(quote);
        match operator(list).as_str() {
            "SYMBOL-NAME" | "STRING" | "SYMBOLICATE" | "FORMAT-SYMBOL" | "CONCAT-SYMBOL" => Self::String,
            "FORMAT" if operator(parent(list)) == "INTERN" => Self::String,
            _ => Self::Quoted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steelbank_reader::{Dialect, Features};

    #[test]
    fn components_are_complete_words() {
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
        assert_eq!(component_of_new("MAKE-POINT", "POINT", "MAKE-DOT"), Some("DOT"));
        assert_eq!(component_of_new("MAKE-POINT", "POINT", "NEW-DOT"), None);
        assert!(part("APPOINTED", "POINT").is_none() && part("POINTS", "POINT").is_none());
    }

    #[test]
    fn names_converted_to_strings_are_found() {
        for (text, expected) in [
            ("(intern (concatenate 'string (symbol-name 'request) \"-\"))", NameAsDatum::String),
            ("(intern (format nil \"~a-x\" (quote request)))", NameAsDatum::String),
            ("(alexandria:symbolicate 'make-\n 'request)", NameAsDatum::String),
            ("(list 'request) ; (string 'x)", NameAsDatum::Quoted),
            ("(request)", NameAsDatum::Other),
        ] {
            let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
            let at = text.find("request").unwrap() as u32;
            assert_eq!(NameAsDatum::read(&read, text.as_bytes(), at), expected, "{text}");
        }
    }
}
