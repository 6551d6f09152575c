//! Diagnostics: errors in the structure, such as unbalanced parentheses, while the user types; and
//! the compiler's diagnostics when a file is saved, after a pause in typing, or after a change of
//! the image.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
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
use crate::engine::control::{Cancellation, Control};
use crate::handle::loaded::{Diagnostic, Severity};

/// The time limit of a check.
const CHECK_TIME: Duration = Duration::from_secs(300);
/// The pause in typing after which unsaved text is compiled.
pub(super) const TYPING_PAUSE: Duration = Duration::from_millis(700);

/// A document to compile.
pub(super) struct NextCheck {
    document: Arc<OpenDocument>,
    due: Instant,
    saved: bool,
}

/// The queue of the thread that compiles documents.
#[derive(Default)]
pub(super) struct ChecksDue {
    /// The documents to compile. Older versions of a document are skipped.
    due: Vec<NextCheck>,
    /// Whether the image has changed, so that earlier diagnostics may be outdated.
    changed: bool,
    /// The document that is being compiled.
    running: Option<(Arc<OpenDocument>, Cancellation)>,
    /// Whether the editor has disconnected.
    ended: bool,
}

/// The copies of an image that compile the documents of its editors, one document at a time.
#[derive(Debug, Default)]
pub struct CheckCopies(Mutex<Spare>);

#[derive(Debug, Default)]
struct Spare {
    /// The copy that was started ahead of time, and the index's stamp at its start.
    copy: Option<(u64, SpareCopy)>,
    /// The date of the image's last change at the last request for a new snapshot. Each change
    /// requests only one snapshot.
    ordered: Option<SystemTime>,
}

impl Spare {
    /// Starts a copy from the snapshot of the loaded systems. If that fails and the image has
    /// changed since the last request for a snapshot, requests a new snapshot.
    fn start(&mut self, bank: &Steelbank) -> Option<(u64, SpareCopy)> {
        let stamp = bank.index().stamp();
        if let Ok(copy) = bank.run(&SpareCopyRequest, &Control::new(CHECK_TIME)) {
            return Some((stamp, copy));
        }
        let changed = bank.changed_at();
        if changed.is_some() && changed != self.ordered {
            self.ordered = changed;
            // Ignore the error: without a copy, files are only checked when they are saved.
            let _ = bank.make_snapshot_later(false);
        }
        None
    }
}

impl Server {
    /// Returns the diagnostics of a document: the first error in its structure, such as an
    /// unbalanced parenthesis; a note if the text is too large to analyse; and the compiler's
    /// diagnostics.
    fn diagnostics_of(&self, document: &OpenDocument) -> Vec<Value> {
        let text = document.analysed_text();
        let balance = structure::check_structure(text.as_bytes(), Dialect::CommonLisp);
        let wrong = balance.problem.map(|problem| {
            let start = problem.start as usize;
            let end = text.get(start..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8);
            let range = document.range(Range::of(start..start + end), self.encoding());
            let line = document.lines.line(problem.mend.0);
            let message = match problem.kind {
                ProblemKind::Unclosed => {
                    format!("This list is not closed: {:?} is missing in line {line}.", problem.mend.1)
                }
                ProblemKind::ExtraClose => "This closing parenthesis has no opening one.".to_owned(),
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

    /// Publishes a document's diagnostics, unless the editor requests them itself.
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

    /// Compiles a document in a confined copy after `pause`, if no newer version exists by then.
    /// Without a snapshot for such a copy, only a `saved` file is checked, together with its system
    /// or with all loaded systems. Does nothing for other files than `.lisp` files, or if the
    /// server was started with --no-compile.
    pub(super) fn check_later(&self, document: &Arc<OpenDocument>, pause: Duration, saved: bool) {
        if self.compile && document.path.extension().is_some_and(|kind| kind == "lisp") {
            let due = Instant::now() + pause;
            let mut checks = self.checks.lock();
            let is_older = |other: &NextCheck| {
                other.document.path == document.path && other.document.version <= document.version
            };
            checks.due.retain(|other| !is_older(other));
            checks.due.push(NextCheck { document: Arc::clone(document), due, saved });
            // Cancel a running check of an older version, because its result is no longer needed.
            let running = checks
                .running
                .iter()
                .filter(|(running, _)| running.path == document.path && running.version < document.version);
            running.for_each(|(_, cancellation)| cancellation.cancel());
            self.check_due.notify_all();
        }
    }

    /// Records that the image has changed.
    pub(super) fn note_changed_image(&self) {
        self.checks.lock().changed = true;
        self.check_due.notify_all();
    }

    /// Ends the running check and prevents further checks, because the editor has disconnected.
    pub(super) fn end_checks(&self) {
        let mut checks = self.checks.lock();
        checks.ended = true;
        checks.running.iter().for_each(|(_, cancellation)| cancellation.cancel());
        self.check_due.notify_all();
    }

    /// Updates the editor after a change of the image: refreshes its semantic tokens, and schedules
    /// a new check of each document that has compiler diagnostics.
    fn refresh(&self) {
        self.refresh_tokens();
        for document in self.documents().iter().filter(|document| !document.compiled.lock().is_empty()) {
            self.check_later(document, TYPING_PAUSE, document.is_saved());
        }
    }

    /// Compiles documents when they are due, until the editor disconnects.
    pub(super) fn run_checks(&self) {
        while let Some((NextCheck { document, saved, .. }, control)) = self.await_check() {
            // A copy without the project's packages would report false errors.
            self.await_load(true, || control.cancellation().is_cancelled());
            let mut spare = self.copies.0.lock();
            if control.cancellation().is_cancelled() || !self.is_current(&document) {
                continue;
            }
            let checked = self.compiled(&document, saved, &mut spare, &control);
            let current = self.document(&document.path);
            let is_wanted = !control.cancellation().is_cancelled();
            if let Some(current) = current.filter(|current| is_wanted && current.version == document.version)
            {
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
                spare.copy = spare.start(bank);
            }
        }
    }

    /// Waits for a document that is due. Updates the editor if the image changes meanwhile. Returns
    /// `None` after the editor has disconnected.
    fn await_check(&self) -> Option<(NextCheck, Control)> {
        let mut checks = self.checks.lock();
        checks.running = None;
        loop {
            if checks.ended {
                return None;
            }
            if std::mem::take(&mut checks.changed) {
                drop(checks);
                self.refresh();
                checks = self.checks.lock();
                continue;
            }
            let first = (0..checks.due.len()).min_by_key(|at| checks.due[*at].due);
            match first.map(|at| (at, checks.due[at].due)) {
                None => self.check_due.wait(&mut checks),
                Some((at, due)) if due <= Instant::now() => {
                    let (next, control) = (checks.due.swap_remove(at), Control::new(CHECK_TIME));
                    checks.running = Some((Arc::clone(&next.document), control.cancellation()));
                    return Some((next, control));
                }
                Some((_, due)) => drop(self.check_due.wait_until(&mut checks, due)),
            }
        }
    }

    fn is_current(&self, document: &OpenDocument) -> bool {
        self.document(&document.path).is_some_and(|current| current.version == document.version)
    }

    /// Compiles a document and returns its diagnostics. Returns `None` if the check was cancelled.
    /// Also returns `None` for unsaved text that is unbalanced or cannot be compiled in a copy.
    fn compiled(
        &self,
        document: &OpenDocument,
        saved: bool,
        spare: &mut Spare,
        control: &Control,
    ) -> Result<Option<Vec<Value>>, String> {
        let bank = self.bank().map_err(|refusal| refusal.message)?;
        let whole = structure::check_structure(document.text.as_bytes(), Dialect::CommonLisp);
        if whole.problem.is_some() && !saved {
            return Ok(None);
        }
        let fresh = spare.copy.take().filter(|(stamp, _)| *stamp == bank.index().stamp());
        let copy = fresh.or_else(|| spare.start(bank));
        if let Some((_, copy)) = copy {
            match copy.check(&document.path, &document.text, control) {
                Ok(answer) => return Ok(Some(self.diagnostics_in(document, &answer.diagnostics))),
                Err(_) if control.cancellation().is_cancelled() => return Ok(None),
                Err(why) => self.log(&format!(
                    "{} could not be checked by itself in a copy of the image: {why}",
                    document.path.display()
                )),
            }
        }
        if !saved {
            return Ok(None);
        }
        // If the file belongs to a loaded system, load only that system, because diagnostics of
        // other systems do not concern this document. Otherwise load all loaded systems again, and
        // the file if it is not loaded.
        let system = bank.system_of(&document.path);
        let mut request = CheckRequest { confined: true, system, ..CheckRequest::default() };
        if bank.loaded_date(&document.path).is_none() {
            request.paths = vec![document.path.clone()];
        }
        let answer = bank.run(&request, control).map_err(|error| error.to_string())?;
        Ok(Some(self.diagnostics_in(document, &answer.diagnostics)))
    }

    /// Loads the loaded systems again in a scratch image, from the texts on disk. This compiles
    /// changed files and their dependents. Shows the diagnostics of open documents without unsaved
    /// changes.
    pub(super) fn check_project(&self, control: &Control) -> Answered {
        let request = CheckRequest { confined: true, ..CheckRequest::default() };
        let answer = self.bank()?.run(&request, control)?;
        for document in self.documents() {
            if document.is_saved() {
                *document.compiled.lock() = self.diagnostics_in(&document, &answer.diagnostics);
                self.publish(&document);
            }
        }
        if self.pulls.load(Ordering::Relaxed) {
            self.refresh_diagnostics();
        }
        Ok(json!(answer))
    }

    /// Returns the diagnostics in the document, converted to the protocol's form.
    fn diagnostics_in(&self, document: &OpenDocument, said: &[Diagnostic]) -> Vec<Value> {
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
        // Add a reference to the definition around the diagnostic.
        let read = document.read();
        let top = read.toplevel_from(start).filter(|top| top.span.contains(start));
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
