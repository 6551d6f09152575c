//! The server: reads requests, answers them, and knows when its client has left.
//!
//! One thread leads: it reads a line and carries out what needs no Lisp itself, so that between the line and its answer
//! no thread changes. What may wait goes to a pool. If the leader takes long all the same, a thread that stands by leads
//! on: the server always reads.

use std::borrow::Cow;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
#[expect(deprecated, reason = "2026-07-28 has no roots; the versions that have sessions do")]
use rmcp::model::ListRootsResult;
use rmcp::model::{
    DiscoverResult, ErrorCode, ErrorData, Implementation, InitializeResult, ProtocolVersion,
    ServerCapabilities, ToolsCapability,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::calls::{Calls, Pool};
use super::input::{Input, Taken};
use super::instructions::INSTRUCTIONS;
use super::lead::Lead;
use super::listing::listing;
use super::message::{self, Id, Message};
use super::output::Output;
use super::protocol::{Meta, Protocol, Terms, VERSIONS};
use super::stdio;
use crate::recovery::{Cause, Handover};
use crate::tools::{
    Answer, Call, Effect, Failure, Object, Outcome, Progress, Session, Tool, quoted, write_json,
};

/// How long the leader may be busy before another leads.
const PATIENCE: Duration = Duration::from_millis(5);
/// How long calls may go on when a client has closed its end, and may yet be reading.
const GRACE: Duration = Duration::from_millis(800);

/// Why the server ended otherwise than by its client's leaving.
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

/// How a server goes on in another image of the program, and went on in this one.
pub struct Again {
    /// Why another image is wanted, from [`crate::recovery::Recovery::arm`].
    pub causes: Receiver<Cause>,
    /// What the image before this one handed over.
    pub handover: Option<Handover>,
    /// Executes the program again with what it is to take over. It returns only if that cannot be.
    pub execute: Box<dyn Fn(Handover) -> io::Error + Send>,
}

/// Like [`serve_on`], and when Lisp has died or is to be clean the program is executed again in place, with the same client.
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
        input: Input::new(input, unread)?,
        output: Output::new(output),
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
                // One restart is for all that want one by now.
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

struct Server {
    session: Session,
    /// What `tools/list` answers, for both lifecycles. Rendered once.
    tools: OnceLock<[Vec<u8>; 2]>,
    input: Input,
    output: Output,
    protocol: Mutex<Protocol>,
    calls: Calls,
    /// Threads for questions that may wait for Lisp, or walk a tree.
    waiting: Arc<Pool>,
    /// Threads for what runs code: however many loads wait, questions find a thread.
    running: Arc<Pool>,
    lead: Lead,
    end: End,
}

/// That the server has nothing more to read, or nobody to write to.
#[derive(Default)]
struct End {
    reached: Mutex<bool>,
    changed: Condvar,
}

impl End {
    fn reach(&self) {
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

#[derive(Deserialize)]
pub(super) struct CallParams<'a> {
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) _meta: Option<&'a RawValue>,
}

impl Server {
    /// Reads and carries out, until another thread leads or the client sends no more.
    fn lead(self: &Arc<Self>, mine: u64) {
        let mut line = Vec::new();
        let mut answer = Vec::new();
        while self.lead.is(mine) {
            // Before the line is taken: whoever waits for all calls to end waits for it, too.
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

    /// Leads on when the leader takes long.
    fn stand_by(self: &Arc<Self>) {
        let mine = self.lead.succeed();
        let server = Arc::clone(self);
        let another = std::thread::Builder::new().name("mcp-standby".into());
        // Without one, the next long call is waited for.
        let _ = another.spawn(move || server.stand_by());
        self.lead(mine);
    }

    /// Ends what runs, and executes the program again with what was not begun, and with the questions that have no answer.
    fn start_again(&self, cause: &Cause, execute: &dyn Fn(Handover) -> io::Error) {
        let recovery = self.session.recovery();
        let Some(mut handover) = recovery.decide(cause, crate::recovery::now()) else {
            return self.answer_left();
        };
        let unread = self.input.halt();
        let reads = || !self.output.is_gone();
        // Whoever waited for a dead Lisp is being told so; questions to the index end by themselves. A Lisp that lives may have
        // long work.
        let brief = !matches!(cause, Cause::Died(_));
        self.calls.wait_for_answers(brief, Instant::now() + GRACE, reads);
        let (mut line, mut again) = (Vec::new(), Vec::new());
        for call in self.calls.take_unanswered() {
            match call.line {
                Some(asked) => {
                    handover.unread.extend_from_slice(&asked);
                    handover.unread.push(b'\n');
                    again.push((call.id, call.failed));
                }
                None => message::write_error(&mut line, Some(&call.id), &lost()),
            }
            call.cancellation.cancel();
        }
        handover.unread.extend_from_slice(&unread);
        self.output.add(&line);
        self.calls.wait_until_none(None, reads);
        self.output.drain(None);
        if self.output.is_gone() {
            return;
        }
        handover.input = self.input.stream().as_raw_fd();
        handover.output = self.output.stream().as_raw_fd();
        handover.protocol = serde_json::to_string(&*self.protocol.lock()).unwrap_or_default();
        handover.project = self.session.project_folder();
        execute(handover);
        // It goes on without Lisp.
        recovery.give_up();
        let mut line = Vec::new();
        for (id, failed) in again {
            match failed {
                Some(failed) => line.extend_from_slice(&failed),
                None => message::write_error(&mut line, Some(&id), &lost()),
            }
        }
        self.output.send(&line);
        self.answer_left();
        self.input.resume();
    }

    /// Answers the questions that Lisp died over, and that nobody will ask again.
    fn answer_left(&self) {
        let failed = self.calls.take_left().into_iter().filter_map(|call| call.failed);
        self.output.send(&failed.flatten().collect::<Vec<u8>>());
    }

    /// Leaves a question that Lisp died over to the image that comes. False if none comes.
    fn leave_to_next(&self, serial: u64, failed: &[u8]) -> bool {
        if !self.session.comes_back() {
            return false;
        }
        self.calls.leave_unanswered(serial, failed);
        // It may have been decided meanwhile that none comes.
        if !self.session.comes_back() {
            self.answer_left();
        }
        true
    }

    /// What is left to do once the client has left, or seems to have.
    fn leave(&self) {
        let reads = || !self.output.is_gone() && !self.output.has_no_reader();
        let end = (!self.input.is_file()).then(|| Instant::now() + GRACE);
        self.calls.wait_until_none(end, reads);
        self.calls.cancel_all();
        if reads() {
            self.output.drain(end);
        }
        self.output.close();
    }

    /// Carries out what a line says. Answers that are at hand are added to `answer`.
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

    /// The result of a request that is no tool's.
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
            // Some clients ask without having been told that there are any.
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

    /// The client's roots are the only thing that we ask for.
    fn response(&self, id: &Id, result: Option<&RawValue>) {
        if !self.protocol.lock().is_roots(id) {
            return;
        }
        if let Some(folder) = folders(result).find(|folder| folder.is_dir()) {
            self.session.name_project(folder);
        }
    }

    fn call(
        self: &Arc<Self>,
        line: &[u8],
        id: &Id,
        params: Option<&RawValue>,
        answer: &mut Vec<u8>,
    ) -> Result<(), ErrorData> {
        let read = params.and_then(|params| serde_json::from_str::<CallParams<'_>>(params.get()).ok());
        let meta = Meta::read(read.as_ref().and_then(|params| params._meta));
        let terms = self.protocol.lock().admit("tools/call", &meta)?;
        let wrong = |why: &'static str| ErrorData::invalid_params(why, None);
        let Some(params) = read else {
            return Err(wrong("tools/call needs \"name\" to be a string: the name of a tool."));
        };
        let arguments = match params.arguments.map(RawValue::get) {
            None | Some("null") => Object::new(),
            Some(json) => serde_json::from_str::<Object>(json)
                .map_err(|_| wrong("tools/call needs \"arguments\" to be an object."))?,
        };
        let tool =
            self.session.tools().get(&params.name).map_err(|why| ErrorData::invalid_params(why, None))?;
        let call = match meta.progress_token.map(RawValue::to_owned) {
            None => Call::default(),
            Some(token) => {
                let server = Arc::clone(self);
                Call::new(move |progress| server.output.offer(&news(&token, &progress)))
            }
        };
        if tool.is_at_once() && !self.output.is_full() {
            let serial = self.calls.note(id.clone(), call.cancellation(), None, true);
            let outcome = carry_out(tool, &self.session, arguments, &call);
            if self.calls.answer(serial) {
                write_outcome(answer, id, terms, outcome);
            }
            self.calls.end(serial);
            return Ok(());
        }
        let effect = tool.about().effect;
        let pool = match effect {
            Effect::Runs => &self.running,
            Effect::Reads | Effect::Writes => &self.waiting,
        };
        let asks = effect == Effect::Reads;
        let again = asks.then(|| line.to_vec());
        let serial = self.calls.note(id.clone(), call.cancellation(), again, tool.ends_soon());
        let (server, of, id) = (Arc::clone(self), Arc::clone(pool), id.clone());
        let submitted = pool.submit(Box::new(move || {
            if !server.calls.begin(serial, &of) {
                return true;
            }
            let outcome = carry_out(tool, &server.session, arguments, &call);
            let failed = matches!(outcome, Ok(Err(Failure::Engine(_))));
            let mut line = Vec::new();
            write_outcome(&mut line, &id, terms, outcome);
            if failed && asks && server.leave_to_next(serial, &line) {
                return true;
            }
            if !server.calls.answer(serial) {
                return false;
            }
            server.output.send(&line);
            server.calls.end(serial);
            if server.output.is_gone() {
                server.end.reach();
            }
            true
        }));
        submitted.map_err(|error| {
            self.calls.end(serial);
            ErrorData::internal_error(format!("The system gives no thread for this call: {error}."), None)
        })
    }
}

/// The answer to what ran code when Lisp was started again.
fn lost() -> ErrorData {
    let why = "Lisp was started again while this ran. What was done of it is lost: ask again.";
    ErrorData::internal_error(why, None)
}

/// What `initialize` answers.
pub(super) fn hello(version: ProtocolVersion) -> InitializeResult {
    InitializeResult::new(capabilities())
        .with_protocol_version(version)
        .with_server_info(about())
        .with_instructions(INSTRUCTIONS)
}

/// What `server/discover` answers.
pub(super) fn discovery() -> DiscoverResult {
    DiscoverResult::from_server_info(VERSIONS.to_vec(), hello(ProtocolVersion::default()))
}

fn capabilities() -> ServerCapabilities {
    let mut capabilities = ServerCapabilities::default();
    capabilities.tools = Some(ToolsCapability::default());
    capabilities
}

fn about() -> Implementation {
    Implementation::new("steelbank", env!("CARGO_PKG_VERSION"))
        .with_title("Steelbank")
        .with_description(env!("CARGO_PKG_DESCRIPTION"))
}

/// The result `value` as 2026-07-28 wants those that may be kept: complete, private, and old at once.
pub(super) fn lasting(value: Value) -> Vec<u8> {
    let mut result = json!({ "resultType": "complete", "ttlMs": 0, "cacheScope": "private" });
    if let (Value::Object(result), Value::Object(value)) = (&mut result, value) {
        result.extend(value);
    }
    serde_json::to_vec(&result).unwrap_or_default()
}

/// Calls the tool; what unwinds is no answer, but ends nothing else.
fn carry_out(
    tool: &Tool,
    session: &Session,
    arguments: Object,
    call: &Call,
) -> Result<Result<Answer, Failure>, ErrorData> {
    std::panic::catch_unwind(AssertUnwindSafe(|| tool.call(session, arguments, call))).map_err(|_| {
        let why = format!("{} failed inside: this is a bug of steelbank's.", tool.name());
        ErrorData::internal_error(why, None)
    })
}

pub(super) fn write_outcome(
    line: &mut Vec<u8>,
    id: &Id,
    terms: Terms,
    outcome: Result<Result<Answer, Failure>, ErrorData>,
) {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(refusal) => return message::write_error(line, Some(id), &refusal),
    };
    message::write_result(line, id, |line| {
        line.push(b'{');
        if terms.inline {
            line.extend_from_slice(b"\"resultType\":\"complete\",");
        }
        line.extend_from_slice(b"\"content\":[");
        let mut text = |text: &str, first: bool| {
            line.extend_from_slice(if first { b"" } else { b"," });
            line.extend_from_slice(b"{\"type\":\"text\",\"text\":");
            write_json::string(text, |piece| line.extend_from_slice(piece.as_bytes()));
            line.push(b'}');
        };
        let is_error = match &outcome {
            Ok(answer) => {
                text(&answer.text, true);
                answer.notes.iter().for_each(|note| text(note, false));
                line.extend_from_slice(b"],\"structuredContent\":");
                line.extend_from_slice(answer.structured.json().as_bytes());
                matches!(answer.outcome, Outcome::Failed | Outcome::NotFoundError)
            }
            Err(failure) => {
                text(&failure.to_string(), true);
                line.push(b']');
                true
            }
        };
        line.extend_from_slice(if is_error { b",\"isError\":true}" } else { b",\"isError\":false}" });
    });
}

/// The request that a notification calls off.
pub(super) fn cancelled(params: Option<&RawValue>) -> Option<Id> {
    // The id as it was written, which rmcp's `CancelledNotificationParam` does not keep.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Cancelled<'a> {
        #[serde(borrow)]
        request_id: &'a RawValue,
    }
    let cancelled = params.and_then(|params| serde_json::from_str::<Cancelled<'_>>(params.get()).ok())?;
    Id::new(cancelled.request_id)
}

/// Appends our request for the client's roots.
pub(super) fn ask_for_roots(line: &mut Vec<u8>, id: &Id) {
    message::write_call(line, Some(id), "roots/list", &json!({}));
}

/// The folders that a client's roots are.
#[expect(deprecated, reason = "2026-07-28 has no roots; the versions that have sessions do")]
pub(super) fn folders(result: Option<&RawValue>) -> impl Iterator<Item = PathBuf> {
    let roots = result.and_then(|result| serde_json::from_str::<ListRootsResult>(result.get()).ok());
    roots.into_iter().flat_map(|roots| roots.roots).filter_map(|root| path_of(&root.uri))
}

/// The line that tells of a call's progress.
pub(super) fn news(token: &RawValue, progress: &Progress) -> Vec<u8> {
    // The token as it was written, and counts: rmcp's `ProgressNotificationParam` has floats, `3.0` for `3`.
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct News<'a> {
        progress_token: &'a RawValue,
        progress: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        total: Option<u64>,
        message: &'a str,
    }
    let message = match &progress.path {
        Some(path) => &format!("{} {path}", progress.what),
        None => &progress.what.to_string(),
    };
    let params = News { progress_token: token, progress: progress.done, total: progress.total, message };
    let mut line = Vec::new();
    message::write_call(&mut line, None, "notifications/progress", &params);
    line
}

/// The path of a file's address.
fn path_of(uri: &str) -> Option<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    let path = uri.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    let mut bytes = Vec::new();
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
            }
            byte => bytes.push(byte),
        }
    }
    bytes.starts_with(b"/").then(|| PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roots_are_files_addresses() {
        assert_eq!(path_of("file:///a%20b/%C3%A9"), Some(PathBuf::from("/a b/é")));
        assert_eq!(path_of("file://localhost/a"), Some(PathBuf::from("/a")));
        assert_eq!(path_of("https://example/a"), None);
        assert_eq!(path_of("file:///a%2"), None);
    }
}
