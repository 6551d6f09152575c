//! Every symbol that stands in a file: what it is there, what is done with it, and how sure that is.
//!
//! One pass over what the compiler recorded of the file, and over its text; each place is judged as
//! [`super::code_find_references`] judges it, which looks for one symbol in all files.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::code_find_references::{Facts, UseType, is_of_another, unrecorded, use_type};
use super::symbol_uses::{PlacedUse, RecordedUse, SymbolUses};
use crate::answer::designator::FunctionName;
use crate::answer::package_owner::PackageOwner;
use crate::engine::control::Control;
use crate::handle::Error;
use crate::handle::context::QueryContext;
use crate::handle::question::Question;
use crate::source::positions::{
    Evidence, Occurrence, PlaceAccess, Placement, PositionedFile, SearchTarget, SidecarState, Space,
};
use crate::source::tap::operators::{Defined, OperatorKind, operator};
use crate::source::tap::roles::SyntaxRole;
use crate::source::tap::sidecar::NameKind;
use crate::workspace::Project;
use steelbank_reader::{Dialect, Features, LispText, Range};
use steelbank_xref::{Index, Kind, NameRole, Symbol};

/// A request for what stands in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OccurrencesRequest {
    /// The file, relative to the project's root or whole.
    pub path: PathBuf,
    /// Whether other files are read that have the same names: where quoted data or a macro's arguments could be code in
    /// which a name is a local variable, a place is exact only if the name is one nowhere. Without it, such places are
    /// approximate.
    pub elsewhere: bool,
    /// Whether the text is the one on disk, whatever document is open.
    pub on_disk: bool,
}

impl OccurrencesRequest {
    /// Makes a request about the file at `path`, that reads other files, too.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), elsewhere: true, on_disk: false }
    }
}

/// What stands in a file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OccurrencesAnswer {
    /// The file, as answers show it.
    pub path: String,
    /// The text in which the ranges count, decoded.
    pub text: String,
    /// Whether the image was made from this text; ranges in any other text count in the one that was loaded, where
    /// lines alone are sure.
    pub fresh: bool,
    /// What is known of the file: without a complete record, what comes after its end is not listed.
    pub sidecar: SidecarState,
    /// In order.
    pub occurrences: Vec<FileOccurrence>,
    /// The uses of the user's symbols that macros make, in order. Only where a whole project is read.
    pub made: Vec<MadeUse>,
}

/// A use that the expansion of a macro makes of a symbol that does not stand there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct MadeUse {
    /// The form of the macro.
    pub range: Range,
    /// The home package of the symbol.
    pub package: String,
    /// Its name.
    pub name: String,
    /// What is done with it.
    pub use_type: UseType,
    /// The macro's home package and name, if it has one.
    pub expander: Option<(String, String)>,
    /// The top-level form that it stands in.
    pub form: u32,
}

/// A symbol that stands in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileOccurrence {
    /// The whole token, with its prefix, in bytes of the text.
    pub range: Range,
    /// The symbol's own name in it.
    pub name_range: Range,
    /// The home package of the symbol.
    pub package: String,
    /// Its name.
    pub name: String,
    /// Its role in the form.
    pub role: SyntaxRole,
    /// What it names.
    pub kind: OccurrenceKind,
    /// What is done with it, as code-find-references tells it; none for definitions and local names.
    pub use_type: Option<UseType>,
    /// What is done with the variable, or with the place that the slot or accessor names.
    pub access: PlaceAccess,
    /// How sure it is that the symbol is meant.
    pub evidence: Evidence,
    /// For a local name: the token that binds it, itself if it does; none for names that are not local.
    pub binding: Option<Range>,
    /// The top-level form that it stands in.
    pub form: u32,
}

/// What a symbol names where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OccurrenceKind {
    /// A global function.
    Function,
    /// A macro.
    Macro,
    /// A special operator.
    SpecialOperator,
    /// A special variable, a constant or a symbol macro.
    Variable,
    /// A class, structure or condition.
    Class,
    /// A type, or another thing that is defined.
    Type,
    /// A slot.
    Slot,
    /// A keyword.
    Keyword,
    /// A local variable.
    LocalVariable,
    /// A local function or macro.
    LocalFunction,
    /// A block or a tag.
    Block,
    /// Data, or what only a macro knows.
    Datum,
}

impl FileOccurrence {
    /// Makes one of which nothing is known but the symbol.
    pub(crate) fn of_datum(
        range: Range,
        name_range: Range,
        package: String,
        name: String,
        form: u32,
    ) -> Self {
        Self {
            range,
            name_range,
            package,
            name,
            role: SyntaxRole::ReadTime,
            kind: OccurrenceKind::Datum,
            use_type: None,
            access: PlaceAccess::Read,
            evidence: Evidence::Approximate,
            binding: None,
            form,
        }
    }
}

impl OccurrenceKind {
    /// Whether it is an operator that is no function.
    pub(crate) fn is_macro(self) -> bool {
        matches!(self, Self::Macro | Self::SpecialOperator)
    }
}

/// The file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read: {source}. {advice}", path.display())]
#[non_exhaustive]
pub struct OccurrencesError {
    /// The file, as it was asked for.
    pub path: PathBuf,
    /// The operating system's error.
    pub source: std::io::Error,
    advice: String,
}

impl From<OccurrencesError> for Error {
    fn from(error: OccurrencesError) -> Self {
        Self::of_request(error, None)
    }
}

impl Question for OccurrencesRequest {
    type Answer = OccurrencesAnswer;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<OccurrencesAnswer, Error> {
        control.check()?;
        let project = context.project;
        let now = project.now();
        let native = project.native(&self.path);
        let path = if project.loaded_date(&native).is_some() { native } else { project.real(&self.path) };
        let date = project.loaded_date(&path);
        let file = match self.on_disk {
            true => project.positions_on_disk(&path, date.unwrap_or(0)).map(Arc::new),
            false => project.positions_at(&now, &path, date.unwrap_or(0)),
        };
        let file = file.map_err(|source| self.unreadable(source, project))?;
        let context = context.with_file_symbols(&file);
        let index = &context.index;
        let records = date.map(|date| recorded(index, &path, date)).unwrap_or_default();
        let elsewhere = |uses: &SymbolUses<'_>| {
            let naming = project.naming(&uses.sought().name).into_iter();
            let naming = naming.filter(|version| version.path != path && now.contains(&version.path));
            let files = naming
                .filter_map(|version| project.positions_at(&now, &version.path, version.write_date).ok());
            let mut facts = Facts::default();
            files.for_each(|file| uses.occurrences(&file).iter().for_each(|found| facts.add(found)));
            facts
        };
        let elsewhere: &dyn Fn(&SymbolUses<'_>) -> Facts = match self.elsewhere {
            true => &elsewhere,
            false => &|_| Facts { shadowed: true, ..Facts::default() },
        };
        let occurrences = occurrences_in(index, &file, records, elsewhere);
        Ok(OccurrencesAnswer::of(project.shown(&path), &file, occurrences, Vec::new()))
    }
}

impl OccurrencesRequest {
    fn unreadable(&self, source: std::io::Error, project: &Project) -> OccurrencesError {
        OccurrencesError { path: self.path.clone(), source, advice: project.path_advice() }
    }
}

/// What stands in all files of a project, one after the other: what other files have of a symbol is gathered once.
pub(crate) struct ProjectOccurrences<'a> {
    context: &'a QueryContext<'a>,
    known: HashMap<Symbol, Facts>,
}

impl<'a> ProjectOccurrences<'a> {
    /// Reads all loaded files.
    ///
    /// # Errors
    /// The question was cancelled.
    pub(crate) fn new(context: &'a QueryContext<'a>, control: &Control) -> Result<Self, Error> {
        let (index, project) = (&context.index, context.project);
        let mut known: HashMap<Symbol, Facts> = HashMap::new();
        for (path, date) in project.loaded() {
            control.check()?;
            let Ok(file) = project.positions_on_disk(&path, date) else { continue };
            let symbols = file.symbols().into_iter();
            let symbols = symbols.filter_map(|(package, name)| Some(index.symbol_named(package, name)?.0));
            for symbol in symbols.collect::<HashSet<Symbol>>() {
                let facts = known.entry(symbol).or_default();
                let uses = SymbolUses::new(index, symbol, FunctionName::Plain);
                uses.occurrences(&file).iter().for_each(|found| facts.add(found));
            }
        }
        Ok(Self { context, known })
    }

    /// What stands in the file at `path`, a real path, on disk.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn of(&self, path: &Path) -> Result<OccurrencesAnswer, Error> {
        let (index, project) = (&self.context.index, self.context.project);
        let date = project.loaded_date(path);
        let file = project
            .positions_on_disk(path, date.unwrap_or(0))
            .map_err(|source| OccurrencesRequest::new(path).unreadable(source, project))?;
        let records = date.map(|date| recorded(index, path, date)).unwrap_or_default();
        let mut made = BTreeSet::new();
        let elsewhere = |uses: &SymbolUses<'_>| self.known.get(&uses.symbol()).copied().unwrap_or_default();
        let occurrences = all_in(index, &file, records, &elsewhere, Some(&mut made));
        let made = made.into_iter().filter(|made| !PackageOwner::of(&made.package).is_locked()).collect();
        Ok(OccurrencesAnswer::of(project.shown(path), &file, occurrences, made))
    }
}

/// What the compiler recorded in the version of the file at `path` that was written at `date`, by home package and name.
fn recorded(index: &Index, path: &Path, date: u64) -> HashMap<(String, String), Vec<RecordedUse>> {
    let mut records: HashMap<(String, String), Vec<RecordedUse>> = HashMap::new();
    for (symbol, role, kind, number) in path.to_str().map(|path| index.uses_in(path)).unwrap_or_default() {
        let found = index.read(number);
        if role.denotes_function() && found.file_written == date {
            records.entry(symbol).or_default().push(RecordedUse::read(found, kind, role == NameRole::Setf));
        }
    }
    records
}

/// Lists what stands in `file`. `records`: what the compiler recorded there, by home package and name. `elsewhere`: what
/// other files show of a symbol.
pub(crate) fn occurrences_in(
    index: &Index,
    file: &PositionedFile,
    records: HashMap<(String, String), Vec<RecordedUse>>,
    elsewhere: &dyn Fn(&SymbolUses<'_>) -> Facts,
) -> Vec<FileOccurrence> {
    all_in(index, file, records, elsewhere, None)
}

/// As [`occurrences_in`]; adds to `made` what macros make, if it is given.
fn all_in(
    index: &Index,
    file: &PositionedFile,
    mut records: HashMap<(String, String), Vec<RecordedUse>>,
    elsewhere: &dyn Fn(&SymbolUses<'_>) -> Facts,
    mut made: Option<&mut BTreeSet<MadeUse>>,
) -> Vec<FileOccurrence> {
    let mut seen: HashSet<Symbol> = HashSet::new();
    let mut found = Vec::new();
    for (package, name) in file.symbols() {
        let Some((symbol, _)) = index.symbol_named(package, name) else {
            // The image does not have the symbol any more: only the text tells of it.
            let target = SearchTarget { package: package.to_owned(), name: name.to_owned() };
            let there = file.occurrences(&target, &|other| other == package);
            found.extend(there.iter().map(|found| judged(found, &target, Facts::default(), None)));
            continue;
        };
        if seen.insert(symbol) {
            let uses = SymbolUses::new(index, symbol, FunctionName::Plain);
            let home = (uses.sought().package.clone(), uses.sought().name.clone());
            let records = records.remove(&home).unwrap_or_default();
            found.extend(of_symbol(index, file, &uses, records, elsewhere, made.as_deref_mut()));
        }
    }
    if let Some(made) = made {
        // The symbols that stand nowhere in the file.
        for ((package, name), records) in records {
            let Some((symbol, _)) = index.symbol_named(&package, &name) else { continue };
            let uses = SymbolUses::new(index, symbol, FunctionName::Plain);
            for PlacedUse { recorded, placements } in uses.place(file, &[], records) {
                made.extend(placements.iter().filter_map(|found| made_use(&uses, &recorded, found)));
            }
        }
    }
    found.sort_by_key(|found| (found.range, found.package == "KEYWORD"));
    found.dedup_by_key(|found| found.range);
    if file.is_fresh() {
        let read = LispText::read(file.text().as_bytes(), Dialect::CommonLisp, &Features::sbcl());
        for found in &mut found {
            if let Some(token) = read.token_at(found.range.start).filter(|token| token.span == found.range) {
                found.name_range = token.name_span();
            }
        }
    }
    found
}

/// Judges what stands in `file` of one symbol.
fn of_symbol(
    index: &Index,
    file: &PositionedFile,
    uses: &SymbolUses<'_>,
    records: Vec<RecordedUse>,
    elsewhere: &dyn Fn(&SymbolUses<'_>) -> Facts,
    mut made: Option<&mut BTreeSet<MadeUse>>,
) -> Vec<FileOccurrence> {
    let there = uses.occurrences(file);
    let used = |kind: &Kind| index.is_used(*kind, uses.symbol(), |role| uses.accepts(role));
    let mut facts = Facts::recorded(&Kind::ALL.into_iter().filter(used).collect());
    there.iter().for_each(|found| facts.add(found));
    // By range, the surest record.
    let mut claimed: BTreeMap<Range, (Evidence, UseType)> = BTreeMap::new();
    let mut approximate = Vec::new();
    for PlacedUse { recorded, placements } in uses.place(file, &there, records) {
        for placement in placements.into_iter().filter(|_| !is_of_another(file, &recorded)) {
            match placement.evidence {
                Evidence::Exact => {
                    let claim = (Evidence::Exact, use_type(recorded.kind));
                    claimed.entry(placement.range).or_insert(claim);
                }
                Evidence::Approximate => approximate.push((placement.range, use_type(recorded.kind))),
                Evidence::Via => {
                    made.iter_mut().for_each(|made| made.extend(made_use(uses, &recorded, &placement)));
                }
            }
        }
    }
    let mut whole = None;
    there
        .iter()
        .map(|found| {
            if let Some(&claim) = claimed.get(&found.range) {
                return judged(found, uses.sought(), facts, Some(claim));
            }
            // Ask other files only where their answer matters.
            let unsure = Facts { shadowed: true, ..facts };
            let sure = Facts { shadowed: false, ..facts };
            let facts = match unrecorded(found, unsure) == unrecorded(found, sure) {
                true => facts,
                false => *whole.get_or_insert_with(|| {
                    let other = elsewhere(uses);
                    facts.or(other)
                }),
            };
            let maybe = approximate.iter().find(|(range, _)| *range == found.range);
            let maybe = maybe.map(|&(_, use_type)| (Evidence::Approximate, use_type));
            let clear = unrecorded(found, facts).is_some_and(|(_, sure)| sure && file.is_fresh());
            judged(found, uses.sought(), facts, maybe.filter(|_| !clear))
        })
        .map(|mut found| {
            if !file.is_fresh() {
                found.evidence = Evidence::Approximate;
            }
            found
        })
        .collect()
}

fn made_use(uses: &SymbolUses<'_>, recorded: &RecordedUse, found: &Placement) -> Option<MadeUse> {
    (found.evidence == Evidence::Via).then(|| MadeUse {
        range: found.range,
        package: uses.sought().package.clone(),
        name: uses.sought().name.clone(),
        use_type: use_type(recorded.kind),
        expander: found.expander.as_ref().map(|by| (by.package.clone(), by.name.clone())),
        form: recorded.form.unwrap_or(0),
    })
}

/// Makes an entry of an occurrence. `claim`: what the compiler recorded there.
fn judged(
    found: &Occurrence,
    target: &SearchTarget,
    facts: Facts,
    claim: Option<(Evidence, UseType)>,
) -> FileOccurrence {
    let known = claim.map(|(evidence, use_type)| (use_type, evidence == Evidence::Exact));
    let known = known.or_else(|| unrecorded(found, facts));
    let names_it = matches!(found.role, SyntaxRole::Definition | SyntaxRole::Structure | SyntaxRole::Named);
    let local = known.is_none() && !names_it && found.role != SyntaxRole::LoopKeyword;
    FileOccurrence {
        range: found.range,
        name_range: found.range,
        package: target.package.clone(),
        name: target.name.clone(),
        role: found.role,
        kind: kind(found, target, facts, local),
        use_type: known.map(|(use_type, _)| use_type),
        access: found.access,
        evidence: match known {
            Some((_, false)) => Evidence::Approximate,
            _ => Evidence::Exact,
        },
        binding: found.binding.filter(|_| local),
        form: found.form,
    }
}

/// What a symbol names where it stands.
fn kind(found: &Occurrence, target: &SearchTarget, facts: Facts, local: bool) -> OccurrenceKind {
    let by_operator = || match found.operator {
        NameKind::Function => OccurrenceKind::Function,
        NameKind::Macro => match operator(&target.package, &target.name) {
            Some(known) if known.kind == OperatorKind::Special => OccurrenceKind::SpecialOperator,
            _ => OccurrenceKind::Macro,
        },
        NameKind::SymbolMacro => OccurrenceKind::Variable,
        // A designator names no operator itself.
        NameKind::Other if facts.macro_ => OccurrenceKind::Macro,
        NameKind::Other if facts.function => OccurrenceKind::Function,
        NameKind::Other if facts.variable => OccurrenceKind::Variable,
        NameKind::Other => OccurrenceKind::Datum,
    };
    match found.role {
        _ if target.package == "KEYWORD" => OccurrenceKind::Keyword,
        SyntaxRole::Definition | SyntaxRole::Structure | SyntaxRole::Named => match found.defined {
            Some(Defined::Function) => OccurrenceKind::Function,
            Some(Defined::Macro) => OccurrenceKind::Macro,
            Some(Defined::Variable) => OccurrenceKind::Variable,
            Some(Defined::Class) => OccurrenceKind::Class,
            Some(Defined::Other) if found.role == SyntaxRole::Structure => OccurrenceKind::Class,
            Some(Defined::Other) => OccurrenceKind::Type,
            None => by_operator(),
        },
        SyntaxRole::Class => OccurrenceKind::Class,
        SyntaxRole::Type => OccurrenceKind::Type,
        SyntaxRole::Slot => OccurrenceKind::Slot,
        SyntaxRole::Block => OccurrenceKind::Block,
        _ if local => match found.space {
            Space::Function | Space::Setf => OccurrenceKind::LocalFunction,
            Space::Block | Space::Tag => OccurrenceKind::Block,
            _ => OccurrenceKind::LocalVariable,
        },
        SyntaxRole::Operator | SyntaxRole::Function => match by_operator() {
            OccurrenceKind::Datum => OccurrenceKind::Function,
            kind => kind,
        },
        SyntaxRole::Binding | SyntaxRole::Variable => OccurrenceKind::Variable,
        SyntaxRole::Argument | SyntaxRole::Declaration if found.space == Space::Variable => {
            OccurrenceKind::Variable
        }
        SyntaxRole::Export | SyntaxRole::Import | SyntaxRole::Template => by_operator(),
        _ => OccurrenceKind::Datum,
    }
}

impl OccurrencesAnswer {
    fn of(path: String, file: &PositionedFile, occurrences: Vec<FileOccurrence>, made: Vec<MadeUse>) -> Self {
        let (fresh, sidecar) = (file.is_fresh(), file.sidecar_state());
        Self { path, text: file.text().to_owned(), fresh, sidecar, occurrences, made }
    }

    /// The occurrence at `offset`, a byte of the text; at the end of a token, that token's.
    pub fn at(&self, offset: u32) -> Option<&FileOccurrence> {
        let touching =
            self.occurrences.iter().filter(|found| found.range.start <= offset && offset <= found.range.end);
        touching.max_by_key(|found| found.range.start)
    }
}
