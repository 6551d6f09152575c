//! Checks compatibility with rmcp: it must parse the lines that we write, and we must parse its
//! lines.
#![expect(deprecated, reason = "protocol version 2026-07-28 has no roots; earlier versions do")]

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CancelledNotification, CancelledNotificationParam,
    ClientCapabilities, ClientJsonRpcMessage, ErrorCode, ErrorData, Implementation, InitializeRequest,
    InitializeRequestParams, InitializedNotification, JsonRpcError, JsonRpcMessage, JsonRpcNotification,
    JsonRpcRequest, JsonRpcResponse, ListRootsResult, NumberOrString, PingRequest, ProgressToken,
    ProtocolVersion, RequestParamsMeta, Root, RootsCapabilities, ServerJsonRpcMessage, ServerNotification,
    ServerRequest, ServerResult,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::call::{self, CallParams};
use super::listing::listing;
use super::message::{self, Id, Message};
use super::progress::progress_line;
use super::protocol::{Meta, Protocol, ResultFormat, VERSIONS};
use super::{about, calls, prompts, resources, roots};
use crate::engine::Progress;
use crate::tools::{CallOutcome, Failure, Session, ToolAnswer, Tools};

fn raw(value: &Value) -> Box<RawValue> {
    RawValue::from_string(value.to_string()).unwrap()
}

/// Parses one line as rmcp's client does.
#[track_caller]
fn read(line: &[u8]) -> ServerJsonRpcMessage {
    let text = line.strip_suffix(b"\n").unwrap();
    assert!(!text.contains(&b'\n'));
    serde_json::from_slice(text).unwrap()
}

/// Parses the result in the line that `body` writes.
#[track_caller]
fn result(body: impl FnOnce(&mut Vec<u8>)) -> ServerResult {
    let mut line = Vec::new();
    message::write_result(&mut line, &Id::string("r"), body);
    let JsonRpcMessage::Response(JsonRpcResponse { id, result, .. }) = read(&line) else {
        panic!("{line:?}")
    };
    assert_eq!(id, NumberOrString::String("r".into()));
    result
}

fn session(tools: Tools) -> Session {
    Session::starting(|| Err(crate::Error::NeverBegan)).with_tools(tools)
}

#[test]
fn capabilities_depend_on_tools() {
    let declared = |choice: &str| {
        let tools = crate::actions::tools().chosen(choice).unwrap();
        json!(about::capabilities(&session(tools)))
    };
    assert_eq!(declared("evaluate"), json!({ "tools": {} }));
    assert_eq!(declared("impact"), json!({ "tools": {}, "prompts": {}, "completions": {} }));
    assert_eq!(declared("status"), json!({ "tools": {}, "resources": {}, "completions": {} }));
}

#[test]
fn rmcp_parses_resources_and_prompts() {
    let session = session(crate::actions::tools().chosen("read").unwrap());
    let templates = resources::templates(session.tools());
    let ServerResult::ListResourceTemplatesResult(read) = result(|line| message::write(line, &templates))
    else {
        panic!()
    };
    assert_eq!(json!(read), json!(templates));
    assert_eq!(templates.resource_templates.len(), 4);
    let prompts = prompts::list(&session);
    let ServerResult::ListPromptsResult(read) = result(|line| message::write(line, &prompts)) else {
        panic!()
    };
    assert_eq!(json!(read), json!(prompts));
    let params = serde_json::value::to_raw_value(&json!({ "name": "review-change" })).unwrap();
    let prompt = prompts::get(Some(&params), &session).unwrap();
    let ServerResult::GetPromptResult(read) = result(|line| message::write(line, &prompt)) else { panic!() };
    assert_eq!(json!(read), json!(prompt));
}

#[test]
fn review_lists_only_permitted_tools() {
    let review = |choice: &str, arguments: Value| {
        let session = session(crate::actions::tools().chosen(choice).unwrap());
        let params =
            serde_json::value::to_raw_value(&json!({ "name": "review-change", "arguments": arguments }));
        prompts::get(Some(&params.unwrap()), &session)
            .map(|prompt| json!(prompt)["messages"][0]["content"]["text"].clone())
    };
    let text = review("all", json!({ "revision": "main...a/b", "system": "shop/tests" })).unwrap();
    let text = text.as_str().unwrap();
    assert!(text.contains("`git diff main...a/b`") && text.contains("The system is shop/tests."), "{text}");
    assert!(text.contains("- impact:") && text.contains("- run-tests:"), "{text}");
    let text = review("read", json!({})).unwrap();
    let text = text.as_str().unwrap();
    assert!(text.contains("`git diff HEAD`") && text.contains("- impact:"), "{text}");
    assert!(!text.contains("run-tests") && !text.contains("load-system"), "{text}");
    for wrong in ["--output=x", "a b", "$(x)", "a;b", "a\nb", "`x`"] {
        let error = review("all", json!({ "revision": wrong })).unwrap_err();
        assert_eq!(error.code, ErrorCode::INVALID_PARAMS, "{wrong}");
    }
    assert!(
        review("all", json!({ "other": "x" })).is_err() && review("all", json!({ "system": 7 })).is_err()
    );
    assert!(review("status", json!({})).is_err(), "a review requires one of its tools");
}

#[test]
fn rmcp_parses_initialize_and_discover() {
    let hello =
        about::initialize_result(ProtocolVersion::V_2025_06_18, &session(crate::actions::tools().clone()));
    let ServerResult::InitializeResult(read) = result(|line| message::write(line, &hello)) else { panic!() };
    assert_eq!(read, hello);
    let expected = json!({
        "protocolVersion": "2025-06-18",
        "capabilities": { "tools": {}, "resources": {}, "prompts": {}, "completions": {} },
        "serverInfo": {
            "name": "steelbank",
            "title": "Steelbank",
            "version": env!("CARGO_PKG_VERSION"),
            "description": env!("CARGO_PKG_DESCRIPTION"),
        },
        "instructions": super::INSTRUCTIONS,
    });
    assert_eq!(json!(hello), expected);

    let discovery = about::discovery(&session(crate::actions::tools().clone()));
    let ServerResult::DiscoverResult(read) = result(|line| message::write(line, &discovery)) else {
        panic!()
    };
    assert_eq!(read, discovery);
    let expected = json!({
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
        "supportedVersions": ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"],
        "capabilities": { "tools": {}, "resources": {}, "prompts": {}, "completions": {} },
        "instructions": super::INSTRUCTIONS,
        "_meta": { "io.modelcontextprotocol/serverInfo": expected["serverInfo"] },
    });
    assert_eq!(json!(discovery), expected);
}

#[test]
fn rmcp_parses_tool_list() {
    let listing = listing(crate::actions::tools());
    for body in [listing.to_string().into_bytes(), about::cacheable_result(listing.clone())] {
        let ServerResult::ListToolsResult(read) = result(|line| line.extend_from_slice(&body)) else {
            panic!()
        };
        assert_eq!(json!(read.tools), listing["tools"], "rmcp parses every field");
        let names = read.tools.iter().map(|tool| tool.name.as_ref());
        assert!(names.eq(crate::actions::tools().list().iter().map(|tool| tool.name())));
    }
    let entry = &listing["tools"][0];
    let fields: Vec<_> = entry.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(fields, ["annotations", "description", "inputSchema", "name", "outputSchema", "title"]);
}

#[test]
fn rmcp_parses_tool_results() {
    let structured = json!({ "found": true, "symbols": [{ "name": "CAR" }] });
    let answer = |outcome| ToolAnswer {
        text: "\"Ä\"\n".into(),
        shown: None,
        structured: structured.clone().into(),
        outcome,
        notes: vec!["A note.".into()],
        looked_up_in: None,
    };
    let failure = Failure::engine("why");
    let said = failure.to_string();
    for format in [ResultFormat::Session, ResultFormat::Stateless] {
        for (outcome, texts, is_error) in [
            (Ok(answer(CallOutcome::Answered)), vec!["\"Ä\"\n", "A note."], false),
            (Ok(answer(CallOutcome::Failed)), vec!["\"Ä\"\n", "A note."], true),
            (Err(Failure::engine("why")), vec![said.as_str()], true),
        ] {
            let has_structure = outcome.is_ok();
            let mut line = Vec::new();
            call::write_outcome(&mut line, &Id::string("r"), format, &outcome);
            let JsonRpcMessage::Response(response) = read(&line) else { panic!() };
            let ServerResult::CallToolResult(read) = response.result else { panic!() };
            let read_texts: Vec<_> =
                read.content.iter().map(|block| block.as_text().unwrap().text.as_str()).collect();
            assert_eq!(read_texts, texts);
            assert_eq!(read.structured_content, has_structure.then(|| structured.clone()));
            assert_eq!(read.is_error, Some(is_error));
            assert_eq!(read.result_type.is_some(), format == ResultFormat::Stateless);
        }
    }
}

#[test]
fn rmcp_parses_errors_and_empty_results() {
    let told = ErrorData::unsupported_protocol_version(ProtocolVersion::V_2025_11_25, &VERSIONS);
    let id = RawValue::from_string("7".into()).unwrap();
    for (id, expected) in [(Id::new(&id), Some(NumberOrString::Number(7))), (None, None)] {
        let mut line = Vec::new();
        message::write_error(&mut line, id.as_ref(), &told);
        let JsonRpcMessage::Error(JsonRpcError { id, error, .. }) = read(&line) else { panic!() };
        assert_eq!((id, &error), (expected, &told));
    }
    let mut line = Vec::new();
    message::write_error(&mut line, None, &ErrorData::parse_error("no", None));
    let expected = json!({ "jsonrpc": "2.0", "error": { "code": -32700, "message": "no" } });
    assert_eq!(serde_json::from_slice::<Value>(&line).unwrap(), expected);
    assert_eq!(told.code, ErrorCode::UNSUPPORTED_PROTOCOL_VERSION);
    assert!(matches!(result(|line| line.extend_from_slice(b"{}")), ServerResult::EmptyResult(_)));
}

#[test]
fn rmcp_parses_progress_and_roots_request() {
    let progress =
        Progress { what: crate::engine::Step::Compile, path: Some("a.lisp".into()), done: 3, total: Some(7) };
    let JsonRpcMessage::Notification(told) = read(&progress_line(&raw(&json!("t")), &progress)) else {
        panic!()
    };
    let ServerNotification::ProgressNotification(told) = told.notification else { panic!() };
    assert_eq!(told.params.progress_token, ProgressToken(NumberOrString::String("t".into())));
    assert_eq!((told.params.progress, told.params.total), (3.0, Some(7.0)));
    assert_eq!(told.params.message.as_deref(), Some("compile a.lisp"));

    let mut line = Vec::new();
    roots::ask_for_roots(&mut line, &Id::string("roots"));
    let JsonRpcMessage::Request(asked) = read(&line) else { panic!() };
    assert_eq!(asked.id, NumberOrString::String("roots".into()));
    assert!(matches!(asked.request, ServerRequest::ListRootsRequest(_)));
}

/// Serializes a message as rmcp's client does.
fn written(message: ClientJsonRpcMessage) -> Vec<u8> {
    serde_json::to_vec(&message).unwrap()
}

fn request(id: NumberOrString, request: impl Into<rmcp::model::ClientRequest>) -> Vec<u8> {
    written(JsonRpcMessage::Request(JsonRpcRequest::new(id, request.into())))
}

fn notification(notification: impl Into<rmcp::model::ClientNotification>) -> Vec<u8> {
    let notification = notification.into();
    written(JsonRpcMessage::Notification(JsonRpcNotification { jsonrpc: Default::default(), notification }))
}

#[test]
fn rmcp_client_starts_session() {
    let mut capabilities = ClientCapabilities::default();
    capabilities.roots = Some(RootsCapabilities::default());
    for (capabilities, has_roots) in [(capabilities, true), (ClientCapabilities::default(), false)] {
        let params = InitializeRequestParams::new(capabilities, Implementation::new("client", "1"))
            .with_protocol_version(ProtocolVersion::V_2025_03_26);
        let line = request(NumberOrString::Number(0), InitializeRequest::new(params));
        let Ok(Message::Request { method, params, .. }) = message::read(&line) else { panic!() };
        assert_eq!(method, "initialize");
        let mut protocol = Protocol::default();
        assert_eq!(protocol.initialize(params), Ok(ProtocolVersion::V_2025_03_26));
        assert_eq!(protocol.ask_for_roots().is_some(), has_roots);
    }
    let line = notification(InitializedNotification::default());
    let Ok(Message::Notification { method, .. }) = message::read(&line) else { panic!() };
    assert_eq!(method, "notifications/initialized");
}

#[test]
fn rmcp_client_calls_tools() {
    let Value::Object(arguments) = json!({ "name": "\"car\"" }) else { unreachable!() };
    let mut params = CallToolRequestParams::new("who-calls").with_arguments(arguments.clone());
    params.set_progress_token(ProgressToken(NumberOrString::Number(5)));
    let line = request(NumberOrString::String("c".into()), CallToolRequest::new(params));
    let Ok(Message::Request { id, method, params: Some(params) }) = message::read(&line) else { panic!() };
    assert_eq!((id, method.as_ref()), (Id::string("c"), "tools/call"));
    let call: CallParams<'_> = serde_json::from_str(params.get()).unwrap();
    assert_eq!(call.name, "who-calls");
    assert_eq!(serde_json::from_str::<Value>(call.arguments.unwrap().get()).unwrap(), json!(arguments));
    assert_eq!(Meta::read(call._meta).progress_token.unwrap().get(), "5");
}

#[test]
fn rmcp_client_works_without_session() {
    let mut params = CallToolRequestParams::new("status");
    *params.meta_mut() = Some(rmcp::model::RequestMetaObject::new());
    let meta = params.meta_mut().as_mut().unwrap();
    meta.set_protocol_version(ProtocolVersion::V_2026_07_28);
    meta.set_client_capabilities(ClientCapabilities::default());
    let line = request(NumberOrString::Number(1), CallToolRequest::new(params));
    let Ok(Message::Request { params, .. }) = message::read(&line) else { panic!() };
    let admitted = Protocol::default().negotiate("tools/call", &Meta::of(params));
    assert_eq!(admitted, Ok(ResultFormat::Stateless));
}

#[test]
fn rmcp_client_cancels_and_pings() {
    for id in [NumberOrString::Number(9), NumberOrString::String("ä\"".into())] {
        let asked = request(id.clone(), PingRequest::default());
        let Ok(Message::Request { id: of, method, .. }) = message::read(&asked) else { panic!() };
        assert_eq!(method, "ping");
        let params = CancelledNotificationParam::new(Some(id), Some("enough".into()));
        let line = notification(CancelledNotification::new(params));
        let Ok(Message::Notification { method, params }) = message::read(&line) else { panic!() };
        assert_eq!(method, "notifications/cancelled");
        assert_eq!(calls::cancelled(params), Some(of));
    }
}

#[test]
fn rmcp_client_lists_roots() {
    let roots =
        ListRootsResult::new(vec![Root::new("https://a/b"), Root::new("file:///a%20b").with_name("b")]);
    let response = JsonRpcResponse {
        jsonrpc: Default::default(),
        id: NumberOrString::String("r".into()),
        result: roots.into(),
    };
    let line = written(JsonRpcMessage::Response(response));
    let Ok(Message::Response { id, result }) = message::read(&line) else { panic!() };
    assert_eq!(id, Id::string("r"));
    assert!(roots::folders(result).eq(["/a b".into()] as [std::path::PathBuf; 1]));

    let line = written(JsonRpcMessage::Error(JsonRpcError::new(
        Some(NumberOrString::String("r".into())),
        ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "roots/list", None),
    )));
    let Ok(Message::Response { result, .. }) = message::read(&line) else { panic!() };
    assert_eq!(roots::folders(result).count(), 0);
}
