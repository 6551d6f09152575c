//! Files that are read where they are.

use std::fs::File;
use std::io;

use rustix::mm::{MapFlags, ProtFlags, mmap};

/// Maps `file` into memory for good, to be read. Nobody may write to the file or cut it: the caller knows it as one
/// that is only ever made whole and removed.
///
/// # Errors
/// The system does not map it.
pub(crate) fn map_file(file: &File) -> io::Result<&'static [u8]> {
    let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    if length == 0 {
        return Ok(&[]);
    }
    // SAFETY: without an address of ours, the system chooses memory that nobody has.
    let start = unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::PRIVATE, file, 0)? };
    // SAFETY: the mapping has `length` bytes, is never unmapped, and nothing writes to it: it is private to the process
    // and read only, and the file is not written to, as this function's contract has it.
    Ok(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), length) })
}
