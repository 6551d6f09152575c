//! The tool code-find-references: lists the uses of a symbol of the loaded project, line by line.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::arguments::{NameAndPackage, PageArguments};
use super::budget::{all_fit, fit, length, most_as_json};
use super::missing::{MaybeFound, of_error, resolve};
use super::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};
use crate::query::Evidence;
use crate::query::code_find_references::{self, CodeFindReferencesRequest, CodeReference, UseType};
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
    page: PageArguments,
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
    cautions: &'a [String],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    stale: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ShownUse<'a> {
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    columns: &'a [u32],
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    approximate_columns: &'a [u32],
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
        let others = |columns: &'a [u32]| match columns {
            [only] if Some(*only) == found.column => &[],
            columns => columns,
        };
        Self {
            path: &found.path,
            line: found.line,
            column: found.column,
            columns: others(&found.columns),
            approximate_columns: others(&found.approximate_columns),
            use_type: found.use_type,
            context: found.context.as_deref(),
            caller: found.caller.as_deref(),
            evidence: Some(found.evidence).filter(|evidence| *evidence != Evidence::Exact),
            via: found.via.as_deref(),
            stale: found.stale,
        }
    }
}

/// Returns an upper bound of an entry's length in bytes, as text and as JSON.
fn at_most(found: &CodeReference) -> usize {
    let texts = [&found.context, &found.caller, &found.via].into_iter().flatten();
    let columns = 11 * (found.columns.len() + found.approximate_columns.len());
    300 + most_as_json(&found.path) + columns + texts.map(|text| most_as_json(text)).sum::<usize>()
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// The most entries on a page.
const MOST: usize = 1_000;

/// The fewest characters that must be left on a page to begin the entries of text on it.
const LEAST: usize = 4_000;

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
    Tool::new::<Arguments, MaybeFound<ListedUses<'static>>>(about, references)
        .of_image()
        .at_once()
        .turns_pages()
}

fn references(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
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
    let mut answer = match bank.code_find_references(&asked) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFoundError),
    };
    given.page.within(answer.total + answer.text_total)?;
    let (fitting, in_text) = page(&answer, call.budget());
    let more = fitting < answer.refs.len() || answer.truncated || in_text < answer.text.len();
    answer.refs.truncate(fitting);
    answer.count = fitting;
    answer.text.truncate(in_text);
    let next = offset.saturating_add(fitting).saturating_add(in_text);
    let left_out = answer.total.saturating_sub(next);
    answer.truncated = more;
    let mut text = project::references(&answer);
    if more {
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
        cursor: more.then(|| next.to_string()),
    };
    let answer = ToolAnswer::new(text, &MaybeFound::yes(answered), CallOutcome::Answered)?;
    Ok(answer.looked_up_in(symbol.looked_up_in))
}

/// Counts the entries that fit into `budget` characters: of the image, and of text.
fn page(answer: &code_find_references::CodeFindReferencesAnswer, budget: usize) -> (usize, usize) {
    let (refs, text) = (&answer.refs, &answer.text);
    // Skip measuring in the common case, in which all entries fit.
    let beside =
        answer.cautions.iter().map(|caution| caution.len() + 10).sum::<usize>() + answer.symbol.len();
    if text.is_empty() && all_fit(refs, budget.saturating_sub(beside + 200), at_most) {
        return (refs.len(), 0);
    }
    let beside = code_find_references::CodeFindReferencesAnswer {
        refs: Vec::new(),
        text: Vec::new(),
        ..answer.clone()
    };
    let budget = budget.saturating_sub(project::references(&beside).len());
    let entries: Vec<ShownUse<'_>> = refs.iter().map(ShownUse::from).collect();
    let fitting = fit(&entries, budget, |entry| {
        let texts = [entry.context, entry.caller, entry.via].into_iter().flatten();
        60 + entry.path.len() + texts.map(str::len).sum::<usize>()
    });
    // Begin the entries of text, which follow those of the image, only with enough room: `fit` returns at
    // least one.
    let room = budget.saturating_sub(length(&entries[..fitting]));
    let in_text = match fitting < refs.len() || (fitting > 0 && room < LEAST) {
        true => 0,
        false => fit(text, room, |entry| 60 + entry.path.len() + entry.context.len()),
    };
    (fitting, in_text)
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
