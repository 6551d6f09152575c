//! Completes the variables of resource templates and the arguments of prompts.

use rmcp::model::{CompleteRequestParams, CompleteResult, CompletionInfo, ErrorData, Reference};
use serde_json::value::RawValue;

use super::prompts;
use super::query::{Query, QueryError, answer_of, params_of, query};
use super::resources::{kinds, systems_and_files};
use crate::answer::name::{readable, short};
use crate::tools::{Call, CallOutcome, Object, Session, quoted};

/// Completes an argument of a resource template or a prompt.
pub(super) fn complete(params: Option<&RawValue>) -> Result<Query, ErrorData> {
    let given: CompleteRequestParams = params_of("completion/complete", params)?;
    Ok(query(move |session, call| {
        let name = given.argument.name.as_str();
        let is_known = match &given.r#ref {
            Reference::Resource(of) => {
                let mut kinds = kinds(session.tools());
                kinds.any(|kind| kind.template() == of.uri && kind.variable == Some(name))
            }
            Reference::Prompt(of) => {
                prompts::find(session, &of.name).is_some_and(|prompt| prompt.has_argument(name))
            }
            _ => false,
        };
        if !is_known {
            let why = format!("There is no argument {} to complete.", quoted(name));
            return Err(ErrorData::invalid_params(why, None).into());
        }
        let (values, total) = values(name, &given.argument.value, session, call)?;
        let info = CompletionInfo::with_pagination(
            values,
            u32::try_from(total).ok(),
            total > CompletionInfo::MAX_VALUES,
        );
        Ok(CompleteResult::new(info.unwrap_or_default()))
    }))
}

/// Returns the best values for `typed`, at most as many as the protocol allows, and the total
/// number of matches.
fn values(
    name: &str,
    typed: &str,
    session: &Session,
    call: &Call,
) -> Result<(Vec<String>, usize), QueryError> {
    let known = match name {
        "name" => return symbols(typed, session, call),
        "package" => packages(session)?,
        "system" => systems_and_files(session, call, false)?.0,
        "path" => systems_and_files(session, call, false)?.1,
        _ => Vec::new(),
    };
    let typed = typed.to_lowercase();
    let place = |value: &String| value.to_lowercase().find(&typed);
    let mut found: Vec<_> = known.into_iter().filter_map(|value| Some((place(&value)? > 0, value))).collect();
    found.sort();
    let total = found.len();
    found.truncate(CompletionInfo::MAX_VALUES);
    Ok((found.into_iter().map(|(_, value)| value).collect(), total))
}

/// Returns the names of matching symbols, with the package prefix as typed, and the total number of
/// matches.
fn symbols(typed: &str, session: &Session, call: &Call) -> Result<(Vec<String>, usize), QueryError> {
    if session.tools().get("apropos").is_err() {
        return Ok(Default::default());
    }
    let (package, part) = typed.rsplit_once(':').unwrap_or(("", typed));
    let external = !package.is_empty() && !package.ends_with(':');
    let (package, part) = (package.trim_end_matches(':'), part.trim_matches('|'));
    let mut arguments = Object::from_iter([
        ("limit".to_owned(), CompletionInfo::MAX_VALUES.into()),
        ("external".to_owned(), external.into()),
    ]);
    match (package, part) {
        ("", "") => return Ok(Default::default()),
        // Request all symbols of the package.
        (_, "") => {
            arguments.extend([("pattern".to_owned(), "^".into()), ("matching".to_owned(), "regex".into())])
        }
        _ => drop(arguments.insert("pattern".to_owned(), part.into())),
    }
    if !package.is_empty() {
        arguments.insert("packages".to_owned(), serde_json::json!([package]));
    }
    let answer = answer_of("apropos", arguments, session, call)?;
    if answer.outcome != CallOutcome::Answered {
        return Ok(Default::default());
    }
    let prefix = &typed[..typed.rfind(':').map_or(0, |colon| colon + 1)];
    let symbols = answer.structured["symbols"].as_array().into_iter().flatten();
    let names = symbols.filter_map(|symbol| symbol["name"].as_str()).map(|name| match prefix {
        "" | ":" => name.to_owned(),
        _ => format!("{prefix}{}", short(name)),
    });
    let names = names.collect();
    Ok((names, answer.structured["total"].as_u64().unwrap_or_default() as usize))
}

/// Returns the names of all packages as source code can contain them: in lower case, or in bars.
fn packages(session: &Session) -> Result<Vec<String>, QueryError> {
    let bank = session.bank()?;
    bank.catch_up();
    let index = bank.index();
    Ok(index.packages().map(|package| readable(&index.package_name(package))).collect())
}
