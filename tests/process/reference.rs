//! Generates docs/reference.md with `STEELBANK_BLESS=1`: each tool with its description, arguments,
//! and an answer about examples/shop with its tokens. Otherwise checks only that each tool is
//! called and has its heading and call in the page.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::client::Client;
use crate::program::{Folder, STEELBANK, Streams, ends_well, initialized};
use crate::renames::copy;

/// A call of each tool, in the order of a session. A number limits the lines of an answer that is
/// long, or that differs between runs.
const CALLS: [(&str, &str, Option<usize>); 36] = [
    ("load-system", r#"{"system": "shop/tests"}"#, None),
    ("list-systems", "{}", None),
    ("describe-symbol", r#"{"name": "shop:price"}"#, None),
    ("apropos", r#"{"pattern": "cart"}"#, None),
    ("outline", r#"{"system": "shop", "unused": true}"#, None),
    ("package-info", r#"{"package": "shop"}"#, None),
    ("interface", r#"{"path": "cart.lisp"}"#, None),
    ("find-definition", r#"{"name": "shop:price"}"#, None),
    ("code-find-references", r#"{"symbol": "shop:price"}"#, None),
    ("who-calls", r#"{"name": "shop:total"}"#, None),
    ("who-references", r#"{"name": "shop::*discount*"}"#, None),
    ("who-binds", r#"{"name": "shop::*discount*"}"#, None),
    ("who-sets", r#"{"name": "shop::*discount*"}"#, None),
    ("who-macroexpands", r#"{"name": "shop:with-discount"}"#, None),
    ("who-specializes", r#"{"name": "shop:cart"}"#, None),
    ("who-makes", r#"{"name": "shop:cart"}"#, None),
    ("path", r#"{"from": "shop:receipt", "to": "shop:price"}"#, None),
    ("call-graph", r#"{"name": "shop:price", "format": "mermaid"}"#, None),
    ("impact", r#"{"names": ["shop:with-discount"]}"#, None),
    ("macroexpand", r#"{"path": "cart.lisp", "line": 17}"#, None),
    ("compiler-notes", r#"{"name": "shop:total"}"#, None),
    ("disassemble", r#"{"name": "shop:add-item"}"#, Some(1)),
    ("run-tests", r#"{"system": "shop/tests"}"#, None),
    (
        "evaluate",
        r#"{"code": "(shop:total (shop:add-item 250 (make-instance 'shop:cart)) :discount 10)"}"#,
        None,
    ),
    ("inspect", r#"{"expression": "(shop:add-item 250 (make-instance 'shop:cart))"}"#, None),
    ("check-structure", r#"{"text": "(defun half (price)\n  (round price 2)"}"#, None),
    (
        "check",
        r#"{"system": "shop", "edits": [{"path": "prices.lisp", "text": "(in-package :shop)\n\n(defun half (price)\n  (rund price 2))\n"}]}"#,
        None,
    ),
    ("rename", r#"{"name": "shop:total", "new_name": "amount"}"#, None),
    (
        "edit-definition",
        r#"{"path": "cart.lisp", "definition": "(defun empty-cart)", "operation": "replace",
 "text": "(defun empty-cart ()\n  \"Make a cart with nothing in it.\"\n  (make-instance 'cart))"}"#,
        None,
    ),
    ("reload", "{}", None),
    ("load-file", r#"{"path": "prices.lisp"}"#, None),
    ("index_project", "{}", None),
    ("check_index_status", "{}", None),
    ("find_references", r#"{"pattern": "discount"}"#, None),
    ("status", "{}", None),
    ("restart-lisp", "{}", None),
];

const HEAD: &str = "\
# Every tool

Made by a test from what the program says of itself, and from its answers about [examples/shop](../examples/shop), in the order of a
session. An answer's tokens are its text's characters divided by four. [By what they are for](tools.md).
";

#[test]
fn reference_has_every_tool() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference.md");
    if std::env::var_os("STEELBANK_BLESS").is_some() {
        fs::write(&file, generate()).unwrap();
    }
    let page = fs::read_to_string(&file).unwrap();
    let listed = steelbank::doors::mcp::listing(steelbank::actions::tools());
    for tool in listed["tools"].as_array().unwrap() {
        let tool = tool["name"].as_str().unwrap();
        let call = CALLS.iter().find(|(name, ..)| tool == *name);
        let (_, arguments, _) = call.unwrap_or_else(|| panic!("{tool} is not called"));
        let parts = [format!("\n## {tool}\n"), format!("\n```text\n{tool} {arguments}\n")];
        assert!(
            parts.iter().all(|part| page.contains(part)),
            "STEELBANK_BLESS=1 adds {tool} to docs/reference.md"
        );
    }
}

/// Calls all tools in a copy of examples/shop, and returns the page.
fn generate() -> String {
    let folder = Folder::new("reference");
    let project = folder.join("shop");
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/shop"), &project);
    let mut command = Command::new(STEELBANK);
    command
        .args(["--no-userinit", "--no-snapshot", "--project"])
        .arg(&project)
        .args(["serve", "--allow-edits", "--allow-eval", "--tools", "all"])
        .env("STEELBANK_CACHE", folder.join("cache"));
    let (child, mut client) = initialized(command, Streams::Pipes);
    let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
    let tools = listed.as_array().unwrap();
    let mut page = HEAD.to_owned();
    for (name, arguments, lines) in CALLS {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("{name}"));
        describe(&mut page, tool);
        if name == "edit-definition" {
            // ASDF compares modification times in seconds.
            std::thread::sleep(Duration::from_millis(1100));
        }
        answer(&mut page, &mut client, (name, arguments, lines), &folder);
    }
    ends_well(child, client);
    page
}

/// Adds a tool's description and arguments.
fn describe(page: &mut String, tool: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().replace('\n', " ").replace('|', "\\|");
    writeln!(page, "\n## {}\n\n{}\n", tool["name"].as_str().unwrap(), text(&tool["description"])).unwrap();
    let schema = &tool["inputSchema"];
    let Some(properties) = schema["properties"].as_object().filter(|properties| !properties.is_empty())
    else {
        return;
    };
    writeln!(page, "| argument | type, default | |\n|---|---|---|").unwrap();
    for (name, property) in properties {
        let needed =
            schema["required"].as_array().is_some_and(|names| names.iter().any(|other| other == name));
        let kind = match property["enum"].as_array() {
            Some(words) => words.iter().map(text).collect::<Vec<_>>().join(", "),
            None => text(&property["type"]),
        };
        let kind = match property["default"].is_null() {
            true if needed => format!("{kind}; required"),
            true => kind,
            false => format!("{kind}; {}", property["default"]),
        };
        writeln!(page, "| `{name}` | {kind} | {} |", text(&property["description"])).unwrap();
    }
    page.push('\n');
}

/// Adds a call of a tool, and its answer.
fn answer(
    page: &mut String,
    client: &mut Client,
    (name, arguments, shown): (&str, &str, Option<usize>),
    folder: &Path,
) {
    let text = client.text(name, serde_json::from_str(arguments).unwrap());
    let text = in_general(&text.replace(folder.to_str().unwrap(), "~"));
    writeln!(page, "```text\n{name} {arguments}\n").unwrap();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    for line in lines.iter().take(shown.unwrap_or(lines.len())) {
        writeln!(page, "{line}").unwrap();
    }
    match shown {
        Some(_) => page.push_str("…\n```\n"),
        None => writeln!(page, "```\n\n{} tokens.", text.chars().count().div_ceil(4)).unwrap(),
    }
}

/// Replaces times, addresses, digests, sizes and counts that differ between runs and machines.
fn in_general(text: &str) -> String {
    const DIFFERS: &str = r#"\b[0-9.]+ (?<unit>m?s)\b|\{[0-9A-F]{10}\}|\b[0-9a-f]{16}\b|(?<key>"(duration_ms|index_bytes)":)[0-9]+|[0-9]+(?<of> jobs done| cross references in the index)"#;
    let differs = regex::Regex::new(DIFFERS).unwrap();
    let general = differs.replace_all(text, |found: &regex::Captures<'_>| {
        let part = |name| found.name(name).map(|part: regex::Match<'_>| part.as_str());
        match (part("unit"), part("key"), part("of")) {
            (Some(unit), ..) => format!("… {unit}"),
            (_, Some(key), _) => format!("{key}…"),
            (.., Some(of)) => format!("…{of}"),
            _ => "…".to_owned(),
        }
    });
    general.into_owned()
}
