//! What uses what: lines, callers and callees, tests, and what nothing uses.

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
pub(super) struct UseLine {
    pub(super) target: SymbolNumber,
    pub(super) file: u32,
    pub(super) line: u32,
    pub(super) facet: Facet,
    pub(super) what: UseType,
    /// The definition that it stands in.
    pub(super) by: Option<u32>,
    pub(super) access: PlaceAccess,
    pub(super) sure: bool,
    /// Whether a macro makes it: the symbol does not stand there.
    pub(super) made: bool,
    /// That macro, if it is the project's.
    pub(super) via: Option<SymbolNumber>,
}

impl UseLine {
    /// Whether it runs the symbol, or names it where code runs.
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

/// Who calls whom: functions and macros, by symbol.
#[derive(Debug, Default)]
pub(super) struct CallerGraph {
    callers: BTreeMap<SymbolNumber, BTreeSet<SymbolNumber>>,
    callees: BTreeMap<SymbolNumber, BTreeSet<SymbolNumber>>,
    /// What the expansions of macros use.
    made: BTreeMap<SymbolNumber, BTreeSet<SymbolNumber>>,
    /// The symbols that tests define.
    pub(super) tests: BTreeSet<SymbolNumber>,
}

impl CallerGraph {
    pub(super) fn of(model: &Model<'_>, uses: &[UseLine]) -> Self {
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
                graph.made.entry(by).or_default().insert(found.target);
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

    /// What the expansions of a macro use.
    pub(super) fn made_by(&self, symbol: SymbolNumber) -> impl Iterator<Item = SymbolNumber> + '_ {
        self.made.get(&symbol).into_iter().flatten().copied()
    }

    pub(super) fn callees(&self, symbol: SymbolNumber) -> impl Iterator<Item = SymbolNumber> + '_ {
        self.callees.get(&symbol).into_iter().flatten().copied()
    }

    /// The tests that reach a symbol by its `users` and their callers, nearest first, each with what it calls on the way;
    /// at most [`MOST_TESTS`].
    pub(super) fn tests_of(
        &self,
        symbol: SymbolNumber,
        users: impl Iterator<Item = SymbolNumber>,
    ) -> Vec<(SymbolNumber, SymbolNumber)> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::from([symbol]);
        let mut look = VecDeque::new();
        for user in users {
            if seen.insert(user) {
                found.extend(self.tests.contains(&user).then_some((user, symbol)));
                look.push_back(user);
            }
        }
        while let Some(at) = look.pop_front() {
            for caller in self.callers(at) {
                if seen.len() > MOST_LOOKED_AT || !seen.insert(caller) {
                    continue;
                }
                if self.tests.contains(&caller) {
                    found.push((caller, at));
                }
                look.push_back(caller);
            }
        }
        found.truncate(MOST_TESTS);
        found
    }
}

/// How many tests a page lists.
const MOST_TESTS: usize = 20;
/// How many callers are looked at for tests.
const MOST_LOOKED_AT: usize = 500;

impl Site<'_> {
    /// The uses of a slot of a class, by its name and by what reads and writes it, in order.
    pub(super) fn slot_uses(
        &self,
        class: SymbolNumber,
        slot: Option<SymbolNumber>,
        accessors: &BTreeSet<SymbolNumber>,
    ) -> Vec<&UseLine> {
        let own = slot.map(|slot| self.uses_of(slot)).unwrap_or_default().iter();
        let own =
            own.filter(|found| matches!(found.facet, Facet::Slot(of) if of.is_none_or(|of| of == class)));
        let mut all: Vec<&UseLine> =
            own.chain(accessors.iter().flat_map(|accessor| self.uses_of(*accessor))).collect();
        all.retain(|found| found.is_live() || matches!(found.facet, Facet::Slot(_)));
        all.sort_by_key(|found| (found.file, found.line));
        all
    }
}

/// What nothing uses, as `outline` judges it. It looks at what no line of the project uses; for what is exported that is
/// enough, as others may use it whatever else is found.
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
        let from_elsewhere = |found: &UseLine| {
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
                name: LispName::new(&context.index, canonical(&symbol.package, &symbol.name)),
                kind: definition.kind,
                place: Location::new(&*file.shown).at(definition.place),
                end: definition.lines.1,
                text: None,
                exported: true,
                uses: None,
                reached_by: vec![format!("exported from {}", symbol.package)],
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
