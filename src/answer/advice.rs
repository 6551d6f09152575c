//! Advice: the next step to take about an answer or an error. Advice can be worded for tools and
//! their arguments, or for commands and their options.

/// Whether advice names tools or commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wording {
    /// Tools and their arguments.
    #[default]
    Tools,
    /// Commands and their options.
    CommandLine,
}

/// The next step to take about an answer or an error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// Specify the project.
    SetProject,
    /// Specify the project, or search all files.
    SetProjectOrSearchAll,
    /// Search all files, to list uses that were only counted.
    ListAll,
    /// Search the text, to list places that were only counted.
    ListText,
    /// Narrow a search, or force it. Holds the files with the most references and their counts.
    Narrow(Vec<(String, u64)>),
    /// Specify the changes.
    SpecifyChanges,
    /// Load the project's systems.
    Load,
    /// Specify the system to test.
    SpecifySystem,
    /// Load the system of this name, or specify a file.
    LoadOrGivePath(String),
    /// Reload an edit into the image, and remove the definitions that it deleted.
    Reload,
    /// Reload the changed files into the image.
    ReloadImage,
    /// Compile and load everything again after an edit, because ASDF would not recompile all files.
    ForceLoad,
    /// Remove definitions from the image that are no longer in their files.
    RemoveLeftovers,
    /// Undo the rename with this number.
    UndoRename(String),
    /// Wait for the outcome of the rename with this number. Only tools need this: a command waits
    /// until the rename has finished.
    WaitForRename(String),
    /// Undo the refactoring with this number.
    UndoRefactoring(String),
    /// Wait for the outcome of the refactoring with this number.
    WaitForRefactoring(String),
    /// Apply a plan.
    Apply,
    /// Rename words in text that is not Lisp, too.
    IncludeText,
    /// Apply the rename without verifying it.
    SkipVerifying,
    /// Retry: Lisp is starting again.
    Retry,
    /// Restart Lisp, which is no longer restarted automatically.
    RestartLisp,
    /// Restart the program.
    RestartProgram,
}

impl Advice {
    /// Appends the advice to the sentence `why`.
    pub fn added_to(&self, why: &str, wording: Wording) -> String {
        let advice = self.worded(wording);
        match self {
            Self::Retry | Self::RestartLisp | Self::RestartProgram => {
                format!("{}; {advice}", why.trim_end_matches('.'))
            }
            _ => format!("{why} {advice}"),
        }
    }

    /// Returns the advice: one or two sentences. Advice about a dead Lisp is a clause that
    /// continues a sentence.
    pub fn worded(&self, wording: Wording) -> String {
        let (tools, shell) = match self {
            Self::SetProject => (
                "Start steelbank with --project DIR, or in a folder with an .asd file or .git (or below it).",
                "Specify its folder with --project DIR.",
            ),
            Self::SetProjectOrSearchAll => (
                "Start steelbank with --project DIR, or pass project_only=false.",
                "Specify its folder with --project DIR, or pass --no-project-only.",
            ),
            Self::ListAll => {
                ("To list them, pass project_only=false.", "To list them, pass --no-project-only.")
            }
            Self::ListText => {
                ("To list them, call find_references.", "To list them, run steelbank find-references.")
            }
            Self::Narrow(densest) => return narrow(densest, wording),
            Self::SpecifyChanges => (
                "Give at least one of names, paths or diff=true.",
                "Give at least one of names, --paths or --diff.",
            ),
            Self::Load => ("To load it, call load-system.", "To load it first, pass --system NAME."),
            Self::SpecifySystem => ("Specify one with system.", "Specify one: steelbank run-tests SYSTEM."),
            Self::LoadOrGivePath(system) => {
                return match wording {
                    Wording::Tools => "Load it with load-system, or give a path.".to_owned(),
                    Wording::CommandLine => format!("Load it with --system {system}, or give a path."),
                };
            }
            Self::Reload => (
                "The running image still has the old code: call reload with remove=true.",
                "A running server still has the old code: there, call reload with remove=true.",
            ),
            Self::ReloadImage => (
                "The image is older than these files: call reload to update it.",
                "The image is older than these files.",
            ),
            Self::ForceLoad => (
                "The running image still has the old code: call load-system with force=true, because ASDF does not recompile every file that the edit affects.",
                "ASDF does not recompile every file that the edit affects: run `steelbank load-system --force`.",
            ),
            Self::RemoveLeftovers => (
                "To delete them from the image, call reload with remove=true.",
                "To delete them from the image, pass --remove.",
            ),
            Self::UndoRename(number) => return undo("rename", number, wording),
            Self::UndoRefactoring(number) => return undo("refactor", number, wording),
            Self::WaitForRename(number) => return wait_for("rename", number),
            Self::WaitForRefactoring(number) => return wait_for("refactor", number),
            Self::IncludeText => (
                "Not changed; include=[\"text\"] renames them, too.",
                "Not changed; --include text renames them, too.",
            ),
            Self::Apply => ("Plan only; apply it with apply=true.", "Plan only; apply it with --apply."),
            Self::SkipVerifying => (
                "To rename without verifying, pass verify: false.",
                "To rename without verifying, pass --no-verify.",
            ),
            Self::Retry => {
                let again = "Lisp is restarting: retry.";
                (again, again)
            }
            Self::RestartLisp => {
                let often = "Lisp is no longer restarted automatically: call restart-lisp.";
                (often, often)
            }
            Self::RestartProgram => {
                let restart = "restart steelbank to use Lisp again.";
                (restart, restart)
            }
        };
        let worded = match wording {
            Wording::Tools => tools,
            Wording::CommandLine => shell,
        };
        worded.to_owned()
    }
}

fn undo(tool: &str, number: &str, wording: Wording) -> String {
    match wording {
        Wording::Tools => format!("To undo: {tool} with undo={number:?}."),
        Wording::CommandLine => format!("To undo: steelbank {tool} --undo {number}"),
    }
}

fn wait_for(tool: &str, number: &str) -> String {
    format!("Nothing is written yet. For the outcome, call {tool} with wait={number:?}.")
}

fn narrow(densest: &[(String, u64)], wording: Wording) -> String {
    let mut text = match wording {
        Wording::Tools => "Narrow it with a longer pattern, lang, glob or exclude, or pass force=true.",
        Wording::CommandLine => {
            "Narrow it with a longer pattern, --lang, --glob or --exclude, or pass --force."
        }
    }
    .to_owned();
    if !densest.is_empty() {
        let shown: Vec<_> = densest.iter().take(5).map(|(path, count)| format!("{path} ({count})")).collect();
        text += &format!(" Most are in {}.", shown.join(", "));
    }
    text
}
