//! The list of functions in an answer of the who family.
//!
//! There can be thousands of functions, so those with recorded uses are stored as numbers in the
//! index until they are read. Functions without recorded uses are stored by name and merged into
//! the list.

use super::Position;
use crate::actions::uses::code_find_references::SingleUse;
use crate::actions::uses::symbol_uses::{SymbolUses, compiled_from};
use crate::answer::designator::PrintedName;
use crate::answer::name::canonical;
use crate::answer::{LispName, Location};
use crate::source::positions::Evidence;
use crate::source::sbcl::SbclPlaces;
use crate::workspace::Project;
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;
use steelbank_xref::{FunctionKind, Index, Kind, NameRole, UseNumber};

/// The functions of an answer, each once, sorted by the symbol in the name, then by the printed
/// name.
///
/// ```no_run
/// # use steelbank::{Control, WhoRequest};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let bank = steelbank::Steelbank::builder().start()?;
/// let answer = bank.ask(&WhoRequest::calls("cl:mapcar"), &Control::default())?;
/// for user in &answer.users {
///     println!("{}: {} uses", user.name, user.uses);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Users {
    /// `None` if the symbol does not exist.
    index: Option<Index>,
    entries: Vec<Entry>,
}

/// A function of an answer.
#[derive(Clone)]
struct Entry {
    function: Function,
    uses: usize,
    called: SetfUse,
    position: Option<Position>,
    others: Vec<Location>,
}

#[derive(Clone)]
enum Function {
    /// A function with recorded uses, by the number of the first recorded use.
    Recorded(UseNumber),
    /// A function without recorded uses, or a test, by its printed name. `recorded`: whether the
    /// compiler recorded a use in the test's code.
    Text { name: String, recorded: bool },
}

/// Whether a use is of F, of `(SETF F)`, or of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SetfUse {
    /// F itself.
    #[default]
    Itself,
    /// Only `(SETF F)`.
    #[serde(rename = "only")]
    Setf,
    /// F and `(SETF F)`.
    #[serde(rename = "too")]
    Both,
}

impl SetfUse {
    pub(super) fn is_itself(&self) -> bool {
        *self == Self::Itself
    }

    /// Combines this value with that of another use.
    fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Both }
    }
}

/// The first use with the strongest evidence in a function, and the places of all uses there.
struct Located {
    position: Position,
    places: Vec<Location>,
    called: SetfUse,
    recorded: bool,
}

impl Located {
    fn entry(self, function: Function) -> Entry {
        let Self { position, mut places, called, .. } = self;
        let uses = places.len();
        places.retain(|place| *place != position.place);
        places.sort();
        places.dedup();
        Entry { function, uses, called, position: Some(position), others: places }
    }
}

impl Users {
    /// Lists the functions with uses that the compiler recorded.
    pub(super) fn recorded(index: &Index, kind: Kind, uses: &SymbolUses<'_>) -> Self {
        let numbers = index.who_numbers(kind, uses.symbol(), |role| uses.accepts(role));
        let of_setf = |role| role == NameRole::Setf && uses.accepts(NameRole::Plain);
        let setf: HashSet<UseNumber> = index.who_numbers(kind, uses.symbol(), of_setf).into_iter().collect();
        let mut entries = Vec::new();
        let mut start = 0;
        for end in index.function_ends(&numbers) {
            let group = &numbers[start..end];
            start = end;
            let Some(&first) = group.first() else { continue };
            // A use of both names appears twice with one number.
            let of_setf =
                if setf.is_empty() { 0 } else { group.iter().filter(|use_| setf.contains(use_)).count() };
            let called = match of_setf {
                0 => SetfUse::Itself,
                _ if of_setf == group.len() => SetfUse::Setf,
                _ => SetfUse::Both,
            };
            let uses = group.chunk_by(|one, other| one == other).count();
            let function = Function::Recorded(first);
            entries.push(Entry { function, uses, called, position: None, others: Vec::new() });
        }
        Self { index: Some(index.clone()), entries }
    }

    /// Adds the places that the search found, and the functions without a recorded use.
    pub(super) fn locate(
        &mut self,
        found: &[&SingleUse],
        uses: &SymbolUses<'_>,
        sbcl: &mut SbclPlaces<'_>,
        project: &Project,
    ) {
        let Some(index) = self.index.clone() else { return };
        let mut located: HashMap<&str, Located> = HashMap::new();
        for used in found {
            let Some(caller) = used.found.caller.as_deref() else { continue };
            let position = used.position();
            let called = if uses.with_text() { used.found.called } else { SetfUse::Itself };
            let known = located.entry(caller).or_insert_with(|| Located {
                position: position.clone(),
                places: Vec::new(),
                called,
                recorded: false,
            });
            known.places.push(position.place.clone());
            known.recorded |= used.found.recorded;
            known.called = known.called.and(called);
            if (position.evidence, &position.place) < (known.position.evidence, &known.position.place) {
                known.position = position;
            }
        }
        for entry in &mut self.entries {
            let Function::Recorded(number) = entry.function else { continue };
            let place = index.place(number);
            // For SBCL's own code, only the start of the top-level form is known.
            if let Some(file) = place.file.as_deref().filter(|file| file.starts_with("SYS:")) {
                entry.position = place.offset.and_then(|offset| sbcl.form_after(file, offset)).map(|at| {
                    let place = Location::new(project.shown(Path::new(file))).at(at);
                    Position { place, evidence: Evidence::Approximate, via: None, stale: false }
                });
            } else if !located.is_empty()
                && let Some(known) = located.remove(&*index.function_name(number))
            {
                *entry = known.entry(Function::Recorded(number));
            }
        }
        // Tests replace the unnamed functions that contain their code.
        let is_in_text = |name: &str, number: UseNumber| {
            let is_listed = |used: &&&SingleUse| !used.found.recorded || index.place(number).file.is_some();
            let mut users = found.iter().filter(is_listed);
            users.any(|used| compiled_from(name, &project.native(&used.found.place.file)))
        };
        self.entries.retain(|entry| match (&entry.function, &entry.position) {
            (Function::Recorded(number), None) => !is_in_text(&index.function_name(*number), *number),
            _ => true,
        });
        self.entries.extend(located.into_iter().map(|(name, known)| {
            let function = Function::Text { name: name.to_owned(), recorded: known.recorded };
            known.entry(function)
        }));
        if self.entries.iter().any(|entry| matches!(entry.function, Function::Text { .. })) {
            let mut entries = std::mem::take(&mut self.entries);
            entries.sort_by_cached_key(|entry| self.key(entry));
            self.entries = entries;
        }
    }

    /// Returns the sort key of an entry: the symbol in its name, as printed, then the name.
    fn key(&self, entry: &Entry) -> (String, String) {
        let name = self.name(entry).into_owned();
        let symbol = match (&entry.function, &self.index) {
            (Function::Recorded(number), Some(index)) => {
                index.read(*number).symbol.map(|symbol| match symbol.package {
                    Some(package) => canonical(&package, &symbol.name),
                    None => symbol.name.into_owned(),
                })
            }
            _ => None,
        };
        (symbol.unwrap_or_else(|| PrintedName::parse(&name).symbol().to_owned()), name)
    }

    fn name<'a>(&'a self, entry: &'a Entry) -> Cow<'a, str> {
        match (&entry.function, &self.index) {
            (Function::Recorded(number), Some(index)) => index.function_name(*number),
            (Function::Text { name, .. }, _) => Cow::Borrowed(name),
            (Function::Recorded(_), None) => Cow::Borrowed(""),
        }
    }

    /// Returns the number of functions.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the function with this number, counted from 0.
    pub fn get(&self, number: usize) -> Option<User<'_>> {
        let (index, entry) = (self.index.as_ref()?, self.entries.get(number)?);
        let (symbol, kind, recorded) = match &entry.function {
            Function::Recorded(number) => {
                let first = index.read(*number);
                (first.symbol, first.kind, true)
            }
            Function::Text { recorded, .. } => (None, FunctionKind::Function, *recorded),
        };
        let (symbol, package) = symbol.map_or((None, None), |symbol| (Some(symbol.name), symbol.package));
        Some(User {
            name: LispName::new(index, self.name(entry)),
            symbol,
            package,
            kind,
            position: entry.position.clone(),
            others: entry.others.clone(),
            uses: entry.uses,
            called: entry.called,
            recorded,
        })
    }

    /// Iterates over the functions in order.
    pub fn iter(&self) -> impl Iterator<Item = User<'_>> {
        (0..self.len()).filter_map(|number| self.get(number))
    }

    /// Iterates over the canonical names of the functions in order.
    pub fn names(&self) -> impl Iterator<Item = Cow<'_, str>> {
        self.entries.iter().map(|entry| self.name(entry))
    }

    /// Removes all functions except those with the numbers in `range`.
    pub(super) fn keep(&mut self, range: std::ops::Range<usize>) {
        self.entries.truncate(range.end);
        self.entries.drain(..range.start);
    }
}

impl User<'_> {
    /// Returns the places of all uses, as far as they are known.
    pub fn places(&self) -> impl Iterator<Item = &Location> {
        self.position.iter().map(|at| &at.place).chain(&self.others)
    }

    /// Whether the place is in SBCL's own sources.
    pub(super) fn is_in_sbcl(&self) -> bool {
        self.position.as_ref().is_some_and(|at| at.place.file.starts_with("SYS:"))
    }
}

impl<'a> IntoIterator for &'a Users {
    type Item = User<'a>;
    type IntoIter = Box<dyn Iterator<Item = User<'a>> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

impl PartialEq for Users {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Users {}

impl fmt::Debug for Users {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self).finish()
    }
}

impl Serialize for Users {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self)
    }
}

/// A function that uses the symbol in the requested way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct User<'a> {
    /// The name: `shop:total`, `(setf shop:price)`, `(method shop:total (shop:cart))`.
    pub name: LispName,
    /// The name of the symbol in the function's name. `None` if there is none, or if no use is
    /// recorded.
    pub symbol: Option<Cow<'a, str>>,
    /// The home package of this symbol.
    pub package: Option<Cow<'a, str>>,
    /// The kind of function. Always `Function` if no use is recorded.
    pub kind: FunctionKind,
    /// The place of the first use with the strongest evidence. `None`: the place is unknown, as for
    /// a function that was compiled without a file, or the request did not ask for places.
    #[serde(flatten)]
    pub position: Option<Position>,
    /// The places of the other uses.
    #[serde(skip)]
    pub others: Vec<Location>,
    /// The number of uses in the function.
    pub uses: usize,
    /// Whether the function uses F, `(SETF F)` or both, if the request was for F.
    #[serde(skip_serializing_if = "SetfUse::is_itself")]
    pub called: SetfUse,
    /// Whether the compiler recorded a use. Otherwise only the text shows it.
    pub recorded: bool,
}
