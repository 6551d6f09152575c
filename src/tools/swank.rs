//! The way of a person's editor into the image that a session's calls share: the user's own Swank.

use super::{Failure, Session};
use crate::Steelbank;
use crate::handle::swank::SwankServer;

impl Session {
    /// Claims `port` of 127.0.0.1 for the image's Swank, or any that is free if it is 0. [`Session::open_swank`] opens it.
    ///
    /// # Errors
    /// The image has another one, which the sentence names.
    pub fn claim_swank(&self, port: u16) -> Result<(), Failure> {
        self.recovery().claim_swank(port).map_err(|other| {
            let open = match other {
                0 => "on a free one that it is about to take".to_owned(),
                other => format!("on port {other}"),
            };
            Failure::engine(format!(
                "--swank {port}: the clients of a Lisp share its Swank, too, which is {open}. Leave the port out, or give that one."
            ))
        })
    }

    /// Opens the Swank that was claimed, in this image and in those after it; none if nobody has claimed one.
    ///
    /// # Errors
    /// There is no Swank, it does not load, or the port is taken: a sentence. It may be claimed again.
    pub fn open_swank(&self) -> Option<Result<SwankServer, Failure>> {
        let port = self.recovery().swank()?;
        let opened = self.bank().and_then(|bank| bank.open_swank(port).map_err(Failure::from));
        // Keep the claim if Lisp died meanwhile: the next image tries again.
        if opened.is_ok() || !self.will_restart() {
            self.recovery().note_swank(opened.as_ref().ok().map(|server| server.port));
        }
        *self.swank_trouble.lock() = opened.as_ref().err().map(|failure| failure.why.clone());
        Some(opened)
    }

    /// Returns the Swank that serves, if one does.
    pub(crate) fn swank(&self) -> Option<SwankServer> {
        self.started().and_then(Steelbank::swank)
    }
}
