//! The user's own Swank or Slynk in the image: the way of a person's editor into it, and what a person defines by it.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Steelbank;
use crate::engine::control::Control;
use crate::engine::{Lane, deadline_after, keep_descriptors_private, read_json};
use crate::handle::Error;
use crate::handle::load::note;
use crate::handle::loaded::ImageContents;
use crate::workspace::BufferText;

/// The time for loading Swank, which is compiled the first time.
const OPENING_TIME: Duration = Duration::from_secs(300);
/// The most time that a question waits to hear what a person has defined, before it answers without that.
const CATCH_UP_TIME: Duration = Duration::from_secs(10);
/// The most time that a load waits to tell a person of itself.
const TELLING_TIME: Duration = Duration::from_millis(500);

/// A Swank or Slynk that serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SwankServer {
    /// The system: `swank` or `slynk`.
    pub system: String,
    /// The port of 127.0.0.1 that it listens on.
    pub port: u16,
}

impl SwankServer {
    /// Counts the connections, as the system lists them: Lisp is not asked.
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

/// The Swank of an image, and what of a person's definitions the index has.
#[derive(Debug, Default)]
pub(crate) struct Swank {
    /// Locked while one is opened: two clients may want it at once.
    opening: Mutex<()>,
    server: Mutex<Option<SwankServer>>,
    /// The number of code objects that there were before the index was brought up to date last.
    seen: AtomicU64,
}

#[derive(Deserialize)]
struct NewCode {
    /// What the image has, if files were loaded.
    image: Option<ImageContents>,
}

#[derive(Deserialize)]
struct OpenedSwank {
    system: Option<String>,
    port: Option<u16>,
    why: Option<String>,
}

impl Steelbank {
    /// Loads the user's Swank or Slynk, unless one serves already, and has it listen on `port` of 127.0.0.1, or on any free
    /// one if that is 0.
    ///
    /// # Errors
    /// There is none, it does not load, or it cannot have the port: a sentence. Lisp is gone.
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
            let why = opened.why.unwrap_or_else(|| "It did not end in time".to_owned());
            let why =
                format!("There is no way in for an editor (--swank {port}). {}.", why.trim_end_matches('.'));
            return Err(Error::SetUp(why));
        };
        // Bring the index up to Swank's own code now, rather than have the first question wait for that.
        if let Some(made) = self.code_made()
            && self.refresh_within(CATCH_UP_TIME).is_ok()
        {
            self.inner.swank.seen.store(made, Ordering::SeqCst);
        }
        // Ignore the error: a copy may then have the port, too, for as long as it lives.
        let _ = keep_descriptors_private();
        Ok(self.inner.swank.server.lock().insert(SwankServer { system, port }).clone())
    }

    /// Returns the Swank that serves, if one does.
    pub(crate) fn swank(&self) -> Option<SwankServer> {
        self.inner.swank.server.lock().clone()
    }

    /// Returns how many code objects were made so far, if others than this crate's own jobs make them.
    pub(super) fn code_made_by_others(&self) -> Option<u64> {
        self.swank()?;
        self.code_made()
    }

    fn code_made(&self) -> Option<u64> {
        self.context().ask("code-made", Vec::new(), &Control::new(CATCH_UP_TIME)).ok()
    }

    /// Brings the index up to date with what a person has defined, if one can: the next answer is no older than that. Not while
    /// something is loaded, which makes code all the time: the answer says so, and the load's end brings the index up to date.
    pub(crate) fn catch_up(&self) {
        if self.is_loading() {
            return;
        }
        let Some(made) = self.code_made_by_others() else { return };
        if made == self.inner.swank.seen.load(Ordering::SeqCst) {
            return;
        }
        // Answer from what there is if Lisp cannot tell: it is being loaded into, or has died, and the answer says so.
        let learned = || {
            self.refresh_within(CATCH_UP_TIME)?;
            self.learn_buffer_texts()?;
            let control = Control::new(CATCH_UP_TIME);
            let noted: NewCode = self.context().ask("note-new-code", Vec::new(), &control)?;
            if let Some(image) = noted.image {
                note(self.project(), &image, &HashSet::new(), true);
            }
            Ok::<(), Error>(())
        };
        if learned().is_ok() {
            self.inner.swank.seen.store(made, Ordering::SeqCst);
        }
    }

    /// Learns the texts from editors' buffers that Lisp has told versions of since this was asked last.
    ///
    /// # Errors
    /// Lisp cannot answer.
    pub(crate) fn learn_buffer_texts(&self) -> Result<(), Error> {
        let known = self.project().buffer_texts();
        let ticket = self
            .lisp()
            .submit(Lane::Query, CATCH_UP_TIME, None, move |on_lisp| on_lisp.call("buffer-texts", &[known]));
        let texts: Vec<BufferText> = read_json(&Control::new(CATCH_UP_TIME).wait(ticket)?.bytes)?;
        self.project().note_buffer_texts(known, texts);
        Ok(())
    }

    /// Has the editors that are connected show `sentence`.
    pub(crate) fn tell_person(&self, sentence: &str) {
        if self.swank().is_some_and(|server| server.connections() > 0) {
            // Ignore the error: nobody waits for this.
            let _: Result<serde_json::Value, Error> =
                self.context().ask("tell-person", vec![sentence.to_owned()], &Control::new(TELLING_TIME));
        }
    }
}
