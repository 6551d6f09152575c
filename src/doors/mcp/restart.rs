//! Restarts the program in place, with the same client: hands over the state, and answers or repeats the calls.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::calls::UnansweredCall;
use super::client::Client;
use crate::engine::Writing;
use crate::recovery::{Cause, Handover, Moment};

/// The means to restart a server in another image of the program.
pub struct RestartHooks {
    /// Receives the causes of restarts, from [`crate::recovery::Recovery::arm`].
    pub causes: Receiver<Cause>,
    /// The handover of the image before this one.
    pub handover: Option<Handover>,
    /// Executes the program again with the handover. Returns only if that fails.
    pub execute: Box<dyn Fn(Handover) -> io::Error + Send>,
}

impl std::fmt::Debug for RestartHooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RestartHooks").field("takes_over", &self.handover.is_some()).finish_non_exhaustive()
    }
}

impl RestartHooks {
    /// Restarts for each cause, for as long as the process lasts.
    pub(super) fn run(&self, client: &Arc<Client>) {
        while let Ok(cause) = self.causes.recv() {
            // Serve all pending requests for a restart with one.
            if self.causes.try_iter().any(|cause| cause == Cause::Asked) {
                client.session.recovery().forget_deaths();
            }
            self.restart_in_place(client, &cause);
        }
    }

    /// Ends the calls, and executes the program again. Hands over the unread input, and the questions without an answer.
    fn restart_in_place(&self, client: &Client, cause: &Cause) {
        let recovery = client.session.recovery();
        let Some(mut handover) = recovery.decide(cause, Moment::now()) else {
            return client.answer_deferred();
        };
        let unread = client.suspend(!matches!(cause, Cause::Died(_)));
        // Wait for the calls that write, with their answers, and let no other begin to.
        let _no_writing = Writing::forbid();
        let Some((handed, repeated)) = client.hand_over(&unread) else { return };
        handover.client = handed;
        handover.project = client.session.project_folder();
        (self.execute)(handover);
        // Go on without Lisp.
        recovery.give_up();
        client.output.send(&repeated.iter().flat_map(UnansweredCall::error).collect::<Vec<u8>>());
        client.answer_deferred();
        client.input.resume();
    }
}

impl Client {
    /// Answers the questions that Lisp's death interrupted, and that no later process will repeat.
    fn answer_deferred(&self) {
        let failed = self.calls.take_deferred().into_iter().flat_map(|call| call.error());
        self.output.send(&failed.collect::<Vec<u8>>());
    }

    /// Defers a question that Lisp's death interrupted to the next process. False if none comes.
    pub(super) fn defer_to_next_process(&self, serial: u64, failed: &[u8]) -> bool {
        if !self.session.will_restart() {
            return false;
        }
        self.calls.defer(serial, failed);
        // Check again: a decision against a restart may have come meanwhile.
        if !self.session.will_restart() {
            self.answer_deferred();
        }
        true
    }
}
