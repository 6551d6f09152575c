//! Answers requests that list or read resources, and requests for completions. The results are
//! built from tools' answers.

use std::sync::Arc;

use rmcp::model::ErrorData;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;

use super::about::{cacheable_result, complete_result};
use super::call::PooledRequest;
use super::client::Client;
use super::message::{self, Id};
use super::protocol::{Meta, ResultFormat};
use super::{completion, resources};
use crate::tools::{Blame, Call, Effect, Failure, Object, Session, ToolAnswer};

/// Computes the result of a request with the help of tools.
pub(super) type Query = Box<dyn FnOnce(&Session, &Call) -> Result<Value, QueryError> + Send>;

/// An error instead of a result.
pub(super) struct QueryError {
    error: ErrorData,
    /// Whether the engine failed. Otherwise the request was invalid.
    engine: bool,
}

impl From<ErrorData> for QueryError {
    fn from(error: ErrorData) -> Self {
        Self { error, engine: false }
    }
}

impl From<Failure> for QueryError {
    fn from(failure: Failure) -> Self {
        let (why, engine) = (failure.to_string(), failure.blame == Blame::Engine);
        let passing = failure.passing.then(|| serde_json::json!({ "passing": true }));
        let error = match engine {
            true => ErrorData::internal_error(why, passing),
            false => ErrorData::invalid_params(why, passing),
        };
        Self { error, engine }
    }
}

/// Boxes the computation of a request's result, with the conversion of the result to JSON.
pub(super) fn query<T: Serialize>(
    ask: impl FnOnce(&Session, &Call) -> Result<T, QueryError> + Send + 'static,
) -> Query {
    Box::new(move |session, call| {
        let result = ask(session, call)?;
        serde_json::to_value(result).map_err(|error| Failure::engine(error.to_string()).into())
    })
}

/// Parses the parameters of `method`.
pub(super) fn params_of<T: DeserializeOwned>(
    method: &str,
    params: Option<&RawValue>,
) -> Result<T, ErrorData> {
    serde_json::from_str(params.map_or("{}", RawValue::get))
        .map_err(|error| ErrorData::invalid_params(format!("Invalid parameters of {method}: {error}."), None))
}

/// Calls the tool `name` and returns its answer.
pub(super) fn answer_of(
    name: &str,
    arguments: Object,
    session: &Session,
    call: &Call,
) -> Result<ToolAnswer, Failure> {
    session.tools().get(name).map_err(Failure::engine)?.call(session, arguments, call)
}

impl Client {
    /// Answers a request for resources or completion on a pool's thread.
    pub(super) fn query(
        self: &Arc<Self>,
        line: &[u8],
        id: &Id,
        method: &str,
        params: Option<&RawValue>,
        answer: &mut Vec<u8>,
    ) -> Result<(), ErrorData> {
        let meta = Meta::of(params);
        let format = self.protocol.lock().negotiate(method, &meta)?;
        let reads = method == "resources/read";
        let query = match method {
            "resources/list" => resources::list(params)?,
            "completion/complete" => completion::complete(params)?,
            _ => resources::read(params, format)?,
        };
        // Show one-time notes only in responses to resources/read, because the other results
        // contain no notes.
        let call = self.new_call(&meta).without_limit().with_one_time_notes(reads);
        let about = PooledRequest { effect: Effect::Reads, at_once: false, is_short: true, call };
        let cacheable = method != "completion/complete";
        let of = id.clone();
        self.submit(line, id, about, answer, move |session, call, line| match query(session, call) {
            Ok(result) => {
                let result = match format {
                    ResultFormat::Session => session_result(result),
                    ResultFormat::Stateless if cacheable => cacheable_result(result),
                    ResultFormat::Stateless => complete_result(result),
                };
                message::write_result(line, &of, |line| line.extend_from_slice(&result));
                false
            }
            Err(refusal) => {
                message::write_error(line, Some(&of), &refusal.error);
                refusal.engine
            }
        })
    }
}

/// Formats a result for the protocol versions with sessions, which have no `resultType`.
pub(super) fn session_result(mut result: Value) -> Vec<u8> {
    if let Value::Object(result) = &mut result {
        result.remove("resultType");
    }
    result.to_string().into_bytes()
}
