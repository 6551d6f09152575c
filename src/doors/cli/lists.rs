//! Reduces an answer's lists to their length (`--count`) or their files (`--files-with-matches`).
//! [`LISTS`] names the lists of each tool's structured answer.

use std::collections::BTreeSet;

use clap::{Arg, ArgAction, ArgMatches};
use serde_json::Value;

use crate::tools::Tool;

/// The tools that return lists, each with the names of these lists in the structured answer.
const LISTS: [(&str, &[&str]); 16] = [
    ("apropos", &["symbols"]),
    ("code-find-references", &["refs", "text"]),
    ("compiler-notes", &["notes"]),
    ("find-definition", &["definitions"]),
    ("find_references", &["references"]),
    ("impact", &["users"]),
    ("interface", &["used", "uses"]),
    ("list-systems", &["systems"]),
    ("outline", &["definitions"]),
    ("who-binds", &["users", "toplevel"]),
    ("who-calls", &["users", "toplevel"]),
    ("who-macroexpands", &["users", "toplevel"]),
    ("who-makes", &["makers"]),
    ("who-references", &["users", "toplevel"]),
    ("who-sets", &["users", "toplevel"]),
    ("who-specializes", &["users", "toplevel"]),
];

/// The keys in answers that have a place as their value, or a list of places. A place is a file,
/// followed by a line and a column if they are known.
const PLACES: [&str; 5] = ["approximate", "asd", "at", "place", "places"];

const COUNT: &str = "count";
const FILES: &str = "files-with-matches";

/// The reduced form of an answer's lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ListOutput {
    /// The number of entries.
    Count,
    /// The files of all places.
    Files,
}

/// Returns the options that select a [`ListOutput`], for a tool that returns lists.
pub(super) fn options(tool: &Tool) -> Vec<Arg> {
    if !returns_lists(tool) {
        return Vec::new();
    }
    let flag = |name: &'static str| Arg::new(name).long(name).action(ArgAction::SetTrue);
    vec![
        flag(COUNT).short('c').conflicts_with(FILES).help("Print only the number of results"),
        flag(FILES).short('l').help("Print only the files with results, one per line"),
    ]
}

/// Returns the output that `matches` request.
pub(super) fn requested(matches: &ArgMatches) -> Option<ListOutput> {
    let given = |name| matches.try_get_one::<bool>(name).ok().flatten().is_some_and(|given| *given);
    match (given(COUNT), given(FILES)) {
        (true, _) => Some(ListOutput::Count),
        (_, true) => Some(ListOutput::Files),
        _ => None,
    }
}

/// Returns whether the tool returns lists.
pub(super) fn returns_lists(tool: &Tool) -> bool {
    !lists(tool).is_empty()
}

fn lists(tool: &Tool) -> &'static [&'static str] {
    LISTS.iter().find(|(name, _)| *name == tool.name()).map_or(&[], |(_, lists)| lists)
}

/// Returns the entries of all lists in the tool's `answer`.
pub(super) fn entries<'a>(tool: &Tool, answer: &'a Value) -> Vec<&'a Value> {
    lists(tool).iter().filter_map(|list| answer.get(list)?.as_array()).flatten().collect()
}

/// Returns the files of all places in `entries`, sorted and without duplicates.
pub(super) fn files(entries: &[&Value]) -> BTreeSet<String> {
    let mut files = BTreeSet::new();
    entries.iter().for_each(|entry| collect(entry, &mut files));
    files
}

fn collect(value: &Value, files: &mut BTreeSet<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| collect(item, files)),
        Value::Object(fields) => {
            if let (Some(path), Some(_)) = (fields.get("path").and_then(Value::as_str), fields.get("line")) {
                files.insert(path.to_owned());
            }
            for (_, place) in fields.iter().filter(|(key, _)| PLACES.contains(&key.as_str())) {
                let texts = place.as_array().map_or(std::slice::from_ref(place), Vec::as_slice);
                files.extend(texts.iter().filter_map(Value::as_str).map(|place| file_of(place).to_owned()));
            }
            fields.values().filter(|value| !value.is_string()).for_each(|value| collect(value, files));
        }
        _ => {}
    }
}

/// Removes the line and the column from a place. Each is a number or a range of numbers.
fn file_of(place: &str) -> &str {
    let number =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let mut file = place;
    for _ in 0..2 {
        match file.rsplit_once(':') {
            Some((before, after)) if number(after) => file = before,
            _ => break,
        }
    }
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_list_exists_in_output_schema() {
        for (name, lists) in LISTS {
            let tool = crate::actions::tools().get(name).unwrap();
            for list in lists {
                let properties = tool.output().get("properties").unwrap();
                assert!(properties.get(list).is_some(), "{name}: {list}");
            }
        }
    }

    #[test]
    fn files_come_from_all_places() {
        let answer = serde_json::json!({
            "users": [{"name": "A", "places": ["b.lisp:1:2", "a:b.lisp:3"]}, {"path": "c.lisp", "line": 3}],
        });
        let tool = crate::actions::tools().get("who-calls").unwrap();
        let entries = entries(tool, &answer);
        assert_eq!(entries.len(), 2);
        assert_eq!(files(&entries).into_iter().collect::<Vec<_>>(), ["a:b.lisp", "b.lisp", "c.lisp"]);
    }
}
