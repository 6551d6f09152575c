//! Checks the invariants of ARCHITECTURE.md in the sources themselves. Needs no Lisp.
// Clippy counts only functions marked #[test] as tests.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Reads every Rust file below `folder`: its path relative to the repository, and its text without unit
/// tests. Those are cut out as items, so that the code after them is read too.
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

/// Lists the files below `folder` with this extension.
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

/// Cuts out each item behind `#[cfg(test)]`. rustfmt has put its last line at the attribute's own
/// indentation.
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
fn only_test_items_are_left_out_of_the_reading() {
    let text =
        "use a;\n#[cfg(test)]\nmod tests;\nfn f() {}\n#[cfg(test)]\nmod t {\n    fn g() {}\n}\nfn h() {}\n";
    assert_eq!(without_tests(text), "use a;\nfn f() {}\nfn h() {}\n");
}

/// Returns the lines of code of a text, without comments.
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
                "{path}: ARCHITECTURE.md does not know this folder"
            );
            continue;
        };
        let text = code(&text).collect::<Vec<_>>().join("\n");
        for name in used_of_crate(&text) {
            let used = exported.get(name).map_or(name, String::as_str);
            // A door is a user of the library, as any other program.
            let is_public = module == "doors" && exported.contains_key(name);
            let known = used == module || is_public || allowed.contains(&used) || !modules.contains(&used);
            assert!(known, "{path}: {module} uses {name} of {used}");
        }
    }
}

/// Returns the names that follow `crate::` in code, those in braces each.
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

/// Maps the names that lib.rs exports to the modules that they are of.
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
fn what_a_module_uses_is_found_behind_the_names_of_the_library() {
    assert_eq!(used_of_crate("use crate::{A, b::C};\nlet d = crate::D::new();"), ["A", "b", "D"]);
    let exported = exported();
    assert_eq!((exported["WhoRequest"].as_str(), exported["Error"].as_str()), ("actions", "handle"));
}

/// Holds that doors know no action, but the list of tools and what carries out an order.
#[test]
fn doors_know_no_action() {
    for (path, text) in sources("src/doors") {
        for line in code(&text) {
            // The language server is about positions, which no tool has.
            for used in line.split("crate::actions::").skip(1).filter(|_| !path.starts_with("src/doors/lsp/"))
            {
                let known = ["tools()", "carry_out("].iter().any(|known| used.starts_with(known));
                assert!(known, "{path} knows an action: {line}");
            }
        }
    }
}

/// Holds that the crates below the product do not depend on it, by their manifests.
#[test]
fn the_crates_below_stand_alone() {
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

/// Names that several types have on purpose, each with the reason. All other names are of one type.
const HOMONYMS: &[(&str, &str)] =
    &[("Arguments", "what a tool takes: private to the tool's file, which is built like every other tool's")];

/// Returns the name of the type that a line of a module defines. Skips items inside functions, which nobody
/// else sees.
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

/// Holds that no two types share a name, so that a reader never has to ask which one is meant.
#[test]
fn no_two_types_have_one_name() {
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
fn types_are_found_where_modules_define_them() {
    assert_eq!(defined_type("pub(in super::super) struct Key<'a> {"), Some("Key"));
    assert_eq!(defined_type("type Start = dyn Fn();"), Some("Start"));
    assert_eq!(defined_type("    pub enum Inner {"), Some("Inner"));
    assert_eq!(defined_type("    struct Local;"), None);
    assert_eq!(defined_type("pub fn structure() {"), None);
}

/// Sentences that are searched for words on purpose, each with the reason.
const SEARCHED: &[(&str, &str, &str)] = &[
    (
        "src/engine/start.rs",
        "reason",
        "SBCL's own words, as it ends in the start: there is nothing else to go by",
    ),
    ("src/handle/loaded/text.rs", "message", "a file that Lisp's message names is not named again below it"),
    ("src/actions/run/trial/run.rs", "why", "the whole path of a file becomes the shown one"),
    ("src/actions/run/load_system.rs", "message", "the whole path of a file becomes the shown one"),
    ("src/actions/run/load_system.rs", "remedy", "the whole path of a file becomes the shown one"),
];

/// Returns what is searched for words in a line of code, if it is something for people: a message, a reason, an
/// error as text. Replacing single characters, as for an indentation, is no search.
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

/// Holds that nothing is decided by the words of a sentence: what code must know of it is a type.
#[test]
fn no_sentence_is_searched_for_words() {
    let mut found = BTreeSet::new();
    for (path, text) in sources("src").into_iter().chain(sources("crates")) {
        // Join chained calls, which rustfmt puts on lines of their own.
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

fn mentions_word(text: &str, word: &str) -> bool {
    code(text).any(|line| line.contains(word))
}

#[test]
fn libraries_stay_where_they_belong() {
    for (path, text) in sources("src") {
        let mentions = |name: &str| code(&text).any(|line| line.contains(&format!("{name}::")));
        let mcp = ["jsonrpc", "readOnlyHint", "inputSchema"].iter().any(|word| text.contains(word));
        assert!(!mcp || path.starts_with("src/doors/mcp/"), "{path} knows MCP");
        assert!(!mentions("rmcp") || path.starts_with("src/doors/mcp/"), "{path} knows rmcp");
        let exports = path.starts_with("src/export/");
        assert!(exports || !mentions("scip::types") && !mentions("protobuf"), "{path} knows SCIP");
        assert!(!mentions("lsp_server") || path.starts_with("src/doors/lsp/"), "{path} knows LSP");
        let tool =
            ["Tools", "ToolAnswer", "tools::Call", "tools()"].iter().any(|word| mentions_word(&text, word));
        assert!(!tool || !path.starts_with("src/doors/lsp/"), "{path} knows tools");
        assert!(!mentions("clap") || path.starts_with("src/doors/cli/"), "{path} knows clap");
        assert!(!mentions("indicatif") || path.starts_with("src/doors/cli/"), "{path} knows indicatif");
    }
}

#[test]
fn library_code_reads_no_environment_and_prints_nothing() {
    for (path, text) in sources("src") {
        if path.starts_with("src/doors/cli/") || path == "src/main.rs" {
            continue;
        }
        for line in code(&text) {
            // Allow two files: the engine hands the environment on to SBCL, and a snapshot depends on the
            // variables that loaded code read.
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

/// Holds that each path in backquotes in the pages, if it begins with one of the repository's folders,
/// exists.
#[test]
fn the_pages_name_files_that_are_there() {
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
                assert!(root().join(word).exists(), "{} names {word}, which is not there", page.display());
            }
        }
    }
    assert!(all > 100, "{all} files are named");
}

/// Holds that the table of formats has each version that the code has, in eight rows.
#[test]
fn the_table_of_formats_is_whole() {
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

/// Error types that render themselves, whose variants are in the page in words of its own; and those that name the kinds
/// of failures.
const SELF_RENDERED: [&str; 5] = ["NotFound", "LoadError", "WatchRefusal", "FailureKind", "FaultKind"];
/// Errors that only carry others' words.
const CARRIERS: [&str; 2] = ["Failure", "Malformed"];

/// Lists the messages of the error types in `text`: each one's type and variant, and its words, with … for what is put in.
/// Messages that are another error's are left out.
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
                None => assert!(attribute.contains("transparent"), "{code} has no words"),
            }
        }
        is_error &= line != "}";
    }
    found
}

/// Returns the words of an attribute of thiserror's, if it has any.
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
fn messages_are_found_where_errors_have_them() {
    let text = "#[derive(Debug, thiserror::Error)]\npub enum E {\n    #[error(transparent)]\n    A(#[from] B),\n    #[error(\n        \"no \\\"{x}\\\" \\\n         in {}\", y()\n    )]\n    C {\n        x: D,\n    },\n}\n#[derive(Debug)]\nenum F {\n    G,\n}\n#[derive(thiserror::Error)]\n#[error(\"h\")]\nstruct H;\nenum FaultKind {\n    I,\n}\n";
    let told = [("E::C", "no \"…\" in …"), ("H", "h"), ("FaultKind::I", "")];
    assert_eq!(messages(text), told.map(|(code, words)| (code.to_owned(), words.to_owned())));
}

/// Checks that docs/troubleshooting.md lists every error of the sources with its message, and no other.
#[test]
fn every_error_is_in_the_page() {
    let folders = ["src", "crates", "sys/src"];
    let sources: Vec<String> =
        folders.iter().flat_map(|folder| sources(folder)).map(|(_, text)| text).collect();
    let told: BTreeMap<String, String> = sources.iter().flat_map(|text| messages(text)).collect();
    assert!(told.len() > 120, "{}", told.len());
    for line in sources.iter().flat_map(|text| text.lines()) {
        let name = line
            .strip_prefix("impl std::error::Error for ")
            .map(|rest| rest.trim_end_matches([' ', '{', '}']));
        let is_known = |name: &str| SELF_RENDERED.contains(&name) || CARRIERS.contains(&name);
        assert!(name.is_none_or(is_known), "{line}: list it in SELF_RENDERED");
    }
    let page = fs::read_to_string(root().join("docs/troubleshooting.md")).unwrap();
    // An entry is `* `TYPE`: MESSAGE → REMEDY`, wrapped.
    let page = page.replace("\n  ", " ");
    let mut rows: BTreeMap<&str, &str> =
        page.lines().filter_map(|line| line.strip_prefix("* `")?.split_once("`: ")).collect();
    for (code, words) in &told {
        let row = rows.remove(code.as_str()).unwrap_or_else(|| panic!("{code} ({words}) is not in the page"));
        let said = row.split(" → ").next().unwrap_or_default();
        assert!(!said.is_empty(), "{code}");
        let is_same = words.is_empty() || said == words.replace('*', "\\*");
        assert!(is_same, "{code} is in the page as: {said}\nand says: {words}");
    }
    assert!(rows.is_empty(), "no error any more: {rows:?}");
}

/// Holds that docs/peers.svg is drawn of the table in docs/peers.md, which the bench prints. `STEELBANK_BLESS=1` draws it.
#[test]
fn the_chart_of_peers_is_its_table() {
    let chart = drawn(&fs::read_to_string(root().join("docs/peers.md")).unwrap());
    let kept = root().join("docs/peers.svg");
    if std::env::var_os("STEELBANK_BLESS").is_some() {
        fs::write(&kept, &chart).unwrap();
    }
    assert_eq!(fs::read_to_string(kept).unwrap(), chart, "STEELBANK_BLESS=1 draws it");
}

/// Draws the rows of questions in `page`: a dot for each side's time, hollow where it has a wrong or missing line.
fn drawn(page: &str) -> String {
    const SIDES: [(&str, &str); 4] = [
        ("steelbank", "#2f7d4f"),
        ("sb-introspect", "#c2703d"),
        ("Swank", "#7a5195"),
        ("ripgrep", "#3b6fb6"),
    ];
    // A decade has 130 points; the axis begins at 0.1 ms.
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

/// Holds that each script in tests/ is a step of `cargo xtask full`, but those that others read.
#[test]
fn every_script_of_tests_is_a_step_of_the_whole() {
    let steps = fs::read_to_string(root().join("xtask/src/main.rs")).unwrap();
    for path in files("tests", "sh") {
        let path = path.strip_prefix(root()).unwrap().to_str().unwrap();
        let is_read = ["tests/npm.sh", "tests/fixtures.sh", "tests/bootstrap/world.sh"].contains(&path);
        assert!(is_read || steps.contains(&format!("(\"{path}\")")), "{path} is no step of cargo xtask full");
    }
}
