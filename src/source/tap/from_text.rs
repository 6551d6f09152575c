//! Builds a sidecar for text that was not loaded, with the structural reader, which needs no Lisp.
//! The result is an approximation: nothing in it is certain.

use std::collections::HashMap;
use std::path::PathBuf;

use steelbank_reader::{Datum, FormId, FormKind, LispText, Token, TokenKind, TopLevelForm};

use super::sidecar::{Abbreviation, EventKind, Name, NameKind, ReadEvent, Sidecar, TapForm};

/// Resolves a token that is read in the given package to a symbol, and to the kind of operator that
/// the symbol names. Returns `None` for a token that must be omitted.
pub(crate) type Resolve<'a> = dyn Fn(&Token, Option<&str>) -> Option<(Name, NameKind)> + 'a;

/// Builds the sidecar of the top-level forms of `text` with the numbers that `wanted` accepts.
/// `read` must be the parsed `text`.
pub(crate) fn of_text(
    text: &str,
    read: &LispText,
    wanted: impl Fn(usize) -> bool,
    resolve: &Resolve<'_>,
) -> Sidecar {
    let mut maker = SidecarMaker { text, read, counts: counts(text), names: HashMap::new(), resolve };
    let newlines = memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| maker.character(at as u32)).collect();
    let mut forms = Vec::new();
    for (number, top) in read.toplevel().iter().enumerate().filter(|(number, _)| wanted(*number)) {
        let events = top.form.map(|form| maker.events(form, top)).unwrap_or_default();
        forms.push(TapForm::new(number as u32, events));
    }
    let mut names: Vec<_> = maker.names.into_iter().collect();
    names.sort_unstable_by_key(|(_, (number, _))| *number);
    let (names, kinds) = names.into_iter().map(|(name, (_, kind))| (name, kind)).unzip();
    Sidecar {
        content_hash: 0,
        size: 0,
        write_date: 0,
        path: PathBuf::new(),
        external_format: "UTF-8".to_owned(),
        complete: true,
        newlines,
        names,
        kinds,
        forms,
        uses: Vec::new(),
        locals: Vec::new(),
    }
}

/// Returns the number of characters before each byte, or `None` for ASCII text.
fn counts(text: &str) -> Option<Vec<u32>> {
    let mut count = 0;
    let counted = text.bytes().map(|byte| {
        let before = count;
        count += u32::from((byte & 0xc0) != 0x80);
        before
    });
    (!text.is_ascii()).then(|| counted.collect())
}

struct SidecarMaker<'a> {
    text: &'a str,
    read: &'a LispText,
    counts: Option<Vec<u32>>,
    names: HashMap<Name, (u32, NameKind)>,
    resolve: &'a Resolve<'a>,
}

/// A form while its elements are visited.
struct OpenForm {
    id: FormId,
    place: u32,
    inside: std::vec::IntoIter<Datum>,
    /// The place of the next element, or 0 if the elements of this form have no places.
    next: u32,
    /// Whether the form is, or is inside, a package definition.
    defines_package: bool,
}

impl SidecarMaker<'_> {
    fn character(&self, byte: u32) -> u32 {
        match &self.counts {
            None => byte,
            Some(counts) => counts.get(byte as usize).copied().unwrap_or_else(|| {
                counts.last().map_or(0, |last| last + u32::from(byte as usize == counts.len()))
            }),
        }
    }

    /// Returns the events of a top-level form, children before their parent. Avoids recursion,
    /// because text may be nested arbitrarily deep.
    fn events(&mut self, form: FormId, top: &TopLevelForm) -> Vec<ReadEvent> {
        let (mut events, mut open) = (Vec::new(), vec![self.open(form, 0, false)]);
        while let Some(around) = open.last_mut() {
            let Some(datum) = around.inside.next() else {
                let (id, place) = (around.id, around.place);
                open.pop();
                events.extend(self.form_event(id, place));
                continue;
            };
            let place = around.next;
            around.next += u32::from(place > 0);
            let defines_package = around.defines_package;
            match datum {
                Datum::Form(id) => open.push(self.open(id, place, defines_package)),
                Datum::Token(index) => events.extend(self.token_event(index, place, top, defines_package)),
            }
        }
        events
    }

    fn open(&self, id: FormId, place: u32, inside_package: bool) -> OpenForm {
        let first = match self.read.form(id).map(|form| form.kind) {
            Some(FormKind::List | FormKind::Literal) => 1,
            Some(FormKind::ReadEval | FormKind::Metadata) | None => 0,
            Some(_) => 2,
        };
        let inside: Vec<Datum> = self.read.elements(id).collect();
        let defines_package = inside_package || self.head(id) == Some("DEFPACKAGE");
        OpenForm { id, place, inside: inside.into_iter(), next: first, defines_package }
    }

    fn head(&self, id: FormId) -> Option<&str> {
        let head = self.read.head(self.read.form(id)?)?;
        let known = |name: &'static str| head.is_named(self.text.as_bytes(), name).then_some(name);
        ["QUOTE", "FUNCTION", "DEFPACKAGE"].into_iter().find_map(known)
    }

    fn form_event(&self, id: FormId, place: u32) -> Option<ReadEvent> {
        let form = self.read.form(id)?;
        let listed = form.number().map_or(EventKind::List, EventKind::Form);
        let (kind, operator) = match form.kind {
            FormKind::List => match self.head(id) {
                Some("QUOTE") => (listed, Abbreviation::Quote),
                Some("FUNCTION") => (listed, Abbreviation::Function),
                _ => (listed, Abbreviation::Any),
            },
            FormKind::Quote => (listed, Abbreviation::Quote),
            FormKind::Function => (listed, Abbreviation::Function),
            FormKind::Quasiquote => (listed, Abbreviation::Backquote),
            FormKind::Unquote | FormKind::UnquoteSplicing => (EventKind::Other, Abbreviation::Comma),
            FormKind::Literal | FormKind::ReadEval | FormKind::Metadata => {
                (EventKind::Other, Abbreviation::Any)
            }
        };
        let (start, end) = (self.character(form.span.start), self.character(form.span.end));
        Some(ReadEvent::new(kind, operator, start..end, place))
    }

    fn token_event(
        &mut self,
        index: usize,
        place: u32,
        top: &TopLevelForm,
        strings: bool,
    ) -> Option<ReadEvent> {
        let token = self.read.tokens().get(index)?;
        let text = self.text.get(token.span.indices())?;
        let (name, kind) = match token.kind {
            TokenKind::Symbol => (self.resolve)(token, top.package.as_deref())?,
            TokenKind::String if strings => (Name::Text(text.trim_matches('"').to_owned()), NameKind::Other),
            _ => return None,
        };
        let is_text = matches!(name, Name::Text(_));
        let next = self.names.len() as u32;
        let (number, _) = *self.names.entry(name).or_insert((next, kind));
        let kind = if is_text { EventKind::Text(number) } else { EventKind::Symbol(number) };
        let (start, end) = (self.character(token.span.start), self.character(token.span.end));
        Some(ReadEvent::new(kind, Abbreviation::Any, start..end, place))
    }
}
