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

/// Makes room for `length` bytes in huge pages, if the system has some: the first touch of each small page costs more than
/// what is written to it.
pub(crate) fn room_in_huge_pages(length: usize) -> Vec<u8> {
    const PAGE: usize = 4096;
    let mut room = Vec::<u8>::with_capacity(length);
    let before = room.as_mut_ptr().align_offset(PAGE);
    let pages = room.spare_capacity_mut().get_mut(before..).unwrap_or_default();
    // SAFETY: the advice changes nothing of what the pages hold.
    unsafe { libc::madvise(pages.as_mut_ptr().cast(), pages.len(), libc::MADV_HUGEPAGE) };
    room
}
