//! Prompts that a user selects in a host's menu. The only prompt is for reviewing a change.

use std::fmt::Write as _;

use rmcp::model::{
    ErrorData, GetPromptRequestParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument,
    PromptMessage, Role,
};
use serde_json::Value;
use serde_json::value::RawValue;

use super::query::params_of;
use crate::tools::{Session, quoted};

/// The tools for a review, each with its instruction.
const STEPS: [(&str, &str); 9] = [
    (
        "load-system",
        "if the project is not loaded: otherwise only text is searched. Loading runs the project's code.",
    ),
    (
        "impact",
        "with diff=true for uncommitted changes, else with the names and paths that changed: lists users of the changed code, \
        calls that no longer match its lambda list, and the tests that reach it.",
    ),
    ("check", "compiles the change in a copy of the image and lists warnings and errors with their places."),
    ("check-structure", "for each changed Lisp file: finds parentheses that do not match the indentation."),
    (
        "code-find-references",
        "for each definition that was removed, renamed or got other arguments: check that each use changed too.",
    ),
    ("describe-symbol", "for each unfamiliar name, instead of guessing."),
    ("package-info", "if exports changed: check that nothing needs a symbol that is no longer exported."),
    ("outline", "with unused=true for each changed file: finds definitions without uses."),
    ("run-tests", "to find failing tests; check whether they also fail without the change."),
];

/// A prompt: its name, and its arguments with their descriptions.
pub(super) struct OfferedPrompt(&'static str, [(&'static str, &'static str); 2]);

const REVIEW: OfferedPrompt = OfferedPrompt(
    "review-change",
    [
        (
            "revision",
            "The git commit or range to review, as for `git diff`. If omitted, the uncommitted changes.",
        ),
        ("system", "The system to test. If omitted, the loaded systems."),
    ],
);

impl OfferedPrompt {
    pub(super) fn has_argument(&self, name: &str) -> bool {
        self.1.iter().any(|(known, _)| *known == name)
    }
}

/// Returns the steps of a review with tools that the client may call.
fn steps(session: &Session) -> impl Iterator<Item = (&'static str, &'static str)> {
    STEPS.into_iter().filter(|(name, _)| {
        let tool = session.tools().get(name);
        tool.is_ok_and(|tool| tool.permission().is_none_or(|needed| session.allows(needed)))
    })
}

/// Finds a prompt by its name. The review is offered only if the client may call at least one of
/// its tools.
pub(super) fn find(session: &Session, name: &str) -> Option<OfferedPrompt> {
    (name == REVIEW.0 && steps(session).next().is_some()).then_some(REVIEW)
}

/// Lists the prompts.
pub(super) fn list(session: &Session) -> ListPromptsResult {
    let arguments = |prompt: &OfferedPrompt| {
        let argument = |(name, description): (&str, &str)| {
            PromptArgument::new(name).with_description(description).with_required(false)
        };
        prompt.1.into_iter().map(argument).collect::<Vec<_>>()
    };
    let prompts = find(session, REVIEW.0).into_iter().map(|prompt| {
        let what = "Asks a model to review a change of the project with the compiler's records.";
        Prompt::new(prompt.0, Some(what), Some(arguments(&prompt))).with_title("Review a change")
    });
    ListPromptsResult::with_all_items(prompts.collect())
}

/// Returns the requested prompt.
pub(super) fn get(params: Option<&RawValue>, session: &Session) -> Result<GetPromptResult, ErrorData> {
    let wrong = |why: String| ErrorData::invalid_params(why, None);
    let given: GetPromptRequestParams = params_of("prompts/get", params)?;
    let prompt = find(session, &given.name)
        .ok_or_else(|| wrong(format!("There is no prompt called {}.", quoted(&given.name))))?;
    let arguments = given.arguments.unwrap_or_default();
    if let Some(name) = arguments.keys().find(|name| !prompt.has_argument(name)) {
        return Err(wrong(format!("{} has no argument {}.", prompt.0, quoted(name))));
    }
    let text = |name: &str| match arguments.get(name) {
        None => Ok(None),
        // Reject values that a shell or git would not treat as a plain name.
        Some(Value::String(value)) if is_name(value) => {
            Ok(Some(value.as_str()).filter(|value| !value.is_empty()))
        }
        Some(_) => Err(wrong(format!(
            "The argument {} must be a plain name or revision, without spaces or shell syntax.",
            quoted(name)
        ))),
    };
    Ok(GetPromptResult::new(vec![PromptMessage::new_text(
        Role::User,
        review(session, text("revision")?, text("system")?),
    )]))
}

fn is_name(value: &str) -> bool {
    let plain = |char: char| char.is_alphanumeric() || "-._/~^@{}:+=,#%".contains(char);
    value.len() <= 1000 && !value.starts_with('-') && value.chars().all(plain)
}

fn review(session: &Session, revision: Option<&str>, system: Option<&str>) -> String {
    let (what, command) = match revision {
        Some(revision) => (format!("the change {revision}"), format!("git diff {revision}")),
        None => ("the uncommitted changes".to_owned(), "git diff HEAD".to_owned()),
    };
    let mut text = format!(
        "Review {what} in this Common Lisp project. First read the change (`{command}`) and summarize its purpose in one sentence. \
         Then use steelbank's tools, which answer from the compiler's records, where the text leaves a doubt:\n"
    );
    for (tool, what) in steps(session) {
        // Ignore the result: writing to a string cannot fail.
        let _ = write!(text, "\n- {tool}: {what}");
        if let ("run-tests" | "load-system", Some(system)) = (tool, system) {
            let _ = write!(text, " The system is {system}.");
        }
    }
    text + "\n\nChange nothing. Report each problem, the worst first, with file:line:column, the input or caller for which it goes \
            wrong, and your evidence (which tool reported it). Then list what you did not check, and why. If there are no \
            problems, report that."
}
