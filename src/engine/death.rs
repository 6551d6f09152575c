//! The record of the runtime's death: the first report counts.

use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

use super::sync::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

/// The runtime's death. Both the shim and the host, when Lisp's toplevel function returns, report it, perhaps at the
/// same time.
pub(super) struct Death {
    told: AtomicBool,
    status: AtomicI32,
    reason: AtomicPtr<c_char>,
}

impl Death {
    pub(super) const fn new() -> Self {
        Self { told: AtomicBool::new(false), status: AtomicI32::new(0), reason: AtomicPtr::new(null_mut()) }
    }

    /// Keeps the exit status and the reason of one and the same report. False if another thread was first: only the
    /// first is to wake the exit monitor. Stores only: the thread may hold any lock, and may be in a signal handler.
    pub(super) fn tell(&self, status: c_int, reason: *const c_char) -> bool {
        if self.told.swap(true, Ordering::SeqCst) {
            return false;
        }
        self.status.store(status, Ordering::SeqCst);
        self.reason.store(reason.cast_mut(), Ordering::SeqCst);
        true
    }

    /// The exit status and the reason, for the thread that the first report woke.
    pub(super) fn get(&self) -> (c_int, *const c_char) {
        (self.status.load(Ordering::SeqCst), self.reason.load(Ordering::SeqCst).cast_const())
    }
}
