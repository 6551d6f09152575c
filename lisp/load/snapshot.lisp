;;;; Snapshots: records the inputs of an image, finds obstacles to saving it, and saves it as a
;;;; core.

(in-package :steelbank)

;;; The inputs of the image

;; The keys are native names of files, and (:VARIABLE name) for environment variables.
(defvar *inputs* nil
  "A table of the inputs while they are recorded; NIL at other times.")

(defun input-name (path)
  "Return the native name under which PATH is recorded, or NIL if PATH is no valid file name."
  (when-file-permits
    (sb-ext:native-namestring (merge-pathnames (translate-logical-pathname path)))))

(defun noting-open (function path &rest arguments)
  "Wrap OPEN: record a file opened for input or probed, even if missing, unless OPEN fails."
  (prog1 (apply function path arguments)
    (let ((inputs *inputs*))
      (when (and inputs
                 (member (getf arguments :direction :input) '(:input :probe))
                 (not (streamp path)))
        (let ((file (input-name path)))
          (when file
            (setf (gethash file inputs) t)))))))

(defun noting-probe (function path)
  "Wrap PROBE-FILE: record a file that is missing."
  ;; A missing file is an input, too: if it exists later, another load may find a system there.
  (or (funcall function path)
      (let* ((inputs *inputs*)
             (file (and inputs (not (streamp path)) (input-name path))))
        (when (and file (not (gethash file inputs)))
          (setf (gethash file inputs) :missing))
        nil)))

(defun noting-getenv (function name)
  "Wrap SB-EXT:POSIX-GETENV: record the variable that is read."
  (let ((inputs *inputs*))
    (when (and inputs (stringp name))
      (setf (gethash (list :variable (coerce name 'simple-string)) inputs) t))
    (funcall function name)))

(defun unnoted-translation (function path)
  "Wrap ASDF:APPLY-OUTPUT-TRANSLATIONS, which probes output files next to their sources."
  ;; The files that it probes are not inputs.
  (asdf:ensure-output-translations)
  (let ((*inputs* nil))
    (funcall function path)))

(defun record-inputs ()
  "Start recording which files and environment variables are read."
  ;; Also start counting the foreign memory of each system.
  (count-foreign-memory)
  (setf *inputs* (make-hash-table :test 'equal :synchronized t))
  (encapsulate 'open 'steelbank-inputs #'noting-open)
  (encapsulate 'probe-file 'steelbank-inputs #'noting-probe)
  (encapsulate 'sb-ext:posix-getenv 'steelbank-inputs #'noting-getenv)
  (encapsulate 'asdf:apply-output-translations 'steelbank-inputs #'unnoted-translation))

(defun stop-recording-inputs ()
  "Stop recording. Return native names of files and names of environment variables as two values."
  (let ((inputs (shiftf *inputs* nil)))
    (unencapsulate 'open 'steelbank-inputs)
    (unencapsulate 'probe-file 'steelbank-inputs)
    (unencapsulate 'sb-ext:posix-getenv 'steelbank-inputs)
    (unencapsulate 'asdf:apply-output-translations 'steelbank-inputs)
    (when inputs
      (loop with cache = (and *cache-directory* (sb-ext:native-namestring *cache-directory*))
            for input being the hash-keys of inputs using (hash-value how)
            if (consp input)
              collect (second input) into variables
            ;; Files in the cache can be regenerated.
            else unless (or (and cache (eql 0 (search cache input)))
                            ;; The load itself may have written the file.
                            (and (eq how :missing)
                                 (when-file-permits
                                   (probe-file (sb-ext:parse-native-namestring input)))))
              collect input into files
            finally (return (values files variables))))))

(defun registry-folders ()
  "Return the folders that ASDF searches for system definitions, in order, as JSON objects."
  (let ((folders '()))
    (dolist (directive (asdf/source-registry::flatten-source-registry (project-registry)))
      (destructuring-bind (path &key recurse exclude) directive
        (push (object "path" (sb-ext:native-namestring path)
                      "recurse" (json-boolean recurse)
                      "exclude" (remove-if-not #'stringp exclude))
              folders)))
    (nreverse folders)))

(defun configuration-files ()
  "Return the names of ASDF's source-registry files and folders, existing or not."
  (mapcar #'sb-ext:native-namestring
          (append (uiop:xdg-config-pathnames "common-lisp/source-registry.conf")
                  (uiop:xdg-config-pathnames "common-lisp/source-registry.conf.d/")
                  (uiop:system-config-pathnames "common-lisp/source-registry.conf")
                  (uiop:system-config-pathnames "common-lisp/source-registry.conf.d/"))))

(defun component-files ()
  "Return the files of all loaded systems, including those that are not source files."
  (let ((files '()))
    (labels ((walk (component)
               (typecase component
                 (asdf:parent-component (mapc #'walk (asdf:component-children component)))
                 (t (let ((path (around-user-code (asdf:component-pathname component))))
                      (when path
                        (push (sb-ext:native-namestring path) files)))))))
      (dolist (name (registered-names))
        (let ((system (asdf:registered-system name)))
          (when (and system (asdf:component-loaded-p system))
            (let ((definition (asdf:system-source-file system)))
              (when definition
                (push (sb-ext:native-namestring definition) files)))
            (walk system)))))
    files))

(defun load-order ()
  "Return the systems that were loaded since RECORD-INPUTS, as JSON objects."
  ;; The systems are in the order in which their first files were compiled or loaded. "keeps" is
  ;; true if a system holds foreign memory. The caller must have collected garbage, because memory
  ;; that finalizers have not released yet counts, too.
  (loop for name across (or *memory-owners* #())
        for number from 0
        for system = (and name (asdf:registered-system name))
        when (and system (asdf:component-loaded-p system))
          collect (object "name" name "keeps" (json-boolean (plusp (held-memory number))))))

(defun snapshot-inputs ()
  "Return the image's inputs as a JSON object, and end the recording of RECORD-INPUTS."
  (note-loaded-systems)
  (multiple-value-bind (files variables) (stop-recording-inputs)
    (object "files" (remove-duplicates
                     (append files (component-files)
                             (loop for file being the hash-keys of *loaded-files* collect file))
                     :test #'equal)
            "image" (image-json)
            "configuration" (configuration-files)
            "registry" (registry-folders)
            "variables" (union variables '("CL_SOURCE_REGISTRY" "ASDF_OUTPUT_TRANSLATIONS")
                               :test #'equal)
            "libraries" (foreign-library-names))))

;;; Obstacles to saving

(defun foreign-threads ()
  "Return a sentence for each thread that belongs to neither the Lisp half nor the runtime."
  (loop for thread in (sb-thread:list-all-threads)
        unless (or (eq thread *supervisor*)
                   (find thread *lanes* :key #'lane-thread)
                   (runtime-thread-p thread)
                   (eq thread (sb-thread:main-thread)))
          collect (format nil "Thread ~A is running, but threads cannot be saved in a snapshot."
                          (describe-thread thread))))

(defun scheduled-timers ()
  "Return a sentence for each scheduled timer, because a timer's signal would kill the save."
  (loop for timer in (active-timers)
        collect (format nil "Timer ~A is scheduled, but timers cannot be saved in a snapshot."
                        (with-plain-printing (bounded-text (princ-to-string timer) 200)))))

(defun open-streams ()
  "Return a sentence for each open stream that has a file descriptor."
  (loop for stream in (open-file-streams)
        collect (format nil "~A is open, but open files cannot be saved in a snapshot."
                        (or (when-file-permits (let ((path (stream-pathname stream)))
                                                 (and path (sb-ext:native-namestring path))))
                            (with-plain-printing (bounded-text (princ-to-string stream) 200))))))

(defun failing-save-hooks ()
  "Run the save hooks. Return a sentence for each that signals an error and so prevents the save."
  (loop for hook in sb-ext:*save-hooks*
        for said = (handler-case (progn (funcall hook) nil)
                     (serious-condition (condition)
                       (format nil "The save hook ~A failed: ~A"
                               (with-plain-printing (bounded-text (prin1-to-string hook) 200))
                               (describe-condition condition))))
        when said collect said))

(sb-ext:define-load-time-global *core-to-save* nil
  "The native name of the core to save when the host returns control, or NIL.")

(defun prepare-save (path)
  "If there are no obstacles, arrange for the core to be saved at PATH, a native name."
  ;; The main thread saves the core when the host returns control to that thread. Return a sentence
  ;; for each obstacle.
  (check-type path string)
  ;; Run the hooks first, because they may end threads and close files.
  (let ((hooks (failing-save-hooks)))
    (sb-ext:gc :full t)
    (note-foreign-strings)
    (let ((obstacles (append hooks (foreign-threads) (scheduled-timers) (open-streams)
                             (held-foreign-memory))))
      (unless obstacles
        (stop-counting-foreign-memory)
        (setf sb-ext:*save-hooks* '()
              *core-to-save* path))
      obstacles)))

;;; Saving

(defun end-own-threads ()
  "Wait for the supervisor and the other lanes to end, as the host has instructed them to."
  (sb-thread:join-thread *supervisor* :default nil :timeout 10)
  (dolist (lane *lanes*)
    (unless (eq (lane-thread lane) sb-thread:*current-thread*)
      (sb-thread:join-thread (lane-thread lane) :default nil :timeout 10)))
  ;; An ended thread remains in the list of threads for a moment, and SBCL would refuse to save.
  (loop repeat 10000
        while (find-if-not (lambda (thread)
                             (or (eq thread sb-thread:*current-thread*) (runtime-thread-p thread)))
                           (sb-thread:list-all-threads))
        do (pause-microseconds 1000))
  (setf *lanes* '()
        *supervisor* nil))

(defun leave-runtime (status)
  "Report to the host that Lisp has ended with STATUS. Does not return."
  (sb-alien:alien-funcall
   (sb-alien:extern-alien "__wrap__exit" (function sb-alien:void sb-alien:int)) status))

(defun save-core ()
  "Save the image as *CORE-TO-SAVE*, to restart in MAIN."
  ;; Does not return; the exit status reports the result to the host.
  (let ((path (shiftf *core-to-save* nil)))
    (handler-case
        (progn
          (end-own-threads)
          (leave-heap-unwatched)
          ;; MAIN encapsulates the exit functions again.
          (dolist (name *exit-functions*)
            (unencapsulate name 'steelbank))
          (setf sb-ext:*invoke-debugger-hook* nil)
          (sb-ext:save-lisp-and-die (sb-ext:parse-native-namestring path) :toplevel #'main))
      (serious-condition (condition)
        (report (format nil "Could not save the image: ~A" (describe-condition condition)))
        (leave-runtime 3)))))

;;; Overlays: texts that replace the contents of files on disk

;; The text file is a native name, or NIL if the overlaid file counts as deleted.
(sb-ext:define-load-time-global *overlays* (make-hash-table :test 'equal :synchronized t)
  "Maps the native truename of each overlaid file to a list of its text file and write date.")

(defun overlay (path)
  "Return the overlay of PATH and the native truename under which it is stored, or return NIL."
  (when (plusp (hash-table-count *overlays*))
    (let* ((physical (when-file-permits
                       (translate-logical-pathname
                        (merge-pathnames path (current-directory-defaults)))))
           (name (and physical (when-file-permits (sb-ext:native-namestring physical)))))
      (when name
        (flet ((look-up (name)
                 (let ((overlay (gethash name *overlays*)))
                   (when overlay
                     (return-from overlay (values overlay name))))))
          (look-up name)
          ;; The path may contain links to folders, and a file that does not exist has no truename.
          (let* ((slash (position #\/ name :from-end t))
                 (file (and slash (subseq name slash))))
            (when (and file
                       (loop for other being the hash-keys of *overlays*
                             for start = (- (length other) (length file))
                             thereis (and (plusp start) (string= file other :start2 start))))
              (let ((folder (real-path (subseq name 0 (max slash 1)))))
                (when folder
                  (look-up (concatenate 'string (string-right-trim "/" folder) file)))))
            ;; A link to the file may have any name.
            (when (symbolic-link-p name)
              (let ((file (real-path name)))
                (when file
                  (look-up file))))))))))

(defun overlaid-query (function path query error-p)
  "Wrap %QUERY-FILE-SYSTEM: answer from the overlay of PATH, a complete pathname, if it has one."
  (multiple-value-bind (overlay name) (overlay path)
    (cond ((null overlay) (funcall function path query error-p))
          ((null (first overlay))
           (when error-p
             (error 'no-such-file :pathname (pathname path))))
          (t (ecase query
               ((:truename :existence) (values (sb-ext:parse-native-namestring name)))
               (:write-date (second overlay))
               (:author nil))))))

(defun overlaid-open (function path &rest arguments)
  "Wrap OPEN: if PATH has an overlay, read the overlay's text."
  ;; The stream has the name of the overlaid file.
  (let ((overlay (and (typep path '(or string pathname))
                      (eq (getf arguments :direction :input) :input)
                      (overlay path))))
    (cond ((null overlay) (apply function path arguments))
          ((first overlay)
           (let* ((text (sb-ext:parse-native-namestring (first overlay)))
                  (stream (apply function text arguments))
                  (name (merge-pathnames path (current-directory-defaults))))
             (rename-file-stream stream name)
             stream))
          ((getf arguments :if-does-not-exist t)
           (error 'no-such-file :pathname (pathname path))))))

(defun use-cache (name)
  "Store fasls and sidecars in the directory NAME, a native name, from now on."
  (install-load-hooks)
  ;; An image from a snapshot still has the temporary directory of the process that saved it.
  (uiop:setup-temporary-directory)
  (set-cache-directory
   (truename (uiop:ensure-directory-pathname (sb-ext:parse-native-namestring name))))
  (use-own-cache))

(defun set-overlays (overlays)
  "Replace all overlays by OVERLAYS, a list of lists of a file and its text file."
  ;; Both are native names; the text file is NIL if the file counts as deleted. The write date of an
  ;; overlay is that of its text file plus one second.
  (clrhash *overlays*)
  (loop for (file text) in overlays
        for date = (and text (file-write-date (sb-ext:parse-native-namestring text)))
        ;; Make the date later than that of a fasl that was just written.
        do (setf (gethash file *overlays*) (list text (1+ (or date (get-universal-time))))))
  (encapsulate +query-file-system+ 'steelbank-overlays #'overlaid-query)
  (encapsulate 'open 'steelbank-overlays #'overlaid-open))
