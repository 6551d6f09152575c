//! The Lisp thread: how it starts, the queue to it, deadlines, interrupts and faults.
//!
//! # Soundness
//!
//! This module and `sys` hold the crate's only `unsafe` code. It rests on four rules.
//!
//! 1. **Entry points are called on Lisp threads only.** The runtime calls [`host::serve`] on a thread that it has
//!    attached; that function is the only maker of [`OnLisp`], which is neither `Send` nor `Sync` and lives no longer
//!    than a job. Whoever holds an `OnLisp` therefore is on a Lisp thread, under `serve`.
//! 2. **Nothing unwinds across.** Lisp's entry point returns normally whatever its code did (`lisp/boundary.lisp`), and
//!    Lisp runs the host's functions without interrupts, so that no interrupt throws through Rust's frames.
//!    Every callback from C is wrapped in `catch_unwind`.
//! 3. **There is one SBCL in a process, for good.** The library is never closed, its threads never end, and what it
//!    was given (arguments, the table of callbacks) is never freed. Starting twice is [`StartError::AlreadyStarted`].
//! 4. **A dead runtime is never entered.** When the runtime calls exit, abort or lose, the shim parks the thread
//!    and tells [`host::died`], which only stores to atomics and writes to a pipe, because the thread may hold any lock.
#![allow(unsafe_code)]

mod answers;
mod heap;
mod host;
mod image;
mod lisp;
mod shared;
mod start;
mod ticket;

pub use answers::{Answer, CallError, Fault, FaultKind, Lane, LispError, Operation, State, Status};
pub use heap::DEFAULT_HEAP_MEGABYTES;
pub use image::{Contribs, Core, Image, ImageError, RuntimeLibrary};
pub use lisp::{Lisp, OnLisp};
pub use start::{Settings, StartError};
pub use ticket::{Interrupt, Progress, Ticket};
