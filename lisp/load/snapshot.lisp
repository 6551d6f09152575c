;;;; Snapshots: records the inputs of an image, finds what forbids saving it, and saves it as a core.

(in-package :steelbank)

;;; The inputs of the image

(defvar *inputs* nil
  "While everything that is read is to be remembered: a table of native names of files, and of (:VARIABLE name) of the
environment. Else NIL.")

(defun noting-open (function path &rest arguments)
  "Around OPEN: record a file that is opened for reading, and one that is missing."
  (prog1 (apply function path arguments)
    (let ((inputs *inputs*))
      (when (and inputs
                 (member (getf arguments :direction :input) '(:input :probe))
                 (not (streamp path)))
        (let ((file (when-file-permits (sb-ext:native-namestring (merge-pathnames (translate-logical-pathname path))))))
          (when file
            (setf (gethash file inputs) t)))))))

(defun noting-probe (function path)
  "Around PROBE-FILE: record a file that is missing. Where a system was looked for in vain, another load may find it."
  (or (funcall function path)
      (let* ((inputs *inputs*)
             (file (and inputs
                        (not (streamp path))
                        (when-file-permits
                          (sb-ext:native-namestring (merge-pathnames (translate-logical-pathname path)))))))
        (when (and file (not (gethash file inputs)))
          (setf (gethash file inputs) :missing))
        nil)))

(defun noting-getenv (function name)
  "Around SB-EXT:POSIX-GETENV: record the variable that is read."
  (let ((inputs *inputs*))
    (when (and inputs (stringp name))
      (setf (gethash (list :variable (coerce name 'simple-string)) inputs) t))
    (funcall function name)))

(defun unnoted-translation (function path)
  "Around ASDF:APPLY-OUTPUT-TRANSLATIONS, which looks whether what will be written is there, beside its source: that is no input."
  (asdf:ensure-output-translations)
  (let ((*inputs* nil))
    (funcall function path)))

(defun record-inputs ()
  "Start recording the files and environment variables that are read, and who allocates foreign memory."
  (count-foreign-memory)
  (setf *inputs* (make-hash-table :test 'equal :synchronized t))
  (encapsulate 'open 'steelbank-inputs #'noting-open)
  (encapsulate 'probe-file 'steelbank-inputs #'noting-probe)
  (encapsulate 'sb-ext:posix-getenv 'steelbank-inputs #'noting-getenv)
  (encapsulate 'asdf:apply-output-translations 'steelbank-inputs #'unnoted-translation))

(defun stop-recording-inputs ()
  "Stop recording. Returns what was recorded: native names of files, and names of variables."
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
            ;; What is in the cache can be made again.
            else unless (or (and cache (eql 0 (search cache input)))
                            ;; The load itself may have written it.
                            (and (eq how :missing)
                                 (when-file-permits (probe-file (sb-ext:parse-native-namestring input)))))
              collect input into files
            finally (return (values files variables))))))

(defun registry-folders ()
  "The folders in which ASDF looks for system definitions, in order, as objects."
  (let ((folders '()))
    (dolist (directive (asdf/source-registry::flatten-source-registry (project-registry)))
      (destructuring-bind (path &key recurse exclude) directive
        (push (object "path" (sb-ext:native-namestring path)
                      "recurse" (json-boolean recurse)
                      "exclude" (remove-if-not #'stringp exclude))
              folders)))
    (nreverse folders)))

(defun configuration-files ()
  "The files and folders in which ASDF looks for its configuration, whether they are there or not."
  (mapcar #'sb-ext:native-namestring
          (append (uiop:xdg-config-pathnames "common-lisp/source-registry.conf")
                  (uiop:xdg-config-pathnames "common-lisp/source-registry.conf.d/")
                  (uiop:system-config-pathnames "common-lisp/source-registry.conf")
                  (uiop:system-config-pathnames "common-lisp/source-registry.conf.d/"))))

(defun component-files ()
  "The files of all loaded systems, source files or not."
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
  "The systems that were loaded since RECORD-INPUTS, as objects in the order in which their first files were: whether each still keeps
foreign memory is known after a collection."
  (loop for name across (or *memory-owners* #())
        for number from 0
        for system = (and name (asdf:registered-system name))
        when (and system (asdf:component-loaded-p system))
          collect (object "name" name "keeps" (json-boolean (plusp (held-memory number))))))

(defun snapshot-inputs ()
  "The inputs of the image, as an object. Ends the recording that RECORD-INPUTS began."
  (settle-loaded-systems)
  (multiple-value-bind (files variables) (stop-recording-inputs)
    (object "files" (remove-duplicates
                     (append files (component-files)
                             (loop for file being the hash-keys of *loaded-files* collect file))
                     :test #'equal)
            "image" (image-json)
            "configuration" (configuration-files)
            "registry" (registry-folders)
            "variables" (union variables '("CL_SOURCE_REGISTRY" "ASDF_OUTPUT_TRANSLATIONS") :test #'equal)
            "libraries" (foreign-library-names))))

;;; Obstacles to a save

(defun foreign-threads ()
  "A sentence for each thread that is not ours."
  (loop for thread in (sb-thread:list-all-threads)
        unless (or (eq thread *supervisor*)
                   (find thread *lanes* :key #'lane-thread)
                   (runtime-thread-p thread)
                   (eq thread (sb-thread:main-thread)))
          collect (format nil "Thread ~A runs, and a snapshot has no threads." (describe-thread thread))))

(defun scheduled-timers ()
  "A sentence for each timer that is scheduled. The save, which waits for nobody, would die of its signal."
  (loop for timer in (active-timers)
        collect (format nil "Timer ~A is scheduled, and would not be in a snapshot."
                        (with-plain-printing (bounded-text (princ-to-string timer) 200)))))

(defun open-streams ()
  "A sentence for each open file and device."
  (loop for stream in (open-file-streams)
        collect (format nil "~A is open, and would not be in a snapshot."
                        (or (when-file-permits (let ((path (stream-pathname stream)))
                                                 (and path (sb-ext:native-namestring path))))
                            (with-plain-printing (bounded-text (princ-to-string stream) 200))))))

(defun failing-save-hooks ()
  "Run the save hooks. Returns a sentence for each that signals an error, and so forbids the save."
  (loop for hook in sb-ext:*save-hooks*
        for said = (handler-case (progn (funcall hook) nil)
                     (serious-condition (condition)
                       (format nil "The save hook ~A forbids saving: ~A"
                               (with-plain-printing (bounded-text (prin1-to-string hook) 200))
                               (describe-condition condition))))
        when said collect said))

(sb-ext:define-load-time-global *core-to-save* nil
  "The native name of the core that the main thread saves when the host gives it back, or NIL.")

(defun prepare-save (path)
  "Have the main thread save the core at PATH, a native name, when the host gives it back, if nothing is in the way.
Returns a sentence for each obstacle."
  (check-type path string)
  ;; Run the hooks first: they may be there to end threads and close files.
  (let ((hooks (failing-save-hooks)))
    (sb-ext:gc :full t)
    (let ((obstacles (append hooks (foreign-threads) (scheduled-timers) (open-streams)
                             (kept-foreign-memory))))
      (unless obstacles
        (stop-counting-foreign-memory)
        (setf sb-ext:*save-hooks* '()
              *core-to-save* path))
      obstacles)))

;;; Saving

(defun end-own-threads ()
  "Wait for the supervisor and the other lanes to end, as the host has told them to."
  (sb-thread:join-thread *supervisor* :default nil :timeout 10)
  (dolist (lane *lanes*)
    (unless (eq (lane-thread lane) sb-thread:*current-thread*)
      (sb-thread:join-thread (lane-thread lane) :default nil :timeout 10)))
  ;; A thread that has ended stays among all threads for a moment, which SBCL would refuse to save.
  (loop repeat 10000
        while (find-if-not (lambda (thread)
                             (or (eq thread sb-thread:*current-thread*) (runtime-thread-p thread)))
                           (sb-thread:list-all-threads))
        do (pause-microseconds 1000))
  (setf *lanes* '()
        *supervisor* nil))

(defun leave-runtime (status)
  "Tell the host that Lisp has ended with STATUS. It does not return."
  (sb-alien:alien-funcall (sb-alien:extern-alien "__wrap__exit" (function sb-alien:void sb-alien:int)) status))

(defun save-core ()
  "Save the image as *CORE-TO-SAVE*, to begin in MAIN again. It does not return: the status tells the host how it went."
  (let ((path (shiftf *core-to-save* nil)))
    (handler-case
        (progn
          (end-own-threads)
          (leave-heap-unwatched)
          ;; MAIN refuses them again.
          (dolist (name *exit-functions*)
            (unencapsulate name 'steelbank))
          (setf sb-ext:*invoke-debugger-hook* nil)
          (sb-ext:save-lisp-and-die (sb-ext:parse-native-namestring path) :toplevel #'main))
      (serious-condition (condition)
        (report (format nil "The image was not saved: ~A" (describe-condition condition)))
        (leave-runtime 3)))))

;;; Overlays: files whose text is not what is on disk

(sb-ext:define-load-time-global *overlays* (make-hash-table :test 'equal :synchronized t)
  "Native truename of each file that is not as it is on disk -> (native name of what holds its text, or NIL if it is as good as
deleted; its write date).")

(defun overlay (path)
  "The overlay of PATH, a pathname or its string, and the native truename that it is filed under; or NIL."
  (when (plusp (hash-table-count *overlays*))
    (let* ((physical (when-file-permits
                      (translate-logical-pathname (merge-pathnames path (current-directory-defaults)))))
           (name (and physical (when-file-permits (sb-ext:native-namestring physical)))))
      (when name
        (flet ((look-up (name)
                 (let ((overlay (gethash name *overlays*)))
                   (when overlay
                     (return-from overlay (values overlay name))))))
          (look-up name)
          ;; A link may lead to the folder. A file that does not exist has no truename of its own.
          (let* ((slash (position #\/ name :from-end t))
                 (file (and slash (subseq name slash))))
            (when (and file
                       (loop for other being the hash-keys of *overlays*
                             thereis (and (> (length other) (length file))
                                          (string= file other :start2 (- (length other) (length file))))))
              (let ((folder (real-path (subseq name 0 (max slash 1)))))
                (when folder
                  (look-up (concatenate 'string (string-right-trim "/" folder) file)))))
            ;; A link to the file may have any name.
            (when (symbolic-link-p name)
              (let ((file (real-path name)))
                (when file
                  (look-up file))))))))))

(defun overlaid-query (function path query error-p)
  "Around %QUERY-FILE-SYSTEM: tell of a file as its overlay has it. PATH is complete."
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
  "Around OPEN: read a file as its overlay has it. The stream has the file's own name."
  (let ((overlay (and (typep path '(or string pathname))
                      (eq (getf arguments :direction :input) :input)
                      (overlay path))))
    (cond ((null overlay) (apply function path arguments))
          ((first overlay)
           (let ((stream (apply function (sb-ext:parse-native-namestring (first overlay)) arguments))
                 (name (merge-pathnames path (current-directory-defaults))))
             (rename-file-stream stream name)
             stream))
          ((getf arguments :if-does-not-exist t)
           (error 'no-such-file :pathname (pathname path))))))

(defun use-cache (name)
  "From now on keep fasls and sidecars in the directory NAME, a native name."
  (install-load-hooks)
  ;; A snapshot has the temporary directory of the process that made it.
  (uiop:setup-temporary-directory)
  (keep-cache-in (truename (uiop:ensure-directory-pathname (sb-ext:parse-native-namestring name))))
  (use-own-cache))

(defun set-overlays (overlays)
  "From now on, the files in OVERLAYS, a list of (native name, native name of what holds the text or NIL), have other texts,
written when their texts were; no other files have."
  (clrhash *overlays*)
  (loop for (file text) in overlays
        for date = (and text (file-write-date (sb-ext:parse-native-namestring text)))
        ;; Newer than a fasl that was written just now.
        do (setf (gethash file *overlays*) (list text (1+ (or date (get-universal-time))))))
  (encapsulate +query-file-system+ 'steelbank-overlays #'overlaid-query)
  (encapsulate 'open 'steelbank-overlays #'overlaid-open))
