//! Tests the protocol of MCP with servers in this process, on socket pairs.

use std::os::unix::net::UnixStream;

use serde_json::{Value, json};
use steelbank::doors::mcp::{listing, serve_on};
use steelbank::tools::{Blame, Call, Failure, Session};

use crate::client::Client;
use crate::image::{bank, evaluate};
use crate::texts::expect_text;

/// Connects a client to a new server on a socket pair.
fn connect() -> Client {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let input = theirs.try_clone().unwrap();
    std::thread::spawn(move || {
        serve_on(input, theirs, Session::new(bank().clone()).with_tools(steelbank::actions::tools().clone()))
            .unwrap()
    });
    Client::new(ours.try_clone().unwrap(), ours)
}

/// Connects a client, and begins a session.
fn client() -> Client {
    let mut client = connect();
    client.initialize();
    client
}

#[test]
fn both_lifecycles_give_equal_answers() {
    let asked = json!({ "name": "*print-base*", "package": "CL" });
    let mut old = connect();
    let hello = old.initialize();
    assert_eq!(hello["protocolVersion"], "2025-11-25");
    assert_eq!(hello["serverInfo"]["name"], "steelbank");
    assert!(hello["instructions"].as_str().unwrap().len() <= 2048);
    let mut new = connect();
    new.without_initialize();
    let found = new.request("server/discover", json!({}));
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")) && versions.contains(&json!("2025-11-25")));
    assert_eq!(old.structured("describe-symbol", asked.clone()), new.structured("describe-symbol", asked));
    assert_eq!(
        old.request("tools/list", json!({}))["result"]["tools"],
        new.request("tools/list", json!({}))["result"]["tools"]
    );
}

#[test]
fn tools_list_is_complete_and_stable() {
    let mut client = client();
    let first = client.request("tools/list", json!({}))["result"].clone();
    assert_eq!(first, client.request("tools/list", json!({}))["result"]);
    assert_eq!(first, listing(steelbank::actions::tools()));
    let tools = first["tools"].as_array().unwrap();
    let is_listed = |name: &str| tools.iter().any(|tool| tool["name"] == name);
    for name in
        ["describe-symbol", "who-calls", "who-references", "macroexpand", "interface", "path", "status"]
    {
        assert!(is_listed(name), "{name}");
    }
    // Old names still answer.
    for (old, use_type) in [("who-sets", "set"), ("who-binds", "bind"), ("who-macroexpands", "macro")] {
        assert!(!is_listed(old), "{old}");
        let name = if use_type == "macro" { "cl:when" } else { "cl:*print-base*" };
        let new = client.call("who-references", json!({ "name": name, "type": use_type }));
        assert_eq!(client.call(old, json!({ "name": name })), new, "{old}");
    }
    let mut daily = listing(&steelbank::actions::tools().daily(steelbank::tools::Permissions::default()));
    let refactor = |tool: &Value| tool["name"] == "refactor";
    let list = daily["tools"].as_array_mut().unwrap();
    let refactor = list.remove(list.iter().position(refactor).unwrap());
    let length = |value: &Value| value.to_string().chars().count();
    assert!(
        length(&refactor) <= 3_000 && length(&daily) <= 25_000,
        "{}, {}",
        length(&refactor),
        length(&daily)
    );
    for tool in tools {
        let name = &tool["name"];
        assert!(tool["description"].as_str().unwrap().len() > 60, "{name}");
        assert!(!tool["title"].as_str().unwrap().is_empty(), "{name}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{name}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
        for hint in ["readOnlyHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{name} {hint}");
        }
    }
    let who_calls = tools.iter().find(|tool| tool["name"] == "who-calls").unwrap();
    assert_eq!(who_calls["annotations"]["readOnlyHint"], true);
    assert_eq!(who_calls["inputSchema"]["required"], json!(["name"]));
    assert_eq!(who_calls["inputSchema"]["properties"]["package"]["default"], "CL-USER");
}

#[test]
fn limit_pages_long_lists() {
    let mut client = client();
    let whole = client.call("who-calls", json!({ "name": "cl:mapcar" }));
    let count = whole["structuredContent"]["count"].as_u64().unwrap();
    assert!(count > 300);
    let text = whole["content"][0]["text"].as_str().unwrap();
    let entries: Vec<&str> = text.lines().skip(2).take_while(|line| !line.is_empty()).collect();
    assert!(entries.len() > 100 && entries.iter().all(|entry| entry.starts_with("  ")));

    let cut = client.call("who-calls", json!({ "name": "cl:mapcar", "limit": 3 }));
    assert_eq!(cut["structuredContent"]["count"], count);
    assert_eq!(cut["structuredContent"]["cursor"], "3");
    assert_eq!(cut["structuredContent"]["users"].as_array().unwrap().len(), 3);
    let left_out = (count - 3).to_string();
    let text = cut["content"][0]["text"].as_str().unwrap();
    let text = text.replace(&entries[..3].join("\n"), "  {three entries}");
    let text = text.replace(&count.to_string(), "{count}").replace(&left_out, "{left out}");
    expect_text("first page", &text);
    let next = client.call("who-calls", json!({ "name": "cl:mapcar", "limit": 3, "cursor": "3" }));
    let first = next["structuredContent"]["users"][0]["name"].as_str().unwrap();
    let fourth = next["content"][0]["text"].as_str().unwrap().lines().nth(2).unwrap();
    assert_eq!(fourth, entries[3]);
    let described = client.call("describe-symbol", json!({ "name": first }));
    assert_eq!(described["structuredContent"]["found"], true, "{first}");
    expect_text("wrong cursor", &client.error("who-calls", json!({ "name": "cl:mapcar", "cursor": "x" })));
}

#[test]
fn wrong_arguments_are_reported_by_name() {
    let mut client = client();
    let errors = [
        ("who-calls", json!({})),
        ("describe-symbol", json!({ "name": 7 })),
        ("describe-symbol", json!({ "name": "car", "pakage": "CL" })),
        ("who-calls", json!({ "name": "" })),
        ("who-calls", json!({ "name": "|open" })),
    ]
    .map(|(tool, arguments)| client.error(tool, arguments));
    expect_text("wrong arguments", &errors.join("\n"));
    client.text("who-calls", json!({ "name": "cl:car", "package": null }));
}

#[test]
fn malformed_requests_are_errors_with_their_id() {
    let mut client = client();
    let errors = [
        ("tools/call", json!({ "name": "no-such-tool", "arguments": {} })),
        ("tools/call", json!({ "arguments": {} })),
        ("tools/call", json!({ "name": "who-calls", "arguments": [] })),
        ("no/such/method", json!({})),
    ]
    .map(|(method, params)| client.request(method, params)["error"].clone())
    .map(|error| format!("{} {}", error["code"], error["message"]));
    expect_text("malformed requests", &errors.join("\n"));
}

#[test]
fn unusual_names_are_answered() {
    let mut client = client();
    let long = "x".repeat(1 << 20);
    let result = client.call("describe-symbol", json!({ "name": long }));
    assert_eq!(result["isError"], false);
    let text = result["content"][0]["text"].as_str().unwrap();
    expect_text("long name", &text.replace(&"X".repeat(1000), "X…"));
    // Suggestions follow if other tests have defined similar names.
    let text = client.text("who-calls", json!({ "name": "a\u{0}b" }));
    expect_text("name with null", text.lines().next().unwrap());
    assert!(client.error("who-calls", json!({ "name": format!("|{long}") })).len() < 5000);
    let text = client.text("describe-symbol", json!({ "name": "名前", "package": "ß" }));
    expect_text("missing package", &text);
}

#[test]
fn server_survives_bytes_that_are_no_messages() {
    let mut client = client();
    let huge = [vec![b' '; (16 << 20) + 1], b"\n".to_vec()].concat();
    let deep = [vec![b'['; 100_000], b"\n".to_vec()].concat();
    let cases: [(&[u8], i64); 6] = [
        (b"\xff\xfe\xfd\n", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\n", -32700),
        (b"not a message\n", -32700),
        (b"[]\n", -32600),
        (&deep, -32700),
        (&huge, -32600),
    ];
    for (bytes, code) in cases {
        client.send_bytes(bytes);
        client.text("status", json!({}));
        let refusal = client.other();
        assert_eq!(refusal["error"]["code"], code, "{refusal}");
    }
    client.send_bytes(b"\n\r\n  \n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/no-such-thing\"}\n");
    client.text("status", json!({}));
    assert_eq!(client.others, [Value::Null; 0]);
}

/// Defines a variable `NAME::V` with a value that never finishes printing.
fn endless_value(package: &str) -> Value {
    evaluate(&format!(
        "(progn (defpackage \"{package}\" (:use \"CL\"))
           (eval (read-from-string \"(progn (defclass {package}::c () ())
             (defmethod print-object ((object {package}::c) stream) (loop (sleep 0.01)))
             (defparameter {package}::v (make-instance '{package}::c)))\")))"
    ));
    json!({ "name": format!("{package}::v") })
}

#[test]
fn cancelled_request_is_not_answered() {
    let arguments = endless_value("MCP-CANCEL");
    let mut client = client();
    let id = client.begin("tools/call", json!({ "name": "describe-symbol", "arguments": arguments }));
    client.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id, "reason": "test" },
    }));
    client.text("describe-symbol", json!({ "name": "cl:car" }));
    assert!(!client.has_response(id));
}

#[test]
fn cancelling_a_call_interrupts_lisp() {
    let Value::Object(arguments) = endless_value("MCP-CALL-OFF") else { unreachable!() };
    let call = Call::default();
    let cancellation = call.cancellation();
    let asked = std::thread::spawn(move || {
        let tools = steelbank::actions::tools();
        tools.get("describe-symbol").unwrap().call(&Session::new(bank().clone()), arguments, &call)
    });
    cancellation.cancel();
    let Err(Failure { blame: Blame::Engine, why, .. }) = asked.join().unwrap() else { panic!() };
    expect_text("cancelled", &why);
    assert_eq!(evaluate("(+ 1 2)"), ["3"]);
}

#[test]
fn requests_are_served_concurrently() {
    let arguments = endless_value("MCP-BESIDE");
    let mut client = client();
    let slow = client.begin("tools/call", json!({ "name": "describe-symbol", "arguments": arguments }));
    // Requests that do not need Lisp are answered immediately.
    client.request("tools/list", json!({}));
    client.text("who-calls", json!({ "name": "cl:mapcar" }));
    client.text("status", json!({}));
    let answer = client.response(slow);
    expect_text("endless value", answer["result"]["content"][0]["text"].as_str().unwrap());
}

#[test]
fn server_survives_messages_before_initialize() {
    let mut client = connect();
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } }),
    );
    let early = client.request("tools/list", json!({}))["error"].clone();
    assert_eq!(early["code"], -32602, "{early}");
    expect_text("before initialize", early["message"].as_str().unwrap());
    client.initialize();
    client.text("status", json!({}));
}

#[test]
fn requests_with_one_id_are_all_answered() {
    let mut client = client();
    for _ in 0..50 {
        client.send(&json!({ "jsonrpc": "2.0", "id": "same", "method": "tools/call", "params": { "name": "status" } }));
    }
    for _ in 0..50 {
        let answer = client.read().unwrap();
        assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!("same"), &json!(false)));
    }
}
