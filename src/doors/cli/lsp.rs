//! `steelbank lsp`: serves an editor, and executes the program again in place when Lisp has died.

use std::sync::Arc;

use clap::Args;

use super::serve::{handed_over, restart_hooks};
use super::{CommandError, Exit, Shell, share};
use crate::doors::lsp::{ServerOptions, serve};
use crate::doors::share::{ClientProtocol, ClientSettings};
use crate::doors::streams::take as take_streams;
use crate::engine::{adopt_descriptor, end_children};
use crate::tools::{Permissions, Session};

#[derive(Debug, Args)]
pub(super) struct LspCommand {
    /// Let the editor evaluate code that is no file's
    #[arg(long)]
    allow_eval: bool,
    /// Compile nothing when a file is saved: check parentheses alone
    #[arg(long)]
    no_compile: bool,
    /// Share one Lisp with the agents and editors that serve this project with --share: the first starts it, and it ends ten
    /// seconds after the last has left
    #[arg(long)]
    share: bool,
    /// How many seconds the process that keeps the image stays after its last client
    #[arg(long, hide = true, value_name = "SECONDS", default_value_t = 10)]
    linger: u64,
    /// What some editors add; standard input and output are the only way
    #[arg(long, hide = true)]
    stdio: bool,
    /// The descriptor of what the image before this one of the same process hands over
    #[arg(long, hide = true, value_name = "FD")]
    restarted_from: Option<i32>,
}

impl LspCommand {
    pub(super) fn run(&self, shell: &Arc<Shell>) -> Result<Exit, CommandError> {
        let permissions = Permissions { eval: self.allow_eval, edits: false };
        let compile = !self.no_compile;
        let Permissions { eval, edits } = permissions;
        let protocol = ClientProtocol::Lsp { compile };
        let settings = ClientSettings { eval, edits, tools: None, swank: None, protocol };
        if self.share
            && self.restarted_from.is_none()
            && let Some(exit) = share::join(shell, settings, self.linger)?
        {
            return Ok(exit);
        }
        let mut handover = handed_over(self.restarted_from)?;
        let client = handover.as_mut().and_then(|handover| handover.clients.pop());
        let streams = match &client {
            None => take_streams()?.into(),
            Some(client) => [adopt_descriptor(client.input)?, adopt_descriptor(client.output)?],
        };
        let session = shell.session(true)?.allowing(permissions);
        let recovery = session.recovery();
        let mut loads = Vec::new();
        if let Some(handover) = handover {
            recovery.restore(&handover);
            if let Some(folder) = handover.project {
                session.name_project(folder);
            }
            loads = handover.loads;
        }
        let restarts = restart_hooks(shell, recovery, None);
        let loader = Arc::clone(shell);
        let load = Box::new(move |session: &Session| {
            let project = &loader.options.project;
            let trouble = project.load(session, &loader.output).err().map(|trouble| trouble.message);
            let named = project.loads();
            loads.retain(|load| !named.contains(load));
            session.load_again(crate::actions::tools(), &loads);
            project.make_snapshot_later(session, false);
            trouble
        });
        let options = ServerOptions { compile, load, handover: client, copies: Arc::default() };
        let well = serve(streams, session, options, restarts)?;
        end_children();
        Ok(Exit::of_editor(well))
    }
}
