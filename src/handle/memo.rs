//! The last answers to questions whose pages are asked for one after the other.

use std::any::{Any, TypeId};
use std::collections::HashMap;

use parking_lot::Mutex;

/// A value of each of several types.
#[derive(Default)]
pub(crate) struct Memo(Mutex<HashMap<TypeId, Box<dyn Any + Send>>>);

impl Memo {
    /// Returns what `read` makes of the value of type `T`, if one was put here.
    pub(crate) fn get<T: Send + 'static, R>(&self, read: impl FnOnce(&T) -> Option<R>) -> Option<R> {
        read(self.0.lock().get(&TypeId::of::<T>())?.downcast_ref()?)
    }

    /// Puts a value here, in place of the one of its type.
    pub(crate) fn put<T: Send + 'static>(&self, value: T) {
        self.0.lock().insert(TypeId::of::<T>(), Box::new(value));
    }
}
