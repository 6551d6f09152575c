;;;; Loads a system or a file. A load always ends in an outcome, whether it succeeds, fails or is
;;;; stopped.

(in-package :steelbank)

(defun tap-sink (session)
  "Return a sink that writes sidecars into the cache, and stores file versions and positions."
  (lambda (tap sidecar)
    (let* ((path (truename (tap-stream tap)))
           (file (sb-ext:native-namestring path))
           (size (with-open-file (stream path :element-type '(unsigned-byte 8))
                   (file-length stream)))
           (version (make-file-version (file-info-write-date (tap-file-info tap)) size
                                       (tap-content-hash tap))))
      (setf (gethash file (load-session-versions session)) version)
      ;; Record files that are loaded as source, also system definitions, because they name symbols.
      ;; Skip a definition that failed: ASDF continues to use the previous definition.
      (when (and (tap-source-load tap)
                 (not (and (tap-failed tap) (equal (pathname-type path) "asd"))))
        (setf (gethash file *loaded-files*) version)))
    (let ((name (namestring (file-info-pathname (tap-file-info tap)))))
      (setf (gethash name (load-session-taps session)) tap))
    (when *cache-directory*
      (handler-case (write-sidecar tap sidecar (sidecar-directory))
        ((or file-error stream-error) () nil)))
    (trim-tap tap)))

(defun cause (condition)
  "Return CONDITION, or the cause that ASDF wrapped in it while reading a system definition."
  (if (typep condition 'asdf:load-system-definition-error)
      (cause (asdf/find-system:error-condition condition))
      condition))

(defun note-failure (session condition)
  "Before the stack unwinds, record in SESSION the CONDITION that ends the load, with its position."
  ;; If little stack is left, copy the stack instead.
  (cond ((not (stack-short-p)) (describe-failure session condition))
        ;; On a stack overflow, the stack was already copied before the handlers ran.
        ((not (typep condition 'stack-exhausted))
         (copy-stack)
         (setf (load-session-copied session) t))))

(defun describe-failure (session condition)
  "Record in SESSION the CONDITION that ends the load, with its position."
  (let* ((cause (cause condition))
         (place (unless (typep cause '(or uiop:compile-file-error asdf:compile-error
                                          asdf:system-definition-error))
                  (note-diagnostic cause (or (severity cause) :error)))))
    (reporting-own-errors ("reporting undefined names")
      (note-undefined-names))
    (unless (typep condition 'heap-share-exhausted)
      (setf (load-session-failure session) (failure condition place)))))

(defun true-reason (condition)
  "Return CONDITION, or a heap-exhaustion condition if a full heap ended the load."
  (flet ((full-p () (> (heap-in-use) (heap-limit))))
    (if (and (typep condition 'left-by-exit)
             (full-p)
             (progn (sb-ext:gc :full t) (full-p)))
        (make-condition 'heap-share-exhausted)
        condition)))

(defun failed-outcome (session condition)
  "Return the outcome of a load that CONDITION ended."
  ;; Do not check the heap: the objects of the failed load are garbage by now.
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
  "If SESSION keeps going after broken files, record the file that is now broken, and continue."
  ;; CONDITION reports that a file failed to compile; ASDF continues with the resulting fasl.
  (when (load-session-keep-going session)
    (push *file* (load-session-broken session))
    (unless (load-session-failure session)
      (setf (load-session-failure session) (failure condition)))
    (muffle-warning condition)))

(defun forget-broken-fasls (session)
  "Delete the fasls of SESSION's files that failed to compile, so that no later load uses them."
  (dolist (file (load-session-broken session))
    (let ((fasl (around-user-code (asdf:apply-output-translations
                                   (compile-file-pathname (sb-ext:parse-native-namestring file))))))
      (when fasl
        (uiop:delete-file-if-exists fasl)))))

(defun run-load (session function)
  "Call FUNCTION as the load SESSION."
  ;; Return the outcome, unless FUNCTION makes a non-local exit out of the load.
  (catch 'end-of-load
    (let ((condition
            (catch 'fault
              (let ((*checking-heap* nil)
                    (*note-fault* (lambda (condition) (note-failure session condition)))
                    (*leave-call* (lambda () (leave-load session)))
                    (uiop:*compile-file-failure-behaviour*
                      (if (load-session-keep-going session) :warn
                          uiop:*compile-file-failure-behaviour*))
                    (sb-ext:*invoke-debugger-hook* 'debugger-hook)
                    (*debugger-hook* nil))
                (with-simple-restart (abort "Give up the load.")
                  ;; Record diagnostics. Unhandled errors reach the debugger hook.
                  (handler-bind ((uiop:compile-failed-warning
                                   (lambda (condition) (pass-broken-file session condition)))
                                 (fatal-compiler-error #'note-diagnostic)
                                 (compiler-error #'note-diagnostic)
                                 (warning #'note-diagnostic)
                                 (error #'continue-with-new-structure))
                    (funcall function)
                    (setf (load-session-unreported session) '()))
                  (throw 'end-of-load
                    (if (load-session-broken session)
                        (list :status :failed :failure (load-session-failure session))
                        '(:status :loaded)))))
              (make-condition 'left-by-exit))))
      (failed-outcome session condition))))

(defun load-outcome (session function)
  "Call FUNCTION as the load SESSION. Return the outcome, however it ends."
  (let ((outcome nil))
    (block load
      (unwind-protect (with-return-addresses (*return-addresses*)
                        (setf outcome (run-load session function)))
        (unless outcome
          (return-from load))))
    (or outcome
        (failed-outcome session (make-condition 'left-by-exit)))))

(defvar *noted-serial* nil
  "The highest serial number of code that NEW-CODE-FILES has processed; NIL before the first load.")

(defun highest-serial ()
  "Return the highest serial number of code created since the core started; -1 if there is none."
  (let ((highest -1))
    (map-code (lambda (code)
                (setf highest (max highest (code-serial code))))
              t)
    highest))

(defun known-component-files ()
  "Return a table of the files of all registered components."
  ;; ASDF's operations on these files record that they are loaded.
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
            ;; A name has no system yet while its definition is being read.
            (when (typep system 'asdf:system)
              (walk system))))))
    files))

(defun new-code-files ()
  "Return a table of the files of code that was created since the last call."
  ;; The table maps each file to its write date at the time of compilation, or to NIL if the code is
  ;; from a text in a buffer.
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
     ;; Skip the code in the core: what was loaded into a snapshot was recorded when the snapshot
     ;; was saved.
     t)
    (setf *noted-serial* highest)
    seen))

(defun note-new-code (versions noted-elsewhere)
  "Record the files of new code in the image, and return their number."
  ;; Skip files that changed after they were compiled, and files for which NOTED-ELSEWHERE, called
  ;; with name and write date, returns true. VERSIONS maps the files that were read to their
  ;; versions.
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
  "Record the files of new code that does not belong to an ASDF component."
  ;; A program may compile and load files itself. Files that changed after they were compiled are
  ;; skipped.
  (let ((components nil))
    (note-new-code (load-session-versions session)
                   (lambda (file created)
                     (declare (ignore created))
                     ;; Skip files that are already recorded. If a reload of such a file failed, the
                     ;; image has some code of a version that is not completely loaded.
                     (or (gethash file *loaded-files*)
                         (gethash file (or components
                                           (setf components (known-component-files)))))))))

(defun call-with-load-session (session function)
  "Call FUNCTION as a load, and return the outcome, a property list."
  ;; The load has no output, uses a tap, and records cross references regardless of the policy.
  ;; Effects of FUNCTION before a failure remain.
  (let* ((start (get-internal-real-time))
         (consed (sb-ext:get-bytes-consed))
         (features (copy-list *features*))
         (sink (make-broadcast-stream))
         (outcome
           (let ((*load-session* session) (*file* nil)
                 (*tap-sink* (tap-sink session))
                 (*standard-output* sink) (*error-output* sink) (*trace-output* sink)
                 (*compile-verbose* nil) (*compile-print* nil)
                 (*load-verbose* nil) (*load-print* nil)
                 (*package* (find-package :common-lisp-user)))
             (setf (load-session-restarts session) (compute-restarts))
             (use-own-cache)
             (unless *noted-serial*
               (setf *noted-serial* (highest-serial)))
             ;; The previous load may have been left without its cleanup.
             (forget-unread-systems)
             ;; Code that was evaluated before the load may have created tests.
             (note-tests nil)
             (prog1 (with-least-quality (+store-xref-data+ 3)
                      (load-outcome session function))
               (forget-unread-systems)
               (note-loaded-code session)))))
    (keep-features session features)
    (forget-broken-fasls session)
    (store-diagnostics session)
    (incf *consed-by-loads* (- (sb-ext:get-bytes-consed) consed))
    (append outcome
            (list :duration-ms (round (* 1000 (- (get-internal-real-time) start))
                                      internal-time-units-per-second)
                  :compiled (files-noted session :compiled)
                  :cached (files-noted session :cached)
                  :diagnostics (raise-late-macros (reverse (load-session-diagnostics session)))
                  :cautions (reverse (load-session-cautions session))))))

(defun keep-features (session features)
  "Restore FEATURES, and add a caution to SESSION, if *FEATURES* is no longer a proper list."
  ;; Without a proper list, nothing could be read.
  (unless (proper-list-p *features*)
    (setf *features* features)
    (push "The loaded code left *FEATURES* as an improper list; its previous value was restored."
          (load-session-cautions session))))

(defun forget-unread-systems ()
  "Have ASDF forget systems that are only partially defined, because later loads would fail."
  (dolist (name (registered-names))
    (unless (typep (asdf:registered-system name) 'asdf:system)
      (asdf:clear-system name))))

(defun add-stored-diagnostics-of-system (session system)
  "Add to SESSION the stored diagnostics of the files of SYSTEM that were already loaded."
  (let ((compile (asdf:make-operation 'asdf:compile-op)))
    (dolist (component (system-files system))
      (let ((file (around-user-code (source-file-of component)))
            (fasl (around-user-code (first (asdf:output-files compile component)))))
        (when (and fasl
                   (in-cache-p fasl)
                   (not (gethash file (load-session-files session))))
          (let ((record (read-record fasl)))
            (when record
              (add-stored-diagnostics session record))))))))

(defun make-session (progress stop timeout-seconds)
  "Create a load session that ends after TIMEOUT-SECONDS, or when STOP returns true."
  (make-load-session
   :progress progress
   :stop (or stop (constantly nil))
   :deadline (and timeout-seconds
                  (+ (get-internal-real-time)
                     (ceiling (* timeout-seconds internal-time-units-per-second))))))

(defun take-newest-asdf ()
  "Have ASDF replace itself by a newer version in its registry, if there is one."
  ;; ASDF does the same at its first operation, after it has read definitions. The new version
  ;; redefines encapsulated functions.
  (asdf:upgrade-asdf)
  (install-load-hooks))

(defun find-system-name (name)
  "Return the name under which ASDF finds system NAME, as given or in lower case, or NIL."
  (or (and (asdf:find-system name nil) name)
      (let ((lower (string-downcase name)))
        (and (asdf:find-system lower nil) lower))))

(defun retry-dependency (condition)
  "If ASDF lacks a system that CONDITION reports, search again, and have ASDF retry."
  ;; The system's definition may have been written after ASDF searched.
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
               (format stream (cond ((equal path #p"") "The file name is empty.")
                                    ((uiop:directory-exists-p path) "~A is a folder.")
                                    ((uiop:file-exists-p path) "~A is not a regular file.")
                                    (t "File ~A does not exist."))
                       (sb-ext:native-namestring path)))))
  (:documentation "The file to be loaded is missing or is not a regular file."))

(defun check-loaded-files (system)
  "Signal an error if a loaded file of SYSTEM no longer exists. ASDF would not notice."
  (dolist (component (system-files system))
    (when (and (nth-value 1 (gethash (source-file-of component) *loaded-files*))
               (not (uiop:file-exists-p (asdf:component-pathname component))))
      (error 'no-such-file :pathname (asdf:component-pathname component)))))

(defun note-failed-file (session outcome)
  "Record that this image may differ from the text if a file failed in SESSION. Return OUTCOME."
  ;; The image has what the file defined before the failure, also at compile time.
  (when (and (eq (getf outcome :status) :failed) (load-session-file session))
    (note-difference-from-text))
  outcome)

(defun load-system (system &key definition force keep-going progress stop timeout-seconds)
  "Load SYSTEM, a name, through ASDF."
  ;; DEFINITION is the native name of the file that defines SYSTEM, if ASDF would not find that
  ;; file. FORCE recompiles the system's own files, and KEEP-GOING continues after files that fail
  ;; to compile. PROGRESS is called with (done total what file) before each file. STOP is called
  ;; without arguments at each safe point. Return a property list with :SYSTEM, :STATUS (:LOADED,
  ;; :FAILED, :CANCELLED or :TIMED-OUT), :COMPILED and :CACHED files, :DURATION-MS, :DIAGNOSTICS,
  ;; :CAUTIONS, and, unless the system was loaded, :FAILURE.
  (check-type system string)
  (check-type timeout-seconds (or null (real 0)))
  (install-load-hooks)
  (let ((session (make-session progress stop timeout-seconds))
        (name system))
    (setf (load-session-keep-going session) keep-going)
    (flet ((find-and-load ()
             (take-newest-asdf)
             (read-changed-definitions)
             (when definition
               (asdf:load-asd (sb-ext:parse-native-namestring definition)))
             (setf name (or (find-system-name system)
                            (progn (rescan-systems) (find-system-name system))
                            (asdf:find-system system)))
             (check-loaded-files (asdf:find-system name))
             (handler-bind ((asdf:missing-dependency #'retry-dependency))
               (if force
                   (asdf:load-system name :force t)
                   (call-with-up-to-date-systems name (load-session-up-to-date session)
                                              (lambda () (asdf:load-system name)))))
             (add-stored-diagnostics-of-system session (asdf:find-system name))))
      (let ((outcome (call-with-load-session session #'find-and-load)))
        (list* :system name (note-failed-file session outcome))))))

(defun load-systems (systems &key keep-going progress stop timeout-seconds)
  "Load SYSTEMS in order through ASDF."
  ;; Each system is a list of its name and the native name of the file that defines it. KEEP-GOING
  ;; and the outcome are as for LOAD-SYSTEM.
  (install-load-hooks)
  (let ((session (make-session progress stop timeout-seconds)))
    (setf (load-session-keep-going session) keep-going)
    (let ((outcome
            (call-with-load-session
             session
             (lambda ()
               (take-newest-asdf)
               (call-with-up-to-date-systems
                nil (load-session-up-to-date session)
                (lambda ()
                  (loop for (name definition) in systems
                        do (unless (asdf:find-system name nil)
                             (asdf:load-asd (sb-ext:parse-native-namestring definition)))
                           (asdf:load-system name))))))))
      (note-failed-file session outcome))))

(defun error-p (diagnostic)
  "Return true if DIAGNOSTIC reports that a form could not be compiled."
  (member (getf diagnostic :severity) '(:error :read-error)))

(defun file-output (path)
  "Return the path for the fasl of the single file PATH, and whether the fasl is kept."
  ;; PATH is a native name.
  (if *cache-directory*
      (let ((octets (coerce (sb-ext:string-to-octets path :external-format :utf-8) 'octets)))
        (values (merge-pathnames (format nil "files/~(~16,'0X~).fasl" (fnv-1a octets))
                                 *cache-directory*)
                t))
      (values (uiop:tmpize-pathname (uiop:subpathname (uiop:temporary-directory) "steelbank.fasl"))
              nil)))

(defun load-file (path &key progress stop timeout-seconds)
  "Compile and load the file PATH, a native name. Return an outcome as LOAD-SYSTEM does."
  ;; If the file cannot be read or compiled, nothing of it is loaded.
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
                     (note-difference-from-text)
                     (unless kept (delete-file fasl)))))
               (setf (gethash (sb-ext:native-namestring (truename file)) *loaded-files*) version))))
      (list* :path path
             (call-with-load-session
              session
              (lambda ()
                (when (or (not (uiop:file-exists-p file)) (special-file-p path))
                  (error 'no-such-file :pathname file))
                (let ((true (sb-ext:native-namestring (truename file))))
                  (call-with-file session path
                                  (lambda () (call-noting-tests true #'compile-and-load))))))))))

(defun loaded-files-json ()
  "Return the files that we loaded, with their versions at that time, as JSON objects."
  (sb-ext:with-locked-hash-table (*loaded-files*)
    (loop for file being the hash-keys of *loaded-files* using (hash-value version)
          collect (object "path" file "write_date" (file-version-write-date version)
                          "size" (file-version-size version) "hash" (file-version-hash version)))))

(defun image-json (&key (systems t))
  "Return the loaded files and, with SYSTEMS, the registered systems as a JSON object."
  (object "files" (loaded-files-json)
          "systems" (and systems (mapcar #'system-json (with-real-folders (known-systems))))))

(defun outcome-json (outcome &key (systems t))
  "Return OUTCOME, an outcome of a load or of OPEN-PROJECT, as a JSON object."
  ;; SYSTEMS is as for IMAGE-JSON.
  (destructuring-bind (&key system path step status failure duration-ms compiled cached
                         diagnostics cautions) outcome
    (object "system" system "path" path "step" (word step) "status" (word status)
            "duration_ms" duration-ms "compiled" compiled "cached" cached
            "diagnostics" (mapcar #'diagnostic-json diagnostics)
            "cautions" cautions
            "failure" (and failure (failure-json failure))
            "image" (image-json :systems systems))))

(defun send-progress (done total what file)
  "Report step DONE of TOTAL to the host: FILE is being compiled or loaded, according to WHAT."
  (progress (json-string (object "done" done "total" total "what" (word what) "path" file))))
