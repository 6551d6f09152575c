//! Requests other than calls of tools whose results are made of what tools answer.

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

/// What a request asks, and the result that it makes of the answers.
pub(super) type Asking = Box<dyn FnOnce(&Session, &Call) -> Result<Value, AskRefusal> + Send>;

/// Why there is no result.
pub(super) struct AskRefusal {
    error: ErrorData,
    /// Whether the engine cannot answer now.
    engine: bool,
}

impl From<ErrorData> for AskRefusal {
    fn from(error: ErrorData) -> Self {
        Self { error, engine: false }
    }
}

impl From<Failure> for AskRefusal {
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

/// Makes what a request asks.
pub(super) fn asking<T: Serialize>(
    ask: impl FnOnce(&Session, &Call) -> Result<T, AskRefusal> + Send + 'static,
) -> Asking {
    Box::new(move |session, call| {
        let result = ask(session, call)?;
        serde_json::to_value(result).map_err(|error| Failure::engine(error.to_string()).into())
    })
}

/// Reads the parameters of `method`.
pub(super) fn params_of<T: DeserializeOwned>(
    method: &str,
    params: Option<&RawValue>,
) -> Result<T, ErrorData> {
    serde_json::from_str(params.map_or("{}", RawValue::get)).map_err(|error| {
        ErrorData::invalid_params(format!("The parameters of {method} do not fit: {error}."), None)
    })
}

/// Returns the whole answer of the tool called `name`.
pub(super) fn answer_of(
    name: &str,
    arguments: Object,
    session: &Session,
    call: &Call,
) -> Result<ToolAnswer, Failure> {
    session.tools().get(name).map_err(Failure::engine)?.call(session, arguments, call)
}

impl Client {
    /// Answers a request whose result is made of tools' answers, from a pool.
    pub(super) fn ask(
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
        let asking = match method {
            "resources/list" => resources::list(params)?,
            "completion/complete" => completion::complete(params)?,
            _ => resources::read(params, format)?,
        };
        // Keep what is told once for a reader.
        let call = self.new_call(&meta).whole().telling_news(reads);
        let about = PooledRequest { effect: Effect::Reads, at_once: false, ends_soon: true, call };
        let cacheable = method != "completion/complete";
        let of = id.clone();
        self.carry(line, id, about, answer, move |session, call, line| match asking(session, call) {
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

/// Writes a result of the versions with sessions, which do not say that it is complete.
pub(super) fn session_result(mut result: Value) -> Vec<u8> {
    if let Value::Object(result) = &mut result {
        result.remove("resultType");
    }
    result.to_string().into_bytes()
}
