//! Stores the messages in response to one request, or the messages that belong to no request, so
//! that clients can reconnect.

use std::collections::VecDeque;

use hyper::body::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The maximum number of stored messages. If there are more, the oldest messages are dropped,
/// usually progress notifications.
const MAX_KEPT: usize = 256;

/// The messages of one exchange: those in response to one request, or those that belong to no
/// request. They are numbered from 1.
#[derive(Default)]
pub(super) struct Exchange {
    state: Mutex<ExchangeState>,
    changed: Notify,
}

#[derive(Default)]
struct ExchangeState {
    messages: VecDeque<Bytes>,
    /// The number of dropped messages.
    dropped: u64,
    /// Whether the exchange is complete.
    ended: bool,
    /// The number of the current reader. A new reader increments it, which ends the previous
    /// reader.
    reader: u64,
}

impl Exchange {
    /// Adds a message.
    pub(super) fn push(&self, message: impl Into<Bytes>) {
        let mut state = self.state.lock();
        state.messages.push_back(message.into());
        if state.messages.len() > MAX_KEPT {
            state.messages.pop_front();
            state.dropped += 1;
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Marks the exchange as complete.
    pub(super) fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_waiters();
    }

    /// Makes the caller the only reader. Returns the reader's number.
    pub(super) fn claim(&self) -> u64 {
        let mut state = self.state.lock();
        state.reader += 1;
        let reader = state.reader;
        drop(state);
        self.changed.notify_waiters();
        reader
    }

    /// Waits for the first message after number `after`, and returns it with its number. Returns
    /// `None` if the exchange has ended without such a message, or if another reader has claimed
    /// it. The future may be dropped while it waits.
    pub(super) async fn next(&self, reader: u64, after: u64) -> Option<(u64, Bytes)> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Register for notifications before checking, so that no message is missed in between.
            changed.as_mut().enable();
            if let Some(found) = self.check(reader, after) {
                return found;
            }
            changed.await;
        }
    }

    fn check(&self, reader: u64, after: u64) -> Option<Option<(u64, Bytes)>> {
        let state = self.state.lock();
        let index = usize::try_from(after.saturating_sub(state.dropped)).unwrap_or(usize::MAX);
        match state.messages.get(index) {
            _ if state.reader != reader => Some(None),
            Some(message) => Some(Some((after.max(state.dropped) + 1, message.clone()))),
            None => state.ended.then_some(None),
        }
    }

    /// Returns whether the exchange ended with one message, a response without progress before it.
    pub(super) fn is_single_response(&self) -> bool {
        let state = self.state.lock();
        state.ended && state.messages.len() == 1 && state.dropped == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reconnecting_reader_gets_remaining_messages() {
        let exchange = Exchange::default();
        let first = exchange.claim();
        exchange.push("a");
        assert!(!exchange.is_single_response());
        exchange.push("b");
        assert_eq!(exchange.next(first, 0).await, Some((1, "a".into())));
        let second = exchange.claim();
        assert_eq!(exchange.next(first, 1).await, None);
        assert_eq!(exchange.next(second, 1).await, Some((2, "b".into())));
        exchange.end();
        assert_eq!(exchange.next(second, 2).await, None);
        // The oldest messages are dropped first; a late reader continues with the oldest stored
        // message.
        (0..MAX_KEPT).for_each(|_| exchange.push("c"));
        assert_eq!(exchange.next(second, 0).await, Some((3, "c".into())));
        let short = Exchange::default();
        short.push("a");
        short.end();
        assert!(short.is_single_response());
    }
}
