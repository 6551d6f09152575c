//! Finds conflicts of a rename: new names that are taken, and symbols that must not be renamed.

use steelbank_xref::{Access, Index, Symbol};

use super::Planner;
use super::plan::{Conflict, ConflictKind};
use crate::actions::uses::symbol_uses::SymbolUses;
use crate::answer::designator::FunctionName;
use crate::answer::name::{of_symbol, readable};
use crate::answer::package_owner::PackageOwner;
use crate::workspace::FileVersion;

impl Planner<'_> {
    pub(super) fn conflict(&mut self, kind: ConflictKind, message: String) {
        self.plan.conflicts.push(Conflict { kind, message });
    }

    /// Adds a conflict if the symbol's package is locked, if the name does not change, or if the
    /// new name is taken in a package where the old name denotes the symbol.
    pub(super) fn conflicts(&mut self) {
        let index = &self.context.index;
        let name = self.uses.sought().name.clone();
        let Some(home) = index.symbol_package(self.symbol) else { return };
        let home_name = index.package_name(home).into_owned();
        if PackageOwner::of(&home_name).is_locked() {
            let message = format!("{} belongs to SBCL: its package is locked.", self.plan.symbol);
            return self.conflict(ConflictKind::Locked, message);
        }
        if self.new == name {
            return self.conflict(ConflictKind::Same, format!("The name is already {}.", readable(&name)));
        }
        let new = self.new.clone();
        for package in
            index.packages().filter(|package| Some(*package) != index.find_package("KEYWORD", None))
        {
            // The new name must be free in each package where the old name denotes the symbol.
            if index.find_symbol(&name, package).is_none_or(|(found, _)| found != self.symbol) {
                continue;
            }
            let Some((taken, access)) = index.find_symbol(&new, package) else { continue };
            let text = of_symbol(index, taken);
            let package_name = index.package_name(package).into_owned();
            let kind = match access {
                Access::Inherited if index.home_name(taken).as_deref() == Some("COMMON-LISP") => {
                    ConflictKind::Standard
                }
                Access::Inherited => ConflictKind::Inherited,
                Access::Internal | Access::External => ConflictKind::Exists,
            };
            if kind == ConflictKind::Exists && !self.is_used(index, taken) {
                continue;
            }
            let new = readable(&new);
            let message = match kind {
                ConflictKind::Standard => {
                    format!("In package {package_name}, {new} is a standard symbol: {text}.")
                }
                ConflictKind::Inherited => format!("In package {package_name}, {new} is inherited: {text}."),
                _ => format!("{text} already exists."),
            };
            self.conflict(kind, message);
        }
        self.plan.conflicts.dedup();
    }

    /// Returns whether a symbol of `index` is used, occurs in loaded files, or has a definition, so
    /// that it is not only interned.
    pub(super) fn is_used(&self, index: &Index, symbol: Symbol) -> bool {
        let uses = SymbolUses::new(index, symbol, FunctionName::Plain);
        let recorded = uses.recorded(|_, _| true);
        let project = self.context.project;
        let names = || project.naming(&uses.sought().name);
        !recorded.kinds.is_empty()
            || names().into_iter().any(|FileVersion { path, write_date }| {
                let file = self.positions(&path, write_date);
                file.is_ok_and(|file| !file.tokens(uses.sought(), &|package| uses.means(package)).is_empty())
            })
            || self.definitions(uses.sought()).is_ok_and(|found| !found.definitions.is_empty())
    }
}
