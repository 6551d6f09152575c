//! Locates uses with the structural reader, for files without a sidecar. The reader numbers forms
//! as SBCL does, and reports where it cannot be certain.

use std::collections::HashSet;

use steelbank_reader::{Form, LispText, TopLevelForm};

use super::{Evidence, Placement, PositionedFile, XrefRecord};
use steelbank_xref::{Kind, SymbolName};

/// A recorded use, as found by the structural reader.
struct RecordedForm<'a> {
    top: &'a TopLevelForm,
    /// The sub-form with the recorded number.
    form: Option<&'a Form>,
    /// Whether the numbers are certainly SBCL's.
    sure: bool,
    /// For a call or a macro expansion: the token of the form's operator, if that is the symbol.
    /// Other records are not located at this token.
    operator: Option<usize>,
    /// The symbol's tokens inside the form.
    inside: Vec<usize>,
}

impl PositionedFile {
    pub(super) fn place_by_structure(
        &self,
        text: &LispText,
        sought: &SymbolName,
        recorded: &[XrefRecord],
        means: &dyn Fn(&str) -> bool,
    ) -> Vec<Vec<Placement>> {
        let found: Vec<Option<RecordedForm<'_>>> =
            recorded.iter().map(|&recorded| self.structured(text, sought, recorded, means)).collect();
        let taken: HashSet<usize> = found.iter().flatten().filter_map(|found| found.operator).collect();
        found
            .into_iter()
            .map(|found| {
                found.map_or_else(Vec::new, |found| vec![self.place_structured(text, found, &taken)])
            })
            .collect()
    }

    /// Finds a recorded use with the structural reader. Returns `None` if the file no longer has
    /// such a top-level form.
    fn structured<'a>(
        &self,
        text: &'a LispText,
        sought: &SymbolName,
        recorded: XrefRecord,
        means: &dyn Fn(&str) -> bool,
    ) -> Option<RecordedForm<'a>> {
        let bytes = self.text.as_bytes();
        // Prefer the recorded offset of the top-level form to its number.
        let by_start = recorded
            .bytes
            .filter(|_| self.decoded_as_is)
            .and_then(|bytes| text.toplevel_from(bytes).filter(|top| top.span.start >= bytes));
        let (top, counted) = match (by_start, recorded.bytes) {
            (Some(top), _) => (top, true),
            (None, bytes) => {
                let top = text.toplevel().get(self.first.checked_add(recorded.form)? as usize)?;
                (top, top.counted && (bytes.is_none() || !self.decoded_as_is))
            }
        };
        let form = text.numbered(top, recorded.number);
        let names = |index: &usize| {
            let token = &text.tokens()[*index];
            token.active && token.is_named(bytes, &sought.name) && {
                let prefix = token.symbol(bytes).package;
                let package = prefix.as_deref().or(top.package.as_deref());
                package.is_none_or(|package| package == sought.package || means(package))
            }
        };
        let inside: Vec<usize> = form.into_iter().flat_map(Form::tokens).filter(names).collect();
        let calls = matches!(recorded.kind, Kind::Calls | Kind::Macroexpands);
        let head = form.filter(|_| calls).and_then(|form| text.head(form));
        let operator = inside
            .first()
            .copied()
            .filter(|&first| head.is_some_and(|head| head.span == text.tokens()[first].span));
        Some(RecordedForm { top, form, sure: top.exact && counted, operator, inside })
    }

    fn place_structured(
        &self,
        text: &LispText,
        found: RecordedForm<'_>,
        taken: &HashSet<usize>,
    ) -> Placement {
        let RecordedForm { top, form, sure, operator, inside } = found;
        let whole = form.map_or(top.span, |form| form.span);
        let token = |index: usize| text.tokens()[index].span;
        let free: Vec<usize> = inside.into_iter().filter(|index| !taken.contains(index)).collect();
        match (operator, &free[..]) {
            (Some(only), _) | (None, &[only]) if sure => Placement::new(token(only), Evidence::Exact),
            (Some(first), _) | (None, &[first, ..]) => Placement::new(token(first), Evidence::Approximate),
            (None, []) => match form.filter(|_| sure) {
                Some(form) => {
                    let bytes = self.text.as_bytes();
                    let head = text.head(form).map(|token| token.symbol(bytes).name.to_lowercase());
                    let name = head.unwrap_or_else(|| "the form".to_owned());
                    Placement::via(whole, SymbolName::new("", name))
                }
                None => Placement::new(whole, Evidence::Approximate),
            },
        }
    }
}
