//! One queue of the kernel for several watches: what they have in common is watched once.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::io::Errno;

use crate::Watch;
use crate::queue::{EventQueue, KernelEvent};

/// The most events that are kept for a watch that does not ask: the kernel's own default for a queue.
pub(crate) const MOST_UNREAD: usize = 16_384;
/// How often a thread that waits looks whether another watch has read what it waits for.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// A queue of the kernel's events that several watches read, each what concerns it. Clones are the same queue.
#[derive(Debug, Clone, Default)]
pub struct SharedQueue(Arc<Mutex<QueueState>>);

#[derive(Debug, Default)]
struct QueueState {
    /// None before the first watch, and after events were lost.
    queue: Option<Arc<EventQueue>>,
    /// The events that each watch has not read yet, by its number; none if some were lost.
    unread: HashMap<u64, Option<Vec<KernelEvent>>>,
    /// The watches that want the events of each of the kernel's numbers.
    wanted: HashMap<i32, Vec<u64>>,
    /// The number of the next watch.
    next: u64,
}

impl SharedQueue {
    /// Makes a watch on nothing yet.
    ///
    /// # Errors
    /// The system has no inotify or no descriptors left, or does not tell of mounts:
    /// [`WatchRefusal::of`](crate::WatchRefusal::of) tells which.
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

    /// Has `add` watch something for the watch `reader`. Returns the kernel's number.
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

    /// Has the watch `reader` get the events of `number` no longer.
    pub(crate) fn release(&self, reader: u64, number: i32) {
        self.0.lock().release(reader, number);
    }

    /// Ends the watch `reader`, which wants the events of `numbers`.
    pub(crate) fn leave(&self, reader: u64, numbers: impl Iterator<Item = i32>) {
        let mut shared = self.0.lock();
        let is_current = shared.of(reader).is_some();
        shared.unread.remove(&reader);
        if shared.unread.is_empty() {
            // Closing it ends all of its watches at once.
            shared.queue = None;
        } else if is_current {
            numbers.for_each(|number| shared.release(reader, number));
        }
    }

    /// Takes the events of the watch `reader` until now. None if some were lost.
    pub(crate) fn read(&self, reader: u64) -> Option<Vec<KernelEvent>> {
        let mut shared = self.0.lock();
        shared.read();
        std::mem::take(shared.unread.get_mut(&reader)?.as_mut()?).into()
    }

    /// Waits until there are events of the watch `reader` to read, or they were lost, or until the time is up. Says
    /// whether there are.
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
            if queue.wait(Some(left.min(LOOK_AGAIN))) {
                return true;
            }
            if left.is_zero() {
                return false;
            }
        }
    }

    /// The descriptor of the kernel's queue.
    #[cfg(test)]
    pub(crate) fn descriptor(&self) -> std::os::fd::RawFd {
        self.0.lock().queue.as_ref().unwrap().descriptor()
    }

    /// Pretends that something else has taken the queue's descriptor.
    #[cfg(test)]
    pub(crate) fn mistake_for_another(&self) {
        let mut shared = self.0.lock();
        Arc::get_mut(shared.queue.as_mut().unwrap()).unwrap().mistake_for_another();
    }
}

impl QueueState {
    /// The queue, if no event of the watch `reader` was lost.
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

    /// Hands each watch the events until now that it wants.
    fn read(&mut self) {
        let Some(queue) = self.queue.clone() else { return };
        let complete = queue.read(|event| {
            for reader in self.wanted.get(&event.number).into_iter().flatten() {
                let Some(unread) = self.unread.get_mut(reader) else { continue };
                match unread {
                    Some(events) if events.len() < MOST_UNREAD => events.push(event.clone()),
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
            // The number may belong to another descriptor by now, so it is not closed.
            queue.tell_of_descriptors(false);
            std::mem::forget(queue);
        }
    }
}
