//! Collects the symbols in the text of the loaded files, from their sidecars, for name suggestions.
//! The image is not enough: loading a fasl interns only the symbols that its code refers to, and
//! suggestions should be the same as after compiling the file.

use std::collections::HashMap;
use std::path::PathBuf;

use indexmap::IndexSet;
use steelbank_xref::{Spellings, SymbolName};

use crate::source::tap::sidecar::{Name, Sidecar};
use crate::workspace::{FileStamp, Project};

/// The symbols in the text of the loaded files.
#[derive(Debug, Default)]
pub(crate) struct ReadSymbols {
    /// All symbols that were read, including those of files that are no longer loaded.
    known: IndexSet<SymbolName>,
    /// For each sidecar by name, its stamp and the indices of its symbols in `known`.
    files: HashMap<PathBuf, (FileStamp, Vec<u32>)>,
    /// The indices of the symbols in loaded files, in the same order as `spellings`.
    loaded: Vec<u32>,
    spellings: Spellings,
}

impl ReadSymbols {
    /// Returns all symbols in loaded files.
    pub(crate) fn all(&self) -> impl Iterator<Item = &SymbolName> {
        self.loaded.iter().filter_map(|&number| self.symbol(number))
    }

    /// Returns the symbols with names that may be within `edits` letter edits of `name`, ignoring
    /// case. The result may contain other symbols.
    pub(crate) fn near(&self, name: &str, edits: usize) -> impl Iterator<Item = &SymbolName> {
        let near = self.spellings.near(name, edits);
        near.filter_map(|row| self.symbol(*self.loaded.get(row as usize)?))
    }

    fn symbol(&self, number: u32) -> Option<&SymbolName> {
        self.known.get_index(number as usize)
    }

    /// Sets the sidecars of the loaded files. `read` reads a sidecar that is new or has another
    /// stamp.
    fn set(&mut self, sidecars: Vec<(PathBuf, FileStamp)>, read: impl Fn(&PathBuf) -> Vec<Name>) {
        let is_known = |(name, stamp): &(PathBuf, FileStamp)| {
            self.files.get(name).is_some_and(|(known, _)| known == stamp)
        };
        if sidecars.len() == self.files.len() && sidecars.iter().all(is_known) {
            return;
        }
        let mut before = std::mem::take(&mut self.files);
        for (sidecar, stamp) in sidecars {
            let known = before.remove(&sidecar).filter(|(known, _)| *known == stamp);
            let file = known.unwrap_or_else(|| {
                let symbols = read(&sidecar).into_iter().filter_map(|name| match name {
                    Name::Symbol(symbol) => Some(symbol),
                    Name::Uninterned(_) | Name::Text(_) => None,
                });
                (stamp, symbols.map(|symbol| self.known.insert_full(symbol).0 as u32).collect())
            });
            self.files.insert(sidecar, file);
        }
        self.loaded = self.files.values().flat_map(|(_, symbols)| symbols).copied().collect();
        self.loaded.sort_unstable();
        self.loaded.dedup();
        let name = |&number: &u32| self.known.get_index(number as usize).map_or("", |symbol| &symbol.name);
        self.spellings = Spellings::of(self.loaded.iter().map(name));
    }
}

impl Project {
    /// Calls `ask` with the symbols in the text of the loaded files. Reads the sidecars of files
    /// that were loaded since the last call.
    pub(crate) fn with_read_symbols<R>(&self, ask: impl FnOnce(&ReadSymbols) -> R) -> R {
        let sidecars = self.loaded_sidecars();
        let mut symbols = self.read_symbols.lock();
        symbols.set(sidecars, |name| {
            let path = self.sidecar_called(name).map(|(path, _)| path);
            path.and_then(|path| Sidecar::read_names(&path).ok()).unwrap_or_default()
        });
        ask(&symbols)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sidecar_is_read_once() {
        let stamp = |size| FileStamp { modified: None, size, changed: (2, 3), inode: 4 };
        let read = |path: &PathBuf| {
            let symbol = |name: &str| Name::Symbol(SymbolName::new("P", name));
            let own = path.display().to_string().to_uppercase();
            vec![symbol("SHARED"), symbol(&own), Name::Text("TEXT".to_owned())]
        };
        let unread = |path: &PathBuf| -> Vec<Name> { panic!("{} was read before", path.display()) };
        let named =
            |symbols: &ReadSymbols| symbols.all().map(|symbol| symbol.name.clone()).collect::<Vec<_>>();
        let mut symbols = ReadSymbols::default();
        symbols.set(vec![("alpha".into(), stamp(1)), ("beta".into(), stamp(1))], read);
        assert_eq!(named(&symbols), ["SHARED", "ALPHA", "BETA"]);
        assert_eq!(symbols.near("alpa", 1).collect::<Vec<_>>(), [&SymbolName::new("P", "ALPHA")]);
        symbols.set(vec![("beta".into(), stamp(1))], unread);
        assert_eq!(named(&symbols), ["SHARED", "BETA"]);
        assert_eq!(symbols.near("ALPHA", 0).count(), 0);
        symbols.set(vec![("beta".into(), stamp(1))], unread);
        symbols.set(vec![("beta".into(), stamp(2))], |_| Vec::new());
        assert!(named(&symbols).is_empty());
    }
}
