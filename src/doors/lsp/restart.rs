//! Lets an editor's session survive a restart of the program in place: hands its documents and
//! pending requests over to the restarted program.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lsp_server::{Message, Request};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::convert::RequestRefusal;
use super::documents::{OpenDocument, OutOfSync};
use super::server::{LoadPhase, Server, framed, response};
use crate::doors::restart::{Restartable, Resume};
use crate::handle::recovery::ClientHandover;

/// How long a request waits until the loads have been repeated after a restart.
const RELOAD_WAIT: Duration = Duration::from_secs(20);
/// How long after the start of the first loads a request waits for them, because short loads give
/// exact answers. Later requests are answered from the project's text.
const FIRST_LOAD_WAIT: Duration = Duration::from_millis(600);

/// The editor's state, as handed over to the restarted program.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EditorState {
    /// The parameters of `initialize`.
    pub(super) initialize: Value,
    /// Whether the editor has sent `initialized`.
    pub(super) started: bool,
    pub(super) shut_down: bool,
    /// The number of the next request to the editor.
    pub(super) requests: i32,
    documents: Vec<DocumentState>,
    #[serde(default)]
    pub(super) out_of_sync: Vec<OutOfSync>,
}

#[derive(Debug, Serialize, Deserialize)]
struct DocumentState {
    uri: String,
    version: i32,
    text: String,
    compiled: Vec<Value>,
}

impl EditorState {
    /// Returns the open documents.
    pub(super) fn documents(&self, server: &Server) -> Vec<OpenDocument> {
        let document = |known: &DocumentState| {
            let path = super::convert::path_of(&known.uri)?;
            let text = known.text.as_str().into();
            let document = OpenDocument::new(known.uri.clone(), server.native(&path), known.version, text);
            document.compiled.lock().clone_from(&known.compiled);
            Some(document)
        };
        self.documents.iter().filter_map(document).collect()
    }
}

impl Restartable for Server {
    fn halt(&self) -> Vec<u8> {
        self.input.halt()
    }

    fn await_calls(&self, _: bool, end: Instant) {
        let mut running = self.running.lock();
        while !running.is_empty() && !self.ended.wait_until(&mut running, end).timed_out() {}
        self.output.halt();
    }

    fn hand_over(&self, unread: &[u8], end: Option<Instant>) -> Option<(ClientHandover, Resume<'_>)> {
        let mut requests = self.take_requests();
        // Wait for the message that is being processed, because it may add a request. No other
        // message follows, because reading has stopped.
        let turn = match end {
            Some(end) => *self.turn.try_lock_until(end)?,
            None => *self.turn.lock(),
        };
        requests.extend(self.take_requests());
        let mut client = ClientHandover {
            input: self.input.stream.as_fd().as_raw_fd(),
            output: self.output.stream.as_fd().as_raw_fd(),
            joined: self.joined.as_ref().map(|joined| joined.hand_over(self.session())),
            ..ClientHandover::default()
        };
        for request in &requests {
            client.unread.extend(framed(&Message::Request(Request::clone(request))));
        }
        client.unread.extend_from_slice(unread);
        client.protocol = serde_json::to_string(&self.state(turn)).unwrap_or_default();
        client.unwritten = self.output.unwritten(end)?;
        let resume = move || {
            self.output.resume();
            self.deferred.lock().extend(requests);
            self.answer_deferred();
            self.input.resume();
        };
        Some((client, Box::new(resume)))
    }

    fn abandon_lisp(&self) {
        self.answer_deferred();
        self.show(1, &format!("Lisp died three times in a minute. To start it again, {}.", self.remedy()));
    }
}

impl Server {
    fn state(&self, (started, shut_down): (bool, bool)) -> EditorState {
        let document = |document: &Arc<OpenDocument>| DocumentState {
            uri: document.uri.clone(),
            version: document.version,
            text: document.text.to_string(),
            compiled: document.compiled.lock().clone(),
        };
        EditorState {
            initialize: self.initialized.lock().clone(),
            started,
            shut_down,
            requests: self.requests(),
            documents: self.documents().iter().map(document).collect(),
            out_of_sync: self.out_of_sync.lock().values().cloned().collect(),
        }
    }

    /// Removes the unanswered requests and returns those that can be repeated. Commands may have
    /// run code, so they are answered with an error instead.
    fn take_requests(&self) -> Vec<Arc<Request>> {
        let mut running = self.running.lock();
        let mut left = std::mem::take(&mut *self.deferred.lock());
        for (_, (cancellation, request)) in running.drain() {
            cancellation.cancel();
            left.push(request);
        }
        drop(running);
        self.ended.notify_all();
        let (lost, repeated): (Vec<_>, Vec<_>) =
            left.into_iter().partition(|request| request.method == "workspace/executeCommand");
        for request in lost {
            let why = "Lisp restarted during this command, and its work is lost. Retry.";
            // Only add to the buffer, so as not to wait for an editor that does not read.
            self.output.add(&response(request.id.clone(), Err(RequestRefusal::failed(why))));
        }
        repeated
    }

    /// Defers a request that ends after Lisp's death, so that the restarted program answers it.
    /// Returns `false` if the program will not restart.
    pub(super) fn defer(&self, request: &Arc<Request>) -> bool {
        if !self.session().will_restart() {
            return false;
        }
        self.deferred.lock().push(Arc::clone(request));
        // Check again, because the restart may have been rejected meanwhile.
        if !self.session().will_restart() {
            self.answer_deferred();
        }
        true
    }

    /// Answers the deferred requests with errors, because the program will not restart.
    fn answer_deferred(&self) {
        for request in std::mem::take(&mut *self.deferred.lock()) {
            let why = format!("Lisp has died. To start it again, {}.", self.remedy());
            self.respond(request.id.clone(), Err(RequestRefusal::failed(why)));
        }
    }

    /// Returns how to start Lisp again if the program does not restart it, for the end of a
    /// sentence.
    fn remedy(&self) -> &str {
        match self.joined {
            Some(_) => "an agent that shares it can call restart-lisp",
            None => "restart the language server",
        }
    }

    /// Waits for the loads at startup or after a restart: until they end if the request
    /// `runs_code`, otherwise at most for [`FIRST_LOAD_WAIT`] or [`RELOAD_WAIT`]. Also returns if
    /// the request is cancelled. Returns whether loads are still running.
    pub(super) fn await_load(&self, runs_code: bool, is_cancelled: impl Fn() -> bool) -> bool {
        let begun = Instant::now();
        let mut phase = self.load_phase.lock();
        loop {
            let end = match *phase {
                LoadPhase::Done => return false,
                _ if runs_code => None,
                LoadPhase::First(since) => Some(since + FIRST_LOAD_WAIT),
                LoadPhase::Again => Some(begun + RELOAD_WAIT),
            };
            if is_cancelled() || end.is_some_and(|end| Instant::now() >= end) {
                return true;
            }
            self.load_ended.wait_for(&mut phase, Duration::from_millis(20));
        }
    }
}
