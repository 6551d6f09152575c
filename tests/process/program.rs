//! Runs the program: commands to their end, and servers with a client.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use crate::client::Client;
pub(crate) use crate::folder::Folder;

/// The program that cargo built.
pub(crate) const STEELBANK: &str = env!("CARGO_BIN_EXE_steelbank");

/// Runs the program to its end.
pub(crate) fn run(arguments: &[&str]) -> Output {
    Command::new(STEELBANK).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Returns a command in the project `root`, with this cache.
pub(crate) fn on(root: &Path, cache: &Path) -> Command {
    let mut command = Command::new(STEELBANK);
    command.args(["--no-userinit", "--project"]).arg(root).current_dir(root);
    command.env("STEELBANK_CACHE", cache).stdin(Stdio::null());
    command
}

/// Runs the program in the project `root` to its end, and returns its output and exit code.
pub(crate) fn ask(root: &Path, cache: &Path, arguments: &[&str]) -> (String, String, Option<i32>) {
    outcome(&on(root, cache).args(arguments).output().unwrap())
}

/// Returns a run's output and exit code as one text, for
/// [`expect_text`](crate::texts::expect_text).
pub(crate) fn shown(output: &Output) -> String {
    let (text, errors, code) = outcome(output);
    let code = code.map_or("a signal".to_owned(), |code| code.to_string());
    format!("{text}{errors}exit {code}\n")
}

/// Returns the standard output of a run, its errors, and its exit code.
pub(crate) fn outcome(output: &Output) -> (String, String, Option<i32>) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

/// The kind of the server's streams.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Streams {
    Pipes,
    /// One socket pair for each direction, as Node's hosts use.
    SocketPairs,
    /// Socket pairs with non-blocking ends on the server's side.
    NonBlocking,
}

/// Starts a server, and connects a client.
pub(crate) fn serve(mut command: Command, streams: Streams) -> (Child, Client) {
    match streams {
        Streams::Pipes => {
            let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let client = Client::new(child.stdin.take().unwrap(), child.stdout.take().unwrap());
            (child, client)
        }
        Streams::SocketPairs | Streams::NonBlocking => {
            let (our_output, their_input) = UnixStream::pair().unwrap();
            let (our_input, their_output) = UnixStream::pair().unwrap();
            if matches!(streams, Streams::NonBlocking) {
                their_input.set_nonblocking(true).unwrap();
                their_output.set_nonblocking(true).unwrap();
            }
            let child = command
                .stdin(Stdio::from(OwnedFd::from(their_input)))
                .stdout(Stdio::from(OwnedFd::from(their_output)))
                .spawn()
                .unwrap();
            // Close the command's copies of the server's sockets. Otherwise, the client would not
            // notice that the server has ended.
            drop(command);
            (child, Client::new(our_output, our_input))
        }
    }
}

/// Starts a server, and begins a session with it.
pub(crate) fn initialized(command: Command, streams: Streams) -> (Child, Client) {
    let (child, mut client) = serve(command, streams);
    client.initialize();
    (child, client)
}

/// Disconnects the client, and checks that the server exits with 0.
pub(crate) fn ends_well(child: Child, client: Client) {
    drop(client);
    assert_eq!(ends(child).code(), Some(0));
}

/// Returns the command `serve` of `STEELBANK_PROGRAM`, by default the program that cargo built.
pub(crate) fn server() -> Command {
    let mut command = Command::new(std::env::var_os("STEELBANK_PROGRAM").unwrap_or(STEELBANK.into()));
    command.arg("serve").stderr(Stdio::null());
    command
}

/// Waits for the process to end. Fails after two minutes.
pub(crate) fn ends(mut child: Child) -> ExitStatus {
    let patience = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > patience {
            child.kill().unwrap();
            panic!("the process does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}
