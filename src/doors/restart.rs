//! The means of a door to have the program executed again in place.

use std::io;
use std::os::fd::RawFd;
use std::sync::mpsc::Receiver;

use crate::handle::recovery::{Cause, Handover};

/// The means to restart a server in another image of the program.
pub struct RestartHooks {
    /// Receives the causes of restarts, from [`crate::handle::recovery::Recovery::arm`].
    pub causes: Receiver<Cause>,
    /// The socket at which clients join, if they share the image: its restarts wait for none of them.
    pub listener: Option<RawFd>,
    /// Executes the program again with the handover. Returns only if that fails.
    pub execute: Box<dyn Fn(Handover) -> io::Error + Send>,
}

impl std::fmt::Debug for RestartHooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RestartHooks").field("listener", &self.listener).finish_non_exhaustive()
    }
}
