//! The state of the working tree by git: the lines that differ from the last commit, and texts as they were
//! in it. Runs nothing that the repository's configuration names.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use super::impact::ImpactError;

/// Ranges of lines, by file.
type Ranges = BTreeMap<String, Vec<(u32, u32)>>;

/// The lines of the working tree that differ from the last commit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ChangedLines {
    /// New lines. Where lines were only removed, the empty range of the gap, which only a definition on both
    /// its sides touches.
    pub(super) added: Ranges,
    /// Old lines that are not there any more.
    pub(super) removed: Ranges,
}

fn git(root: &Path, arguments: &[&str]) -> Result<Vec<u8>, ImpactError> {
    let mut command = Command::new("git");
    command.arg("-C").arg(root);
    for setting in [
        "core.fsmonitor=false",
        "core.hooksPath=/dev/null",
        "core.quotePath=false",
        "diff.external=",
        "core.pager=cat",
    ] {
        command.args(["-c", setting]);
    }
    command.args(arguments).stdin(Stdio::null()).env("GIT_OPTIONAL_LOCKS", "0");
    let output = command.output().map_err(|error| ImpactError::Git(error.to_string()))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        // git may print its usage after the first line.
        let first = why.lines().next().unwrap_or_default().trim();
        return Err(ImpactError::Git(first.trim_start_matches("warning: ").to_owned()));
    }
    Ok(output.stdout)
}

/// Lists the lines that differ below `root`. A file that was moved counts as removed and as new.
pub(super) fn changes(root: &Path) -> Result<ChangedLines, ImpactError> {
    let arguments = [
        "diff",
        "--no-ext-diff",
        "--no-textconv",
        "--no-color",
        "--no-renames",
        "--relative",
        "--unified=0",
        "HEAD",
    ];
    Ok(hunks(&String::from_utf8_lossy(&git(root, &arguments)?)))
}

/// Reads the text of `file`, relative to `root`, in the last commit.
pub(super) fn committed(root: &Path, file: &str) -> Result<Vec<u8>, ImpactError> {
    git(root, &["show", "--no-textconv", &format!("HEAD:./{file}")])
}

fn hunks(diff: &str) -> ChangedLines {
    let mut changes = ChangedLines::default();
    let (mut old, mut new) = (None, None);
    let named = |path: &str, prefix: &str| -> Option<String> {
        let path = path.strip_prefix(prefix).unwrap_or(path).trim_end_matches('\t');
        (path != "/dev/null").then(|| path.to_owned())
    };
    // How many lines of the hunk are left: a line of text may look like a file's header.
    let mut left = 0_u32;
    for line in diff.lines() {
        if left > 0 && line.starts_with(['+', '-', '\\']) {
            left -= u32::from(!line.starts_with('\\'));
        } else if let Some(path) = line.strip_prefix("--- ") {
            old = named(path, "a/");
        } else if let Some(path) = line.strip_prefix("+++ ") {
            new = named(path, "b/");
        } else if let Some(rest) = line.strip_prefix("@@ ") {
            let part = |sign: char| -> Option<(u32, u32)> {
                let part = rest.split(' ').find_map(|part| part.strip_prefix(sign))?;
                let (start, count) = part.split_once(',').unwrap_or((part, "1"));
                Some((start.parse().ok()?, count.parse().ok()?))
            };
            let (Some((from, lost)), Some((to, won))) = (part('-'), part('+')) else { continue };
            left = lost + won;
            if let Some(file) = &new {
                let range = if won == 0 { (to + 1, to) } else { (to, to + won - 1) };
                changes.added.entry(file.clone()).or_default().push(range);
            }
            if let (Some(file), 1..) = (&old, lost) {
                changes.removed.entry(file.clone()).or_default().push((from, from + lost - 1));
            }
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hunks_are_the_new_lines_and_the_old_ones() {
        let diff = "diff --git a/x.lisp b/x.lisp\n--- a/x.lisp\n+++ b/x.lisp\n@@ -3,2 +3,4 @@ (defun f\n--- a\n-b\n+1\n+++ 2\n+3\n+4\n\
            @@ -20 +22 @@\n-a\n+b\n@@ -30,2 +31,0 @@\n-a\n-b\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n\
            \\ No newline at end of file\n--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+a\n";
        let ranges = |found: Ranges| found.into_iter().collect::<Vec<_>>();
        let found = hunks(diff);
        assert_eq!(
            ranges(found.added),
            [("new".to_owned(), vec![(1, 1)]), ("x.lisp".to_owned(), vec![(3, 6), (22, 22), (32, 31)])]
        );
        assert_eq!(
            ranges(found.removed),
            [("gone".to_owned(), vec![(1, 1)]), ("x.lisp".to_owned(), vec![(3, 4), (20, 20), (30, 31)])]
        );
    }
}
