//! The tool apropos: finds symbols by parts of their names.

use super::words::listed;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::missing::{MaybeFound, Missing, of_error};
use super::page::{Page, Paging};
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

#[derive(Debug, Serialize, JsonSchema)]
struct ListedSymbols {
    symbols: Vec<Summary>,
    #[serde(flatten)]
    page: Page,
}

pub(super) fn tool() -> Tool {
    let about = About {
        name: "apropos",
        title: "Find symbols by a part of their name",
        description: "Finds the symbols in the running image whose names match: what each is, its lambda list, the \
            first line of its documentation, and its place. Exact matches come first, the project's and libraries' \
            before SBCL's own. Use it when you do not know a name exactly, or the package that it is in.",
        effect: Effect::Reads,
    };
    Tool::new::<Arguments, MaybeFound<ListedSymbols>>(about, apropos).of_image()
}

fn apropos(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let offset = given.paging.offset()?;
    let pattern = given.pattern;
    let request = AproposRequest {
        pattern: pattern.clone(),
        matching: given.matching,
        kinds: given.kinds,
        packages: given.packages,
        external: given.external,
        offset,
        limit: given.paging.limit,
    };
    let bank = session.bank()?;
    let answer = match bank.apropos(&request, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    given.paging.within(answer.total)?;
    let (symbols, page) = given.paging.fit(answer.symbols, answer.total, offset);
    if page.total == 0 {
        return Missing::pattern(&pattern, answer.nothing.unwrap_or_default())
            .beside(ListedSymbols { symbols, page });
    }
    let mut text = String::new();
    for symbol in &symbols {
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
    text.push_str(&page.rest(symbols.len()));
    ToolAnswer::new(text, &MaybeFound::yes(ListedSymbols { symbols, page }), CallOutcome::Answered)
}
