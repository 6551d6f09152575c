//! Builds HTML: escapes text from sources, and makes file names and anchors from names.

use std::fmt::{Display, Write as _};

pub(super) use crate::answer::escape::Markup as Text;
use crate::source::tap::sidecar::fnv_1a;

/// The maximum length of a file name or an anchor, in bytes.
const LONGEST_NAME: usize = 160;

/// Returns the anchor of a symbol in a page. It is unique for each name and never equals the anchor
/// of a line, which is a number.
pub(super) fn name_slug(name: &str) -> String {
    let letters = name.chars().enumerate().map(|(at, letter)| match letter {
        'A'..='Z' => letter.to_ascii_lowercase().to_string(),
        '0'..='9' if at > 0 => letter.to_string(),
        '-' => letter.to_string(),
        other => hex(other),
    });
    shortened(letters.collect())
}

/// Returns the file name, without extension, of the page of a file, package or system.
pub(super) fn path_slug(path: &str) -> String {
    let letters = path.chars().map(|letter| match letter {
        'a'..='z' | '0'..='9' | '-' | '.' => letter.to_string(),
        '/' => "~".to_owned(),
        other => hex(other),
    });
    shortened(letters.collect())
}

/// Encodes a character that is not allowed in a file name or an anchor.
fn hex(letter: char) -> String {
    let mut bytes = [0; 4];
    letter.encode_utf8(&mut bytes).bytes().map(|byte| format!("_{byte:02x}")).collect()
}

fn shortened(slug: String) -> String {
    match slug.len() > LONGEST_NAME {
        true => format!("{}~{:016x}", &slug[..LONGEST_NAME - 17], fnv_1a(slug.as_bytes())),
        false => slug,
    }
}

/// The location of a page. Links in the page are relative to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Here {
    /// In the site's root folder.
    Root,
    /// In a subfolder.
    Folder,
    /// The page of this file.
    File(u32),
}

impl Here {
    /// Returns the relative path to the site's root folder.
    pub(super) fn root(self) -> &'static str {
        if self == Self::Root { "" } else { "../" }
    }
}

/// A page or a part of a page, while it is written.
#[derive(Default)]
pub(super) struct Html {
    text: String,
}

impl Html {
    /// Starts the page at `here` with the title `title` for the project `project`.
    pub(super) fn page(project: &str, title: &str, here: Here) -> Self {
        let (project, title, root) = (Text(project), Text(title), here.root());
        let text = format!(
            "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
             <title>{title} · {project}</title><link rel=stylesheet href={root}style.css>\
             <script src={root}script.js defer></script>\
             <header><a href={root}index.html>{project}</a><nav><a href={root}systems.html>Systems</a>\
             <a href={root}packages.html>Packages</a><a href={root}files.html>Files</a>\
             <a href={root}unused.html>Unused</a><a href={root}tests.html>Tests</a></nav></header>\n"
        );
        Self { text }
    }

    /// Adds markup.
    pub(super) fn add(&mut self, markup: impl Display) -> &mut Self {
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{markup}");
        self
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }
}

/// Formats `count` and the word, with an s unless the count is one.
pub(super) fn several(count: usize, word: &str) -> String {
    crate::answer::counted(count, word, &format!("{word}s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_sources_is_escaped() {
        let hostile = "<script>alert('\"&')</script>\u{0}\r\n\u{b}";
        let expected = "&lt;script&gt;alert('\"&amp;')&lt;/script&gt;\u{fffd}\n\u{fffd}";
        assert_eq!(Text(hostile).to_string(), expected);
    }

    #[test]
    fn different_names_get_different_slugs() {
        assert_eq!(name_slug("TOTAL-PRICE"), "total-price");
        assert_eq!(name_slug("*x/../<y>*"), "_2a_78_2f_2e_2e_2f_3c_79_3e_2a");
        assert_eq!(name_slug("1+"), "_31_2b", "no line's number");
        assert_ne!(name_slug("a"), name_slug("A"));
        assert_ne!(path_slug("a/b.lisp"), path_slug("a~b.lisp"));
        assert_eq!(path_slug("src/Cart.lisp"), "src~_43art.lisp");
        let long = |end: &str| name_slug(&("X".repeat(500) + end));
        assert!(long("A") != long("B") && long("A").len() <= LONGEST_NAME);
    }
}
