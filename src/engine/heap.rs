//! The memory of the host, which is not Lisp's.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

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

/// Maps `file`, which stands beside a core and has `length` bytes, for as long as the process lives: only what is touched is read.
/// As with the core, which the runtime maps in the same way, whoever cuts it ends the process.
///
/// # Errors
/// The file has another length, or the system refuses.
pub(crate) fn map_beside_core(file: &File, length: usize) -> io::Result<&'static [u8]> {
    if length == 0 || file.metadata()?.len() != length as u64 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let (protection, descriptor) = (libc::PROT_READ, file.as_raw_fd());
    // SAFETY: a new mapping, at a place that the system chooses, changes no other.
    let mapped =
        unsafe { libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_PRIVATE, descriptor, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping has as many bytes, and nothing unmaps it. What was published in the user's own folder is removed, and nobody
    // writes to it again.
    Ok(unsafe { std::slice::from_raw_parts(mapped.cast_const().cast(), length) })
}
