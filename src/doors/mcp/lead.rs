//! Leader and stand-by: one thread reads the client's lines, and another takes over when a line takes it
//! long.

use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// The lead, which one thread has at a time.
pub(super) struct Lead {
    /// The time that a leader may be busy before another thread takes over.
    patience: Duration,
    seat: Mutex<Seat>,
    wake: Condvar,
}

#[derive(Default)]
struct Seat {
    /// The number of the current leader; each new one counts on.
    leader: u64,
    /// The time since which the leader is busy; none while it waits for the client.
    busy: Option<Instant>,
    /// The number of lines that leaders have begun.
    begun: u64,
    /// Whether the thread that stands by sleeps until a leader begins a line.
    asleep: bool,
}

impl Lead {
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, seat: Mutex::default(), wake: Condvar::new() }
    }

    /// Whether leader number `mine` still leads.
    pub(super) fn is(&self, mine: u64) -> bool {
        self.seat.lock().leader == mine
    }

    /// Marks the leader as busy.
    pub(super) fn begin(&self) {
        let mut seat = self.seat.lock();
        seat.busy = Some(Instant::now());
        seat.begun += 1;
        if std::mem::take(&mut seat.asleep) {
            self.wake.notify_all();
        }
    }

    /// Marks leader number `mine` as waiting for the client. False if another thread leads by now: two that
    /// wait for the same stream would take each other's lines.
    #[must_use]
    pub(super) fn rest(&self, mine: u64) -> bool {
        let mut seat = self.seat.lock();
        let leads = seat.leader == mine;
        if leads {
            seat.busy = None;
        }
        leads
    }

    /// Waits until the leader has been busy for too long, and takes over. Returns the new leader's number.
    pub(super) fn succeed(&self) -> u64 {
        let mut seat = self.seat.lock();
        loop {
            let begun = seat.begun;
            self.wake.wait_for(&mut seat, self.patience);
            match seat.busy {
                Some(since) if since.elapsed() >= self.patience => {
                    seat.leader += 1;
                    seat.busy = Some(Instant::now());
                    return seat.leader;
                }
                None if seat.begun == begun => {
                    seat.asleep = true;
                    while seat.asleep {
                        self.wake.wait(&mut seat);
                    }
                }
                _ => (),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// Leads with lines that take about as long as the patience of the stand-by, so that each end of a line
    /// races for the lead.
    #[test]
    fn no_two_leaders_wait_for_the_client() {
        const LINES: u32 = 4000;
        let patience = Duration::from_micros(50);
        let lead = Lead::new(patience);
        let [waiting, most, lines, leaders] = [const { AtomicU32::new(0) }; 4];
        let over = || lines.load(Ordering::SeqCst) >= LINES;
        let serve = |mine: u64| {
            leaders.fetch_add(1, Ordering::SeqCst);
            while lead.is(mine) && !over() {
                // Yield where a server would write its answers.
                std::thread::yield_now();
                if !lead.rest(mine) {
                    return;
                }
                most.fetch_max(waiting.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                waiting.fetch_sub(1, Ordering::SeqCst);
                lead.begin();
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
                        serve(lead.succeed());
                    }
                })
            });
            serve(0);
            // Begin a line, so that the threads that stand by wake and see the end.
            while !successors.iter().all(|thread| thread.is_finished()) {
                if over() {
                    lead.begin();
                }
                std::thread::sleep(patience);
            }
        });
        assert_eq!(most.into_inner(), 1, "two waited for one stream");
        assert!(leaders.into_inner() > 2, "nobody took the seat");
    }
}
