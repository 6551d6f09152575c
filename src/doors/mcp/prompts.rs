//! Prompts, which a person chooses from a host's menu: one, for the review of a change.

use std::fmt::Write as _;

use rmcp::model::{
    ErrorData, GetPromptRequestParams, GetPromptResult, ListPromptsResult, Prompt, PromptArgument,
    PromptMessage, Role,
};
use serde_json::Value;
use serde_json::value::RawValue;

use super::ask::params_of;
use crate::tools::{Session, quoted};

/// The tools of a review, and what each is for.
const STEPS: [(&str, &str); 9] = [
    (
        "load-system",
        "if the project is not loaded: what is not loaded is known as text only. It runs the project's code.",
    ),
    (
        "impact",
        "with diff=true for what is not committed, else with the names and paths that changed: who uses it, \
        calls that no longer fit its lambda list, and the tests that reach it.",
    ),
    (
        "check",
        "compiles the change in a copy of the image: its warnings and errors count, each with its place.",
    ),
    ("check-structure", "for each Lisp file that changed: parentheses that do not match the indentation."),
    (
        "code-find-references",
        "for each definition that was removed, renamed or takes other arguments: is each use changed too?",
    ),
    ("describe-symbol", "for each name that you do not know, in place of a guess."),
    ("package-info", "when exports changed: does anything need what is no longer exported?"),
    ("outline", "with unused=true for each file that changed: what nothing uses any more."),
    ("run-tests", "which tests fail, and do they fail without the change?"),
];

/// A prompt that is offered.
pub(super) struct OfferedPrompt(&'static str, [(&'static str, &'static str); 2]);

const REVIEW: OfferedPrompt = OfferedPrompt(
    "review-change",
    [
        (
            "revision",
            "The commit or range of git to review, as for `git diff`; left out: what is not committed.",
        ),
        ("system", "The system whose tests are to be run; left out: those that are loaded."),
    ],
);

impl OfferedPrompt {
    pub(super) fn has_argument(&self, name: &str) -> bool {
        self.1.iter().any(|(known, _)| *known == name)
    }
}

/// Returns the steps of a review whose tools the client may call.
fn steps(session: &Session) -> impl Iterator<Item = (&'static str, &'static str)> {
    STEPS.into_iter().filter(|(name, _)| {
        let tool = session.tools().get(name);
        tool.is_ok_and(|tool| tool.permission().is_none_or(|needed| session.allows(needed)))
    })
}

/// Finds a prompt, if it is offered: there is no review without a tool.
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
        let what = "Has a model review a change of the project with what the compiler knows of it.";
        Prompt::new(prompt.0, Some(what), Some(arguments(&prompt))).with_title("Review a change")
    });
    ListPromptsResult::with_all_items(prompts.collect())
}

/// Writes the prompt that is asked for.
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
        // Refuse what a shell or git would take for something else than a name.
        Some(Value::String(value)) if is_name(value) => {
            Ok(Some(value.as_str()).filter(|value| !value.is_empty()))
        }
        Some(_) => Err(wrong(format!("The argument {} is no name.", quoted(name)))),
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
        None => ("what is not committed".to_owned(), "git diff HEAD".to_owned()),
    };
    let mut text = format!(
        "Review {what} in this Common Lisp project. Read the change first (`{command}`), and say in a sentence what it is to \
         do. Then ask the tools of steelbank, which answer from the compiler's records, where reading leaves a doubt:\n"
    );
    for (tool, what) in steps(session) {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n- {tool}: {what}");
        if let ("run-tests" | "load-system", Some(system)) = (tool, system) {
            let _ = write!(text, " The system is {system}.");
        }
    }
    text + "\n\nChange nothing. Report what is wrong, the worst first, each with file:line:column, what goes wrong by which \
            input or caller, and how you know it (which tool said so). Then say what you did not check, and why. If nothing \
            is wrong, say so."
}
