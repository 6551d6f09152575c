//! When the runtime itself ends: the process lives, and says so to everybody who asks.

use std::time::Duration;

use steelbank::Steelbank;
use steelbank::engine::{Lane, LispError, Operation, State};
use steelbank::query::Error;
use steelbank::query::control::Control;
use steelbank::query::evaluate::EvaluateRequest;

use crate::child::{command, in_own_process, is_child, run};

/// Kills Lisp with `form` while other jobs run and wait. Everybody gets an error that has `reason` in it.
fn dies(form: &str, reason: &str) {
    let bank = Steelbank::builder().start().unwrap();
    let lisp = bank.lisp();
    let working = lisp.submit(Lane::Work, Duration::from_secs(60), None, |on_lisp| {
        on_lisp.call(Operation::Evaluate, &["CL-USER", "(sleep 50)"])
    });
    let waiting = lisp.submit(Lane::Work, Duration::from_secs(60), None, |on_lisp| {
        on_lisp.call(Operation::Evaluate, &["CL-USER", "1"])
    });
    std::thread::sleep(Duration::from_millis(100));

    let dead = |error: Error| match error {
        Error::Lisp(LispError::Dead { reason: why }) => assert!(why.contains(reason), "{why}"),
        other => panic!("{other:?}"),
    };
    let control = Control::new(Duration::from_secs(30));
    dead(EvaluateRequest::new(form).answer(lisp, Lane::Query, &control).unwrap_err());
    dead(Error::Lisp(working.wait().unwrap_err()));
    dead(Error::Lisp(waiting.wait().unwrap_err()));
    for _ in 0..3 {
        dead(bank.evaluate("(+ 1 1)", Duration::from_secs(30)).unwrap_err());
        dead(bank.describe_symbol("car", "CL").unwrap_err());
    }
    let error = bank.describe_symbol("car", "CL").unwrap_err().to_string();
    assert!(error.starts_with("Lisp has died: "), "{error}");
    assert!(matches!(bank.status().state, State::Dead { reason: why } if why.contains(reason)));
    // What the index answers, it answers without Lisp.
    assert!(bank.who_calls("mapcar", "CL").unwrap().count > 300);
    assert!(bank.who_references("*print-base*", "CL").unwrap().count >= 8);
}

#[test]
fn lose_in_the_runtime() {
    in_own_process("death::lose_in_the_runtime", || {
        dies(
            "(sb-alien:alien-funcall (sb-alien:extern-alien \"lose\" (function sb-alien:void sb-alien:c-string)) \"lost on purpose\")",
            "lost on purpose",
        );
    });
}

#[test]
fn lose_of_the_runtimes_own() {
    in_own_process("death::lose_of_the_runtimes_own", || {
        dies("(sb-sys:%primitive sb-c:halt)", "HALT");
    });
}

#[test]
fn abort_in_the_runtime() {
    in_own_process("death::abort_in_the_runtime", || {
        dies(
            "(sb-alien:alien-funcall (sb-alien:extern-alien \"abort\" (function sb-alien:void)))",
            "the runtime called abort",
        );
    });
}

#[test]
fn abort_on_another_lisp_thread() {
    in_own_process("death::abort_on_another_lisp_thread", || {
        dies(
            "(progn (sb-thread:make-thread
                     (lambda ()
                       (sb-alien:alien-funcall (sb-alien:extern-alien \"abort\" (function sb-alien:void)))))
                    (sleep 20))",
            "the runtime called abort",
        );
    });
}

#[test]
fn a_heap_that_fills_during_a_collection() {
    in_own_process("death::a_heap_that_fills_during_a_collection", || {
        // Without the guard of the heap, the collector runs out of room: the one death that users meet.
        let bank = Steelbank::builder().dynamic_space_size(512 << 20).start().unwrap();
        let error = bank
            .evaluate(
                "(sb-int:unencapsulate 'sb-kernel::post-gc 'steelbank::steelbank)
                 (let ((list '())) (loop (push (list 1 2 3) list)))",
                Duration::from_secs(120),
            )
            .unwrap_err();
        let text = error.to_string();
        assert!(text.contains("Lisp has died") || text.to_lowercase().contains("heap exhausted"), "{text}");
        let _ = bank.status();
        assert!(bank.who_calls("mapcar", "CL").unwrap().count > 300);
    });
}

#[test]
fn a_small_heap_is_survived() {
    in_own_process("death::a_small_heap_is_survived", || {
        let bank = Steelbank::builder().dynamic_space_size(512 << 20).start().unwrap();
        for form in [
            "(let ((list '())) (loop (push (make-array 100000) list)))",
            "(let ((list '())) (loop (push (list 1 2 3) list)))",
            "(let ((table (make-hash-table))) (loop for i from 0 do (setf (gethash i table) (list i))))",
            "(make-array 1000000000)",
            "(let ((s \"\")) (loop (setf s (concatenate 'string s (make-string 1000000)))))",
        ] {
            for _ in 0..2 {
                match bank.evaluate(form, Duration::from_secs(60)).unwrap_err() {
                    Error::Lisp(LispError::Fault(fault)) => {
                        assert_eq!(
                            fault.kind,
                            steelbank::engine::FaultKind::HeapExhausted,
                            "{form} {fault:?}"
                        );
                    }
                    other => panic!("{form}: {other:?}"),
                }
                assert_eq!(bank.evaluate("(+ 40 2)", Duration::from_secs(30)).unwrap().values, ["42"]);
            }
        }
    });
}

/// Not among the other faults: the loops go on, and would take the processor from every test after them.
#[test]
fn loops_without_interrupts() {
    in_own_process("death::loops_without_interrupts", || {
        let bank = Steelbank::builder().start().unwrap();
        let ask = |lane, form, allowed| {
            EvaluateRequest::new(form).answer(
                bank.lisp(),
                lane,
                &Control::new(Duration::from_millis(allowed)),
            )
        };
        for lane in [Lane::Query, Lane::Work] {
            let error = ask(lane, "(sb-sys:without-interrupts (loop))", 500).unwrap_err();
            let Error::Lisp(LispError::DeadlinePassed { milliseconds: 500, stopped: false }) = error else {
                panic!("{error:?}");
            };
            assert!(error.to_string().contains("could not be stopped"), "{error}");
            // The next job on the same lane gets a thread that is not the stuck one.
            assert_eq!(ask(lane, "(+ 40 2)", 60_000).unwrap().values, ["42"]);
            assert!(bank.describe_symbol("car", "CL").unwrap().description.is_some());
        }
        let status = bank.status();
        assert_eq!(status.abandoned_threads, 2);
        assert!(status.reports.iter().any(|report| report.contains("did not stop")), "{status:?}");
    });
}

#[test]
fn descriptors_that_lisp_closes() {
    const SOUND: i32 = 42;
    const NAME: &str = "death::descriptors_that_lisp_closes";
    if !is_child() {
        // The child has no descriptors left to print its verdict to, so it tells by its status.
        assert_eq!(run(&mut command(NAME)).status.code(), Some(SOUND));
        return;
    }
    let bank = Steelbank::builder().start().unwrap();
    bank.evaluate("(dolist (fd '(0 1 2)) (sb-unix:unix-close fd))", Duration::from_secs(30)).unwrap();
    for form in ["(princ 1)", "(warn \"heard\")", "(sb-ext:gc :full t)"] {
        bank.evaluate(form, Duration::from_secs(30)).unwrap();
    }
    let stack = bank.evaluate("(labels ((f () (1+ (f)))) (f))", Duration::from_secs(30)).unwrap_err();
    assert!(stack.to_string().to_lowercase().contains("stack"), "{stack}");
    assert!(bank.describe_symbol("car", "CL").unwrap().description.is_some());
    std::process::exit(SOUND);
}
