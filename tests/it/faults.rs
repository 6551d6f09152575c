//! The fault matrix: whatever Lisp code does, it is answered, and so is the next question.

use std::time::Duration;

use steelbank::actions::run::evaluate::EvaluateRequest;
use steelbank::engine::{Expired, FaultKind, Lane, LispError};
use steelbank::{Control, DescribeSymbolRequest, Error, LoadRequest, WhoRequest};

use crate::asks::Asks;
use crate::image::{bank, evaluate, fault, fault_on};

/// Checks what must hold after every row: Lisp computes on both of its threads, describes and prints.
fn sound() {
    computes(Lane::Work);
    answers();
}

/// Checks that the lane's thread computes.
fn computes(lane: Lane) {
    let sum = bank().tried(lane, "(+ 40 2)", Duration::from_secs(60)).unwrap();
    assert_eq!(sum.values, ["42"]);
}

/// Checks that questions are answered.
fn answers() {
    computes(Lane::Query);
    let answer = bank().answer(&DescribeSymbolRequest::new("*print-base*").package("CL"));
    assert_eq!(answer.description.unwrap().variable.unwrap().value.as_deref(), Some("10"));
    assert!(bank().answer(&WhoRequest::calls("mapcar").package("CL")).count > 300);
}

fn fails(source: &str, kind: FaultKind) -> String {
    let fault = fault(source);
    assert_eq!(fault.kind, kind, "{source}: {fault:?}");
    sound();
    fault.message
}

/// Runs `source` with a time limit of half a second on each of Lisp's threads. True if it could be stopped.
fn runs_out_of_time(source: &str) -> bool {
    let [query, work] =
        [Lane::Query, Lane::Work].map(|lane| match bank().tried(lane, source, Duration::from_millis(500)) {
            Err(Error::Lisp(LispError::DeadlinePassed { milliseconds: 500, work })) => {
                sound();
                work == Expired::Stopped
            }
            other => panic!("{source}: {other:?}"),
        });
    assert_eq!(query, work);
    query
}

/// Returns the variable's value as describe-symbol prints it, the error of printing it, and whether it was
/// cut.
fn value(name: &str) -> (String, Option<String>, bool) {
    let variable = bank()
        .answer(&DescribeSymbolRequest::new(name).package("CL-USER"))
        .description
        .unwrap()
        .variable
        .unwrap();
    sound();
    (variable.value.unwrap(), variable.value_error, variable.value_cut)
}

#[test]
fn endless_loop() {
    assert!(runs_out_of_time("(loop)"));
}

#[test]
fn endless_loop_that_handles_everything() {
    assert!(runs_out_of_time("(handler-bind ((t #'identity)) (loop (ignore-errors (sleep 1))))"));
}

#[test]
fn loop_in_a_cleanup_form() {
    assert!(runs_out_of_time("(unwind-protect (loop) (loop repeat 2 do (sleep 0.02)))"));
}

#[test]
fn deep_recursion() {
    for _ in 0..3 {
        fails("(labels ((f (n) (1+ (f (1+ n))))) (f 0))", FaultKind::StackExhausted);
    }
}

#[test]
fn heap_exhaustion_by_one_object() {
    fails("(make-array (floor (sb-ext:dynamic-space-size) 8))", FaultKind::HeapExhausted);
}

#[test]
fn heap_exhaustion_bit_by_bit() {
    fails("(let ((list '())) (loop (push (make-array 100000) list)))", FaultKind::HeapExhausted);
    fails("(let ((list '())) (loop (push (list 1 2 3) list)))", FaultKind::HeapExhausted);
}

#[test]
fn memory_faults() {
    for address in ["0", "4096"] {
        let source = format!("(sb-sys:sap-ref-8 (sb-sys:int-sap {address}) 0)");
        fails(&source, FaultKind::MemoryFault);
        let source = format!("(setf (sb-sys:sap-ref-8 (sb-sys:int-sap {address}) 0) 1)");
        fails(&source, FaultKind::MemoryFault);
    }
}

#[test]
fn exits_are_refused() {
    for form in [
        "(sb-ext:exit)",
        "(sb-ext:exit :abort t)",
        "(sb-ext:exit :timeout 0)",
        "(sb-ext:exit :code 3)",
        "(sb-ext:quit)",
        "(uiop:quit 1)",
        "(sb-ext:save-lisp-and-die \"/nowhere/at.all\")",
        "(funcall (compile nil '(lambda () (sb-ext:exit))))",
        "(sb-alien:alien-funcall (sb-alien:extern-alien \"exit\" (function sb-alien:void sb-alien:int)) 1)",
        "(sb-alien:alien-funcall (sb-alien:extern-alien \"_exit\" (function sb-alien:void sb-alien:int)) 1)",
    ] {
        let message = fails(form, FaultKind::ExitRefused);
        assert!(message.contains("refused"), "{message}");
    }
}

#[test]
fn exits_of_other_threads_are_refused_and_reported() {
    for (number, form) in
        ["(sb-ext:exit)", "(sb-ext:exit :abort t)", "(sb-ext:exit :timeout 0)", "(error \"by itself\")"]
            .iter()
            .enumerate()
    {
        let values = evaluate(&format!(
            "(sb-thread:join-thread (sb-thread:make-thread (lambda () {form}) :name \"thread {number}\")
                                    :default :gone)"
        ));
        assert_eq!(values, [":GONE", ":ABORT"]);
        sound();
        let reports = bank().status().reports;
        assert!(reports.iter().any(|report| report.contains(&format!("thread {number}"))), "{reports:?}");
    }
}

#[test]
fn throws_to_the_tags_of_others() {
    for form in [
        "(throw 'sb-impl::%end-of-the-world t)",
        "(throw 'sb-impl::toplevel-catcher nil)",
        "(throw 'nobody 1)",
        "(sb-thread:abort-thread :allow-exit t)",
        "(sb-thread:abort-thread)",
        "(sb-thread:return-from-thread 1 :allow-exit t)",
        "(invoke-restart 'abort)",
        "(abort)",
    ] {
        for lane in [Lane::Query, Lane::Work] {
            let fault = fault_on(lane, form);
            assert!(matches!(fault.kind, FaultKind::Error | FaultKind::ExitRefused), "{form}: {fault:?}");
            sound();
        }
    }
}

#[test]
fn interrupts_from_other_threads() {
    // It interrupts what other tests do in an image that they share.
    own_process!();
    evaluate(
        "(let ((main (sb-thread:main-thread)))
               (sb-thread:join-thread
                (sb-thread:make-thread
                 (lambda ()
                   (sb-thread:make-thread
                    (lambda ()
                      (sleep 0.2)
                      (sb-thread:interrupt-thread main (lambda () (throw 'sb-impl::%end-of-the-world t)))))
                   nil))))",
    );
    std::thread::sleep(Duration::from_millis(600));
    // Spend the throw: it reaches the next call on that thread, and no later one.
    let _ = bank().run(&EvaluateRequest::new("t").values(), &Control::new(Duration::from_secs(5)));
    sound();
}

#[test]
fn the_debugger_is_never_entered() {
    assert!(fails("(break \"here\")", FaultKind::Error).contains("here"));
    assert!(
        fails("(invoke-debugger (make-condition 'simple-error :format-control \"so\"))", FaultKind::Error)
            .contains("so")
    );
    fails("(progn (sb-ext:enable-debugger) (error \"with a debugger\"))", FaultKind::Error);
    fails(
        "(let ((*debugger-hook* (lambda (c h) (declare (ignore c h)) (throw 'nowhere 1)))) (error \"x\"))",
        FaultKind::Error,
    );
}

#[test]
fn conditions_that_cannot_be_reported() {
    evaluate(
        "(define-condition cl-user::mute (error) () (:report (lambda (c s) (declare (ignore c s)) (error \"no\"))))",
    );
    assert!(fails("(error 'cl-user::mute)", FaultKind::Error).contains("MUTE"));
    evaluate("(define-condition cl-user::endless (error) () (:report (lambda (c s) (loop (print c s)))))");
    fails("(error 'cl-user::endless)", FaultKind::Error);
}

#[test]
fn print_object_that_misbehaves() {
    for (class, body) in [
        ("erring", "(error \"no picture of ~a\" 1)"),
        ("recursing", "(print-object object stream)"),
        ("looping", "(loop)"),
        ("sleeping", "(sleep 1000)"),
        ("exiting", "(sb-ext:exit :abort t)"),
        ("throwing", "(throw 'sb-impl::%end-of-the-world t)"),
    ] {
        evaluate(&format!(
            "(defclass cl-user::{class} () ())
             (defmethod print-object ((object cl-user::{class}) stream) (declare (ignorable stream)) {body})
             (defvar cl-user::*{class}* (make-instance 'cl-user::{class}))"
        ));
        let (value, error, _) = value(&format!("*{class}*"));
        assert_eq!(value, "<error printing value>", "{class}");
        assert!(error.is_some(), "{class}");
    }
}

#[test]
fn print_object_that_prints_its_object_again() {
    evaluate(
        "(defclass cl-user::nesting () ())
         (defmethod print-object ((object cl-user::nesting) stream) (format stream \"~s\" object))
         (defvar cl-user::*nesting* (make-instance 'cl-user::nesting))",
    );
    // *print-circle* is the contract's, and it ends the recursion.
    assert_eq!(value("*nesting*").0, "#1=#1#");
}

#[test]
fn print_object_that_writes_without_end() {
    evaluate(
        "(defstruct cl-user::endless-writer)
         (defmethod print-object ((object cl-user::endless-writer) stream) (loop (write-string \"again \" stream)))
         (defvar cl-user::*endless-writer* (cl-user::make-endless-writer))",
    );
    let (value, error, cut) = value("*endless-writer*");
    assert!(cut || error.is_some(), "{value} {error:?}");
    assert!(value.len() < 100_000);
}

#[test]
fn values_that_are_huge() {
    evaluate(
        "(defvar cl-user::*bignum* (1- (ash 1 6643856)))
         (defvar cl-user::*string* (make-string 50000000 :initial-element #\\a))
         (defvar cl-user::*circle* (let ((list (list 1 2 3))) (setf (cdddr list) list) list))
         (defvar cl-user::*deep* (let ((deep '())) (dotimes (i 100000 deep) (setf deep (list deep)))))
         (defvar cl-user::*tree* (let ((tree 1)) (dotimes (i 100000 tree) (setf tree (vector tree tree)))))",
    );
    let (text, error, cut) = value("*bignum*");
    assert!(cut || error.is_some(), "{} {error:?}", text.len());
    let (text, error, cut) = value("*string*");
    assert!(cut && error.is_none() && text.len() < 100_000, "{} {error:?} {cut}", text.len());
    assert_eq!(value("*circle*").0, "#1=(1 2 3 . #1#)");
    assert_eq!(value("*deep*").0, "(((#)))");
    assert_eq!(value("*tree*").0, "#(#1=#(#2=#(#3=# #3#) #2#) #1#)");
}

#[test]
fn output_is_kept_up_to_a_limit() {
    for stream in [
        "*standard-output*", "*error-output*", "*trace-output*", "*terminal-io*", "*query-io*",
        "uiop:*stdout*",
    ] {
        let answer = bank()
            .run(
                &EvaluateRequest::new(format!(
                    "(let ((text (make-string 1000000 :initial-element #\\x)))
                       (dotimes (i 100) (write-string text {stream})))"
                ))
                .values(),
                &Control::new(Duration::from_secs(60)),
            )
            .unwrap();
        assert_eq!(answer.output.len(), 100_000, "{stream}");
        assert_eq!(answer.output_dropped, 99_900_000, "{stream}");
        sound();
    }
    let answer = bank()
        .run(&EvaluateRequest::new("(princ \"kept\") 1").values(), &Control::new(Duration::from_secs(60)))
        .unwrap();
    assert_eq!((answer.output.as_str(), answer.output_dropped), ("kept", 0));
    assert_eq!(fault("(princ \"before the error\") (error \"x\")").output, "before the error");
}

#[test]
fn input_is_at_its_end() {
    for form in ["(read-line)", "(read)", "(read-char *terminal-io*)", "(read-line *query-io*)", "(y-or-n-p)"]
    {
        fails(form, FaultKind::EndOfFile);
    }
}

#[test]
fn arguments_that_are_no_plain_names() {
    let error = bank().refusal(&DescribeSymbolRequest::new("").package("CL"));
    assert!(error.to_string().contains("empty"), "{error}");
    for name in ["a\0b", "|a\0b|", "é", "🦀", &"x".repeat(1 << 20), &"|".repeat(3)] {
        let _ = bank().ask(&DescribeSymbolRequest::new(name).package("CL"), &Control::default());
        let _ = bank().ask(&DescribeSymbolRequest::new("car").package(name), &Control::default());
        let _ = bank().ask(&WhoRequest::calls(name).package(name), &Control::default());
        sound();
    }
    evaluate("(defvar cl-user::|a\0b| 7)");
    assert_eq!(value("|a\0b|").0, "7");
}

#[test]
fn the_boundary_refuses_misuse() {
    let misuse = |question, arguments: &'static [&'static str]| {
        let error = bank()
            .lisp()
            .run(Duration::from_secs(5), move |on_lisp| on_lisp.call(question, arguments))
            .unwrap_err();
        let LispError::Fault(fault) = error else { panic!("{error:?}") };
        (fault.kind, fault.message)
    };
    let wrong = (FaultKind::Error, "invalid number of arguments: 1".to_owned());
    assert_eq!(misuse("describe-symbol", &["one"]), wrong);
    assert_eq!(misuse("identify", &["one"]), wrong);
    let (kind, message) = misuse("no-such", &[]);
    assert_eq!(kind, FaultKind::Misuse);
    assert!(message.starts_with("This image does not know the question \"no-such\""), "{message}");
    sound();
}

#[test]
fn a_panic_in_a_job_is_an_error() {
    let error = bank().lisp().run::<()>(Duration::from_secs(5), |_| panic!("the job's own")).unwrap_err();
    assert!(matches!(&error, LispError::Panicked(text) if text == "the job's own"), "{error:?}");
    sound();
}

#[test]
fn a_cancelled_job_is_stopped() {
    for lane in [Lane::Query, Lane::Work] {
        let ticket = bank().lisp().submit(lane, Duration::from_secs(60), None, |on_lisp| {
            on_lisp.call("values", &["CL-USER", "(loop)"])
        });
        let interrupt = ticket.interrupt();
        std::thread::sleep(Duration::from_millis(50));
        interrupt.stop();
        assert_eq!(ticket.wait().unwrap_err(), LispError::Cancelled);
        sound();
    }
}

#[test]
fn a_job_that_waits_too_long_is_answered() {
    let lisp = bank().lisp();
    let blocker = lisp.submit(Lane::Work, Duration::from_secs(60), None, |on_lisp| {
        on_lisp.call("values", &["CL-USER", "(sleep 30)"])
    });
    let waiting = lisp.submit(Lane::Work, Duration::from_millis(200), None, |on_lisp| {
        on_lisp.call("values", &["CL-USER", "1"])
    });
    let error = waiting.wait().unwrap_err();
    assert_eq!(error, LispError::DeadlinePassed { milliseconds: 200, work: Expired::NeverBegan });
    assert!(error.to_string().ends_with("this never began"), "{error}");
    // Questions are answered beside the work.
    answers();
    blocker.interrupt().stop();
    assert_eq!(blocker.wait().unwrap_err(), LispError::Cancelled);
}

#[test]
fn questions_never_intern() {
    for name in [
        "never-seen-before", "cl-user::never-seen-before", "|never seen|", "keyword:never-seen",
        ":never-seen",
    ] {
        let _ = bank().answer(&DescribeSymbolRequest::new(name).package("CL-USER"));
        let _ = bank().answer(&WhoRequest::calls(name).package("CL-USER"));
    }
    for name in ["NEVER-SEEN-BEFORE", "never seen", "NEVER-SEEN"] {
        // The name is put together in Lisp, so that reading the form does not intern it either.
        assert_eq!(evaluate(&format!("(find-symbol (string {name:?}) :cl-user)")), ["NIL", "NIL"]);
        assert_eq!(evaluate(&format!("(find-symbol (string {name:?}) :keyword)")), ["NIL", "NIL"]);
    }
}

#[test]
fn timers_reach_lisp() {
    let fault = fault("(sb-ext:with-timeout 0.2 (loop))");
    assert_eq!(fault.condition.as_deref(), Some("SB-EXT::TIMEOUT"));
    sound();
}

#[test]
fn child_processes_are_waited_for() {
    // Fail by the deadline if SBCL is not told of ended children: by itself it looks for them every ten
    // seconds.
    let answer = bank()
        .run(&EvaluateRequest::new("(dotimes (i 5) (sb-ext:run-program \"/bin/sh\" '(\"-c\" \"echo heard; sleep 0.1\") :output *standard-output*))").values(), &Control::new(Duration::from_secs(9)))
        .unwrap();
    assert_eq!(answer.output, "heard\n".repeat(5));
    // The child that finds no program ends, too.
    let none = "(handler-case (sb-ext:run-program \"/none/such\" '()) (error () :none))";
    let answer =
        bank().run(&EvaluateRequest::new(none).values(), &Control::new(Duration::from_secs(9))).unwrap();
    assert_eq!(answer.values, [":NONE"]);
}

#[test]
fn collections_leave_jobs_alone() {
    for _ in 0..20 {
        evaluate("(sb-ext:gc :full t)");
    }
    sound();
}

#[test]
fn a_listener_that_panics_ends_nothing_else() {
    for lane in [Lane::Query, Lane::Work] {
        let quick = bank().lisp().submit(lane, Duration::from_secs(60), None, |_| Ok(1));
        quick.when_done(|_| panic!("the listener's own"));
        let slow = bank().lisp().submit(lane, Duration::from_millis(100), None, |on_lisp| {
            on_lisp.call("values", &["CL-USER", "(sleep 1)"])
        });
        slow.when_done(|_| panic!("the listener's own, of a job that was late"));
        sound();
    }
    assert!(runs_out_of_time("(loop)"));
}

#[test]
fn a_listener_that_waits_holds_up_no_deadline() {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let late = bank().lisp().submit(Lane::Query, Duration::from_millis(100), None, |on_lisp| {
        on_lisp.call("values", &["CL-USER", "(sb-sys:without-interrupts (sleep 1))"])
    });
    late.when_done(move |_| assert!(held.recv().is_err()));
    let error = bank().tried(Lane::Work, "(loop)", Duration::from_millis(500)).unwrap_err();
    assert!(matches!(error, Error::Lisp(LispError::DeadlinePassed { .. })), "{error:?}");
    drop(release);
    sound();
}

#[test]
fn a_job_can_be_awaited() {
    use std::pin::pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake, Waker};

    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut ticket = pin!(bank().lisp().submit(Lane::Query, Duration::from_secs(60), None, |on_lisp| {
        on_lisp.call("values", &["CL-USER", "(+ 40 2)"])
    }));
    let answer = loop {
        match ticket.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(outcome) => break outcome.unwrap(),
            Poll::Pending => std::thread::park(),
        }
    };
    assert!(String::from_utf8(answer.bytes).unwrap().contains("42"));
}

#[test]
fn to_wait_for_oneself_is_an_error_at_once() {
    let heard = std::sync::Arc::new(std::sync::Mutex::new(None));
    let hears = std::sync::Arc::clone(&heard);
    let listener: steelbank::engine::ProgressListener = std::sync::Arc::new(move |_| {
        *hears.lock().unwrap() =
            Some(bank().run(&EvaluateRequest::new("1").values(), &Control::new(Duration::from_secs(60))));
    });
    let job = bank().lisp().submit(Lane::Work, Duration::from_secs(60), Some(listener), |on_lisp| {
        on_lisp.call("values", &["CL-USER", "(steelbank::progress \"{}\")"])
    });
    job.wait().unwrap();
    let error = heard.lock().unwrap().take().unwrap().unwrap_err();
    assert!(matches!(error, Error::Lisp(LispError::WouldDeadlock { lane: Lane::Work })), "{error:?}");
    assert!(error.to_string().contains("ask from another thread"), "{error}");
    sound();
}

#[test]
fn all_the_time_there_is() {
    assert_eq!(bank().values("(+ 40 2)"), ["42"]);
    let control = Control::new(Duration::MAX);
    let load = bank().run(&LoadRequest::file("/no/such/file.lisp"), &control).unwrap();
    assert_ne!(load.status, steelbank::loaded::LoadStatus::Loaded);
    assert!(!bank().is_loading());
    sound();
}

#[test]
fn every_thread_is_told_to_end() {
    // It interrupts what other tests do in an image that they share.
    own_process!();
    // Interrupt all threads, as test suites do. The thread that carries out the host's orders is not among
    // them.
    for lane in [Lane::Query, Lane::Work] {
        bank().tried(lane, "(dolist (thread (sb-thread:list-all-threads))
                   (unless (eq thread sb-thread:*current-thread*) (ignore-errors (sb-thread:terminate-thread thread))))", Duration::from_secs(60))
            .unwrap();
        sound();
    }
    assert!(runs_out_of_time("(loop)"));
    sound();
}

#[test]
fn foreign_code_is_not_left_with_its_locks() {
    // Never interrupt malloc: unwound there, the arena's lock would stay taken, and the next malloc wait for
    // it.
    for _ in 0..40 {
        let error = bank()
            .tried(
                Lane::Work,
                "(loop (let ((blocks (loop repeat 20 collect (sb-alien:make-alien sb-alien:char 2000))))
                     (mapc #'sb-alien:free-alien blocks)))",
                Duration::from_millis(30),
            )
            .unwrap_err();
        assert!(matches!(error, Error::Lisp(LispError::DeadlinePassed { .. })), "{error:?}");
        // What still runs, on a machine that is busy, must end too.
        computes(Lane::Work);
    }
    sound();
}

#[test]
fn interrupts_during_collections() {
    // Repeat it: abandoned threads must not pile up, as eight would be Lisp's end.
    for allowed in [100, 300, 500] {
        let _ = bank().tried(
            Lane::Work,
            "(let ((kept (loop repeat 3000000 collect (list 1 2 3)))) (loop (sb-ext:gc :full t) (car kept)))",
            Duration::from_millis(allowed),
        );
        sound();
    }
}

#[test]
fn recursion_that_allocates() {
    for _ in 0..100 {
        let fault = fault_on(Lane::Work, "(labels ((f (n) (1+ (f (list n))))) (f 0))");
        assert_eq!(fault.kind, FaultKind::StackExhausted, "{fault:?}");
    }
    sound();
}

#[test]
fn a_stack_allocated_array_beyond_the_stack() {
    // The host maps what it needs right below the stacks, and an array must not end in it.
    let host: Vec<Vec<u8>> = (0..8).map(|_| Vec::with_capacity(512 << 20)).collect();
    for octets in [50_000_000_u64, 500_000_000, 1_000_000_000, 2_000_000_000, 4_000_000_000] {
        fails(
            &format!(
                "(progn (declaim (optimize (safety 0)))
                   (unwind-protect
                     (funcall (compile nil '(lambda ()
                       (declare (optimize (safety 0)))
                       (let ((a (make-array {octets} :element-type '(unsigned-byte 8))))
                         (declare (dynamic-extent a)) (setf (aref a 5) 1) (length a)))))
                     (declaim (optimize (safety 1)))))"
            ),
            FaultKind::StackExhausted,
        );
        evaluate("(sb-ext:gc :full t)");
    }
    drop(host);
    sound();
}

#[test]
fn names_that_utf_8_cannot_hold() {
    evaluate(
        "(progn (intern (string (code-char #xD800)) :cl-user) (make-package (string (code-char #xDC00)))
                (defun cl-user::uses-after-surrogate () (mapcar #'car '())))",
    );
    let uses = bank().answer(&WhoRequest::calls("mapcar").package("CL"));
    let users = format!("{:?}", uses.users);
    assert!(users.contains("USES-AFTER-SURROGATE"), "{}", uses.count);
    evaluate("(delete-package (string (code-char #xDC00)))");
}
