//! who-calls, who-references and their family: which code does what to a symbol. Answered from the index alone.

mod text;
pub(crate) mod tool;

use super::code_find_references::{
    CodeFindReferencesRequest, Facts, UseType, code_find_references, shown_expander, unrecorded,
};
use super::symbol_uses::SymbolUses;
use super::unseen::{SoughtSymbol, Unseen, text_counts};
use crate::answer::designator::DesignatorError;
use crate::answer::lookup::{Asked, LookupStatus, NamedSymbol};
use crate::answer::{Caution, LispName, Location, OtherText};
use crate::engine::control::Control;
use crate::handle::Error;
use crate::handle::context::QueryContext;
use crate::handle::question::Question;
use crate::source::positions::{Evidence, PlaceAccess};
use crate::source::sbcl::SbclSources;
use crate::workspace::{FileVersion, Now, Project};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;
use steelbank_reader::Range;
use steelbank_xref::{Access, Index, Kind, NameRole};

mod referrers;

pub use referrers::{CalledName, Iter, RecordedPlace, Referrer, Referrers};

/// A request for the code that uses a symbol in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhoRequest {
    /// The kind of use.
    pub kind: Kind,
    /// The symbol.
    pub symbol: NamedSymbol,
    /// How much detail the answer has about places.
    pub places: PlaceDetail,
    /// How many functions to list at most.
    pub limit: usize,
    /// How many functions to skip.
    pub offset: usize,
}

/// The detail that an answer has about places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlaceDetail {
    /// Files and form numbers, as the compiler recorded them. Reads no source.
    #[default]
    Recorded,
    /// Lines and columns too, as far as the sources can be read.
    Lines,
    /// Lines and columns for the first functions, at most so many.
    LinesUpTo(usize),
}

impl WhoRequest {
    /// Makes a request about `name`, without lines. It is looked up in CL-USER, or else in the only one of the user's
    /// packages that has it.
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self {
            kind,
            symbol: NamedSymbol { name: name.into(), package: None },
            places: PlaceDetail::Recorded,
            limit: usize::MAX,
            offset: 0,
        }
    }

    /// Makes a request for the callers of `name`.
    pub fn calls(name: impl Into<String>) -> Self {
        Self::new(Kind::Calls, name)
    }

    /// Lists at most `limit` functions.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the detail about places.
    #[must_use]
    pub fn places(mut self, places: PlaceDetail) -> Self {
        self.places = places;
        self
    }

    /// Looks the name up in `package` instead.
    #[must_use]
    pub fn package(mut self, package: impl Into<String>) -> Self {
        self.symbol.package = Some(package.into());
        self
    }

    /// Answers from the index alone: without lines, and without code outside of functions.
    ///
    /// # Errors
    /// The name cannot be read. A symbol or package that does not exist is an answer.
    pub fn answer_from_index(&self, index: &Index) -> Result<WhoAnswer, DesignatorError> {
        self.answer_with(index, &Project::new(None), &SbclSources::new(None))
    }

    fn answer_with(
        &self,
        index: &Index,
        project: &Project,
        sbcl: &SbclSources,
    ) -> Result<WhoAnswer, DesignatorError> {
        let lookup = self.symbol.lookup(index)?;
        let mut answer = WhoAnswer {
            kind: self.kind,
            status: LookupStatus::Found,
            asked: lookup.asked,
            looked_up_in: lookup.looked_up_in,
            symbol: None,
            count: 0,
            users: Referrers::default(),
            toplevel: Vec::new(),
            unseen: Unseen::default(),
            elsewhere: Vec::new(),
            cautions: Vec::new(),
        };
        let (symbol, access) = match lookup.found {
            Ok(found) => found,
            Err(status) => {
                answer.status = status;
                let target = SoughtSymbol::missing(index, &answer.asked, lookup.package);
                let mut text = text_counts(index, project, &project.now(), &target);
                answer.cautions = std::mem::take(&mut text.cautions);
                answer.unseen = text.unseen_with_definitions();
                return Ok(answer);
            }
        };
        let now = project.now();
        let uses = SymbolUses::new(index, symbol, lookup.function_name);
        let all = index.who_numbers(self.kind, symbol, |role| uses.accepts(role));
        let setf = match uses.accepts(NameRole::Plain) {
            true => index.who_numbers(self.kind, symbol, |role| role == NameRole::Setf),
            false => Vec::new(),
        };
        answer.users = Referrers::new(index, all, &setf);
        answer.count = answer.users.len();
        answer.users.keep(self.offset, self.limit);
        answer.symbol = Some(QueriedSymbol {
            text: uses.name(),
            name: uses.sought().name.clone(),
            package: index.home_name(symbol),
            accessibility: access,
        });
        let lines = match self.places {
            PlaceDetail::Recorded => 0,
            PlaceDetail::Lines => usize::MAX,
            PlaceDetail::LinesUpTo(most) => most,
        };
        self.locate(&mut answer, &uses, project, &now, sbcl, lines);
        let mut text = text_counts(index, project, &now, &SoughtSymbol::of(&uses));
        answer.cautions.append(&mut text.cautions);
        answer.unseen = text.unseen();
        // A variable is set in scripts and configuration, too.
        if subject(self.kind) == subject(Kind::References)
            && !uses.is_standard()
            && let Some(words) = uses.words(project, &now).filter(|words| !words.is_empty())
        {
            answer.cautions.push(Caution::OtherText(OtherText::new(&words)));
        }
        if answer.count == 0 && answer.toplevel.is_empty() {
            let others = Kind::ALL.into_iter().filter(|&kind| subject(kind) != subject(self.kind));
            answer.elsewhere = others
                .map(|kind| Elsewhere { kind, count: index.count(kind, symbol, |role| uses.accepts(role)) })
                .filter(|elsewhere| elsewhere.count > 0)
                .collect();
        }
        Ok(answer)
    }

    /// Adds the uses by top-level code, and the lines and columns of the first `lines` functions.
    fn locate(
        &self,
        answer: &mut WhoAnswer,
        uses: &SymbolUses<'_>,
        project: &Project,
        now: &Now,
        sbcl: &SbclSources,
        lines: usize,
    ) {
        let mut files: BTreeSet<FileVersion> = BTreeSet::new();
        files.extend(answer.users.recorded(lines).filter_map(|place| place.version()));
        files.extend(project.naming_at_toplevel(&uses.sought().name));
        // The compiler keeps no record of the macros that top-level forms expand: only the text has them.
        let calls = || uses.recorded(|_, _| false).kinds.contains(&Kind::Calls);
        let macros = self.kind == Kind::Macroexpands && uses.with_text() && !calls();
        if macros {
            files.extend(project.naming(&uses.sought().name));
        }
        // No function is recorded as a caller where code asks for another by its name: (fdefinition 'f).
        let by_name = lines > 0 && self.kind == Kind::Calls && uses.with_text() && !uses.is_standard();
        if by_name {
            files.extend(project.naming(&uses.sought().name));
        }
        let found = self.positions(uses, project, now, &files, macros);
        answer.toplevel = found.toplevel;
        if lines == 0 {
            return;
        }
        if by_name && !found.by_name.is_empty() {
            answer.cautions.push(Caution::NamedAsFunction(found.by_name));
        }
        answer
            .users
            .add(found.more, |place| Some((place.version()?, place.toplevel_form, place.form_number)));
        let mut own = sbcl.places();
        answer.users.locate(lines, |place| match place.version() {
            Some(version) => found.recorded.get(&(version, place.toplevel_form, place.form_number)).cloned(),
            // Of SBCL's own code, the start of the top-level form is all that is known.
            None => {
                let file = place.file.as_deref()?;
                let at = Location::new(project.shown(Path::new(file)))
                    .at(own.form_after(file, place.octet_offset?)?);
                Some(Position { place: at, evidence: Evidence::Approximate, via: None, stale: false })
            }
        });
    }

    /// Finds where all uses of the kind in `files` stand: for each the surest place if there are several.
    fn positions(
        &self,
        uses: &SymbolUses<'_>,
        project: &Project,
        now: &Now,
        files: &BTreeSet<FileVersion>,
        macros: bool,
    ) -> LocatedUses {
        let mut located = LocatedUses::default();
        if files.is_empty() {
            return located;
        }
        let wanted =
            |path: &Path, write_date| files.contains(&FileVersion { path: path.to_path_buf(), write_date });
        let recorded = uses.recorded(wanted);
        let mut facts = Facts::recorded(&recorded.kinds);
        let mut recorded = recorded.files;
        for version in files {
            recorded.entry(version.clone()).or_default();
        }
        for (version, recorded) in recorded {
            if !project.is_current(&version.path, version.write_date) {
                continue;
            }
            let Ok(file) = project.positions_at(now, &version.path, version.write_date) else { continue };
            let shown = project.shown(&version.path);
            let at = |range| {
                let evidence = if file.is_fresh() { Evidence::Exact } else { Evidence::Approximate };
                let place = Location::placed(&shown, &file, range);
                Position { place, evidence, via: None, stale: !file.is_fresh() }
            };
            let at_toplevel = |position, range| TopLevelUse { position, context: file.line_at(range) };
            let occurrences = uses.occurrences(&file);
            occurrences.iter().for_each(|found| facts.add(found));
            // Where the exact ones begin, each in its top-level form: none for uses by top-level code.
            let mut begins: BTreeMap<(u32, u32), Option<UseKey>> = BTreeMap::new();
            let mut more: Vec<(Range, Option<UseKey>)> = Vec::new();
            let mut taken: HashSet<u32> = HashSet::new();
            for placed in uses.place(&file, &occurrences, recorded) {
                taken.extend(placed.placements.iter().map(|found| found.range.start));
                let recorded = &placed.recorded;
                let surest = placed.placements.iter().min_by_key(|placement| placement.evidence);
                let (Some(surest), true) = (surest, recorded.kind == self.kind) else { continue };
                let (evidence, via) = (surest.evidence, shown_expander(surest));
                let position = Position { evidence, via, ..at(surest.range) };
                let key = (version.clone(), recorded.form, recorded.number);
                if let (Evidence::Exact, Some(form)) = (evidence, recorded.form) {
                    let user = (!recorded.toplevel).then(|| key.clone());
                    // One record may stand for several places in its form.
                    let others = placed.placements.iter().filter(|found| found.evidence == Evidence::Exact);
                    more.extend(others.map(|found| (found.range, user.clone())));
                    begins.insert((form, surest.range.start), user);
                }
                if recorded.toplevel {
                    located.toplevel.push(at_toplevel(position, surest.range));
                } else {
                    located.recorded.entry(key).or_insert(position);
                }
            }
            let is_first = |range: &Range| begins.keys().any(|(_, start)| *start == range.start);
            more.retain(|(range, _)| !is_first(range));
            let rest = occurrences.iter().filter(|found| !taken.contains(&found.range.start));
            for found in rest.filter(|_| file.is_fresh()) {
                let place = Location::placed(&shown, &file, found.range);
                match unrecorded(found, facts) {
                    // SBCL records a variable once for each function: the others follow the one that is recorded.
                    Some((UseType::Reference, true)) if self.accesses(found.access) => {
                        let before = begins.range((found.form, 0)..(found.form, found.range.start));
                        more.extend(before.last().map(|(_, user)| (found.range, user.clone())));
                    }
                    Some((UseType::Function, true)) if self.kind == Kind::Calls => {
                        located.by_name.push(place);
                    }
                    _ => (),
                }
            }
            for (range, user) in more {
                match user {
                    Some(key) => located.more.entry(key).or_default().push(at(range)),
                    None => located.toplevel.push(at_toplevel(at(range), range)),
                }
            }
            let operators = if macros { uses.toplevel_operators(&file) } else { Vec::new() };
            for range in operators.into_iter().filter(|range| !taken.contains(&range.start)) {
                located.toplevel.push(at_toplevel(at(range), range));
            }
        }
        located.toplevel.sort();
        located.toplevel.dedup();
        located
    }

    /// Whether the kind of use is one that `access` is.
    fn accesses(&self, access: PlaceAccess) -> bool {
        match self.kind {
            Kind::References => access != PlaceAccess::Write,
            Kind::Sets => access != PlaceAccess::Read,
            _ => false,
        }
    }

    /// Counts the lines that write the slot or place that the symbol names, where it can be one: no variable, and code writes it with
    /// SETF, or no record has the symbol, as none has a slot's name.
    fn written_lines(&self, context: &QueryContext<'_>, answer: &WhoAnswer) -> Option<usize> {
        let lookup = self.symbol.lookup(&context.index).ok()?;
        let (symbol, _) = lookup.found.ok()?;
        let index = &context.index;
        let is_variable =
            || [Kind::Binds, Kind::References].iter().any(|&kind| index.count(kind, symbol, |_| true) > 0);
        let by_setf = || index.count(Kind::Calls, symbol, |role| role == NameRole::Setf) > 0;
        let may_be_place = || !is_variable() && (answer.elsewhere.is_empty() || by_setf());
        let uses = SymbolUses::new(index, symbol, lookup.function_name);
        if uses.is_standard() || self.places == PlaceDetail::Recorded || !may_be_place() {
            return None;
        }
        let request = CodeFindReferencesRequest {
            package: self.symbol.package.clone(),
            written: true,
            project_only: context.project.root().is_some(),
            limit: 0,
            ..CodeFindReferencesRequest::new(self.symbol.name.as_str())
        };
        let written = code_find_references(context, &request).ok()?;
        (written.total > 0).then_some(written.total)
    }
}

impl Question for WhoRequest {
    type Answer = WhoAnswer;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<WhoAnswer, Error> {
        control.check()?;
        let context = &*context.with_sidecar_symbol(&self.symbol);
        let mut answer = self.answer_with(&context.index, context.project, context.sbcl)?;
        if self.kind == Kind::Sets && answer.count == 0 && answer.toplevel.is_empty() {
            answer.cautions.extend(self.written_lines(context, &answer).map(Caution::Written));
        }
        Ok(answer)
    }
}

/// The answer: each function once, sorted by the symbol under which it is filed, then by its printed name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct WhoAnswer {
    /// What the code listed does.
    pub kind: Kind,
    /// Whether the symbol was found.
    pub status: LookupStatus,
    /// What was looked up.
    pub asked: Asked,
    /// The package in which the name was looked up, if nobody named it.
    #[serde(skip)]
    pub looked_up_in: Option<String>,
    /// The symbol, if it was found.
    pub symbol: Option<QueriedSymbol>,
    /// How many functions there are, those left out included.
    pub count: usize,
    /// The functions.
    #[schemars(with = "Vec<Referrer<'static>>")]
    pub users: Referrers,
    /// Uses by code outside of functions, by path and line.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub toplevel: Vec<TopLevelUse>,
    /// Where the name stands in text that the image does not have as it stands on disk: whether it is used so there is
    /// not known.
    #[serde(skip_serializing_if = "Unseen::is_empty", default)]
    pub unseen: Unseen,
    /// If nothing does what was asked: what is done with the symbol as another kind of thing.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub elsewhere: Vec<Elsewhere>,
    /// What the answer cannot cover.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schemars(with = "Vec<String>")]
    pub cautions: Vec<Caution>,
}

/// A use by code outside of functions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct TopLevelUse {
    /// Where it stands.
    #[serde(flatten)]
    pub position: Position,
    /// The line's text.
    pub context: String,
}

/// How many functions do something else with the symbol than was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Elsewhere {
    /// What they do.
    pub kind: Kind,
    /// How many.
    pub count: usize,
}

/// The symbol that an answer is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct QueriedSymbol {
    /// The symbol, or the list that was asked for.
    pub text: LispName,
    /// The symbol's name.
    pub name: String,
    /// The home package's name; none if the symbol has no home.
    pub package: Option<String>,
    /// How the symbol is accessible in the package that it was looked up in.
    pub accessibility: Access,
}

/// A place in a source file, and how sure it is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Position {
    /// The place.
    #[serde(flatten)]
    pub place: Location,
    /// How sure the place is. In SBCL's own sources it is the start of the top-level form, so `approximate`.
    pub evidence: Evidence,
    /// For evidence `via`: the operator whose expansion makes the use.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub via: Option<String>,
    /// The file has changed since it was loaded, so that lines may have moved.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub stale: bool,
}

/// A recorded use: the file's version, and the numbers of the top-level form and of the form in it.
type UseKey = (FileVersion, Option<u32>, Option<u32>);

/// Where uses stand.
#[derive(Default)]
struct LocatedUses {
    /// The uses by functions.
    recorded: HashMap<UseKey, Position>,
    /// Further uses by the function that makes a recorded one.
    more: HashMap<UseKey, Vec<Position>>,
    /// Where the function is named and not called.
    by_name: Vec<Location>,
    toplevel: Vec<TopLevelUse>,
}

/// Numbers the namespace of a kind of use: functions, macros, variables or classes.
fn subject(kind: Kind) -> u8 {
    match kind {
        Kind::Calls => 0,
        Kind::Macroexpands => 1,
        Kind::Binds | Kind::References | Kind::Sets => 2,
        Kind::Specializes => 3,
    }
}
