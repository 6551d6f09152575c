//! The reasons for interrupting a search.

use crate::error::TextError;
use crate::store::pages::PageError;

/// The reason why a search was interrupted.
#[derive(Debug)]
pub(crate) enum SearchInterrupted {
    /// The index is damaged or cannot be read.
    Page(PageError),
    /// A file does not match the index.
    Changed,
    /// The search fails with this error.
    Stop(TextError),
}

impl From<PageError> for SearchInterrupted {
    fn from(error: PageError) -> Self {
        SearchInterrupted::Page(error)
    }
}

impl From<TextError> for SearchInterrupted {
    fn from(error: TextError) -> Self {
        SearchInterrupted::Stop(error)
    }
}
