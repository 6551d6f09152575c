//! `steelbank lsp`: serves an editor on the standard streams. If Lisp dies or becomes unusable, the
//! process executes the program again and continues with the same editor.

use std::sync::Arc;

use clap::Args;

use super::serve::{handed_over, restart_hooks};
use super::{CommandError, Exit, Shell, share};
use crate::doors::lsp::{ServerOptions, serve};
use crate::doors::share::{ClientProtocol, ClientSettings};
use crate::doors::streams::take as take_streams;
use crate::engine::{adopt_descriptor, end_descendants};
use crate::tools::{Permissions, Session};

#[derive(Debug, Args)]
pub(super) struct LspCommand {
    /// Allow the editor to evaluate code
    #[arg(long)]
    allow_eval: bool,
    /// Check only the parentheses of documents, without compiling them
    #[arg(long)]
    no_compile: bool,
    /// Share one Lisp with agents and editors that serve this project with --share. The first
    /// client starts that Lisp, which ends ten seconds after the last client disconnects
    #[arg(long)]
    share: bool,
    /// Keep the shared image for this many seconds after its last client disconnects
    #[arg(long, hide = true, value_name = "SECONDS", default_value_t = 10)]
    linger: u64,
    /// Accepted for editors that pass it; standard input and output are always used
    #[arg(long, hide = true)]
    stdio: bool,
    /// The descriptor of a memory file with the clients and loads to resume. The program passes it
    /// to itself when it restarts in place
    #[arg(long, hide = true, value_name = "FD")]
    restarted_from: Option<i32>,
}

impl LspCommand {
    pub(super) fn run(&self, shell: &Arc<Shell>) -> Result<Exit, CommandError> {
        let permissions = Permissions { eval: self.allow_eval, edits: false };
        let compile = !self.no_compile;
        let Permissions { eval, edits } = permissions;
        let protocol = ClientProtocol::Lsp { compile };
        let config_errors = shell.options.project.config_errors.clone();
        config_errors.iter().for_each(|error| shell.output.error(error));
        let settings = ClientSettings { eval, edits, tools: None, swank: None, protocol, config_errors };
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
        let mut session = shell.session(true)?.allowing(permissions);
        session.config_errors = shell.options.project.config_errors.clone().into();
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
            session.repeat_loads(crate::actions::tools(), &loads);
            project.make_snapshot_later(session, false);
            trouble
        });
        let options = ServerOptions { compile, load, handover: client, copies: Arc::default() };
        let well = serve(streams, session, options, restarts)?;
        end_descendants(std::process::id());
        Ok(Exit::of_editor(well))
    }
}
