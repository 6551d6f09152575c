//! The tools, which agents and people call by name. They know no protocol.
//!
//! A tool is a file here with its arguments, description, body and text. To add one, write the file, declare
//! it below and name it in `LIST`; the server, `steelbank tools`, `steelbank call` and a subcommand follow.

mod arguments;
mod budget;
mod call;
mod missing;
mod page;
mod remedy;
mod schema;
mod session;
mod structured;
mod tool;
mod trial;
mod words;

mod apropos;
mod call_graph;
mod check;
mod check_index_status;
mod check_structure;
mod code_find_references;
mod compiler_notes;
mod describe_symbol;
mod diagnostic;
mod disassemble;
mod edit_definition;
mod evaluate;
mod find_definition;
mod find_references;
mod impact;
mod index_project;
mod inspect;
mod list_systems;
mod load_file;
mod load_system;
mod macroexpand;
mod outline;
mod package_info;
mod reload;
mod rename;
mod restart_lisp;
mod run_tests;
mod status;
mod who;

use std::sync::LazyLock;

use crate::query::nearest;

pub use call::{Blame, Call, CallOutcome, Failure, ToolAnswer, ToolProgress};
pub(crate) use load_system::listener;
pub use session::{Permission, Permissions, ProjectRoot, Session};
pub use structured::Structured;
pub use tool::{About, Effect, Object, Starts, Tool};
pub use words::quoted;

/// All tools, one a line.
const LIST: &[fn() -> Tool] = &[
    check::tool,
    apropos::tool,
    call_graph::tool,
    check_index_status::tool,
    check_structure::tool,
    code_find_references::tool,
    compiler_notes::tool,
    describe_symbol::tool,
    disassemble::tool,
    edit_definition::tool,
    evaluate::tool,
    find_definition::tool,
    find_references::tool,
    impact::tool,
    index_project::tool,
    inspect::tool,
    list_systems::tool,
    load_file::tool,
    load_system::tool,
    macroexpand::tool,
    outline::tool,
    package_info::tool,
    reload::tool,
    rename::tool,
    restart_lisp::tool,
    run_tests::tool,
    status::tool,
    who::binds,
    who::calls,
    who::macroexpands,
    who::references,
    who::sets,
    who::specializes,
];

/// The core tools, which an agent cannot do without: for hosts with little room.
const CORE: &[&str] = &[
    "apropos",
    "code-find-references",
    "describe-symbol",
    "edit-definition",
    "evaluate",
    "find-definition",
    "find_references",
    "load-system",
    "outline",
    "rename",
    "run-tests",
];

/// A selection of tools, sorted by name.
#[derive(Clone)]
pub struct Tools {
    list: Vec<&'static Tool>,
}

impl std::fmt::Debug for Tools {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.list.iter().map(|tool| tool.name())).finish()
    }
}

static LISTED: LazyLock<Vec<Tool>> = LazyLock::new(|| {
    let mut list: Vec<Tool> = LIST.iter().map(|tool| tool()).collect();
    list.sort_by_key(Tool::name);
    list
});
static ALL: LazyLock<Tools> = LazyLock::new(|| Tools { list: LISTED.iter().collect() });

impl Tools {
    /// Returns all tools.
    pub fn all() -> &'static Self {
        &ALL
    }

    /// Selects the tools that `choice` names: `all`, `core`, `read` (the ones that only read), or names,
    /// separated by commas.
    ///
    /// # Errors
    /// No tool has one of the names.
    pub fn chosen(choice: &str) -> Result<Self, String> {
        let mut list: Vec<&'static Tool> = Vec::new();
        for part in choice.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part {
                "all" => list.extend(LISTED.iter()),
                "core" => list.extend(LISTED.iter().filter(|tool| CORE.contains(&tool.name()))),
                "read" => list.extend(LISTED.iter().filter(|tool| tool.about().effect == Effect::Reads)),
                name => list.push(Self::all().get(name)?),
            }
        }
        list.sort_by_key(|tool| tool.name());
        list.dedup_by_key(|tool| tool.name());
        match list.is_empty() {
            true => Err("No tool is chosen: name tools, or all, core or read.".to_owned()),
            false => Ok(Self { list }),
        }
    }

    /// Returns the tools, sorted by name.
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
        self.list.iter().copied().find(|tool| is_meant(tool.name())).ok_or_else(|| {
            let known: Vec<&str> = self.list.iter().map(|tool| tool.name()).collect();
            match nearest::among(name, known.iter().copied()).first() {
                Some(near) => format!("There is no tool called {}. Did you mean {near}?", quoted(name)),
                None => {
                    format!("There is no tool called {}. The tools are {}.", quoted(name), known.join(", "))
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(choice: &str) -> Vec<&'static str> {
        Tools::chosen(choice).unwrap().list().iter().map(|tool| tool.name()).collect()
    }

    #[test]
    fn tools_are_chosen_by_kind_and_by_name() {
        assert_eq!(names("who_calls, status,who-calls"), ["status", "who-calls"]);
        assert_eq!(names("all").len(), LIST.len());
        let core = names("core");
        assert!(core.contains(&"describe-symbol") && core.len() < LIST.len());
        assert!(names("read").contains(&"who-calls") && !names("read").contains(&"load-system"));
        assert!(Tools::chosen("who-cals").err().unwrap().contains("who-calls"));
        assert!(Tools::chosen(",").is_err());
    }

    /// The table in SECURITY.md has each tool that runs or writes or starts anything, as the tool declares it.
    #[test]
    fn the_table_of_what_tools_run_is_what_they_declare() {
        let either = |permissions: &[Permission]| {
            permissions
                .iter()
                .map(|permission| format!("`{}`", permission.option()))
                .collect::<Vec<_>>()
                .join(" or ")
        };
        let declared: Vec<String> = LISTED
            .iter()
            .filter(|tool| {
                tool.about().effect != Effect::Reads
                    || tool.started_program().is_some()
                    || tool.permission().is_some()
                    || !tool.permissions_of_some_calls().is_empty()
            })
            .map(|tool| {
                let effect = match tool.about().effect {
                    Effect::Reads => "reads",
                    Effect::Runs => "runs",
                    Effect::Writes => "writes",
                };
                let starts = match tool.started_program() {
                    None => "–",
                    Some(Starts::Git) => "git",
                    Some(Starts::Copy) => "copy",
                };
                let permission = match (tool.permission(), tool.permissions_of_some_calls()) {
                    (Some(permission), []) => either(&[permission]),
                    (None, []) => "–".to_owned(),
                    (None, some) => format!("some calls: {}", either(some)),
                    (Some(_), _) => panic!("{} declares two kinds of permission", tool.name()),
                };
                format!("| `{}` | {effect} | {starts} | {permission} |", tool.name())
            })
            .collect();
        let written: Vec<&str> = include_str!("../../SECURITY.md")
            .lines()
            .filter(|line| line.starts_with("| `"))
            .map(|line| &line[..=line.match_indices('|').nth(4).unwrap().0])
            .collect();
        assert_eq!(written, declared);
    }

    /// Who asks for a permission, or starts a program, declares it.
    #[test]
    fn what_tools_do_is_declared() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut starting = Vec::new();
        let mut folders = vec![root.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                let name = path.strip_prefix(&root).unwrap().display().to_string();
                let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
                if has(&["std::process"]) && has(&[concat!("Command", "::new(")]) {
                    starting.push(name.clone());
                }
                if !name.starts_with("tools/") || name == "tools/session.rs" || name == "tools/mod.rs" {
                    continue;
                }
                let asks = has(&[".permit(Permission", ".allows("]);
                assert!(
                    !asks || has(&[".may_need(", ".needs("]),
                    "{name} asks for a permission that is not declared"
                );
                let copies = has(&["in_scratch(session", "bank.check("]);
                assert!(!copies || has(&["Starts::Copy"]), "{name} starts a copy that is not declared");
            }
        }
        starting.sort();
        assert_eq!(starting, ["query/working_tree.rs", "steelbank/scratch.rs", "steelbank/snapshot/make.rs"]);
    }
}
