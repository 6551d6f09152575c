//! Fits answers into a model's context: cuts them between entries, with a cursor that continues.

use serde::Serialize;
use serde_json::{Map, Value};

use super::arguments::wrong_cursor;
use super::call::{Failure, ToolAnswer};

/// The most characters of an answer, as text and as JSON, unless the caller asks for all of it: 10,000 tokens
/// of some four characters each.
pub(super) const BUDGET: usize = 40_000;
/// The characters reserved for what stands beside the entries.
const BESIDE: usize = 3_000;

/// Counts how many of `entries` fit into `budget` characters, both as JSON and as text, of which each takes
/// `text` characters. At least one, if there is one.
pub(super) fn fit<T: Serialize>(entries: &[T], budget: usize, text: impl Fn(&T) -> usize) -> usize {
    let room = budget.saturating_sub(BESIDE);
    let (mut structured, mut shown) = (0, 0);
    for (count, entry) in entries.iter().enumerate() {
        structured += length(entry) + 1;
        shown += text(entry);
        if count > 0 && (structured > room || shown > room) {
            return count;
        }
    }
    entries.len()
}

/// Whether all `entries` certainly fit, given that none takes more than `at_most` bytes as JSON or as text.
/// Then [`fit`] need not measure them.
pub(super) fn all_fit<T>(entries: &[T], budget: usize, at_most: impl Fn(&T) -> usize) -> bool {
    let mut left = Some(budget.saturating_sub(BESIDE));
    entries.iter().all(|entry| {
        left = left.and_then(|left| left.checked_sub(at_most(entry).saturating_add(1)));
        left.is_some()
    })
}

/// The most bytes that `text` takes as JSON: each may be written as `\u0000`.
pub(super) fn most_as_json(text: &str) -> usize {
    6 * text.len() + 2
}

/// Measures `value` as JSON, in bytes.
pub(super) fn length<T: Serialize + ?Sized>(value: &T) -> usize {
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

/// Whether the answer and its text both fit into `budget` characters, so that neither [`cut`] nor [`bound`]
/// would change it.
pub(super) fn fits(answer: &ToolAnswer, budget: usize) -> bool {
    let text = answer.text.len() <= budget || answer.text.chars().count() <= budget;
    text && answer.structured.json().len() <= budget
}

/// The position at which a cut answer continues, for tools that do not page themselves: a list of the answer,
/// and the numbers of its entries and of lines of text that were shown before.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct CutCursor {
    list: String,
    entries: usize,
    lines: usize,
}

impl CutCursor {
    /// Parses a cursor that [`cut`] wrote.
    pub(super) fn read(text: &str) -> Result<Self, Failure> {
        let mut parts = text.split(':');
        match (parts.next(), parts.next().map(str::parse), parts.next().map(str::parse), parts.next()) {
            (Some(list), Some(Ok(entries)), Some(Ok(lines)), None) => {
                Ok(Self { list: list.to_owned(), entries, lines })
            }
            _ => Err(wrong_cursor(text)),
        }
    }
}

impl CutCursor {
    fn written(&self) -> String {
        format!("{}:{}:{}", self.list, self.entries, self.lines)
    }

    /// Whether the cursor fits `answer`, and something of it is left to show.
    fn is_of(&self, answer: &ToolAnswer) -> bool {
        let list = answer.structured.get(&self.list).and_then(Value::as_array);
        let entries = match (self.list.as_str(), list) {
            ("", _) => (self.entries == 0).then_some(false),
            (_, Some(list)) => (self.entries == usize::MAX || self.entries < list.len())
                .then_some(self.entries != usize::MAX),
            (_, None) => None,
        };
        let lines = match self.lines {
            usize::MAX => Some(false),
            lines => (lines < answer.text.lines().count()).then_some(true),
        };
        // Refuse a cursor after which nothing is left.
        matches!((entries, lines), (Some(entries), Some(lines)) if entries || lines)
    }
}

/// Continues `answer` at `cursor`, as [`cut`] does.
///
/// # Errors
/// The cursor is past the end, or of another answer.
pub(super) fn continued(answer: &mut ToolAnswer, cursor: CutCursor, budget: usize) -> Result<(), Failure> {
    if !cursor.is_of(answer) {
        let given = cursor.written();
        return Err(Failure::Arguments(format!(
            "The cursor {given:?} is past the end, or of another answer. Ask again without it."
        )));
    }
    cut(answer, Some(cursor), budget, true);
    Ok(())
}

/// Continues `answer` at `cursor` and makes it fit into `budget` characters: cuts its longest list between
/// entries, and its text between lines. A cut answer says that it is cut; with `continues`, also how to go
/// on.
pub(super) fn cut(answer: &mut ToolAnswer, cursor: Option<CutCursor>, budget: usize, continues: bool) {
    let at = cursor.unwrap_or_default();
    let room = budget.saturating_sub(BESIDE);
    let mut next = at.clone();
    let mut more = false;
    if let Value::Object(structured) = &mut *answer.structured {
        if let Some(Value::Array(list)) = structured.get_mut(&at.list) {
            list.drain(..at.entries.min(list.len()));
        }
        let size = length(structured);
        if size > budget
            && let Some((name, entries)) = longest(structured)
        {
            let beside = size - entries.iter().map(|entry| length(entry) + 1).sum::<usize>();
            let mut taken = beside;
            let fitting = entries.iter().take_while(|entry| {
                taken += length(entry) + 1;
                taken <= room
            });
            let fitting = fitting.count().max(1);
            let left_out = entries.len() - fitting;
            let before = if name == at.list { at.entries } else { 0 };
            if let Some(Value::Array(list)) = structured.get_mut(&name) {
                list.truncate(fitting);
            }
            structured.insert("left_out".to_owned(), left_out.into());
            next = CutCursor { entries: before + fitting, list: name, ..next };
            more = left_out > 0;
        }
        if !more && !next.list.is_empty() {
            // Mark the list as shown to its end: only the text continues.
            next.entries = usize::MAX;
        }
    }
    let (text, lines) = cut_text(&answer.text, at.lines, budget, room);
    next.lines = lines.unwrap_or(usize::MAX);
    if let Some(text) = text {
        answer.text = text;
    }
    if more || lines.is_some() {
        let cursor = next.written();
        let how = match continues {
            true => {
                format!("more is left out; ask again with \"cursor\": {cursor:?}, or narrow the question.")
            }
            false => "more is left out.".to_owned(),
        };
        answer.text.push_str("\n\n... ");
        answer.text.push_str(&how);
        if let (Value::Object(structured), true) = (&mut *answer.structured, continues) {
            structured.insert("cursor".to_owned(), cursor.into());
        }
    }
}

/// Truncates any `answer` to `budget` characters, as the last resort: lists lose their ends, and overlong
/// strings their middles.
pub(super) fn bound(answer: &mut ToolAnswer, budget: usize) {
    let room = budget.saturating_sub(BESIDE);
    if let Value::Object(structured) = &mut *answer.structured {
        let mut left_out = 0;
        // Take the excess from the longest part in each round.
        for _ in 0..16 {
            let size = length(structured);
            if size <= budget {
                break;
            }
            let list = longest(structured).map(|(name, entries)| (length(entries), name));
            let text = longest_text(structured.values_mut());
            match (list, text) {
                (Some((of_list, name)), text) if text.as_ref().is_none_or(|text| text.len() < of_list) => {
                    let Some(Value::Array(entries)) = structured.get_mut(&name) else { break };
                    let mut taken = (size - of_list).min(room / 2);
                    let fitting = entries.iter().take_while(|entry| {
                        taken += length(entry) + 1;
                        taken <= room
                    });
                    let fitting = fitting.count().clamp(1, entries.len() - 1);
                    left_out += entries.len() - fitting;
                    entries.truncate(fitting);
                }
                (_, Some(text)) => shorten(text, size - room),
                (_, None) => break,
            }
        }
        if left_out > 0 {
            structured.insert("left_out".to_owned(), left_out.into());
        }
    }
    if let (Some(text), Some(_)) = cut_text(&answer.text, 0, budget, room) {
        answer.text = text + "\n\n... more is left out.";
    }
    if answer.text.chars().count() > budget {
        let excess = answer.text.chars().count() - room;
        shorten(&mut answer.text, excess);
    }
}

/// Finds the longest string in `values`, at any depth.
fn longest_text<'a>(values: impl Iterator<Item = &'a mut Value>) -> Option<&'a mut String> {
    let texts = values.filter_map(|value| match value {
        Value::String(text) => Some(text),
        Value::Array(values) => longest_text(values.iter_mut()),
        Value::Object(values) => longest_text(values.values_mut()),
        _ => None,
    });
    texts.max_by_key(|text| text.len())
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

/// Finds the list of `structured` that takes the most room.
fn longest(structured: &Map<String, Value>) -> Option<(String, &Vec<Value>)> {
    let lists = structured.iter().filter_map(|(name, value)| Some((name, value.as_array()?)));
    lists
        .filter(|(_, list)| list.len() > 1)
        .max_by_key(|(_, list)| length(*list))
        .map(|(name, list)| (name.clone(), list))
}

/// Cuts `text` to `budget` characters, from line `skip` on, and keeps its heading; none if all of it fits.
/// Returns also the line at which the text continues, if it is cut again. The indented lines of an entry stay
/// with it.
fn cut_text(text: &str, skip: usize, budget: usize, room: usize) -> (Option<String>, Option<usize>) {
    if skip == 0 && text.chars().count() <= budget {
        return (None, None);
    }
    let lines: Vec<&str> = text.lines().collect();
    let first = if skip == 0 { 0 } else { skip.max(1).min(lines.len()) };
    let mut kept: Vec<&str> =
        if skip == 0 { Vec::new() } else { lines.first().copied().into_iter().collect() };
    let mut size: usize = kept.iter().map(|line| line.chars().count() + 1).sum();
    let (mut end, mut whole) = (first, first);
    // Skip this if the text ended before a list did.
    while end < lines.len() {
        size += lines[end].chars().count() + 1;
        if size > room {
            break;
        }
        end += 1;
        let deep = |line: &&str| line.len() - line.trim_start().len() > 2;
        if lines.get(end).is_none_or(|line| !deep(line)) {
            whole = end;
        }
    }
    if end == lines.len() {
        kept.extend(lines.get(first..).unwrap_or_default());
        return (Some(kept.join("\n")), None);
    }
    // Cut inside an entry if that alone is too long.
    let end = if whole > first { whole } else { end.max(first + 1) };
    kept.extend(&lines[first..end]);
    (Some(kept.join("\n")), Some(end))
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

    #[test]
    fn pages_have_every_entry_once_and_whole_and_fit() {
        let (mut names, mut lines, mut cursor) = (Vec::new(), Vec::new(), None);
        loop {
            let mut page = answer();
            cut(&mut page, cursor.take(), 10_000, true);
            assert!(page.text.len() <= 10_000 && page.structured.to_string().len() <= 10_000);
            for entry in page.structured["entries"].as_array().unwrap() {
                names.push(entry["name"].as_str().unwrap().to_owned());
            }
            let body: Vec<&str> = page.text.lines().filter(|line| line.starts_with("  ")).collect();
            assert!(body[0].starts_with("  entry") || body.is_empty(), "{}", body[0]);
            lines.extend(body.into_iter().map(str::to_owned));
            match page.structured.get("cursor").and_then(Value::as_str) {
                Some(next) => cursor = Some(CutCursor::read(next).unwrap()),
                None => break,
            }
            assert!(lines.last().unwrap().ends_with("context"), "entries are whole");
        }
        assert_eq!(names.len(), 1000);
        assert!(names.is_sorted());
        assert_eq!(lines.len(), 2000);
    }

    #[test]
    fn what_fits_is_not_touched_and_a_wrong_cursor_is_told() {
        let mut whole = answer();
        cut(&mut whole, None, usize::MAX, true);
        assert_eq!(whole, answer());
        assert!(CutCursor::read("x").unwrap_err().to_string().contains("\"x\""));
    }

    #[test]
    fn a_text_that_ends_before_its_list_ends_it_not() {
        let mut page = answer();
        page.text = "Entries: 1000".to_owned();
        cut(&mut page, None, 10_000, true);
        let cursor = page.structured["cursor"].as_str().unwrap().to_owned();
        let mut next = answer();
        next.text = "Entries: 1000".to_owned();
        continued(&mut next, CutCursor::read(&cursor).unwrap(), 10_000).unwrap();
        let first = page.structured["entries"].as_array().unwrap().len();
        assert_eq!(next.structured["entries"][0]["name"], format!("entry {first:05}"));
        assert!(next.text.starts_with("Entries: 1000\n"), "{}", next.text);
    }

    #[test]
    fn a_cursor_past_the_end_or_damaged_is_an_error() {
        let lines = answer().text.lines().count();
        let (all, none) = (usize::MAX, "few");
        let wrong = [
            "0:0:99999".to_owned(),
            format!("{none}:2:{all}"),
            format!("entries:1000:{all}"),
            format!("entries:{all}:{all}"),
            format!("entries:{all}:{lines}"),
            format!(":0:{all}"),
            format!(":1:{all}"),
            "nowhere:1:1".to_owned(),
            "entries:-1:1".to_owned(),
            "entries:1:1:1".to_owned(),
            String::new(),
        ];
        for cursor in wrong {
            let read = CutCursor::read(&cursor);
            assert!(read.and_then(|read| continued(&mut answer(), read, 10_000)).is_err(), "{cursor}");
        }
        for cursor in [format!("entries:999:{all}"), format!("few:1:{all}"), ":0:1".to_owned()] {
            let read = CutCursor::read(&cursor);
            assert!(read.and_then(|read| continued(&mut answer(), read, 10_000)).is_ok(), "{cursor}");
        }
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
            bound(&mut answer, 10_000);
            assert!(length(&answer.structured) <= 10_000, "{}", length(&answer.structured));
            assert!(answer.text.chars().count() <= 10_000);
            assert!(answer.structured.to_string().contains("left"), "what is left out is told");
        }
        // An answer that fits is not changed.
        let mut whole = answer();
        let size = length(&whole.structured).max(whole.text.chars().count());
        assert!(fits(&whole, size) && !fits(&whole, size - 1));
        cut(&mut whole, None, size, true);
        bound(&mut whole, size);
        bound(&mut whole, usize::MAX);
        assert_eq!(whole, answer());
    }

    #[test]
    fn as_many_entries_as_fit() {
        let entries = ["x".repeat(1000), "y".repeat(1000), "z".repeat(1000)];
        assert_eq!(fit(&entries, BESIDE + 2100, |_| 0), 2);
        assert_eq!(fit(&entries, BESIDE + 2100, |entry| 2 * entry.len()), 1);
        assert_eq!(fit(&entries, 0, |_| 0), 1);
        assert_eq!(fit(&entries, usize::MAX, |_| 0), 3);
        let escaped = ["\u{1}".repeat(1000), "x".to_owned()];
        for budget in (0..20_000).step_by(7) {
            let certain = all_fit(&escaped, budget, |entry| most_as_json(entry));
            assert!(!certain || fit(&escaped, budget, |_| 0) == 2, "{budget}");
        }
        assert!(all_fit(&escaped, BESIDE + 6_012, |entry| most_as_json(entry)));
    }
}
