//! Patterns: Lisp forms with holes. `?x` is a hole for one form, and `?*` or `?*x` for any number
//! of forms at the rest of a list or between other elements. A hole that stands twice must match
//! equal forms.

use steelbank_reader::{Datum, Dialect, FormId, FormKind, LispText, Marker, Token, TokenKind};

/// A pattern that was read.
#[derive(Debug, Clone)]
pub(crate) struct FormPattern {
    root: PatternPart,
    /// The symbols of the pattern as written, each once, in order.
    pub(crate) symbols: Vec<PatternSymbol>,
    /// The names of the holes as written, each once, in order.
    pub(crate) holes: Vec<String>,
    /// For each symbol, the number of forms around one of its places.
    depths: Vec<usize>,
}

/// A symbol in a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PatternSymbol {
    /// The text of the token, with its prefix.
    pub(crate) written: String,
    /// The name after reading.
    pub(crate) name: String,
    /// The package prefix after reading, `KEYWORD` for a keyword.
    pub(crate) package: Option<String>,
}

/// A part of a pattern.
#[derive(Debug, Clone)]
enum PatternPart {
    /// One form: the number of the hole.
    Hole(usize),
    /// Any number of elements of a list: the number of the hole.
    Rest(usize),
    /// The number of the symbol.
    Symbol(usize),
    /// A string, number or character.
    Atom(TokenKind, String),
    Form(FormKind, Vec<PatternPart>),
}

/// Why a text is not a pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternError {
    /// The text is not one form.
    #[error("The pattern {0} is not one complete form. Example: (if ?test nil ?else)")]
    NotOneForm(String),
    /// The pattern is an atom.
    #[error("The pattern {0} is not a list. code-find-references finds the uses of one symbol.")]
    Atom(String),
    /// The pattern has no symbol.
    #[error("The pattern {0} names no symbol, so it would match nearly every list. Add a symbol.")]
    NoSymbol(String),
    /// A list has two rest holes.
    #[error("The pattern {0} has two rest holes in one list, so that it can match in several ways.")]
    TwoRests(String),
}

/// A text to search: its bytes, its forms, and the symbols of the pattern in it.
pub(crate) struct Subject<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) read: &'a LispText,
    /// The starts of the tokens that mean each symbol of the pattern.
    pub(crate) places: &'a [std::collections::HashSet<u32>],
}

/// The elements that each hole matched, by the hole's number.
pub(crate) type Bindings = Vec<Option<Vec<Datum>>>;

impl FormPattern {
    /// Reads a pattern for a search.
    ///
    /// # Errors
    /// The text is not one list with a symbol.
    pub(crate) fn parse(text: &str) -> Result<Self, PatternError> {
        let mut pattern = Self::template(text)?;
        match pattern.root {
            PatternPart::Form(..) => {}
            _ => return Err(PatternError::Atom(text.to_owned())),
        }
        if pattern.symbols.is_empty() {
            return Err(PatternError::NoSymbol(text.to_owned()));
        }
        let mut depths = vec![0; pattern.symbols.len()];
        pattern.root.depths(0, &mut depths);
        pattern.depths = depths;
        Ok(pattern)
    }

    /// Reads the text that replaces a match: one form, which can be an atom.
    ///
    /// # Errors
    /// The text is not one form.
    pub(crate) fn template(text: &str) -> Result<Self, PatternError> {
        let bytes = text.as_bytes();
        let read = LispText::read(bytes, Dialect::CommonLisp, &crate::source::features());
        let wrong = || PatternError::NotOneForm(text.to_owned());
        let [top] = read.toplevel() else { return Err(wrong()) };
        if !read.balanced() || top.unterminated {
            return Err(wrong());
        }
        let datum = match top.form {
            Some(form) => Datum::Form(form),
            None => {
                let is_atom = |token: &Token| token.active && token.span == top.span;
                Datum::Token(read.tokens().iter().position(is_atom).ok_or_else(wrong)?)
            }
        };
        let root = PatternPart::Hole(0);
        let mut pattern = Self { root, symbols: Vec::new(), holes: Vec::new(), depths: Vec::new() };
        pattern.root = pattern.part(bytes, &read, datum).ok_or_else(wrong)?;
        match pattern.root {
            PatternPart::Rest(_) => Err(wrong()),
            _ if pattern.root.has_two_rests() => Err(PatternError::TwoRests(text.to_owned())),
            _ => Ok(pattern),
        }
    }

    /// Reads a part, and adds its symbols and holes to the pattern.
    fn part(&mut self, bytes: &[u8], read: &LispText, datum: Datum) -> Option<PatternPart> {
        let id = match datum {
            Datum::Form(id) => id,
            Datum::Token(index) => {
                let token = read.tokens().get(index)?;
                let written = String::from_utf8_lossy(bytes.get(token.span.indices())?).into_owned();
                return Some(match token.kind {
                    TokenKind::Symbol => self.symbol(bytes, token, written),
                    kind => PatternPart::Atom(kind, canonical_atom(kind, &written)),
                });
            }
        };
        let form = read.form(id)?;
        let parts = read.elements(id).map(|datum| self.part(bytes, read, datum));
        Some(PatternPart::Form(form.kind, parts.collect::<Option<_>>()?))
    }

    fn symbol(&mut self, bytes: &[u8], token: &Token, written: String) -> PatternPart {
        if token.marker == Marker::None && written.len() > 1 && written.starts_with('?') {
            let is_rest = written.starts_with("?*");
            let known = self.holes.iter().position(|hole| hole.eq_ignore_ascii_case(&written));
            let number = known.unwrap_or(self.holes.len());
            if known.is_none() {
                self.holes.push(written);
            }
            return if is_rest { PatternPart::Rest(number) } else { PatternPart::Hole(number) };
        }
        let read = token.symbol(bytes);
        let package = match token.marker {
            Marker::Keyword => Some("KEYWORD".to_owned()),
            _ => read.package.map(|package| package.into_owned()),
        };
        let symbol = PatternSymbol { written, name: read.name.into_owned(), package };
        let known = self.symbols.iter().position(|known| *known == symbol);
        let number = known.unwrap_or(self.symbols.len());
        if known.is_none() {
            self.symbols.push(symbol);
        }
        PatternPart::Symbol(number)
    }

    /// Returns the form that matches the pattern as a whole if the token in the innermost form
    /// `around` is the pattern's symbol `symbol`.
    pub(crate) fn root_around(&self, read: &LispText, symbol: usize, around: FormId) -> Option<FormId> {
        let up = self.depths.get(symbol)?.checked_sub(1)?;
        let mut forms = std::iter::successors(Some(around), |id| read.form(*id)?.parent);
        forms.nth(up)
    }

    /// Matches the pattern with the form `root` of `subject`.
    pub(crate) fn matches(&self, subject: &Subject<'_>, root: FormId) -> Option<Bindings> {
        let mut bindings = vec![None; self.holes.len()];
        subject.part(&self.root, Datum::Form(root), &mut bindings).then_some(bindings)
    }

    /// Counts the places of each hole, by the hole's name in upper case.
    pub(crate) fn places_of(&self, hole: &str) -> usize {
        let number = self.holes.iter().position(|known| known.eq_ignore_ascii_case(hole));
        number.map_or(0, |number| self.root.places_of(number))
    }
}

impl PatternPart {
    fn depths(&self, depth: usize, depths: &mut [usize]) {
        match self {
            Self::Symbol(number) => depths[*number] = depth,
            Self::Form(_, parts) => parts.iter().for_each(|part| part.depths(depth + 1, depths)),
            Self::Hole(_) | Self::Rest(_) | Self::Atom(..) => {}
        }
    }

    fn has_two_rests(&self) -> bool {
        let Self::Form(_, parts) = self else { return false };
        let rests = parts.iter().filter(|part| matches!(part, Self::Rest(_)));
        rests.count() > 1 || parts.iter().any(Self::has_two_rests)
    }

    fn places_of(&self, hole: usize) -> usize {
        match self {
            Self::Hole(number) | Self::Rest(number) => usize::from(*number == hole),
            Self::Form(_, parts) => parts.iter().map(|part| part.places_of(hole)).sum(),
            Self::Symbol(_) | Self::Atom(..) => 0,
        }
    }
}

impl Subject<'_> {
    fn part(&self, part: &PatternPart, datum: Datum, bindings: &mut Bindings) -> bool {
        match (part, datum) {
            (PatternPart::Hole(number), _) => {
                !self.is_spliced(datum) && self.bind(*number, &[datum], bindings)
            }
            (PatternPart::Rest(number), _) => self.bind(*number, &[datum], bindings),
            (PatternPart::Symbol(number), Datum::Token(index)) => {
                let token = self.read.tokens().get(index);
                token.is_some_and(|token| self.places[*number].contains(&token.span.start))
            }
            (PatternPart::Atom(kind, text), Datum::Token(index)) => {
                let token = self.read.tokens().get(index).filter(|token| token.kind == *kind);
                token.is_some_and(|token| canonical_atom(*kind, &self.text(token.span)) == *text)
            }
            (PatternPart::Form(kind, parts), Datum::Form(id)) => {
                self.read.form(id).is_some_and(|form| form.kind == *kind) && self.list(parts, id, bindings)
            }
            _ => false,
        }
    }

    fn list(&self, parts: &[PatternPart], id: FormId, bindings: &mut Bindings) -> bool {
        let elements: Vec<Datum> = self.read.elements(id).collect();
        let rest = parts.iter().position(|part| matches!(part, PatternPart::Rest(_)));
        let (before, after) = match rest {
            Some(at) => (&parts[..at], &parts[at + 1..]),
            None => (parts, &parts[..0]),
        };
        let fixed = before.len() + after.len();
        if elements.len() < fixed || (rest.is_none() && elements.len() != fixed) {
            return false;
        }
        let end = elements.len() - after.len();
        let mut pairs = before.iter().zip(&elements).chain(after.iter().zip(&elements[end..]));
        if !pairs.all(|(part, datum)| self.part(part, *datum, bindings)) {
            return false;
        }
        match rest.map(|at| &parts[at]) {
            Some(PatternPart::Rest(number)) => self.bind(*number, &elements[before.len()..end], bindings),
            _ => true,
        }
    }

    /// Binds a hole, or compares with what it is bound to.
    fn bind(&self, number: usize, data: &[Datum], bindings: &mut Bindings) -> bool {
        match &mut bindings[number] {
            Some(bound) => {
                bound.len() == data.len()
                    && bound.iter().zip(data).all(|(one, other)| self.equal(*one, *other))
            }
            unbound => {
                *unbound = Some(data.to_vec());
                true
            }
        }
    }

    /// Whether two data of one top-level form read as equal.
    fn equal(&self, one: Datum, other: Datum) -> bool {
        match (one, other) {
            (Datum::Token(one), Datum::Token(other)) => {
                let tokens = self.read.tokens();
                let (one, other) = (&tokens[one], &tokens[other]);
                match (one.kind, other.kind) {
                    (TokenKind::Symbol, TokenKind::Symbol) => {
                        one.marker != Marker::Uninterned
                            && one.marker == other.marker
                            && one.symbol(self.bytes) == other.symbol(self.bytes)
                    }
                    (kind, same) => {
                        let text = |token: &Token| canonical_atom(kind, &self.text(token.span));
                        kind == same && text(one) == text(other)
                    }
                }
            }
            (Datum::Form(one), Datum::Form(other)) => {
                let kind = |id| self.read.form(id).map(|form| form.kind);
                kind(one) == kind(other)
                    && kind(one) != Some(FormKind::ReadEval)
                    && self.read.elements(one).count() == self.read.elements(other).count()
                    && self
                        .read
                        .elements(one)
                        .zip(self.read.elements(other))
                        .all(|(one, other)| self.equal(one, other))
            }
            _ => false,
        }
    }

    /// Whether a datum stands for any number of elements.
    fn is_spliced(&self, datum: Datum) -> bool {
        let Datum::Form(id) = datum else { return false };
        self.read.form(id).is_some_and(|form| form.kind == FormKind::UnquoteSplicing)
    }

    fn text(&self, range: steelbank_reader::Range) -> String {
        String::from_utf8_lossy(self.bytes.get(range.indices()).unwrap_or_default()).into_owned()
    }
}

/// Returns the text of a string, number or character so that equal ones have equal texts. A
/// character's own letter keeps its case.
fn canonical_atom(kind: TokenKind, text: &str) -> String {
    let is_named = text.chars().count() > 3;
    match kind {
        TokenKind::Number => text.to_uppercase(),
        TokenKind::Character if is_named => text.to_uppercase(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    /// Returns the texts of the matches in `text`, where symbols are compared by name.
    fn found(pattern: &str, text: &str) -> Vec<String> {
        let pattern = FormPattern::parse(pattern).unwrap();
        let bytes = text.as_bytes();
        let read = LispText::read(bytes, Dialect::CommonLisp, &crate::source::features());
        let starts = |symbol: &PatternSymbol| -> HashSet<u32> {
            let tokens = read.tokens().iter().filter(|token| token.is_named(bytes, &symbol.name));
            tokens.map(|token| token.span.start).collect()
        };
        let places: Vec<HashSet<u32>> = pattern.symbols.iter().map(starts).collect();
        let subject = Subject { bytes, read: &read, places: &places };
        let tokens = read.tokens().iter().filter(|token| places[0].contains(&token.span.start));
        let roots: std::collections::BTreeSet<FormId> =
            tokens.filter_map(|token| pattern.root_around(&read, 0, token.form?)).collect();
        let matched = roots.into_iter().filter(|root| pattern.matches(&subject, *root).is_some());
        matched.map(|root| subject.text(read.form(root).unwrap().span)).collect()
    }

    #[test]
    fn patterns_match_by_structure() {
        assert_eq!(
            found("(if ?x nil t)", "(if (a) ; why\n nil T) (if a nil) (if a nil u)"),
            ["(if (a) ; why\n nil T)"]
        );
        assert_eq!(
            found("(format nil \"~a\" ?x)", "(format nil \"~a\" 1) (format nil \"~A\" 1)"),
            ["(format nil \"~a\" 1)"]
        );
        assert_eq!(found("(f ?*)", "(f) (f 1 2) f (g f)"), ["(f)", "(f 1 2)"]);
        assert_eq!(found("(f ?*a :k ?v)", "(f :k 1) (f 1 2 :k 3) (f :k)"), ["(f :k 1)", "(f 1 2 :k 3)"]);
        assert_eq!(
            found("(eq ?x ?x)", "(eq a a) (eq a b) (eq (car a) (CAR a)) (eq #:a #:a)"),
            ["(eq a a)", "(eq (car a) (CAR a))"]
        );
        assert_eq!(
            found("(mapcar #'(lambda ?args ?*b) ?l)", "(mapcar #'(lambda (x) x) y) (mapcar #'f y)").len(),
            1
        );
        assert_eq!(found("(a (b ?x))", "(a (b (a (b 1)))) (b (a 1))"), ["(a (b (a (b 1))))", "(a (b 1))"]);
    }

    #[test]
    fn spliced_elements_match_only_rest_holes() {
        assert_eq!(found("(f ?x)", "`(f ,@x) `(f ,x)"), ["(f ,x)"]);
        assert_eq!(found("(f ?*x)", "`(f ,@x)"), ["(f ,@x)"]);
    }

    #[test]
    fn wrong_patterns_are_refused() {
        for text in ["", "(a", "(a) (b)", "?*x", "(a))"] {
            assert!(matches!(FormPattern::parse(text), Err(PatternError::NotOneForm(_))), "{text}");
        }
        assert!(matches!(FormPattern::parse("car"), Err(PatternError::Atom(_))));
        assert!(matches!(FormPattern::parse("(?x 1)"), Err(PatternError::NoSymbol(_))));
        assert!(matches!(FormPattern::parse("(a ?*x ?*y)"), Err(PatternError::TwoRests(_))));
    }
}
