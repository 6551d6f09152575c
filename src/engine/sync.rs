//! The locks and condition variables of queue, tickets, watch and phase, and the atomics of
//! [`super::death::Death`]. They are parking_lot's and std's, except in unit tests, where they are
//! shuttle's, which explores thread schedules.

use std::time::Instant;

pub(super) use locks::{Condvar, Mutex};
#[cfg(test)]
pub(super) use shuttle::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};
#[cfg(not(test))]
pub(super) use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, Ordering};

#[cfg(not(test))]
mod locks {
    pub(in super::super) use parking_lot::MutexGuard;

    #[derive(Debug, Default)]
    pub(in super::super) struct Mutex<T>(parking_lot::Mutex<T>);

    #[derive(Debug, Default)]
    pub(in super::super) struct Condvar(parking_lot::Condvar);

    impl<T> Mutex<T> {
        pub(in super::super) fn new(value: T) -> Self {
            Self(parking_lot::Mutex::new(value))
        }

        pub(in super::super) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock()
        }
    }

    impl Condvar {
        pub(in super::super) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }

        /// Returns `true` if `until` has passed.
        pub(in super::super) fn wait_until<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            until: super::Instant,
        ) -> (MutexGuard<'a, T>, bool) {
            let timed_out = self.0.wait_until(&mut guard, until).timed_out();
            (guard, timed_out)
        }

        pub(in super::super) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(in super::super) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}

#[cfg(test)]
mod locks {
    pub(in super::super) use shuttle::sync::MutexGuard;

    #[derive(Debug, Default)]
    pub(in super::super) struct Mutex<T>(shuttle::sync::Mutex<T>);

    #[derive(Debug, Default)]
    pub(in super::super) struct Condvar(shuttle::sync::Condvar);

    impl<T> Mutex<T> {
        pub(in super::super) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(in super::super) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
        }
    }

    impl Condvar {
        pub(in super::super) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner)
        }

        /// Ignores the time, because schedules have no clock. The tests pass explicit times to the
        /// watch.
        pub(in super::super) fn wait_until<'a, T>(
            &self,
            guard: MutexGuard<'a, T>,
            _: super::Instant,
        ) -> (MutexGuard<'a, T>, bool) {
            (self.wait(guard), false)
        }

        pub(in super::super) fn notify_one(&self) {
            self.0.notify_one();
        }

        pub(in super::super) fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
