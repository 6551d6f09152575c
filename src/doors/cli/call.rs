//! Calls tools from the shell. `steelbank tools` lists them; `steelbank call` and the generated
//! subcommands call one. The answer goes to standard output, as text or as JSON, and its notes go
//! to standard error.

use std::io::{Read, Write};
use std::path::Path;

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde_json::{Map, Value};

use super::export::remove_outputs_at_signals;
use super::lists::{self, ListOutput};
use super::progress::Bar;
use super::{CommandError, Exit, Shell, complete, share};
use crate::answer::Wording;
use crate::doors::mcp::listing;
use crate::export::ExportError;
use crate::export::output::Output;
use crate::tools::{Call, CallOutcome, Failure, Session, Tool, ToolAnswer};

/// Lists the tools. With --json, prints the result that the MCP server returns for `tools/list`.
pub(super) fn list(shell: &Shell) -> Result<Exit, CommandError> {
    let tools = crate::actions::tools();
    if shell.options.json {
        shell.output.json(&listing(tools))?;
        return Ok(Exit::Answered);
    }
    let width = tools.list().iter().map(|tool| tool.name().len()).max().unwrap_or(0);
    let lines = tools.list().iter().map(|tool| {
        let arguments = tool.arguments().into_iter();
        let names: Vec<String> = arguments
            .map(|(name, required)| if required { name.to_owned() } else { format!("[{name}]") })
            .collect();
        format!("{:width$}  {}  ({})", tool.name(), tool.about().title, names.join(", "))
    });
    shell.output.text(&lines.collect::<Vec<_>>().join("\n"))?;
    Ok(Exit::Answered)
}

#[derive(Debug, Args)]
pub(super) struct CallTool {
    /// The tool's name, from `steelbank tools`
    #[arg(add = ArgValueCandidates::new(complete::tools))]
    tool: String,
    /// The tool's arguments as a JSON object; - reads them from standard input
    #[arg(default_value = "{}")]
    arguments: String,
}

impl CallTool {
    pub(super) fn run(&self, shell: &Shell) -> Result<Exit, CommandError> {
        let usage = |message| CommandError { exit: Exit::Usage, message };
        let mut text = self.arguments.clone();
        if text == "-" {
            text.clear();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|error| usage(format!("Standard input cannot be read: {error}.")))?;
        }
        let arguments = serde_json::from_str(&text).map_err(|error| {
            usage(format!("The arguments must be a JSON object, such as '{{\"name\": \"car\"}}': {error}."))
        })?;
        let tool = crate::actions::tools().get(&self.tool).map_err(usage)?;
        call(shell, tool, arguments, None)
    }
}

/// Calls a tool with a progress bar, and without a limit on the length of the answer. Messages are
/// worded for the command line.
pub(super) fn call_with_progress(
    tool: &Tool,
    session: &Session,
    arguments: Map<String, Value>,
) -> Result<ToolAnswer, Failure> {
    let bar = Bar::new();
    let shown = bar.clone();
    let asked = Call::new(move |news| shown.update(&news)).without_limit().with_wording(Wording::CommandLine);
    let answer = tool.call(session, arguments, &asked);
    bar.end();
    answer
}

/// Calls a tool in the running shared Lisp, or else loads the systems of --system first. Prints the
/// tool's answer or the `summary` of the answer.
pub(super) fn call(
    shell: &Shell,
    tool: &Tool,
    arguments: Map<String, Value>,
    summary: Option<ListOutput>,
) -> Result<Exit, CommandError> {
    let (answer, local) = match share::ask(shell, tool, &arguments) {
        Some(answer) => (answer, None),
        None => {
            let (session, loaded) = shell.loaded_session()?;
            (call_with_progress(tool, &session, arguments)?, Some((session, loaded)))
        }
    };
    // With -q, a tool that returns lists gets the exit code of a summary, which reports whether
    // there are results.
    let summary =
        summary.or((shell.options.quiet && lists::returns_lists(tool)).then_some(ListOutput::Count));
    let exit = match summary.filter(|_| answer.outcome == CallOutcome::Answered) {
        Some(summary) => print_summary(shell, tool, &answer, summary),
        None => print_with_exit(shell, &answer),
    };
    match local {
        Some((session, loaded)) => finish(shell, &session, loaded, exit),
        None => exit,
    }
}

/// Prints the number of results or their files. As with grep, the exit code reports whether there
/// are results.
fn print_summary(
    shell: &Shell,
    tool: &Tool,
    answer: &ToolAnswer,
    summary: ListOutput,
) -> Result<Exit, CommandError> {
    let entries = lists::entries(tool, &answer.structured);
    match (summary, shell.options.json) {
        (ListOutput::Count, true) => shell.output.json(&entries.len().into())?,
        (ListOutput::Count, false) => shell.output.text(&entries.len().to_string())?,
        (ListOutput::Files, true) => shell.output.json(&lists::files(&entries).into_iter().collect())?,
        (ListOutput::Files, false) => {
            let lines = lists::files(&entries).into_iter().map(|file| file + "\n");
            shell.output.bytes(lines.collect::<String>().as_bytes())?;
        }
    }
    Ok(if entries.is_empty() { Exit::NotFound } else { Exit::Answered })
}

/// Starts to make a snapshot in the background if it is worth its cost, and returns `exit`, or
/// `loaded`, the exit code of the loads, if some systems did not load.
fn finish(
    shell: &Shell,
    session: &Session,
    loaded: Exit,
    exit: Result<Exit, CommandError>,
) -> Result<Exit, CommandError> {
    shell.options.project.make_snapshot_later(session, true);
    // Report an error even after an answer, because results may be missing if a system did not
    // load.
    if loaded == Exit::Answered { exit } else { exit.map(|_| loaded) }
}

/// Loads the systems of --system, calls a tool that draws, and copies the drawing to `file`.
pub(super) fn drawn(
    shell: &Shell,
    tool: &Tool,
    arguments: Map<String, Value>,
    file: &Path,
) -> Result<Exit, CommandError> {
    remove_outputs_at_signals()?;
    let (output, mut out) = Output::file(file).map_err(ExportError::write(file))?;
    let (session, loaded) = shell.loaded_session()?;
    let mut answer = call_with_progress(tool, &session, arguments)?;
    if answer.outcome == CallOutcome::Answered {
        let drawn = answer.structured["drawing_file"].as_str().unwrap_or_default();
        let written = std::fs::read(drawn).and_then(|svg| out.write_all(&svg)).and_then(|()| output.finish());
        written.map_err(ExportError::write(file))?;
        answer.text = format!("Drawn into {}.", file.display());
        answer.shown = None;
    }
    finish(shell, &session, loaded, print_with_exit(shell, &answer))
}

/// Prints an answer, and returns its exit code.
pub(super) fn print_with_exit(shell: &Shell, answer: &ToolAnswer) -> Result<Exit, CommandError> {
    print_answer(shell, answer)?;
    Ok(match answer.outcome {
        CallOutcome::Answered => Exit::Answered,
        CallOutcome::NotFound | CallOutcome::NotFoundAsError => Exit::NotFound,
        CallOutcome::Failed => Exit::Engine,
    })
}

/// Prints an answer and its notes.
pub(super) fn print_answer(shell: &Shell, answer: &ToolAnswer) -> Result<(), CommandError> {
    if shell.options.json {
        shell.output.json(&answer.structured)?;
    } else {
        shell.output.text(answer.shown.as_ref().unwrap_or(&answer.text))?;
    }
    for note in &answer.notes {
        shell.output.error(note);
    }
    Ok(())
}
