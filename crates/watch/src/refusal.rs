//! Why something is not watched.

use std::fmt;
use std::io;

use rustix::io::Errno;

use crate::queue::limit;

/// Why something that is there is not watched. It is shown as a clause that names the system's setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchRefusal {
    /// The user has as many watches as `fs.inotify.max_user_watches` allows.
    Watches {
        /// The limit.
        most: usize,
    },
    /// The user has as many queues of events as `fs.inotify.max_user_instances` allows, or the process as many
    /// descriptors as it may.
    Queues,
    /// It is on a file system that others may write to unseen by this kernel, or that is not known here.
    FileSystem,
    /// The system has no inotify, or the kernel refused for another reason.
    System,
}

impl WatchRefusal {
    /// Classifies an error of the kernel.
    pub fn of(error: &io::Error) -> WatchRefusal {
        match Errno::from_io_error(error) {
            Some(Errno::NOSPC) => WatchRefusal::Watches { most: limit() },
            Some(Errno::MFILE | Errno::NFILE) => WatchRefusal::Queues,
            _ => WatchRefusal::System,
        }
    }

    /// Advises whoever runs the program how to have it watched, as a clause without a subject.
    pub fn remedy(self) -> String {
        const PLENTY: usize = 524_288;
        match self {
            WatchRefusal::Watches { most } => {
                format!("allow more (sysctl fs.inotify.max_user_watches={})", PLENTY.max(2 * most))
            }
            WatchRefusal::Queues => {
                "allow more (sysctl fs.inotify.max_user_instances=1024, ulimit -n 4096)".to_owned()
            }
            WatchRefusal::FileSystem => "keep it on a disk of this machine".to_owned(),
            WatchRefusal::System => "use a system that has inotify".to_owned(),
        }
    }
}

impl fmt::Display for WatchRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchRefusal::Watches { most } => {
                write!(formatter, "the user's {most} watches are used up (fs.inotify.max_user_watches)")
            }
            WatchRefusal::Queues => formatter.write_str(
                "the user's queues of events (fs.inotify.max_user_instances) or the process's descriptors are used up",
            ),
            WatchRefusal::FileSystem => {
                formatter.write_str("the kernel does not see all that is written to its file system")
            }
            WatchRefusal::System => formatter.write_str("the system refuses inotify"),
        }
    }
}
