//! Runs work on several threads.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Applies `work` to every item and returns the results in order. Uses one thread per processor, at
/// most 8.
pub(crate) fn parallel<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(8).min(items.len());
    if threads <= 1 {
        return items.into_iter().map(work).collect();
    }
    let next = AtomicUsize::new(0);
    let items: Vec<_> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
    let run = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(slot) = items.get(index) else { return done };
            if let Some(item) = slot.lock().take() {
                done.push((index, work(item)));
            }
        }
    };
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(run)).collect();
        let mut done = run();
        for other in others {
            match other.join() {
                Ok(part) => done.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}
