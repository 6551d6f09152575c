//! Names that a structure makes: given another by an option of the structure, or by another name of the slot.

use std::path::{Path, PathBuf};

use super::plan::{CautionKind, ConflictKind};
use super::structures::{Origin, Structures, prefix};
use super::{Planner, Tapped};
use crate::project::{Context, Look};
use crate::query::Error;
use crate::query::designator::FunctionName;
use crate::query::uses::SymbolUses;
use crate::source::positions::{PackageAndName, Structure};
use crate::source::tap::roles::Role;
use steelbank_reader::{Marker, Range};
use steelbank_xref::Symbol;

/// What is edited besides the name's own tokens.
#[derive(Default)]
pub(super) struct Parts {
    /// File, range of its text, and what is written there.
    pub(super) edits: Vec<(PathBuf, Range, Written)>,
    /// Names that change with it.
    pub(super) along: Vec<(Symbol, String)>,
}

/// How an edit of the structure is written.
pub(super) enum Written {
    /// The symbol, spelt as what it replaces.
    Symbol(String),
    /// A keyword.
    Keyword(String),
    /// An option of this keyword with the symbol, after the structure's name.
    Option { keyword: &'static str, name: String, bare: bool },
}

const OPTIONS: [&str; 3] = [":constructor", ":copier", ":predicate"];

impl Planner<'_> {
    /// How the structure of the top-level form `form` in the file at `path` is made to make the new name. None if it is
    /// no structure's, or cannot be.
    pub(super) fn parts(&mut self, path: &Path, form: u32) -> Result<Option<Parts>, Error> {
        let structures = Structures::of(self.sources.project);
        let made = self.uses.sought().name.clone();
        Ok(match structures.origin(path, form, &made) {
            Some(Origin::Standard { structure, which }) if !structure.says[which] => {
                let (keyword, name, bare) = (OPTIONS[which], self.new.clone(), structure.is_bare);
                let option = Written::Option { keyword, name, bare };
                let edit = (path.to_path_buf(), structure.name_range, option);
                Some(Parts { edits: vec![edit], along: Vec::new() })
            }
            Some(Origin::Slot { slot, prefix }) => {
                let new = self.new.strip_prefix(&prefix).filter(|new| !new.is_empty()).map(str::to_owned);
                match new {
                    Some(new) => self.slot(&structures, slot, &new)?,
                    None => {
                        let message = format!(
                            "{} is made from {prefix} and the slot {}: only names that begin with {prefix} can be given to it.",
                            self.plan.symbol, slot.1
                        );
                        self.conflict(ConflictKind::Made, message);
                        None
                    }
                }
            }
            _ => None,
        })
    }

    /// The edits that give a slot another name, if it can be told where it is meant.
    fn slot(
        &mut self,
        structures: &Structures,
        slot: &PackageAndName,
        new: &str,
    ) -> Result<Option<Parts>, Error> {
        let index = self.sources.index;
        let having = structures.having(slot);
        let home = index.find_package(&slot.0, None);
        let Some((symbol, _)) = home.and_then(|home| index.find_symbol(&slot.1, home)) else {
            return Ok(None);
        };
        let uses = SymbolUses::new(index, symbol, FunctionName::Plain);
        let mut parts = Parts::default();
        for Tapped { path, tokens, .. } in self.tapped(&uses) {
            for token in tokens {
                let inside = having
                    .iter()
                    .any(|(other, structure)| *other == path && structure.range.encloses(token.range));
                match (inside, token.role == Role::Slot) {
                    (true, true) => {
                        let written = Written::Symbol(new.to_owned());
                        parts.edits.push((path.clone(), token.range, written));
                    }
                    (false, false) => {}
                    // A local variable of the form, or the slot of some object.
                    _ => return Ok(None),
                }
            }
        }
        if parts.edits.is_empty() {
            return Ok(None);
        }
        for (path, structure) in &having {
            let Some(prefix) = prefix(structure) else { return Ok(None) };
            let (old, new) = (format!("{prefix}{}", slot.1), format!("{prefix}{new}"));
            for symbol in self.sources.names.named(index, &old) {
                let home = SymbolUses::new(index, symbol, FunctionName::Plain).sought().package.clone();
                let image = (self.sources.definitions)(&old, &home)?;
                let here = |(file, form): (PathBuf, u32)| file == *path && form == structure.form;
                let known = parts.along.iter().any(|(known, _)| *known == symbol);
                if symbol != self.symbol && !known && super::derived::sources(&image.definitions).any(here) {
                    parts.along.push((symbol, new.clone()));
                }
            }
            self.keywords(structure, slot, new_slot(&new, &prefix), &mut parts);
        }
        Ok(Some(parts))
    }

    /// The keywords in calls of a structure's constructors.
    fn keywords(&mut self, structure: &Structure, slot: &PackageAndName, new: &str, parts: &mut Parts) {
        let (index, project) = (self.sources.index, self.sources.project);
        let mut constructors: Vec<Symbol> = Vec::new();
        if structure.makes[0] {
            constructors.extend(self.sources.names.named(index, &format!("MAKE-{}", structure.name.1)));
        }
        for (package, name) in &structure.constructors {
            let home = index.find_package(package, None);
            constructors.extend(home.and_then(|home| index.find_symbol(name, home)).map(|found| found.0));
        }
        let mut unclear = false;
        for symbol in constructors {
            let uses = SymbolUses::new(index, symbol, FunctionName::Plain);
            let text = self.text_tokens(&uses);
            unclear |= !text.certain.is_empty() || !text.possible.is_empty();
            for Tapped { path, tokens, .. } in self.tapped(&uses) {
                // (apply #'make-x …), or a macro that is given the keywords.
                let passed = [Role::Function, Role::Quoted, Role::Argument, Role::Template];
                unclear |= tokens.iter().any(|token| passed.contains(&token.role));
                let Some(date) = project.loaded_date(&path) else { continue };
                let Ok(file) = project.positions(&path, date) else { continue };
                let means = |package: &str| uses.means(package);
                for range in file.keyword_arguments(uses.sought(), &means, &slot.1) {
                    parts.edits.push((path.clone(), range, Written::Keyword(new.to_owned())));
                }
            }
        }
        // Of structures that are read, too.
        let written = || {
            project.texts_naming(&slot.1, Look::All, true).files.iter().any(|file| {
                let tokens = file.tokens.named(&slot.1);
                tokens.iter().any(|token| token.marker == Marker::Keyword && token.context == Context::Code)
            })
        };
        let literal = || {
            project
                .texts_naming(&structure.name.1, Look::All, true)
                .files
                .iter()
                .any(|file| file.text.contains("#S(") || file.text.contains("#s("))
        };
        if (unclear || literal()) && written() {
            let message = format!(
                "The keyword :{} of the constructor is written, and not every call of it can be told.",
                slot.1.to_lowercase()
            );
            self.caution(CautionKind::Initarg, message, Vec::new());
        }
    }
}

fn new_slot<'a>(made: &'a str, prefix: &str) -> &'a str {
    made.strip_prefix(prefix).unwrap_or(made)
}
