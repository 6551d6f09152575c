//! Executes the program again in place, with the same client: hands over the state, and answers or repeats
//! the calls.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use rmcp::model::ErrorData;

use super::message;
use super::server::{GRACE, Server};
use crate::engine::Writing;
use crate::recovery::{Cause, Handover, Moment};

/// The means to restart a server in another image of the program.
pub struct Again {
    /// Receives the causes of restarts, from [`crate::recovery::Recovery::arm`].
    pub causes: Receiver<Cause>,
    /// The handover of the image before this one.
    pub handover: Option<Handover>,
    /// Executes the program again with the handover. Returns only if that fails.
    pub execute: Box<dyn Fn(Handover) -> io::Error + Send>,
}

impl std::fmt::Debug for Again {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Again").field("takes_over", &self.handover.is_some()).finish_non_exhaustive()
    }
}

impl Server {
    /// Ends the calls, and executes the program again. Hands over the unread input, and the questions without
    /// an answer.
    pub(super) fn start_again(&self, cause: &Cause, execute: &dyn Fn(Handover) -> io::Error) {
        let recovery = self.session.recovery();
        let Some(mut handover) = recovery.decide(cause, Moment::now()) else {
            return self.answer_left();
        };
        let unread = self.input.halt();
        let reads = || !self.output.is_gone();
        // Wait for the calls that end soon: those that waited for a dead Lisp get its error, and questions to
        // the index end by themselves. A Lisp that lives may have long work, which is not waited for.
        let brief = !matches!(cause, Cause::Died(_));
        self.calls.wait_for_answers(brief, Instant::now() + GRACE, reads);
        // Wait for those that write, with their answers, and let no other begin to.
        let _no_writing = Writing::forbid();
        let (mut line, mut again) = (Vec::new(), Vec::new());
        for call in self.calls.take_unanswered() {
            match call.line {
                Some(asked) => {
                    handover.unread.extend_from_slice(&asked);
                    handover.unread.push(b'\n');
                    again.push((call.id, call.failed));
                }
                None => message::write_error(&mut line, Some(&call.id), &lost()),
            }
            call.cancellation.cancel();
        }
        handover.unread.extend_from_slice(&unread);
        self.output.add(&line);
        self.calls.wait_until_none(None, reads);
        self.output.drain(None);
        if self.output.is_gone() {
            return;
        }
        handover.input = self.input.stream().as_raw_fd();
        handover.output = self.output.stream().as_raw_fd();
        handover.protocol = serde_json::to_string(&*self.protocol.lock()).unwrap_or_default();
        handover.project = self.session.project_folder();
        execute(handover);
        // Go on without Lisp.
        recovery.give_up();
        let mut line = Vec::new();
        for (id, failed) in again {
            match failed {
                Some(failed) => line.extend_from_slice(&failed),
                None => message::write_error(&mut line, Some(&id), &lost()),
            }
        }
        self.output.send(&line);
        self.answer_left();
        self.input.resume();
    }

    /// Answers the questions that Lisp's death interrupted, and that no later image will repeat.
    fn answer_left(&self) {
        let failed = self.calls.take_left().into_iter().filter_map(|call| call.failed);
        self.output.send(&failed.flatten().collect::<Vec<u8>>());
    }

    /// Leaves a question that Lisp's death interrupted to the next image. False if none comes.
    pub(super) fn leave_to_next(&self, serial: u64, failed: &[u8]) -> bool {
        if !self.session.comes_back() {
            return false;
        }
        self.calls.leave_unanswered(serial, failed);
        // Check again: a decision against a restart may have come meanwhile.
        if !self.session.comes_back() {
            self.answer_left();
        }
        true
    }
}

/// Makes the error for a call that ran code when Lisp was restarted.
fn lost() -> ErrorData {
    let why = "Lisp was started again while this ran. What was done of it is lost: ask again.";
    ErrorData::internal_error(why, None)
}
