//! The symbols that the loaded files have in their text, as their sidecars tell: a file that came from the cache interned only those of
//! them that its code refers to, and suggestions are to be the same as after compiling it.

use std::collections::HashMap;
use std::path::PathBuf;

use indexmap::IndexSet;
use steelbank_xref::Spellings;

use crate::source::tap::sidecar::{Name, Sidecar};
use crate::workspace::{FileStamp, Project};

/// The symbols in the text of the loaded files.
#[derive(Debug, Default)]
pub(crate) struct ReadSymbols {
    /// The home's name and the symbol's, each once; also of files that are loaded no more.
    known: IndexSet<(String, String)>,
    /// By the name of the sidecar, the numbers of the symbols in it.
    files: HashMap<PathBuf, (FileStamp, Vec<u32>)>,
    /// The numbers of those in loaded files, and their spellings, in the same order.
    live: Vec<u32>,
    spellings: Spellings,
}

impl ReadSymbols {
    /// All of them, each by its home's name and its own.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.live.iter().filter_map(|&number| self.symbol(number))
    }

    /// Those whose names may be made of `name` with so many `edits` of a letter, whatever their case, and others.
    pub(crate) fn near(&self, name: &str, edits: usize) -> impl Iterator<Item = (&str, &str)> {
        let near = self.spellings.near(name, edits);
        near.filter_map(|row| self.symbol(*self.live.get(row as usize)?))
    }

    fn symbol(&self, number: u32) -> Option<(&str, &str)> {
        self.known.get_index(number as usize).map(|(home, name)| (home.as_str(), name.as_str()))
    }

    /// Takes the loaded files to be those with these sidecars; `read` reads one that is not known.
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
                    Name::Symbol { package, name } => Some((package, name)),
                    Name::Uninterned(_) | Name::Text(_) => None,
                });
                (stamp, symbols.map(|symbol| self.known.insert_full(symbol).0 as u32).collect())
            });
            self.files.insert(sidecar, file);
        }
        self.live = self.files.values().flat_map(|(_, symbols)| symbols).copied().collect();
        self.live.sort_unstable();
        self.live.dedup();
        let name = |&number: &u32| self.known.get_index(number as usize).map_or("", |(_, name)| name);
        self.spellings = Spellings::of(self.live.iter().map(name));
    }
}

impl Project {
    /// Gives `ask` the symbols in the text of the loaded files. Reads the sidecars of those that were loaded since the last call.
    pub(crate) fn with_read_symbols<R>(&self, ask: impl FnOnce(&ReadSymbols) -> R) -> R {
        let sidecars = self.live_sidecars();
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
    fn symbols_are_those_of_loaded_files_and_a_sidecar_is_read_once() {
        let stamp = |size| FileStamp { modified: None, size, changed: (2, 3), inode: 4 };
        let read = |path: &PathBuf| {
            let symbol = |name: &str| Name::Symbol { package: "P".to_owned(), name: name.to_owned() };
            let own = path.display().to_string().to_uppercase();
            vec![symbol("SHARED"), symbol(&own), Name::Text("TEXT".to_owned())]
        };
        let unread = |path: &PathBuf| -> Vec<Name> { panic!("{} is known", path.display()) };
        let named =
            |symbols: &ReadSymbols| symbols.all().map(|(_, name)| name.to_owned()).collect::<Vec<_>>();
        let mut symbols = ReadSymbols::default();
        symbols.set(vec![("alpha".into(), stamp(1)), ("beta".into(), stamp(1))], read);
        assert_eq!(named(&symbols), ["SHARED", "ALPHA", "BETA"]);
        assert_eq!(symbols.near("alpa", 1).collect::<Vec<_>>(), [("P", "ALPHA")]);
        symbols.set(vec![("beta".into(), stamp(1))], unread);
        assert_eq!(named(&symbols), ["SHARED", "BETA"]);
        assert_eq!(symbols.near("ALPHA", 0).count(), 0);
        symbols.set(vec![("beta".into(), stamp(1))], unread);
        symbols.set(vec![("beta".into(), stamp(2))], |_| Vec::new());
        assert!(named(&symbols).is_empty());
    }
}
