//! Implements the tool find_references.

use crate::engine::{Progress, Step};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::actions::text::find_references::{
    FindReferencesRequest, Pagination, References, SymbolResolver, TextDefinition, TextReference,
    find_references,
};
use crate::answer::counted;
use crate::handle::Error;
use crate::tools::page::{Part, Sequence, longest_page};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};
use steelbank_text::IndexControl;

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "find_references",
        title: "Find a name in any source tree",
        description: "Find a symbol's definition AND all usage sites in a single call, in Common Lisp, Emacs Lisp, \
            Scheme, Clojure, Rust, TypeScript, JavaScript, Python, Go, C, C++, Java, Ruby, PHP, C#, Zig, \
            Kotlin, Swift and other text. Needs no loaded code and runs nothing. Each reference has path, \
            line, column, role (definition, call, reference, comment, string, keyword) and preview. While \
            pagination.has_more is true, continue with limit and offset. In loaded Lisp code, \
            code-find-references is more exact.",
        effect: Effect::Reads,
    };
    Tool::new::<FindReferencesRequest, References>(about, references)
}

/// Runs `work` with the call's cancellation, and reports progress through the call.
pub(crate) fn controlled<T>(call: &Call, work: impl FnOnce(&IndexControl<'_>) -> T) -> T {
    let cancellation = call.cancellation();
    // Continue the count of listed files when indexing begins, so that progress never goes
    // backward.
    let (listed, last) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let progress = |progress: steelbank_text::IndexProgress| {
        let (what, at, end) = match progress {
            steelbank_text::IndexProgress::Listing { found } => {
                listed.fetch_max(found, Ordering::Relaxed);
                (Step::List, found, None)
            }
            steelbank_text::IndexProgress::Indexing { done, total } => {
                let before = listed.load(Ordering::Relaxed);
                (Step::Index, before + done, Some(before + total))
            }
            _ => return,
        };
        if last.fetch_max(at, Ordering::Relaxed) < at {
            call.report(Progress {
                what,
                path: None,
                done: at as u64,
                total: end.map(|end| end as u64).filter(|&end| end >= at as u64),
            });
        }
    };
    work(&IndexControl { cancelled: &|| cancellation.is_cancelled(), progress: &progress })
}

fn references(session: &Session, request: FindReferencesRequest, call: &Call) -> Result<ToolAnswer, Failure> {
    let index = session.text()?;
    let resolver = session.started().map(|bank| bank.symbol_resolver(index, &request.pattern));
    let resolver = resolver.as_ref().map(|resolver| resolver as SymbolResolver<'_>);
    let found = controlled(call, |control| find_references(index, &request, resolver, control));
    let found = found.map_err(Error::from)?;
    let nothing = found.total_references == 0 && found.definition.is_none();
    let outcome = if nothing { CallOutcome::NotFound } else { CallOutcome::Answered };
    let total = usize::try_from(found.total_references).unwrap_or(usize::MAX);
    let offset = usize::try_from(found.pagination.offset).unwrap_or(usize::MAX);
    longest_page(found, (offset, total), call.budget(), |found, range| {
        found.pagination.count = range.count as u64;
        found.pagination.has_more = range.end() < range.total;
        ToolAnswer::json(found, shown(found), outcome)
    })
}

impl Sequence for References {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.references);
    }
}

/// Replaces control characters, which a terminal would interpret.
fn clean(text: &str) -> String {
    text.chars().map(|each| if each.is_control() && each != '\t' { '\u{fffd}' } else { each }).collect()
}

/// Prints one line for each position, as grep prints them, followed by the number of references.
impl fmt::Display for References {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for TextDefinition { place, kind, symbol, declaration, preview, .. } in
            self.definition.iter().chain(&self.definitions)
        {
            let declared = if *declaration { " (declared)" } else { "" };
            writeln!(f, "{}", clean(&format!("{place}: {kind} {symbol}{declared}: {preview}")))?;
        }
        if self.definition.is_some() {
            writeln!(f)?;
        }
        for TextReference { place, preview, .. } in &self.references {
            writeln!(f, "{}", clean(&format!("{place}: {preview}")))?;
        }
        let Pagination { total, count, offset, .. } = self.pagination;
        let all = counted(total, "reference", "references");
        match count {
            _ if count == total => f.write_str(&all),
            0 => write!(f, "{all}, none after the first {offset}"),
            _ => write!(f, "references {} to {} of {total}", offset + 1, offset + count),
        }
    }
}

/// Formats the answer for a terminal, with the option for the next page.
fn shown(found: &References) -> String {
    let Pagination { total, count, offset, .. } = found.pagination;
    match count == 0 || count == total {
        true => found.to_string(),
        false => format!("{found}; next page: --offset {}", offset + count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::text::find_references::{IndexAge, Span};
    use crate::answer::Location;
    use steelbank_reader::lines::LineColumn;

    #[test]
    fn matches_are_printed_as_grep_lines() {
        let span = Span { start_line: 1, start_column: 1, end_line: 1, end_column: 9 };
        let found = References {
            definition: Some(TextDefinition {
                place: Location::new("a.lisp").at(LineColumn { line: 1, column: 8 }),
                kind: steelbank_text::DefinitionKind::Function,
                symbol: "f".to_owned(),
                span,
                preview: "(defun f ())".to_owned(),
                declaration: false,
            }),
            definitions: Vec::new(),
            total_definitions: 1,
            references: vec![TextReference {
                place: Location::new("b\u{1b}[31m.lisp").at(LineColumn { line: 2, column: 3 }),
                role: None,
                preview: "(f)".to_owned(),
                symbol: None,
                within: None,
            }],
            total_references: 2,
            pagination: Pagination { total: 2, count: 1, offset: 0, limit: 1, has_more: true },
            status: IndexAge::Fresh,
        };
        assert_eq!(
            shown(&found),
            "a.lisp:1:8: function f: (defun f ())\n\nb\u{fffd}[31m.lisp:2:3: (f)\n\
             references 1 to 1 of 2; next page: --offset 1"
        );
    }
}
