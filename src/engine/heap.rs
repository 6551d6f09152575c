//! The size of Lisp's heap. The build needs it, too: see `save_core` in build.rs.

/// What the heap can grow to unless the settings say otherwise, in MiB.
pub const DEFAULT_HEAP_MEGABYTES: usize = 2048;
