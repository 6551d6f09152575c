//! Tests the queue, the tickets, the watch's checks and the record of a death under many thread
//! schedules with shuttle: every job gets exactly one outcome, and the correct one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use shuttle::thread;

use super::answers::{CallError, Expired, Lane, LispError};
use super::death::Death;
use super::queue::{JobQueue, LaneThread};
use super::ticket::{Job, Ticket, job};
use super::watch::{
    COLLECTING, INTERRUPT_EVERY, LATE_AFTER, LaneActions, STARVED, TAKEOVER_AFTER, UNWINDING,
    enforce_deadlines,
};

const SCHEDULES: usize = 500;
const SECOND: Duration = Duration::from_secs(1);

fn queue() -> &'static JobQueue {
    let queue: &'static JobQueue = Box::leak(Box::new(JobQueue::new()));
    queue.enter(Lane::Query);
    queue
}

fn submitted(queue: &'static JobQueue, allowed: Duration) -> Ticket<()> {
    // There is no Lisp here, so the body is never called: the tests act as the Lisp thread.
    let (job, ticket) = job(queue, Lane::Query, allowed, None, |_| Ok(()));
    queue.push(job);
    ticket
}

/// Runs the watch's check on the lane, with a Lisp that takes orders.
fn check(queue: &JobQueue, now: Instant) -> LaneActions {
    check_lane(queue, now, true, Duration::ZERO)
}

fn check_lane(queue: &JobQueue, now: Instant, reacts: bool, waited: Duration) -> LaneActions {
    let mut actions = queue.lane(Lane::Query).with(|state| enforce_deadlines(state, now, reacts, |_| waited));
    for (job_state, error) in actions.ended.drain(..) {
        job_state.fail(error).deliver();
    }
    actions
}

/// Acts as a Lisp thread that runs a job until the job is stopped: enters Lisp and leaves again.
fn stopped(queue: &JobQueue, job: &Job, generation: u64) {
    if let Ok(call) = queue.begin_call(Lane::Query, generation, Instant::now(), None) {
        thread::yield_now();
        queue.end_call(Lane::Query, call);
    }
    job.job_state.fail(queue.end(&job.job_state)).deliver();
    queue.finish(Lane::Query, generation);
}

/// A client that floods a lane delays another client by one job.
#[test]
fn lane_serves_clients_in_turn() {
    shuttle::check_random(
        || {
            let queue = queue();
            let mut tickets = Vec::new();
            for client in [1, 1, 1, 1, 2, 3, 2] {
                super::ticket::submit_for_client(client);
                tickets.push(submitted(queue, SECOND));
            }
            let taken = || {
                let job = queue.next(Lane::Query, 0).unwrap();
                stopped(queue, &job, 0);
                job.client
            };
            assert_eq!([(); 7].map(|()| taken()), [1, 2, 3, 1, 2, 1, 1]);
            super::ticket::submit_for_client(0);
        },
        1,
    );
}

/// Whenever Lisp dies, every waiting caller gets the death as its error, not an interruption.
#[test]
fn a_death_reaches_every_job() {
    shuttle::check_random(
        || {
            let queue = queue();
            let tickets = [submitted(queue, SECOND), submitted(queue, SECOND)];
            let server = thread::spawn(move || {
                while let Some(job) = queue.next(Lane::Query, 0) {
                    if queue.begin_call(Lane::Query, 0, Instant::now(), None) != Err(CallError::Interrupted) {
                        // A thread that is inside Lisp when it dies never returns.
                        return;
                    }
                    job.job_state.fail(queue.end(&job.job_state)).deliver();
                }
            });
            let death = LispError::Dead { reason: "killed".to_owned() };
            let reason = death.clone();
            let exit_monitor = thread::spawn(move || {
                for job_state in queue.close(&reason) {
                    job_state.fail(reason.clone()).deliver();
                }
            });
            let late = thread::spawn(move || submitted(queue, SECOND).wait());
            for ticket in tickets {
                assert_eq!(ticket.wait(), Err(death.clone()));
            }
            assert_eq!(late.join().unwrap(), Err(death));
            exit_monitor.join().unwrap();
            server.join().unwrap();
        },
        SCHEDULES,
    );
}

/// A caller that has received what a job's code returned sees the lane as idle, even before the
/// lane's thread has recorded that the job has ended.
#[test]
fn lane_is_idle_once_outcome_is_delivered() {
    shuttle::check_random(
        || {
            let queue = queue();
            let ticket = submitted(queue, SECOND);
            let server = thread::spawn(move || {
                let job = queue.next(Lane::Query, 0).unwrap();
                job.job_state.end();
                job.job_state.fail(LispError::Cancelled).deliver();
                queue.finish(Lane::Query, 0);
            });
            assert_eq!(ticket.wait(), Err(LispError::Cancelled));
            assert_eq!(queue.taken_if_idle(Lane::Query), Some(1));
            server.join().unwrap();
        },
        SCHEDULES,
    );
}

/// If the watch runs late, a job that does not stop is answered before its lane is taken over. It
/// still has the usual time to stop after the first interrupt.
#[test]
fn late_watch_answers_before_takeover() {
    shuttle::check_random(
        || {
            let queue = queue();
            let ticket = submitted(queue, SECOND);
            let job = queue.next(Lane::Query, 0).unwrap();
            let call = queue.begin_call(Lane::Query, 0, Instant::now(), None).unwrap();
            let watch = thread::spawn(move || {
                let late = Instant::now() + 10 * SECOND;
                let first = check(queue, late);
                assert_eq!((first.interrupt, first.taken_over), (Some(call), false));
                assert!(!check(queue, late + UNWINDING).taken_over);
                assert!(check(queue, late + TAKEOVER_AFTER).taken_over);
            });
            let expected = LispError::DeadlinePassed { milliseconds: 1000, work: Expired::StillRunning };
            assert_eq!(ticket.wait(), Err(expected));
            watch.join().unwrap();
            // The next job waits for a new thread, and the old thread gets no more jobs.
            assert!(!queue.is_open(Lane::Query, 0));
            assert!(queue.begin_call(Lane::Query, 0, Instant::now(), None).is_err());
            queue.lane(Lane::Query).with(|state| assert_eq!(state.thread, LaneThread::Ordered));
            drop(job);
        },
        SCHEDULES,
    );
}

/// If a call does not stop at its limit, its job ends soon after, not at the job's deadline.
#[test]
fn unstoppable_call_ends_its_job() {
    shuttle::check_random(
        || {
            let queue = queue();
            let ticket = submitted(queue, 60 * SECOND);
            let job = queue.next(Lane::Query, 0).unwrap();
            let limit = Instant::now() + SECOND;
            let call = queue.begin_call(Lane::Query, 0, Instant::now(), Some(limit)).unwrap();
            let watch = thread::spawn(move || {
                assert_eq!(check(queue, limit).interrupt, Some(call));
                let late = limit + LATE_AFTER;
                assert!(!check(queue, late).taken_over);
                check(queue, late + UNWINDING);
                assert!(check(queue, late + TAKEOVER_AFTER).taken_over);
            });
            assert!(matches!(
                ticket.wait(),
                Err(LispError::DeadlinePassed { work: Expired::StillRunning, .. })
            ));
            watch.join().unwrap();
            drop(job);
        },
        SCHEDULES,
    );
}

/// If a garbage collection stops all threads, or other processes use the processors, a thread is
/// abandoned only after a longer time.
#[test]
fn starved_thread_is_not_abandoned() {
    for (reacts, is_starved, longer) in
        [(false, false, COLLECTING), (true, true, STARVED), (true, false, Duration::ZERO)]
    {
        shuttle::check_random(
            move || {
                let queue = queue();
                let ticket = submitted(queue, SECOND);
                let job = queue.next(Lane::Query, 0).unwrap();
                queue.begin_call(Lane::Query, 0, Instant::now(), None).unwrap();
                let late = Instant::now() + 10 * SECOND;
                let held = (0..)
                    .map(|step| late + step * INTERRUPT_EVERY)
                    .take_while(|now| {
                        let waited = if is_starved { SECOND + (*now - late) } else { SECOND };
                        !check_lane(queue, *now, reacts, waited).taken_over
                    })
                    .last()
                    .unwrap();
                assert_eq!(held + INTERRUPT_EVERY, late + TAKEOVER_AFTER + longer);
                assert!(ticket.wait().is_err());
                drop(job);
            },
            SCHEDULES / 5,
        );
    }
}

/// However the threads interleave, an expired job is reported as never begun if it did not enter
/// Lisp, and as stopped if it did.
#[test]
fn expiry_reports_whether_work_began() {
    shuttle::check_random(
        || {
            let queue = queue();
            let ticket = submitted(queue, SECOND);
            let entered = Arc::new(AtomicUsize::new(0));
            let enters = Arc::clone(&entered);
            let server = thread::spawn(move || {
                if let Some(job) = queue.next(Lane::Query, 0) {
                    if queue.begin_call(Lane::Query, 0, Instant::now(), None).is_ok() {
                        enters.store(1, Ordering::SeqCst);
                    }
                    job.job_state.fail(queue.end(&job.job_state)).deliver();
                    queue.finish(Lane::Query, 0);
                }
            });
            let watch = thread::spawn(move || check(queue, Instant::now() + 2 * SECOND));
            let outcome = ticket.wait();
            watch.join().unwrap();
            let work = match outcome {
                Err(LispError::DeadlinePassed { work, .. }) => work,
                other => panic!("{other:?}"),
            };
            // Without this, the server would wait forever on an empty queue.
            for job_state in queue.close(&LispError::Cancelled) {
                job_state.fail(LispError::Cancelled).deliver();
            }
            server.join().unwrap();
            let expected =
                if entered.load(Ordering::SeqCst) == 1 { Expired::Stopped } else { Expired::NeverBegan };
            assert_eq!(work, expected);
        },
        SCHEDULES,
    );
}

/// A listener is called once, whichever of the thread, the watch and a cancelling caller is first.
/// The listener's panic ends none of them.
#[test]
fn listener_runs_once_and_panics_are_caught() {
    shuttle::check_random(
        || {
            let queue = queue();
            let ticket = submitted(queue, SECOND);
            let interrupt = ticket.interrupt();
            let calls = Arc::new(AtomicUsize::new(0));
            let counter = Arc::clone(&calls);
            ticket.when_done(move |_| {
                counter.fetch_add(1, Ordering::SeqCst);
                // Bypass the panic hook, which would print a message.
                std::panic::resume_unwind(Box::new("the listener's own"));
            });
            let server = thread::spawn(move || {
                while let Some(job) = queue.next(Lane::Query, 0) {
                    stopped(queue, &job, 0);
                }
            });
            let watch = thread::spawn(move || {
                check(queue, Instant::now() + 2 * SECOND);
                check(queue, Instant::now() + 3 * SECOND);
            });
            let caller = thread::spawn(move || interrupt.stop());
            caller.join().unwrap();
            watch.join().unwrap();
            queue.close(&LispError::Cancelled);
            server.join().unwrap();
            assert_eq!(calls.load(Ordering::SeqCst), 1);
        },
        SCHEDULES,
    );
}

/// After a death has been reported to any caller, nothing enters the runtime: neither a call nor a
/// ping, which checks `is_open` like `OnLisp::ping`.
#[test]
fn no_entry_after_death_is_reported() {
    shuttle::check_random(
        || {
            let queue = queue();
            let ticket = submitted(queue, SECOND);
            let reported = Arc::new(AtomicUsize::new(0));
            let sets_reported = Arc::clone(&reported);
            ticket.when_done(move |_| sets_reported.store(1, Ordering::SeqCst));
            let server = thread::spawn(move || {
                let Some(job) = queue.next(Lane::Query, 0) else { return };
                for _ in 0..4 {
                    let dead = reported.load(Ordering::SeqCst) == 1;
                    let may_ping = queue.is_open(Lane::Query, 0);
                    let call = queue.begin_call(Lane::Query, 0, Instant::now(), None);
                    assert!(!dead || !may_ping && call == Err(CallError::Interrupted));
                    if let Ok(call) = call {
                        queue.end_call(Lane::Query, call);
                    }
                    thread::yield_now();
                }
                job.job_state.fail(queue.end(&job.job_state)).deliver();
            });
            let death = LispError::Dead { reason: "killed".to_owned() };
            for job_state in queue.close(&death) {
                job_state.fail(death.clone()).deliver();
            }
            server.join().unwrap();
            assert!(!queue.is_open(Lane::Query, 0) && !queue.is_open(Lane::Work, 0));
        },
        SCHEDULES,
    );
}

/// If two threads report a death at the same time, the recorded status and reason are both from the
/// first report.
#[test]
fn first_death_report_wins() {
    const REASONS: [&std::ffi::CStr; 2] = [c"the runtime called exit", c"Lisp's toplevel function returned"];
    shuttle::check_random(
        || {
            let death: &'static Death = Box::leak(Box::new(Death::new()));
            let (wake, woken) = shuttle::sync::mpsc::channel();
            let reporters = [0, 1].map(|reporter| {
                let wake = wake.clone();
                thread::spawn(move || {
                    if death.record(reporter, REASONS[usize::try_from(reporter).unwrap()].as_ptr()) {
                        wake.send(reporter).unwrap();
                    }
                })
            });
            drop(wake);
            let first = woken.recv().unwrap();
            assert_eq!(death.get(), (first, REASONS[usize::try_from(first).unwrap()].as_ptr()));
            for reporter in reporters {
                reporter.join().unwrap();
            }
            assert!(woken.recv().is_err(), "only the first reporter wakes the exit monitor");
            assert_eq!(death.get().0, first);
        },
        SCHEDULES,
    );
}
