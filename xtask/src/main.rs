//! `cargo xtask check`: those checks of a change that take minutes. `.ci/run` is what a change must pass; it runs these
//! steps too. `cargo xtask full` takes hours: each test that has a long form runs in it.

#![allow(clippy::print_stdout, clippy::print_stderr)]

mod licenses;

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, ExitCode};

const USAGE: &str = "Usage: cargo xtask check | lint | full | licenses

  check  lint, the unit tests of all crates, the architecture, and the Lisp half in a plain SBCL
  lint   formatting, clippy, documentation, what features bring in, the least version of Rust, licences
  licenses  writes the notices of what is linked, which `steelbank licenses` prints
  full   check, all tests in their long form (STEELBANK_FULL), the protocol's clients that are not ours, an hour of soak
";

/// Crates that a Rust program which uses the library alone must not compile.
const NOT_IN_THE_LIBRARY: [&str; 5] = ["tree-sitter", "clap", "rmcp", "tokio", "notify"];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let steps: &[fn() -> Outcome] = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["check"] => &[
            format,
            clippy,
            documentation,
            features,
            least_rust,
            licences,
            licenses::check,
            unit_tests,
            lisp,
        ],
        ["lint"] => &[format, clippy, documentation, features, least_rust, licences, licenses::check],
        ["licenses"] => &[licenses::write],
        ["full"] => &[
            format,
            clippy,
            documentation,
            features,
            least_rust,
            licences,
            licenses::check,
            unit_tests,
            lisp,
            long_tests,
            other_clients,
            soak,
        ],
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    for step in steps {
        if let Err(sentence) = step() {
            eprintln!("xtask: {sentence}");
            return ExitCode::FAILURE;
        }
    }
    println!("== all is well");
    ExitCode::SUCCESS
}

type Outcome = Result<(), String>;

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

fn run(what: &str, command: &mut Command) -> Outcome {
    println!("== {what}");
    let status = command.status().map_err(|error| format!("{what}: cannot run {command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{what} failed: {command:?}")) }
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let output = Command::new(program).args(arguments.iter().map(OsStr::new)).current_dir(root()).output();
    output.is_ok_and(|output| output.status.success())
}

fn format() -> Outcome {
    run("formatting", cargo().args(["fmt", "--all", "--check"]))
}

fn clippy() -> Outcome {
    run("clippy", cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
}

fn documentation() -> Outcome {
    let arguments = ["doc", "-q", "--workspace", "--no-deps"];
    run("documentation", cargo().args(arguments).env("RUSTDOCFLAGS", "-D warnings"))
}

/// Checks that the library alone compiles, and brings in neither a grammar nor what the server needs.
fn features() -> Outcome {
    run("the library alone", cargo().args(["check", "-q", "-p", "steelbank", "--no-default-features"]))?;
    run(
        "the library with the text index, and no grammar",
        cargo().args(["check", "-q", "-p", "steelbank", "--no-default-features", "--features", "text"]),
    )?;
    let arguments = ["tree", "-p", "steelbank", "-e", "features,normal", "--no-default-features"];
    let output = cargo().args(arguments).output().map_err(|error| format!("cargo tree: {error}"))?;
    let tree = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("cargo tree failed: {}", String::from_utf8_lossy(&output.stderr)));
    }
    match NOT_IN_THE_LIBRARY.iter().find(|name| tree.contains(**name)) {
        Some(name) => Err(format!("the library without features depends on {name}:\n{tree}")),
        None => Ok(()),
    }
}

/// Checks the version of Rust that the manifests promise, where rustup has it.
fn least_rust() -> Outcome {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).map_err(|error| error.to_string())?;
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("rust-version = \"")?.strip_suffix('"'))
        .ok_or("Cargo.toml has no rust-version")?;
    let compiler = Command::new("rustc").arg("--version").current_dir(root()).output();
    if compiler.is_ok_and(|output| output.stdout.starts_with(format!("rustc {version}.").as_bytes())) {
        println!("== Rust {version} is the compiler in use");
        return Ok(());
    }
    if !succeeds("rustup", &["run", version, "cargo", "--version"]) {
        println!(
            "== Rust {version} is not installed, so it is not tried: rustup toolchain install {version}"
        );
        return Ok(());
    }
    let mut command = Command::new("rustup");
    command
        .args(["run", version, "cargo", "check", "-q", "--workspace", "--all-targets"])
        .current_dir(root());
    // Cargo has told this process which compiler it runs.
    for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN"] {
        command.env_remove(name);
    }
    command.env("CARGO_TARGET_DIR", root().join("target/least-rust"));
    run(&format!("Rust {version}"), &mut command)
}

fn licences() -> Outcome {
    if !succeeds("cargo", &["deny", "--version"]) {
        println!(
            "== cargo-deny is not installed, so deny.toml is not asked: cargo install --locked cargo-deny"
        );
        return Ok(());
    }
    run("licences, duplicates, sources", cargo().args(["deny", "check", "bans", "licenses", "sources"]))
}

fn unit_tests() -> Outcome {
    run("unit tests", cargo().args(["test", "-q", "--workspace", "--lib"]))?;
    run("the architecture", cargo().args(["test", "-q", "--test", "architecture"]))
}

fn lisp() -> Outcome {
    run("the Lisp half", Command::new("sh").arg("tests/lisp.sh").current_dir(root()))
}

fn long_tests() -> Outcome {
    run("all tests, in their long form", cargo().arg("test").env("STEELBANK_FULL", "1"))
}

fn other_clients() -> Outcome {
    run("the release build", cargo().args(["build", "--release", "--bin", "steelbank"]))?;
    for script in ["tests/inspector.sh", "tests/sdk.sh"] {
        run(script, Command::new("sh").arg(script).current_dir(root()))?;
    }
    Ok(())
}

fn soak() -> Outcome {
    // The tests have built the example, and the step before this one the program.
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    let arguments = ["run", "-q", "--example", "soak", "--", "--minutes", "60"];
    run("an hour of everything at once", cargo().args(arguments).arg(target.join("release/steelbank")))
}
