//! What a tool is: a name, schemas, and a function from checked arguments to an answer. It knows no protocol, so that
//! the command line calls the same tools.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{arguments, schema};
use crate::Steelbank;
use crate::engine::State;
use crate::query::Error;
use crate::query::control::{Cancellation, Control};
use crate::source::text::TextIndex;

/// What every tool can use. Shared by all calls; cheap to clone.
#[derive(Clone)]
pub struct Session {
    /// SBCL and its indexes.
    pub bank: Steelbank,
    /// The index of the project's text, or why there is none.
    pub text: Result<Arc<TextIndex>, Arc<str>>,
    /// How the loads of this session ended, by system or file.
    loads: Arc<Mutex<BTreeMap<String, Load>>>,
}

/// How a load ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Load {
    /// The system or file.
    pub(super) name: String,
    /// Whether all of it is loaded.
    pub(super) loaded: bool,
    /// What came of it, in a line.
    pub(super) outcome: String,
}

impl Session {
    /// A session over `bank`.
    pub fn new(bank: Steelbank) -> Self {
        let why = "There is no project whose text could be searched: start steelbank with --project DIR.";
        Self { bank, text: Err(why.into()), loads: Arc::default() }
    }

    /// Remembers how a load ended.
    pub(super) fn note_load(&self, load: Load) {
        self.loads.lock().insert(load.name.clone(), load);
    }

    /// How the loads ended, by name.
    pub(super) fn loads(&self) -> Vec<Load> {
        self.loads.lock().values().cloned().collect()
    }

    /// The same session, with the index of the project's text, or why there is none.
    #[must_use]
    pub fn with_text(mut self, text: Result<TextIndex, String>) -> Self {
        self.text = text.map(Arc::new).map_err(Arc::from);
        self
    }
}

/// A running call's news.
#[derive(Debug, Clone, PartialEq)]
pub struct News {
    /// How much is done. It must grow with every news of a call.
    pub done: f64,
    /// How much there is to do, if that is known.
    pub total: Option<f64>,
    /// What is going on, for people.
    pub message: String,
}

/// One call of a tool: how it is called off, and who hears its news.
#[derive(Clone)]
pub struct Call {
    cancellation: Cancellation,
    listener: Arc<dyn Fn(News) + Send + Sync>,
}

impl Default for Call {
    fn default() -> Self {
        Self::new(|_| ())
    }
}

impl Call {
    /// A call whose news `listener` hears. It must not wait.
    pub fn new(listener: impl Fn(News) + Send + Sync + 'static) -> Self {
        Self { cancellation: Cancellation::default(), listener: Arc::new(listener) }
    }

    /// What calls this call off.
    pub fn cancellation(&self) -> Cancellation {
        self.cancellation.clone()
    }

    /// A question of this call's that may take `allowed`; it is called off with the call.
    pub fn control(&self, allowed: Duration) -> Control {
        Control::new(allowed).called_off_by(self.cancellation())
    }

    /// Tells the news.
    pub fn report(&self, news: News) {
        (self.listener)(news);
    }
}

/// How a call that was carried out ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With an answer.
    Answered,
    /// What was asked about does not exist, which is an answer too. The command line exits with 1.
    NotFound,
    /// What was to be done failed, and the answer tells how. MCP says `isError`, the command line exits with 3.
    Failed,
}

/// What a tool answers.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// For models and people: the contract's text where there is a contract.
    pub text: String,
    /// For programs: an object as the output schema says.
    pub structured: Value,
    /// How it ended.
    pub outcome: Outcome,
    /// What must be known beside the answer.
    pub note: Option<&'static str>,
}

impl Answer {
    /// The answer `structured`, shown as `text`.
    ///
    /// # Errors
    /// `structured` cannot be JSON, which is a bug.
    pub fn new<T: Serialize>(text: String, structured: &T, outcome: Outcome) -> Result<Self, Failure> {
        let structured =
            serde_json::to_value(structured).map_err(|error| Failure::Engine(error.to_string()))?;
        Ok(Self { text, structured, outcome, note: None })
    }
}

impl Answer {
    fn while_moving(mut self, moving: bool) -> Self {
        if moving {
            self.note = Some(MOVING);
            if let Value::Object(structured) = &mut self.structured {
                structured.insert("loading".to_owned(), Value::Bool(true));
            }
        }
        self
    }
}

/// Why there is no answer, in a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The arguments are not what the tool takes.
    #[error("{0}")]
    Arguments(String),
    /// The engine cannot answer.
    #[error("{0}")]
    Engine(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::Name(error) => Self::Arguments(error.to_string()),
            Error::References(error) => Self::Arguments(error.to_string()),
            other => Self::Engine(sentence(&other.to_string())),
        }
    }
}

/// What a tool does to its surroundings, as hints to hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// It looks and changes nothing.
    Reads,
    /// It changes the image (loads code, defines things), and asking twice does no more than asking once.
    Changes,
    /// It runs code that can do anything.
    Runs,
}

impl Effect {
    fn annotations(self, title: &str) -> Value {
        json!({
            "title": title,
            "readOnlyHint": self == Self::Reads,
            "destructiveHint": self == Self::Runs,
            "idempotentHint": self != Self::Runs,
            "openWorldHint": self == Self::Runs,
        })
    }
}

type Body = dyn Fn(&Session, Map<String, Value>, &Call) -> Result<Answer, Failure> + Send + Sync;

/// A tool.
pub struct Tool {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    effect: Effect,
    of_image: bool,
    input: Arc<Map<String, Value>>,
    output: Arc<Map<String, Value>>,
    body: Box<Body>,
}

/// What answers about the image say while a load changes it.
const MOVING: &str = "A system is being loaded just now: what it defines may still be missing here. Ask again when the load has ended.";

impl Tool {
    /// A tool that takes `A`, described by its schema, and promises an answer of `O`'s schema.
    ///
    /// `A` should have serde defaults for what may be left out, and `#[serde(deny_unknown_fields)]`, so that the
    /// schema tells that nothing else is taken.
    pub fn new<A, O>(
        name: &'static str,
        title: &'static str,
        description: &'static str,
        effect: Effect,
        body: impl Fn(&Session, A, &Call) -> Result<Answer, Failure> + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        O: Serialize + JsonSchema,
    {
        let input = Arc::new(schema::input::<A>());
        let checked = Arc::clone(&input);
        Self {
            name,
            title,
            description,
            effect,
            of_image: false,
            input,
            output: Arc::new(schema::output::<O>()),
            body: Box::new(move |session, given, call| {
                let read = arguments::read(name, &checked, given).map_err(Failure::Arguments)?;
                body(session, read, call)
            }),
        }
    }

    /// The same tool, whose answers are about the image, and say so when a load is changing it.
    #[must_use]
    pub fn of_image(mut self) -> Self {
        self.of_image = true;
        if let Some(Value::Object(properties)) = Arc::make_mut(&mut self.output).get_mut("properties") {
            let loading = json!({
                "type": "boolean",
                "description": "True while a system is being loaded: the answer may soon be another."
            });
            properties.insert("loading".to_owned(), loading);
        }
        self
    }

    /// The name that it is called by.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The name for people.
    pub fn title(&self) -> &'static str {
        self.title
    }

    /// What it does, for models.
    pub fn description(&self) -> &'static str {
        self.description
    }

    /// The names of its arguments, and whether each must be given; those come first.
    pub fn arguments(&self) -> Vec<(&str, bool)> {
        let required = self.input.get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|other| other == name));
        let names = self.input.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
        let mut names: Vec<_> = names.map(|name| (name.as_str(), is_required(name))).collect();
        names.sort_by_key(|(name, required)| (!required, *name != "package", *name));
        names
    }

    /// Its entry in `tools/list`.
    pub fn listing(&self) -> Value {
        json!({
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": *self.input,
            "outputSchema": *self.output,
            "annotations": self.effect.annotations(self.title),
        })
    }

    /// Checks `arguments` and carries the call out on this thread. Long texts are cut.
    ///
    /// # Errors
    /// The arguments are wrong, or the engine cannot answer.
    pub fn call(
        &self,
        session: &Session,
        arguments: Map<String, Value>,
        call: &Call,
    ) -> Result<Answer, Failure> {
        let is_moving = || self.of_image && session.bank.is_loading();
        let moved = is_moving();
        let outcome = (self.body)(session, arguments, call);
        let moving = moved || is_moving();
        match outcome {
            Ok(mut answer) => {
                answer.text = cut(answer.text, MOST_TEXT);
                Ok(answer.while_moving(moving))
            }
            Err(Failure::Arguments(why)) if moving => {
                Err(Failure::Arguments(format!("{} {MOVING}", cut(why, MOST_ERROR))))
            }
            Err(Failure::Arguments(why)) => Err(Failure::Arguments(cut(why, MOST_ERROR))),
            Err(Failure::Engine(why)) => {
                Err(Failure::Engine(cut(not_started(&session.bank).unwrap_or(why), MOST_ERROR)))
            }
        }
    }
}

/// Why SBCL has never been ready, if it has not: that sentence has the remedy, which the later ones lack.
fn not_started(bank: &Steelbank) -> Option<String> {
    let status = bank.status();
    if status.start_microseconds.is_some() || !matches!(status.state, State::Dead { .. }) {
        return None;
    }
    bank.lisp().wait_until_ready().err().map(|error| sentence(&error.to_string()))
}

/// The most characters of an answer's text, and of an error.
const MOST_TEXT: usize = 1_000_000;
const MOST_ERROR: usize = 4_000;

/// `text`, or its beginning and a line that says how much is missing.
fn cut(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    match text.char_indices().nth(most) {
        None => text,
        Some((at, _)) => {
            let rest = text[at..].chars().count();
            format!("{}\n... cut here: {rest} more characters are left out.", &text[..at])
        }
    }
}

/// `text`, or its beginning if it is long.
pub(super) fn shortened(text: &str) -> String {
    match text.char_indices().nth(100) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

/// `text` in quotes, shortened if it is long.
pub(super) fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text))
}

/// An error's words as a sentence.
fn sentence(words: &str) -> String {
    let mut chars = words.chars();
    let Some(first) = chars.next() else { return String::new() };
    let end = if words.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{}{}{end}", first.to_uppercase(), chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters_and_say_so() {
        assert_eq!(cut("ää".into(), 2), "ää");
        assert_eq!(cut("äää".into(), 2), "ää\n... cut here: 1 more characters are left out.");
    }

    #[test]
    fn errors_become_sentences() {
        assert_eq!(sentence("the request was cancelled"), "The request was cancelled.");
        assert_eq!(sentence("Done."), "Done.");
    }
}
