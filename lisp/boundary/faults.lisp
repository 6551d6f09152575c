;;;; Faults of code that the image runs: keeps each one inside its call, so that the process survives.

(in-package :steelbank)

(define-condition exit-refused (error)
  ((operator :initarg :operator :reader exit-refused-operator))
  (:report (lambda (condition stream)
             (let ((operator (exit-refused-operator condition)))
               (format stream "~a was called. It would end the process that answers you, so it was refused."
                       (if (stringp operator) operator (name-text operator))))))
  (:documentation "Signalled in place of leaving the process."))

(defvar *call* 0
  "The number of the host's call that this thread runs; 0 outside of one.")
(declaim (type (unsigned-byte 64) *call*))

;;; A lane is one of the Lisp threads that serve the host.

(defstruct (lane (:constructor make-lane (number thread)))
  "A Lisp thread that serves the host's queue."
  (number 0 :type unsigned-byte)
  (thread nil :type sb-thread:thread)
  (call 0 :type (unsigned-byte 64))
  ;; The call that the host wants stopped; 0: none.
  (stop 0 :type (unsigned-byte 64))
  ;; 1 while an interrupt of ours is pending. Several would pile up while the thread cannot take them, as during a
  ;; collection, and then kill it.
  (pending 0 :type sb-ext:word)
  ;; True if the last interrupt met code that must not be left.
  (refused nil :type boolean)
  ;; The call that is to end because it has filled the heap; 0: none.
  (full 0 :type (unsigned-byte 64)))

(sb-ext:define-load-time-global *lanes* '()
  "The lanes that were started, newest first.")


(defvar *lane* nil
  "The lane of this thread, if it is one.")

(defparameter *exit-functions*
  `(sb-ext:exit sb-ext:quit ,+leave-process+ sb-ext:save-lisp-and-die)
  "The functions through which Lisp code ends its process.")

(defun refuse-exits ()
  "Make every one of *EXIT-FUNCTIONS* signal EXIT-REFUSED. Foreign exit functions are covered by REFUSE-FOREIGN-EXITS."
  (dolist (name *exit-functions*)
    (let ((name name))
      (encapsulate name 'steelbank
                          (lambda (function &rest arguments)
                            (declare (ignore function arguments))
                            (error 'exit-refused :operator name))))))

(define-alien-callable steelbank-refuse-exit sb-alien:void ()
  "Signal EXIT-REFUSED. Linked in place of C's exit functions."
  (error 'exit-refused :operator "a foreign exit function"))

(defparameter *foreign-exit-functions*
  '(("exit" . steelbank-refuse-exit) ("_exit" . steelbank-refuse-exit) ("_Exit" . steelbank-refuse-exit)
    ("quick_exit" . steelbank-refuse-exit)
    ;; These two mean that something is broken: the shim ends Lisp, not the process.
    ("abort" . "__wrap_abort") ("lose" . "__wrap_lose")
    ;; Of RUN-PROGRAM.
    ("spawn" . "steelbank_spawn"))
  "The substitutes for functions of libc and of the runtime that have to do with the ends of processes, by name: an alien callable,
or a function of the shim.")

(sb-ext:define-load-time-global *foreign-substitutes* '()
  "The substitutes for other foreign functions, in the form of *FOREIGN-EXIT-FUNCTIONS*.")

(defun foreign-substitute (function name)
  "The address of the foreign function NAME as FUNCTION finds it, or of what stands in for it."
  (let ((substitute (cdr (or (assoc name *foreign-exit-functions* :test #'string=)
                             (assoc name *foreign-substitutes* :test #'string=)))))
    (etypecase substitute
      (null (funcall function name))
      (string (or (funcall function substitute) (funcall function name)))
      (symbol (sb-sys:sap-int (callable-pointer substitute))))))

(defun relink-foreign-functions (names)
  "Link the foreign functions NAMES anew, for code that is linked already."
  (mapc #'relink-foreign-function names))

(defun refuse-foreign-exits ()
  "Redirect the linkage of the foreign exit functions, for code that is linked already and for code to come."
  (encapsulate +find-foreign-function+ 'steelbank #'foreign-substitute)
  (relink-foreign-functions (mapcar #'car *foreign-exit-functions*)))

(defun leave-ending-signals-to-host ()
  "Have SBCL not install its handlers of the signals that end a process, as it does where it starts: the host has its own."
  (encapsulate +install-handler+ 'steelbank
               (lambda (function signal handler)
                 (unless (member handler *ending-handlers* :key #'fdefinition)
                   (funcall function signal handler)))))

(defun describe-condition (condition)
  "A sentence for CONDITION. Its report is the user's code and may fail itself: then the second value is the condition of that."
  (flet ((limited (function)
           (let ((stream (make-instance 'limited-output :limit 4000
                                                        :when-full (lambda () (throw 'enough nil)))))
             (catch 'enough
               (funcall function stream))
             (output-text stream))))
    (handler-case (with-plain-printing
                    (let ((*print-escape* nil) (*print-length* 20) (*print-level* 5)
                          (*package* (find-package :common-lisp-user)))
                      (limited (lambda (stream)
                                 ;; Printed whole, it would repeat the stream.
                                 (if (typep condition '(and reader-error simple-condition))
                                     (apply #'format stream (simple-condition-format-control condition)
                                            (simple-condition-format-arguments condition))
                                     (princ condition stream))))))
      (serious-condition (second)
        (values (format nil "a condition of type ~a, whose report signalled ~a"
                        (name-text (type-of condition))
                        (name-text (type-of second)))
                second)))))

(defun end-if-nothing-prints (condition second)
  "End Lisp if SECOND, which ended the description of CONDITION, is an overflow of the stack too: there is no stack left to print that
the stack is full, although it was left. Nothing can be asked of Lisp any more then, as where its own functions are traced; the host
starts another."
  (when (and (typep condition 'stack-exhausted) (typep second 'stack-exhausted))
    (sb-alien:alien-funcall
     (sb-alien:extern-alien "lose" (function sb-alien:void sb-alien:c-string))
     "not even the report of an overflow of the stack can be printed: functions of SBCL are traced or replaced")))

(defun describe-fault (condition)
  "DESCRIBE-CONDITION for the end of a call, unless nothing can be printed any more."
  (multiple-value-bind (description second) (describe-condition condition)
    (end-if-nothing-prints condition second)
    description))

(defun fault-json (kind message &optional condition)
  "The answer that describes a fault of KIND to the host."
  (json-string (object "kind" (word kind)
                       "message" message
                       "condition" (and condition (name-text (type-of condition))))))

(defun condition-kind (condition)
  "The kind of fault that CONDITION is, as the host spells it."
  (typecase condition
    (exit-refused :exit-refused)
    (stack-exhausted :stack-exhausted)
    (heap-exhausted :heap-exhausted)
    (storage-condition :storage-exhausted)
    (memory-fault :memory-fault)
    (end-of-file :end-of-file)
    (t :error)))

(defvar *note-fault* nil
  "A function that is called with the condition that is about to end this thread's work, before the stack is unwound; or NIL.")

;;; The end of the stack. What runs there is little, whatever its cause: the stack is left first, and looked at from a copy.

(defparameter *stack-needed* (* 256 1024)
  "The octets of stack that looking at frames may take, with what the compiler and the printer take if they are called for it.")

(defun stack-short-p ()
  "True if what is left of the stack is not enough to look at it, to print, or to compile."
  (< (stack-left) *stack-needed*))

(defvar *return-addresses* nil
  "Where the stack is copied to before it is left near its end, or NIL.")

(defun copy-stack ()
  "Copy what is needed to describe the stack once it is left."
  (when *return-addresses*
    (copy-return-addresses *return-addresses*)))

(defun leave (tag value)
  "Throw VALUE to TAG. Near the end of the stack, clean-up forms get the room of the frames that are left."
  (when (and *lane* (stack-short-p))
    (let ((function (lambda () (throw tag value))))
      ;; Without interrupts: special variables have objects on the stack until they are unbound.
      (sb-sys:without-interrupts
        (sb-sys:with-pinned-objects (function)
          (sb-alien:alien-funcall
           (sb-alien:extern-alien "steelbank_leave" (function sb-alien:void sb-alien:unsigned sb-alien:unsigned
                                                              sb-sys:system-area-pointer))
           (object-address function) (object-address tag) (frame-pointer))))))
  (throw tag value))

(defun overflow (function)
  "Takes the place of SBCL's FUNCTION for an overflow of the stack: handlers are told, as the language wants, and nothing is printed."
  (declare (ignore function))
  (copy-stack)
  (signal *overflow*)
  (invoke-debugger *overflow*))

(defun leave-at-once ()
  "Leave what this thread does, because code that runs after an overflow has used up the rest of the stack."
  (if (plusp *call*)
      (throw 'fault *overflow*)
      (end-thread "an overflow of its stack, in code that ran after another")))

(defun end-work (condition)
  "End what this thread does for the host with CONDITION."
  (let ((note (shiftf *note-fault* nil)))
    (when note
      (funcall note condition)))
  (leave 'fault condition))

(defun end-thread (reason)
  "End this thread, which runs no call, and report that REASON, words, ended it."
  (let ((name (sb-thread:thread-name sb-thread:*current-thread*)))
    (report (concatenate 'string "Thread " (if (stringp name) name "without a name") " ended by " reason)))
  (sb-thread:abort-thread))

(defun debugger-hook (condition hook)
  "Takes the place of the debugger. In a call, the call ends with CONDITION as its fault; in any other thread, the
condition is reported to the host, and that thread ends."
  (declare (ignore hook))
  (cond ((or (plusp *call*) *note-fault*)
         (end-work condition))
        ((and (typep condition 'stack-exhausted) (stack-short-p))
         (end-thread "an overflow of its stack"))
        (t
         (report (format nil "Thread ~a ended by ~a"
                         (describe-thread sb-thread:*current-thread*)
                         (describe-condition condition)))
         (sb-thread:abort-thread))))

(defun replace-debugger ()
  "Have the debugger itself, and SBCL's last resort for errors in the handling of errors, end in DEBUGGER-HOOK too."
  (encapsulate +debugger+ 'steelbank
                      (lambda (function condition)
                        (declare (ignore function))
                        (debugger-hook condition nil)))
  (encapsulate +overflow+ 'steelbank #'overflow)
  (encapsulate +last-resort+ 'steelbank
                      (lambda (function &rest messages)
                        (declare (ignore function))
                        (debugger-hook (make-condition 'simple-error :format-control "~{~a~}"
                                                                     :format-arguments (list messages))
                                       nil))))

(defun describe-thread (thread)
  "THREAD's name, as it may be printed."
  (let ((name (sb-thread:thread-name thread)))
    (if (stringp name) (name-text name) "without a name")))

(defparameter *heap-share* 2/5
  "How much of the dynamic space may be in use after a collection. What comes next, a twentieth and what it leaves free of its pages,
and a copy of all must find room: when the collector runs out of it, the runtime does not survive.")

(defun heap-limit ()
  "*HEAP-SHARE* in octets."
  (floor (* *heap-share* (sb-ext:dynamic-space-size))))

(defvar *checking-heap* nil
  "True while this thread collects garbage to find out what is really in use.")

(sb-ext:define-load-time-global *memory-to-free* '()
  "Functions that drop objects which can be done without, to be called when the heap is full.")

(defun call-of (thread)
  "The lane of THREAD and the call that it runs; NIL and 0 if it is no lane's."
  (let ((lane (find thread *lanes* :key #'lane-thread)))
    (values lane (if lane (lane-call lane) 0))))

(sb-ext:define-load-time-global *heap-noted* 0
  "The octets that were in use when what every thread allocates was last counted from.")

(defun note-heap ()
  "Count from now on what every thread allocates, and what is in use."
  (setf *heap-noted* (heap-in-use))
  (mapc #'note-allocated (sb-thread:list-all-threads)))

(defun heap-step ()
  "The octets more that are no small part of what may be in use."
  (floor (heap-limit) 32))

(defun heap-room ()
  "The octets in use of which a full collection surely has room for a copy, whatever else is allocated before it."
  (floor (* 12/25 (sb-ext:dynamic-space-size))))

(defun heap-bound ()
  "The octets in use that are too many: HEAP-LIMIT, or somewhat more than ended calls have left, if that is more; but less than HEAP-ROOM."
  (if (> *heap-noted* (heap-limit))
      (min (+ *heap-noted* (heap-step)) (- (heap-room) (heap-step)))
      (heap-limit)))

(defun heap-filler ()
  "The thread that has allocated most since its call began, or the heap was last noted. NIL if what came into use since then is
little, or more than those which run have allocated: a call that has ended may have left it, and who runs now is not to blame."
  (let ((growth (- (heap-in-use) *heap-noted*)) (filler nil) (most 0) (all 0))
    (dolist (thread (sb-thread:list-all-threads))
      (multiple-value-bind (lane call) (call-of thread)
        (unless (or (runtime-thread-p thread)
                    (and lane (zerop call)))
          (let ((allocated (allocated thread)))
            (incf all allocated)
            (when (> allocated most)
              (setf filler thread
                    most allocated))))))
    (cond ((< growth (heap-step))
           nil)
          ((> all (* 3/4 growth))
           filler)
          (t
           (note-heap)
           nil))))

(defun end-for-full-heap ()
  "End what this thread does, because it has filled the heap."
  (if (plusp *call*)
      (end-work (make-condition 'heap-share-exhausted))
      (error 'heap-share-exhausted)))

(defun live-octets ()
  "The octets that are in use after a full collection."
  (let ((*checking-heap* t))
    (sb-ext:gc :full t))
  (heap-in-use))

(defun end-heap-filler (thread)
  "Have THREAD, another one, end what it does, because it has filled the heap. Waits a while for it to have done so; true if it has."
  (multiple-value-bind (lane call) (call-of thread)
    (cond (lane
           (setf (lane-full lane) call))
          (t
           (handler-case (sb-thread:interrupt-thread thread #'end-for-full-heap)
             (sb-thread:interrupt-thread-error () nil))))
    ;; Of a busy machine, too: who has not filled the heap is ended if this one is not.
    (loop repeat 1000
          do (cond (lane
                    (interrupt-lane lane)
                    (unless (= call (lane-call lane)) (return t)))
                   ((not (sb-thread:thread-alive-p thread))
                    (return t)))
             (pause-microseconds 10000))))

(defun relieve-heap ()
  "End those who have filled the heap, one after another, until it is not full. Without anybody to blame this thread goes on, as long
as the collector has room for that which it has allocated."
  (mapc #'funcall *memory-to-free*)
  (loop while (> (live-octets) (heap-bound))
        do (let ((filler (heap-filler)))
             (cond ((eq filler sb-thread:*current-thread*)
                    (end-for-full-heap))
                   ((and filler (end-heap-filler filler)))
                   ((and (> (heap-in-use) (- (heap-room) (heap-step)))
                         (> (allocated sb-thread:*current-thread*) (- (heap-room) (heap-in-use))))
                    (end-for-full-heap))
                   (t
                    (return))))))

(sb-ext:define-load-time-global *usual-nursery* nil
  "The octets between two collections as somebody has set them, while they are fewer; else NIL.")

(defun adapt-nursery (used)
  "Collect more often while USED, the octets in use, are more than half of HEAP-LIMIT: what comes before the collection that finds the
heap full must find room, too."
  (let ((few (floor (sb-ext:dynamic-space-size) 50)))
    (cond ((<= used (floor (heap-limit) 2))
           (when *usual-nursery*
             (setf (sb-ext:bytes-consed-between-gcs) (shiftf *usual-nursery* nil))))
          ((> (sb-ext:bytes-consed-between-gcs) few)
           (setf *usual-nursery* (sb-ext:bytes-consed-between-gcs)
                 (sb-ext:bytes-consed-between-gcs) few)))))

(sb-ext:define-load-time-global *heap-reliever* nil
  "The thread that looks who has filled the heap, or NIL.")

(defun await-collection (collect generation)
  "Wraps SBCL's SUB-GC. The thread that finds another about to collect waits a while for that: it would go on to allocate, and have
filled the heap when the other gets a processor."
  (let* ((epoch (collection-epoch))
         (outcome (funcall collect generation)))
    (when (eql outcome 0)
      (loop repeat 100
            while (eq epoch (collection-epoch))
            do (pause-microseconds 1000)))
    outcome))

(defun watch-heap ()
  "Have every garbage collection look whether the heap is full."
  (encapsulate +collect+ 'steelbank #'await-collection)
  (encapsulate +after-collection+ 'steelbank #'check-heap))

(defun leave-heap-unwatched ()
  "Take back what WATCH-HEAP has done."
  (unencapsulate +collect+ 'steelbank)
  (unencapsulate +after-collection+ 'steelbank))

(defun check-heap (collect)
  "Wraps SBCL's POST-GC, which the thread that brought about a collection runs after it. If the heap is too full even after a full
collection, who has filled it gets a HEAP-SHARE-EXHAUSTED."
  (funcall collect)
  (when (and (not *checking-heap*)
             (interrupts-allowed-p)
             (not (runtime-thread-p sb-thread:*current-thread*)))
    (let ((used (heap-in-use)))
      (adapt-nursery used)
      (cond ((<= used (if (> *heap-noted* (heap-limit)) (heap-limit) (floor (heap-limit) 2)))
             (note-heap))
            ((> used (heap-bound))
             (sb-sys:without-interrupts
               (if (sb-ext:compare-and-swap (symbol-value '*heap-reliever*) nil sb-thread:*current-thread*)
                   (with-interrupts-allowed
                     (loop repeat 1000
                           while *heap-reliever*
                           do (pause-microseconds 10000)))
                   (unwind-protect (with-interrupts-allowed
                                     (relieve-heap))
                     (setf *heap-reliever* nil)))))))))

(define-condition heap-share-exhausted (heap-full)
  ()
  (:report (lambda (condition stream)
             (declare (ignore condition))
             (format stream "Heap exhausted: more than ~d MiB of ~d MiB were in use after a garbage collection."
                     (floor (heap-limit) (* 1024 1024))
                     (floor (sb-ext:dynamic-space-size) (* 1024 1024)))))
  (:documentation "Signalled while the collector still has room to work in."))

(defun enter-lane (lane call)
  "Begin CALL on LANE's own thread, without interrupts. Drop the interruptions that came between calls."
  (forget-interruptions (lane-thread lane))
  (setf (lane-stop lane) 0
        (lane-full lane) 0
        (lane-pending lane) 0
        (lane-call lane) call)
  (note-allocated (lane-thread lane)))

(defvar *leave-call* (lambda () (leave 'interrupted nil))
  "The function that leaves the running call when the host interrupts it.")

(defun may-unwind ()
  "True if the code that was interrupted may be left: foreign code may hold a lock, such as that of malloc."
  (let ((context (interrupted-context)))
    (or (not (typep context 'sb-sys:system-area-pointer))
        (/= 0 (sb-alien:alien-funcall
               (sb-alien:extern-alien "steelbank_may_unwind"
                                      (function (sb-alien:signed 64) sb-sys:system-area-pointer))
               context)))))

(defun leave-if-wanted (lane)
  "Run on LANE's thread by an interrupt: leave the call that the host wants stopped, or that has filled the heap, if it still runs and
can be left."
  (setf (lane-refused lane) nil
        (lane-pending lane) 0)
  (let ((call *call*))
    (when (and (plusp call) (or (= call (lane-stop lane)) (= call (lane-full lane))))
      (cond ((not (may-unwind))
             (setf (lane-refused lane) t))
            ((= call (lane-stop lane))
             (funcall *leave-call*))
            (t
             (setf (lane-full lane) 0)
             (end-for-full-heap))))))

(defun interrupt-lane (lane)
  "Have LANE's thread run LEAVE-IF-WANTED, unless that is pending already. True once it has run."
  (when (= 0 (sb-ext:compare-and-swap (lane-pending lane) 0 1))
    (handler-case (sb-thread:interrupt-thread (lane-thread lane) (lambda () (leave-if-wanted lane)))
      (sb-thread:interrupt-thread-error () nil)))
  (loop repeat 10
        do (when (= 0 (lane-pending lane))
             (return t))
           (pause-microseconds 1000)))

(defun interrupt-call (call)
  "Stop CALL if it still runs. In foreign code it is tried again for a while; then the host will order it again."
  (dolist (lane *lanes*)
    (when (= (lane-call lane) call)
      (setf (lane-stop lane) call)
      (loop repeat 50
            while (and (interrupt-lane lane) (lane-refused lane) (= (lane-call lane) call))
            do (pause-microseconds 1000)))))
