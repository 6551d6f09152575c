//! Progress and cancellation of long work.

use crate::error::TextError;
use std::time::{Duration, Instant};

/// The progress of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexProgress {
    /// The project's folders are being listed. Told only of a walk that takes longer than a second.
    Listing {
        /// Files found so far.
        found: usize,
    },
    /// Files are being read and indexed.
    Indexing {
        /// Files indexed.
        done: usize,
        /// Files to index.
        total: usize,
    },
}

/// Progress and cancellation callbacks of long work.
#[derive(Clone, Copy)]
pub struct IndexControl<'a> {
    /// Called now and then; true cancels the work.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
    /// Called with the progress of the work.
    pub progress: &'a (dyn Fn(IndexProgress) + Sync),
}

impl IndexControl<'static> {
    /// Makes callbacks that never cancel and ignore progress.
    pub fn none() -> Self {
        IndexControl { cancelled: &|| false, progress: &|_| {} }
    }
}

impl IndexControl<'_> {
    pub(crate) fn check(&self) -> Result<(), TextError> {
        if (self.cancelled)() { Err(TextError::Cancelled) } else { Ok(()) }
    }
}

/// Limits the rate of progress reports: none before a first delay, then one an interval.
#[derive(Debug)]
pub(crate) struct Pace {
    next: Instant,
    every: Duration,
}

impl Pace {
    pub(crate) fn new(delay: Duration, every: Duration) -> Pace {
        Pace { next: Instant::now() + delay, every }
    }

    /// Whether a progress report is due.
    pub(crate) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = now >= self.next;
        if due {
            self.next = now + self.every;
        }
        due
    }
}
