;;;; The boundary to the host. sys/include/steelbank.h is the one list of what crosses; this file is Lisp's side of it.

(in-package :steelbank)

(defconstant +abi+ 2
  "STEELBANK_ABI.")

(defconstant +answered+ 0
  "STEELBANK_STATUS_ANSWERED.")
(defconstant +fault+ 1
  "STEELBANK_STATUS_FAULT.")
(defconstant +interrupted+ 2
  "STEELBANK_STATUS_INTERRUPTED.")
(defconstant +misuse+ 3
  "STEELBANK_STATUS_MISUSE.")

(defconstant +command-interrupt+ 1
  "STEELBANK_COMMAND_INTERRUPT.")
(defconstant +command-start-thread+ 2
  "STEELBANK_COMMAND_START_THREAD.")
(defconstant +command-end+ 3
  "STEELBANK_COMMAND_END.")

;;; The host's functions. All are called without interrupts: an interrupt must not unwind the host's frames.

(defmacro call-host (name &rest types-and-values)
  "Call the shim's function NAME with alternating alien types and values."
  (let ((types (loop for (type) on types-and-values by #'cddr collect type))
        (values (loop for (nil value) on types-and-values by #'cddr collect value)))
    `(sb-sys:without-interrupts
       (sb-alien:alien-funcall (sb-alien:extern-alien ,name (function sb-alien:void ,@types))
                               ,@values))))

(defmacro with-octets ((sap length text) &body body)
  "Run BODY with SAP and LENGTH standing for the octets of TEXT: a string, as UTF-8, or a vector of octets."
  (let ((octets (gensym "OCTETS")))
    `(let* ((,octets (text-octets ,text))
            (,length (length ,octets)))
       (sb-sys:with-pinned-objects (,octets)
         (let ((,sap (sb-sys:vector-sap ,octets)))
           ,@body)))))

(defun text-octets (text)
  "The octets of TEXT."
  (etypecase text
    (string (coerce (sb-ext:string-to-octets text :external-format '(:utf-8 :replacement #\ufffd))
                    '(simple-array (unsigned-byte 8) (*))))
    ((simple-array (unsigned-byte 8) (*)) text)
    (vector (coerce text '(simple-array (unsigned-byte 8) (*))))))

(defun answer (text)
  "Give the host the answer of the running call."
  (with-octets (sap length text)
    (call-host "steelbank_host_answer" sb-sys:system-area-pointer sap sb-alien:size-t length)))

(defun progress (text)
  "Give the host a progress report, a JSON text, of the running call."
  (with-octets (sap length text)
    (call-host "steelbank_host_progress" sb-sys:system-area-pointer sap sb-alien:size-t length)))

(defun report (sentence)
  "Give the host a sentence for its log."
  (with-octets (sap length sentence)
    (call-host "steelbank_host_report" sb-sys:system-area-pointer sap sb-alien:size-t length)))

(defun report-output (text dropped)
  "Give the host what the running call wrote to the standard streams; DROPPED characters came after the limit."
  (with-octets (sap length text)
    (call-host "steelbank_host_output" sb-sys:system-area-pointer sap sb-alien:size-t length
               (sb-alien:unsigned 64) dropped)))

;;; Questions

(sb-ext:define-load-time-global *questions* (make-hash-table :test 'equal)
  "A table from the names of questions to the functions that answer them.")

(defmacro define-question (name (&rest arguments) documentation &body body)
  "Define the answer to the question called NAME, a string: a value that WRITE-JSON takes, or a vector of octets. ARGUMENTS are as
READ-JSON has them. BODY may signal and leave as it likes: the boundary's handler is above it."
  (check-type name string)
  (check-type documentation string)
  (let ((function (intern (format nil "ANSWER-~:@(~a~)" name) :steelbank)))
    `(progn
       (defun ,function ,arguments
         ,documentation
         ,@body)
       (setf (gethash ,name *questions*) ',function))))

(defparameter *output-limit* 100000
  "The number of characters of a call's output that are kept.")

(defun decode-text (text)
  "The string in the steelbank_text structure at TEXT."
  (let ((octets (make-array (sb-sys:sap-ref-64 text 8) :element-type '(unsigned-byte 8))))
    (sb-sys:with-pinned-objects (octets)
      (copy-foreign-octets (sb-sys:sap-ref-sap text 0) octets))
    (coerce (sb-ext:octets-to-string octets :external-format :utf-8) '(simple-array character (*)))))

(defun perform (question arguments)
  "Answer QUESTION, a name, with ARGUMENTS, a JSON array; both are steelbank_text. Returns a status and the answer's text."
  (let* ((name (decode-text question))
         (function (gethash name *questions*)))
    (if function
        (let ((answer (apply function (read-json (decode-text arguments)))))
          (values +answered+ (if (typep answer '(vector (unsigned-byte 8)))
                                 answer
                                 (json-string answer))))
        (values +misuse+
                (fault-json :misuse
                            (format nil "This image does not know the question ~s. Core and program may be of different builds."
                                    name))))))

(defun perform-caught (call question arguments)
  "PERFORM as CALL, with conditions that nobody handles and the host's interrupts turned into an outcome: a cons of
status and text. *CALL* is bound inside of the tags, so nobody throws to them when they are not there."
  (catch 'interrupted
    (let* ((condition
             (catch 'fault
               (let ((*call* call))
                 (with-simple-restart (abort "Give up what was asked.")
                   (return-from perform-caught
                     (multiple-value-call #'cons (perform question arguments)))))
               (make-condition 'left-by-exit)))
           (description
             (catch 'fault
               (when (typep condition 'heap-exhausted)
                 ;; Collect what the call had filled, or the next call would pay for it. Ignore what is kept: it must
                 ;; not end this call a second time.
                 (let ((*checking-heap* t))
                   (sb-ext:gc :full t)))
               (let ((*call* call))
                 (fault-json (condition-kind condition) (describe-fault condition) condition)))))
      ;; Near the end of the stack, code is left by a throw, past the handlers of DESCRIBE-CONDITION.
      (end-if-nothing-prints condition description)
      (return-from perform-caught
        (cons +fault+ (if (stringp description)
                          description
                          (fault-json (condition-kind condition)
                                      (format nil "A condition of type ~a, whose report failed."
                                              (name-text (type-of condition)))
                                      condition))))))
  (cons +interrupted+ (fault-json :interrupted "The call was stopped.")))

(define-condition left-by-exit (error)
  ()
  (:report "The code left by a non-local exit to a place outside of the call.")
  (:documentation "Describes a throw or restart past the call; never signalled."))

(defun perform-guarded (call question arguments)
  "PERFORM-CAUGHT, and a non-local exit past the call ends here: nothing unwinds into the host."
  (let ((outcome nil))
    (block guard
      ;; Interrupts that came while the host had this thread run here, where they can unwind no further.
      (unwind-protect (with-interrupts-allowed
                        (setf outcome (perform-caught call question arguments)))
        (unless outcome
          (return-from guard))))
    (or outcome
        (cons +fault+ (fault-json :error (princ-to-string (make-condition 'left-by-exit)))))))

(defvar *empty-input* (make-instance 'empty-input)
  "The standard input of calls: a stream at its end.")

(defun run-call (call question arguments)
  "The body of the entry point: answer QUESTION as CALL, and give the host its output and its answer. Returns a status."
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
  "Whether the heap is full whatever is collected. Ends nothing."
  (json-boolean (> (live-octets) (heap-limit))))

(sb-ext:define-load-time-global *out-of-memory-answer*
    (text-octets (fault-json :storage-exhausted "There was no room left to say what went wrong."))
  "The answer for an exhausted heap, made beforehand because making it would need memory.")


(sb-ext:define-load-time-global *lisp-modes* 0
  "The floating point modes that Lisp code expects.")

(sb-ext:define-load-time-global *host-modes* 0
  "The floating point modes with every trap masked, as Rust's code expects.")


(sb-ext:define-load-time-global *entry-points* (sb-sys:int-sap 0)
  "The foreign table of entry points.")


(define-alien-callable steelbank-ping (sb-alien:signed 64) ((number (sb-alien:signed 64)))
  "Measures the crossing."
  (1+ number))

(define-alien-callable steelbank-call (sb-alien:signed 64)
    ((call (sb-alien:unsigned 64))
     (question sb-sys:system-area-pointer)
     (arguments sb-sys:system-area-pointer))
  "Answers a question; see the header."
  (setf (floating-point-modes) *lisp-modes*)
  (prog1 (block entry
           ;; Only for this file's own code, as when the heap is full after a call: then the answer must not allocate.
           ;; The call's conditions pass, so that SIGNAL means in it what it means elsewhere.
           (handler-bind ((serious-condition (lambda (condition)
                                               (declare (ignore condition))
                                               (when (zerop *call*)
                                                 (answer *out-of-memory-answer*)
                                                 (return-from entry +fault+)))))
             (run-call call question arguments)))
    (setf (floating-point-modes) *host-modes*)))

(defun make-entry-points ()
  "A foreign struct steelbank_entry_points, never freed."
  (let ((table (sb-alien:alien-sap (sb-alien:make-alien (sb-alien:unsigned 64) 3))))
    (setf (sb-sys:sap-ref-64 table 0) +abi+)
    (loop for name in '(steelbank-ping steelbank-call)
          for offset from 8 by 8
          do (setf (sb-sys:sap-ref-sap table offset)
                   (callable-pointer name)))
    table))

(defun serve (number &optional protected)
  "Let the host serve its queue on this thread as lane NUMBER. Without interrupts: outside of a call the stack holds the
host's frames, which nothing may unwind. Sets the car of PROTECTED when that is so."
  (let ((*lane* (make-lane number sb-thread:*current-thread*)))
    (unwind-protect
         (sb-sys:without-interrupts
           (sb-ext:atomic-push *lane* *lanes*)
           (when protected
             (setf (car protected) t))
           (setf (floating-point-modes) *host-modes*)
           (sb-alien:alien-funcall
            (sb-alien:extern-alien "steelbank_host_serve"
                                   (function sb-alien:void sb-sys:system-area-pointer (sb-alien:unsigned 64)))
            *entry-points* number)
           (setf (floating-point-modes) *lisp-modes*))
      (sb-ext:atomic-update *lanes* (lambda (lanes) (remove *lane* lanes))))))

(defun make-protected-thread (name function &rest arguments)
  "Make a thread that calls FUNCTION with ARGUMENTS and a cons, whose car it sets once it is without interrupts. Made
again if somebody terminates it before: code that terminates every other thread meets it in the list from its birth."
  (loop
    (let* ((protected (list nil))
           (thread (sb-thread:make-thread function :arguments (append arguments (list protected)) :name name)))
      (loop while (sb-thread:thread-alive-p thread)
            do (when (car protected)
                 (return-from make-protected-thread thread))
               (pause-microseconds 100)))))

(defun start-lane (number)
  "Make the Lisp thread of lane NUMBER."
  (sb-alien:alien-funcall (sb-alien:extern-alien "steelbank_reserve_below_stacks" (function sb-alien:void)))
  (make-protected-thread (format nil "steelbank lane ~d" number) #'serve number))

(defun supervise (order protected)
  "Carry out the host's orders, which the other threads cannot while they are busy; ORDER is the buffer for them.
Without interrupts, so that code that terminates every other thread does not end this one; sets the car of PROTECTED then."
  (sb-sys:without-interrupts
    (setf (car protected) t)
    (loop
      (sb-alien:alien-funcall
       (sb-alien:extern-alien "steelbank_host_supervise" (function sb-alien:void sb-sys:system-area-pointer))
       order)
      (let ((command (sb-sys:signed-sap-ref-64 order 0))
            (argument (sb-sys:sap-ref-64 order 8)))
        (cond ((= command +command-interrupt+) (interrupt-call argument))
              ((= command +command-start-thread+) (start-lane argument))
              ((= command +command-end+) (return)))))))

(defun contrib-folder ()
  "The folder of the contrib modules as the host has it, or NIL."
  (let* ((size 4096)
         (buffer (sb-alien:make-alien sb-alien:char size)))
    (unwind-protect
         (let ((length (sb-sys:without-interrupts
                         (sb-alien:alien-funcall
                          (sb-alien:extern-alien "steelbank_host_contribs"
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
  "Load the contrib MODULE from the host's folder: SBCL's own provider looks where no SBCL is installed."
  (let* ((name (string-downcase (string module)))
         (folder (and (member name *contribs* :test #'string=) (contrib-folder)))
         (fasl (and folder (merge-pathnames (make-pathname :name name :type "fasl") folder))))
    (when (and fasl (probe-file fasl))
      (load fasl)
      t)))

(defun find-contrib-system (name)
  "The contrib NAME as a system, which REQUIRE loads, or NIL: ASDF finds them in SBCL's home, and there is none."
  (when (member name *contribs* :test #'string=)
    (or (asdf:registered-system name)
        (make-instance 'asdf:require-system :name name))))

(defvar *background-output* nil
  "The output stream of threads that run no call.")

(defun prepare-streams ()
  "Point the global streams away from the descriptors: what a background thread prints is reported, not lost."
  (setf *background-output* (make-instance 'limited-output :limit *output-limit*))
  (let ((both (make-two-way-stream *empty-input* *background-output*)))
    (setf *standard-output* *background-output*
          *error-output* *background-output*
          *trace-output* *background-output*
          *standard-input* *empty-input*
          *terminal-io* both
          *query-io* both
          *debug-io* both
          ;; UIOP's own names for the streams of the descriptors.
          uiop:*stdin* (make-synonym-stream '*standard-input*)
          uiop:*stdout* (make-synonym-stream '*standard-output*)
          uiop:*stderr* (make-synonym-stream '*error-output*))))

(defun prepare-home ()
  "Have a home folder, as UIOP and ASDF need one to start: a user without a name has none, and a relative one moves with
the process. The root folder stands in, where nothing is found."
  (let ((home (sb-ext:posix-getenv "HOME")))
    (unless (if (plusp (length home))
                (char= (char home 0) #\/)
                (user-home))
      (sb-alien:alien-funcall
       (sb-alien:extern-alien "setenv" (function sb-alien:int sb-alien:c-string sb-alien:c-string sb-alien:int))
       "HOME" "/" 1))))

(sb-ext:define-load-time-global *supervisor* nil
  "The thread that carries out the host's orders.")

(defun main ()
  "The core's toplevel function: start the supervisor, then hand this thread to the host, which gives it back only for the
core to be saved."
  (note-core-code)
  (setf sb-ext:*invoke-debugger-hook* 'debugger-hook
        *lisp-modes* (floating-point-modes)
        *host-modes* (untrapped-floating-point-modes)
        *entry-points* (make-entry-points))
  (sb-alien:alien-funcall
   (sb-alien:extern-alien "steelbank_leave_by" (function sb-alien:void sb-alien:unsigned sb-alien:unsigned))
   (object-address #'leave-at-once) (object-address 'fault))
  (refuse-foreign-exits)
  (prepare-home)
  ;; Drop what UIOP keeps of the machine that built the core: its user's cache, its temporary folder.
  (uiop:call-image-restore-hook)
  (prepare-streams)
  (watch-heap)
  ;; Refuse again: SAVE-CORE removed the refusals from the core that it saved.
  (refuse-exits)
  (setf *supervisor* (make-protected-thread "steelbank supervisor" #'supervise
                                            (sb-alien:alien-sap (sb-alien:make-alien (sb-alien:unsigned 64) 2))))
  (serve 0)
  (save-core))
