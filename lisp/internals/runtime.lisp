;;;; The runtime: encapsulations, threads, faults, the heap's limits, floating point modes, and the linkage of foreign functions.

(in-package :steelbank)

;;; Encapsulations

(defun encapsulate (name type function)
  "Have FUNCTION be called in place of the function NAME, with the function before and the arguments. TYPE, a symbol,
names the encapsulation."
  (sb-ext:without-package-locks
    (sb-int:encapsulate name type function)))

(defun unencapsulate (name type)
  "Remove the encapsulation of the function NAME for TYPE."
  (sb-ext:without-package-locks
    (sb-int:unencapsulate name type)))

(defun encapsulated-p (name type)
  "True if the function NAME is encapsulated for TYPE."
  (and (sb-int:encapsulated-p name type) t))

;;; The functions of SBCL's that are encapsulated

(defconstant +find-source-paths+ 'sb-c::find-source-paths
  "Numbers the sub-forms of a top-level form that was just read: its arguments are the form and its number.")

(defconstant +make-observer+ 'sb-c::make-form-tracking-stream-observer
  "Makes the observer of the stream of a file info, its argument.")

(defconstant +sub-compile-file+ 'sb-c::sub-compile-file
  "Compiles a file: its first argument is the source info.")

(defconstant +record-component-xrefs+ 'sb-c::record-component-xrefs
  "Records the uses in a component, its argument.")

(defconstant +load-as-source+ 'sb-fasl::load-as-source
  "Loads a file as source: its first argument is the stream.")

(defconstant +fasl-features+ 'sb-fasl::compute-features-affecting-fasl-format
  "FASL-FEATURES as SBCL calls it.")

(defconstant +define-package+ 'sb-impl::%defpackage
  "The function that DEFPACKAGE expands into a call of.")

(defconstant +define-constant+ 'sb-impl::%defconstant
  "The function that DEFCONSTANT expands into a call of.")

(defconstant +define-structure+ 'sb-kernel::%compiler-defstruct
  "The compile-time part of DEFSTRUCT: its first argument is the description.")

(defconstant +query-file-system+ 'sb-impl::%query-file-system
  "The function that TRUENAME, PROBE-FILE, FILE-WRITE-DATE and FILE-AUTHOR call.")

(defconstant +open-file+ 'sb-unix:unix-open
  "Opens a file: its first arguments are the native name and the flags. It returns NIL and the errno if it cannot.")

(defparameter *writing-calls* '(sb-unix:unix-mkdir sb-unix:unix-unlink sb-unix:unix-rename)
  "Functions that change a folder: the native name is the first argument. They return NIL and the errno if they cannot.")

(defconstant +walker-template+ 'sb-walker::get-walker-template
  "Tells how the code walker treats the forms of an operator, its first argument. A symbol names the function that walks
them: it is called with form, context and environment.")

(defconstant +after-collection+ 'sb-kernel::post-gc
  "The function that the thread which caused a garbage collection calls after it.")

(defconstant +debugger+ 'sb-debug::%invoke-debugger
  "The debugger, after its hooks.")

(defconstant +last-resort+ 'sb-impl::error-error
  "The function that is called when the handling of an error fails: its arguments are words for a person.")

(defconstant +leave-process+ 'sb-impl::os-exit
  "Ends the process.")

(defconstant +find-foreign-function+ 'sb-sys:find-dynamic-foreign-symbol-address
  "Finds the address of a foreign function by its name.")

;;; Faults

(define-condition heap-full (sb-kernel::heap-exhausted-error)
  ()
  (:documentation "A full heap, of SBCL's own class of such."))

(deftype heap-exhausted ()
  "The heap has no room for what was asked for."
  'sb-kernel::heap-exhausted-error)

(deftype stack-exhausted ()
  "The control stack is full."
  'sb-kernel::control-stack-exhausted)

(deftype memory-fault ()
  "Memory was touched that is not there."
  'sb-sys:memory-fault-error)

(define-inline interrupted-context ()
  "The context of the signal that interrupted this thread: a pointer, or something else if there is none."
  sb-kernel:*current-internal-error-context*)

;;; Threads and interrupts

(define-inline interrupts-allowed-p ()
  "True if this thread may allow interrupts."
  sb-sys:*allow-with-interrupts*)

(defmacro with-interrupts-allowed (&body body)
  "Run BODY with interrupts, although they are forbidden around it."
  `(let ((sb-sys:*allow-with-interrupts* t))
     (sb-sys:with-interrupts
       ,@body)))

(define-inline forget-interruptions (thread)
  "Drop the pending interruptions of THREAD."
  (setf (sb-thread::thread-interruptions thread) '()))

(define-inline runtime-thread-p (thread)
  "True if THREAD is the runtime's own, as the finalizer's."
  (sb-thread::thread-ephemeral-p thread))

(define-inline pause-microseconds (microseconds)
  "Let MICROSECONDS, less than a second, pass."
  (sb-unix:nanosleep 0 (* 1000 microseconds)))

;;; Floating point

(define-inline floating-point-modes ()
  "The floating point modes of this thread, as a number."
  (sb-vm:floating-point-modes))

(define-inline (setf floating-point-modes) (modes)
  "Set the floating point modes of this thread."
  (setf (sb-vm:floating-point-modes) modes))

(defun untrapped-floating-point-modes ()
  "The modes of this thread with every trap masked."
  (sb-int:with-float-traps-masked (:overflow :invalid :divide-by-zero :inexact)
    (floating-point-modes)))

;;; Foreign memory and functions

(define-inline copy-foreign-octets (pointer octets)
  "Fill OCTETS, a pinned vector, from POINTER."
  (sb-kernel:system-area-ub8-copy pointer 0 (sb-sys:vector-sap octets) 0 (length octets)))

(define-inline callable-pointer (name)
  "The address of the alien callable NAME."
  (sb-alien:alien-sap (sb-alien::alien-callable-function name)))

(defun relink-foreign-function (name)
  "Link the foreign function NAME anew, for code that is linked already."
  (sb-impl::arch-write-linkage-table-entry (sb-impl::ensure-alien-linkage-index name nil)
                                           (sb-sys:find-dynamic-foreign-symbol-address name)
                                           0))

(defun foreign-library-names ()
  "The names of the foreign libraries that were loaded."
  (remove-if-not #'stringp (mapcar #'sb-alien::shared-object-namestring sb-sys:*shared-objects*)))
