//! The tool code-find-references: lists the lines that use a symbol.

use crate::engine::Control;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{CodeFindReferencesAnswer, CodeFindReferencesRequest, text};
use crate::actions::missing::{LookupReply, of_error};
use crate::actions::uses::source_text::{Sourced, sourced};
use crate::answer::Wording;
use crate::tools::page::{PageRange, Paging, Part, Sequence, longest_page};
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    #[serde(flatten)]
    request: CodeFindReferencesRequest,
    #[serde(flatten)]
    page: Paging,
}

impl Sequence for CodeFindReferencesAnswer {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.refs);
        part.keep(&mut self.text);
    }
}

/// The maximum number of entries on a page.
const ENTRIES: usize = 1_000;

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "code-find-references",
        title: "Find where a symbol is used",
        description: "Lists every line of the project that uses a symbol, from the compiler's records and the source \
            text. Use it before renaming or changing anything. Each entry has path, line, column, text, the \
            function that contains it, and `type`: call, macro, bind, set, reference, specialize, class, \
            subclass, handler, type, slot, function, declaration, export, import, block, quoted, template (of a macro), \
            read-time, mention. The symbol is at the place (edit it) unless `evidence` is via (a macro \
            expands into the use: edit the macro) or approximate (check first). The system must be loaded. \
            For definitions use find-definition.",
        effect: Effect::Reads,
    };
    Tool::new::<Sourced<Arguments>, LookupReply<CodeFindReferencesAnswer>>(about, sourced(references))
        .of_image()
        .immediate()
}

fn references(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let most = if call.budget() == usize::MAX { usize::MAX } else { ENTRIES };
    let offset = given.request.offset.saturating_add(given.page.offset()?);
    let request = CodeFindReferencesRequest { limit: given.page.limit().min(most), offset, ..given.request };
    let answer = match bank.ask(&request, &Control::default()) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFoundAsError),
    };
    given.page.within(answer.total + answer.text_total)?;
    let total = offset + answer.refs.len() + answer.text.len() + usize::from(answer.truncated);
    longest_page(answer, (offset, total), call.budget(), |answer, range| page(answer, range, call.wording()))
}

/// Renders a page.
fn page(
    answer: &mut CodeFindReferencesAnswer,
    range: &PageRange,
    wording: Wording,
) -> Result<ToolAnswer, Failure> {
    answer.count = answer.refs.len();
    answer.stale =
        answer.refs.iter().filter(|found| found.stale).map(|found| found.place.file.clone()).collect();
    answer.stale.dedup();
    answer.cursor = range.cursor();
    let mut text = text::references(answer, |caution| caution.worded(wording));
    if let Some(next) = &answer.cursor {
        let left_out = answer.total.saturating_sub(range.end());
        let many = if left_out > 0 { format!("{left_out} more") } else { "More".to_owned() };
        text.push_str(&format!("\n\n{many} follow: the next page has cursor {next}."));
    }
    let looked_up_in = answer.looked_up_in.clone();
    Ok(ToolAnswer::new(text, &LookupReply::yes(&*answer), CallOutcome::Answered)?.looked_up_in(looked_up_in))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::actions::uses::code_find_references::UseType;

    #[test]
    fn description_lists_every_use_type() {
        assert!(UseType::ALL.len() > 10);
        let said: Vec<&str> = tool().about().description.split([' ', ',', ';', '.', '(']).collect();
        for word in UseType::ALL {
            assert!(said.contains(&word.name()), "{word}");
        }
    }
}
