//! Limits the size of answers, so that any answer fits into a model's context.

use serde::Serialize;
use serde_json::Value;

use super::call::ToolAnswer;

/// The default maximum length of an answer: of its text in characters, and of its JSON in bytes.
/// 40,000 characters are about 10,000 tokens.
pub(crate) const BUDGET: usize = 40_000;
/// The characters reserved for the parts of an answer other than its entries.
const ENVELOPE: usize = 3_000;

/// Returns the length of `value` as JSON, in bytes.
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

/// Returns whether the answer's text fits into `budget` characters, and its JSON into `budget`
/// bytes.
pub(crate) fn fits(answer: &ToolAnswer, budget: usize) -> bool {
    let text = answer.text.len() <= budget || answer.text.chars().count() <= budget;
    text && answer.structured.json().len() <= budget
}

/// Truncates any `answer` to `budget`. Lists of more than one entry lose entries at their end; long
/// strings and the text lose their middle. Removes no entry of a page: a page that does not fit has
/// at most one entry already (see [`Sequence::min_entries`](super::page::Sequence::min_entries)).
pub(crate) fn truncate_hard(answer: &mut ToolAnswer, budget: usize) {
    let room = budget - ENVELOPE.min(budget / 4);
    let mut left_out = 0;
    // Each round shortens the longest list or string.
    for _ in 0..16 {
        let size = answer.structured.json().len();
        if size <= budget {
            break;
        }
        let list = longest_list(&answer.structured, String::new());
        let text = longest_text(&mut answer.structured).filter(|text| !text.is_empty());
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
    let characters = if answer.text.len() > budget { answer.text.chars().count() } else { 0 };
    if characters > budget {
        shorten(&mut answer.text, characters - budget);
    }
}

/// Finds the longest string in `value`, at any depth.
fn longest_text(value: &mut Value) -> Option<&mut String> {
    let texts: Vec<Option<&mut String>> = match value {
        Value::String(text) => return Some(text),
        Value::Array(values) => values.iter_mut().map(longest_text).collect(),
        Value::Object(fields) => fields.values_mut().map(longest_text).collect(),
        _ => return None,
    };
    texts.into_iter().flatten().max_by_key(|text| text.len())
}

/// Removes `excess` characters, and about 100 more for the marker, from the middle of `text`.
pub(crate) fn shorten(text: &mut String, excess: usize) {
    let characters: Vec<char> = text.chars().collect();
    let kept = characters.len().saturating_sub(excess + 100);
    let (head, tail) = (kept - kept / 4, kept / 4);
    let left_out = characters.len() - head - tail;
    let start = characters[..head].iter();
    let end = characters[characters.len() - tail..].iter();
    *text = start.copied().collect::<String>() + &format!(" [… {left_out} characters left out …] ");
    text.extend(end);
}

/// Finds the longest list of more than one entry in `value`. Returns the list's length as JSON, and
/// its JSON pointer.
fn longest_list(value: &Value, pointer: String) -> Option<(usize, String)> {
    let of = |name: &str, value| longest_list(value, format!("{pointer}/{}", escaped(name)));
    match value {
        Value::Array(values) if values.len() > 1 => Some((length(value), pointer)),
        Value::Array(values) => values.first().and_then(|value| of("0", value)),
        Value::Object(fields) => fields.iter().filter_map(|(name, value)| of(name, value)).max(),
        _ => None,
    }
}

/// Escapes a field's name for a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tools::CallOutcome;

    #[test]
    fn long_texts_lose_their_middle_and_count_it() {
        let long = "word ".repeat(40_000);
        let text = format!("F [FUNCTION]\n  Documentation:\n    {long}\n  Source: a.lisp:1");
        let methods: Vec<u32> = (0..3000).collect();
        let structured = json!({ "function": { "documentation": long, "methods": methods } });
        let mut answer = ToolAnswer::new(text.clone(), &structured, CallOutcome::Answered).unwrap();
        truncate_hard(&mut answer, 40_000);
        assert!(fits(&answer, 40_000));
        let documentation = answer.structured["function"]["documentation"].as_str().unwrap();
        for (shown, whole) in [(answer.text.as_str(), &text), (documentation, &long)] {
            let (head, rest) = shown.split_once(" [… ").unwrap();
            let (left_out, tail) = rest.split_once(" characters left out …] ").unwrap();
            assert!(whole.starts_with(head) && whole.ends_with(tail) && head.len() > 10_000);
            assert_eq!(head.len() + tail.len() + left_out.parse::<usize>().unwrap(), whole.len());
        }
        assert_eq!(answer.structured["function"]["methods"], json!(methods), "no entry is lost");
    }

    #[test]
    fn every_answer_is_truncated_to_the_budget() {
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
            assert!(answer.structured.to_string().contains("left"), "the answer counts what is left out");
        }
        let whole = ToolAnswer::new(long(9), &json!({ "few": [1, 2] }), CallOutcome::Answered).unwrap();
        let size = whole.text.chars().count();
        assert!(fits(&whole, size) && !fits(&whole, size - 1));
        let mut same = whole.clone();
        truncate_hard(&mut same, size);
        assert_eq!(same, whole);
    }
}
