//! Tests of Lisp code that writes to the protocol's descriptors, closes them, or ends the runtime.
//!
//! The server is this test binary, run again with one test. The test harness writes to standard
//! output first. A marker shows where the protocol begins.

use std::io::Write;
use std::process::{Child, Stdio};
use std::time::Duration;

use serde_json::json;
use steelbank::doors::mcp::{ServeError, serve_stdio};
use steelbank::tools::Session;
use steelbank::{Control, EvaluateRequest, Steelbank};

use crate::asks::Asks;
use crate::child::{command, is_child, wait_while};
use crate::client::Client;
use crate::program::{Streams, ends, ends_well, serve};
use crate::texts::expect_text;

const MARKER: &str = "the protocol begins";

/// Starts the test called `name` as a server.
fn start(name: &str, streams: Streams) -> (Child, Client) {
    let mut command = command(&format!("descriptors::{name}"));
    command.stderr(Stdio::null());
    let (child, mut client) = serve(command, streams);
    client.skip_past(MARKER);
    client.initialize();
    (child, client)
}

/// Serves the standard streams until the client leaves, and exits with 0. Meanwhile, runs
/// `meanwhile` on another thread.
fn serve_beside(meanwhile: impl FnOnce(&Steelbank) + Send + 'static) {
    let mut output = std::io::stdout();
    writeln!(output, "{MARKER}").unwrap();
    output.flush().unwrap();
    serve_stdio::<ServeError>(|| {
        let bank = Steelbank::builder().start().unwrap();
        let session = Session::new(bank.clone()).with_tools(steelbank::actions::tools().clone());
        std::thread::spawn(move || meanwhile(&bank));
        Ok(session)
    })
    .unwrap();
    // Skip the harness's summary.
    std::process::exit(0);
}

fn noisy() {
    serve_beside(|bank| {
        const NOISE: &str = "(progn
            (format t \"noise ~a~%\" 1) (format *error-output* \"noise~%\") (finish-output)
            (format sb-sys:*stdout* \"noise~%\") (finish-output sb-sys:*stdout*)
            (let ((bytes (sb-alien:make-alien-string (format nil \"noise~%\"))))
              (dotimes (i 100)
                (sb-alien:alien-funcall
                  (sb-alien:extern-alien \"write\" (function sb-alien:long sb-alien:int (* sb-alien:char) sb-alien:long))
                  1 bytes 6)))
            (read-line *standard-input* nil :end)
            (read-line sb-sys:*stdin* nil :end))";
        loop {
            let read = bank.values(NOISE);
            assert_eq!(read[0], ":END");
        }
    });
}

#[test]
fn lisp_output_does_not_reach_the_protocol() {
    if is_child() {
        return noisy();
    }
    for streams in [Streams::Pipes, Streams::SocketPairs] {
        let (child, mut client) = start("lisp_output_does_not_reach_the_protocol", streams);
        for _ in 0..50 {
            let text = client.text("describe-symbol", json!({ "name": "cl:car" }));
            assert!(text.starts_with("COMMON-LISP::CAR"), "{text}");
        }
        ends_well(child, client);
    }
}

fn closing() {
    serve_beside(|bank| {
        let closed = bank.run(&EvaluateRequest::new("(defparameter cl-user::*closed* (list (sb-unix:unix-close 0) (sb-unix:unix-close 1) (sb-unix:unix-close 2)))").values(), &Control::new(Duration::from_secs(10)));
        assert!(closed.is_ok());
    });
}

#[test]
fn lisp_cannot_close_the_protocol() {
    if is_child() {
        return closing();
    }
    let (child, mut client) = start("lisp_cannot_close_the_protocol", Streams::Pipes);
    loop {
        let text = client.text("describe-symbol", json!({ "name": "*closed*" }));
        if text.contains("(T T T)") {
            break;
        }
    }
    assert!(client.text("who-calls", json!({ "name": "cl:mapcar" })).lines().count() > 300);
    drop(client);
    ends(child);
}

fn dying() {
    serve_beside(|bank| {
        let outcome = bank.run(
            &EvaluateRequest::new(
                "(sb-alien:alien-funcall (sb-alien:extern-alien \"abort\" (function sb-alien:void)))",
            )
            .values(),
            &Control::new(Duration::from_secs(10)),
        );
        assert!(outcome.is_err());
    });
}

#[test]
fn dead_lisp_reports_its_state() {
    if is_child() {
        return dying();
    }
    let (child, mut client) = start("dead_lisp_reports_its_state", Streams::Pipes);
    wait_while(|| client.status()["lisp"] != "dead");
    expect_text("dead", &client.error("describe-symbol", json!({ "name": "cl:car" })));
    assert!(client.text("who-calls", json!({ "name": "cl:mapcar" })).lines().count() > 300);
    client.request("tools/list", json!({}));
    ends_well(child, client);
}
