//! The uses of symbols: the lines that use each, callers and callees, the tests that reach a
//! symbol, and unused definitions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::Site;
use crate::actions::uses::code_find_references::UseType;
use crate::actions::uses::outline::{OutlineAnswer, OutlineRequest, OutlineTarget, Outlined};
use crate::answer::name::canonical;
use crate::answer::{LispName, Location};
use crate::engine::control::Control;
use crate::export::ExportError;
use crate::export::model::{Facet, Model, SymbolNumber};
use crate::handle::Question;
use crate::handle::context::QueryContext;
use crate::source::positions::PlaceAccess;
use steelbank_text::DefinitionKind;

/// A line that uses a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SiteUse {
    pub(super) target: SymbolNumber,
    pub(super) file: u32,
    pub(super) line: u32,
    pub(super) facet: Facet,
    pub(super) what: UseType,
    /// The definition that contains the line.
    pub(super) by: Option<u32>,
    pub(super) access: PlaceAccess,
    pub(super) sure: bool,
    /// Whether a macro generates the use, so that the symbol does not occur in the line.
    pub(super) generated: bool,
    /// The symbol of the macro that generates the use, if the model contains it.
    pub(super) via: Option<SymbolNumber>,
}

impl SiteUse {
    /// Returns whether code uses the symbol here. Exports, imports, declarations, block names,
    /// quoted data and slot names do not count.
    pub(super) fn is_live(&self) -> bool {
        !matches!(
            self.what,
            UseType::Export
                | UseType::Import
                | UseType::Declaration
                | UseType::Block
                | UseType::Quoted
                | UseType::Slot
        )
    }
}

/// The call graph of functions and macros, by symbol.
#[derive(Debug, Default)]
pub(super) struct CallerGraph {
    callers: BTreeMap<SymbolNumber, BTreeSet<SymbolNumber>>,
    callees: BTreeMap<SymbolNumber, BTreeSet<SymbolNumber>>,
    /// For each macro, the symbols that its expansions use.
    used_by_expansions: BTreeMap<SymbolNumber, BTreeSet<SymbolNumber>>,
    /// The symbols that test files or other tests define, except packages and types.
    pub(super) tests: BTreeSet<SymbolNumber>,
}

impl CallerGraph {
    pub(super) fn of(model: &Model<'_>, uses: &[SiteUse]) -> Self {
        let mut graph = Self::default();
        for definition in &model.definitions {
            let in_test =
                model.files[definition.file as usize].is_test || definition.kind == DefinitionKind::Test;
            if in_test && !matches!(definition.entity.facet, Facet::Package | Facet::Type) {
                graph.tests.insert(definition.entity.symbol);
            }
        }
        for found in uses {
            let template = found.by.filter(|_| found.what == UseType::Template);
            let template = template.map(|by| model.definitions[by as usize].entity.symbol);
            if let Some(by) = found.via.or(template) {
                graph.used_by_expansions.entry(by).or_default().insert(found.target);
            }
        }
        let runs = |facet| matches!(facet, Facet::Function | Facet::Setf | Facet::Macro);
        for found in uses.iter().filter(|found| found.is_live() && runs(found.facet)) {
            let Some(by) = found.by else { continue };
            let caller = model.definitions[by as usize].entity;
            if caller.symbol != found.target && caller.facet != Facet::Package {
                graph.callers.entry(found.target).or_default().insert(caller.symbol);
                graph.callees.entry(caller.symbol).or_default().insert(found.target);
            }
        }
        graph
    }

    pub(super) fn callers(&self, symbol: SymbolNumber) -> impl Iterator<Item = SymbolNumber> + '_ {
        self.callers.get(&symbol).into_iter().flatten().copied()
    }

    /// Returns the symbols that a macro's expansions use.
    pub(super) fn used_by_expansions(&self, symbol: SymbolNumber) -> impl Iterator<Item = SymbolNumber> + '_ {
        self.used_by_expansions.get(&symbol).into_iter().flatten().copied()
    }

    pub(super) fn callees(&self, symbol: SymbolNumber) -> impl Iterator<Item = SymbolNumber> + '_ {
        self.callees.get(&symbol).into_iter().flatten().copied()
    }

    /// Returns the tests that reach a symbol through its `users` and their callers, nearest first,
    /// at most [`MAX_TESTS`]. Each test is paired with the symbol that it uses on the way.
    pub(super) fn tests_of(
        &self,
        symbol: SymbolNumber,
        users: impl Iterator<Item = SymbolNumber>,
    ) -> Vec<(SymbolNumber, SymbolNumber)> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::from([symbol]);
        let mut queue = VecDeque::new();
        for user in users {
            if seen.insert(user) {
                found.extend(self.tests.contains(&user).then_some((user, symbol)));
                queue.push_back(user);
            }
        }
        while let Some(at) = queue.pop_front() {
            for caller in self.callers(at) {
                if seen.len() > MAX_VISITED || !seen.insert(caller) {
                    continue;
                }
                if self.tests.contains(&caller) {
                    found.push((caller, at));
                }
                queue.push_back(caller);
            }
        }
        found.truncate(MAX_TESTS);
        found
    }
}

/// The maximum number of tests that a page lists.
const MAX_TESTS: usize = 20;
/// The maximum number of callers that the search for tests visits.
const MAX_VISITED: usize = 500;

impl Site<'_> {
    /// Returns the uses of a slot of a class, by its name and through its accessors, in order.
    pub(super) fn slot_uses(
        &self,
        class: SymbolNumber,
        slot: Option<SymbolNumber>,
        accessors: &BTreeSet<SymbolNumber>,
    ) -> Vec<&SiteUse> {
        let own = slot.map(|slot| self.uses_of(slot)).unwrap_or_default().iter();
        let own =
            own.filter(|found| matches!(found.facet, Facet::Slot(of) if of.is_none_or(|of| of == class)));
        let mut all: Vec<&SiteUse> =
            own.chain(accessors.iter().flat_map(|accessor| self.uses_of(*accessor))).collect();
        all.retain(|found| found.is_live() || matches!(found.facet, Facet::Slot(_)));
        all.sort_by_key(|found| (found.file, found.line));
        all
    }
}

/// Returns the unused definitions of systems outside of test files. `outline` checks those that no
/// code outside of tests certainly uses. Exported functions, macros, variables and types, except
/// structures, are listed without this check, because code outside the project may use them.
pub(super) fn unused(
    site: &Site<'_>,
    context: &QueryContext<'_>,
    control: &Control,
) -> Result<OutlineAnswer, ExportError> {
    let model = &site.model;
    let mut candidates: BTreeMap<u32, BTreeSet<(String, u32)>> = BTreeMap::new();
    let mut all = OutlineAnswer::default();
    for (number, definition) in (0..).zip(&model.definitions) {
        let file = &model.files[definition.file as usize];
        let symbol = &model.symbols[definition.entity.symbol as usize];
        let from_elsewhere = |found: &SiteUse| {
            let in_tests = model.files[found.file as usize].is_test && !file.is_test;
            found.is_live() && found.sure && found.by != Some(number) && !in_tests
        };
        let Some(system) = file.system.filter(|_| !file.is_test) else { continue };
        if site.uses_of(definition.entity.symbol).iter().any(from_elsewhere) {
            continue;
        }
        let plain =
            matches!(definition.entity.facet, Facet::Function | Facet::Macro | Facet::Variable | Facet::Type);
        let known = plain && definition.kind != DefinitionKind::Struct && !definition.declaration;
        if known && symbol.facts.exported {
            all.definitions.push(Outlined {
                name: LispName::new(&context.index, canonical(&symbol.name.package, &symbol.name.name)),
                kind: definition.kind,
                place: Location::new(&*file.shown).at(definition.place),
                end: definition.lines.1,
                text: None,
                exported: true,
                uses: None,
                reached_by: vec![format!("exported from {}", symbol.name.package)],
                also_in: None,
            });
        } else {
            let place = (file.shown.clone(), definition.place.line);
            candidates.entry(system).or_default().insert(place);
        }
    }
    for (system, only) in candidates {
        let target = OutlineTarget::System(model.systems[system as usize].name.clone());
        let request = OutlineRequest { unused: true, only: Some(only), ..OutlineRequest::new(target) };
        all.definitions.extend(request.answer(context, control)?.definitions);
    }
    all.definitions.sort_by_key(|found| (found.reached_by.len(), found.place.clone()));
    all.definitions.dedup();
    Ok(all)
}
