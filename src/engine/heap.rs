//! The memory of the host's allocator, which is not Lisp's.

/// Gives back to the system what the allocator holds and nobody uses. A load allocates much for a moment, on threads
/// that then end. An allocator that is not glibc's sees to that by itself.
pub(crate) fn give_back_memory() {
    // SAFETY: the function may be called at any time, on any thread; it touches no memory that is in use.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}
