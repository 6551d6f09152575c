//! Finds code that may generate the renamed symbol's name at run time, and operators whose
//! definitions intern a keyword that may have this name.

use super::Planner;
use super::plan::{CautionKind, ConflictKind};
use crate::actions::uses::computed::{ComputedName, all_computed_names};
use crate::answer::Location;
use crate::answer::package_owner::PackageOwner;
use crate::source::tap::roles::SyntaxRole;
use crate::source::tap::sidecar::Name;
use crate::workspace::FileVersion;

impl Planner<'_> {
    /// Records code that may generate this name at run time, and code that generates unknown names.
    /// Adds no caution, because most such code generates other names.
    pub(super) fn computed_names(&mut self) {
        let name = self.uses.sought().name.clone();
        let all = all_computed_names(self.context, self.view);
        let place = |found: &ComputedName| found.place.to_string();
        let (open, closed): (Vec<&ComputedName>, Vec<_>) =
            all.iter().filter(|found| !found.in_macro).partition(|found| found.is_open());
        let like: Vec<String> =
            closed.iter().filter(|found| found.may_make(&name)).map(|found| place(found)).collect();
        self.plan.computed = open.iter().map(|found| place(found)).chain(like.iter().cloned()).collect();
        // Skip the note if a caution or conflict already reports generated names.
        let is_told = self.plan.cautions.iter().any(|caution| caution.kind == CautionKind::UseMade)
            || self.plan.conflicts.iter().any(|conflict| conflict.kind == ConflictKind::Made);
        if !is_told {
            self.plan.made_when_run = like;
        }
    }

    /// Returns whether the definition of `operator` interns a keyword that may have the symbol's
    /// name.
    pub(super) fn interns_keyword(&self, operator: &Name) -> bool {
        let (project, sought) = (self.context.project, self.uses.sought());
        let Name::Symbol(operator) = operator else { return false };
        let all = all_computed_names(self.context, self.view);
        let makers: Vec<&Location> = all
            .iter()
            .filter(|found| found.keyword && found.may_make(&sought.name))
            .map(|found| &found.place)
            .collect();
        if makers.is_empty() || PackageOwner::of(&operator.package).is_locked() {
            return false;
        }
        project.naming(&operator.name).into_iter().any(|FileVersion { path, write_date }| {
            let Ok(file) = self.positions(&path, write_date) else { return false };
            let definitions = file.occurrences(operator, &|_| false);
            definitions.iter().filter(|found| found.role == SyntaxRole::Definition).any(|found| {
                let Some(form) = file.form_range(found.form, 0) else { return false };
                let (Some(start), Some(end)) = (file.position(form.start), file.position(form.end)) else {
                    return false;
                };
                let mut here = makers.iter().filter(|maker| maker.file == project.shown(&path));
                here.any(|maker| maker.line.is_some_and(|line| (start.line..=end.line).contains(&line)))
            })
        })
    }
}
