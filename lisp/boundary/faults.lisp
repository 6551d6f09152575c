;;;; Handles faults of code that the image runs: ends only the call or the thread with the fault, so
;;;; that the process survives.

(in-package :steelbank)

(define-condition exit-refused (error)
  ((operator :initarg :operator :reader exit-refused-operator))
  (:report (lambda (condition stream)
             (let ((operator (exit-refused-operator condition)))
               (format stream "The call of ~a was refused, because it would end the server process."
                       (if (stringp operator) operator (name-text operator))))))
  (:documentation "Signalled instead of ending the process."))

(defvar *call* 0
  "The number of the host's call that this thread runs; 0 outside a call.")
(declaim (type (unsigned-byte 64) *call*))

;;; A lane is one of the Lisp threads that serve the host.

(defstruct (lane (:constructor make-lane (number thread)))
  "A Lisp thread that serves the host's queue."
  (number 0 :type unsigned-byte)
  (thread nil :type sb-thread:thread)
  (call 0 :type (unsigned-byte 64))
  ;; The call that the host wants to interrupt, or 0.
  (stop 0 :type (unsigned-byte 64))
  ;; 1 while an interrupt from INTERRUPT-LANE is pending. Several interrupts would pile up while the
  ;; thread cannot take them, for example during a collection, and would then kill the thread.
  (pending 0 :type sb-ext:word)
  ;; True if the last interrupt arrived in code that must not be unwound.
  (refused nil :type boolean)
  ;; The call that must end because it has filled the heap, or 0.
  (full 0 :type (unsigned-byte 64)))

(sb-ext:define-load-time-global *lanes* '()
  "The lanes that serve the host at present, newest first.")


(defvar *lane* nil
  "The lane of this thread, or NIL.")

(defparameter *exit-functions*
  `(sb-ext:exit sb-ext:quit ,+leave-process+ sb-ext:save-lisp-and-die)
  "The functions by which Lisp code ends its process.")

(defun refuse-exits ()
  "Make every function in *EXIT-FUNCTIONS* signal EXIT-REFUSED."
  ;; REFUSE-FOREIGN-EXITS redirects the foreign exit functions.
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
  '(("exit" . steelbank-refuse-exit) ("_exit" . steelbank-refuse-exit)
    ("_Exit" . steelbank-refuse-exit) ("quick_exit" . steelbank-refuse-exit)
    ;; These two are called after memory corruption or a similar defect. The replacements in the
    ;; shim end Lisp instead of the process.
    ("abort" . "__wrap_abort") ("lose" . "__wrap_lose")
    ;; Used by RUN-PROGRAM.
    ("spawn" . "steelbank_spawn"))
  ;; A replacement is an alien callable, or the name of a function of the shim.
  "Maps foreign functions that end or start processes to their replacements.")

(sb-ext:define-load-time-global *foreign-substitutes* '()
  "Replacements for other foreign functions, in the form of *FOREIGN-EXIT-FUNCTIONS*.")

(defun foreign-substitute (function name)
  "Wrap +FIND-FOREIGN-FUNCTION+: return the address of NAME's replacement if it has one."
  (let ((substitute (cdr (or (assoc name *foreign-exit-functions* :test #'string=)
                             (assoc name *foreign-substitutes* :test #'string=)))))
    (etypecase substitute
      (null (funcall function name))
      (string (or (funcall function substitute) (funcall function name)))
      (symbol (sb-sys:sap-int (callable-pointer substitute))))))

(defun relink-foreign-functions (names)
  "Link the foreign functions NAMES again, for code that is already linked."
  (mapc #'relink-foreign-function names))

(defun refuse-foreign-exits ()
  "Redirect the foreign exit functions, for code that is already linked and for future code."
  (encapsulate +find-foreign-function+ 'steelbank #'foreign-substitute)
  (relink-foreign-functions (mapcar #'car *foreign-exit-functions*)))

(defun leave-ending-signals-to-host ()
  "Prevent SBCL from installing its handlers of the signals that end a process."
  ;; The host has its own handlers.
  (encapsulate +install-handler+ 'steelbank
               (lambda (function signal handler)
                 (unless (member handler *ending-handlers* :key #'fdefinition)
                   (funcall function signal handler)))))

(defun describe-condition (condition)
  "Return a sentence for CONDITION."
  ;; The report of CONDITION is user code and may fail. Then the second value is the condition of
  ;; that failure.
  (flet ((limited (function)
           (let ((stream (make-instance 'limited-output
                                        :limit 4000 :when-full (lambda () (throw 'enough nil)))))
             (catch 'enough
               (funcall function stream))
             (output-text stream))))
    (handler-case (with-plain-printing
                    (let ((*print-escape* nil) (*print-length* 20) (*print-level* 5)
                          (*package* (find-package :common-lisp-user)))
                      (limited (lambda (stream)
                                 ;; The full report of a READER-ERROR would also print the stream.
                                 (if (typep condition '(and reader-error simple-condition))
                                     (apply #'format stream
                                            (simple-condition-format-control condition)
                                            (simple-condition-format-arguments condition))
                                     (princ condition stream))))))
      (serious-condition (second)
        (values (format nil "a condition of type ~a; its report signalled ~a"
                        (name-text (type-of condition))
                        (name-text (type-of second)))
                second)))))

(defun end-if-nothing-prints (condition second)
  "End Lisp if CONDITION and SECOND, signalled while describing it, are both stack overflows."
  ;; Then not even the report of the first overflow can be printed after unwinding, for example
  ;; because SBCL's functions are traced. Lisp cannot answer any more calls; the host restarts it.
  (when (and (typep condition 'stack-exhausted) (typep second 'stack-exhausted))
    (sb-alien:alien-funcall
     (sb-alien:extern-alien "lose" (function sb-alien:void sb-alien:c-string))
     "cannot print the report of a stack overflow: functions of SBCL are traced or replaced")))

(defun describe-fault (condition)
  "Call DESCRIBE-CONDITION at the end of a call. End Lisp if nothing can be printed any more."
  (multiple-value-bind (description second) (describe-condition condition)
    (end-if-nothing-prints condition second)
    description))

(defun fault-json (kind message &optional condition)
  "Return the answer that describes a fault of KIND to the host."
  (json-string (object "kind" (word kind)
                       "message" message
                       "condition" (and condition (name-text (type-of condition))))))

(defun condition-kind (condition)
  "Return the kind of fault of CONDITION, as the host spells it."
  (typecase condition
    (exit-refused :exit-refused)
    (stack-exhausted :stack-exhausted)
    (heap-exhausted :heap-exhausted)
    (storage-condition :storage-exhausted)
    (memory-fault :memory-fault)
    (end-of-file :end-of-file)
    (t :error)))

;; The function is called before the stack unwinds.
(defvar *note-fault* nil
  "A function to call with the condition that is about to end this thread's work, or NIL.")

;;; Stack overflows. Code near the end of the stack can do little, so the stack is copied and
;;; unwound first, and the copy is examined.

;; The value includes what the compiler and the printer need if code that examines frames calls
;; them.
(defparameter *stack-needed* (* 256 1024)
  "The octets of stack needed to examine frames.")

(defun stack-short-p ()
  "Return true if too little stack is left to examine it, to print, or to compile."
  (< (stack-left) *stack-needed*))

(defvar *return-addresses* nil
  "The array for a copy of the return addresses when the stack is nearly full, or NIL.")

(defun copy-stack ()
  "Copy the information needed to describe the stack after it unwinds."
  (when *return-addresses*
    (copy-return-addresses *return-addresses*)))

(defun leave (tag value)
  "Throw VALUE to TAG."
  ;; Near the end of the stack, let cleanup forms use the space of the frames that are unwound.
  (when (and *lane* (stack-short-p))
    (let ((function (lambda () (throw tag value))))
      ;; Without interrupts, because special variables may refer to objects in the unwound frames
      ;; until the variables are unbound.
      (sb-sys:without-interrupts
        (sb-sys:with-pinned-objects (function)
          (sb-alien:alien-funcall
           (sb-alien:extern-alien "steelbank_leave"
                                  (function sb-alien:void sb-alien:unsigned sb-alien:unsigned
                                            sb-sys:system-area-pointer))
           (object-address function) (object-address tag) (frame-pointer))))))
  (throw tag value))

(defun overflow (function)
  "Replace SBCL's FUNCTION for a stack overflow: signal the condition without printing."
  (declare (ignore function))
  (copy-stack)
  (signal *overflow*)
  (invoke-debugger *overflow*))

(defun leave-at-once ()
  "Leave the current call or thread, because the stack reserve after an overflow is used up."
  (if (plusp *call*)
      (throw 'fault *overflow*)
      (end-thread "a second stack overflow, in code that handled the first")))

(defun end-work (condition)
  "Call *NOTE-FAULT* with CONDITION, and throw CONDITION to end this thread's work for the host."
  (let ((note (shiftf *note-fault* nil)))
    (when note
      (funcall note condition)))
  (leave 'fault condition))

(defun end-thread (reason)
  "End this thread, which runs no call, and report REASON."
  (let ((name (sb-thread:thread-name sb-thread:*current-thread*)))
    (report (concatenate 'string "Thread " (if (stringp name) name "without a name")
                         " ended by " reason)))
  (sb-thread:abort-thread))

(defun debugger-hook (condition hook)
  "Replace the debugger. In a call, or if *NOTE-FAULT* is set, end the work with CONDITION."
  ;; In any other thread, report the condition to the host and end that thread.
  (declare (ignore hook))
  (cond ((or (plusp *call*) *note-fault*)
         (end-work condition))
        ((and (typep condition 'stack-exhausted) (stack-short-p))
         (end-thread "a stack overflow"))
        (t
         (report (format nil "Thread ~a ended by ~a"
                         (describe-thread sb-thread:*current-thread*)
                         (describe-condition condition)))
         (sb-thread:abort-thread))))

(defun replace-debugger ()
  "Replace the debugger itself, and SBCL's handling of stack overflows and of nested errors."
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
  "Return THREAD's name for display."
  (let ((name (sb-thread:thread-name thread)))
    (if (stringp name) (name-text name) "without a name")))

;; The other part of the dynamic space must hold new allocations (a twentieth), partly free pages,
;; and a copy of all objects in use, because the runtime does not survive if the collector runs out
;; of space.
(defparameter *heap-share* 2/5
  "The fraction of the dynamic space that may be in use after a collection.")

(defun heap-limit ()
  "Return *HEAP-SHARE* in octets."
  (floor (* *heap-share* (sb-ext:dynamic-space-size))))

(defvar *checking-heap* nil
  "True while this thread does not check after collections whether the heap is full.")

(sb-ext:define-load-time-global *memory-to-free* '()
  "Functions that drop dispensable objects, called when the heap is full.")

(defun call-of (thread)
  "Return the lane of THREAD and the call that it runs, or NIL and 0 if it is not a lane's thread."
  (let ((lane (find thread *lanes* :key #'lane-thread)))
    (values lane (if lane (lane-call lane) 0))))

(sb-ext:define-load-time-global *heap-noted* 0
  "The octets in use when the allocation counters of all threads were last reset.")

(defun note-heap ()
  "Reset the allocation counters of all threads, and record the octets in use."
  (setf *heap-noted* (heap-in-use))
  (mapc #'note-allocated (sb-thread:list-all-threads)))

(defun heap-step ()
  "Return the number of octets that counts as a significant growth of the heap."
  (floor (heap-limit) 32))

(defun heap-room ()
  "Return the octets in use up to which a full collection certainly has space for a copy."
  ;; The result allows for whatever else is allocated before the collection.
  (floor (* 12/25 (sb-ext:dynamic-space-size))))

(defun heap-bound ()
  "Return the limit of octets in use, above which CHECK-HEAP calls RELIEVE-HEAP."
  ;; Usually return HEAP-LIMIT. If more than HEAP-LIMIT was in use at the last call of NOTE-HEAP,
  ;; return HEAP-STEP more than was in use then, but at most HEAP-ROOM minus HEAP-STEP.
  (if (> *heap-noted* (heap-limit))
      (min (+ *heap-noted* (heap-step)) (- (heap-room) (heap-step)))
      (heap-limit)))

(defun heap-filler ()
  "Return the thread that has allocated most since its call began or the counters were reset."
  ;; Return NIL if the heap has grown little since NOTE-HEAP, or by clearly more than the running
  ;; threads have allocated. In the latter case, a call that has ended may be responsible; call
  ;; NOTE-HEAP again.
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
  "End this thread's work, because it has filled the heap."
  (if (plusp *call*)
      (end-work (make-condition 'heap-share-exhausted))
      (error 'heap-share-exhausted)))

(defun live-octets ()
  "Return the octets in use after a full collection."
  (let ((*checking-heap* t))
    (sb-ext:gc :full t))
  (heap-in-use))

(defun end-heap-filler (thread)
  "Make THREAD, another thread, end its work, because it has filled the heap."
  ;; Wait a while for that, and return true if THREAD has ended its work.
  (multiple-value-bind (lane call) (call-of thread)
    (cond (lane
           (setf (lane-full lane) call))
          (t
           (handler-case (sb-thread:interrupt-thread thread #'end-for-full-heap)
             (sb-thread:interrupt-thread-error () nil))))
    ;; Wait long enough for a busy machine. If THREAD does not end its work in time, RELIEVE-HEAP
    ;; may have to end the work of the current thread.
    (loop repeat 1000
          do (cond (lane
                    (interrupt-lane lane)
                    (unless (= call (lane-call lane)) (return t)))
                   ((not (sb-thread:thread-alive-p thread))
                    (return t)))
             (pause-microseconds 10000))))

(defun relieve-heap ()
  "End the work of threads that have filled the heap, one by one, until the heap is not full."
  ;; If no thread is responsible, or the responsible thread does not end its work in time, this
  ;; thread continues as long as the collector has space for what this thread has allocated.
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
  "The user's setting of the octets between two collections, while it is reduced; otherwise NIL.")

(defun adapt-nursery (used)
  "Collect more often while USED, the octets in use, exceed half of HEAP-LIMIT."
  ;; The heap must have space for allocations until the collection that finds it full.
  (let ((few (floor (sb-ext:dynamic-space-size) 50)))
    (cond ((<= used (floor (heap-limit) 2))
           (when *usual-nursery*
             (setf (sb-ext:bytes-consed-between-gcs) (shiftf *usual-nursery* nil))))
          ((> (sb-ext:bytes-consed-between-gcs) few)
           (setf *usual-nursery* (sb-ext:bytes-consed-between-gcs)
                 (sb-ext:bytes-consed-between-gcs) few)))))

(sb-ext:define-load-time-global *heap-reliever* nil
  "The thread that runs RELIEVE-HEAP, or NIL.")

(defun await-collection (collect generation)
  "Wrap SBCL's SUB-GC. If another thread is about to collect, wait a while for that."
  ;; Otherwise this thread would continue to allocate, and might fill the heap before the other
  ;; thread gets a processor.
  (let* ((epoch (collection-epoch))
         (outcome (funcall collect generation)))
    (when (eql outcome 0)
      (loop repeat 100
            while (eq epoch (collection-epoch))
            do (pause-microseconds 1000)))
    outcome))

(defun watch-heap ()
  "Check after every garbage collection whether the heap is full."
  (encapsulate +collect+ 'steelbank #'await-collection)
  (encapsulate +after-collection+ 'steelbank #'check-heap))

(defun leave-heap-unwatched ()
  "Undo WATCH-HEAP."
  (unencapsulate +collect+ 'steelbank)
  (unencapsulate +after-collection+ 'steelbank))

(defun check-heap (collect)
  "Wrap SBCL's POST-GC, which the thread that triggered a collection runs after it."
  ;; If the heap is too full even after a full collection, end the work of the thread that has
  ;; filled it; see RELIEVE-HEAP. If another thread is already doing that, wait a while for it.
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
               (if (sb-ext:compare-and-swap (symbol-value '*heap-reliever*)
                                            nil sb-thread:*current-thread*)
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
             (format stream "Heap exhausted: more than ~d MiB of ~d MiB were in use after a ~
                             garbage collection."
                     (floor (heap-limit) (* 1024 1024))
                     (floor (sb-ext:dynamic-space-size) (* 1024 1024)))))
  (:documentation "The heap is too full, but the collector still has enough space to work."))

(defun enter-lane (lane call)
  "Record in LANE that CALL begins. Runs on LANE's thread, without interrupts."
  ;; Discard interruptions that arrived between calls.
  (forget-interruptions (lane-thread lane))
  (setf (lane-stop lane) 0
        (lane-full lane) 0
        (lane-pending lane) 0
        (lane-call lane) call)
  (note-allocated (lane-thread lane)))

(defvar *leave-call* (lambda () (leave 'interrupted nil))
  "The function that leaves the running call when the host interrupts it.")

(defun may-unwind ()
  "Return true if the interrupted code may be unwound."
  ;; Foreign code must not be unwound, except in a blocking system call, because it may hold a lock,
  ;; such as malloc's.
  (let ((context (interrupted-context)))
    (or (not (typep context 'sb-sys:system-area-pointer))
        (/= 0 (sb-alien:alien-funcall
               (sb-alien:extern-alien "steelbank_may_unwind"
                                      (function (sb-alien:signed 64) sb-sys:system-area-pointer))
               context)))))

(defun leave-if-wanted (lane)
  "Leave the current call if the host interrupts it or it has filled the heap."
  ;; Runs on LANE's thread by an interrupt. If the interrupted code must not be unwound, the call
  ;; continues.
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
  "Make LANE's thread run LEAVE-IF-WANTED, unless that is already pending."
  ;; Wait briefly, and return true if LEAVE-IF-WANTED has run.
  (when (= 0 (sb-ext:compare-and-swap (lane-pending lane) 0 1))
    (handler-case (sb-thread:interrupt-thread (lane-thread lane) (lambda () (leave-if-wanted lane)))
      (sb-thread:interrupt-thread-error () nil)))
  (loop repeat 10
        do (when (= 0 (lane-pending lane))
             (return t))
           (pause-microseconds 1000)))

(defun interrupt-call (call)
  "Interrupt CALL if it is still running."
  ;; If CALL is in foreign code, retry for a while. After that, the host repeats the order.
  (dolist (lane *lanes*)
    (when (= (lane-call lane) call)
      (setf (lane-stop lane) call)
      (loop repeat 50
            while (and (interrupt-lane lane) (lane-refused lane) (= (lane-call lane) call))
            do (pause-microseconds 1000)))))
