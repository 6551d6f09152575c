//! Code lenses that show the number of uses of a definition, and code actions that correct errors
//! in a document's structure, such as unbalanced parentheses.

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
    /// Returns a lens for each definition except packages, methods and systems. `resolve_lens`
    /// computes the text of a lens.
    pub(super) fn lenses(&self, params: &Value, control: &Control) -> Answered {
        let document = self.document_of(params)?;
        let counted = control.until_cancelled(definitions(&document.analysed_text())).filter(|known| {
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
        let uri = uri.ok_or_else(|| RequestRefusal::params("the lens was not created by this server"))?;
        let position = &params["data"]["position"];
        let at = json!({ "textDocument": { "uri": uri }, "position": position });
        let uses = match self.occurrence(&at, control)? {
            Some(found) => self.locations(self.used(&found.symbol, control)?, control),
            None => Vec::new(),
        };
        let title = if uses.is_empty() { "no uses".to_owned() } else { counted(uses.len(), "use", "uses") };
        // The editor implements the command: steelbank's extension for VS Code shows the places.
        // Other editors get no command.
        let command =
            if self.shows_references.load(Ordering::Relaxed) { "steelbank.showReferences" } else { "" };
        lens["command"] = json!({ "title": title, "command": command, "arguments": [uri, position, uses] });
        Ok(lens)
    }

    /// Returns a quick fix for the first error in the document's structure, such as an unbalanced
    /// parenthesis. The fix follows the indentation. Returns no fix if the error, the line where it
    /// becomes visible and the correction are all outside the requested lines, or if the editor
    /// requests only other kinds of actions.
    pub(super) fn code_actions(&self, params: &Value) -> Answered {
        let document = self.document_of(params)?;
        let encoding = self.encoding();
        let asked = convert::range_from(&params["range"], &document.text, &document.lines, encoding)?;
        let wanted = params["context"]["only"].as_array();
        let is_wanted = wanted.is_none_or(|kinds| kinds.iter().any(|kind| kind == "quickfix"));
        let text = document.analysed_text();
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
                (Range::new(at, at + 1), format!("Remove the parenthesis in line {line}"))
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
