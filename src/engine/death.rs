//! Records the runtime's death. Only the first report counts.

use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

use super::sync::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

/// The exit status and the reason of the runtime's death. The shim reports a death; the host
/// reports one if Lisp's toplevel function returns. Both may report at the same time.
pub(super) struct Death {
    set: AtomicBool,
    status: AtomicI32,
    reason: AtomicPtr<c_char>,
}

impl Death {
    pub(super) const fn new() -> Self {
        Self { set: AtomicBool::new(false), status: AtomicI32::new(0), reason: AtomicPtr::new(null_mut()) }
    }

    /// Records the exit status and the reason of the first report. Returns `false` if another
    /// thread has reported before; only the first reporter wakes the exit monitor. Only stores to
    /// atomics, because the thread may hold any lock and may be in a signal handler.
    pub(super) fn record(&self, status: c_int, reason: *const c_char) -> bool {
        if self.set.swap(true, Ordering::SeqCst) {
            return false;
        }
        self.status.store(status, Ordering::SeqCst);
        self.reason.store(reason.cast_mut(), Ordering::SeqCst);
        true
    }

    /// Returns the exit status and the reason, for the thread that the first report woke.
    pub(super) fn get(&self) -> (c_int, *const c_char) {
        (self.status.load(Ordering::SeqCst), self.reason.load(Ordering::SeqCst).cast_const())
    }
}
