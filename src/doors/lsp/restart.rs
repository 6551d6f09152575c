//! Lisp's death, survived: the program executed again in place, with the same editor, its documents and its requests.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lsp_server::{Message, Request};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::convert::RequestRefusal;
use super::documents::OpenDocument;
use super::server::{Server, framed, response};
use crate::doors::restart::{GoOn, ServedClient, UNREAD_RESTART_TIME};
use crate::handle::recovery::ClientHandover;

/// The time that a request waits for what is loaded again.
const RELOAD_WAIT: Duration = Duration::from_secs(20);

/// What one process knows of the editor, for the next.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct EditorState {
    /// The parameters of `initialize`.
    pub(super) initialize: Value,
    /// Whether the editor has said `initialized`.
    pub(super) started: bool,
    pub(super) shut_down: bool,
    /// The number of the next request to the editor.
    pub(super) requests: i32,
    documents: Vec<DocumentState>,
}

#[derive(Debug, Serialize, Deserialize)]
struct DocumentState {
    uri: String,
    version: i32,
    text: String,
    compiled: Vec<Value>,
}

impl EditorState {
    /// The documents that the editor has open.
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

impl ServedClient for Server {
    fn halt(&self) -> Vec<u8> {
        self.input.halt()
    }

    fn await_answers(&self, _: bool, end: Instant) {
        let mut running = self.running.lock();
        while !running.is_empty() && !self.ended.wait_until(&mut running, end).timed_out() {}
    }

    fn hand_over(&self, unread: &[u8], others: bool) -> Option<(ClientHandover, GoOn<'_>)> {
        let mut requests = self.leave_requests();
        // Wait for the message that is being carried out, which may be a further request. None comes after it.
        let turn = match others {
            true => *self.turn.try_lock_for(UNREAD_RESTART_TIME)?,
            false => *self.turn.lock(),
        };
        requests.extend(self.leave_requests());
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
        if !self.output.drain(others.then(|| Instant::now() + UNREAD_RESTART_TIME)) || self.output.is_gone() {
            return None;
        }
        let go_on = move || {
            self.deferred.lock().extend(requests);
            self.answer_deferred();
            self.input.resume();
        };
        Some((client, Box::new(go_on)))
    }

    fn go_without_lisp(&self) {
        self.answer_deferred();
        self.show(1, &format!("Lisp has died three times within a minute: {}.", self.remedy()));
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
        }
    }

    /// Takes the requests that have no answer. Those that run code are answered.
    fn leave_requests(&self) -> Vec<Arc<Request>> {
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
            let why = "Lisp died while the command was carried out. It is coming back.";
            // Do not wait for an editor that does not read.
            self.output.add(&response(request.id.clone(), Err(RequestRefusal::failed(why))));
        }
        repeated
    }

    /// Leaves a request, during which Lisp died, to the next process. False if there will be none.
    pub(super) fn defer(&self, request: &Arc<Request>) -> bool {
        if !self.session().will_restart() {
            return false;
        }
        self.deferred.lock().push(Arc::clone(request));
        // Look again: the decision against a restart may have come meanwhile.
        if !self.session().will_restart() {
            self.answer_deferred();
        }
        true
    }

    /// Answers what no later process will.
    fn answer_deferred(&self) {
        for request in std::mem::take(&mut *self.deferred.lock()) {
            let why = format!("Lisp has died, and does not come back: {}.", self.remedy());
            self.respond(request.id.clone(), Err(RequestRefusal::failed(why)));
        }
    }

    /// What starts a Lisp again that has died too often.
    fn remedy(&self) -> &str {
        match self.joined {
            Some(_) => "an agent that shares it can call restart-lisp",
            None => "start the language server again",
        }
    }

    /// Waits until what the process before this one had loaded is loaded again.
    pub(super) fn await_reload(&self, is_cancelled: impl Fn() -> bool) {
        let end = Instant::now() + RELOAD_WAIT;
        let mut reloading = self.reloading.lock();
        while *reloading && !is_cancelled() && Instant::now() < end {
            self.reloaded.wait_for(&mut reloading, Duration::from_millis(20));
        }
    }
}
