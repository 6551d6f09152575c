//! Runs a test in a child process: this test binary again, with that one test.

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const MARK: &str = "STEELBANK_TEST_CHILD";

/// Begins a test that has a process of its own: in the test itself, runs it in a child process and returns; goes on in
/// the child. Given an array of names and values, the child's environment has these variables, too.
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

/// Runs the test whose closure has the type `closure` in a child process, and fails if that fails. Prints the lines that
/// it prints after "seen: ".
pub(crate) fn run_test<const N: usize>(closure: &str, environment: [(&str, impl AsRef<OsStr>); N]) {
    let name = closure.split_once("::").unwrap().1.strip_suffix("::{{closure}}").unwrap();
    let output = run(command(name).envs(environment));
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

/// Waits until `goes_on` is false. Fails rather than hang.
#[track_caller]
pub(crate) fn wait_while(mut goes_on: impl FnMut() -> bool) {
    wait_until("it goes on", || !goes_on());
}

/// Waits until `done`, long: snapshots are made at the lowest priority, and other tests run. Fails rather than hang.
#[track_caller]
pub(crate) fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let patience = Instant::now() + Duration::from_secs(600);
    while !done() {
        assert!(Instant::now() < patience, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Numbers that look like random ones, and are the same in each run from one seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// Returns a number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}
