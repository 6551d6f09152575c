//! Applies edits to a file's bytes, and shows them as a unified diff.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steelbank_reader::lines::{LineIndex, decode};

use super::plan::RenameEdit;

/// How many lines are shown before and after those that change.
const CONTEXT: u32 = 1;
/// The most edits of a hunk, so that hunks stay short. Those of one line stay together.
const MOST_EDITS: usize = 30;

/// Edits that are near to each other, and what they change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Hunk {
    /// The file, relative to the project's root.
    pub path: String,
    /// The edits, in order.
    pub edits: Vec<RenameEdit>,
    /// The hunk of a unified diff.
    pub diff: String,
}

/// Applies `edits`, which are in order and do not overlap, to `old`; fails if they are not of this text.
/// `encode` writes a new name in the file's encoding.
pub(crate) fn edited(
    old: &[u8],
    edits: &[RenameEdit],
    encode: impl Fn(&str) -> Result<Vec<u8>, String>,
) -> Result<Vec<u8>, String> {
    let mut new = Vec::with_capacity(old.len() + 16 * edits.len());
    let mut at = 0;
    for edit in edits {
        let (Some(kept), Some(there)) =
            (old.get(at..edit.range.start as usize), old.get(edit.range.indices()))
        else {
            return Err("The edits overlap, or lie outside of the file.".to_owned());
        };
        let latin = || there.iter().map(|&byte| char::from(byte)).eq(edit.old.chars());
        if decode(there) != edit.old && !latin() {
            let (line, column) = (edit.line, edit.column);
            return Err(format!("{} does not stand at {line}:{column}.", edit.old));
        }
        new.extend_from_slice(kept);
        new.extend(encode(&edit.new)?);
        at = edit.range.end as usize;
    }
    new.extend_from_slice(old.get(at..).unwrap_or_default());
    Ok(new)
}

/// Makes the hunks of `edits` in the file `path`, which holds `old`.
pub(crate) fn hunks(path: &str, old: &[u8], edits: &[RenameEdit]) -> Vec<Hunk> {
    let lines = LineIndex::new(old);
    let count = lines.count() as u32 - u32::from(old.ends_with(b"\n") || old.is_empty());
    let last_line = |edit: &RenameEdit| lines.line(edit.range.end.max(edit.range.start + 1) - 1);
    let mut groups: Vec<&[RenameEdit]> = Vec::new();
    let mut start = 0;
    for at in 1..=edits.len() {
        let ends = match (edits.get(at), &edits[at - 1]) {
            (None, _) => true,
            (Some(next), last) => {
                let (from, to) = (last_line(last), lines.line(next.range.start));
                to > from + 2 * CONTEXT || (at - start >= MOST_EDITS && to > from)
            }
        };
        if ends && at > start {
            groups.push(&edits[start..at]);
            start = at;
        }
    }
    let bounds = |group: &[RenameEdit]| {
        let first = group.first().map_or(1, |edit| lines.line(edit.range.start));
        (first, group.last().map_or(1, last_line))
    };
    let mut made = Vec::with_capacity(groups.len());
    // The first line that no hunk has shown, and by how many lines what follows has moved.
    let (mut free, mut moved) = (1, 0_i64);
    for (number, group) in groups.iter().enumerate() {
        let (first, last) = bounds(group);
        let next = groups.get(number + 1).map_or(count + 1, |group| bounds(group).0);
        let from = first.saturating_sub(CONTEXT).max(free);
        let to = (last + CONTEXT).min(next - 1).max(last);
        let (old_lines, new_lines) = changed(old, &lines, group, first, last);
        let beside = to - from - (last - first);
        let (old_count, new_count) = (beside as usize + old_lines.len(), beside as usize + new_lines.len());
        let mut diff = format!("@@ -{from},{old_count} +{},{new_count} @@\n", i64::from(from) + moved);
        let shown = |line: u32| decode(lines.bytes(old, line)).trim_end_matches(['\r', '\n']).to_owned();
        let mut put = |mark: char, text: &str| {
            // Writing to a string cannot fail.
            let _ = writeln!(diff, "{mark}{text}");
        };
        (from..first).for_each(|line| put(' ', &shown(line)));
        // Shows unchanged lines between those that change as context.
        let same = |at: usize| old_lines.len() == new_lines.len() && old_lines.get(at) == new_lines.get(at);
        let mut at = 0;
        while at < old_lines.len() {
            if same(at) {
                put(' ', &old_lines[at]);
                at += 1;
                continue;
            }
            let end = (at..old_lines.len()).find(|&at| same(at)).unwrap_or(old_lines.len());
            let new_end = if end == old_lines.len() { new_lines.len() } else { end };
            old_lines[at..end].iter().for_each(|line| put('-', line));
            new_lines[at.min(new_end)..new_end].iter().for_each(|line| put('+', line));
            at = end;
        }
        (last + 1..=to).for_each(|line| put(' ', &shown(line)));
        free = to + 1;
        moved += new_lines.len() as i64 - old_lines.len() as i64;
        made.push(Hunk { path: path.to_owned(), edits: group.to_vec(), diff });
    }
    made
}

/// Returns the lines from `first` to `last` as they are, and with the edits.
fn changed(
    old: &[u8],
    lines: &LineIndex,
    edits: &[RenameEdit],
    first: u32,
    last: u32,
) -> (Vec<String>, Vec<String>) {
    let start = lines.start(first) as usize;
    let end = if last as usize >= lines.count() { old.len() } else { lines.start(last + 1) as usize };
    let before = old.get(start..end).unwrap_or_default();
    let mut after = String::new();
    let mut at = start;
    for edit in edits {
        after.push_str(&decode(old.get(at..edit.range.start as usize).unwrap_or_default()));
        after.push_str(&edit.new);
        at = edit.range.end as usize;
    }
    after.push_str(&decode(old.get(at..end).unwrap_or_default()));
    let split = |text: &str| {
        let text = text.strip_suffix('\n').unwrap_or(text);
        text.split('\n').map(|line| line.trim_end_matches('\r').to_owned()).collect()
    };
    (split(decode(before).as_ref()), split(&after))
}

#[cfg(test)]
mod tests {
    use steelbank_reader::lines::LineColumn;

    use super::*;

    fn edits(text: &str, old: &str, new: &str) -> Vec<RenameEdit> {
        let lines = LineIndex::new(text.as_bytes());
        let found = text.match_indices(old).map(|(start, _)| {
            let LineColumn { line, column } = lines.position(text.as_bytes(), start as u32);
            let range = steelbank_reader::Range::of(start..start + old.len());
            RenameEdit { range, line, column, old: old.to_owned(), new: new.to_owned() }
        });
        found.collect()
    }

    #[test]
    fn a_diff_has_every_change_once_with_its_neighbours() {
        let text = "(a)\n(f 1)\n(b)\n(c)\n(d)\n(f (f 2))\n(f 3)\n(e)\n(f 4)";
        let found = hunks("x.lisp", text.as_bytes(), &edits(text, "f", "long"));
        let diffs: Vec<&str> = found.iter().map(|hunk| hunk.diff.as_str()).collect();
        assert_eq!(
            diffs,
            [
                "@@ -1,3 +1,3 @@\n (a)\n-(f 1)\n+(long 1)\n (b)\n",
                "@@ -5,5 +5,5 @@\n (d)\n-(f (f 2))\n-(f 3)\n+(long (long 2))\n+(long 3)\n (e)\n-(f 4)\n+(long 4)\n",
            ]
        );
        assert_eq!(found.iter().map(|hunk| hunk.edits.len()).collect::<Vec<_>>(), [1, 4]);
    }

    #[test]
    fn hunks_stay_short_and_do_not_overlap() {
        let text = "(f)\r\n".repeat(100);
        let found = hunks("x.lisp", text.as_bytes(), &edits(&text, "f", "g"));
        assert!(found.len() >= 3 && found.iter().all(|hunk| hunk.edits.len() <= MOST_EDITS));
        let lines: usize = found
            .iter()
            .map(|hunk| hunk.diff.lines().filter(|line| line.starts_with(['-', ' '])).count())
            .sum();
        assert_eq!(lines, 100);
    }

    #[test]
    fn edits_make_the_text_or_say_that_it_is_another() {
        let text = "(f 1) (f 2)";
        let utf_8 = |text: &str| Ok(text.as_bytes().to_vec());
        assert_eq!(edited(text.as_bytes(), &edits(text, "f", "gg"), utf_8).unwrap(), b"(gg 1) (gg 2)");
        let why = edited(b"(h 1) (h 2)", &edits(text, "f", "gg"), utf_8).unwrap_err();
        assert_eq!(why, "f does not stand at 1:2.");
        let mut twice = edits(text, "f", "g");
        twice[1] = twice[0].clone();
        assert!(edited(text.as_bytes(), &twice, utf_8).unwrap_err().contains("overlap"));
    }
}
