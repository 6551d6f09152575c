//! The messages that answer one request, or that nobody has asked for. They are kept for readers that have lost their
//! connection.

use std::collections::VecDeque;

use hyper::body::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The most messages that are kept: older ones, which tell of progress, are dropped.
const MOST_KEPT: usize = 256;

/// The messages of one exchange. They are numbered from 1.
#[derive(Default)]
pub(super) struct Exchange {
    state: Mutex<ExchangeState>,
    changed: Notify,
}

#[derive(Default)]
struct ExchangeState {
    messages: VecDeque<Bytes>,
    /// The number of messages that were dropped.
    dropped: u64,
    /// Whether no further one comes.
    ended: bool,
    /// The reader that gets them: each new one counts on, and ends the one before.
    reader: u64,
}

impl Exchange {
    /// Adds a message.
    pub(super) fn push(&self, message: impl Into<Bytes>) {
        let mut state = self.state.lock();
        state.messages.push_back(message.into());
        if state.messages.len() > MOST_KEPT {
            state.messages.pop_front();
            state.dropped += 1;
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Notes that no further message comes.
    pub(super) fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_waiters();
    }

    /// Makes the caller the reader, in place of any other. Returns its number.
    pub(super) fn claim(&self) -> u64 {
        let mut state = self.state.lock();
        state.reader += 1;
        let reader = state.reader;
        drop(state);
        self.changed.notify_waiters();
        reader
    }

    /// Waits for the first message after number `after`, and returns it with its number; none if the exchange has ended, or has
    /// another reader. May be dropped while it waits.
    pub(super) async fn next(&self, reader: u64, after: u64) -> Option<(u64, Bytes)> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Listen before the look, so that nothing comes unnoticed in between.
            changed.as_mut().enable();
            if let Some(found) = self.look(reader, after) {
                return found;
            }
            changed.await;
        }
    }

    fn look(&self, reader: u64, after: u64) -> Option<Option<(u64, Bytes)>> {
        let state = self.state.lock();
        let index = usize::try_from(after.saturating_sub(state.dropped)).unwrap_or(usize::MAX);
        match state.messages.get(index) {
            _ if state.reader != reader => Some(None),
            Some(message) => Some(Some((after.max(state.dropped) + 1, message.clone()))),
            None => state.ended.then_some(None),
        }
    }

    /// Whether the exchange has ended with one message: an answer without news before it.
    pub(super) fn is_answer_alone(&self) -> bool {
        let state = self.state.lock();
        state.ended && state.messages.len() == 1 && state.dropped == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reader_that_comes_again_gets_the_rest() {
        let exchange = Exchange::default();
        let first = exchange.claim();
        exchange.push("a");
        assert!(!exchange.is_answer_alone());
        exchange.push("b");
        assert_eq!(exchange.next(first, 0).await, Some((1, "a".into())));
        let second = exchange.claim();
        assert_eq!(exchange.next(first, 1).await, None);
        assert_eq!(exchange.next(second, 1).await, Some((2, "b".into())));
        exchange.end();
        assert_eq!(exchange.next(second, 2).await, None);
        // The oldest go first, and a reader goes on with what is there.
        (0..MOST_KEPT).for_each(|_| exchange.push("c"));
        assert_eq!(exchange.next(second, 0).await, Some((3, "c".into())));
        let short = Exchange::default();
        short.push("a");
        short.end();
        assert!(short.is_answer_alone());
    }
}
