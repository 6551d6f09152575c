//! `steelbank serve` as hosts run it.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::program::{STEELBANK, Streams, ends, serve, server};

#[test]
fn pipes_and_socket_pairs_are_served_until_the_client_leaves() {
    for streams in [Streams::Pipes, Streams::SocketPairs, Streams::NonBlocking] {
        let (child, mut client) = serve(server(), streams);
        client.initialize();
        let text = client.text("describe-symbol", json!({ "name": "cl:car" }));
        assert!(text.starts_with("COMMON-LISP::CAR [FUNCTION]"), "{streams:?}: {text}");
        let callers = client.text("who-calls", json!({ "name": "mapcar", "package": "CL" }));
        assert!(callers.lines().count() > 300, "{streams:?}");
        drop(client);
        assert_eq!(ends(child).code(), Some(0), "{streams:?}");
    }
}

#[test]
fn a_file_of_requests_is_answered_whole() {
    let lines = [
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "file", "version": "1" } } }),
        json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }),
        json!({ "jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
            "name": "describe-symbol", "arguments": { "name": "cl:car" } } }),
    ];
    let path = std::env::temp_dir().join(format!("steelbank-requests-{}", std::process::id()));
    // The last line has no end.
    std::fs::write(&path, lines.map(|line| line.to_string()).join("\n")).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    let output = Command::new(STEELBANK).arg("serve").stdin(file).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("COMMON-LISP::CAR [FUNCTION]"), "{text}");
    assert_eq!((output.stderr.as_slice(), output.status.code()), (&b""[..], Some(0)));
}

#[test]
fn a_client_that_never_begins_is_no_trouble() {
    let output = Command::new(STEELBANK).arg("serve").stdin(Stdio::null()).output().unwrap();
    assert_eq!((output.stdout.as_slice(), output.status.code()), (&b""[..], Some(0)));
}

#[test]
fn the_server_ends_when_its_client_stops_reading_in_the_middle_of_an_answer() {
    for streams in [Streams::Pipes, Streams::SocketPairs] {
        // The input stays open: only writing can tell that nobody reads.
        let (keep, input) = std::io::pipe().map(|(reader, writer)| (writer, reader)).unwrap();
        let mut command = server();
        command.stdin(input);
        let child = match streams {
            Streams::Pipes => {
                let (output, theirs) = std::io::pipe().unwrap();
                let child = command.stdout(theirs).spawn().unwrap();
                leave(command, keep.try_clone().unwrap(), output);
                child
            }
            Streams::SocketPairs | Streams::NonBlocking => {
                let (output, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
                let child = command.stdout(std::os::fd::OwnedFd::from(theirs)).spawn().unwrap();
                leave(command, keep.try_clone().unwrap(), output);
                child
            }
        };
        assert_eq!(ends(child).code(), Some(0), "{streams:?}");
        drop(keep);
    }
}

/// Asks for more than fits into a pipe, reads a little of it, and stops reading.
fn leave(command: Command, mut input: impl std::io::Write + Send + 'static, mut output: impl std::io::Read) {
    drop(command);
    let hello = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "leaver", "version": "1" } } });
    writeln!(input, "{hello}").unwrap();
    for id in 2..20 {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": "who-calls", "arguments": { "name": "cl:mapcar" } } });
        writeln!(input, "{request}").unwrap();
    }
    output.read_exact(&mut [0; 10_000]).unwrap();
}

#[test]
fn signals_end_the_server() {
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        let (child, mut client) = serve(server(), Streams::Pipes);
        client.initialize();
        client.text("describe-symbol", json!({ "name": "cl:car" }));
        let killed =
            Command::new("sh").args(["-c", &format!("kill -{name} {}", child.id())]).status().unwrap();
        assert!(killed.success());
        assert_eq!(ends(child).signal(), Some(number));
    }
}
