//! The MCP server in this process, on socket pairs: the protocol.

use std::os::unix::net::UnixStream;

use serde_json::{Value, json};
use steelbank::doors::mcp::{listing, serve_on};
use steelbank::tools::{Call, Failure, Session};

use crate::client::Client;
use crate::image::{bank, evaluate};

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
fn both_lifecycles_give_the_same_answers() {
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
fn the_list_of_tools_is_complete_and_always_the_same() {
    let mut client = client();
    let first = client.request("tools/list", json!({}))["result"].clone();
    assert_eq!(first, client.request("tools/list", json!({}))["result"]);
    assert_eq!(first, listing(steelbank::actions::tools()));
    let tools = first["tools"].as_array().unwrap();
    for name in ["describe-symbol", "who-calls", "who-references", "who-binds", "who-sets", "status"] {
        assert!(tools.iter().any(|tool| tool["name"] == name), "{name}");
    }
    for tool in tools {
        let name = &tool["name"];
        assert!(tool["description"].as_str().unwrap().len() > 60, "{name}");
        assert!(!tool["title"].as_str().unwrap().is_empty(), "{name}");
        assert_eq!(tool["inputSchema"]["type"], "object", "{name}");
        assert_eq!(tool["outputSchema"]["type"], "object", "{name}");
        for hint in ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"] {
            assert!(tool["annotations"][hint].is_boolean(), "{name} {hint}");
        }
    }
    let who_calls = tools.iter().find(|tool| tool["name"] == "who-calls").unwrap();
    assert_eq!(who_calls["annotations"]["readOnlyHint"], true);
    assert_eq!(who_calls["inputSchema"]["required"], json!(["name"]));
    assert_eq!(who_calls["inputSchema"]["properties"]["package"]["default"], "CL-USER");
}

#[test]
fn long_lists_are_cut_at_the_limit_and_say_so() {
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
    let expected = format!(
        "Functions that call COMMON-LISP::MAPCAR:\n\n{}\n\n{} of {count} are left out here: the next page has cursor 3.",
        entries[..3].join("\n"),
        count - 3
    );
    let text = cut["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with(&expected), "{text}");
    let next = client.call("who-calls", json!({ "name": "cl:mapcar", "limit": 3, "cursor": "3" }));
    let first = next["structuredContent"]["users"][0]["name"].as_str().unwrap();
    let fourth = next["content"][0]["text"].as_str().unwrap().lines().nth(2).unwrap();
    assert_eq!(fourth, entries[3]);
    let described = client.call("describe-symbol", json!({ "name": first }));
    assert_eq!(described["structuredContent"]["found"], true, "{first}");
    assert!(
        client.error("who-calls", json!({ "name": "cl:mapcar", "cursor": "x" })).contains("The cursor \"x\"")
    );
}

#[test]
fn wrong_arguments_are_told_by_name() {
    let mut client = client();
    assert_eq!(
        client.error("who-calls", json!({})),
        "who-calls needs the argument \"name\" (a string), which is missing."
    );
    assert_eq!(
        client.error("describe-symbol", json!({ "name": 7 })),
        "The argument \"name\" of describe-symbol must be a string, but 7 was given."
    );
    assert_eq!(
        client.error("describe-symbol", json!({ "name": "car", "pakage": "CL" })),
        "describe-symbol has no argument \"pakage\". It takes cursor, name, package, uses. Did you mean package?"
    );
    assert!(client.error("who-calls", json!({ "name": "" })).starts_with("The name is empty;"));
    assert!(client.error("who-calls", json!({ "name": "|open" })).contains("ends inside |"));
    assert!(client.text("who-calls", json!({ "name": "cl:car", "package": null })).starts_with("Functions"));
}

#[test]
fn requests_that_are_wrong_are_refused_with_their_id() {
    let mut client = client();
    let cases = [
        ("tools/call", json!({ "name": "no-such-tool", "arguments": {} }), -32602, "\"no-such-tool\""),
        ("tools/call", json!({ "arguments": {} }), -32602, "\"name\""),
        ("tools/call", json!({ "name": "who-calls", "arguments": [] }), -32602, "\"arguments\""),
        ("no/such/method", json!({}), -32601, "no/such/method"),
    ];
    for (method, params, code, named) in cases {
        let error = client.request(method, params)["error"].clone();
        assert_eq!(error["code"], code, "{error}");
        assert!(error["message"].as_str().unwrap().contains(named), "{error}");
    }
}

#[test]
fn strange_names_are_answered() {
    let mut client = client();
    let long = "x".repeat(1 << 20);
    let result = client.call("describe-symbol", json!({ "name": long }));
    assert_eq!(result["isError"], false);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert!(text.ends_with("X... (1047576 more characters) not found in package CL-USER (status: NIL)"));
    assert!(text.len() < 2000);
    // Below it stands what is nearest, if other tests have made that.
    let text = client.text("who-calls", json!({ "name": "a\u{0}b" }));
    assert_eq!(text.lines().next(), Some("Symbol A\\u0000B not found in package CL-USER (status: NIL)"));
    assert!(client.error("who-calls", json!({ "name": format!("|{long}") })).len() < 5000);
    assert_eq!(
        client.text("describe-symbol", json!({ "name": "名前", "package": "ß" })),
        "Package ß not found"
    );
}

#[test]
fn bytes_that_are_no_messages_are_refused_and_the_server_goes_on() {
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
        assert!(client.text("status", json!({})).starts_with("Lisp is "));
        let refusal = client.other();
        assert_eq!(refusal["error"]["code"], code, "{refusal}");
    }
    client.send_bytes(b"\n\r\n  \n{\"jsonrpc\":\"2.0\",\"method\":\"notifications/no-such-thing\"}\n");
    assert!(client.text("status", json!({})).starts_with("Lisp is "));
    assert_eq!(client.others, [Value::Null; 0]);
}

/// Defines a variable `NAME::V` whose value takes for ever to print.
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
fn a_cancelled_request_is_not_answered_and_the_next_one_is() {
    let arguments = endless_value("MCP-CANCEL");
    let mut client = client();
    let id = client.begin("tools/call", json!({ "name": "describe-symbol", "arguments": arguments }));
    client.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": id, "reason": "test" },
    }));
    assert!(
        client
            .text("describe-symbol", json!({ "name": "cl:car" }))
            .starts_with("COMMON-LISP::CAR [FUNCTION]")
    );
    assert!(!client.has_response(id));
}

#[test]
fn calling_a_call_off_interrupts_lisp() {
    let Value::Object(arguments) = endless_value("MCP-CALL-OFF") else { unreachable!() };
    let call = Call::default();
    let cancellation = call.cancellation();
    let asked = std::thread::spawn(move || {
        let tools = steelbank::actions::tools();
        tools.get("describe-symbol").unwrap().call(&Session::new(bank().clone()), arguments, &call)
    });
    cancellation.cancel();
    assert_eq!(asked.join().unwrap(), Err(Failure::engine("The request was cancelled.")));
    assert_eq!(evaluate("(+ 1 2)"), ["3"]);
}

#[test]
fn requests_are_served_side_by_side() {
    let arguments = endless_value("MCP-BESIDE");
    let mut client = client();
    let slow = client.begin("tools/call", json!({ "name": "describe-symbol", "arguments": arguments }));
    // Answer these without waiting for Lisp, which they do not need.
    client.request("tools/list", json!({}));
    client.text("who-calls", json!({ "name": "cl:mapcar" }));
    client.text("status", json!({}));
    let answer = client.response(slow);
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(
        text.starts_with("MCP-BESIDE::V [VARIABLE]\n  Value: <error printing value>\n  Defined as "),
        "{text}"
    );
}

#[test]
fn what_comes_before_initialize_ends_nothing() {
    let mut client = connect();
    assert_eq!(client.request("ping", json!({}))["result"], json!({}));
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    client.send(
        &json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } }),
    );
    let early = client.request("tools/list", json!({}))["error"].clone();
    assert_eq!(early["code"], -32602, "{early}");
    assert!(early["message"].as_str().unwrap().contains("initialize"), "{early}");
    client.initialize();
    assert!(client.text("status", json!({})).starts_with("Lisp is "));
}

#[test]
fn every_request_of_one_id_is_answered() {
    let mut client = client();
    for _ in 0..50 {
        client.send(&json!({ "jsonrpc": "2.0", "id": "same", "method": "tools/call", "params": { "name": "status" } }));
    }
    for _ in 0..50 {
        let answer = client.read().unwrap();
        assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!("same"), &json!(false)));
    }
}
