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
    /// Asked now and then whether to give up.
    pub cancelled: &'a (dyn Fn() -> bool + Sync),
    /// Told how far the work is.
    pub progress: &'a (dyn Fn(IndexProgress) + Sync),
}

impl IndexControl<'static> {
    /// Never gives up and tells nobody.
    pub fn none() -> Self {
        IndexControl { cancelled: &|| false, progress: &|_| {} }
    }
}

impl IndexControl<'_> {
    pub(crate) fn check(&self) -> Result<(), TextError> {
        if (self.cancelled)() { Err(TextError::Cancelled) } else { Ok(()) }
    }
}

/// Lets news through only now and then, and none before a first delay.
#[derive(Debug)]
pub(crate) struct Pace {
    next: Instant,
    every: Duration,
}

impl Pace {
    pub(crate) fn new(delay: Duration, every: Duration) -> Pace {
        Pace { next: Instant::now() + delay, every }
    }

    /// Whether it is time for news.
    pub(crate) fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = now >= self.next;
        if due {
            self.next = now + self.every;
        }
        due
    }
}
