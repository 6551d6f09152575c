//! The tools that read a tree's text: find_references, index_project, check_index_status.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::tool::{Answer, Call, Effect, Failure, News, Outcome, Session, Tool};
use crate::query::find_references::{self, References, find_references};
use crate::query::index_project::{self, IndexStatus, Indexed, check_index_status, index_project};
use crate::source::text::{Control, Pattern, TextIndex};

/// No arguments.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

/// The family's tools.
pub(super) fn tools() -> Vec<Tool> {
    vec![
        Tool::new::<find_references::Request, References>(
            "find_references",
            "Find a name in any source tree",
            "Finds the definition of a name and every place where its text occurs, in one call, in any language: \
             Common Lisp, Emacs Lisp, Scheme, Clojure, Rust, TypeScript, JavaScript, Python, Go, C, C++, Java, Ruby, \
             PHP, C#, Zig, Kotlin, Swift, and other text. Nothing need be loaded and nothing is run. Use it to rename, \
             to see what a change touches, or to find dead code. An identifier matches whole identifiers of its \
             language (*earmuffs*, set!, json!, $x, pkg:name), anything else is literal text. Each reference has path, \
             line, column, role (definition, call, reference, comment, string, keyword) and the line. Turn pages with \
             limit and offset while pagination.has_more. For what the compiler resolved in a loaded Lisp system, ask \
             code-find-references.",
            Effect::Reads,
            references,
        ),
        Tool::new::<index_project::Request, Indexed>(
            "index_project",
            "Index the project's text",
            "Builds the index that find_references uses, or brings it up to date. It is rarely needed: questions keep \
             the index fresh by themselves. Call it when an error says \"Index not found\" or \"stale\", with force to \
             build it from nothing, or with languages to index only some. The index is kept in the user's cache, not \
             in the project.",
            Effect::Reads,
            index,
        ),
        Tool::new::<NoArguments, IndexStatus>(
            "check_index_status",
            "Tell how old the text index is",
            "Tells whether the index of the project's text is fresh, stale or missing, and how many files changed \
             since it was made. It changes nothing.",
            Effect::Reads,
            status,
        ),
    ]
}

/// The project's index, or how to get one.
fn text_of(session: &Session) -> Result<&Arc<TextIndex>, Failure> {
    session.text.as_ref().map_err(|why| Failure::Engine(why.to_string()))
}

/// Runs `work` so that it ends when the call is called off, and its progress is the call's.
fn controlled<T>(call: &Call, work: impl FnOnce(&Control<'_>) -> T) -> T {
    let cancellation = call.cancellation();
    let last = AtomicUsize::new(0);
    let progress = |done: usize, total: usize| {
        if last.fetch_max(done, Ordering::Relaxed) < done {
            call.report(News {
                done: done as f64,
                total: Some(total as f64),
                message: format!("{done} of {total} files indexed"),
            });
        }
    };
    work(&Control { cancelled: &|| cancellation.is_cancelled(), progress: &progress })
}

/// The contract's text is the answer as JSON.
fn answer<T: Serialize>(answer: &T, outcome: Outcome) -> Result<Answer, Failure> {
    let text = serde_json::to_string(answer).map_err(|error| Failure::Engine(error.to_string()))?;
    Answer::new(text, answer, outcome)
}

fn references(session: &Session, request: find_references::Request, call: &Call) -> Result<Answer, Failure> {
    let index = text_of(session)?;
    let resolver = resolver(session, index, &request);
    let found = controlled(call, |control| find_references(index, &request, Some(&resolver), control));
    let found = found.map_err(|error| match error.is_about_the_request() {
        true => Failure::Arguments(error.to_string()),
        false => Failure::Engine(error.to_string()),
    })?;
    let nothing = found.total_references == 0 && found.definition.is_none();
    answer(&found, if nothing { Outcome::NotFound } else { Outcome::Answered })
}

/// Tells which symbol stands at a place, where the image has loaded the file as it is now.
fn resolver<'a>(
    session: &'a Session,
    index: &'a TextIndex,
    request: &find_references::Request,
) -> impl Fn(&Path, u32, u32) -> Option<String> + use<'a> {
    let name = Pattern::new(&request.pattern).and_then(|pattern| pattern.common_lisp_name());
    let project = session.bank.project();
    let loaded: HashMap<_, _> =
        if name.is_some() { project.loaded().into_iter().collect() } else { HashMap::new() };
    move |path, line, column| {
        let path = index.root().join(path);
        let file = project.positions(&path, *loaded.get(&path)?).ok().filter(|file| file.is_fresh())?;
        let (package, name) = file.symbol_at(name.as_deref()?, line, column)?;
        Some(format!("{package}::{name}"))
    }
}

fn index(session: &Session, request: index_project::Request, call: &Call) -> Result<Answer, Failure> {
    let index = text_of(session)?;
    let indexed = controlled(call, |control| index_project(index, &request, control));
    answer(&indexed.map_err(failure)?, Outcome::Answered)
}

fn status(session: &Session, _: NoArguments, call: &Call) -> Result<Answer, Failure> {
    let index = text_of(session)?;
    let status = controlled(call, |control| check_index_status(index, control));
    answer(&status.map_err(failure)?, Outcome::Answered)
}

fn failure(error: index_project::Error) -> Failure {
    match error {
        index_project::Error::Language { .. } => Failure::Arguments(error.to_string()),
        _ => Failure::Engine(error.to_string()),
    }
}
