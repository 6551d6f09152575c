//! The tools about the user's project: loading it, and what is where in its files.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::tool::{Answer, Call, Effect, Failure, Load, News, Outcome, Session, Tool};
use crate::LoadListener;
use crate::query::control::ALLOWED;
use crate::query::find_definition;
use crate::query::load_system::{LoadAnswer, LoadNews, LoadStatus, SystemsAnswer};
use crate::query::lookup::DEFAULT_PACKAGE;
use crate::query::{
    self,
    code_find_references::{self, Request},
};
use crate::render::project as text;

/// What code-find-references takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReferencesArguments {
    /// The symbol, in any case: my-func, pkg:name, pkg::name, |Mixed Case|, (setf name). A prefix wins over `package`.
    symbol: String,
    /// The package to look the symbol up in.
    #[serde(default = "default_package")]
    package: String,
    /// Only uses in the project's own files. False: in all that is loaded, SBCL itself included.
    #[serde(default = "yes")]
    project_only: bool,
    /// The most entries to list.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 1_000_000))]
    limit: usize,
    /// How many entries to leave out first.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    offset: usize,
}

/// What find-definition takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct DefinitionArguments {
    /// The symbol, in any case: my-func, pkg:name, pkg::name, |Mixed Case|. A prefix wins over `package`.
    name: String,
    /// The package to look the name up in.
    #[serde(default = "default_package")]
    package: String,
}

/// What load-system takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LoadSystemArguments {
    /// The system's name, as in (asdf:load-system "name").
    system: String,
    /// Compile the system's own files anew, changed or not.
    #[serde(default)]
    force: bool,
    /// The most seconds that it may take.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 86_400))]
    timeout_seconds: u64,
}

/// What load-file takes.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct LoadFileArguments {
    /// The file's path.
    path: String,
    /// The most seconds that it may take.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 86_400))]
    timeout_seconds: u64,
}

/// What list-systems takes: nothing.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

fn default_package() -> String {
    DEFAULT_PACKAGE.to_owned()
}

fn yes() -> bool {
    true
}

fn default_limit() -> usize {
    200
}

fn default_timeout() -> u64 {
    300
}

/// The family's tools.
pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new::<ReferencesArguments, code_find_references::Answer>(
            "code-find-references",
            "Find where a symbol is used",
            "Finds every line of the project where a symbol is used: calls, macro uses, variable reads, writes and \
             bindings as the compiler recorded them, and what it does not record: classes, types, slots, quoted \
             symbols, macro templates, exports. Use it before renaming or changing anything. Each entry has path, \
             line, column, type, the line's text and the calling function. `evidence` is exact (the symbol stands \
             there: edit it), via (a macro expands into the use: edit the macro), or approximate (look first). The \
             system must be loaded; entries of files that changed since then are marked stale. Definitions are not \
             listed: ask find-definition.",
            Effect::Reads,
            references,
        )
        .of_image(),
        Tool::new::<DefinitionArguments, find_definition::Answer>(
            "find-definition",
            "Find where a symbol is defined",
            "Finds every definition of a symbol, as function, method, macro, variable, class, structure, type and so \
             on, with path, line and column. Evidence via means that the form there makes the definition without \
             naming it, as defstruct does its accessors.",
            Effect::Reads,
            definition,
        )
        .of_image(),
        Tool::new::<LoadSystemArguments, LoadAnswer>(
            "load-system",
            "Load a system",
            "Loads an ASDF system of the project, or one that ASDF finds, into the image, and reports what the \
             compiler says, with file, line and column: errors, warnings, read errors. Load the project's system \
             before asking about its code, and again after editing files: only what changed is compiled. This runs \
             the system's code. When it fails, what was loaded before stays, and the answer says what to correct.",
            Effect::Runs,
            load_system,
        ),
        Tool::new::<LoadFileArguments, LoadAnswer>(
            "load-file",
            "Load one file",
            "Compiles and loads one Lisp source file into the image, and reports what the compiler says, with line \
             and column. Use it after editing a single file whose system is loaded. This runs the file's code.",
            Effect::Runs,
            load_file,
        ),
        Tool::new::<NoArguments, SystemsAnswer>(
            "list-systems",
            "List the project's systems",
            "Lists the systems that the project defines, which of them are loaded, and which files have changed on \
             disk since they were loaded.",
            Effect::Reads,
            systems,
        )
        .of_image(),
    ]
}

fn references(session: &Session, given: ReferencesArguments, _: &Call) -> Result<Answer, Failure> {
    let answer = session.bank.code_find_references(&Request {
        symbol: given.symbol,
        package: given.package,
        project_only: given.project_only,
        limit: given.limit,
        offset: given.offset,
    })?;
    Answer::new(text::references(&answer), &answer, Outcome::Answered)
}

fn definition(session: &Session, given: DefinitionArguments, call: &Call) -> Result<Answer, Failure> {
    let answer = session.bank.find_definition(&given.name, &given.package, &call.control(ALLOWED))?;
    Answer::new(text::definitions(&answer), &answer, Outcome::Answered)
}

fn load_system(session: &Session, given: LoadSystemArguments, call: &Call) -> Result<Answer, Failure> {
    let control = call.control(Duration::from_secs(given.timeout_seconds));
    let outcome = session.bank.load_system(&given.system, given.force, &control, Some(listener(call)));
    loaded(session, given.system, outcome)
}

fn load_file(session: &Session, given: LoadFileArguments, call: &Call) -> Result<Answer, Failure> {
    let control = call.control(Duration::from_secs(given.timeout_seconds));
    let outcome = session.bank.load_file(&given.path, &control, Some(listener(call)));
    loaded(session, given.path, outcome)
}

fn systems(session: &Session, _: NoArguments, call: &Call) -> Result<Answer, Failure> {
    let answer = session.bank.list_systems(&call.control(ALLOWED))?;
    Answer::new(text::systems(&answer), &answer, Outcome::Answered)
}

/// A load's answer; the session remembers how it ended, for those who did not ask for it.
fn loaded(
    session: &Session,
    name: String,
    outcome: Result<LoadAnswer, query::Error>,
) -> Result<Answer, Failure> {
    let text = outcome.as_ref().map_or_else(ToString::to_string, text::load);
    let loaded = outcome.as_ref().is_ok_and(|answer| answer.status == LoadStatus::Loaded);
    let line = text.lines().next().unwrap_or_default().to_owned();
    session.note_load(Load { name, loaded, outcome: line });
    let ended = if loaded { Outcome::Answered } else { Outcome::Failed };
    Answer::new(text, &outcome?, ended)
}

/// Hands a load's news to the call's listener.
fn listener(call: &Call) -> LoadListener {
    let call = call.clone();
    Arc::new(move |news: LoadNews| {
        call.report(News {
            done: news.done as f64,
            // A file that is compiled and not in the plan would make the bar run over.
            total: (news.total >= news.done).then_some(news.total as f64),
            message: format!("{} {}", news.what, news.path),
        });
    })
}
