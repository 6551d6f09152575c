//! who-calls, who-references and their family: which code does what to a symbol. Answered from the index alone.

use super::code_find_references::Certainty;
use super::designator::{DesignatorError, Operator};
use super::lookup::{Asked, DEFAULT_PACKAGE, Lookup, LookupStatus};
use super::project::Project;
use crate::source::positions::{Evidence, Recorded, Sought};
use crate::source::sbcl::{SbclSources, SourceFile};
use crate::source::sidecar::UseKind;
use crate::xref::{Access, FunctionKind, Index, Kind, Role, Use};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::path::Path;

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
        let users = group(index.who(self.kind, symbol, |role| accepts(lookup.of, role)));
        let text = index.symbol_text(symbol);
        Ok(WhoAnswer {
            kind: self.kind,
            status: LookupStatus::Found,
            asked: lookup.asked,
            symbol: Some(Subject {
                text: lookup.of.map_or_else(|| text.clone(), |of| format!("({} {text})", of.text())),
                name: index.symbol_name(symbol).into_owned(),
                package: index.symbol_package(symbol).map(|package| index.package_name(package).into_owned()),
                accessibility: access,
            }),
            count: users.len(),
            users,
        })
    }
}

/// Whether a used name belongs to what was asked for: F unites F, (SETF F), (CAS F), its compiler macro and its methods.
fn accepts(of: Option<Operator>, role: Role) -> bool {
    match of {
        None => role.denotes_function(),
        Some(Operator::Setf) => role == Role::Setf,
        Some(Operator::Cas) => role == Role::Cas,
        Some(Operator::CompilerMacro) => role == Role::CompilerMacro,
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
    /// The line and column, where [`WhoAnswer::locate`] found them.
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

impl WhoAnswer {
    /// Adds lines and columns to the places whose files can be read. Reads those files, or their sidecars.
    pub fn locate(&mut self, project: &Project, sbcl: &SbclSources) {
        let Some(subject) = &self.symbol else { return };
        let sought =
            Sought { package: subject.package.clone().unwrap_or_default(), name: subject.name.clone() };
        let mut own = HashMap::new();
        for place in self.users.iter_mut().flat_map(|user| &mut user.places) {
            let Some(file) = &place.file else { continue };
            place.position = if file.starts_with("SYS:") {
                own.entry(file.clone())
                    .or_insert_with(|| SourceFile::read(&sbcl.native(file)?))
                    .as_ref()
                    .and_then(|source| toplevel_position(source, place.octet_offset?))
            } else {
                position(project, &sought, self.kind, place)
            };
        }
    }
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

/// Where the use itself stands: the surest place if there are several.
fn position(project: &Project, sought: &Sought, kind: Kind, place: &Place) -> Option<Position> {
    let file = project.positions(Path::new(place.file.as_ref()?), place.file_written?).ok()?;
    let stale = !file.is_fresh();
    let form = place.toplevel_form?;
    let at = |line, column, evidence, via| Some(Position { line, column, evidence, via, stale });
    let kind = match kind {
        Kind::Calls => UseKind::Calls,
        Kind::Macroexpands => UseKind::Macroexpands,
        Kind::Binds => UseKind::Binds,
        Kind::References => UseKind::References,
        Kind::Sets => UseKind::Sets,
        Kind::Specializes => {
            let found = file.form_place(form, 0)?;
            return at(found.line, found.column, Certainty::Approximate, None);
        }
    };
    let placements = file.place(sought, &[Recorded { kind, form, number: place.form_number? }]);
    let surest = placements.into_iter().flatten().min_by_key(|placement| match placement.evidence {
        Evidence::Exact => 0,
        Evidence::Approximate => 1,
        Evidence::Via(_) => 2,
    })?;
    let (evidence, via) = match surest.evidence {
        Evidence::Exact => (Certainty::Exact, None),
        Evidence::Approximate => (Certainty::Approximate, None),
        Evidence::Via(operator) => (Certainty::Via, Some(operator)),
    };
    at(surest.place.line, surest.place.column, evidence, via)
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
