//! Fits the answers of tools that make no pages into a model's context: cuts them between entries, with a cursor that
//! continues.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::call::{Failure, ToolAnswer};
use super::page::wrong_cursor;

/// The most characters of an answer, as text and as JSON, unless the caller asks for all of it: 10,000 tokens
/// of some four characters each.
pub(crate) const BUDGET: usize = 40_000;
/// The characters reserved for what stands beside the entries.
const ENVELOPE: usize = 3_000;

/// Measures `value` as JSON, in bytes.
pub(crate) fn length<T: Serialize + ?Sized>(value: &T) -> usize {
    struct Count(usize);
    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting cannot fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

/// Whether the answer and its text both fit into `budget` characters.
pub(crate) fn fits(answer: &ToolAnswer, budget: usize) -> bool {
    let text = answer.text.len() <= budget || answer.text.chars().count() <= budget;
    text && answer.structured.json().len() <= budget
}

/// The position at which a cut answer continues, for tools that do not make pages: how many entries of its lists, and
/// how many lines of its text, were shown before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CutCursor {
    entries: usize,
    lines: usize,
}

impl CutCursor {
    /// Parses a cursor that [`cut`] wrote.
    pub(crate) fn read(text: &str) -> Result<Self, Failure> {
        let parts = text.split_once(':').map(|(entries, lines)| (entries.parse(), lines.parse()));
        match parts {
            Some((Ok(entries), Ok(lines))) => Ok(Self { entries, lines }),
            _ => Err(wrong_cursor(text)),
        }
    }

    fn written(&self) -> String {
        format!("{}:{}", self.entries, self.lines)
    }
}

/// Makes `answer`, from `cursor` on, fit into `budget` characters: cuts its lists, as one sequence, between entries, and
/// its text between lines. A cut answer says that it is cut; with `continues`, also how to go on. Lists inside of
/// entries are left as they are.
///
/// # Errors
/// The cursor is past the end, or of another answer.
pub(crate) fn cut(
    answer: &mut ToolAnswer,
    cursor: Option<CutCursor>,
    budget: usize,
    continues: bool,
) -> Result<(), Failure> {
    let at = cursor.unwrap_or_default();
    let room = room(budget);
    let line_count = answer.text.lines().count();
    let lists = lists(&answer.structured);
    let total: usize = lists.iter().map(|list| list.entries).sum();
    let past = at.entries > total || at.lines > line_count;
    // Refuse a cursor after which nothing is left.
    if at != CutCursor::default() && (past || (at.entries == total && at.lines == line_count)) {
        return Err(Failure::arguments(format!(
            "The cursor {:?} is past the end, or of another answer. Ask again without it.",
            at.written()
        )));
    }
    let mut next = CutCursor { entries: total, lines: line_count };
    if at.entries > 0 || length(&*answer.structured) > budget {
        let in_lists: usize = lists.iter().map(|list| list.length).sum();
        let beside = room - in_lists.min(room / 2);
        while let excess @ 1.. = length(&without_lists(&answer.structured)).saturating_sub(beside) {
            let Some(text) = longest_text(&mut answer.structured, false) else { break };
            shorten(text, excess);
        }
        let mut taken = length(&without_lists(&answer.structured));
        let mut entries = at.entries;
        for list in &lists {
            let Some(Value::Array(values)) = answer.structured.pointer_mut(&list.pointer) else { continue };
            let skipped = at.entries.saturating_sub(list.before).min(values.len());
            values.drain(..skipped);
            let fitting = values.iter().take_while(|value| {
                taken = taken.saturating_add(length(*value) + 1);
                taken <= room
            });
            let fitting = fitting.count().max(usize::from(entries == at.entries)).min(values.len());
            // Leave the next lists, too, to the next page.
            taken = if fitting < values.len() { usize::MAX } else { taken };
            values.truncate(fitting);
            entries += fitting;
        }
        next.entries = entries;
    }
    if at.lines > 0 || answer.text.chars().count() > budget {
        let (text, end) = cut_text(&answer.text, at.lines, room);
        (answer.text, next.lines) = (text, end.unwrap_or(line_count));
    }
    let left_out = total - next.entries;
    if left_out == 0 && next.lines == line_count {
        return Ok(());
    }
    let cursor = next.written();
    let how = match continues {
        true => format!("more is left out; ask again with \"cursor\": {cursor:?}, or narrow the question."),
        false => "more is left out.".to_owned(),
    };
    answer.text.push_str("\n\n... ");
    answer.text.push_str(&how);
    if left_out > 0 {
        answer.structured.insert("left_out", left_out);
    }
    if continues {
        answer.structured.insert("cursor", cursor);
    }
    Ok(())
}

/// Returns the characters of `budget` that are for entries and lines.
fn room(budget: usize) -> usize {
    budget - ENVELOPE.min(budget / 4)
}

/// A list of an answer that is in no other list.
struct OuterList {
    pointer: String,
    length: usize,
    entries: usize,
    /// The entries of the lists before it.
    before: usize,
}

/// Finds the lists of `answer`, the shortest first: the first page has all of those that are short.
fn lists(answer: &Value) -> Vec<OuterList> {
    fn add(value: &Value, pointer: &str, found: &mut Vec<OuterList>) {
        match value {
            Value::Array(values) => found.push(OuterList {
                pointer: pointer.to_owned(),
                length: length(value),
                entries: values.len(),
                before: 0,
            }),
            Value::Object(fields) => fields.iter().for_each(|(name, value)| {
                add(value, &format!("{pointer}/{}", escaped(name)), found);
            }),
            _ => (),
        }
    }
    let mut found = Vec::new();
    add(answer, "", &mut found);
    found.sort_by_key(|list| list.length);
    let mut before = 0;
    for list in &mut found {
        list.before = before;
        before += list.entries;
    }
    found
}

/// Returns `answer` with no entry in its lists.
fn without_lists(answer: &Value) -> Value {
    match answer {
        Value::Array(_) => Value::Array(Vec::new()),
        Value::Object(fields) => {
            fields.iter().map(|(name, value)| (name.clone(), without_lists(value))).collect()
        }
        other => other.clone(),
    }
}

/// Truncates any `answer` to `budget` characters, as the last resort: lists of more than one entry lose their ends, and
/// overlong strings their middles.
pub(crate) fn truncate_hard(answer: &mut ToolAnswer, budget: usize) {
    let room = room(budget);
    let mut left_out = 0;
    // Take the excess from the longest part in each round.
    for _ in 0..16 {
        let size = answer.structured.json().len();
        if size <= budget {
            break;
        }
        let list = longest_list(&answer.structured, String::new());
        let text = longest_text(&mut answer.structured, true).filter(|text| !text.is_empty());
        match (list, text) {
            (Some((of_list, _)), Some(text)) if text.len() >= of_list => shorten(text, size - room),
            (Some((of_list, pointer)), _) => {
                let Some(Value::Array(entries)) = answer.structured.pointer_mut(&pointer) else { break };
                let mut taken = (size - of_list).min(room / 2);
                let fitting = entries.iter().take_while(|entry| {
                    taken += length(entry) + 1;
                    taken <= room
                });
                let fitting = fitting.count().clamp(1, entries.len() - 1);
                left_out += entries.len() - fitting;
                entries.truncate(fitting);
            }
            (None, Some(text)) => shorten(text, size - room),
            (None, None) => break,
        }
    }
    if left_out > 0 {
        let before = answer.structured.get("left_out").and_then(Value::as_u64).unwrap_or_default();
        answer.structured.insert("left_out", before + left_out as u64);
    }
    if answer.text.chars().count() > budget {
        let (text, end) = cut_text(&answer.text, 0, room);
        answer.text = text;
        if end.is_some() {
            answer.text.push_str("\n\n... more is left out.");
        }
    }
}

/// Finds the longest string in `value`, at any depth; without `in_lists`, outside of lists.
fn longest_text(value: &mut Value, in_lists: bool) -> Option<&mut String> {
    let texts: Vec<Option<&mut String>> = match value {
        Value::String(text) => return Some(text),
        Value::Array(values) if in_lists => {
            values.iter_mut().map(|value| longest_text(value, in_lists)).collect()
        }
        Value::Object(fields) => fields.values_mut().map(|value| longest_text(value, in_lists)).collect(),
        _ => return None,
    };
    texts.into_iter().flatten().max_by_key(|text| text.len())
}

/// Removes `excess` characters, and some more, from the middle of `text`.
fn shorten(text: &mut String, excess: usize) {
    let characters: Vec<char> = text.chars().collect();
    let kept = characters.len().saturating_sub(excess + 100);
    let (head, tail) = (kept - kept / 4, kept / 4);
    let left_out = characters.len() - head - tail;
    let start = characters[..head].iter();
    let end = characters[characters.len() - tail..].iter();
    *text = start.copied().collect::<String>() + &format!(" [… {left_out} characters left out …] ");
    text.extend(end);
}

/// Finds the list of `value`, of more than one entry, that takes the most room: how much, and its pointer.
fn longest_list(value: &Value, pointer: String) -> Option<(usize, String)> {
    let of = |name: &str, value| longest_list(value, format!("{pointer}/{}", escaped(name)));
    match value {
        Value::Array(values) if values.len() > 1 => Some((length(value), pointer)),
        Value::Array(values) => values.first().and_then(|value| of("0", value)),
        Value::Object(fields) => fields.iter().filter_map(|(name, value)| of(name, value)).max(),
        _ => None,
    }
}

/// Escapes a field's name as a part of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Cuts `text` to `room` characters, from line `skip` on, and keeps its heading. Returns also the line at which the text
/// continues, if it is cut. The indented lines of an entry stay with it. An overlong line loses its middle.
fn cut_text(text: &str, skip: usize, room: usize) -> (String, Option<usize>) {
    let mut lines: Vec<Cow<'_, str>> = text.lines().map(Cow::Borrowed).collect();
    let longest = if lines.len() > 1 { room / 2 } else { room };
    for line in &mut lines {
        let length = if line.len() > longest { line.chars().count() } else { 0 };
        if length > longest {
            shorten(line.to_mut(), length - longest);
        }
    }
    let first = if skip == 0 { 0 } else { skip.max(1).min(lines.len()) };
    let mut size = if skip == 0 { 0 } else { lines.first().map_or(0, |line| line.chars().count() + 1) };
    let (mut end, mut whole) = (first, first);
    // Skip this if the text ended before a list did.
    while end < lines.len() {
        size += lines[end].chars().count() + 1;
        if size > room {
            break;
        }
        end += 1;
        let deep = |line: &Cow<'_, str>| line.len() - line.trim_start().len() > 2;
        if lines.get(end).is_none_or(|line| !deep(line)) {
            whole = end;
        }
    }
    // Cut inside an entry if that alone is too long.
    let continued = end < lines.len();
    let end = match continued {
        true if whole > first => whole,
        true => end.max(first + 1),
        false => end,
    };
    let heading = if skip == 0 { &[] } else { &lines[..lines.len().min(1)] };
    ([heading, &lines[first..end]].concat().join("\n"), continued.then_some(end))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::CallOutcome;

    fn answer() -> ToolAnswer {
        let entries: Vec<Value> =
            (0..1000).map(|number| json!({ "name": format!("entry {number:05}") })).collect();
        let lines = (0..1000).map(|number| format!("  entry {number:05}\n      its context"));
        let text = std::iter::once("Entries:\n".to_owned()).chain(lines).collect::<Vec<_>>().join("\n");
        ToolAnswer::new(text, &json!({ "few": [1, 2], "entries": entries }), CallOutcome::Answered).unwrap()
    }

    /// Joins the pages of `whole`: its entries by list, and the lines of its text below the heading.
    fn joined(whole: &ToolAnswer, budget: usize) -> (Vec<Value>, Vec<String>) {
        let (mut entries, mut lines, mut cursor) = (Vec::new(), Vec::new(), None);
        loop {
            let mut page = whole.clone();
            cut(&mut page, cursor.take(), budget, true).unwrap();
            assert!(page.text.chars().count() <= budget && length(&*page.structured) <= budget);
            for list in lists(&page.structured) {
                let values = page.structured.pointer(&list.pointer).unwrap().as_array().unwrap();
                entries.extend(values.iter().map(|value| json!([list.pointer, value])));
            }
            let body = page.text.lines().skip(1).take_while(|line| !line.starts_with("..."));
            lines.extend(body.filter(|line| !line.is_empty()).map(str::to_owned));
            match page.structured.get("cursor").and_then(Value::as_str) {
                Some(next) => cursor = Some(CutCursor::read(next).unwrap()),
                None => break,
            }
            assert!(lines.is_empty() || lines.last().unwrap().ends_with("context"), "entries are whole");
        }
        entries.sort_by_key(Value::to_string);
        (entries, lines)
    }

    #[test]
    fn pages_have_every_entry_once_and_whole_and_fit() {
        let mut whole = answer();
        whole.structured["inner"] = json!({ "others": (0..2000).collect::<Vec<u32>>(), "none": [] });
        let (entries, lines) = joined(&whole, usize::MAX);
        assert_eq!((entries.len(), lines.len()), (3002, 2000));
        for budget in [4_000, 10_000, 33_333] {
            assert!(joined(&whole, budget) == (entries.clone(), lines.clone()), "{budget}");
        }
    }

    #[test]
    fn what_fits_is_not_touched_and_a_wrong_cursor_is_told() {
        let mut whole = answer();
        cut(&mut whole, None, usize::MAX, true).unwrap();
        assert_eq!(whole, answer());
        assert!(CutCursor::read("x").unwrap_err().to_string().contains("\"x\""));
    }

    #[test]
    fn a_text_that_ends_before_its_list_ends_it_not() {
        let mut page = answer();
        page.text = "Entries: 1000".to_owned();
        cut(&mut page, None, 10_000, true).unwrap();
        let cursor = page.structured["cursor"].as_str().unwrap().to_owned();
        let mut next = answer();
        next.text = "Entries: 1000".to_owned();
        cut(&mut next, Some(CutCursor::read(&cursor).unwrap()), 10_000, true).unwrap();
        let first = page.structured["entries"].as_array().unwrap().len();
        assert_eq!(next.structured["entries"][0]["name"], format!("entry {first:05}"));
        assert!(next.text.starts_with("Entries: 1000\n"), "{}", next.text);
    }

    #[test]
    fn a_cursor_past_the_end_or_damaged_is_an_error() {
        let lines = answer().text.lines().count();
        let wrong =
            ["0:99999", "1003:0", &format!("1002:{lines}"), "1:", "-1:1", "1:1:1", "few:1:1", "7", ""];
        for cursor in wrong {
            let read = CutCursor::read(cursor);
            assert!(read.and_then(|read| cut(&mut answer(), Some(read), 10_000, true)).is_err(), "{cursor}");
        }
        for cursor in [format!("1001:{lines}"), "1002:0".to_owned(), "0:1".to_owned()] {
            let read = CutCursor::read(&cursor).unwrap();
            assert!(cut(&mut answer(), Some(read), 10_000, true).is_ok(), "{cursor}");
        }
    }

    #[test]
    fn a_long_line_is_cut_inside_and_says_by_how_much() {
        let long = "word ".repeat(40_000);
        let text = format!("F [FUNCTION]\n  Documentation:\n    {long}\n  Source: a.lisp:1");
        let methods: Vec<u32> = (0..3000).collect();
        let structured = json!({ "function": { "documentation": long, "methods": methods } });
        let mut first = ToolAnswer::new(text, &structured, CallOutcome::Answered).unwrap();
        cut(&mut first, None, 40_000, true).unwrap();
        assert!(fits(&first, 40_000));
        let line = first.text.lines().find(|line| line.contains("word")).unwrap();
        let said = first.structured["function"]["documentation"].as_str().unwrap();
        for shown in [line.trim_start(), said] {
            let (head, rest) = shown.split_once(" [… ").unwrap();
            let (left_out, tail) = rest.split_once(" characters left out …] ").unwrap();
            assert!(long.starts_with(head) && long.ends_with(tail) && head.len() > 10_000);
            assert_eq!(
                head.len() + tail.len() + left_out.parse::<usize>().unwrap(),
                long.len(),
                "{left_out}"
            );
        }
        assert!(first.text.contains("\n  Source: a.lisp:1"), "what follows is on the same page");
        assert_eq!(
            first.structured["function"]["methods"].as_array().unwrap().len(),
            3000,
            "no entry is lost"
        );
    }

    #[test]
    fn whatever_an_answer_holds_it_is_bounded() {
        let long = |count: usize| "é(x) ".repeat(count);
        for structured in [
            json!({ "form": long(9_000), "expansion": long(9_000) }),
            json!({ "one": [{ "text": long(9_000) }] }),
            json!({ "changed": (0..9_000).collect::<Vec<u32>>(), "users": (0..9_000).collect::<Vec<u32>>() }),
        ] {
            let mut answer = ToolAnswer::new(long(9_000), &structured, CallOutcome::Answered).unwrap();
            truncate_hard(&mut answer, 10_000);
            assert!(length(&answer.structured) <= 10_000, "{}", length(&answer.structured));
            assert!(answer.text.chars().count() <= 10_000);
            assert!(answer.structured.to_string().contains("left"), "what is left out is told");
        }
        // An answer that fits is not changed.
        let mut whole = answer();
        let size = length(&whole.structured).max(whole.text.chars().count());
        assert!(fits(&whole, size) && !fits(&whole, size - 1));
        cut(&mut whole, None, size, true).unwrap();
        truncate_hard(&mut whole, size);
        truncate_hard(&mut whole, usize::MAX);
        assert_eq!(whole, answer());
    }
}
