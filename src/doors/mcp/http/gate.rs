//! Authorizes requests: checks a request's head before its body is read.

use std::hint::black_box;
use std::net::IpAddr;

use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, HeaderMap, ORIGIN};
use hyper::http::request::Parts;
use hyper::{Method, StatusCode};
use rmcp::model::ErrorData;

use super::address::{HttpAddress, PATH, is_local};

/// The media type of one message.
pub(super) const JSON: &str = "application/json";
/// The media type of a stream of messages.
pub(super) const EVENTS: &str = "text/event-stream";

/// The status of a rejected request, and the error in the response's body.
pub(super) type HttpRefusal = (StatusCode, ErrorData);

/// Returns a rejection.
pub(super) fn refused(status: StatusCode, why: &'static str) -> HttpRefusal {
    (status, ErrorData::invalid_request(why, None))
}

/// Checks the heads of requests.
pub(super) struct Gate {
    address: HttpAddress,
    token: Option<String>,
}

impl Gate {
    pub(super) fn new(address: HttpAddress, token: Option<String>) -> Self {
        Self { address, token }
    }

    /// Checks a request's path, method and headers: Host, Origin, Authorization, Content-Type and
    /// Accept.
    pub(super) fn check(&self, Parts { method, uri, headers, .. }: &Parts) -> Result<(), HttpRefusal> {
        let given = |name| text(headers, name);
        let is_local_origin = || given(ORIGIN).is_some_and(is_local_origin);
        let wrong = match *method {
            // Prevents DNS rebinding: if the host name of a web page resolves to this machine, the
            // page's requests have that name in the Host header.
            _ if !self.is_local_host(given(HOST)) => {
                (StatusCode::FORBIDDEN, "The Host header is missing or does not name this server.")
            }
            _ if headers.contains_key(ORIGIN) && !is_local_origin() => {
                (StatusCode::FORBIDDEN, "The Origin header does not name this machine.")
            }
            _ if !self.token.as_ref().is_none_or(|token| has_token(given(AUTHORIZATION), token)) => {
                (StatusCode::UNAUTHORIZED, "The bearer token is missing or wrong.")
            }
            _ if uri.path() != PATH => (StatusCode::NOT_FOUND, "The endpoint is /mcp."),
            Method::POST if !given(CONTENT_TYPE).is_some_and(|kind| is_type(kind, JSON)) => {
                (StatusCode::UNSUPPORTED_MEDIA_TYPE, "The Content-Type must be application/json.")
            }
            Method::POST if !(accepts(headers, JSON) && accepts(headers, EVENTS)) => {
                (StatusCode::NOT_ACCEPTABLE, "The client must accept application/json and text/event-stream.")
            }
            Method::GET if !accepts(headers, EVENTS) => {
                (StatusCode::NOT_ACCEPTABLE, "The client must accept text/event-stream.")
            }
            Method::POST | Method::GET | Method::DELETE => return Ok(()),
            _ => (StatusCode::METHOD_NOT_ALLOWED, "Only POST, GET and DELETE are supported."),
        };
        Err(refused(wrong.0, wrong.1))
    }

    fn is_local_host(&self, host: Option<&str>) -> bool {
        let HttpAddress::Port(address) = &self.address else { return true };
        host.and_then(split_port)
            .is_some_and(|(name, port)| is_local_name(name) && port.unwrap_or(80) == address.port())
    }
}

/// Returns whether an Authorization header has the token.
fn has_token(header: Option<&str>, token: &str) -> bool {
    let shown = header.and_then(|value| value.split_once(' '));
    shown.is_some_and(|(scheme, shown)| {
        scheme.eq_ignore_ascii_case("bearer") && are_equal(shown.trim(), token)
    })
}

/// Returns a header's value, if it occurs exactly once and is text.
pub(super) fn text(headers: &HeaderMap, name: impl hyper::header::AsHeaderName) -> Option<&str> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())?.to_str().ok().map(str::trim)
}

fn split_port(host: &str) -> Option<(&str, Option<u16>)> {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => Some((name, Some(port.parse().ok()?))),
        _ => Some((host, None)),
    }
}

fn is_local_name(name: &str) -> bool {
    let number = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || number.parse::<IpAddr>().is_ok_and(is_local)
}

fn is_local_origin(origin: &str) -> bool {
    let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    host.and_then(split_port).is_some_and(|(name, _)| is_local_name(name))
}

/// Compares in constant time, so that the time does not reveal the position of the first
/// difference.
fn are_equal(one: &str, other: &str) -> bool {
    let differences = one.bytes().zip(other.bytes()).fold(0, |all, (a, b)| black_box(all | (a ^ b)));
    one.len() == other.len() && differences == 0
}

fn is_type(value: &str, kind: &str) -> bool {
    value.split(';').next().is_some_and(|found| found.trim().eq_ignore_ascii_case(kind))
}

fn accepts(headers: &HeaderMap, kind: &str) -> bool {
    let group = kind.split('/').next().unwrap_or_default();
    let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .any(|value| is_type(value, kind) || is_type(value, "*/*") || is_type(value, &format!("{group}/*")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(gate: &Gate, method: Method, headers: &[(&'static str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        let (mut head, ()) = hyper::Request::new(()).into_parts();
        (head.method, head.uri, head.headers) = (method, PATH.parse().unwrap(), map);
        gate.check(&head).map_or_else(|(status, _)| status.as_u16(), |()| 200)
    }

    #[test]
    fn gate_checks_request_heads() {
        let gate = Gate::new(HttpAddress::Port("127.0.0.1:8123".parse().unwrap()), Some("secret".to_owned()));
        let (host, token) = (("host", "localhost:8123"), ("authorization", "Bearer secret"));
        let (json, both) = (
            ("content-type", "application/json; charset=utf-8"),
            ("accept", "application/json, text/event-stream;q=1"),
        );
        let own = [host, token, json, both];
        assert_eq!(status(&gate, Method::POST, &own), 200);
        for good in ["127.0.0.1:8123", "[::1]:8123", "LOCALHOST:8123"] {
            assert_eq!(status(&gate, Method::POST, &[("host", good), token, json, both]), 200, "{good}");
        }
        for bad in [
            "localhost", "localhost:80", "evil.example:8123", "evil.example", "localhost.evil.example:8123",
            "127.0.0.1.evil:8123", "[::2]:8123", "",
        ] {
            assert_eq!(status(&gate, Method::POST, &[("host", bad), token, json, both]), 403, "{bad}");
        }
        assert_eq!(status(&gate, Method::POST, &own[1..]), 403);
        assert_eq!(status(&gate, Method::POST, &[host, host, token, json, both]), 403);
        for (origin, expected) in [
            ("http://localhost:3000", 200),
            ("https://[::1]", 200),
            ("null", 403),
            ("http://evil.example", 403),
            ("http://localhost.evil", 403),
            ("file://localhost", 403),
        ] {
            assert_eq!(
                status(&gate, Method::POST, &[host, ("origin", origin), token, json, both]),
                expected,
                "{origin}"
            );
        }
        for token in ["Bearer secre", "Bearer secret1", "Bearer secrex", "Basic secret", "secret", "Bearer "]
        {
            assert_eq!(
                status(&gate, Method::POST, &[host, ("authorization", token), json, both]),
                401,
                "{token}"
            );
        }
        assert_eq!(status(&gate, Method::POST, &[host, token, ("content-type", "text/plain"), both]), 415);
        assert_eq!(status(&gate, Method::POST, &[host, token, json, ("accept", "application/json")]), 406);
        assert_eq!(status(&gate, Method::POST, &[host, token, json, ("accept", "*/*")]), 200);
        assert_eq!(status(&gate, Method::GET, &[host, token, ("accept", "text/*")]), 200);
        assert_eq!(status(&gate, Method::GET, &[host, token, ("accept", "application/json")]), 406);
        assert_eq!(status(&gate, Method::DELETE, &[host, token]), 200);
        assert_eq!(status(&gate, Method::OPTIONS, &[host, token]), 405);
        let socket = Gate::new(HttpAddress::Socket("s".into()), None);
        assert_eq!(status(&socket, Method::POST, &[json, both]), 200);
        assert_eq!(status(&socket, Method::POST, &[json, both, ("origin", "http://evil.example")]), 403);
    }
}
