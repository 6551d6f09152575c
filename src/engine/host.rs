//! The host's functions, which Lisp and the shim call: the crate's side of `struct steelbank_host`.

use std::cell::{Cell, RefCell, UnsafeCell};
use std::ffi::{CStr, c_char, c_int};
use std::io;
use std::mem::MaybeUninit;
use std::panic::catch_unwind;
use std::sync::OnceLock;

use steelbank_sys::{Runtime, ffi};

use super::answers::Lane;
use super::death::Death;
use super::lisp::EntryPoints;
use super::shared::Shared;
use super::signals;
use super::ticket::{ProgressListener, guarded};
use super::watch::SupervisorOrder;

static HOST: OnceLock<&'static Shared> = OnceLock::new();
static DEATH: Death = Death::new();
static EXIT_MONITOR: OnceLock<Semaphore> = OnceLock::new();

/// The system's semaphore: it can be posted in a signal handler, and no code that closes descriptors closes it.
pub(super) struct Semaphore(Box<UnsafeCell<libc::sem_t>>);

// SAFETY: the system's functions on a semaphore may be called by any threads at once.
unsafe impl Send for Semaphore {}
// SAFETY: as above.
unsafe impl Sync for Semaphore {}

impl Semaphore {
    pub(super) fn new() -> io::Result<Self> {
        let mut semaphore = MaybeUninit::uninit();
        // SAFETY: the pointer is to memory for a semaphore, which sem_init makes one.
        if unsafe { libc::sem_init(semaphore.as_mut_ptr(), 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: sem_init has succeeded. A semaphore that nobody waits on or posts may be moved.
        Ok(Self(Box::new(UnsafeCell::new(unsafe { semaphore.assume_init() }))))
    }

    pub(super) fn post(&self) {
        // SAFETY: the semaphore was made by sem_init and stays where it is.
        unsafe { libc::sem_post(self.0.get()) };
    }

    pub(super) fn wait(&self) {
        // SAFETY: as above. A signal may end the wait, which then begins again.
        while unsafe { libc::sem_wait(self.0.get()) } != 0 {}
    }
}

/// The answer and output of the call that runs on this thread, so far.
#[derive(Default)]
pub(super) struct CallOutput {
    pub(super) answer: Vec<u8>,
    pub(super) output: String,
    pub(super) output_dropped: u64,
}

thread_local! {
    static SAID: RefCell<CallOutput> = RefCell::default();
    static PROGRESS: RefCell<Option<ProgressListener>> = const { RefCell::new(None) };
    /// Whether this is the thread that the runtime was started on.
    static MAIN: Cell<bool> = const { Cell::new(false) };
}

/// Marks the thread that the runtime is started on: it must never return into Lisp.
pub(super) fn become_main() {
    MAIN.set(true);
}

/// Takes the answer and output of the last call on this thread.
pub(super) fn take_said() -> CallOutput {
    SAID.with(|said| said.take())
}

/// Sets the progress listener of calls on this thread.
pub(super) fn set_progress(progress: Option<ProgressListener>) {
    PROGRESS.with(|cell| *cell.borrow_mut() = progress);
}

/// Gives the shim this module's functions, and starts the thread that tells of Lisp's death.
pub(super) fn install(runtime: &Runtime, host: &'static Shared) -> io::Result<()> {
    // An earlier start that failed may have made it.
    if EXIT_MONITOR.get().is_none() {
        let _ = EXIT_MONITOR.set(Semaphore::new()?);
    }
    signals::spawn("sbcl-exit-monitor", move || {
        let Some(told) = EXIT_MONITOR.get() else { return };
        told.wait();
        let (status, reason) = DEATH.get();
        let reason = if reason.is_null() {
            "unknown".into()
        } else {
            // SAFETY: the pointer came from the shim, which writes the text once, before it tells of it, or from a
            // literal; it is NUL-terminated and never freed.
            unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned()
        };
        host.die(status, reason.trim());
    })?;
    if HOST.set(host).is_err() {
        return Err(io::Error::other("the host's functions were set already"));
    }
    let functions = ffi::steelbank_host {
        serve: Some(serve),
        supervise: Some(supervise),
        answer: Some(answer),
        output: Some(output),
        progress: Some(progress),
        report: Some(report),
        contribs: Some(contribs),
        died: Some(died),
    };
    // SAFETY: the library is of this crate's ABI (Runtime::load has compared), so it reads a table of this layout; it
    // copies it; the functions are this program's and stay; and nothing else runs SBCL yet.
    unsafe { (runtime.set_host)(&raw const functions) };
    Ok(())
}

/// Tells the exit monitor. `reason` must be static.
pub(super) fn announce_death(status: c_int, reason: &'static str) {
    // The callers' literals have no NUL of their own: leak a copy that has one.
    if let Ok(reason) = std::ffi::CString::new(reason) {
        died(status, reason.into_raw().cast_const());
    }
}

/// Stores and writes only: the thread may hold any lock, and may be in a signal handler.
extern "C" fn died(status: c_int, reason: *const c_char) {
    if DEATH.tell(status, reason)
        && let Some(exit_monitor) = EXIT_MONITOR.get()
    {
        exit_monitor.post();
    }
}

extern "C" fn serve(entry_points: *const ffi::steelbank_entry_points, lane: u64) {
    let (Some(host), Some(lane)) = (HOST.get(), Lane::from_number(lane)) else { return };
    // SAFETY: the shim passes a table that stays until this function returns.
    let entry_points = unsafe { &*entry_points };
    // SAFETY: this function is called by Lisp only, on a thread of its own, and the token does not leave it.
    let entry = unsafe { EntryPoints::new(entry_points) };
    guarded(|| host.serve(lane, entry));
    if host.is_dead() || MAIN.get() && !host.is_saving() {
        // The main Lisp thread returns from here only to save the core, and no thread may return into a dead Lisp. A
        // thread that was given up and is not the main one ends.
        loop {
            std::thread::park();
        }
    }
}

extern "C" fn supervise(order: *mut ffi::steelbank_order) {
    let Some(host) = HOST.get() else { return };
    guarded(|| {
        let (command, argument) = match host.next_order() {
            SupervisorOrder::Interrupt(call) => (ffi::STEELBANK_COMMAND_INTERRUPT, call),
            SupervisorOrder::StartThread(lane) => (ffi::STEELBANK_COMMAND_START_THREAD, lane as u64),
            SupervisorOrder::End => (ffi::STEELBANK_COMMAND_END, 0),
        };
        // SAFETY: Lisp passes a struct of its own that only its supervisor thread, which waits for us, uses.
        unsafe { *order = ffi::steelbank_order { command: i64::from(command), argument } };
    });
}

/// The bytes that C passes as pointer and length.
///
/// # Safety
/// They must be valid for reading until the caller is done with the slice.
unsafe fn bytes<'a>(bytes: *const u8, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(bytes, length) }
}

extern "C" fn answer(pointer: *const u8, length: usize) {
    // SAFETY: Lisp pins the bytes until this function returns.
    let bytes = unsafe { bytes(pointer, length) };
    guarded(|| SAID.with(|said| said.borrow_mut().answer = bytes.to_vec()));
}

extern "C" fn output(pointer: *const u8, length: usize, dropped: u64) {
    // SAFETY: Lisp pins the bytes until this function returns.
    let bytes = unsafe { bytes(pointer, length) };
    guarded(|| {
        SAID.with(|said| {
            let mut said = said.borrow_mut();
            said.output = String::from_utf8_lossy(bytes).into_owned();
            said.output_dropped = dropped;
        });
    });
}

extern "C" fn progress(pointer: *const u8, length: usize) {
    // SAFETY: Lisp pins the bytes until this function returns.
    let bytes = unsafe { bytes(pointer, length) };
    guarded(|| {
        let listener = PROGRESS.with(|cell| cell.borrow().clone());
        if let Some(listener) = listener {
            listener(&String::from_utf8_lossy(bytes));
        }
    });
}

extern "C" fn report(pointer: *const u8, length: usize) {
    // SAFETY: Lisp pins the bytes until this function returns.
    let bytes = unsafe { bytes(pointer, length) };
    guarded(|| {
        if let Some(host) = HOST.get() {
            host.report(String::from_utf8_lossy(bytes).into_owned());
        }
    });
}

extern "C" fn contribs(buffer: *mut c_char, size: usize) -> i64 {
    catch_unwind(|| {
        let folder = HOST.get()?.contribs_folder()?;
        let mut path = folder.into_os_string().into_encoded_bytes();
        path.push(b'/');
        if path.len() >= size {
            return None;
        }
        // SAFETY: Lisp's buffer has `size` bytes, more than are copied and the NUL, and does not overlap ours.
        unsafe { std::ptr::copy_nonoverlapping(path.as_ptr(), buffer.cast::<u8>(), path.len()) };
        // SAFETY: the index is below `size`.
        unsafe { *buffer.add(path.len()) = 0 };
        i64::try_from(path.len()).ok()
    })
    .ok()
    .flatten()
    .unwrap_or(-1)
}
