//! Finds the origin of uses in macro expansions. Either the macro's definition contains the symbol,
//! or the macro builds the symbol from parts of names. In the first case, a rename of the symbol
//! there changes the use; in the second case, it does not.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::answer::Location;
use crate::answer::package_owner::PackageOwner;
use crate::source::tap::roles::SyntaxRole;
use crate::workspace::{FileVersion, Project, TreeView};
use steelbank_xref::SymbolName;

/// The origin of a symbol in a macro's expansion.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExpansionOrigin {
    /// The line with the symbol in the macro's definition, or in a definition that was found by
    /// following the names in it.
    InTemplate(Location),
    /// The macro builds the symbol from these names among its arguments, or from other data if the
    /// list is empty. The searched definitions do not contain the symbol.
    Synthesized(Vec<String>),
    /// A standard operator expands into the use, and the symbol is in the same form.
    Standard,
}

/// Finds the origins of one symbol in macro expansions.
pub(crate) struct Origins<'a> {
    project: &'a Project,
    now: &'a TreeView,
    /// Caches the results of [`Origins::find_in_definitions`] by the macro.
    known: HashMap<SymbolName, Option<Option<Location>>>,
}

/// The maximum number of definitions to search for one macro.
const MAX_DEFINITIONS: usize = 200;

impl<'a> Origins<'a> {
    pub(crate) fn new(project: &'a Project, now: &'a TreeView) -> Origins<'a> {
        Origins { project, now, known: HashMap::new() }
    }

    /// Finds the origin of `sought` in the expansion of `expander`. Returns `None` if no definition
    /// of `expander` is known, or if one of the files searched has changed. `parts`: the names in
    /// the form that are parts of the symbol's name.
    pub(crate) fn of(
        &mut self,
        sought: &SymbolName,
        means: &dyn Fn(&str) -> bool,
        expander: &SymbolName,
        parts: Vec<String>,
    ) -> Option<ExpansionOrigin> {
        let found = match self.known.get(expander) {
            Some(found) => found.clone(),
            None => {
                let found = self.find_in_definitions(sought, means, expander);
                self.known.insert(expander.clone(), found.clone());
                found
            }
        };
        Some(match found? {
            Some(place) => ExpansionOrigin::InTemplate(place),
            None => ExpansionOrigin::Synthesized(parts),
        })
    }

    /// Finds the line with `sought` in the definition of `expander`, or in definitions that are
    /// reached by following the names in it. Returns `Some(None)` if none of them contains it.
    /// Returns `None` if `expander` has no definition in loaded text, or if one of the files
    /// searched has changed.
    fn find_in_definitions(
        &self,
        sought: &SymbolName,
        means: &dyn Fn(&str) -> bool,
        expander: &SymbolName,
    ) -> Option<Option<Location>> {
        let mut seen = BTreeSet::from([expander.clone()]);
        let mut queue = VecDeque::from([expander.clone()]);
        let (mut defined, mut changed) = (false, false);
        while let Some(next) = queue.pop_front() {
            for FileVersion { path, write_date } in self.project.naming(&next.name) {
                let Ok(file) = self.project.positions_at(self.now, &path, write_date) else { continue };
                let definitions = file.occurrences(&next, &|_| false);
                let defines =
                    |role| matches!(role, SyntaxRole::Definition | SyntaxRole::Structure | SyntaxRole::Named);
                changed |= !file.is_fresh();
                for form in definitions.iter().filter(|found| defines(found.role)).map(|found| found.form) {
                    defined = true;
                    let inside = file.occurrences(sought, means).into_iter().find(|found| found.form == form);
                    if let Some(inside) = inside {
                        let place = Location::placed(self.project.shown(&path), &file, inside.range);
                        return Some(Some(place.whole_line()));
                    }
                    for symbol in file.symbols_in(form) {
                        let own = !PackageOwner::of(&symbol.package).is_locked();
                        if own && seen.len() < MAX_DEFINITIONS && seen.insert(symbol.clone()) {
                            queue.push_back(symbol.clone());
                        }
                    }
                }
            }
        }
        (defined && !changed).then_some(None)
    }
}
