//! Positions in SBCL's own sources: translates the logical pathnames that SBCL records to files,
//! lines and columns.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::positions::universal_write_date;
use steelbank_reader::lines::{LineColumn, LineIndex, decode};
use steelbank_xref::Index;
use steelbank_xref::places::{form_start, source_path};

/// SBCL's own sources: their folder, if available, the positions from the core's index, and a cache
/// of positions.
#[derive(Debug, Clone, Default)]
pub struct SbclSources {
    root: Option<PathBuf>,
    index: Option<Index>,
    places: Arc<Mutex<PlacesByFile>>,
}

/// For each logical pathname and byte offset: the line and column of the form after the offset. The
/// entries are never stale, because SBCL's sources do not change.
type PlacesByFile = HashMap<String, HashMap<u32, Option<LineColumn>>>;

/// Looks up positions in SBCL's own sources. Each file is read at most once, and only for positions
/// that are neither in the index nor cached.
#[derive(Debug)]
pub struct SbclPlaces<'a> {
    sources: &'a SbclSources,
    read: HashMap<String, Option<SourceFile>>,
}

impl SbclPlaces<'_> {
    /// Returns the line and column, from 1, of the form after `offset` bytes of the file with this
    /// logical pathname or native path. Returns `None` if the file or the form does not exist.
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
        // The cache grows to a few megabytes at most, even if every position in every file is
        // looked up.
        self.sources.places.lock().entry(file.to_owned()).or_default().insert(offset, place);
        place
    }
}

impl SbclSources {
    /// Returns the sources in `root`, a folder with the subfolders `src` and `contrib`. Without
    /// such a folder, no sources are available.
    pub fn new(root: Option<PathBuf>) -> Self {
        Self { root: root.filter(|root| root.join("src").is_dir()), index: None, places: Arc::default() }
    }

    /// Adds the positions that `index` contains.
    #[must_use]
    pub fn with_index(self, index: Index) -> Self {
        Self { index: Some(index), ..self }
    }

    /// Returns the line and column, from 1, of the form after `offset` bytes of the file with this
    /// logical pathname, from the index. Works without the sources.
    pub fn baked(&self, file: &str, offset: u32) -> Option<LineColumn> {
        let (line, column) = self.index.as_ref()?.form_after(file, offset)?;
        Some(LineColumn { line, column })
    }

    /// Starts a lookup of positions in several files.
    pub fn places(&self) -> SbclPlaces<'_> {
        SbclPlaces { sources: self, read: HashMap::new() }
    }

    /// Returns the file for a logical pathname such as `SYS:SRC;CODE;LIST.LISP` or a native path,
    /// if it exists.
    pub fn native(&self, file: &str) -> Option<PathBuf> {
        let path = match source_path(file) {
            Some(relative) => self.root.as_ref()?.join(relative),
            None => PathBuf::from(file),
        };
        path.is_file().then_some(path)
    }

    /// Returns whether the write date of `path` differs from the universal time `date`. Returns
    /// `false` for SBCL's own sources and for files without a readable date.
    pub fn written_since(&self, path: &Path, date: u64) -> bool {
        let own = self.root.as_ref().is_some_and(|root| path.starts_with(root));
        !own && universal_write_date(path).is_some_and(|written| written != date)
    }

    /// Returns the position of the form that follows byte `offset` of the file, after white space
    /// and comments.
    pub fn form_after(&self, path: &Path, offset: u32) -> Option<LineColumn> {
        SourceFile::read(path)?.line_and_column(offset)
    }
}

/// A source file that is read once to locate several forms.
#[derive(Debug)]
pub struct SourceFile {
    text: Vec<u8>,
    lines: LineIndex,
}

impl SourceFile {
    /// Reads the file at `path`. Returns `None` if that fails.
    pub fn read(path: &Path) -> Option<Self> {
        let text = fs::read(path).ok()?;
        let lines = LineIndex::new(&text);
        Some(Self { text, lines })
    }

    /// Returns the entire text.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the text of `line`, from 1, without leading and trailing white space.
    pub fn line_text(&self, line: u32) -> String {
        decode(self.lines.bytes(&self.text, line)).trim().to_owned()
    }

    /// Returns the line and column, from 1, of the form that follows byte `offset`, after white
    /// space and comments.
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
    fn baked_positions_match_the_sources() {
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
            // Check a sample, because reading all positions would take a minute.
            if number % 97 == 0 {
                assert_eq!(place, read.form_after(&file, bytes), "{file} {bytes}");
            }
        }
        assert!(found > 20_000, "{found}");
    }
}
