//! Runs the program as a helper process of its own: it reads its task from standard input, then orders, one
//! JSON text a line. It exits at the end of the input, whatever it does at that moment.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{CommandError, Exit, PROGRAM, Shell};
use crate::doors::streams::take as take_streams;
use crate::engine::control::Cancellation;
use crate::engine::{DEFAULT_HEAP_MEGABYTES, EngineState, confine};
use crate::handle::scratch::{HelperProgram, HelperStart, HelperTask, Overlay, Reply, ScratchOrder as Line};
use crate::handle::snapshot::{SnapshotOrder, save, trial};
use crate::tools::{Call, Permissions, Session};
use crate::{Builder, Control, DescribeSymbolRequest, ProjectSettings, Steelbank, WhoRequest};

/// Address space besides Lisp's heap, in bytes: the collector's tables, the core, stacks, the indexes.
const ROOM: u64 = 3 << 30;

/// How long a maker of snapshots goes on without the process that started it, at most.
const OUTLIVING: Duration = Duration::from_secs(300);

type Replies = Arc<Mutex<Box<dyn Write + Send>>>;

fn reply(replies: &Replies, reply: &Reply) {
    if let Ok(mut line) = serde_json::to_string(reply) {
        line.push('\n');
        // Ignore the error if nobody reads any more: the end of the input will stop the process.
        let _ = replies.lock().write_all(line.as_bytes());
    }
}

/// Runs the task that standard input gives.
pub(super) fn run(shell: &Shell) -> Result<Exit, CommandError> {
    let (input, output) = take_streams()?;
    let replies: Replies = Arc::new(Mutex::new(Box::new(File::from(output))));
    let mut lines = BufReader::new(File::from(input)).lines();
    let first = lines.next().and_then(Result::ok).unwrap_or_default();
    let start: HelperStart = serde_json::from_str(&first).map_err(|error| CommandError {
        exit: Exit::Usage,
        message: format!("helper is for copies that the program starts of itself: {error}."),
    })?;
    // Confine it before it has a second thread.
    if start.confined
        && let Err(error) = confine(&start.cache)
    {
        reply(&replies, &Reply::Unconfined(error.to_string()));
        return Ok(Exit::Answered);
    }
    let (sender, orders) = channel();
    let folder = (start.what == HelperTask::Scratch).then(|| start.cache.clone());
    if matches!(start.what, HelperTask::Snapshot | HelperTask::Save | HelperTask::Trial) {
        // Lower the priority of a snapshot that is made in the background; one that a user waits for keeps
        // its own.
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
        // End the process: its parent has ended, or has closed the pipe.
        if !outlives {
            end(folder.as_deref());
        }
    });
    let outcome = match start.what {
        HelperTask::Scratch => scratch(shell, &start, &replies, orders),
        HelperTask::Snapshot => snapshot(shell, &start),
        HelperTask::Save => {
            reply(&replies, &save(builder(shell, &start), &start));
            // End the process here: Lisp's threads never return.
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

/// Whether Lisp, and the index, answer about what every image has.
fn answers(bank: &Steelbank) -> Result<bool, crate::Error> {
    let described = bank.ask(&DescribeSymbolRequest::new("cl:car"), &Control::default())?;
    let callers = bank.ask(&WhoRequest::calls("cl:mapcar"), &Control::default())?;
    Ok(described.description.is_some() && callers.count > 0)
}

/// Ends the process at once, whatever runs in it.
fn end(folder: Option<&std::path::Path>) -> ! {
    if let Some(folder) = folder {
        let _ = std::fs::remove_dir_all(folder);
    }
    std::process::exit(0)
}

/// Answers the orders of a scratch image: calls of tools.
fn scratch(
    shell: &Shell,
    start: &HelperStart,
    replies: &Replies,
    orders: std::sync::mpsc::Receiver<Line>,
) -> Result<(), String> {
    let heap = start.dynamic_space_size.unwrap_or(DEFAULT_HEAP_MEGABYTES << 20);
    let limit = u64::try_from(heap).unwrap_or(u64::MAX).saturating_add(ROOM);
    // Only a superuser may raise what is set already.
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
        let call = call.whole().without_handles();
        running.lock().insert(id, call.cancellation());
        let (session, running) = (session.clone(), Arc::clone(&running));
        let replies = Arc::clone(replies);
        std::thread::spawn(move || {
            let control = call.control(Duration::from_millis(milliseconds));
            let told = match crate::actions::carry_out(&session, &name, arguments, &call, &control) {
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

/// Makes a snapshot. Reports nothing: the next start finds it or not.
fn snapshot(shell: &Shell, start: &HelperStart) -> Result<(), String> {
    let key = start.key.clone().ok_or("it was not told what to make")?;
    if start.outlives {
        std::thread::spawn(|| {
            std::thread::sleep(OUTLIVING);
            end(None);
        });
    }
    // What it starts ends with it.
    let start = HelperStart { outlives: false, ..start.clone() };
    let options = shell.options.project.sbcl_options();
    let order =
        SnapshotOrder { program: HelperProgram { path: PathBuf::from(PROGRAM), options }, start, key };
    order.carry_out(false, |_| ()).map(drop).map_err(|error| error.to_string())
}

/// Makes the builder of an image of `start`'s project, without a snapshot.
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

/// Starts a scratch image of the project.
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
        // From now on they are noted.
        bank.refused_writes()?;
    }
    // Allow evaluation, which the asking image has checked, but no edits, which only that image makes.
    Ok(Session::new(bank).allowing(Permissions { eval: true, edits: false }))
}
