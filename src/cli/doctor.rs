//! `doctor`: checks the installation and shows what it is made of.

use clap::Args;

use super::{Exit, Shell, Trouble};

#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(super) fn run(&self, shell: &Shell) -> Result<Exit, Trouble> {
        let _ = (self.json, shell);
        Ok(Exit::Answered)
    }
}
