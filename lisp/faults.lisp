;;;; What can go wrong in code that the image runs, and how it is kept from taking the process along.

(in-package :steelbank)

(define-condition exit-refused (error)
  ((operator :initarg :operator :reader exit-refused-operator))
  (:report (lambda (condition stream)
             (format stream "~a was called. It would end the process that answers you, so it was refused."
                     (with-plain-printing (prin1-to-string (exit-refused-operator condition))))))
  (:documentation "Signalled in place of leaving the process."))

(defvar *call* 0
  "The number of the host's call that this thread runs; 0 outside of one.")
(declaim (type (unsigned-byte 64) *call*))

;;; A lane is one of the Lisp threads that serve the host.

(defstruct (lane (:constructor make-lane (number thread)))
  "A Lisp thread that serves the host's queue."
  (number 0 :type unsigned-byte)
  (thread nil :type sb-thread:thread)
  (call 0 :type (unsigned-byte 64)))

(sb-ext:define-load-time-global *lanes* '()
  "The lanes that were started, newest first.")


(defvar *lane* nil
  "The lane of this thread, if it is one.")

(defparameter *ways-out*
  '(sb-ext:exit sb-ext:quit sb-impl::os-exit sb-ext:save-lisp-and-die)
  "The functions through which Lisp code ends its process.")

(defun refuse-exits ()
  "Make every one of *WAYS-OUT* signal EXIT-REFUSED. Foreign exit functions are covered by REFUSE-FOREIGN-EXITS."
  (dolist (name *ways-out*)
    (let ((name name))
      (sb-int:encapsulate name 'steelbank
                          (lambda (function &rest arguments)
                            (declare (ignore function arguments))
                            (error 'exit-refused :operator name))))))

(defun describe-condition (condition)
  "A sentence for CONDITION. Its report is the user's code and may fail itself."
  (flet ((limited (function)
           (let ((stream (make-instance 'limited-output :limit 4000
                                                        :when-full (lambda () (throw 'enough nil)))))
             (catch 'enough
               (funcall function stream))
             (output-text stream))))
    (handler-case (with-plain-printing
                    (let ((*print-escape* nil) (*print-length* 20) (*print-level* 5)
                          (*package* (find-package :common-lisp-user)))
                      (limited (lambda (stream) (princ condition stream)))))
      (serious-condition (second)
        (format nil "a condition of type ~a, whose report signalled ~a"
                (name-text (type-of condition))
                (name-text (type-of second)))))))

(defun fault-json (kind message &optional condition)
  "The answer that describes a fault of KIND to the host."
  (json-string (object "kind" kind
                       "message" message
                       "condition" (and condition (name-text (type-of condition))))))

(defun condition-kind (condition)
  "The host's word for the class of fault that CONDITION is."
  (typecase condition
    (exit-refused "exit-refused")
    (sb-kernel::control-stack-exhausted "stack-exhausted")
    (sb-kernel::heap-exhausted-error "heap-exhausted")
    (storage-condition "storage-exhausted")
    (sb-sys:memory-fault-error "memory-fault")
    (end-of-file "end-of-file")
    (t "error")))

(defun debugger-hook (condition hook)
  "Takes the place of the debugger. In a call, the call ends with CONDITION as its fault; in any other thread, the
condition is reported to the host, and that thread ends."
  (declare (ignore hook))
  (cond ((plusp *call*)
         (throw 'fault condition))
        (t
         (report (format nil "Thread ~a ended by ~a"
                         (describe-thread sb-thread:*current-thread*)
                         (describe-condition condition)))
         (sb-thread:abort-thread))))

(defun describe-thread (thread)
  "THREAD's name, as it may be printed."
  (let ((name (sb-thread:thread-name thread)))
    (if (stringp name) (name-text name) "without a name")))

(defvar *heap-share* 1/2
  "How much of the dynamic space a call may leave in use: the collector needs the rest to copy into.")

(defun check-heap ()
  "After a collection: stop the running calls with a heap exhaustion while the collector still has room to work."
  (when (> (sb-kernel:dynamic-usage) (* *heap-share* (sb-ext:dynamic-space-size)))
    (dolist (lane *lanes*)
      (let ((call (lane-call lane)))
        (when (plusp call)
          (interrupt-lane lane call
                          (lambda ()
                            (throw 'fault (make-condition 'heap-share-exhausted)))))))))

(define-condition heap-share-exhausted (sb-kernel::heap-exhausted-error)
  ()
  (:report (lambda (condition stream)
             (declare (ignore condition))
             (format stream "Heap exhausted: more than ~d MiB of ~d MiB were in use after a garbage collection."
                     (floor (* *heap-share* (sb-ext:dynamic-space-size)) (* 1024 1024))
                     (floor (sb-ext:dynamic-space-size) (* 1024 1024)))))
  (:documentation "Signalled before the collector itself would run out of room, which the runtime does not survive."))

(defun interrupt-lane (lane call function)
  "Run FUNCTION on LANE's thread if CALL still runs there when it gets to it. FUNCTION may leave non-locally."
  (ignore-errors
   (sb-thread:interrupt-thread (lane-thread lane)
                               (lambda ()
                                 (when (and (= *call* call) (plusp call))
                                   (funcall function))))))

(defvar *leave-call* (lambda () (throw 'interrupted nil))
  "How the running call is left when the host interrupts it.")

(defun interrupt-call (call)
  "Stop CALL if it still runs."
  (dolist (lane *lanes*)
    (when (= (lane-call lane) call)
      (interrupt-lane lane call (lambda () (funcall *leave-call*))))))
