//! The transport: reads a client's lines and dispatches each.
//!
//! One thread at a time is the reader. The reader also runs calls that need not wait for Lisp, to
//! avoid a thread switch between request and response. If a line takes too long, a standby thread
//! becomes the reader, so that the server always reads.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rmcp::model::ErrorData;

use super::client::Client;
use super::message;
use crate::doors::streams::input::Taken;

/// How long the reader may be busy before the standby thread takes over.
const TAKEOVER_AFTER: Duration = Duration::from_millis(5);

impl Client {
    /// Reads and processes lines until another thread is the reader or the stream ends.
    pub(super) fn read_lines(self: &Arc<Self>, mine: u64) {
        let mut line = Vec::new();
        let mut answer = Vec::new();
        while self.reader.is(mine) {
            // Count the line before it is taken, so that a wait for all calls includes it.
            self.calls.begin_line();
            let taken = self.input.take(&mut line);
            if taken != Taken::Message {
                self.calls.end_line();
            }
            if taken != Taken::Nothing {
                self.reader.begin_line(mine);
            }
            match taken {
                Taken::Message => {
                    self.dispatch(&line, &mut answer);
                    self.output.add(&answer);
                    answer.clear();
                    self.calls.end_line();
                }
                Taken::Refused => {
                    let refusal = ErrorData::invalid_request("The message is longer than 16 MiB.", None);
                    message::write_error(&mut answer, None, &refusal);
                    self.output.add(&answer);
                    answer.clear();
                }
                Taken::Nothing => {
                    self.output.flush();
                    if !self.reader.begin_wait(mine) {
                        return;
                    }
                    if self.output.failed() || self.input.fill().is_err() {
                        return self.end();
                    }
                }
                Taken::End => {
                    self.output.flush();
                    return self.end();
                }
            }
        }
        self.output.flush();
    }

    /// Waits as the standby thread, and takes over if a line keeps the reader busy for too long.
    pub(super) fn stand_by(self: &Arc<Self>) {
        let Some(mine) = self.reader.take_over() else { return };
        // Ignore the error: without a standby thread, the next long call blocks reading.
        let _ = self.spawn("mcp-standby", Self::stand_by);
        self.read_lines(mine);
    }
}

/// The role of the reader, which one thread holds at a time.
pub(super) struct ReaderRole {
    takeover_after: Duration,
    state: Mutex<RoleState>,
    wake: Condvar,
}

impl Default for ReaderRole {
    fn default() -> Self {
        Self::new(TAKEOVER_AFTER)
    }
}

#[derive(Default)]
struct RoleState {
    /// The number of the current reader. Each new reader increments it.
    reader: u64,
    /// The time since which the reader is busy, or `None` while it waits for input.
    busy: Option<Instant>,
    /// The number of lines that readers have started.
    begun: u64,
    /// Whether the standby thread sleeps until a reader starts a line.
    asleep: bool,
    /// Whether taking over is disabled.
    closed: bool,
}

impl ReaderRole {
    fn new(takeover_after: Duration) -> Self {
        Self { takeover_after, state: Mutex::default(), wake: Condvar::new() }
    }

    /// Returns whether reader number `mine` is still the reader.
    fn is(&self, mine: u64) -> bool {
        self.state.lock().reader == mine
    }

    /// Marks reader number `mine` as busy. Has no effect if another thread has become the reader:
    /// if that thread waits for input and is marked as busy, a third thread takes over, and the
    /// next line is lost.
    fn begin_line(&self, mine: u64) {
        let mut state = self.state.lock();
        if state.reader != mine {
            return;
        }
        state.busy = Some(Instant::now());
        state.begun += 1;
        if std::mem::take(&mut state.asleep) {
            self.wake.notify_all();
        }
    }

    /// Marks reader number `mine` as waiting for input. Returns `false` if another thread has
    /// become the reader, because two threads waiting for one stream would take each other's lines.
    #[must_use]
    fn begin_wait(&self, mine: u64) -> bool {
        let mut state = self.state.lock();
        let reads = state.reader == mine;
        if reads {
            state.busy = None;
        }
        reads
    }

    /// Disables taking over, and ends the standby thread.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        (state.closed, state.asleep) = (true, false);
        self.wake.notify_all();
    }

    /// Waits until the reader has been busy for too long, and takes over. Returns the new reader's
    /// number, or `None` once the role is closed.
    fn take_over(&self) -> Option<u64> {
        let mut state = self.state.lock();
        while !state.closed {
            let begun = state.begun;
            self.wake.wait_for(&mut state, self.takeover_after);
            match state.busy {
                Some(since) if since.elapsed() >= self.takeover_after => {
                    state.reader += 1;
                    state.busy = Some(Instant::now());
                    return Some(state.reader);
                }
                None if state.begun == begun => {
                    state.asleep = true;
                    while state.asleep {
                        self.wake.wait(&mut state);
                    }
                }
                _ => (),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn late_begin_line_does_not_affect_next_reader() {
        let role = ReaderRole::new(Duration::ZERO);
        role.begin_line(0);
        let next = role.take_over().unwrap();
        assert!(role.begin_wait(next));
        role.begin_line(0);
        assert!(role.state.lock().busy.is_none(), "the second reader still waits");
    }

    /// Reads lines that take about as long as the standby thread waits, so that the end of each
    /// line races with a takeover.
    #[test]
    fn only_one_reader_waits_for_input() {
        const LINES: u32 = 4000;
        let patience = Duration::from_micros(50);
        let role = ReaderRole::new(patience);
        let [waiting, most, lines, readers] = [const { AtomicU32::new(0) }; 4];
        let over = || lines.load(Ordering::SeqCst) >= LINES;
        let serve = |mine: u64| {
            readers.fetch_add(1, Ordering::SeqCst);
            while role.is(mine) && !over() {
                // Yield at the point where a server would write its responses.
                std::thread::yield_now();
                if !role.begin_wait(mine) {
                    return;
                }
                most.fetch_max(waiting.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                waiting.fetch_sub(1, Ordering::SeqCst);
                role.begin_line(mine);
                let (count, began) = (lines.fetch_add(1, Ordering::SeqCst), Instant::now());
                while began.elapsed() < patience * (count % 4) {
                    std::hint::spin_loop();
                }
            }
        };
        std::thread::scope(|scope| {
            let successors = [(); 2].map(|()| {
                scope.spawn(|| {
                    while !over() {
                        role.take_over().into_iter().for_each(serve);
                    }
                })
            });
            serve(0);
            // Start a line to wake the standby threads, so that they notice the end.
            while !successors.iter().all(|thread| thread.is_finished()) {
                if over() {
                    let reader = role.state.lock().reader;
                    role.begin_line(reader);
                }
                std::thread::sleep(patience);
            }
        });
        assert_eq!(most.into_inner(), 1, "two readers waited at the same time");
        assert!(readers.into_inner() > 2, "no standby thread took over");
    }
}
