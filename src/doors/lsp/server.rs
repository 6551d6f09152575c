//! The main loop: reads the editor's messages, maintains its open documents, and answers each
//! request on a separate thread.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use lsp_server::{Message, Notification, Request, RequestId, Response};
use parking_lot::{Condvar, Mutex};
use serde::Deserialize;
use serde_json::{Value, json};
use steelbank_reader::lines::PositionEncoding;
use steelbank_tree::defines_systems;

use super::convert::{self, Answered, RequestRefusal};
use super::diagnostics::{CheckCopies, ChecksDue, TYPING_PAUSE};
use super::documents::{OpenDocument, OutOfSync};
use super::indent::Formatted;
use super::restart::EditorState;
use super::view::LoadedTexts;
use crate::Steelbank;
use crate::actions::symbols::names::{Accessible, AccessibleNamesRequest};
use crate::doors::restart::{LEAVING_TIME, RestartHooks, ServedClients, SharedSocket};
use crate::doors::streams::input::{ClientInput, Framing, Taken, header};
use crate::doors::streams::output::ClientOutput;
use crate::engine::control::{Cancellation, Control};
use crate::engine::trim_memory;
use crate::handle::ChangeListener;
use crate::handle::recovery::ClientHandover;
use crate::tools::Session;

/// The maximum number of concurrent requests. Further requests wait in a queue.
const THREADS: usize = 16;
/// The maximum number of requests that run or wait. Further requests are refused.
const MAX_REQUESTS: usize = 1 << 14;
/// The pause before the output buffer is examined again while it is full.
const FULL_PAUSE: Duration = Duration::from_millis(20);
/// The message to editors that do not show progress.
const LOADING: &str =
    "steelbank is loading the project. Until that ends, it answers from the project's text.";

/// Runs the loads at startup, or waits until the host has run them, and returns their errors.
pub type FirstLoad = Box<dyn FnOnce(&Session) -> Option<String> + Send>;

/// The loads at startup or after a restart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum LoadPhase {
    /// They have ended, or have not begun.
    #[default]
    Done,
    /// They have been running since the start.
    First(Instant),
    /// They are being repeated after a restart.
    Again,
}

/// Whether a request runs code or edits all uses of a symbol, so that it needs the loaded project.
fn runs_code(method: &str) -> bool {
    matches!(method, "workspace/executeCommand" | "textDocument/rename" | "textDocument/prepareRename")
}

/// The settings of a language server.
pub struct ServerOptions {
    /// Whether documents are compiled in a confined copy of the image. Otherwise only their
    /// parentheses are checked.
    pub compile: bool,
    /// See [`FirstLoad`].
    pub load: FirstLoad,
    /// The editor's state from before a restart of the program.
    pub handover: Option<ClientHandover>,
    /// The copies that compile the documents of all editors of the image.
    pub copies: Arc<CheckCopies>,
}

impl std::fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerOptions").field("compile", &self.compile).finish_non_exhaustive()
    }
}

/// The index's stamp when a request for names was answered, with whether the project was not
/// loaded; the request; and the names.
type CompletionNames = ((u64, bool), AccessibleNamesRequest, Arc<Vec<Accessible>>);

/// The parts of a message that can be read although a string in it is not valid.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ReadableParts {
    id: Option<RequestId>,
    method: String,
    params: ReadableParams,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReadableParams {
    #[serde(rename = "textDocument")]
    document: ReadableDocument,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ReadableDocument {
    uri: String,
}

/// The requests that wait for a thread.
#[derive(Default)]
struct RequestQueue {
    threads: usize,
    waiting: VecDeque<(Control, Arc<Request>)>,
}

/// The server of one editor.
pub(super) struct Server {
    session: Session,
    pub(super) input: ClientInput,
    pub(super) output: ClientOutput,
    utf8: AtomicBool,
    pub(super) compile: bool,
    /// Whether the editor requests diagnostics itself.
    pub(super) pulls: AtomicBool,
    progress: AtomicBool,
    /// Whether the editor has a command to show a list of places.
    pub(super) shows_references: AtomicBool,
    documents: Mutex<HashMap<PathBuf, Arc<OpenDocument>>>,
    /// The open documents whose text is unknown, with their URIs and reasons.
    pub(super) out_of_sync: Mutex<HashMap<PathBuf, OutOfSync>>,
    pub(super) loaded: Mutex<LoadedTexts>,
    pub(super) cached_names: Mutex<Vec<CompletionNames>>,
    /// Locked while a message is processed. Holds whether `initialized` and whether `shutdown` have
    /// been received.
    pub(super) turn: Mutex<(bool, bool)>,
    /// The parameters of `initialize`, or null before that request.
    pub(super) initialized: Mutex<Value>,
    /// The unanswered requests, including those that wait for a thread.
    pub(super) running: Mutex<HashMap<RequestId, (Cancellation, Arc<Request>)>>,
    queue: Mutex<RequestQueue>,
    pub(super) ended: Condvar,
    /// The requests that ended after Lisp's death. The restarted program answers them.
    pub(super) deferred: Mutex<Vec<Arc<Request>>>,
    pub(super) load_phase: Mutex<LoadPhase>,
    pub(super) load_ended: Condvar,
    pub(super) checks: Mutex<ChecksDue>,
    pub(super) check_due: Condvar,
    pub(super) copies: Arc<CheckCopies>,
    /// The subscription to changes of the image. It ends when the server is dropped.
    change_listener: OnceLock<Arc<ChangeListener>>,
    /// The socket to the editor's `steelbank lsp` process, if the image is shared.
    pub(super) joined: Option<SharedSocket>,
    requests: AtomicI32,
}

/// Serves one editor until it sends `exit` or closes its stream. `restarts` enables restarts of the
/// program. Returns whether the editor sent `shutdown`.
///
/// # Errors
/// A thread or a descriptor could not be created.
pub fn serve(
    streams: [OwnedFd; 2],
    session: Session,
    options: ServerOptions,
    restarts: Option<RestartHooks>,
) -> io::Result<bool> {
    let served = ServedClients::new(&session);
    let editor = ServedEditor::new(&served, streams, session, None, options, || ())?;
    restarts.map_or(Ok(()), |hooks| served.restart_by(hooks))?;
    editor.wait()
}

/// An editor that is being served.
pub struct ServedEditor {
    served: Arc<ServedClients>,
    server: Arc<Server>,
    load: Option<FirstLoad>,
}

impl std::fmt::Debug for ServedEditor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedEditor").finish_non_exhaustive()
    }
}

impl ServedEditor {
    /// Starts to serve an editor on a pair of streams, or resumes the editor in the handover.
    /// `welcome` is called before anything is read. Reading starts with [`ServedEditor::wait`].
    ///
    /// # Errors
    /// A thread or a descriptor could not be created.
    pub fn new(
        served: &Arc<ServedClients>,
        [input, output]: [OwnedFd; 2],
        session: Session,
        joined: Option<SharedSocket>,
        options: ServerOptions,
        welcome: impl FnOnce(),
    ) -> io::Result<Self> {
        let handover = options.handover.unwrap_or_default();
        let server = Arc::new(Server {
            session,
            input: ClientInput::new(input, Framing::Headers, handover.unread)?,
            output: ClientOutput::new(output),
            utf8: AtomicBool::new(false),
            compile: options.compile,
            pulls: AtomicBool::new(false),
            progress: AtomicBool::new(false),
            shows_references: AtomicBool::new(false),
            documents: Mutex::default(),
            loaded: Mutex::default(),
            cached_names: Mutex::default(),
            turn: Mutex::default(),
            initialized: Mutex::default(),
            running: Mutex::default(),
            queue: Mutex::default(),
            out_of_sync: Mutex::default(),
            ended: Condvar::new(),
            deferred: Mutex::default(),
            load_phase: Mutex::default(),
            load_ended: Condvar::new(),
            checks: Mutex::default(),
            check_due: Condvar::new(),
            copies: options.copies,
            change_listener: OnceLock::new(),
            joined,
            requests: AtomicI32::new(0),
        });
        server.output.queue(&handover.unwritten);
        let mut load = Some(options.load);
        if let Ok(state) = serde_json::from_str::<EditorState>(&handover.protocol) {
            server.take_over(&state, &mut load)?;
        }
        let server = served.add(|| {
            welcome();
            server.spawn("lsp-check", |server| server.run_checks())?;
            server.spawn("lsp-write", |server| server.output.run_progress_writer())?;
            if server.joined.is_some() {
                server.spawn("lsp-socket", |server| {
                    server.joined.iter().for_each(SharedSocket::wait_for_end);
                    server.input.close();
                })?;
            }
            Ok::<_, io::Error>(server)
        })?;
        Ok(Self { served: Arc::clone(served), server, load })
    }

    /// Serves the editor until it disconnects. Returns whether it sent `shutdown`.
    ///
    /// # Errors
    /// A thread could not be created.
    pub fn wait(mut self) -> io::Result<bool> {
        let outcome = self.server.serve(&mut self.load);
        self.server.leave();
        self.served.remove(&self.server);
        outcome.map(|()| self.server.turn.lock().1)
    }
}

/// Returns the folders in the parameters of `initialize`.
fn folders_of(params: &Value) -> Vec<PathBuf> {
    let folders = params["workspaceFolders"].as_array().into_iter().flatten();
    let folders = folders.filter_map(|folder| convert::path_of(folder["uri"].as_str()?));
    folders.chain(params["rootUri"].as_str().and_then(convert::path_of)).collect()
}

pub(super) fn response(id: RequestId, answer: Answered) -> Vec<u8> {
    let response_result = answer.map_err(|refusal| lsp_server::ResponseError {
        code: refusal.code,
        message: refusal.message,
        data: None,
    });
    framed(&Message::Response(Response { id, response_result }))
}

/// Returns a message with its header.
pub(super) fn framed(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Ignore the result: writing to memory cannot fail.
    let _ = message.write(&mut bytes);
    bytes
}

impl Server {
    /// Returns SBCL with its indexes. Starts SBCL if necessary.
    pub(super) fn bank(&self) -> Result<&Steelbank, RequestRefusal> {
        Ok(self.session.bank()?)
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }

    pub(super) fn encoding(&self) -> PositionEncoding {
        if self.utf8.load(Ordering::Relaxed) { PositionEncoding::Utf8 } else { PositionEncoding::Utf16 }
    }

    fn spawn(self: &Arc<Self>, name: &str, body: impl FnOnce(&Arc<Self>) + Send + 'static) -> io::Result<()> {
        let server = Arc::clone(self);
        std::thread::Builder::new().name(name.into()).spawn(move || body(&server)).map(drop)
    }

    /// Processes the editor's messages until it disconnects.
    fn serve(self: &Arc<Self>, load: &mut Option<FirstLoad>) -> io::Result<()> {
        let mut body = Vec::new();
        loop {
            // Without this limit, an editor that does not read could fill the memory.
            if self.output.is_full() {
                if self.input.has_no_writer() {
                    return Ok(());
                }
                std::thread::sleep(FULL_PAUSE);
                continue;
            }
            let mut turn = self.turn.lock();
            match self.input.take(&mut body) {
                Taken::Message => {
                    if let Some(message) = self.read(&body)
                        && !self.dispatch(message, &mut turn, load)?
                    {
                        return Ok(());
                    }
                }
                Taken::Refused => {
                    self.log("Ignored a message that is too long or has no valid Content-Length header.");
                }
                Taken::Nothing => {
                    drop(turn);
                    if self.output.failed() || self.input.fill().is_err() {
                        return Ok(());
                    }
                }
                Taken::End => return Ok(()),
            }
        }
    }

    /// Parses a message. Reports an error to the editor if it is not valid. A document in it is
    /// then out of sync.
    fn read(&self, body: &[u8]) -> Option<Message> {
        let invalid = |id: Value, error: &dyn std::fmt::Display| {
            let message = format!("This message is not valid JSON-RPC: {error}.");
            self.respond_to(id, RequestRefusal { code: -32600, message });
            None
        };
        let message = match serde_json::from_slice::<Value>(body) {
            Ok(message) => message,
            Err(error) => {
                let readable = serde_json::from_slice::<ReadableParts>(body).unwrap_or_default();
                let message = format!("This message is not valid JSON: {error}.");
                self.respond_to(json!(readable.id), RequestRefusal { code: -32700, message });
                if matches!(readable.method.as_str(), "textDocument/didOpen" | "textDocument/didChange") {
                    self.lose(&readable.params.document.uri, &error.to_string());
                }
                return None;
            }
        };
        let has_method = message.get("method").is_some();
        let id = message.get("id").cloned().unwrap_or_default();
        // Without this check, a request with another id would be read as a notification.
        if has_method && message.get("id").is_some() && RequestId::deserialize(&id).is_err() {
            return invalid(Value::Null, &"the id is neither a string nor an integer of 32 bits");
        }
        // An invalid response has the id of the server's own request, so it gets no answer.
        match serde_json::from_value(message) {
            Ok(message) => Some(message),
            Err(error) if has_method || id.is_null() => invalid(id, &error),
            Err(error) => {
                self.log(&format!("Ignored a message that is not valid JSON-RPC: {error}."));
                None
            }
        }
    }

    /// Ends requests and threads after the editor has disconnected.
    fn leave(&self) {
        self.queue.lock().waiting.clear();
        self.running.lock().values().for_each(|(cancellation, _)| cancellation.cancel());
        self.end_checks();
        self.output.drain(Some(Instant::now() + LEAVING_TIME));
        self.output.close();
        self.input.close();
    }

    /// Processes a notification, or starts to answer a request. Returns `false` after `exit`.
    fn dispatch(
        self: &Arc<Self>,
        message: Message,
        (started, shut_down): &mut (bool, bool),
        load: &mut Option<FirstLoad>,
    ) -> io::Result<bool> {
        let initialized = !self.initialized.lock().is_null();
        match message {
            Message::Request(request) if request.method == "initialize" && !initialized => {
                let answer = self.initialize(&request.params);
                self.respond(request.id, Ok(answer));
                self.warn_of_other_folders(&request.params);
                *self.initialized.lock() = request.params;
            }
            Message::Request(request) if !initialized => {
                let message = "The server is not initialized.".to_owned();
                self.respond(request.id, Err(RequestRefusal { code: -32002, message }));
            }
            Message::Request(request) if request.method == "shutdown" => {
                *shut_down = true;
                self.respond(request.id, Ok(Value::Null));
            }
            Message::Request(request) if *shut_down => {
                let message = "The server is shutting down.".to_owned();
                self.respond(request.id, Err(RequestRefusal { code: -32600, message }));
            }
            Message::Request(request) => self.begin(request)?,
            Message::Notification(notification) => match notification.method.as_str() {
                "exit" => return Ok(false),
                "initialized" => {
                    *started = true;
                    self.begin_load(load, false)?;
                }
                _ => self.notified(&notification),
            },
            Message::Response(_) => (),
        }
        Ok(true)
    }

    fn begin_load(self: &Arc<Self>, load: &mut Option<FirstLoad>, again: bool) -> io::Result<()> {
        let Some(load) = load.take() else { return Ok(()) };
        *self.load_phase.lock() = if again { LoadPhase::Again } else { LoadPhase::First(Instant::now()) };
        if !again && !self.progress.load(Ordering::Relaxed) {
            self.spawn("lsp-notice", |server| {
                if server.await_load(false, || false) {
                    server.show(3, LOADING);
                }
            })?;
        }
        self.spawn("lsp-load", move |server| server.load_first(load, again))
    }

    /// Restores the editor's state after a restart of the program.
    fn take_over(self: &Arc<Self>, state: &EditorState, load: &mut Option<FirstLoad>) -> io::Result<()> {
        self.requests.store(state.requests, Ordering::Relaxed);
        if !state.initialize.is_null() {
            self.initialize(&state.initialize);
        }
        *self.initialized.lock() = state.initialize.clone();
        *self.turn.lock() = (state.started, state.shut_down);
        state.documents(self).into_iter().for_each(|document| drop(self.set(document)));
        state.out_of_sync.iter().for_each(|document| self.lose(&document.uri, &document.why));
        if state.started {
            self.begin_load(load, true)?;
        }
        Ok(())
    }

    /// Returns the number of the next request to the editor.
    pub(super) fn requests(&self) -> i32 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Returns the real path of a file. Relative paths are resolved against the project's folder.
    pub(super) fn native(&self, path: &Path) -> PathBuf {
        let path = self.session.project_folder().map_or_else(|| path.to_owned(), |root| root.join(path));
        path.canonicalize().unwrap_or(path)
    }

    pub(super) fn document(&self, path: &Path) -> Option<Arc<OpenDocument>> {
        self.documents.lock().get(path).cloned()
    }

    pub(super) fn documents(&self) -> Vec<Arc<OpenDocument>> {
        self.documents.lock().values().cloned().collect()
    }

    /// Returns the open document in a request's parameters.
    pub(super) fn document_of(&self, params: &Value) -> Result<Arc<OpenDocument>, RequestRefusal> {
        let uri = params["textDocument"]["uri"].as_str().unwrap_or_default();
        let path = convert::path_of(uri).map(|path| self.native(&path));
        if let Some(unknown) = path.as_ref().and_then(|path| self.out_of_sync.lock().get(path).cloned()) {
            return Err(unknown.refusal());
        }
        let open = path.and_then(|path| self.document(&path));
        open.ok_or_else(|| RequestRefusal::params(format!("{uri:?} is not open.")))
    }

    /// Returns the document in a request's parameters, and the byte offset of the position.
    pub(super) fn at(&self, params: &Value) -> Result<(Arc<OpenDocument>, u32), RequestRefusal> {
        let document = self.document_of(params)?;
        let at = convert::offset_from(&params["position"], &document.text, &document.lines, self.encoding())?;
        Ok((document, at))
    }

    fn initialize(&self, params: &Value) -> Value {
        let client = &params["capabilities"];
        if let (Some(seat), Some(name)) = (self.session.client_slot(), params["clientInfo"]["name"].as_str())
        {
            let version = params["clientInfo"]["version"].as_str().unwrap_or_default();
            seat.set_name(format!("{name} {version}").trim_end());
        }
        let encodings = client["general"]["positionEncodings"].as_array();
        let utf8 = encodings.is_some_and(|all| all.iter().any(|each| each == "utf-8"));
        self.utf8.store(utf8, Ordering::Relaxed);
        self.pulls.store(!client["textDocument"]["diagnostic"].is_null(), Ordering::Relaxed);
        self.progress.store(client["window"]["workDoneProgress"] == true, Ordering::Relaxed);
        let shows = params["initializationOptions"]["showReferences"] == true;
        self.shows_references.store(shows, Ordering::Relaxed);
        let folders = folders_of(params);
        let defines_system = |folder: &&PathBuf| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.into_iter().any(|entry| defines_systems(&entry.path()))
        };
        if let Some(folder) = folders.iter().find(defines_system).or(folders.first()) {
            self.session.name_project(folder.clone());
        }
        json!({
            "serverInfo": { "name": "steelbank", "version": env!("CARGO_PKG_VERSION") },
            "capabilities": {
                "positionEncoding": if utf8 { "utf-8" } else { "utf-16" },
                "textDocumentSync": { "openClose": true, "change": 2, "save": { "includeText": false } },
                "hoverProvider": true,
                "definitionProvider": true,
                "declarationProvider": true,
                "implementationProvider": true,
                "referencesProvider": true,
                "documentHighlightProvider": true,
                "renameProvider": { "prepareProvider": true },
                "documentSymbolProvider": true,
                "workspaceSymbolProvider": true,
                "callHierarchyProvider": true,
                "typeHierarchyProvider": true,
                "codeLensProvider": { "resolveProvider": true },
                "inlayHintProvider": true,
                "codeActionProvider": { "codeActionKinds": ["quickfix"] },
                "documentFormattingProvider": true,
                "documentRangeFormattingProvider": true,
                "documentOnTypeFormattingProvider": { "firstTriggerCharacter": "\n" },
                "completionProvider": { "triggerCharacters": [":"], "resolveProvider": true },
                "signatureHelpProvider": { "triggerCharacters": [" ", "("] },
                "foldingRangeProvider": true,
                "selectionRangeProvider": true,
                "semanticTokensProvider": {
                    "legend": { "tokenTypes": convert::TOKEN_TYPES, "tokenModifiers": ["definition", "modification"] },
                    "full": true,
                    "range": true,
                },
                "diagnosticProvider": { "interFileDependencies": true, "workspaceDiagnostics": false },
                "executeCommandProvider": { "commands": super::workspace::COMMANDS },
            },
        })
    }

    /// Warns about workspace folders outside the project, because only the project's files and open
    /// documents are searched.
    fn warn_of_other_folders(&self, params: &Value) {
        let Some(root) = self.session.project_folder() else { return };
        let real = |folder: PathBuf| folder.canonicalize().unwrap_or(folder);
        let root = real(root);
        let others: BTreeSet<PathBuf> = folders_of(params).into_iter().map(real).collect();
        for other in others.iter().filter(|folder| !folder.starts_with(&root)) {
            let (other, root) = (other.display(), root.display());
            self.show(
                2,
                &format!("steelbank serves only the project in {root}. It does not search {other}."),
            );
        }
    }

    /// Runs the loads at startup or, with `again`, after a restart, and shows their progress. Then
    /// subscribes to changes of the image.
    fn load_first(self: &Arc<Self>, load: FirstLoad, again: bool) {
        let token = "steelbank/load";
        let shown = self.progress.load(Ordering::Relaxed);
        let report = |value: Value| {
            if shown {
                self.notify("$/progress", json!({ "token": token, "value": value }));
            }
        };
        if shown {
            self.request("window/workDoneProgress/create", json!({ "token": token }));
        }
        report(json!({ "kind": "begin", "title": "Loading the project" }));
        let is_there = self.joined.is_some() && self.bank().is_ok_and(|bank| !bank.is_loading());
        let trouble = load(&self.session).or_else(|| {
            let failed = self.session.loads().into_iter().filter(|load| !load.loaded);
            failed.map(|load| load.outcome).reduce(|all, next| format!("{all}\n{next}"))
        });
        let message = match trouble {
            Some(_) => "Some systems did not load.",
            None if is_there && !again => "Already loaded in the shared Lisp.",
            None => "Loaded.",
        };
        report(json!({ "kind": "end", "message": message }));
        *self.load_phase.lock() = LoadPhase::Done;
        self.load_ended.notify_all();
        if let Some(trouble) = trouble {
            self.show(2, &trouble);
        }
        if let Ok(bank) = self.bank() {
            let server = Arc::downgrade(self);
            let change_listener =
                move || server.upgrade().iter().for_each(|server| server.note_changed_image());
            bank.subscribe(self.change_listener.get_or_init(|| Arc::new(change_listener)));
        }
        if let Some(restart) = self.session.recovery().sentences().last().filter(|_| again) {
            self.show(2, restart);
        }
    }

    /// Queues a request, and starts a thread for it if there are fewer than [`THREADS`]. Rejects a
    /// request with the id of an unanswered request. Never waits, so that the messages after the
    /// request are read.
    fn begin(self: &Arc<Self>, request: Request) -> io::Result<()> {
        let (control, request) = (Control::new(Duration::from_secs(600)), Arc::new(request));
        let mut running = self.running.lock();
        let refusal = match running.len() {
            _ if running.contains_key(&request.id) => "Another request with this id is in progress.",
            MAX_REQUESTS.. => "Too many requests are in progress.",
            _ => "",
        };
        if !refusal.is_empty() {
            let refusal = RequestRefusal { code: -32600, message: refusal.to_owned() };
            self.respond(request.id.clone(), Err(refusal));
            return Ok(());
        }
        running.insert(request.id.clone(), (control.cancellation(), Arc::clone(&request)));
        drop(running);
        let mut queue = self.queue.lock();
        queue.waiting.push_back((control, request));
        if queue.threads >= THREADS {
            return Ok(());
        }
        queue.threads += 1;
        drop(queue);
        self.spawn("lsp-request", |server| server.run_requests())
    }

    /// Answers the requests in the queue until it is empty.
    fn run_requests(&self) {
        self.session.submit_as_client();
        loop {
            let mut queue = self.queue.lock();
            let Some((control, request)) = queue.waiting.pop_front() else {
                queue.threads -= 1;
                return;
            };
            drop(queue);
            let cancellation = control.cancellation();
            self.await_load(runs_code(&request.method), || cancellation.is_cancelled());
            let answer = match cancellation.is_cancelled() {
                true => Err(RequestRefusal::cancelled()),
                false => self.answer(&request.method, &request.params, &control),
            };
            let answer = if cancellation.is_cancelled() { Err(RequestRefusal::cancelled()) } else { answer };
            self.finish(&request, answer);
            self.output.flush();
            if self.document_of(&request.params).is_ok_and(|document| document.is_large()) {
                trim_memory();
            }
        }
    }

    /// Adds the answer to the output. A restart removes unanswered requests from `running`. The
    /// restarted program answers them, except commands, which have already got an error.
    fn finish(&self, request: &Arc<Request>, answer: Answered) {
        let mut running = self.running.lock();
        if running.contains_key(&request.id) && !self.defer(request) {
            self.output.queue(&response(request.id.clone(), answer));
        }
        running.remove(&request.id);
        drop(running);
        self.ended.notify_all();
    }

    /// Cancels a request. One that still waits for a thread is answered immediately.
    fn cancel(&self, id: &RequestId) {
        if let Some((cancellation, _)) = self.running.lock().get(id) {
            cancellation.cancel();
        }
        let mut queue = self.queue.lock();
        let found = queue.waiting.iter().position(|(_, request)| request.id == *id);
        let waiting = found.and_then(|at| queue.waiting.remove(at));
        drop(queue);
        if let Some((_, request)) = waiting {
            self.finish(&request, Err(RequestRefusal::cancelled()));
        }
    }

    fn answer(&self, method: &str, params: &Value, control: &Control) -> Answered {
        match method {
            "textDocument/hover" => self.hover(params, control),
            "textDocument/definition" | "textDocument/declaration" => self.definition(params, false, control),
            "textDocument/implementation" => self.definition(params, true, control),
            "textDocument/references" => self.references(params, control),
            "textDocument/documentHighlight" => self.highlight(params, control),
            "textDocument/prepareRename" => self.prepare_rename(params, control),
            "textDocument/rename" => self.rename(params, control),
            "textDocument/documentSymbol" => self.document_symbols(params, control),
            "workspace/symbol" => self.workspace_symbols(params, control),
            "textDocument/prepareCallHierarchy" => self.prepare_calls(params, control),
            "callHierarchy/incomingCalls" => self.incoming_calls(params, control),
            "callHierarchy/outgoingCalls" => self.outgoing_calls(params, control),
            "textDocument/prepareTypeHierarchy" => self.prepare_types(params, control),
            "typeHierarchy/supertypes" => self.related_types(params, control, |class| class.superclasses),
            "typeHierarchy/subtypes" => self.related_types(params, control, |class| class.subclasses),
            "textDocument/codeLens" => self.lenses(params, control),
            "codeLens/resolve" => self.resolve_lens(params, control),
            "textDocument/codeAction" => self.code_actions(params),
            "textDocument/formatting" => self.formatting(params, Formatted::Document, control),
            "textDocument/rangeFormatting" => self.formatting(params, Formatted::Range, control),
            "textDocument/onTypeFormatting" => self.formatting(params, Formatted::Line, control),
            "textDocument/completion" => self.completion(params, control),
            "completionItem/resolve" => self.resolve_completion(params, control),
            "textDocument/signatureHelp" => self.signature_help(params, control),
            "textDocument/inlayHint" => self.hints(params, control),
            "textDocument/foldingRange" => self.folding(params, control),
            "textDocument/selectionRange" => self.selection(params, control),
            "textDocument/semanticTokens/full" => self.semantic_tokens(params, true, control),
            "textDocument/semanticTokens/range" => self.semantic_tokens(params, false, control),
            "textDocument/diagnostic" => self.diagnostic(params),
            "workspace/executeCommand" => self.execute(params, control),
            other => Err(RequestRefusal { code: -32601, message: format!("Unknown request {other:?}.") }),
        }
    }

    fn notified(&self, notification: &Notification) {
        let params = &notification.params;
        let outcome = match notification.method.as_str() {
            "$/cancelRequest" => {
                RequestId::deserialize(&params["id"]).iter().for_each(|id| self.cancel(id));
                Ok(())
            }
            "textDocument/didOpen" => self.open(&params["textDocument"]),
            "textDocument/didChange" => self.change(params),
            "textDocument/didSave" => self.document_of(params).map(|document| {
                self.loaded.lock().retain(|path, (_, _, known)| *path != document.path || known.is_some());
                self.check_later(&document, Duration::ZERO, true);
            }),
            "textDocument/didClose" => {
                let uri = params["textDocument"]["uri"].as_str().unwrap_or_default();
                let path = convert::path_of(uri).map(|path| self.native(&path)).unwrap_or_default();
                let open = self.documents.lock().remove(&path).map(|document| document.uri.clone());
                let unknown = self.out_of_sync.lock().remove(&path).map(|document| document.uri);
                self.loaded.lock().remove(&path);
                trim_memory();
                match open.or(unknown) {
                    Some(uri) => self.publish_nothing(&uri),
                    None => self.log(&format!("textDocument/didClose: {uri:?} is not open.")),
                }
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(refusal) = outcome {
            self.log(&format!("{}: {}", notification.method, refusal.message));
        }
    }

    fn publish_nothing(&self, uri: &str) {
        self.notify("textDocument/publishDiagnostics", json!({ "uri": uri, "diagnostics": [] }));
    }

    /// Reports that the text of the document at `uri` is unknown. Requests about it fail until its
    /// whole text arrives.
    fn lose(&self, uri: &str, why: &str) {
        let Some(path) = convert::path_of(uri).map(|path| self.native(&path)) else { return };
        let unknown = OutOfSync { uri: uri.to_owned(), why: why.to_owned() };
        self.documents.lock().remove(&path);
        if self.out_of_sync.lock().insert(path, unknown.clone()).is_none() {
            self.show(1, &unknown.refusal().message);
            self.publish_nothing(uri);
        }
    }

    fn open(&self, document: &Value) -> Result<(), RequestRefusal> {
        let uri = document["uri"].as_str().unwrap_or_default().to_owned();
        let path = convert::path_of(&uri)
            .ok_or_else(|| RequestRefusal::params(format!("{uri:?} is not a file URI")))?;
        let Some(text) = document["text"].as_str() else {
            self.lose(&uri, "the document has no text");
            return Ok(());
        };
        let version = document["version"].as_i64().and_then(|version| i32::try_from(version).ok());
        let path = self.native(&path);
        self.set(OpenDocument::new(uri, path, version.unwrap_or(0), text.into()));
        Ok(())
    }

    fn change(&self, params: &Value) -> Result<(), RequestRefusal> {
        let version =
            params["textDocument"]["version"].as_i64().and_then(|version| i32::try_from(version).ok());
        let no_changes = RequestRefusal::params("the notification has no changes");
        let changes = params["contentChanges"].as_array().ok_or(no_changes);
        let uri = params["textDocument"]["uri"].as_str().unwrap_or_default();
        let path = convert::path_of(uri).map(|path| self.native(&path)).unwrap_or_default();
        let unknown = self.out_of_sync.lock().get(&path).cloned();
        let document = match &unknown {
            Some(unknown) => {
                // The whole text makes the document known again.
                if !changes.as_ref().is_ok_and(|all| all.iter().any(|change| change["range"].is_null())) {
                    return Err(unknown.refusal());
                }
                Arc::new(OpenDocument::new(unknown.uri.clone(), path, i32::MIN, Arc::from("")))
            }
            None => self.document_of(params)?,
        };
        let version = version.unwrap_or(document.version.saturating_add(1));
        let changed = match version < document.version {
            true => Err(RequestRefusal::params(format!(
                "version {version} is older than the current version {}",
                document.version
            ))),
            false => changes.and_then(|changes| document.changed(version, changes, self.encoding())),
        };
        match changed {
            Ok(document) => {
                let document = self.set(document);
                self.check_later(&document, TYPING_PAUSE, false);
            }
            Err(refusal) => self.lose(&document.uri, &refusal.message),
        }
        Ok(())
    }

    fn set(&self, document: OpenDocument) -> Arc<OpenDocument> {
        let document = Arc::new(document);
        self.out_of_sync.lock().remove(&document.path);
        self.documents.lock().insert(document.path.clone(), Arc::clone(&document));
        self.publish(&document);
        document
    }

    pub(super) fn notify(&self, method: &str, params: Value) {
        self.send(&Message::Notification(Notification { method: method.to_owned(), params }));
    }

    fn request(&self, method: &str, params: Value) {
        let id = RequestId::from(self.requests.fetch_add(1, Ordering::Relaxed));
        self.send(&Message::Request(Request { id, method: method.to_owned(), params }));
    }

    pub(super) fn refresh_diagnostics(&self) {
        self.request("workspace/diagnostic/refresh", Value::Null);
    }

    /// Asks the editor to request the semantic tokens of its documents again, if the editor
    /// supports such a request.
    pub(super) fn refresh_tokens(&self) {
        if self.initialized.lock()["capabilities"]["workspace"]["semanticTokens"]["refreshSupport"] == true {
            self.request("workspace/semanticTokens/refresh", Value::Null);
        }
    }

    pub(super) fn respond(&self, id: RequestId, answer: Answered) {
        self.output.queue(&response(id, answer));
    }

    /// Responds with an error to a message whose `id` may be null because it is not known.
    fn respond_to(&self, id: Value, refusal: RequestRefusal) {
        let error = json!({ "code": refusal.code, "message": refusal.message });
        let body = json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string();
        self.output.queue(format!("{}{body}", header(body.len())).as_bytes());
    }

    /// Shows the user a message of type `kind`: 1 error, 2 warning, 3 information.
    pub(super) fn show(&self, kind: u32, message: &str) {
        self.notify("window/showMessage", json!({ "type": kind, "message": message }));
    }

    pub(super) fn log(&self, message: &str) {
        self.notify("window/logMessage", json!({ "type": 2, "message": message }));
    }

    fn send(&self, message: &Message) {
        self.output.queue(&framed(message));
    }
}
