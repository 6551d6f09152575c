//! interface: lists the names that a file, package or system uses from the rest of the project, and
//! the names that the rest uses from it.
//!
//! It maps each name to the files that define it, then reads the occurrences of all loaded files of
//! the project. A use is counted if the use and the definition are on different sides of the
//! boundary.

pub(crate) mod tool;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use steelbank_reader::lines::LineIndex;
use steelbank_text::DefinitionKind;
use steelbank_xref::{Access, SymbolName};

use super::code_find_references::UseType;
use super::occurrences::{FileOccurrence, OccurrencesRequest};
use super::outline::{OutlineRequest, OutlineTarget, definitions_in};
use super::use_counts::UseLines;
use crate::actions::symbols::find_definition::ImageDefinitions;
use crate::answer::LispName;
use crate::answer::package_owner::PackageOwner;
use crate::engine::Control;
use crate::handle::{Error, QueryContext, Question};

/// A request for the names that cross the boundary of a file, folder, package or system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InterfaceRequest {
    /// The module on the inside of the boundary.
    pub of: OutlineTarget,
}

impl InterfaceRequest {
    /// Creates the request.
    pub fn new(of: OutlineTarget) -> Self {
        Self { of }
    }
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct InterfaceAnswer {
    /// Names that the module uses from outside, without standard names.
    pub uses: Vec<CrossingName>,
    /// Names of the module that are used from outside.
    pub used: Vec<CrossingName>,
    /// The number of definitions in the module.
    pub definitions: usize,
    /// Files that are not loaded or are stale. Their uses may be incomplete.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_loaded: Vec<String>,
}

/// A name that is defined on one side of the boundary and used on the other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct CrossingName {
    /// The name.
    pub name: LispName,
    /// Whether its home package exports it.
    pub exported: bool,
    /// The number of tokens that use it.
    pub count: usize,
    /// The files on the other side of the boundary that define or use the name. Files of other
    /// projects are omitted.
    pub files: Vec<String>,
}

type Crossing = BTreeMap<SymbolName, CrossingName>;

impl Question for InterfaceRequest {
    type Answer = InterfaceAnswer;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<InterfaceAnswer, Error> {
        let (index, project) = (&context.index, context.project);
        let package = self.of.package(index)?;
        let own: BTreeSet<String> = OutlineRequest::new(self.of.clone())
            .files(context)?
            .iter()
            .map(|path| project.shown(path))
            .collect();
        let use_lines = UseLines::new(context, control);
        let is_inside = |file: &str, line: u32| match &package {
            None => own.contains(file),
            Some(package) => {
                use_lines.form_at(file, line).and_then(|(_, found)| found).as_ref() == Some(package)
            }
        };
        let mut answer = InterfaceAnswer::default();
        let mut defined: BTreeMap<SymbolName, BTreeSet<String>> = BTreeMap::new();
        let files = project.loaded_project_files();
        for path in &files {
            control.check()?;
            let (known, loaded) = definitions_in(context, path)?;
            if !loaded {
                answer.not_loaded.push(project.shown(path));
            }
            for known in known {
                use DefinitionKind::{Field, Package, System};
                let is_name = !matches!(known.definition.kind, Package | System | Field);
                let Some(home) = known.home.clone().filter(|_| is_name && !known.names_standard()) else {
                    continue;
                };
                let is_its = match &package {
                    None => own.contains(&known.path),
                    Some(package) => home == *package,
                };
                answer.definitions += usize::from(is_its);
                let name = SymbolName::new(home, known.definition.name);
                defined.entry(name).or_default().insert(known.path);
            }
        }
        let (mut uses, mut used, mut unknown) = (Crossing::new(), Crossing::new(), BTreeSet::new());
        for path in &files {
            control.check()?;
            let asked =
                OccurrencesRequest { elsewhere: false, on_disk: true, ..OccurrencesRequest::new(path) };
            let Ok(found) = context.bank.ask(&asked, control) else { continue };
            let lines = LineIndex::new(found.text.as_bytes());
            for occurrence in found.occurrences.iter().filter(|occurrence| is_use(occurrence)) {
                let name = &*occurrence.symbol;
                if !defined.contains_key(name) {
                    // No definition in the text: a form generates the name, another project defines
                    // it, or the name is only data.
                    let files = generated_in(context, name, control)?;
                    unknown.extend(files.is_none().then(|| name.clone()));
                    defined.insert(name.clone(), files.unwrap_or_default());
                }
                if unknown.contains(name) {
                    continue;
                }
                let files = defined.get(name).cloned().unwrap_or_default();
                let is_its = match &package {
                    None => files.iter().any(|file| own.contains(file)),
                    Some(package) => name.package == *package,
                };
                let (side, files) = match (is_inside(&found.path, lines.line(occurrence.range.start)), is_its)
                {
                    (true, false) => (&mut uses, files),
                    (false, true) => (&mut used, BTreeSet::from([found.path.clone()])),
                    _ => continue,
                };
                let entry = side.entry(name.clone()).or_default();
                entry.count += 1;
                entry.files.extend(files);
            }
        }
        let finished = |crossing: Crossing| {
            let names = crossing.into_iter().filter_map(|(name, mut entry)| {
                let symbol = index.named(&name)?;
                let home = index.symbol_package(symbol);
                entry.name = LispName::new(index, index.symbol_text(symbol));
                entry.exported = home
                    .and_then(|home| index.find_symbol(&name.name, home))
                    .is_some_and(|(_, access)| access == Access::External);
                entry.files.sort();
                entry.files.dedup();
                Some(entry)
            });
            names.collect::<Vec<_>>()
        };
        (answer.uses, answer.used) = (finished(uses), finished(used));
        Ok(answer)
    }
}

/// Whether the occurrence uses a global name of a user package. Exports, imports, declarations,
/// block names and slot names do not count.
fn is_use(occurrence: &FileOccurrence) -> bool {
    use UseType::{Block, Declaration, Export, Import, Slot};
    occurrence.use_type.is_some_and(|found| !matches!(found, Export | Import | Declaration | Block | Slot))
        && occurrence.binding.is_none()
        && PackageOwner::of(&occurrence.symbol.package) == PackageOwner::User
}

/// Lists the project's files with forms that generate the definition of a name. Returns `None` if
/// nothing defines the name, so that it is data.
fn generated_in(
    context: &QueryContext<'_>,
    name: &SymbolName,
    control: &Control,
) -> Result<Option<BTreeSet<String>>, Error> {
    let image = ImageDefinitions::ask(context, name, control)?;
    let sources = image.definitions.iter().flat_map(|found| &found.sources);
    let own = sources.map(|source| Path::new(&source.file)).filter(|path| context.project.contains(path));
    let files = own.map(|path| context.project.shown(path)).collect();
    Ok((!image.definitions.is_empty()).then_some(files))
}
