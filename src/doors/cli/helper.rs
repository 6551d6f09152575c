//! The hidden `helper` subcommand: a process that runs scratch images, and makes and checks
//! snapshots, for the program that started it.
//!
//! It reads a [`HelperStart`] from standard input, then orders, one JSON text a line, and writes
//! [`Reply`] lines to standard output. It exits at the end of its input, even in the middle of
//! work, unless the [`HelperStart`] allows it to outlive its parent.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getpid, getrlimit, set_child_subreaper, setrlimit};

use super::{CommandError, Exit, PROGRAM, Shell};
use crate::doors::streams::take as take_streams;
use crate::engine::control::Cancellation;
use crate::engine::{DEFAULT_HEAP_MEGABYTES, EngineState, confine, end_children_at_signals, end_descendants};
use crate::handle::scratch::{HelperProgram, HelperStart, HelperTask, Overlay, Reply, ScratchOrder as Line};
use crate::handle::snapshot::{SnapshotOrder, save, trial};
use crate::tools::{Call, Permissions, Session};
use crate::{Builder, Control, DescribeSymbolRequest, ProjectSettings, Steelbank, WhoRequest};

/// The address space, in bytes, that a scratch image may use besides Lisp's heap: for the
/// collector's tables, the core, stacks and indexes.
const NON_HEAP_BYTES: u64 = 3 << 30;

/// The time limit of a snapshot helper that may continue after the process that started it has
/// ended.
const MAX_OUTLIVING_TIME: Duration = Duration::from_secs(300);

type Replies = Arc<Mutex<Box<dyn Write + Send>>>;

fn reply(replies: &Replies, reply: &Reply) {
    if let Ok(mut line) = serde_json::to_string(reply) {
        line.push('\n');
        // Ignore an error: it means that no process reads the replies any more.
        let _ = replies.lock().write_all(line.as_bytes());
    }
}

/// Runs the task from standard input.
pub(super) fn run(shell: &Shell) -> Result<Exit, CommandError> {
    let (input, output) = take_streams()?;
    let replies: Replies = Arc::new(Mutex::new(Box::new(File::from(output))));
    let mut lines = BufReader::new(File::from(input)).lines();
    let first = lines.next().and_then(Result::ok).unwrap_or_default();
    let start: HelperStart = serde_json::from_str(&first).map_err(|error| CommandError {
        exit: Exit::Usage,
        message: format!(
            "Only steelbank itself starts the helper command, with a task on standard input: {error}."
        ),
    })?;
    // Adopt the orphans of the programs that code runs, so that they end with this process.
    let _ = set_child_subreaper(Some(getpid()));
    // Confine the process before it has a second thread.
    if start.confined
        && let Err(error) = confine(&start.cache)
    {
        reply(&replies, &Reply::Unconfined(error.to_string()));
        return Ok(Exit::Answered);
    }
    if start.what == HelperTask::Scratch {
        // Ignore the error: without it, programs that code runs may outlive this process.
        let _ = end_children_at_signals(|| ());
    }
    let (sender, orders) = channel();
    let folder = (start.what == HelperTask::Scratch).then(|| start.cache.clone());
    if matches!(start.what, HelperTask::Snapshot | HelperTask::Save | HelperTask::Trial) {
        // Lower the priority of helpers that make snapshots in the background. Their child
        // processes, which save and check the snapshot, inherit the priority. If a user waits for a
        // snapshot, these processes have the normal priority.
        let _ = rustix::process::nice(if start.what == HelperTask::Snapshot { 19 } else { 0 });
    }
    let outlives = start.outlives;
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            if let Ok(order) = serde_json::from_str::<Line>(&line)
                && sender.send(order).is_err()
            {
                break;
            }
        }
        // End the process, because its parent has ended or has closed the pipe, or because the task
        // no longer receives orders.
        if !outlives {
            end(folder.as_deref());
        }
    });
    let outcome = match start.what {
        HelperTask::Scratch => scratch(shell, &start, &replies, orders),
        HelperTask::Snapshot => snapshot(shell, &start),
        HelperTask::Save => {
            reply(&replies, &save(builder(shell, &start), &start));
            // End the process here, because Lisp's threads never return.
            end(None);
        }
        HelperTask::Trial => {
            let folder = start.folder.clone().unwrap_or_default();
            let builder = builder(shell, &start).key(None);
            reply(&replies, &trial(builder, &shell.installation, &folder, answers));
            end(None);
        }
    };
    if let Err(why) = outcome {
        reply(&replies, &Reply::Broken(why));
    }
    Ok(Exit::Answered)
}

/// Checks that Lisp and the index answer calls about standard symbols.
fn answers(bank: &Steelbank) -> Result<bool, crate::Error> {
    let described = bank.ask(&DescribeSymbolRequest::new("cl:car"), &Control::default())?;
    let callers = bank.ask(&WhoRequest::calls("cl:mapcar"), &Control::default())?;
    Ok(described.description.is_some() && callers.count > 0)
}

/// Ends the programs that code runs and then this process, without waiting for its threads. Removes
/// `folder` first.
fn end(folder: Option<&std::path::Path>) -> ! {
    end_descendants(std::process::id());
    if let Some(folder) = folder {
        let _ = std::fs::remove_dir_all(folder);
    }
    std::process::exit(0)
}

/// Runs the orders of a scratch image, such as calls of tools.
fn scratch(
    shell: &Shell,
    start: &HelperStart,
    replies: &Replies,
    orders: std::sync::mpsc::Receiver<Line>,
) -> Result<(), String> {
    let heap = start.dynamic_space_size.unwrap_or(DEFAULT_HEAP_MEGABYTES << 20);
    let limit = u64::try_from(heap).unwrap_or(u64::MAX).saturating_add(NON_HEAP_BYTES);
    // Respect an existing limit, which only a superuser may raise.
    let limit = Some(getrlimit(Resource::As).maximum.map_or(limit, |maximum| maximum.min(limit)));
    setrlimit(Resource::As, Rlimit { current: limit, maximum: limit })
        .map_err(|error| format!("its memory cannot be limited: {error}"))?;
    let session = session(shell, start).map_err(|trouble| trouble.message)?;
    reply(replies, &Reply::Ready);
    let running: Arc<Mutex<HashMap<u64, Cancellation>>> = Arc::default();
    for order in orders {
        let (id, name, arguments, milliseconds) = match order {
            Line::Order { id, name, arguments, milliseconds } => (id, name, arguments, milliseconds),
            Line::Cancel { id } => {
                if let Some(cancellation) = running.lock().get(&id) {
                    cancellation.cancel();
                }
                continue;
            }
        };
        let news = Arc::clone(replies);
        let call = Call::new(move |progress| reply(&news, &Reply::Progress { id, progress }));
        let call = call.without_limit().without_handles();
        running.lock().insert(id, call.cancellation());
        let (session, running) = (session.clone(), Arc::clone(&running));
        let replies = Arc::clone(replies);
        std::thread::spawn(move || {
            let control = call.control(Duration::from_millis(milliseconds));
            let told = match crate::actions::run_order(&session, &name, arguments, &call, &control) {
                Ok(answer) => Reply::Done { id, answer },
                Err(message) => match session.started().map(|bank| bank.status().state) {
                    Some(EngineState::Dead { reason }) => Reply::Died { id, reason },
                    _ => Reply::Failure { id, message },
                },
            };
            running.lock().remove(&id);
            reply(&replies, &told);
        });
    }
    Ok(())
}

/// Makes a snapshot. Sends no reply about a success, because the next start checks for the snapshot
/// itself.
fn snapshot(shell: &Shell, start: &HelperStart) -> Result<(), String> {
    let key = start.key.clone().ok_or("its task has no snapshot key")?;
    if start.outlives {
        std::thread::spawn(|| {
            std::thread::sleep(MAX_OUTLIVING_TIME);
            end(None);
        });
    }
    // Child processes must not outlive this process.
    let start = HelperStart { outlives: false, ..start.clone() };
    let options = shell.options.project.sbcl_options();
    let order =
        SnapshotOrder { program: HelperProgram { path: PathBuf::from(PROGRAM), options }, start, key };
    order.run(false, |_| ()).map(drop).map_err(|error| error.to_string())
}

/// Returns a builder for an image of the project in `start`.
fn builder(shell: &Shell, start: &HelperStart) -> Builder {
    let project = ProjectSettings {
        root: start.root.clone(),
        cache: start.cache.clone(),
        userinit: start.userinit.clone(),
    };
    let mut builder = Steelbank::builder()
        .installation(shell.installation.clone())
        .program(PathBuf::from(PROGRAM))
        .program_options(shell.options.project.sbcl_options())
        .project(project);
    if let Some(bytes) = start.dynamic_space_size {
        builder = builder.dynamic_space_size(bytes);
    }
    builder
}

/// Starts a scratch image of the project, with the texts in `start` in place of files on disk.
fn session(shell: &Shell, start: &HelperStart) -> Result<Session, CommandError> {
    let bank = builder(shell, start).key(start.key.clone()).start()?;
    let mut overlays = Vec::new();
    for (number, Overlay { path, text }) in start.overlays.iter().enumerate() {
        let text = match text {
            None => None,
            Some(text) => {
                let file = start.cache.join(format!("overlays/{number}.lisp"));
                steelbank_cache::write(&file, text.as_bytes())?;
                Some(file)
            }
        };
        overlays.push((path.clone(), text));
    }
    overlays.extend(start.texts.iter().map(|(path, text)| (path.clone(), Some(text.clone()))));
    bank.become_scratch(&start.cache, &overlays)?;
    if start.confined {
        // Record refused writes from now on.
        bank.refused_writes()?;
    }
    // Allow evaluation, because the process that sends the orders has checked that permission.
    // Allow no edits, because only that process writes files.
    Ok(Session::new(bank).allowing(Permissions { eval: true, edits: false }))
}
