//! The command line: parses arguments, builds a [`Session`], runs one subcommand and returns its
//! exit code.
//!
//! Most subcommands are generated in `commands` from the schemas of [`crate::tools`]. They call the
//! tool with the given arguments and print its answer. Most of the other subcommands (`serve`,
//! `lsp`, `index`, `doctor` and so on) are in one file each. `Shell` holds their common state: the
//! global options, the terminal and the SBCL installation. Commands return an `Exit` or a
//! `CommandError`, which [`main`] prints and turns into the exit code. Only this module and
//! `main.rs` print.

mod cache;
mod call;
mod commands;
mod complete;
mod config;
mod doctor;
mod export;
mod helper;
mod here;
mod host;
#[cfg(feature = "http")]
mod http;
mod images;
mod index;
mod installation;
mod lists;
mod lsp;
mod output;
mod progress;
mod project;
mod serve;
mod share;
mod snapshot;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::answer::Wording;
use crate::answer::nearest;
use crate::doors::mcp::ServeError;
use crate::engine::reexecute;
use crate::handle::Error;
use crate::handle::recovery::LoadedItem;
use crate::tools::{Blame, Failure, Permissions, Session};
use crate::{Builder, Installation, Steelbank};
use output::Terminal;

/// A load for which a command reports why no snapshot replaces it.
const SLOW_LOAD: Duration = Duration::from_secs(1);

/// The exit codes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Answered = 0,
    NotFound = 1,
    Usage = 2,
    Engine = 3,
}

impl Exit {
    /// Returns the exit code for a client that disconnected. The Language Server Protocol requires
    /// an error code if the editor sent no `shutdown` request (`well` is `false`).
    fn of_editor(well: bool) -> Self {
        if well { Self::Answered } else { Self::NotFound }
    }
}

/// A failed command: the message for standard error and the exit code.
#[derive(Debug)]
struct CommandError {
    exit: Exit,
    message: String,
}

impl From<Error> for CommandError {
    fn from(error: Error) -> Self {
        Failure::from(error).into()
    }
}

impl From<Failure> for CommandError {
    fn from(failure: Failure) -> Self {
        let exit = match failure.blame {
            Blame::Arguments => Exit::Usage,
            Blame::Engine => Exit::Engine,
        };
        Self { exit, message: failure.worded(Wording::CommandLine) }
    }
}

/// Converts I/O errors of streams, sockets and files. [`Terminal`] converts write errors itself.
impl From<std::io::Error> for CommandError {
    fn from(error: std::io::Error) -> Self {
        Self { exit: Exit::Engine, message: format!("An operating system call failed: {error}.") }
    }
}

impl From<ServeError> for CommandError {
    fn from(error: ServeError) -> Self {
        Self { exit: Exit::Engine, message: error.to_string() }
    }
}

const BRIEF: &str = "\
`steelbank` without a command reports what it finds in this project and suggests commands. `steelbank --help` has examples and exit codes; `steelbank COMMAND --help` describes a command.";

const EXAMPLES: &str = "\
Examples:
  steelbank describe-symbol mapcar
  steelbank who-calls mapcar --package cl | head
  steelbank who-references '*print-base*' --package cl --json
  steelbank call who-calls '{\"name\": \"cl:mapcar\", \"limit\": 10}'
  steelbank --system my-app code-find-references my-app:run
  steelbank find-references CacheManager --glob 'src/**'
  steelbank --system my-app serve    what an MCP host runs

Exit codes: 0 success, 1 not found, 2 wrong usage, 3 the engine failed, or a system of --system did not load.
`index --status` exits with 1 if the index is stale or missing.
STEELBANK_HOME: a folder with libsteelbank-sbcl.so, steelbank.core, steelbank.xref and contrib/, used in place of the SBCL
inside the program (only that SBCL needs /proc). The build writes these files to target/release/build/steelbank-*/out/image.
STEELBANK_CACHE: the cache folder. If it is not writable, a temporary folder is used.
.steelbank.toml in the project's folder: systems = [\"NAME\", ...] for --system auto, tools = \"core\" for serve.
~/.config/steelbank/config.toml: tools, and allow = [\"edits\", \"eval\"], the permissions of serve.";

/// Common Lisp code intelligence from the SBCL inside this program: describes symbols and finds
/// their uses
#[derive(Debug, Parser)]
#[command(name = "steelbank", version, after_help = BRIEF, after_long_help = EXAMPLES, max_term_width = 100)]
struct CommandLine {
    #[command(flatten)]
    options: GlobalOptions,
    #[command(subcommand)]
    command: Option<Command>,
}

/// The heading of the options that every subcommand takes.
const GLOBAL: &str = "Global options";

/// The options of every subcommand.
#[derive(Debug, Args)]
struct GlobalOptions {
    /// Limit the size of Lisp's heap
    #[arg(long, global = true, help_heading = GLOBAL, display_order = 904, value_name = "MB", value_parser = clap::value_parser!(u64).range(128..=1_048_576))]
    dynamic_space_size: Option<u64>,
    /// Print the structured answer as JSON
    #[arg(long, global = true, help_heading = GLOBAL, display_order = 905)]
    json: bool,
    /// Print nothing on standard output; only the exit code reports the result
    #[arg(long, short, global = true, help_heading = GLOBAL, display_order = 905, conflicts_with = "json")]
    quiet: bool,
    /// Print without colours, even on a terminal
    #[arg(long, global = true, help_heading = GLOBAL, display_order = 906)]
    no_color: bool,
    #[command(flatten)]
    project: project::ProjectOptions,
    #[command(flatten)]
    text: index::TextOptions,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build the index of the project's text, keep it up to date, or report whether it is fresh
    Index(index::IndexCommand),
    /// List the tools that the MCP server offers
    Tools,
    /// Call one of the MCP server's tools
    Call(call::CallTool),
    /// Check this installation and print its components
    Doctor,
    /// Serve MCP on standard input and output until the client disconnects, or over HTTP
    Serve(Serve),
    /// Serve an editor over the Language Server Protocol on standard input and output
    Lsp(lsp::LspCommand),
    /// Write a SCIP index of the project for code-search engines
    Scip(export::ScipCommand),
    /// Write the project as a web site: symbols, files, callers, unused code, tests
    Site(export::SiteCommand),
    /// Save the project's image with the systems of --system loaded, for faster starts
    Snapshot,
    /// List the contents of the cache, or clear it
    Cache(cache::Cache),
    /// Print a completion script for a shell: bash, zsh, fish, elvish or powershell
    Completions {
        /// The shell's name
        shell: clap_complete::Shell,
    },
    /// Print the manual page of the program or of one command
    Man {
        /// The command's name
        command: Option<String>,
    },
    /// Print the licences of the program's components
    Licenses,
    /// Run as a helper process, with tasks from standard input; only steelbank itself starts this
    /// command
    #[command(hide = true)]
    Helper,
}

#[derive(Debug, Args)]
struct Serve {
    /// Allow clients to evaluate code
    #[arg(long)]
    allow_eval: bool,
    /// Allow clients to change the project's files
    #[arg(long)]
    allow_edits: bool,
    /// The descriptor of a memory file with the clients and loads to resume. The program passes it
    /// to itself when it restarts in place
    #[arg(long, hide = true, value_name = "FD")]
    restarted_from: Option<i32>,
    /// The tools to offer: all, core (the minimum for an agent), read (read-only tools), or names.
    /// Other tools are then unavailable [default: .steelbank.toml, else config.toml, else the tools
    /// for daily use; calls of other tools also work]
    #[arg(long, value_name = "all|core|read|NAME,...")]
    tools: Option<String>,
    /// Share one Lisp with other processes that serve this project with --share. The first client
    /// starts that Lisp, which ends ten seconds after the last client disconnects
    #[arg(long)]
    share: bool,
    /// Serve over HTTP instead of standard input and output. At a port of this machine (0 selects a
    /// free port), clients need a bearer token; standard error names its file. A Unix socket serves
    /// processes of this user. All clients share one Lisp, also with clients of --share
    #[cfg(feature = "http")]
    #[arg(long, value_name = "127.0.0.1:PORT|unix:PATH", conflicts_with_all = ["share", "host"])]
    http: Option<crate::doors::mcp::http::HttpAddress>,
    /// Accept connections from SLIME or Sly into the same Lisp: load your own Swank or Slynk and
    /// listen on this port of 127.0.0.1. 0 selects a free port, which standard error and status
    /// report. Needs --allow-eval
    #[arg(long, value_name = "PORT")]
    swank: Option<u16>,
    /// Run as the host of the shared image with this name
    #[arg(long, hide = true, value_name = "NAME", conflicts_with = "share")]
    host: Option<String>,
    /// Keep the shared image for this many seconds after its last client disconnects
    #[arg(long, hide = true, value_name = "SECONDS", default_value_t = 10)]
    linger: u64,
}

/// The licence notices of the linked libraries, generated by `cargo xtask licenses`.
const NOTICES: &str = include_str!("../../../vendor-notes/licenses.txt");

/// The running program. The path stays valid after the file is replaced.
const PROGRAM: &str = "/proc/self/exe";

/// The context of commands: options, terminal and installation.
struct Shell {
    options: GlobalOptions,
    installation: Installation,
    output: Terminal,
}

impl Shell {
    /// Returns a builder with the global options, but without a project.
    fn builder(&self) -> Builder {
        let builder =
            Steelbank::builder().installation(self.installation.clone()).program(PathBuf::from(PROGRAM));
        let builder = builder.program_options(self.options.project.sbcl_options());
        match self.options.dynamic_space_size {
            Some(megabytes) => {
                builder.dynamic_space_size(usize::try_from(megabytes << 20).unwrap_or(usize::MAX))
            }
            None => builder,
        }
    }

    /// Creates the session of a command. SBCL and the text index start at the first call that needs
    /// them. `watch` enables watching of the project's files.
    fn session(&self, watch: bool) -> Result<Session, CommandError> {
        self.session_of(watch, self.options.project.loads())
    }

    /// Creates a session that starts from the snapshot of `loads`, if it is up to date.
    fn session_of(&self, watch: bool, loads: Vec<LoadedItem>) -> Result<Session, CommandError> {
        let root = self.options.project.root()?;
        let (project, named) = (self.options.project.clone(), Arc::clone(&root));
        let builder =
            self.builder().loads(loads).watching(watch).brief(!watch).snapshots(project.snapshots());
        let builder = builder.failed_snapshot(project.failed_snapshot());
        let start = move || match project.settings(&named) {
            Some(settings) => builder.project(settings).launch(),
            None => builder.launch(),
        };
        let (text, named) = (self.options.text, Arc::clone(&root));
        let open = move || {
            let index = text.open(&named.folder().ok_or_else(project::no_project)?)?;
            if watch {
                // Ignore a failure: without a watcher, every call checks the files itself.
                index.watch();
            }
            Ok::<_, Failure>(index)
        };
        Ok(Session::starting(start).with_text(open).with_project(root))
    }

    /// Creates the session and loads the systems of --system. Also returns the exit code of the
    /// loads.
    fn loaded_session(&self) -> Result<(Session, Exit), CommandError> {
        let session = self.session(false)?.allowing(Permissions::ALL);
        if self.options.project.any() {
            session.bank()?.trust_restored_loads();
        }
        let loaded = self.options.project.load(&session, &self.output)?;
        if self.options.project.any()
            && let bank = session.bank()?
            && bank.load_time() > SLOW_LOAD
            && let Some(why) = bank.refused_snapshot()
        {
            self.output.error(&format!(
                "Each command loads the systems again ({:.1} s), because no snapshot can be saved. {why} `steelbank serve` \
                 and `steelbank lsp` load them once; commands ask a running `serve --share`.",
                bank.load_time().as_secs_f64()
            ));
        }
        Ok((session, loaded))
    }

    /// Prints a manual page.
    fn man(&self, command: Option<&str>) -> Result<Exit, CommandError> {
        let mut line = command_line();
        line.build();
        let page = match command {
            None => line,
            Some(name) => match line.find_subcommand(name) {
                Some(found) => found.clone().name(format!("steelbank-{name}")),
                None => {
                    let known: Vec<&str> = line.get_subcommands().map(clap::Command::get_name).collect();
                    let near = nearest::among(name, known.iter().copied());
                    let meant = near.first().map(|near| format!(" Did you mean {near}?")).unwrap_or_default();
                    let message = format!("There is no command {name:?}.{meant}");
                    return Err(CommandError { exit: Exit::Usage, message });
                }
            },
        };
        let mut text = Vec::new();
        clap_mangen::Man::new(page).render(&mut text)?;
        self.output.bytes(&text)?;
        Ok(Exit::Answered)
    }

    fn run(self: &Arc<Self>, matches: &ArgMatches) -> Result<Exit, CommandError> {
        // Create and protect the cache folder, except for commands that do not read it.
        if !matches!(matches.subcommand_name(), Some("completions" | "man" | "tools"))
            && let Some(cache) = installation::cache()
        {
            steelbank_cache::claim(&cache).map_err(Error::from)?;
        }
        if let Some((name, matches)) = matches.subcommand()
            && let Some(tool) = commands::tool(name)
        {
            let mut arguments = commands::arguments(tool, matches);
            if let Some(root) = self.options.project.root()?.folder() {
                commands::name_from_root(tool, &mut arguments, &root);
            }
            if name == "check"
                && let [system] = self.options.project.systems()
            {
                // If --system names one system, pass it to the tool, which loads it only in the
                // scratch image.
                arguments.insert("system".to_owned(), system.as_str().into());
                let session = self.session(false)?.allowing(Permissions::ALL);
                let answer = call::call_with_progress(tool, &session, arguments)?;
                return call::print_with_exit(self, &answer);
            }
            if let Ok(Some(file)) = matches.try_get_one::<PathBuf>(commands::SVG) {
                arguments.insert("format".to_owned(), "svg".into());
                return call::drawn(self, tool, arguments, file);
            }
            return call::call(self, tool, arguments, lists::requested(matches));
        }
        if matches.subcommand_name().is_none() {
            return here::run(self);
        }
        match Command::from_arg_matches(matches).map_err(|error| wrong_usage(&error))? {
            Command::Index(command) => command.run(self),
            Command::Tools => call::list(self),
            Command::Call(command) => command.run(self),
            Command::Doctor => doctor::run(self),
            Command::Lsp(command) => command.run(self),
            Command::Serve(command) => command.run(self),
            Command::Scip(command) => command.run(self),
            Command::Site(command) => command.run(self),
            Command::Snapshot => snapshot::run(self),
            Command::Cache(command) => command.run(self),
            Command::Completions { shell } => {
                self.output.bytes(&complete::script(shell)?)?;
                Ok(Exit::Answered)
            }
            Command::Man { command } => self.man(command.as_deref()),
            Command::Licenses => {
                self.output.bytes(NOTICES.as_bytes())?;
                Ok(Exit::Answered)
            }
            Command::Helper => helper::run(self),
        }
    }
}

/// Suggests the existing commands with the most similar names, best first. clap's suggestions are
/// in alphabetical order.
fn suggest_nearest(error: &mut clap::Error) {
    if let Some(ContextValue::String(asked)) = error.get(ContextKind::InvalidSubcommand) {
        let line = command_line();
        let known: Vec<&str> = line.get_subcommands().map(clap::Command::get_name).collect();
        let near = nearest::among(asked, known);
        let _ = match near.is_empty() {
            true => error.remove(ContextKind::SuggestedSubcommand),
            false => error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near)),
        };
    }
}

fn wrong_usage(error: &clap::Error) -> CommandError {
    CommandError { exit: Exit::Usage, message: error.to_string() }
}

/// Builds the command line: a subcommand for each tool, and the other subcommands.
fn command_line() -> clap::Command {
    CommandLine::command().subcommands(commands::all())
}

/// Runs the program on the process's arguments.
pub fn main() -> ExitCode {
    // Block Lisp's signals before other threads start, because threads inherit the mask.
    crate::engine::reset_signal_actions();
    crate::engine::block_lisp_signals();
    crate::engine::ignore_file_size_signal();
    if let Some(exit) = complete::for_shell() {
        return exit_code(exit);
    }
    let parsed = command_line().try_get_matches().and_then(|matches| {
        let options = GlobalOptions::from_arg_matches(&matches)?;
        Ok((matches, options))
    });
    let (matches, options) = match parsed {
        Ok(parsed) => parsed,
        Err(mut error) => {
            suggest_nearest(&mut error);
            // Ignore a closed standard error, because the message has no other destination.
            let _ = error.print();
            return exit_code(if error.use_stderr() { Exit::Usage } else { Exit::Answered });
        }
    };
    let output = Terminal::new(options.no_color, options.quiet);
    let mut options = options;
    match options.project.resolve_auto_systems() {
        Err(trouble) if !matches!(matches.subcommand_name(), Some("serve" | "lsp")) => {
            output.error(&trouble.message);
            return exit_code(trouble.exit);
        }
        resolved => config::or_default(resolved, &mut options.project.config_errors),
    }
    let installation = options.project.image().and_then(|image| installation::find(image.as_ref()));
    let installation = match installation {
        Ok(installation) => installation,
        Err(trouble) => {
            output.error(&trouble.message);
            return exit_code(trouble.exit);
        }
    };
    let shell = Arc::new(Shell { output, options, installation });
    if !matches!(matches.subcommand_name(), Some("helper" | "completions" | "man"))
        && let Some(caution) = installation::caution()
    {
        shell.output.error(caution);
    }
    let origin = serve::process_start();
    let outcome = shell.run(&matches);
    let without = Steelbank::get().and_then(|bank| serve::without_failed_snapshot(&bank));
    match (outcome, without) {
        (Ok(exit), _) => exit_code(exit),
        // No answer has been printed yet, so restart without the failed snapshot.
        (Err(trouble), Some(without)) if trouble.exit == Exit::Engine => {
            let mut origin = origin;
            origin.arguments.insert(1.min(origin.arguments.len()), without);
            let error = reexecute(Path::new(PROGRAM), &origin, &[]);
            shell.output.error(&format!("{} Restarting the program failed: {error}.", trouble.message));
            exit_code(trouble.exit)
        }
        (Err(trouble), _) => {
            shell.output.error(&trouble.message);
            exit_code(trouble.exit)
        }
    }
}

fn exit_code(exit: Exit) -> ExitCode {
    ExitCode::from(exit as u8)
}

#[cfg(test)]
mod tests;
