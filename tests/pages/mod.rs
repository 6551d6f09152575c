//! Parses the pages for people: README and docs/. Used by tests and by `cargo xtask dist`.
#![allow(dead_code)]

use std::fs;
use std::path::{Path, PathBuf};

/// The line that replaces any number of lines in an example's output.
const CUT: &str = "…";

/// Lists README and the pages below docs/ of the repository `root`.
pub(crate) fn all(root: &Path) -> Vec<PathBuf> {
    let mut pages = vec![root.join("README.md")];
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            match path.extension() {
                _ if path.is_dir() => folders.push(path),
                Some(extension) if extension == "md" => pages.push(path),
                _ => {}
            }
        }
    }
    pages.sort();
    pages
}

/// A code block in a page.
pub(crate) struct Block<'a> {
    /// The word after the opening fence; empty for an indented block.
    pub(crate) language: &'a str,
    /// The lines, without the fences and the indentation.
    pub(crate) lines: Vec<&'a str>,
}

/// Splits a page into its code blocks and the other lines.
pub(crate) fn parts(text: &str) -> (Vec<Block<'_>>, Vec<&str>) {
    let (mut blocks, mut prose) = (Vec::new(), Vec::new());
    let mut lines = text.lines().peekable();
    let mut before = "";
    while let Some(line) = lines.next() {
        let indented = before.trim().is_empty().then(|| line.strip_prefix("    ")).flatten();
        if let Some(language) = line.strip_prefix("```") {
            blocks
                .push(Block { language, lines: lines.by_ref().take_while(|line| *line != "```").collect() });
        } else if let Some(first) = indented {
            let more =
                std::iter::from_fn(|| lines.next_if(|line| line.starts_with("    ")).map(|line| &line[4..]));
            blocks.push(Block { language: "", lines: std::iter::once(first).chain(more).collect() });
        } else {
            prose.push(line);
        }
        before = line;
    }
    (blocks, prose)
}

/// Lists the code spans in lines of prose.
pub(crate) fn spans<'a>(prose: &[&'a str]) -> impl Iterator<Item = &'a str> {
    prose.iter().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Runs the commands of the examples in `text`. Returns the text with their output, and the number
/// of commands.
///
/// # Errors
/// A line precedes the first command of an example.
pub(crate) fn repeat(
    text: &str,
    mut run: impl FnMut(&str) -> Vec<String>,
) -> Result<(String, usize), String> {
    let mut now = String::new();
    let mut lines = text.lines().peekable();
    let mut commands = 0;
    let mut write = |line: &str| {
        now.push_str(line);
        now.push('\n');
    };
    while let Some(line) = lines.next() {
        write(line);
        if line != "```console" {
            continue;
        }
        while let Some(line) = lines.next_if(|line| *line != "```") {
            let command = line.strip_prefix("$ ").ok_or_else(|| format!("not a command: {line}"))?;
            commands += 1;
            let mut shown = Vec::new();
            while let Some(line) = lines.next_if(|line| *line != "```" && !line.starts_with("$ ")) {
                shown.push(line);
            }
            write(line);
            agreed(&shown, &run(command)).iter().for_each(|line| write(line));
        }
    }
    Ok((now, commands))
}

/// Shortens the printed lines as the shown lines are: keeps the same number of lines before and
/// after the cut.
fn agreed(shown: &[&str], printed: &[String]) -> Vec<String> {
    let Some(cut) = shown.iter().position(|line| line.trim() == CUT) else { return printed.to_vec() };
    let (before, after) = (&shown[..cut], &shown[cut + 1..]);
    let from = printed.len().saturating_sub(after.len());
    let mut lines = printed[..before.len().min(from)].to_vec();
    lines.push(shown[cut].to_owned());
    lines.extend_from_slice(&printed[from..]);
    lines
}

/// Returns the lines that a command has printed, without trailing white space.
pub(crate) fn lines_of(printed: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(printed).lines().map(|line| line.trim_end().to_owned()).collect()
}
