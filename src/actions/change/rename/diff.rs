//! Applies edits to a file's bytes, and formats them as a unified diff.

use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;
use steelbank_reader::lines::{LineIndex, decode};

use super::plan::RenameEdit;
use crate::actions::change::unified;

/// The number of context lines around changed lines.
const CONTEXT: u32 = 1;
/// The number of edits after which a hunk ends at the next unchanged line, so that hunks stay
/// short. Git needs an unchanged line after each change that is not at the end of the file.
const MANY_EDITS: usize = 30;
/// The maximum number of edits in a hunk. Edits on one line stay together.
const MOST_EDITS: usize = 100;

/// Nearby edits, and the lines that they change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Hunk {
    /// The file, relative to the project's root.
    pub path: String,
    /// The edits, in order.
    pub edits: Vec<RenameEdit>,
    /// The hunk of a unified diff.
    pub diff: String,
}

/// A rename as a unified diff. Its `Display` output is the patch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenameDiff {
    /// The hunks, by file and place.
    pub hunks: Vec<Hunk>,
}

impl std::fmt::Display for RenameDiff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut file = None;
        for hunk in &self.hunks {
            if file.replace(&hunk.path) != Some(&hunk.path) {
                writeln!(f, "--- a/{0}\n+++ b/{0}", hunk.path)?;
            }
            f.write_str(&hunk.diff)?;
        }
        Ok(())
    }
}

/// Applies `edits`, which are in order and do not overlap, to `old`. `encode` encodes a new name
/// for the file.
///
/// # Errors
///
/// Returns a sentence if `old` does not have the old text of an edit, or if a new name cannot be
/// encoded.
pub(crate) fn edited(
    old: &[u8],
    edits: &[RenameEdit],
    encode: impl Fn(&str) -> Result<Vec<u8>, String>,
) -> Result<Vec<u8>, String> {
    edited_part(old, 0..old.len(), edits, &encode)
}

/// Applies `edits`, which are all in `part`, to that part of `old`. Otherwise like [`edited`].
fn edited_part(
    old: &[u8],
    part: Range<usize>,
    edits: &[RenameEdit],
    encode: &impl Fn(&str) -> Result<Vec<u8>, String>,
) -> Result<Vec<u8>, String> {
    let mut new = Vec::with_capacity(part.len() + 16 * edits.len());
    let mut at = part.start;
    for edit in edits {
        let (Some(kept), Some(there)) =
            (old.get(at..edit.range.start as usize), old.get(edit.range.indices()))
        else {
            return Err("The edits overlap or are outside of the file.".to_owned());
        };
        let latin = || there.iter().map(|&byte| char::from(byte)).eq(edit.old.chars());
        if decode(there) != edit.old && !latin() {
            return Err(format!("{} is not at {}.", edit.old, edit.place.in_file()));
        }
        new.extend_from_slice(kept);
        new.extend(encode(&edit.new)?);
        at = edit.range.end as usize;
    }
    new.extend_from_slice(old.get(at..part.end).unwrap_or_default());
    Ok(new)
}

/// Returns the `edits` of the file `path` with contents `old` as hunks. `encode` is as for
/// [`edited`].
///
/// # Errors
///
/// The same as for [`edited`].
pub(crate) fn hunks(
    path: &str,
    old: &[u8],
    edits: &[RenameEdit],
    encode: impl Fn(&str) -> Result<Vec<u8>, String>,
) -> Result<Vec<Hunk>, String> {
    let lines = LineIndex::new(old);
    let count = lines.count() as u32 - u32::from(old.ends_with(b"\n") || old.is_empty());
    let groups = groups(edits, &lines);
    let bounds = |group: &[RenameEdit]| {
        let first = group.first().map_or(1, |edit| lines.line(edit.range.start));
        (first, group.last().map_or(1, |edit| last_line(edit, &lines)))
    };
    let start = |line: u32| if line > count { old.len() } else { lines.start(line) as usize };
    let mut made = Vec::with_capacity(groups.len());
    // The first line that no hunk has shown, and the number of lines by which later lines have
    // moved.
    let (mut free, mut moved) = (1, 0_i64);
    for (number, group) in groups.iter().enumerate() {
        let (first, last) = bounds(group);
        let next = groups.get(number + 1).map_or(count + 1, |group| bounds(group).0);
        let from = first.saturating_sub(CONTEXT).max(free);
        let to = (last + CONTEXT).min(next - 1).max(last);
        let part = start(from)..start(to + 1);
        let new = edited_part(old, part.clone(), group, &encode)?;
        let before = (from as usize - 1, (i64::from(from) - 1 + moved) as usize);
        let old_part = &old[part];
        let diff = unified::hunk(before, old_part, &new);
        let newlines = |text: &[u8]| text.iter().filter(|&&byte| byte == b'\n').count() as i64;
        free = to + 1;
        moved += newlines(&new) - newlines(old_part);
        made.push(Hunk { path: path.to_owned(), edits: group.to_vec(), diff });
    }
    Ok(made)
}

/// Groups the edits into hunks.
fn groups<'a>(edits: &'a [RenameEdit], lines: &LineIndex) -> Vec<&'a [RenameEdit]> {
    let mut groups = Vec::new();
    let mut start = 0;
    for at in 1..=edits.len() {
        let ends = match (edits.get(at), &edits[at - 1]) {
            (None, _) => true,
            (Some(next), last) => {
                let (from, to) = (last_line(last, lines), lines.line(next.range.start));
                to > from + 2 * CONTEXT
                    || (at - start >= MANY_EDITS && to > from + 1)
                    || (at - start >= MOST_EDITS && to > from)
            }
        };
        if ends && at > start {
            groups.push(&edits[start..at]);
            start = at;
        }
    }
    groups
}

/// Returns the line on which `edit` ends.
fn last_line(edit: &RenameEdit, lines: &LineIndex) -> u32 {
    lines.line(edit.range.end.max(edit.range.start + 1) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Location;

    fn edits(text: &str, old: &str, new: &str) -> Vec<RenameEdit> {
        let lines = LineIndex::new(text.as_bytes());
        let found = text.match_indices(old).map(|(start, _)| {
            let range = steelbank_reader::Range::of(start..start + old.len());
            let place = Location::in_text("x.lisp", &lines, text.as_bytes(), range);
            RenameEdit { range, place, old: old.to_owned(), new: new.to_owned() }
        });
        found.collect()
    }

    fn utf_8(text: &str) -> Result<Vec<u8>, String> {
        Ok(text.as_bytes().to_vec())
    }

    fn hunks_of(text: &str, old: &str, new: &str) -> Vec<Hunk> {
        hunks("x.lisp", text.as_bytes(), &edits(text, old, new), utf_8).unwrap()
    }

    #[test]
    fn diff_has_every_change_once_with_context() {
        let text = "(a)\n(f 1)\n(b)\n(c)\n(d)\n(f (f 2))\n(f 3)\n(e)\n(f 4)";
        let found = hunks_of(text, "f", "long");
        let diffs: Vec<&str> = found.iter().map(|hunk| hunk.diff.as_str()).collect();
        assert_eq!(
            diffs,
            [
                "@@ -1,3 +1,3 @@\n (a)\n-(f 1)\n+(long 1)\n (b)\n",
                "@@ -5,5 +5,5 @@\n (d)\n-(f (f 2))\n-(f 3)\n+(long (long 2))\n+(long 3)\n (e)\n\
                 -(f 4)\n\\ No newline at end of file\n+(long 4)\n\\ No newline at end of file\n",
            ]
        );
        assert_eq!(found.iter().map(|hunk| hunk.edits.len()).collect::<Vec<_>>(), [1, 4]);
    }

    #[test]
    fn hunks_stay_short_and_do_not_overlap() {
        for (text, most, least_hunks) in [
            ("(f)\r\n".repeat(250), MOST_EDITS, 3),
            ("(f)\r\n(a)\r\n".repeat(100), MANY_EDITS, 4),
            ("(f f f)\n(f)\n\n".repeat(50), MANY_EDITS + 4, 6),
        ] {
            let found = hunks_of(&text, "f", "g");
            assert!(found.len() >= least_hunks && found.iter().all(|hunk| hunk.edits.len() <= most));
            let shown = found.iter().map(|hunk| {
                hunk.diff
                    .split_inclusive('\n')
                    .filter(|line| line.starts_with(['-', ' ']))
                    .map(|line| &line[1..])
            });
            assert_eq!(shown.flatten().collect::<String>(), text);
        }
    }

    #[test]
    fn diff_shows_line_ends_and_added_lines() {
        let found = hunks_of("(f)\r\n(a)\r\n(b)\r\n(c)\r\n(f)", "f", "|g\nh|");
        let diffs: Vec<&str> = found.iter().map(|hunk| hunk.diff.as_str()).collect();
        assert_eq!(
            diffs,
            [
                "@@ -1,2 +1,3 @@\n-(f)\r\n+(|g\n+h|)\r\n (a)\r\n",
                "@@ -4,2 +5,3 @@\n (c)\r\n-(f)\n\\ No newline at end of file\n+(|g\n+h|)\n\\ No newline at end of file\n",
            ]
        );
    }

    #[test]
    fn edits_fail_on_another_text() {
        let text = "(f 1) (f 2)";
        assert_eq!(edited(text.as_bytes(), &edits(text, "f", "gg"), utf_8).unwrap(), b"(gg 1) (gg 2)");
        let why = edited(b"(h 1) (h 2)", &edits(text, "f", "gg"), utf_8).unwrap_err();
        assert_eq!(why, "f is not at 1:2.");
        let mut twice = edits(text, "f", "g");
        twice[1] = twice[0].clone();
        assert!(edited(text.as_bytes(), &twice, utf_8).unwrap_err().contains("overlap"));
    }
}
