//! Runs calls of tools: parses the request, runs the tool at once or on a pool's thread, and writes
//! the response line.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use rmcp::model::ErrorData;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::client::Client;
use super::message::{self, Id};
use super::progress::progress_line;
use super::protocol::{Meta, ResultFormat};
use crate::answer::escape::escaped;
use crate::tools::{Blame, Call, CallOutcome, Effect, Failure, Object, Session, ToolAnswer};

/// How long a call waits for work that can continue in the background. Most hosts time out after a
/// minute.
const MAX_WAIT: Duration = Duration::from_secs(45);

#[derive(Deserialize)]
pub(super) struct CallParams<'a> {
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) _meta: Option<&'a RawValue>,
}

impl Client {
    /// Answers `tools/call`: appends the response to `answer` at once, or submits the call to a
    /// pool.
    pub(super) fn call(
        self: &Arc<Self>,
        line: &[u8],
        id: &Id,
        params: Option<&RawValue>,
        answer: &mut Vec<u8>,
    ) -> Result<(), ErrorData> {
        let read = params.and_then(|params| serde_json::from_str::<CallParams<'_>>(params.get()).ok());
        let meta = Meta::read(read.as_ref().and_then(|params| params._meta));
        let format = self.protocol.lock().negotiate("tools/call", &meta)?;
        let wrong = |why: &'static str| ErrorData::invalid_params(why, None);
        let Some(params) = read else {
            return Err(wrong("tools/call requires \"name\", the name of a tool, as a string."));
        };
        let arguments = match params.arguments.map(RawValue::get) {
            None | Some("null") => Object::new(),
            Some(json) => serde_json::from_str::<Object>(json)
                .map_err(|_| wrong("The \"arguments\" of tools/call must be an object."))?,
        };
        let tool =
            self.session.tools().get(&params.name).map_err(|why| ErrorData::invalid_params(why, None))?;
        let about = PooledRequest {
            effect: tool.about().effect,
            at_once: tool.is_immediate(&self.session, &arguments),
            is_short: tool.is_short(),
            call: self.new_call(&meta),
        };
        let of = id.clone();
        self.submit(line, id, about, answer, move |session, call, line| {
            let outcome = tool.call(session, arguments, call);
            write_outcome(line, &of, format, &outcome);
            matches!(outcome, Err(Failure { blame: Blame::Engine, .. }))
        })
    }

    /// Creates a call. The call reports its progress if the request has a progress token.
    pub(super) fn new_call(self: &Arc<Self>, meta: &Meta<'_>) -> Call {
        let call = match meta.progress_token.map(RawValue::to_owned) {
            None => Call::default(),
            Some(token) => {
                let client = Arc::clone(self);
                Call::new(move |progress| client.output.try_queue_progress(&progress_line(&token, &progress)))
            }
        };
        call.with_patience(MAX_WAIT)
    }

    /// Runs a request at once or on a pool's thread. `work` writes the response line and returns
    /// whether the engine failed. If the engine failed on a pool's thread because Lisp has died,
    /// and the program will restart, or if a client has requested a restart, a request that only
    /// reads is left to the restarted program; another one gets its response then. A panic becomes
    /// an internal error of this request alone.
    pub(super) fn submit(
        self: &Arc<Self>,
        line: &[u8],
        id: &Id,
        about: PooledRequest,
        answer: &mut Vec<u8>,
        work: impl FnOnce(&Session, &Call, &mut Vec<u8>) -> bool + Send + 'static,
    ) -> Result<(), ErrorData> {
        let PooledRequest { effect, at_once, is_short, call } = about;
        let again = (effect == Effect::Reads).then(|| line.to_vec());
        if at_once && !self.output.is_full() {
            let serial = self.calls.add(id.clone(), call.cancellation(), again, true);
            let before = answer.len();
            guarded(id, answer, |line| work(&self.session, &call, line));
            if !self.calls.answer(serial) {
                answer.truncate(before);
            }
            self.calls.end(serial);
            return Ok(());
        }
        let pool = match effect {
            Effect::Runs => &self.code,
            Effect::Reads | Effect::Writes => &self.questions,
        };
        let serial = self.calls.add(id.clone(), call.cancellation(), again, is_short);
        let (client, of, id) = (Arc::clone(self), Arc::clone(pool), id.clone());
        let submitted = pool.submit(Box::new(move || {
            if !client.calls.begin(serial, &of) {
                return true;
            }
            let mut line = Vec::new();
            let failed = guarded(&id, &mut line, |line| work(&client.session, &call, line));
            if client.defer_to_next_process(serial, &line, failed) {
                return true;
            }
            if !client.calls.answer(serial) {
                return false;
            }
            client.output.send(&line);
            client.calls.end(serial);
            if client.output.failed() {
                client.end();
            }
            true
        }));
        submitted.map_err(|error| {
            self.calls.end(serial);
            ErrorData::internal_error(format!("No thread could be started for this call: {error}."), None)
        })
    }
}

/// A call with the properties of its request. `effect` and `at_once` select the thread that runs
/// the call; `is_short` marks a call that need not wait for long work.
pub(super) struct PooledRequest {
    pub(super) effect: Effect,
    pub(super) at_once: bool,
    pub(super) is_short: bool,
    pub(super) call: Call,
}

/// Lets `work` append a line. If `work` panics, appends an internal error instead.
fn guarded(id: &Id, line: &mut Vec<u8>, work: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
    let before = line.len();
    std::panic::catch_unwind(AssertUnwindSafe(|| work(line))).unwrap_or_else(|_| {
        line.truncate(before);
        let why = "The request failed because of a bug in steelbank.";
        message::write_error(line, Some(id), &ErrorData::internal_error(why, None));
        false
    })
}

pub(super) fn write_outcome(
    line: &mut Vec<u8>,
    id: &Id,
    format: ResultFormat,
    outcome: &Result<ToolAnswer, Failure>,
) {
    message::write_result(line, id, |line| {
        line.push(b'{');
        if format == ResultFormat::Stateless {
            line.extend_from_slice(b"\"resultType\":\"complete\",");
        }
        line.extend_from_slice(b"\"content\":[");
        let mut text = |text: &str, first: bool| {
            line.extend_from_slice(if first { b"" } else { b"," });
            line.extend_from_slice(b"{\"type\":\"text\",\"text\":");
            message::write(line, &escaped(text));
            line.push(b'}');
        };
        let is_error = match outcome {
            Ok(answer) => {
                text(&answer.text, true);
                answer.notes.iter().for_each(|note| text(note, false));
                line.extend_from_slice(b"],\"structuredContent\":");
                line.extend_from_slice(answer.structured.json().as_bytes());
                matches!(answer.outcome, CallOutcome::Failed | CallOutcome::NotFoundAsError)
            }
            Err(failure) => {
                text(&failure.to_string(), true);
                let meta: &[u8] =
                    if failure.passing { b"],\"_meta\":{\"steelbank/passing\":true}" } else { b"]" };
                line.extend_from_slice(meta);
                true
            }
        };
        line.extend_from_slice(if is_error { b",\"isError\":true}" } else { b",\"isError\":false}" });
    });
}
