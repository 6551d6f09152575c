;;;; Projects: registering a folder's systems with ASDF, loading them, and what the compiler says meanwhile.

(in-package :steelbank)

(defvar *cache-directory* nil
  "Where fasls and sidecars go: a directory of our own, so that they never clash with the user's.")

(defvar *loaded-files* (make-hash-table :test 'equal)
  "Native truename of each source file loaded through us -> its write date at that time.")

(defvar *racy-files* (make-hash-table :test 'equal)
  "Native truename of each source file that was read within the second in which it was written -> the hash of
what was read. ASDF compares dates in seconds, and would not see a change within that second.")

(defstruct load-session
  "One load: what it did so far, whom it tells, and when it is to stop."
  (progress nil :type (or null function))
  (stop (constantly nil) :type function)
  (deadline nil :type (or null integer))
  (total 0 :type integer)
  (done 0 :type integer)
  (file nil)
  (restarts '() :type list)
  (compiled '() :type list)
  (cached '() :type list)
  (diagnostics '() :type list)
  (seen (make-hash-table :test 'equal) :type hash-table)
  (taps (make-hash-table :test 'equal) :type hash-table))

(defvar *load-session* nil
  "The load that is under way on this thread, or NIL.")

;;; Stopping

(defun check-load-session ()
  "A safe point: leave the load when its host asked for it, or when its time is over."
  (let ((session *load-session*))
    (when session
      (when (funcall (load-session-stop session))
        (throw 'end-of-load '(:status "cancelled")))
      (let ((deadline (load-session-deadline session)))
        (when (and deadline (> (get-internal-real-time) deadline))
          (throw 'end-of-load '(:status "timed-out")))))))

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

(defun call-for-file (session component what function)
  "Call FUNCTION, which compiles or loads COMPONENT, between two notes of progress."
  (check-load-session)
  (let ((file (source-file-of component)))
    (setf (load-session-file session) file)
    (incf (load-session-done session))
    (when (load-session-progress session)
      (funcall (load-session-progress session)
               (load-session-done session) (load-session-total session) what file))
    (funcall function)))

(defun noted-compilation (function operation component)
  "Around ASDF's compilation of one file."
  (let ((session *load-session*))
    (if (null session)
        (funcall function operation component)
        (multiple-value-prog1
            (call-for-file session component "compile" (lambda () (funcall function operation component)))
          (push (load-session-file session) (load-session-compiled session))))))

(defun noted-load (function operation component)
  "Around ASDF's loading of one file, from its fasl or as source."
  (let ((session *load-session*))
    (if (null session)
        (funcall function operation component)
        (let* ((path (asdf:component-pathname component))
               (write-date (ignore-errors (file-write-date path))))
          (multiple-value-prog1
              (call-for-file session component "load" (lambda () (funcall function operation component)))
            (let ((file (load-session-file session)))
              (setf (gethash file *loaded-files*) write-date)
              (unless (member file (load-session-compiled session) :test #'equal)
                (pushnew file (load-session-cached session) :test #'equal))))))))

(defun install-load-hooks ()
  "Put the notes of progress and the safe points in place. They act only within a load of ours."
  (install-tap)
  (loop for (name function)
          in '((asdf/lisp-action:perform-lisp-compilation noted-compilation)
               (asdf/lisp-action:perform-lisp-load-fasl noted-load)
               (asdf/lisp-action:perform-lisp-load-source noted-load)
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

(defun condition-text (condition)
  "What CONDITION says, as one string of bounded length."
  (let* ((*print-length* 20) (*print-level* 6) (*print-pretty* nil) (*print-circle* t)
         (inner (innermost-condition condition))
         (text (typecase inner
                 (end-of-file "The file ends inside a form: a closing parenthesis, quote or bar is missing.")
                 (simple-reader-error
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

(defun diagnostic-place (condition)
  "A property list that says where CONDITION belongs."
  (let* ((context (and (boundp 'sb-c::*source-info*)
                       (ignore-errors (sb-c::find-error-context nil))))
         (input-error (input-error condition))
         (inner (innermost-condition condition))
         (stream (and (typep inner 'stream-error)
                      (ignore-errors (stream-error-stream inner)))))
    (cond ((and (streamp stream) (or input-error (typep inner 'reader-error)))
           (append (list :path (or (ignore-errors (sb-ext:native-namestring (truename stream)))
                                   (load-session-file *load-session*)))
                   (reader-error-place input-error stream)))
          (context (compiler-place context))
          ((and *tap* (tap-stream *tap*)
                (open-stream-p (tap-stream *tap*)))
           ;; The file is loaded as source: the form that is being evaluated.
           (append (list :path (ignore-errors (sb-ext:native-namestring (truename (tap-stream *tap*)))))
                   (stream-place (tap-stream *tap*)
                                 (sb-impl::form-tracking-stream-form-start-char-pos (tap-stream *tap*)))))
          ((and (typep condition 'serious-condition) (frame-place)))
          (t (list :path (load-session-file *load-session*))))))

(defun frame-place ()
  "Where the innermost frame stands whose file was compiled in this load, or NIL."
  (sb-debug:map-backtrace
   (lambda (frame)
     (let* ((location (sb-di:frame-code-location frame))
            (source (ignore-errors (sb-di:code-location-debug-source location)))
            (file (and source (sb-di:debug-source-namestring source)))
            (tap (and file (gethash file (load-session-taps *load-session*))))
            (position (and tap
                           (ignore-errors
                            (tap-position tap
                                          (sb-di:code-location-toplevel-form-offset location)
                                          (sb-di:code-location-form-number location))))))
       (when position
         (multiple-value-bind (line column) (tap-line-and-column tap position)
           (return-from frame-place
             (list :path (sb-ext:native-namestring (truename file)) :line line :column column))))))))

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

(defun note-diagnostic (condition)
  "Add CONDITION to the diagnostics of this load, once."
  (let ((severity (severity condition)) (session *load-session*))
    (when (and severity session)
      (let* ((place (ignore-errors (diagnostic-place condition)))
             (text (condition-text condition))
             (key (list severity text (getf place :path) (getf place :line) (getf place :column))))
        (unless (gethash key (load-session-seen session))
          (setf (gethash key (load-session-seen session)) t)
          (push (list* :severity severity :message text place)
                (load-session-diagnostics session)))))))

;;; Failures

(defun failure-names (condition)
  "The kind of CONDITION and the names that belong to it, as a property list."
  (typecase condition
    (asdf:missing-dependency
     (list :kind "missing-dependency"
           :name (string-downcase (princ-to-string (asdf/find-component:missing-requires condition)))
           :required-by (princ-to-string (asdf:component-name (asdf/find-component:missing-required-by condition)))))
    (asdf:missing-component
     (list :kind "unknown-system"
           :name (string-downcase (princ-to-string (asdf/find-component:missing-requires condition)))))
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
    (uiop:compile-file-error (list :kind "compile"))
    (asdf:compile-error (list :kind "compile"))
    (file-error (list :kind "file"
                      :path (ignore-errors (namestring (file-error-pathname condition)))))
    (t (list :kind "load"))))

(defun component-path (component)
  "The names of COMPONENT and what it is part of, outermost first, joined by slashes."
  (format nil "~{~A~^/~}" (asdf:component-find-path component)))

(defun failure (condition)
  "What stopped the load: a property list of kind, message, file and what can be tried."
  (let ((names (failure-names condition)))
    (append names
            (unless (getf names :path)
              (list :path (load-session-file *load-session*)))
            (list :message (failure-text names condition)
                  :restarts (remove-duplicates
                             (loop for restart in (compute-restarts condition)
                                   unless (or (eq (restart-name restart) 'abort)
                                              (member restart (load-session-restarts *load-session*)))
                                     collect (bounded-text (princ-to-string restart) 200))
                             :test #'equal)))))

(defun failure-text (names condition)
  "What CONDITION, with its NAMES, says to somebody who did not write ASDF."
  (let ((kind (getf names :kind)) (name (getf names :name)))
    (cond ((equal kind "missing-dependency")
           (format nil "System ~A, which ~A depends on, is not known to ASDF." name (getf names :required-by)))
          ((equal kind "unknown-system")
           (format nil "System ~A is not known to ASDF." name))
          ((equal kind "circular-dependency")
           (format nil "These depend on each other in a circle: ~A." name))
          ((equal kind "compile")
           (format nil "~A does not compile; the diagnostics say why." (load-session-file *load-session*)))
          (t (condition-text condition)))))

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

(defun note-racy-file (tap)
  "Remember what was read of the file of TAP if a change of it could have the same date."
  (let ((file (sb-ext:native-namestring (truename (tap-stream tap)))))
    (if (<= (- (get-universal-time) (sb-c::file-info-write-date (tap-file-info tap))) 1)
        (setf (gethash file *racy-files*) (tap-content-hash tap))
        (remhash file *racy-files*))))

(defun forget-racy-fasls ()
  "Delete the fasls of files that were changed within the second in which they were compiled."
  (loop for file being the hash-keys of *racy-files* using (hash-value hash)
        for path = (probe-file (sb-ext:parse-native-namestring file))
        when (and path (/= hash (fnv-1a (file-octets path))))
          do (uiop:delete-file-if-exists (asdf:apply-output-translations (compile-file-pathname path)))))

(defun sidecar-directory ()
  "Where sidecars are kept."
  (merge-pathnames "taps/" *cache-directory*))

(defun call-with-load-session (session function)
  "Call FUNCTION as a load: quiet, tapped, with its uses recorded whatever the policy. The outcome as a
property list; FUNCTION's effects before a failure remain."
  (let* ((start (get-internal-real-time))
         (sink (make-broadcast-stream))
         (outcome
           (let ((*load-session* session)
                 (*leave-call* (lambda () (throw 'end-of-load '(:status "cancelled"))))
                 (*tap-sink* (tap-sink session))
                 (*standard-output* sink) (*error-output* sink) (*trace-output* sink)
                 (*compile-verbose* nil) (*compile-print* nil) (*load-verbose* nil) (*load-print* nil)
                 (*package* (find-package :common-lisp-user))
                 (sb-c::*policy-min* sb-c::*policy-min*))
             (setf (load-session-restarts session) (compute-restarts))
             (sb-ext:restrict-compiler-policy 'sb-c::store-xref-data 3)
             (catch 'end-of-load
               (handler-bind ((sb-c:fatal-compiler-error #'note-diagnostic)
                              (sb-c:compiler-error #'note-diagnostic)
                              (warning #'note-diagnostic)
                              (serious-condition
                                (lambda (condition)
                                  (unless (typep condition '(or uiop:compile-file-error asdf:compile-error
                                                             asdf:system-definition-error))
                                    (note-diagnostic condition))
                                  (ignore-errors (note-undefined-variables))
                                  (throw 'end-of-load
                                    (list :status "failed" :failure (failure condition))))))
                 (funcall function)
                 '(:status "loaded"))))))
    (append outcome
            (list :duration-ms (round (* 1000 (- (get-internal-real-time) start))
                                      internal-time-units-per-second)
                  :compiled (reverse (load-session-compiled session))
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

(defun load-system (system &key force progress stop timeout-seconds)
  "Load SYSTEM, a name, through ASDF; FORCE compiles its own files anew. PROGRESS is called with (done total
what file) before each file; STOP, without arguments, at each safe point. A property list: :STATUS
\"loaded\", \"failed\", \"cancelled\" or \"timed-out\"; :COMPILED and :CACHED files; :DURATION-MS;
:DIAGNOSTICS; and :FAILURE when it failed."
  (check-type system string)
  (check-type timeout-seconds (or null (real 0)))
  (install-load-hooks)
  (let ((session (make-session progress stop timeout-seconds))
        (name (string-downcase system)))
    (list* :system name
           (call-with-load-session session
                                   (lambda ()
                                     (asdf:find-system name)
                                     (forget-racy-fasls)
                                     (when progress
                                       (setf (load-session-total session) (planned-files name)))
                                     (asdf:load-system name :force (and force t)))))))

(defun error-p (diagnostic)
  "True when DIAGNOSTIC says that a form could not be compiled."
  (member (getf diagnostic :severity) '("error" "read-error") :test #'equal))

(defun load-file (path &key progress stop timeout-seconds)
  "Compile and load the file PATH, a native name. The outcome as of LOAD-SYSTEM. Nothing is loaded from a
file that could not be read or compiled."
  (check-type path string)
  (install-load-hooks)
  (let* ((session (make-session progress stop timeout-seconds))
         (file (sb-ext:parse-native-namestring path))
         (output (and *cache-directory*
                      (merge-pathnames (format nil "files/~(~16,'0X~).fasl"
                                               (fnv-1a (coerce (sb-ext:string-to-octets path :external-format :utf-8)
                                                               'octets)))
                                       *cache-directory*))))
    (list* :path path
           (call-with-load-session
            session
            (lambda ()
              (setf (load-session-file session) path)
              (when output (ensure-directories-exist output))
              (let ((write-date (file-write-date file)))
                (with-compilation-unit ()
                  (let ((fasl (if output
                                  (compile-file file :output-file output)
                                  (compile-file file :output-file
                                                (uiop:tmpize-pathname
                                                 (uiop:subpathname (uiop:temporary-directory) "steelbank.fasl"))))))
                    (unless (and fasl (notany #'error-p (load-session-diagnostics session)))
                      (error 'uiop:compile-file-error :description path :context-format nil :context-arguments nil))
                    (push path (load-session-compiled session))
                    (load fasl)
                    (unless output (delete-file fasl))))
                (setf (gethash (sb-ext:native-namestring (truename file)) *loaded-files*) write-date)))))))

;;; Projects

(defun open-project (root cache &key userinit)
  "Register the systems below ROOT with ASDF, keep fasls and sidecars in CACHE (both native directory
names), honour CL_SOURCE_REGISTRY and a qlot set-up, and load USERINIT, a native file name, unless NIL.
The outcome of loading those files as of LOAD-SYSTEM."
  (check-type root string)
  (check-type cache string)
  (check-type userinit (or null string))
  (install-load-hooks)
  (let ((root (uiop:ensure-directory-pathname (sb-ext:parse-native-namestring root)))
        (cache (uiop:ensure-directory-pathname (sb-ext:parse-native-namestring cache)))
        (session (make-session nil nil nil)))
    (setf *cache-directory* cache)
    (asdf:initialize-output-translations
     `(:output-translations (t (,cache "fasls" :implementation :**/ :*.*.*))
                            :ignore-inherited-configuration))
    (call-with-load-session
     session
     (lambda ()
       (let ((qlot (probe-file (merge-pathnames ".qlot/setup.lisp" root))))
         (when qlot (load qlot))
         (when (and userinit (probe-file (sb-ext:parse-native-namestring userinit)))
           (load (sb-ext:parse-native-namestring userinit))))
       (asdf:initialize-source-registry
        `(:source-registry (:tree ,root) :inherit-configuration))))))

(defun system-files (system)
  "The Lisp source files of SYSTEM, an ASDF system, as components."
  (let ((files '()))
    (labels ((walk (component)
               (typecase component
                 (asdf:cl-source-file (push component files))
                 (asdf:parent-component (mapc #'walk (asdf:component-children component))))))
      (walk system))
    (nreverse files)))

(defun changed-files (system)
  "The files of SYSTEM that were loaded through us and have changed on disk since."
  (loop for component in (system-files system)
        for file = (source-file-of component)
        for loaded = (gethash file *loaded-files*)
        when (and loaded
                  (not (eql loaded (ignore-errors (file-write-date (asdf:component-pathname component))))))
          collect file))

(defun systems-below (root)
  "The names of the systems whose .asd is below ROOT, with its path. Nothing is loaded or run for it."
  (let ((systems (make-hash-table :test 'equal))
        (root (namestring (or (ignore-errors (truename root)) root))))
    (flet ((add (name path)
             (when (and path (eql 0 (search root (namestring (or (ignore-errors (truename path)) path)))))
               (setf (gethash name systems) path))))
      (asdf:ensure-source-registry)
      (when (hash-table-p asdf/source-registry:*source-registry*)
        (maphash #'add asdf/source-registry:*source-registry*))
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
  (destructuring-bind (&key severity message path line column form) diagnostic
    (object "severity" severity "path" path "line" line "column" column "message" message "form" form)))

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
  (destructuring-bind (&key system path status failure duration-ms compiled cached diagnostics) outcome
    (object "system" system "path" path "status" status "duration_ms" duration-ms
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
