;;;; Functions, code objects and the heap that they lie in.

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
  "The simple function of CLOSURE."
  (sb-kernel:%closure-fun closure))

(define-inline funcallable-instance-function (instance)
  "The function that INSTANCE calls."
  (sb-kernel:%funcallable-instance-fun instance))

(define-inline entry-function (function)
  "The simple function behind FUNCTION, whatever it is."
  (sb-kernel:%fun-fun function))

(define-inline function-own-name (function)
  "The name that FUNCTION was compiled with."
  (sb-kernel:%fun-name function))

(define-inline simple-function-name (function)
  "The name that FUNCTION, a simple one, was compiled with."
  (sb-kernel:%simple-fun-name function))

(define-inline function-code (function)
  "The code object of FUNCTION, a simple one."
  (sb-kernel:fun-code-header function))

(define-inline function-xrefs (function)
  "The packed cross references of FUNCTION, a simple one, or NIL."
  (sb-kernel:%simple-fun-xrefs function))

(define-inline map-function-xrefs (visitor function)
  "Call VISITOR with kind, name and form number of each cross reference of FUNCTION, a simple one."
  (sb-c:map-packed-xref-data visitor (function-xrefs function)))

(defun encapsulated-function (closure)
  "The function that CLOSURE, an encapsulation, stands around; NIL: it is none."
  (and (eq (function-own-name (closure-function closure)) 'sb-impl::encapsulation)
       (sb-impl::encapsulation-info-definition (sb-impl::encapsulation-info closure))))

(defun closed-values (function)
  "The values of the variables that FUNCTION closes over; none if it is no closure."
  (flet ((value (closed)
           ;; A variable that is set is in a cell.
           (if (and (sb-kernel:%other-pointer-p closed)
                    (= (sb-kernel:%other-pointer-widetag closed) sb-vm:value-cell-widetag))
               (sb-kernel:value-cell-ref closed)
               closed)))
    (and (sb-kernel:closurep function)
         (not (typep function 'sb-mop:funcallable-standard-object))
         (mapcar #'value (sb-kernel:%closure-values function)))))

;;; Code objects

(define-inline code-serial (code)
  "The serial number of CODE: what is made later has a higher one."
  (sb-kernel:%code-serialno code))

(define-inline last-code-serial ()
  "How many code objects were made so far."
  sb-vm::*code-alloc-count*)

(define-inline code-entry-count (code)
  "How many functions stand in CODE."
  (sb-kernel:code-n-entries code))

(define-inline code-entry (code entry)
  "The function of CODE with the number ENTRY."
  (sb-kernel:%code-entry-point code entry))

(defun code-source (code)
  "The debug source of CODE, or NIL."
  (let ((info (sb-kernel:%code-debug-info code)))
    (and (typep info 'sb-c::debug-info)
         (let ((source (sb-c::debug-info-source info)))
           (and (typep source 'sb-c::debug-source) source)))))

;;; Debug sources: which file, or which other text, code was compiled from

(define-inline debug-source-namestring (source)
  "The name of the file of SOURCE, or what stands for one."
  (sb-c::debug-source-namestring source))

(define-inline debug-source-created (source)
  "The write date of the file of SOURCE when it was compiled."
  (sb-c::debug-source-created source))

(define-inline debug-source-starts (source)
  "Where each top-level form of the file of SOURCE begins, by number; or NIL."
  (sb-c::debug-source-start-positions source))

(define-inline debug-source-properties (source)
  "The property list of the compilation unit in which SOURCE was compiled."
  (sb-c::debug-source-plist source))

(defun source-location-namestring (location)
  "The name of the file of LOCATION, a source location; NIL if it is none, or not in a file."
  (and (typep location 'sb-c:definition-source-location)
       (sb-c:definition-source-location-namestring location)))

;;; The heap

(define-inline text-space-end ()
  "The address up to which text space is in use."
  (sb-sys:sap-int sb-vm::*text-space-free-pointer*))

(define-inline map-all-code (function)
  "Call FUNCTION with each code object."
  (sb-vm:map-code-objects function))

(defun map-code-from (function start)
  "Call FUNCTION with each code object of text space from the address START on, and with those of dynamic space that are not of the
last generation. It must allocate little: no collection can run."
  (declare (type function function))
  (flet ((visit (object type size)
           (declare (ignore size))
           (when (= type sb-vm:code-header-widetag)
             (funcall function object))))
    (declare (dynamic-extent #'visit))
    ;; As MAP-ALL-CODE does.
    (sb-sys:without-gcing
      (sb-thread::with-system-mutex (sb-vm::*allocator-mutex*)
        (sb-vm::map-objects-in-range #'visit
                                     (ash start (- sb-vm:n-fixnum-tag-bits))
                                     (sb-kernel:%make-lisp-obj (text-space-end))))
      (sb-alien:alien-funcall (sb-alien:extern-alien "close_code_region" (function sb-alien:void)))
      (sb-vm::walk-dynamic-space #'visit #b0111111 #b111 #b111))))

(defun objects-on-heap (predicate)
  "The objects of dynamic space for which PREDICATE is true. It must take no lock: no collection can run."
  (let ((found '()))
    (sb-vm:map-allocated-objects
     (lambda (object type size)
       (declare (ignore type size))
       (when (funcall predicate object)
         (push object found)))
     :dynamic)
    found))

(defun open-file-streams ()
  "The streams on the heap that have an open file descriptor, but for those of the process's own."
  (let ((own (list sb-impl::*stdin* sb-impl::*stdout* sb-impl::*stderr* sb-impl::*tty*)))
    (objects-on-heap (lambda (object)
                       (and (typep object 'sb-sys:fd-stream)
                            (open-stream-p object)
                            (> (sb-sys:fd-stream-fd object) 2)
                            (not (member object own)))))))

(defun active-timers ()
  "The timers on the heap that are scheduled, or will be: a repeated one is not while its function waits to be called."
  (remove-if-not (lambda (timer) (or (sb-ext:timer-scheduled-p timer) (sb-impl::%timer-repeat-interval timer)))
                 (objects-on-heap (lambda (object) (typep object 'sb-ext:timer)))))

(define-inline heap-usage ()
  "How many octets of dynamic space are in use."
  (sb-kernel:dynamic-usage))

(defun use-huge-pages ()
  "Advise the kernel to back dynamic space with huge pages, for an image that is soon thrown away: what it allocates is then
cleared in few steps, and is not given back in parts."
  (let ((madv-hugepage 14))
    (sb-alien:alien-funcall
     (sb-alien:extern-alien "madvise" (function sb-alien:int sb-alien:unsigned sb-alien:unsigned sb-alien:int))
     sb-vm:dynamic-space-start (sb-ext:dynamic-space-size) madv-hugepage)))

(defun heap-in-use ()
  "The octets of the pages of dynamic space that are in use, in full or in part: the collector copies into whole pages."
  (* sb-vm:gencgc-page-bytes
     (loop for page below sb-vm:next-free-page
           count (plusp (sb-alien:slot (sb-alien:deref sb-vm:page-table page) 'sb-vm::flags)))))
