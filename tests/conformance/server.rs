//! Serves MCP over HTTP, without Lisp or a token, with the tools that the protocol's official
//! conformance suite calls. `tests/conformance.sh` runs it. Prints the address, and serves until it
//! is killed.

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steelbank::doors::mcp::http::{HttpAddress, HttpConnection, serve};
use steelbank::doors::mcp::{ServedClient, ServedClients};
use steelbank::tools::{About, Call, CallOutcome, Effect, Session, Tool, ToolAnswer, Tools};
use steelbank::{Progress, Step};

#[derive(Deserialize, JsonSchema)]
struct Nothing {}

#[derive(Serialize, JsonSchema)]
struct Done {
    done: bool,
}

/// Makes a tool called `name` that answers with `text` after `time`, and reports progress
/// meanwhile.
fn tool(name: &'static str, text: &'static str, time: Duration, outcome: CallOutcome) -> Tool {
    let about = About { name, title: name, description: text, effect: Effect::Reads };
    Tool::new::<Nothing, Done>(about, move |_: &Session, Nothing {}, call: &Call| {
        for done in [0, 50, 100] {
            call.report(Progress { what: Step::Index, path: None, done, total: Some(100) });
            std::thread::sleep(time / 3);
        }
        ToolAnswer::new(text.to_owned(), &Done { done: true }, outcome)
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let (none, some, long) = (Duration::ZERO, Duration::from_millis(150), Duration::from_millis(900));
    let tools: &'static [Tool] = Vec::leak(vec![
        tool("test_simple_text", "This is a simple text response for testing.", none, CallOutcome::Answered),
        tool(
            "test_error_handling",
            "This tool intentionally returns an error for testing",
            none,
            CallOutcome::Failed,
        ),
        tool("test_tool_with_progress", "All steps are done.", some, CallOutcome::Answered),
        tool("test_reconnection", "This takes long enough for a stream.", long, CallOutcome::Answered),
        tool("test_streaming_elicitation", "Nothing is asked of the client.", some, CallOutcome::Answered),
        tool("test_logging_tool", "Nothing is logged.", none, CallOutcome::Answered),
        // The following tools provide a resource and a prompt.
        tool("status", "All is well.", none, CallOutcome::Answered),
        tool("check-structure", "All is well.", none, CallOutcome::Answered),
    ]);
    let session = Session::starting(|| Err(steelbank::Error::NeverBegan)).with_tools(Tools::of(tools));
    let served = ServedClients::new(&session);
    let join = move || {
        let seated = || {
            let (stream, image) = UnixStream::pair()?;
            let output = image.try_clone()?;
            let client = ServedClient::new(
                &served,
                [image.into(), output.into()],
                session.clone(),
                None,
                None,
                || (),
            )?;
            std::thread::spawn(move || client.wait());
            Ok::<_, Box<dyn Error>>(HttpConnection { stream, guard: Box::new(()) })
        };
        seated().map_err(|error| error.to_string())
    };
    serve(&"127.0.0.1:0".parse::<HttpAddress>()?, None, Arc::new(join), |url| println!("{url}"))?;
    Ok(())
}
