//! Restarts Lisp after its death, if it is unusable, or on request. [`Recovery`] records loads,
//! deaths and restarts, decides whether to restart, and reports restarts to clients.
//!
//! A restart starts with [`Recovery::ask`]: the session's death watch (`tools/session.rs`) has
//! detected that Lisp died or is unusable, or a client requests a restart. [`Recovery::decide`]
//! checks whether to restart, and prepares a [`Handover`]. `doors/restart.rs` ends the calls of all
//! clients and adds their connections to the handover. `doors/cli/serve.rs` executes the program
//! again in the same process (`crate::engine::execute_again`). The next image restores the record
//! with [`Recovery::restore`] and repeats the loads.

use crate::answer::Advice;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steelbank_cache::RecordKind;

const HANDOVER: RecordKind = RecordKind("handover", 2);
/// If Lisp dies or becomes unusable this many times within [`WINDOW`] seconds, it is not restarted
/// automatically.
const MAX_DEATHS: usize = 3;
const WINDOW: u64 = 60;
/// The maximum number of answers to each client that carry the note on the last restart.
pub(crate) const MAX_RESTART_NOTES: usize = 3;
/// The maximum number of restarts in the record.
const MAX_RESTARTS: usize = 10;

/// The cause of a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// Lisp died, for this reason.
    Died(String),
    /// Lisp is alive but can no longer work. The reason is a sentence fragment.
    Unusable(String),
    /// A client requested a clean image.
    Requested,
}

/// A restart, as reported to clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct LispRestart {
    /// The number of the restart in this session, from 1.
    pub number: u64,
    /// The time, in seconds since 1970 (UTC).
    pub at: u64,
    /// The reason.
    pub why: String,
    /// The loads of the previous image that are repeated.
    pub loaded_again: Vec<String>,
    /// The loads that are not repeated: Lisp died twice during them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

impl LispRestart {
    fn sentence(&self) -> String {
        let again = match self.loaded_again.as_slice() {
            [] => "Nothing had been loaded".to_owned(),
            loads => format!("Loaded again: {}", loads.join(", ")),
        };
        let left_out = match self.left_out.as_slice() {
            [] => String::new(),
            loads => {
                format!(" Not loaded again, because Lisp died twice during the load: {}.", loads.join(", "))
            }
        };
        format!(
            "Lisp was started again at {}:{:02} UTC: {}. {again}; definitions and values set in any other way are lost.{left_out}",
            clock(self.at),
            self.at % 60,
            self.why.trim_end_matches('.')
        )
    }
}

/// A load, with enough data to repeat it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadedItem {
    /// A system.
    System(String),
    /// All systems of the project.
    Project,
    /// A file.
    File(String),
}

impl std::fmt::Display for LoadedItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::System(name) => f.write_str(name),
            Self::Project => f.write_str("the project's systems"),
            Self::File(path) => f.write_str(path),
        }
    }
}

/// The state of one client that one image of the program hands over to the next.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ClientHandover {
    /// The descriptor from which the client's requests are read.
    pub input: RawFd,
    /// The descriptor to which answers are written.
    pub output: RawFd,
    /// The protocol's state, as serialized by the server of that protocol.
    pub protocol: String,
    /// The additional state of a client that shares the image.
    pub joined: Option<JoinedClient>,
    /// Input that was read and not answered yet.
    #[serde(skip)]
    pub unread: Vec<u8>,
    /// Output that the client has not read yet.
    #[serde(skip)]
    pub unwritten: Vec<u8>,
}

/// The state of a client that shares an image with others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JoinedClient {
    /// The descriptor of the client's socket, which stays open.
    pub socket: RawFd,
    /// The client's settings, as its process sent them.
    pub settings: String,
    /// The client's number.
    pub number: u64,
    /// The names of the edits that the client can undo, oldest first.
    pub edits: Vec<String>,
}

/// The state that one image of the program hands over to the next.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Handover {
    /// The state of each client.
    pub clients: Vec<ClientHandover>,
    /// The descriptor of the socket on which further clients connect.
    pub listener: Option<RawFd>,
    /// The project's folder.
    pub project: Option<PathBuf>,
    /// The loads to repeat, in order.
    pub loads: Vec<LoadedItem>,
    /// The times at which Lisp recently died or became unusable, in seconds since the machine was
    /// started.
    pub deaths: Vec<u64>,
    /// The restarts so far, oldest first.
    pub restarts: Vec<LispRestart>,
    /// The loads that were in progress at the last death.
    #[serde(default)]
    pub suspects: Vec<LoadedItem>,
    /// The loads that were in progress at two successive deaths, which are not repeated.
    #[serde(default)]
    pub deadly: Vec<LoadedItem>,
    /// The port of the Swank server for editors.
    #[serde(default)]
    pub swank: Option<u16>,
}

impl Handover {
    /// Writes the handover to a memory file, which [`Handover::read`] reads after the program was
    /// executed again.
    ///
    /// # Errors
    /// The system cannot create or write a memory file.
    pub fn write(&self) -> io::Result<OwnedFd> {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let mut file = std::fs::File::from(rustix::fs::memfd_create("steelbank-handover", flags)?);
        let parts: Vec<[&[u8]; 2]> =
            self.clients.iter().map(|client| [&*client.unread, &*client.unwritten]).collect();
        let lengths: Vec<[usize; 2]> = parts.iter().map(|parts| parts.map(<[u8]>::len)).collect();
        file.write_all(&HANDOVER.write(&(self, lengths), &parts.as_flattened().concat())?)?;
        file.rewind()?;
        Ok(file.into())
    }

    /// Reads the handover that the previous image wrote.
    ///
    /// # Errors
    /// The file cannot be read or is not a valid handover.
    pub fn read(file: OwnedFd) -> io::Result<Self> {
        let mut bytes = Vec::new();
        std::fs::File::from(file).read_to_end(&mut bytes)?;
        Self::parse(&bytes)
    }

    fn parse(record: &[u8]) -> io::Result<Self> {
        let ((mut handover, lengths), mut rest): ((Self, Vec<[usize; 2]>), _) = HANDOVER.read(record)?;
        for (client, lengths) in handover.clients.iter_mut().zip(lengths) {
            for (part, length) in [&mut client.unread, &mut client.unwritten].into_iter().zip(lengths) {
                let (bytes, others) = rest.split_at_checked(length).ok_or(io::ErrorKind::InvalidData)?;
                (*part, rest) = (bytes.to_vec(), others);
            }
        }
        Ok(handover)
    }

    /// Returns the descriptors that the next image needs.
    pub fn descriptors(&self) -> Vec<RawFd> {
        let of_clients = self.clients.iter().flat_map(|client| {
            let socket = client.joined.as_ref().map(|joined| joined.socket);
            [client.input, client.output].into_iter().chain(socket)
        });
        of_clients.chain(self.listener).collect()
    }
}

/// Returns whether `body` parses as a handover, for fuzzing.
#[cfg(feature = "server")]
pub(crate) fn reads(body: &[u8]) -> bool {
    Handover::parse(&HANDOVER.seal(body)).is_ok()
}

const UNARMED: u8 = 0;
const ARMED: u8 = 1;
const STOPPED: u8 = 2;

/// Records the loads, deaths and restarts of a session, and requests restarts.
#[derive(Debug)]
pub struct Recovery {
    state: AtomicU8,
    /// Whether a client has requested a restart.
    requested: AtomicBool,
    causes: Sender<Cause>,
    caused: Mutex<Option<Receiver<Cause>>>,
    loads: Mutex<Vec<LoadedItem>>,
    /// The loads in progress.
    begun: Mutex<Vec<LoadedItem>>,
    suspects: Mutex<Vec<LoadedItem>>,
    deadly: Mutex<Vec<LoadedItem>>,
    deaths: Mutex<Vec<u64>>,
    restarts: Mutex<Vec<LispRestart>>,
    restored: AtomicBool,
    /// The reserved port of Swank; 0 until a free port has been found. `None` if no port is
    /// reserved.
    swank: Mutex<Option<u16>>,
}

impl Default for Recovery {
    fn default() -> Self {
        let (causes, caused) = channel();
        Self {
            state: AtomicU8::new(UNARMED),
            requested: AtomicBool::new(false),
            causes,
            caused: Mutex::new(Some(caused)),
            loads: Mutex::default(),
            begun: Mutex::default(),
            suspects: Mutex::default(),
            deadly: Mutex::default(),
            deaths: Mutex::default(),
            restarts: Mutex::default(),
            restored: AtomicBool::new(false),
            swank: Mutex::default(),
        }
    }
}

impl Recovery {
    /// Subscribes to the requests for restarts. Returns `None` if there is already a subscriber.
    pub fn arm(&self) -> Option<Receiver<Cause>> {
        let caused = self.caused.lock().take();
        if caused.is_some() {
            self.state.store(ARMED, Ordering::SeqCst);
        }
        caused
    }

    /// Returns whether Lisp is restarted if it dies.
    pub fn is_armed(&self) -> bool {
        self.state.load(Ordering::SeqCst) == ARMED
    }

    /// Records that Lisp is no longer restarted automatically, because the program could not be
    /// executed again.
    pub fn give_up(&self) {
        self.state.store(STOPPED, Ordering::SeqCst);
        self.requested.store(false, Ordering::SeqCst);
    }

    /// Returns whether a client has requested a restart, which has not failed.
    pub fn is_requested(&self) -> bool {
        self.requested.load(Ordering::SeqCst)
    }

    /// Restores the record of the previous image.
    pub fn restore(&self, handover: &Handover) {
        *self.deaths.lock() = handover.deaths.clone();
        *self.restarts.lock() = handover.restarts.clone();
        // Keep the loads even if this image ends before it has repeated them.
        *self.loads.lock() = handover.loads.clone();
        self.suspects.lock().clone_from(&handover.suspects);
        self.deadly.lock().clone_from(&handover.deadly);
        *self.swank.lock() = handover.swank;
        self.restored.store(true, Ordering::SeqCst);
    }

    /// Reserves `port` for Swank, in this image and the following ones; 0 means any port.
    ///
    /// # Errors
    /// Another port is already reserved. The error is that port.
    pub fn claim_swank(&self, port: u16) -> Result<(), u16> {
        let mut claimed = self.swank.lock();
        match *claimed {
            Some(other) if port != 0 && port != other => Err(other),
            Some(_) => Ok(()),
            None => {
                *claimed = Some(port);
                Ok(())
            }
        }
    }

    /// Records the port that Swank listens on; `None` drops the reservation.
    pub fn note_swank(&self, port: Option<u16>) {
        *self.swank.lock() = port;
    }

    /// Returns the port that is reserved for Swank.
    pub fn swank(&self) -> Option<u16> {
        *self.swank.lock()
    }

    /// Requests a restart. Returns false if there is no subscriber.
    pub fn ask(&self, cause: Cause) -> bool {
        let is_armed = self.state.load(Ordering::SeqCst) != UNARMED;
        self.requested.fetch_or(is_armed && cause == Cause::Requested, Ordering::SeqCst);
        is_armed && self.causes.send(cause).is_ok()
    }

    /// Records the start of a load. If Lisp dies twice in succession during this load, the load is
    /// not repeated.
    pub fn note_begun(&self, load: &LoadedItem) {
        self.begun.lock().push(load.clone());
    }

    /// Records the end of a load that Lisp has survived.
    pub fn note_ended(&self, load: &LoadedItem) {
        let mut begun = self.begun.lock();
        if let Some(at) = begun.iter().position(|other| other == load) {
            begun.swap_remove(at);
        }
    }

    /// Returns whether Lisp has died twice in succession during this load. Such a load is repeated
    /// only on request.
    pub fn is_deadly(&self, load: &LoadedItem) -> bool {
        self.deadly.lock().contains(load)
    }

    /// Records that a load is complete, so that a restart repeats it.
    pub fn note_loaded(&self, loaded: LoadedItem) {
        for list in [&self.suspects, &self.deadly] {
            list.lock().retain(|other| *other != loaded);
        }
        let mut loads = self.loads.lock();
        loads.retain(|other| *other != loaded);
        loads.push(loaded);
    }

    /// Clears the record of deaths, because a client requested a restart.
    pub fn forget_deaths(&self) {
        self.deaths.lock().clear();
    }

    /// Decides whether to restart because of `cause`. Returns the state for the next image, with
    /// the restart in its record; the caller adds the clients, the listener and the project's
    /// folder. Returns `None` if Lisp dies or becomes unusable too often.
    pub fn decide(&self, cause: &Cause, now: Moment) -> Option<Handover> {
        let mut deaths = self.deaths.lock();
        deaths.retain(|death| now.uptime.saturating_sub(*death) < WINDOW);
        let why = match cause {
            Cause::Died(reason) | Cause::Unusable(reason) => {
                deaths.push(now.uptime);
                if deaths.len() >= MAX_DEATHS {
                    self.state.store(STOPPED, Ordering::SeqCst);
                    return None;
                }
                match cause {
                    Cause::Died(_) => format!("it had died ({reason})"),
                    _ => reason.clone(),
                }
            }
            Cause::Requested => {
                deaths.clear();
                "restart-lisp was called".to_owned()
            }
        };
        let (mut suspects, mut deadly) = (self.suspects.lock().clone(), self.deadly.lock().clone());
        if matches!(cause, Cause::Died(_)) {
            let begun = self.begun.lock().clone();
            for load in begun.iter().filter(|load| suspects.contains(load)) {
                if !deadly.contains(load) {
                    deadly.push(load.clone());
                }
            }
            suspects = begun;
        }
        let mut loads = self.loads.lock().clone();
        loads.retain(|load| !deadly.contains(load));
        let mut restarts = self.restarts.lock().clone();
        let number = restarts.last().map_or(0, |last| last.number) + 1;
        let names = |loads: &[LoadedItem]| loads.iter().map(LoadedItem::to_string).collect();
        let (loaded_again, left_out) = (names(&loads), names(&deadly));
        restarts.push(LispRestart { number, at: now.at, why, loaded_again, left_out });
        let surplus = restarts.len().saturating_sub(MAX_RESTARTS);
        restarts.drain(..surplus);
        let (deaths, swank) = (deaths.clone(), self.swank());
        Some(Handover { loads, suspects, deadly, deaths, restarts, swank, ..Handover::default() })
    }

    /// Returns the restarts so far, oldest first.
    pub fn restarts(&self) -> Vec<LispRestart> {
        self.restarts.lock().clone()
    }

    /// Returns the note on the last restart, for an answer to one client, and increments `told`,
    /// the number of notes that the client has received. `None`: Lisp was not restarted, or the
    /// client has received `MAX_RESTART_NOTES` notes.
    pub fn take_note(&self, told: &AtomicUsize) -> Option<String> {
        let next =
            |told| (told < MAX_RESTART_NOTES && self.restored.load(Ordering::SeqCst)).then_some(told + 1);
        told.fetch_update(Ordering::SeqCst, Ordering::SeqCst, next).ok()?;
        self.restarts.lock().last().map(LispRestart::sentence)
    }

    /// Describes each restart. Also reports if Lisp is no longer restarted automatically.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences: Vec<String> = self.restarts.lock().iter().map(LispRestart::sentence).collect();
        if self.state.load(Ordering::SeqCst) == STOPPED {
            sentences.push(format!(
                "Lisp is not restarted automatically, because it failed {MAX_DEATHS} times within a minute or a restart failed: call restart-lisp to start it. Answers from the index still work."
            ));
        }
        sentences
    }

    /// Returns advice on how to continue after Lisp has died.
    pub fn advice(&self) -> Advice {
        match self.state.load(Ordering::SeqCst) {
            ARMED => Advice::Retry,
            STOPPED => Advice::RestartLisp,
            _ => Advice::RestartProgram,
        }
    }
}

/// A point in time, as wall-clock time for people and as uptime for comparisons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Seconds since 1970, by a clock that may be adjusted.
    pub at: u64,
    /// Seconds since the machine was started. This clock is never adjusted.
    pub uptime: u64,
}

impl Moment {
    /// Returns the current time.
    pub fn now() -> Self {
        let since = rustix::time::clock_gettime(rustix::time::ClockId::Boottime).tv_sec;
        Self {
            at: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            uptime: u64::try_from(since).unwrap_or_default(),
        }
    }
}

/// Formats the hour and minute (UTC) of `at`, which is in seconds since 1970.
pub fn clock(at: u64) -> String {
    format!("{:02}:{:02}", at / 3600 % 24, at / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handovers_round_trip_and_reject_damage() {
        let handover = Handover {
            clients: vec![
                ClientHandover {
                    input: 900,
                    output: 901,
                    protocol: "{\"lifecycle\":1}".to_owned(),
                    joined: None,
                    unread: b"{\"id\":1}\n{\"half".to_vec(),
                    unwritten: b"{\"id\":0}\n".to_vec(),
                },
                ClientHandover {
                    input: 902,
                    output: 903,
                    joined: Some(JoinedClient {
                        socket: 904,
                        settings: "{}".to_owned(),
                        number: 2,
                        edits: vec!["7".to_owned()],
                    }),
                    unread: b"\n\n".to_vec(),
                    ..ClientHandover::default()
                },
            ],
            listener: Some(905),
            project: Some(PathBuf::from("/a b/é")),
            loads: vec![
                LoadedItem::System("a".into()),
                LoadedItem::Project,
                LoadedItem::File("/x.lisp".into()),
            ],
            deaths: vec![1, 2],
            restarts: vec![LispRestart {
                number: 1,
                at: 3661,
                why: "it had died".into(),
                loaded_again: vec!["a".into()],
                left_out: Vec::new(),
            }],
            suspects: vec![LoadedItem::System("s".into())],
            deadly: vec![LoadedItem::File("/d.lisp".into())],
            swank: Some(4005),
        };
        assert_eq!(Handover::read(handover.write().unwrap()).unwrap(), handover);
        let mut record = Vec::new();
        std::fs::File::from(handover.write().unwrap()).read_to_end(&mut record).unwrap();
        for at in 0..record.len() {
            assert!(Handover::parse(&record[..at]).is_err(), "truncated at {at}");
            record[at] ^= 1;
            assert!(Handover::parse(&record).is_err(), "byte {at}");
            record[at] ^= 1;
        }
        assert_eq!(handover.descriptors(), [900, 901, 902, 903, 904, 905]);
        assert!(handover.restarts[0].sentence().contains("at 01:01:01 UTC: it had died. Loaded again: a;"));
    }

    #[test]
    fn third_death_within_a_minute_stops_restarts() {
        let recovery = Recovery::default();
        let died = Cause::Died("killed".to_owned());
        assert!(!recovery.ask(Cause::Requested), "nothing can start another image");
        let caused = recovery.arm().unwrap();
        assert!(recovery.ask(Cause::Requested) && caused.try_recv() == Ok(Cause::Requested));
        // The wall clock may be set to any time.
        assert!(recovery.decide(&died, Moment { at: 90_000, uptime: 100 }).is_some());
        assert!(recovery.decide(&died, Moment { at: 3_600, uptime: 130 }).is_some());
        let third = Moment { at: 3_601, uptime: 161 };
        assert!(recovery.decide(&died, third).is_some(), "the first was more than a minute ago");
        assert!(recovery.decide(&died, Moment { at: 180_000, uptime: 162 }).is_none());
        assert_eq!(recovery.advice(), Advice::RestartLisp);
        assert!(recovery.sentences().last().unwrap().contains("3 times"));
        let handover = recovery.decide(&Cause::Requested, Moment { at: 0, uptime: 163 }).unwrap();
        assert!(handover.deaths.is_empty());
    }

    #[test]
    fn swank_port_is_unique_and_survives_restarts() {
        let recovery = Recovery::default();
        assert_eq!(recovery.claim_swank(0), Ok(()));
        recovery.note_swank(Some(4005));
        let claims = [0, 4005, 4006].map(|port| recovery.claim_swank(port));
        assert_eq!(claims, [Ok(()), Ok(()), Err(4005)]);
        let handover = recovery.decide(&Cause::Requested, Moment { at: 0, uptime: 0 }).unwrap();
        let next = Recovery::default();
        next.restore(&handover);
        assert_eq!(next.swank(), Some(4005));
        // If the port could not be opened, another one can be reserved.
        next.note_swank(None);
        assert_eq!(next.claim_swank(4006), Ok(()));
    }

    #[test]
    fn deadly_loads_are_listed_once() {
        let (recovery, load) = (Recovery::default(), LoadedItem::File("/moody.lisp".into()));
        recovery.note_begun(&load);
        let died = Cause::Died("killed".to_owned());
        for (death, told) in [0, 1, 1].into_iter().enumerate() {
            let handover = recovery.decide(&died, Moment { at: 0, uptime: 100 * death as u64 }).unwrap();
            assert_eq!(handover.restarts.last().unwrap().left_out.len(), told, "{death}");
            recovery.restore(&handover);
        }
    }

    #[test]
    fn restart_notes_appear_in_the_next_answers() {
        let recovery = Recovery::default();
        let told = AtomicUsize::new(0);
        assert_eq!(recovery.take_note(&told), None);
        recovery.note_loaded(LoadedItem::System("a".into()));
        recovery.note_loaded(LoadedItem::System("b".into()));
        recovery.note_loaded(LoadedItem::System("a".into()));
        let handover = recovery.decide(&Cause::Died("killed".to_owned()), Moment::now()).unwrap();
        assert_eq!(handover.loads, [LoadedItem::System("b".into()), LoadedItem::System("a".into())]);
        let next = Recovery::default();
        next.restore(&handover);
        for _ in 0..MAX_RESTART_NOTES {
            assert!(next.take_note(&told).unwrap().contains("killed"));
        }
        assert_eq!(next.take_note(&told), None);
        assert!(next.take_note(&AtomicUsize::new(0)).is_some(), "another client gets the note too");
    }
}
