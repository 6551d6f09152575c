//! The host's functions, which Lisp and the shim call: the crate's side of `struct steelbank_host`.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int};
use std::io::{self, PipeWriter, Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use steelbank_sys::{Runtime, ffi};

use super::lisp::OnLisp;
use super::shared::{Order, Shared};
use super::ticket::Progress;

static SHARED: OnceLock<&'static Shared> = OnceLock::new();
static DEATH: OnceLock<PipeWriter> = OnceLock::new();
static DEATH_STATUS: AtomicI32 = AtomicI32::new(0);
static DEATH_REASON: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

/// What the call that runs on this thread has said so far.
#[derive(Default)]
pub(super) struct Said {
    pub(super) answer: Vec<u8>,
    pub(super) output: String,
    pub(super) output_dropped: u64,
}

thread_local! {
    static SAID: RefCell<Said> = RefCell::default();
    static PROGRESS: RefCell<Option<Progress>> = const { RefCell::new(None) };
}

/// Takes what the last call on this thread has said.
pub(super) fn take_said() -> Said {
    SAID.with(|said| said.take())
}

/// Sets who hears of the progress of calls on this thread.
pub(super) fn set_progress(progress: Option<Progress>) {
    PROGRESS.with(|cell| *cell.borrow_mut() = progress);
}

/// Gives the shim this module's functions, and starts the thread that tells of Lisp's death.
pub(super) fn install(runtime: &Runtime, shared: &'static Shared) -> io::Result<()> {
    let (mut reader, writer) = io::pipe()?;
    if SHARED.set(shared).is_err() || DEATH.set(writer).is_err() {
        return Err(io::Error::other("the host's functions were set already"));
    }
    std::thread::Builder::new().name("sbcl-undertaker".into()).spawn(move || {
        let mut octet = [0];
        if reader.read_exact(&mut octet).is_ok() {
            let reason = DEATH_REASON.load(Ordering::SeqCst);
            let reason = if reason.is_null() {
                "unknown".into()
            } else {
                // SAFETY: the pointer came from the shim or from a literal, is NUL-terminated, and is static.
                unsafe { CStr::from_ptr(reason) }.to_string_lossy().into_owned()
            };
            shared.die(DEATH_STATUS.load(Ordering::SeqCst), reason.trim());
        }
    })?;
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
    // SAFETY: the shim copies the table, the functions are this program's and stay, and nothing else runs SBCL yet.
    unsafe { (runtime.set_host)(&raw const functions) };
    Ok(())
}

/// Tells the undertaker. `reason` must be static.
pub(super) fn announce_death(status: c_int, reason: &'static str) {
    // The callers' literals have no NUL of their own: leak a copy that has one.
    if let Ok(reason) = std::ffi::CString::new(reason) {
        died(status, reason.into_raw().cast_const());
    }
}

/// Stores and writes only: the thread may hold any lock, and may be in a signal handler.
extern "C" fn died(status: c_int, reason: *const c_char) {
    DEATH_STATUS.store(status, Ordering::SeqCst);
    DEATH_REASON.store(reason.cast_mut(), Ordering::SeqCst);
    if let Some(mut writer) = DEATH.get() {
        let _ = writer.write(&[1]);
    }
}

/// A panic must not reach C. The panic hook has printed it; there is nothing to return it to.
fn guarded(body: impl FnOnce()) {
    let _ = catch_unwind(AssertUnwindSafe(body));
}

extern "C" fn serve(entry_points: *const ffi::steelbank_entry_points, lane: u64) {
    let Some(shared) = SHARED.get() else { return };
    // SAFETY: the shim passes a table that stays until this function returns.
    let entry_points = unsafe { &*entry_points };
    // SAFETY: this function is called by Lisp only, on a thread of its own, and the token does not leave it.
    let on_lisp = unsafe { OnLisp::new(entry_points, shared) };
    guarded(|| shared.serve(lane, &on_lisp));
    if lane == 0 || shared.is_dead() {
        // The main Lisp thread must never return from here, and no thread may return into a dead Lisp. A thread that was
        // given up and is not the main one ends.
        loop {
            std::thread::park();
        }
    }
}

extern "C" fn supervise(order: *mut ffi::steelbank_order) {
    let Some(shared) = SHARED.get() else { return };
    guarded(|| {
        let (command, argument) = match shared.next_order() {
            Order::Interrupt(call) => (ffi::STEELBANK_COMMAND_INTERRUPT, call),
            Order::StartThread(lane) => (ffi::STEELBANK_COMMAND_START_THREAD, lane),
        };
        // SAFETY: Lisp passes a struct of its own that only its supervisor thread, which waits for us, uses.
        unsafe { *order = ffi::steelbank_order { command: i64::from(command), argument } };
    });
}

/// The octets that C passes as pointer and length.
///
/// # Safety
/// They must be valid for reading until the caller is done with the slice.
unsafe fn octets<'a>(octets: *const u8, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(octets, length) }
}

extern "C" fn answer(pointer: *const u8, length: usize) {
    // SAFETY: Lisp pins the octets until this function returns.
    let octets = unsafe { octets(pointer, length) };
    guarded(|| SAID.with(|said| said.borrow_mut().answer = octets.to_vec()));
}

extern "C" fn output(pointer: *const u8, length: usize, dropped: u64) {
    // SAFETY: Lisp pins the octets until this function returns.
    let octets = unsafe { octets(pointer, length) };
    guarded(|| {
        SAID.with(|said| {
            let mut said = said.borrow_mut();
            said.output = String::from_utf8_lossy(octets).into_owned();
            said.output_dropped = dropped;
        });
    });
}

extern "C" fn progress(pointer: *const u8, length: usize) {
    // SAFETY: Lisp pins the octets until this function returns.
    let octets = unsafe { octets(pointer, length) };
    guarded(|| {
        let listener = PROGRESS.with(|cell| cell.borrow().clone());
        if let Some(listener) = listener {
            listener(&String::from_utf8_lossy(octets));
        }
    });
}

extern "C" fn report(pointer: *const u8, length: usize) {
    // SAFETY: Lisp pins the octets until this function returns.
    let octets = unsafe { octets(pointer, length) };
    guarded(|| {
        if let Some(shared) = SHARED.get() {
            shared.report(String::from_utf8_lossy(octets).into_owned());
        }
    });
}

extern "C" fn contribs(buffer: *mut c_char, size: usize) -> i64 {
    catch_unwind(|| {
        let folder = SHARED.get()?.contribs_folder()?;
        let mut path = folder.into_os_string().into_encoded_bytes();
        path.push(b'/');
        if path.len() >= size {
            return None;
        }
        // SAFETY: Lisp's buffer has `size` octets, more than are copied and the NUL, and does not overlap ours.
        unsafe { std::ptr::copy_nonoverlapping(path.as_ptr(), buffer.cast::<u8>(), path.len()) };
        // SAFETY: the index is below `size`.
        unsafe { *buffer.add(path.len()) = 0 };
        i64::try_from(path.len()).ok()
    })
    .ok()
    .flatten()
    .unwrap_or(-1)
}
