;;;; The runtime: encapsulations, threads, faults, heap limits, floating point modes, and the
;;;; linkage of foreign functions.

(in-package :steelbank)

;;; Encapsulations

(defun encapsulate (name type function)
  "Make calls of the function NAME call FUNCTION with the previous function and the arguments."
  ;; TYPE, a symbol, names the encapsulation.
  (sb-ext:without-package-locks
    (sb-int:encapsulate name type function)))

(defun unencapsulate (name type)
  "Remove the encapsulation of the function NAME for TYPE."
  (sb-ext:without-package-locks
    (sb-int:unencapsulate name type)))

(defun encapsulated-p (name type)
  "Return true if the function NAME is encapsulated for TYPE."
  (and (sb-int:encapsulated-p name type) t))

;;; The SBCL functions that are encapsulated

;; The arguments are the form and its number.
(defconstant +find-source-paths+ 'sb-c::find-source-paths
  "Numbers the sub-forms of a top-level form that was just read.")

(defconstant +make-observer+ 'sb-c::make-form-tracking-stream-observer
  "Creates the observer of the stream of a file info, its argument.")

;; It is called after the source file was read. The first argument is the source info.
(defconstant +fasl-dump-source-info+ 'sb-c::fasl-dump-source-info
  "Writes into a fasl the name of the file that it was compiled from.")

(defconstant +record-component-xrefs+ 'sb-c::record-component-xrefs
  "Records the uses in a component, its argument.")

(defconstant +load-as-source+ 'sb-fasl::load-as-source
  "Loads a file as source. The first argument is the stream.")

(defconstant +fasl-features+ 'sb-fasl::compute-features-affecting-fasl-format
  "SBCL's name of FASL-FEATURES.")

(defconstant +define-package+ 'sb-impl::%defpackage
  "The function that DEFPACKAGE forms call.")

(defconstant +define-constant+ 'sb-impl::%defconstant
  "The function that DEFCONSTANT forms call.")

(defconstant +define-structure+ 'sb-kernel::%compiler-defstruct
  "The compile-time part of DEFSTRUCT. The first argument is the description.")

(defconstant +query-file-system+ 'sb-impl::%query-file-system
  "The function that TRUENAME, PROBE-FILE, FILE-WRITE-DATE and FILE-AUTHOR call.")

;; On failure, the function returns NIL and the errno.
(defconstant +open-file+ 'sb-unix:unix-open
  "Opens a file. The first arguments are the native name and the flags.")

;; On failure, the functions return NIL and the errno.
(defparameter *writing-calls* '(sb-unix:unix-mkdir sb-unix:unix-unlink sb-unix:unix-rename)
  "Functions that modify a folder. The first argument is the native name.")

;; If the result is a symbol, it names a function that walks the forms. Its arguments are form,
;; context and environment.
(defconstant +walker-template+ 'sb-walker::get-walker-template
  "Returns how the code walker treats the forms of an operator, its first argument.")

(defconstant +constant-call-p+ 'sb-c::constant-function-call-p
  "Decides for CONSTANTP whether a function call is constant. It calls the function to find out.")

(defconstant +after-collection+ 'sb-kernel::post-gc
  "The function that is called after a garbage collection by the thread that triggered it.")

;; Returns 0 if another thread is about to collect; the caller then continues.
(defconstant +collect+ 'sb-kernel::sub-gc
  "Collects garbage up to the generation that is its argument.")

(define-inline collection-epoch ()
  "Return an object that is replaced at each garbage collection."
  sb-kernel::*gc-epoch*)

(defparameter *look-up-functions* '(intern find-symbol sb-impl::intern2 sb-impl::find-symbol2)
  "The functions that look up a symbol by name. Calls with a constant package use the last two.")

(defconstant +debugger+ 'sb-debug::%invoke-debugger
  "The debugger itself, which is called after its hooks.")

(defconstant +last-resort+ 'sb-impl::error-error
  "The function that is called when handling an error fails. Its arguments are message texts.")

;; SBCL's function prints a message and signals an error.
(defconstant +overflow+ 'sb-kernel::control-stack-exhausted-error
  "The function that the runtime calls when the stack has reached its guard page.")

(defconstant +leave-process+ 'sb-impl::os-exit
  "Ends the process.")

;; The arguments are the signal and the handler.
(defconstant +install-handler+ 'sb-unix::%install-handler
  "Installs a signal handler, which is a function, :DEFAULT or :IGNORE.")

(defparameter *ending-handlers* '(sb-unix::sigint-handler sb-unix::sigterm-handler)
  "The names of SBCL's handlers of the signals that end a process.")

(defconstant +find-foreign-function+ 'sb-sys:find-dynamic-foreign-symbol-address
  "Finds the address of a foreign function by its name.")

;;; Faults

(define-condition heap-full (sb-kernel::heap-exhausted-error)
  ()
  (:documentation "A full heap, as a subclass of SBCL's condition."))

(deftype heap-exhausted ()
  "The heap has no space for an allocation."
  'sb-kernel::heap-exhausted-error)

(deftype stack-exhausted ()
  "The control stack is full."
  'sb-kernel::control-stack-exhausted)

(sb-ext:define-load-time-global *overflow* (make-condition 'sb-kernel::control-stack-exhausted)
  "The condition used for every overflow, because creating one needs stack space.")

(deftype memory-fault ()
  "An access to memory that is not mapped."
  'sb-sys:memory-fault-error)

(define-inline interrupted-context ()
  "Return a pointer to the interrupting signal's context, or another object if there is none."
  sb-kernel:*current-internal-error-context*)

;;; The end of the stack

(deftype return-addresses ()
  ;; The first element is the number of words in use. Each address is followed by the number of its
  ;; consecutive occurrences.
  "A copy of the return addresses on a stack, innermost first."
  '(simple-array (unsigned-byte 64) (2048)))

(defmacro with-return-addresses ((variable) &body body)
  "Run BODY with VARIABLE, a special variable, bound to empty RETURN-ADDRESSES."
  ;; The array is on the stack, where the collector treats the addresses as references and does not
  ;; move the code.
  (let ((addresses (gensym "ADDRESSES")))
    `(let ((,addresses (make-array 2048 :element-type '(unsigned-byte 64))))
       (declare (dynamic-extent ,addresses))
       (setf (aref ,addresses 0) 0)
       (let ((,variable ,addresses))
         ,@body))))

(defun copy-return-addresses (addresses)
  "Fill ADDRESSES with as many return addresses of this thread's frames as fit."
  ;; If a signal interrupted the thread, begin with the interrupted frame. Use almost no stack.
  (declare (type return-addresses addresses) (optimize (safety 0)))
  (let* ((used 0)
         (context (interrupted-context))
         (end (sb-kernel:get-lisp-obj-address sb-vm:*control-stack-end*))
         (frame (sb-sys:sap-int (sb-kernel:current-fp))))
    (declare (type (unsigned-byte 62) used end frame))
    (flet ((add (address)
             (declare (type (unsigned-byte 64) address))
             (cond ((and (plusp used) (= address (aref addresses (1- used))))
                    (setf (aref addresses used)
                          (logand (1+ (aref addresses used)) most-positive-fixnum)))
                   ((< used 2046)
                    (setf (aref addresses (+ used 1)) address
                          (aref addresses (+ used 2)) 1)
                    (incf used 2)))))
      (when (typep context 'sb-sys:system-area-pointer)
        (let ((context (sb-alien:sap-alien context (* sb-sys:os-context-t))))
          (add (logand (sb-sys:sap-int (sb-vm:context-pc context)) sb-ext:most-positive-word))
          (setf frame (logand (sb-vm:context-register context sb-vm::rbp-offset)
                              most-positive-fixnum))))
      (loop
        (let ((caller (logand (sb-sys:sap-ref-word (sb-sys:int-sap frame) 0) most-positive-fixnum)))
          (unless (< frame caller end)
            (return))
          (add (sb-sys:sap-ref-word (sb-sys:int-sap frame) 8))
          (setf frame caller))))
    (setf (aref addresses 0) used)
    nil))

(defun map-return-addresses (function addresses)
  "Call FUNCTION for each of ADDRESSES that is in Lisp code."
  ;; The arguments are the debug function, the code location, and the number of consecutive
  ;; occurrences.
  (loop for index from 1 below (aref addresses 0) by 2
        do (multiple-value-bind (debug-function location)
               (return-address-place (aref addresses index))
             (when debug-function
               (funcall function debug-function location (aref addresses (1+ index)))))))

(define-inline object-address (object)
  "Return the address of OBJECT, which must not move."
  (sb-kernel:get-lisp-obj-address object))

(define-inline frame-pointer ()
  "Return the frame pointer of the calling function."
  (sb-kernel:current-fp))

(defun stack-left ()
  "Return the octets of stack left before the guard pages; negative beyond those."
  (- (sb-sys:sap-int (sb-kernel:current-sp))
     (sb-kernel:get-lisp-obj-address sb-vm:*control-stack-start*)
     ;; The hard guard page, the guard page, and the page that detects a return from the guard page.
     (* 3 sb-c:+backend-page-bytes+)))

;;; Threads and interrupts

(define-inline interrupts-allowed-p ()
  "Return true if this thread may enable interrupts."
  sb-sys:*allow-with-interrupts*)

(defmacro with-interrupts-allowed (&body body)
  "Run BODY with interrupts enabled, although they are disabled around it."
  `(let ((sb-sys:*allow-with-interrupts* t))
     (sb-sys:with-interrupts
       ,@body)))

(define-inline forget-interruptions (thread)
  "Discard the pending interruptions of THREAD."
  (setf (sb-thread::thread-interruptions thread) '()))

(define-inline runtime-thread-p (thread)
  "Return true if THREAD belongs to the runtime, like the finalizer."
  (sb-thread::thread-ephemeral-p thread))

(defmacro with-thread-kept ((thread primitive) &body body)
  "Run BODY while the runtime's structure of THREAD stays in place."
  ;; PRIMITIVE is bound to the address of the structure, or to 0 if THREAD has ended. SBCL's macro
  ;; was renamed in 2.5.9.
  `(,(or (find-symbol "WITH-TLS-LOCK" "SB-THREAD") (find-symbol "WITH-DEATHLOK" "SB-THREAD"))
    (,thread ,primitive)
    ,@body))

(defmacro with-allocation ((allocated noted) thread &body body)
  "Return the values of BODY, or 0 if THREAD has ended."
  ;; ALLOCATED is bound to the octets that THREAD has allocated since it began, as the shim counts
  ;; them, and NOTED to the value that NOTE-ALLOCATED stores. Both are in fields that SBCL uses only
  ;; when it is built to measure its allocator.
  (let ((primitive (gensym "PRIMITIVE")))
    (flet ((field (slot)
             `(sb-sys:sap-ref-word (sb-sys:int-sap ,primitive) (* ,slot sb-vm:n-word-bytes))))
      `(with-thread-kept (,thread ,primitive)
         (symbol-macrolet ((,allocated ,(field 'sb-vm::thread-et-find-freeish-page-slot))
                           (,noted ,(field 'sb-vm::thread-et-bzeroing-slot)))
           (if (zerop ,primitive)
               0
               (progn ,@body)))))))

(defun allocated (thread)
  "Return the octets that THREAD allocated since NOTE-ALLOCATED or its start; 0 once it ended."
  (with-allocation (allocated noted) thread
    (- allocated noted)))

(defun note-allocated (thread)
  "Reset the allocation counter of THREAD."
  (with-allocation (allocated noted) thread
    (setf noted allocated)))

(define-inline pause-microseconds (microseconds)
  "Sleep for MICROSECONDS, which must be less than a second."
  (sb-unix:nanosleep 0 (* 1000 microseconds)))

;;; Floating point

(define-inline floating-point-modes ()
  "Return the floating point modes of this thread, as a number."
  (sb-vm:floating-point-modes))

(define-inline (setf floating-point-modes) (modes)
  "Set the floating point modes of this thread."
  (setf (sb-vm:floating-point-modes) modes))

(defun untrapped-floating-point-modes ()
  "Return the modes of this thread with every trap masked."
  (sb-int:with-float-traps-masked (:overflow :invalid :divide-by-zero :inexact)
    (floating-point-modes)))

;;; Foreign memory and functions

(define-inline copy-foreign-octets (pointer octets)
  "Fill OCTETS, a pinned vector, from POINTER."
  (sb-kernel:system-area-ub8-copy pointer 0 (sb-sys:vector-sap octets) 0 (length octets)))

(define-inline write-foreign-octets (pointer octets)
  "Write OCTETS, a pinned vector, to POINTER."
  (sb-kernel:system-area-ub8-copy (sb-sys:vector-sap octets) 0 pointer 0 (length octets)))

(define-inline callable-pointer (name)
  "Return the address of the alien callable NAME."
  (sb-alien:alien-sap (sb-alien::alien-callable-function name)))

(defun relink-foreign-function (name)
  "Link the foreign function NAME again, for code that is already linked."
  (sb-impl::arch-write-linkage-table-entry (sb-impl::ensure-alien-linkage-index name nil)
                                           (sb-sys:find-dynamic-foreign-symbol-address name)
                                           0))

(defun foreign-library-names ()
  "Return the names of the loaded foreign libraries."
  (remove-if-not #'stringp (mapcar #'sb-alien::shared-object-namestring sb-sys:*shared-objects*)))
