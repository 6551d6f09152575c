//! Computes the names that structures generate: constructors, copiers, predicates and accessors.
//! Also computes the new names after the structure, a slot or a prefix is renamed.

use std::path::{Path, PathBuf};

use crate::source::positions::{Prefix, StructureDefinition};
use crate::workspace::{FileVersion, Project, TreeView};
use steelbank_reader::Range;
use steelbank_xref::SymbolName;

/// The structures that the project's files define. Only loaded files that have not changed count.
pub(super) struct Structures {
    all: Vec<(PathBuf, StructureDefinition)>,
    /// How many of them, at the start of `all`, are defined by DEFSTRUCT itself.
    plain: usize,
}

/// A name that a structure generates.
pub(super) struct GeneratedName {
    pub(super) path: PathBuf,
    /// The number of the structure's top-level form.
    pub(super) form: u32,
    pub(super) old: String,
    /// The new name. It equals the old name if the old name does not derive from the renamed
    /// symbol.
    pub(super) new: String,
}

/// The origin of a name that a structure generates.
pub(super) enum AccessorOrigin<'a> {
    /// MAKE-, COPY- or -P with the structure's name; `which` is 0, 1 or 2.
    Standard { structure: &'a StructureDefinition, which: usize },
    /// A slot's name after a prefix.
    Slot { structure: &'a StructureDefinition, slot: &'a SymbolName, prefix: String },
}

/// The maximum depth of `:include`.
const DEEPEST: usize = 50;

impl Structures {
    pub(super) fn of(project: &Project, view: &TreeView) -> Structures {
        let mut all = Vec::new();
        for FileVersion { path, write_date } in project.naming("DEFSTRUCT") {
            if let Ok(file) = project.positions_at(view, &path, write_date)
                && view.contains(&path)
                && file.is_fresh()
            {
                all.extend(file.structures().into_iter().map(|found| (path.clone(), found)));
            }
        }
        Structures { plain: all.len(), all }
    }

    /// Adds the definitions by forms of `operator`, a macro of the project with the same syntax as
    /// DEFSTRUCT.
    pub(super) fn and_like(
        mut self,
        project: &Project,
        view: &TreeView,
        operator: &SymbolName,
    ) -> Structures {
        for FileVersion { path, write_date } in project.naming(&operator.name) {
            if let Ok(file) = project.positions_at(view, &path, write_date)
                && view.contains(&path)
                && file.is_fresh()
            {
                self.all
                    .extend(file.structures_like(operator).into_iter().map(|found| (path.clone(), found)));
            }
        }
        self
    }

    /// Returns whether any definition that [`and_like`](Self::and_like) added has the option
    /// `keyword`.
    pub(super) fn have_option(&self, keyword: &str) -> bool {
        self.all[self.plain..].iter().any(|(_, found)| found.options.iter().any(|option| option == keyword))
    }

    /// Lists all names that structures generate, with their new names after `symbol` is renamed to
    /// `new`.
    pub(super) fn generated_names(&self, symbol: &SymbolName, new: &str) -> Vec<GeneratedName> {
        let named = |named: &SymbolName| if named == symbol { new.to_owned() } else { named.name.clone() };
        let mut made = Vec::new();
        for (path, structure) in &self.all {
            let mut add = |old: String, new: String| {
                made.push(GeneratedName { path: path.clone(), form: structure.form, old, new });
            };
            let (old_name, new_name) = (structure.name.name.clone(), named(&structure.name));
            if structure.derives_name[0] {
                add(format!("MAKE-{old_name}"), format!("MAKE-{new_name}"));
            }
            if structure.derives_name[1] {
                add(format!("COPY-{old_name}"), format!("COPY-{new_name}"));
            }
            if structure.derives_name[2] {
                add(format!("{old_name}-P"), format!("{new_name}-P"));
            }
            let Some(old_prefix) = prefix(structure) else { continue };
            let new_prefix = match &structure.prefix {
                Prefix::OfName => format!("{new_name}-"),
                Prefix::Symbol(prefix) => named(prefix),
                Prefix::Text(_) | Prefix::Unknown => old_prefix.clone(),
            };
            for slot in self.slots(structure, 0) {
                add(format!("{old_prefix}{}", slot.name), format!("{new_prefix}{}", named(slot)));
            }
        }
        made
    }

    /// Returns how a structure in the top-level form `form` of the file at `path` generates the
    /// name `made`: as its constructor, copier or predicate, or as a slot's accessor.
    pub(super) fn origin(&self, path: &Path, form: u32, made: &str) -> Option<AccessorOrigin<'_>> {
        let of_form = self.all.iter().filter(|(other, found)| other == path && found.form == form);
        of_form.into_iter().find_map(|(_, structure)| {
            let name = &structure.name.name;
            let standard = [format!("MAKE-{name}"), format!("COPY-{name}"), format!("{name}-P")];
            if let Some(which) =
                (0..3).find(|&which| structure.derives_name[which] && standard[which] == made)
            {
                return Some(AccessorOrigin::Standard { structure, which });
            }
            let prefix = prefix(structure)?;
            let slot = made.strip_prefix(&prefix)?;
            let slot = self.slots(structure, 0).into_iter().find(|found| found.name == slot)?;
            Some(AccessorOrigin::Slot { structure, slot, prefix })
        })
    }

    /// Finds the structure that defines the slot `slot` of `of`, and all structures that include it
    /// directly or indirectly.
    pub(super) fn family(
        &self,
        of: &StructureDefinition,
        slot: &SymbolName,
    ) -> Vec<&(PathBuf, StructureDefinition)> {
        let named = |name: &SymbolName| self.all.iter().find(|(_, other)| other.name == *name);
        let mut root = of;
        for _ in 0..DEEPEST {
            let included = root.included.as_ref().and_then(named);
            match included.filter(|_| !root.slots.contains(slot)) {
                Some((_, included)) => root = included,
                None => break,
            }
        }
        let descends = |found: &StructureDefinition| {
            let mut found = found;
            for _ in 0..DEEPEST {
                match found.included.as_ref().and_then(named) {
                    _ if found.name == root.name => return true,
                    Some((_, included)) => found = included,
                    None => return false,
                }
            }
            false
        };
        self.all.iter().filter(|(_, found)| descends(found)).collect()
    }

    /// Returns whether `range` of the file at `path` is a slot's name in a structure definition.
    pub(super) fn have_slot_at(&self, path: &Path, range: Range) -> bool {
        let mut here = self.all.iter().filter(|(other, _)| other == path);
        here.any(|(_, found)| found.slot_places.iter().any(|(_, place)| *place == range))
    }

    /// Lists the slots of a structure, including those of included structures.
    fn slots<'a>(&'a self, structure: &'a StructureDefinition, depth: usize) -> Vec<&'a SymbolName> {
        let mut slots: Vec<&SymbolName> = structure.slots.iter().collect();
        let included = structure
            .included
            .as_ref()
            .and_then(|name| self.all.iter().find(|(_, other)| other.name == *name));
        if let Some((_, included)) = included
            && depth < DEEPEST
        {
            slots.extend(self.slots(included, depth + 1));
        }
        slots
    }
}

/// Returns the prefix of a structure's accessors, if it is known.
pub(super) fn prefix(structure: &StructureDefinition) -> Option<String> {
    match &structure.prefix {
        Prefix::OfName => Some(format!("{}-", structure.name.name)),
        Prefix::Symbol(prefix) => Some(prefix.name.clone()),
        Prefix::Text(prefix) => Some(prefix.clone()),
        Prefix::Unknown => None,
    }
}
