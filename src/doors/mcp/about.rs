//! Describes the server to the client: its version, capabilities and instructions.

use rmcp::model::{
    DiscoverResult, Implementation, InitializeResult, PromptsCapability, ProtocolVersion,
    ResourcesCapability, ServerCapabilities, ToolsCapability,
};
use serde_json::{Value, json};

use super::instructions::INSTRUCTIONS;
use super::protocol::VERSIONS;
use super::{prompts, resources};
use crate::tools::Session;

/// Returns the result of `initialize`.
pub(super) fn initialize_result(version: ProtocolVersion, session: &Session) -> InitializeResult {
    InitializeResult::new(capabilities(session))
        .with_protocol_version(version)
        .with_server_info(about())
        .with_instructions(INSTRUCTIONS)
}

/// Returns the result of `server/discover`.
pub(super) fn discovery(session: &Session) -> DiscoverResult {
    DiscoverResult::from_server_info(
        VERSIONS.to_vec(),
        initialize_result(ProtocolVersion::default(), session),
    )
}

/// Returns the server's capabilities. Resources and prompts depend on the tools that this client is
/// offered.
pub(super) fn capabilities(session: &Session) -> ServerCapabilities {
    let mut capabilities = ServerCapabilities::default();
    let has_resources = resources::kinds(session.tools()).next().is_some();
    let has_prompts = !prompts::list(session).prompts.is_empty();
    capabilities.tools = Some(ToolsCapability::default());
    capabilities.resources = has_resources.then(ResourcesCapability::default);
    capabilities.prompts = has_prompts.then(PromptsCapability::default);
    capabilities.completions = (has_resources || has_prompts).then(Default::default);
    capabilities
}

fn about() -> Implementation {
    Implementation::new("steelbank", env!("CARGO_PKG_VERSION"))
        .with_title("Steelbank")
        .with_description(env!("CARGO_PKG_DESCRIPTION"))
}

/// Formats `value` as a cacheable result of protocol version 2026-07-28: complete, private and
/// immediately stale.
pub(super) fn cacheable_result(value: Value) -> Vec<u8> {
    extended(json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private" }), value)
}

/// Formats `value` as a complete result of protocol version 2026-07-28.
pub(super) fn complete_result(value: Value) -> Vec<u8> {
    extended(json!({ "resultType": "complete" }), value)
}

fn extended(mut result: Value, value: Value) -> Vec<u8> {
    if let (Value::Object(result), Value::Object(value)) = (&mut result, value) {
        result.extend(value);
    }
    serde_json::to_vec(&result).unwrap_or_default()
}
