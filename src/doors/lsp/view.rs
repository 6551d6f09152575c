//! Finds the symbols in open documents, and maps places in answers to the documents' current text.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use steelbank_reader::lines::{LineColumn, LineIndex, PositionEncoding, decode};
use steelbank_reader::{Dialect, Features, LispText, Range};
use steelbank_text::FileTokens;
use steelbank_xref::SymbolName;

use super::convert::{self, RequestRefusal};
use super::documents::OpenDocument;
use super::server::{LoadPhase, Server};
use crate::Steelbank;
use crate::actions::uses::occurrences::{FileOccurrence, OccurrencesAnswer, OccurrencesRequest};
use crate::actions::uses::open_text::{OpenTextAnswer, OpenTextRequest};
use crate::actions::uses::text_places::{NamedPlace, TextPlacesRequest};
use crate::answer::Location;
use crate::engine::control::Control;
use crate::source::tap::roles::SyntaxRole;

/// How long a request waits for Lisp during a load.
const LISP_WAIT: Duration = Duration::from_millis(300);

/// The occurrences in loaded texts, by path. Each entry has the file's write date when the file was
/// loaded, the index's stamp when the entry was computed, and the occurrences, or `None` if they
/// could not be determined.
pub(super) type LoadedTexts = HashMap<PathBuf, (u64, u64, Option<Arc<OccurrencesAnswer>>)>;

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) range: Range,
}

/// A file's text and its lines.
pub(super) struct ShownText {
    pub(super) text: String,
    pub(super) lines: LineIndex,
}

impl Server {
    /// Returns the occurrences in the loaded version of the file at `path`. `None` if they cannot
    /// be determined.
    fn loaded(&self, path: &Path, control: &Control) -> Option<Arc<OccurrencesAnswer>> {
        let bank = self.bank().ok()?;
        let (date, stamp) = (bank.loaded_date(path)?, bank.index().stamp());
        let known = self.loaded.lock().get(path).cloned();
        let before = match known {
            Some((known, at, answer)) if (known, at) == (date, stamp) => return answer,
            Some((known, _, answer)) if known == date => answer,
            _ => None,
        };
        let request = OccurrencesRequest { elsewhere: false, on_disk: true, ..OccurrencesRequest::new(path) };
        let answer = bank.ask(&request, control).ok().filter(|answer| answer.fresh).map(Arc::new);
        // If the request failed, or if the file has changed on disk since it was loaded, keep the
        // earlier answer about the loaded text.
        let answer = answer.or(before);
        self.loaded.lock().insert(path.to_owned(), (date, stamp, answer.clone()));
        answer
    }

    /// Returns the occurrences in a document.
    pub(super) fn view(
        &self,
        document: &OpenDocument,
        control: &Control,
    ) -> Result<Arc<OpenTextAnswer>, RequestRefusal> {
        let bank = self.bank()?;
        let stamp = bank.index().stamp();
        let mut view = document.view.lock();
        if let Some((_, answer)) = view.as_ref().filter(|(known, _)| *known == stamp) {
            return Ok(Arc::clone(answer));
        }
        let loaded = self.loaded(&document.path, control);
        let request = OpenTextRequest { path: document.path.clone(), text: document.analysed_text(), loaded };
        let answer = Arc::new(bank.ask(&request, control)?);
        *view = Some((stamp, Arc::clone(&answer)));
        Ok(answer)
    }

    /// Returns the loaded text of the file at `path`, if available.
    pub(super) fn loaded_text(&self, path: &Path, control: &Control) -> Option<String> {
        Some(self.loaded(path, control)?.text.clone())
    }

    /// Returns the place of an answer's location in the current text. `None` if that text does not
    /// contain the place.
    pub(super) fn place(&self, at: &Location, control: &Control) -> Option<Place> {
        let path = self.native(Path::new(&at.file));
        let Some(document) = self.document(&path) else {
            let file = self.file_text(&path)?;
            let range = at.range.or_else(|| token_at(&file.text, &file.lines, at))?;
            return (range.end as usize <= file.text.len()).then_some(Place { path, range });
        };
        let view = self.view(&document, control).ok()?;
        let loaded = self.loaded(&path, control)?;
        let lines = LineIndex::new(loaded.text.as_bytes());
        let whole = at.range.filter(|_| loaded.text == *document.text);
        let range = whole.or_else(|| token_at(&loaded.text, &lines, at))?;
        Some(Place { path, range: view.moved(range)? })
    }

    /// Returns whether a load is running, so that answers also use text that is not loaded.
    pub(super) fn is_loading(&self) -> bool {
        *self.load_phase.lock() != LoadPhase::Done
            || self.session().started().is_some_and(Steelbank::is_loading)
    }

    /// Returns a control for a question to Lisp that an answer can do without during a load, when
    /// Lisp may be slow to answer.
    pub(super) fn optional(&self, control: &Control) -> Control {
        if self.is_loading() { control.until(Instant::now() + LISP_WAIT) } else { control.clone() }
    }

    /// Returns the places of `symbol` in text that is not loaded. Returns none unless a load is
    /// running.
    pub(super) fn text_places(
        &self,
        symbol: &SymbolName,
        control: &Control,
    ) -> Result<Vec<NamedPlace>, RequestRefusal> {
        if !self.is_loading() {
            return Ok(Vec::new());
        }
        let unsaved = self.documents().into_iter().filter(|document| !document.is_saved());
        let open = unsaved.map(|document| (document.path.clone(), document.analysed_text())).collect();
        let request = TextPlacesRequest { symbol: symbol.clone(), open };
        Ok(self.bank()?.ask(&request, control)?)
    }

    /// Calls `take` with the path, the text and the names of each file of the project that is not
    /// loaded.
    pub(super) fn unloaded_texts(
        &self,
        control: &Control,
        mut take: impl FnMut(&Path, &str, &FileTokens),
    ) -> Result<(), RequestRefusal> {
        let project = self.bank()?.project();
        for path in control.until_cancelled(project.lisp_files()) {
            let unloaded = project.loaded_date(&path).is_none().then(|| self.file_text(&path)).flatten();
            let Some(ShownText { text, .. }) = unloaded else { continue };
            take(&path, &text, &FileTokens::read(text.as_bytes()));
        }
        Ok(())
    }

    /// Returns the text of the file at `path` from the editor or the disk.
    pub(super) fn file_text(&self, path: &Path) -> Option<ShownText> {
        let text = match self.document(path) {
            Some(document) => document.text.to_string(),
            None if self.out_of_sync.lock().contains_key(path) => return None,
            None => decode(&steelbank_tree::read_source(path).ok()?).into_owned(),
        };
        Some(ShownText { lines: LineIndex::new(text.as_bytes()), text })
    }

    /// Converts `places` to the protocol's locations, in order and without duplicates. Omits places
    /// that are not in the current text of a readable file.
    pub(super) fn locations(&self, mut places: Vec<Place>, control: &Control) -> Vec<Value> {
        places.sort();
        places.dedup();
        let mut texts: HashMap<PathBuf, Option<ShownText>> = HashMap::new();
        let located = control.until_cancelled(places).filter_map(|Place { path, range }| {
            let file = texts.entry(path.clone()).or_insert_with(|| self.file_text(&path)).as_ref()?;
            if range.end as usize > file.text.len() {
                return None;
            }
            let range = convert::range(range, &file.text, &file.lines, self.encoding());
            Some(json!({ "uri": convert::uri_of(&path), "range": range }))
        });
        located.collect()
    }

    /// Returns the places of `symbol` in open documents: first the definitions, then the uses.
    pub(super) fn in_documents(&self, symbol: &SymbolName, control: &Control) -> (Vec<Place>, Vec<Place>) {
        let (mut definitions, mut uses) = (Vec::new(), Vec::new());
        for document in self.documents() {
            let Ok(view) = self.view(&document, control) else { continue };
            for found in control.until_cancelled(&view.occurrences).filter(|found| is_global(found, symbol)) {
                let place = Place { path: document.path.clone(), range: found.range };
                match defines(found) {
                    true => definitions.push(place),
                    false => uses.push(place),
                }
            }
        }
        (definitions, uses)
    }
}

/// Returns whether an occurrence is this global symbol and not a local name with the same spelling.
fn is_global(found: &FileOccurrence, symbol: &SymbolName) -> bool {
    *found.symbol == *symbol && (found.use_type.is_some() || defines(found))
}

pub(super) fn defines(found: &FileOccurrence) -> bool {
    matches!(found.role, SyntaxRole::Definition | SyntaxRole::Structure | SyntaxRole::Named)
}

/// Returns the form that starts at a location's line and column in `text`, or else the token there.
fn token_at(text: &str, lines: &LineIndex, at: &Location) -> Option<Range> {
    let at = LineColumn { line: at.line?, column: at.column.unwrap_or(1) };
    let start = lines.offset(text.as_bytes(), at, PositionEncoding::Characters)?;
    let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
    let form = read.forms().partition_point(|form| form.span.start < start);
    let form = read.forms().get(form).map(|form| form.span).filter(|span| span.start == start);
    form.or_else(|| read.token_at(start).map(|token| token.span))
}
