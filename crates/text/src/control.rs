//! Progress and cancellation callbacks for long operations.

use crate::error::TextError;
use std::time::{Duration, Instant};

/// The progress of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexProgress {
    /// The project's folders are being listed. Reported only if the walk takes longer than a
    /// second.
    Listing {
        /// Files found so far.
        found: usize,
    },
    /// Files are being read and indexed.
    Indexing {
        /// Files indexed so far.
        done: usize,
        /// Total number of files to index.
        total: usize,
    },
}

/// Holds the progress and cancellation callbacks of an operation.
#[derive(Clone, Copy)]
pub struct IndexControl<'a> {
    /// Called regularly; returning `true` cancels the operation.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
    /// Called with the progress of the operation.
    pub progress: &'a (dyn Fn(IndexProgress) + Sync),
}

impl IndexControl<'static> {
    /// Returns callbacks that never cancel and ignore progress.
    pub fn none() -> Self {
        IndexControl { cancelled: &|| false, progress: &|_| {} }
    }
}

impl IndexControl<'_> {
    pub(crate) fn check(&self) -> Result<(), TextError> {
        if (self.cancelled)() { Err(TextError::Cancelled) } else { Ok(()) }
    }
}

/// Limits the rate of progress reports: the first after an initial delay, then at most one per
/// interval.
#[derive(Debug)]
pub(crate) struct Pace {
    next: Instant,
    every: Duration,
}

impl Pace {
    pub(crate) fn new(delay: Duration, every: Duration) -> Pace {
        Pace { next: Instant::now() + delay, every }
    }

    /// Returns whether a progress report is due.
    pub(crate) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = now >= self.next;
        if due {
            self.next = now + self.every;
        }
        due
    }
}
