//! Opens the Swank server of the shared image, so that an editor such as SLIME can connect to it.
//! Uses the user's installation of Swank.

use super::{Failure, Session};
use crate::Steelbank;
use crate::handle::swank::SwankServer;

impl Session {
    /// Reserves `port` of 127.0.0.1 for the image's Swank server; 0 reserves any free port.
    /// [`Session::open_swank`] starts the server.
    ///
    /// # Errors
    /// The image already has a Swank server on another port, which the message names.
    pub fn claim_swank(&self, port: u16) -> Result<(), Failure> {
        self.recovery().claim_swank(port).map_err(|other| {
            let open = match other {
                0 => "on a free port that is still to be chosen".to_owned(),
                other => format!("on port {other}"),
            };
            Failure::engine(format!(
                "--swank {port}: the image already has a Swank server for all its clients, {open}. Omit the port to share that server."
            ))
        })
    }

    /// Starts the Swank server on the reserved port. The program also calls this after a restart of
    /// Lisp. Returns `None` if no port is reserved.
    ///
    /// # Errors
    /// SBCL or the setup before the first load failed, Swank is not installed or does not load, or
    /// the port is in use. The reservation is dropped, so that another port can be reserved, unless
    /// Lisp has died and will be restarted.
    pub fn open_swank(&self) -> Option<Result<SwankServer, Failure>> {
        let port = self.recovery().swank()?;
        let opened = self.bank().and_then(|bank| bank.open_swank(port).map_err(Failure::from));
        // Keep the reservation if Lisp died meanwhile: the next image tries again.
        if opened.is_ok() || !self.will_restart() {
            self.recovery().note_swank(opened.as_ref().ok().map(|server| server.port));
        }
        *self.swank_trouble.lock() = opened.as_ref().err().map(|failure| failure.why.clone());
        Some(opened)
    }

    /// Returns the running Swank server, if there is one.
    pub(crate) fn swank(&self) -> Option<SwankServer> {
        self.started().and_then(Steelbank::swank)
    }
}
