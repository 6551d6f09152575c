//! who-calls, who-references and their family: the functions and top-level forms that use a symbol in one way.
//!
//! The compiler's records name the functions. The places, and the users that the compiler did not record, come from
//! code-find-references' search, which
//! [`UseType::kind`](super::code_find_references::UseType::kind) divides among the tools.

mod text;
pub(crate) mod tool;

use super::code_find_references::{SingleUse, uses_of_symbol};
use super::symbol_uses::SymbolUses;
use super::unseen::{SoughtSymbol, Unseen, text_counts};
use crate::answer::designator::DesignatorError;
use crate::answer::lookup::{Asked, LookupStatus, NamedSymbol};
use crate::answer::{Caution, LispName, Location, OtherText};
use crate::engine::control::Control;
use crate::handle::Error;
use crate::handle::context::QueryContext;
use crate::handle::question::Question;
use crate::source::positions::Evidence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use steelbank_xref::{Access, Index, Kind};

mod users;

pub use users::{CalledName, User, Users};

/// A request for the code that uses a symbol in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhoRequest {
    /// The kind of use.
    pub kind: Kind,
    /// The symbol.
    pub symbol: NamedSymbol,
    /// Whether only the compiler's records are listed, without places in the text. Reads no source.
    pub recorded_only: bool,
}

impl WhoRequest {
    /// Makes a request about `name`. It is looked up in CL-USER, or else in the only one of the user's packages that
    /// has it.
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self { kind, symbol: NamedSymbol { name: name.into(), package: None }, recorded_only: false }
    }

    /// Makes a request for the callers of `name`.
    pub fn calls(name: impl Into<String>) -> Self {
        Self::new(Kind::Calls, name)
    }

    /// Lists only the compiler's records, without lines: takes microseconds, as no source is read.
    #[must_use]
    pub fn recorded(mut self) -> Self {
        self.recorded_only = true;
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
        let lookup = self.symbol.lookup(index)?;
        let mut answer = WhoAnswer {
            kind: self.kind,
            status: LookupStatus::Found,
            asked: lookup.asked,
            looked_up_in: lookup.looked_up_in,
            symbol: None,
            count: 0,
            users: Users::default(),
            toplevel: Vec::new(),
            unseen: Unseen::default(),
            elsewhere: Vec::new(),
            cautions: Vec::new(),
        };
        match lookup.found {
            Err(status) => answer.status = status,
            Ok((symbol, access)) => {
                let uses = SymbolUses::new(index, symbol, lookup.function_name);
                answer.symbol = Some(QueriedSymbol {
                    text: uses.name(),
                    name: uses.sought().name.clone(),
                    package: index.home_name(symbol),
                    accessibility: access,
                });
                answer.users = Users::recorded(index, self.kind, &uses);
                answer.count = answer.users.len();
            }
        }
        Ok(answer)
    }

    /// Adds the places, the users without a record, and the cautions.
    fn complete(&self, context: &QueryContext<'_>, answer: &mut WhoAnswer) -> Result<(), Error> {
        let (index, project) = (&context.index, context.project);
        let now = project.now();
        let lookup = self.symbol.lookup(index)?;
        let Ok((symbol, _)) = lookup.found else {
            let target = SoughtSymbol::missing(index, &answer.asked, lookup.package);
            let mut text = text_counts(index, project, &now, &target);
            answer.cautions = std::mem::take(&mut text.cautions);
            answer.unseen = text.unseen_with_definitions();
            return Ok(());
        };
        let uses = SymbolUses::new(index, symbol, lookup.function_name);
        let found = if self.recorded_only { Vec::new() } else { uses_of_symbol(context, &uses, &now) };
        if !self.recorded_only {
            let of_kind = found.iter().filter(|used| used.found.use_type.kind() == Some(self.kind));
            let (users, toplevel): (Vec<&SingleUse>, Vec<&SingleUse>) =
                of_kind.partition(|used| used.found.caller.is_some());
            answer.users.locate(&users, &uses, &mut context.sbcl.places(), project);
            answer.count = answer.users.len();
            answer.toplevel = toplevel.into_iter().map(TopLevelUse::new).collect();
            answer.toplevel.sort();
            answer.toplevel.dedup();
        }
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
                .map(|kind| Elsewhere { kind, count: users_of_kind(index, kind, &uses, &found) })
                .filter(|elsewhere| elsewhere.count > 0)
                .collect();
            let written = found.iter().map(|used| &used.found).filter(|found| found.is_written());
            let written: BTreeSet<_> = written.map(|found| (&found.place.file, found.place.line)).collect();
            if self.kind == Kind::Sets && !written.is_empty() {
                answer.cautions.push(Caution::Written(written.len()));
            }
        }
        Ok(())
    }
}

/// Counts the functions that use the symbol in one way.
fn users_of_kind(index: &Index, kind: Kind, uses: &SymbolUses<'_>, found: &[SingleUse]) -> usize {
    let of_kind = found.iter().map(|used| &used.found);
    let of_kind = of_kind.filter(|found| found.use_type.kind() == Some(kind) && !found.recorded);
    let unrecorded: BTreeSet<&str> = of_kind.filter_map(|found| found.caller.as_deref()).collect();
    index.count(kind, uses.symbol(), |role| uses.accepts(role)) + unrecorded.len()
}

impl Question for WhoRequest {
    type Answer = WhoAnswer;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<WhoAnswer, Error> {
        control.check()?;
        let context = &*context.with_sidecar_symbol(&self.symbol);
        let mut answer = self.answer_from_index(&context.index)?;
        self.complete(context, &mut answer)?;
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
    /// How many functions there are.
    pub count: usize,
    /// The functions.
    #[schemars(with = "Vec<User<'static>>")]
    pub users: Users,
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

impl TopLevelUse {
    fn new(used: &SingleUse) -> Self {
        Self { position: used.position(), context: used.line.as_deref().unwrap_or_default().to_owned() }
    }
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

/// Numbers the namespace of a kind of use: functions, macros, variables or classes.
fn subject(kind: Kind) -> u8 {
    match kind {
        Kind::Calls => 0,
        Kind::Macroexpands => 1,
        Kind::Binds | Kind::References | Kind::Sets => 2,
        Kind::Specializes => 3,
    }
}
