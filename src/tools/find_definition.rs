//! The tool find-definition: finds the definitions of a symbol.

use crate::query::LispKind;
use schemars::JsonSchema;
use serde::Serialize;

use super::arguments::NameAndPackage;
use super::missing::{MaybeFound, of_error, resolve};
use super::{About, Call, CallOutcome, Effect, Failure, Session, Tool, ToolAnswer};
use crate::query::Evidence;
use crate::query::control::ALLOWED;
use crate::query::find_definition;
use crate::render::project as text;

pub(super) fn tool() -> Tool {
    let about = About {
        name: "find-definition",
        title: "Find where a symbol is defined",
        description: "Finds every definition of a symbol, as function, method, macro, variable, class, structure, \
            type and so on, with path, line and column. Evidence via means that the form there makes the definition \
            without naming it, as defstruct does its accessors.",
        effect: Effect::Reads,
    };
    Tool::new::<NameAndPackage, MaybeFound<ShownDefinitions>>(about, definition).of_image()
}

/// The definitions.
#[derive(Debug, Serialize, JsonSchema)]
struct ShownDefinitions {
    /// The symbol as it is printed.
    symbol: String,
    /// Its definitions, by place.
    definitions: Vec<ShownDefinition>,
    /// How many there are.
    count: usize,
}

#[derive(Debug, Serialize, JsonSchema)]
struct ShownDefinition {
    kind: LispKind,
    name: String,
    /// `file:line:column`, as far as it is known.
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    context: Option<String>,
    /// How sure the place is, if it is not exact.
    #[serde(skip_serializing_if = "Option::is_none")]
    evidence: Option<Evidence>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stale: bool,
}

impl From<find_definition::FoundDefinition> for ShownDefinition {
    fn from(found: find_definition::FoundDefinition) -> Self {
        Self {
            at: found.place.to_string(),
            kind: found.kind,
            name: found.name,
            context: found.context,
            evidence: Some(found.evidence).filter(|evidence| *evidence != Evidence::Exact),
            stale: found.stale,
        }
    }
}

fn definition(session: &Session, given: NameAndPackage, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let symbol = resolve(bank, given);
    let answer = match bank.find_definition(&symbol.name, &symbol.package, &call.control(ALLOWED)) {
        Ok(answer) => answer,
        Err(error) => return of_error(bank, error, CallOutcome::NotFound),
    };
    let text = text::definitions(&answer);
    let definitions = ShownDefinitions {
        symbol: answer.symbol,
        count: answer.count,
        definitions: answer.definitions.into_iter().map(ShownDefinition::from).collect(),
    };
    let answer = ToolAnswer::new(text, &MaybeFound::yes(definitions), CallOutcome::Answered)?;
    Ok(answer.looked_up_in(symbol.looked_up_in))
}
