//! Runs the body of a test in a child process: this test binary again, with that one test.

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};

const MARK: &str = "STEELBANK_TEST_CHILD";

/// Runs `body` in a child process, and fails if that fails. `name` is the test's path in this binary. Prints
/// the lines that the body prints after "seen: ".
pub(crate) fn in_own_process(name: &str, body: impl FnOnce()) {
    in_own_process_with(name, &[], body);
}

/// Like [`in_own_process`], with more variables in the child's environment.
pub(crate) fn in_own_process_with(name: &str, environment: &[(&str, &OsStr)], body: impl FnOnce()) {
    if is_child() {
        return body();
    }
    let output = run(command(name).envs(environment.iter().copied()));
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{name} failed in its own process ({}):\n{said}", output.status);
    assert!(said.contains("1 passed"), "{name} is no test of this binary:\n{said}");
    said.lines().filter(|line| line.starts_with("seen: ")).for_each(|line| println!("{line}"));
}

/// Makes the command that runs the test called `name` in a child process.
pub(crate) fn command(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(MARK, "1").stdin(Stdio::null());
    command
}

/// Whether this process is the child.
pub(crate) fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Returns how much a test that can be as long as one likes does: `small` in `cargo test`, `full` in
/// `cargo xtask full`, which sets STEELBANK_FULL.
pub(crate) fn small_or_full<T>(small: T, full: T) -> T {
    if std::env::var_os("STEELBANK_FULL").is_some() { full } else { small }
}

/// Runs the command to its end.
pub(crate) fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}
