//! Shares one kernel queue between several watches, so that a path watched by several of them needs
//! only one kernel watch.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::Watch;
use crate::queue::{EventQueue, KernelEvent};

/// The maximum number of unread events stored for a watch. It is also the kernel's default limit
/// for a queue.
pub(crate) const MAX_UNREAD: usize = 16_384;
/// The interval at which a waiting thread checks whether another watch has read its events.
const RECHECK_INTERVAL: Duration = Duration::from_millis(500);

/// A queue of kernel events shared by several watches. Each watch receives the events for its
/// paths. Clones refer to the same queue.
#[derive(Debug, Clone, Default)]
pub struct SharedQueue(Arc<Mutex<QueueState>>);

#[derive(Debug, Default)]
struct QueueState {
    /// `None` while there is no watch, and after events were lost.
    queue: Option<Arc<EventQueue>>,
    /// The unread events of each watch, by its number; `None` if some were lost.
    unread: HashMap<u64, Option<Vec<KernelEvent>>>,
    /// The watches that receive the events of each kernel watch, by the kernel's number.
    wanted: HashMap<i32, Vec<u64>>,
    /// The number of the next watch.
    next: u64,
}

impl SharedQueue {
    /// Creates a watch. It watches nothing yet.
    ///
    /// # Errors
    ///
    /// If the system has no inotify or no free descriptors, or does not report mounts.
    /// [`WatchRefusal::of`](crate::WatchRefusal::of) classifies the error.
    pub fn watch(&self) -> io::Result<Watch> {
        let mut shared = self.0.lock();
        if shared.queue.is_none() {
            shared.queue = Some(Arc::new(EventQueue::new()?));
            shared.wanted.clear();
        }
        let number = shared.next;
        shared.next += 1;
        shared.unread.insert(number, Some(Vec::new()));
        Ok(Watch::of(self.clone(), number))
    }

    /// Calls `add` to watch something for the watch `reader`. Returns the kernel's number.
    pub(crate) fn add(
        &self,
        reader: u64,
        add: impl FnOnce(&EventQueue) -> io::Result<i32>,
    ) -> io::Result<i32> {
        let mut shared = self.0.lock();
        let queue = shared.of(reader).ok_or(Errno::BADF)?;
        let number = add(&queue)?;
        let wanted = shared.wanted.entry(number).or_default();
        if !wanted.contains(&reader) {
            wanted.push(reader);
        }
        Ok(number)
    }

    /// Stops delivering the events of `number` to the watch `reader`.
    pub(crate) fn release(&self, reader: u64, number: i32) {
        self.0.lock().release(reader, number);
    }

    /// Removes the watch `reader`, which receives the events of `numbers`.
    pub(crate) fn remove(&self, reader: u64, numbers: impl Iterator<Item = i32>) {
        let mut shared = self.0.lock();
        let is_current = shared.of(reader).is_some();
        shared.unread.remove(&reader);
        if shared.unread.is_empty() {
            // Closing the queue ends all of its kernel watches at once.
            shared.queue = None;
        } else if is_current {
            numbers.for_each(|number| shared.release(reader, number));
        }
    }

    /// Takes the pending events of the watch `reader`. `None` if some were lost.
    pub(crate) fn read(&self, reader: u64) -> Option<Vec<KernelEvent>> {
        let mut shared = self.0.lock();
        shared.read();
        std::mem::take(shared.unread.get_mut(&reader)?.as_mut()?).into()
    }

    /// Waits until there are events for the watch `reader`, until they are lost, or until the
    /// timeout. Returns `false` only after a timeout.
    pub(crate) fn wait(&self, reader: u64, timeout: Duration) -> bool {
        let begun = Instant::now();
        loop {
            let left = timeout.saturating_sub(begun.elapsed());
            let queue = {
                let shared = self.0.lock();
                let unread = shared.unread.get(&reader).and_then(Option::as_ref);
                let Some(queue) = shared.of(reader).filter(|_| unread.is_some_and(Vec::is_empty)) else {
                    return true;
                };
                queue
            };
            if queue.wait(Some(left.min(RECHECK_INTERVAL))) {
                return true;
            }
            if left.is_zero() {
                return false;
            }
        }
    }

    /// Returns the descriptor of the kernel queue.
    #[cfg(test)]
    pub(crate) fn descriptor(&self) -> std::os::fd::RawFd {
        self.0.lock().queue.as_ref().unwrap().descriptor()
    }

    /// Simulates that the queue's descriptor number has been reused.
    #[cfg(test)]
    pub(crate) fn simulate_reuse(&self) {
        let mut shared = self.0.lock();
        Arc::get_mut(shared.queue.as_mut().unwrap()).unwrap().simulate_reuse();
    }
}

impl QueueState {
    /// Returns the queue, unless events of the watch `reader` were lost.
    fn of(&self, reader: u64) -> Option<Arc<EventQueue>> {
        self.unread.get(&reader)?.as_ref().and(self.queue.clone())
    }

    fn release(&mut self, reader: u64, number: i32) {
        let Some(wanted) = self.wanted.get_mut(&number) else { return };
        wanted.retain(|each| *each != reader);
        if wanted.is_empty() {
            self.wanted.remove(&number);
            self.queue.iter().for_each(|queue| queue.remove(number));
        }
    }

    /// Delivers all pending events to their watches. If events may have been lost, marks this for
    /// all watches and drops the queue.
    fn read(&mut self) {
        let Some(queue) = self.queue.clone() else { return };
        let complete = queue.read(|event| {
            for reader in self.wanted.get(&event.number).into_iter().flatten() {
                let Some(unread) = self.unread.get_mut(reader) else { continue };
                match unread {
                    Some(events) if events.len() < MAX_UNREAD => events.push(event.clone()),
                    Some(_) | None => *unread = None,
                }
            }
            if event.ended {
                self.wanted.remove(&event.number);
            }
            !event.overflow
        });
        if complete {
            return;
        }
        self.unread.values_mut().for_each(|unread| *unread = None);
        self.queue = None;
        if !queue.is_ours() {
            // The descriptor number may have been reused, so do not close it.
            queue.listen_for_descriptors(false);
            std::mem::forget(queue);
        }
    }
}
