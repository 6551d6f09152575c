//! Resources: answers of read-only tools, each addressed by a URI. A host shows resources to its
//! user and passes their text to a model. Resources are plain text, because Markdown would drop the
//! asterisks of `*print-base*`. Their text is never truncated, because a host cannot use a cursor.

use rmcp::model::{
    ErrorData, ListResourceTemplatesResult, ListResourcesResult, PaginatedRequestParams,
    ReadResourceRequestParams, ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
};
use serde_json::json;
use serde_json::value::RawValue;

use super::protocol::ResultFormat;
use super::query::{Query, QueryError, answer_of, params_of, query};
use super::roots::decoded;
use crate::answer::escape::{escaped, uri_path};
use crate::tools::page::Paging;
use crate::tools::{Call, CallOutcome, Object, Session, Tools, quoted};

const TEXT: &str = "text/plain";
/// The number of resources in a page of the list.
const PAGE: usize = 100;

/// A kind of resource, which one tool provides.
pub(super) struct ResourceKind {
    /// The tool that answers.
    tool: &'static str,
    title: &'static str,
    description: &'static str,
    /// The start of the URIs of this kind, or the entire URI if there is no variable.
    prefix: &'static str,
    /// The variable at the end of the template. It is also the tool's argument.
    pub(super) variable: Option<&'static str>,
}

const FILES: &str = "steelbank:///file/";
const SYSTEMS: &str = "steelbank:///system/";

const KINDS: [ResourceKind; 6] = [
    ResourceKind {
        tool: "status",
        title: "State of the server",
        description: "Whether Lisp is ready, busy or dead, what is loaded, and what went wrong.",
        prefix: "steelbank:///status",
        variable: None,
    },
    ResourceKind {
        tool: "list-systems",
        title: "Systems of the project",
        description: "The systems that the project defines, and which of them are loaded.",
        prefix: "steelbank:///systems",
        variable: None,
    },
    ResourceKind {
        tool: "outline",
        title: "Definitions of a system",
        description: "The definitions of a loaded system, with their places and numbers of uses.",
        prefix: SYSTEMS,
        variable: Some("system"),
    },
    ResourceKind {
        tool: "outline",
        title: "Definitions of a file",
        description: "The definitions of a file of the project, with their places and numbers of uses.",
        prefix: FILES,
        variable: Some("path"),
    },
    ResourceKind {
        tool: "package-info",
        title: "Description of a package",
        description: "What a package exports, uses and shadows, and its symbols without uses.",
        prefix: "steelbank:///package/",
        variable: Some("package"),
    },
    ResourceKind {
        tool: "describe-symbol",
        title: "Description of a symbol",
        description: "What a symbol names: lambda list, documentation, value, place. Its name as Lisp reads it: cl:mapcar, \
            (setf name), |Mixed Case|.",
        prefix: "steelbank:///symbol/",
        variable: Some("name"),
    },
];

impl ResourceKind {
    /// Returns the name of the template's variable, or else the tool's name.
    fn name(&self) -> &'static str {
        self.variable.unwrap_or(self.tool)
    }

    /// Returns the URI, or its template according to RFC 6570.
    pub(super) fn template(&self) -> String {
        match self.variable {
            None => self.prefix.to_owned(),
            Some("path") => format!("{}{{+path}}", self.prefix),
            Some(variable) => format!("{}{{{variable}}}", self.prefix),
        }
    }

    /// Parses the tool's arguments from a URI of this kind. Returns `None` for other URIs.
    fn arguments(&self, uri: &str) -> Option<Object> {
        let rest = uri.strip_prefix(self.prefix)?;
        let Some(variable) = self.variable else { return rest.is_empty().then(Object::new) };
        let plain = |byte: u8| {
            byte.is_ascii_alphanumeric()
                || b"-._~!$&'()*+,;=:@%".contains(&byte)
                || (byte == b'/' && variable == "path")
        };
        let value = Some(rest).filter(|rest| !rest.is_empty() && rest.bytes().all(plain))?;
        let value = String::from_utf8(decoded(value)?).ok()?;
        Some(Object::from_iter([(variable.to_owned(), value.into())]))
    }

    /// Returns the URI with `value` as its variable.
    fn uri(&self, value: &str) -> String {
        let escaped = uri_path(value.as_bytes());
        match self.variable {
            Some("path") => format!("{}{escaped}", self.prefix),
            _ => format!("{}{}", self.prefix, escaped.replace('/', "%2F")),
        }
    }

    fn resource(&self, uri: String, name: &str) -> Resource {
        Resource::new(uri, name)
            .with_title(self.title)
            .with_description(self.description)
            .with_mime_type(TEXT)
    }
}

/// Returns the kinds of resources that the client may read: it is offered their tools.
pub(super) fn kinds(tools: &Tools) -> impl Iterator<Item = &'static ResourceKind> {
    KINDS.iter().filter(|kind| tools.get(kind.tool).is_ok())
}

/// Lists the templates.
pub(super) fn templates(tools: &Tools) -> ListResourceTemplatesResult {
    let templates = kinds(tools).filter(|kind| kind.variable.is_some());
    ListResourceTemplatesResult::with_all_items(
        templates
            .map(|kind| {
                ResourceTemplate::new(kind.template(), kind.name())
                    .with_title(kind.title)
                    .with_description(kind.description)
                    .with_mime_type(TEXT)
            })
            .collect(),
    )
}

/// Lists a page of the resources: those without a variable, the project's loaded systems, and the
/// files of all its systems.
pub(super) fn list(params: Option<&RawValue>) -> Result<Query, ErrorData> {
    let given = params.map(|_| params_of::<PaginatedRequestParams>("resources/list", params)).transpose()?;
    let paging = Paging::at(given.and_then(|given| given.cursor));
    Ok(query(move |session, call| {
        let offset = paging.offset()?;
        let all = all(session, call)?;
        paging.within(all.len())?;
        let end = all.len().min(offset.saturating_add(PAGE));
        let mut page = ListResourcesResult::with_all_items(all[offset.min(end)..end].to_vec());
        page.next_cursor = (end < all.len()).then(|| end.to_string());
        Ok(page)
    }))
}

fn all(session: &Session, call: &Call) -> Result<Vec<Resource>, QueryError> {
    let kinds: Vec<_> = kinds(session.tools()).collect();
    let whole = kinds.iter().filter(|kind| kind.variable.is_none());
    let mut all: Vec<_> = whole.map(|kind| kind.resource(kind.prefix.to_owned(), kind.name())).collect();
    // Only a loaded system has an outline.
    let (systems, files) = systems_and_files(session, call, true)?;
    for (prefix, names) in [(SYSTEMS, systems), (FILES, files)] {
        for kind in kinds.iter().filter(|kind| kind.prefix == prefix) {
            all.extend(names.iter().map(|name| kind.resource(kind.uri(name), name)));
        }
    }
    Ok(all)
}

/// Returns the names of the project's systems (with `loaded`, only of the loaded systems) and the
/// paths of the files of all systems. Both lists are empty if there is no project, while the client
/// may still name its project, or if the client is not offered `list-systems`.
pub(super) fn systems_and_files(
    session: &Session,
    call: &Call,
    loaded: bool,
) -> Result<(Vec<String>, Vec<String>), QueryError> {
    let arguments = Object::from_iter([("files".to_owned(), true.into())]);
    let is_asked = !session.awaits_project() && session.tools().get("list-systems").is_ok();
    if !is_asked || session.bank()?.root().is_none() {
        return Ok(Default::default());
    }
    let answer = answer_of("list-systems", arguments, session, call)?;
    let systems = || answer.structured["systems"].as_array().into_iter().flatten();
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    let names = systems().filter(|system| !loaded || system["loaded"] == true);
    let names = names.filter_map(|system| text(&system["name"])).collect();
    let mut files: Vec<_> = systems()
        .flat_map(|system| system["components"].as_array().into_iter().flatten().chain([&system["asd"]]))
        .filter_map(text)
        .collect();
    files.sort();
    files.dedup();
    Ok((names, files))
}

/// Reads a resource.
pub(super) fn read(params: Option<&RawValue>, format: ResultFormat) -> Result<Query, ErrorData> {
    let uri = params_of::<ReadResourceRequestParams>("resources/read", params)?.uri;
    Ok(query(move |session, call| {
        let missing = |why: String| {
            let data = Some(json!({ "uri": uri }));
            QueryError::from(match format {
                ResultFormat::Session => ErrorData::resource_not_found(why, data),
                ResultFormat::Stateless => ErrorData::invalid_params(why, data),
            })
        };
        let found = kinds(session.tools()).find_map(|kind| Some((kind, kind.arguments(&uri)?)));
        let Some((kind, arguments)) = found else {
            return Err(missing(format!("There is no resource {}.", quoted(&uri))));
        };
        let answer = answer_of(kind.tool, arguments, session, call)?;
        let text = [answer.text].into_iter().chain(answer.notes).collect::<Vec<_>>().join("\n\n");
        match answer.outcome {
            CallOutcome::Answered => {
                let text = ResourceContents::text(escaped(&text), uri).with_mime_type(TEXT);
                Ok(ReadResourceResult::new(vec![text]))
            }
            _ => Err(missing(text)),
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(uri: &str) -> Option<String> {
        let found: Vec<_> = KINDS
            .iter()
            .filter_map(|kind| Some(format!("{} {}", kind.tool, json!(kind.arguments(uri)?))))
            .collect();
        assert!(found.len() < 2, "{uri}: {found:?}");
        found.into_iter().next()
    }

    #[test]
    fn uris_are_parsed_strictly() {
        for (uri, expected) in [
            ("steelbank:///status", "status {}"),
            ("steelbank:///symbol/cl:mapcar", r#"describe-symbol {"name":"cl:mapcar"}"#),
            ("steelbank:///symbol/%28setf%20a%2fb%25%29", r#"describe-symbol {"name":"(setf a/b%)"}"#),
            ("steelbank:///symbol/%7Ca%20b%7C", r#"describe-symbol {"name":"|a b|"}"#),
            ("steelbank:///symbol/*earmuffs*", r#"describe-symbol {"name":"*earmuffs*"}"#),
            ("steelbank:///symbol/%C3%A9", r#"describe-symbol {"name":"é"}"#),
            ("steelbank:///file/src/a%20b.lisp", r#"outline {"path":"src/a b.lisp"}"#),
            ("steelbank:///file/src%2Fa.lisp", r#"outline {"path":"src/a.lisp"}"#),
            ("steelbank:///system/shop%2Ftests", r#"outline {"system":"shop/tests"}"#),
        ] {
            assert_eq!(arguments(uri).as_deref(), Some(expected), "{uri}");
        }
        for wrong in [
            "", "status", "steelbank:/status", "steelbank://host/status", "STEELBANK:///status",
            "steelbank:///status/", "steelbank:///status?", "steelbank:///symbol/", "steelbank:///symbol",
            "steelbank:///symbol/a/b", "steelbank:///symbol/a#b", "steelbank:///symbol/a?b",
            "steelbank:///symbol/a b", "steelbank:///symbol/é", "steelbank:///symbol/%",
            "steelbank:///symbol/%2", "steelbank:///symbol/%+f", "steelbank:///symbol/%ff",
            "steelbank:///symbol/|a|", "steelbank:///other/a", "file:///status",
        ] {
            assert_eq!(arguments(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn resource_uris_round_trip() {
        for kind in KINDS.iter().filter(|kind| kind.variable.is_some()) {
            for name in ["shop/tests", "a b", "100%", "é|x", "src/a?b#c.lisp", "cl:/"] {
                let expected = json!({ kind.variable.unwrap(): name });
                assert_eq!(kind.arguments(&kind.uri(name)).map(|it| json!(it)), Some(expected));
            }
        }
    }
}
