//! Renames symbols with the plan of the rename action, and local names within their binding form.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use steelbank_reader::lines::LineIndex;
use steelbank_xref::{Index, Symbol};

use super::convert::{self, Answered, RequestRefusal};
use super::documents::{OpenDocument, TOO_LARGE};
use super::server::Server;
use crate::actions::change::rename::{ConflictKind, RenamePlan, RenameRequest};
use crate::actions::uses::occurrences::{FileOccurrence, OccurrenceKind};
use crate::answer::name::barred;
use crate::engine::control::Control;
use crate::handle::{QueryContext, Question};
use crate::source::positions::Evidence;

/// The name of the annotation for edits that the user must confirm.
const DOUBTFUL: &str = "doubtful";

/// A plan of a rename on the texts on disk.
pub(super) struct SavedPlan {
    pub(super) request: RenameRequest,
    pub(super) plan: RenamePlan,
    /// The open documents with unsaved changes.
    unsaved: Vec<Arc<OpenDocument>>,
    /// An index that has the symbol even if only text defines it.
    index: Index,
    /// The symbol if only text defines it, for example after a rename.
    symbol: Option<Symbol>,
}

impl Server {
    pub(super) fn prepare_rename(&self, params: &Value, control: &Control) -> Answered {
        let Some(found) = self.occurrence(params, control)? else { return Ok(Value::Null) };
        if found.symbol.package == "KEYWORD" || found.kind == OccurrenceKind::Keyword {
            return Err(RequestRefusal::failed(
                "Keywords cannot be renamed, because other code may use them.",
            ));
        }
        let document = self.document_of(params)?;
        let placeholder = document.text.get(found.name_range.indices()).unwrap_or_default();
        Ok(json!({ "range": document.range(found.name_range, self.encoding()), "placeholder": placeholder }))
    }

    pub(super) fn rename(&self, params: &Value, control: &Control) -> Answered {
        let found = self.occurrence(params, control)?;
        let found = found.ok_or_else(|| self.no_symbol(params))?;
        let new = params["newName"].as_str().filter(|name| !name.trim().is_empty());
        let new = new.ok_or_else(|| RequestRefusal::params("the new name is missing"))?;
        match found.binding {
            Some(_) => self.rename_local(params, &found, new, control),
            None => self.rename_symbol(&found, new, control),
        }
    }

    /// Returns the error for a position without a symbol.
    pub(super) fn no_symbol(&self, params: &Value) -> RequestRefusal {
        let is_too_large = self.document_of(params).is_ok_and(|document| document.is_too_large());
        RequestRefusal::failed(if is_too_large { TOO_LARGE } else { "There is no symbol at this position." })
    }

    fn rename_local(&self, params: &Value, found: &FileOccurrence, new: &str, control: &Control) -> Answered {
        if new.contains(|char: char| char.is_whitespace() || "()'\"`,;:|\\#".contains(char)) {
            return Err(RequestRefusal::failed(format!(
                "{new:?} is not a valid name for a local variable or function."
            )));
        }
        let document = self.document_of(params)?;
        let view = self.view(&document, control)?;
        let binding = found.binding.unwrap_or(found.range);
        let read = document.read();
        // Reject keyword parameters, because renaming the variable would change the keyword, too.
        if read.key_parameters(document.text.as_bytes()).contains(&binding.start) {
            return Err(RequestRefusal::failed(
                "This is a keyword parameter, and callers use its keyword, which would change. First write \
                 ((:keyword variable) …) in its place.",
            ));
        }
        let form = read.toplevel().iter().find(|top| top.span.encloses(found.range));
        let taken = view.occurrences.iter().find(|other| {
            form.is_some_and(|form| form.span.encloses(other.range))
                && other.symbol.name.eq_ignore_ascii_case(new)
                && matches!(
                    other.kind,
                    OccurrenceKind::LocalVariable | OccurrenceKind::LocalFunction | OccurrenceKind::Variable
                )
        });
        if let Some(taken) = taken {
            let line = document.lines.line(taken.range.start);
            return Err(RequestRefusal::failed(format!(
                "{new} already occurs in this form, in line {line}."
            )));
        }
        let same = view.occurrences.iter().filter(|other| other.binding == Some(binding));
        let edits = same.map(
            |other| json!({ "range": document.range(other.name_range, self.encoding()), "newText": new }),
        );
        let edits: Vec<Value> = edits.collect();
        let edited = json!({ "uri": document.uri, "version": document.version });
        Ok(json!({ "documentChanges": [{ "textDocument": edited, "edits": edits }] }))
    }

    /// Plans a rename on the texts on disk. Fails if the plan has conflicts.
    pub(super) fn saved_plan(
        &self,
        found: &FileOccurrence,
        new: &str,
        control: &Control,
    ) -> Result<SavedPlan, RequestRefusal> {
        let bank = self.bank()?;
        let mut unsaved = self.documents();
        unsaved.retain(|document| !document.is_saved());
        let texts: Vec<Arc<str>> = unsaved.iter().map(|document| document.analysed_text()).collect();
        let context = bank.context();
        let index = context.with_defined_symbols(&found.symbol.name, &texts).index.clone();
        let symbol = index.named(&found.symbol);
        let is_new = symbol.is_some_and(|symbol| index.is_from_text(symbol));
        let mut request = RenameRequest::new(barred(&found.symbol.name), new);
        request.package =
            symbol.and_then(|symbol| index.home_name(symbol)).or(Some(found.symbol.package.clone()));
        let plan = request.answer(&QueryContext { index: index.clone(), ..context }, control)?;
        let conflict = plan.conflicts.iter().find(|found| !is_new || found.kind != ConflictKind::NoPlace);
        match conflict {
            Some(conflict) => Err(RequestRefusal::failed(conflict.message.clone())),
            None => Ok(SavedPlan { request, plan, unsaved, index, symbol: symbol.filter(|_| is_new) }),
        }
    }

    /// Plans the rename on the texts on disk, and moves its edits to the current text of open
    /// documents. In unsaved documents, the forms that have changed since the load are searched by
    /// reading the text. The user must confirm the edits in these forms, unless only text defines
    /// the symbol. Fails if a file with unsaved changes has also changed on disk since it was
    /// loaded.
    fn rename_symbol(&self, found: &FileOccurrence, new: &str, control: &Control) -> Answered {
        let SavedPlan { plan, unsaved, index, symbol: new_symbol, .. } =
            self.saved_plan(found, new, control)?;
        let mut edits: BTreeMap<PathBuf, Vec<Value>> = BTreeMap::new();
        let mut doubtful = false;
        for file in &plan.files {
            let path = self.native(Path::new(&file.path));
            if let Some(unknown) = self.out_of_sync.lock().get(&path) {
                return Err(unknown.refusal());
            }
            let bytes = steelbank_tree::read_source(&path)
                .map_err(|error| RequestRefusal::failed(format!("{} cannot be read: {error}.", file.path)))?;
            if !file.is_for(&bytes) {
                return Err(RequestRefusal::failed(format!(
                    "{} was changed during the rename. Retry.",
                    file.path
                )));
            }
            let text = String::from_utf8(bytes).map_err(|_| {
                RequestRefusal::failed(format!(
                    "{} is not encoded in UTF-8. Use `steelbank rename` on the command line.",
                    file.path
                ))
            })?;
            let edited = edits.entry(path.clone()).or_default();
            let document = self.document(&path).filter(|document| *document.text != text);
            let Some(document) = document else {
                let lines = LineIndex::new(text.as_bytes());
                edited.extend(file.edits.iter().map(|edit| {
                    let range = convert::range(edit.range, &text, &lines, self.encoding());
                    json!({ "range": range, "newText": edit.new })
                }));
                continue;
            };
            // All places of such a symbol are in changed forms, which are searched below.
            if new_symbol.is_some() {
                continue;
            }
            let view = self.view(&document, control)?;
            let loaded_is_disk = self.loaded_text(&path, control).is_some_and(|loaded| loaded == text);
            if !loaded_is_disk {
                return Err(RequestRefusal::failed(format!(
                    "{} has unsaved changes and has changed since it was loaded. Save and load it first.",
                    file.path
                )));
            }
            for edit in &file.edits {
                if let Some(range) = view.moved(edit.range) {
                    edited.push(
                        json!({ "range": document.range(range, self.encoding()), "newText": edit.new }),
                    );
                }
            }
        }
        for document in &unsaved {
            let view = self.view(document, control)?;
            let there = view.occurrences.iter().filter(|other| {
                other.evidence != Evidence::Exact
                    && view.is_changed(other.range.start)
                    && other.binding.is_none()
                    && match new_symbol {
                        Some(_) => index.named(&other.symbol) == new_symbol,
                        None => other.symbol == found.symbol,
                    }
            });
            for other in there {
                let range = document.range(other.name_range, self.encoding());
                let mut edit = json!({ "range": range, "newText": new });
                if new_symbol.is_none() {
                    doubtful = true;
                    edit["annotationId"] = DOUBTFUL.into();
                }
                edits.entry(document.path.clone()).or_default().push(edit);
            }
        }
        let changes: Vec<Value> = edits
            .into_iter()
            .filter(|(_, edits)| !edits.is_empty())
            .map(|(path, edits)| {
                let open = self.document(&path);
                let uri = open.as_ref().map_or_else(|| convert::uri_of(&path), |open| open.uri.clone());
                let version = open.map(|open| open.version);
                json!({ "textDocument": { "uri": uri, "version": version }, "edits": edits })
            })
            .collect();
        let mut answer = json!({ "documentChanges": changes });
        if doubtful {
            answer["changeAnnotations"] = json!({ DOUBTFUL: {
                "label": "In code that is not loaded",
                "description": "The form has changed since it was loaded, so this may be another symbol.",
                "needsConfirmation": true,
            } });
        }
        Ok(answer)
    }
}
