//! Lists the symbols in the text that an editor has open, which may differ from the loaded text.
//! Unchanged forms have the compiler's positions, shifted to their new places. Changed forms are
//! read without Lisp.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::code_find_references::SymbolNamespaces;
use super::occurrences::{FileOccurrence, OccurrencesAnswer, list_occurrences};
use super::symbol_uses::SymbolUses;
use crate::engine::control::Control;
use crate::handle::context::QueryContext;
use crate::handle::question::Question;
use crate::source::edit_map::EditMap;
use crate::source::positions::{Evidence, PositionedFile};
use crate::source::tap::from_text::of_text;
use crate::source::tap::operators::{OperatorKind, operator};
use crate::source::tap::sidecar::{Name, NameKind};
use steelbank_reader::{Dialect, Features, LispText, Marker, Range, Token, TokenKind};
use steelbank_xref::{Access, Index, Kind, NameRole, Package, SymbolName};

/// A request for the symbols in an open text.
#[derive(Debug, Clone)]
pub struct OpenTextRequest {
    /// The file to which the text belongs.
    pub path: PathBuf,
    /// The text.
    pub text: Arc<str>,
    /// The symbols of the loaded text. `None` if the file is not loaded or its symbols are not
    /// available.
    pub loaded: Option<Arc<OccurrencesAnswer>>,
}

/// The symbols in an open text.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OpenTextAnswer {
    /// Sorted by range. Occurrences in changed forms, and in text that SBCL skips, are approximate.
    pub occurrences: Vec<FileOccurrence>,
    /// The forms that differ from the loaded text.
    pub changed: Vec<Range>,
    map: EditMap,
}

impl OpenTextAnswer {
    /// Maps a `range` of the loaded text to the open text. Returns `None` if its form has changed.
    pub fn moved(&self, range: Range) -> Option<Range> {
        self.map.moved(range)
    }

    /// Returns the occurrence at the byte offset `offset`. At a boundary between tokens, the later
    /// one wins.
    pub fn at(&self, offset: u32) -> Option<&FileOccurrence> {
        let after = self.occurrences.partition_point(|found| found.range.start <= offset);
        self.occurrences[..after].last().filter(|found| offset <= found.range.end)
    }

    /// Whether `offset` is in a form that differs from the loaded text.
    pub fn is_changed(&self, offset: u32) -> bool {
        let after = self.changed.partition_point(|form| form.start <= offset);
        self.changed[..after].last().is_some_and(|form| form.contains(offset))
    }
}

impl Question for OpenTextRequest {
    type Answer = OpenTextAnswer;

    fn answer(
        &self,
        context: &QueryContext<'_>,
        control: &Control,
    ) -> Result<OpenTextAnswer, crate::handle::Error> {
        control.check()?;
        let index = &context.index;
        let read = |text: &str| LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
        let open = read(&self.text);
        let map = match self.loaded.as_deref().filter(|loaded| loaded.fresh) {
            Some(loaded) => EditMap::new(&loaded.text, &read(&loaded.text), &self.text, &open),
            None => EditMap::new("", &read(""), &self.text, &open),
        };
        let shift = |found: &FileOccurrence| {
            Some(FileOccurrence {
                range: map.moved(found.range)?,
                name_range: map.moved(found.name_range)?,
                binding: found.binding.and_then(|binding| map.moved(binding)),
                ..found.clone()
            })
        };
        let loaded = self.loaded.iter().filter(|loaded| loaded.fresh);
        let mut occurrences: Vec<FileOccurrence> = loaded
            .flat_map(|loaded| control.until_cancelled(&loaded.occurrences).filter_map(shift))
            .collect();
        control.check()?;
        let changed: HashMap<usize, Range> = map.changed().collect();
        if !changed.is_empty() {
            let resolve = |token: &Token, package: Option<&str>| resolve(index, &self.text, token, package);
            let sidecar = of_text(&self.text, &open, |number| changed.contains_key(&number), &resolve);
            let file = PositionedFile::new(self.path.clone(), self.text.as_bytes(), Some(sidecar), true);
            let elsewhere =
                |_: &SymbolUses<'_>| SymbolNamespaces { shadowed: true, ..SymbolNamespaces::default() };
            let read = list_occurrences(index, &file, Some(&open), HashMap::new(), &elsewhere, None, control);
            occurrences.extend(
                read.into_iter().map(|found| FileOccurrence { evidence: Evidence::Approximate, ..found }),
            );
        }
        occurrences.sort_by_key(|found| found.range);
        control.check()?;
        let skipped = skipped_symbols(index, &self.text, &open, &occurrences, control);
        occurrences.extend(skipped);
        occurrences.sort_by_key(|found| found.range);
        occurrences.shrink_to_fit();
        let mut changed: Vec<Range> = changed.into_values().collect();
        changed.sort();
        control.check()?;
        Ok(OpenTextAnswer { occurrences, changed, map })
    }
}

/// Lists the symbols in text that SBCL skips, for example under a feature that it lacks. Keywords,
/// and symbols that do not exist in the image, are omitted.
fn skipped_symbols(
    index: &Index,
    text: &str,
    read: &LispText,
    seen: &[FileOccurrence],
    control: &Control,
) -> Vec<FileOccurrence> {
    let (mut skipped, mut names) = (Vec::new(), HashMap::<SymbolName, Arc<SymbolName>>::new());
    let mut forms = read.toplevel().iter().enumerate().peekable();
    let last = read.toplevel().iter().enumerate().next_back();
    let symbols = read.tokens().iter().filter(|token| token.kind == TokenKind::Symbol);
    for token in control.until_cancelled(symbols) {
        let before = seen.partition_point(|found| found.range.start <= token.span.start);
        if seen[..before].last().is_some_and(|found| token.span.start < found.range.end) {
            continue;
        }
        while forms.next_if(|(_, top)| top.span.end <= token.span.start).is_some() {}
        // Text that is skipped at top level is in no form: use the next form, or the last one.
        let top = forms.peek().map(|(form, top)| (*form, *top)).or(last);
        let Some((form, top)) = top else { continue };
        let named = resolve(index, text, token, top.package.as_deref());
        let Some((Name::Symbol(name), _)) = named else { continue };
        if name.package != "KEYWORD" && index.named(&name).is_some() {
            let name = names.entry(name).or_insert_with_key(|name| Arc::new(name.clone()));
            skipped.push(FileOccurrence::of_datum(
                token.span,
                token.name_span(),
                Arc::clone(name),
                form as u32,
            ));
        }
    }
    skipped
}

/// Returns the symbol that a token denotes in `package`, and the kind of operator that it names.
/// Returns `None` for a symbol that is accessible in a package but has no home package.
fn resolve(index: &Index, text: &str, token: &Token, package: Option<&str>) -> Option<(Name, NameKind)> {
    let symbol = token.symbol(text.as_bytes());
    let current = package.unwrap_or("COMMON-LISP-USER");
    let within = index.find_package(current, None);
    let (home, found) = match token.marker {
        Marker::Keyword => return Some((keyword(&symbol.name), NameKind::Other)),
        Marker::Uninterned => return Some((Name::Uninterned(symbol.name.into_owned()), NameKind::Other)),
        Marker::None => (current, within),
        Marker::External | Marker::Internal => {
            let prefix = symbol.package.as_deref().unwrap_or_default();
            (prefix, index.find_package(prefix, within))
        }
    };
    // If the current package is unknown, resolve the standard's names, as nearly every package uses
    // COMMON-LISP.
    let found = found.or_else(|| {
        let standard = index.find_package("COMMON-LISP", None).filter(|_| token.marker == Marker::None)?;
        index.find_symbol(&symbol.name, standard).filter(|(_, access)| *access == Access::External)?;
        Some(standard)
    });
    let found = found.and_then(|package: Package| index.find_symbol(&symbol.name, package));
    let Some((found, _)) = found else {
        return Some((Name::Symbol(SymbolName::new(home, symbol.name)), NameKind::Other));
    };
    let name = SymbolName::new(index.home_name(found)?, symbol.name);
    let used = |kind| index.is_used(kind, found, NameRole::denotes_function);
    let kind = match operator(&name.package, &name.name).map(|operator| operator.kind) {
        Some(OperatorKind::Function) => NameKind::Function,
        Some(OperatorKind::Special | OperatorKind::Macro) => NameKind::Macro,
        None if used(Kind::Macroexpands) => NameKind::Macro,
        None if used(Kind::Calls) => NameKind::Function,
        None => NameKind::Other,
    };
    Some((Name::Symbol(name), kind))
}

fn keyword(name: &str) -> Name {
    Name::Symbol(SymbolName::new("KEYWORD", name))
}
