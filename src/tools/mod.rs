//! Defines tools: operations that agents and people call by name. A [`Tool`] has a name, JSON
//! schemas for its arguments and its answer, the permissions it needs, and a function that answers
//! a call. `arguments` checks a call's arguments against the schema, `page` and `budget` fit the
//! answer into the caller's limit, and `session` holds what all calls share: SBCL, the text index,
//! permissions. `call` has the types of a call, its answer and its failure; `work` runs jobs that
//! outlast a call.
//!
//! This module is independent of protocols (MCP, LSP and the command line are in `crate::doors`).
//! `crate::actions` defines the list of tools.

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

/// The clients to which a tool is listed by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Offer {
    /// Listed even for hosts that allow only a few tools, because an agent cannot work without it.
    Core,
    /// Listed by default: it has a contract, or agents need it daily.
    Daily,
    /// Listed only if it is selected: by name, with `all`, or with `read`.
    All,
    /// The old name of a part of this tool. Answers wherever that tool does, but is never listed.
    OldName(&'static str),
}

fn is_old_name(tool: &Tool) -> bool {
    matches!(tool.offer(), Offer::OldName(_))
}

/// A selection of tools, sorted by name.
#[derive(Clone, Default)]
pub struct Tools {
    list: Vec<&'static Tool>,
    /// Tools that answer when called by name even if they are not listed.
    unlisted: Vec<&'static Tool>,
}

impl std::fmt::Debug for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list.iter().map(|tool| tool.name())).finish()
    }
}

impl Tools {
    /// Selects all of `tools`.
    pub fn of(tools: &'static [Tool]) -> Self {
        let (mut unlisted, mut list): (Vec<_>, Vec<_>) = tools.iter().partition(|tool| is_old_name(tool));
        list.sort_by_key(|tool| tool.name());
        unlisted.sort_by_key(|tool| tool.name());
        Self { list, unlisted }
    }

    /// Lists the tools that agents need daily, except those that `permissions` does not allow. The
    /// other tools still answer when called by name.
    #[must_use]
    pub fn daily(&self, permissions: Permissions) -> Self {
        let refused = |tool: &Tool| match tool.permission() {
            None => false,
            Some(Permission::Eval) => !permissions.eval,
            Some(Permission::Edits) => !permissions.edits,
        };
        let is_daily = |tool: &&&'static Tool| tool.offer() <= Offer::Daily && !refused(tool);
        let list = self.list.iter().filter(is_daily).copied().collect();
        Self { list, unlisted: [&self.list[..], &self.unlisted].concat() }
    }

    /// Selects the tools that `choice` names: a comma-separated list of tool names, `all`, `core`,
    /// and `read` (the tools that only read). Other tools do not answer.
    ///
    /// # Errors
    /// A part of `choice` names no tool, or `choice` is empty.
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
            true => Err("No tool is selected: pass tool names, or all, core or read.".to_owned()),
            false => {
                let is_listed = |name| list.iter().any(|tool| tool.name() == name);
                let unlisted = self.unlisted.iter().copied();
                let unlisted =
                    unlisted.filter(|tool| matches!(tool.offer(), Offer::OldName(new) if is_listed(new)));
                Ok(Self { unlisted: unlisted.collect(), list })
            }
        }
    }

    /// Returns the listed tools, sorted by name.
    pub fn list(&self) -> &[&'static Tool] {
        &self.list
    }

    /// Returns the old names that still answer.
    pub fn old_names(&self) -> impl Iterator<Item = &'static Tool> {
        self.unlisted.iter().copied().filter(|tool| is_old_name(tool))
    }

    /// Returns the tool called `name`. Hyphens and underscores are equivalent.
    ///
    /// # Errors
    /// No tool has that name: the message suggests the nearest name, or lists all names.
    pub fn get(&self, name: &str) -> Result<&'static Tool, String> {
        let plain = |byte: u8| if byte == b'_' { b'-' } else { byte };
        let is_meant = |other: &str| other.bytes().map(plain).eq(name.bytes().map(plain));
        let all = || self.list.iter().chain(&self.unlisted).copied();
        all().find(|tool| is_meant(tool.name())).ok_or_else(|| {
            let known: Vec<&str> = all().filter(|tool| !is_old_name(tool)).map(Tool::name).collect();
            match nearest::among(name, known.iter().copied()).first() {
                Some(near) => format!("There is no tool called {}. Did you mean {near}?", quoted(name)),
                None => {
                    format!("There is no tool called {}. The tools are {}.", quoted(name), known.join(", "))
                }
            }
        })
    }
}
