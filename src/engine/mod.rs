//! The Lisp thread: how it starts, the queue to it, deadlines, interrupts and faults.
//!
//! # Soundness
//!
//! This module and `sys` hold the crate's only `unsafe` code. It rests on four rules.
//!
//! 1. **Entry points are called on Lisp threads only.** The runtime calls `host::serve` on a thread that it has
//!    attached; that function is the only maker of the `lisp::EntryPoints` in an [`OnLisp`], which is neither `Send`
//!    nor `Sync` and lives no longer than a job. Code that holds an `OnLisp` therefore is on a Lisp thread, under
//!    `serve`.
//! 2. **Nothing unwinds across.** Lisp's entry point returns normally whatever its code did
//!    (`lisp/boundary/boundary.lisp`), and Lisp runs the host's functions without interrupts, so that no interrupt
//!    throws through Rust's frames. Every callback from C is wrapped in `catch_unwind`.
//! 3. **There is one SBCL in a process, for good.** The library is never closed, its threads never end, and what it
//!    was given (arguments, the table of callbacks) is never freed. Starting twice is [`StartError::AlreadyStarted`].
//! 4. **A dead runtime is never entered.** When the runtime calls exit, abort or lose, the shim parks the thread
//!    and tells `host::died`, which only stores to atomics and posts a semaphore, because the thread may hold any lock.
//!    Every entry asks first whether the runtime lives; a thread that is inside when it dies is parked there.
#![allow(unsafe_code)]

mod again;
mod answers;
#[cfg(feature = "server")]
mod children;
mod confine;
pub mod control;
mod death;
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
pub use again::{NoWriting, ProcessStart, Writing, execute_again, reap_children};
pub(crate) use again::{keep_descriptors_private, keep_from_children};
pub(crate) use answers::read_json;
pub use answers::{
    CallAnswer, CallError, EngineState, EngineStatus, EngineTrouble, Expired, Fault, FaultKind, Lane,
    LispError,
};
#[cfg(feature = "server")]
pub(crate) use children::{end_children, end_children_at_signals};
pub use confine::{ConfineError, confine};
pub(crate) use control::{ALLOWED, Control};
pub(crate) use heap::{give_back_memory, map_beside_core, room_in_huge_pages};
pub use image::{Contribs, Core, Image, ImageError, RuntimeLibrary};
pub use lisp::{Lisp, OnLisp, SaveError};
pub use progress::{OnProgress, Progress, Step};
pub use signals::{block_lisp_signals, handle_signals_by_default, survive_file_size_limit};
pub use start::{Settings, StartError};
pub use steelbank_sys::HEAP_MEGABYTES as DEFAULT_HEAP_MEGABYTES;
pub use ticket::{Interrupt, ProgressListener, Ticket, deadline_after};
