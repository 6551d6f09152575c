//! Advice: what can be done about an answer or an error, which each door words in its own terms.

/// The terms in which advice is worded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wording {
    /// Tools and their arguments.
    #[default]
    Tools,
    /// Commands and their options.
    CommandLine,
}

/// What can be done about an answer or an error.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Advice {
    /// Name the project.
    SetProject,
    /// Name the project, or search all files.
    SetProjectOrSearchAll,
    /// Search all files, to have uses listed that are counted only.
    ListAll,
    /// Search the text, to have places listed that are counted only.
    ListText,
    /// Narrow a search, or insist on it. Most references are in these files.
    Narrow(Vec<(String, u64)>),
    /// Say what changes.
    SayWhatChanges,
    /// Load the project's systems.
    Load,
    /// Name the system to test.
    NameSystem,
    /// Load the system, or name a file.
    LoadOrGivePath(String),
    /// Bring the image up to an edit, and take out what it removed.
    Reload,
    /// Bring the image up to the files.
    BringUpToDate,
    /// Compile and load all again after an edit: ASDF would not.
    LoadAnew,
    /// Take definitions that their files lack out of the image.
    RemoveLeftovers,
    /// Take the rename of this number back.
    UndoRename(String),
    /// Wait for the outcome of the rename of this number. At the command line there is none: a command waits for the end.
    WaitForRename(String),
    /// Have the rename written, which is planned only.
    Apply,
    /// Have words of text that is no Lisp renamed, too.
    IncludeText,
    /// Have the rename written without verifying it.
    SkipVerifying,
    /// Ask again: Lisp is being started.
    AskAgain,
    /// Have Lisp started again, which has died too often.
    RestartLisp,
    /// Start the program again.
    RestartProgram,
}

impl Advice {
    /// Adds the advice to the sentence `why`.
    pub fn added_to(&self, why: &str, wording: Wording) -> String {
        let advice = self.worded(wording);
        match self {
            Self::AskAgain | Self::RestartLisp | Self::RestartProgram => {
                format!("{}; {advice}", why.trim_end_matches('.'))
            }
            _ => format!("{why} {advice}"),
        }
    }

    /// Words the advice as a sentence or two; about a dead Lisp, as the end of one.
    pub fn worded(&self, wording: Wording) -> String {
        let (tools, shell) = match self {
            Self::SetProject => (
                "Start steelbank with --project DIR, or below a folder with an .asd file or a .git.",
                "Name its folder with --project DIR.",
            ),
            Self::SetProjectOrSearchAll => (
                "Start steelbank with --project DIR, or pass project_only=false.",
                "Name its folder with --project DIR, or pass --no-project-only.",
            ),
            Self::ListAll => {
                ("To list them, pass project_only=false.", "To list them, pass --no-project-only.")
            }
            Self::ListText => {
                ("To list them, call find_references.", "To list them: steelbank find-references.")
            }
            Self::Narrow(densest) => return narrow(densest, wording),
            Self::SayWhatChanges => (
                "Say what changes: names, paths, or diff=true.",
                "Say what changes: names, --paths, or --diff.",
            ),
            Self::Load => ("To load it, call load-system.", "To load it first, pass --system NAME."),
            Self::NameSystem => ("Name one with system.", "Name one: steelbank run-tests SYSTEM."),
            Self::LoadOrGivePath(system) => {
                return match wording {
                    Wording::Tools => "Load it with load-system, or give a path.".to_owned(),
                    Wording::CommandLine => format!("Load it with --system {system}, or give a path."),
                };
            }
            Self::Reload => (
                "The running image still has the old name: call reload with remove=true.",
                "A running server still has the old name: there, call reload with remove=true.",
            ),
            Self::BringUpToDate => (
                "The image is older than these: reload brings it up to date.",
                "The image is older than these.",
            ),
            Self::LoadAnew => (
                "The running image still has the old name: call load-system with force=true, for ASDF does not compile again all that knows the name.",
                "ASDF does not compile again all that knows the name: `steelbank load-system --force` does.",
            ),
            Self::RemoveLeftovers => (
                "To delete them from the image: reload with remove=true.",
                "To delete them from the image: --remove.",
            ),
            Self::UndoRename(number) => {
                return match wording {
                    Wording::Tools => format!("To undo: rename with undo={number:?}."),
                    Wording::CommandLine => {
                        format!("To undo: steelbank rename --undo {number}")
                    }
                };
            }
            Self::WaitForRename(number) => {
                return format!("Nothing is written yet. For the outcome: rename with wait={number:?}.");
            }
            Self::IncludeText => (
                "Left as they are; include=[\"text\"] edits them.",
                "Left as they are; --include text edits them.",
            ),
            Self::Apply => ("Plan only. To write it: apply=true.", "Plan only. To write it: --apply."),
            Self::SkipVerifying => (
                "To rename without verifying, pass verify: false.",
                "To rename without verifying, pass --no-verify.",
            ),
            Self::AskAgain => {
                let again = "it is being started again: ask again.";
                (again, again)
            }
            Self::RestartLisp => {
                let often = "it died too often to be started again by itself: call restart-lisp.";
                (often, often)
            }
            Self::RestartProgram => {
                let restart = "restart steelbank to ask Lisp again.";
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
