//! who-calls, who-references and their family: which code does what to a symbol. Answered from the index alone.

use super::code_find_references::{Certainty, certainty};
use super::designator::DesignatorError;
use super::lookup::{Asked, DEFAULT_PACKAGE, Lookup, LookupStatus};
use super::project::{Project, Version};
use super::uses::SymbolUses;
use crate::source::sbcl::{SbclSources, SourceFile};
use crate::xref::{Access, FunctionKind, Index, Kind, Use};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;

/// The question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhoRequest {
    /// What the code looked for does.
    pub kind: Kind,
    /// The name, as [`super::designator`] reads it.
    pub name: String,
    /// The package in which the name is looked up.
    pub package: String,
}

impl WhoRequest {
    /// The question `kind` about `name` in CL-USER.
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into(), package: DEFAULT_PACKAGE.to_owned() }
    }

    /// The same question with the name looked up in `package`.
    #[must_use]
    pub fn package(mut self, package: impl Into<String>) -> Self {
        self.package = package.into();
        self
    }

    /// The answer.
    ///
    /// # Errors
    /// Only if the name cannot be read. A symbol or package that does not exist is an answer.
    pub fn answer(&self, index: &Index) -> Result<WhoAnswer, DesignatorError> {
        let lookup = Lookup::new(index, &self.name, &self.package)?;
        let (symbol, access) = match lookup.found {
            Ok(found) => found,
            Err(status) => {
                return Ok(WhoAnswer {
                    kind: self.kind,
                    status,
                    asked: lookup.asked,
                    symbol: None,
                    count: 0,
                    users: Vec::new(),
                });
            }
        };
        let uses = SymbolUses::new(index, symbol, lookup.of);
        let users = group(index.who(self.kind, symbol, |role| uses.accepts(role)));
        Ok(WhoAnswer {
            kind: self.kind,
            status: LookupStatus::Found,
            asked: lookup.asked,
            symbol: Some(Subject {
                text: uses.text(),
                name: uses.sought().name.clone(),
                package: index.symbol_package(symbol).map(|package| index.package_name(package).into_owned()),
                accessibility: access,
            }),
            count: users.len(),
            users,
        })
    }

    /// Adds lines and columns to the places of `answer`, this question's, as far as their files can be read.
    pub fn locate(&self, answer: &mut WhoAnswer, index: &Index, project: &Project, sbcl: &SbclSources) {
        let Ok(lookup) = Lookup::new(index, &self.name, &self.package) else { return };
        let Ok((symbol, _)) = lookup.found else { return };
        let uses = SymbolUses::new(index, symbol, lookup.of);
        let places = || answer.users.iter().flat_map(|user| &user.places);
        let files: BTreeSet<Version> = places().filter_map(Place::version).collect();
        let found = positions(&uses, project, &files);
        let mut own = HashMap::new();
        for place in answer.users.iter_mut().flat_map(|user| &mut user.places) {
            place.position = match place.version() {
                Some(version) => {
                    found.get(&(version, self.kind, place.toplevel_form, place.form_number)).cloned()
                }
                None => place.file.as_ref().and_then(|file| {
                    let source =
                        own.entry(file.clone()).or_insert_with(|| SourceFile::read(&sbcl.native(file)?));
                    toplevel_position(source.as_ref()?, place.octet_offset?)
                }),
            };
        }
    }
}

/// The answer: each function once, sorted by the symbol under which it is filed, then by its printed name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WhoAnswer {
    /// What the code listed does.
    pub kind: Kind,
    /// Whether the symbol was found.
    pub status: LookupStatus,
    /// What was looked up.
    pub asked: Asked,
    /// The symbol, if it was found.
    pub symbol: Option<Subject>,
    /// How many functions there are.
    pub count: usize,
    /// The functions.
    pub users: Vec<User>,
}

/// The symbol that an answer is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Subject {
    /// As it is printed: home package, two colons, name; inside a list if one was asked for.
    pub text: String,
    /// The symbol's name.
    pub name: String,
    /// The home package's name; none if the symbol has no home.
    pub package: Option<String>,
    /// How the symbol is accessible in the package that it was looked up in.
    pub accessibility: Access,
}

/// A function that does what was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct User {
    /// The printed name: `PACKAGE::NAME`, `(SETF PACKAGE::NAME)`, `(METHOD PACKAGE::NAME (PACKAGE::CLASS))`.
    pub name: String,
    /// The name of the symbol under which the function is filed.
    pub symbol: Option<String>,
    /// That symbol's home package.
    pub package: Option<String>,
    /// What the function is.
    pub kind: FunctionKind,
    /// Where in the function it happens.
    pub places: Vec<Place>,
}

/// One place in a source file, as the compiler recorded it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// A native path, or a logical name such as `SYS:SRC;CODE;LIST.LISP`; none for code that came from no file.
    pub file: Option<String>,
    /// The number of the top-level form in the file, from 0.
    pub toplevel_form: Option<u32>,
    /// Where that form starts: octets before it and the white space in front of it.
    pub octet_offset: Option<u32>,
    /// Which form inside the top-level form it is, counted depth first from 0.
    pub form_number: Option<u32>,
    /// When the file had been written that the code was compiled from, as a universal time.
    pub file_written: Option<u64>,
    /// The line and column, where [`WhoRequest::locate`] found them.
    #[serde(flatten)]
    pub position: Option<Position>,
}

/// A line and column in a source file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Position {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
    /// How sure the place is. In SBCL's own sources it is the start of the top-level form, so `approximate`.
    pub evidence: Certainty,
    /// For evidence `via`: the operator whose expansion makes the use.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub via: Option<String>,
    /// The file has changed since it was loaded, so that lines may have moved.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub stale: bool,
}

impl Place {
    /// The version of the user's file that it is in; none for SBCL's own.
    fn version(&self) -> Option<Version> {
        let file = self.file.as_ref().filter(|file| !file.starts_with("SYS:"))?;
        Some((PathBuf::from(file), self.file_written?))
    }
}

/// A place by file, kind of use, and numbers of the forms.
type PlaceKey = (Version, Kind, Option<u32>, Option<u32>);

/// Where all uses in `files` stand: for each the surest place if there are several.
fn positions(
    uses: &SymbolUses<'_>,
    project: &Project,
    files: &BTreeSet<Version>,
) -> HashMap<PlaceKey, Position> {
    let mut positions = HashMap::new();
    if files.is_empty() {
        return positions;
    }
    let recorded = uses.recorded(|path, written| files.contains(&(path.to_path_buf(), written)));
    for (version, recorded) in recorded.files {
        if !project.is_current(&version.0, version.1) {
            continue;
        }
        let Ok(file) = project.positions(&version.0, version.1) else { continue };
        let occurrences = uses.occurrences(&file);
        for placed in uses.place(&file, &occurrences, recorded) {
            let surest = placed
                .placements
                .iter()
                .map(|placement| (certainty(&placement.evidence), placement.place))
                .min_by_key(|((certainty, _), _)| *certainty);
            if let Some(((evidence, via), place)) = surest {
                let recorded = &placed.recorded;
                positions.entry((version.clone(), recorded.kind, recorded.form, recorded.number)).or_insert(
                    Position {
                        line: place.line,
                        column: place.column,
                        evidence,
                        via,
                        stale: !file.is_fresh(),
                    },
                );
            }
        }
    }
    positions
}

/// Where a top-level form of SBCL's own starts.
fn toplevel_position(source: &SourceFile, octets: u32) -> Option<Position> {
    let form = source.form_after(octets.into())?;
    Some(Position {
        line: u32::try_from(form.line).ok()?,
        column: u32::try_from(form.column).ok()?,
        evidence: Certainty::Approximate,
        via: None,
        stale: false,
    })
}

fn group(uses: Vec<Use<'_>>) -> Vec<User> {
    let mut users: Vec<User> = Vec::new();
    for found in uses {
        let place = Place {
            file: found.file.map(String::from),
            toplevel_form: found.toplevel_form,
            octet_offset: found.offset,
            form_number: found.form,
            file_written: Some(found.file_written).filter(|written| *written != 0),
            position: None,
        };
        match users.last_mut() {
            Some(user) if user.name == found.function => user.places.push(place),
            _ => {
                let (symbol, package) = match found.symbol {
                    Some(symbol) => (Some(String::from(symbol.name)), symbol.package.map(String::from)),
                    None => (None, None),
                };
                users.push(User {
                    name: String::from(found.function),
                    symbol,
                    package,
                    kind: found.kind,
                    places: vec![place],
                });
            }
        }
    }
    for user in &mut users {
        user.places.sort();
        user.places.dedup();
    }
    users
}
