//! Runs the user's Swank or Slynk in the image, so that an editor such as SLIME can connect. Before
//! an answer, the index is refreshed if code was created in the image meanwhile, for example from
//! the editor.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Steelbank;
use crate::engine::control::{Cancellation, Control};
use crate::engine::{Lane, close_descriptors_on_exec, deadline_after, read_json};
use crate::handle::Error;
use crate::handle::load::note;
use crate::handle::loaded::ImageContents;
use crate::workspace::BufferText;

/// The time limit for loading Swank, which is compiled the first time.
const OPENING_TIME: Duration = Duration::from_secs(300);
/// The time limit for bringing the index up to date with code that others created.
const CATCH_UP_TIME: Duration = Duration::from_secs(10);
/// The maximum time that a question waits for that. Afterwards it is answered from the old index.
const QUESTION_WAITS: Duration = Duration::from_millis(600);
/// The maximum time that a load waits to notify connected editors.
const NOTIFY_TIME: Duration = Duration::from_millis(500);

/// A running Swank or Slynk server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SwankServer {
    /// The system: `swank` or `slynk`.
    pub system: String,
    /// The port of 127.0.0.1 that it listens on.
    pub port: u16,
}

impl SwankServer {
    /// Counts the connections in the kernel's table of sockets, without a call to Lisp.
    pub fn connections(&self) -> usize {
        const ESTABLISHED: &str = "01";
        let table = std::fs::read_to_string("/proc/self/net/tcp").unwrap_or_default();
        let own = format!("0100007F:{:04X}", self.port);
        let connected = |line: &&str| {
            let mut fields = line.split_whitespace().skip(1);
            fields.next() == Some(&own) && fields.nth(1) == Some(ESTABLISHED)
        };
        table.lines().filter(connected).count()
    }
}

impl std::fmt::Display for SwankServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (name, command) = match self.system.as_str() {
            "slynk" => ("Slynk", "sly-connect"),
            _ => ("Swank", "slime-connect"),
        };
        write!(f, "{name} listens on 127.0.0.1:{}: M-x {command}", self.port)
    }
}

/// The state of an image's Swank server.
#[derive(Debug, Default)]
pub(crate) struct Swank {
    /// Locked while a server is started, because two clients may request it concurrently.
    opening: Mutex<()>,
    server: Mutex<Option<SwankServer>>,
    /// The number of code objects that had been created in the image before `open_swank` or
    /// `catch_up` last refreshed the index.
    seen: AtomicU64,
    /// Locked while a thread brings the index up to date.
    catching_up: Mutex<()>,
    /// Cancels what that thread does.
    cancellation: Mutex<Cancellation>,
}

#[derive(Deserialize)]
struct NewCode {
    /// The contents of the image, if files were loaded.
    image: Option<ImageContents>,
}

#[derive(Deserialize)]
struct OpenedSwank {
    system: Option<String>,
    port: Option<u16>,
    why: Option<String>,
}

impl Steelbank {
    /// Loads the user's Swank or Slynk and starts it on `port` of 127.0.0.1, or on any free port if
    /// `port` is 0. If a server is already running, returns that one.
    ///
    /// # Errors
    /// The setup before the first load failed, Swank and Slynk are not installed, they do not load
    /// in time, the port is in use, or Lisp has died.
    pub(crate) fn open_swank(&self, port: u16) -> Result<SwankServer, Error> {
        let _one_at_a_time = self.inner.swank.opening.lock();
        if let Some(server) = self.swank() {
            return Ok(server);
        }
        let control = Control::new(OPENING_TIME);
        let deadline = deadline_after(OPENING_TIME);
        self.open_project(&control, deadline)?;
        let bytes = self.work("open-swank", vec![json!(port)], &control, deadline)?;
        let opened: OpenedSwank = read_json(&bytes)?;
        let (Some(system), Some(port)) = (opened.system, opened.port) else {
            let why = opened.why.unwrap_or_else(|| "the server did not start in time".to_owned());
            let why = format!("No editor can connect (--swank {port}): {}.", why.trim_end_matches('.'));
            return Err(Error::SetUp(why));
        };
        // Index Swank's code now, so that the first question need not wait for this.
        self.learn_code(&Control::new(CATCH_UP_TIME));
        // Ignore the error: a process that is started later may then inherit the port until it
        // exits.
        let _ = close_descriptors_on_exec();
        Ok(self.inner.swank.server.lock().insert(SwankServer { system, port }).clone())
    }

    /// Returns the running server, if there is one.
    pub(crate) fn swank(&self) -> Option<SwankServer> {
        self.inner.swank.server.lock().clone()
    }

    /// Returns the number of code objects created so far. Returns `None` if Lisp cannot answer, or
    /// without a Swank server, because then only this crate's jobs create code.
    pub(super) fn code_made_by_others(&self, control: &Control) -> Option<u64> {
        self.swank()?;
        self.code_made(control)
    }

    fn code_made(&self, control: &Control) -> Option<u64> {
        self.context().ask("code-made", Vec::new(), control).ok()
    }

    /// Refreshes the index if code was created since the last refresh, for example by a person in
    /// an editor, so that the next answer includes it. Also records the buffer texts and files that
    /// were loaded this way. Skips this while a load is in progress, which creates code
    /// continuously: answers then carry a note, and the load refreshes the index at its end.
    ///
    /// A person's work may occupy Lisp. After [`QUESTION_WAITS`], a thread continues the refresh
    /// until the next question has waited for it that long, because that question may need Lisp.
    pub(crate) fn catch_up(&self) {
        if self.is_loading() || self.swank().is_none() {
            return;
        }
        let swank = &self.inner.swank;
        let Some(catching_up) = swank.catching_up.try_lock_for(QUESTION_WAITS) else {
            return swank.cancellation.lock().cancel();
        };
        if !self.learn_code(&Control::new(QUESTION_WAITS)) {
            drop(catching_up);
            let control = Control::new(CATCH_UP_TIME);
            *swank.cancellation.lock() = control.cancellation();
            let bank = self.clone();
            // Ignore the error: if no thread can be created, the next question tries again.
            let _ = std::thread::Builder::new().name("steelbank-catch-up".into()).spawn(move || {
                let _one_at_a_time = bank.inner.swank.catching_up.lock();
                bank.learn_code(&control);
            });
        }
    }

    /// Brings the index up to date with code that others created. Returns whether that succeeded
    /// within the time of `control`. If Lisp is loading or has died, answers carry a note.
    fn learn_code(&self, control: &Control) -> bool {
        let deadline = deadline_after(control.allowed());
        let Some(made) = self.code_made(control) else { return false };
        let seen = &self.inner.swank.seen;
        let learned = || {
            self.refresh_within(&control.until(deadline))?;
            self.learn_buffer_texts(&control.until(deadline))?;
            let noted: NewCode = self.context().ask("note-new-code", Vec::new(), &control.until(deadline))?;
            if let Some(image) = noted.image {
                note(self.project(), &image, &HashSet::new(), true);
            }
            seen.store(made, Ordering::SeqCst);
            Ok::<(), Error>(())
        };
        made == seen.load(Ordering::SeqCst) || learned().is_ok()
    }

    /// Fetches the texts from editors' buffers that Lisp has evaluated since the last call.
    ///
    /// # Errors
    /// Lisp cannot answer.
    pub(crate) fn learn_buffer_texts(&self, control: &Control) -> Result<(), Error> {
        let known = self.project().buffer_texts();
        let ticket = self.lisp().submit(Lane::Query, control.allowed(), None, move |on_lisp| {
            on_lisp.call("buffer-texts", &[known])
        });
        let texts: Vec<BufferText> = read_json(&control.wait(ticket)?.bytes)?;
        self.project().note_buffer_texts(known, texts);
        Ok(())
    }

    /// Shows `sentence` in the connected editors.
    pub(crate) fn notify_editor(&self, sentence: &str) {
        if self.swank().is_some_and(|server| server.connections() > 0) {
            // Ignore the error: nothing depends on the notification.
            let _: Result<serde_json::Value, Error> =
                self.context().ask("tell-person", vec![sentence.to_owned()], &Control::new(NOTIFY_TIME));
        }
    }
}
