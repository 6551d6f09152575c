//! Checks the rows of the contracts over MCP, with servers in this process.

use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::{Value, json};
use steelbank::doors::mcp::serve_on;
use steelbank::loaded::LoadStatus;
use steelbank::tools::{Permissions, Session};
use steelbank::{ProjectSettings, Steelbank};
use steelbank_text::{Freshness, TextIndex};

use crate::client::Client;
use crate::contracts_table::{Answer, Row, check, make_project, rows};
use crate::project::{folder, load};

/// Connects a client to a server that has `bank`, with the text index of the project at `root`.
fn connect(bank: &Steelbank, root: &Path, freshness: Freshness) -> Client {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let input = theirs.try_clone().unwrap();
    let (root, indexes) = (root.to_owned(), root.join(".index"));
    let open = move || TextIndex::open(&root, &indexes, freshness).map_err(|error| error.to_string());
    let session = Session::new(bank.clone())
        .with_tools(steelbank::actions::tools().clone())
        .with_text(open)
        .allowing(Permissions::ALL);
    std::thread::spawn(move || serve_on(input, theirs, session).unwrap());
    let mut client = Client::new(ours.try_clone().unwrap(), ours);
    client.initialize();
    client
}

fn ask(client: &mut Client, row: &Row) -> Answer {
    if row.is_of_list() {
        let listed = client.request("tools/list", json!({}))["result"]["tools"].clone();
        let tools = listed.as_array().unwrap().iter();
        let by_name = tools.map(|tool| (tool["name"].as_str().unwrap().to_owned(), tool.clone())).collect();
        return Answer { text: None, is_error: false, is_missing: None, structured: Value::Object(by_name) };
    }
    let result = client.call(row.tool, serde_json::from_str(row.given).unwrap());
    let structured = result["structuredContent"].clone();
    Answer {
        text: result["content"][0]["text"].as_str().map(str::to_owned),
        is_error: result["isError"].as_bool().unwrap(),
        is_missing: structured["found"].as_bool().map(|found| !found),
        structured,
    }
}

#[test]
fn contracts_hold_over_mcp() {
    own_process!();
    let folder = folder("contracts");
    let root = make_project(&folder.join("project"));
    let apart = make_project(&folder.join("apart"));
    let settings = ProjectSettings::in_folder(&root).cache(folder.join("cache"));
    let bank = Steelbank::builder().project(settings).start().unwrap();
    assert_eq!(load(&bank, "contracts").status, LoadStatus::Loaded);
    let mut client = connect(&bank, &root, Freshness::Automatic);
    let mut manual = connect(&bank, &apart, Freshness::Manual);
    check(&root, &rows(), |row| {
        row.write_before(&apart);
        ask(if row.is_manual { &mut manual } else { &mut client }, row)
    });
}
