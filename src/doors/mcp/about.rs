//! The server's description of itself in the protocol.

use rmcp::model::{
    DiscoverResult, Implementation, InitializeResult, ProtocolVersion, ServerCapabilities, ToolsCapability,
};
use serde_json::{Value, json};

use super::instructions::INSTRUCTIONS;
use super::protocol::VERSIONS;

/// Makes the answer to `initialize`.
pub(super) fn initialize_result(version: ProtocolVersion) -> InitializeResult {
    InitializeResult::new(capabilities())
        .with_protocol_version(version)
        .with_server_info(about())
        .with_instructions(INSTRUCTIONS)
}

/// Makes the answer to `server/discover`.
pub(super) fn discovery() -> DiscoverResult {
    DiscoverResult::from_server_info(VERSIONS.to_vec(), initialize_result(ProtocolVersion::default()))
}

fn capabilities() -> ServerCapabilities {
    let mut capabilities = ServerCapabilities::default();
    capabilities.tools = Some(ToolsCapability::default());
    capabilities
}

fn about() -> Implementation {
    Implementation::new("steelbank", env!("CARGO_PKG_VERSION"))
        .with_title("Steelbank")
        .with_description(env!("CARGO_PKG_DESCRIPTION"))
}

/// Wraps `value` as a cacheable result of 2026-07-28: complete, private, and expired at once.
pub(super) fn cacheable_result(value: Value) -> Vec<u8> {
    let mut result = json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private" });
    if let (Value::Object(result), Value::Object(value)) = (&mut result, value) {
        result.extend(value);
    }
    serde_json::to_vec(&result).unwrap_or_default()
}
