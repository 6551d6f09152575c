//! Implements everything that steelbank does for a user, one module for each action. The module of
//! an action has the request type, the answer type, the code that computes the answer, the answer's
//! text form, and the tool that agents call. The folders group actions: `uses` finds callers and
//! references, `symbols` finds and describes symbols and packages, `run` loads and runs code,
//! `change` edits source files and reloads them, and `text` searches the files' text. Requests
//! implement `Question` or `Action`, so library users, the LSP server and the tools share one
//! implementation. `tools` is the registry of all tools. `missing` builds the answers to requests
//! that name something that does not exist.

pub mod change;
pub(crate) mod missing;
pub mod run;
pub mod symbols;
pub mod text;
pub mod uses;

use std::sync::LazyLock;

use serde_json::Value;

use crate::Control;
use crate::handle::scratch::{self, ScratchAnswer, ScratchOutcome};
use crate::tools::{
    Call, CallOutcome,
    Offer::{self, All, Core, Daily, OldName},
    Session, Tool, Tools,
};

type Constructor = fn() -> Tool;

/// Tools with arguments that replace other tools.
const INDEX_PROJECT: &str = "index_project";
const WHO_REFERENCES: &str = "who-references";

/// All tools. The `Offer` is the smallest of the sets core, daily and all that includes the tool,
/// or the tool that replaces it.
const REGISTRY: &[(Offer, Constructor)] = &[
    (Daily, change::check::tool::tool),
    (Core, symbols::apropos::tool::tool),
    (Daily, uses::call_graph::tool::tool),
    (OldName(INDEX_PROJECT), text::check_index_status::tool),
    (All, change::check_structure::tool::tool),
    (Core, uses::code_find_references::tool::tool),
    (All, run::compiler_notes::tool::tool),
    (Core, symbols::describe_symbol::tool::tool),
    (All, run::disassemble::tool::tool),
    (Core, change::edit_definition::tool::tool),
    (Core, run::evaluate::tool::tool),
    (Core, symbols::find_definition::tool::tool),
    (Core, text::find_references::tool::tool),
    (Daily, uses::impact::tool::tool),
    (Daily, text::index_project::tool::tool),
    (Daily, uses::interface::tool::tool),
    (All, run::inspect::tool::tool),
    (Daily, run::list_systems::tool::tool),
    (All, run::load_file::tool),
    (Core, run::load_system::tool),
    (Daily, run::macroexpand::tool::tool),
    (Core, uses::outline::tool::tool),
    (All, symbols::package_info::tool::tool),
    (Daily, uses::path::tool::tool),
    (Daily, change::reload::tool::tool),
    (Daily, change::refactor::tool::tool),
    (Core, change::rename::tool::tool),
    (All, run::restart_lisp::tool),
    (Core, run::run_tests::tool::tool),
    (All, text::search::tool::tool),
    (All, run::status::tool),
    (OldName(WHO_REFERENCES), uses::who::tool::binds),
    (Daily, uses::who::tool::calls),
    (OldName(WHO_REFERENCES), uses::who::tool::macroexpands),
    (OldName(WHO_REFERENCES), uses::who_makes::tool::tool),
    (Daily, uses::who::tool::references),
    (OldName(WHO_REFERENCES), uses::who::tool::sets),
    (OldName(WHO_REFERENCES), uses::who::tool::specializes),
];

/// Returns all tools.
pub fn tools() -> &'static Tools {
    static LISTED: LazyLock<Vec<Tool>> =
        LazyLock::new(|| REGISTRY.iter().map(|(offer, tool)| tool().offered(*offer)).collect());
    static ALL: LazyLock<Tools> = LazyLock::new(|| Tools::of(&LISTED));
    &ALL
}

/// Runs the order `name`, which the parent process sent to this scratch process, and returns the
/// answer as JSON.
pub(crate) fn run_order(
    session: &Session,
    name: &str,
    arguments: Value,
    call: &Call,
    control: &Control,
) -> Result<Value, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let bank = session.bank().map_err(|failure| text(&failure))?;
    let answer = match name {
        scratch::CALL => {
            let (tool, arguments): (String, Value) =
                serde_json::from_value(arguments).map_err(|error| text(&error))?;
            let tool = tools().get(&tool)?;
            let arguments = serde_json::from_value(arguments).map_err(|error| text(&error))?;
            let answer = tool.call(session, arguments, call).map_err(|error| text(&error))?;
            let outcome = match answer.outcome {
                CallOutcome::Answered => ScratchOutcome::Answered,
                CallOutcome::NotFound | CallOutcome::NotFoundAsError => ScratchOutcome::NotFound,
                CallOutcome::Failed => ScratchOutcome::Failed,
            };
            let structured = answer.structured.into_value();
            serde_json::to_value(ScratchAnswer { text: answer.text, structured, outcome })
        }
        change::rename::LOAD_REPORT => {
            let request = serde_json::from_value(arguments).map_err(|error| text(&error))?;
            let report = bank.load_report(&request, control).map_err(|error| text(&error))?;
            serde_json::to_value(report)
        }
        change::check::alone::CHECK => {
            let overlay = serde_json::from_value(arguments).map_err(|error| text(&error))?;
            let checked = change::check::alone::check(bank, overlay, control);
            serde_json::to_value(checked.map_err(|error| text(&error))?)
        }
        "refused-writes" => serde_json::to_value(bank.refused_writes().map_err(|error| text(&error))?),
        _ => return Err(format!("Unknown order {name}: the scratch process runs another build.")),
    };
    answer.map_err(|error| text(&error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::{Effect, Permission, Permissions, Starts};

    fn names(choice: &str) -> Vec<&'static str> {
        tools().chosen(choice).unwrap().list().iter().map(|tool| tool.name()).collect()
    }

    #[test]
    fn tools_are_chosen_by_kind_and_by_name() {
        assert_eq!(names("who_calls, status,who-calls"), ["status", "who-calls"]);
        let is_old = |(offer, _): &&(Offer, Constructor)| matches!(offer, OldName(_));
        assert_eq!(names("all").len(), REGISTRY.iter().filter(|row| !is_old(row)).count());
        assert!(tools().chosen("all").unwrap().get("who-sets").is_ok());
        assert!(tools().chosen("who-references").unwrap().get("who-makes").is_ok());
        assert!(tools().chosen("who-calls").unwrap().get("who-makes").is_err());
        let core = names("core");
        assert!(core.contains(&"describe-symbol") && core.len() < REGISTRY.len());
        assert!(names("read").contains(&"who-calls") && !names("read").contains(&"load-system"));
        assert!(tools().chosen("who-cals").err().unwrap().contains("who-calls"));
        assert!(tools().chosen(",").is_err());
    }

    /// Library users can print these answers with `Display`, without calling a tool.
    #[test]
    fn answers_are_texts() {
        fn shown<T: std::fmt::Display>() {}
        shown::<change::check::CheckAnswer>();
        shown::<change::check_structure::StructureAnswer>();
        shown::<change::edit_definition::EditAnswer>();
        shown::<change::reload::ReloadAnswer>();
        shown::<change::rename::Applied>();
        shown::<change::rename::RenameDiff>();
        shown::<change::rename::RenamePlan>();
        shown::<change::rename::Undone>();
        shown::<change::rename::UnfinishedEdit>();
        shown::<change::rename::Verified>();
        shown::<uses::call_graph::CallGraphAnswer>();
        shown::<uses::code_find_references::CodeFindReferencesAnswer>();
        shown::<uses::impact::ImpactAnswer>();
        shown::<uses::interface::InterfaceAnswer>();
        shown::<uses::outline::OutlineAnswer>();
        shown::<uses::path::PathAnswer>();
        shown::<uses::who::WhoAnswer>();
        shown::<uses::who_makes::WhoMakesAnswer>();
    }

    /// The default set omits rarely used tools and tools that need a permission that was not
    /// granted. Omitted tools can still be called by name.
    #[test]
    fn default_set_lists_daily_tools() {
        let listed = |permissions| {
            let offered = tools().daily(permissions);
            assert!(
                ["package-info", "who_sets", "edit_definition"].iter().all(|name| offered.get(name).is_ok())
            );
            offered.list().iter().map(|tool| tool.name()).collect::<Vec<_>>()
        };
        let none = listed(Permissions::default());
        for name in [
            "describe-symbol", "who-calls", "who-references", "code-find-references", "find_references",
            "rename", "macroexpand", "interface", "path",
        ] {
            assert!(none.contains(&name), "{name}");
        }
        // Besides `refactor` and `search`, at most 30.
        assert!(none.len() <= 21 && tools().list().len() <= 32);
        assert!(
            ["evaluate", "edit-definition", "inspect", "who-sets"].iter().all(|name| !none.contains(name))
        );
        let all = listed(Permissions::ALL);
        assert!(all.contains(&"evaluate") && all.contains(&"edit-definition") && !all.contains(&"inspect"));
        assert!(tools().chosen("status").unwrap().get("outline").is_err());
    }

    /// The table in SECURITY.md lists exactly the tools that run code, write files, start a process
    /// or need a permission, and repeats their declarations.
    #[test]
    fn security_table_matches_declarations() {
        let either = |permissions: &[Permission]| {
            permissions
                .iter()
                .map(|permission| format!("`{}`", permission.option()))
                .collect::<Vec<_>>()
                .join(" or ")
        };
        let declared: Vec<String> = tools()
            .list()
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

    /// A tool must declare if its code checks permissions or starts scratch copies of the image.
    /// Only the listed files may start processes.
    #[test]
    fn permissions_and_processes_are_declared() {
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
                if !name.starts_with("actions/") || name == "actions/mod.rs" {
                    continue;
                }
                let asks = has(&[".permit(Permission", ".allows("]);
                assert!(
                    !asks || has(&[".may_need(", ".needs("]),
                    "{name} checks a permission that it does not declare"
                );
                let copies = has(&["in_scratch(session", "= CheckRequest {", "RenameVerifyRequest::new("]);
                assert!(!copies || has(&["Starts::Copy"]), "{name} starts a copy without declaring it");
            }
        }
        starting.sort();
        assert_eq!(
            starting,
            [
                "actions/uses/working_tree.rs", "doors/cli/doctor.rs", "doors/cli/share.rs",
                "handle/scratch.rs"
            ]
        );
    }
}
