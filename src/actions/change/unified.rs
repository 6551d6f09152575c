//! Formats the difference between two texts as a unified diff.

use std::fmt::Write as _;

use steelbank_reader::lines::decode;

/// Number of unchanged lines shown before and after a change.
const CONTEXT: usize = 2;
/// The maximum number of line pairs to compare. If a differing section has more pairs, all its
/// lines are shown as changed.
const MOST_PAIRS: usize = 4_000_000;

/// A line of a diff, with its index (from 0) in the old text, the new text, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DiffLine {
    Same(usize, usize),
    Removed(usize),
    Added(usize),
}

/// Formats the difference of `old` and `new`, the contents of the file shown as `path`, as a
/// unified diff. Lines keep their line ends, so that the diff can be applied. Text that is not
/// UTF-8 is decoded as Latin-1.
pub(crate) fn unified(path: &str, old: &[u8], new: &[u8]) -> String {
    let (old, new) = (lines(old), lines(new));
    let diff = difference(&old, &new);
    let mut text = format!("--- {path}\n+++ {path}\n");
    let changes: Vec<usize> = (0..diff.len()).filter(|&at| !matches!(diff[at], DiffLine::Same(..))).collect();
    for near in changes.chunk_by(|one, next| next - one <= 2 * CONTEXT + 1) {
        let (Some(first), Some(last)) = (near.first(), near.last()) else { continue };
        let (start, end) = (first.saturating_sub(CONTEXT), (last + CONTEXT + 1).min(diff.len()));
        let before = (counted(&diff[..start], in_old), counted(&diff[..start], in_new));
        write_hunk(&mut text, before, &old, &new, &diff[start..end]);
    }
    text
}

/// Formats one hunk that replaces the lines `old` by `new`. `before` is the number of preceding
/// lines in the old and the new text.
pub(crate) fn hunk(before: (usize, usize), old: &[u8], new: &[u8]) -> String {
    let (old, new) = (lines(old), lines(new));
    let mut text = String::new();
    write_hunk(&mut text, before, &old, &new, &difference(&old, &new));
    text
}

fn in_old(line: &DiffLine) -> bool {
    !matches!(line, DiffLine::Added(_))
}

fn in_new(line: &DiffLine) -> bool {
    !matches!(line, DiffLine::Removed(_))
}

fn counted(diff: &[DiffLine], side: fn(&DiffLine) -> bool) -> usize {
    diff.iter().filter(|line| side(line)).count()
}

/// Appends the hunk `diff`. The indices in `diff` refer to lines of `old` and `new`, and `before`
/// has the same meaning as in [`hunk`].
fn write_hunk(text: &mut String, before: (usize, usize), old: &[&[u8]], new: &[&[u8]], diff: &[DiffLine]) {
    // An empty range has the number of the line before the range.
    let range = |before, count| format!("{},{count}", if count == 0 { before } else { before + 1 });
    let (old_range, new_range) =
        (range(before.0, counted(diff, in_old)), range(before.1, counted(diff, in_new)));
    // Writing to a string cannot fail.
    let _ = writeln!(text, "@@ -{old_range} +{new_range} @@");
    for line in diff {
        let (mark, line) = match *line {
            DiffLine::Same(at, _) => (' ', old[at]),
            DiffLine::Removed(at) => ('-', old[at]),
            DiffLine::Added(at) => ('+', new[at]),
        };
        text.push(mark);
        text.push_str(&decode(line));
        if !line.ends_with(b"\n") {
            text.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// Splits `text` into lines, including their line ends.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|&byte| byte == b'\n').collect()
}

/// Computes a shortest difference between `old` and `new`. Removed lines come before added lines.
/// If more than [`MOST_PAIRS`] pairs of lines would have to be compared, all lines between the
/// equal lines at the start and at the end count as changed.
pub(crate) fn difference(old: &[&[u8]], new: &[&[u8]]) -> Vec<DiffLine> {
    let start = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let ends = old[start..].iter().rev().zip(new[start..].iter().rev());
    let end = ends.take_while(|(one, other)| one == other).count();
    let (middle_old, middle_new) = (&old[start..old.len() - end], &new[start..new.len() - end]);
    let mut diff: Vec<DiffLine> = (0..start).map(|at| DiffLine::Same(at, at)).collect();
    let (rows, columns) = (middle_old.len(), middle_new.len());
    let (mut row, mut column) = (0, 0);
    if rows.saturating_mul(columns) <= MOST_PAIRS {
        // For each old line and new line: the length of the longest common subsequence of the lines
        // from there on.
        let mut common = vec![0_u32; (rows + 1) * (columns + 1)];
        let at = |row: usize, column: usize| row * (columns + 1) + column;
        for row in (0..rows).rev() {
            for column in (0..columns).rev() {
                common[at(row, column)] = match middle_old[row] == middle_new[column] {
                    true => common[at(row + 1, column + 1)] + 1,
                    false => common[at(row + 1, column)].max(common[at(row, column + 1)]),
                };
            }
        }
        while row < rows && column < columns {
            if middle_old[row] == middle_new[column] {
                diff.push(DiffLine::Same(start + row, start + column));
                (row, column) = (row + 1, column + 1);
            } else if common[at(row + 1, column)] >= common[at(row, column + 1)] {
                diff.push(DiffLine::Removed(start + row));
                row += 1;
            } else {
                diff.push(DiffLine::Added(start + column));
                column += 1;
            }
        }
    }
    diff.extend((row..rows).map(|row| DiffLine::Removed(start + row)));
    diff.extend((column..columns).map(|column| DiffLine::Added(start + column)));
    diff.extend((0..end).map(|at| DiffLine::Same(old.len() - end + at, new.len() - end + at)));
    diff
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(old: &str, new: &str) -> String {
        let diff = unified("a", old.as_bytes(), new.as_bytes());
        diff.strip_prefix("--- a\n+++ a\n").unwrap().to_owned()
    }

    #[test]
    fn appending_changes_only_the_new_lines() {
        assert_eq!(diff("(a)\n(b)\n", "(a)\n(b)\n\n(c)\n"), "@@ -1,2 +1,4 @@\n (a)\n (b)\n+\n+(c)\n");
        assert_eq!(
            diff("(b)", "(b)\n\n(c)"),
            "@@ -1,1 +1,3 @@\n-(b)\n\\ No newline at end of file\n+(b)\n+\n+(c)\n\\ No newline at end of file\n"
        );
        assert_eq!(diff("", "(c)\n"), "@@ -0,0 +1,1 @@\n+(c)\n");
        assert_eq!(diff("(c)\n", ""), "@@ -1,1 +0,0 @@\n-(c)\n");
        assert_eq!(diff("(c)\n", "(c)\n"), "");
    }

    #[test]
    fn line_ends_are_preserved() {
        assert_eq!(diff("(a)\r\n(b)\r\n", "(a)\r\n(c)\r\n"), "@@ -1,2 +1,2 @@\n (a)\r\n-(b)\r\n+(c)\r\n");
        let latin = unified("a", b"; caf\xe9\n(a)\n", b"; caf\xe9\n(b)\n");
        assert!(latin.ends_with("@@ -1,2 +1,2 @@\n ; café\n-(a)\n+(b)\n"), "{latin}");
    }

    #[test]
    fn distant_changes_get_separate_hunks() {
        let old: String = (0..12).map(|line| format!("({line})\n")).collect();
        let new = old.replace("(1)\n", "(x)\n").replace("(9)\n", "");
        assert_eq!(
            diff(&old, &new),
            "@@ -1,4 +1,4 @@\n (0)\n-(1)\n+(x)\n (2)\n (3)\n@@ -8,5 +8,4 @@\n (7)\n (8)\n-(9)\n (10)\n (11)\n"
        );
    }
}
