//! Runs SBCL inside this process: starts it, queues jobs for its threads, enforces deadlines and
//! handles its faults.
//!
//! A [`Lisp`] is the handle to the one SBCL. [`Lisp::submit`] queues a job (a closure) on a
//! [`Lane`] and returns a [`Ticket`] for its outcome. Each lane has one Lisp thread, which calls
//! the closure with an [`OnLisp`]; only through that token can code call Lisp. A watch thread
//! interrupts jobs that exceed their deadline, answers their callers, and replaces the lane's
//! thread if a job does not stop. If the runtime dies, the process survives: every job gets
//! [`LispError::Dead`]. Most callers use a [`Control`], which holds the time limit, cancellation
//! token and progress listener of a question or an action.
//!
//! # Soundness
//!
//! Except for tests and benches, this module and the crate in `sys` contain the project's only
//! `unsafe` code. The code relies on four rules.
//!
//! 1. **Entry points are called on Lisp threads only.** Lisp calls `host::serve` on its threads,
//!    and only that function constructs the `lisp::EntryPoints` in an [`OnLisp`], which is neither
//!    `Send` nor `Sync` and lives no longer than a job. Code that holds an `OnLisp` therefore runs
//!    on a Lisp thread, under `serve`.
//! 2. **Nothing unwinds across the boundary.** Lisp's entry point returns normally whatever its
//!    code did (`lisp/boundary/boundary.lisp`), and Lisp runs the host's functions without
//!    interrupts, so that no interrupt unwinds Rust frames. In callbacks from C, code that could
//!    panic is wrapped in `catch_unwind`.
//! 3. **There is one SBCL in a process, and it is permanent.** The library is never unloaded, and
//!    its inputs (arguments, environment, host functions) are never freed. After a successful
//!    start, every further start fails.
//! 4. **A dead runtime is never entered.** When the runtime calls exit, abort or lose, the shim
//!    parks the thread and calls `host::died`, which only stores to atomics and posts a semaphore,
//!    because the thread may hold any lock. Every entry first checks that the runtime is alive; a
//!    thread that is inside when it dies is parked there.
#![allow(unsafe_code)]

mod again;
mod answers;
#[cfg(feature = "server")]
mod children;
mod confine;
pub mod control;
mod death;
mod descendants;
#[cfg(feature = "embedded")]
pub(crate) mod embedded;
mod heap;
mod host;
mod image;
mod lisp;
mod phase;
mod progress;
mod queue;
#[cfg(test)]
mod schedules;
mod shared;
mod signals;
mod start;
mod sync;
mod ticket;
mod watch;

#[cfg(feature = "server")]
pub(crate) use again::adopt_descriptor;
pub use again::{NoWriting, ProcessStart, Writing, reap_children, reexecute};
pub(crate) use again::{close_descriptors_on_exec, close_in_children};
pub(crate) use answers::read_json;
pub use answers::{
    CallAnswer, CallError, EngineState, EngineStatus, EngineTrouble, Expired, Fault, FaultKind, Lane,
    LispError,
};
#[cfg(feature = "server")]
pub(crate) use children::end_children_at_signals;
pub use confine::{ConfineError, confine};
pub(crate) use control::{ALLOWED, Control};
pub(crate) use descendants::{descendant_commands, end_descendants};
pub(crate) use heap::{map_for_process_lifetime, trim_memory, with_huge_page_capacity};
pub use image::{Contribs, Core, Image, ImageError, RuntimeLibrary};
pub use lisp::{Lisp, OnLisp, SaveError};
pub use progress::{OnProgress, Progress, Step};
pub use signals::{block_lisp_signals, ignore_file_size_signal, reset_signal_actions};
pub use start::{Settings, StartError};
pub use steelbank_sys::HEAP_MEGABYTES as DEFAULT_HEAP_MEGABYTES;
pub use ticket::{Interrupt, ProgressListener, Ticket, deadline_after, submit_for_client};
