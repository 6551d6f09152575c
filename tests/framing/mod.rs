//! Reads and writes messages of the Language Server Protocol.

use std::io::{BufRead, Write};

use serde_json::Value;

/// Writes `message`.
pub(crate) fn write(stream: &mut impl Write, message: &Value) {
    let text = message.to_string();
    write!(stream, "Content-Length: {}\r\n\r\n{text}", text.len()).unwrap();
    stream.flush().unwrap();
}

/// Reads the next message. Fails at the stream's end.
pub(crate) fn read(stream: &mut impl BufRead) -> Value {
    let mut length = 0;
    loop {
        let mut line = String::new();
        assert!(stream.read_line(&mut line).unwrap() > 0, "the server is gone");
        match line.trim().strip_prefix("Content-Length: ") {
            Some(number) => length = number.parse().unwrap(),
            None => break,
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).unwrap();
    serde_json::from_slice(&body).unwrap()
}
