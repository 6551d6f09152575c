//! Checks that the command line is consistent, and that all commands in the documentation are
//! valid.

use std::collections::BTreeSet;
use std::path::Path;

use clap::FromArgMatches;
use clap::error::ErrorKind;
use serde_json::Value;
use steelbank_reader::Dialect;
use steelbank_reader::structure::check_structure;

use super::{Command, command_line, commands, config};

#[path = "../../../tests/pages/mod.rs"]
mod pages;

#[test]
fn command_line_is_consistent() {
    command_line().debug_assert();
}

/// Checks that the command line accepts these arguments.
fn parses(arguments: &[String]) -> Result<(), String> {
    // The word COMMAND is a placeholder for any command.
    let words = arguments.iter().map(|word| if word == "COMMAND" { "doctor" } else { word.as_str() });
    let words: Vec<&str> = std::iter::once("steelbank").chain(words).collect();
    let matches = match command_line().try_get_matches_from(&words) {
        Ok(matches) => matches,
        Err(asked) if matches!(asked.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return Ok(());
        }
        Err(error) => return Err(error.to_string()),
    };
    let Some(name) = matches.subcommand_name() else { return Ok(()) };
    if commands::tool(name).is_some() {
        return Ok(());
    }
    Command::from_arg_matches(&matches).map_err(|error| error.to_string())?;
    let sub = matches.subcommand().map(|(_, sub)| sub);
    let word = |id: &str| sub.and_then(|sub| sub.try_get_one::<String>(id).ok().flatten());
    if let Some(choice) = word("tools") {
        crate::actions::tools().chosen(choice)?;
    }
    if name == "call" {
        let tool = crate::actions::tools().get(word("tool").map_or("", String::as_str))?;
        let given: Value = serde_json::from_str(word("arguments").map_or("{}", String::as_str))
            .map_err(|error| error.to_string())?;
        let known: Vec<&str> = tool.arguments().into_iter().map(|(name, _)| name).collect();
        let unknown =
            given.as_object().into_iter().flatten().find(|(name, _)| !known.contains(&name.as_str()));
        if let Some((name, _)) = unknown {
            return Err(format!("{} has no argument {name}", tool.name()));
        }
    }
    Ok(())
}

/// Splits a shell line into simple commands, and these into words.
fn shell(line: &str) -> Vec<Vec<String>> {
    let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let mut quote = None;
    let mut characters = line.chars().peekable();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, '\\') => word.get_or_insert_default().extend(characters.next()),
            (None, '#') if word.is_none() => break,
            (None, ' ') => words.extend(word.take()),
            (None, '|' | '&' | ';' | '<' | '>' | '(' | ')') => {
                words.extend(word.take());
                commands.push(std::mem::take(&mut words));
            }
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    commands.push(words);
    commands.retain(|words| !words.is_empty());
    commands
}

/// Returns steelbank's arguments in a command that starts it, or that registers it with another
/// program.
fn arguments(words: &[String]) -> Option<Vec<String>> {
    let first = words.iter().position(|word| !word.contains('=') || word.starts_with('-'))?;
    let words = &words[first..];
    let ours = |word: &String| word == "steelbank" || word.starts_with("steelbank:");
    if words[0] == "steelbank" {
        return Some(words[1..].to_vec());
    }
    // `claude mcp add … steelbank -- steelbank --system auto serve`, `cargo run -- who-calls car`
    if let Some(at) = words.iter().position(|word| word == "--") {
        let rest = words[at + 1..].iter().skip_while(|word| ours(word));
        let runs = words.iter().any(ours) || words.iter().take(2).eq(["cargo", "run"]);
        return runs.then(|| rest.cloned().collect());
    }
    let starts = ["docker", "limactl", "npx", "uvx", "wsl"].contains(&words[0].as_str());
    let at = words.iter().rposition(ours).filter(|_| starts)?;
    Some(words[at + 1..].to_vec())
}

/// Finds steelbank's arguments in a configuration: `"command": "steelbank", "args": […]`, or
/// `"command": ["steelbank", …]`.
fn configured(value: &Value, found: &mut Vec<Vec<String>>) {
    let strings = |list: &Value| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    match value {
        Value::Object(object) => {
            match &value["command"] {
                Value::String(command) if command == "steelbank" => found.push(strings(&value["args"])),
                command if command[0] == "steelbank" => found.push(strings(command)[1..].to_vec()),
                _ => {}
            }
            object.values().for_each(|value| configured(value, found));
        }
        Value::Array(list) => list.iter().for_each(|value| configured(value, found)),
        _ => {}
    }
}

/// Lists the strings after the last `"steelbank"` in a text. `mark` is the quotation mark.
fn quoted(text: &str, mark: char) -> Option<Vec<String>> {
    let strings: Vec<String> = text.split(mark).skip(1).step_by(2).map(str::to_owned).collect();
    let at = strings.iter().rposition(|word| word == "steelbank")?;
    Some(strings[at + 1..].to_vec())
}

/// The commands found in a page.
#[derive(Default)]
struct Understood {
    /// The arguments of each start of steelbank.
    starts: Vec<Vec<String>>,
}

impl Understood {
    fn shell_line(&mut self, line: &str) {
        for words in shell(line) {
            self.starts.extend(arguments(&words));
            // `code --add-mcp '{"command": "steelbank", …}'`
            let values = words.iter().filter(|word| word.starts_with('{'));
            values.filter_map(|word| serde_json::from_str(word).ok()).for_each(|value| self.value(&value));
        }
    }

    fn value(&mut self, value: &Value) {
        configured(value, &mut self.starts);
    }

    fn block(&mut self, block: &pages::Block<'_>) -> Result<(), String> {
        let text = block.lines.join("\n");
        match block.language {
            "json" => self.value(&serde_json::from_str(&text).map_err(|error| error.to_string())?),
            "toml" => {
                let table: toml::Table = toml::from_str(&text).map_err(|error| error.to_string())?;
                settings(&text, &table)?;
                self.value(&serde_json::to_value(&table).map_err(|error| error.to_string())?);
            }
            "elisp" => {
                if let Some(problem) = check_structure(text.as_bytes(), Dialect::EmacsLisp).problem {
                    return Err(format!("{problem:?}"));
                }
                let ours = include_str!("../../../editors/emacs/steelbank.el");
                for name in text.split(|c: char| c.is_whitespace() || "()'#\"".contains(c)) {
                    if name.starts_with("steelbank-") && !ours.contains(&format!("(define-minor-mode {name}"))
                    {
                        return Err(format!("steelbank.el has no mode {name}"));
                    }
                }
                self.starts.extend(quoted(&text, '"'));
            }
            // Only the commands are checked here; tests/editors/run.sh runs the Lua code.
            "lua" => self.starts.extend(quoted(&text, '\'')),
            "sh" | "" => block.lines.iter().for_each(|line| self.shell_line(line)),
            // Other tests run the console examples and their answers, and cargo tests the Rust
            // blocks.
            "console" | "text" | "rust" | "rust,standalone_crate" => {}
            other => return Err(format!("there is no check for blocks of {other:?}")),
        }
        Ok(())
    }
}

/// Checks TOML tables in a page: the settings of steelbank, and the features in a program's
/// dependency on the library.
fn settings(text: &str, table: &toml::Table) -> Result<(), String> {
    if table.contains_key("allow") {
        toml::from_str::<config::UserConfig>(text).map_err(|error| error.to_string())?;
    } else if table.contains_key("systems") {
        toml::from_str::<config::ProjectConfig>(text).map_err(|error| error.to_string())?;
    }
    if let Some(ours) = table.get("dependencies").and_then(|table| table.get("steelbank")) {
        let manifest: toml::Table =
            toml::from_str(include_str!("../../../Cargo.toml")).map_err(|error| error.to_string())?;
        let asked = ours.get("features").and_then(toml::Value::as_array).into_iter().flatten();
        for feature in asked.filter_map(toml::Value::as_str) {
            manifest["features"].get(feature).ok_or_else(|| format!("there is no feature {feature}"))?;
        }
    }
    Ok(())
}

/// Lists the long options of all commands.
fn options() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec![command_line()];
    while let Some(mut command) = left.pop() {
        command.build();
        for option in command.get_arguments() {
            found.extend(option.get_long_and_visible_aliases().into_iter().flatten().map(str::to_owned));
        }
        left.extend(command.get_subcommands().cloned());
    }
    found
}

/// Checks that each block of a page parses in its language, that each call of steelbank is valid,
/// and that each named option exists.
#[test]
fn commands_in_documentation_are_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let known = options();
    let mut starts = 0;
    for path in pages::all(root) {
        let page = path.strip_prefix(root).unwrap().to_str().unwrap();
        // Skip this page, because its names of formats begin with the program's name.
        if page == "docs/internals/formats.md" {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let (blocks, prose) = pages::parts(&text);
        let mut understood = Understood::default();
        for block in &blocks {
            understood
                .block(block)
                .unwrap_or_else(|error| panic!("{page}: {error}\n{}", block.lines.join("\n")));
        }
        for span in pages::spans(&prose) {
            understood.shell_line(span);
            understood.starts.extend(quoted(span, '"'));
            let mut words = span.split_whitespace();
            let first = words.next().unwrap_or_default();
            let is_ours =
                ["steelbank", "serve", "lsp"].contains(&first) && page != "docs/internals/publishing.md";
            for option in words.filter_map(|word| word.strip_prefix("--")).filter(|_| is_ours) {
                assert!(known.contains(option), "{page}: `{span}`: there is no --{option}");
            }
        }
        for start in &understood.starts {
            parses(start).unwrap_or_else(|error| panic!("{page}: steelbank {}: {error}", start.join(" ")));
        }
        let is_setup = page.starts_with("docs/hosts/") || page.starts_with("docs/editors/");
        // The VS Code extension starts steelbank itself; tests/editors/run.sh packs and runs the
        // extension.
        let has_own_program = page == "docs/editors/vs-code.md";
        assert!(
            !is_setup || has_own_program || !understood.starts.is_empty(),
            "{page} has no command that starts steelbank"
        );
        starts += understood.starts.len();
    }
    assert!(starts > 60, "{starts} starts of steelbank");
}

#[test]
fn shell_lines_are_parsed() {
    let found = |line: &str| shell(line).iter().filter_map(|words| arguments(words)).collect::<Vec<_>>();
    for (line, expected) in [
        (
            "claude mcp add --scope user steelbank -- steelbank --system auto serve",
            vec!["--system auto serve"],
        ),
        ("gemini mcp add -s user steelbank steelbank -- --system auto serve", vec!["--system auto serve"]),
        ("claude mcp add --transport http steelbank http://127.0.0.1:1/mcp", vec![]),
        ("docker run -v \"$PWD:$PWD\" steelbank:VERSION serve", vec!["serve"]),
        ("A=b steelbank tools | grep x # steelbank", vec!["tools"]),
        ("source <(steelbank completions bash)", vec!["completions bash"]),
        ("steelbank call status '{\"a\": 1}'; steelbank", vec!["call status {\"a\": 1}", ""]),
        ("cargo build --bin steelbank", vec![]),
        (
            "./bootstrap && cargo run --release -- who-calls mapcar --package cl",
            vec!["who-calls mapcar --package cl"],
        ),
    ] {
        assert_eq!(found(line).iter().map(|words| words.join(" ")).collect::<Vec<_>>(), expected, "{line}");
    }
    for wrong in
        ["--sistem auto serve", "serve --allow-everything", "who-cals x", "call nonesuch", "serve --tools x"]
    {
        let words: Vec<String> = wrong.split(' ').map(str::to_owned).collect();
        assert!(parses(&words).is_err(), "{wrong}");
    }
    let unknown = ["call", "who-calls", r#"{"nam": "x"}"#].map(str::to_owned);
    assert!(parses(&unknown).is_err());
}
