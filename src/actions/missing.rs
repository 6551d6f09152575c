//! Builds the answers to requests that name a symbol, package, system, path or edit that does not
//! exist, or a pattern that matches nothing. All tools use the same message, suggestions and
//! remedies. `NotFoundReply` is the answer, and `of_error` turns "not found" errors into it.

use std::fmt::Write as _;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use crate::actions::symbols::apropos::{NoMatch, Widening};
use crate::answer::lookup::{Asked, LookupStatus, find_package, missing};
use crate::answer::{NotFound, counted, nearest};
use crate::engine::{ALLOWED, Control};
use crate::handle::{Error, Steelbank};
use crate::tools::call::{CallOutcome, Failure, ToolAnswer};
use crate::workspace::write::FileError;

/// An answer about something that may not exist.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LookupReply<T> {
    /// Whether it exists.
    pub(crate) found: bool,
    #[serde(flatten)]
    pub(crate) answer: Option<T>,
    /// The report that the requested thing does not exist. Omitted from the schemas: most answers
    /// have these fields, which would dominate many schemas.
    #[serde(flatten)]
    #[schemars(skip)]
    pub(crate) missing: Option<NotFoundReply>,
}

impl<T> LookupReply<T> {
    pub(crate) fn yes(answer: T) -> Self {
        Self { found: true, answer: Some(answer), missing: None }
    }
}

/// The report that something does not exist, in the form that all tools use.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct NotFoundReply {
    /// The sentence that reports what is missing.
    message: String,
    /// Similar names, or symbols with the same name in other packages. For an edit: the edits that
    /// can be undone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suggestions: Vec<String>,
    /// Further information, such as the system to load, or unloaded files that contain the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// Suggested next steps.
    #[serde(skip_serializing_if = "Vec::is_empty", rename = "try")]
    remedies: Vec<String>,
    /// Whether the text form includes the remedies. The JSON form always includes them.
    #[serde(skip)]
    advises: bool,
}

impl NotFoundReply {
    /// Builds the answer for the missing symbol or package `asked`.
    pub(crate) fn new(bank: &Steelbank, asked: &Asked, status: LookupStatus, note: Option<String>) -> Self {
        let index = &bank.index();
        let system = Some(asked.package.to_lowercase()).filter(|system| {
            status == LookupStatus::NoPackage
                && bank.loaded_systems().is_empty()
                && systems(bank).contains(system)
        });
        let to_load = system.map(|system| {
            format!(
                "{system} is a system of this project that is not loaded. Load it with load-system, or with \
                --system {system} on the command line."
            )
        });
        let note: Vec<String> = to_load.into_iter().chain(note).collect();
        let note = (!note.is_empty()).then(|| note.join(" "));
        let uninterned = status == LookupStatus::Uninterned;
        let bare = asked.name.strip_prefix("#:").filter(|_| uninterned).unwrap_or(&asked.name);
        let suggestions = bank.project().with_read_symbols(|read| {
            let elsewhere = nearest::in_other_packages(index, read, bare);
            match status {
                _ if !elsewhere.is_empty() => elsewhere,
                LookupStatus::NoPackage => nearest::packages(index, &asked.package),
                _ => nearest::names(index, read, bare, find_package(index, &asked.package)),
            }
        });
        let load = "Load the system that defines it (load-system), or correct the name.";
        let mut remedies =
            if suggestions.is_empty() || note.is_some() { vec![load.to_owned()] } else { Vec::new() };
        let package = find_package(index, &asked.name).filter(|_| status == LookupStatus::NoSymbol);
        if let Some(package) = package {
            let name = index.package_name(package);
            remedies = vec![format!("{name} is a package: use package-info.")];
        }
        if uninterned {
            let what = "Uninterned symbols cannot be looked up, because they are in no package. Give the name of an \
                interned symbol.";
            remedies = vec![what.to_owned()];
        }
        Self {
            message: missing(&shortened(asked), status),
            suggestions,
            note,
            remedies,
            advises: package.is_some() || uninterned,
        }
    }

    /// Builds the answer for the missing package `name`.
    pub(crate) fn package(bank: &Steelbank, name: &str, note: Option<String>) -> Self {
        let asked = Asked { name: String::new(), package: name.to_uppercase() };
        Self { advises: true, ..Self::new(bank, &asked, LookupStatus::NoPackage, note) }
    }

    /// Builds the answer for the missing system `name`. `systems` names the systems that exist.
    pub(crate) fn system(systems: &[String], name: &str) -> Self {
        Self {
            message: format!("System {} not found", cut(name)),
            suggestions: nearest::systems(name, systems.iter().map(String::as_str)),
            note: None,
            remedies: vec![
                "list-systems lists the systems of the project. If the system is in a folder outside the project, \
                    add that folder to CL_SOURCE_REGISTRY."
                    .to_owned(),
            ],
            advises: true,
        }
    }

    /// Builds the answer for a client that has no edit to undo, although other clients may have
    /// some.
    pub(crate) fn no_edit_of_client() -> Self {
        let message =
            "You have no rename that can be undone. To undo an edit of another client, give its number.";
        Self::other(message.to_owned(), Vec::new(), None)
    }

    /// Builds the answer for the unknown edit `id`. `kept` lists the edits that can be undone,
    /// newest first.
    pub(crate) fn edit(id: &str, kept: Vec<String>) -> Self {
        let nothing = "There is no edit of this project to undo.";
        match kept.is_empty() {
            true if id == "last" => Self::other(nothing.to_owned(), kept, None),
            is_empty => Self {
                message: format!("Edit {} not found", cut(id)),
                suggestions: kept,
                note: None,
                remedies: is_empty.then(|| nothing.to_owned()).into_iter().collect(),
                advises: true,
            },
        }
    }

    /// Builds an answer from `message`, which reports what is missing, from similar names and from
    /// a note.
    pub(crate) fn other(message: String, suggestions: Vec<String>, note: Option<String>) -> Self {
        Self { message, suggestions, note, remedies: Vec::new(), advises: false }
    }

    /// Builds the answer for the missing file or folder `path`, relative to the project.
    pub(crate) fn path(bank: &Steelbank, path: &str) -> Self {
        let suggestions = nearest::paths_in(bank.project(), path);
        let remedies = if suggestions.is_empty() { vec![bank.project().path_advice()] } else { Vec::new() };
        Self {
            message: format!("Path {} not found", cut(path)),
            suggestions,
            note: None,
            remedies,
            advises: true,
        }
    }

    /// Builds the answer for a pattern that no symbol matches; `message` reports that.
    pub(crate) fn pattern(message: String, nothing: NoMatch) -> Self {
        let wider = nothing.wider.iter().map(|wider| {
            let found = counted(wider.matches, "symbol matches", "symbols match");
            let how = match &wider.change {
                Widening::Without(filters) => format!("Without {}", filters.join(" and ")),
                Widening::Words => "With matching words".to_owned(),
            };
            format!("{how}, {found}: {}{}", wider.first, if wider.matches > 1 { ", …" } else { "" })
        });
        let mut remedies: Vec<String> = wider.collect();
        if remedies.is_empty() && nothing.near.is_empty() {
            let what = "Give a shorter part of the name, or load the system that defines it. To find slots, \
                local variables and keywords, use find_references.";
            remedies.push(what.to_owned());
        }
        Self {
            message,
            suggestions: nothing.near,
            note: Some(nothing.unseen).filter(|note| !note.is_empty()),
            remedies,
            advises: true,
        }
    }

    /// Formats the message, which the tool contracts fix, followed by suggestions, note and
    /// remedies.
    pub(crate) fn text(&self) -> String {
        let mut text = self.message.clone();
        if !self.suggestions.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n\nPerhaps: {}", self.suggestions.join(", "));
        }
        if let Some(note) = &self.note {
            let _ = write!(text, "\n\nNote: {note}");
        }
        if self.advises && !self.remedies.is_empty() {
            let _ = write!(text, "\n\n{}", self.remedies.join("\n"));
        }
        text
    }

    /// Builds the tool's answer, with `found` false.
    pub(crate) fn answer(self, outcome: CallOutcome) -> Result<ToolAnswer, Failure> {
        let text = self.text();
        let answer: LookupReply<()> = LookupReply { found: false, answer: None, missing: Some(self) };
        ToolAnswer::new(text, &answer, outcome)
    }

    /// Builds the tool's answer, with `found` false, and includes the fields of `answer`.
    pub(crate) fn with_partial<T: Serialize>(self, answer: T) -> Result<ToolAnswer, Failure> {
        let text = self.text();
        let answer = LookupReply { found: false, answer: Some(answer), missing: Some(self) };
        ToolAnswer::new(text, &answer, CallOutcome::NotFound)
    }
}

/// Turns a "not found" error into an answer. Returns other errors as failures, and also the error
/// for a system that the project or ASDF lists.
pub(crate) fn of_error(bank: &Steelbank, error: Error, outcome: CallOutcome) -> Result<ToolAnswer, Failure> {
    let missing = match &error {
        Error::NotFound(NotFound::Symbol { asked, status, unseen }) => {
            NotFoundReply::new(bank, asked, *status, Some(unseen.clone()).filter(|unseen| !unseen.is_empty()))
        }
        Error::NotFound(NotFound::Package(package)) => NotFoundReply::package(bank, package, None),
        Error::NotFound(NotFound::Path(path)) => NotFoundReply::path(bank, path),
        Error::NotFound(NotFound::System(system)) => {
            let systems = systems(bank);
            match systems.iter().any(|known| known.eq_ignore_ascii_case(system)) {
                true => return Err(error.into()),
                false => NotFoundReply::system(&systems, system),
            }
        }
        _ => return Err(error.into()),
    };
    missing.answer(outcome)
}

/// Turns the error of an operation on a project file into an answer if the file does not exist, and
/// otherwise into a failure.
pub(crate) fn of_file(bank: &Steelbank, error: FileError) -> Result<ToolAnswer, Failure> {
    match error {
        FileError::Missing(path) => NotFoundReply::path(bank, &path).answer(CallOutcome::NotFound),
        FileError::NoProject(error) => Err(error.into()),
        FileError::Refused(why) => Err(Failure::arguments(why)),
    }
}

/// Builds the answer for the first of `paths` that `is_known` rejects. Returns `None` if it accepts
/// all of them.
pub(crate) fn missing_path(
    bank: &Steelbank,
    paths: &[String],
    is_known: impl Fn(&Path) -> bool,
) -> Option<NotFoundReply> {
    let missing = paths.iter().find(|path| !is_known(&bank.project().real(path)));
    missing.map(|path| NotFoundReply::path(bank, path))
}

/// Lists the names of the project's systems and of the systems that ASDF has loaded or found.
pub(crate) fn systems(bank: &Steelbank) -> Vec<String> {
    let own = bank.list_systems(&Control::new(ALLOWED)).map(|known| known.systems).unwrap_or_default();
    let own = own.into_iter().map(|system| system.name);
    own.chain(bank.project().image_systems().into_keys()).collect()
}

/// The longest name that an answer repeats, in characters.
const LONGEST_NAME: usize = 1_000;

/// Truncates overlong names.
fn shortened(asked: &Asked) -> Asked {
    Asked { name: cut(&asked.name), package: cut(&asked.package) }
}

fn cut(name: &str) -> String {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((at, _)) => format!("{}... ({} more characters)", &name[..at], name[at..].chars().count()),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_overlong_names_are_truncated() {
        let mut asked = Asked { name: "Ä".repeat(LONGEST_NAME), package: "CL-USER".into() };
        assert_eq!(shortened(&asked), asked);
        asked.name.push('X');
        assert!(shortened(&asked).name.ends_with("Ä... (1 more characters)"));
    }
}
