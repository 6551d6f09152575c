//! `steelbank find-references`: a name's definitions and every place where it occurs. No SBCL is started.

use std::fmt::Write as _;

use clap::Args;

use super::{Exit, Shell, Trouble, index};
use crate::mcp::Failure;
use crate::query::find_references::{Definition, Error, References, Request, find_references};

#[derive(Debug, Args)]
pub(super) struct FindReferences {
    /// The name, or any text: CacheManager, '*print-base*', 'json!', app:start, 'a + b'
    pattern: String,
    /// Only definitions of this kind: function, macro, class, struct, variable, ...
    #[arg(long)]
    kind: Option<String>,
    /// Only files of this language
    #[arg(long)]
    lang: Option<String>,
    /// Only files that match; may be given several times
    #[arg(long, short)]
    glob: Vec<String>,
    /// No files that match; may be given several times
    #[arg(long)]
    exclude: Vec<String>,
    /// The most references to show
    #[arg(long, default_value_t = 1_000)]
    limit: u64,
    /// How many references to skip
    #[arg(long, default_value_t = 0)]
    offset: u64,
    /// Answer a broad query all the same
    #[arg(long)]
    force: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        match error.is_about_the_request() {
            true => Failure::Arguments(error.to_string()).into(),
            false => Failure::Engine(error.to_string()).into(),
        }
    }
}

impl FindReferences {
    pub(super) fn run(&self, shell: &Shell) -> Result<Exit, Trouble> {
        let request = Request {
            pattern: self.pattern.clone(),
            kind: self.kind.clone(),
            lang: self.lang.clone(),
            glob: self.glob.clone(),
            exclude: self.exclude.clone(),
            limit: self.limit,
            offset: self.offset,
            force: self.force,
        };
        let index = index::open(shell)?;
        let found = index::followed(|control| find_references(&index, &request, None, control))?;
        if self.json {
            let value = serde_json::to_value(&found).map_err(std::io::Error::from)?;
            shell.output.json(&value)?;
        } else {
            shell.output.plain(&text(&found, &self.pattern, shell.output.colored()))?;
        }
        let nothing = found.total_references == 0 && found.definition.is_none();
        Ok(if nothing { Exit::NotFound } else { Exit::Answered })
    }
}

/// Paths, line numbers and matches in the colours of grep.
struct Paint {
    colored: bool,
}

impl Paint {
    fn paint(&self, code: &str, text: &str) -> String {
        if self.colored { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn place(&self, path: &str, line: u32, column: u32) -> String {
        format!("{}:{}:{column}", self.paint("35", &clean(path)), self.paint("32", &line.to_string()))
    }

    fn line(&self, preview: &str, pattern: &str) -> String {
        let preview = clean(preview);
        match preview.find(pattern).filter(|_| self.colored) {
            Some(at) => {
                format!("{}{}{}", &preview[..at], self.paint("1;31", pattern), &preview[at + pattern.len()..])
            }
            None => preview,
        }
    }
}

/// Text without what a terminal would obey.
fn clean(text: &str) -> String {
    text.chars().map(|each| if each.is_control() && each != '\t' { '\u{fffd}' } else { each }).collect()
}

fn text(found: &References, pattern: &str, colored: bool) -> String {
    let paint = Paint { colored };
    let mut text = String::new();
    let mut define = |definition: &Definition| {
        let place = paint.place(&definition.path, definition.line, definition.column);
        let declared = if definition.declaration { " (declared)" } else { "" };
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{place}: {}{declared}: {}",
            paint.paint("1", &format!("{} {}", definition.kind, clean(&definition.symbol))),
            paint.line(&definition.preview, pattern)
        );
    };
    found.definition.iter().chain(&found.definitions).for_each(&mut define);
    if !text.is_empty() {
        text.push('\n');
    }
    for reference in &found.references {
        let place = paint.place(&reference.path, reference.line, reference.column);
        let _ = writeln!(text, "{place}: {}", paint.line(&reference.preview, pattern));
    }
    let page = &found.pagination;
    let _ = match (page.count == page.total, page.count) {
        (true, 1) => write!(text, "1 reference"),
        (true, count) => write!(text, "{count} references"),
        (false, 0) => write!(text, "{} references, none after the first {}", page.total, page.offset),
        (false, count) => write!(
            text,
            "references {} to {} of {}; the next page has --offset {}",
            page.offset + 1,
            page.offset + count,
            page.total,
            page.offset + count
        ),
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::find_references::{Pagination, Reference, Span, Status};

    #[test]
    fn answers_are_lines_that_editors_understand() {
        let span = Span { start_line: 1, start_column: 1, end_line: 1, end_column: 9 };
        let found = References {
            definition: Some(Definition {
                path: "a.lisp".to_owned(),
                line: 1,
                column: 8,
                kind: "function".to_owned(),
                symbol: "f".to_owned(),
                span,
                preview: "(defun f ())".to_owned(),
                declaration: false,
            }),
            definitions: Vec::new(),
            total_definitions: 1,
            references: vec![Reference {
                path: "b\u{1b}[31m.lisp".to_owned(),
                line: 2,
                column: 3,
                role: None,
                preview: "(f)".to_owned(),
                symbol: None,
            }],
            total_references: 2,
            pagination: Pagination { total: 2, count: 1, offset: 0, limit: 1, has_more: true },
            status: Status::Fresh,
        };
        assert_eq!(
            text(&found, "f", false),
            "a.lisp:1:8: function f: (defun f ())\n\nb\u{fffd}[31m.lisp:2:3: (f)\n\
             references 1 to 1 of 2; the next page has --offset 1"
        );
        assert!(text(&found, "f", true).contains("(\x1b[1;31mf\x1b[0m)"));
    }
}
