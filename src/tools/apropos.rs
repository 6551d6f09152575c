//! The tool apropos: finds symbols by parts of their names.

use super::words::listed;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::missing::{MaybeFound, Missing, of_error};
use super::page::{Page, PageRange, Paging, Part, Sequence, ToolReply};
use super::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};
use crate::query::apropos::{AproposRequest, Matching, Summary};
use crate::query::control::ALLOWED;

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// A part of the name, in any case; a prefix as in `pkg:part` limits it to that package.
    pattern: String,
    /// How the name matches: `substring`, `words` (all of them, in any order) or `regex`.
    #[serde(default)]
    #[schemars(extend("type" = "string", "enum" = ["substring", "words", "regex"]))]
    matching: Matching,
    /// Only these kinds: function, generic-function, macro, variable, constant, class, structure, condition, type, …
    #[serde(default)]
    kinds: Vec<String>,
    /// Only symbols of these packages.
    #[serde(default)]
    packages: Vec<String>,
    /// Only symbols that their package exports.
    #[serde(default)]
    external: bool,
    #[serde(flatten)]
    paging: Paging,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
struct ListedSymbols {
    symbols: Vec<Summary>,
    /// How many there are in all.
    total: usize,
    /// Pass it as `cursor` to get the entries that follow; absent at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl Sequence for ListedSymbols {
    fn lists(&mut self, part: &mut Part) {
        part.keep(&mut self.symbols);
    }
}

/// How many symbols to describe by default: about as many as fit.
const DESCRIBED: usize = 200;

pub(super) fn tool() -> Tool {
    let about = About {
        name: "apropos",
        title: "Find symbols by a part of their name",
        description: "Finds the symbols in the running image whose names match: what each is, its lambda list, the \
            first line of its documentation, and its place. Exact matches come first, the project's and libraries' \
            before SBCL's own. Use it when you do not know a name exactly, or the package that it is in.",
        effect: Effect::Reads,
    };
    Tool::paged::<Arguments, MaybeFound<ListedSymbols>>(about, apropos).of_image()
}

fn apropos(session: &Session, given: Arguments, call: &Call) -> Result<ToolReply, Failure> {
    let offset = given.paging.offset()?;
    let pattern = given.pattern;
    let request = AproposRequest {
        pattern: pattern.clone(),
        matching: given.matching,
        kinds: given.kinds,
        packages: given.packages,
        external: given.external,
        offset,
        limit: given.paging.limit_or(DESCRIBED),
    };
    let bank = session.bank()?;
    let answer = match bank.apropos(&request, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound).map(ToolReply::from),
    };
    given.paging.within(answer.total)?;
    let total = answer.total;
    let listed = ListedSymbols { symbols: answer.symbols, total, cursor: None };
    if total == 0 {
        let missing = Missing::pattern(&pattern, answer.nothing.unwrap_or_default());
        return missing.beside(listed).map(ToolReply::from);
    }
    Page::longest(listed, (offset, total), call.budget(), |listed, range| {
        listed.cursor = range.cursor();
        ToolAnswer::new(text(&listed.symbols, range), &MaybeFound::yes(&*listed), CallOutcome::Answered)
    })
}

fn text(symbols: &[Summary], range: &PageRange) -> String {
    let mut text = String::new();
    for symbol in symbols {
        // Writing to a string cannot fail.
        let _ = write!(text, "{} [{}]", symbol.name, listed(&symbol.kinds));
        if let Some(arglist) = &symbol.arglist {
            let _ = write!(text, " {arglist}");
        }
        if let Some(place) = &symbol.place {
            let _ = write!(text, " {place}");
        }
        if let Some(line) = &symbol.documentation {
            let _ = write!(text, "\n    {line}");
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text + &range.rest()
}
