//! Analyses one file for the index: its identifiers, definitions and trigrams, and its Lisp names
//! if it contains Common Lisp.

use crate::definitions::definitions;
use crate::definitions::lisp::{LispTextDefinition, definitions as lisp_definitions};
use crate::language::Language;
use crate::names::{FileTokens, TokenClass};
use crate::scan::{ScannedName, TextRole, lisp, occurrences};
use crate::store::postings::{Hit, encode, encode_definitions, encode_tokens};
use crate::store::segment::{KeyMap, NAME, PACKAGE, SegmentBuilder, lisp_key};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use steelbank_reader::Dialect;
use steelbank_reader::lines::{LineIndex, decode};

/// Returns the family of a language: 1 for Common Lisp, 0 for all other languages. An index key
/// begins with the family, so languages of one family share keys. Common Lisp keys are symbol names
/// after reading (usually upcased). All other keys are the identifiers as written, in other Lisps
/// with escapes resolved.
pub(crate) fn family(language: Language) -> u8 {
    u8::from(language.dialect() == Some(Dialect::CommonLisp))
}

/// Returns the index key of an identifier: its family byte, then its bytes.
pub(crate) fn key(language: Language, identifier: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(identifier.len() + 1);
    key.push(family(language));
    key.extend_from_slice(identifier);
    key
}

/// Holds the analysis of one file.
pub(crate) struct Analysis {
    keys: Vec<AnalysedKey>,
    trigrams: Vec<u32>,
    lisp: Option<LispAnalysis>,
}

/// The tokens of a name: for each, the number of its class and its line.
type Tokens = Vec<(u32, u32)>;

/// Holds the Lisp names and packages of a file.
#[derive(Default)]
struct LispAnalysis {
    classes: Vec<Vec<u8>>,
    names: Vec<(Vec<u8>, Tokens)>,
    packages: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl LispAnalysis {
    fn new(tokens: &FileTokens, text: &[u8]) -> LispAnalysis {
        let lines = LineIndex::new(text);
        let mut analysis = LispAnalysis::default();
        let mut numbers: KeyMap<*const TokenClass, u32> = KeyMap::default();
        for (name, tokens) in tokens.names() {
            let mut found = Vec::with_capacity(tokens.len());
            for token in tokens {
                let next = analysis.classes.len() as u32;
                let class = *numbers.entry(Arc::as_ptr(&token.class)).or_insert_with(|| {
                    analysis.classes.push(token.class.encode());
                    next
                });
                found.push((class, lines.line(token.span.start)));
            }
            // The encoding stores the differences between lines, so the lines must ascend.
            found.sort_by_key(|&(_, line)| line);
            analysis.names.push((lisp_key(NAME, name), found));
        }
        for package in tokens.packages() {
            for name in &package.names {
                package.encode(analysis.packages.entry(lisp_key(PACKAGE, name)).or_default());
            }
        }
        analysis
    }

    fn add_to(&self, builder: &mut SegmentBuilder, file: u32) {
        let classes: Vec<u32> = self.classes.iter().map(|class| builder.class(class)).collect();
        for (key, tokens) in &self.names {
            let tokens =
                tokens.iter().filter_map(|&(class, line)| Some((*classes.get(class as usize)?, line)));
            builder.add_record(key, file, &encode_tokens(tokens));
        }
        self.packages.iter().for_each(|(key, record)| builder.add_record(key, file, record));
    }
}

struct AnalysedKey {
    key: Vec<u8>,
    count: u64,
    hits: Vec<u8>,
    definitions: Vec<u8>,
}

impl Analysis {
    /// Analyses `text`. With `names`, also records its names and packages as those of a Common Lisp
    /// text. `stop` is polled while tree-sitter parses the text; `true` ends the search for
    /// definitions.
    pub(crate) fn of(text: &[u8], language: Language, names: bool, stop: &dyn Fn() -> bool) -> Analysis {
        let lisp = language.dialect().map(|dialect| lisp::read(text, dialect));
        let defined = match &lisp {
            Some(lisp) => lisp_definitions(lisp, text),
            None => definitions(text, language, stop),
        };
        let mut keys: KeyMap<Vec<u8>, (Vec<Hit>, Vec<LispTextDefinition>)> = KeyMap::default();
        let family = family(language);
        let mut probe = Vec::new();
        let mut note = |occurrence: ScannedName<'_>| {
            probe.clear();
            probe.push(family);
            probe.extend_from_slice(occurrence.key);
            let (offset, mut role) = (occurrence.offset, occurrence.role);
            let definition = defined_at(&defined, offset, occurrence.key.len());
            if definition.is_some_and(|definition| !definition.declaration) {
                role = TextRole::Definition;
            }
            let (hits, definitions) = match keys.get_mut(&probe) {
                Some(known) => known,
                None => keys.entry(probe.clone()).or_default(),
            };
            hits.push(Hit { offset, role });
            definitions.extend(definition);
        };
        match &lisp {
            Some(lisp) => lisp::occurrences_in(lisp, text, &mut note),
            None => occurrences(text, language, &mut note),
        }
        let keys = keys
            .into_iter()
            .map(|(key, (mut hits, definitions))| {
                hits.sort_by_key(|hit| hit.offset);
                hits.dedup_by_key(|hit| hit.offset);
                let definitions =
                    if definitions.is_empty() { Vec::new() } else { encode_definitions(&definitions) };
                AnalysedKey { key, count: hits.len() as u64, hits: encode(&hits), definitions }
            })
            .collect();
        let named = names.then(|| match (decode(text), &lisp) {
            (Cow::Borrowed(_), Some(lisp)) => LispAnalysis::new(&FileTokens::of(text, lisp), text),
            (decoded, _) => LispAnalysis::new(&FileTokens::read(decoded.as_bytes()), decoded.as_bytes()),
        });
        Analysis { keys, trigrams: trigrams(text), lisp: named }
    }

    /// Adds the file to a segment. Returns its number in that segment.
    pub(crate) fn add_to(&self, builder: &mut SegmentBuilder) -> u32 {
        let file = builder.file();
        for key in &self.keys {
            builder.add(&key.key, file, key.count, &key.hits, &key.definitions, false);
        }
        self.lisp.iter().for_each(|lisp| lisp.add_to(builder, file));
        self.trigrams.iter().for_each(|&trigram| builder.add_trigram(trigram, file));
        file
    }
}

/// Returns the definition of the identifier with `length` bytes at `offset`. The identifier may
/// begin with a sigil that is not part of the defined name.
fn defined_at(definitions: &[LispTextDefinition], offset: u32, length: usize) -> Option<LispTextDefinition> {
    let first = definitions.partition_point(|definition| definition.name.start < offset);
    let found = definitions.get(first)?;
    let starts_here = found.name.start == offset;
    let sigil = found.name.start <= offset + 2 && found.name.end == offset + length as u32;
    (starts_here || sigil).then_some(*found)
}

/// Finds the occurrences of one identifier in a text, as [`Analysis::of`] does. `defined` lists its
/// definitions in that text.
pub(crate) fn hits_of(
    text: &[u8],
    language: Language,
    identifier: &[u8],
    defined: &[LispTextDefinition],
) -> Vec<Hit> {
    let mut hits = Vec::new();
    occurrences(text, language, &mut |occurrence| {
        if occurrence.key == identifier {
            let definition = defined_at(defined, occurrence.offset, occurrence.key.len());
            let is_definition = definition.is_some_and(|definition| !definition.declaration);
            let role = if is_definition { TextRole::Definition } else { occurrence.role };
            hits.push(Hit { offset: occurrence.offset, role });
        }
    });
    hits.sort_by_key(|hit| hit.offset);
    hits.dedup_by_key(|hit| hit.offset);
    hits
}

/// Returns three bytes as a trigram with ASCII letters in lower case. `None` for another number of
/// bytes, or if one of them is ASCII whitespace or a control character: such trigrams are not
/// indexed.
pub(crate) fn trigram(bytes: &[u8]) -> Option<u32> {
    let [a, b, c] = *bytes else { return None };
    if a <= b' ' || b <= b' ' || c <= b' ' {
        return None;
    }
    let lower = |byte: u8| u32::from(byte.to_ascii_lowercase());
    Some(lower(a) << 16 | lower(b) << 8 | lower(c))
}

fn trigrams(text: &[u8]) -> Vec<u32> {
    thread_local! {
        static SEEN: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    }
    SEEN.with_borrow_mut(|seen| {
        seen.resize(1 << 18, 0);
        let mut found = Vec::new();
        for trigram in text.windows(3).filter_map(trigram) {
            let (word, bit) = (trigram as usize >> 6, 1_u64 << (trigram & 63));
            if seen[word] & bit == 0 {
                seen[word] |= bit;
                found.push(trigram);
            }
        }
        found.iter().for_each(|&trigram| seen[trigram as usize >> 6] = 0);
        found
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Asserts for each language that the analysis of `text` does not panic, and that a rescan
    /// finds the same occurrences as the index.
    fn check(text: &[u8]) {
        for language in Language::all() {
            let analysis = Analysis::of(text, language, false, &|| false);
            for key in &analysis.keys {
                let mut list = vec![0];
                list.extend_from_slice(&key.hits);
                let kept = crate::store::postings::files(&list, false).unwrap().remove(0);
                let defined: Vec<_> = crate::definitions::definitions(text, language, &|| false);
                assert_eq!(kept.count, key.count);
                assert_eq!(
                    kept.hits.unwrap(),
                    hits_of(text, language, &key.key[1..], &defined),
                    "{}",
                    language.name()
                );
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if std::env::var_os("STEELBANK_FULL").is_some() { 2400 } else { 24 }))]

        #[test]
        fn any_bytes_are_analysed(text in proptest::collection::vec(any::<u8>(), 0..120)) {
            check(&text);
        }

        #[test]
        fn any_soup_of_code_is_analysed(text in r#"([()'`,@.;"|\\#+:ab \n?\[\]{}^~_!1=$/*<>é]|fn a|def b|class c|defun |//|/\*|\$\{){0,40}"#) {
            check(text.as_bytes());
        }
    }
}
