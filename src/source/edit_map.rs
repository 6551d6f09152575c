//! Compares two versions of a text by top-level forms, to translate ranges in unchanged forms from
//! the old text to the new.

use std::collections::{HashMap, VecDeque};

use steelbank_reader::{LispText, Range};

/// Pairs the top-level forms of a new text with the equal forms of an old text. Two forms are equal
/// if their texts, packages and preceding feature expressions are. Tokens in equal forms have the
/// same meaning; only their positions may differ.
#[derive(Debug, Clone, Default)]
pub(crate) struct EditMap {
    /// The forms of the new text: the range of each, and the range of the equal form in the old
    /// text.
    forms: Vec<(Range, Option<Range>)>,
    /// The ranges of the unchanged forms in the old and the new text, in the order of the old text.
    same: Vec<(Range, Range)>,
}

impl EditMap {
    /// Compares two texts, parsed as `old_read` and `new_read`.
    pub(crate) fn new(old: &str, old_read: &LispText, new: &str, new_read: &LispText) -> EditMap {
        let mut known: HashMap<(&str, Option<&str>, &str), VecDeque<Range>> = HashMap::new();
        for (key, range) in keyed(old, old_read) {
            known.entry(key).or_default().push_back(range);
        }
        let forms = keyed(new, new_read)
            .map(|(key, range)| (range, known.get_mut(&key).and_then(VecDeque::pop_front)));
        let forms: Vec<_> = forms.collect();
        let mut same: Vec<_> = forms.iter().filter_map(|(new, old)| Some(((*old)?, *new))).collect();
        same.sort_unstable();
        EditMap { forms, same }
    }

    /// Translates a range of the old text to the new text. Returns `None` if its form has changed.
    pub(crate) fn moved(&self, range: Range) -> Option<Range> {
        let before = self.same.partition_point(|(old, _)| old.start <= range.start);
        let (old, new) = self.same[..before].last().filter(|(old, _)| old.encloses(range))?;
        let at = |offset: u32| offset - old.start + new.start;
        Some(Range::new(at(range.start), at(range.end)))
    }

    /// Lists the changed forms of the new text with their numbers.
    pub(crate) fn changed(&self) -> impl Iterator<Item = (usize, Range)> + '_ {
        let all = self.forms.iter().enumerate();
        all.filter(|(_, (_, old))| old.is_none()).map(|(number, (new, _))| (number, *new))
    }
}

/// Lists the top-level forms with the key by which they are compared: text, package, and the text
/// before the form if it contains feature expressions.
fn keyed<'a>(
    text: &'a str,
    read: &'a LispText,
) -> impl Iterator<Item = ((&'a str, Option<&'a str>, &'a str), Range)> + 'a {
    let mut end = 0;
    read.toplevel().iter().map(move |top| {
        let before = text.get(end..top.span.start as usize).unwrap_or_default();
        end = top.span.end as usize;
        let before = if before.contains("#+") || before.contains("#-") { before } else { "" };
        let form = text.get(top.span.indices()).unwrap_or_default();
        ((form, top.package.as_deref(), before), top.span)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use steelbank_reader::{Dialect, Features};

    fn map(old: &str, new: &str) -> EditMap {
        let read = |text: &str| LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
        EditMap::new(old, &read(old), new, &read(new))
    }

    #[test]
    fn unchanged_forms_move_and_changed_are_listed() {
        let (old, new) = ("(a 1)\n(b 2)\n(b 2)\n(c 3)", "; x\n(c 3)\n(b 2)\n(a 2)");
        let map = map(old, new);
        let at = |text: &str| {
            let start = old.find(text).unwrap() as u32;
            let moved = map.moved(Range::new(start, start + text.len() as u32))?;
            Some(&new[moved.indices()])
        };
        assert_eq!((at("c"), at("b 2"), at("a")), (Some("c"), Some("b 2"), None));
        assert_eq!(map.changed().map(|(number, _)| number).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn package_or_feature_change_counts_as_change() {
        assert_eq!(map("(in-package :a) (f)", "(in-package :b) (f)").changed().count(), 2);
        assert_eq!(map("(f)", "#+sbcl (f)").changed().count(), 1);
    }
}
