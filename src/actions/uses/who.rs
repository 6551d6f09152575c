//! The who family (who-calls, who-references, who-binds, who-sets, who-macroexpands,
//! who-specializes): lists the functions and top-level forms that use a symbol in one way.
//!
//! `Users::recorded` takes the functions from the compiler's records. Their places, and the users
//! without a record, come from the search of code-find-references.
//! [`UseType::kind`](super::code_find_references::UseType::kind) maps the use types of that search
//! to the tools.

mod text;
pub(crate) mod tool;

use super::code_find_references::{SingleUse, UseType, uses_of_symbol};
use super::symbol_uses::SymbolUses;
use super::unloaded::{UnloadedMatches, text_counts};
use crate::answer::designator::DesignatorError;
use crate::answer::lookup::{Asked, Lookup, LookupStatus, NamedSymbol};
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

pub use users::{SetfUse, User, Users};

/// A request for the code that uses a symbol in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WhoRequest {
    /// The kind of use.
    pub kind: Kind,
    /// The symbol.
    pub symbol: NamedSymbol,
    /// Whether to list only the compiler's records, without places and without top-level code.
    pub recorded_only: bool,
}

impl WhoRequest {
    /// Creates a request about `name`. The name is looked up in CL-USER, and otherwise in the only
    /// user package that has it.
    pub fn new(kind: Kind, name: impl Into<String>) -> Self {
        Self { kind, symbol: NamedSymbol { name: name.into(), package: None }, recorded_only: false }
    }

    /// Creates a request for the callers of `name`.
    pub fn calls(name: impl Into<String>) -> Self {
        Self::new(Kind::Calls, name)
    }

    /// Restricts the answer to the compiler's records, without places and without top-level
    /// code. This is faster, because the uses are not searched in source files.
    #[must_use]
    pub fn recorded(mut self) -> Self {
        self.recorded_only = true;
        self
    }

    /// Looks the name up in `package`.
    #[must_use]
    pub fn package(mut self, package: impl Into<String>) -> Self {
        self.symbol.package = Some(package.into());
        self
    }

    /// Answers from the index alone, without lines and without top-level code.
    ///
    /// # Errors
    /// The name cannot be parsed. A missing symbol or package is not an error but a status in the
    /// answer.
    pub fn answer_from_index(&self, index: &Index) -> Result<WhoAnswer, DesignatorError> {
        Ok(self.recorded_users(index, self.symbol.lookup(index)?).0)
    }

    /// Lists the users that the compiler recorded. Also returns the `SymbolUses` if the symbol
    /// exists.
    fn recorded_users<'a>(&self, index: &'a Index, lookup: Lookup) -> (WhoAnswer, Option<SymbolUses<'a>>) {
        let mut answer = WhoAnswer {
            kind: self.kind,
            status: LookupStatus::Found,
            asked: lookup.asked,
            looked_up_in: lookup.looked_up_in,
            symbol: None,
            count: 0,
            users: Users::default(),
            toplevel: Vec::new(),
            unloaded: UnloadedMatches::default(),
            elsewhere: Vec::new(),
            cautions: Vec::new(),
        };
        let (symbol, accessibility) = match lookup.found {
            Ok(found) => found,
            Err(status) => return (WhoAnswer { status, ..answer }, None),
        };
        let uses = SymbolUses::new(index, symbol, lookup.function_name);
        answer.symbol = Some(QueriedSymbol {
            text: uses.name(),
            name: uses.sought().name.clone(),
            package: index.home_name(symbol),
            accessibility,
        });
        answer.users = Users::recorded(index, self.kind, &uses);
        answer.count = answer.users.len();
        (answer, Some(uses))
    }

    /// Adds the unloaded matches and the cautions. Unless `recorded_only`, also adds the places,
    /// the users without a record, and the uses by top-level code. If there are no uses, adds the
    /// numbers of functions that use the symbol in other namespaces.
    fn complete(
        &self,
        context: &QueryContext<'_>,
        uses: &SymbolUses<'_>,
        answer: &mut WhoAnswer,
        control: &Control,
    ) {
        let (index, project) = (&context.index, context.project);
        let now = project.tree_view();
        let found =
            if self.recorded_only { Vec::new() } else { uses_of_symbol(context, uses, &now, control) };
        if !self.recorded_only {
            let of_kind = found.iter().filter(|used| used.found.use_type.kind() == Some(self.kind));
            let (users, toplevel): (Vec<&SingleUse>, Vec<&SingleUse>) =
                of_kind.partition(|used| used.found.caller.is_some());
            answer.users.locate(&users, uses, &mut context.sbcl.places(), project);
            answer.count = answer.users.len();
            answer.toplevel = toplevel.into_iter().map(TopLevelUse::new).collect();
            answer.toplevel.sort();
            answer.toplevel.dedup();
        }
        let mut text = text_counts(index, project, &now, uses.sought());
        answer.cautions.append(&mut text.cautions);
        answer.unloaded = text.without_definitions();
        // Scripts and configuration files may set a variable as well.
        if subject(self.kind) == subject(Kind::References) && !uses.is_standard() {
            let words = OtherText::new(&uses.distinct_words(project, &now));
            answer.cautions.extend(Some(words).filter(|words| !words.is_empty()).map(Caution::OtherText));
        }
        if answer.count == 0 && answer.toplevel.is_empty() {
            let others = Kind::ALL.into_iter().filter(|&kind| subject(kind) != subject(self.kind));
            answer.elsewhere = others
                .map(|kind| Elsewhere { kind, count: users_of_kind(index, kind, uses, &found) })
                .filter(|elsewhere| elsewhere.count > 0)
                .collect();
            let written = found.iter().map(|used| &used.found).filter(|found| found.is_written());
            let written: BTreeSet<_> = written.map(|found| (&found.place.file, found.place.line)).collect();
            if self.kind == Kind::Sets && !written.is_empty() {
                answer.cautions.push(Caution::Written(written.len()));
            }
            // SBCL's records do not show what a macro makes of a name in its form.
            let name = index.symbol_text(uses.symbol());
            let unclear = found.iter().map(|used| &used.found).filter(|found| {
                matches!(found.use_type, UseType::Mention | UseType::Quoted)
                    && found.caller.as_deref() != Some(name.as_str())
            });
            let unclear: BTreeSet<_> = unclear.map(|found| (&found.place.file, found.place.line)).collect();
            if !unclear.is_empty() {
                answer.cautions.push(Caution::Unclear(unclear.len()));
            }
        }
    }
}

/// Counts the functions that use the symbol in this way, with and without a record.
fn users_of_kind(index: &Index, kind: Kind, uses: &SymbolUses<'_>, found: &[SingleUse]) -> usize {
    let of_kind = found.iter().map(|used| &used.found);
    let of_kind = of_kind.filter(|found| found.use_type.kind() == Some(kind) && !found.recorded);
    let unrecorded: BTreeSet<&str> = of_kind.filter_map(|found| found.caller.as_deref()).collect();
    let recorded = Users::recorded(index, kind, uses);
    let both = recorded.names().filter(|name| unrecorded.contains(&**name)).count();
    recorded.len() + unrecorded.len() - both
}

impl Question for WhoRequest {
    type Answer = WhoAnswer;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<WhoAnswer, Error> {
        control.check()?;
        let (context, lookup) = context.resolve_symbol(&self.symbol)?;
        let (context, index) = (&*context, &context.index);
        let package = lookup.package;
        let (mut answer, uses) = self.recorded_users(index, lookup);
        match uses {
            Some(uses) => self.complete(context, &uses, &mut answer, control),
            None => {
                let target = answer.asked.symbol(index, package);
                let text = text_counts(index, context.project, &context.project.tree_view(), &target);
                return Err(text.with_definitions().not_found(&answer.asked, answer.status).into());
            }
        }
        control.check()?;
        Ok(answer)
    }
}

/// The answer. Each function is listed once, sorted by the symbol in its name, then by its printed
/// name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct WhoAnswer {
    /// The kind of use.
    pub kind: Kind,
    /// Whether the symbol was found.
    pub status: LookupStatus,
    /// The name and package of the request.
    pub asked: Asked,
    /// The package where the name was found, if none was given and CL-USER lacks the name.
    #[serde(skip)]
    pub looked_up_in: Option<String>,
    /// The symbol, if it was found.
    pub symbol: Option<QueriedSymbol>,
    /// The number of functions.
    pub count: usize,
    /// The functions.
    #[schemars(with = "Vec<User<'static>>")]
    pub users: Users,
    /// Uses by top-level code, sorted by path and line.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub toplevel: Vec<TopLevelUse>,
    /// Matches of the name in text that the image does not have. They may or may not be uses of
    /// this kind.
    #[serde(skip_serializing_if = "UnloadedMatches::is_empty", rename = "unseen", default)]
    pub unloaded: UnloadedMatches,
    /// If there are no uses of this kind: the numbers of functions that use the symbol in other
    /// namespaces.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub elsewhere: Vec<Elsewhere>,
    /// Limits of the answer.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schemars(with = "Vec<String>")]
    pub cautions: Vec<Caution>,
}

/// A use by top-level code.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct TopLevelUse {
    /// The place.
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

/// The number of functions that use the symbol in another namespace than the request's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Elsewhere {
    /// The kind of use.
    pub kind: Kind,
    /// The number of functions.
    pub count: usize,
}

/// The symbol that an answer is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct QueriedSymbol {
    /// The symbol, or the function name such as (SETF F) that was requested.
    pub text: LispName,
    /// The symbol's name.
    pub name: String,
    /// The name of the home package. `None`: the symbol has no home package.
    pub package: Option<String>,
    /// The accessibility of the symbol in the package where it was looked up.
    pub accessibility: Access,
}

/// A place in a source file with its evidence.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Position {
    /// The place.
    #[serde(flatten)]
    pub place: Location,
    /// How the place was determined. In SBCL's own sources, the place is the start of the top-level
    /// form, hence `approximate`.
    pub evidence: Evidence,
    /// For evidence `via`: the operator that expands into the use.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub via: Option<String>,
    /// The file has changed since it was loaded, so that lines may have moved.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub stale: bool,
}

/// Returns a number for the namespace of a kind of use: functions, macros, variables or classes.
fn subject(kind: Kind) -> u8 {
    match kind {
        Kind::Calls => 0,
        Kind::Macroexpands => 1,
        Kind::Binds | Kind::References | Kind::Sets => 2,
        Kind::Specializes => 3,
    }
}
