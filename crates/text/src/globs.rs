//! Globs that select the files of a query.

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::path::Path;

/// File globs with the syntax of `.gitignore`. A glob with a slash before its end matches a path
/// from the root; any other glob matches a name in any folder. A leading `./` is ignored. `**`
/// matches any number of folders. A glob that matches a folder selects everything in it.
#[derive(Debug, Clone)]
pub struct Globs {
    include: Option<Gitignore>,
    exclude: Option<Gitignore>,
}

/// The error for an invalid glob.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid glob `{glob}`: {reason}. Write globs such as `src/**/*.rs`, relative to the project.")]
pub struct BadGlob {
    /// The glob. If the error belongs to no single glob, all globs, separated by commas.
    pub glob: String,
    /// The reason.
    pub reason: String,
}

impl Globs {
    /// Selects the files that match any of `include` (all files if it is empty) and none of
    /// `exclude`.
    ///
    /// # Errors
    ///
    /// If a glob is empty or malformed, starts with `!`, or has `..` as a path component.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Globs, BadGlob> {
        Ok(Globs { include: matcher(include)?, exclude: matcher(exclude)? })
    }

    pub(crate) fn select(&self, path: &Path) -> bool {
        let matches = |globs: &Gitignore| globs.matched_path_or_any_parents(path, false).is_ignore();
        self.include.as_ref().is_none_or(matches) && !self.exclude.as_ref().is_some_and(matches)
    }
}

fn matcher(globs: &[String]) -> Result<Option<Gitignore>, BadGlob> {
    if globs.is_empty() {
        return Ok(None);
    }
    let mut builder = GitignoreBuilder::new("");
    for glob in globs {
        let bad = |reason: &str| BadGlob { glob: glob.clone(), reason: reason.to_owned() };
        let bare = glob.trim();
        let bare = bare.strip_prefix("./").unwrap_or(bare);
        if bare.is_empty() {
            return Err(bad("it is empty"));
        }
        if bare.starts_with('!') {
            return Err(bad("it starts with `!`; list excluded files in `exclude`"));
        }
        if bare.split('/').any(|part| part == "..") {
            return Err(bad("it points outside the project"));
        }
        // Escape `#`, which starts a comment in a `.gitignore` but not here.
        let line = if bare.starts_with('#') { format!("\\{bare}") } else { bare.to_owned() };
        builder.add_line(None, &line).map_err(|error| bad(&error.to_string()))?;
        globset::Glob::new(bare).map_err(|error| bad(&error.kind().to_string()))?;
    }
    let bad = |error: ignore::Error| BadGlob { glob: globs.join(", "), reason: error.to_string() };
    builder.build().map(Some).map_err(bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_select() {
        let check = |include: &[&str], exclude: &[&str], path: &str, expect: bool| {
            let owned = |globs: &[&str]| globs.iter().map(|&glob| glob.to_owned()).collect::<Vec<_>>();
            let globs = Globs::new(&owned(include), &owned(exclude)).unwrap();
            assert_eq!(globs.select(Path::new(path)), expect, "{include:?} {exclude:?} {path}");
        };
        check(&[], &[], "a/b.rs", true);
        check(&["*.rs"], &[], "a/b.rs", true);
        check(&["src/**/*.rs"], &[], "src/a/b.rs", true);
        check(&["src/**/*.rs"], &[], "src/b.rs", true);
        check(&["src/**/*.rs"], &[], "tests/b.rs", false);
        check(&["src"], &[], "src/a/b.c", true);
        check(&[], &["target/**", "tests/**"], "target/x/y.rs", false);
        check(&[], &["tests/"], "tests/y.rs", false);
        check(&["*.{rs,toml}"], &["/a.rs"], "a.rs", false);
        check(&["./src/*.rs"], &[], "src/a.rs", true);
    }

    #[test]
    fn bad_glob_is_named_in_error() {
        for glob in ["", "  ", "[", "!x", "../x", "a{b", "a/../b"] {
            let error = Globs::new(&[glob.to_owned()], &[]).unwrap_err();
            assert_eq!(error.glob, glob);
        }
    }
}
