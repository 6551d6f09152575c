;;;; Projects: registering a folder's systems with ASDF, loading them, and what the compiler says meanwhile.

(in-package :steelbank)

(defstruct load-session
  "One load: what it did so far, whom it tells, and when it is to stop."
  (progress nil :type (or null function))
  (stop (constantly nil) :type function)
  (deadline nil :type (or null integer))
  (total 0 :type integer)
  (done 0 :type integer)
  ;; The file that was begun last and has not ended.
  (file nil)
  (failure nil :type list)
  (restarts '() :type list)
  (compiled '() :type list)
  (cached '() :type list)
  (diagnostics '() :type list)
  (seen (make-hash-table :test 'equal) :type hash-table)
  (taps (make-hash-table :test 'equal) :type hash-table))

(defvar *load-session* nil
  "The load that is under way on this thread, or NIL.")

;;; Stopping

(defvar *file* nil
  "The native name of the source file that is being compiled or loaded on this thread, or NIL.")

(defun past-deadline-p (session)
  "True when the time of SESSION is over."
  (let ((deadline (load-session-deadline session)))
    (and deadline (> (get-internal-real-time) deadline))))

(defun leave-load (session)
  "Leave the load SESSION, because its time is over or else because its host wants it to end."
  (let ((late (past-deadline-p session)))
    (throw 'end-of-load
      (list :status (if late "timed-out" "cancelled")
            :failure (list :kind (if late "timed-out" "cancelled")
                           :path *file*
                           :message (format nil "It was stopped~@[ in ~A~]." *file*)
                           :restarts '())))))

(defun check-load-session ()
  "A safe point: leave the load when its host asked for it, or when its time is over."
  (let ((session *load-session*))
    (when (and session
               (or (past-deadline-p session)
                   (funcall (load-session-stop session))))
      (leave-load session))))

(defun checked-find-source-paths (function form toplevel-form)
  "Around SB-C::FIND-SOURCE-PATHS: between two top-level forms it is safe to stop."
  (check-load-session)
  (funcall function form toplevel-form))

;;; Files

(defun source-file-of (component)
  "The native name of the source file of COMPONENT."
  (let ((path (asdf:component-pathname component)))
    (when path
      (sb-ext:native-namestring (or (ignore-errors (truename path)) path)))))

(defun call-with-file (session file function)
  "Call FUNCTION, which compiles or loads FILE, and know meanwhile that it does."
  (let ((before (load-session-file session))
        (*file* file))
    (setf (load-session-file session) file)
    ;; Not after a non-local exit: it may have left the load, and then this is the file that did.
    (multiple-value-prog1 (funcall function)
      (setf (load-session-file session) before))))

(defun call-for-component (session component what function)
  "Call FUNCTION, which compiles or loads COMPONENT, and tell before. Second, the component's file."
  (check-load-session)
  (let ((file (source-file-of component)))
    (incf (load-session-done session))
    (when (load-session-progress session)
      (funcall (load-session-progress session)
               (load-session-done session) (load-session-total session) what file))
    (call-with-file session file function)
    file))

(defun noted-compilation (function operation component)
  "Around ASDF's compilation of one file."
  (let ((session *load-session*))
    (if (null session)
        (funcall function operation component)
        (push (call-for-component session component "compile"
                                  (lambda ()
                                    (call-in-shared-cache
                                     (lambda () (funcall function operation component)))))
              (load-session-compiled session)))))

(defun note-loaded-file (session file write-date)
  "Remember that FILE, as it was at WRITE-DATE, is loaded in SESSION."
  (setf (gethash file *loaded-files*) write-date)
  (unless (member file (load-session-compiled session) :test #'equal)
    (pushnew file (load-session-cached session) :test #'equal)))

(defun source-write-date (component)
  "The write date of the file of COMPONENT, or NIL if there is none."
  (ignore-errors (file-write-date (asdf:component-pathname component))))

(defun noted-load-fasl (function operation component)
  "Around ASDF's loading of one file from its fasl."
  (let ((session *load-session*)
        (fasl (first (asdf:input-files operation component)))
        (write-date (source-write-date component)))
    (flet ((load-fasl () (funcall function operation component)))
      (cond ((null session)
             (load-fasl))
            ((not (and (in-cache-p fasl) (typep component 'asdf:cl-source-file)))
             (note-loaded-file session (call-for-component session component "load" #'load-fasl) write-date))
            (t
             (when (and (sidecar-lost-p component)
                        (not (member (source-file-of component) (load-session-compiled session) :test #'equal)))
               (recompile component))
             (note-loaded-file session
                               (call-for-component session component "load"
                                                   (lambda () (call-with-whole-fasl fasl component #'load-fasl)))
                               write-date))))))

(defun noted-load-source (function operation component)
  "Around ASDF's loading of one file as source."
  (let ((session *load-session*)
        (write-date (source-write-date component)))
    (if (null session)
        (funcall function operation component)
        (note-loaded-file session
                          (call-for-component session component "load"
                                              (lambda () (funcall function operation component)))
                          write-date))))

(defun noted-load-as-source (function stream &rest arguments)
  "Around SB-FASL::LOAD-AS-SOURCE: system definitions and init files, too, are files that can fail."
  (let ((file (and (typep stream 'file-stream) (ignore-errors (truename stream)))))
    (if (and *load-session* file)
        (call-with-file *load-session* (sb-ext:native-namestring file)
                        (lambda () (apply function stream arguments)))
        (apply function stream arguments))))

(defun install-load-hooks ()
  "Put the notes of progress and the safe points in place. They act only within a load of ours."
  (install-tap)
  (loop for (name function)
          in '((asdf/lisp-action:perform-lisp-compilation noted-compilation)
               (asdf/lisp-action:perform-lisp-load-fasl noted-load-fasl)
               (asdf/lisp-action:perform-lisp-load-source noted-load-source)
               (sb-fasl::load-as-source noted-load-as-source)
               (sb-fasl::compute-features-affecting-fasl-format constant-fasl-features)
               (sb-c::find-source-paths checked-find-source-paths))
        do (sb-ext:without-package-locks
             (sb-int:encapsulate name 'steelbank-load (symbol-function function))))
  t)

;;; Diagnostics

(defun innermost-condition (condition)
  "The condition that CONDITION encapsulates, at whatever depth, or CONDITION."
  (if (typep condition 'sb-int:encapsulated-condition)
      (innermost-condition (sb-int:encapsulated-condition condition))
      condition))

(defun input-error (condition)
  "The input error that CONDITION is or encapsulates, or NIL."
  (typecase condition
    (sb-c::input-error-in-compile-file condition)
    (sb-int:encapsulated-condition (input-error (sb-int:encapsulated-condition condition)))))

(defun severity (condition)
  "The severity of CONDITION as a string, or NIL when nobody wants to read it."
  (typecase condition
    ;; ASDF's summaries say no more than what they sum up.
    ((or sb-ext:compiler-note sb-kernel::uninteresting-redefinition
         uiop:compile-warned-warning uiop:compile-failed-warning)
     nil)
    ((or sb-c:compiler-error sb-c:fatal-compiler-error sb-c::input-error-in-compile-file)
     (if (input-error condition) "read-error" "error"))
    (reader-error "read-error")
    (style-warning "style-warning")
    (warning "warning")
    (serious-condition "error")))

(deftype simple-reader-error ()
  "A reader error with a message of its own; printed whole, it would repeat the place and the stream."
  '(and reader-error simple-condition))

(defun source-end-p (condition)
  "True when CONDITION says that a source file ended inside a form."
  (and (typep (innermost-condition condition) 'end-of-file)
       (input-error condition)))

(defun no-input-p (condition)
  "True when CONDITION says that code wanted to read what somebody types."
  (and (typep condition 'end-of-file)
       (typep (stream-error-stream condition) '(or empty-input (and two-way-stream (not file-stream))))))

(defun condition-text (condition)
  "What CONDITION says, as one string of bounded length."
  (let* ((*print-length* 20) (*print-level* 6) (*print-pretty* nil) (*print-circle* t)
         (inner (innermost-condition condition))
         (text (cond ((source-end-p condition)
                      "The file ends inside a form: a closing parenthesis, quote or bar is missing.")
                     ((no-input-p inner)
                      "The code asked for input, and there is none: nobody sits at a terminal.")
                     ((typep inner 'simple-reader-error)
                      (ignore-errors (apply #'format nil (simple-condition-format-control inner)
                                            (simple-condition-format-arguments inner))))
                     (t (ignore-errors (princ-to-string inner))))))
    (bounded-text (or text (format nil "a condition of type ~A that cannot be printed" (type-of inner)))
                  2000)))

(defun bounded-text (text limit)
  "TEXT, cut to LIMIT characters."
  (let ((text (string-trim '(#\Space #\Newline #\Tab) text)))
    (if (> (length text) limit)
        (concatenate 'string (subseq text 0 limit) "…")
        text)))

(defun session-tap (file)
  "The tap of FILE, a pathname as the compiler knows it, in this load."
  (let ((tap *tap*))
    (if (and tap (tap-file-info tap)
             (equal file (sb-c::file-info-pathname (tap-file-info tap))))
        tap
        (gethash (namestring file) (load-session-taps *load-session*)))))

(defun stream-place (stream position)
  "Line and column, from 1, of character POSITION of STREAM; NIL stands for where it has been read to."
  (when (sb-impl::form-tracking-stream-p stream)
    (let ((place (ignore-errors
                  (if position
                      (sb-impl::line/col-from-charpos stream position)
                      (sb-impl::line/col-from-charpos stream)))))
      (when place
        (list :line (car place) :column (1+ (cdr place)))))))

(defun reader-error-place (input-error stream)
  "Where the form that INPUT-ERROR found unfinished begins, or where the reader of STREAM stands."
  (let ((place (and input-error (sb-c::input-error-in-compile-file-line/col input-error))))
    (if place
        (list :line (car place) :column (1+ (cdr place)))
        (stream-place stream nil))))

(defun compiler-place (context)
  "Path, line, column and form of CONTEXT, an error context of the compiler."
  (let* ((file (sb-c::compiler-error-context-file-name context))
         (path (sb-c::compiler-error-context-path context))
         (number (and path (sb-c::source-path-form-number path)))
         (tap (and number (pathnamep file) (session-tap file)))
         (position (and tap
                        (let ((stream (or (tap-stream tap)
                                          (and sb-c::*source-info*
                                               (sb-c::source-info-stream sb-c::*source-info*)))))
                          (unless (tap-stream tap)
                            (setf (tap-stream tap) stream))
                          (tap-position tap (sb-c::source-path-tlf-number path) number)))))
    (append (when (pathnamep file)
              (list :path (sb-ext:native-namestring (or (ignore-errors (truename file)) file))))
            (when position
              (multiple-value-bind (line column) (tap-line-and-column tap position)
                (list :line line :column column)))
            (list :form (bounded-text (or (ignore-errors
                                           (sb-c::compiler-error-context-original-source context))
                                          "")
                                      300)))))

(defun file-of-stream (stream)
  "The native truename of the file that STREAM reads, or NIL."
  (ignore-errors (sb-ext:native-namestring (truename stream))))

(defun reading-place ()
  "Where the compiler reads just now, when code runs that the reader was told to run, or NIL."
  (let ((stream (and (boundp 'sb-c::*source-info*)
                     sb-c::*source-info*
                     (ignore-errors (sb-c::source-info-stream sb-c::*source-info*)))))
    (when (and stream (equal (file-of-stream stream) *file*))
      (append (list :path *file*) (stream-place stream nil)))))

(defun source-load-place ()
  "The form that is being evaluated of the file that is being loaded as source, or NIL."
  (let ((stream (and *tap* (tap-stream *tap*))))
    (when (and stream (open-stream-p stream) (equal (file-of-stream stream) *file*))
      (append (list :path *file*)
              (stream-place stream (sb-impl::form-tracking-stream-form-start-char-pos stream))))))

(defun diagnostic-place (condition)
  "A property list that says where CONDITION belongs."
  (let* ((context (and (boundp 'sb-c::*source-info*)
                       (ignore-errors (sb-c::find-error-context nil))))
         (input-error (input-error condition))
         (inner (innermost-condition condition))
         (stream (and (typep inner 'stream-error)
                      (ignore-errors (stream-error-stream inner)))))
    (cond ((and (streamp stream) (or input-error (typep inner 'reader-error)))
           (append (list :path (or (file-of-stream stream) *file*))
                   (reader-error-place input-error stream)))
          (context (compiler-place context))
          ((frame-place))
          ((source-load-place))
          ((reading-place))
          (t (list :path *file*)))))

(defun frame-position (location source file)
  "Where code LOCATION of debug SOURCE is in FILE, a native name, as a property list; NIL if nothing is known of FILE. It is a line
and column if the file was read in this load; else what the host finds in the file's sidecar."
  (let* ((toplevel (sb-di:code-location-toplevel-form-offset location))
         (number (sb-di:code-location-form-number location))
         (tap (gethash (sb-di:debug-source-namestring source) (load-session-taps *load-session*)))
         (position (and tap (tap-position tap toplevel number))))
    (cond (position
           (multiple-value-bind (line column) (tap-line-and-column tap position)
             (list :path file :line line :column column)))
          ((or (gethash file *loaded-files*) (equal file *file*))
           (list :path file
                 :at (list (sb-di:debug-source-created source) toplevel number))))))

(defun frame-place ()
  "Where the innermost frame stands whose file was loaded through us, or NIL."
  (sb-debug:map-backtrace
   (lambda (frame)
     (let* ((location (sb-di:frame-code-location frame))
            (source (ignore-errors (sb-di:code-location-debug-source location)))
            (name (and source (sb-di:debug-source-namestring source)))
            (file (and name (ignore-errors (sb-ext:native-namestring (truename name)))))
            (place (and file (ignore-errors (frame-position location source file)))))
       (when place
         (return-from frame-place place))))))

(defun note-undefined-variables ()
  "Add what the compiler would have said at the end of a compilation unit that is now abandoned: undefined
variables. (A function may be defined in a file that was not reached.)"
  (when (boundp 'sb-c::*undefined-warnings*)
    (dolist (undefined sb-c::*undefined-warnings*)
      (when (eq (sb-c::undefined-warning-kind undefined) :variable)
        (dolist (context (sb-c::undefined-warning-warnings undefined))
          (push (list* :severity "warning"
                       :message (format nil "undefined variable: ~S" (sb-c::undefined-warning-name undefined))
                       (compiler-place context))
                (load-session-diagnostics *load-session*)))))))

(defun note-diagnostic (condition &optional (severity (severity condition)))
  "Add CONDITION to the diagnostics of this load, once. The place that it belongs to."
  (let ((session *load-session*))
    (when (and severity session)
      (let* ((place (ignore-errors (diagnostic-place condition)))
             (text (condition-text condition))
             (key (list severity text place)))
        (unless (gethash key (load-session-seen session))
          (setf (gethash key (load-session-seen session)) t)
          (push (list* :severity severity :message text place)
                (load-session-diagnostics session)))
        place))))

;;; Failures

(defun missing-name (condition)
  "The name of what CONDITION says is missing."
  (let ((name (asdf/find-component:missing-requires condition)))
    (if (stringp name) name (string-downcase (princ-to-string name)))))

(defun dependent (condition)
  "The path of the component whose dependency CONDITION says is missing, or NIL."
  (let* ((component (and (typep condition 'asdf:missing-dependency)
                         (asdf/find-component:missing-required-by condition)))
         ;; While a system is being defined, as for :defsystem-depends-on, ASDF names none.
         (action (first (asdf/session:visiting-action-list asdf/session:*asdf-session*))))
    (cond (component (component-path component))
          ((and action (typep condition 'asdf:missing-dependency))
           (component-path (cdr action))))))

(defun known-version (condition)
  "The version of the system that is not the one that CONDITION says is wanted, or NIL."
  (ignore-errors (asdf:component-version (asdf:find-system (missing-name condition)))))

(defun failure-names (condition)
  "The kind of CONDITION and the names that belong to it, as a property list."
  (typecase condition
    (asdf:missing-component
     (list :kind (cond ((typep condition 'asdf:missing-component-of-version) "version-mismatch")
                       ((not (typep condition 'asdf:missing-dependency)) "unknown-system")
                       ((typep (asdf/find-component:missing-required-by condition) '(or null asdf:system))
                        "missing-dependency")
                       (t "missing-component"))
           :name (missing-name condition)
           :required-by (dependent condition)))
    (asdf:circular-dependency
     (list :kind "circular-dependency"
           :name (format nil "~{~A~^ -> ~}"
                         (remove-duplicates
                          (loop for (nil . component) in (asdf/action:circular-dependency-actions condition)
                                collect (component-path component))
                          :test #'equal :from-end t))))
    (asdf:load-system-definition-error
     (list :kind "system-definition"
           :name (princ-to-string (asdf:error-name condition))
           :path (sb-ext:native-namestring (asdf:error-pathname condition))))
    ((or uiop:compile-file-error asdf:compile-error)
     (list :kind "compile"))
    ((satisfies cache-trouble-p)
     (list :kind "cache"
           :path (sb-ext:native-namestring *cache-directory*)))
    (file-error
     (list :kind "file"
           :path (ignore-errors (sb-ext:native-namestring (file-error-pathname condition)))))
    (t (list :kind "load"))))

(defun component-path (component)
  "The names of COMPONENT and what it is part of, outermost first, joined by slashes."
  (format nil "~{~A~^/~}" (asdf:component-find-path component)))

(defun failure (condition &optional place)
  "What stopped the load: a property list of kind, message, file and what can be tried. PLACE is where it happened."
  (let ((names (failure-names condition)))
    (append names
            (unless (getf names :path)
              (list :path (or *file* (getf place :path))))
            (list :message (failure-text names condition)
                  :restarts (remove-duplicates
                             (loop for restart in (compute-restarts condition)
                                   unless (or (eq (restart-name restart) 'abort)
                                              (member restart (load-session-restarts *load-session*)))
                                     collect (bounded-text (princ-to-string restart) 200))
                             :test #'equal)))))

(defun failure-text (names condition)
  "What CONDITION, with its NAMES, says to somebody who did not write ASDF."
  (destructuring-bind (&key kind name required-by path) names
    (flet ((kind-p (string) (equal kind string)))
      (cond ((kind-p "missing-dependency")
             (format nil "System ~A,~@[ which ~A depends on,~] is not known to ASDF." name required-by))
            ((kind-p "missing-component")
             (format nil "Component ~A, which ~A depends on, is not defined beside it." name required-by))
            ((kind-p "version-mismatch")
             (format nil "System ~A is of version ~A; ~:[~A is asked for~;~:*~A depends on version ~A~]."
                     name (or (known-version condition) "none") required-by
                     (asdf/find-component:missing-version condition)))
            ((kind-p "unknown-system")
             (format nil "System ~A is not known to ASDF." name))
            ((kind-p "circular-dependency")
             (format nil "These depend on each other in a circle: ~A." name))
            ((kind-p "compile")
             (format nil "~A does not compile; the diagnostics say why." *file*))
            ((kind-p "cache")
             (format nil "The cache folder ~A cannot be used: ~A" path (condition-text condition)))
            ((typep condition 'heap-share-exhausted)
             (heap-text condition))
            ((typep condition 'serious-condition)
             (condition-text condition))
            (t
             (format nil "The debugger was called: ~A" (condition-text condition)))))))

(defun heap-text (condition)
  "What CONDITION, a full heap, says, and whether what was loaded keeps it full."
  (sb-ext:gc :full t)
  (let ((used (sb-kernel:dynamic-usage)))
    (format nil "~A~@[ What was loaded keeps ~D MiB, so that whatever needs much memory fails from now on: start ~
                 again with a larger --dynamic-space-size.~]"
            (condition-text condition)
            (and (> used (heap-limit)) (floor used (* 1024 1024))))))

;;; Loading

(defun tap-sink (session)
  "A sink that writes each sidecar into the cache, and keeps the tap's positions for late diagnostics."
  (lambda (tap sidecar)
    ;; System definitions, too, name symbols.
    (when (tap-source-load tap)
      (setf (gethash (sb-ext:native-namestring (truename (tap-stream tap))) *loaded-files*)
            (sb-c::file-info-write-date (tap-file-info tap))))
    (setf (gethash (namestring (sb-c::file-info-pathname (tap-file-info tap))) (load-session-taps session))
          tap)
    (note-racy-file tap)
    (when *cache-directory*
      (handler-case (write-sidecar tap sidecar (sidecar-directory))
        ((or file-error stream-error) () nil)))
    (trim-tap tap)))

(defun cause (condition)
  "What CONDITION, as which ASDF passes on what happened in a system definition, was made of."
  (if (typep condition 'asdf:load-system-definition-error)
      (cause (asdf/find-system:error-condition condition))
      condition))

(defun note-failure (session condition)
  "Remember in SESSION that CONDITION ends the load. The stack still stands, so it can be told where."
  (let* ((cause (cause condition))
         (place (unless (typep cause '(or uiop:compile-file-error asdf:compile-error asdf:system-definition-error))
                  (note-diagnostic cause (or (severity cause) "error")))))
    (ignore-errors (note-undefined-variables))
    (unless (typep condition 'heap-share-exhausted)
      (setf (load-session-failure session) (failure condition place)))))

(defun failed-outcome (session condition)
  "The outcome of a load that CONDITION ended. What the load had filled of the heap is garbage by now."
  (list :status "failed"
        :failure (or (load-session-failure session)
                     (let ((*file* (load-session-file session)))
                       (failure condition)))))

(defun run-load (session function)
  "Call FUNCTION as the load SESSION. The outcome, unless FUNCTION leaves to a place outside of the load."
  (catch 'end-of-load
    (let ((condition
            (catch 'fault
              (let ((*checking-heap* nil)
                    (*note-fault* (lambda (condition) (note-failure session condition)))
                    (*leave-call* (lambda () (leave-load session)))
                    (sb-ext:*invoke-debugger-hook* 'debugger-hook)
                    (*debugger-hook* nil))
                (with-simple-restart (abort "Give up the load.")
                  ;; Only what is said; what nobody handles comes to the debugger's hook.
                  (handler-bind ((sb-c:fatal-compiler-error #'note-diagnostic)
                                 (sb-c:compiler-error #'note-diagnostic)
                                 (warning #'note-diagnostic))
                    (funcall function))
                  (throw 'end-of-load '(:status "loaded"))))
              (make-condition 'left-by-exit))))
      (failed-outcome session condition))))

(defun load-outcome (session function)
  "Call FUNCTION as the load SESSION. The outcome, however it ends."
  (let ((outcome nil))
    (block load
      (unwind-protect (setf outcome (run-load session function))
        (unless outcome
          (return-from load))))
    (or outcome
        (failed-outcome session (make-condition 'left-by-exit)))))

(defun call-with-load-session (session function)
  "Call FUNCTION as a load: quiet, tapped, with its uses recorded whatever the policy. The outcome as a
property list; FUNCTION's effects before a failure remain."
  (let* ((start (get-internal-real-time))
         (sink (make-broadcast-stream))
         (outcome
           (let ((*load-session* session)
                 (*file* nil)
                 (*tap-sink* (tap-sink session))
                 (*standard-output* sink) (*error-output* sink) (*trace-output* sink)
                 (*compile-verbose* nil) (*compile-print* nil) (*load-verbose* nil) (*load-print* nil)
                 (*package* (find-package :common-lisp-user))
                 (sb-c::*policy-min* sb-c::*policy-min*))
             (setf (load-session-restarts session) (compute-restarts))
             (sb-ext:restrict-compiler-policy 'sb-c::store-xref-data 3)
             (use-own-cache)
             (load-outcome session function))))
    (append outcome
            (list :duration-ms (round (* 1000 (- (get-internal-real-time) start))
                                      internal-time-units-per-second)
                  :compiled (remove-duplicates (reverse (load-session-compiled session))
                                               :test #'equal :from-end t)
                  :cached (reverse (load-session-cached session))
                  :diagnostics (reverse (load-session-diagnostics session))))))

(defun planned-files (system)
  "How many files loading SYSTEM compiles or loads; 0 when that cannot be told beforehand."
  (or (ignore-errors
       (count-if (lambda (action)
                   (and (typep (cdr action) 'asdf:cl-source-file)
                        (typep (car action) '(or asdf:compile-op asdf:load-op asdf:load-source-op))))
                 (asdf/plan:plan-actions (asdf:make-plan nil 'asdf:load-op (asdf:find-system system)))))
      0))

(defun make-session (progress stop timeout-seconds)
  "A load session that ends after TIMEOUT-SECONDS, or when STOP returns true."
  (make-load-session
   :progress progress
   :stop (or stop (constantly nil))
   :deadline (and timeout-seconds
                  (+ (get-internal-real-time)
                     (ceiling (* timeout-seconds internal-time-units-per-second))))))

(defun known-system (name)
  "The name under which ASDF knows the system that somebody called NAME: as it is given, or in lower case."
  (or (and (asdf:find-system name nil) name)
      (let ((lower (string-downcase name)))
        (and (asdf:find-system lower nil) lower))))

(defun look-for-dependency (condition)
  "When CONDITION says that a system is missing whose definition was written since ASDF looked, have ASDF try again."
  (let ((retry (find-restart 'asdf/action:retry condition))
        (name (asdf:primary-system-name (missing-name condition))))
    (flet ((registered-p ()
             (nth-value 1 (gethash name asdf/source-registry:*source-registry*))))
      (unless (registered-p)
        (rescan-systems)
        (when (and retry (registered-p))
          (invoke-restart retry))))))

(define-condition no-such-file (file-error)
  ()
  (:report (lambda (condition stream)
             (let ((path (file-error-pathname condition)))
               (format stream (cond ((equal path #p"") "No file is named.")
                                    ((uiop:directory-exists-p path) "~A is a folder.")
                                    (t "There is no file ~A."))
                       (sb-ext:native-namestring path)))))
  (:documentation "What is to be loaded is not there."))

(defun check-loaded-files (system)
  "An error if a file of SYSTEM that was loaded through us is gone: ASDF would say that all is well."
  (dolist (component (system-files system))
    (when (and (nth-value 1 (gethash (source-file-of component) *loaded-files*))
               (not (uiop:file-exists-p (asdf:component-pathname component))))
      (error 'no-such-file :pathname (asdf:component-pathname component)))))

(defun load-system (system &key force progress stop timeout-seconds)
  "Load SYSTEM, a name, through ASDF; FORCE compiles its own files anew. PROGRESS is called with (done total
what file) before each file; STOP, without arguments, at each safe point. A property list: :STATUS
\"loaded\", \"failed\", \"cancelled\" or \"timed-out\"; :COMPILED and :CACHED files; :DURATION-MS;
:DIAGNOSTICS; and :FAILURE when it did not load."
  (check-type system string)
  (check-type timeout-seconds (or null (real 0)))
  (install-load-hooks)
  (let ((session (make-session progress stop timeout-seconds))
        (name system))
    (flet ((find-and-load ()
             (forget-stale-files)
             (setf name (or (known-system system)
                            (progn (rescan-systems) (known-system system))
                            (asdf:find-system system)))
             (check-loaded-files (asdf:find-system name))
             (when progress
               (setf (load-session-total session) (planned-files name)))
             (handler-bind ((asdf:missing-dependency #'look-for-dependency))
               (asdf:load-system name :force (and force t)))))
      (let ((outcome (call-with-load-session session #'find-and-load)))
        (list* :system name outcome)))))

(defun error-p (diagnostic)
  "True when DIAGNOSTIC says that a form could not be compiled."
  (member (getf diagnostic :severity) '("error" "read-error") :test #'equal))

(defun file-output (path)
  "Where the fasl of the single file PATH, a native name, goes; second, whether it is kept."
  (if *cache-directory*
      (values (merge-pathnames (format nil "files/~(~16,'0X~).fasl"
                                       (fnv-1a (coerce (sb-ext:string-to-octets path :external-format :utf-8)
                                                       'octets)))
                               *cache-directory*)
              t)
      (values (uiop:tmpize-pathname (uiop:subpathname (uiop:temporary-directory) "steelbank.fasl"))
              nil)))

(defun load-file (path &key progress stop timeout-seconds)
  "Compile and load the file PATH, a native name. The outcome as of LOAD-SYSTEM. Nothing is loaded from a
file that could not be read or compiled."
  (check-type path string)
  (install-load-hooks)
  (let ((session (make-session progress stop timeout-seconds))
        (file (sb-ext:parse-native-namestring path)))
    (flet ((compile-and-load ()
             (let ((write-date (file-write-date file)))
               (multiple-value-bind (output kept) (file-output path)
                 (ensure-directories-exist output)
                 (with-compilation-unit ()
                   (let ((fasl (compile-file file :output-file output)))
                     (unless (and fasl (notany #'error-p (load-session-diagnostics session)))
                       (error 'uiop:compile-file-error :description path
                                                       :context-format nil :context-arguments nil))
                     (push path (load-session-compiled session))
                     (load fasl)
                     (unless kept (delete-file fasl)))))
               (setf (gethash (sb-ext:native-namestring (truename file)) *loaded-files*) write-date))))
      (list* :path path
             (call-with-load-session
              session
              (lambda ()
                (unless (uiop:file-exists-p file)
                  (error 'no-such-file :pathname file))
                (call-with-file session path #'compile-and-load)))))))

;;; Projects

(defvar *project-root* nil
  "The directory of the project, or NIL if there is none.")

(defun registry-directives (parameter)
  "What PARAMETER, a source registry in any form that ASDF takes, consists of."
  (etypecase parameter
    (null '(:inherit-configuration))
    (cons (rest parameter))
    (string (rest (asdf/source-registry::parse-source-registry-string parameter)))
    (pathname `((:include ,parameter) :inherit-configuration))
    (symbol (registry-directives (funcall parameter)))))

(defun project-registry ()
  "The source registry as it is configured, the project's systems before all others."
  (let ((configured asdf/source-registry:*source-registry-parameter*))
    (if (null *project-root*)
        configured
        (let ((tree `(:tree ,*project-root*)))
          `(:source-registry ,tree ,@(remove tree (registry-directives configured) :test #'equal))))))

(defun rescan-systems ()
  "Look for system definitions, where ASDF is configured to look. Other threads find what was known until it is done."
  (let ((parameter (project-registry))
        (registry (make-hash-table :test 'equal)))
    (asdf/source-registry::compute-source-registry parameter registry)
    (setf asdf/source-registry:*source-registry-parameter* parameter
          asdf/source-registry:*source-registry* registry)))

(define-condition unfit-registry (error)
  ((cause :initarg :cause :reader unfit-registry-cause))
  (:report (lambda (condition stream)
             (format stream "ASDF's source registry cannot be set up: ~A~@[ CL_SOURCE_REGISTRY is ~S.~]"
                     (condition-text (unfit-registry-cause condition))
                     (uiop:getenvp "CL_SOURCE_REGISTRY"))))
  (:documentation "Somebody's configuration of ASDF is none."))

(defun set-up-registry ()
  "RESCAN-SYSTEMS, whose errors are the configuration's."
  (handler-bind ((error (lambda (condition)
                          (error 'unfit-registry :cause condition))))
    (rescan-systems)))

(defun set-up-file (path)
  "A function that loads the file PATH, if it exists."
  (lambda ()
    (when (and path (uiop:file-exists-p path))
      (load path))))

(defun open-project (root cache &key userinit timeout-seconds)
  "Register the systems below ROOT with ASDF, unless NIL, keep fasls and sidecars in CACHE (both native directory
names), honour CL_SOURCE_REGISTRY and a qlot set-up, and load USERINIT, a native file name, unless NIL.
The outcome as of LOAD-SYSTEM, of the step that failed, or of the last. :STEP names it."
  (check-type root (or null string))
  (check-type cache string)
  (check-type userinit (or null string))
  (install-load-hooks)
  (flet ((directory-named (name)
           (uiop:ensure-directory-pathname (sb-ext:parse-native-namestring name))))
    (setf *project-root* (and root (directory-named root))
          ;; What cannot be made, the first that writes there tells.
          *cache-directory* (let ((directory (directory-named cache)))
                              (ignore-errors (ensure-directories-exist directory))
                              (or (ignore-errors (truename directory)) directory)))
    (let ((session (make-session nil nil timeout-seconds)))
      (loop for (step function)
              in `(("qlot" ,(set-up-file (and root (merge-pathnames ".qlot/setup.lisp" *project-root*))))
                   ("init-file" ,(set-up-file (and userinit (sb-ext:parse-native-namestring userinit))))
                   ("source-registry" set-up-registry))
            for outcome = (list* :step step (call-with-load-session session function))
            while (equal (getf outcome :status) "loaded")
            finally (return outcome)))))

(defun system-files (system)
  "The Lisp source files of SYSTEM, an ASDF system, as components."
  (let ((files '()))
    (labels ((walk (component)
               (typecase component
                 (asdf:cl-source-file (push component files))
                 (asdf:parent-component (mapc #'walk (asdf:component-children component))))))
      (walk system))
    (nreverse files)))

(defun changed-p (file path)
  "True when FILE, a native name, was loaded through us, and what is at PATH now is something else."
  (let ((loaded (gethash file *loaded-files*)))
    (and loaded
         (not (eql loaded (ignore-errors (file-write-date path)))))))

(defun changed-files (system)
  "The files of SYSTEM, its definition among them, that were loaded through us and have changed on disk since."
  (let ((definition (asdf:system-source-file system)))
    (append (when definition
              (let ((file (sb-ext:native-namestring (or (ignore-errors (truename definition)) definition))))
                (when (changed-p file definition)
                  (list file))))
            (loop for component in (system-files system)
                  for file = (source-file-of component)
                  when (changed-p file (asdf:component-pathname component))
                    collect file))))

(defun systems-below (root)
  "The names of the systems whose .asd is below ROOT, with its path. Nothing is loaded or run for it."
  (let ((systems (make-hash-table :test 'equal))
        (prefix (namestring (or (ignore-errors (truename root)) root))))
    (flet ((add (name path)
             (when (and path (eql 0 (search prefix (namestring (or (ignore-errors (truename path)) path)))))
               (setf (gethash name systems) path))))
      ;; The disk is asked: what was written a moment ago counts.
      (asdf/source-registry::register-asd-directory
       root :recurse t :exclude asdf/source-registry:*source-registry-exclusions*
            :collect (lambda (path) (add (pathname-name path) path)))
      (dolist (name (asdf:registered-systems))
        (add name (asdf:system-source-file (asdf:registered-system name)))))
    (sort (loop for name being the hash-keys of systems using (hash-value path)
                collect (cons name path))
          #'string< :key #'car)))

(defun list-systems (root)
  "What the project at ROOT defines: for each system a property list of :NAME, :ASD, :KNOWN (its definition
has been read), :LOADED, :FILES (a count) and :CHANGED (files that differ from what was loaded)."
  (check-type root string)
  (loop for (name . path) in (systems-below (uiop:ensure-directory-pathname
                                             (sb-ext:parse-native-namestring root)))
        for system = (asdf:registered-system name)
        collect (list :name name
                      :asd (sb-ext:native-namestring path)
                      :known (and system t)
                      :loaded (and system (asdf:component-loaded-p system) t)
                      :files (if system (length (system-files system)) 0)
                      :changed (and system (changed-files system)))))

;;; As JSON

(defun diagnostic-json (diagnostic)
  "DIAGNOSTIC as an object."
  (destructuring-bind (&key severity message path line column form at) diagnostic
    (object "severity" severity "path" path "line" line "column" column "message" message "form" form
            "at" (and at (destructuring-bind (write-date toplevel number) at
                           (object "write_date" write-date "form" toplevel "number" number))))))

(defun failure-json (failure)
  "FAILURE as an object."
  (destructuring-bind (&key kind name required-by path message restarts) failure
    (object "kind" kind "name" name "required_by" required-by "path" path "message" message
            "restarts" restarts)))

(defun loaded-files-json ()
  "Every file loaded through us and its write date then."
  (loop for file being the hash-keys of *loaded-files* using (hash-value write-date)
        collect (object "path" file "write_date" write-date)))

(defun outcome-json (outcome)
  "OUTCOME, of LOAD-SYSTEM, LOAD-FILE or OPEN-PROJECT, as an object."
  (destructuring-bind (&key system path step status failure duration-ms compiled cached diagnostics) outcome
    (object "system" system "path" path "step" step "status" status "duration_ms" duration-ms
            "compiled" compiled "cached" cached
            "diagnostics" (mapcar #'diagnostic-json diagnostics)
            "failure" (and failure (failure-json failure))
            "files" (loaded-files-json))))

(defun system-json (system)
  "SYSTEM, of LIST-SYSTEMS, as an object."
  (destructuring-bind (&key name asd known loaded files changed) system
    (object "name" name "asd" asd "known" (json-boolean known) "loaded" (json-boolean loaded)
            "files" files "changed" changed)))

(defun send-progress (done total what file)
  "Tell the host that DONE of TOTAL steps are done, and that FILE is being compiled or loaded (WHAT)."
  (progress (json-string (object "done" done "total" total "what" what "path" file))))
