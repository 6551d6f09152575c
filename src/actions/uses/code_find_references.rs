//! code-find-references: where a symbol is used, line by line, and how sure each place is.
//!
//! The compiler's records tell what a use does and in which function; the text tells on which line. Uses that
//! the compiler does not record (types, classes, quoted symbols, macro templates, package definitions) come
//! from the text as SBCL's reader saw it.

mod text;
pub(crate) mod tool;

mod answer;
mod cautions;

pub use answer::{CodeFindReferencesAnswer, CodeFindReferencesRequest, CodeReference, UseInLine, UseType};

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::enclosing::Enclosing;
use super::symbol_uses::{PlacedUse, RecordedUse, SymbolUses};
use super::unseen::{
    SoughtSymbol, TextDefined, TextState, TextUse, TextUses, text_counts, text_definitions, text_uses,
};
use super::via::{ExpansionOrigin, Origins};
use super::who::{CalledName, Position};
use crate::answer::designator::Designator;
use crate::answer::location::columns;
use crate::answer::lookup::{Asked, Lookup};
use crate::answer::package_owner::PackageOwner;
use crate::answer::{Advice, Caution, LispName, Location, NotFound, some_of};
use crate::engine::control::Control;
use crate::handle::Error;
use crate::handle::context::QueryContext;
use crate::handle::question::Question;
use crate::source::positions::{
    Evidence, Occurrence, PlaceAccess, Placement, PositionedFile, SidecarState, SyntacticContext,
};
use crate::source::sbcl::{SbclSources, SourceFile};
use crate::source::tap::operators::Defined;
use crate::source::tap::roles::SyntaxRole;
use crate::workspace::{FileVersion, Now, Project};
use steelbank_reader::Range;
use steelbank_xref::{Index, Kind, Package, Symbol};

impl Question for CodeFindReferencesRequest {
    type Answer = CodeFindReferencesAnswer;

    fn answer(
        &self,
        context: &QueryContext<'_>,
        control: &Control,
    ) -> Result<CodeFindReferencesAnswer, Error> {
        control.check()?;
        searched(context, self, |search, index, looked_up_in| {
            let (mut answer, vendored) = search.answered(self, index, looked_up_in);
            answer.cautions.extend(vendored.filter(|_| !self.written));
            answer.loading = context.project.is_loading();
            answer
        })
    }
}

/// Finds the uses of a symbol, for another answer: without the caution about vendored files.
///
/// # Errors
/// When the symbol or package does not exist, or there is no project to limit the answer to.
pub(crate) fn code_find_references(
    context: &QueryContext<'_>,
    request: &CodeFindReferencesRequest,
) -> Result<CodeFindReferencesAnswer, Error> {
    searched(context, request, |search, index, looked_up_in| search.answered(request, index, looked_up_in).0)
}

/// One use of a symbol, with its line.
pub(crate) struct SingleUse {
    pub(crate) found: UseOnLine,
    /// The text of the line, if it can be read.
    pub(crate) line: Option<Arc<str>>,
    /// Whether the file has changed since it was loaded.
    stale: bool,
}

impl SingleUse {
    /// Returns the place of the use and how sure it is.
    pub(crate) fn position(&self) -> Position {
        let UseOnLine { evidence, place, via, .. } = &self.found;
        Position { place: place.clone(), evidence: *evidence, via: via.clone(), stale: self.stale }
    }
}

/// Lists the uses of a symbol in loaded text one by one.
///
/// # Errors
/// As of [`code_find_references`].
pub(crate) fn single_uses(
    context: &QueryContext<'_>,
    request: &CodeFindReferencesRequest,
) -> Result<Vec<SingleUse>, Error> {
    searched(context, request, |search, _, _| search.single_uses())
}

/// Lists the uses of a symbol in loaded text one by one, those in SBCL's own sources left out.
pub(crate) fn uses_of_symbol(context: &QueryContext<'_>, uses: &SymbolUses<'_>, now: &Now) -> Vec<SingleUse> {
    search(context, uses, now, |path| !path.as_os_str().as_encoded_bytes().starts_with(b"SYS:")).single_uses()
}

fn searched<R>(
    context: &QueryContext<'_>,
    request: &CodeFindReferencesRequest,
    then: impl FnOnce(UseSearch<'_>, &Index, Option<String>) -> R,
) -> Result<R, Error> {
    let context = context.with_sidecar_symbols(&request.symbol, request.package.as_deref());
    let QueryContext { index, project, .. } = &*context;
    let lookup = Lookup::resolved(index, &request.symbol, request.package.as_deref())?;
    let symbol = found(index, project, &lookup)?;
    if request.project_only {
        let advised = |error| Error::of_request(error, Some(Advice::SetProjectOrSearchAll));
        project.own_root().map_err(advised)?;
    }
    let uses = SymbolUses::new(index, symbol, lookup.function_name);
    let now = project.now();
    let search = search(&context, &uses, &now, |path| !request.project_only || now.contains(path));
    Ok(then(search, index, lookup.looked_up_in))
}

/// Finds the uses of a symbol in the loaded files that `wanted` accepts.
fn search<'a>(
    context: &'a QueryContext<'a>,
    uses: &'a SymbolUses<'a>,
    now: &'a Now,
    wanted: impl Fn(&Path) -> bool,
) -> UseSearch<'a> {
    let QueryContext { project, sbcl, .. } = context;
    let is_below = |path: &Path| project.root().is_some_and(|root| path.starts_with(root));
    let left_out = RefCell::new(BTreeSet::new());
    let mut recorded = uses.recorded(|path, _| {
        let wanted = wanted(path);
        if !wanted && is_below(path) {
            left_out.borrow_mut().insert(project.shown(path));
        }
        wanted
    });
    let mut left_out = left_out.into_inner();
    // Adds files whose text names the symbol although no record does.
    let name = &uses.sought().name;
    let naming = if uses.with_text() { project.naming(name) } else { project.naming_at_toplevel(name) };
    for version in naming {
        if wanted(&version.path) {
            recorded.files.entry(version).or_default();
        } else if is_below(&version.path)
            && project
                .positions_at(now, &version.path, version.write_date)
                .is_ok_and(|file| !uses.occurrences(&file).is_empty())
        {
            left_out.insert(project.shown(&version.path));
        }
    }
    let mut search = UseSearch {
        project,
        now,
        sbcl,
        uses,
        facts: Facts::recorded(&recorded.kinds),
        seen: TextFacts { left_out, without_file: recorded.without_file.len(), ..TextFacts::default() },
        origins: Origins::new(project, now),
        enclosing: Enclosing::new(context),
        lines: BTreeMap::new(),
    };
    for (path, state) in project.record_gaps() {
        if wanted(&path) && state != SidecarState::Missing {
            search.seen.half_known.insert(project.shown(&path));
        }
    }
    let mut files: BTreeMap<FileVersion, Vec<RecordedUse>> = BTreeMap::new();
    for (version, records) in recorded.files {
        files.entry(one_name(project, now, version)).or_default().extend(records);
    }
    let texts: Vec<TextToPlace> = files.into_iter().filter_map(|file| search.read(file)).collect();
    for text in texts {
        search.text(text);
    }
    search
}

/// Chooses the name under which a loaded file is listed: its real one, if it was loaded under that too.
fn one_name(project: &Project, now: &Now, version: FileVersion) -> FileVersion {
    let FileVersion { path, write_date } = version;
    let real = project.is_link_at(now, &path).then(|| path.canonicalize().ok()).flatten();
    let real = real.filter(|real| project.loaded_date(real) == Some(write_date));
    FileVersion { path: real.unwrap_or(path), write_date }
}

/// Describes in sentences where unloaded text defines and has a name that the image does not have; empty if none does.
pub(crate) fn unseen(index: &Index, project: &Project, asked: &Asked, package: Option<Package>) -> String {
    let target = SoughtSymbol::missing(index, asked, package);
    let now = project.now();
    let unseen = text_counts(index, project, &now, &target).unseen_with_definitions();
    let defined: Vec<String> = text_definitions(index, project, &now, &target)
        .into_iter()
        .map(|TextDefined { symbol, place, kind, .. }| format!("{symbol} ({kind}) in {place}"))
        .collect();
    let defined = (!defined.is_empty())
        .then(|| format!("Text that is not loaded defines {}.", some_of(&defined, String::clone)));
    let unseen = (!unseen.is_empty()).then(|| unseen.sentence());
    defined.into_iter().chain(unseen).collect::<Vec<_>>().join(" ")
}

/// Returns the symbol that `lookup` has found, or the error that the image has none.
pub(crate) fn found(index: &Index, project: &Project, lookup: &Lookup) -> Result<Symbol, NotFound> {
    lookup.found.map(|(symbol, _)| symbol).map_err(|status| NotFound::Symbol {
        asked: lookup.asked.clone(),
        status,
        unseen: unseen(index, project, &lookup.asked, lookup.package),
    })
}

/// Facts about the symbol that decide how an unrecorded occurrence is read.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Facts {
    pub(crate) function: bool,
    pub(super) macro_: bool,
    pub(super) variable: bool,
    /// Whether a local variable or function of the same name exists in any file.
    pub(super) shadowed: bool,
}

impl Facts {
    pub(super) fn recorded(kinds: &BTreeSet<Kind>) -> Facts {
        let any = |some: &[Kind]| some.iter().any(|kind| kinds.contains(kind));
        Facts {
            function: any(&[Kind::Calls, Kind::Macroexpands]),
            macro_: any(&[Kind::Macroexpands]),
            variable: any(&[Kind::Binds, Kind::References, Kind::Sets]),
            shadowed: false,
        }
    }

    /// What either knows.
    pub(super) fn or(self, other: Facts) -> Facts {
        Facts {
            function: self.function || other.function,
            macro_: self.macro_ || other.macro_,
            variable: self.variable || other.variable,
            shadowed: self.shadowed || other.shadowed,
        }
    }

    /// Adds what an occurrence shows.
    pub(super) fn add(&mut self, occurrence: &Occurrence) {
        self.function |= occurrence.defined == Some(Defined::Function);
        self.macro_ |= occurrence.defined == Some(Defined::Macro);
        self.variable |= occurrence.defined == Some(Defined::Variable);
        self.shadowed |= occurrence.local;
    }
}

/// A readable file, with the records and occurrences to place in it.
struct TextToPlace {
    shown: String,
    file: Arc<PositionedFile>,
    records: Vec<RecordedUse>,
    occurrences: Vec<Occurrence>,
}

/// One use on one line, before they are merged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UseOnLine {
    pub(crate) evidence: Evidence,
    pub(crate) place: Location,
    pub(crate) use_type: UseType,
    pub(crate) caller: Option<String>,
    via: Option<String>,
    origin: Option<ExpansionOrigin>,
    /// Which of F and (SETF F) is used, where F stands for both.
    pub(crate) called: CalledName,
    /// Whether the compiler recorded the use. If not, the text alone shows it.
    pub(crate) recorded: bool,
}

impl UseOnLine {
    /// Whether the use writes what the symbol names.
    pub(crate) fn is_written(&self) -> bool {
        match self.use_type {
            UseType::Set => true,
            UseType::Slot | UseType::Call | UseType::Function | UseType::Template => {
                self.called != CalledName::Itself
            }
            _ => false,
        }
    }

    fn approximate(place: Location, recorded: &RecordedUse) -> Self {
        Self {
            evidence: Evidence::Approximate,
            place,
            use_type: use_type(recorded.kind),
            caller: recorded.caller.clone(),
            via: None,
            origin: None,
            called: recorded.called(),
            recorded: true,
        }
    }
}

#[derive(Default)]
struct UsesOnLine {
    found: BTreeSet<UseOnLine>,
    context: Option<String>,
    stale: bool,
}

/// Counts of occurrences that are no uses, for the answer's cautions.
#[derive(Default)]
struct TextFacts {
    definitions: usize,
    structures: usize,
    slots: usize,
    /// Whether a structure has the slot.
    of_structure: bool,
    locals: usize,
    loop_words: usize,
    designators: usize,
    /// Uses recorded for earlier versions of files that were loaded again.
    replaced: usize,
    /// Functions that use it and were compiled without a file.
    without_file: usize,
    /// Uses in forms that a file has only when it is read with other features.
    other_readings: usize,
    /// Loaded files below the root that belong to no system of the project.
    left_out: BTreeSet<String>,
    /// Loaded files that cannot be read.
    unreadable: BTreeSet<String>,
    /// Loaded files whose sidecar is incomplete or cannot be read.
    half_known: BTreeSet<String>,
}

impl TextFacts {
    fn note(&mut self, occurrence: &Occurrence) {
        match occurrence.role {
            SyntaxRole::Definition | SyntaxRole::Named => self.definitions += 1,
            SyntaxRole::Structure => self.structures += 1,
            SyntaxRole::Slot => self.slots += 1,
            _ if occurrence.local => self.locals += 1,
            _ => {}
        }
    }
}

struct UseSearch<'a> {
    project: &'a Project,
    now: &'a Now,
    sbcl: &'a SbclSources,
    uses: &'a SymbolUses<'a>,
    facts: Facts,
    seen: TextFacts,
    origins: Origins<'a>,
    enclosing: Enclosing<'a>,
    /// By path and line; where the line is not known, by path and caller.
    lines: BTreeMap<(String, Option<u32>, Option<String>), UsesOnLine>,
}

impl UseSearch<'_> {
    fn single_uses(self) -> Vec<SingleUse> {
        let lines = self.lines.into_values();
        let uses = lines.flat_map(|UsesOnLine { found, context, stale }| {
            let line: Option<Arc<str>> = context.map(Arc::from);
            found.into_iter().map(move |found| SingleUse { found, line: line.clone(), stale })
        });
        uses.collect()
    }

    fn answered(
        self,
        request: &CodeFindReferencesRequest,
        index: &Index,
        looked_up_in: Option<String>,
    ) -> (CodeFindReferencesAnswer, Option<Caution>) {
        let target = SoughtSymbol::of(self.uses);
        let mut text = text_uses(index, self.project, self.now, &target, request.project_only);
        let vendored = text.vendored.take();
        (CodeFindReferencesAnswer { looked_up_in, ..self.finish(request, text) }, vendored)
    }

    /// Reads a file and finds the symbol's occurrences in it. None if it has no text that could be shown.
    fn read(
        &mut self,
        (FileVersion { path, write_date: date }, records): (FileVersion, Vec<RecordedUse>),
    ) -> Option<TextToPlace> {
        if let Some(logical) = path.to_str().filter(|path| path.starts_with("SYS:")) {
            self.sbcl_file(logical, &records);
            return None;
        }
        let shown = self.project.shown(&path);
        if !self.project.is_current(&path, date) {
            self.seen.replaced += records.len();
            records.iter().for_each(|record| self.unknown(&shown, record, false));
            return None;
        }
        let Ok(file) = self.project.positions_at(self.now, &path, date) else {
            records.iter().for_each(|record| self.unknown(&shown, record, true));
            self.seen.unreadable.insert(shown);
            return None;
        };
        let occurrences = self.uses.occurrences(&file);
        if self.uses.with_text() {
            let exists = |package: &str| self.uses.exists(package);
            self.seen.designators += file.unexplained_designators(self.uses.sought(), &exists);
        }
        let slots = self.seen.slots;
        for occurrence in &occurrences {
            self.seen.note(occurrence);
            self.facts.add(occurrence);
        }
        self.seen.of_structure |= self.seen.slots > slots && file.has_structure_slot(self.uses.sought());
        Some(TextToPlace { shown, file, records, occurrences })
    }

    fn text(&mut self, text: TextToPlace) {
        let TextToPlace { shown, file, records, occurrences } = text;
        let mut claimed = BTreeSet::new();
        for placed in self.uses.place(&file, &occurrences, records) {
            self.placed(&shown, &file, &placed, &mut claimed);
        }
        for occurrence in &occurrences {
            if !claimed.contains(&occurrence.range)
                && let Some((use_type, sure)) = unrecorded(occurrence, self.facts)
                && self.stands(&file, occurrence.range)
            {
                let sure = sure && file.is_fresh();
                let evidence = if sure { Evidence::Exact } else { Evidence::Approximate };
                let called = match occurrence.access {
                    // A macro is expanded as a place as well.
                    _ if use_type == UseType::Macro => CalledName::Itself,
                    PlaceAccess::Read => CalledName::Itself,
                    PlaceAccess::Write => CalledName::Setf,
                    PlaceAccess::ReadWrite => CalledName::Both,
                };
                for use_type in by_access(use_type, occurrence.access) {
                    let place = Location::placed(&shown, &file, occurrence.range);
                    let caller =
                        if use_type.is_declaration() { None } else { self.enclosing.function(&place) };
                    let found = UseOnLine {
                        evidence,
                        place,
                        use_type,
                        caller,
                        via: None,
                        origin: None,
                        called,
                        recorded: false,
                    };
                    self.add(&file, occurrence.range, found);
                }
            } else if !occurrence.local && !claimed.contains(&occurrence.range) {
                match occurrence.role {
                    // A parameter of a generic function.
                    SyntaxRole::Binding => self.seen.locals += 1,
                    SyntaxRole::LoopKeyword => self.seen.loop_words += 1,
                    _ => (),
                }
            }
        }
    }

    /// Adds the uses in a file of SBCL itself, of which only the top-level forms' places are known; the lines' texts are
    /// if the sources are at hand.
    fn sbcl_file(&mut self, logical: &str, records: &[RecordedUse]) {
        let source = self.sbcl.native(logical).and_then(|path| SourceFile::read(&path));
        for record in records {
            let place = record.bytes.and_then(|bytes| {
                self.sbcl.baked(logical, bytes).or_else(|| source.as_ref()?.line_and_column(bytes))
            });
            let Some(place) = place else {
                self.unknown(logical, record, false);
                continue;
            };
            let line = self.lines.entry((logical.to_owned(), Some(place.line), None)).or_default();
            line.context = source.as_ref().map(|source| source.line_text(place.line));
            line.found.insert(UseOnLine::approximate(Location::new(logical).at(place), record));
        }
    }

    /// Adds a recorded use where it stands.
    fn placed(
        &mut self,
        shown: &str,
        file: &PositionedFile,
        placed: &PlacedUse,
        claimed: &mut BTreeSet<Range>,
    ) {
        let recorded = &placed.recorded;
        if placed.placements.is_empty() {
            return self.unknown(shown, recorded, !file.is_fresh());
        }
        for placement in &placed.placements {
            let (evidence, via) = (placement.evidence, shown_expander(placement));
            let origin = match (&placement.expander, recorded.form, recorded.number) {
                (Some(expander), Some(form), Some(number)) => {
                    let sought = self.uses.sought();
                    let parts = file.name_parts_in(form, number, &sought.name);
                    let means = |package: &str| self.uses.means(package);
                    // Takes the name as made by the macro unless it stands in the same form: a local macro's
                    // template may be there.
                    let made = || {
                        let here = file.occurrences(sought, &means).iter().any(|found| found.form == form);
                        match PackageOwner::of(&expander.package).is_locked() {
                            true => here.then_some(ExpansionOrigin::Standard),
                            false if here || expander.package.is_empty() || parts.is_empty() => None,
                            false => Some(ExpansionOrigin::Synthesized(parts.clone())),
                        }
                    };
                    let known = self.origins.of(sought, &means, expander, parts.clone());
                    known.or_else(made)
                }
                _ => None,
            };
            // Gives up the place if that form number is another form, as after a reading with other features.
            if is_of_another(file, recorded) {
                self.seen.other_readings += 1;
                self.unknown(shown, recorded, false);
                continue;
            }
            if !self.stands(file, placement.range) {
                self.unknown(shown, recorded, true);
                continue;
            }
            if evidence == Evidence::Exact {
                claimed.insert(placement.range);
            }
            let use_type = use_type(recorded.kind);
            let found = UseOnLine {
                evidence,
                place: Location::placed(shown, file, placement.range),
                use_type,
                caller: recorded.caller.clone(),
                via,
                origin,
                called: recorded.called(),
                recorded: true,
            };
            self.add(file, placement.range, found);
        }
    }

    /// Whether the name stands at `range`, or, in a file that has changed, still on its line.
    fn stands(&self, file: &PositionedFile, range: Range) -> bool {
        let still = || Some(file.has_name_on(self.uses.sought(), file.position(range.start)?.line));
        file.is_fresh() || still() == Some(true)
    }

    /// Adds a use whose line is not known. `stale`: because the file is not what was loaded.
    fn unknown(&mut self, shown: &str, recorded: &RecordedUse, stale: bool) {
        let line = self.lines.entry((shown.to_owned(), None, recorded.caller.clone())).or_default();
        line.stale |= stale;
        line.found.insert(UseOnLine::approximate(Location::new(shown), recorded));
    }

    /// Adds a use that stands at `range` of `file`.
    fn add(&mut self, file: &PositionedFile, range: Range, found: UseOnLine) {
        let line = self.lines.entry((found.place.file.clone(), found.place.line, None)).or_default();
        line.stale = !file.is_fresh();
        line.context.get_or_insert_with(|| file.line_at(range));
        line.found.insert(found);
    }

    /// Whether the symbol's home is a package of the user's.
    fn of_project(&self) -> bool {
        let package = self.uses.sought().package.as_str();
        !package.is_empty() && !PackageOwner::of(package).is_locked()
    }

    fn finish(mut self, request: &CodeFindReferencesRequest, mut text: TextUses) -> CodeFindReferencesAnswer {
        // Drops unseen text on lines that already have an entry, but for what is left out beside that.
        text.lines.retain_mut(|TextUse { place, tokens, state, .. }| {
            if let Some(line) = self.lines.get(&(place.file.clone(), place.line, None)) {
                let known =
                    |token: &Location| line.found.iter().any(|found| found.place.column == token.column);
                tokens.retain(|token| *state == TextState::LeftOut && !known(token));
            }
            !tokens.is_empty()
        });
        if request.written {
            self.lines.retain(|_, line| line.is_written());
            text.lines.clear();
        }
        let total = self.lines.len();
        let text_total = text.count();
        let stale: BTreeSet<String> =
            self.lines.iter().filter(|(_, line)| line.stale).map(|((path, ..), _)| path.clone()).collect();
        let mut cautions = self.cautions();
        cautions.extend(text.cautions);
        let refs: Vec<CodeReference> = self
            .lines
            .into_values()
            .skip(request.offset)
            .take(request.limit)
            .filter_map(|line| line.reference(self.uses.index()))
            .collect();
        let entries = total + text.lines.len();
        let text: Vec<TextUse> = text
            .lines
            .into_iter()
            .skip(request.offset.saturating_sub(total))
            .take(request.limit - refs.len())
            .collect();
        CodeFindReferencesAnswer {
            symbol: self.uses.name(),
            looked_up_in: None,
            cursor: None,
            count: refs.len(),
            truncated: request.offset + refs.len() + text.len() < entries,
            total,
            text,
            text_total,
            refs,
            loading: false,
            cautions,
            stale: stale.into_iter().collect(),
        }
    }
}

impl UsesOnLine {
    fn is_written(&self) -> bool {
        self.found.iter().any(UseOnLine::is_written)
    }

    /// Lists the places of the uses with this evidence, one for each column, leaving out those that are surer.
    fn tokens(&self, evidence: Evidence) -> Vec<Location> {
        let surer = |at: &Location| {
            self.found.iter().any(|found| found.evidence < evidence && found.place.column == at.column)
        };
        let found = self.found.iter().filter(|found| found.evidence == evidence).map(|found| &found.place);
        let mut places: Vec<Location> =
            found.filter(|place| place.column.is_some() && !surer(place)).cloned().collect();
        places.dedup_by_key(|place| place.column);
        places
    }

    /// Merges the uses of this line into an entry, which shows the surest and leftmost of them.
    fn reference(self, index: &Index) -> Option<CodeReference> {
        let (tokens, approximate) = (self.tokens(Evidence::Exact), self.tokens(Evidence::Approximate));
        let surest = self.found.first()?.evidence;
        let written = self.is_written();
        let caller = self
            .found
            .iter()
            .take_while(|found| found.evidence == surest)
            .find_map(|found| found.caller.clone());
        let uses = self.found.iter().map(|found| UseInLine {
            use_type: found.use_type,
            called: found.called,
            caller: found.caller.as_deref().map(|caller| LispName::new(index, caller)),
        });
        let uses = uses.collect();
        let first = self.found.into_iter().next()?;
        // One that stands where the entry does is not told again.
        let others = |places: &[Location]| {
            let columns = columns(places);
            if columns.iter().eq(first.place.column.iter()) { Vec::new() } else { columns }
        };
        Some(CodeReference {
            columns: others(&tokens),
            approximate_columns: others(&approximate),
            place: first.place,
            tokens,
            approximate,
            uses,
            use_type: first.use_type,
            written,
            context: self.context,
            caller: first.caller.or(caller).map(|caller| LispName::new(index, caller)),
            evidence: first.evidence,
            via_stands_at: match &first.origin {
                Some(ExpansionOrigin::InTemplate(place)) => Some(place.clone()),
                _ => None,
            },
            via_made_from: match first.origin {
                Some(ExpansionOrigin::Synthesized(parts)) => Some(parts),
                _ => None,
            },
            via: first.via,
            stale: self.stale,
        })
    }
}

/// Whether the form defines another function than the recorded one, as after a reading with other features.
pub(super) fn is_of_another(file: &PositionedFile, recorded: &RecordedUse) -> bool {
    let caller = recorded.caller.as_deref().filter(|caller| !caller.starts_with('(') && !recorded.toplevel);
    let defined = recorded.form.and_then(|form| Some((form, file.function_defined(form)?)));
    let (Some(Ok(caller)), Some((form, defined))) = (caller.map(Designator::parse), defined) else {
        return false;
    };
    // The function may be defined inside another.
    caller.name != defined && file.symbols_in(form).iter().all(|(_, name)| *name != caller.name)
}

/// Prints the operator of a placement with evidence `via`.
pub(crate) fn shown_expander(placement: &Placement) -> Option<String> {
    placement.expander.as_ref().map(|expander| expander.name.to_lowercase())
}

/// Divides an unrecorded reference to a variable into what the text does with it: reads it, writes it, or both.
fn by_access(use_type: UseType, access: PlaceAccess) -> impl Iterator<Item = UseType> {
    let (first, second) = match (use_type, access) {
        (UseType::Reference, PlaceAccess::Write) => (UseType::Set, None),
        (UseType::Reference, PlaceAccess::ReadWrite) => (UseType::Reference, Some(UseType::Set)),
        _ => (use_type, None),
    };
    std::iter::once(first).chain(second)
}

pub(super) fn use_type(kind: Kind) -> UseType {
    match kind {
        Kind::Calls => UseType::Call,
        Kind::Macroexpands => UseType::Macro,
        Kind::Binds => UseType::Bind,
        Kind::References => UseType::Reference,
        Kind::Sets => UseType::Set,
        Kind::Specializes => UseType::Specialize,
    }
}

/// Classifies an occurrence without a record of the compiler's, and tells whether that is sure; None for
/// definitions and for local variables and functions of the same name.
pub(super) fn unrecorded(occurrence: &Occurrence, facts: Facts) -> Option<(UseType, bool)> {
    let sure = |use_type| Some((use_type, true));
    // In a template, a local function stays one; what becomes of a variable is up to the macro.
    let bound_in_template = occurrence.bound && !occurrence.variable;
    match occurrence.role {
        SyntaxRole::Definition | SyntaxRole::Structure | SyntaxRole::LoopKeyword => None,
        SyntaxRole::Export => sure(UseType::Export),
        SyntaxRole::Import => sure(UseType::Import),
        SyntaxRole::Class => sure(UseType::Class),
        SyntaxRole::Type => sure(UseType::Type),
        SyntaxRole::Slot => sure(UseType::Slot),
        // Quoted data may be code in which the symbol is a local variable.
        SyntaxRole::Quoted => {
            Some((UseType::Quoted, occurrence.position == SyntacticContext::Name || !facts.shadowed))
        }
        SyntaxRole::Block if occurrence.local => None,
        SyntaxRole::Block => sure(UseType::Block),
        SyntaxRole::ReadTime => sure(UseType::ReadTime),
        SyntaxRole::Template if bound_in_template => None,
        // Not sure: the expansion may bind the symbol as a local variable.
        SyntaxRole::Template => {
            let clear = matches!(occurrence.position, SyntacticContext::Operator | SyntacticContext::Name);
            Some((UseType::Template, clear || !facts.shadowed))
        }
        // A parameter of the name says nothing of what a macro of the program's own is given to define.
        SyntaxRole::Named if !occurrence.bound => sure(UseType::Mention),
        _ if occurrence.local => None,
        SyntaxRole::Named => sure(UseType::Mention),
        SyntaxRole::Function => sure(UseType::Function),
        SyntaxRole::Variable => sure(UseType::Reference),
        SyntaxRole::Declaration => sure(UseType::Declaration),
        // A local variable of code that the compiler dropped, or a parameter of a generic function.
        SyntaxRole::Binding if !facts.variable => None,
        SyntaxRole::Binding => sure(UseType::Bind),
        SyntaxRole::Operator | SyntaxRole::Argument => match occurrence.position {
            SyntacticContext::Called if facts.macro_ => sure(UseType::Macro),
            SyntacticContext::Called => sure(UseType::Call),
            // A local variable of code that the compiler dropped; else a constant that it folded, or a symbol macro.
            SyntacticContext::Variable
                if !facts.variable && (occurrence.bound || occurrence.has_variable) =>
            {
                None
            }
            SyntacticContext::Variable => sure(UseType::Reference),
            // In a macro's arguments: a call, unless the macro binds the symbol as a variable, which other
            // code would read.
            SyntacticContext::Operator if facts.macro_ => Some((UseType::Macro, occurrence.never_variable)),
            SyntacticContext::Operator if facts.function => Some((UseType::Call, occurrence.never_variable)),
            SyntacticContext::Operator => Some((UseType::Mention, occurrence.never_variable)),
            SyntacticContext::Head if facts.macro_ => Some((UseType::Macro, false)),
            SyntacticContext::Head if facts.function => Some((UseType::Call, false)),
            SyntacticContext::Head => Some((UseType::Mention, false)),
            SyntacticContext::Argument if occurrence.bound && !facts.variable => None,
            SyntacticContext::Argument if !facts.variable => Some((UseType::Mention, false)),
            SyntacticContext::Argument | SyntacticContext::Name | SyntacticContext::Open => {
                Some((UseType::Mention, !facts.shadowed))
            }
        },
    }
}
