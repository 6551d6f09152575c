//! Cautions about the uses that were found, a sentence each.

use std::collections::{BTreeMap, BTreeSet};

use super::UseSearch;
use crate::query::counted;
use crate::query::via::ExpansionOrigin;
use crate::source::positions::Evidence;

/// The most files of which a caution gives the names.
const SHOWN: usize = 5;

impl UseSearch<'_> {
    /// Lists the cautions, the most important first.
    pub(super) fn cautions(&self) -> Vec<String> {
        let certain = |evidence: Evidence| -> usize {
            self.lines.values().map(|line| line.columns(evidence).len()).sum()
        };
        let mut cautions = Vec::new();
        if self.seen.structures > 0 {
            cautions.push(
                "It names a structure: defstruct makes other names from it (constructor, predicate, copier, accessors), which are symbols of their own."
                    .to_owned(),
            );
        }
        if self.seen.of_structure {
            cautions.push(format!(
                "It names a slot of a structure in {}: the accessor's name is made from it.",
                counted(self.seen.slots, "place", "places")
            ));
        }
        if self.seen.locals > 0 {
            cautions.push(format!(
                "{} left out: a local variable or function has this name there.",
                counted(self.seen.locals, "occurrence is", "occurrences are")
            ));
        }
        if self.seen.designators > 0 {
            cautions.push(format!(
                "An uninterned symbol or keyword of this name stands in {} where names are made or looked up: code may mean it.",
                counted(self.seen.designators, "place", "places")
            ));
        }
        if self.uses.with_text()
            && self.seen.definitions + self.seen.structures == 0
            && !self.lines.is_empty()
            && self.of_project()
        {
            cautions.push(
                "No definition names it in the loaded files of this search: a macro makes the name, or it is defined elsewhere."
                    .to_owned(),
            );
        }
        cautions.extend(self.via_cautions());
        match certain(Evidence::Approximate) {
            0 => {}
            count => cautions
                .push(format!("{} approximate: look before you edit.", counted(count, "use is", "uses are"))),
        }
        if self.seen.replaced > 0 {
            cautions.push(format!(
                "{} by definitions that the image still holds, but that their files did not contain when they were last loaded.",
                counted(self.seen.replaced, "use is", "uses are")
            ));
        }
        if self.seen.other_readings > 0 {
            cautions.push(format!(
                "{} compiled when their file was read with other features: where they stand is not known.",
                counted(self.seen.other_readings, "use was", "uses were")
            ));
        }
        if !self.seen.left_out.is_empty() {
            let files: Vec<&str> = self.seen.left_out.iter().take(SHOWN).map(String::as_str).collect();
            let more = if self.seen.left_out.len() > SHOWN { ", …" } else { "" };
            cautions.push(format!(
                "It is also used in {} below the project's folder that no system of the project has: {}{more}. To list them, pass project_only=false.",
                counted(self.seen.left_out.len(), "loaded file", "loaded files"),
                files.join(", ")
            ));
        }
        if !self.seen.unreadable.is_empty() {
            let files: Vec<&str> = self.seen.unreadable.iter().map(String::as_str).collect();
            cautions.push(format!("Files that were loaded cannot be read: {}.", files.join(", ")));
        }
        if !self.seen.half_known.is_empty() {
            let files: Vec<&str> = self.seen.half_known.iter().map(String::as_str).collect();
            cautions.push(format!(
                "The record of what stands where is damaged or ends early, so that uses may be missing: load the system again with force. It is the record of {}.",
                files.join(", ")
            ));
        }
        cautions
    }

    /// Lists the cautions about uses that macros make.
    fn via_cautions(&self) -> Vec<String> {
        let mut standing: BTreeMap<&str, &str> = BTreeMap::new();
        let mut made: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        let (mut stand, mut parts, mut unknown) = (0_usize, 0_usize, 0_usize);
        for line in self.lines.values() {
            let exact = line.columns(Evidence::Exact);
            let via = line.found.iter().filter(|found| found.evidence == Evidence::Via);
            for found in via.filter(|found| !exact.contains(&found.column)) {
                let name = found.via.as_deref().unwrap_or_default();
                match &found.origin {
                    Some(ExpansionOrigin::Stands(place)) => {
                        stand += 1;
                        standing.insert(name, place);
                    }
                    Some(ExpansionOrigin::Made(from)) => {
                        parts += 1;
                        made.entry(name).or_default().extend(from.iter().map(String::as_str));
                    }
                    None => unknown += 1,
                }
            }
        }
        let mut cautions = Vec::new();
        if stand > 0 {
            let macros: Vec<String> =
                standing.iter().map(|(name, place)| format!("{name} ({place})")).collect();
            cautions.push(format!(
                "{} made by macros in whose definitions the symbol stands: they change with it there: {}.",
                counted(stand, "use is", "uses are"),
                macros.join(", ")
            ));
        }
        if parts > 0 {
            let macros: Vec<String> = made
                .iter()
                .map(|(name, from)| match from.is_empty() {
                    true => (*name).to_owned(),
                    false => {
                        let from: Vec<&str> = from.iter().copied().collect();
                        format!("{name} from {}", from.join(" and "))
                    }
                })
                .collect();
            cautions.push(format!(
                "{} made by macros from parts of names: the symbol stands in none of their definitions, and no rename changes them: {}.",
                counted(parts, "use is", "uses are"),
                macros.join(", ")
            ));
        }
        if unknown > 0 {
            cautions.push(format!(
                "{} made by macros: the symbol does not stand there; change the macro's template instead.",
                counted(unknown, "use is", "uses are")
            ));
        }
        cautions
    }
}
