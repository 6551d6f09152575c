//! Answers for names that do not exist, the same for all tools: the sentence, suggestions, and remedies.

use std::fmt::Write as _;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use super::arguments::{NameAndPackage, default_package};
use super::call::{CallOutcome, Failure, ToolAnswer};
use super::words::quoted;
use crate::Steelbank;
use crate::query::apropos::{AproposError, NoMatch, Widening};
use crate::query::code_find_references::CodeFindReferencesError;
use crate::query::control::{ALLOWED, Control};
use crate::query::lookup::{Asked, Lookup, LookupStatus, find_package};
#[cfg(feature = "text")]
use crate::query::outline::OutlineError;
use crate::query::{Error, FileError};
use crate::query::{counted, nearest};
use crate::render::text;
use steelbank_xref::Index;

/// The answer about something that may not be there.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct MaybeFound<T> {
    /// Whether it is there.
    pub(super) found: bool,
    #[serde(flatten)]
    pub(super) answer: Option<T>,
    /// Not in the schema of every tool that may say so: it would be the longest part of many.
    #[serde(flatten)]
    #[schemars(skip)]
    pub(super) missing: Option<Missing>,
}

impl<T> MaybeFound<T> {
    pub(super) fn yes(answer: T) -> Self {
        Self { found: true, answer: Some(answer), missing: None }
    }
}

/// A missing thing, as every tool reports it.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct Missing {
    /// The sentence that says what is missing.
    message: String,
    /// Symbols of that name in other packages, similar names, or similar packages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    suggestions: Vec<String>,
    /// Where the name stands in text that is not loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    /// What to do.
    #[serde(skip_serializing_if = "Vec::is_empty", rename = "try")]
    remedies: Vec<String>,
    /// Whether the text says what to do, too.
    #[serde(skip)]
    advises: bool,
}

impl Missing {
    /// Makes the answer for the symbol or package `asked`, which does not exist.
    pub(super) fn new(index: &Index, asked: &Asked, status: LookupStatus, note: Option<String>) -> Self {
        let uninterned = status == LookupStatus::Uninterned;
        let bare = asked.name.strip_prefix("#:").filter(|_| uninterned).unwrap_or(&asked.name);
        let mut suggestions = nearest::elsewhere(index, bare);
        if suggestions.is_empty() {
            suggestions = match status {
                LookupStatus::NoPackage => nearest::packages(index, &asked.package),
                _ => nearest::names(index, bare, find_package(index, &asked.package)),
            };
        }
        let load = "Load the system that defines it (load-system), or correct the name.";
        let mut remedies =
            if suggestions.is_empty() || note.is_some() { vec![load.to_owned()] } else { Vec::new() };
        let package = find_package(index, &asked.name).filter(|_| status == LookupStatus::NoSymbol);
        if let Some(package) = package {
            let name = index.package_name(package);
            remedies = vec![format!("{name} is a package: ask package-info.")];
        }
        if uninterned {
            let what =
                "An uninterned symbol cannot be looked up, as no package has it: name one that is interned.";
            remedies = vec![what.to_owned()];
        }
        Self {
            message: text::missing(&shortened(asked), status),
            suggestions,
            note,
            remedies,
            advises: package.is_some() || uninterned,
        }
    }

    /// Makes the answer for a package `name` that does not exist.
    pub(super) fn package(index: &Index, name: &str, note: Option<String>) -> Self {
        let asked = Asked { name: String::new(), package: name.to_uppercase() };
        Self::new(index, &asked, LookupStatus::NoPackage, note)
    }

    /// Makes the answer for a system `name` that does not exist; the project has `systems`.
    pub(super) fn system(systems: &[String], name: &str) -> Self {
        Self {
            message: format!("System {} not found", cut(name)),
            suggestions: nearest::systems(name, systems.iter().map(String::as_str)),
            note: None,
            remedies: vec![
                "list-systems shows what the project defines. Add the folder of one that is not below the project to \
                 CL_SOURCE_REGISTRY."
                    .to_owned(),
            ],
            advises: true,
        }
    }

    /// No edit called `id` can be undone; those called `kept` can, the newest first.
    pub(super) fn edit(id: &str, kept: Vec<String>) -> Self {
        let remedy = "No edit of this project is kept: there is nothing to undo.";
        let remedies = if kept.is_empty() { vec![remedy.to_owned()] } else { Vec::new() };
        Self {
            message: format!("Edit {} not found", cut(id)),
            suggestions: kept,
            note: None,
            remedies,
            advises: true,
        }
    }

    /// Makes the answer from `message`, which says what is missing, and similar names in `suggestions`.
    pub(super) fn other(message: String, suggestions: Vec<String>, note: Option<String>) -> Self {
        Self { message, suggestions, note, remedies: Vec::new(), advises: false }
    }

    /// Makes the answer for a file or folder `path`, relative to the project, that does not exist.
    pub(super) fn path(bank: &Steelbank, path: &str) -> Self {
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

    /// Makes the answer for a `pattern` that no symbol matches.
    pub(super) fn pattern(pattern: &str, nothing: NoMatch) -> Self {
        let wider = nothing.wider.iter().map(|wider| {
            let found = counted(wider.matches, "symbol matches", "symbols match");
            let how = match &wider.change {
                Widening::Without(filters) => format!("Without {}", filters.join(" and ")),
                Widening::Words => "With matching words".to_owned(),
            };
            format!("{how}, {found}: {}{}", wider.first, if wider.matches > 1 { ", …" } else { "" })
        });
        let mut remedies: Vec<String> = wider.collect();
        if remedies.is_empty() && nothing.nameless > 0 {
            remedies.push(format!(
                "{}, but {} nothing that is defined: a slot, a local variable or a keyword. find_references finds its text.",
                counted(nothing.nameless, "symbol matches", "symbols match"),
                if nothing.nameless == 1 { "names" } else { "name" },
            ));
        }
        if remedies.is_empty() && nothing.near.is_empty() {
            remedies.push("Give a shorter part of the name, or load the system that defines it.".to_owned());
        }
        Self {
            message: format!("No symbol matches {}", quoted(&cut(pattern))),
            suggestions: nothing.near,
            note: Some(nothing.unseen).filter(|note| !note.is_empty()),
            remedies,
            advises: true,
        }
    }

    /// Renders the contract's sentence, and our suggestions below it.
    pub(super) fn text(&self) -> String {
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

    /// Makes the tool's answer, with `found` false.
    pub(super) fn answer(self, outcome: CallOutcome) -> Result<ToolAnswer, Failure> {
        let text = self.text();
        let answer: MaybeFound<()> = MaybeFound { found: false, answer: None, missing: Some(self) };
        ToolAnswer::new(text, &answer, outcome)
    }

    /// Makes the tool's answer, with `found` false beside the fields of `answer`.
    pub(super) fn beside<T: Serialize>(self, answer: T) -> Result<ToolAnswer, Failure> {
        let text = self.text();
        let answer = MaybeFound { found: false, answer: Some(answer), missing: Some(self) };
        ToolAnswer::new(text, &answer, CallOutcome::NotFound)
    }
}

/// Makes an answer of an error that says that the subject does not exist; other errors stay errors.
pub(super) fn of_error(bank: &Steelbank, error: Error, outcome: CallOutcome) -> Result<ToolAnswer, Failure> {
    let (asked, status, unseen) = match error {
        Error::References(CodeFindReferencesError::NoSymbol { name, package, unseen }) => {
            (Asked { name, package }, LookupStatus::NoSymbol, unseen)
        }
        Error::References(CodeFindReferencesError::Uninterned { name, package }) => {
            (Asked { name, package }, LookupStatus::Uninterned, String::new())
        }
        Error::References(CodeFindReferencesError::NoPackage { name, package, unseen }) => {
            (Asked { name, package }, LookupStatus::NoPackage, unseen)
        }
        Error::Apropos(AproposError::Package { package }) => {
            return Missing::package(&bank.index(), &package, None).answer(outcome);
        }
        #[cfg(feature = "text")]
        Error::Outline(OutlineError::Missing { path }) => {
            return Missing::path(bank, &path).answer(outcome);
        }
        #[cfg(feature = "text")]
        Error::Outline(OutlineError::Package { package }) => {
            return Missing::package(&bank.index(), &package, None).answer(outcome);
        }
        #[cfg(feature = "text")]
        Error::Outline(OutlineError::System { system }) => {
            let systems = systems(bank);
            return match systems.iter().any(|known| known.eq_ignore_ascii_case(&system)) {
                true => Err(Error::Outline(OutlineError::System { system }).into()),
                false => Missing::system(&systems, &system).answer(outcome),
            };
        }
        other => return Err(other.into()),
    };
    let note = Some(unseen.trim().to_owned()).filter(|note| !note.is_empty());
    Missing::new(&bank.index(), &asked, status, note).answer(outcome)
}

/// Makes an answer of an error in reading a file of the project.
pub(super) fn of_file(bank: &Steelbank, error: FileError) -> Result<ToolAnswer, Failure> {
    match error {
        FileError::Missing(path) => Missing::path(bank, &path).answer(CallOutcome::NotFound),
        FileError::NoProject(error) => Err(error.into()),
        FileError::Refused(why) => Err(Failure::arguments(why)),
    }
}

/// Finds the first of `paths`, relative to the project, that `is_known` rejects.
pub(super) fn missing_path(
    bank: &Steelbank,
    paths: &[String],
    is_known: impl Fn(&Path) -> bool,
) -> Option<Missing> {
    let missing = paths.iter().find(|path| !is_known(&bank.project().real(path)));
    missing.map(|path| Missing::path(bank, path))
}

/// Lists the names of the project's systems, and of those that ASDF knows.
pub(super) fn systems(bank: &Steelbank) -> Vec<String> {
    let own = bank.list_systems(&Control::new(ALLOWED)).map(|known| known.systems).unwrap_or_default();
    let own = own.into_iter().map(|system| system.name);
    own.chain(bank.project().image_systems().into_keys()).collect()
}

/// A name, and the package in which it is looked up.
pub(super) struct ResolvedName {
    pub(super) name: String,
    pub(super) package: String,
    /// That package, if nobody named it.
    pub(super) looked_up_in: Option<String>,
}

/// Chooses the package for a lookup: the given one; without one and without a prefix CL-USER, or else the only one of
/// the user's packages that has a symbol of that name.
pub(super) fn resolve(bank: &Steelbank, given: NameAndPackage) -> ResolvedName {
    let NameAndPackage { name, package } = given;
    let found = Lookup::resolved(&bank.index(), &name, package.as_deref());
    let looked_up_in = found.ok().and_then(|(_, elsewhere)| elsewhere);
    let package = looked_up_in.clone().or(package).unwrap_or_else(default_package);
    ResolvedName { name, package, looked_up_in }
}

/// The longest name that an answer repeats, in characters.
const LONGEST_NAME: usize = 1_000;

/// Shortens an overlong name.
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
    fn only_names_that_nobody_would_read_are_cut() {
        let mut asked = Asked { name: "Ä".repeat(LONGEST_NAME), package: "CL-USER".into() };
        assert_eq!(shortened(&asked), asked);
        asked.name.push('X');
        assert!(shortened(&asked).name.ends_with("Ä... (1 more characters)"));
    }
}
