//! Lists every symbol in a file with the kind of thing that it names, the kind of use, and the
//! evidence for both.
//!
//! The compiler's records for the file and its text are read in one pass. Occurrences are
//! classified by the rules of [`super::code_find_references`], which searches all files for one
//! symbol.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::code_find_references::{SymbolNamespaces, UseType, classify_occurrence, is_of_another, use_type};
use super::symbol_uses::{PlacedUse, RecordedUse, SymbolUses};
use crate::answer::designator::FunctionName;
use crate::answer::package_owner::PackageOwner;
use crate::engine::control::Control;
use crate::handle::Error;
use crate::handle::context::QueryContext;
use crate::handle::question::Question;
use crate::source::positions::{
    Evidence, Occurrence, PlaceAccess, Placement, PositionedFile, SidecarState, Space,
};
use crate::source::tap::operators::{Defined, OperatorKind, operator};
use crate::source::tap::roles::SyntaxRole;
use crate::source::tap::sidecar::NameKind;
use crate::workspace::Project;
use steelbank_reader::{Dialect, Features, LispText, Range};
use steelbank_xref::{Index, Kind, NameRole, Symbol, SymbolName};

/// A request for the symbols in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OccurrencesRequest {
    /// The file: an absolute path, or one relative to the project's root.
    pub path: PathBuf,
    /// Whether to read other files that contain the same names. Quoted data or a macro's arguments
    /// may be code, and a name there may be a local variable. Such a place is exact only if no file
    /// has a local variable with this name. If false, such places are approximate.
    pub elsewhere: bool,
    /// Whether to use the text on disk, even if an editor has the document open.
    pub on_disk: bool,
}

impl OccurrencesRequest {
    /// Creates a request for the file at `path` that reads other files as well.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), elsewhere: true, on_disk: false }
    }
}

/// The symbols in a file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct OccurrencesAnswer {
    /// The file as answers show it.
    pub path: String,
    /// The decoded text. If `fresh`, the ranges refer to this text.
    pub text: String,
    /// Whether the image was loaded from this text. Otherwise the ranges refer to the loaded text,
    /// and only the lines are reliable.
    pub fresh: bool,
    /// The state of the file's sidecar. If the sidecar is incomplete, occurrences after its end are
    /// missing.
    pub sidecar: SidecarState,
    /// Sorted by range.
    pub occurrences: Vec<FileOccurrence>,
    /// The uses of user symbols that macros generate, sorted by range. Empty in the answer to an
    /// [`OccurrencesRequest`]; only an export of all files of a project fills it.
    pub generated: Vec<GeneratedUse>,
}

/// A use of a symbol that a macro's expansion generates and that is not in the text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct GeneratedUse {
    /// The macro form.
    pub range: Range,
    /// The symbol.
    pub symbol: SymbolName,
    /// The kind of use.
    pub use_type: UseType,
    /// The macro. Its package is empty if it is not a named symbol.
    pub expander: Option<SymbolName>,
    /// The number of the top-level form that contains the macro form.
    pub form: u32,
}

/// A symbol in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct FileOccurrence {
    /// The token with its package prefix, in bytes of the text.
    pub range: Range,
    /// The name within the token, without the prefix.
    pub name_range: Range,
    /// The symbol, shared by its occurrences.
    pub symbol: Arc<SymbolName>,
    /// The symbol's syntactic role in the form.
    pub role: SyntaxRole,
    /// The kind of thing that the symbol names.
    pub kind: OccurrenceKind,
    /// The kind of use, as in code-find-references. `None` for definitions, local names, LOOP
    /// keywords, and text that SBCL skips.
    pub use_type: Option<UseType>,
    /// Whether the variable, or the place that the slot or accessor names, is read, written or
    /// both.
    pub access: PlaceAccess,
    /// The evidence that the symbol is meant.
    pub evidence: Evidence,
    /// For a local name: the token that binds it, which can be this occurrence itself. `None` for
    /// other names.
    pub binding: Option<Range>,
    /// The number of the top-level form that contains the token.
    pub form: u32,
}

/// The kind of thing that a symbol names at its place.
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
    /// A type, or another kind of definition.
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
    /// Data, or an argument that only a macro can interpret.
    Datum,
}

impl FileOccurrence {
    /// Creates an occurrence with only a position and a symbol. It counts as data
    /// that the reader evaluates, with approximate evidence.
    pub(crate) fn of_datum(range: Range, name_range: Range, symbol: Arc<SymbolName>, form: u32) -> Self {
        Self {
            range,
            name_range,
            symbol,
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
    /// Whether it is a macro or a special operator.
    pub(crate) fn is_macro(self) -> bool {
        matches!(self, Self::Macro | Self::SpecialOperator)
    }
}

/// The error that the file cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{} cannot be read: {source}. {advice}", path.display())]
#[non_exhaustive]
pub struct OccurrencesError {
    /// The file as it was requested.
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
        let now = project.tree_view();
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
            let mut facts = SymbolNamespaces::default();
            let sought = uses.sought();
            files.for_each(|file| uses.occurrences(&file).iter().for_each(|found| facts.add(sought, found)));
            facts
        };
        let elsewhere: &dyn Fn(&SymbolUses<'_>) -> SymbolNamespaces = match self.elsewhere {
            true => &elsewhere,
            false => &|_| SymbolNamespaces { shadowed: true, ..SymbolNamespaces::default() },
        };
        let occurrences = list_occurrences(index, &file, None, records, elsewhere, None, control);
        control.check()?;
        Ok(OccurrencesAnswer::of(project.shown(&path), &file, occurrences, Vec::new()))
    }
}

impl OccurrencesRequest {
    fn unreadable(&self, source: std::io::Error, project: &Project) -> OccurrencesError {
        OccurrencesError { path: self.path.clone(), source, advice: project.path_advice() }
    }
}

/// Lists the symbols of all files of a project. Information about a symbol from other files is
/// collected once.
pub(crate) struct ProjectOccurrences<'a> {
    context: &'a QueryContext<'a>,
    known: HashMap<Symbol, SymbolNamespaces>,
}

impl<'a> ProjectOccurrences<'a> {
    /// Reads all loaded files.
    ///
    /// # Errors
    /// The question was cancelled.
    pub(crate) fn new(context: &'a QueryContext<'a>, control: &Control) -> Result<Self, Error> {
        let (index, project) = (&context.index, context.project);
        let mut known: HashMap<Symbol, SymbolNamespaces> = HashMap::new();
        for (path, date) in project.loaded() {
            control.check()?;
            let Ok(file) = project.positions_on_disk(&path, date) else { continue };
            let symbols = file.symbols().into_iter();
            let symbols = symbols.filter_map(|(package, name)| Some(index.symbol_named(package, name)?.0));
            for symbol in symbols.collect::<HashSet<Symbol>>() {
                let facts = known.entry(symbol).or_default();
                let uses = SymbolUses::new(index, symbol, FunctionName::Plain);
                uses.occurrences(&file).iter().for_each(|found| facts.add(uses.sought(), found));
            }
        }
        Ok(Self { context, known })
    }

    /// Lists the symbols in the file on disk at `path`, a real path.
    ///
    /// # Errors
    /// The file cannot be read, or the question was cancelled.
    pub(crate) fn of(&self, path: &Path, control: &Control) -> Result<OccurrencesAnswer, Error> {
        let (index, project) = (&self.context.index, self.context.project);
        let date = project.loaded_date(path);
        let file = project
            .positions_on_disk(path, date.unwrap_or(0))
            .map_err(|source| OccurrencesRequest::new(path).unreadable(source, project))?;
        let records = date.map(|date| recorded(index, path, date)).unwrap_or_default();
        let mut generated = BTreeSet::new();
        let elsewhere = |uses: &SymbolUses<'_>| self.known.get(&uses.symbol()).copied().unwrap_or_default();
        let occurrences =
            list_occurrences(index, &file, None, records, &elsewhere, Some(&mut generated), control);
        control.check()?;
        let generated = generated
            .into_iter()
            .filter(|generated| !PackageOwner::of(&generated.symbol.package).is_locked())
            .collect();
        Ok(OccurrencesAnswer::of(project.shown(path), &file, occurrences, generated))
    }
}

/// Returns the compiler's records for the version of the file written at `date`, by symbol.
fn recorded(index: &Index, path: &Path, date: u64) -> HashMap<SymbolName, Vec<RecordedUse>> {
    let mut records: HashMap<SymbolName, Vec<RecordedUse>> = HashMap::new();
    for (symbol, role, kind, number) in path.to_str().map(|path| index.uses_in(path)).unwrap_or_default() {
        let found = index.read(number);
        if role.denotes_function() && found.file_written == date {
            records.entry(symbol).or_default().push(RecordedUse::read(found, kind, role == NameRole::Setf));
        }
    }
    records
}

/// Lists the symbols in `file`, incompletely if the question is cancelled. `read`: the parsed text,
/// if the caller has it. `records`: the compiler's records for this file, by symbol. `elsewhere`:
/// returns the namespaces that a symbol is defined or used in by other files. Adds the uses that
/// macros generate to `generated` if it is `Some`.
pub(crate) fn list_occurrences(
    index: &Index,
    file: &PositionedFile,
    read: Option<&LispText>,
    mut records: HashMap<SymbolName, Vec<RecordedUse>>,
    elsewhere: &dyn Fn(&SymbolUses<'_>) -> SymbolNamespaces,
    mut generated: Option<&mut BTreeSet<GeneratedUse>>,
    control: &Control,
) -> Vec<FileOccurrence> {
    let mut seen: HashSet<Symbol> = HashSet::new();
    let mut found = Vec::new();
    for (package, name) in control.until_cancelled(file.symbols()) {
        let Some((symbol, _)) = index.symbol_named(package, name) else {
            // The symbol no longer exists in the image; only the text has it.
            let target = Arc::new(SymbolName::new(package, name));
            let there = file.occurrences(&target, &|other| other == package);
            found.extend(
                there.iter().map(|found| classified(found, &target, SymbolNamespaces::default(), None)),
            );
            continue;
        };
        if seen.insert(symbol) {
            let uses = SymbolUses::new(index, symbol, FunctionName::Plain);
            let records = records.remove(uses.sought()).unwrap_or_default();
            found.extend(of_symbol(index, file, &uses, records, elsewhere, generated.as_deref_mut()));
        }
    }
    if let Some(generated) = generated {
        // The symbols that do not occur in the file's text.
        for (name, records) in records {
            let Some(symbol) = index.named(&name) else { continue };
            let uses = SymbolUses::new(index, symbol, FunctionName::Plain);
            for PlacedUse { recorded, placements } in uses.place(file, &[], records) {
                generated
                    .extend(placements.iter().filter_map(|found| generated_use(&uses, &recorded, found)));
            }
        }
    }
    found.sort_by_key(|found| (found.range, found.symbol.package == "KEYWORD"));
    found.dedup_by_key(|found| found.range);
    found.shrink_to_fit();
    if file.is_fresh() {
        let parse = || LispText::read(file.text().as_bytes(), Dialect::CommonLisp, &Features::sbcl());
        let read = read.map_or_else(|| Cow::Owned(parse()), Cow::Borrowed);
        for found in &mut found {
            if let Some(token) = read.token_at(found.range.start).filter(|token| token.span == found.range) {
                found.name_range = token.name_span();
            }
        }
    }
    found
}

/// Classifies the occurrences of one symbol in `file`.
fn of_symbol(
    index: &Index,
    file: &PositionedFile,
    uses: &SymbolUses<'_>,
    records: Vec<RecordedUse>,
    elsewhere: &dyn Fn(&SymbolUses<'_>) -> SymbolNamespaces,
    mut generated: Option<&mut BTreeSet<GeneratedUse>>,
) -> Vec<FileOccurrence> {
    let (there, target) = (uses.occurrences(file), Arc::new(uses.sought().clone()));
    let used = |kind: &Kind| index.is_used(*kind, uses.symbol(), |role| uses.accepts(role));
    let mut facts = SymbolNamespaces::recorded(&Kind::ALL.into_iter().filter(used).collect());
    there.iter().for_each(|found| facts.add(uses.sought(), found));
    // The first exact record for each range.
    let mut claimed: BTreeMap<Range, (Evidence, UseType)> = BTreeMap::new();
    let mut approximate = BTreeMap::new();
    for PlacedUse { recorded, placements } in uses.place(file, &there, records) {
        for placement in placements.into_iter().filter(|_| !is_of_another(file, &recorded)) {
            match placement.evidence {
                Evidence::Exact => {
                    let claim = (Evidence::Exact, use_type(recorded.kind));
                    claimed.entry(placement.range).or_insert(claim);
                }
                Evidence::Approximate => {
                    approximate.entry(placement.range).or_insert(use_type(recorded.kind));
                }
                Evidence::Via => {
                    generated
                        .iter_mut()
                        .for_each(|generated| generated.extend(generated_use(uses, &recorded, &placement)));
                }
            }
        }
    }
    let mut combined = None;
    there
        .iter()
        .map(|found| {
            if let Some(&claim) = claimed.get(&found.range) {
                return classified(found, &target, facts, Some(claim));
            }
            // Read other files only if they can change the result.
            let unsure = SymbolNamespaces { shadowed: true, ..facts };
            let sure = SymbolNamespaces { shadowed: false, ..facts };
            let facts = match classify_occurrence(found, unsure) == classify_occurrence(found, sure) {
                true => facts,
                false => *combined.get_or_insert_with(|| {
                    let other = elsewhere(uses);
                    facts.or(other)
                }),
            };
            let maybe = approximate.get(&found.range).map(|&use_type| (Evidence::Approximate, use_type));
            let clear = classify_occurrence(found, facts).is_some_and(|(_, sure)| sure && file.is_fresh());
            classified(found, &target, facts, maybe.filter(|_| !clear))
        })
        .map(|mut found| {
            if !file.is_fresh() {
                found.evidence = Evidence::Approximate;
            }
            found
        })
        .collect()
}

fn generated_use(uses: &SymbolUses<'_>, recorded: &RecordedUse, found: &Placement) -> Option<GeneratedUse> {
    (found.evidence == Evidence::Via).then(|| GeneratedUse {
        range: found.range,
        symbol: uses.sought().clone(),
        use_type: use_type(recorded.kind),
        expander: found.expander.clone(),
        form: recorded.form.unwrap_or(0),
    })
}

/// Creates the entry for an occurrence. `claim`: the evidence and the kind of use of the compiler's
/// record that was placed on it, if there is one.
fn classified(
    found: &Occurrence,
    target: &Arc<SymbolName>,
    facts: SymbolNamespaces,
    claim: Option<(Evidence, UseType)>,
) -> FileOccurrence {
    let known = claim.map(|(evidence, use_type)| (use_type, evidence == Evidence::Exact));
    let known = known.or_else(|| classify_occurrence(found, facts));
    let names_it = matches!(found.role, SyntaxRole::Definition | SyntaxRole::Structure | SyntaxRole::Named);
    let local = known.is_none() && !names_it && found.role != SyntaxRole::LoopKeyword;
    FileOccurrence {
        range: found.range,
        name_range: found.range,
        symbol: Arc::clone(target),
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

/// Returns the kind of thing that a symbol names at its place.
fn kind(found: &Occurrence, target: &SymbolName, facts: SymbolNamespaces, local: bool) -> OccurrenceKind {
    let by_operator = || match found.operator {
        NameKind::Function => OccurrenceKind::Function,
        NameKind::Macro => match operator(&target.package, &target.name) {
            Some(known) if known.kind == OperatorKind::Special => OccurrenceKind::SpecialOperator,
            _ => OccurrenceKind::Macro,
        },
        NameKind::SymbolMacro => OccurrenceKind::Variable,
        // Only a token that is called or expanded has an operator kind. A function designator or an
        // exported name, for example, has none.
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
    fn of(
        path: String,
        file: &PositionedFile,
        occurrences: Vec<FileOccurrence>,
        generated: Vec<GeneratedUse>,
    ) -> Self {
        let (fresh, sidecar) = (file.is_fresh(), file.sidecar_state());
        Self { path, text: file.text().to_owned(), fresh, sidecar, occurrences, generated }
    }
}
