//! Searches the index: finds occurrences and definitions of a pattern, ranks the definitions, and
//! returns pages of occurrences with previews.

use crate::analysis::{hits_of, trigram};
use crate::cache::TextCache;
use crate::control::IndexControl;
use crate::definitions::definitions;
use crate::definitions::lisp::{LispTextDefinition, definitions as lisp_definitions};
use crate::error::TextError;
use crate::globs::Globs;
use crate::index::TextIndex;
use crate::kind::DefinitionKind;
use crate::language::Language;
use crate::packages;
use crate::pattern::{Pattern, PatternMeaning, Qualified};
use crate::retry::SearchInterrupted;
use crate::scan::{TextRole, lisp};
use crate::store::manifest::FileEntry;
use crate::store::pages::PageError;
use crate::store::postings::{self, Hit};
use crate::store::segment::TextSegment;
use crate::store::snapshot::{REMOVED, TextSnapshot};
use std::collections::HashMap;
use std::path::PathBuf;
use steelbank_reader::lines::{LineColumn, characters, decode};

/// A search query.
#[derive(Debug, Clone)]
pub struct TextSearch {
    /// The text to find.
    pub pattern: Pattern,
    /// Restricts definitions to the kinds that answer a query for this kind
    /// ([`DefinitionKind::answers`]).
    pub kind: Option<DefinitionKind>,
    /// Restricts the search to files of this language.
    pub language: Option<Language>,
    /// Restricts the search to files that match these globs.
    pub globs: Globs,
    /// The number of occurrences to skip.
    pub offset: u64,
    /// The maximum number of occurrences to return.
    pub limit: u64,
    /// If there are more occurrences than this, the result contains their number and the files with
    /// the most occurrences instead of a page of occurrences.
    pub bound: u64,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchAnswer {
    /// The definitions, sorted by relevance; at most 50.
    pub definitions: Vec<DefinitionMatch>,
    /// The total number of definitions.
    pub total_definitions: u64,
    /// The requested page of the occurrences, sorted by path and position; empty if there are more
    /// occurrences than the bound.
    pub references: Vec<TextMatch>,
    /// The total number of occurrences.
    pub total: u64,
    /// The files with the most occurrences, each with its count, if there are more occurrences than
    /// the bound. At most ten.
    pub densest: Vec<(PathBuf, u64)>,
    /// `false` if, after several attempts, a file still differed from the index or could not be
    /// read. The result may then be incomplete.
    pub fresh: bool,
}

/// An occurrence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextMatch {
    /// The file, relative to the root.
    pub path: PathBuf,
    /// Line and column, from 1; the column counts characters.
    pub place: LineColumn,
    /// The role of the occurrence; `None` if the pattern is literal text in the file's language, or
    /// the language is unknown.
    pub role: Option<TextRole>,
    /// The line, shortened if it is very long.
    pub preview: String,
    /// The language of the file.
    pub language: Language,
    /// The name of the innermost definition around the occurrence, as written.
    pub within: Option<String>,
}

/// A definition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionMatch {
    /// The file, relative to the root.
    pub path: PathBuf,
    /// The kind of definition.
    pub kind: DefinitionKind,
    /// The name as written.
    pub symbol: String,
    /// Line and column of the name, from 1.
    pub name: LineColumn,
    /// Line and column of the first character of the definition.
    pub start: LineColumn,
    /// Line and column after the last character of the definition.
    pub end: LineColumn,
    /// The line that contains the name, shortened if it is very long.
    pub preview: String,
    /// Whether it is only a declaration.
    pub declaration: bool,
}

/// The maximum number of definitions to return.
const LOCATED: usize = 50;

impl TextIndex {
    /// Runs a search, updating the index first if necessary.
    ///
    /// # Errors
    ///
    /// If the root cannot be opened, if the index is missing or stale and may not be updated, if it
    /// cannot be read or written, or if the operation is cancelled.
    pub fn search(&self, search: &TextSearch, control: &IndexControl<'_>) -> Result<SearchAnswer, TextError> {
        let mut attempts = 4;
        loop {
            attempts -= 1;
            let snapshot = self.snapshot(control)?;
            let cache = self.cache();
            let mut searcher = Searcher {
                snapshot: &snapshot,
                index: self,
                cache,
                search,
                control,
                lenient: attempts == 0,
                fresh: true,
            };
            match searcher.answer() {
                Ok(answer) => return Ok(answer),
                Err(SearchInterrupted::Stop(error)) => return Err(error),
                Err(SearchInterrupted::Page(error)) if attempts == 0 => return Err(self.explain(error)),
                Err(SearchInterrupted::Page(error)) => self.invalidate(matches!(error, PageError::Damaged)),
                Err(SearchInterrupted::Changed) => self.invalidate(false),
            }
        }
    }
}

/// The occurrences in one file.
struct Matches {
    file: usize,
    count: u64,
    hits: Hits,
}

enum Hits {
    Located(Vec<Hit>),
    /// Occurrences to find by scanning the text: the identifier, and its definitions in this file.
    Unlocated(Vec<u8>, Vec<LispTextDefinition>),
    Literal(Vec<u32>),
}

/// Returns the innermost definition around the name at `offset`, except the one with that name.
fn innermost(definitions: &[LispTextDefinition], offset: u32) -> Option<&LispTextDefinition> {
    let around = definitions.iter().filter(|around| around.kind != DefinitionKind::Accessor);
    let around = around.filter(|around| around.form.contains(offset) && around.name.start != offset);
    around.max_by_key(|around| around.form.start)
}

struct Searcher<'a> {
    snapshot: &'a TextSnapshot,
    index: &'a TextIndex,
    cache: &'a TextCache,
    search: &'a TextSearch,
    control: &'a IndexControl<'a>,
    /// Whether to skip a file that does not match the index, instead of starting the search again.
    lenient: bool,
    fresh: bool,
}

/// The pattern's meanings as an identifier, by index key and qualification, each with the languages
/// that give the pattern this meaning.
type Identifiers = HashMap<(Vec<u8>, Qualified), Vec<Language>>;

impl Searcher<'_> {
    fn answer(&mut self) -> Result<SearchAnswer, SearchInterrupted> {
        let mut identifiers = Identifiers::new();
        let mut literal = Vec::new();
        let wanted = |language: &Language| self.search.language.is_none_or(|only| only == *language);
        for language in self.snapshot.languages().filter(wanted) {
            match self.search.pattern.meaning(language) {
                PatternMeaning::Identifier(key, qualified) => {
                    identifiers.entry((key, qualified)).or_default().push(language);
                }
                PatternMeaning::Literal => literal.push(language),
            }
        }
        let mut matches = Vec::new();
        let mut definitions = Vec::new();
        for ((key, qualified), languages) in &identifiers {
            self.control.check()?;
            let names = match qualified {
                Qualified::Package(name) => packages::names(self.snapshot, name)?,
                _ => Vec::new(),
            };
            self.identifier(key, qualified, &names, languages, &mut matches, &mut definitions)?;
        }
        if !literal.is_empty() {
            self.literal(&literal, &mut matches)?;
        }
        matches.sort_by_key(|each| each.file);
        let total = matches.iter().map(|each| each.count).sum();
        let mut answer =
            SearchAnswer { total, total_definitions: definitions.len() as u64, ..SearchAnswer::default() };
        definitions.sort_by_cached_key(|(file, definition)| self.rank(*file, definition));
        for (file, definition) in definitions.into_iter().take(LOCATED) {
            answer.definitions.extend(self.locate(file, &definition)?);
        }
        if total > self.search.bound {
            matches.sort_by_key(|each| std::cmp::Reverse(each.count));
            let path = |each: &Matches| (self.file(each.file).path.to_path_buf(), each.count);
            answer.densest = matches.iter().take(10).map(path).collect();
        } else {
            answer.references = self.page(matches)?;
        }
        answer.fresh = self.fresh;
        Ok(answer)
    }

    fn file(&self, file: usize) -> &FileEntry {
        &self.snapshot.manifest().files[file]
    }

    /// Returns the manifest index of file `local` of a segment, if the query covers that file.
    fn selected(&self, places: &[u32], local: u32, languages: &[Language]) -> Option<usize> {
        let place = *places.get(local as usize).filter(|&&place| place != REMOVED)? as usize;
        let entry = self.file(place);
        (languages.contains(&entry.language) && self.search.globs.select(&entry.path)).then_some(place)
    }

    fn text(
        &mut self,
        file: usize,
    ) -> Result<Option<std::sync::Arc<crate::cache::TextWithLines>>, SearchInterrupted> {
        match self.cache.get(self.index.tree(), &self.snapshot.manifest().files[file]) {
            Some(text) => Ok(Some(text)),
            None if self.lenient => {
                self.fresh = false;
                Ok(None)
            }
            None => Err(SearchInterrupted::Changed),
        }
    }

    fn identifier(
        &mut self,
        key: &[u8],
        qualified: &Qualified,
        names: &[String],
        languages: &[Language],
        matches: &mut Vec<Matches>,
        definitions: &mut Vec<(usize, LispTextDefinition)>,
    ) -> Result<(), SearchInterrupted> {
        let snapshot = self.snapshot;
        for (segment, places) in snapshot.segments() {
            let Some(entry) = segment.lookup(key)? else {
                self.macro_definitions(segment, places, key, languages, definitions)?;
                continue;
            };
            let mut defined: HashMap<u32, Vec<LispTextDefinition>> =
                postings::definitions(&entry.definitions).ok_or(PageError::Damaged)?.into_iter().collect();
            for found in segment.hits(&entry)? {
                let Some(file) = self.selected(places, found.file, languages) else { continue };
                let mut here = defined.remove(&found.file).unwrap_or_default();
                let identifier = key.get(1..).unwrap_or_default();
                let mut each = match found.hits {
                    Some(hits) => Matches { file, count: found.count, hits: Hits::Located(hits) },
                    None => {
                        let hits = Hits::Unlocated(identifier.to_vec(), here.clone());
                        Matches { file, count: found.count, hits }
                    }
                };
                if *qualified != Qualified::Any {
                    self.control.check()?;
                    let Some(text) = self.text(file)? else { continue };
                    let language = self.file(file).language;
                    let mut hits = match each.hits {
                        Hits::Located(hits) => hits,
                        _ => hits_of(&text.bytes, language, identifier, &here),
                    };
                    let check = packages::PackageCheck::new(&text.bytes, language, qualified, names);
                    hits.retain(|hit| check.admits(hit.offset));
                    here.retain(|definition| check.admits(definition.name.start));
                    each = Matches { file, count: hits.len() as u64, hits: Hits::Located(hits) };
                }
                definitions.extend(self.of_kind(here).map(|definition| (file, definition)));
                if each.count > 0 {
                    matches.push(each);
                }
            }
            self.macro_definitions(segment, places, key, languages, definitions)?;
        }
        Ok(())
    }

    fn of_kind(
        &self,
        definitions: Vec<LispTextDefinition>,
    ) -> impl Iterator<Item = LispTextDefinition> + use<> {
        let wanted = self.search.kind;
        definitions.into_iter().filter(move |each| wanted.is_none_or(|wanted| each.kind.answers(wanted)))
    }

    /// Finds the definitions of a Rust macro: the definition of `json!` has the name `json`.
    fn macro_definitions(
        &mut self,
        segment: &TextSegment,
        places: &[u32],
        key: &[u8],
        languages: &[Language],
        definitions: &mut Vec<(usize, LispTextDefinition)>,
    ) -> Result<(), SearchInterrupted> {
        let rust: Vec<_> = languages.iter().copied().filter(|each| each.name() == "rust").collect();
        let Some(bare) = key.strip_suffix(b"!").filter(|_| !rust.is_empty()) else { return Ok(()) };
        let Some(entry) = segment.lookup(bare)? else { return Ok(()) };
        for (local, here) in postings::definitions(&entry.definitions).ok_or(PageError::Damaged)? {
            if let Some(file) = self.selected(places, local, &rust) {
                let macros = here.into_iter().filter(|each| each.kind == DefinitionKind::Macro).collect();
                definitions.extend(self.of_kind(macros).map(|definition| (file, definition)));
            }
        }
        Ok(())
    }

    fn literal(
        &mut self,
        languages: &[Language],
        matches: &mut Vec<Matches>,
    ) -> Result<(), SearchInterrupted> {
        let needle = self.search.pattern.text().as_bytes();
        let finder = memchr::memmem::Finder::new(needle);
        let snapshot = self.snapshot;
        for (segment, places) in snapshot.segments() {
            for local in candidates(segment, needle)? {
                let Some(file) = self.selected(places, local, languages) else { continue };
                self.control.check()?;
                let Some(text) = self.text(file)? else { continue };
                let found: Vec<_> = finder.find_iter(&text.bytes).map(|at| at as u32).collect();
                if !found.is_empty() {
                    matches.push(Matches { file, count: found.len() as u64, hits: Hits::Literal(found) });
                }
            }
        }
        Ok(())
    }

    /// Returns the requested page of all occurrences.
    fn page(&mut self, matches: Vec<Matches>) -> Result<Vec<TextMatch>, SearchInterrupted> {
        let mut found = Vec::new();
        let mut skip = self.search.offset;
        for each in matches {
            if found.len() as u64 >= self.search.limit {
                break;
            }
            if skip >= each.count {
                skip -= each.count;
                continue;
            }
            self.control.check()?;
            let from = std::mem::take(&mut skip) as usize;
            let room = (self.search.limit - found.len() as u64) as usize;
            let Some(text) = self.text(each.file)? else { continue };
            let entry = self.file(each.file);
            let hits: Vec<(u32, Option<TextRole>)> = match each.hits {
                Hits::Located(hits) => located(&hits, from, room),
                Hits::Unlocated(key, defined) => {
                    located(&hits_of(&text.bytes, entry.language, &key, &defined), from, room)
                }
                Hits::Literal(offsets) => {
                    offsets.into_iter().skip(from).take(room).map(|at| (at, None)).collect()
                }
            };
            let plain = entry.language == Language::TEXT;
            let defined = match entry.language.dialect() {
                Some(dialect) => lisp_definitions(&lisp::read(&text.bytes, dialect), &text.bytes),
                None => definitions(&text.bytes, entry.language, self.control.cancelled),
            };
            for (offset, role) in hits {
                let place = text.lines.position(&text.bytes, offset);
                found.push(TextMatch {
                    path: entry.path.to_path_buf(),
                    place,
                    role: role.filter(|_| !plain),
                    preview: preview(text.lines.bytes(&text.bytes, place.line), place.column),
                    language: entry.language,
                    within: innermost(&defined, offset).map(|around| {
                        let name = text.bytes.get(around.name.indices()).unwrap_or_default();
                        decode(name).into_owned()
                    }),
                });
            }
        }
        Ok(found)
    }

    /// Returns the sort key of a definition. The order is: generic functions, other definitions,
    /// minor kinds such as accessors, tests and examples, vendored code, excluded code,
    /// declarations. Ties are sorted by file and position.
    fn rank(&self, file: usize, definition: &LispTextDefinition) -> impl Ord + use<> {
        let path = self.file(file).path.to_string_lossy().to_lowercase();
        let within = |names: &[&str]| path.split('/').any(|part| names.contains(&part));
        let minor = matches!(
            definition.kind,
            DefinitionKind::Accessor
                | DefinitionKind::Field
                | DefinitionKind::Property
                | DefinitionKind::Variant
                | DefinitionKind::Definition
                | DefinitionKind::Constructor
        );
        (
            definition.declaration,
            !definition.active,
            within(&[
                "vendor", "vendored", "third_party", "third-party", "node_modules", "external", "extern",
                "deps", "contrib", "dist", "build",
            ]),
            within(&["test", "tests", "spec", "specs", "testing", "t", "examples", "example", "benches"]),
            minor,
            definition.kind != DefinitionKind::GenericFunction,
            file,
            definition.name.start,
        )
    }

    fn locate(
        &mut self,
        file: usize,
        definition: &LispTextDefinition,
    ) -> Result<Option<DefinitionMatch>, SearchInterrupted> {
        let Some(text) = self.text(file)? else { return Ok(None) };
        let at = |offset| text.lines.position(&text.bytes, offset);
        let name = at(definition.name.start);
        let symbol = decode(text.bytes.get(definition.name.indices()).unwrap_or_default()).into_owned();
        Ok(Some(DefinitionMatch {
            path: self.file(file).path.to_path_buf(),
            kind: definition.kind,
            symbol,
            name,
            start: at(definition.form.start),
            end: at(definition.form.end),
            preview: preview(text.lines.bytes(&text.bytes, name.line), name.column),
            declaration: definition.declaration,
        }))
    }
}

/// Returns the files of a segment that may contain `text`, ignoring the case of ASCII letters.
/// Filters them by the trigrams of `text` until at most four are left. Returns all files if `text`
/// has no trigram that can be indexed.
pub(crate) fn candidates(segment: &TextSegment, text: &[u8]) -> Result<Vec<u32>, PageError> {
    let mut trigrams: Vec<_> = text.windows(3).filter_map(trigram).collect();
    trigrams.sort_unstable();
    trigrams.dedup();
    let mut candidates: Option<Vec<u32>> = None;
    for trigram in trigrams {
        let files = segment.trigram(trigram)?;
        let both = match candidates {
            None => files,
            Some(before) => before.into_iter().filter(|file| files.binary_search(file).is_ok()).collect(),
        };
        let enough = both.len() <= 4;
        candidates = Some(both);
        if enough {
            break;
        }
    }
    Ok(candidates.unwrap_or_else(|| (0..segment.files()).collect()))
}

fn located(hits: &[Hit], from: usize, room: usize) -> Vec<(u32, Option<TextRole>)> {
    hits.iter().skip(from).take(room).map(|hit| (hit.offset, Some(hit.role))).collect()
}

/// The maximum length of the part of a line that a preview shows, in bytes.
const PREVIEW: usize = 240;

/// Returns a line for display, without leading and trailing whitespace. Shortens a very long line
/// to the part around `column`.
fn preview(line: &[u8], column: u32) -> String {
    if line.len() <= PREVIEW {
        return decode(line).trim().to_owned();
    }
    // Decode only the part to display: a line can have megabytes.
    let mut at = 0;
    for _ in 1..column {
        match line.get(at..) {
            Some(rest) if !rest.is_empty() => {
                at += crate::scan::occurrence::first_character(rest).map_or(1, char::len_utf8);
            }
            _ => break,
        }
    }
    let is_start = |at: usize| line.get(at).is_none_or(|byte| byte & 0xc0 != 0x80);
    let mut start = at.saturating_sub(PREVIEW / 3);
    if line.len() - start < PREVIEW {
        start = line.len() - PREVIEW;
    }
    while start > 0 && !is_start(start) {
        start -= 1;
    }
    let mut end = (start + PREVIEW).min(line.len());
    while end < line.len() && !is_start(end) {
        end += 1;
    }
    let shown = decode(&line[start..end]);
    let before = if start > 0 { "…" } else { "" };
    let after = if end < line.len() { "…" } else { "" };
    debug_assert!(characters(line) > 0);
    format!("{before}{}{after}", shown.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_line_is_truncated_around_match() {
        assert_eq!(preview(b"  short \t", 3), "short");
        let line = "é".repeat(1000) + "needle" + &"x".repeat(1000);
        let shown = preview(line.as_bytes(), 1001);
        assert!(shown.starts_with('…') && shown.ends_with('…') && shown.contains("needle"));
        assert!(shown.chars().count() <= PREVIEW + 2);
        assert!(preview(&vec![0xff; 1000], 1000).starts_with('…'));
        assert!(preview(line.as_bytes(), u32::MAX).starts_with('…'));
    }
}
