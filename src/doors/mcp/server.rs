//! The server: reads requests, answers them, and ends when the client leaves.
//!
//! One thread leads: it reads a line and carries out what needs no Lisp itself, without a change of threads
//! between line and answer. Calls that may wait go to a pool. If the leader takes long all the same, a thread
//! that stands by takes over, so that the server always reads.

use std::borrow::Cow;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::json;
use serde_json::value::RawValue;

use super::about::{discovery, hello, lasting};
use super::calls::{Calls, Pool, cancelled};
use super::input::{ClientInput, Taken};
use super::lead::Lead;
use super::listing::listing;
use super::message::{self, Id, Message};
use super::output::ClientOutput;
use super::protocol::{Meta, Protocol, Terms};
use super::restart::Again;
use super::roots::{ask_for_roots, folders};
use super::stdio;
use crate::engine::Writing;
use crate::recovery::Cause;
use crate::tools::{Session, quoted};

/// The time that the leader may be busy before another thread takes over.
const PATIENCE: Duration = Duration::from_millis(5);
/// The time that calls may go on when a client has closed its end, but may still read.
pub(super) const GRACE: Duration = Duration::from_millis(800);

/// The reasons for which the server ends other than by its client's leaving.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The system refused a thread or a descriptor.
    #[error(
        "cannot set up the protocol's streams and threads: {0}; does a limit of this process (ulimit -a) leave no room?"
    )]
    System(#[from] io::Error),
    /// Code that was loaded has closed the client's streams, or put others in their place.
    #[error(
        "code that was loaded has closed the streams to the client, so nothing more can be heard or answered"
    )]
    StreamsLost,
}

/// Serves the process's standard input and output until the client leaves. From now on, descriptor 0 is empty, and what
/// the process writes to descriptor 1 goes to standard error. Call it before anything can write there.
///
/// `start` is called once the streams are safe; it gives the session.
///
/// # Errors
/// [`ServeError`], or what `start` says.
pub fn serve_stdio<E: From<ServeError>>(start: impl FnOnce() -> Result<Session, E>) -> Result<(), E> {
    let (input, output) = stdio::take().map_err(ServeError::from)?;
    let session = start()?;
    Ok(serve_on(input, output, session)?)
}

/// Serves one client on a pair of streams until it leaves: until `input` ends, or `output` cannot be written.
///
/// # Errors
/// [`ServeError`].
pub fn serve_on(
    input: impl Into<OwnedFd>,
    output: impl Into<OwnedFd>,
    session: Session,
) -> Result<(), ServeError> {
    serve_again(input.into(), output.into(), session, None)
}

/// Like [`serve_on`], but executes the program again in place, with the same client, when Lisp has died or a
/// restart is requested.
///
/// # Errors
/// [`ServeError`].
pub fn serve_again(
    input: OwnedFd,
    output: OwnedFd,
    session: Session,
    again: Option<Again>,
) -> Result<(), ServeError> {
    let handover = again.as_ref().and_then(|again| again.handover.as_ref());
    let protocol = handover.and_then(|handover| serde_json::from_str(&handover.protocol).ok());
    let unread = handover.map(|handover| handover.unread.clone()).unwrap_or_default();
    crate::engine::close_on_fork(&input);
    crate::engine::close_on_fork(&output);
    let server = Arc::new(Server {
        session,
        tools: OnceLock::new(),
        input: ClientInput::new(input, unread)?,
        output: ClientOutput::new(output),
        protocol: Mutex::new(protocol.unwrap_or_default()),
        calls: Calls::default(),
        waiting: Pool::new(),
        running: Pool::new(),
        lead: Lead::new(PATIENCE),
        end: End::default(),
    });
    let thread = |name: &str, body: fn(Arc<Server>)| {
        let server = Arc::clone(&server);
        std::thread::Builder::new().name(name.into()).spawn(move || body(server))
    };
    thread("mcp-news", |server| {
        server.output.write_news();
        server.end.reach();
    })?;
    if let Some(Again { causes, execute, .. }) = again {
        let server = Arc::clone(&server);
        std::thread::Builder::new().name("mcp-again".into()).spawn(move || {
            while let Ok(cause) = causes.recv() {
                // Serve all pending requests for a restart with one.
                if causes.try_iter().any(|cause| cause == Cause::Asked) {
                    server.session.recovery().forget_deaths();
                }
                server.start_again(&cause, &execute);
            }
        })?;
    }
    thread("mcp-standby", |server| server.stand_by())?;
    thread("mcp-read", |server| server.lead(0))?;
    server.end.wait();
    server.leave();
    if server.input.is_lost() || server.output.is_lost() {
        return Err(ServeError::StreamsLost);
    }
    Ok(())
}

pub(super) struct Server {
    pub(super) session: Session,
    /// The rendered results of `tools/list`, one for each lifecycle.
    tools: OnceLock<[Vec<u8>; 2]>,
    pub(super) input: ClientInput,
    pub(super) output: ClientOutput,
    pub(super) protocol: Mutex<Protocol>,
    pub(super) calls: Calls,
    /// The pool for questions that may wait for Lisp, or walk a tree.
    pub(super) waiting: Arc<Pool>,
    /// The pool for calls that run code, apart from questions: however many loads wait, a question finds a
    /// thread.
    pub(super) running: Arc<Pool>,
    lead: Lead,
    pub(super) end: End,
}

/// A latch that opens when there is nothing more to read, or nobody to write to.
#[derive(Default)]
pub(super) struct End {
    reached: Mutex<bool>,
    changed: Condvar,
}

impl End {
    pub(super) fn reach(&self) {
        *self.reached.lock() = true;
        self.changed.notify_all();
    }

    fn wait(&self) {
        let mut reached = self.reached.lock();
        while !*reached {
            self.changed.wait(&mut reached);
        }
    }
}

impl Server {
    /// Reads and carries out lines, until another thread leads or the stream ends.
    fn lead(self: &Arc<Self>, mine: u64) {
        let mut line = Vec::new();
        let mut answer = Vec::new();
        while self.lead.is(mine) {
            // Count the line before it is taken, so that a wait for all calls includes it.
            self.calls.begin_line();
            let taken = self.input.take(&mut line);
            if taken != Taken::Line {
                self.calls.end_line();
            }
            if taken != Taken::Nothing {
                self.lead.begin();
            }
            match taken {
                Taken::Line => {
                    self.line(&line, &mut answer);
                    self.output.add(&answer);
                    answer.clear();
                    self.calls.end_line();
                }
                Taken::TooLong => {
                    let refusal = ErrorData::invalid_request("The message is longer than 16 MiB.", None);
                    message::write_error(&mut answer, None, &refusal);
                    self.output.add(&answer);
                    answer.clear();
                }
                Taken::Nothing => {
                    self.output.flush();
                    if !self.lead.rest(mine) {
                        return;
                    }
                    if self.output.is_gone() || self.input.fill().is_err() {
                        return self.end.reach();
                    }
                }
                Taken::End => {
                    self.output.flush();
                    return self.end.reach();
                }
            }
        }
        self.output.flush();
    }

    /// Takes over the lead when the leader takes long.
    fn stand_by(self: &Arc<Self>) {
        let mine = self.lead.succeed();
        let server = Arc::clone(self);
        let another = std::thread::Builder::new().name("mcp-standby".into());
        // Ignore the error: without a stand-by, the next long call blocks reading.
        let _ = another.spawn(move || server.stand_by());
        self.lead(mine);
    }

    /// Ends the calls once the client has left, or seems to have.
    fn leave(&self) {
        let reads = || !self.output.is_gone() && !self.output.has_no_reader();
        let end = (!self.input.is_file()).then(|| Instant::now() + GRACE);
        self.calls.wait_until_none(end, reads);
        self.calls.cancel_all();
        // Let no edit be cut by the program's end.
        Writing::wait_for_end();
        if reads() {
            self.output.drain(end);
        }
        self.output.close();
    }

    /// Carries out a line. Answers that are ready are appended to `answer`.
    fn line(self: &Arc<Self>, line: &[u8], answer: &mut Vec<u8>) {
        match message::read(line) {
            Ok(Message::Request { id, method, params }) => self.request(line, id, &method, params, answer),
            Ok(Message::Notification { method, params }) => self.notification(&method, params, answer),
            Ok(Message::Response { id, result }) => self.response(&id, result),
            Ok(Message::Blank) => (),
            Err((id, refusal)) => message::write_error(answer, id.as_ref(), &refusal),
        }
    }

    fn request(
        self: &Arc<Self>,
        line: &[u8],
        id: Id,
        method: &str,
        params: Option<&RawValue>,
        answer: &mut Vec<u8>,
    ) {
        let outcome = match method {
            "initialize" => self.protocol.lock().initialize(params).map(|version| {
                message::write_result(answer, &id, |line| message::write(line, &hello(version)));
            }),
            "tools/call" => self.call(line, &id, params, answer),
            _ => {
                let terms = self.protocol.lock().admit(method, &Meta::of(params));
                terms.and_then(|terms| self.other(method, terms)).map(|result| {
                    message::write_result(answer, &id, |line| line.extend_from_slice(&result));
                })
            }
        };
        if let Err(refusal) = outcome {
            message::write_error(answer, Some(&id), &refusal);
        }
    }

    /// Answers a request that calls no tool.
    fn other(&self, method: &str, terms: Terms) -> Result<Cow<'_, [u8]>, ErrorData> {
        let empty = |list: &str| match terms.inline {
            true => Cow::Owned(lasting(json!({ list: [] }))),
            false => Cow::Owned(json!({ list: [] }).to_string().into_bytes()),
        };
        Ok(match method {
            "ping" if !terms.inline => Cow::Borrowed(b"{}"),
            "tools/list" => {
                let [session, inline] = self.tools.get_or_init(|| {
                    let listing = listing(self.session.tools());
                    [listing.to_string().into_bytes(), lasting(listing)]
                });
                Cow::Borrowed(if terms.inline { inline } else { session })
            }
            "server/discover" => Cow::Owned(json!(discovery()).to_string().into_bytes()),
            // Answer clients that ask for resources without having been told of any.
            "resources/list" => empty("resources"),
            "resources/templates/list" => empty("resourceTemplates"),
            "prompts/list" => empty("prompts"),
            _ => {
                let why = format!("There is no method {}.", quoted(method));
                return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, why, None));
            }
        })
    }

    fn notification(&self, method: &str, params: Option<&RawValue>, answer: &mut Vec<u8>) {
        match method {
            "notifications/cancelled" => {
                if let Some(id) = cancelled(params) {
                    self.calls.cancel(&id);
                }
            }
            "notifications/initialized" | "notifications/roots/list_changed"
                if self.session.lacks_project() =>
            {
                if let Some(id) = self.protocol.lock().ask_for_roots() {
                    ask_for_roots(answer, &Id::string(&id));
                }
            }
            _ => (),
        }
    }

    /// Takes the client's response: the only request that we send is for its roots.
    fn response(&self, id: &Id, result: Option<&RawValue>) {
        if !self.protocol.lock().is_roots(id) {
            return;
        }
        if let Some(folder) = folders(result).find(|folder| folder.is_dir()) {
            self.session.name_project(folder);
        }
    }
}
