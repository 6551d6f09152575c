//! Cautions about the uses that were found.

use std::collections::{BTreeMap, BTreeSet};

use super::UseSearch;
use crate::actions::uses::via::ExpansionOrigin;
use crate::answer::location::columns;
use crate::answer::{Caution, Location};
use crate::source::positions::Evidence;

impl UseSearch<'_> {
    /// Lists the cautions, the most important first.
    pub(super) fn cautions(&self) -> Vec<Caution> {
        let seen = &self.seen;
        let mut cautions = Vec::new();
        if seen.structures > 0 {
            cautions.push(Caution::NamesStructure);
        }
        if seen.of_structure {
            cautions.push(Caution::NamesStructureSlot(seen.slots));
        }
        if seen.locals > 0 {
            cautions.push(Caution::LocalsOmitted(seen.locals));
        }
        if seen.loop_words > 0 {
            cautions.push(Caution::LoopKeywordsOmitted(seen.loop_words));
        }
        if seen.designators > 0 {
            cautions.push(Caution::Designators(seen.designators));
        }
        if self.uses.with_text()
            && seen.definitions + seen.structures == 0
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
        if seen.replaced > 0 {
            cautions.push(Caution::Replaced(seen.replaced));
        }
        if seen.without_file > 0 && self.of_project() {
            cautions.push(Caution::WithoutFile(seen.without_file));
        }
        if seen.other_readings > 0 {
            cautions.push(Caution::OtherFeatures(seen.other_readings));
        }
        let list = |files: &BTreeSet<String>| files.iter().cloned().collect();
        if !seen.left_out.is_empty() {
            cautions.push(Caution::UsedOutsideSystems(list(&seen.left_out)));
        }
        if !seen.unreadable.is_empty() {
            cautions.push(Caution::LoadedUnreadable(list(&seen.unreadable)));
        }
        if !seen.half_known.is_empty() {
            cautions.push(Caution::PositionsIncomplete(list(&seen.half_known)));
        }
        cautions
    }

    /// Lists the cautions about uses that macros make.
    fn via_cautions(&self) -> Vec<Caution> {
        let mut standing: BTreeMap<&str, &Location> = BTreeMap::new();
        let mut made: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let (mut stand, mut parts, mut unknown) = (0_usize, 0_usize, 0_usize);
        for line in self.lines.values() {
            let exact = columns(&line.tokens(Evidence::Exact));
            let via = line.found.iter().filter(|found| found.evidence == Evidence::Via);
            for found in via.filter(|found| !exact.iter().eq(found.place.column.as_ref())) {
                let name = found.via.as_deref().unwrap_or_default();
                match &found.origin {
                    Some(ExpansionOrigin::InTemplate(place)) => {
                        stand += 1;
                        standing.insert(name, place);
                    }
                    Some(ExpansionOrigin::Synthesized(from)) => {
                        parts += 1;
                        made.entry(name).or_default().extend(from.iter().map(String::as_str));
                    }
                    Some(ExpansionOrigin::Standard) => (),
                    None => unknown += 1,
                }
            }
        }
        let mut cautions = Vec::new();
        if stand > 0 {
            let macros = standing.iter().map(|(name, place)| format!("{name} ({place})"));
            cautions.push(Caution::UsesFromTemplates { uses: stand, macros: macros.collect() });
        }
        if parts > 0 {
            let macros = made.into_iter().map(|(name, from)| match from.is_empty() {
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
