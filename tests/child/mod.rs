//! Runs a test in a child process: this test binary again, with that one test.

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const MARK: &str = "STEELBANK_TEST_CHILD";

/// Runs the rest of the test in a separate child process. Takes an array of environment variables
/// for the child.
macro_rules! own_process {
    () => {
        own_process!([("RUST_BACKTRACE", "0")])
    };
    ($environment:expr) => {
        if !crate::child::is_child() {
            return crate::child::run_test(std::any::type_name_of_val(&|| ()), $environment);
        }
    };
}

/// Runs the test that contains the closure of type `closure` in a child process. Fails if the child
/// fails. Prints the child's lines that begin with "seen: ".
pub(crate) fn run_test<const N: usize>(closure: &str, environment: [(&str, impl AsRef<OsStr>); N]) {
    let name = closure.split_once("::").unwrap().1.strip_suffix("::{{closure}}").unwrap();
    let output = run(command(name).envs(environment));
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success(), "{name} failed in its own process ({}):\n{text}", output.status);
    assert!(text.contains("1 passed"), "{name} is no test of this binary:\n{text}");
    text.lines().filter(|line| line.starts_with("seen: ")).for_each(|line| println!("{line}"));
}

/// Returns a command that runs the test `name` in a child process.
pub(crate) fn command(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(MARK, "1").stdin(Stdio::null());
    command
}

/// Whether this process is the child.
pub(crate) fn is_child() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Returns `small` in `cargo test`, and `full` in `cargo xtask full`, which sets STEELBANK_FULL.
pub(crate) fn small_or_full<T>(small: T, full: T) -> T {
    if std::env::var_os("STEELBANK_FULL").is_some() { full } else { small }
}

/// Runs the command to its end.
pub(crate) fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

/// Waits until `goes_on` returns false. Fails after ten minutes.
#[track_caller]
pub(crate) fn wait_while(mut goes_on: impl FnMut() -> bool) {
    wait_until("the condition remains true", || !goes_on());
}

/// Waits until `done` returns true. Fails with the message `what` after ten minutes. The limit is
/// long, because snapshots are written with the lowest priority.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(600);
    while !done() {
        assert!(Instant::now() < patience, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Generates pseudorandom numbers, the same in each run with one seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Returns a number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}
