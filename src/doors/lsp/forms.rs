//! What is offered at a document's forms: how often a definition is used, and a mend of its parentheses.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};
use steelbank_reader::structure::{self, ProblemKind};
use steelbank_reader::{Dialect, Range};
use steelbank_text::DefinitionKind;

use super::convert::{self, Answered, RequestRefusal};
use super::outline::definitions;
use super::server::Server;
use crate::answer::counted;
use crate::engine::control::Control;

impl Server {
    /// A lens for each definition that has uses of its own; what it says is found when it is shown.
    pub(super) fn lenses(&self, params: &Value) -> Answered {
        let document = self.document_of(params)?;
        let counted = definitions(&document.looked_into()).into_iter().filter(|known| {
            !matches!(known.kind, DefinitionKind::Package | DefinitionKind::Method | DefinitionKind::System)
        });
        let lenses = counted.map(|known| {
            let range = document.range(known.name, self.encoding());
            json!({ "range": range, "data": { "uri": document.uri, "position": range["start"] } })
        });
        Ok(lenses.collect())
    }

    pub(super) fn resolve_lens(&self, params: &Value, control: &Control) -> Answered {
        let mut lens = params.clone();
        let uri = params["data"]["uri"].as_str();
        let uri = uri.ok_or_else(|| RequestRefusal::params("the lens is none of this server's"))?;
        let position = &params["data"]["position"];
        let at = json!({ "textDocument": { "uri": uri }, "position": position });
        let uses = match self.occurrence(&at, control)? {
            Some(found) => self.locations(self.used(&found.package, &found.name, control)?),
            None => Vec::new(),
        };
        let title = if uses.is_empty() { "no uses".to_owned() } else { counted(uses.len(), "use", "uses") };
        // The command is the editor's: steelbank's extension for VS Code shows the places.
        let command =
            if self.shows_references.load(Ordering::Relaxed) { "steelbank.showReferences" } else { "" };
        lens["command"] = json!({ "title": title, "command": command, "arguments": [uri, position, uses] });
        Ok(lens)
    }

    /// The edit that balances the document, judged by its indentation.
    pub(super) fn code_actions(&self, params: &Value) -> Answered {
        let document = self.document_of(params)?;
        let encoding = self.encoding();
        let asked = convert::range_from(&params["range"], &document.text, &document.lines, encoding)?;
        let wanted = params["context"]["only"].as_array();
        let is_wanted = wanted.is_none_or(|kinds| kinds.iter().any(|kind| kind == "quickfix"));
        let text = document.looked_into();
        let problem = structure::check_structure(text.as_bytes(), Dialect::CommonLisp).problem;
        let Some(problem) = problem.filter(|_| is_wanted) else { return Ok(json!([])) };
        let (at, insert) = problem.mend;
        let lines = [problem.start, problem.shows, at].map(|place| document.lines.line(place));
        let asked = document.lines.line(asked.start)..=document.lines.line(asked.end);
        if !lines.iter().any(|line| asked.contains(line)) {
            return Ok(json!([]));
        }
        let line = document.lines.line(at);
        let (range, title) = match problem.kind {
            ProblemKind::ExtraClose => {
                (Range::new(at, at + 1), format!("Take out the parenthesis in line {line}"))
            }
            _ => (Range::new(at, at), format!("Insert {insert} in line {line}")),
        };
        let edit = json!({ "range": document.range(range, encoding), "newText": insert });
        let edited = json!({ "uri": document.uri, "version": document.version });
        Ok(json!([{
            "title": title,
            "kind": "quickfix",
            "edit": { "documentChanges": [{ "textDocument": edited, "edits": [edit] }] },
        }]))
    }
}
