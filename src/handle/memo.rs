//! Caches the last answers to paged questions, so that the next page is taken from the cache.

use std::any::{Any, TypeId};
use std::collections::HashMap;

use parking_lot::Mutex;

/// A cache with at most one value per type.
#[derive(Default)]
pub(crate) struct Memo(Mutex<HashMap<TypeId, Box<dyn Any + Send>>>);

impl Memo {
    /// Passes the cached value of type `T` to `read`, and returns its result. `None` if there is no
    /// such value.
    pub(crate) fn get<T: Send + 'static, R>(&self, read: impl FnOnce(&T) -> Option<R>) -> Option<R> {
        read(self.0.lock().get(&TypeId::of::<T>())?.downcast_ref()?)
    }

    /// Stores a value and replaces the previous one of its type.
    pub(crate) fn put<T: Send + 'static>(&self, value: T) {
        self.0.lock().insert(TypeId::of::<T>(), Box::new(value));
    }
}
