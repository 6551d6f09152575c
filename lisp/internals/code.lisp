;;;; Functions, code objects and the heap that contains them.

(in-package :steelbank)

;;; Functions

(deftype simple-function ()
  "A function that is an entry of a code object."
  'sb-kernel:simple-fun)

(deftype closure ()
  "A function that closes over variables."
  'sb-kernel:closure)

(deftype funcallable-instance ()
  "An instance that can be called, such as a generic function."
  'sb-kernel:funcallable-instance)

(define-inline closure-function (closure)
  "Return the simple function of CLOSURE."
  (sb-kernel:%closure-fun closure))

(define-inline funcallable-instance-function (instance)
  "Return the function that INSTANCE calls."
  (sb-kernel:%funcallable-instance-fun instance))

(define-inline entry-function (function)
  "Return the simple function of FUNCTION, whatever kind of function it is."
  (sb-kernel:%fun-fun function))

(define-inline function-own-name (function)
  "Return the name that FUNCTION was compiled with."
  (sb-kernel:%fun-name function))

(define-inline simple-function-name (function)
  "Return the name that FUNCTION, a simple function, was compiled with."
  (sb-kernel:%simple-fun-name function))

(define-inline function-code (function)
  "Return the code object of FUNCTION, a simple function."
  (sb-kernel:fun-code-header function))

(define-inline function-xrefs (function)
  "Return the packed cross references of FUNCTION, a simple function, or NIL."
  (sb-kernel:%simple-fun-xrefs function))

(define-inline map-function-xrefs (visitor function)
  "Call VISITOR with kind, name and form number of each cross reference of FUNCTION."
  (sb-c:map-packed-xref-data visitor (function-xrefs function)))

(defun encapsulated-function (closure)
  "Return the function that CLOSURE encapsulates, or NIL if it is not an encapsulation."
  (and (eq (function-own-name (closure-function closure)) 'sb-impl::encapsulation)
       (sb-impl::encapsulation-info-definition (sb-impl::encapsulation-info closure))))

(defun closed-values (function)
  "Return the values of the variables that FUNCTION closes over, or NIL if it is not a closure."
  (flet ((value (closed)
           ;; A variable that is assigned is stored in a cell.
           (if (and (sb-kernel:%other-pointer-p closed)
                    (= (sb-kernel:%other-pointer-widetag closed) sb-vm:value-cell-widetag))
               (sb-kernel:value-cell-ref closed)
               closed)))
    (and (sb-kernel:closurep function)
         (not (typep function 'sb-mop:funcallable-standard-object))
         (mapcar #'value (sb-kernel:%closure-values function)))))

;;; Code objects

(define-inline code-serial (code)
  "Return the serial number of CODE. Code that is created later has a higher number."
  (sb-kernel:%code-serialno code))

(define-inline last-code-serial ()
  "Return the number of code objects created so far."
  sb-vm::*code-alloc-count*)

(define-inline code-entry-count (code)
  "Return the number of functions in CODE."
  (sb-kernel:code-n-entries code))

(define-inline code-entry (code entry)
  "Return the function of CODE with the number ENTRY."
  (sb-kernel:%code-entry-point code entry))

(defun code-source (code)
  "Return the debug source of CODE, or NIL."
  (let ((info (sb-kernel:%code-debug-info code)))
    (and (typep info 'sb-c::debug-info)
         (let ((source (sb-c::debug-info-source info)))
           (and (typep source 'sb-c::debug-source) source)))))

;;; Debug sources: the file, or other text, that code was compiled from

(define-inline debug-source-namestring (source)
  "Return the name of the file of SOURCE, or a substitute for it."
  (sb-c::debug-source-namestring source))

(define-inline debug-source-created (source)
  "Return the write date that the file of SOURCE had when it was compiled."
  (sb-c::debug-source-created source))

(define-inline debug-source-starts (source)
  "Return the start of each top-level form of the file of SOURCE, by number, or NIL."
  (sb-c::debug-source-start-positions source))

(define-inline debug-source-properties (source)
  "Return the property list of the compilation unit that compiled SOURCE."
  (sb-c::debug-source-plist source))

(defun source-location-namestring (location)
  "Return the name of the file of LOCATION, or NIL if it is not a source location in a file."
  (and (typep location 'sb-c:definition-source-location)
       (sb-c:definition-source-location-namestring location)))

;;; The heap

(define-inline text-space-end ()
  "Return the address up to which text space is in use."
  (sb-sys:sap-int sb-vm::*text-space-free-pointer*))

(define-inline map-all-code (function)
  "Call FUNCTION with each code object."
  (sb-vm:map-code-objects function))

(defun map-code-from (function start)
  "Call FUNCTION with the code objects in text space from address START on and in dynamic space."
  ;; Skip the last generation of dynamic space, which contains the core's objects. FUNCTION must
  ;; allocate little, because no collection can run.
  (declare (type function function))
  (flet ((visit (object type size)
           (declare (ignore size))
           (when (= type sb-vm:code-header-widetag)
             (funcall function object))))
    (declare (dynamic-extent #'visit))
    ;; SBCL's MAP-CODE-OBJECTS does the same, but for the complete spaces.
    (sb-sys:without-gcing
      (sb-thread::with-system-mutex (sb-vm::*allocator-mutex*)
        (sb-vm::map-objects-in-range #'visit
                                     (ash start (- sb-vm:n-fixnum-tag-bits))
                                     (sb-kernel:%make-lisp-obj (text-space-end))))
      (sb-alien:alien-funcall (sb-alien:extern-alien "close_code_region" (function sb-alien:void)))
      (sb-vm::walk-dynamic-space #'visit #b0111111 #b111 #b111))))

(defun objects-on-heap (predicate)
  "Return the objects of dynamic space for which PREDICATE returns true."
  ;; PREDICATE must not take locks, because no collection can run.
  (let ((found '()))
    (sb-vm:map-allocated-objects
     (lambda (object type size)
       (declare (ignore type size))
       (when (funcall predicate object)
         (push object found)))
     :dynamic)
    found))

(defun open-file-streams ()
  "Return the streams on the heap with an open file descriptor, except the standard streams."
  (let ((own (list sb-impl::*stdin* sb-impl::*stdout* sb-impl::*stderr* sb-impl::*tty*)))
    (objects-on-heap (lambda (object)
                       (and (typep object 'sb-sys:fd-stream)
                            (open-stream-p object)
                            (> (sb-sys:fd-stream-fd object) 2)
                            (not (member object own)))))))

(defun active-timers ()
  "Return the timers on the heap that are scheduled or will be."
  ;; A repeating timer is not scheduled while its function waits to be called.
  (remove-if-not (lambda (timer)
                   (or (sb-ext:timer-scheduled-p timer) (sb-impl::%timer-repeat-interval timer)))
                 (objects-on-heap (lambda (object) (typep object 'sb-ext:timer)))))

(define-inline heap-usage ()
  "Return the octets of dynamic space in use."
  (sb-kernel:dynamic-usage))

(defun use-huge-pages ()
  "Advise the kernel to use huge pages for dynamic space, for a short-lived image."
  ;; The kernel then clears the image's memory in few steps, and does not release it piecewise.
  (let ((madv-hugepage 14))
    (sb-alien:alien-funcall
     (sb-alien:extern-alien
      "madvise" (function sb-alien:int sb-alien:unsigned sb-alien:unsigned sb-alien:int))
     sb-vm:dynamic-space-start (sb-ext:dynamic-space-size) madv-hugepage)))

(defun heap-in-use ()
  "Return the octets of the pages of dynamic space that are fully or partly in use."
  ;; Count pages instead of objects, because the collector copies into complete pages.
  (* sb-vm:gencgc-page-bytes
     (loop for page below sb-vm:next-free-page
           count (plusp (sb-alien:slot (sb-alien:deref sb-vm:page-table page) 'sb-vm::flags)))))
