//! Tests of the runtime's death: the process survives, and each caller gets an error.

use std::time::Duration;
use steelbank::actions::uses::who::WhoRequest;
use steelbank::{Control, DescribeSymbolRequest, Error, Kind, Steelbank};

use steelbank::actions::run::evaluate::EvaluateRequest;
use steelbank::actions::run::trial::TrialFailureKind;
use steelbank::engine::{CallError, EngineState, Expired, FaultKind, Lane, LispError};

use crate::asks::Asks;
use crate::child::{Random, command, is_child, run, small_or_full, wait_until, wait_while};
use crate::texts::expect_text;

/// Kills Lisp with `form` while jobs run and wait. All of them must fail with `reason`.
fn dies(form: &str, reason: &str) {
    let bank = Steelbank::builder().start().unwrap();
    let lisp = bank.lisp();
    let working = lisp.submit(Lane::Work, Duration::from_secs(60), None, |on_lisp| {
        on_lisp.call("values", &["CL-USER", "(sleep 50)"])
    });
    let waiting = lisp.submit(Lane::Work, Duration::from_secs(60), None, |on_lisp| {
        on_lisp.call("values", &["CL-USER", "1"])
    });
    std::thread::sleep(Duration::from_millis(100));

    let dead = |error: Error| match error {
        Error::Lisp(LispError::Dead { reason: why }) => assert!(why.contains(reason), "{why}"),
        other => panic!("{other:?}"),
    };
    dead(bank.tried(Lane::Query, form, Duration::from_secs(30)).unwrap_err());
    dead(Error::Lisp(working.wait().unwrap_err()));
    dead(Error::Lisp(waiting.wait().unwrap_err()));
    for _ in 0..3 {
        dead(
            bank.run(&EvaluateRequest::new("(+ 1 1)").values(), &Control::new(Duration::from_secs(30)))
                .unwrap_err(),
        );
        dead(bank.refusal(&DescribeSymbolRequest::new("car").package("CL")));
    }
    assert!(matches!(bank.status().state, EngineState::Dead { reason: why } if why.contains(reason)));
    // Queries of the index need no Lisp.
    assert!(bank.answer(&WhoRequest::calls("mapcar").package("CL")).count > 300);
    assert!(bank.answer(&WhoRequest::new(Kind::References, "*print-base*").package("CL")).count >= 8);
}

#[test]
fn lose_in_the_runtime() {
    own_process!();
    dies(
        "(sb-alien:alien-funcall (sb-alien:extern-alien \"lose\" (function sb-alien:void sb-alien:c-string)) \"lost on purpose\")",
        "lost on purpose",
    );
}

/// Ends Lisp in several threads at once, each with a long reason. One thread's complete reason must
/// be reported.
#[test]
fn simultaneous_deaths_report_one_reason() {
    own_process!();
    let bank = Steelbank::builder().start().unwrap();
    let form = r#"
            (let ((go nil))
              (dotimes (i 8)
                (let ((reason (format nil "<~v@{~a~:*~}>" 900 i)))
                  (sb-thread:make-thread
                    (lambda ()
                      (loop until go)
                      (sb-alien:alien-funcall
                        (sb-alien:extern-alien "lose" (function sb-alien:void sb-alien:c-string)) reason)))))
              (sleep 1/2)
              (setf go t)
              (loop))"#;
    let error =
        bank.run(&EvaluateRequest::new(form).values(), &Control::new(Duration::from_secs(30))).unwrap_err();
    let Error::Lisp(LispError::Dead { reason }) = error else { panic!("{error:?}") };
    let said = reason.strip_prefix('<').and_then(|rest| rest.strip_suffix("> (exit status 1)"));
    let said = said.unwrap_or_else(|| panic!("{reason}"));
    assert_eq!(said.len(), 900, "{reason}");
    assert!(said.chars().all(|digit| said.starts_with(digit)), "{reason}");
}

/// A job that continues after Lisp's death must not enter Lisp again. Even a ping, which waits for
/// no Lisp thread, must be refused.
#[test]
fn dead_runtime_refuses_pings() {
    own_process!();
    let bank = Steelbank::builder().start().unwrap();
    let (started, starts) = std::sync::mpsc::channel();
    let (died, deaths) = std::sync::mpsc::channel();
    let (answered, answers) = std::sync::mpsc::channel();
    let ticket = bank.lisp().submit(Lane::Query, Duration::from_secs(60), None, move |on_lisp| {
        assert_eq!(on_lisp.ping(1), Ok(2));
        started.send(()).unwrap();
        deaths.recv().unwrap();
        answered.send(on_lisp.ping(1)).unwrap();
        Ok(())
    });
    starts.recv().unwrap();
    let form = "(sb-alien:alien-funcall (sb-alien:extern-alien \"lose\" (function sb-alien:void sb-alien:c-string)) \"gone\")";
    bank.run(&EvaluateRequest::new(form).values(), &Control::new(Duration::from_secs(30))).unwrap_err();
    assert!(matches!(ticket.wait(), Err(LispError::Dead { .. })));
    died.send(()).unwrap();
    assert_eq!(answers.recv().unwrap(), Err(CallError::Interrupted));
}

#[test]
fn halt_in_the_runtime() {
    own_process!();
    dies("(sb-sys:%primitive sb-c:halt)", "HALT");
}

/// Exhausts a stack again and again while it unwinds. The stack must not grow past its end: the
/// memory below belongs to another thread's stack.
#[test]
fn recursive_cleanup_forms_exhaust_the_stack() {
    own_process!();
    let bank = Steelbank::builder().start().unwrap();
    let form = "(labels ((f (n) (unwind-protect (1+ (f (1+ n))) (f n)))) (f 0))";
    let outcome = bank.tried(Lane::Work, form, Duration::from_secs(1));
    assert!(matches!(outcome, Err(Error::Lisp(LispError::DeadlinePassed { .. }))), "{outcome:?}");
    for lane in [Lane::Query, Lane::Work] {
        let next = bank.tried(lane, "(+ 40 2)", Duration::from_secs(60));
        assert_eq!(next.unwrap().values, ["42"]);
    }
}

#[test]
fn abort_in_the_runtime() {
    own_process!();
    dies("(sb-alien:alien-funcall (sb-alien:extern-alien \"abort\" (function sb-alien:void)))", "abort");
}

#[test]
fn abort_on_another_lisp_thread() {
    own_process!();
    dies(
        "(progn (sb-thread:make-thread
                     (lambda ()
                       (sb-alien:alien-funcall (sb-alien:extern-alien \"abort\" (function sb-alien:void)))))
                    (sleep 20))",
        "abort",
    );
}

#[test]
fn heap_exhausted_during_garbage_collection() {
    own_process!();
    // Without the heap's guard, the collector runs out of memory: the death that users are most
    // likely to see.
    let bank = Steelbank::builder().dynamic_space_size(512 << 20).start().unwrap();
    let error = bank
        .run(
            &EvaluateRequest::new(
                "(sb-int:unencapsulate 'sb-kernel::post-gc 'steelbank)
                 (let ((list '())) (loop (push (list 1 2 3) list)))",
            )
            .values(),
            &Control::new(Duration::from_secs(120)),
        )
        .unwrap_err();
    let is_expected = match &error {
        Error::Lisp(LispError::Fault(fault)) => fault.kind == FaultKind::HeapExhausted,
        other => matches!(other, Error::Lisp(LispError::Dead { .. })),
    };
    assert!(is_expected, "{error:?}");
    let _ = bank.status();
    assert!(bank.answer(&WhoRequest::calls("mapcar").package("CL")).count > 300);
}

#[test]
fn exhausted_heap_is_reported_and_survived() {
    own_process!();
    let bank = Steelbank::builder().dynamic_space_size(512 << 20).start().unwrap();
    for form in [
        "(let ((list '())) (loop (push (make-array 100000) list)))",
        "(let ((list '())) (loop (push (list 1 2 3) list)))",
        "(let ((table (make-hash-table))) (loop for i from 0 do (setf (gethash i table) (list i))))",
        "(make-array 1000000000)",
        "(let ((s \"\")) (loop (setf s (concatenate 'string s (make-string 1000000)))))",
    ] {
        for _ in 0..2 {
            match bank
                .run(&EvaluateRequest::new(form).values(), &Control::new(Duration::from_secs(60)))
                .unwrap_err()
            {
                Error::Lisp(LispError::Fault(fault)) => {
                    assert_eq!(fault.kind, steelbank::engine::FaultKind::HeapExhausted, "{form} {fault:?}");
                }
                other => panic!("{form}: {other:?}"),
            }
            assert_eq!(bank.values("(+ 40 2)"), ["42"]);
        }
    }
}

/// Runs in a separate process, because its loops never end and would slow down later tests.
#[test]
fn loops_without_interrupts_are_abandoned() {
    own_process!();
    let bank = Steelbank::builder().start().unwrap();
    let ask = |lane, form, allowed| bank.tried(lane, form, Duration::from_millis(allowed));
    for lane in [Lane::Query, Lane::Work] {
        let error = ask(lane, "(sb-sys:without-interrupts (loop))", 500).unwrap_err();
        let Error::Lisp(LispError::DeadlinePassed { milliseconds: 500, work: Expired::StillRunning }) = error
        else {
            panic!("{error:?}");
        };
        expect_text("deadline passed, still running", &error.to_string());
        // The lane's next job gets another thread.
        assert_eq!(ask(lane, "(+ 40 2)", 60_000).unwrap().values, ["42"]);
        assert!(bank.answer(&DescribeSymbolRequest::new("car").package("CL")).description.is_some());
    }
    let status = bank.status();
    assert_eq!(status.abandoned_threads, 2);
    expect_text("abandoned threads", &status.reports.join("\n"));
}

#[test]
fn descriptors_that_lisp_closes() {
    const SOUND: i32 = 42;
    const NAME: &str = "death::descriptors_that_lisp_closes";
    if !is_child() {
        // The child has no descriptors left for its output: its exit status is the result.
        assert_eq!(run(&mut command(NAME)).status.code(), Some(SOUND));
        return;
    }
    let bank = Steelbank::builder().start().unwrap();
    bank.values("(dolist (fd '(0 1 2)) (sb-unix:unix-close fd))");
    for form in ["(princ 1)", "(warn \"heard\")", "(sb-ext:gc :full t)"] {
        bank.values(form);
    }
    let stack = bank
        .run(
            &EvaluateRequest::new("(labels ((f () (1+ (f)))) (f))").values(),
            &Control::new(Duration::from_secs(30)),
        )
        .unwrap_err();
    assert!(stack.to_string().to_lowercase().contains("stack"), "{stack}");
    assert!(bank.answer(&DescribeSymbolRequest::new("car").package("CL")).description.is_some());
    std::process::exit(SOUND);
}

/// Evaluates `form`, which fails. The process must survive, and Lisp must work or have died with a
/// reason.
fn costs_lisp_at_worst(form: &str) {
    let bank = Steelbank::builder().start().unwrap();
    for lane in [Lane::Work, Lane::Query] {
        let begun = std::time::Instant::now();
        let outcome = bank.tried(lane, form, Duration::from_secs(4));
        assert!(outcome.is_err(), "{outcome:?}");
        assert!(begun.elapsed() < Duration::from_secs(20), "the deadline was missed: {outcome:?}");
        // Threads that the form started may still fill the heap.
        let again = || {
            bank.run(
                &EvaluateRequest::new("(progn (sb-ext:gc :full t) (+ 40 2))").values(),
                &Control::new(Duration::from_secs(30)),
            )
        };
        let next = (0..10).map(|_| again()).find(|next| {
            let over = next.is_ok() || matches!(bank.status().state, EngineState::Dead { .. });
            if !over {
                std::thread::sleep(Duration::from_millis(500));
            }
            over
        });
        match bank.status().state {
            EngineState::Dead { reason } => assert!(!reason.is_empty() && reason != "unknown"),
            _ => assert_eq!(next.unwrap().unwrap().values, ["42"]),
        }
        assert!(bank.answer(&WhoRequest::calls("mapcar").package("CL")).count > 300);
    }
}

/// Forms that exhaust the control stack: in calls, clean-up forms, handlers, the printer, the
/// reader and the compiler.
const OVERFLOWS: [&str; 14] = [
    "(labels ((f (n) (1+ (f (list n))))) (f 0))",
    "(labels ((f (n) (1+ (g (list n)))) (g (n) (1+ (f n)))) (f 0))",
    "(labels ((f (n) (unwind-protect (1+ (f (1+ n))) (list n)))) (f 0))",
    "(labels ((f (n) (unwind-protect (1+ (f (1+ n))) (princ-to-string n)))) (f 0))",
    "(labels ((f (n) (handler-case (1+ (f (1+ n))) (error () 0)))) (f 0))",
    "(labels ((f (n) (let ((*print-base* 10)) (catch 'x (1+ (f (1+ n))))))) (f 0))",
    "(labels ((f (n) (format nil \"~a\" (f (1+ n))))) (f 0))",
    "(labels ((f (n) (1+ (f (1+ n))))) (handler-bind ((storage-condition (lambda (c) (declare (ignore c)) (f 0)))) (f 0)))",
    "(labels ((f (n) (1+ (f (1+ n))))) (unwind-protect (f 0) (f 0)))",
    "(labels ((f (n) (declare (ignorable n)) (1+ (f (ignore-errors (error \"no\")))))) (f 0))",
    "(let ((m (sb-thread:make-mutex)))
       (labels ((f (n) (sb-thread:with-recursive-lock (m) (1+ (f (1+ n)))))) (f 0)))",
    "(let ((a (list 1)) (b (list 1))) (setf (car a) a (car b) b) (equal a b))",
    "(macrolet ((m (n) `(list (m ,(1+ n))))) (m 0))",
    "(read-from-string (make-string 500000 :initial-element #\\())",
];

#[test]
fn cancelled_stack_overflows_are_harmless() {
    own_process!();
    let bank = Steelbank::builder().control_stack_size(1 << 20).start().unwrap();
    let mut random = Random(20);
    for round in 0..small_or_full(200, 10_000) {
        let form = OVERFLOWS[random.below(OVERFLOWS.len())];
        let control = Control::new(Duration::from_secs(60));
        let (cancellation, moment) =
            (control.cancellation(), Duration::from_micros(random.below(15_000) as u64));
        let outcome = std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(moment);
                cancellation.cancel();
            });
            bank.run(&EvaluateRequest::new(form), &control)
        });
        match outcome {
            Ok(evaluation) => {
                let kind = evaluation.failure.map(|failure| failure.kind);
                let exhausted = TrialFailureKind::Fault(FaultKind::StackExhausted);
                assert_eq!(kind, Some(exhausted), "{round}: {form}");
            }
            Err(Error::Lisp(LispError::Cancelled)) => (),
            Err(error) => panic!("{round}: {form}: {error}"),
        }
        let status = bank.status();
        assert!(!matches!(status.state, EngineState::Dead { .. }), "{round}: {form}: {status:?}");
    }
    let next =
        bank.run(&EvaluateRequest::new("(+ 40 2)").values(), &Control::new(Duration::from_secs(60))).unwrap();
    assert_eq!(next.values, ["42"]);
    let status = bank.status();
    assert_eq!((status.abandoned_threads, status.reports), (0, Vec::new()));
}

/// A new thread reuses the stack of the previous thread.
#[test]
fn stacks_are_reusable_after_overflows() {
    own_process!();
    let bank = Steelbank::builder().control_stack_size(1 << 20).start().unwrap();
    let control = Control::new(Duration::from_secs(60));
    for form in OVERFLOWS.iter().chain(&["(labels ((f (n) (1+ (f (1+ n))))) (f 0))"]) {
        let threads = format!(
            "(loop repeat 8
                   collect (sb-thread:join-thread (sb-thread:make-thread (lambda () {form})) :default :ended))"
        );
        let ended = bank.run(&EvaluateRequest::new(&threads).values(), &control);
        let ended = ended.unwrap_or_else(|error| panic!("{form}: {error}"));
        assert_eq!(ended.values, [format!("({})", [":ENDED"; 8].join(" "))], "{form}");
    }
    assert_eq!(bank.run(&EvaluateRequest::new("(+ 40 2)").values(), &control).unwrap().values, ["42"]);
}

/// The kernel cannot write a signal frame if the stack ends just before the guard page.
#[test]
fn interrupt_without_room_for_its_frame() {
    own_process!();
    let bank = Steelbank::builder().start().unwrap();
    for room in [200, 800, 1600, 2500] {
        let form = format!(
            "(let ((guards-end (+ (* 2 sb-c:+backend-page-bytes+)
                                  (sb-sys:sap-int (sb-vm::current-thread-offset-sap sb-vm::thread-control-stack-start-slot)))))
               (labels ((f ()
                          (if (< (- (sb-sys:sap-int (sb-vm::current-sp)) guards-end) {room}) (loop) (1+ (f)))))
                 (f)))"
        );
        for lane in [Lane::Work, Lane::Query] {
            let outcome = bank.tried(lane, form.as_str(), Duration::from_millis(300));
            assert!(outcome.is_err(), "{room}: {outcome:?}");
            let control = Control::new(Duration::from_secs(60));
            let next = bank.run(&EvaluateRequest::new("(+ 40 2)").values(), &control).unwrap();
            assert_eq!(next.values, ["42"], "{room}");
        }
    }
    let status = bank.status();
    assert_eq!((status.abandoned_threads, status.reports), (0, Vec::new()));
}

/// Once all guard pages are in use, there is no room for a signal frame in C code, either. C code
/// cannot be unwound.
#[test]
fn signal_in_c_with_used_guard_pages() {
    own_process!();
    let bank = Steelbank::builder().start().unwrap();
    let form = "(let ((start (sb-sys:sap-int (sb-vm::current-thread-offset-sap sb-vm::thread-control-stack-start-slot))))
                  (labels ((f (n) (1+ (f (1+ n))))
                           (interrupted-above (left)
                             (if (< (- (sb-sys:sap-int (sb-vm::current-sp)) start) left)
                                 (sb-alien:alien-funcall
                                  (sb-alien:extern-alien \"raise\" (function sb-alien:int sb-alien:int)) 23)
                                 (1+ (interrupted-above left)))))
                    (handler-bind ((storage-condition
                                     (lambda (c)
                                       (declare (ignore c))
                                       (interrupted-above (+ sb-c:+backend-page-bytes+ 1500))
                                       ;; This uses the second half of the hard guard page.
                                       (interrupted-above (+ (floor sb-c:+backend-page-bytes+ 2) 1500))
                                       (interrupted-above (+ 4096 1500)))))
                      (f 0))))";
    for _ in 0..3 {
        let control = Control::new(Duration::from_secs(60));
        let outcome = bank.run(&EvaluateRequest::new(form), &control).unwrap();
        let kind = outcome.failure.map(|failure| failure.kind);
        assert_eq!(kind, Some(TrialFailureKind::Fault(FaultKind::StackExhausted)));
        let next = bank.run(&EvaluateRequest::new("(progn (gc) (+ 40 2))").values(), &control).unwrap();
        assert_eq!(next.values, ["42"]);
    }
    let status = bank.status();
    assert_eq!((status.abandoned_threads, status.reports), (0, Vec::new()));
}

#[test]
fn recursive_cleanup_form_costs_lisp_at_worst() {
    own_process!();
    costs_lisp_at_worst("(labels ((f (n) (unwind-protect (1+ (f (1+ n))) (f n)))) (f 0))");
}

#[test]
fn recursive_overflow_handler_costs_lisp_at_worst() {
    own_process!();
    costs_lisp_at_worst(
        "(labels ((f (n) (1+ (f (1+ n)))))
               (handler-bind ((storage-condition (lambda (c) (declare (ignore c)) (f 0)))) (f 0)))",
    );
}

#[test]
fn tracing_everything_costs_lisp_at_worst() {
    own_process!();
    costs_lisp_at_worst("(progn (trace \"SB-IMPL\") (error \"traced\"))");
}

#[test]
fn full_heap_in_threads_costs_at_most_lisp() {
    own_process!();
    costs_lisp_at_worst(
            "(let ((threads (loop repeat 4 collect
                              (sb-thread:make-thread (lambda () (let ((l nil)) (loop (push (make-array 50000) l))))))))
               (mapc #'sb-thread:join-thread threads))",
        );
}

#[test]
fn full_heap_fails_the_job_that_filled_it() {
    own_process!();
    let bank = Steelbank::builder().dynamic_space_size(512 << 20).start().unwrap();
    let lisp = bank.lisp();
    let filler = "(let ((all '())) (loop (push (make-array 20000) all) (sleep 0.001)))";
    let filling = lisp.submit(Lane::Work, Duration::from_secs(120), None, move |on_lisp| {
        on_lisp.call("values", &["CL-USER", filler])
    });
    // The other jobs trigger the collections that find the heap full.
    let (tell, told) = std::sync::mpsc::channel();
    filling.when_done(move |outcome| tell.send(outcome).unwrap());
    let mut collected = 0;
    let filled = loop {
        let other = bank.tried(Lane::Query, "(progn (sb-ext:gc) (+ 40 2))", Duration::from_secs(60));
        assert_eq!(other.unwrap().values, ["42"], "{collected}");
        collected += 1;
        if let Ok(filled) = told.try_recv() {
            break filled;
        }
    };
    match filled {
        Err(LispError::Fault(fault)) => assert_eq!(fault.kind, FaultKind::HeapExhausted),
        other => panic!("{other:?}"),
    }
}

/// A cancelled call has left the heap full. Later small jobs on any lane must not fail.
#[test]
fn full_heap_does_not_fail_later_jobs() {
    own_process!();
    let bank = Steelbank::builder().dynamic_space_size(512 << 20).start().unwrap();
    let lisp = bank.lisp();
    let small = |lane: Lane, round: u64| {
        let form = format!("(progn (length (make-array 100000)) (sb-ext:gc) {round})");
        let answer = bank.tried(lane, &form, Duration::from_secs(60));
        assert_eq!(
            answer.unwrap_or_else(|error| panic!("{lane:?}, {round}: {error}")).values,
            [round.to_string()]
        );
    };
    let filler = "(let ((all '())) (loop (push (make-array 10000) all)))";
    let mut random = Random(10);
    for round in 0..small_or_full(30, 500) {
        let (lane, other) =
            if random.below(2) == 0 { (Lane::Work, Lane::Query) } else { (Lane::Query, Lane::Work) };
        let allowed = Duration::from_millis(20 + random.below(600) as u64);
        let filling =
            lisp.submit(lane, allowed, None, move |on_lisp| on_lisp.call("values", &["CL-USER", filler]));
        let (tell, told) = std::sync::mpsc::channel();
        filling.when_done(move |outcome| tell.send(outcome).unwrap());
        let ended = loop {
            small(other, round);
            if let Ok(ended) = told.try_recv() {
                break ended;
            }
        };
        match ended {
            Err(LispError::Fault(fault)) => assert_eq!(fault.kind, FaultKind::HeapExhausted),
            Err(LispError::DeadlinePassed { .. }) => (),
            other => panic!("{round}: {other:?}"),
        }
        for lane in [lane, other, lane] {
            small(lane, round);
        }
    }
    // The job that fills the heap with live data fails. Later jobs succeed.
    let keeper = "(progn (defvar cl-user::*kept* '()) (loop (push (make-array 100000) cl-user::*kept*)))";
    let control = Control::new(Duration::from_secs(60));
    let error = bank.tried(Lane::Work, keeper, Duration::from_secs(60)).unwrap_err();
    assert!(
        matches!(&error, Error::Lisp(LispError::Fault(fault)) if fault.kind == FaultKind::HeapExhausted),
        "{error:?}"
    );
    for (lane, round) in [(Lane::Work, 0), (Lane::Query, 1), (Lane::Work, 2)] {
        small(lane, round);
    }
    assert!(lisp.is_full());
    // A job that fills the rest of the heap fails, too.
    let error = bank.tried(Lane::Work, filler, Duration::from_secs(60)).unwrap_err();
    assert!(
        matches!(&error, Error::Lisp(LispError::Fault(fault)) if fault.kind == FaultKind::HeapExhausted),
        "{error:?}"
    );
    small(Lane::Query, 3);
    bank.run(&EvaluateRequest::new("(setf cl-user::*kept* '())"), &control).unwrap();
    assert!(!lisp.is_full());
    let status = bank.status();
    assert_eq!((status.abandoned_threads, status.reports), (0, Vec::new()));
}

#[test]
fn thread_that_blocks_garbage_collection_is_reported() {
    own_process!();
    let bank = Steelbank::builder().start().unwrap();
    // The collection waits for the thread, and all other threads wait for the collection.
    let blocking = "(sb-thread:make-thread (lambda () (sb-sys:without-gcing (loop))))
                    (sleep 0.1) (sb-sys:without-interrupts (sb-ext:gc :full t))";
    // An answer also waits for the refresh of the index.
    let begun = std::time::Instant::now();
    let control = Control::new(Duration::from_secs(4));
    let error = bank.run(&EvaluateRequest::new(blocking), &control).unwrap_err();
    let is_own = matches!(error, Error::Lisp(LispError::DeadlinePassed { milliseconds: 4000, .. }));
    assert!(is_own, "{error:?}");
    assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
    // The thread never continues, so Lisp is reported dead.
    wait_until("Lisp is not reported dead", || matches!(bank.status().state, EngineState::Dead { .. }));
    let EngineState::Dead { reason } = bank.status().state else { unreachable!() };
    expect_text("unresponsive", &reason);
    assert!(bank.answer(&WhoRequest::calls("mapcar").package("CL")).count > 300);
}

/// Work that never ends holds a lock that the printer and CLOS need. No query can be answered, so
/// Lisp is ended.
#[test]
fn lock_that_is_never_released_ends_lisp() {
    own_process!();
    let bank = Steelbank::builder().start().unwrap();
    let ask = |lane, form| bank.tried(lane, form, Duration::from_secs(2)).unwrap_err();
    ask(Lane::Work, "(sb-c::with-world-lock () (sb-sys:without-interrupts (loop)))");
    let since = std::time::Instant::now();
    while !matches!(bank.status().state, EngineState::Dead { .. }) {
        assert!(since.elapsed() < Duration::from_secs(60), "{:?}", bank.status());
        ask(Lane::Query, "(sb-sys:without-interrupts (sb-c::with-world-lock () 1))");
    }
    let EngineState::Dead { reason } = bank.status().state else { unreachable!() };
    expect_text("lock", &reason);
    assert!(bank.answer(&WhoRequest::calls("mapcar").package("CL")).count > 300);
}

/// Runs `body` as the test `name` in a child process, which must end by `signal`.
fn ends_by(name: &str, signal: i32, body: impl FnOnce()) {
    use std::os::unix::process::ExitStatusExt;
    if is_child() {
        body();
        std::thread::sleep(Duration::from_secs(60));
        std::process::exit(0);
    }
    let output = run(&mut command(name));
    assert_eq!(
        output.status.signal(),
        Some(signal),
        "{}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

const SIGABRT: i32 = 6;

#[test]
fn abort_outside_of_lisp_ends_the_process() {
    ends_by("death::abort_outside_of_lisp_ends_the_process", SIGABRT, || {
        let _bank = Steelbank::builder().start().unwrap();
        std::process::abort();
    });
}

#[test]
fn stack_overflow_outside_of_lisp_ends_the_process() {
    #[allow(unconditional_recursion)]
    fn deeper(depth: u64) -> u64 {
        std::hint::black_box(deeper(std::hint::black_box(depth + 1))) + 1
    }
    ends_by("death::stack_overflow_outside_of_lisp_ends_the_process", SIGABRT, || {
        let _bank = Steelbank::builder().start().unwrap();
        std::thread::spawn(|| deeper(0)).join().unwrap();
    });
}

#[test]
fn signal_handlers_of_the_host_stay() {
    own_process!();
    use std::sync::atomic::{AtomicUsize, Ordering};
    static HEARD: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn hears(_: i32) {
        HEARD.fetch_add(1, Ordering::SeqCst);
    }
    let before = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGCHLD, libc::SIGALRM];
    for signal in before {
        // SAFETY: the handler only counts.
        unsafe { libc::signal(signal, hears as *const () as libc::sighandler_t) };
    }
    let bank = Steelbank::builder().start().unwrap();
    for signal in before {
        // SAFETY: a signal to this process has no other effect than the handler's.
        unsafe { libc::kill(libc::getpid(), signal) };
    }
    let patience = std::time::Instant::now();
    wait_while(|| {
        HEARD.load(Ordering::SeqCst) < before.len() && patience.elapsed() < Duration::from_secs(30)
    });
    // Lisp's own thread may receive some of these signals again.
    assert!(HEARD.load(Ordering::SeqCst) >= before.len());
    // SBCL has a handler for SIGCHLD, but none for SIGINT and SIGTERM.
    let installed = "(sb-alien:extern-alien \"lisp_sig_handlers\" (array sb-alien:unsigned 64))";
    let installed =
        format!("(loop for signal in '(2 15 17) collect (plusp (sb-alien:deref {installed} signal)))");
    assert_eq!(bank.values(&installed), ["(NIL NIL T)"]);
    // Lisp's own signals work.
    bank.values("(sb-ext:run-program \"/bin/true\" '())");
    let error = bank
        .run(
            &EvaluateRequest::new("(sb-ext:with-timeout 0.1 (loop))").values(),
            &Control::new(Duration::from_secs(30)),
        )
        .unwrap_err();
    assert!(error.to_string().contains("Timeout"), "{error}");
}

#[test]
fn external_lisp_signals_are_harmless() {
    own_process!();
    steelbank::engine::block_lisp_signals();
    let bank = Steelbank::builder().start().unwrap();
    for _ in 0..100 {
        // SAFETY: the signals are handled or blocked by every thread of this process.
        unsafe {
            libc::kill(libc::getpid(), libc::SIGUSR2);
        }
        assert_eq!(bank.values("(progn (sb-ext:gc) 1)"), ["1"]);
    }
}

#[test]
fn cpu_profiler_does_not_disturb_questions() {
    own_process!();
    steelbank::engine::block_lisp_signals();
    let bank = Steelbank::builder().start().unwrap();
    bank.values(
        "(progn (require :sb-sprof)
               (funcall (intern \"START-PROFILING\" \"SB-SPROF\")
                        :max-samples 40000 :mode :cpu :sample-interval 0.001))",
    );
    let askers: Vec<_> = (0..4)
        .map(|_| {
            let bank = bank.clone();
            std::thread::spawn(move || {
                for _ in 0..100 {
                    assert!(
                        bank.answer(&DescribeSymbolRequest::new("car").package("CL")).description.is_some()
                    );
                    assert!(bank.answer(&WhoRequest::calls("mapcar").package("CL")).count > 300);
                }
            })
        })
        .collect();
    for asker in askers {
        asker.join().unwrap();
    }
}

#[test]
fn user_without_home_is_served() {
    for home in [None, Some("relative/home"), Some("")] {
        let mut command = command("death::user_without_home_is_served");
        if !is_child() {
            command.env_remove("HOME").envs(home.map(|home| ("HOME", home)));
            let output = run(&mut command);
            assert!(output.status.success(), "{home:?}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
    if is_child() {
        let bank = Steelbank::builder().start().unwrap();
        assert_eq!(bank.values("(+ 40 2)"), ["42"]);
    }
}
