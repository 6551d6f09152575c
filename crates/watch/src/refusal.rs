//! The reasons why something is not watched.

use std::{fmt, io};

use rustix::io::Errno;

use crate::queue::limit;

/// The reason why an existing path is not watched. Displayed as a clause, with the relevant system
/// setting if there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WatchRefusal {
    /// The user has reached the limit of watches, `fs.inotify.max_user_watches`.
    Watches {
        /// The limit.
        most: usize,
    },
    /// The user has reached the limit of event queues, `fs.inotify.max_user_instances`, or the
    /// process has reached its limit of descriptors.
    Queues,
    /// The file system can be written to without this kernel noticing, or has an unknown type.
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

    /// Returns advice on how to enable watching, as a clause in the imperative.
    pub fn remedy(self) -> String {
        const PLENTY: usize = 524_288;
        match self {
            WatchRefusal::Watches { most } => {
                format!("raise the limit (sysctl fs.inotify.max_user_watches={})", PLENTY.max(2 * most))
            }
            WatchRefusal::Queues => {
                "raise the limits (sysctl fs.inotify.max_user_instances=1024, ulimit -n 4096)".to_owned()
            }
            WatchRefusal::FileSystem => "move it to a local disk".to_owned(),
            WatchRefusal::System => "use a system with inotify".to_owned(),
        }
    }
}

impl fmt::Display for WatchRefusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchRefusal::Watches { most } => {
                write!(formatter, "the user's limit of {most} inotify watches is reached (fs.inotify.max_user_watches)")
            }
            WatchRefusal::Queues => formatter.write_str(
                "the user's limit of inotify queues (fs.inotify.max_user_instances) or the process's limit of descriptors is reached",
            ),
            WatchRefusal::FileSystem => {
                formatter.write_str("the kernel does not report all changes on its file system")
            }
            WatchRefusal::System => formatter.write_str("the system has no inotify or refuses the watch"),
        }
    }
}
