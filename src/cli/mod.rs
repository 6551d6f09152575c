//! The command line. Each subcommand has a file; most of them call a tool of [`crate::mcp`] and show its answer.
//!
//! Here, and in `main`, the environment is read and something is printed; nowhere else in the crate.

mod call;
mod doctor;
mod find_references;
mod index;
mod installation;
mod output;
mod progress;
mod project;
mod symbols;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};

pub use installation::Embedded;

use crate::mcp::{Failure, ServeError, Session, serve_stdio};
use crate::query::Error;
use crate::{Installation, Steelbank};
use output::Output;

/// How a command ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Answered = 0,
    NotFound = 1,
    Usage = 2,
    Engine = 3,
}

/// A command that did not work: a sentence for standard error, and how to exit.
#[derive(Debug)]
struct Trouble {
    exit: Exit,
    message: String,
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Failure::from(error).into()
    }
}

impl From<Failure> for Trouble {
    fn from(failure: Failure) -> Self {
        let exit = match failure {
            Failure::Arguments(_) => Exit::Usage,
            Failure::Engine(_) => Exit::Engine,
        };
        Self { exit, message: failure.to_string() }
    }
}

impl From<ServeError> for Trouble {
    fn from(error: ServeError) -> Self {
        Self { exit: Exit::Engine, message: error.to_string() }
    }
}

impl From<std::io::Error> for Trouble {
    fn from(error: std::io::Error) -> Self {
        Self { exit: Exit::Engine, message: format!("Cannot write the answer: {error}.") }
    }
}

const EXAMPLES: &str = "\
Examples:
  steelbank describe-symbol mapcar
  steelbank who-calls mapcar --package cl | head
  steelbank who-references '*print-base*' --package cl --json
  steelbank call who-calls '{\"name\": \"cl:mapcar\", \"limit\": 10}'
  steelbank --system my-app code-find-references my-app:run
  steelbank find-references CacheManager --glob 'src/**'
  steelbank --system my-app serve    what an MCP host runs

Exit codes: 0 answered, 1 not found, 2 wrong usage, 3 the engine failed, or a system of --system did not load.
STEELBANK_HOME, if set, names a folder with libsteelbank-sbcl.so, steelbank.core, steelbank.xref and contrib/ to use in
place of the SBCL inside the program. STEELBANK_CACHE names the cache folder.";

/// Common Lisp code intelligence: what a symbol is and who uses it, answered by the SBCL inside this program.
#[derive(Debug, Parser)]
#[command(name = "steelbank", version, after_help = EXAMPLES, max_term_width = 100)]
struct Line {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    command: Command,
}

/// What every subcommand takes.
#[derive(Debug, Args)]
struct Options {
    /// The most that Lisp's heap can grow to
    #[arg(long, global = true, value_name = "MB", value_parser = clap::value_parser!(u64).range(128..=1_048_576))]
    dynamic_space_size: Option<u64>,
    /// No colours, also on a terminal
    #[arg(long, global = true)]
    no_color: bool,
    #[command(flatten)]
    project: project::ProjectOptions,
    #[command(flatten)]
    text: index::TextOptions,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Tell what a symbol is: function, variable, class, with documentation and source
    DescribeSymbol(symbols::Symbol),
    /// List the functions that call a function
    WhoCalls(symbols::Symbol),
    /// List the code that reads a variable
    WhoReferences(symbols::Symbol),
    /// List the code that binds a variable
    WhoBinds(symbols::Symbol),
    /// List the code that assigns a variable
    WhoSets(symbols::Symbol),
    /// List the code that a macro was expanded in
    WhoMacroexpands(symbols::Symbol),
    /// List the methods that specialize on a class
    WhoSpecializes(symbols::Symbol),
    /// List where a symbol is used in the project, line by line
    CodeFindReferences(project::References),
    /// List where a symbol is defined
    FindDefinition(symbols::Symbol),
    /// Load a system and show what the compiler says
    LoadSystem(project::LoadSystem),
    /// List what the project defines and what of it is loaded
    ListSystems(project::ListSystems),
    /// Find a name's definitions, and every place where it occurs, in any source tree; starts no SBCL
    FindReferences(find_references::FindReferences),
    /// Build the index of the project's text, watch the tree, or tell how old the index is
    Index(index::Index),
    /// List the tools that the MCP server offers
    Tools(call::ListTools),
    /// Call one of the MCP server's tools
    Call(call::CallTool),
    /// Check this installation and show what it is made of
    Doctor(doctor::Doctor),
    /// Serve MCP on standard input and output, until the client leaves
    Serve,
}

/// What commands work with.
struct Shell {
    options: Options,
    installation: Installation,
    output: Output,
}

impl Shell {
    /// Starts SBCL, without waiting for it.
    fn session(&self) -> Result<Session, Trouble> {
        let mut builder = Steelbank::builder().installation(self.installation.clone());
        if let Some(megabytes) = self.options.dynamic_space_size {
            builder = builder.dynamic_space_size(usize::try_from(megabytes << 20).unwrap_or(usize::MAX));
        }
        if let Some(project) = self.options.project.settings()? {
            builder = builder.project(project);
        }
        let text = index::open(self).map_err(|trouble| trouble.message);
        Ok(Session::new(builder.launch()?).with_text(text))
    }

    /// Starts SBCL and loads the systems of --system. False if not all of them could be loaded.
    fn loaded_session(&self) -> Result<(Session, bool), Trouble> {
        let session = self.session()?;
        let complete = self.options.project.load(&session, &self.output)?;
        Ok((session, complete))
    }

    /// Serves MCP. The systems of --system are loaded beside it.
    fn serve(self: &Arc<Self>) -> Result<Exit, Trouble> {
        serve_stdio(|| {
            let session = self.session()?;
            if let Ok(text) = &session.text {
                // Where it cannot watch, every question looks at the files itself.
                text.watch();
            }
            if self.options.project.any() {
                let (shell, session) = (Arc::clone(self), session.clone());
                std::thread::spawn(move || {
                    if let Err(trouble) = shell.options.project.load(&session, &shell.output) {
                        shell.output.complain(&trouble.message);
                    }
                });
            }
            Ok::<_, Trouble>(session)
        })
        .map(|()| Exit::Answered)
    }

    fn run(self: &Arc<Self>, command: &Command) -> Result<Exit, Trouble> {
        match command {
            Command::DescribeSymbol(symbol) => symbol.run("describe-symbol", self),
            Command::WhoCalls(symbol) => symbol.run("who-calls", self),
            Command::WhoReferences(symbol) => symbol.run("who-references", self),
            Command::WhoBinds(symbol) => symbol.run("who-binds", self),
            Command::WhoSets(symbol) => symbol.run("who-sets", self),
            Command::WhoMacroexpands(symbol) => symbol.run("who-macroexpands", self),
            Command::WhoSpecializes(symbol) => symbol.run("who-specializes", self),
            Command::CodeFindReferences(command) => command.run(self),
            Command::FindDefinition(symbol) => symbol.run("find-definition", self),
            Command::LoadSystem(command) => command.run(self),
            Command::ListSystems(command) => command.run(self),
            Command::FindReferences(command) => command.run(self),
            Command::Index(command) => command.run(self),
            Command::Tools(command) => command.run(self),
            Command::Call(command) => command.run(self),
            Command::Doctor(command) => command.run(self),
            Command::Serve => self.serve(),
        }
    }
}

/// Runs the program on the process's arguments.
pub fn main(embedded: Embedded) -> ExitCode {
    let line = match Line::try_parse() {
        Ok(line) => line,
        Err(error) => {
            // Nothing can be said if nobody listens.
            let _ = error.print();
            return exit_code(if error.use_stderr() { Exit::Usage } else { Exit::Answered });
        }
    };
    let shell = Arc::new(Shell {
        output: Output::new(line.options.no_color),
        options: line.options,
        installation: installation::find(embedded),
    });
    match shell.run(&line.command) {
        Ok(exit) => exit_code(exit),
        Err(trouble) => {
            shell.output.complain(&trouble.message);
            exit_code(trouble.exit)
        }
    }
}

fn exit_code(exit: Exit) -> ExitCode {
    ExitCode::from(exit as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Line::command().debug_assert();
    }
}
