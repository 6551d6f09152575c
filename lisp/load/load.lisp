;;;; Loads a system or a file. A load always ends in an outcome.

(in-package :steelbank)

(defun tap-sink (session)
  "A sink that writes each sidecar into the cache, and keeps the tap's positions for late diagnostics."
  (lambda (tap sidecar)
    (let* ((path (truename (tap-stream tap)))
           (file (sb-ext:native-namestring path))
           (version (make-file-version (file-info-write-date (tap-file-info tap))
                                       (with-open-file (stream path :element-type '(unsigned-byte 8))
                                         (file-length stream))
                                       (tap-content-hash tap))))
      (setf (gethash file (load-session-versions session)) version)
      ;; System definitions, too, name symbols. Of one that failed, ASDF keeps what it had.
      (when (and (tap-source-load tap)
                 (not (and (tap-failed tap) (equal (pathname-type path) "asd"))))
        (setf (gethash file *loaded-files*) version)))
    (setf (gethash (namestring (file-info-pathname (tap-file-info tap))) (load-session-taps session))
          tap)
    (when *cache-directory*
      (handler-case (write-sidecar tap sidecar (sidecar-directory))
        ((or file-error stream-error) () nil)))
    (trim-tap tap)))

(defun cause (condition)
  "The condition that ASDF wrapped in CONDITION while it read a system definition."
  (if (typep condition 'asdf:load-system-definition-error)
      (cause (asdf/find-system:error-condition condition))
      condition))

(defun note-failure (session condition)
  "Record in SESSION that CONDITION ends the load, and the place, while the stack is not unwound yet; near its end, copy it."
  (cond ((not (stack-short-p)) (describe-failure session condition))
        ;; An overflow copied it before its handlers ran.
        ((not (typep condition 'stack-exhausted))
         (copy-stack)
         (setf (load-session-copied session) t))))

(defun describe-failure (session condition)
  "Record in SESSION that CONDITION ends the load, and the place."
  (let* ((cause (cause condition))
         (place (unless (typep cause '(or uiop:compile-file-error asdf:compile-error asdf:system-definition-error))
                  (note-diagnostic cause (or (severity cause) :error)))))
    (reporting-own-errors ("telling the names without a definition")
      (note-undefined-names))
    (unless (typep condition 'heap-share-exhausted)
      (setf (load-session-failure session) (failure condition place)))))

(defun true-reason (condition)
  "CONDITION, or a full heap if code has left the load because of that, in a way that does not say so."
  (flet ((full-p () (> (heap-in-use) (heap-limit))))
    (if (and (typep condition 'left-by-exit)
             (full-p)
             (progn (sb-ext:gc :full t) (full-p)))
        (make-condition 'heap-share-exhausted)
        condition)))

(defun failed-outcome (session condition)
  "The outcome of a load that CONDITION ended. The memory that the load filled is garbage by now."
  (let ((*file* (load-session-file session))
        (*checking-heap* t))
    (when (and (null (load-session-failure session))
               (or (load-session-copied session) (typep condition 'stack-exhausted)))
      (let ((*copied-stack* *return-addresses*))
        (describe-failure session condition)))
    (list :status :failed
          :failure (or (load-session-failure session)
                       (failure (true-reason condition))))))

(defun pass-broken-file (session condition)
  "When SESSION keeps going, note that CONDITION says that a file does not compile, and have ASDF go on with what came of it."
  (when (load-session-keep-going session)
    (push *file* (load-session-broken session))
    (unless (load-session-failure session)
      (setf (load-session-failure session) (failure condition)))
    (muffle-warning condition)))

(defun forget-broken-fasls (session)
  "Delete what came of the files of SESSION that do not compile: no later load may take it for their fasl."
  (dolist (file (load-session-broken session))
    (let ((fasl (around-user-code (asdf:apply-output-translations
                                   (compile-file-pathname (sb-ext:parse-native-namestring file))))))
      (when fasl
        (uiop:delete-file-if-exists fasl)))))

(defun run-load (session function)
  "Call FUNCTION as the load SESSION. Returns the outcome, unless FUNCTION leaves to a place outside of the load."
  (catch 'end-of-load
    (let ((condition
            (catch 'fault
              (let ((*checking-heap* nil)
                    (*note-fault* (lambda (condition) (note-failure session condition)))
                    (*leave-call* (lambda () (leave-load session)))
                    (uiop:*compile-file-failure-behaviour* (if (load-session-keep-going session)
                                                               :warn
                                                               uiop:*compile-file-failure-behaviour*))
                    (sb-ext:*invoke-debugger-hook* 'debugger-hook)
                    (*debugger-hook* nil))
                (with-simple-restart (abort "Give up the load.")
                  ;; Note the diagnostics. An error that nobody handles reaches the debugger's hook.
                  (handler-bind ((uiop:compile-failed-warning
                                   (lambda (condition) (pass-broken-file session condition)))
                                 (fatal-compiler-error #'note-diagnostic)
                                 (compiler-error #'note-diagnostic)
                                 (warning #'note-diagnostic)
                                 (error #'continue-with-new-structure))
                    (funcall function)
                    (setf (load-session-untold session) '()))
                  (throw 'end-of-load (if (load-session-broken session)
                                          (list :status :failed :failure (load-session-failure session))
                                          '(:status :loaded)))))
              (make-condition 'left-by-exit))))
      (failed-outcome session condition))))

(defun load-outcome (session function)
  "Call FUNCTION as the load SESSION. Returns the outcome, however it ends."
  (let ((outcome nil))
    (block load
      (unwind-protect (with-return-addresses (*return-addresses*)
                        (setf outcome (run-load session function)))
        (unless outcome
          (return-from load))))
    (or outcome
        (failed-outcome session (make-condition 'left-by-exit)))))

(defvar *noted-serial* nil
  "The highest serial number of code whose files NOTE-LOADED-CODE has seen; NIL before the first load.")

(defun highest-serial ()
  "The highest serial number of the code that NOTE-LOADED-CODE looks at; -1 if there is none."
  (let ((highest -1))
    (map-code (lambda (code)
                (setf highest (max highest (code-serial code))))
              t)
    highest))

(defun known-component-files ()
  "The files of all components that ASDF knows, as a table: the operations on these note their loading."
  (let ((files (make-hash-table :test 'equal)))
    (labels ((walk (component)
               (if (typep component 'asdf:parent-component)
                   (mapc #'walk (asdf:component-children component))
                   (let ((file (around-user-code (source-file-of component))))
                     (when file
                       (setf (gethash file files) t))))))
      (with-real-folders
        (dolist (name (registered-names))
          (let ((system (asdf:registered-system name)))
            ;; While its definition is read, there is no system under its name yet.
            (when (typep system 'asdf:system)
              (walk system))))))
    files))

(defun new-code-files ()
  "The names of the files of the code that was made since this was called last, each with the write date that it had then, as a table."
  (let ((seen (make-hash-table :test 'equal))
        (highest *noted-serial*))
    (map-code
     (lambda (code)
       (let ((serial (code-serial code)))
         (when (> serial *noted-serial*)
           (setf highest (max highest serial))
           (let* ((source (code-source code))
                  (path (and source (debug-source-namestring source))))
             (when (stringp path)
               (setf (gethash path seen) (file-created source)))))))
     ;; Skip the core's code: what was loaded into a snapshot was noted when it was made.
     t)
    (setf *noted-serial* highest)
    seen))

(defun note-new-code (versions noted-elsewhere)
  "Remember the files of code that is new in the image, but for those that have changed since they were compiled, and those of which
NOTED-ELSEWHERE, called with name and write date, is true. VERSIONS has those of files that were read. Returns how many there are."
  (loop for path being the hash-keys of (new-code-files) using (hash-value created)
        for true = (and created
                        (eql (mismatch "/" path) 1)
                        (when-file-permits (probe-file path)))
        for file = (and true (sb-ext:native-namestring true))
        for version = (and true
                           (not (funcall noted-elsewhere file created))
                           (or (gethash file versions) (current-version true)))
        when (and version (= created (file-version-write-date version)))
          count t and do (setf (gethash file *loaded-files*) version)))

(defun note-loaded-code (session)
  "Remember the files of code that is new in the image and that no component of ASDF's brought: a program may compile
and load files by itself. Only files that have not changed since they were compiled."
  (let ((components nil))
    (note-new-code (load-session-versions session)
                   (lambda (file created)
                     (declare (ignore created))
                     ;; A load of it that has failed leaves code of a newer version, too.
                     (or (gethash file *loaded-files*)
                         (gethash file (or components (setf components (known-component-files)))))))))

(defun call-with-load-session (session function)
  "Call FUNCTION as a load: quiet, tapped, with its uses recorded whatever the policy. Returns the outcome, a property
list; FUNCTION's effects before a failure remain."
  (let* ((start (get-internal-real-time))
         (consed (sb-ext:get-bytes-consed))
         (features (copy-list *features*))
         (sink (make-broadcast-stream))
         (outcome
           (let ((*load-session* session)
                 (*file* nil)
                 (*tap-sink* (tap-sink session))
                 (*standard-output* sink) (*error-output* sink) (*trace-output* sink)
                 (*compile-verbose* nil) (*compile-print* nil) (*load-verbose* nil) (*load-print* nil)
                 (*package* (find-package :common-lisp-user)))
             (setf (load-session-restarts session) (compute-restarts))
             (use-own-cache)
             (unless *noted-serial*
               (setf *noted-serial* (highest-serial)))
             ;; The load before this one may have been left without its clean-up.
             (forget-unread-systems)
             (prog1 (with-least-quality (+store-xref-data+ 3)
                      (load-outcome session function))
               (forget-unread-systems)
               (note-loaded-code session)))))
    (keep-features session features)
    (forget-broken-fasls session)
    (keep-diagnostics session)
    (incf *consed-by-loads* (- (sb-ext:get-bytes-consed) consed))
    (append outcome
            (list :duration-ms (round (* 1000 (- (get-internal-real-time) start))
                                      internal-time-units-per-second)
                  :compiled (files-noted session :compiled)
                  :cached (files-noted session :cached)
                  :diagnostics (reverse (load-session-diagnostics session))
                  :cautions (reverse (load-session-cautions session))))))

(defun keep-features (session features)
  "Put FEATURES back, and note it in SESSION, if *FEATURES* is no proper list any more: nothing could be read."
  (unless (proper-list-p *features*)
    (setf *features* features)
    (push "What was loaded left in *FEATURES* what is no proper list; it is again what it was before."
          (load-session-cautions session))))

(defun forget-unread-systems ()
  "Have ASDF forget the systems whose definitions were read only partly: every later load would fail on them."
  (dolist (name (registered-names))
    (unless (typep (asdf:registered-system name) 'asdf:system)
      (asdf:clear-system name))))

(defun note-kept-diagnostics-of-system (session system)
  "Add to SESSION the kept diagnostics of those files of SYSTEM that this load did not compile."
  (let ((compile (asdf:make-operation 'asdf:compile-op)))
    (dolist (component (system-files system))
      (let ((file (around-user-code (source-file-of component)))
            (fasl (around-user-code (first (asdf:output-files compile component)))))
        (when (and fasl
                   (in-cache-p fasl)
                   (not (gethash file (load-session-files session))))
          (let ((record (read-record fasl)))
            (when record
              (note-kept-diagnostics session record))))))))

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
                                    ((uiop:file-exists-p path) "~A is no plain file.")
                                    (t "There is no file ~A."))
                       (sb-ext:native-namestring path)))))
  (:documentation "The file to be loaded is missing, or is no plain file."))

(defun check-loaded-files (system)
  "Signal an error if a file of SYSTEM that was loaded through us is gone, which ASDF does not notice."
  (dolist (component (system-files system))
    (when (and (nth-value 1 (gethash (source-file-of component) *loaded-files*))
               (not (uiop:file-exists-p (asdf:component-pathname component))))
      (error 'no-such-file :pathname (asdf:component-pathname component)))))

(defun load-system (system &key definition force keep-going progress stop timeout-seconds)
  "Load SYSTEM, a name, through ASDF, after DEFINITION, the native name of the file that defines it, if ASDF would not find
that; FORCE compiles its own files anew; KEEP-GOING goes on behind files that do not compile. PROGRESS is called with (done total
what file) before each file; STOP, without arguments, at each safe point. A property list: :STATUS
:LOADED, :FAILED, :CANCELLED or :TIMED-OUT; :COMPILED and :CACHED files; :DURATION-MS;
:DIAGNOSTICS; and :FAILURE when it did not load."
  (check-type system string)
  (check-type timeout-seconds (or null (real 0)))
  (install-load-hooks)
  (let ((session (make-session progress stop timeout-seconds))
        (name system))
    (setf (load-session-keep-going session) keep-going)
    (flet ((find-and-load ()
             (read-changed-definitions)
             (when definition
               (asdf:load-asd (sb-ext:parse-native-namestring definition)))
             (setf name (or (known-system system)
                            (progn (rescan-systems) (known-system system))
                            (asdf:find-system system)))
             (check-loaded-files (asdf:find-system name))
             (handler-bind ((asdf:missing-dependency #'look-for-dependency))
               (if force
                   (asdf:load-system name :force t)
                   (call-with-settled-systems name (load-session-settled session)
                                              (lambda () (asdf:load-system name)))))
             (note-kept-diagnostics-of-system session (asdf:find-system name))))
      (let ((outcome (call-with-load-session session #'find-and-load)))
        (list* :system name outcome)))))

(defun load-systems (systems &key keep-going progress stop timeout-seconds)
  "Load SYSTEMS, lists of a name and the native name of the file that defines it, through ASDF one after the other. KEEP-GOING and
the outcome are as of LOAD-SYSTEM."
  (install-load-hooks)
  (let ((session (make-session progress stop timeout-seconds)))
    (setf (load-session-keep-going session) keep-going)
    (call-with-load-session
     session
     (lambda ()
       (call-with-settled-systems
        nil (load-session-settled session)
        (lambda ()
          (loop for (name definition) in systems
                do (unless (asdf:find-system name nil)
                     (asdf:load-asd (sb-ext:parse-native-namestring definition)))
                   (asdf:load-system name))))))))

(defun error-p (diagnostic)
  "True when DIAGNOSTIC says that a form could not be compiled."
  (member (getf diagnostic :severity) '(:error :read-error)))

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
             (let ((version (current-version file)))
               (multiple-value-bind (output kept) (file-output path)
                 (make-private-directories output)
                 (when (special-file-p (sb-ext:native-namestring output))
                   (discard-fasl output))
                 (with-compilation-unit ()
                   (let ((fasl (compile-file file :output-file output)))
                     (unless (and fasl (notany #'error-p (load-session-diagnostics session)))
                       (error 'uiop:compile-file-error :description path
                                                       :context-format nil :context-arguments nil))
                     (note-file session path :compiled)
                     (close-to-others fasl)
                     (load fasl)
                     (unless kept (delete-file fasl)))))
               (setf (gethash (sb-ext:native-namestring (truename file)) *loaded-files*) version))))
      (list* :path path
             (call-with-load-session
              session
              (lambda ()
                (when (or (not (uiop:file-exists-p file)) (special-file-p path))
                  (error 'no-such-file :pathname file))
                (call-with-file session path #'compile-and-load)))))))

(defun loaded-files-json ()
  "Every file loaded through us, and its version then."
  (sb-ext:with-locked-hash-table (*loaded-files*)
    (loop for file being the hash-keys of *loaded-files* using (hash-value version)
          collect (object "path" file
                          "write_date" (file-version-write-date version)
                          "size" (file-version-size version)
                          "hash" (file-version-hash version)))))

(defun image-json (&key (systems t))
  "The contents of the image, as an object: the loaded files, and with SYSTEMS the systems that ASDF knows."
  (object "files" (loaded-files-json) "systems" (and systems (mapcar #'system-json (with-real-folders (known-systems))))))

(defun outcome-json (outcome &key (systems t))
  "OUTCOME, of LOAD-SYSTEM, LOAD-FILE or OPEN-PROJECT, as an object; SYSTEMS is as of IMAGE-JSON."
  (destructuring-bind (&key system path step status failure duration-ms compiled cached diagnostics cautions) outcome
    (object "system" system "path" path "step" (word step) "status" (word status) "duration_ms" duration-ms
            "compiled" compiled "cached" cached
            "diagnostics" (mapcar #'diagnostic-json diagnostics)
            "cautions" cautions
            "failure" (and failure (failure-json failure))
            "image" (image-json :systems systems))))

(defun send-progress (done total what file)
  "Tell the host that DONE of TOTAL steps are done, and that FILE is being compiled or loaded (WHAT)."
  (progress (json-string (object "done" done "total" total "what" (word what) "path" file))))
