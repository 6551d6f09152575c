//! Carries out calls of tools: from the request to the line that answers it.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use rmcp::model::ErrorData;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::client::Client;
use super::message::{self, Id};
use super::progress::progress_line;
use super::protocol::{Meta, ResultFormat};
use crate::answer::escape::escaped;
use crate::tools::{Blame, Call, CallOutcome, Effect, Failure, Object, Session, Tool, ToolAnswer};

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
    /// Answers `tools/call`: appends to `answer` at once, or hands the call to a pool.
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
            return Err(wrong("tools/call needs \"name\" to be a string: the name of a tool."));
        };
        let arguments = match params.arguments.map(RawValue::get) {
            None | Some("null") => Object::new(),
            Some(json) => serde_json::from_str::<Object>(json)
                .map_err(|_| wrong("tools/call needs \"arguments\" to be an object."))?,
        };
        let tool =
            self.session.tools().get(&params.name).map_err(|why| ErrorData::invalid_params(why, None))?;
        let call = match meta.progress_token.map(RawValue::to_owned) {
            None => Call::default(),
            Some(token) => {
                let client = Arc::clone(self);
                Call::new(move |progress| client.output.try_queue_progress(&progress_line(&token, &progress)))
            }
        };
        if tool.is_at_once(&self.session) && !self.output.is_full() {
            let serial = self.calls.note(id.clone(), call.cancellation(), None, true);
            let outcome = carry_out(tool, &self.session, arguments, &call);
            if self.calls.answer(serial) {
                write_outcome(answer, id, format, outcome);
            }
            self.calls.end(serial);
            return Ok(());
        }
        let effect = tool.about().effect;
        let pool = match effect {
            Effect::Runs => &self.code,
            Effect::Reads | Effect::Writes => &self.questions,
        };
        let asks = effect == Effect::Reads;
        let again = asks.then(|| line.to_vec());
        let serial = self.calls.note(id.clone(), call.cancellation(), again, tool.ends_soon());
        let (client, of, id) = (Arc::clone(self), Arc::clone(pool), id.clone());
        let submitted = pool.submit(Box::new(move || {
            if !client.calls.begin(serial, &of) {
                return true;
            }
            let outcome = carry_out(tool, &client.session, arguments, &call);
            let failed = matches!(outcome, Ok(Err(Failure { blame: Blame::Engine, .. })));
            let mut line = Vec::new();
            write_outcome(&mut line, &id, format, outcome);
            if failed && asks && client.defer_to_next_process(serial, &line) {
                return true;
            }
            if !client.calls.answer(serial) {
                return false;
            }
            client.output.send(&line);
            client.calls.end(serial);
            if client.output.is_gone() {
                client.end();
            }
            true
        }));
        submitted.map_err(|error| {
            self.calls.end(serial);
            ErrorData::internal_error(format!("The system gives no thread for this call: {error}."), None)
        })
    }
}

/// Calls the tool. A panic becomes an internal error, and ends nothing else.
fn carry_out(
    tool: &Tool,
    session: &Session,
    arguments: Object,
    call: &Call,
) -> Result<Result<ToolAnswer, Failure>, ErrorData> {
    std::panic::catch_unwind(AssertUnwindSafe(|| tool.call(session, arguments, call))).map_err(|_| {
        let why = format!("{} failed inside: this is a bug of steelbank's.", tool.name());
        ErrorData::internal_error(why, None)
    })
}

pub(super) fn write_outcome(
    line: &mut Vec<u8>,
    id: &Id,
    format: ResultFormat,
    outcome: Result<Result<ToolAnswer, Failure>, ErrorData>,
) {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(refusal) => return message::write_error(line, Some(id), &refusal),
    };
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
        let is_error = match &outcome {
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
