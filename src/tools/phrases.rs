//! Formats messages: quotes, shortens and truncates text, joins lists, and ends sentences.

use crate::answer::{LispKind, shortened};

/// Joins `items` with commas.
pub(crate) fn listed<T: std::fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// Lists the kinds of a symbol's definitions.
pub(crate) fn listed_kinds(kinds: &[LispKind]) -> String {
    if kinds.is_empty() { "nothing".to_owned() } else { listed(kinds) }
}

/// Quotes `text`, shortened if it is long.
pub fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text))
}

/// Truncates `text` to `most` characters, and appends a line with the number of omitted characters.
pub(crate) fn truncated(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    match text.char_indices().nth(most) {
        None => text,
        Some((at, _)) => {
            let rest = text[at..].chars().count();
            format!("{}\n... truncated: {rest} more characters are left out.", &text[..at])
        }
    }
}

/// Converts an error's message to a sentence: capitalizes the first letter, and adds a period
/// unless the message ends with one or with `!` or `?`.
pub(crate) fn sentence(words: &str) -> String {
    let mut chars = words.chars();
    let Some(first) = chars.next() else { return String::new() };
    let end = if words.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{}{}{end}", first.to_uppercase(), chars.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncation_respects_characters_and_counts_the_rest() {
        assert_eq!(truncated("ää".into(), 2), "ää");
        assert_eq!(truncated("äää".into(), 2), "ää\n... truncated: 1 more characters are left out.");
    }

    #[test]
    fn errors_become_sentences() {
        assert_eq!(sentence("the request was cancelled"), "The request was cancelled.");
        assert_eq!(sentence("Done."), "Done.");
    }
}
