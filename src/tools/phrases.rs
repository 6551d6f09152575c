//! Helpers for sentences: quoting, shortening, endings.

use crate::answer::shortened;

/// Joins `items` with commas.
pub(crate) fn listed<T: std::fmt::Display>(items: &[T]) -> String {
    items.iter().map(T::to_string).collect::<Vec<_>>().join(", ")
}

/// Quotes `text`, shortened if it is long.
pub fn quoted(text: &str) -> String {
    format!("{:?}", shortened(text))
}

/// Cuts `text` to its first `most` characters, and adds a line that counts the missing ones.
pub(crate) fn cut(text: String, most: usize) -> String {
    if text.len() <= most {
        return text;
    }
    match text.char_indices().nth(most) {
        None => text,
        Some((at, _)) => {
            let rest = text[at..].chars().count();
            format!("{}\n... cut here: {rest} more characters are left out.", &text[..at])
        }
    }
}

/// Makes a sentence of an error's message.
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
    fn long_texts_are_cut_between_characters_and_say_so() {
        assert_eq!(cut("ää".into(), 2), "ää");
        assert_eq!(cut("äää".into(), 2), "ää\n... cut here: 1 more characters are left out.");
    }

    #[test]
    fn errors_become_sentences() {
        assert_eq!(sentence("the request was cancelled"), "The request was cancelled.");
        assert_eq!(sentence("Done."), "Done.");
    }
}
