//! Origins of uses in macro expansions: the symbol stands in the macro's definition, so that a rename there
//! changes the use, or the macro makes it from parts of names, so that no rename does.

use std::collections::{BTreeSet, HashMap, VecDeque};

use crate::answer::Location;
use crate::answer::package_owner::PackageOwner;
use crate::source::positions::{Expander, SearchTarget};
use crate::source::tap::roles::SyntaxRole;
use crate::workspace::{FileVersion, Now, Project};

/// The origin of a symbol in a macro's expansion.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ExpansionOrigin {
    /// The symbol stands here, in the definition of the macro or of what that names: its line.
    InTemplate(Location),
    /// The symbol stands in no such definition: the macro makes it, from these names among its arguments if
    /// from any.
    Synthesized(Vec<String>),
    /// The standard's operator makes the use of what stands in the same form.
    Standard,
}

/// Finds the origins of one symbol in the expansions of macros.
pub(crate) struct Origins<'a> {
    project: &'a Project,
    now: &'a Now,
    /// The results of [`Origins::stands`], by the macro's package and name.
    known: HashMap<(String, String), Option<Option<Location>>>,
}

/// How many definitions to search for one macro.
const MOST_NAMES_FOLLOWED: usize = 200;

impl<'a> Origins<'a> {
    pub(crate) fn new(project: &'a Project, now: &'a Now) -> Origins<'a> {
        Origins { project, now, known: HashMap::new() }
    }

    /// Finds the origin of `sought` in the expansion of `expander`; None if that has no definition that is
    /// known. `parts`: the names in the form that are parts of the symbol's.
    pub(crate) fn of(
        &mut self,
        sought: &SearchTarget,
        means: &dyn Fn(&str) -> bool,
        expander: &Expander,
        parts: Vec<String>,
    ) -> Option<ExpansionOrigin> {
        let key = (expander.package.clone(), expander.name.clone());
        let found = match self.known.get(&key) {
            Some(found) => found.clone(),
            None => {
                let found = self.stands(sought, means, expander);
                self.known.insert(key, found.clone());
                found
            }
        };
        Some(match found? {
            Some(place) => ExpansionOrigin::InTemplate(place),
            None => ExpansionOrigin::Synthesized(parts),
        })
    }

    /// Finds where `sought` stands in the definition of `expander`, or of what that names; None if `expander`
    /// has no definition here, or a file that may have one has changed.
    fn stands(
        &self,
        sought: &SearchTarget,
        means: &dyn Fn(&str) -> bool,
        expander: &Expander,
    ) -> Option<Option<Location>> {
        let first = SearchTarget { package: expander.package.clone(), name: expander.name.clone() };
        let mut seen = BTreeSet::from([(first.package.clone(), first.name.clone())]);
        let mut queue = VecDeque::from([first]);
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
                    for (package, name) in file.symbols_in(form) {
                        let own = !PackageOwner::of(package).is_locked();
                        if own
                            && seen.len() < MOST_NAMES_FOLLOWED
                            && seen.insert((package.to_owned(), name.to_owned()))
                        {
                            queue.push_back(SearchTarget {
                                package: package.to_owned(),
                                name: name.to_owned(),
                            });
                        }
                    }
                }
            }
        }
        (defined && !changed).then_some(None)
    }
}
