//! Restarts the program in place, with the same clients: hands over the state, and answers or repeats the calls.

use super::calls::UnansweredCall;
use super::client::Client;
use super::server::McpServer;
use crate::doors::restart::RestartHooks;
use crate::engine::Writing;
use crate::handle::recovery::{Cause, Moment};

impl RestartHooks {
    /// Restarts for each cause, for as long as the process lasts.
    pub(super) fn run(&self, server: &McpServer) {
        while let Ok(cause) = self.causes.recv() {
            // Serve all pending requests for a restart with one.
            if self.causes.try_iter().any(|cause| cause == Cause::Asked) {
                server.recovery.forget_deaths();
            }
            self.restart_in_place(server, &cause);
        }
    }

    /// Ends the calls, and executes the program again. Hands over each client's unread input, and its questions without an
    /// answer.
    fn restart_in_place(&self, server: &McpServer, cause: &Cause) {
        // Let nobody join meanwhile.
        let clients = server.clients.lock();
        let Some(mut handover) = server.recovery.decide(cause, Moment::now()) else {
            return clients.iter().for_each(|client| client.answer_deferred());
        };
        let unread = Client::suspend(&clients, !matches!(cause, Cause::Died(_)));
        // Wait for the calls that write, with their answers, and let no other begin to.
        let _no_writing = Writing::forbid();
        let mut repeated = Vec::new();
        for (client, unread) in clients.iter().zip(&unread) {
            let others = self.listener.is_some();
            if let Some((handed, calls)) = client.hand_over(unread, others) {
                handover.clients.push(handed);
                repeated.push((client, calls));
            }
        }
        if handover.clients.is_empty() && self.listener.is_none() {
            return;
        }
        handover.listener = self.listener;
        handover.project = clients.first().and_then(|client| client.session.project_folder());
        (self.execute)(handover);
        // Go on without Lisp.
        server.recovery.give_up();
        for (client, calls) in repeated {
            client.output.send(&calls.iter().flat_map(UnansweredCall::error).collect::<Vec<u8>>());
            client.answer_deferred();
            client.input.resume();
        }
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
