//! SBCL's own sources: from the logical names that it records to files, lines and columns.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::positions::universal_write_date;
use steelbank_reader::lines::{LineColumn, LineIndex, decode};
use steelbank_xref::Index;
use steelbank_xref::places::{form_start, source_path};

/// The folder of the sources that SBCL was built from, if they are at hand.
#[derive(Debug, Clone, Default)]
pub struct SbclSources {
    root: Option<PathBuf>,
    index: Option<Index>,
    places: Arc<Mutex<PlacesByFile>>,
}

/// Line and column of the form after so many bytes of a file, by its logical name. The files do not change.
type PlacesByFile = HashMap<String, HashMap<u32, Option<LineColumn>>>;

/// Looks up places in SBCL's own sources: each file is read at most once, and not at all for places that are known.
#[derive(Debug)]
pub struct SbclPlaces<'a> {
    sources: &'a SbclSources,
    read: HashMap<String, Option<SourceFile>>,
}

impl SbclPlaces<'_> {
    /// The line and column, from 1, of the form after `offset` bytes of the file with this logical name.
    pub fn form_after(&mut self, file: &str, offset: u32) -> Option<LineColumn> {
        if let Some(place) = self.sources.baked(file, offset) {
            return Some(place);
        }
        if let Some(place) = self.sources.places.lock().get(file).and_then(|places| places.get(&offset)) {
            return *place;
        }
        let sources = self.sources;
        let source =
            self.read.entry(file.to_owned()).or_insert_with(|| SourceFile::read(&sources.native(file)?));
        let place = source.as_ref().and_then(|source| source.line_and_column(offset));
        if !file.starts_with("SYS:") {
            return place;
        }
        // A few megabytes, if all places of all files are asked for.
        self.sources.places.lock().entry(file.to_owned()).or_default().insert(offset, place);
        place
    }
}

impl SbclSources {
    /// Sources below `root`, a folder with `src` and `contrib` in it; none if there is no such folder.
    pub fn new(root: Option<PathBuf>) -> Self {
        Self { root: root.filter(|root| root.join("src").is_dir()), index: None, places: Arc::default() }
    }

    /// The same sources, with the places of the core's functions that `index` has.
    #[must_use]
    pub fn with_index(self, index: Index) -> Self {
        Self { index: Some(index), ..self }
    }

    /// The line and column, from 1, of the form after `offset` bytes of the file with this logical name, as the index
    /// has them: the sources need not be at hand.
    pub fn baked(&self, file: &str, offset: u32) -> Option<LineColumn> {
        let (line, column) = self.index.as_ref()?.form_after(file, offset)?;
        Some(LineColumn { line, column })
    }

    /// Starts looking up places in several files.
    pub fn places(&self) -> SbclPlaces<'_> {
        SbclPlaces { sources: self, read: HashMap::new() }
    }

    /// The file that a logical name such as `SYS:SRC;CODE;LIST.LISP` or a native path means, if it exists.
    pub fn native(&self, file: &str) -> Option<PathBuf> {
        let path = match source_path(file) {
            Some(relative) => self.root.as_ref()?.join(relative),
            None => PathBuf::from(file),
        };
        path.is_file().then_some(path)
    }

    /// Whether `path` has another date than the universal time `date`. SBCL's own sources do not change.
    pub fn written_since(&self, path: &Path, date: u64) -> bool {
        let own = self.root.as_ref().is_some_and(|root| path.starts_with(root));
        !own && universal_write_date(path).is_some_and(|written| written != date)
    }

    /// The form after `offset` bytes of the file and the white space and comments that follow.
    pub fn form_after(&self, path: &Path, offset: u32) -> Option<LineColumn> {
        SourceFile::read(path)?.line_and_column(offset)
    }
}

/// A file in which several forms are sought.
#[derive(Debug)]
pub struct SourceFile {
    text: Vec<u8>,
    lines: LineIndex,
}

impl SourceFile {
    /// Reads the file at `path`, if that can be done.
    pub fn read(path: &Path) -> Option<Self> {
        let text = fs::read(path).ok()?;
        let lines = LineIndex::new(&text);
        Some(Self { text, lines })
    }

    /// All of it.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// The text of `line`, from 1, without what surrounds it.
    pub fn line_text(&self, line: u32) -> String {
        decode(self.lines.bytes(&self.text, line)).trim().to_owned()
    }

    /// The line and column, from 1, of the form after `offset` bytes and the white space and comments that follow.
    pub fn line_and_column(&self, offset: u32) -> Option<LineColumn> {
        let start = form_start(&self.text, usize::try_from(offset).ok()?)?;
        Some(self.lines.position(&self.text, u32::try_from(start).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steelbank_xref::export::Export;

    #[test]
    fn the_index_has_the_places_that_the_sources_have() {
        let folder = Path::new(crate::Installation::BUILT);
        let export = fs::read(folder.with_file_name("xref.export")).unwrap();
        let export = Export::read(&export).unwrap();
        let index = Index::open(fs::read(folder.join("steelbank.xref")).unwrap()).unwrap();
        let sources = SbclSources::new(Some(crate::Installation::BUILT_SBCL.into()));
        let mut read = sources.places();
        let baked = sources.clone().with_index(index);
        let mut found = 0;
        for (number, (file, bytes)) in export.toplevel_forms().enumerate() {
            let place = baked.baked(&file, bytes);
            found += u32::from(place.is_some());
            // All of them would take a minute.
            if number % 97 == 0 {
                assert_eq!(place, read.form_after(&file, bytes), "{file} {bytes}");
            }
        }
        assert!(found > 20_000, "{found}");
    }
}
