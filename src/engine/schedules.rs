//! The orders in which the threads around a queue can run, tried by shuttle: every job ends in exactly one outcome, and
//! what it says is true.

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
    // Lisp is not here: these jobs are run by `serve` below, which does without the body.
    let (job, ticket) = job(queue, Lane::Query, allowed, None, |_| Ok(()));
    queue.push(job);
    ticket
}

/// Looks at the lane as the watch does, of a Lisp that takes orders.
fn look(queue: &JobQueue, now: Instant) -> LaneActions {
    look_at(queue, now, true, Duration::ZERO)
}

fn look_at(queue: &JobQueue, now: Instant, reacts: bool, waited: Duration) -> LaneActions {
    let mut actions = queue.lane(Lane::Query).with(|state| enforce_deadlines(state, now, reacts, |_| waited));
    for (job_state, error) in actions.ended.drain(..) {
        job_state.fail(error).deliver();
    }
    actions
}

/// Does what a Lisp thread does with a job that is stopped: enters Lisp, is stopped there, leaves.
fn stopped(queue: &JobQueue, job: &Job, generation: u64) {
    if let Ok(call) = queue.begin_call(Lane::Query, generation, Instant::now(), None) {
        thread::yield_now();
        queue.end_call(Lane::Query, call);
    }
    job.job_state.fail(queue.end(&job.job_state)).deliver();
    queue.finish(Lane::Query, generation);
}

/// A death at any moment, between the queue and the thread also: the waiting caller is told of the death, not of a
/// stop.
#[test]
fn a_death_reaches_every_job() {
    shuttle::check_random(
        || {
            let queue = queue();
            let tickets = [submitted(queue, SECOND), submitted(queue, SECOND)];
            let server = thread::spawn(move || {
                while let Some(job) = queue.next(Lane::Query, 0) {
                    if queue.begin_call(Lane::Query, 0, Instant::now(), None) != Err(CallError::Interrupted) {
                        // Inside of Lisp when it dies, the thread never comes back.
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

/// Whoever has the outcome of a job finds the lane idle, whatever its thread has still to do.
#[test]
fn who_has_an_outcome_finds_the_lane_idle() {
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

/// The watch may come as late as it likes: a job that does not stop is answered before its lane is taken over, and has
/// its time to stop after the first interrupt.
#[test]
fn a_watch_that_comes_late_answers_first() {
    shuttle::check_random(
        || {
            let queue = queue();
            let ticket = submitted(queue, SECOND);
            let job = queue.next(Lane::Query, 0).unwrap();
            let call = queue.begin_call(Lane::Query, 0, Instant::now(), None).unwrap();
            let watch = thread::spawn(move || {
                let late = Instant::now() + 10 * SECOND;
                let first = look(queue, late);
                assert_eq!((first.interrupt, first.taken_over), (Some(call), false));
                assert!(!look(queue, late + UNWINDING).taken_over);
                assert!(look(queue, late + TAKEOVER_AFTER).taken_over);
            });
            let expected = LispError::DeadlinePassed { milliseconds: 1000, work: Expired::StillRunning };
            assert_eq!(ticket.wait(), Err(expected));
            watch.join().unwrap();
            // The next job waits for another thread; the old one gets nothing more.
            assert!(!queue.is_open(Lane::Query, 0));
            assert!(queue.begin_call(Lane::Query, 0, Instant::now(), None).is_err());
            queue.lane(Lane::Query).with(|state| assert_eq!(state.thread, LaneThread::Ordered));
            drop(job);
        },
        SCHEDULES,
    );
}

/// A call that does not stop at the limit of its own does not take the rest of its job's time.
#[test]
fn a_call_that_does_not_stop_ends_its_job() {
    shuttle::check_random(
        || {
            let queue = queue();
            let ticket = submitted(queue, 60 * SECOND);
            let job = queue.next(Lane::Query, 0).unwrap();
            let limit = Instant::now() + SECOND;
            let call = queue.begin_call(Lane::Query, 0, Instant::now(), Some(limit)).unwrap();
            let watch = thread::spawn(move || {
                assert_eq!(look(queue, limit).interrupt, Some(call));
                let late = limit + LATE_AFTER;
                assert!(!look(queue, late).taken_over);
                look(queue, late + UNWINDING);
                assert!(look(queue, late + TAKEOVER_AFTER).taken_over);
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

/// A thread is not given up because the collector holds all of them, or other processes have the processors.
#[test]
fn a_thread_that_cannot_run_is_waited_for() {
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
                    .map(|look| late + look * INTERRUPT_EVERY)
                    .take_while(|now| {
                        let waited = if is_starved { SECOND + (*now - late) } else { SECOND };
                        !look_at(queue, *now, reacts, waited).taken_over
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

/// A look at any moment says of a job that waited that it never began, and of one that entered Lisp that it was
/// stopped.
#[test]
fn what_became_of_the_work_is_said_as_it_was() {
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
            let watch = thread::spawn(move || look(queue, Instant::now() + 2 * SECOND));
            let outcome = ticket.wait();
            watch.join().unwrap();
            let work = match outcome {
                Err(LispError::DeadlinePassed { work, .. }) => work,
                other => panic!("{other:?}"),
            };
            // Without a job left in the queue the server would wait for ever.
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

/// A listener is called once, whoever comes first: the thread, the watch or the caller who calls it off. Its panic ends
/// none of them.
#[test]
fn a_listener_hears_once_and_its_panic_ends_nobody() {
    shuttle::check_random(
        || {
            let queue = queue();
            let ticket = submitted(queue, SECOND);
            let interrupt = ticket.interrupt();
            let heard = Arc::new(AtomicUsize::new(0));
            let hears = Arc::clone(&heard);
            ticket.when_done(move |_| {
                hears.fetch_add(1, Ordering::SeqCst);
                // Without the hook, which would print it.
                std::panic::resume_unwind(Box::new("the listener's own"));
            });
            let server = thread::spawn(move || {
                while let Some(job) = queue.next(Lane::Query, 0) {
                    stopped(queue, &job, 0);
                }
            });
            let watch = thread::spawn(move || {
                look(queue, Instant::now() + 2 * SECOND);
                look(queue, Instant::now() + 3 * SECOND);
            });
            let caller = thread::spawn(move || interrupt.stop());
            caller.join().unwrap();
            watch.join().unwrap();
            queue.close(&LispError::Cancelled);
            server.join().unwrap();
            assert_eq!(heard.load(Ordering::SeqCst), 1);
        },
        SCHEDULES,
    );
}

/// Once anybody has been told of the death, nothing enters the runtime: no call, and no ping, which asks `is_open` as
/// `OnLisp::ping` does.
#[test]
fn what_enters_after_a_death_was_told_is_refused() {
    shuttle::check_random(
        || {
            let queue = queue();
            let ticket = submitted(queue, SECOND);
            let told = Arc::new(AtomicUsize::new(0));
            let tells = Arc::clone(&told);
            ticket.when_done(move |_| tells.store(1, Ordering::SeqCst));
            let server = thread::spawn(move || {
                let Some(job) = queue.next(Lane::Query, 0) else { return };
                for _ in 0..4 {
                    let dead = told.load(Ordering::SeqCst) == 1;
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

/// Two threads that end the runtime at once: one of them is first, and status and reason are its own.
#[test]
fn a_death_is_told_once_and_as_the_first_told_it() {
    const REASONS: [&std::ffi::CStr; 2] = [c"the runtime called exit", c"Lisp's toplevel function returned"];
    shuttle::check_random(
        || {
            let death: &'static Death = Box::leak(Box::new(Death::new()));
            let (wake, woken) = shuttle::sync::mpsc::channel();
            let tellers = [0, 1].map(|teller| {
                let wake = wake.clone();
                thread::spawn(move || {
                    if death.tell(teller, REASONS[usize::try_from(teller).unwrap()].as_ptr()) {
                        wake.send(teller).unwrap();
                    }
                })
            });
            drop(wake);
            let first = woken.recv().unwrap();
            assert_eq!(death.get(), (first, REASONS[usize::try_from(first).unwrap()].as_ptr()));
            for teller in tellers {
                teller.join().unwrap();
            }
            assert!(woken.recv().is_err(), "nobody else wakes the exit monitor");
            assert_eq!(death.get().0, first);
        },
        SCHEDULES,
    );
}
