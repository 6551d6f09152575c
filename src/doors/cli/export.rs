//! `steelbank scip` and `steelbank site`: load the project and export it as a SCIP index or as a
//! web site.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::progress::Bar;
use super::project::{SYSTEM_SECONDS, no_project};
use super::{CommandError, Exit, Shell};
use crate::answer::{Wording, counted};
use crate::engine::{StartError, end_children_at_signals};
use crate::export::ExportError;
use crate::export::output::{Output, remove_unfinished};
use crate::export::scip::{ScipFormat, ScipSummary, write_scip};
use crate::export::site::{check_folder, write_site};
use crate::handle::Error;
use crate::handle::loaded::{Diagnostic, LoadStatus};
use crate::handle::recovery::LoadedItem;
use crate::{Control, LoadRequest, Steelbank};

#[derive(Debug, Args)]
pub(super) struct ScipCommand {
    /// The file to write; - is standard output [default: index.scip or index.scip.json]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The output format: protobuf, as code-search engines read it, or JSON
    #[arg(long, value_enum, default_value_t = ScipForm::Protobuf)]
    format: ScipForm,
}

#[derive(Debug, Args)]
pub(super) struct SiteCommand {
    /// The folder to write; it must be new, empty, or written by this command before
    #[arg(long, short, value_name = "DIR", default_value = "site")]
    output: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ScipForm {
    Protobuf,
    Json,
}

impl From<ExportError> for CommandError {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Question(error) => error.into(),
            ExportError::Foreign(_) => Self { exit: Exit::Usage, message: error.to_string() },
            error => Self { exit: Exit::Engine, message: error.to_string() },
        }
    }
}

/// A project loaded for export.
struct LoadedProject {
    bank: Steelbank,
    diagnostics: Vec<Diagnostic>,
    complete: bool,
}

impl LoadedProject {
    /// Loads the systems of --system, or else all systems of the project. Does not start from a
    /// snapshot, because a snapshot has no compiler diagnostics.
    fn load(shell: &Shell, bar: &Bar) -> Result<Self, CommandError> {
        let options = &shell.options.project;
        if options.root()?.folder().is_none() {
            let message = no_project().worded(Wording::CommandLine);
            return Err(CommandError { exit: Exit::Usage, message });
        }
        let bank = shell.session_of(false, Vec::new())?.bank()?.clone();
        let mut loads = options.loads();
        if loads.is_empty() {
            loads.push(LoadedItem::Project);
        }
        let mut loaded = Self { bank, diagnostics: Vec::new(), complete: true };
        for order in loads {
            let request = match order {
                LoadedItem::Project => LoadRequest::project(),
                LoadedItem::System(name) => LoadRequest::system(name),
                LoadedItem::File(path) => LoadRequest::file(path),
            };
            let shown = bar.clone();
            let control = Control::new(Duration::from_secs(SYSTEM_SECONDS))
                .on_progress(move |news| shown.update(&news));
            let answer = loaded.bank.run(&request.failure_as_answer(), &control)?;
            if answer.status != LoadStatus::Loaded {
                shell.output.error(&answer.to_string());
                loaded.complete = false;
            }
            loaded.diagnostics.extend(answer.diagnostics);
        }
        Ok(loaded)
    }

    fn exit(&self) -> Exit {
        if self.complete { Exit::Answered } else { Exit::Engine }
    }
}

/// Makes signals that end the process remove its unfinished outputs first. Call this before SBCL
/// starts.
pub(super) fn remove_outputs_at_signals() -> Result<(), CommandError> {
    let ended = end_children_at_signals(remove_unfinished);
    Ok(ended.map_err(|error| Error::from(StartError::from(error)))?)
}

/// Returns the control for an export, with a time limit and with progress on `bar`.
fn control(bar: &Bar) -> Control {
    let shown = bar.clone();
    Control::new(Duration::from_secs(SYSTEM_SECONDS)).on_progress(move |news| shown.update(&news))
}

impl ScipCommand {
    pub(super) fn run(&self, shell: &Shell) -> Result<Exit, CommandError> {
        let (format, name) = match self.format {
            ScipForm::Protobuf => (ScipFormat::Protobuf, "index.scip"),
            ScipForm::Json => (ScipFormat::Json, "index.scip.json"),
        };
        let path = self.output.clone().unwrap_or_else(|| PathBuf::from(name));
        let bar = Bar::new();
        if path == Path::new("-") {
            let project = LoadedProject::load(shell, &bar)?;
            let mut out = BufWriter::new(std::io::stdout().lock());
            let summary = write_scip(&project.bank, format, &project.diagnostics, &mut out, &control(&bar))?;
            bar.end();
            print_summary(shell, &summary, None);
            return Ok(project.exit());
        }
        remove_outputs_at_signals()?;
        // Create the file before the load, which may take minutes and be in vain.
        let (output, file) = Output::file(&path).map_err(ExportError::write(&path))?;
        let written = LoadedProject::load(shell, &bar).and_then(|project| {
            let mut out = BufWriter::new(&file);
            let written = write_scip(&project.bank, format, &project.diagnostics, &mut out, &control(&bar));
            let summary = written.map_err(|error| match error {
                ExportError::Write { source, .. } => ExportError::Write { path: path.clone(), source },
                error => error,
            })?;
            let finished = out.flush().and_then(|()| file.sync_all()).and_then(|()| output.finish());
            finished.map_err(ExportError::write(&path))?;
            Ok((project, summary))
        });
        bar.end();
        let (project, summary) = written?;
        print_summary(shell, &summary, Some(&path));
        Ok(project.exit())
    }
}

impl SiteCommand {
    pub(super) fn run(&self, shell: &Shell) -> Result<Exit, CommandError> {
        // Lisp code may change the current folder.
        let folder = std::path::absolute(&self.output)?;
        check_folder(&folder)?;
        let bar = Bar::new();
        remove_outputs_at_signals()?;
        let project = LoadedProject::load(shell, &bar)?;
        let written = write_site(&project.bank, &folder, &control(&bar));
        bar.end();
        let summary = written?;
        shell.output.error(&format!(
            "{} for {} and {}, {:.1} MB from {:.1} MB of source: {}",
            counted(summary.pages, "page", "pages"),
            counted(summary.files, "file", "files"),
            counted(summary.symbols, "symbol", "symbols"),
            summary.bytes as f64 / 1e6,
            summary.source_bytes as f64 / 1e6,
            self.output.join("index.html").display()
        ));
        Ok(project.exit())
    }
}

/// Prints on standard error what was written and what was omitted.
fn print_summary(shell: &Shell, summary: &ScipSummary, path: Option<&Path>) {
    let written = format!(
        "{}, {} ({} external), {}, {}{}.",
        counted(summary.documents, "file", "files"),
        counted(summary.symbols, "symbol", "symbols"),
        summary.external_symbols,
        counted(summary.occurrences, "place", "places"),
        counted(summary.diagnostics, "diagnostic", "diagnostics"),
        path.map(|path| format!(" in {}", path.display())).unwrap_or_default()
    );
    shell.output.error(&written);
    if summary.uncertain + summary.generated + summary.stale > 0 {
        shell.output.error(&format!(
            "Omitted: {} that are uncertain, {} generated by macros without a token in the text; {} changed since the load.",
            counted(summary.uncertain, "place", "places"),
            counted(summary.generated, "use", "uses"),
            counted(summary.stale, "file", "files")
        ));
    }
}
