//! Checks the invariants of ARCHITECTURE.md, and facts that pages repeat, in the sources. Needs no
//! Lisp.
// Clippy counts only functions marked #[test] as tests.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Reads all Rust files in `folder`. Returns each file's path in the repository, and its text
/// without unit tests.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in files(folder, "rs") {
        let text = fs::read_to_string(&path).unwrap();
        let relative = path.strip_prefix(root()).unwrap().to_string_lossy().into_owned();
        if relative.ends_with("/tests.rs") || relative.contains("/tests/") {
            continue;
        }
        found.push((relative, without_tests(&text)));
    }
    assert!(!found.is_empty(), "{folder}");
    found
}

/// Lists the files in `folder` with this extension, recursively.
fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found
}

/// Removes each item after `#[cfg(test)]`. The item's last line has the attribute's indentation,
/// because rustfmt formats the code.
fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            kept.push_str(line);
            kept.push('\n');
            continue;
        }
        let indentation = line.len() - line.trim_start().len();
        for line in lines.by_ref() {
            let ends = line.ends_with(';') || line.trim() == "}";
            if ends && line.len() - line.trim_start().len() == indentation {
                break;
            }
        }
    }
    kept
}

#[test]
fn sources_omit_only_test_items() {
    let text =
        "use a;\n#[cfg(test)]\nmod tests;\nfn f() {}\n#[cfg(test)]\nmod t {\n    fn g() {}\n}\nfn h() {}\n";
    assert_eq!(without_tests(text), "use a;\nfn f() {}\nfn h() {}\n");
}

/// Returns the lines of a text without comments.
fn code(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.split("//").next().unwrap_or_default())
}

fn module(path: &str) -> String {
    let inside = path.strip_prefix("src/").unwrap();
    inside.split('/').next().unwrap().trim_end_matches(".rs").to_owned()
}

#[test]
fn modules_use_only_lower_modules() {
    let allowed = BTreeMap::from([
        ("engine", vec![]),
        ("source", vec![]),
        ("workspace", vec!["engine", "source"]),
        ("answer", vec!["source", "workspace"]),
        ("handle", vec!["engine", "source", "workspace", "answer"]),
        ("tools", vec!["handle", "workspace", "answer", "engine"]),
        ("actions", vec!["tools", "handle", "workspace", "answer", "engine", "source"]),
        ("export", vec!["actions", "handle", "workspace", "answer", "engine", "source"]),
        ("fuzzing", vec!["handle", "workspace"]),
        ("doors", vec!["actions", "export", "tools", "handle", "answer", "engine", "source"]),
    ]);
    let (exported, modules) = (exported(), allowed.keys().copied().collect::<BTreeSet<_>>());
    for (path, text) in sources("src") {
        let module = module(&path);
        let Some(allowed) = allowed.get(module.as_str()) else {
            assert!(
                ["lib", "main"].contains(&module.as_str()),
                "{path}: ARCHITECTURE.md does not list this folder"
            );
            continue;
        };
        let text = code(&text).collect::<Vec<_>>().join("\n");
        for name in used_of_crate(&text) {
            let used = exported.get(name).map_or(name, String::as_str);
            // A door may use all that the library exports, as other programs do.
            let is_public = module == "doors" && exported.contains_key(name);
            let known = used == module || is_public || allowed.contains(&used) || !modules.contains(&used);
            assert!(known, "{path}: {module} must not use {name} of {used}");
        }
    }
}

/// Returns the names after `crate::` in code, also those in braces.
fn used_of_crate(code: &str) -> Vec<&str> {
    let after = code.split("crate::").skip(1);
    let items = after.flat_map(|used| match used.strip_prefix('{').and_then(|list| list.split_once("};")) {
        Some((list, _)) => list.split(',').collect(),
        None => vec![used],
    });
    items
        .map(|item| item.trim().split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap())
        .filter(|name| !name.is_empty())
        .collect()
}

/// Maps the names that lib.rs exports to their modules.
fn exported() -> BTreeMap<String, String> {
    let text = code(&fs::read_to_string(root().join("src/lib.rs")).unwrap()).collect::<Vec<_>>().join(" ");
    let statements = text.split(';').filter_map(|statement| statement.trim().strip_prefix("pub use "));
    let modules = statements.filter_map(|path| path.split_once("::"));
    let names = modules.flat_map(|(module, names)| {
        let names = names.split(['{', '}', ',']).filter_map(|name| name.trim().rsplit("::").next());
        names.filter(|name| !name.is_empty()).map(|name| (name.to_owned(), module.to_owned()))
    });
    names.collect()
}

#[test]
fn uses_of_exported_names_are_found() {
    assert_eq!(used_of_crate("use crate::{A, b::C};\nlet d = crate::D::new();"), ["A", "b", "D"]);
    let exported = exported();
    assert_eq!((exported["WhoRequest"].as_str(), exported["Error"].as_str()), ("actions", "handle"));
}

/// Doors use actions only through the list of tools. The language server is the exception: it
/// needs answers about positions in texts, which no tool gives.
#[test]
fn doors_use_no_action_directly() {
    for (path, text) in sources("src/doors") {
        for line in code(&text) {
            for used in line.split("crate::actions::").skip(1).filter(|_| !path.starts_with("src/doors/lsp/"))
            {
                let known = ["tools()", "run_order("].iter().any(|known| used.starts_with(known));
                assert!(known, "{path} uses an action: {line}");
            }
        }
    }
}

#[test]
fn lower_crates_do_not_depend_on_the_product() {
    for (name, allowed) in [
        ("xref", vec![]),
        ("reader", vec![]),
        ("watch", vec![]),
        ("cache", vec!["steelbank-tree"]),
        ("tree", vec!["steelbank-reader"]),
        ("text", vec!["steelbank-cache", "steelbank-reader", "steelbank-tree", "steelbank-watch"]),
    ] {
        let manifest = fs::read_to_string(root().join(format!("crates/{name}/Cargo.toml"))).unwrap();
        let manifest = manifest.split("[dev-dependencies]").next().unwrap();
        let used =
            manifest.lines().filter_map(|line| line.split_once(" = { path = \"")).map(|(name, _)| name);
        assert_eq!(used.collect::<Vec<_>>(), allowed, "{name}");
    }
}

/// Names that several types share, each with a reason.
const HOMONYMS: &[(&str, &str)] = &[("Arguments", "each tool's arguments, private to its file")];

/// Returns the name of the type that a line of a module defines. Skips items in functions.
fn defined_type(line: &str) -> Option<&str> {
    let is_public = line.trim_start().starts_with("pub");
    if line.starts_with(' ') && !is_public {
        return None;
    }
    let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty());
    let keyword = words.find(|word| !["pub", "crate", "super", "self", "in", "unsafe"].contains(word))?;
    ["struct", "enum", "union", "trait", "type"]
        .contains(&keyword)
        .then(|| words.next())?
        .filter(|name| name.starts_with(char::is_uppercase))
}

#[test]
fn type_names_are_unique() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for folder in ["src", "crates", "sys"] {
        for (path, text) in sources(folder) {
            for name in code(&text).filter_map(defined_type) {
                places.entry(name.to_owned()).or_default().push(path.clone());
            }
        }
    }
    assert!(places.len() > 500, "only {} types were found", places.len());
    places.retain(|_, files| files.len() > 1);
    let found: Vec<&str> = places.keys().map(String::as_str).collect();
    let justified: Vec<&str> = HOMONYMS.iter().map(|(name, _)| *name).collect();
    assert_eq!(found, justified, "{places:#?}");
}

#[test]
fn type_definitions_are_found() {
    assert_eq!(defined_type("pub(in super::super) struct Key<'a> {"), Some("Key"));
    assert_eq!(defined_type("type Start = dyn Fn();"), Some("Start"));
    assert_eq!(defined_type("    pub enum Inner {"), Some("Inner"));
    assert_eq!(defined_type("    struct Local;"), None);
    assert_eq!(defined_type("pub fn structure() {"), None);
}

/// The places that may search a sentence for words: file, searched variable, reason.
const SEARCHED: &[(&str, &str, &str)] = &[
    ("src/engine/start.rs", "reason", "SBCL reports a failed start only as text"),
    ("src/actions/run/trial/run.rs", "why", "absolute paths are shortened"),
    ("src/actions/run/load_system.rs", "message", "absolute paths are shortened"),
    ("src/actions/run/load_system.rs", "remedy", "absolute paths are shortened"),
];

/// Returns the name of the variable that a line of code searches for words, if it holds a message,
/// an error or a similar text. Replacing a single character does not count as a search.
fn searched_sentence(line: &str) -> Option<&str> {
    const SENTENCES: &[&str] = &[
        "message", "caution", "reason", "sentence", "why", "error", "note", "remedy", "advice", "to_string",
        "canonical", "report",
    ];
    const SEARCHES: &[&str] = &[
        "contains", "starts_with", "ends_with", "replace", "replacen", "find", "rfind", "matches",
        "split_once", "rsplit_once", "strip_prefix", "strip_suffix",
    ];
    const BETWEEN: &[&str] = &["as_str", "as_deref", "to_lowercase", "as_ref"];
    SEARCHES.iter().find_map(|search| {
        let call = format!(".{search}(");
        line.match_indices(&call).find_map(|(at, _)| {
            if line[at + call.len()..].starts_with('\'') {
                return None;
            }
            let mut steps = line[..at].rsplit('.').map(|step| step.trim_end_matches(['(', ')', '?']));
            let last = steps.find(|step| !BETWEEN.contains(step))?;
            let word = last.rsplit(|c: char| !c.is_alphanumeric() && c != '_').next()?;
            SENTENCES.contains(&word).then_some(word)
        })
    })
}

/// Code must decide by types, not by the words of a sentence.
#[test]
fn code_does_not_search_sentences() {
    let mut found = BTreeSet::new();
    for (path, text) in sources("src").into_iter().chain(sources("crates")) {
        // Join chained calls, which rustfmt puts on separate lines.
        let text = code(&text).collect::<Vec<_>>().join("\n");
        let lines = text.lines().map(str::trim).fold(String::new(), |mut text, line| {
            if !line.starts_with('.') {
                text.push('\n');
            }
            text.push_str(line);
            text
        });
        for word in lines.lines().filter_map(searched_sentence) {
            found.insert((path.clone(), word.to_owned()));
        }
    }
    let justified = SEARCHED.iter().map(|(path, word, _)| ((*path).to_owned(), (*word).to_owned()));
    assert_eq!(found, justified.collect());
}

#[test]
fn searches_of_sentences_are_found() {
    for (line, expect) in [
        ("name.contains(a) || caution.contains(\"structure\") {", Some("caution")),
        ("found.message.contains(file)", Some("message")),
        ("let why = why.replace(\"a\", advice);", Some("why")),
        ("error.to_string().starts_with(\"x\")", Some("to_string")),
        ("reason.to_lowercase().contains(word)", Some("reason")),
        ("name.starts_with(\"SB-\")", None),
        ("found.message.replace('\\n', \"\\n  \")", None),
    ] {
        assert_eq!(searched_sentence(line), expect, "{line}");
    }
}

#[test]
fn unsafe_code_is_only_in_engine_and_sys() {
    for (path, text) in sources("src") {
        let unsafe_code = code(&text)
            .any(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "unsafe"));
        assert!(!unsafe_code || path.starts_with("src/engine/"), "{path} has unsafe code");
    }
}

#[test]
fn unsafe_blocks_must_have_proofs() {
    let lints = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    assert!(lints.contains("undocumented_unsafe_blocks = \"deny\""));
    for manifest in ["Cargo.toml", "sys/Cargo.toml"] {
        assert!(
            fs::read_to_string(root().join(manifest)).unwrap().contains("[lints]\nworkspace = true"),
            "{manifest}"
        );
    }
}

fn mentions_word(text: &str, word: &str) -> bool {
    code(text).any(|line| line.contains(word))
}

#[test]
fn libraries_are_used_only_in_their_rooms() {
    for (path, text) in sources("src") {
        let mentions = |name: &str| code(&text).any(|line| line.contains(&format!("{name}::")));
        assert!(!text.contains("jsonrpc") || path.starts_with("src/doors/"), "{path} uses JSON-RPC");
        let mcp = ["readOnlyHint", "inputSchema"].iter().any(|word| text.contains(word));
        assert!(!mcp || path.starts_with("src/doors/mcp/"), "{path} uses MCP");
        assert!(!mentions("rmcp") || path.starts_with("src/doors/mcp/"), "{path} uses rmcp");
        let exports = path.starts_with("src/export/");
        assert!(exports || !mentions("scip::types") && !mentions("protobuf"), "{path} uses SCIP");
        assert!(!mentions("lsp_server") || path.starts_with("src/doors/lsp/"), "{path} uses LSP");
        let tool =
            ["Tools", "ToolAnswer", "tools::Call", "tools()"].iter().any(|word| mentions_word(&text, word));
        assert!(!tool || !path.starts_with("src/doors/lsp/"), "{path} uses tools");
        assert!(!mentions("clap") || path.starts_with("src/doors/cli/"), "{path} uses clap");
        assert!(!mentions("indicatif") || path.starts_with("src/doors/cli/"), "{path} uses indicatif");
    }
}

/// Files in the cache are created through `steelbank_cache`. The engine creates nameless files.
#[test]
fn few_modules_create_files_outside_the_cache() {
    let creates = |line: &str| {
        let calls =
            ["fs::write(", "File::create", ".create(true)", ".create_new(true)", "create_dir", "fs::copy("];
        calls.iter().any(|call| line.contains(call))
    };
    let found = sources("src").into_iter().filter(|(_, text)| code(text).any(creates));
    let found: Vec<String> = found.map(|(path, _)| path).collect();
    assert_eq!(found.len(), 3, "{found:?}");
    for path in ["src/engine/image.rs", "src/export/output.rs", "src/workspace/replacement.rs"] {
        assert!(found.iter().any(|found| found == path), "{found:?}");
    }
}

#[test]
fn library_code_reads_no_environment_and_prints_nothing() {
    for (path, text) in sources("src") {
        if path.starts_with("src/doors/cli/") || path == "src/main.rs" {
            continue;
        }
        for line in code(&text) {
            // The engine passes the environment to SBCL, and a snapshot depends on variables that
            // loaded code read.
            let may = ["src/engine/start.rs", "src/handle/snapshot/inputs.rs"].contains(&path.as_str());
            let environment = line.contains("env::var") && !may;
            assert!(!environment, "{path} reads the environment: {line}");
            for macro_name in ["println!", "eprintln!", "print!(", "eprint!(", "dbg!"] {
                assert!(!line.contains(macro_name), "{path} prints: {line}");
            }
        }
    }
}

#[test]
fn header_and_lisp_have_the_same_constants() {
    let header = fs::read_to_string(root().join("sys/include/steelbank.h")).unwrap();
    let boundary = fs::read_to_string(root().join("lisp/boundary/boundary.lisp")).unwrap();
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
    for file in ["bootstrap", ".ci/run", "xtask/old-libc.sh"] {
        let text = fs::read_to_string(root().join(file)).unwrap();
        assert!(
            !text.contains("://"),
            "{file} names a host: addresses come from the machine's own configuration"
        );
    }
}

/// Each path in backquotes that begins with a folder of the repository must exist.
#[test]
fn files_named_in_pages_exist() {
    let pages = ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"].map(|page| root().join(page));
    let mut all = 0;
    for page in pages.into_iter().chain(files("docs", "md")) {
        let text = fs::read_to_string(&page).unwrap();
        for word in text.split('`').skip(1).step_by(2) {
            let folder = word.split('/').next().unwrap();
            let is_path = word.contains('/')
                && word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
                && !word.contains("NAME")
                && root().join(folder).is_dir()
                && !["target", ""].contains(&folder);
            if is_path {
                all += 1;
                assert!(root().join(word).exists(), "{} names {word}, which does not exist", page.display());
            }
        }
    }
    assert!(all > 100, "{all} files are named");
}

#[test]
fn table_of_formats_has_all_versions() {
    let page = fs::read_to_string(root().join("docs/internals/formats.md")).unwrap();
    let rows: Vec<&str> = page.lines().skip_while(|line| !line.starts_with("|--")).skip(1).collect();
    let rows = &rows[..rows.iter().position(|line| !line.starts_with('|')).unwrap()];
    assert!(rows.len() <= 8, "{rows:#?}");
    let mut versions = BTreeSet::new();
    for (_, text) in ["src", "crates"].into_iter().flat_map(sources) {
        let word = |text: &str| text.chars().take_while(char::is_ascii_alphanumeric).collect::<String>();
        versions.extend(text.split("b\"SB").skip(1).map(|rest| format!("`SB{}`", word(rest))));
        versions.extend(
            text.split("const FORMAT: u64 = ").skip(1).map(|rest| format!("`steeltxt` {}", word(rest))),
        );
        for kind in text.split("RecordKind(\"").skip(1) {
            let (name, version) = kind.split_once("\", ").unwrap();
            versions.insert(format!("`{name}` {}", word(version)));
        }
    }
    assert_eq!(versions.len(), 9, "{versions:?}");
    for version in versions {
        assert!(
            rows.iter().any(|row| row.contains(&version)),
            "docs/internals/formats.md has no row for {version}"
        );
    }
}

/// Error types without attributes of `thiserror`. The page describes them in other words than the
/// code.
const SELF_RENDERED: [&str; 5] = ["NotFound", "LoadError", "WatchRefusal", "FailureKind", "FaultKind"];
/// Error types that only contain the text of another error.
const CARRIERS: [&str; 2] = ["Failure", "Malformed"];

/// Lists the type and variant of each error in `text`, and its message, with … for placeholders.
/// Skips transparent errors.
fn messages(text: &str) -> Vec<(String, String)> {
    let word = |text: &str| -> String {
        text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
    };
    let mut found = Vec::new();
    let (mut owner, mut attribute, mut is_error) = (String::new(), String::new(), false);
    for line in code(text) {
        let trimmed = line.trim();
        if line.starts_with("#[derive(") {
            is_error = trimmed.contains("thiserror::Error");
        } else if !attribute.is_empty() || trimmed.starts_with("#[error(") {
            attribute.push_str(trimmed.trim_end_matches('\\'));
        }
        let declared = line.trim_start_matches("pub(crate) ").trim_start_matches("pub ");
        if let Some(name) = declared.strip_prefix("struct ").or_else(|| declared.strip_prefix("enum ")) {
            owner = word(name);
            is_error |= SELF_RENDERED.contains(&owner.as_str());
            found.extend(message(&std::mem::take(&mut attribute)).map(|words| (owner.clone(), words)));
        }
        let variant = line.strip_prefix("    ").filter(|rest| rest.starts_with(char::is_uppercase));
        if let Some(variant) = variant.filter(|_| is_error) {
            let code = format!("{owner}::{}", word(variant));
            let attribute = std::mem::take(&mut attribute);
            match message(&attribute) {
                Some(words) => found.push((code, words)),
                None if SELF_RENDERED.contains(&owner.as_str()) => found.push((code, String::new())),
                None => assert!(attribute.contains("transparent"), "{code} has no message"),
            }
        }
        is_error &= line != "}";
    }
    found
}

/// Returns the message of an attribute of `thiserror`.
fn message(attribute: &str) -> Option<String> {
    let literal = attribute.split_once('"')?.1;
    let (mut words, mut letters, mut depth) = (String::new(), literal.chars(), 0);
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '{' => depth += 1,
            '}' => {
                depth -= 1;
                words.push('…');
            }
            _ if depth > 0 => {}
            '\\' => words.extend(letters.next()),
            _ => words.push(letter),
        }
    }
    Some(words)
}

#[test]
fn messages_of_errors_are_found() {
    let text = "#[derive(Debug, thiserror::Error)]\npub enum E {\n    #[error(transparent)]\n    A(#[from] B),\n    #[error(\n        \"no \\\"{x}\\\" \\\n         in {}\", y()\n    )]\n    C {\n        x: D,\n    },\n}\n#[derive(Debug)]\nenum F {\n    G,\n}\n#[derive(thiserror::Error)]\n#[error(\"h\")]\nstruct H;\nenum FaultKind {\n    I,\n}\n";
    let expected = [("E::C", "no \"…\" in …"), ("H", "h"), ("FaultKind::I", "")];
    assert_eq!(messages(text), expected.map(|(code, words)| (code.to_owned(), words.to_owned())));
}

/// docs/troubleshooting.md has one entry for each error, with its message and a remedy.
/// `STEELBANK_BLESS=1` writes the messages; entries are added and removed by hand.
#[test]
fn troubleshooting_page_has_every_error() {
    let folders = ["src", "crates", "sys/src"];
    let sources: Vec<String> =
        folders.iter().flat_map(|folder| sources(folder)).map(|(_, text)| text).collect();
    let mut errors: BTreeMap<String, String> = sources.iter().flat_map(|text| messages(text)).collect();
    assert!(errors.len() > 120, "{}", errors.len());
    for line in sources.iter().flat_map(|text| text.lines()) {
        let name = line
            .strip_prefix("impl std::error::Error for ")
            .map(|rest| rest.trim_end_matches([' ', '{', '}']));
        let is_known = |name: &str| SELF_RENDERED.contains(&name) || CARRIERS.contains(&name);
        assert!(name.is_none_or(is_known), "{line}: list it in SELF_RENDERED");
    }
    let path = root().join("docs/troubleshooting.md");
    let page = fs::read_to_string(&path).unwrap();
    // An entry is `* `CODE`: MESSAGE`, or `MESSAGE → REMEDY`, wrapped with two spaces.
    let mut entry = |line: &str| {
        let (code, row) = line.strip_prefix("* `")?.split_once("`: ")?;
        // A message that names the remedy itself has no arrow.
        let (message, remedy) = row.find(" → ").map_or((row, ""), |arrow| row.split_at(arrow));
        assert!(!message.is_empty() && remedy != " → ", "{code}");
        let words = errors.remove(code).unwrap_or_else(|| panic!("{code} is no error, or has two entries"));
        let words = words.replace('*', "\\*");
        let message = if words.is_empty() { message } else { &words };
        Some(wrapped(&format!("* `{code}`: {message}{remedy}")))
    };
    let mut lines: Vec<String> = Vec::new();
    for line in page.lines() {
        match lines.last_mut().filter(|last| last.starts_with("* `")) {
            Some(last) if line.starts_with("  ") => *last += &line[1..],
            _ => lines.push(line.to_owned()),
        }
    }
    let lines: Vec<String> = lines.into_iter().map(|line| entry(&line).unwrap_or(line)).collect();
    let blessed = lines.join("\n") + "\n";
    assert!(errors.is_empty(), "no entry in the page: {errors:#?}");
    if std::env::var_os("STEELBANK_BLESS").is_some() {
        fs::write(&path, &blessed).unwrap();
    }
    let differs = fs::read_to_string(&path).unwrap().replace("\n  ", " ") != blessed.replace("\n  ", " ");
    assert!(!differs, "STEELBANK_BLESS=1 writes the messages into docs/troubleshooting.md");
}

/// Wraps an entry of a list at 100 columns, without a break in a code span.
fn wrapped(entry: &str) -> String {
    let (mut text, mut column, mut piece) = (String::new(), 0, String::new());
    for word in entry.split(' ') {
        if !piece.is_empty() {
            piece.push(' ');
        }
        piece += word;
        if piece.matches('`').count() % 2 == 1 {
            continue;
        }
        let length = piece.chars().count();
        let breaks = column > 2 && column + 1 + length > 100;
        if !text.is_empty() {
            text += if breaks { "\n  " } else { " " };
            column = if breaks { 2 } else { column + 1 };
        }
        text += &piece;
        column += length;
        piece.clear();
    }
    text
}

/// docs/peers.svg is drawn from the table in docs/peers.md. `STEELBANK_BLESS=1` draws it.
#[test]
fn chart_of_peers_shows_its_table() {
    let chart = drawn(&fs::read_to_string(root().join("docs/peers.md")).unwrap());
    let kept = root().join("docs/peers.svg");
    if std::env::var_os("STEELBANK_BLESS").is_some() {
        fs::write(&kept, &chart).unwrap();
    }
    assert_eq!(fs::read_to_string(kept).unwrap(), chart, "STEELBANK_BLESS=1 draws it");
}

/// Draws the rows of `page`: a dot for each program's time, hollow if its answer has wrong or
/// missing lines.
fn drawn(page: &str) -> String {
    const SIDES: [(&str, &str); 4] = [
        ("steelbank", "#2f7d4f"),
        ("sb-introspect", "#c2703d"),
        ("Swank", "#7a5195"),
        ("ripgrep", "#3b6fb6"),
    ];
    // A factor of ten is 130 points wide; the axis begins at 0.1 ms.
    let at = |milliseconds: f64| 410.0 + 130.0 * (milliseconds / 0.1).log10();
    let rows = page.lines().filter(|line| line.contains(" ms |"));
    let rows: Vec<Vec<&str>> =
        rows.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect();
    let bottom = 62 + 24 * rows.len();
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"890\" height=\"{}\" font-size=\"13\" font-family=\"sans-serif\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        bottom + 34
    );
    for (side, (name, color)) in SIDES.iter().enumerate() {
        let x = 410 + 120 * side;
        svg += &format!(
            "<circle cx=\"{x}\" cy=\"18\" r=\"5\" fill=\"{color}\"/><text x=\"{}\" y=\"22\">{name}</text>\n",
            x + 10
        );
    }
    for tick in [0.1, 1.0, 10.0, 100.0] {
        let x = at(tick);
        svg += &format!(
            "<path d=\"M{x:.0} 40V{bottom}\" stroke=\"#ccc\"/><text x=\"{x:.0}\" y=\"{}\" text-anchor=\"middle\">{tick} ms</text>\n",
            bottom + 18
        );
    }
    for (number, row) in rows.iter().enumerate() {
        let y = 58 + 24 * number;
        svg += &format!("<text x=\"400\" y=\"{}\" text-anchor=\"end\">{}</text>\n", y + 4, row[0]);
        for (cell, (_, color)) in row[1..].iter().zip(SIDES) {
            let Some((faults, time)) = cell.trim_end_matches(" ms").split_once("; ") else { continue };
            let fill = if faults == "0, 0" { color } else { "none" };
            svg += &format!(
                "<circle cx=\"{:.1}\" cy=\"{y}\" r=\"5\" fill=\"{fill}\" stroke=\"{color}\" stroke-width=\"2\"/>\n",
                at(time.parse().unwrap())
            );
        }
    }
    svg + "</svg>\n"
}

/// Each script in tests/ is a step of `cargo xtask full`, except scripts that others include.
#[test]
fn full_run_has_all_test_scripts() {
    let steps = fs::read_to_string(root().join("xtask/src/main.rs")).unwrap();
    for path in files("tests", "sh") {
        let path = path.strip_prefix(root()).unwrap().to_str().unwrap();
        let is_read = ["tests/npm.sh", "tests/fixtures.sh", "tests/bootstrap/world.sh"].contains(&path);
        assert!(is_read || steps.contains(&format!("(\"{path}\")")), "{path} is no step of cargo xtask full");
    }
}

/// The Lisp half is one package, so that a second definition of a function would replace the first.
#[test]
fn lisp_functions_have_one_definition() {
    let mut defined: BTreeMap<String, PathBuf> = BTreeMap::new();
    for folder in ["ask", "boundary", "index", "internals", "load", "tap", "try"] {
        for path in files(&format!("lisp/{folder}"), "lisp") {
            for line in fs::read_to_string(&path).unwrap().lines() {
                let is_function =
                    ["(defun ", "(defmacro ", "(define-inline "].iter().any(|d| line.starts_with(d));
                let name = line.split_once(' ').map(|(_, rest)| rest.split(" (").next().unwrap_or(rest));
                if let Some(name) = name.filter(|_| is_function)
                    && let Some(other) = defined.insert(name.to_owned(), path.clone())
                {
                    panic!("{name} is defined in {} and in {}", other.display(), path.display());
                }
            }
        }
    }
    assert!(defined.len() > 500, "{}", defined.len());
}
