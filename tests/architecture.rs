//! The invariants of ARCHITECTURE.md, held against the sources themselves. Needs no Lisp.
// Clippy takes only functions marked #[test] for tests.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Rust file below `folder`, with its path relative to the repository and its text, without its unit tests.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let text = text.split("#[cfg(test)]").next().unwrap().to_owned();
                found.push((path.strip_prefix(root()).unwrap().to_string_lossy().into_owned(), text));
            }
        }
    }
    assert!(!found.is_empty(), "{folder}");
    found
}

/// The code of a text: comments out.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.split("//").next().unwrap_or_default())
}

fn module(path: &str) -> String {
    let inside = path.strip_prefix("src/").unwrap();
    inside.split('/').next().unwrap().trim_end_matches(".rs").to_owned()
}

#[test]
fn arrows_point_down_only() {
    let allowed = BTreeMap::from([
        ("engine", vec![]),
        ("xref", vec![]),
        ("source", vec![]),
        ("query", vec!["engine", "xref", "source", "steelbank"]),
        ("render", vec!["query", "xref", "source", "engine"]),
        ("steelbank", vec!["engine", "xref", "source", "query", "project"]),
        // The part of Steelbank that is about the user's project.
        ("project", vec!["engine", "xref", "source", "query", "steelbank"]),
        ("mcp", vec!["query", "render", "steelbank", "xref", "engine", "source"]),
        ("cli", vec!["query", "render", "steelbank", "xref", "engine", "source", "mcp"]),
    ]);
    for (path, text) in sources("src") {
        let module = module(&path);
        let Some(allowed) = allowed.get(module.as_str()) else {
            assert!(
                ["lib", "main"].contains(&module.as_str()),
                "{path}: ARCHITECTURE.md does not know this folder"
            );
            continue;
        };
        for line in code(&text) {
            for used in line.split("crate::").skip(1) {
                let used: String = used.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                // What starts with a capital is re-exported by lib.rs.
                let used = if used.starts_with(char::is_uppercase) { "steelbank".to_owned() } else { used };
                let known =
                    used == module || allowed.contains(&used.as_str()) || !allowed_modules().contains(&used);
                assert!(known, "{path}: {module} uses {used}:\n{line}");
            }
        }
    }
}

fn allowed_modules() -> BTreeSet<String> {
    ["engine", "xref", "source", "query", "render", "steelbank", "project", "mcp", "cli"]
        .map(str::to_owned)
        .into()
}

#[test]
fn unsafe_code_is_in_the_engine_and_in_sys_alone() {
    for (path, text) in sources("src") {
        let unsafe_code = code(&text)
            .any(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe"));
        assert!(!unsafe_code || path.starts_with("src/engine/"), "{path} has unsafe code");
    }
}

#[test]
fn every_unsafe_block_has_its_proof() {
    let lints = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(lints.contains("undocumented_unsafe_blocks = \"deny\""));
    for manifest in ["Cargo.toml", "sys/Cargo.toml"] {
        assert!(
            fs::read_to_string(root().join(manifest)).unwrap().contains("[lints]\nworkspace = true"),
            "{manifest}"
        );
    }
}

#[test]
fn libraries_stay_where_they_belong() {
    for (path, text) in sources("src") {
        let mentions = |name: &str| code(&text).any(|line| line.contains(&format!("{name}::")));
        assert!(!mentions("rmcp") || path.starts_with("src/mcp/"), "{path} knows rmcp");
        let edge = path.starts_with("src/mcp/") || path.starts_with("src/cli/") || path == "src/main.rs";
        assert!(!mentions("clap") || edge, "{path} knows clap");
        assert!(!mentions("tokio") || edge, "{path} knows tokio");
        assert!(!mentions("indicatif") || edge, "{path} knows indicatif");
    }
}

#[test]
fn library_code_reads_no_environment_and_prints_nothing() {
    for (path, text) in sources("src") {
        if path.starts_with("src/cli/") || path == "src/main.rs" {
            continue;
        }
        for line in code(&text) {
            // The engine hands the environment on to SBCL, whose own it is.
            let environment = line.contains("env::var") && path != "src/engine/start.rs";
            assert!(!environment, "{path} reads the environment: {line}");
            for macro_name in ["println!", "eprintln!", "print!(", "eprint!(", "dbg!"] {
                assert!(!line.contains(macro_name), "{path} prints: {line}");
            }
        }
    }
}

#[test]
fn header_lisp_and_rust_have_the_same_operations() {
    let header = fs::read_to_string(root().join("sys/include/steelbank.h")).unwrap();
    let from_header: BTreeMap<String, u32> = header
        .lines()
        .filter_map(|line| line.trim().strip_prefix("STEELBANK_OPERATION_"))
        .map(|line| {
            let (name, number) = line.split_once(" = ").unwrap();
            let number: String = number.chars().take_while(char::is_ascii_digit).collect();
            (name.to_lowercase().replace('_', "-"), number.parse().unwrap())
        })
        .collect();
    assert!(from_header.len() >= 5);

    let mut from_lisp = BTreeMap::new();
    for entry in fs::read_dir(root().join("lisp")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "lisp") {
            for line in fs::read_to_string(&path).unwrap().lines() {
                if let Some(rest) = line.strip_prefix("(define-operation ") {
                    let mut words = rest.split_whitespace();
                    let name = words.next().unwrap().to_owned();
                    from_lisp.insert(name, words.next().unwrap().parse::<u32>().unwrap());
                }
            }
        }
    }
    assert_eq!(from_header, from_lisp, "lisp/ and the header differ");

    let rust = fs::read_to_string(root().join("src/engine/answers.rs")).unwrap();
    let from_rust: BTreeSet<String> = rust
        .lines()
        .filter_map(|line| line.split_once("ffi::STEELBANK_OPERATION_"))
        .map(|(_, rest)| rest.split(' ').next().unwrap().to_lowercase().replace('_', "-"))
        .collect();
    assert_eq!(from_header.into_keys().collect::<BTreeSet<_>>(), from_rust, "Rust and the header differ");
}

#[test]
fn header_and_lisp_have_the_same_constants() {
    let header = fs::read_to_string(root().join("sys/include/steelbank.h")).unwrap();
    let boundary = fs::read_to_string(root().join("lisp/boundary.lisp")).unwrap();
    for (lisp, c) in [
        ("+abi+", "#define STEELBANK_ABI "),
        ("+answered+", "STEELBANK_STATUS_ANSWERED = "),
        ("+fault+", "STEELBANK_STATUS_FAULT = "),
        ("+interrupted+", "STEELBANK_STATUS_INTERRUPTED = "),
        ("+misuse+", "STEELBANK_STATUS_MISUSE = "),
        ("+command-interrupt+", "STEELBANK_COMMAND_INTERRUPT = "),
        ("+command-start-thread+", "STEELBANK_COMMAND_START_THREAD = "),
    ] {
        let number = |text: &str, before: &str| -> u32 {
            let rest = text.split(before).nth(1).unwrap_or_else(|| panic!("{before} is missing"));
            rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
        };
        assert_eq!(number(&boundary, &format!("(defconstant {lisp} ")), number(&header, c), "{lisp}");
    }
    for function in header.lines().filter(|line| line.contains(" steelbank_host_")) {
        let name = function.split("steelbank_host_").nth(1).unwrap().split('(').next().unwrap();
        assert!(
            boundary.contains(&format!("\"steelbank_host_{name}\"")),
            "Lisp does not call steelbank_host_{name}"
        );
    }
}

#[test]
fn scripts_name_no_host() {
    for file in ["bootstrap", ".ci/run"] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        assert!(
            !text.contains("://"),
            "{file} names a host: addresses come from the machine's own configuration"
        );
    }
}
