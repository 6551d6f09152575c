//! The tool code-find-references: lists the uses of a symbol of the loaded project, line by line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arguments::NameAndPackage;
use super::missing::{MaybeFound, of_error, resolve};
use super::page::{Page, PageRange, Paging, Part, Sequence, ToolReply};
use super::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};
use crate::answer::location::{Location, columns};
use crate::answer::{Caution, Wording};
use crate::query::Evidence;
use crate::query::code_find_references::{
    CodeFindReferencesAnswer, CodeFindReferencesRequest, CodeReference, UseType,
};
use crate::query::lookup::DEFAULT_PACKAGE;
use crate::query::text::TextUse;
use crate::render::project;

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// The symbol, in any case: my-func, pkg:name, pkg::name, |Mixed Case|, (setf name).
    symbol: String,
    // Without one, the only package of the user's that has the name will do.
    /// Package name (defaults to CL-USER).
    #[serde(default)]
    #[schemars(extend("default" = DEFAULT_PACKAGE))]
    package: Option<String>,
    /// Only uses in the project's own files. False: in all that is loaded, SBCL itself included.
    #[serde(default = "yes")]
    project_only: bool,
    #[serde(flatten)]
    page: Paging,
    /// How many entries to leave out first.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1_000_000_000))]
    offset: usize,
}

fn yes() -> bool {
    true
}

/// The uses. What is not said of an entry: its place is exact, it has one column, its file is as it was loaded.
#[derive(Debug, Serialize, JsonSchema)]
struct ListedUses<'a> {
    refs: Vec<ShownUse<'a>>,
    count: usize,
    total: usize,
    symbol: &'a str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    text: &'a [TextUse],
    #[serde(skip_serializing_if = "is_zero")]
    text_total: usize,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    #[schemars(with = "Vec<String>")]
    cautions: &'a [Caution],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stale: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ShownUse<'a> {
    #[serde(flatten)]
    place: &'a Location,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    columns: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    approximate_columns: Vec<u32>,
    #[serde(rename = "type")]
    use_type: UseType,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Evidence>,
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stale: bool,
}

impl<'a> From<&'a CodeReference> for ShownUse<'a> {
    fn from(found: &'a CodeReference) -> Self {
        let others =
            |places| Some(columns(places)).filter(|columns| !columns.iter().eq(found.place.column.iter()));
        Self {
            place: &found.place,
            columns: others(&found.tokens).unwrap_or_default(),
            approximate_columns: others(&found.approximate).unwrap_or_default(),
            use_type: found.use_type,
            context: found.context.as_deref(),
            caller: found.caller.as_deref(),
            evidence: Some(found.evidence).filter(|evidence| *evidence != Evidence::Exact),
            via: found.via.as_deref(),
            stale: found.stale,
        }
    }
}

impl Sequence for CodeFindReferencesAnswer {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.refs);
        part.keep(&mut self.text);
    }
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The most entries on a page.
const MOST: usize = 1_000;

pub(super) fn tool() -> Tool {
    let about = About {
        name: "code-find-references",
        title: "Find where a symbol is used",
        description: "Finds every line of the project where a symbol is used, as the compiler recorded it and as the \
            text has it. Use it before renaming or changing anything. Each entry has path, line, column, the line's \
            text, the calling function, and `type`: call, macro, bind, set, reference, specialize; class, type, slot, \
            function, declaration, export, import, block, quoted, template (of a macro), read-time, mention. \
            `symbol` is the name as a person writes it. The symbol stands there (edit it) unless \
            `evidence` says via (a macro expands into the use: edit the macro) or approximate (look first). \
            The system must be loaded; entries of files that changed since then are marked stale. Definitions are not \
            listed: ask find-definition.",
        effect: Effect::Reads,
    };
    Tool::paged::<Arguments, MaybeFound<ListedUses<'static>>>(about, references).of_image().at_once()
}

fn references(session: &Session, given: Arguments, call: &Call) -> Result<ToolReply, Failure> {
    let bank = session.bank()?;
    let symbol = resolve(bank, NameAndPackage { name: given.symbol, package: given.package });
    let most = if call.budget() == usize::MAX { usize::MAX } else { MOST };
    let offset = given.offset.saturating_add(given.page.offset()?);
    let asked = CodeFindReferencesRequest {
        symbol: symbol.name,
        package: symbol.package,
        project_only: given.project_only,
        limit: given.page.limit().min(most),
        offset,
    };
    let answer = match bank.code_find_references(&asked) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFoundError).map(ToolReply::from),
    };
    given.page.within(answer.total + answer.text_total)?;
    let total = offset + answer.refs.len() + answer.text.len() + usize::from(answer.truncated);
    Page::longest(answer, (offset, total), call.budget(), |answer, range| {
        Ok(page(answer, range, call.wording())?.looked_up_in(symbol.looked_up_in.clone()))
    })
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
    let cursor = range.cursor();
    answer.truncated = cursor.is_some();
    let mut text = project::references(answer, wording);
    if let Some(next) = &cursor {
        let left_out = answer.total.saturating_sub(range.end());
        let many = if left_out > 0 { format!("{left_out} more") } else { "More".to_owned() };
        text.push_str(&format!("\n\n{many} follow: the next page has cursor {next}."));
    }
    let answered = ListedUses {
        refs: answer.refs.iter().map(ShownUse::from).collect(),
        count: answer.count,
        total: answer.total,
        symbol: &answer.typed,
        text: &answer.text,
        text_total: answer.text_total,
        cautions: &answer.cautions,
        stale: &answer.stale,
        cursor,
    };
    ToolAnswer::new(text, &MaybeFound::yes(answered), CallOutcome::Answered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_description_has_every_type_of_use() {
        let schema = schemars::schema_for!(UseType);
        let words = schema.get("oneOf").and_then(|choices| choices.as_array()).unwrap();
        assert!(words.len() > 10);
        let said: Vec<&str> = tool().about().description.split([' ', ',', ';', '.', '(']).collect();
        for word in words {
            let word = word["const"].as_str().unwrap();
            assert!(said.contains(&word), "{word}");
        }
    }
}
