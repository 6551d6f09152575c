//! The host's functions that Lisp and the shim call: the Rust side of `struct steelbank_host`.
//!
//! Lisp calls them through a C table. Some pass a call's answer, output and progress through
//! thread-local variables to the Rust code that made the call. The others run the lanes' jobs
//! ([`Shared::serve`]), give orders to Lisp's supervisor, return the folder of the contrib modules,
//! store reports, and record the runtime's death.

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

/// A POSIX semaphore. It can be posted in a signal handler, and has no descriptor that loaded code
/// could close.
pub(super) struct Semaphore(Box<UnsafeCell<libc::sem_t>>);

// SAFETY: any threads may call the system's semaphore functions concurrently.
unsafe impl Send for Semaphore {}
// SAFETY: as above.
unsafe impl Sync for Semaphore {}

impl Semaphore {
    pub(super) fn new() -> io::Result<Self> {
        let mut semaphore = MaybeUninit::uninit();
        // SAFETY: the pointer is to memory of a semaphore's size and alignment, which sem_init
        // initializes.
        if unsafe { libc::sem_init(semaphore.as_mut_ptr(), 0, 0) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: sem_init has succeeded. A semaphore may be moved while no thread waits on it or
        // posts it.
        Ok(Self(Box::new(UnsafeCell::new(unsafe { semaphore.assume_init() }))))
    }

    pub(super) fn post(&self) {
        // SAFETY: sem_init has initialized the semaphore, and it does not move.
        unsafe { libc::sem_post(self.0.get()) };
    }

    pub(super) fn wait(&self) {
        // SAFETY: as above. A signal may interrupt the wait, which is then repeated.
        while unsafe { libc::sem_wait(self.0.get()) } != 0 {}
    }
}

/// The answer and output that Lisp has delivered for this thread's current or last call.
#[derive(Default)]
pub(super) struct CallOutput {
    pub(super) answer: Vec<u8>,
    pub(super) output: String,
    pub(super) output_dropped: u64,
}

thread_local! {
    static OUTPUT: RefCell<CallOutput> = RefCell::default();
    static PROGRESS: RefCell<Option<ProgressListener>> = const { RefCell::new(None) };
    /// Whether the runtime was started on this thread.
    static MAIN: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as the one that starts the runtime. On this thread, [`serve`] returns to Lisp
/// only to save the core.
pub(super) fn become_main() {
    MAIN.set(true);
}

/// Takes the answer and output of the last call on this thread.
pub(super) fn take_output() -> CallOutput {
    OUTPUT.with(|output| output.take())
}

/// Sets the progress listener of calls on this thread.
pub(super) fn set_progress(progress: Option<ProgressListener>) {
    PROGRESS.with(|cell| *cell.borrow_mut() = progress);
}

/// Passes this module's functions to the shim, and starts the thread that reports Lisp's death.
pub(super) fn install(runtime: &Runtime, host: &'static Shared) -> io::Result<()> {
    // An earlier start that failed may have created the semaphore.
    if EXIT_MONITOR.get().is_none() {
        let _ = EXIT_MONITOR.set(Semaphore::new()?);
    }
    signals::spawn("sbcl-exit-monitor", move || {
        let Some(died) = EXIT_MONITOR.get() else { return };
        died.wait();
        let (status, reason) = DEATH.get();
        let reason = if reason.is_null() {
            "unknown".into()
        } else {
            // SAFETY: the text is a leaked copy of a literal, or a text that the shim completes
            // before it reports the death. It is NUL-terminated and never freed or changed.
            unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned()
        };
        host.die(status, reason.trim());
    })?;
    if HOST.set(host).is_err() {
        return Err(io::Error::other("the host's functions were already set"));
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
    // SAFETY: Runtime::load has compared the ABI version, so the library reads a table of this
    // layout. It copies the table, the functions are static, and no other thread runs SBCL yet.
    unsafe { (runtime.set_host)(&raw const functions) };
    Ok(())
}

/// Reports a death to the exit monitor.
pub(super) fn announce_death(status: c_int, reason: &'static str) {
    // Literals have no terminating NUL: leak a copy that has one.
    if let Ok(reason) = std::ffi::CString::new(reason) {
        died(status, reason.into_raw().cast_const());
    }
}

/// Records the runtime's death for the exit monitor. Only stores to atomics and posts a semaphore,
/// because the thread may hold any lock and may be in a signal handler.
extern "C" fn died(status: c_int, reason: *const c_char) {
    if DEATH.record(status, reason)
        && let Some(exit_monitor) = EXIT_MONITOR.get()
    {
        exit_monitor.post();
    }
}

extern "C" fn serve(entry_points: *const ffi::steelbank_entry_points, lane: u64) {
    let (Some(host), Some(lane)) = (HOST.get(), Lane::from_number(lane)) else { return };
    // SAFETY: the shim passes a table that stays valid until this function returns.
    let entry_points = unsafe { &*entry_points };
    // SAFETY: only Lisp calls this function, on one of its threads, and the token does not leave
    // that thread.
    let entry = unsafe { EntryPoints::new(entry_points) };
    guarded(|| host.serve(lane, entry));
    if host.is_dead() || MAIN.get() && !host.is_saving() {
        // The main Lisp thread returns from here only to save the core, and no thread may return
        // into a dead Lisp. Other threads return if they were abandoned or if the core will be
        // saved, and then end.
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
        // SAFETY: Lisp passes a struct that only its supervisor thread uses, and that thread waits
        // for this call.
        unsafe { *order = ffi::steelbank_order { command: i64::from(command), argument } };
    });
}

/// Returns the bytes that C passes as pointer and length.
///
/// # Safety
/// The bytes must be valid for reading until the caller is done with the slice.
unsafe fn bytes<'a>(bytes: *const u8, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(bytes, length) }
}

extern "C" fn answer(pointer: *const u8, length: usize) {
    // SAFETY: Lisp pins the bytes until this function returns.
    let bytes = unsafe { bytes(pointer, length) };
    guarded(|| OUTPUT.with(|output| output.borrow_mut().answer = bytes.to_vec()));
}

extern "C" fn output(pointer: *const u8, length: usize, dropped: u64) {
    // SAFETY: Lisp pins the bytes until this function returns.
    let bytes = unsafe { bytes(pointer, length) };
    guarded(|| {
        OUTPUT.with(|output| {
            let mut output = output.borrow_mut();
            output.output = String::from_utf8_lossy(bytes).into_owned();
            output.output_dropped = dropped;
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
        // SAFETY: Lisp's buffer has `size` bytes, which is more than the copied bytes and the NUL,
        // and does not overlap ours.
        unsafe { std::ptr::copy_nonoverlapping(path.as_ptr(), buffer.cast::<u8>(), path.len()) };
        // SAFETY: the index is below `size`.
        unsafe { *buffer.add(path.len()) = 0 };
        i64::try_from(path.len()).ok()
    })
    .ok()
    .flatten()
    .unwrap_or(-1)
}
