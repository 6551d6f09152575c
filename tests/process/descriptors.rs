//! Lisp code that writes to the protocol's descriptors, closes them, or ends the runtime under the server.
//!
//! The server is this test binary, started again with that one test. The test harness writes to standard
//! output first; the marker shows where the protocol begins.

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

/// Serves the process's standard streams; `meanwhile` runs beside the server, once the streams are safe.
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
    // The harness would write its summary to descriptor 1, which is standard error now; there is nothing more to say.
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
fn lisp_that_writes_to_descriptor_1_does_not_reach_the_protocol() {
    if is_child() {
        return noisy();
    }
    for streams in [Streams::Pipes, Streams::SocketPairs] {
        let (child, mut client) =
            start("lisp_that_writes_to_descriptor_1_does_not_reach_the_protocol", streams);
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
fn lisp_that_closes_the_standard_descriptors_does_not_close_the_protocol() {
    if is_child() {
        return closing();
    }
    let (child, mut client) =
        start("lisp_that_closes_the_standard_descriptors_does_not_close_the_protocol", Streams::Pipes);
    loop {
        let text = client.text("describe-symbol", json!({ "name": "*closed*" }));
        if text.starts_with("COMMON-LISP-USER::*CLOSED* [VARIABLE]\n  Value: (T T T)") {
            break;
        }
        // The symbol is there before its value.
        assert!(text.contains("not found") || !text.contains("Value:"), "{text}");
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
fn a_dead_lisp_can_be_asked_for_its_state() {
    if is_child() {
        return dying();
    }
    let (child, mut client) = start("a_dead_lisp_can_be_asked_for_its_state", Streams::Pipes);
    wait_while(|| client.status()["lisp"] != "dead");
    assert!(client.text("status", json!({})).starts_with("Lisp has died: "));
    let error = client.error("describe-symbol", json!({ "name": "cl:car" }));
    assert!(error.starts_with("Lisp has died: ") && error.contains("restart"), "{error}");
    assert!(client.text("who-calls", json!({ "name": "cl:mapcar" })).lines().count() > 300);
    client.request("tools/list", json!({}));
    ends_well(child, client);
}
