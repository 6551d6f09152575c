//! Generates a subcommand for each tool from its JSON schema. Required arguments become positional,
//! and other arguments become options. [`BY_POSITION`] lists optional arguments that are positional
//! nevertheless. [`arguments`] converts the parsed options back to the tool's JSON arguments.

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use serde_json::{Map, Value};

use super::{complete, lists};
use crate::tools::{Object, Tool};

/// Options with a short form.
const LETTERS: [(&str, char); 3] = [("package", 'p'), ("glob", 'g'), ("limit", 'n')];

/// Options with an alias.
const ALIASES: [(&str, &str); 1] = [("project_only", "all")];

/// The positional arguments, in order, of tools with optional positional arguments or an order that
/// is not alphabetical.
const BY_POSITION: [(&str, &[&str]); 12] = [
    ("check", &["paths"]),
    ("check-structure", &["path"]),
    ("edit-definition", &["path", "definition", "operation", "text"]),
    ("impact", &["names"]),
    ("inspect", &["expression"]),
    ("load-system", &["system"]),
    ("macroexpand", &["form"]),
    ("outline", &["path"]),
    ("refactor", &["operation", "pattern", "with"]),
    ("reload", &["paths"]),
    ("rename", &["name", "new_name"]),
    ("run-tests", &["system"]),
];

/// Arguments about background work. The command line omits them, because a command waits for its
/// result.
const BACKGROUND_ARGUMENTS: [&str; 2] = ["answer_within_seconds", "wait"];

/// Returns the tool's entry in [`BY_POSITION`].
fn by_position(tool: &Tool) -> &'static [&'static str] {
    BY_POSITION.iter().find(|(name, _)| *name == tool.name()).map_or(&[], |(_, arguments)| arguments)
}

/// Generates the subcommands. Their names are the tools' names with hyphens.
pub(super) fn all() -> impl Iterator<Item = Command> {
    let tools = crate::actions::tools();
    let listed = tools.list().iter().map(|tool| command(tool));
    let commands = listed.chain(tools.old_names().map(|tool| command(tool).hide(true)));
    commands.map(|command| command.defer(|command| with_arguments(tool_of(&command), command)))
}

/// Finds the tool that a subcommand calls.
pub(super) fn tool(name: &str) -> Option<&'static Tool> {
    crate::actions::tools().get(name).ok()
}

fn command(tool: &'static Tool) -> Command {
    let about = tool.about();
    let name = about.name.replace('_', "-");
    // Accept underscores too, as MCP does.
    let underscored = name.replace('-', "_");
    let also = (underscored != name).then_some(underscored);
    Command::new(name).aliases(also).about(about.title).long_about(about.description)
}

fn tool_of(command: &Command) -> Option<&'static Tool> {
    tool(command.get_name())
}

fn with_arguments(tool: Option<&'static Tool>, command: Command) -> Command {
    let Some(tool) = tool else { return command };
    let properties = tool.input().get("properties");
    let denied = tool
        .arguments()
        .into_iter()
        .filter_map(|(name, required)| negation(name, properties?.get(name)?, required))
        .collect::<Vec<_>>();
    let order = |name: &str| by_position(tool).iter().position(|other| *other == name).unwrap_or(usize::MAX);
    let mut taken = tool.arguments();
    taken.retain(|(name, _)| !BACKGROUND_ARGUMENTS.contains(name));
    taken.sort_by_key(|(name, required)| (!required, order(name)));
    // Leave out an optional system that is not positional: the global option --system selects it.
    taken.retain(|(name, required)| *required || *name != "system" || by_position(tool).contains(name));
    let arguments: Vec<Arg> = taken
        .iter()
        .filter_map(|(name, required)| Some(argument(tool, name, properties?.get(name)?, *required)))
        .collect();
    // Accept each optional positional argument by name too, as calls over MCP do. `system` is an
    // exception: its option would conflict with the global option.
    let named: Vec<Arg> = taken
        .iter()
        .filter(|(name, required)| !required && *name != "system" && by_position(tool).contains(name))
        .filter_map(|(name, _)| Some(by_name(name, properties?.get(name)?)))
        .collect();
    let drawn = (tool.name() == "call-graph").then(|| {
        Arg::new(SVG)
            .long("svg")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .conflicts_with("format")
            .help("Write the graph to this file as SVG")
    });
    command.args(arguments).args(named).args(denied).args(drawn).args(lists::options(tool))
}

/// The option that writes a call graph to a file.
pub(super) const SVG: &str = "svg";

fn argument(tool: &Tool, name: &'static str, property: &'static Value, required: bool) -> Arg {
    let text = |key: &str| property.get(key).and_then(Value::as_str);
    let number = |key: &str| property.get(key).and_then(Value::as_i64);
    let mut argument = complete::completed(Arg::new(name), name);
    if let Some(help) = text("description") {
        let turned_off = if defaults_to_true(property) { "Turn off this default: " } else { "" };
        argument = argument.help(format!("{turned_off}{}", help.replace('`', "")));
    }
    if required {
        argument = argument.required(true).value_name(name.to_uppercase());
    } else if by_position(tool).contains(&name) {
        argument = argument.value_name(name.to_uppercase());
    } else {
        argument = argument.long(option(name, property)).value_name(name.to_uppercase());
        if let Some((_, letter)) = LETTERS.iter().find(|(long, _)| *long == name) {
            argument = argument.short(*letter);
        }
        if let Some((_, alias)) = ALIASES.iter().find(|(long, _)| *long == name) {
            argument = argument.visible_alias(*alias);
        }
    }
    match text("type") {
        Some("boolean") if !required => {
            argument.action(if defaults_to_true(property) { ArgAction::SetFalse } else { ArgAction::SetTrue })
        }
        Some("boolean") => argument.value_parser(value_parser!(bool)),
        Some("integer") => {
            let range = number("minimum").unwrap_or(i64::MIN)..=number("maximum").unwrap_or(i64::MAX);
            argument.value_parser(value_parser!(i64).range(range))
        }
        Some("array") if argument.is_positional() => argument.num_args(1..),
        Some("array") => argument.action(ArgAction::Append),
        _ => match property.get("enum").and_then(Value::as_array) {
            Some(choices) => {
                argument.value_parser(PossibleValuesParser::new(choices.iter().filter_map(Value::as_str)))
            }
            None => argument,
        },
    }
}

/// Returns the hidden option that sets a positional argument by name.
fn by_name(name: &str, property: &Value) -> Arg {
    let is_list = property.get("type").is_some_and(|kind| kind == "array");
    Arg::new(named(name))
        .long(option(name, property))
        .action(if is_list { ArgAction::Append } else { ArgAction::Set })
        .conflicts_with(name.to_owned())
        .hide(true)
}

fn named(name: &str) -> String {
    format!("named {name}")
}

/// Returns the option that turns a flag off. Only optional flags without a fixed default have such
/// an option, because their default depends on the call.
fn negation(name: &str, property: &Value, required: bool) -> Option<Arg> {
    let either =
        property.get("type").is_some_and(|kind| kind == "boolean") && property.get("default").is_none();
    (either && !required).then(|| {
        let long = format!("no-{}", name.replace('_', "-"));
        Arg::new(negation_id(name))
            .long(long)
            .action(ArgAction::SetTrue)
            .conflicts_with(name.to_owned())
            .help(format!("Turn off --{}", name.replace('_', "-")))
    })
}

fn negation_id(name: &str) -> String {
    format!("no {name}")
}

fn defaults_to_true(property: &Value) -> bool {
    property.get("default") == Some(&Value::Bool(true))
}

/// Returns the name of the option for an argument. A flag that is on by default gets the option
/// that turns it off.
fn option(name: &str, property: &Value) -> String {
    let long = name.replace('_', "-");
    if defaults_to_true(property) { format!("no-{long}") } else { long }
}

/// Converts the subcommand's parsed options to the tool's arguments. Omits arguments that were not
/// given, with two exceptions. A flag with a default in the schema is always included. `limit`
/// becomes the schema's maximum, or, without a maximum, `u32::MAX` if a [`lists::ListOutput`] is
/// requested.
pub(super) fn arguments(tool: &Tool, matches: &ArgMatches) -> Object {
    let none = Map::new();
    let properties = tool.input().get("properties").and_then(Value::as_object).unwrap_or(&none);
    let mut given = Object::new();
    // Skip a system that is not an argument of the subcommand: --system selects it; see
    // `with_arguments`.
    let is_here = |name: &str| {
        !BACKGROUND_ARGUMENTS.contains(&name) && (name != "system" || matches.ids().any(|id| id == name))
    };
    for (name, property) in properties.iter().filter(|(name, _)| is_here(name)) {
        let value = match property.get("type").and_then(Value::as_str) {
            Some("boolean") => {
                let is_denied = matches.try_get_one::<bool>(&negation_id(name)).ok().flatten();
                match (is_denied, matches.get_one::<bool>(name)) {
                    (Some(true), _) => Some(Value::from(false)),
                    // Omit the flag if neither option was given.
                    (Some(false), Some(false)) => None,
                    (_, said) => said.copied().map(Value::from),
                }
            }
            Some("integer") => matches.get_one::<i64>(name).copied().map(Value::from).or_else(|| {
                // Request complete lists: the terminal truncates them to a screen, and --count must
                // include every entry.
                let most = lists::requested(matches).map(|_| Value::from(u32::MAX));
                property.get("maximum").cloned().or(most).filter(|_| name == "limit")
            }),
            Some("array") => matches
                .get_many::<String>(name)
                .or_else(|| matches.try_get_many::<String>(&named(name)).ok().flatten())
                .map(|values| values.map(|value| read(value, property)).collect::<Vec<_>>().into()),
            Some("object") => matches.get_one::<String>(name).map(|text| json(text)),
            _ => matches
                .get_one::<String>(name)
                .or_else(|| matches.try_get_one::<String>(&named(name)).ok().flatten())
                .map(|text| Value::from(text.as_str())),
        };
        given.extend(value.map(|value| (name.clone(), value)));
    }
    // The second positional argument of refactor is the pattern to replace, or a name.
    if tool.name() == "refactor"
        && given.get("operation").is_some_and(|operation| operation != "replace")
        && let Some(name) = given.remove("pattern")
    {
        given.insert("name".to_owned(), name);
    }
    given
}

/// Makes a path absolute if it exists in the current folder but not in the project's `root`. The
/// shell completes paths in the current folder, but tools resolve them against `root`.
pub(super) fn name_from_root(tool: &Tool, arguments: &mut Object, root: &Path) {
    // Skip inspect: its path selects a part of an object.
    if tool.name() == "inspect" {
        return;
    }
    let rename = |value: &mut Value| {
        if let Some(given) = value.as_str()
            && !root.join(given).exists()
            && Path::new(given).exists()
            && let Ok(absolute) = std::path::absolute(given)
        {
            *value = Value::from(absolute.to_string_lossy());
        }
    };
    arguments.get_mut("path").into_iter().for_each(rename);
    let paths = arguments.get_mut("paths").and_then(Value::as_array_mut);
    paths.into_iter().flatten().for_each(rename);
}

/// Converts one item of a list to JSON. Items of a list of strings are not parsed.
fn read(text: &str, property: &Value) -> Value {
    match property.pointer("/items/type").and_then(Value::as_str) {
        Some("string") => Value::from(text),
        _ => json(text),
    }
}

/// Parses JSON. Invalid JSON stays a string, which the tool's argument check reports.
fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|_| Value::from(text))
}
