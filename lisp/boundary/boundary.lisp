;;;; The boundary to the host. sys/include/steelbank.h defines the complete interface; this file
;;;; implements the Lisp side of the interface.

(in-package :steelbank)

(defconstant +abi+ 2 "STEELBANK_ABI.")

(defconstant +answered+ 0 "STEELBANK_STATUS_ANSWERED.")
(defconstant +fault+ 1 "STEELBANK_STATUS_FAULT.")
(defconstant +interrupted+ 2 "STEELBANK_STATUS_INTERRUPTED.")
(defconstant +misuse+ 3 "STEELBANK_STATUS_MISUSE.")

(defconstant +command-interrupt+ 1 "STEELBANK_COMMAND_INTERRUPT.")
(defconstant +command-start-thread+ 2 "STEELBANK_COMMAND_START_THREAD.")
(defconstant +command-end+ 3 "STEELBANK_COMMAND_END.")

;;; The host's functions. All are called without interrupts, because an interrupt must not unwind
;;; the host's frames.

(defmacro call-host (name &rest types-and-values)
  "Call the shim's function NAME with alternating alien types and values."
  (let ((types (loop for (type) on types-and-values by #'cddr collect type))
        (values (loop for (nil value) on types-and-values by #'cddr collect value)))
    `(sb-sys:without-interrupts
       (sb-alien:alien-funcall (sb-alien:extern-alien ,name (function sb-alien:void ,@types))
                               ,@values))))

(defmacro with-octets ((sap length text) &body body)
  "Run BODY with SAP and LENGTH bound to the octets of TEXT, a string or a vector of octets."
  (let ((octets (gensym "OCTETS")))
    `(let* ((,octets (text-octets ,text))
            (,length (length ,octets)))
       (sb-sys:with-pinned-objects (,octets)
         (let ((,sap (sb-sys:vector-sap ,octets)))
           ,@body)))))

(defun text-octets (text)
  "Return TEXT, a string or a vector of octets, as a simple vector of octets."
  (etypecase text
    (string (coerce (sb-ext:string-to-octets text :external-format '(:utf-8 :replacement #\ufffd))
                    '(simple-array (unsigned-byte 8) (*))))
    ((simple-array (unsigned-byte 8) (*)) text)
    (vector (coerce text '(simple-array (unsigned-byte 8) (*))))))

(defun answer (text)
  "Pass the answer of the running call to the host."
  (with-octets (sap length text)
    (call-host "steelbank_host_answer" sb-sys:system-area-pointer sap sb-alien:size-t length)))

(defun progress (text)
  "Pass a progress report of the running call, a JSON text, to the host."
  (with-octets (sap length text)
    (call-host "steelbank_host_progress" sb-sys:system-area-pointer sap sb-alien:size-t length)))

(defun report (sentence)
  "Add a sentence to the host's log."
  (with-octets (sap length sentence)
    (call-host "steelbank_host_report" sb-sys:system-area-pointer sap sb-alien:size-t length)))

(defun report-output (text dropped)
  "Pass to the host the text that the running call wrote to the standard streams."
  ;; DROPPED is the number of characters beyond the limit.
  (with-octets (sap length text)
    (call-host "steelbank_host_output" sb-sys:system-area-pointer sap sb-alien:size-t length
               (sb-alien:unsigned 64) dropped)))

;;; Questions: the calls that the host can make

(sb-ext:define-load-time-global *questions* (make-hash-table :test 'equal)
  "Maps the names of questions to the functions that answer them.")

(defmacro define-question (name (&rest arguments) documentation &body body)
  "Define the answer to the question called NAME, a string."
  ;; BODY returns a value for WRITE-JSON, or a vector of octets. ARGUMENTS are values from
  ;; READ-JSON. BODY may signal errors and make non-local exits, because the boundary handles them.
  (check-type name string)
  (check-type documentation string)
  (let ((function (intern (format nil "ANSWER-~:@(~a~)" name) :steelbank)))
    `(progn
       (defun ,function ,arguments
         ,documentation
         ,@body)
       (setf (gethash ,name *questions*) ',function))))

(defparameter *output-limit* 100000
  "The maximum number of characters of output that is collected during a call.")

(defun decode-text (text)
  "Return the string in the steelbank_text structure at TEXT."
  (let ((octets (make-array (sb-sys:sap-ref-64 text 8) :element-type '(unsigned-byte 8))))
    (sb-sys:with-pinned-objects (octets)
      (copy-foreign-octets (sb-sys:sap-ref-sap text 0) octets))
    (coerce (sb-ext:octets-to-string octets :external-format :utf-8)
            '(simple-array character (*)))))

(defun perform (question arguments)
  "Answer QUESTION, a name, with ARGUMENTS, a JSON array."
  ;; Both are pointers to steelbank_text structures. Return a status and the answer's text.
  (let* ((name (decode-text question))
         (function (gethash name *questions*)))
    (if function
        (let ((answer (apply function (read-json (decode-text arguments)))))
          (values +answered+ (if (typep answer '(vector (unsigned-byte 8)))
                                 answer
                                 (json-string answer))))
        (let ((text "Unknown question ~s. The core and the program may be of different builds."))
          (values +misuse+ (fault-json :misuse (format nil text name)))))))

(defun perform-caught (call question arguments)
  "Call PERFORM for CALL, and return the outcome, a cons of status and text."
  ;; Unhandled conditions and the host's interrupts become outcomes, too. *CALL* is bound only
  ;; inside the catch tags, because code throws to the tags whenever *CALL* is positive.
  (catch 'interrupted
    (let* ((condition
             (catch 'fault
               (let ((*call* call))
                 (with-simple-restart (abort "Abort the call.")
                   (return-from perform-caught
                     (multiple-value-call #'cons (perform question arguments)))))
               (make-condition 'left-by-exit)))
           (description
             (catch 'fault
               (when (typep condition 'heap-exhausted)
                 ;; Collect now what the call allocated; otherwise the next call would have to. If
                 ;; the heap is still full, ignore that, so that this call is not ended a second
                 ;; time.
                 (let ((*checking-heap* t))
                   (sb-ext:gc :full t)))
               (let ((*call* call))
                 (fault-json (condition-kind condition) (describe-fault condition) condition)))))
      ;; Near the end of the stack, code exits by a throw, which bypasses the handlers of
      ;; DESCRIBE-CONDITION. So check here, too, whether anything can be printed.
      (end-if-nothing-prints condition description)
      (return-from perform-caught
        (cons +fault+ (if (stringp description)
                          description
                          (fault-json (condition-kind condition)
                                      (format nil "A condition of type ~a; its report failed."
                                              (name-text (type-of condition)))
                                      condition))))))
  (cons +interrupted+ (fault-json :interrupted "The call was interrupted.")))

(define-condition left-by-exit (error)
  ()
  (:report "The code made a non-local exit out of the call.")
  (:documentation "Describes a non-local exit out of a call, load or trial; never signalled."))

(defun perform-guarded (call question arguments)
  "Call PERFORM-CAUGHT, and stop non-local exits before they unwind into the host."
  (let ((outcome nil))
    (block guard
      ;; Interrupts that arrived in the host's code run here, because GUARD stops them from
      ;; unwinding into the host.
      (unwind-protect (with-interrupts-allowed
                        (setf outcome (perform-caught call question arguments)))
        (unless outcome
          (return-from guard))))
    (or outcome
        (cons +fault+ (fault-json :error (princ-to-string (make-condition 'left-by-exit)))))))

(defvar *empty-input* (make-instance 'empty-input)
  "The standard input of calls, which is always at its end.")

(defun run-call (call question arguments)
  "Answer QUESTION in the call numbered CALL, pass output and answer to the host, return a status."
  ;; This is the body of the entry point.
  (let ((output (make-instance 'limited-output :limit *output-limit*))
        (lane *lane*))
    (enter-lane lane call)
    (destructuring-bind (status . text)
        (let ((sb-ext:*invoke-debugger-hook* 'debugger-hook)
              (*debugger-hook* nil)
              (*package* (find-package :common-lisp-user))
              (*readtable* *readtable*))
          (with-streams (output *empty-input*)
            (perform-guarded call question arguments)))
      (setf (lane-call lane) 0)
      (when (plusp (fill-pointer (output-text output)))
        (report-output (output-text output) (output-dropped output)))
      (answer text)
      status)))

(define-question "heap-is-full" ()
  "Return whether the heap is full even after a full collection. Does not end any call."
  (json-boolean (> (live-octets) (heap-limit))))

(sb-ext:define-load-time-global *out-of-memory-answer*
    (text-octets
     (fault-json :storage-exhausted
                 "The heap is exhausted, and there is no memory to describe the error."))
  "The answer for an exhausted heap, allocated in advance because there is no memory for it then.")


(sb-ext:define-load-time-global *lisp-modes* 0
  "The floating point modes that Lisp code expects.")

(sb-ext:define-load-time-global *host-modes* 0
  "The floating point modes with every trap masked, as Rust code expects.")


(sb-ext:define-load-time-global *entry-points* (sb-sys:int-sap 0)
  "The foreign table of entry points.")


(define-alien-callable steelbank-ping (sb-alien:signed 64) ((number (sb-alien:signed 64)))
  "Return NUMBER + 1. The host calls this to measure the cost of a call."
  (1+ number))

(define-alien-callable steelbank-call (sb-alien:signed 64)
    ((call (sb-alien:unsigned 64))
     (question sb-sys:system-area-pointer)
     (arguments sb-sys:system-area-pointer))
  "Answer a question; see the header."
  (setf (floating-point-modes) *lisp-modes*)
  (prog1 (block entry
           ;; This handler is only for errors outside PERFORM, while *CALL* is 0, such as a full
           ;; heap; then the answer must not allocate. The handler declines conditions that the
           ;; call's own code signals, so that SIGNAL has its usual meaning there.
           (handler-bind ((serious-condition (lambda (condition)
                                               (declare (ignore condition))
                                               (when (zerop *call*)
                                                 (answer *out-of-memory-answer*)
                                                 (return-from entry +fault+)))))
             (run-call call question arguments)))
    (setf (floating-point-modes) *host-modes*)))

(defun make-entry-points ()
  "Return a foreign struct steelbank_entry_points that is never freed."
  (let ((table (sb-alien:alien-sap (sb-alien:make-alien (sb-alien:unsigned 64) 3))))
    (setf (sb-sys:sap-ref-64 table 0) +abi+)
    (loop for name in '(steelbank-ping steelbank-call)
          for offset from 8 by 8
          do (setf (sb-sys:sap-ref-sap table offset)
                   (callable-pointer name)))
    table))

(defun serve (number &optional protected)
  "Let the host serve its queue on this thread as lane NUMBER."
  ;; Runs without interrupts, because outside a call the stack contains the host's frames, which
  ;; must not be unwound. Set the car of PROTECTED once interrupts are off.
  (let ((*lane* (make-lane number sb-thread:*current-thread*)))
    (unwind-protect
         (sb-sys:without-interrupts
           (sb-ext:atomic-push *lane* *lanes*)
           (when protected
             (setf (car protected) t))
           (setf (floating-point-modes) *host-modes*)
           (sb-alien:alien-funcall
            (sb-alien:extern-alien
             "steelbank_host_serve"
             (function sb-alien:void sb-sys:system-area-pointer (sb-alien:unsigned 64)))
            *entry-points* number)
           (setf (floating-point-modes) *lisp-modes*))
      (sb-ext:atomic-update *lanes* (lambda (lanes) (remove *lane* lanes))))))

(defun make-protected-thread (name function &rest arguments)
  "Create a thread that calls FUNCTION with ARGUMENTS and a cons."
  ;; FUNCTION sets the car of the cons once interrupts are off. If user code terminates the thread
  ;; before that, create it again: code that terminates all other threads finds it in the list of
  ;; threads immediately.
  (loop
    (let* ((protected (list nil))
           (thread (sb-thread:make-thread
                    function :arguments (append arguments (list protected)) :name name)))
      (loop while (sb-thread:thread-alive-p thread)
            do (when (car protected)
                 (return-from make-protected-thread thread))
               (pause-microseconds 100)))))

(defun start-lane (number)
  "Create the Lisp thread of lane NUMBER."
  (sb-alien:alien-funcall
   (sb-alien:extern-alien "steelbank_reserve_below_stacks" (function sb-alien:void)))
  (make-protected-thread (format nil "steelbank lane ~d" number) #'serve number))

(defun supervise (order protected)
  "Execute the host's orders on this thread, because the other threads may be busy."
  ;; ORDER is a buffer for one order. Runs without interrupts, so that code that terminates all
  ;; other threads does not end this thread. Set the car of PROTECTED once interrupts are off.
  (sb-sys:without-interrupts
    (setf (car protected) t)
    (loop
      (sb-alien:alien-funcall
       (sb-alien:extern-alien
        "steelbank_host_supervise" (function sb-alien:void sb-sys:system-area-pointer))
       order)
      (let ((command (sb-sys:signed-sap-ref-64 order 0))
            (argument (sb-sys:sap-ref-64 order 8)))
        (cond ((= command +command-interrupt+) (interrupt-call argument))
              ((= command +command-start-thread+) (start-lane argument))
              ((= command +command-end+) (return)))))))

(defun contrib-folder ()
  "Return the host's folder of contrib modules, or NIL."
  (let* ((size 4096)
         (buffer (sb-alien:make-alien sb-alien:char size)))
    (unwind-protect
         (let ((length (sb-sys:without-interrupts
                         (sb-alien:alien-funcall
                          (sb-alien:extern-alien
                           "steelbank_host_contribs"
                           (function (sb-alien:signed 64) (* sb-alien:char) sb-alien:size-t))
                          buffer size))))
           (when (plusp length)
             (sb-ext:parse-native-namestring
              (sb-alien:cast buffer (sb-alien:c-string :external-format :utf-8))
              nil *default-pathname-defaults* :as-directory t)))
      (sb-alien:free-alien buffer))))

(defvar *contribs* '()
  "The names of the contrib modules that come with this SBCL. The core builder sets it.")

(defun provide-contrib (module)
  "Load the contrib MODULE from the host's folder."
  ;; SBCL's own provider searches SBCL_HOME, which does not exist here.
  (let* ((name (string-downcase (string module)))
         (folder (and (member name *contribs* :test #'string=) (contrib-folder)))
         (fasl (and folder (merge-pathnames (make-pathname :name name :type "fasl") folder))))
    (when (and fasl (probe-file fasl))
      (load fasl)
      t)))

(defun find-contrib-system (name)
  "Return the contrib NAME as a system that REQUIRE loads, or NIL."
  ;; ASDF would search SBCL's home, which does not exist. ASDF finds itself later.
  (when (and (string/= name "asdf") (member name *contribs* :test #'string=))
    (or (asdf:registered-system name)
        (make-instance 'asdf:require-system :name name))))

(defvar *background-output* nil
  "The output stream of threads that run no call.")

(defun prepare-streams ()
  "Redirect the global streams, so that output of background threads is reported."
  (setf *background-output* (make-instance 'limited-output :limit *output-limit*))
  (let ((both (make-two-way-stream *empty-input* *background-output*)))
    (setf *standard-output* *background-output*
          *error-output* *background-output*
          *trace-output* *background-output*
          *standard-input* *empty-input*
          *terminal-io* both *query-io* both *debug-io* both
          ;; UIOP has its own streams for the file descriptors.
          uiop:*stdin* (make-synonym-stream '*standard-input*)
          uiop:*stdout* (make-synonym-stream '*standard-output*)
          uiop:*stderr* (make-synonym-stream '*error-output*))))

(defun prepare-home ()
  "Set HOME to the root folder if the user has no absolute home folder."
  ;; UIOP and ASDF need a home folder to start. A user without an entry in the user database has no
  ;; home folder, and a relative name depends on the current directory.
  (let ((home (sb-ext:posix-getenv "HOME")))
    (unless (if (plusp (length home))
                (char= (char home 0) #\/)
                (user-home))
      (sb-alien:alien-funcall
       (sb-alien:extern-alien
        "setenv" (function sb-alien:int sb-alien:c-string sb-alien:c-string sb-alien:int))
       "HOME" "/" 1))))

(sb-ext:define-load-time-global *supervisor* nil
  "The thread that executes the host's orders.")

(defun main ()
  "Start the supervisor, then give this thread to the host, which returns it only to save the core."
  ;; This is the core's toplevel function.
  (note-core-code)
  (setf sb-ext:*invoke-debugger-hook* 'debugger-hook
        *lisp-modes* (floating-point-modes)
        *host-modes* (untrapped-floating-point-modes)
        *entry-points* (make-entry-points))
  (sb-alien:alien-funcall
   (sb-alien:extern-alien
    "steelbank_leave_by" (function sb-alien:void sb-alien:unsigned sb-alien:unsigned))
   (object-address #'leave-at-once) (object-address 'fault))
  (refuse-foreign-exits)
  (prepare-home)
  (restore-foreign-strings)
  ;; Discard what UIOP recorded on the machine that built the core: the user's cache and the
  ;; temporary folder.
  (uiop:call-image-restore-hook)
  (prepare-streams)
  (watch-heap)
  ;; Encapsulate the exit functions again, because SAVE-CORE removed the encapsulations from the
  ;; core that it saved.
  (refuse-exits)
  (let ((order (sb-alien:alien-sap (sb-alien:make-alien (sb-alien:unsigned 64) 2))))
    (setf *supervisor* (make-protected-thread "steelbank supervisor" #'supervise order)))
  (serve 0)
  (save-core))
