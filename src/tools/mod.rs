//! What a tool is: a name with schemas that agents and people call, its permissions, and the pages of its answers.
//! It knows no protocol, and no action but by the list that `crate::actions` gives.

pub(crate) mod arguments;
pub(crate) mod budget;
pub(crate) mod call;
pub(crate) mod clients;
pub(crate) mod page;
pub(crate) mod phrases;
pub(crate) mod remedy;
pub(crate) mod schema;
pub(crate) mod session;
pub(crate) mod structured;
mod swank;
pub(crate) mod tool;
pub(crate) mod work;

use crate::answer::nearest;

pub use call::{Blame, Call, CallOutcome, Failure, ToolAnswer};
pub use clients::{ClientKind, Clients, ConnectedClient};
pub use phrases::quoted;
pub use session::{Permission, Permissions, ProjectRoot, Session};
pub use structured::Structured;
pub use tool::{About, Effect, Object, Starts, Tool};

/// Who is offered a tool without asking for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Offer {
    /// Hosts with little room, too: an agent cannot do without it.
    Core,
    /// Whoever chooses nothing: it has a contract, or an agent needs it daily.
    Daily,
    /// Those who choose all tools.
    All,
}

/// A selection of tools, sorted by name.
#[derive(Clone, Default)]
pub struct Tools {
    list: Vec<&'static Tool>,
    /// Further ones that are not listed, and answered all the same when they are called by name.
    unlisted: Vec<&'static Tool>,
}

impl std::fmt::Debug for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list.iter().map(|tool| tool.name())).finish()
    }
}

impl Tools {
    /// Makes a selection of all of `tools`.
    pub fn of(tools: &'static [Tool]) -> Self {
        let mut list: Vec<_> = tools.iter().collect();
        list.sort_by_key(|tool| tool.name());
        Self { list, unlisted: Vec::new() }
    }

    /// Lists those that agents need daily and that `permissions` do not always refuse; the others are answered when they
    /// are called by name.
    #[must_use]
    pub fn daily(&self, permissions: Permissions) -> Self {
        let refused = |tool: &Tool| match tool.permission() {
            None => false,
            Some(Permission::Eval) => !permissions.eval,
            Some(Permission::Edits) => !permissions.edits,
        };
        let is_daily = |tool: &&&'static Tool| tool.offer() <= Offer::Daily && !refused(tool);
        let list = self.list.iter().filter(is_daily).copied().collect();
        Self { list, unlisted: self.list.clone() }
    }

    /// Selects those of them that `choice` names: `all`, `core`, `read` (the ones that only read), or names,
    /// separated by commas. No others are answered.
    ///
    /// # Errors
    /// No tool has one of the names.
    pub fn chosen(&self, choice: &str) -> Result<Self, String> {
        let mut list: Vec<&'static Tool> = Vec::new();
        for part in choice.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part {
                "all" => list.extend(&self.list),
                "core" => list.extend(self.list.iter().filter(|tool| tool.offer() == Offer::Core)),
                "read" => list.extend(self.list.iter().filter(|tool| tool.about().effect == Effect::Reads)),
                name => list.push(self.get(name)?),
            }
        }
        list.sort_by_key(|tool| tool.name());
        list.dedup_by_key(|tool| tool.name());
        match list.is_empty() {
            true => Err("No tool is chosen: name tools, or all, core or read.".to_owned()),
            false => Ok(Self { list, unlisted: Vec::new() }),
        }
    }

    /// Returns the listed tools, sorted by name.
    pub fn list(&self) -> &[&'static Tool] {
        &self.list
    }

    /// Finds the tool called `name`. Hyphens and underscores are the same.
    ///
    /// # Errors
    /// No tool has that name: the sentence names the nearest, or all.
    pub fn get(&self, name: &str) -> Result<&'static Tool, String> {
        let plain = |byte: u8| if byte == b'_' { b'-' } else { byte };
        let is_meant = |other: &str| other.bytes().map(plain).eq(name.bytes().map(plain));
        let all = || self.list.iter().chain(&self.unlisted).copied();
        all().find(|tool| is_meant(tool.name())).ok_or_else(|| {
            let known: Vec<&str> = all().map(|tool| tool.name()).collect();
            match nearest::among(name, known.iter().copied()).first() {
                Some(near) => format!("There is no tool called {}. Did you mean {near}?", quoted(name)),
                None => {
                    format!("There is no tool called {}. The tools are {}.", quoted(name), known.join(", "))
                }
            }
        })
    }
}
