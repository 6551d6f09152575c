//! The command line. Each subcommand has a file; most of them call a tool of [`crate::tools`] and show its answer.
//!
//! Only this module and `main` read the environment and print.

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

use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::answer::Wording;
use crate::answer::nearest;
use crate::doors::mcp::ServeError;
use crate::engine::execute_again;
use crate::handle::Error;
use crate::handle::recovery::LoadedItem;
use crate::tools::{Blame, Failure, Permissions, Session};
use crate::{Builder, Installation, Steelbank};
use output::Terminal;

/// The exit codes of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Answered = 0,
    NotFound = 1,
    Usage = 2,
    Engine = 3,
}

impl Exit {
    /// The code for a client that has left, `well` or not: the Language Server Protocol wants another one for an editor that
    /// did not say goodbye.
    fn of_editor(well: bool) -> Self {
        if well { Self::Answered } else { Self::NotFound }
    }
}

/// A failed command: a sentence for standard error, and the exit code.
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

/// What the system refuses for streams, sockets and files; [`Terminal`] tells itself of answers that it cannot write.
impl From<std::io::Error> for CommandError {
    fn from(error: std::io::Error) -> Self {
        Self { exit: Exit::Engine, message: format!("The system refuses what this needs: {error}.") }
    }
}

impl From<ServeError> for CommandError {
    fn from(error: ServeError) -> Self {
        Self { exit: Exit::Engine, message: error.to_string() }
    }
}

const BRIEF: &str = "\
`steelbank` alone tells what it sees in this project, and what to try. `steelbank --help` has examples and exit codes; `steelbank COMMAND --help` tells what a command is for.";

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
`index --status` exits with 1 if the index is stale or missing.
STEELBANK_HOME, if set, names a folder with libsteelbank-sbcl.so, steelbank.core, steelbank.xref and contrib/ to use in
place of the SBCL inside the program, which needs /proc; the build leaves them in target/release/build/steelbank-*/out/image.
STEELBANK_CACHE names the cache folder; where it cannot be written, a temporary one stands in.
.steelbank.toml in the project's folder may have systems = [\"NAME\", ...], what --system auto loads, and tools = \"core\", what
serve offers; ~/.config/steelbank/config.toml may have tools, and allow = [\"edits\", \"eval\"], what serve permits.";

/// Common Lisp code intelligence: what a symbol is and who uses it, answered by the SBCL inside this program.
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

/// What every subcommand takes.
#[derive(Debug, Args)]
struct GlobalOptions {
    /// The most that Lisp's heap can grow to
    #[arg(long, global = true, help_heading = GLOBAL, display_order = 904, value_name = "MB", value_parser = clap::value_parser!(u64).range(128..=1_048_576))]
    dynamic_space_size: Option<u64>,
    /// Print the structured answer as JSON
    #[arg(long, global = true, help_heading = GLOBAL, display_order = 905)]
    json: bool,
    /// Print nothing on standard output: the exit code answers
    #[arg(long, short, global = true, help_heading = GLOBAL, display_order = 905, conflicts_with = "json")]
    quiet: bool,
    /// No colours, also on a terminal
    #[arg(long, global = true, help_heading = GLOBAL, display_order = 906)]
    no_color: bool,
    #[command(flatten)]
    project: project::ProjectOptions,
    #[command(flatten)]
    text: index::TextOptions,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Build the index of the project's text, watch the tree, or tell how old the index is
    Index(index::IndexCommand),
    /// List the tools that the MCP server offers
    Tools,
    /// Call one of the MCP server's tools
    Call(call::CallTool),
    /// Check this installation and show what it is made of
    Doctor,
    /// Serve MCP on standard input and output, until the client leaves, or over HTTP
    Serve(Serve),
    /// Serve an editor by the Language Server Protocol on standard input and output
    Lsp(lsp::LspCommand),
    /// Write an index of the project for code-search engines: SCIP
    Scip(export::ScipCommand),
    /// Write the project as pages to look at: symbols, files, callers, unused code, tests
    Site(export::SiteCommand),
    /// Save the project's image with the systems of --system loaded, so that the program starts ready
    Snapshot,
    /// List what the cache holds, or clear it
    Cache(cache::Cache),
    /// Print a completion script for a shell: bash, zsh, fish, elvish or powershell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page, of the program or of a command
    Man {
        /// The command
        command: Option<String>,
    },
    /// Print the licences of what the program is made of
    Licenses,
    /// What copies of the program are started as: it takes its orders on standard input
    #[command(hide = true)]
    Helper,
}

#[derive(Debug, Args)]
struct Serve {
    /// Let clients evaluate code that is no file's
    #[arg(long)]
    allow_eval: bool,
    /// Let clients change the project's files
    #[arg(long)]
    allow_edits: bool,
    /// The descriptor of what the image before this one of the same process hands over
    #[arg(long, hide = true, value_name = "FD")]
    restarted_from: Option<i32>,
    /// The tools to offer, and no others: all, core (the ones that an agent cannot do without), read (those that only
    /// look), or names [default: what .steelbank.toml says, else those that are needed daily; then others are answered, too]
    #[arg(long, value_name = "all|core|read|NAME,...")]
    tools: Option<String>,
    /// Share one Lisp with all others that serve this project with --share: the first starts it, and it ends ten seconds
    /// after the last has left
    #[arg(long)]
    share: bool,
    /// Serve over HTTP in place of the standard streams: at a port of this machine (0 is any that is free), for clients that
    /// show a token, whose file standard error names; or at a Unix socket, for this user's processes. They share one Lisp,
    /// also with --share
    #[cfg(feature = "http")]
    #[arg(long, value_name = "127.0.0.1:PORT|unix:PATH", conflicts_with_all = ["share", "host"])]
    http: Option<crate::doors::mcp::http::HttpAddress>,
    /// Let a person's editor into the same Lisp (SLIME, Sly): load your own Swank or Slynk, and listen on this port of
    /// 127.0.0.1, or on any that is free if it is 0, which standard error and status tell. Needs --allow-eval
    #[arg(long, value_name = "PORT")]
    swank: Option<u16>,
    /// The name of the image that this process keeps for others
    #[arg(long, hide = true, value_name = "NAME", conflicts_with = "share")]
    host: Option<String>,
    /// How many seconds the process that keeps the image stays after its last client
    #[arg(long, hide = true, value_name = "SECONDS", default_value_t = 10)]
    linger: u64,
}

/// The notices of what is linked into the program: `cargo xtask licenses` writes them.
const NOTICES: &str = include_str!("../../../vendor-notes/licenses.txt");

/// The running program, also when its file has been replaced.
const PROGRAM: &str = "/proc/self/exe";

/// The context of commands: options, terminal and installation.
struct Shell {
    options: GlobalOptions,
    installation: Installation,
    output: Terminal,
}

impl Shell {
    /// Makes the builder of an SBCL as the options say, without a project.
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

    /// Makes the session of a command. SBCL and the text index start when a call first needs them. With
    /// `watch`, the project is watched.
    fn session(&self, watch: bool) -> Result<Session, CommandError> {
        self.session_of(watch, self.options.project.loads())
    }

    /// Makes the same session from the snapshot of `loads`, if it is fresh.
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
            let index = text.open(&named.folder().ok_or_else(project::none_here)?)?;
            if watch {
                // Ignore a failure: without a watch, every question looks at the files itself.
                index.watch();
            }
            Ok::<_, Failure>(index)
        };
        Ok(Session::starting(start).with_text(open).with_project(root))
    }

    /// Makes the session and loads the systems of --system. False if some were not loaded.
    fn loaded_session(&self) -> Result<(Session, bool), CommandError> {
        let session = self.session(false)?.allowing(Permissions::ALL);
        if self.options.project.any() {
            session.bank()?.trust_restored_loads();
        }
        let complete = self.options.project.load(&session, &self.output)?;
        Ok((session, complete))
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
        // Let those commands pass that read nothing from the cache.
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
                // Name the system to the tool, which loads it in the scratch image alone.
                arguments.insert("system".to_owned(), system.as_str().into());
                let session = self.session(false)?.allowing(Permissions::ALL);
                let answer = call::followed(tool, &session, arguments)?;
                return call::told(self, &answer);
            }
            if let Ok(Some(file)) = matches.try_get_one::<PathBuf>(commands::SVG) {
                arguments.insert("format".to_owned(), "svg".into());
                return call::drawn(self, tool, arguments, file);
            }
            return call::call(self, tool, arguments, lists::asked(matches));
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

/// Suggests the commands that are nearest to one that does not exist, the nearest first: clap's own order is by letters.
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

/// Makes the whole command line: a subcommand for each tool, and the other ones.
fn command_line() -> clap::Command {
    CommandLine::command().subcommands(commands::all())
}

/// Runs the program on the process's arguments.
pub fn main() -> ExitCode {
    // Block the signals before other threads exist: they inherit the mask.
    crate::engine::handle_signals_by_default();
    crate::engine::block_lisp_signals();
    crate::engine::survive_file_size_limit();
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
            // Ignore a closed standard error: nobody would read the message.
            let _ = error.print();
            return exit_code(if error.use_stderr() { Exit::Usage } else { Exit::Answered });
        }
    };
    let output = Terminal::new(options.no_color, options.quiet);
    let mut options = options;
    if let Err(trouble) = options.project.name_own_systems() {
        output.error(&trouble.message);
        return exit_code(trouble.exit);
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
    let origin = serve::origin();
    let outcome = shell.run(&matches);
    let without = Steelbank::get().and_then(|bank| serve::without_failed_snapshot(&bank));
    match (outcome, without) {
        (Ok(exit), _) => exit_code(exit),
        // Nothing was answered yet: answer it from the base core.
        (Err(trouble), Some(without)) if trouble.exit == Exit::Engine => {
            let mut origin = origin;
            origin.arguments.insert(1.min(origin.arguments.len()), without);
            let error = execute_again(Path::new(PROGRAM), &origin, &[]);
            shell
                .output
                .error(&format!("{} The program could not be executed again: {error}.", trouble.message));
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
