//! Tests resources, completion and prompts over MCP, in both lifecycles.

use std::os::unix::net::UnixStream;

use serde_json::{Value, json};
use steelbank::doors::mcp::serve_on;
use steelbank::tools::Session;

use crate::client::Client;
use crate::image::{bank, evaluate};

/// Connects a client of the shared image, with these tools, with or without a session.
fn client(choice: &str, stateless: bool) -> Client {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let input = theirs.try_clone().unwrap();
    let tools = steelbank::actions::tools().chosen(choice).unwrap();
    std::thread::spawn(move || {
        serve_on(input, theirs, Session::new(bank().clone()).with_tools(tools)).unwrap()
    });
    let mut client = Client::new(ours.try_clone().unwrap(), ours);
    match stateless {
        true => client.without_initialize(),
        false => drop(client.initialize()),
    }
    client
}

fn read(client: &mut Client, uri: &str) -> Value {
    client.request("resources/read", json!({ "uri": uri }))
}

const SYMBOL: &str = "steelbank:///symbol/{name}";

/// Completes a variable of a template, and returns the completion.
fn complete(client: &mut Client, uri: &str, name: &str, value: &str) -> Value {
    let params = json!({ "ref": { "type": "ref/resource", "uri": uri }, "argument": { "name": name, "value": value } });
    client.request("completion/complete", params)["result"]["completion"].clone()
}

#[test]
fn resource_has_the_text_of_its_tool() {
    evaluate("(defun cl-user::|a b/c%| (x) x)");
    for stateless in [false, true] {
        let mut client = client("all", stateless);
        for (uri, tool, arguments) in [
            ("steelbank:///symbol/cl%3Amapcar", "describe-symbol", json!({ "name": "cl:mapcar" })),
            ("steelbank:///symbol/%7Ca%20b%2Fc%25%7C", "describe-symbol", json!({ "name": "|a b/c%|" })),
            (
                "steelbank:///symbol/%28setf%20cl:car%29",
                "describe-symbol",
                json!({ "name": "(setf cl:car)" }),
            ),
            ("steelbank:///symbol/cl:%2F", "describe-symbol", json!({ "name": "cl:/" })),
        ] {
            let result = read(&mut client, uri)["result"].clone();
            let contents = &result["contents"][0];
            assert_eq!(contents["text"].as_str().unwrap(), client.text(tool, arguments), "{uri}");
            assert_eq!((&contents["uri"], &contents["mimeType"]), (&json!(uri), &json!("text/plain")));
            let complete = if stateless { json!("complete") } else { Value::Null };
            assert_eq!(result["resultType"], complete);
            assert_eq!(result["ttlMs"].is_u64(), stateless, "{result}");
        }
        // A resource has no pages: its text ends with the last of 978 exported symbols.
        let cl = read(&mut client, "steelbank:///package/cl")["result"]["contents"][0]["text"].clone();
        let cl = cl.as_str().unwrap();
        assert!(cl.matches("cl:").count() >= 978 && cl.contains("cl:zerop"), "{cl}");
        let listed = client.request("resources/list", json!({}))["result"]["resources"].clone();
        let uris: Vec<_> = listed.as_array().unwrap().iter().map(|each| each["uri"].clone()).collect();
        assert_eq!(uris[..2], [json!("steelbank:///status"), json!("steelbank:///systems")]);
    }
}

#[test]
fn missing_resources_are_errors_and_define_nothing() {
    for (stateless, code) in [(false, -32002), (true, -32602)] {
        let mut client = client("all", stateless);
        for uri in [
            "steelbank:///symbol/cl-user::no-such-symbol-resource",
            "steelbank:///package/no-such-package-resource",
            "steelbank:///other",
            "steelbank:///symbol/%zz",
            "http://localhost/",
            "",
        ] {
            let error = read(&mut client, uri)["error"].clone();
            assert_eq!((&error["code"], &error["data"]["uri"]), (&json!(code), &json!(uri)), "{error}");
        }
        for params in [json!({}), json!({ "uri": 7 })] {
            assert_eq!(client.request("resources/read", params)["error"]["code"], -32602);
        }
        for method in ["resources/subscribe", "resources/unsubscribe", "logging/setLevel"] {
            let error = client.request(method, json!({ "uri": "steelbank:///status" }))["error"].clone();
            assert_eq!(error["code"], -32601, "{method} is not declared");
        }
        assert_eq!(client.request("resources/list", json!({ "cursor": "x" }))["error"]["code"], -32602);
        assert_eq!(client.request("resources/list", json!({ "cursor": "99999" }))["error"]["code"], -32602);
        complete(&mut client, SYMBOL, "name", "cl-user::no-such-symbol-resource");
    }
    let found =
        "(list (find-symbol \"NO-SUCH-SYMBOL-RESOURCE\" :cl-user) (find-package :no-such-package-resource))";
    assert_eq!(evaluate(found), ["(NIL NIL)"]);
}

#[test]
fn completion_returns_the_best_hundred_names() {
    for stateless in [false, true] {
        let mut client = client("all", stateless);
        let symbols = |client: &mut Client, typed: &str| complete(client, SYMBOL, "name", typed);
        let found = symbols(&mut client, "cl:mapca");
        assert_eq!(found, json!({ "values": ["cl:mapcan", "cl:mapcar"], "total": 2, "hasMore": false }));
        let found = symbols(&mut client, "mapcar");
        assert_eq!(found["values"][0], "cl:mapcar", "{found}");
        for typed in ["cl:", "e", "sb-impl::%"] {
            let found = symbols(&mut client, typed);
            let values = found["values"].as_array().unwrap();
            assert!(values.len() == 100 && found["total"].as_u64() > Some(100), "{found}");
            assert_eq!(found["hasMore"], true);
        }
        // Completed names can be read.
        for value in symbols(&mut client, "cl:")["values"].as_array().unwrap().iter().take(5) {
            let escaped: String =
                value.as_str().unwrap().bytes().map(|byte| format!("%{byte:02x}")).collect();
            let uri = format!("steelbank:///symbol/{escaped}");
            assert!(read(&mut client, &uri)["result"].is_object(), "{uri}");
        }
        for typed in ["", "::", ":", "no-such-package:x", "no-such-symbol-at-all", "|", "\u{0}", "(", "\\"] {
            let found = symbols(&mut client, typed);
            assert!(found["values"].is_array(), "{typed:?}: {found}");
        }
        let packages = complete(&mut client, "steelbank:///package/{package}", "package", "common-lisp-u");
        assert_eq!(packages, json!({ "values": ["common-lisp-user"], "total": 1, "hasMore": false }));
        // Revisions are not completed.
        let prompt = json!({ "type": "ref/prompt", "name": "review-change" });
        let params = json!({ "ref": prompt, "argument": { "name": "revision", "value": "ma" } });
        let revisions = client.request("completion/complete", params)["result"]["completion"].clone();
        assert_eq!(revisions, json!({ "values": [], "total": 0, "hasMore": false }));
        for (of, name) in [
            (json!({ "type": "ref/resource", "uri": "steelbank:///symbol/" }), "name"),
            (json!({ "type": "ref/resource", "uri": SYMBOL }), "package"),
            (json!({ "type": "ref/resource", "uri": "steelbank:///status" }), ""),
            (json!({ "type": "ref/prompt", "name": "review-change" }), "other"),
            (json!({ "type": "ref/prompt", "name": "other" }), "revision"),
            (json!({ "type": "ref/other" }), "name"),
        ] {
            let params = json!({ "ref": of, "argument": { "name": name, "value": "" } });
            assert_eq!(client.request("completion/complete", params)["error"]["code"], -32602, "{of}");
        }
        assert_eq!(client.request("completion/complete", json!({}))["error"]["code"], -32602);
    }
}

#[test]
fn declared_capabilities_are_answered() {
    let methods = [
        ("resources", "resources/list", json!({})),
        ("resources", "resources/templates/list", json!({})),
        ("resources", "resources/read", json!({ "uri": "steelbank:///status" })),
        ("prompts", "prompts/list", json!({})),
        ("prompts", "prompts/get", json!({ "name": "review-change" })),
        (
            "completions",
            "completion/complete",
            json!({ "ref": { "type": "ref/prompt", "name": "x" }, "argument": { "name": "x", "value": "" } }),
        ),
    ];
    for choice in ["evaluate", "status", "impact", "all"] {
        let mut client = client(choice, false);
        let declared = client.initialize()["capabilities"].clone();
        for (capability, method, params) in &methods {
            let response = client.request(method, params.clone());
            let unknown = response["error"]["code"] == -32601;
            assert_eq!(declared[capability].is_null(), unknown, "{choice}: {declared} {response}");
        }
    }
    let mut client = client("status,describe-symbol", true);
    let templates = client.request("resources/templates/list", json!({}))["result"].clone();
    assert_eq!(templates["resourceTemplates"].as_array().unwrap().len(), 1);
    assert_eq!(templates["cacheScope"], "private");
    // Without apropos, completion is empty.
    assert_eq!(complete(&mut client, SYMBOL, "name", "mapcar")["total"], 0);
}
