//! The kernel's event queue. Only this module uses inotify.

use std::ffi::OsString;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

/// The lowest descriptor number for the queue. Code that closes "all" descriptors usually stops at
/// a lower number.
const DESCRIPTOR_FLOOR: i32 = 900;

#[derive(Debug)]
pub(crate) struct EventQueue {
    events: OwnedFd,
    /// The descriptor's identity, to detect that its number has been reused.
    identity: (u64, u64, u32),
    /// A descriptor that becomes readable when something is mounted.
    mounts: OwnedFd,
}

/// The relevant parts of an inotify event.
#[derive(Debug, Clone)]
pub(crate) struct KernelEvent {
    pub(crate) number: i32,
    pub(crate) name: Option<OsString>,
    pub(crate) folder: bool,
    /// Whether an entry was added or removed.
    pub(crate) entry: bool,
    pub(crate) moved_itself: bool,
    /// Whether the kernel's watch has ended.
    pub(crate) ended: bool,
    pub(crate) unmounted: bool,
    pub(crate) overflow: bool,
}

fn high_descriptor(descriptor: OwnedFd) -> OwnedFd {
    fcntl_dupfd_cloexec(&descriptor, DESCRIPTOR_FLOOR).unwrap_or(descriptor)
}

fn identity(descriptor: &OwnedFd) -> rustix::io::Result<(u64, u64, u32)> {
    let stat = rustix::fs::fstat(descriptor)?;
    Ok((stat.st_dev, stat.st_ino, stat.st_mode))
}

/// The callback for opened and closed descriptors.
static DESCRIPTOR_LISTENER: OnceLock<fn(RawFd, bool)> = OnceLock::new();

/// Registers a callback for the descriptors of queues. It is called with the number and `true`
/// after a descriptor is opened, and with `false` before it is closed. This allows a process to
/// close them in children that it forks without exec. Only the first registered callback is used.
pub fn listen_for_descriptors(listener: fn(RawFd, bool)) {
    let _ = DESCRIPTOR_LISTENER.set(listener);
}

impl Drop for EventQueue {
    fn drop(&mut self) {
        self.listen_for_descriptors(false);
    }
}

impl EventQueue {
    pub(crate) fn new() -> io::Result<EventQueue> {
        let events = high_descriptor(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?);
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mounts = high_descriptor(rustix::fs::open("/proc/self/mountinfo", flags, Mode::empty())?);
        let queue = EventQueue { identity: identity(&events)?, events, mounts };
        queue.listen_for_descriptors(true);
        Ok(queue)
    }

    pub(crate) fn listen_for_descriptors(&self, open: bool) {
        if let Some(listener) = DESCRIPTOR_LISTENER.get() {
            [&self.events, &self.mounts].into_iter().for_each(|each| listener(each.as_raw_fd(), open));
        }
    }

    /// Returns whether the descriptor is still the original one. User code in the same process may
    /// close any descriptor.
    pub(crate) fn is_ours(&self) -> bool {
        identity(&self.events) == Ok(self.identity)
    }

    #[cfg(test)]
    pub(crate) fn descriptor(&self) -> RawFd {
        self.events.as_raw_fd()
    }

    /// Simulates that the descriptor number has been reused.
    #[cfg(test)]
    pub(crate) fn simulate_reuse(&mut self) {
        self.identity.1 = !self.identity.1;
    }

    pub(crate) fn add_folder(&self, path: &Path) -> io::Result<i32> {
        let flags = WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF
            | WatchFlags::ONLYDIR;
        self.add(path, flags)
    }

    /// Watches a folder for its move or removal, and for added and removed entries.
    pub(crate) fn add_above(&self, path: &Path) -> io::Result<i32> {
        let flags = WatchFlags::MOVE_SELF
            | WatchFlags::DELETE_SELF
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVE
            | WatchFlags::ONLYDIR;
        self.add(path, flags)
    }

    /// Watches only a file's attributes, including its number of hard links. The watch of its
    /// folder reports all other changes.
    pub(crate) fn add_file(&self, path: &Path) -> io::Result<i32> {
        self.add(path, WatchFlags::ATTRIB)
    }

    /// Watches `path` without following links, in addition to existing watches of it.
    fn add(&self, path: &Path, flags: WatchFlags) -> io::Result<i32> {
        let flags = flags | WatchFlags::DONT_FOLLOW | WatchFlags::MASK_ADD;
        Ok(inotify::add_watch(&self.events, path, flags)?)
    }

    pub(crate) fn remove(&self, number: i32) {
        // Ignore the error: the kernel has already removed the watch if the path was deleted.
        let _ = inotify::remove_watch(&self.events, number);
    }

    /// Passes all events to `take` until it returns `false`. Returns `false` if `take` did, if
    /// something was mounted, or if events may have been lost.
    pub(crate) fn read(&self, mut take: impl FnMut(KernelEvent) -> bool) -> bool {
        if !self.is_ours() {
            return false;
        }
        match self.poll(Some(Duration::ZERO)) {
            Some((false, false)) => return true,
            Some((_, false)) => {}
            Some((_, true)) | None => return false,
        }
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = Reader::new(&self.events, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return true,
                Err(Errno::INTR) => continue,
                Err(_) => return false,
            };
            let flags = event.events();
            let any = |some: ReadFlags| flags.intersects(some);
            let taken = take(KernelEvent {
                number: event.wd(),
                name: event.file_name().map(|name| OsString::from_vec(name.to_bytes().to_vec())),
                folder: any(ReadFlags::ISDIR),
                entry: any(ReadFlags::CREATE
                    | ReadFlags::DELETE
                    | ReadFlags::MOVED_FROM
                    | ReadFlags::MOVED_TO),
                moved_itself: any(ReadFlags::MOVE_SELF | ReadFlags::DELETE_SELF),
                ended: any(ReadFlags::IGNORED),
                unmounted: any(ReadFlags::UNMOUNT),
                overflow: any(ReadFlags::QUEUE_OVERFLOW),
            });
            if !taken {
                return false;
            }
        }
    }

    /// Waits for an event or a mount, without limit if there is no timeout. Returns whether there
    /// may be an event or a mount.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> bool {
        self.poll(timeout) != Some((false, false))
    }

    /// Returns whether there are events, and whether something was mounted since the last call.
    /// `None` if that cannot be determined.
    fn poll(&self, timeout: Option<Duration>) -> Option<(bool, bool)> {
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut both = [
            PollFd::from_borrowed_fd(self.events.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.mounts.as_fd(), PollFlags::PRI),
        ];
        match poll(&mut both, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Some((true, false)),
            Err(_) => return None,
        }
        let [events, mounts] = both.map(|each| each.revents());
        if (events | mounts).contains(PollFlags::NVAL) {
            return None;
        }
        Some((!events.is_empty(), mounts.intersects(PollFlags::PRI | PollFlags::ERR)))
    }
}

/// Returns the maximum number of watches per user.
pub(crate) fn limit() -> usize {
    let text = std::fs::read_to_string("/proc/sys/fs/inotify/max_user_watches").unwrap_or_default();
    text.trim().parse().unwrap_or(8192)
}

/// Returns whether the kernel sees all writes to the file system that contains `path`. This holds
/// for file systems that only this machine writes to.
pub(crate) fn reports_all_changes(path: &Path) -> bool {
    const LOCAL: [u32; 17] = [
        0xef53,      // ext2, ext3, ext4
        0x5846_5342, // XFS
        0x9123_683e, // Btrfs
        0x0102_1994, // tmpfs
        0x8584_58f6, // ramfs
        0x794c_7630, // overlayfs
        0xf2f5_2010, // F2FS
        0x2fc1_2fc1, // ZFS
        0xca45_1a4e, // bcachefs
        0x3153_464a, // JFS
        0x5265_4973, // ReiserFS
        0x3434,      // NILFS
        0xe0f5_e1e2, // EROFS
        0x7371_7368, // squashfs
        0x4d44,      // FAT
        0x2011_bab0, // exFAT
        0x7366_746e, // NTFS
    ];
    rustix::fs::statfs(path).is_ok_and(|found| LOCAL.contains(&(found.f_type as u32)))
}
