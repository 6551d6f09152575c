//! Tests that any fault of Lisp code is answered with an error, and that later requests work.

use std::time::Duration;

use steelbank::actions::run::evaluate::EvaluateRequest;
use steelbank::engine::{Expired, FaultKind, Lane, LispError};
use steelbank::{Control, DescribeSymbolRequest, Error, LoadRequest, WhoRequest};

use crate::asks::Asks;
use crate::image::{bank, evaluate, fault, fault_on};
use crate::texts::expect_text;

/// Checks that Lisp works after a fault: both of its threads run code, and queries are answered.
fn sound() {
    computes(Lane::Work);
    answers();
}

/// Checks that the lane's thread runs code.
fn computes(lane: Lane) {
    let sum = bank().tried(lane, "(+ 40 2)", Duration::from_secs(60)).unwrap();
    assert_eq!(sum.values, ["42"]);
}

/// Checks that queries are answered.
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

/// Runs `source` with a time limit of half a second on each of Lisp's threads. Returns whether it
/// could be stopped.
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

/// Returns the variable's value as describe-symbol prints it, the error of printing it, and whether
/// it was truncated.
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
fn endless_loop_is_stopped() {
    assert!(runs_out_of_time("(loop)"));
}

#[test]
fn loop_with_handlers_is_stopped() {
    assert!(runs_out_of_time("(handler-bind ((t #'identity)) (loop (ignore-errors (sleep 1))))"));
}

#[test]
fn loop_in_a_cleanup_form_is_stopped() {
    assert!(runs_out_of_time("(unwind-protect (loop) (loop repeat 2 do (sleep 0.02)))"));
}

#[test]
fn deep_recursion_exhausts_the_stack() {
    for _ in 0..3 {
        fails("(labels ((f (n) (1+ (f (1+ n))))) (f 0))", FaultKind::StackExhausted);
    }
}

#[test]
fn one_object_exhausts_the_heap() {
    fails("(make-array (floor (sb-ext:dynamic-space-size) 8))", FaultKind::HeapExhausted);
}

#[test]
fn many_objects_exhaust_the_heap() {
    fails("(let ((list '())) (loop (push (make-array 100000) list)))", FaultKind::HeapExhausted);
    fails("(let ((list '())) (loop (push (list 1 2 3) list)))", FaultKind::HeapExhausted);
}

#[test]
fn memory_faults_are_errors() {
    for address in ["0", "4096"] {
        let source = format!("(sb-sys:sap-ref-8 (sb-sys:int-sap {address}) 0)");
        fails(&source, FaultKind::MemoryFault);
        let source = format!("(setf (sb-sys:sap-ref-8 (sb-sys:int-sap {address}) 0) 1)");
        fails(&source, FaultKind::MemoryFault);
    }
}

#[test]
fn exits_are_refused() {
    let forms = [
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
    ];
    let messages = forms.map(|form| fails(form, FaultKind::ExitRefused));
    expect_text("refused exits", &messages.join("\n"));
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
fn throws_to_foreign_tags_are_errors() {
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
fn interrupts_from_other_threads_are_survived() {
    // This test would interrupt other tests in the shared image.
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
    // The throw reaches the next call on that thread, but no later call.
    let _ = bank().run(&EvaluateRequest::new("t").values(), &Control::new(Duration::from_secs(5)));
    sound();
}

#[test]
fn the_debugger_is_never_entered() {
    expect_text("break", &fails("(break \"here\")", FaultKind::Error));
    let invoked = "(invoke-debugger (make-condition 'simple-error :format-control \"so\"))";
    expect_text("invoke-debugger", &fails(invoked, FaultKind::Error));
    fails("(progn (sb-ext:enable-debugger) (error \"with a debugger\"))", FaultKind::Error);
    fails(
        "(let ((*debugger-hook* (lambda (c h) (declare (ignore c h)) (throw 'nowhere 1)))) (error \"x\"))",
        FaultKind::Error,
    );
}

#[test]
fn unreportable_conditions_are_errors() {
    evaluate(
        "(define-condition cl-user::mute (error) () (:report (lambda (c s) (declare (ignore c s)) (error \"no\"))))",
    );
    expect_text("unreportable condition", &fails("(error 'cl-user::mute)", FaultKind::Error));
    evaluate("(define-condition cl-user::endless (error) () (:report (lambda (c s) (loop (print c s)))))");
    fails("(error 'cl-user::endless)", FaultKind::Error);
}

#[test]
fn misbehaving_print_object_gives_a_value_error() {
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
fn recursive_print_object_ends() {
    evaluate(
        "(defclass cl-user::nesting () ())
         (defmethod print-object ((object cl-user::nesting) stream) (format stream \"~s\" object))
         (defvar cl-user::*nesting* (make-instance 'cl-user::nesting))",
    );
    // The contract requires *print-circle*, which ends the recursion.
    assert_eq!(value("*nesting*").0, "#1=#1#");
}

#[test]
fn endless_print_object_is_truncated() {
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
fn huge_values_are_truncated() {
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
fn output_is_truncated_at_its_limit() {
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
fn reading_input_is_end_of_file() {
    for form in ["(read-line)", "(read)", "(read-char *terminal-io*)", "(read-line *query-io*)", "(y-or-n-p)"]
    {
        fails(form, FaultKind::EndOfFile);
    }
}

#[test]
fn unusual_names_are_answered() {
    let error = bank().refusal(&DescribeSymbolRequest::new("").package("CL"));
    expect_text("empty name", &error.to_string());
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
fn wrong_calls_of_lisp_are_errors() {
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
    expect_text("unknown question", &message);
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
fn job_past_its_deadline_never_begins() {
    let lisp = bank().lisp();
    let blocker = lisp.submit(Lane::Work, Duration::from_secs(60), None, |on_lisp| {
        on_lisp.call("values", &["CL-USER", "(sleep 30)"])
    });
    let waiting = lisp.submit(Lane::Work, Duration::from_millis(200), None, |on_lisp| {
        on_lisp.call("values", &["CL-USER", "1"])
    });
    let error = waiting.wait().unwrap_err();
    assert_eq!(error, LispError::DeadlinePassed { milliseconds: 200, work: Expired::NeverBegan });
    // Queries are answered while a job runs.
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
        let _ = bank().ask(&DescribeSymbolRequest::new(name).package("CL-USER"), &Control::default());
        let _ = bank().ask(&WhoRequest::calls(name).package("CL-USER"), &Control::default());
    }
    for name in ["NEVER-SEEN-BEFORE", "never seen", "NEVER-SEEN"] {
        // Pass a string: reading a symbol would intern it.
        assert_eq!(evaluate(&format!("(find-symbol (string {name:?}) :cl-user)")), ["NIL", "NIL"]);
        assert_eq!(evaluate(&format!("(find-symbol (string {name:?}) :keyword)")), ["NIL", "NIL"]);
    }
}

#[test]
fn timers_of_lisp_work() {
    let fault = fault("(sb-ext:with-timeout 0.2 (loop))");
    assert_eq!(fault.condition.as_deref(), Some("SB-EXT::TIMEOUT"));
    sound();
}

#[test]
fn child_processes_are_waited_for() {
    // Without SIGCHLD, SBCL would look for ended children only every ten seconds, and the deadline
    // would pass.
    let answer = bank()
        .run(&EvaluateRequest::new("(dotimes (i 5) (sb-ext:run-program \"/bin/sh\" '(\"-c\" \"echo heard; sleep 0.1\") :output *standard-output*))").values(), &Control::new(Duration::from_secs(9)))
        .unwrap();
    assert_eq!(answer.output, "heard\n".repeat(5));
    // The forked child ends, too, if the program does not exist.
    let none = "(handler-case (sb-ext:run-program \"/none/such\" '()) (error () :none))";
    let answer =
        bank().run(&EvaluateRequest::new(none).values(), &Control::new(Duration::from_secs(9))).unwrap();
    assert_eq!(answer.values, [":NONE"]);
}

#[test]
fn garbage_collection_does_not_stop_jobs() {
    for _ in 0..20 {
        evaluate("(sb-ext:gc :full t)");
    }
    sound();
}

#[test]
fn panic_in_a_listener_is_contained() {
    for lane in [Lane::Query, Lane::Work] {
        let quick = bank().lisp().submit(lane, Duration::from_secs(60), None, |_| Ok(1));
        quick.when_done(|_| panic!("the listener's own"));
        let slow = bank().lisp().submit(lane, Duration::from_millis(100), None, |on_lisp| {
            on_lisp.call("values", &["CL-USER", "(sleep 1)"])
        });
        slow.when_done(|_| panic!("a panic in the listener of a late job"));
        sound();
    }
    assert!(runs_out_of_time("(loop)"));
}

#[test]
fn blocked_listener_delays_no_deadline() {
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
fn job_is_a_future() {
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
    assert!(answer.bytes.windows(2).any(|bytes| bytes == b"42"));
}

#[test]
fn waiting_for_oneself_is_an_error() {
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
    expect_text("deadlock", &error.to_string());
    sound();
}

#[test]
fn maximal_deadline_is_accepted() {
    assert_eq!(bank().values("(+ 40 2)"), ["42"]);
    let control = Control::new(Duration::MAX);
    let load = bank().run(&LoadRequest::file("/no/such/file.lisp").failure_as_answer(), &control).unwrap();
    assert_ne!(load.status, steelbank::loaded::LoadStatus::Loaded);
    assert!(!bank().is_loading());
    sound();
}

#[test]
fn terminating_all_threads_is_survived() {
    // This test would interrupt other tests in the shared image.
    own_process!();
    // Test suites terminate all threads except the current thread.
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
fn malloc_is_never_interrupted() {
    // An unwind inside malloc would leave the arena locked, and the next malloc would hang.
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
        computes(Lane::Work);
    }
    sound();
}

#[test]
fn interrupts_during_garbage_collection_are_survived() {
    // Interrupt at several moments. Even if an interrupt fails and the lane's thread is abandoned,
    // Lisp must work afterwards.
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
fn allocating_recursion_exhausts_the_stack() {
    for _ in 0..100 {
        let fault = fault_on(Lane::Work, "(labels ((f (n) (1+ (f (list n))))) (f 0))");
        assert_eq!(fault.kind, FaultKind::StackExhausted, "{fault:?}");
    }
    sound();
}

#[test]
fn oversized_stack_array_exhausts_the_stack() {
    // The host maps memory below the stacks. An array must not reach it.
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
fn surrogates_in_names_are_answered() {
    evaluate(
        "(progn (intern (string (code-char #xD800)) :cl-user) (make-package (string (code-char #xDC00)))
                (defun cl-user::uses-after-surrogate () (mapcar #'car '())))",
    );
    let uses = bank().answer(&WhoRequest::calls("mapcar").package("CL"));
    let users = format!("{:?}", uses.users);
    assert!(users.contains("USES-AFTER-SURROGATE"), "{}", uses.count);
    evaluate("(delete-package (string (code-char #xDC00)))");
}
