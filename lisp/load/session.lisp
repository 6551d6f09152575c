;;;; The state of one load: its progress, and when it must stop.

(in-package :steelbank)

(defstruct load-session
  "The state of one load: what it has done, its progress callback, and when it must stop."
  (progress nil :type (or null function))
  (stop (constantly nil) :type function)
  (deadline nil :type (or null integer))
  ;; The number of steps (0: unknown) and the number of steps begun. Each step compiles or loads a
  ;; file.
  (total 0 :type integer)
  (done 0 :type integer)
  ;; The file that is being compiled or loaded, or NIL. If the load failed, the file that failed.
  (file nil)
  (failure nil :type list)
  ;; Whether the load continues after files that fail to compile.
  (keep-going nil :type boolean)
  ;; The native names of the files that failed to compile.
  (broken '() :type list)
  ;; The native names of the files that use names which were undefined when the load was abandoned.
  ;; The compiler would have reported these names at the end of the compilation unit. T means any
  ;; file.
  (unreported t :type (or list (eql t)))
  ;; True if the stack was nearly exhausted, so that the failure must be described from a copy of
  ;; the stack.
  (copied nil :type boolean)
  ;; The restarts that were established before the load.
  (restarts '() :type list)
  ;; Maps the native name of each source file to :COMPILED, or to :CACHED if it was loaded but not
  ;; compiled. The files are sorted by the time of compiling or loading.
  (files (make-hash-table :test 'equal) :type hash-table)
  (diagnostics '() :type list)
  ;; The diagnostics, except errors, that were signalled while files were compiled.
  (compile-diagnostics '() :type list)
  ;; Sentences that the answer gives in addition to the outcome.
  (cautions '() :type list)
  ;; The constants that were defined in this load.
  (constants (make-hash-table :test 'eq) :type hash-table)
  ;; The diagnostics so far, as lists of severity, text and position, to omit repeated ones.
  (seen (make-hash-table :test 'equal) :type hash-table)
  ;; Maps the native name of each source file that was read to its version at that time.
  (versions (make-hash-table :test 'equal) :type hash-table)
  ;; Maps the native name of each source file that was compiled to its fasl.
  (fasls (make-hash-table :test 'equal) :type hash-table)
  ;; Maps the native name of each fasl record that was read to its stamp and contents.
  (records (make-hash-table :test 'equal) :type hash-table)
  ;; Maps the pathnames that ASDF requested dates for to the names under which ASDF caches the
  ;; dates.
  (stamped (make-hash-table :test 'equal) :type hash-table)
  ;; The names of the systems that were reported to ASDF as up to date, or for which ASDF has
  ;; planned operations.
  (up-to-date (make-hash-table :test 'equal) :type hash-table)
  ;; The components with a fasl that this load has checked, before ASDF first requests the date of
  ;; the fasl.
  (checked (make-hash-table :test 'eq) :type hash-table)
  ;; Maps the namestring of each source file that was read to its tap.
  (taps (make-hash-table :test 'equal) :type hash-table))

(defun name-table (names)
  "Return a hash table with NAMES, strings, as keys."
  (let ((table (make-hash-table :test 'equal)))
    (dolist (name names table)
      (setf (gethash name table) t))))

(defun note-file (session file how)
  "Record that FILE, a native name, was compiled (:COMPILED) or only loaded (:CACHED) in SESSION."
  ;; HOW is the keyword. A file that was compiled is also loaded, and remains :COMPILED.
  (let ((files (load-session-files session)))
    (unless (eq (gethash file files) :compiled)
      (setf (gethash file files) how))))

(defun files-noted (session how)
  "Return the files recorded in SESSION as HOW, in the order of their first records."
  (loop for file being the hash-keys of (load-session-files session) using (hash-value noted)
        when (eq noted how)
          collect file))

(defvar *load-session* nil
  "The current load on this thread, or NIL.")

(defvar *loading* nil
  "True while this thread loads a file, but not while code compiles during that load.")

;;; Stopping

(defvar *file* nil
  "The native name of the source file that is being compiled or loaded on this thread, or NIL.")

(defun past-deadline-p (session)
  "Return true if the deadline of SESSION has passed."
  (let ((deadline (load-session-deadline session)))
    (and deadline (> (get-internal-real-time) deadline))))

(defun leave-load (session)
  "Leave the load SESSION, because its deadline has passed or the host cancelled it."
  (let ((late (past-deadline-p session)))
    (leave 'end-of-load
      (list :status (if late :timed-out :cancelled)
            :failure (list :kind (if late :timed-out :cancelled)
                           :path *file*
                           :message (format nil "The load was stopped~@[ in ~A~]." *file*)
                           :restarts '())))))

(defun check-load-session ()
  "Leave the load if its deadline has passed or the host cancelled it. Called at safe points."
  (let ((session *load-session*))
    (when (and session
               (or (past-deadline-p session)
                   (funcall (load-session-stop session))))
      (leave-load session))))

;;; Files

(defun native-truename (path)
  "Return the native name of the truename of the file PATH, or of PATH if the file does not exist."
  ;; Avoid TRUENAME if possible, because it creates a pathname for each component, which takes ten
  ;; times as long. Only TRUENAME handles overlays and logical or relative pathnames.
  (or (and (typep path '(and pathname (not logical-pathname)))
           (not (overlay path))
           (let ((name (when-file-permits (sb-ext:native-namestring path))))
             (and name (eql 0 (position #\/ name)) (real-file-name name))))
      (sb-ext:native-namestring (or (when-file-permits (truename path)) path))))

(defun source-file-of (component)
  "Return the native name of the source file of COMPONENT."
  (let ((path (asdf:component-pathname component)))
    (when path
      (native-truename path))))

(defun call-with-file (session file function)
  "Call FUNCTION, which compiles or loads FILE, with FILE as the current file."
  (let ((before (load-session-file session))
        (*file* file))
    (setf (load-session-file session) file)
    ;; After a non-local exit, do not restore the previous file: if FILE ended the load, the session
    ;; must still name it.
    (multiple-value-prog1 (funcall function)
      (setf (load-session-file session) before))))

;;; Systems

(defun registered-names ()
  "Return the names of the systems that ASDF has registered."
  ;; ASDF's own list signals an error if a definition was read only partially.
  (loop for name being the hash-keys of asdf/system-registry:*registered-systems*
        collect name))
