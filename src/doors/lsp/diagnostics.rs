//! Diagnostics: of the parentheses as one types, of the compiler when the file is saved or nothing was typed for a while.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use steelbank_reader::lines::{LineColumn, PositionEncoding};
use steelbank_reader::structure::{self, ProblemKind};
use steelbank_reader::{Dialect, Range};

use super::convert::Answered;
use super::documents::{OpenDocument, TOO_LARGE};
use super::outline::definitions;
use super::server::Server;
use crate::Steelbank;
use crate::actions::change::check::CheckRequest;
use crate::actions::change::check::alone::{SpareCopy, SpareCopyRequest};
use crate::engine::control::Control;
use crate::handle::loaded::{Diagnostic, Severity};

/// The time limit of a check.
const ALLOWED: Duration = Duration::from_secs(300);
/// The time without a change after which text that is not saved is compiled.
pub(super) const PAUSE: Duration = Duration::from_millis(700);

/// A document that is to be compiled.
pub(super) struct NextCheck {
    document: Arc<OpenDocument>,
    due: Instant,
    saved: bool,
}

impl Server {
    /// What is wrong with a document, as far as it is known.
    fn diagnostics_of(&self, document: &OpenDocument) -> Vec<Value> {
        let text = document.looked_into();
        let balance = structure::check_structure(text.as_bytes(), Dialect::CommonLisp);
        let wrong = balance.problem.map(|problem| {
            let start = problem.start as usize;
            let end = text.get(start..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
            let range = document.range(Range::of(start..start + end), self.encoding());
            let line = document.lines.line(problem.mend.0);
            let message = match problem.kind {
                ProblemKind::Unclosed => {
                    format!("This list is not closed: line {line} lacks {:?}.", problem.mend.1)
                }
                ProblemKind::ExtraClose => "This parenthesis closes nothing.".to_owned(),
                ProblemKind::UnclosedString => "This string is not closed.".to_owned(),
                ProblemKind::UnclosedBar => "This bar is not closed.".to_owned(),
                ProblemKind::UnclosedComment => "This comment is not closed.".to_owned(),
            };
            json!({ "range": range, "severity": 1, "source": "steelbank", "message": message })
        });
        let start = document.range(Range::of(0..0), self.encoding());
        let untold = document
            .is_too_large()
            .then(|| json!({ "range": start, "severity": 3, "source": "steelbank", "message": TOO_LARGE }));
        wrong.into_iter().chain(untold).chain(document.compiled.lock().iter().cloned()).collect()
    }

    /// Sends a document's diagnostics, unless the editor asks for them itself.
    pub(super) fn publish(&self, document: &OpenDocument) {
        if !self.pulls.load(Ordering::Relaxed) {
            let found = self.diagnostics_of(document);
            let params = json!({ "uri": document.uri, "version": document.version, "diagnostics": found });
            self.notify("textDocument/publishDiagnostics", params);
        }
    }

    pub(super) fn diagnostic(&self, params: &Value) -> Answered {
        let document = self.document_of(params)?;
        Ok(json!({ "kind": "full", "items": self.diagnostics_of(&document) }))
    }

    /// Has a document compiled in a confined copy after `pause`, if it has not moved on by then. Without a snapshot to start
    /// that copy from, only a file that is `saved` is, with all of the project.
    pub(super) fn check_later(&self, document: &Arc<OpenDocument>, pause: Duration, saved: bool) {
        if self.compile && document.path.extension().is_some_and(|kind| kind == "lisp") {
            let due = Instant::now() + pause;
            *self.next_check.lock() = Some(NextCheck { document: Arc::clone(document), due, saved });
            self.check_due.notify_all();
        }
    }

    /// Compiles documents as they are due, for as long as the process lasts.
    pub(super) fn run_checks(&self) {
        let mut spare = None;
        loop {
            let NextCheck { document, saved, .. } = self.await_check();
            if !self.is_current(&document) {
                continue;
            }
            let checked = self.compiled(&document, saved, &mut spare);
            let current = self.document(&document.path);
            if let Some(current) = current.filter(|current| current.version == document.version) {
                match checked {
                    Ok(Some(found)) => *current.compiled.lock() = found,
                    Ok(None) => (),
                    Err(why) => {
                        self.log(&format!("{} could not be checked: {why}", document.path.display()));
                    }
                }
                match self.pulls.load(Ordering::Relaxed) {
                    true => self.refresh_diagnostics(),
                    false => self.publish(&current),
                }
            }
            if let Ok(bank) = self.bank() {
                spare = self.spare(bank);
            }
        }
    }

    fn await_check(&self) -> NextCheck {
        let mut next = self.next_check.lock();
        loop {
            match next.take() {
                None => self.check_due.wait(&mut next),
                Some(check) if check.due <= Instant::now() => return check,
                Some(check) => {
                    let due = check.due;
                    *next = Some(check);
                    self.check_due.wait_until(&mut next, due);
                }
            }
        }
    }

    fn is_current(&self, document: &OpenDocument) -> bool {
        self.document(&document.path).is_some_and(|current| current.version == document.version)
    }

    /// Starts a copy ahead: the next check finds it ready.
    fn spare(&self, bank: &Steelbank) -> Option<(u64, SpareCopy)> {
        let stamp = bank.index().stamp();
        let request = SpareCopyRequest { made_after: *self.loaded_at.lock() };
        Some((stamp, bank.run(&request, &Control::new(ALLOWED)).ok()?))
    }

    /// What the compiler says of a document; none if it cannot be asked now.
    fn compiled(
        &self,
        document: &OpenDocument,
        saved: bool,
        spare: &mut Option<(u64, SpareCopy)>,
    ) -> Result<Option<Vec<Value>>, String> {
        let bank = self.bank().map_err(|refusal| refusal.message)?;
        let control = Control::new(ALLOWED);
        let whole = structure::check_structure(document.text.as_bytes(), Dialect::CommonLisp);
        if whole.problem.is_some() && !saved {
            return Ok(None);
        }
        let fresh = spare.take().filter(|(stamp, _)| *stamp == bank.index().stamp());
        let copy = fresh.or_else(|| self.spare(bank));
        if let Some((_, copy)) = copy {
            match copy.check(&document.path, &document.text, &control) {
                Ok(answer) => return Ok(Some(self.told(document, &answer.diagnostics))),
                Err(why) => self.log(&format!(
                    "{} could not be checked alone, in a copy of what is loaded: {why}",
                    document.path.display()
                )),
            }
        }
        if !saved {
            return Ok(None);
        }
        let mut request = CheckRequest { confined: true, ..CheckRequest::default() };
        if bank.loaded_date(&document.path).is_none() {
            request.paths = vec![document.path.clone()];
        }
        let answer = bank.run(&request, &control).map_err(|error| error.to_string())?;
        Ok(Some(self.told(document, &answer.diagnostics)))
    }

    /// Checks all of what is loaded as it is on disk, with what depends on it, and shows what is said of open documents.
    pub(super) fn check_project(&self, control: &Control) -> Answered {
        let request = CheckRequest { confined: true, ..CheckRequest::default() };
        let answer = self.bank()?.run(&request, control)?;
        for document in self.documents() {
            let is_saved = steelbank_tree::read_source(&document.path)
                .is_ok_and(|disk| disk == document.text.as_bytes());
            if is_saved {
                *document.compiled.lock() = self.told(&document, &answer.diagnostics);
                self.publish(&document);
            }
        }
        if self.pulls.load(Ordering::Relaxed) {
            self.refresh_diagnostics();
        }
        Ok(json!(answer))
    }

    /// What of `said` is of the document.
    fn told(&self, document: &OpenDocument, said: &[Diagnostic]) -> Vec<Value> {
        let here = |said: &&Diagnostic| {
            said.place.as_ref().is_some_and(|place| self.native(place.file.as_ref()) == document.path)
        };
        said.iter().filter(here).map(|said| self.shown(document, said)).collect()
    }

    fn shown(&self, document: &OpenDocument, said: &Diagnostic) -> Value {
        let at = |line: Option<u32>, column: Option<u32>| {
            let at = LineColumn { line: line?, column: column? };
            document.lines.offset(document.text.as_bytes(), at, PositionEncoding::Characters)
        };
        let place = said.place.as_ref();
        let start = place.and_then(|place| at(place.line, place.column)).unwrap_or(0);
        let end = at(said.end_line, said.end_column).unwrap_or(start).max(start);
        let severity = match said.severity {
            Severity::ReadError | Severity::Error => 1,
            Severity::Warning => 2,
            Severity::StyleWarning => 3,
            Severity::Note => 4,
        };
        let mut shown = json!({
            "range": document.range(Range::new(start, end), self.encoding()),
            "severity": severity,
            "source": "sbcl",
            "message": said.message,
        });
        // The definition that it is in, if it stands above.
        let top = document.read.toplevel_from(start).filter(|top| top.span.contains(start));
        let name = top.and_then(|top| {
            let known = definitions(&document.text);
            known.into_iter().find(|known| known.form == top.span && known.name.end <= start)
        });
        if let Some(name) = name {
            let location =
                json!({ "uri": document.uri, "range": document.range(name.name, self.encoding()) });
            let message = format!("in {} {}", name.operator.to_lowercase(), name.spelt.to_lowercase());
            shown["relatedInformation"] = json!([{ "location": location, "message": message }]);
        }
        shown
    }
}
