//! Derives the cautions of code-find-references from the counts of a search.

use std::collections::{BTreeMap, BTreeSet};

use super::UseSearch;
use crate::actions::uses::via::ExpansionOrigin;
use crate::answer::location::columns;
use crate::answer::{Caution, Location};
use crate::source::positions::Evidence;

impl UseSearch<'_> {
    /// Lists the cautions, in a fixed order.
    pub(super) fn cautions(&self) -> Vec<Caution> {
        let counts = &self.counts;
        let mut cautions = Vec::new();
        if counts.structures > 0 {
            cautions.push(Caution::NamesStructure);
        }
        if counts.of_structure {
            cautions.push(Caution::NamesStructureSlot(counts.slots));
        }
        if counts.locals > 0 {
            cautions.push(Caution::LocalsOmitted(counts.locals));
        }
        if counts.loop_words > 0 {
            cautions.push(Caution::LoopKeywordsOmitted(counts.loop_words));
        }
        if counts.designators > 0 {
            cautions.push(Caution::Designators(counts.designators));
        }
        if self.uses.with_text()
            && counts.definitions + counts.structures == 0
            && !self.lines.is_empty()
            && self.of_project()
        {
            cautions.push(Caution::NoDefinition);
        }
        cautions.extend(self.via_cautions());
        let approximate: usize =
            self.lines.values().map(|line| line.tokens(Evidence::Approximate).len()).sum();
        if approximate > 0 {
            cautions.push(Caution::Approximate(approximate));
        }
        if counts.replaced > 0 {
            cautions.push(Caution::Replaced(counts.replaced));
        }
        if counts.without_file > 0 && self.of_project() {
            cautions.push(Caution::WithoutFile(counts.without_file));
        }
        if counts.other_readings > 0 {
            cautions.push(Caution::OtherFeatures(counts.other_readings));
        }
        let list = |files: &BTreeSet<String>| files.iter().cloned().collect();
        if !counts.left_out.is_empty() {
            cautions.push(Caution::UsedOutsideSystems(list(&counts.left_out)));
        }
        if !counts.unreadable.is_empty() {
            cautions.push(Caution::LoadedUnreadable(list(&counts.unreadable)));
        }
        if !counts.incomplete.is_empty() {
            cautions.push(Caution::PositionsIncomplete(list(&counts.incomplete)));
        }
        cautions
    }

    /// Lists the cautions about uses that macros generate.
    fn via_cautions(&self) -> Vec<Caution> {
        let mut templates: BTreeMap<&str, &Location> = BTreeMap::new();
        let mut name_parts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let (mut in_templates, mut parts, mut unknown) = (0_usize, 0_usize, 0_usize);
        for line in self.lines.values() {
            let exact = columns(&line.tokens(Evidence::Exact));
            let via = line.found.iter().filter(|found| found.evidence == Evidence::Via);
            for found in via.filter(|found| !exact.iter().eq(found.place.column.as_ref())) {
                let name = found.via.as_deref().unwrap_or_default();
                match &found.origin {
                    Some(ExpansionOrigin::InTemplate(place)) => {
                        in_templates += 1;
                        templates.insert(name, place);
                    }
                    Some(ExpansionOrigin::Synthesized(from)) => {
                        parts += 1;
                        name_parts.entry(name).or_default().extend(from.iter().map(String::as_str));
                    }
                    Some(ExpansionOrigin::Standard) => (),
                    None => unknown += 1,
                }
            }
        }
        let mut cautions = Vec::new();
        if in_templates > 0 {
            let macros = templates.iter().map(|(name, place)| format!("{name} ({place})"));
            cautions.push(Caution::UsesFromTemplates { uses: in_templates, macros: macros.collect() });
        }
        if parts > 0 {
            let macros = name_parts.into_iter().map(|(name, from)| match from.is_empty() {
                true => name.to_owned(),
                false => format!("{name} from {}", from.into_iter().collect::<Vec<_>>().join(" and ")),
            });
            cautions.push(Caution::UsesFromNameParts { uses: parts, macros: macros.collect() });
        }
        if unknown > 0 {
            cautions.push(Caution::UsesByMacros(unknown));
        }
        cautions
    }
}
