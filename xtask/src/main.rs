//! `cargo xtask check` runs those checks of a change that take minutes. `.ci/run` runs all checks
//! that a change must pass, including these. `cargo xtask full` takes hours: it runs every test in
//! its long form, and prints a table of the outcomes.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod ceilings;
mod dist;
mod licenses;
mod prose;
mod sources;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Instant;

const USAGE: &str = "Usage: cargo xtask check | lint | full | size | prose [--list] | licenses | dist [--program FILE] [--previous FILE] | twice
                   | findings

  check     runs lint, the unit tests of all crates, the architecture test, and the Lisp tests in a plain SBCL
  lint      checks formatting, size, prose, clippy, documentation, dependencies of features, the minimum Rust version, licences, arm64
  size      counts the product's lines and compares the number with its ceiling
  prose     counts the patterns that CONTRIBUTING.md's writing rules avoid and compares the counts with their ceilings;
            --list prints each place
  licenses  writes the notices of linked libraries, which `steelbank licenses` prints
  dist      creates the release packages in target/dist/packages and tests them; --program packs a program that is already
            built; --previous checks that the last release's program and this one can use the same cache
  twice     builds the released program in two checkouts of this commit and checks that they differ only in SBCL's core
  findings  runs the scripts in findings/, which show behaviours of outside tools
  full      runs check and the long form of every test: tests (STEELBANK_FULL), bootstrap, another SBCL, third-party clients,
            the website, the renames of 75 libraries, fuzzing, an hour of soak, an hour of agents and a person (STEELBANK_MINUTES
            sets another duration), the packed crates, dist, twice. Continues after a failure, and ends with a table
";

/// Crates that must not be compiled for a Rust program that uses the library without features.
const NOT_IN_THE_LIBRARY: [&str; 5] = ["tree-sitter", "clap", "rmcp", "tokio", "notify"];

/// The outcome of a step: passed, or the reason why the step was skipped. The error is the message
/// of a failed step.
type Outcome = Result<Passed, String>;

enum Passed {
    Whole,
    LeftOut(String),
}
use Passed::{LeftOut, Whole};

/// A step's name in the table, and its function.
type Step = (&'static str, fn() -> Outcome);

const LINT: &[Step] = &[
    ("formatting", format),
    ("size of the product", prose::size),
    ("prose", || prose::prose(false)),
    ("clippy", clippy),
    ("documentation", documentation),
    ("the library without features", features),
    ("minimum version of Rust", least_rust),
    ("licences, duplicates, sources", licences),
    ("notices", licenses::check),
    ("arm64", arm64),
];

const CHECK: &[Step] =
    &[("unit tests, architecture", unit_tests), ("the Lisp half", || script("tests/lisp.sh"))];

/// The steps that `cargo xtask full` runs in addition to `check`. The commands `dist` and `twice`
/// each run one of the last two. Steps that need the release build come after the step that builds
/// it.
const LONG: &[Step] = &[
    ("bootstrap script", || script("tests/bootstrap.sh")),
    ("all tests, in their long form", long_tests),
    ("the release build", || run(cargo().args(["build", "--release", "--bin", "steelbank"]))),
    ("another SBCL", other_sbcl),
    ("a third-party MCP client", || script("tests/inspector.sh")),
    ("the official conformance suite", conformance),
    ("the official SDK's client", || script("tests/sdk.sh")),
    ("editors and their clients", || script("tests/editors/run.sh")),
    ("the website in a browser", || script("tests/site.sh")),
    ("renames of 75 libraries", held_out),
    ("fuzzing", fuzzing),
    ("an hour of soak", soak),
    ("an hour of agents and a person", hour),
    ("crates, and the library built from them", crates),
    DIST,
    TWICE,
];

const DIST: Step = ("release packages", || dist::dist().map(|()| Whole));
const TWICE: Step = ("reproducible build", || dist::twice().map(|()| Whole));

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (steps, goes_on) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => ([LINT, CHECK].concat(), false),
        ["lint"] => (LINT.to_vec(), false),
        ["licenses"] => (vec![("notices", licenses::write as fn() -> Outcome)], false),
        ["full"] => ([LINT, CHECK, LONG].concat(), true),
        ["dist", ..] => (vec![DIST], false),
        ["twice"] => (vec![TWICE], false),
        ["findings"] => (vec![("findings", findings as fn() -> Outcome)], false),
        ["size"] => (vec![("size of the product", prose::size as fn() -> Outcome)], false),
        ["prose"] => (vec![("prose", (|| prose::prose(false)) as fn() -> Outcome)], false),
        ["prose", "--list"] => (vec![("prose", (|| prose::prose(true)) as fn() -> Outcome)], false),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let (mut table, mut failed) = (String::new(), false);
    for (name, step) in steps {
        println!("== {name}");
        let begun = Instant::now();
        let outcome = step();
        let word = match &outcome {
            Ok(Whole) => "passed".to_owned(),
            Ok(LeftOut(why)) => format!("left out: {why}"),
            Err(sentence) => {
                eprintln!("xtask: {sentence}");
                "FAILED".to_owned()
            }
        };
        table += &format!("{name:32} {:>6} s  {word}\n", begun.elapsed().as_secs());
        failed |= outcome.is_err();
        if failed && !goes_on {
            break;
        }
    }
    print!("\n{table}");
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Returns the repository's root folder.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

fn run(command: &mut Command) -> Outcome {
    let status = command.status().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    if status.success() { Ok(Whole) } else { Err(format!("failed: {command:?}")) }
}

/// Runs all scripts in `findings/`. Reports those that fail after all have run.
fn findings() -> Outcome {
    let entries = std::fs::read_dir(root().join("findings")).map_err(|error| error.to_string())?;
    let mut names: Vec<String> =
        entries.flatten().map(|entry| format!("findings/{}", entry.file_name().display())).collect();
    names.retain(|name| name.ends_with(".sh"));
    names.sort();
    let failed: Vec<String> = names.into_iter().filter(|name| script(name).is_err()).collect();
    if failed.is_empty() { Ok(Whole) } else { Err(format!("failed or changed: {}", failed.join(", "))) }
}

fn script(path: &str) -> Outcome {
    run(Command::new("sh").arg(path).current_dir(root()))
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments.iter().map(OsStr::new)).current_dir(root()).output();
    output.is_ok_and(|output| output.status.success())
}

fn format() -> Outcome {
    run(cargo().args(["fmt", "--all", "--check"]))
}

fn clippy() -> Outcome {
    run(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn documentation() -> Outcome {
    let arguments = ["doc", "-q", "--workspace", "--no-deps"];
    run(cargo().args(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Checks that the library without features compiles, and that it depends on no grammar and on none
/// of the server's crates.
fn features() -> Outcome {
    run(cargo().args(["check", "-q", "-p", "steelbank", "--no-default-features"]))?;
    let arguments = ["tree", "-p", "steelbank", "-e", "features,normal", "--no-default-features"];
    let output = cargo().args(arguments).output().map_err(|error| format!("cannot run cargo: {error}"))?;
    let tree = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("cargo tree failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    match NOT_IN_THE_LIBRARY.iter().find(|name| tree.contains(**name)) {
        Some(name) => Err(format!("the library without features depends on {name}:\n{tree}")),
        None => Ok(Whole),
    }
}

/// Checks that the workspace compiles with the minimum version of Rust that Cargo.toml declares.
/// Skipped if that is the compiler in use, or if rustup has not installed that version.
fn least_rust() -> Outcome {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).map_err(|error| error.to_string())?;
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'))
        .ok_or("Cargo.toml has no rust-version")?;
    let compiler = Command::new("rustc").arg("--version").current_dir(root()).output();
    if compiler.is_ok_and(|output| output.stdout.starts_with(format!("rustc {version}.").as_bytes())) {
        return Ok(LeftOut(format!("Rust {version} is the compiler in use")));
    }
    if !succeeds("rustup", &["run", version, "cargo", "--version"]) {
        return Ok(LeftOut(format!("not installed: rustup toolchain install {version}")));
    }
    let mut command = Command::new("rustup");
    command
        .args(["run", version, "cargo", "check", "-q", "--workspace", "--all-targets"])
        .current_dir(root());
    // Remove the variables that cargo has set, because they select this process's compiler.
    for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command.env("CARGO_TARGET_DIR", root().join("target/least-rust"));
    run(&mut command)
}

fn licences() -> Outcome {
    if !succeeds("cargo", &["deny", "--version"]) {
        return Ok(LeftOut("cargo-deny is not installed: cargo install --locked cargo-deny".to_owned()));
    }
    run(cargo().args(["deny", "check", "bans", "licenses", "sources"]))
}

/// Tests `--sbcl`: runs the Lisp half's tests in another SBCL, and compares its answers with those
/// of the built-in SBCL. STEELBANK_OTHER_SBCL names the sources to use; the default is the source
/// package of a later Debian release.
fn other_sbcl() -> Outcome {
    run(Command::new("sh")
        .arg("tests/other-sbcl.sh")
        .args(std::env::var_os("STEELBANK_OTHER_SBCL"))
        .current_dir(root()))
}

/// Checks, for arm64, the code that compiles without an SBCL for arm64: the crates in `crates/`,
/// and the C shim. The headers of SBCL's runtime are those of this machine.
fn arm64() -> Outcome {
    const TARGET: &str = "aarch64-unknown-linux-gnu";
    const GCC: &str = "aarch64-linux-gnu-gcc";
    let targets = Command::new("rustup").args(["target", "list", "--installed"]).output();
    if !targets.is_ok_and(|said| String::from_utf8_lossy(&said.stdout).contains(TARGET)) {
        return Ok(LeftOut(format!("not installed: rustup target add {TARGET}")));
    }
    let mut check = cargo();
    check.args(["check", "-q", "--no-default-features", "--target", TARGET]);
    for name in ["cache", "reader", "text", "tree", "watch", "xref"] {
        check.args(["-p", &format!("steelbank-{name}")]);
    }
    run(&mut check)?;
    if !succeeds(GCC, &["--version"]) {
        return Ok(LeftOut(format!("the shim; not installed: apt-get install {GCC}")));
    }
    let runtime = licenses::sbcl_tree()?.join("src/runtime");
    let compile = || {
        let mut gcc = Command::new(GCC);
        gcc.current_dir(root().join("sys"));
        gcc.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-Iinclude", "-Ishim"]);
        gcc
    };
    run(compile().args(["shim/steelbank.c", "shim/memory.c", "shim/children.c"]))?;
    // As in sys/link.sh, only this file is compiled with SBCL's headers.
    run(compile().args(["-Ishim/absent", "-isystem"]).arg(runtime).arg("shim/faults.c"))
}

fn unit_tests() -> Outcome {
    run(cargo().args(["test", "-q", "--workspace", "--lib"]))?;
    run(cargo().args(["test", "-q", "--test", "architecture"]))
}

fn conformance() -> Outcome {
    run(cargo().args(["build", "-q", "--example", "conformance"]))?;
    script("tests/conformance.sh")
}

fn long_tests() -> Outcome {
    run(cargo().arg("test").env("STEELBANK_FULL", "1").env("PROPTEST_CASES", "20000"))
}

/// Renames all names in libraries that were not used to develop the rules of renames. The benchmark
/// prints the figures that docs/evidence.md states.
fn held_out() -> Outcome {
    if !succeeds("apt-get", &["--version"]) {
        return Ok(LeftOut("the libraries are Debian's, and there is no apt-get".to_owned()));
    }
    let folder = target().join("held-out");
    run(Command::new("sh").arg("tests/held-out.sh").arg(&folder).current_dir(root()))?;
    let needed = format!("{}//:", folder.join("others").display());
    let mut bench = cargo();
    bench.args(["bench", "-q", "--bench", "rename", "--"]).arg(folder.join("libraries"));
    run(bench.env("CL_SOURCE_REGISTRY", needed))
}

fn fuzzing() -> Outcome {
    if !succeeds("cargo", &["+nightly", "fuzz", "--version"]) {
        return Ok(LeftOut("there is no nightly compiler with cargo-fuzz".to_owned()));
    }
    let targets = std::fs::read_dir(root().join("fuzz/fuzz_targets")).map_err(|error| error.to_string())?;
    for target in targets.flatten() {
        let path = target.path();
        let name = path.file_stem().unwrap_or_default();
        let mut command = Command::new("cargo");
        command.current_dir(root()).args(["+nightly", "fuzz", "run", "--features", "libfuzzer"]).arg(name);
        // Remove the variables that cargo has set, because they select this process's compiler.
        for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN"] {
            command.env_remove(name);
        }
        run(command.args(["--", "-max_total_time=1200", "-rss_limit_mb=4096"]))?;
    }
    Ok(Whole)
}

/// Packs the crates, and builds the library from the packed crates.
fn crates() -> Outcome {
    let arguments =
        ["package", "--workspace", "--exclude=xtask", "--exclude=steelbank-fuzz", "--allow-dirty"];
    run(cargo().args(arguments).arg("--no-default-features"))
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into)
}

fn soak() -> Outcome {
    // An earlier step has built the program.
    let arguments = ["run", "-q", "--example", "soak", "--", "--minutes", "60", "--deaths"];
    run(cargo().args(arguments).arg(target().join("release/steelbank")))
}

/// Runs a test with eight agents and a person who share one Lisp. The person is simulated with
/// SLIME in Emacs, if that is installed.
fn hour() -> Outcome {
    let minutes = std::env::var("STEELBANK_MINUTES").unwrap_or_else(|_| "60".to_owned());
    let mut command = cargo();
    command.args(["test", "-q", "--test", "process", "--", "--nocapture", "hour::"]);
    // An earlier step has built the program.
    command.env("STEELBANK_PROGRAM", target().join("release/steelbank"));
    run(command.env("STEELBANK_MINUTES", minutes))
}
