//! Tests of MCP resources and completion: paging, no loading, restarts, and roots that arrive late.

use std::process::Child;

use serde_json::{Value, json};

use crate::child::wait_while;
use crate::client::Client;
use crate::program::{Folder, Streams, ends_well, initialized, serve, server};

const FILES: usize = 130;

/// Writes a project of two systems, one with many files. Loading any of these files fails.
fn project(name: &str) -> Folder {
    let folder = Folder::new(name);
    let root = folder.join("project");
    std::fs::create_dir_all(root.join("src")).unwrap();
    let components: String = (0..FILES).map(|file| format!(" (:file \"src/part-{file}\")")).collect();
    let systems = format!(
        "(defsystem \"many\" :components ({components}))\n(defsystem \"many/tests\" :components ((:file \"a b%\")))"
    );
    std::fs::write(root.join("many.asd"), systems).unwrap();
    for file in 0..FILES {
        let text = format!("(error \"loaded\")\n(defun cl-user::part-{file} () {file})\n");
        std::fs::write(root.join(format!("src/part-{file}.lisp")), text).unwrap();
    }
    std::fs::write(root.join("a b%.lisp"), "(defun cl-user::odd () 1)\n").unwrap();
    folder
}

fn started(folder: &Folder, options: &[&str]) -> (Child, Client) {
    let mut command = server();
    command.args(["--no-userinit"]).args(options).current_dir(folder.join("project"));
    command.env("STEELBANK_CACHE", folder.join("cache"));
    initialized(command, Streams::Pipes)
}

/// Lists all resources, and returns their URIs and the number of pages.
fn listed(client: &mut Client) -> (Vec<String>, usize) {
    let (mut uris, mut pages, mut cursor) = (Vec::new(), 0, Value::Null);
    loop {
        let params = if cursor.is_null() { json!({}) } else { json!({ "cursor": cursor }) };
        let page = client.request("resources/list", params)["result"].clone();
        let resources = page["resources"].as_array().unwrap();
        assert!((1..=100).contains(&resources.len()), "{page}");
        uris.extend(resources.iter().map(|each| each["uri"].as_str().unwrap().to_owned()));
        pages += 1;
        cursor = page["nextCursor"].clone();
        if cursor.is_null() {
            return (uris, pages);
        }
    }
}

fn read(client: &mut Client, uri: &str) -> String {
    let response = client.request("resources/read", json!({ "uri": uri }));
    let text = response["result"]["contents"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{uri}: {response}")).to_owned()
}

fn complete(client: &mut Client, of: Value, name: &str, value: &str) -> Value {
    let params = json!({ "ref": of, "argument": { "name": name, "value": value } });
    client.request("completion/complete", params)["result"]["completion"].clone()
}

#[test]
fn files_are_listed_in_pages_without_loading() {
    let folder = project("resources");
    let (child, mut client) = started(&folder, &[]);
    let (uris, pages) = listed(&mut client);
    assert_eq!((uris.len(), pages), (2 + FILES + 2, 2), "{uris:?}");
    let mut sorted = uris.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), uris.len());
    for uri in ["steelbank:///status", "steelbank:///file/src/part-7.lisp", "steelbank:///file/a%20b%25.lisp"]
    {
        assert!(uris.iter().any(|listed| listed == uri), "{uri}: {uris:?}");
    }
    assert!(read(&mut client, "steelbank:///file/a%20b%25.lisp").contains("b%.lisp"));
    assert!(read(&mut client, "steelbank:///systems").contains("many/tests"));
    let path = json!({ "type": "ref/resource", "uri": "steelbank:///file/{+path}" });
    let found = complete(&mut client, path.clone(), "path", "src/part-12");
    let numbered = |number: &str| format!("src/part-{number}.lisp");
    let mut expected: Vec<String> = (120..130).map(|number| numbered(&number.to_string())).collect();
    expected.insert(0, numbered("12"));
    assert_eq!(found["total"], 11, "{found}");
    let mut values: Vec<String> = serde_json::from_value(found["values"].clone()).unwrap();
    values.sort();
    expected.sort();
    assert_eq!(values, expected);
    let found = complete(&mut client, path, "path", "");
    assert_eq!((found["values"].as_array().unwrap().len(), &found["total"]), (100, &json!(FILES + 2)));
    for of in [
        json!({ "type": "ref/resource", "uri": "steelbank:///system/{system}" }),
        json!({ "type": "ref/prompt", "name": "review-change" }),
    ] {
        let found = complete(&mut client, of, "system", "TESTS");
        assert_eq!(found, json!({ "values": ["many/tests"], "total": 1, "hasMore": false }));
    }
    let systems = client.structured("list-systems", json!({}));
    assert!(
        systems["systems"].as_array().unwrap().iter().all(|system| system["loaded"] == false),
        "{systems}"
    );
    assert_eq!(client.status()["loads"], Value::Null, "nothing was loaded");
    // A loaded system has an outline.
    let system = "steelbank:///system/many%2Ftests";
    let error = client.request("resources/read", json!({ "uri": system }))["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("load-system"), "{error}");
    client.text("load-system", json!({ "system": "many/tests" }));
    assert!(listed(&mut client).0.contains(&system.to_owned()));
    assert!(read(&mut client, system).contains("cl-user::odd"));
    ends_well(child, client);
}

/// The reason of Lisp's death, which the note about a restart contains.
const NOTE: &str = "abort";
/// The number of answers that have the note.
const NOTES: usize = 3;

/// A request that Lisp's death interrupts is repeated. Only answers with text show the note about
/// the restart.
#[test]
fn resources_survive_lisps_death_with_a_note() {
    let folder = project("resources-death");
    let (child, mut client) = started(&folder, &["--allow-eval"]);
    let abort = "(sb-alien:alien-funcall (sb-alien:extern-alien \"abort\" (function sb-alien:void)))";
    let dying = client.begin("tools/call", json!({ "name": "evaluate", "arguments": { "code": abort } }));
    let mut notes = 0;
    let asked: Vec<u64> = (0..20)
        .map(|_| client.begin("resources/read", json!({ "uri": "steelbank:///symbol/cl:mapcar" })))
        .collect();
    client.response(dying);
    for id in asked {
        let response = client.response(id);
        let text = response["result"]["contents"][0]["text"].as_str().unwrap_or_default();
        assert!(text.contains("COMMON-LISP::MAPCAR"), "{response}");
        notes += usize::from(text.contains(NOTE));
    }
    let of = json!({ "type": "ref/resource", "uri": "steelbank:///symbol/{name}" });
    // The answers to these requests have no text for a note.
    for _ in 0..10 {
        listed(&mut client);
        complete(&mut client, of.clone(), "name", "cl:mapcar");
    }
    wait_while(|| {
        notes += usize::from(read(&mut client, "steelbank:///symbol/cl:mapcar").contains(NOTE));
        notes < NOTES
    });
    ends_well(child, client);
}

/// A host lists resources when it connects, before the client has named its project.
#[test]
fn early_list_does_not_prevent_roots() {
    let folder = project("resources-roots");
    let empty = folder.join("empty");
    std::fs::create_dir(&empty).unwrap();
    let mut command = server();
    command.current_dir(&empty).env("HOME", &folder.0).env("STEELBANK_CACHE", folder.join("cache"));
    let (child, mut client) = serve(command, Streams::Pipes);
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": { "roots": {} },
        "clientInfo": { "name": "roots", "version": "1" },
    });
    client.request("initialize", hello);
    let (uris, _) = listed(&mut client);
    assert_eq!(uris, ["steelbank:///status", "steelbank:///systems"]);
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
    let asked = client.read().unwrap();
    let uri = format!("file://{}", folder.join("project").display());
    client.send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": { "roots": [{ "uri": uri }] } }));
    let (uris, _) = listed(&mut client);
    assert!(uris.contains(&"steelbank:///file/many.asd".to_owned()), "{uris:?}");
    ends_well(child, client);
}
