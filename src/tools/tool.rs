//! Defines [`Tool`]: a name, schemas, permissions, and a function from checked arguments to an
//! answer. [`Tool::call`] calls that function and adds notes that all answers share, for example on
//! stale files, a load in progress or a restart. This module is independent of protocols.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::call::{Blame, Call, Failure, ToolAnswer};
use super::phrases::truncated;
use super::session::{Permission, Session};
use super::{Offer, arguments, budget, schema};
use crate::Steelbank;
use crate::answer::Advice;
use crate::engine::EngineState;
use crate::handle::Error;
use crate::handle::recovery::clock;

/// The effect of a tool on its environment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Only reads.
    Reads,
    /// Runs code of the project or of the caller, which can do anything.
    Runs,
    /// Writes files of the project.
    Writes,
}

/// A program that a tool starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Starts {
    /// git, to read its index and objects.
    Git,
    /// A copy of this program, which runs code in a scratch image.
    Copy,
}

/// The presentation of a tool to people and models.
#[derive(Debug, Clone, Copy)]
pub struct About {
    /// The name used to call the tool.
    pub name: &'static str,
    /// The title for people: a few words.
    pub title: &'static str,
    /// The description for models: what the tool does, and when to use it.
    pub description: &'static str,
    /// The effect on its environment.
    pub effect: Effect,
}

/// A JSON schema, or a call's arguments.
pub type Object = Map<String, Value>;
type Body = dyn Fn(&Session, Object, &Object, &Call) -> Result<ToolAnswer, Failure> + Send + Sync;

/// A tool: the name used to call it, the schemas of its arguments and its answer, and the function
/// that answers.
pub struct Tool {
    about: About,
    offer: Offer,
    permission: Option<Permission>,
    may_need: &'static [Permission],
    starts: Option<Starts>,
    of_image: bool,
    immediate: fn(&Object) -> bool,
    short: bool,
    joins_loads: bool,
    schemas: OnceLock<Schemas>,
    render: fn() -> Schemas,
    body: Box<Body>,
}

debug_fields!(Tool, about);

struct Schemas {
    input: Object,
    output: Object,
}

/// How long a call waits for loads in progress if its caller sets no limit.
const LOADS_WAIT: Duration = Duration::from_secs(600);
/// The note on answers about the image while a load changes it.
const LOADING_NOTE: &str =
    "A system is loading; results may be incomplete. Retry when the load has finished.";

/// The error of a call that runs code while a load does not end.
const LOADING_REFUSAL: &str = "A system is still loading. Retry when the load has finished.";

impl Tool {
    /// Creates a tool that takes `A` and answers with `O`; the schemas are generated from these
    /// types. An answer that exceeds the budget is truncated; pages of a long list already fit.
    ///
    /// Optional fields of `A` need serde defaults. Unknown arguments are ignored with a note,
    /// unless they look like a misspelt argument.
    pub fn new<A, O>(
        about: About,
        body: impl Fn(&Session, A, &Call) -> Result<ToolAnswer, Failure> + Send + Sync + 'static,
    ) -> Self
    where
        A: DeserializeOwned + JsonSchema,
        O: Serialize + JsonSchema,
    {
        Self {
            about,
            offer: Offer::All,
            permission: None,
            may_need: &[],
            starts: None,
            of_image: false,
            immediate: |_| false,
            short: false,
            joins_loads: false,
            schemas: OnceLock::new(),
            render: || Schemas { input: schema::input::<A>(), output: schema::output::<O>() },
            body: Box::new(move |session, given, schema, call| {
                let (read, ignored) =
                    arguments::read(about.name, schema, given).map_err(Failure::arguments)?;
                let mut answer = body(session, read, call)?;
                answer.notes.extend(ignored);
                Ok(answer)
            }),
        }
    }

    /// Marks the tool's answers as being about the image. While a load changes the image, or after
    /// Lisp has died, answers get a note and the field `loading` or `as_of` (seconds since 1970).
    #[must_use]
    pub fn of_image(self) -> Self {
        Self { of_image: true, ..self }
    }

    /// Marks the tool as fast: it neither waits for Lisp nor walks a directory tree, so the thread
    /// that reads requests may run the tool.
    #[must_use]
    pub fn immediate(self) -> Self {
        self.immediate_if(|_| true)
    }

    /// Marks the calls that `condition` selects by their arguments as fast.
    #[must_use]
    pub fn immediate_if(self, condition: fn(&Object) -> bool) -> Self {
        Self { immediate: condition, ..self }
    }

    /// Marks a tool that runs code as short: a call does not wait for the lane of long work.
    #[must_use]
    pub fn brief(self) -> Self {
        Self { short: true, ..self }
    }

    /// Makes calls wait until the loads in progress have ended, because the tool runs code that
    /// they define.
    #[must_use]
    pub fn joins_loads(self) -> Self {
        Self { joins_loads: true, ..self }
    }

    /// Requires `permission` for every call of the tool. A tool that needs it only for some calls
    /// uses [`Session::permit`] instead.
    #[must_use]
    pub fn needs(self, permission: Permission) -> Self {
        Self { permission: Some(permission), ..self }
    }

    /// Declares permissions that some calls need. The tool checks them with [`Session::permit`] or
    /// [`Session::allows`].
    #[must_use]
    pub fn may_need(self, permissions: &'static [Permission]) -> Self {
        Self { may_need: permissions, ..self }
    }

    /// Declares the program that calls of the tool start.
    #[must_use]
    pub fn starts(self, program: Starts) -> Self {
        Self { starts: Some(program), ..self }
    }

    /// Sets the clients to which the tool is listed by default.
    pub(crate) fn offered(self, offer: Offer) -> Self {
        Self { offer, ..self }
    }

    /// Returns the clients to which the tool is listed by default.
    pub fn offer(&self) -> Offer {
        self.offer
    }

    /// Returns the permission that every call needs.
    pub fn permission(&self) -> Option<Permission> {
        self.permission
    }

    /// Returns the permissions that some calls need.
    pub fn permissions_of_some_calls(&self) -> &'static [Permission] {
        self.may_need
    }

    /// Returns the program that calls start.
    pub fn started_program(&self) -> Option<Starts> {
        self.starts
    }

    /// Returns the name used to call the tool.
    pub fn name(&self) -> &'static str {
        self.about.name
    }

    /// Returns the tool's presentation.
    pub fn about(&self) -> About {
        self.about
    }

    /// Returns whether a call in `session` neither waits for Lisp nor walks a directory tree.
    pub fn is_immediate(&self, session: &Session, arguments: &Object) -> bool {
        let waits = || session.started().is_some_and(Steelbank::is_repeating_loads);
        (self.immediate)(arguments) && !self.catches_up(session, arguments) && !(self.of_image && waits())
    }

    /// Returns whether a call first queries Lisp for definitions made from a connected editor.
    fn catches_up(&self, session: &Session, arguments: &Object) -> bool {
        (self.of_image || !(self.immediate)(arguments)) && session.swank().is_some()
    }

    /// Waits for the loads in progress if the tool runs code that they define. After a restart,
    /// questions wait, too: they had answers before it.
    ///
    /// # Errors
    /// The tool runs code, and the loads have not ended within the call's patience.
    fn join_loads(&self, session: &Session, call: &Call) -> Result<(), Failure> {
        let Some(bank) = session.started().filter(|bank| bank.is_loading()) else { return Ok(()) };
        if self.joins_loads || self.of_image && bank.is_repeating_loads() {
            let control = call.control(call.patience().unwrap_or(LOADS_WAIT));
            if !bank.await_loads(&control) && self.joins_loads {
                return Err(Failure { passing: true, ..Failure::engine(LOADING_REFUSAL) });
            }
        }
        Ok(())
    }

    /// Returns whether a call does not wait for the lane of long work.
    pub fn is_short(&self) -> bool {
        self.short || self.about.effect != Effect::Runs
    }

    fn schemas(&self) -> &Schemas {
        self.schemas.get_or_init(self.render)
    }

    /// Returns the schema of the arguments, generated on first use.
    pub fn input(&self) -> &Object {
        &self.schemas().input
    }

    /// Returns the schema of the structured answer, generated on first use.
    pub fn output(&self) -> &Object {
        &self.schemas().output
    }

    /// Returns the names of the arguments, each with whether it is required. Required arguments
    /// come before optional arguments; in both groups, `package` comes first.
    pub fn arguments(&self) -> Vec<(&str, bool)> {
        let required = self.input().get("required").and_then(Value::as_array);
        let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|other| other == name));
        let names = self.input().get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
        let mut names: Vec<_> = names.map(|name| (name.as_str(), is_required(name))).collect();
        names.sort_by_key(|(name, required)| (!required, *name != "package", *name));
        names
    }

    /// Checks `arguments` and runs the call on this thread. Truncates long answers.
    ///
    /// # Errors
    /// The arguments are wrong, the session lacks a permission, or the engine cannot answer.
    pub fn call(&self, session: &Session, arguments: Object, call: &Call) -> Result<ToolAnswer, Failure> {
        if let Some(permission) = self.permission {
            session.permit_to(self.name(), permission)?;
        }
        session.submit_as_client();
        if let Some(bank) = session.started().filter(|_| self.catches_up(session, &arguments)) {
            bank.catch_up();
        }
        self.join_loads(session, call)?;
        let is_moving = || self.of_image && session.started().is_some_and(Steelbank::is_loading);
        let moved = is_moving();
        let only_in_image = self.of_image.then(|| session.only_in_image(&arguments)).flatten();
        let begun = Instant::now();
        let outcome = (self.body)(session, arguments, self.input(), call);
        let moving = moved || is_moving();
        let gone = session.missing_project();
        let older = match &gone {
            None if self.of_image => session.older_image(begun, call.wording()),
            _ => None,
        };
        match outcome {
            Ok(mut answer) => {
                budget::truncate_hard(&mut answer, call.budget());
                if let (Effect::Runs, Some(slot)) = (self.about.effect, session.client_slot()) {
                    slot.note_handles(&answer.structured);
                }
                if let Some(package) = &answer.looked_up_in {
                    answer.structured.insert("looked_up_in", package.as_str());
                }
                if call.has_one_time_notes() {
                    answer.notes.extend(session.take_restart_note());
                    answer
                        .notes
                        .extend(session.started().map(Steelbank::unreported_edits).into_iter().flatten());
                }
                if let Some(at) = self.image_death_time(session) {
                    answer.notes.push(format!(
                        "Lisp has died: this answer is as of {} UTC and does not include later changes; {}",
                        clock(at),
                        session.recovery().advice().worded(call.wording())
                    ));
                    answer.structured.insert("as_of", at);
                }
                let notes = [
                    ("project_gone", gone),
                    ("older_image", older),
                    ("only_in_image", only_in_image.map(|it| it.to_string())),
                ];
                for (key, note) in notes.into_iter().filter_map(|(key, note)| Some((key, note?))) {
                    answer.structured.insert(key, note.as_str());
                    answer.notes.push(note);
                }
                if moving {
                    answer.notes.push(LOADING_NOTE.to_owned());
                    answer.structured.insert("loading", true);
                }
                Ok(answer)
            }
            Err(mut failure) => {
                if failure.blame == Blame::Engine
                    && let Some(never_ready) = session.started().and_then(not_started)
                {
                    failure = never_ready;
                }
                if failure.advice == Some(Advice::RestartProgram) {
                    failure.advice = Some(session.recovery().advice());
                }
                failure.why = truncated(failure.why, MAX_ERROR_LENGTH);
                if let Some(note) = gone.or(older) {
                    failure.why = format!("{} {note}", failure.why);
                }
                if moving && failure.blame == Blame::Arguments {
                    failure.why = format!("{} {LOADING_NOTE}", failure.why);
                    failure.passing = true;
                }
                Err(failure)
            }
        }
    }

    /// Returns when Lisp died, in seconds since 1970, if this tool's answers are about the image.
    fn image_death_time(&self, session: &Session) -> Option<u64> {
        if self.of_image { session.started()?.lisp().died_at() } else { None }
    }
}

/// Returns the start error of an SBCL that was never ready. This error names the remedy; later
/// errors do not.
fn not_started(bank: &Steelbank) -> Option<Failure> {
    let status = bank.status();
    if status.start_microseconds.is_some() || !matches!(status.state, EngineState::Dead { .. }) {
        return None;
    }
    bank.lisp().wait_until_ready().err().map(|error| Error::Start(error).into())
}

/// The maximum length of an error message, in characters.
const MAX_ERROR_LENGTH: usize = 4_000;
