//! code-find-references: where a symbol is used, line by line, and how sure each place is.
//!
//! What the compiler recorded says what is done and by whom; the text says where. What the compiler does not record
//! (types, classes, quoted symbols, macro templates, package definitions) comes from the text as SBCL's reader saw it.

mod answer;

pub use answer::{Answer, Certainty, Error, Reference, Request, UseType};

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::lookup::{Lookup, LookupStatus};
use super::project::Project;
use super::uses::{PlacedUse, RecordedUse, SymbolUses};
use crate::source::positions::{Evidence, Occurrence, Place, PositionedFile};
use crate::source::sbcl::{SbclSources, SourceFile};
use crate::source::sidecar_roles::Role as TextRole;
use crate::xref::{Index, Kind};

/// Finds the uses of a symbol.
///
/// # Errors
/// When the symbol or package does not exist, or there is no project to limit the answer to.
pub fn code_find_references(
    index: &Index,
    project: &Project,
    sbcl: &SbclSources,
    request: &Request,
) -> Result<Answer, Error> {
    let lookup = Lookup::new(index, &request.symbol, &request.package)?;
    let symbol = match lookup.found {
        Ok((symbol, _)) => symbol,
        Err(LookupStatus::NoPackage) => return Err(Error::NoPackage { package: lookup.asked.package }),
        Err(_) => {
            return Err(Error::NoSymbol { name: lookup.asked.name, package: lookup.asked.package });
        }
    };
    if request.project_only && project.root().is_none() {
        return Err(Error::NoProject);
    }
    let uses = SymbolUses::new(index, symbol, lookup.of);
    let wanted = |path: &Path| !request.project_only || project.contains(path);
    let mut recorded = uses.recorded(|path, _| wanted(path));
    // Files whose text names the symbol without any record.
    if uses.with_text() {
        for (path, date) in project.naming(&uses.sought().name) {
            if wanted(&path) {
                recorded.entry((path, date)).or_default();
            }
        }
    }
    let is_macro = recorded.values().flatten().any(|found| found.kind == Kind::Macroexpands);
    let mut search =
        Search { project, sbcl, uses: &uses, is_macro, seen: Seen::default(), lines: BTreeMap::new() };
    for ((path, date), records) in recorded {
        search.file(&path, date, records);
    }
    Ok(search.finish(request))
}

/// One use on one line, before they are merged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    certainty: Certainty,
    column: u32,
    use_type: UseType,
    caller: Option<String>,
    via: Option<String>,
}

#[derive(Default)]
struct Line {
    found: BTreeSet<Found>,
    context: Option<String>,
    stale: bool,
}

/// What the text shows besides the entries.
#[derive(Default)]
struct Seen {
    definitions: usize,
    structures: usize,
    slots: usize,
    locals: usize,
    designators: usize,
}

impl Seen {
    fn note(&mut self, occurrence: &Occurrence) {
        match occurrence.role {
            TextRole::Definition => self.definitions += 1,
            TextRole::Structure => self.structures += 1,
            TextRole::Slot => self.slots += 1,
            _ if occurrence.local => self.locals += 1,
            _ => {}
        }
    }
}

struct Search<'a> {
    project: &'a Project,
    sbcl: &'a SbclSources,
    uses: &'a SymbolUses<'a>,
    is_macro: bool,
    seen: Seen,
    lines: BTreeMap<(String, Option<u32>), Line>,
}

impl Search<'_> {
    fn file(&mut self, path: &Path, date: u64, records: Vec<RecordedUse>) {
        if let Some(logical) = path.to_str().filter(|path| path.starts_with("SYS:")) {
            return self.sbcl_file(logical, &records);
        }
        let shown = self.project.shown(path);
        let Ok(file) = self.project.positions(path, date) else {
            for record in &records {
                self.unknown(&shown, record);
            }
            return;
        };
        if self.uses.with_text() {
            self.seen.designators +=
                file.unexplained_designators(self.uses.sought(), &|package| self.uses.means(package));
        }
        let occurrences = self.uses.occurrences(&file);
        let mut claimed = BTreeSet::new();
        for placed in self.uses.place(&file, &occurrences, records) {
            self.placed(&shown, &file, &placed, &mut claimed);
        }
        for occurrence in &occurrences {
            self.seen.note(occurrence);
            if !claimed.contains(&(occurrence.place.line, occurrence.place.column))
                && let Some(use_type) = unrecorded(occurrence, self.is_macro)
            {
                let certainty = if file.is_fresh() { Certainty::Exact } else { Certainty::Approximate };
                self.add(&shown, &file, occurrence.place, certainty, use_type, None, None);
            }
        }
    }

    /// A file of SBCL itself, of which only the top-level forms' places are known.
    fn sbcl_file(&mut self, logical: &str, records: &[RecordedUse]) {
        let source = self.sbcl.native(logical).and_then(|path| SourceFile::read(&path));
        for record in records {
            let place = source.as_ref().and_then(|source| {
                let form = source.form_after(record.octets?.into())?;
                let (line, column) = (u32::try_from(form.line).ok()?, u32::try_from(form.column).ok()?);
                Some((line, column, source.line_text(form.line)))
            });
            let Some((line, column, context)) = place else {
                self.unknown(logical, record);
                continue;
            };
            let line = self.lines.entry((logical.to_owned(), Some(line))).or_default();
            line.context.get_or_insert(context);
            line.found.insert(Found {
                certainty: Certainty::Approximate,
                column,
                use_type: use_type(record.kind),
                caller: record.caller.clone(),
                via: None,
            });
        }
    }

    /// Adds a recorded use where it stands.
    fn placed(
        &mut self,
        shown: &str,
        file: &PositionedFile,
        placed: &PlacedUse,
        claimed: &mut BTreeSet<(u32, u32)>,
    ) {
        let recorded = &placed.recorded;
        if placed.placements.is_empty() {
            return self.unknown(shown, recorded);
        }
        for placement in &placed.placements {
            let (certainty, via) = certainty(&placement.evidence);
            if certainty == Certainty::Exact {
                claimed.insert((placement.place.line, placement.place.column));
            }
            let use_type = use_type(recorded.kind);
            self.add(shown, file, placement.place, certainty, use_type, recorded.caller.clone(), via);
        }
    }

    /// Adds a use whose line is not known.
    fn unknown(&mut self, shown: &str, recorded: &RecordedUse) {
        let line = self.lines.entry((shown.to_owned(), None)).or_default();
        line.found.insert(Found {
            certainty: Certainty::Approximate,
            column: 0,
            use_type: use_type(recorded.kind),
            caller: recorded.caller.clone(),
            via: None,
        });
    }

    #[allow(clippy::too_many_arguments)]
    fn add(
        &mut self,
        shown: &str,
        file: &PositionedFile,
        place: Place,
        certainty: Certainty,
        use_type: UseType,
        caller: Option<String>,
        via: Option<String>,
    ) {
        let line = self.lines.entry((shown.to_owned(), Some(place.line))).or_default();
        line.stale = !file.is_fresh();
        line.context.get_or_insert_with(|| file.line_text(place.line).trim().to_owned());
        line.found.insert(Found { certainty, column: place.column, use_type, caller, via });
    }

    /// Whether the symbol is none of SBCL's own.
    fn of_project(&self) -> bool {
        let package = self.uses.sought().package.as_str();
        !package.starts_with("SB-") && !matches!(package, "COMMON-LISP" | "KEYWORD" | "")
    }

    fn cautions(&self) -> Vec<String> {
        let certain = |certainty: Certainty| {
            self.lines
                .values()
                .filter(|line| line.found.iter().next().is_some_and(|found| found.certainty == certainty))
                .count()
        };
        let mut cautions = Vec::new();
        if self.seen.structures > 0 {
            cautions.push(
                "It names a structure: defstruct makes other names from it (constructor, predicate, copier, accessors), which are symbols of their own."
                    .to_owned(),
            );
        }
        if self.seen.slots > 0 {
            cautions.push(format!(
                "It names a slot in {} places; in a structure, the accessor's name is made from it.",
                self.seen.slots
            ));
        }
        if self.seen.locals > 0 {
            cautions.push(format!(
                "{} occurrences are left out: where they stand, a local variable or function has this name.",
                self.seen.locals
            ));
        }
        if self.seen.designators > 0 {
            cautions.push(format!(
                "An uninterned symbol of this name stands in {} places outside package definitions: code that makes names may mean it.",
                self.seen.designators
            ));
        }
        if self.seen.definitions + self.seen.structures == 0 && !self.lines.is_empty() && self.of_project() {
            cautions.push(
                "No definition names it in the loaded files of this search: a macro makes the name, or it is defined elsewhere."
                    .to_owned(),
            );
        }
        match certain(Certainty::Via) {
            0 => {}
            count => cautions.push(format!(
                "{count} entries are uses made by macros: the symbol does not stand there; change the macro's template instead."
            )),
        }
        match certain(Certainty::Approximate) {
            0 => {}
            count => cautions.push(format!("{count} entries are approximate: look before you edit.")),
        }
        cautions
    }

    /// Where a local variable has the same name elsewhere, a template or a use of a variable may mean that one.
    fn doubt(&mut self) {
        if self.seen.locals == 0 {
            return;
        }
        let doubtful = |found: &Found| {
            found.certainty == Certainty::Exact
                && matches!(
                    found.use_type,
                    UseType::Template
                        | UseType::Quoted
                        | UseType::Bind
                        | UseType::Reference
                        | UseType::Set
                        | UseType::Mention
                )
        };
        for line in self.lines.values_mut() {
            line.found = std::mem::take(&mut line.found)
                .into_iter()
                .map(|found| match doubtful(&found) {
                    true => Found { certainty: Certainty::Approximate, ..found },
                    false => found,
                })
                .collect();
        }
    }

    fn finish(mut self, request: &Request) -> Answer {
        self.doubt();
        let total = self.lines.len();
        let stale: BTreeSet<String> =
            self.lines.iter().filter(|(_, line)| line.stale).map(|((path, _), _)| path.clone()).collect();
        let cautions = self.cautions();
        let refs: Vec<Reference> = self
            .lines
            .into_iter()
            .skip(request.offset)
            .take(request.limit)
            .filter_map(|((path, line), entry)| entry.reference(path, line))
            .collect();
        Answer {
            symbol: self.uses.text(),
            count: refs.len(),
            truncated: request.offset + refs.len() < total,
            total,
            refs,
            loading: false,
            cautions,
            stale: stale.into_iter().collect(),
        }
    }
}

impl Line {
    /// The entry for this line: what is surest, leftmost and most telling comes first.
    fn reference(self, path: String, line: Option<u32>) -> Option<Reference> {
        let columns: BTreeSet<u32> = self
            .found
            .iter()
            .filter(|found| found.certainty == Certainty::Exact)
            .map(|found| found.column)
            .collect();
        let caller = self.found.iter().find_map(|found| found.caller.clone());
        let first = self.found.into_iter().next()?;
        Some(Reference {
            path,
            line,
            column: line.map(|_| first.column),
            columns: columns.into_iter().collect(),
            use_type: first.use_type,
            context: self.context,
            caller: first.caller.or(caller),
            evidence: first.certainty,
            via: first.via,
            stale: self.stale,
        })
    }
}

/// Evidence as answers give it, with the operator for what a macro makes.
pub(super) fn certainty(evidence: &Evidence) -> (Certainty, Option<String>) {
    match evidence {
        Evidence::Exact => (Certainty::Exact, None),
        Evidence::Approximate => (Certainty::Approximate, None),
        Evidence::Via(operator) => (Certainty::Via, Some(operator.clone())),
    }
}

fn use_type(kind: Kind) -> UseType {
    match kind {
        Kind::Calls => UseType::Call,
        Kind::Macroexpands => UseType::Macro,
        Kind::Binds => UseType::Bind,
        Kind::References => UseType::Reference,
        Kind::Sets => UseType::Set,
        Kind::Specializes => UseType::Specialize,
    }
}

/// What an occurrence without a record of the compiler's is; None for definitions and for local variables and
/// functions of the same name.
fn unrecorded(occurrence: &Occurrence, is_macro: bool) -> Option<UseType> {
    match occurrence.role {
        TextRole::Definition | TextRole::Structure | TextRole::LoopKeyword => None,
        TextRole::Export => Some(UseType::Export),
        TextRole::Import => Some(UseType::Import),
        TextRole::Class => Some(UseType::Class),
        TextRole::Type => Some(UseType::Type),
        TextRole::Slot => Some(UseType::Slot),
        TextRole::Quoted => Some(UseType::Quoted),
        TextRole::Function if occurrence.local => None,
        TextRole::Function => Some(UseType::Function),
        TextRole::Declaration if occurrence.local => None,
        TextRole::Declaration => Some(UseType::Declaration),
        TextRole::Block => Some(UseType::Block),
        TextRole::Template => Some(UseType::Template),
        TextRole::ReadTime => Some(UseType::ReadTime),
        TextRole::Binding if occurrence.local => None,
        TextRole::Binding => Some(UseType::Bind),
        TextRole::Operator | TextRole::Argument if occurrence.local => None,
        TextRole::Operator if is_macro => Some(UseType::Macro),
        TextRole::Operator => Some(UseType::Call),
        TextRole::Argument => Some(UseType::Mention),
    }
}
