//! Dispatches a client's messages: runs a call, changes the protocol's state, or appends a
//! response. This module does not depend on the transport, except that later responses go to the
//! client's output.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{ErrorCode, ErrorData, ProtocolVersion};
use serde_json::json;
use serde_json::value::RawValue;

use super::about::{cacheable_result, capabilities, complete_result, discovery, initialize_result};
use super::calls::cancelled;
use super::client::Client;
use super::listing::listing;
use super::message::{self, Id, Message};
use super::protocol::{Meta, ResultFormat};
use super::query::session_result;
use super::roots::{ask_for_roots, folders};
use super::{prompts, resources};
use crate::tools::quoted;

impl Client {
    /// Processes a message. Appends an immediate response to `answer`; later responses go to the
    /// client's output.
    pub(super) fn dispatch(self: &Arc<Self>, line: &[u8], answer: &mut Vec<u8>) {
        match message::read(line) {
            Ok(Message::Request { id, method, params }) => self.request(line, id, &method, params, answer),
            Ok(Message::Notification { method, params }) => self.notification(&method, params, answer),
            Ok(Message::Response { id, result }) => self.response(&id, result),
            Ok(Message::Blank) => (),
            Err((id, refusal)) => message::write_error(answer, id.as_ref(), &refusal),
        }
    }

    fn request(
        self: &Arc<Self>,
        line: &[u8],
        id: Id,
        method: &str,
        params: Option<&RawValue>,
        answer: &mut Vec<u8>,
    ) {
        let outcome = match method {
            // A request of version 2026-07-28 cannot start a session, because that version has no
            // `initialize`.
            "initialize" if !Meta::of(params).is_inline() => self.initialize(params).map(|version| {
                message::write_result(answer, &id, |line| {
                    message::write(line, &initialize_result(version, &self.session))
                });
            }),
            "tools/call" => self.call(line, &id, params, answer),
            "resources/list" | "resources/read" | "completion/complete" if self.declares(method) => {
                self.query(line, &id, method, params, answer)
            }
            _ => {
                let format = self.protocol.lock().negotiate(method, &Meta::of(params));
                format.and_then(|format| self.other(method, params, format)).map(|result| {
                    message::write_result(answer, &id, |line| line.extend_from_slice(&result));
                })
            }
        };
        if let Err(refusal) = outcome {
            message::write_error(answer, Some(&id), &refusal);
        }
    }

    fn initialize(&self, params: Option<&RawValue>) -> Result<ProtocolVersion, ErrorData> {
        let mut protocol = self.protocol.lock();
        let version = protocol.initialize(params)?;
        if let (Some(seat), Some(name)) = (self.session.client_slot(), protocol.client()) {
            seat.set_name(name);
        }
        Ok(version)
    }

    /// Returns whether the server declares the capability that `method` belongs to.
    fn declares(&self, method: &str) -> bool {
        let declared = capabilities(&self.session);
        match method.split('/').next() {
            Some("resources") => declared.resources.is_some(),
            Some("prompts") => declared.prompts.is_some(),
            _ => declared.completions.is_some(),
        }
    }

    /// Answers a request that calls no tool.
    fn other(
        &self,
        method: &str,
        params: Option<&RawValue>,
        format: ResultFormat,
    ) -> Result<Cow<'_, [u8]>, ErrorData> {
        let of_format = |value, stateless: fn(serde_json::Value) -> Vec<u8>| {
            Cow::Owned(if format == ResultFormat::Session { session_result(value) } else { stateless(value) })
        };
        Ok(match method {
            "ping" if format == ResultFormat::Session => Cow::Borrowed(b"{}"),
            "tools/list" => {
                let [session, stateless] = self.listing.get_or_init(|| {
                    let listing = listing(self.session.tools());
                    [listing.to_string().into_bytes(), cacheable_result(listing)]
                });
                Cow::Borrowed(if format == ResultFormat::Session { session } else { stateless })
            }
            "resources/templates/list" if self.declares(method) => {
                of_format(json!(resources::templates(self.session.tools())), cacheable_result)
            }
            "prompts/list" if self.declares(method) => {
                of_format(json!(prompts::list(&self.session)), cacheable_result)
            }
            "prompts/get" if self.declares(method) => {
                of_format(json!(prompts::get(params, &self.session)?), complete_result)
            }
            "server/discover" => Cow::Owned(json!(discovery(&self.session)).to_string().into_bytes()),
            _ => {
                let why = format!("There is no method {}.", quoted(method));
                return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None));
            }
        })
    }

    fn notification(&self, method: &str, params: Option<&RawValue>, answer: &mut Vec<u8>) {
        match method {
            "notifications/cancelled" => {
                if let Some(id) = cancelled(params) {
                    self.calls.cancel(&id);
                }
            }
            "notifications/initialized" | "notifications/roots/list_changed"
                if self.session.awaits_project() =>
            {
                if let Some(id) = self.protocol.lock().ask_for_roots() {
                    ask_for_roots(answer, &Id::string(&id));
                }
            }
            _ => (),
        }
    }

    /// Processes a response of the client. The server's only request is for the client's roots.
    fn response(&self, id: &Id, result: Option<&RawValue>) {
        if !self.protocol.lock().is_roots(id) {
            return;
        }
        if let Some(folder) = folders(result).find(|folder| folder.is_dir()) {
            self.session.name_project(folder);
        }
    }
}
