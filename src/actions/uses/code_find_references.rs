//! code-find-references: lists the lines that use a symbol, with evidence for each.
//!
//! The compiler's records give the kind of each use and the function around it; the text gives the
//! line. Uses that the compiler does not record (types, classes, quoted symbols, macro templates,
//! package definitions) come from the text as SBCL's reader read it.
//!
//! A request becomes a `UseSearch`. It reads every loaded file that has records of the symbol or
//! contains its name, places the records, classifies the remaining tokens, and merges all uses by
//! line. `UseSearch::answer` then turns the lines into a [`CodeFindReferencesAnswer`].

mod text;
pub(crate) mod tool;

mod answer;
mod cautions;

pub use answer::{CodeFindReferencesAnswer, CodeFindReferencesRequest, CodeReference, UseInLine, UseType};

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::enclosing::{Enclosing, ParsedFile};
use super::strings::{NameInString, StringKind, strings_naming};
use super::symbol_uses::{PlacedUse, RecordedUse, SymbolUses, compiled_from};
use super::unloaded::{TextDefined, TextState, TextUse, TextUses, text_counts, text_definitions, text_uses};
use super::via::{ExpansionOrigin, Origins};
use super::who::{Position, SetfUse};
use crate::answer::designator::{Designator, FunctionName, PrintedName};
use crate::answer::location::columns;
use crate::answer::lookup::{Asked, Lookup};
use crate::answer::package_owner::PackageOwner;
use crate::answer::{Advice, Caution, LispName, Location, NotFound, OtherText, some_of};
use crate::engine::control::Control;
use crate::handle::Error;
use crate::handle::context::QueryContext;
use crate::handle::question::Question;
use crate::source::positions::{
    Evidence, Occurrence, PlaceAccess, Placement, PositionedFile, SidecarState, SyntacticContext,
};
use crate::source::sbcl::{SbclSources, SourceFile};
use crate::source::tap::operators::{Defined, OperatorKind, operator};
use crate::source::tap::roles::SyntaxRole;
use crate::source::tap::sidecar::NameKind;
use crate::workspace::{FileVersion, Project, TreeView};
use steelbank_reader::Range;
use steelbank_xref::{Index, Kind, Package, Symbol, SymbolName};

impl Question for CodeFindReferencesRequest {
    type Answer = CodeFindReferencesAnswer;

    fn answer(
        &self,
        context: &QueryContext<'_>,
        control: &Control,
    ) -> Result<CodeFindReferencesAnswer, Error> {
        control.check()?;
        with_search(context, self, control, |mut search, index, looked_up_in| {
            if self.types.contains(&UseType::Handler) {
                search.add_parents_handlers(context, self.project_only);
            }
            let is_searched = !self.written && !search.uses.is_standard() && search.uses.with_text();
            let strings = match is_searched {
                true => strings_naming(search.project, search.now, search.uses),
                false => Vec::new(),
            };
            let (mut answer, vendored) = search.answer(self, index, looked_up_in, strings);
            answer.cautions.extend(vendored.filter(|_| !self.written));
            answer.loading = context.project.is_loading();
            answer
        })
    }
}

/// Finds the uses of a symbol for the answer to another request. The answer has no strings and no
/// caution about vendored files, and its `loading` is not set.
pub(crate) fn code_find_references(
    context: &QueryContext<'_>,
    request: &CodeFindReferencesRequest,
    control: &Control,
) -> Result<CodeFindReferencesAnswer, Error> {
    with_search(context, request, control, |search, index, looked_up_in| {
        search.answer(request, index, looked_up_in, Vec::new()).0
    })
}

/// One use of a symbol, with the text of its line.
pub(crate) struct SingleUse {
    pub(crate) found: UseOnLine,
    /// The text of the line. `None` if the line is not known, or SBCL's sources are not installed.
    pub(crate) line: Option<Arc<str>>,
    /// Whether the file has changed since it was loaded, or cannot be read.
    stale: bool,
}

impl SingleUse {
    /// Returns the place of the use with its evidence.
    pub(crate) fn position(&self) -> Position {
        let UseOnLine { evidence, place, via, .. } = &self.found;
        Position { place: place.clone(), evidence: *evidence, via: via.clone(), stale: self.stale }
    }
}

/// Lists the uses of a symbol in loaded text. Several uses on a line are separate entries.
///
/// # Errors
/// The name cannot be read, the image has no such symbol, or the request is limited to the project
/// and no project is open.
pub(crate) fn single_uses(
    context: &QueryContext<'_>,
    request: &CodeFindReferencesRequest,
    control: &Control,
) -> Result<Vec<SingleUse>, Error> {
    with_search(context, request, control, |search, _, _| search.single_uses())
}

/// Lists the uses of a symbol in loaded text, except in SBCL's own sources. Several uses on a line
/// are separate entries.
pub(crate) fn uses_of_symbol(
    context: &QueryContext<'_>,
    uses: &SymbolUses<'_>,
    now: &TreeView,
    control: &Control,
) -> Vec<SingleUse> {
    let wanted = |path: &Path| !path.as_os_str().as_encoded_bytes().starts_with(b"SYS:");
    search(context, uses, now, control, wanted).single_uses()
}

fn with_search<R>(
    context: &QueryContext<'_>,
    request: &CodeFindReferencesRequest,
    control: &Control,
    then: impl FnOnce(UseSearch<'_>, &Index, Option<String>) -> R,
) -> Result<R, Error> {
    let (context, lookup) = context.resolve(&request.symbol, request.package.as_deref())?;
    let QueryContext { index, project, .. } = &*context;
    let symbol = found(index, project, &lookup)?;
    if request.project_only {
        let advised = |error| Error::of_request(error, Some(Advice::SetProjectOrSearchAll));
        project.project_root().map_err(advised)?;
    }
    let uses = SymbolUses::new(index, symbol, lookup.function_name);
    let now = project.tree_view();
    let search = search(&context, &uses, &now, control, |path| !request.project_only || now.contains(path));
    let found = then(search, index, lookup.looked_up_in);
    control.check()?;
    Ok(found)
}

/// Finds the uses of a symbol in the loaded files that `wanted` accepts, incompletely if the
/// question is cancelled.
fn search<'a>(
    context: &'a QueryContext<'a>,
    uses: &'a SymbolUses<'a>,
    now: &'a TreeView,
    control: &'a Control,
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
    // Add files that contain the name but have no record of it.
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
        control,
        facts: SymbolNamespaces::recorded(&recorded.kinds),
        counts: OccurrenceCounts { left_out, ..OccurrenceCounts::default() },
        origins: Origins::new(project, now),
        enclosing: Enclosing::new(context),
        lines: BTreeMap::new(),
        named_lines: BTreeMap::new(),
    };
    for (path, state) in project.sidecar_gaps() {
        if wanted(&path) && state != SidecarState::Missing {
            search.counts.incomplete.insert(project.shown(&path));
        }
    }
    let mut files: BTreeMap<FileVersion, Vec<RecordedUse>> = BTreeMap::new();
    for (version, records) in recorded.files {
        files.entry(listed_version(project, now, version)).or_default().extend(records);
    }
    let texts: Vec<TextToPlace> =
        control.until_cancelled(files).filter_map(|file| search.read(file)).collect();
    for text in texts {
        search.text(text);
    }
    // The text shows the uses in tests that are compiled at run time.
    let found = search.lines.values().flat_map(|line| &line.found);
    let found = found.filter(|found| !found.recorded && found.use_type.kind().is_some());
    let files: BTreeSet<PathBuf> = found.map(|found| project.native(&found.place.file)).collect();
    let is_unknown = |(name, _): &&(String, Kind)| !files.iter().any(|file| compiled_from(name, file));
    search.counts.without_file = recorded.without_file.iter().filter(is_unknown).count();
    search
}

/// Returns the version of a file under which its uses are listed. If the file is a link and the
/// same version was also loaded under the real path, that is the version with the real path.
/// Otherwise it is the given version.
fn listed_version(project: &Project, now: &TreeView, version: FileVersion) -> FileVersion {
    let FileVersion { path, write_date } = version;
    let real = project.is_link_at(now, &path).then(|| path.canonicalize().ok()).flatten();
    let real = real.filter(|real| project.loaded_date(real) == Some(write_date));
    FileVersion { path: real.unwrap_or(path), write_date }
}

/// Describes the unloaded text that defines or contains a name which the image does not have.
/// Returns an empty string if there is none.
pub(crate) fn describe_unloaded(
    index: &Index,
    project: &Project,
    asked: &Asked,
    package: Option<Package>,
) -> String {
    let target = asked.symbol(index, package);
    let now = project.tree_view();
    let unloaded = text_counts(index, project, &now, &target).with_definitions();
    let defined: Vec<String> = text_definitions(index, project, &now, &target)
        .into_iter()
        .map(|TextDefined { symbol, place, kind, .. }| format!("{symbol} ({kind}) in {place}"))
        .collect();
    let defined = (!defined.is_empty())
        .then(|| format!("Text that is not loaded defines {}.", some_of(&defined, String::clone)));
    let unloaded = (!unloaded.is_empty()).then(|| unloaded.sentence());
    defined.into_iter().chain(unloaded).collect::<Vec<_>>().join(" ")
}

/// Returns the symbol that `lookup` found.
///
/// # Errors
/// The lookup found no symbol. The error mentions unloaded text that contains the name.
pub(crate) fn found(index: &Index, project: &Project, lookup: &Lookup) -> Result<Symbol, NotFound> {
    lookup.found.map(|(symbol, _)| symbol).map_err(|status| NotFound::Symbol {
        asked: lookup.asked.clone(),
        status,
        unseen: describe_unloaded(index, project, &lookup.asked, lookup.package),
    })
}

/// The namespaces that a symbol is defined or used in. They determine how an occurrence without a
/// record is classified.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SymbolNamespaces {
    pub(crate) function: bool,
    pub(super) macro_: bool,
    pub(super) variable: bool,
    /// Whether the symbol is the name of a local variable or function in any file that was read.
    pub(super) shadowed: bool,
}

impl SymbolNamespaces {
    pub(super) fn recorded(kinds: &BTreeSet<Kind>) -> SymbolNamespaces {
        let any = |some: &[Kind]| some.iter().any(|kind| kinds.contains(kind));
        SymbolNamespaces {
            function: any(&[Kind::Calls, Kind::Macroexpands]),
            macro_: any(&[Kind::Macroexpands]),
            variable: any(&[Kind::Binds, Kind::References, Kind::Sets]),
            shadowed: false,
        }
    }

    /// Combines two sets of namespaces.
    pub(super) fn or(self, other: SymbolNamespaces) -> SymbolNamespaces {
        SymbolNamespaces {
            function: self.function || other.function,
            macro_: self.macro_ || other.macro_,
            variable: self.variable || other.variable,
            shadowed: self.shadowed || other.shadowed,
        }
    }

    /// Adds the namespaces that an occurrence of `symbol` shows: the form around it defines the
    /// symbol, or the symbol was an operator when the file was read.
    pub(super) fn add(&mut self, symbol: &SymbolName, occurrence: &Occurrence) {
        let is_special = || {
            operator(&symbol.package, &symbol.name).is_some_and(|known| known.kind == OperatorKind::Special)
        };
        let is_macro = occurrence.operator == NameKind::Macro && !is_special();
        self.function |=
            occurrence.defined == Some(Defined::Function) || occurrence.operator == NameKind::Function;
        self.macro_ |= occurrence.defined == Some(Defined::Macro) || is_macro;
        self.variable |= occurrence.defined == Some(Defined::Variable);
        self.shadowed |= occurrence.local;
    }
}

/// A file that could be read, with the records to place in it and its occurrences of the symbol.
struct TextToPlace {
    shown: String,
    file: Arc<PositionedFile>,
    records: Vec<RecordedUse>,
    occurrences: Vec<Occurrence>,
}

/// One use on a line, before the uses of a line are merged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct UseOnLine {
    pub(crate) evidence: Evidence,
    pub(crate) place: Location,
    pub(crate) use_type: UseType,
    pub(crate) caller: Option<String>,
    via: Option<String>,
    origin: Option<ExpansionOrigin>,
    /// Whether F, `(SETF F)` or both are used.
    pub(crate) called: SetfUse,
    /// Whether the compiler recorded the use. Otherwise only the text shows it.
    pub(crate) recorded: bool,
    /// For a handler of a parent condition: the canonical name of that condition.
    handles: Option<String>,
}

impl UseOnLine {
    /// Whether the use writes the variable, the slot or the place.
    pub(crate) fn is_written(&self) -> bool {
        match self.use_type {
            UseType::Set => true,
            UseType::Slot | UseType::Call | UseType::Function | UseType::Template => {
                self.called != SetfUse::Itself
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
            handles: None,
        }
    }
}

#[derive(Default)]
struct UsesOnLine {
    found: BTreeSet<UseOnLine>,
    context: Option<String>,
    stale: bool,
}

/// Counts of occurrences that are not uses, for the answer's cautions.
#[derive(Default)]
struct OccurrenceCounts {
    definitions: usize,
    structures: usize,
    slots: usize,
    /// Whether a structure has a slot of this name.
    of_structure: bool,
    locals: usize,
    loop_words: usize,
    designators: usize,
    /// The number of uses recorded for earlier versions of files that were loaded again.
    replaced: usize,
    /// The number of functions that use the symbol and were compiled without a file.
    without_file: usize,
    /// The number of uses in forms that exist only when the file is read with other features.
    other_readings: usize,
    /// Loaded files that use the symbol and are below the root, but belong to no system of the
    /// project.
    left_out: BTreeSet<String>,
    /// Loaded files that cannot be read.
    unreadable: BTreeSet<String>,
    /// Loaded files with an incomplete or unreadable sidecar.
    incomplete: BTreeSet<String>,
}

impl OccurrenceCounts {
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
    now: &'a TreeView,
    sbcl: &'a SbclSources,
    uses: &'a SymbolUses<'a>,
    control: &'a Control,
    facts: SymbolNamespaces,
    counts: OccurrenceCounts,
    origins: Origins<'a>,
    enclosing: Enclosing<'a>,
    /// Keyed by path and line, or by path and caller if the line is not known.
    lines: BTreeMap<(String, Option<u32>, Option<String>), UsesOnLine>,
    /// Whether a line of the file that is being searched contains the name.
    named_lines: BTreeMap<u32, bool>,
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

    fn answer(
        self,
        request: &CodeFindReferencesRequest,
        index: &Index,
        looked_up_in: Option<String>,
        strings: Vec<NameInString>,
    ) -> (CodeFindReferencesAnswer, Option<Caution>) {
        let (sought, own) = (self.uses.sought(), request.project_only);
        let mut text = text_uses(index, self.project, self.now, sought, own, self.control);
        let vendored = text.vendored.take();
        let (words, strings): (Vec<_>, Vec<_>) =
            strings.iter().partition(|string| string.kind == StringKind::Words);
        text.lines.extend(strings.into_iter().map(|string| string.text_use(self.project)));
        text.lines.sort_by(|left, right| left.place.cmp(&right.place));
        if !words.is_empty() {
            let places = words.into_iter().map(|word| word.place(self.project)).collect();
            text.cautions.push(Caution::Strings(OtherText::of(places)));
        }
        (CodeFindReferencesAnswer { looked_up_in, ..self.build(request, text) }, vendored)
    }

    /// Reads a file and finds the symbol's occurrences in it. Returns `None` for SBCL's own files,
    /// for versions that a later load replaced, and for unreadable files. Their records are added
    /// here: in SBCL's files with the line if it is known, otherwise without a line.
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
            self.counts.replaced += records.len();
            records.iter().for_each(|record| self.unknown(&shown, record, false));
            return None;
        }
        let Ok(file) = self.project.positions_at(self.now, &path, date) else {
            records.iter().for_each(|record| self.unknown(&shown, record, true));
            self.counts.unreadable.insert(shown);
            return None;
        };
        let occurrences = self.uses.occurrences(&file);
        if self.uses.with_text() {
            let exists = |package: &str| self.uses.exists(package);
            self.counts.designators += file.unexplained_designators(self.uses.sought(), &exists);
        }
        let slots = self.counts.slots;
        for occurrence in &occurrences {
            self.counts.note(occurrence);
            self.facts.add(self.uses.sought(), occurrence);
        }
        self.counts.of_structure |= self.counts.slots > slots && file.has_structure_slot(self.uses.sought());
        Some(TextToPlace { shown, file, records, occurrences })
    }

    fn text(&mut self, text: TextToPlace) {
        let TextToPlace { shown, file, records, occurrences } = text;
        self.named_lines.clear();
        let mut claimed = BTreeSet::new();
        let of_name = match self.uses.with_text() {
            true => &occurrences,
            false => &file.occurrences(self.uses.sought(), &|package| self.uses.means(package)),
        };
        let forms: BTreeSet<u32> = of_name.iter().map(|found| found.form).collect();
        let placed = self.uses.place(&file, &occurrences, records);
        let callers = placed.iter().filter_map(|placed| placed.recorded.caller.as_deref()).collect();
        for placed in self.control.until_cancelled(&placed) {
            self.placed(&shown, &file, placed, &forms, &mut claimed);
        }
        for occurrence in self.control.until_cancelled(&occurrences) {
            let place = Location::placed(&shown, &file, occurrence.range);
            if occurrence.definer.is_some() && self.enclosing.names_test(self.uses.sought(), &place) {
                self.counts.definitions += 1;
            } else if !claimed.contains(&occurrence.range)
                && let Some((use_type, sure)) = classify_occurrence(occurrence, self.facts)
                && self.is_at(&file, occurrence.range)
            {
                let use_type = match use_type {
                    UseType::Class | UseType::Type if file.is_fresh() => {
                        let text = self.enclosing.text(&shown);
                        text.and_then(|text| class_use(&text, occurrence.range)).unwrap_or(use_type)
                    }
                    _ => use_type,
                };
                let sure = sure && file.is_fresh();
                let evidence = if sure { Evidence::Exact } else { Evidence::Approximate };
                let called = match occurrence.access {
                    // Macro places have no SETF function: SETF expands the macro form itself.
                    _ if use_type == UseType::Macro => SetfUse::Itself,
                    PlaceAccess::Read => SetfUse::Itself,
                    PlaceAccess::Write => SetfUse::Setf,
                    PlaceAccess::ReadWrite => SetfUse::Both,
                };
                for use_type in by_access(use_type, occurrence.access) {
                    let place = place.clone();
                    let is_code = !use_type.is_declaration();
                    let caller = is_code.then(|| self.enclosing.function(&place, &callers)).flatten();
                    let found = UseOnLine {
                        evidence,
                        place,
                        use_type,
                        caller,
                        via: None,
                        origin: None,
                        called,
                        recorded: false,
                        handles: None,
                    };
                    self.add(&file, occurrence.range, found);
                }
            } else if !occurrence.local && !claimed.contains(&occurrence.range) {
                match occurrence.role {
                    // A parameter of a generic function, or a local variable in code that the
                    // compiler dropped.
                    SyntaxRole::Binding => self.counts.locals += 1,
                    SyntaxRole::LoopKeyword => self.counts.loop_words += 1,
                    _ => (),
                }
            }
        }
    }

    /// Adds the uses in one of SBCL's own files. Only the position of the top-level form is known
    /// there. The line's text is added if SBCL's sources are installed.
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

    /// Adds a recorded use at each of its placements. `forms`: the forms that contain the name. The
    /// use is added without a line if it has no placement, if its form is a different one now, or
    /// if the name is no longer at the placement.
    fn placed(
        &mut self,
        shown: &str,
        file: &PositionedFile,
        placed: &PlacedUse,
        forms: &BTreeSet<u32>,
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
                    // No template with the name was found. An operator of a locked package takes
                    // the name from its form if the name occurs there. Another macro builds the
                    // name from the form's name parts. The origin remains unknown if there are no
                    // parts, or if the name occurs in the form: a local macro's template may
                    // contain it.
                    let generated = || {
                        let here = forms.contains(&form);
                        match PackageOwner::of(&expander.package).is_locked() {
                            true => here.then_some(ExpansionOrigin::Standard),
                            false if here || expander.package.is_empty() || parts.is_empty() => None,
                            false => Some(ExpansionOrigin::Synthesized(parts.clone())),
                        }
                    };
                    let known = self.origins.of(sought, &means, expander, parts.clone());
                    known.or_else(generated)
                }
                _ => None,
            };
            // The form with this number is a different one, for example after reading with other
            // features: list the use without a line.
            if is_of_another(file, recorded) {
                self.counts.other_readings += 1;
                self.unknown(shown, recorded, false);
                continue;
            }
            if !self.is_at(file, placement.range) {
                self.unknown(shown, recorded, true);
                continue;
            }
            if evidence == Evidence::Exact {
                claimed.insert(placement.range);
            }
            let place = Location::placed(shown, file, placement.range);
            // SBCL names an unnamed function of top-level code after its file.
            let within = recorded.caller.as_deref().and_then(|caller| PrintedName::parse(caller).within);
            let unnamed = within.filter(|within| within.starts_with('"'));
            let test = unnamed.and_then(|_| self.enclosing.test(&place));
            let found = UseOnLine {
                evidence,
                caller: test.or_else(|| recorded.caller.clone()),
                via,
                origin,
                ..UseOnLine::approximate(place, recorded)
            };
            self.add(file, placement.range, found);
        }
    }

    /// Whether the name is at `range`, or, in a file that has changed, on the same line.
    fn is_at(&mut self, file: &PositionedFile, range: Range) -> bool {
        if file.is_fresh() {
            return true;
        }
        let Some(at) = file.position(range.start) else { return false };
        // A line can have all uses of the file, so read each line once.
        let sought = self.uses.sought();
        *self.named_lines.entry(at.line).or_insert_with(|| file.has_name_on(sought, at.line))
    }

    /// Adds a use without a line. `stale`: the file has changed since it was
    /// loaded, or cannot be read.
    fn unknown(&mut self, shown: &str, recorded: &RecordedUse, stale: bool) {
        let line = self.lines.entry((shown.to_owned(), None, recorded.caller.clone())).or_default();
        line.stale |= stale;
        line.found.insert(UseOnLine::approximate(Location::new(shown), recorded));
    }

    /// Adds a use at `range` of `file`.
    fn add(&mut self, file: &PositionedFile, range: Range, found: UseOnLine) {
        let line = self.lines.entry((found.place.file.clone(), found.place.line, None)).or_default();
        line.stale = !file.is_fresh();
        line.context.get_or_insert_with(|| file.line_at(range));
        line.found.insert(found);
    }

    /// Whether the symbol has a home package and this package is not locked.
    fn of_project(&self) -> bool {
        let package = self.uses.sought().package.as_str();
        !package.is_empty() && !PackageOwner::of(package).is_locked()
    }

    fn build(mut self, request: &CodeFindReferencesRequest, mut text: TextUses) -> CodeFindReferencesAnswer {
        // Drops unloaded matches on lines that already have an entry. Tokens that a feature
        // expression excludes are dropped only if the entry has a use at their column.
        text.lines.retain_mut(|TextUse { place, tokens, state, .. }| {
            if let Some(line) = self.lines.get(&(place.file.clone(), place.line, None)) {
                let known =
                    |token: &Location| line.found.iter().any(|found| found.place.column == token.column);
                let is_apart = matches!(state, TextState::FeatureExcluded | TextState::InString);
                tokens.retain(|token| is_apart && !known(token));
            }
            !tokens.is_empty()
        });
        if !request.types.is_empty() {
            let is_wanted = |found: &UseOnLine| {
                request.types.contains(&found.use_type)
                    || (found.is_written() && request.types.contains(&UseType::Set))
            };
            self.lines.retain(|_, line| {
                line.found.retain(is_wanted);
                !line.found.is_empty()
            });
            // Text that is not loaded may have any use.
            text.lines.retain(|found| matches!(found.state, TextState::NotLoaded | TextState::Changed));
        }
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

impl UseSearch<'_> {
    /// Adds the handlers of the condition's parents.
    fn add_parents_handlers(&mut self, context: &QueryContext<'_>, project_only: bool) {
        let (mut parents, mut at) = (vec![self.uses.sought().clone()], 0);
        while let Some(condition) = parents.get(at) {
            let mut above = parents_of(&self.enclosing, condition);
            above.retain(|parent| !parents.contains(parent));
            parents.append(&mut above);
            at += 1;
        }
        for parent in &parents[1..] {
            let Some(symbol) = context.index.named(parent) else { continue };
            let uses = SymbolUses::new(&context.index, symbol, FunctionName::Plain);
            let wanted = |path: &Path| !project_only || self.now.contains(path);
            for (key, line) in search(context, &uses, self.now, self.control, wanted).lines {
                for found in line.found.into_iter().filter(|found| found.use_type == UseType::Handler) {
                    let handles = Some(context.index.symbol_text(symbol));
                    let known = self.lines.entry(key.clone()).or_default();
                    known.found.insert(UseOnLine { handles, ..found });
                    known.stale |= line.stale;
                    known.context.get_or_insert_with(|| line.context.clone().unwrap_or_default());
                }
            }
        }
    }
}

/// Returns the direct parents of a condition, from its definition in the text.
fn parents_of(enclosing: &Enclosing<'_>, condition: &SymbolName) -> Vec<SymbolName> {
    let standard = |name: &str| SymbolName::new("COMMON-LISP", name);
    if condition.package == "COMMON-LISP" {
        let rows = include_str!("code_find_references/conditions.table").lines();
        let mut rows = rows.map(|row| row.split_once(':').unwrap_or_default());
        let row = rows.find(|(name, _)| *name == condition.name);
        return row.into_iter().flat_map(|(_, parents)| parents.split_whitespace()).map(standard).collect();
    }
    let parents = enclosing.class(condition).map(|class| class.superclasses()).unwrap_or_default();
    if parents.is_empty() { vec![standard("CONDITION")] } else { parents }
}

/// Returns the special type of a use of a class at `range`, by the form around it: the type of a
/// handler's clause, or a superclass in a definition.
fn class_use((bytes, text, _): &ParsedFile, range: Range) -> Option<UseType> {
    let mut around = text.token_at(range.start)?.form;
    // The place of the use in each list around it, from the innermost list.
    let mut places = Vec::new();
    while let Some(list) = around {
        let place = text.elements(list).position(|datum| text.span(datum).contains(range.start))?;
        places.push(place);
        let form = text.form(list)?;
        let operator = text.head(form).map(|head| head.symbol(bytes).name);
        let is_first = |above: usize| places.iter().rev().nth(above) == Some(&0);
        match (operator.as_deref(), place) {
            (Some("HANDLER-CASE"), 2..) if is_first(1) => return Some(UseType::Handler),
            (Some("HANDLER-BIND"), 1) if is_first(2) => return Some(UseType::Handler),
            (Some("DEFCLASS" | "DEFINE-CONDITION"), 2) if places.len() == 2 => {
                return Some(UseType::Subclass);
            }
            (Some("DEFSTRUCT"), 1) if places.len() == 3 && places[0] == 1 => return Some(UseType::Subclass),
            _ => around = form.parent,
        }
    }
    None
}

impl UsesOnLine {
    fn is_written(&self) -> bool {
        self.found.iter().any(UseOnLine::is_written)
    }

    /// Lists the places of the uses with this evidence, one for each column. Columns that also have
    /// a use with stronger evidence are omitted.
    fn tokens(&self, evidence: Evidence) -> Vec<Location> {
        let surer = self.found.iter().take_while(|found| found.evidence < evidence);
        let surer: BTreeSet<_> = surer.map(|found| found.place.column).collect();
        let found = self.found.iter().filter(|found| found.evidence == evidence).map(|found| &found.place);
        let mut places: Vec<Location> =
            found.filter(|place| place.column.is_some() && !surer.contains(&place.column)).cloned().collect();
        places.dedup_by_key(|place| place.column);
        places
    }

    /// Merges the uses of this line into one entry. The entry describes the use with the strongest
    /// evidence; if there are several, the leftmost of them.
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
        // The columns are omitted if the entry's place is the only one.
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
            handles: first.handles.as_deref().map(|parent| LispName::new(index, parent)),
            via_template: match &first.origin {
                Some(ExpansionOrigin::InTemplate(place)) => Some(place.clone()),
                _ => None,
            },
            via_name_parts: match first.origin {
                Some(ExpansionOrigin::Synthesized(parts)) => Some(parts),
                _ => None,
            },
            via: first.via,
            stale: self.stale,
        })
    }
}

/// Whether the form defines another function than the recorded caller, for example after reading
/// with other features.
pub(super) fn is_of_another(file: &PositionedFile, recorded: &RecordedUse) -> bool {
    let is_symbol = |caller: &&str| PrintedName::parse(caller).head.is_empty();
    let caller = recorded.caller.as_deref().filter(is_symbol).filter(|_| !recorded.toplevel);
    let defined = recorded.form.and_then(|form| Some((form, file.function_defined(form)?)));
    let (Some(Ok(caller)), Some((form, defined))) = (caller.map(Designator::parse), defined) else {
        return false;
    };
    // The caller may be defined inside another function of the form.
    caller.name != defined && file.symbols_in(form).iter().all(|symbol| symbol.name != caller.name)
}

/// Returns the lower-case name of the operator that expands into a placed use, if there is one.
pub(crate) fn shown_expander(placement: &Placement) -> Option<String> {
    placement.expander.as_ref().map(|expander| expander.name.to_lowercase())
}

/// Turns an unrecorded reference to a variable into a read, a write or both, by its access. Other
/// kinds of use remain unchanged.
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

/// Classifies an occurrence without a compiler record, and returns whether the class is certain.
/// Returns `None` for definitions, for LOOP keywords, and for local variables, functions and blocks
/// of the same name.
pub(super) fn classify_occurrence(
    occurrence: &Occurrence,
    facts: SymbolNamespaces,
) -> Option<(UseType, bool)> {
    let sure = |use_type| Some((use_type, true));
    // In a template, the name of a local function means that function. The name of a local variable
    // may mean the global variable in the macro's expansion.
    let bound_in_template = occurrence.bound && !occurrence.variable;
    match occurrence.role {
        SyntaxRole::Definition | SyntaxRole::Structure | SyntaxRole::LoopKeyword => None,
        SyntaxRole::Export => sure(UseType::Export),
        SyntaxRole::Import => sure(UseType::Import),
        SyntaxRole::Class => sure(UseType::Class),
        SyntaxRole::Type => sure(UseType::Type),
        SyntaxRole::Slot => sure(UseType::Slot),
        // Quoted data may be code, and the symbol may be a local variable there.
        SyntaxRole::Quoted => {
            Some((UseType::Quoted, occurrence.position == SyntacticContext::Name || !facts.shadowed))
        }
        SyntaxRole::Block if occurrence.local => None,
        SyntaxRole::Block => sure(UseType::Block),
        SyntaxRole::ReadTime => sure(UseType::ReadTime),
        SyntaxRole::Template if bound_in_template => None,
        // Uncertain if the symbol names a local variable or function somewhere and is neither an
        // operator nor a name here: the expansion may bind it as a local variable.
        SyntaxRole::Template => {
            let clear = matches!(occurrence.position, SyntacticContext::Operator | SyntacticContext::Name);
            Some((UseType::Template, clear || !facts.shadowed))
        }
        // The name that a project macro defines. It is outside the scope of a parameter of the same
        // name in its form.
        SyntaxRole::Named if !occurrence.bound => sure(UseType::Mention),
        _ if occurrence.local => None,
        SyntaxRole::Named => sure(UseType::Mention),
        SyntaxRole::Function => sure(UseType::Function),
        SyntaxRole::Variable => sure(UseType::Reference),
        SyntaxRole::Declaration => sure(UseType::Declaration),
        // A local variable in code that the compiler dropped, or a parameter of a generic function.
        SyntaxRole::Binding if !facts.variable => None,
        SyntaxRole::Binding => sure(UseType::Bind),
        SyntaxRole::Operator | SyntaxRole::Argument => match occurrence.position {
            SyntacticContext::Called if facts.macro_ => sure(UseType::Macro),
            SyntacticContext::Called => sure(UseType::Call),
            // A local variable in code that the compiler dropped. Otherwise a constant that the
            // compiler folded, or a symbol macro.
            SyntacticContext::Variable
                if !facts.variable && (occurrence.bound || occurrence.has_variable) =>
            {
                None
            }
            SyntacticContext::Variable => sure(UseType::Reference),
            // In a macro's arguments, the form may be a binding such as `(name 1)` instead of a
            // call, unless the name is never a variable in this top-level form.
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
