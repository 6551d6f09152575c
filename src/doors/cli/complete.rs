//! Shell completion. The shell's script runs this program, which completes names from the project's
//! last snapshot, or else from the index of SBCL's core, without starting Lisp.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Arg, Command, ValueHint};
use clap_complete::env::{Elvish, EnvCompleter, Fish, Powershell, Shells, Zsh};
use clap_complete::{ArgValueCompleter, CompleteEnv, CompletionCandidate, Shell};
use steelbank_xref::{Index, Package};

use super::project::{AUTO, ProjectOptions};
use super::{CommandError, Exit, command_line, installation};
use crate::IndexData;
use crate::answer::name;
use crate::handle::snapshot;

/// The environment variable that requests completions; its value names the shell.
const VARIABLE: &str = "STEELBANK_COMPLETE";
const SHELLS: Shells<'_> = Shells(&[&Bash, &Elvish, &Fish, &Powershell, &Zsh]);

/// Answers a completion request, if the process was started for one.
pub(super) fn for_shell() -> Option<Exit> {
    let asked = CompleteEnv::with_factory(command_line).var(VARIABLE).shells(SHELLS);
    match asked.try_complete(std::env::args_os(), std::env::current_dir().ok().as_deref()) {
        Ok(asked) => asked.then_some(Exit::Answered),
        // Print no error, because the user is typing a command line.
        Err(_) => Some(Exit::Usage),
    }
}

/// Returns the completion script for `shell`.
pub(super) fn script(shell: Shell) -> Result<Vec<u8>, CommandError> {
    let (shell, mut script) = (shell.to_string(), Vec::new());
    if let Some(completer) = SHELLS.completer(&shell) {
        completer.write_registration(VARIABLE, "steelbank", "steelbank", "steelbank", &mut script)?;
    }
    if shell == "zsh" {
        // When zsh loads the script from fpath, it runs the script in place of the completion
        // function. Therefore the script itself completes the first request.
        script.extend(b"[[ $funcstack[1] = _steelbank ]] && _clap_dynamic_completer_steelbank\n");
    }
    Ok(script)
}

/// Adds a completer to a tool's argument if there is one for arguments called `name`.
pub(super) fn completed(argument: Arg, name: &str) -> Arg {
    match name {
        "name" | "names" | "symbol" | "class" | "definition" | "from" | "to" => {
            argument.add(ArgValueCompleter::new(names))
        }
        "package" | "packages" => argument.add(ArgValueCompleter::new(packages)),
        "system" => argument.add(ArgValueCompleter::new(systems)),
        "path" | "paths" => argument.value_hint(ValueHint::AnyPath),
        _ => argument,
    }
}

/// Lists the tools.
pub(super) fn tools() -> Vec<CompletionCandidate> {
    let tools = crate::actions::tools().list();
    tools
        .iter()
        .map(|tool| CompletionCandidate::new(tool.name()).help(Some(tool.about().title.into())))
        .collect()
}

/// Lists `auto`, the systems that files directly in the project's folder define, and the systems of
/// the project's last snapshot.
pub(super) fn systems(typed: &OsStr) -> Vec<CompletionCandidate> {
    let mut found = vec![AUTO.to_owned()];
    let root = root();
    if let Some(root) = &root {
        let files = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
        let definitions = files.filter(|path| steelbank_tree::defines_systems(path));
        let read = definitions.filter_map(|path| steelbank_tree::read_definitions(root, &path).ok());
        found.extend(read.flatten().map(|system| system.name));
    }
    found.extend(last(root.as_deref()).map(|(_, systems)| systems).unwrap_or_default());
    starting_with(typed, found)
}

/// Lists the packages of the last snapshot, or of SBCL if there is none.
fn packages(typed: &OsStr) -> Vec<CompletionCandidate> {
    let index = index();
    let packages = index.iter().flat_map(|index| index.packages().map(|package| written(index, package)));
    starting_with(typed, packages.collect())
}

/// If a package prefix was typed, lists the symbols of that package. Otherwise lists the prefixes
/// of all packages and, if any text was typed, the symbols of COMMON-LISP.
fn names(typed: &OsStr) -> Vec<CompletionCandidate> {
    let (Some(text), Some(index)) = (typed.to_str(), index()) else { return Vec::new() };
    let names = |package: Package, prefix: &str| -> Vec<String> {
        let names = index.names_in(package).into_iter().map(|(symbol, external)| {
            let colons = match (prefix, external) {
                ("", _) => "",
                (_, true) => ":",
                (_, false) => "::",
            };
            format!("{prefix}{colons}{}", name::readable(&index.symbol_name(symbol)))
        });
        names.collect()
    };
    let found = match text.split_once(':') {
        Some((prefix, _)) => {
            let package = index.find_package(&prefix.to_uppercase(), None);
            package.map(|package| names(package, prefix)).unwrap_or_default()
        }
        None => {
            let common_lisp = index.find_package("COMMON-LISP", None).filter(|_| !text.is_empty());
            let prefixes = index.packages().map(|package| format!("{}:", written(&index, package)));
            prefixes.chain(common_lisp.into_iter().flat_map(|package| names(package, ""))).collect()
        }
    };
    starting_with(typed, found)
}

fn written(index: &Index, package: Package) -> String {
    name::prefix(&index.package_name(package))
}

/// Returns the values that start with the typed text. Leaves out values with control characters,
/// which a shell would write to the terminal.
fn starting_with(typed: &OsStr, mut values: Vec<String>) -> Vec<CompletionCandidate> {
    let is_typed = |value: &str| typed.to_str().is_some_and(|typed| value.starts_with(typed));
    values.retain(|value| is_typed(value) && !value.contains(char::is_control));
    values.sort_unstable();
    values.dedup();
    values.into_iter().map(CompletionCandidate::new).collect()
}

/// Returns the project's folder for the command line that is being completed.
fn root() -> Option<PathBuf> {
    let line: Vec<OsString> = std::env::args_os().skip_while(|word| word != "--").skip(1).collect();
    let named = line.windows(2).find(|words| words[0] == "--project").map(|words| words[1].clone());
    let named = named
        .or_else(|| line.iter().find_map(|word| Some(word.to_str()?.strip_prefix("--project=")?.into())));
    ProjectOptions::of(named.map(PathBuf::from)).root().ok()?.folder()
}

fn last(root: Option<&Path>) -> Option<(Index, Vec<String>)> {
    snapshot::last(&installation::cache()?.join("projects"), root?)
}

/// Opens the index of the project's last snapshot, or else the index of SBCL's core.
fn index() -> Option<Index> {
    last(root().as_deref()).map(|(index, _)| index).or_else(|| match installation::find(None).ok()?.index {
        IndexData::Memory(bytes) => Index::open(bytes).ok(),
        IndexData::File(path) => Index::open(std::fs::read(path).ok()?).ok(),
    })
}

/// Replaces clap's completer for Bash. Bash breaks words at colons and equals signs, and replaces
/// only the text after the last break. So the script removes the text up to that break from the
/// candidates. In an open quotation, it escapes what the quotation does not.
#[derive(Debug)]
struct Bash;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == "bash"
    }

    fn write_registration(
        &self,
        variable: &str,
        _: &str,
        command: &str,
        program: &str,
        script: &mut dyn Write,
    ) -> io::Result<()> {
        write!(
            script,
            r#"_steelbank() {{
    local line=${{COMP_LINE:0:COMP_POINT}} words word replaced candidate quote=\'
    read -ra words <<< "$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    word=${{words[-1]}}
    COMPREPLY=()
    while IFS= read -r candidate; do
        case $word in
            \'*) candidate=${{candidate//$quote/$quote\\$quote$quote}} ;;
            \"*)
                candidate=${{candidate//\\/\\\\}} candidate=${{candidate//\"/\\\"}} candidate=${{candidate//\`/\\\`}}
                candidate=${{candidate//\$/\\\$}} candidate=${{candidate//!/\"$quote!$quote\"}} ;;
            *)
                replaced=${{word%"${{word##*[:=]}}"}}
                printf -v candidate %q "${{candidate#"${{replaced//\\/}}"}}" ;;
        esac
        COMPREPLY+=("$candidate")
    done < <({variable}=bash {program} -- "${{words[@]//[\\\'\"]/}}" 2>/dev/null)
    if [[ ${{#COMPREPLY[@]}} == 1 && ${{COMPREPLY[0]}} == *[:=/] ]]; then compopt -o nospace; fi
}}
complete -o bashdefault -F _steelbank {command}
"#
        )
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        answer: &mut dyn Write,
    ) -> io::Result<()> {
        let last = words.len().saturating_sub(1);
        for candidate in clap_complete::engine::complete(command, words, last, folder)? {
            let value = candidate.get_value().to_string_lossy();
            if !value.contains(char::is_control) {
                writeln!(answer, "{value}")?;
            }
        }
        Ok(())
    }
}
