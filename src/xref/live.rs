//! The snapshot that questions are answered from, and its replacement by a newer one.

use super::index::{ApplyError, Index};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;

/// The newest [`Index`]. Readers take a snapshot and are never kept waiting by an export.
#[derive(Debug)]
pub struct Live {
    current: RwLock<Arc<Index>>,
    /// Held from asking for an export until it is applied: each export continues the one before.
    refreshing: Mutex<()>,
}

/// Why there is no newer snapshot. The old one stays.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RefreshError<E: std::error::Error + 'static> {
    /// Lisp did not export.
    #[error("the cross references were not exported: {0}")]
    Export(#[source] E),
    /// What it exported does not fit.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

impl Live {
    /// Starts with `index`.
    pub fn new(index: Index) -> Self {
        Self { current: RwLock::new(Arc::new(index)), refreshing: Mutex::new(()) }
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Arc<Index> {
        Arc::clone(&self.current.read())
    }

    /// Brings the index up to date with the image. To be called after whatever may have run user code.
    ///
    /// `export` is given the code serial number to begin after, and returns what `xref-export` answered.
    ///
    /// # Errors
    /// [`RefreshError`]; the snapshot is then the one before.
    pub fn refresh<E: std::error::Error + 'static>(
        &self,
        export: impl FnOnce(u64) -> Result<Vec<u8>, E>,
    ) -> Result<Arc<Index>, RefreshError<E>> {
        let _one_at_a_time = self.refreshing.lock();
        let current = self.snapshot();
        let octets = export(current.since()).map_err(RefreshError::Export)?;
        let next = Arc::new(current.apply(&octets)?);
        *self.current.write() = Arc::clone(&next);
        Ok(next)
    }
}
