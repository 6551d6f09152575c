//! Memory management of the host, outside Lisp's heap.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Returns unused memory from glibc's allocator to the system. A load briefly allocates much
/// memory, on threads that then end. Other allocators do this by themselves.
pub(crate) fn trim_memory() {
    // SAFETY: the function may be called at any time, on any thread; it touches no memory that is
    // in use.
    #[cfg(target_env = "gnu")]
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Allocates `length` bytes of capacity, in huge pages if available: page faults of small pages
/// cost more than writing the data.
pub(crate) fn with_huge_page_capacity(length: usize) -> Vec<u8> {
    const PAGE: usize = 4096;
    let mut room = Vec::<u8>::with_capacity(length);
    let before = room.as_mut_ptr().align_offset(PAGE);
    let pages = room.spare_capacity_mut().get_mut(before..).unwrap_or_default();
    // SAFETY: the advice does not change the contents of the pages.
    unsafe { libc::madvise(pages.as_mut_ptr().cast(), pages.len(), libc::MADV_HUGEPAGE) };
    room
}

/// Maps `file`, which is next to a core and has `length` bytes, for the lifetime of the process, so
/// that only the pages in use are read. If another process truncates the file, this process
/// crashes, as with the core, which the runtime also maps.
///
/// # Errors
/// The file is empty or has another length, or the system refuses the mapping.
pub(crate) fn map_for_process_lifetime(file: &File, length: usize) -> io::Result<&'static [u8]> {
    if length == 0 || file.metadata()?.len() != length as u64 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let (protection, descriptor) = (libc::PROT_READ, file.as_raw_fd());
    // SAFETY: a new mapping at an address that the system chooses does not change other mappings.
    let mapped =
        unsafe { libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_PRIVATE, descriptor, 0) };
    if mapped == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the mapping has this length and is never unmapped. Published files in the user's
    // folder may be removed, but are never written again.
    Ok(unsafe { std::slice::from_raw_parts(mapped.cast_const().cast(), length) })
}
