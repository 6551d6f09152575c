//! The state of the protocol with one client. Versions up to 2025-11-25 have sessions that start
//! with `initialize`; from 2026-07-28 on, each request names its version.

use rmcp::model::{ErrorData, ProtocolVersion};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The supported protocol versions, oldest first. rmcp's list is not used, because a version that
/// rmcp adds must be implemented here first.
pub(super) static VERSIONS: [ProtocolVersion; 5] = [
    ProtocolVersion::V_2024_11_05,
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    SESSION,
    ProtocolVersion::V_2026_07_28,
];
/// The newest version with sessions.
const SESSION: ProtocolVersion = ProtocolVersion::V_2025_11_25;

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// The state of a session with a client. It is serializable, so that it can be handed over to the
/// restarted program.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Protocol {
    lifecycle: Lifecycle,
    /// Whether the client supports listing its roots.
    roots: bool,
    /// The client's name and version, if given.
    #[serde(default)]
    client: Option<String>,
    /// The number of requests that the server has sent.
    asked: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
enum Lifecycle {
    /// No request of the client has been accepted yet, except `ping` and `server/discover`.
    #[default]
    None,
    /// The client has sent `initialize`; the response had this version.
    Session { version: ProtocolVersion },
    /// The first request named this version, without `initialize`.
    Inline { version: ProtocolVersion },
}

/// The metadata of a request.
#[derive(Debug, Default, Deserialize)]
pub(super) struct Meta<'a> {
    #[serde(borrow, default, rename = "progressToken")]
    pub(super) progress_token: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/protocolVersion")]
    version: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "io.modelcontextprotocol/clientCapabilities")]
    capabilities: Option<&'a RawValue>,
}

impl<'a> Meta<'a> {
    /// Parses a request's `_meta`. Ignores a value that cannot be parsed, such as a number.
    pub(super) fn read(json: Option<&'a RawValue>) -> Self {
        json.and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or_default()
    }

    /// Parses the `_meta` of parameters.
    pub(super) fn of(params: Option<&'a RawValue>) -> Self {
        #[derive(Deserialize)]
        struct Params<'a> {
            #[serde(borrow, default)]
            _meta: Option<&'a RawValue>,
        }
        let params = params.and_then(|params| serde_json::from_str::<Params<'_>>(params.get()).ok());
        Self::read(params.and_then(|params| params._meta))
    }

    /// Returns the version in the request.
    pub(super) fn version(&self) -> Option<ProtocolVersion> {
        serde_json::from_str(self.version?.get()).ok()
    }

    /// Returns whether the request names a version without sessions.
    pub(super) fn is_inline(&self) -> bool {
        self.version().is_some_and(|version| VERSIONS.contains(&version) && !version.has_initialize())
    }

    /// Returns the error for a request that is outside a session and lacks required metadata. The
    /// error's message starts with `before`. Returns `None` if the metadata is complete.
    pub(super) fn incomplete(&self, before: &str) -> Option<ErrorData> {
        let missing = self.missing();
        (!missing.is_empty()).then(|| {
            let why = "request _meta is missing or has malformed required fields";
            ErrorData::invalid_params(format!("{before}{why}: {}", missing.join(", ")), None)
        })
    }

    fn missing(&self) -> Vec<&'static str> {
        let capabilities = self.capabilities.is_some_and(|json| json.get().starts_with('{'));
        let given = [(VERSION_KEY, self.version().is_some()), (CAPABILITIES_KEY, capabilities)];
        given.into_iter().filter(|(_, given)| !given).map(|(key, _)| key).collect()
    }
}

/// The format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultFormat {
    /// The format of versions with sessions.
    Session,
    /// The format of version 2026-07-28: results have a completion state and a cache lifetime.
    Stateless,
}

/// The used fields of `initialize`. rmcp's `InitializeRequestParams` would reject clients because
/// of fields that we do not need.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Initialize {
    protocol_version: ProtocolVersion,
    capabilities: Capabilities,
    client_info: serde_json::Map<String, serde_json::Value>,
}

#[derive(Deserialize)]
struct Capabilities {
    #[serde(default)]
    roots: Option<serde_json::Value>,
}

impl Protocol {
    /// Starts a session, and returns its version: the requested version if it is supported and has
    /// sessions, or else the newest version with sessions.
    pub(super) fn initialize(&mut self, params: Option<&RawValue>) -> Result<ProtocolVersion, ErrorData> {
        let read = params.and_then(|params| serde_json::from_str::<Initialize>(params.get()).ok());
        let Some(asked) = read else {
            return Err(ErrorData::invalid_params(
                "initialize requires \"protocolVersion\", \"capabilities\" and \"clientInfo\".",
                None,
            ));
        };
        let known = Some(asked.protocol_version).filter(|version| VERSIONS.contains(version));
        let version = known.filter(ProtocolVersion::has_initialize).unwrap_or(SESSION);
        self.lifecycle = Lifecycle::Session { version: version.clone() };
        let word = |key: &str| asked.client_info.get(key).and_then(serde_json::Value::as_str);
        self.client = word("name")
            .map(|name| format!("{name} {}", word("version").unwrap_or_default()).trim_end().to_owned());
        self.roots = asked.capabilities.roots.is_some_and(|roots| !roots.is_null());
        Ok(version)
    }

    /// Checks that a request is allowed in the current state, and returns the format of its result.
    pub(super) fn negotiate(&mut self, method: &str, meta: &Meta<'_>) -> Result<ResultFormat, ErrorData> {
        let named = meta.version();
        if let Some(version) = &named
            && !VERSIONS.contains(version)
        {
            return Err(ErrorData::unsupported_protocol_version(version.clone(), &VERSIONS));
        }
        let is_inline = |version: &ProtocolVersion| !version.has_initialize();
        let in_session = matches!(self.lifecycle, Lifecycle::Session { .. });
        let begun = self.lifecycle != Lifecycle::None;
        if method == "ping" && named.is_none() && !matches!(self.lifecycle, Lifecycle::Inline { .. }) {
            return Ok(ResultFormat::Session);
        }
        if !in_session || method == "server/discover" || named.as_ref().is_some_and(is_inline) {
            let before = if begun { "The " } else { "The client has not sent initialize, and the " };
            if let Some(error) = meta.incomplete(before) {
                return Err(error);
            }
        }
        if let (false, Some(version), true) = (begun, &named, method != "server/discover") {
            self.lifecycle = Lifecycle::Inline { version: version.clone() };
        }
        let agreed = match &self.lifecycle {
            Lifecycle::None => None,
            Lifecycle::Session { version } | Lifecycle::Inline { version } => Some(version),
        };
        Ok(match named.as_ref().or(agreed).is_some_and(is_inline) {
            true => ResultFormat::Stateless,
            false => ResultFormat::Session,
        })
    }

    /// Returns the client's name and version, if given.
    pub(super) fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// Returns the id of the server's next request for the client's roots, or `None` if the client
    /// does not support roots.
    pub(super) fn ask_for_roots(&mut self) -> Option<String> {
        if !self.roots {
            return None;
        }
        self.asked += 1;
        Some(format!("steelbank-roots-{}", self.asked))
    }

    /// Returns whether `id` is the id of the server's last request for the client's roots.
    pub(super) fn is_roots(&self, id: &super::message::Id) -> bool {
        *id == super::message::Id::string(&format!("steelbank-roots-{}", self.asked))
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorCode;
    use serde_json::json;

    use super::*;

    fn raw(value: serde_json::Value) -> Box<RawValue> {
        RawValue::from_string(value.to_string()).unwrap()
    }

    fn begin(version: &str) -> String {
        let params = raw(json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": {} }));
        Protocol::default().initialize(Some(&params)).unwrap().to_string()
    }

    #[test]
    fn initialize_returns_requested_or_newest_session_version() {
        assert_eq!(begin("2024-11-05"), "2024-11-05");
        for version in ["2025-11-25", "2026-07-28", "1999-01-01"] {
            assert_eq!(begin(version), "2025-11-25");
        }
        assert!(Protocol::default().initialize(None).is_err());
    }

    #[test]
    fn all_rmcp_versions_are_supported() {
        assert_eq!(VERSIONS, ProtocolVersion::KNOWN_VERSIONS);
        assert_eq!(SESSION, ProtocolVersion::LATEST_WITH_INITIALIZE);
    }

    #[test]
    fn requests_without_session_require_version() {
        let params = raw(json!({ "_meta": { VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {} } }));
        let meta = Meta::of(Some(&params));
        let mut protocol = Protocol::default();
        assert!(protocol.negotiate("tools/list", &Meta::default()).is_err());
        assert_eq!(protocol.negotiate("ping", &Meta::default()), Ok(ResultFormat::Session));
        assert_eq!(protocol.negotiate("server/discover", &meta), Ok(ResultFormat::Stateless));
        assert_eq!(protocol.lifecycle, Lifecycle::None, "server/discover starts no session");
        assert_eq!(protocol.negotiate("tools/list", &meta), Ok(ResultFormat::Stateless));
        let refusal = protocol.negotiate("tools/list", &Meta::default()).unwrap_err();
        assert!(refusal.message.contains(VERSION_KEY) && refusal.message.contains(CAPABILITIES_KEY));
        let params = raw(json!({ "_meta": { VERSION_KEY: "2099-01-01", CAPABILITIES_KEY: {} } }));
        let refusal = protocol.negotiate("tools/list", &Meta::of(Some(&params))).unwrap_err();
        assert_eq!(refusal.code, ErrorCode::UNSUPPORTED_PROTOCOL_VERSION);
        let kept: Protocol = serde_json::from_value(json!(protocol)).unwrap();
        assert_eq!(kept, protocol, "the state can be handed over");
    }
}
