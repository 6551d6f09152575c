;;;; One load: what it did so far, and when it is to stop.

(in-package :steelbank)

(defstruct load-session
  "The state of one load: what it did so far, its progress callback, and when it is to stop."
  (progress nil :type (or null function))
  (stop (constantly nil) :type function)
  (deadline nil :type (or null integer))
  (total 0 :type integer)
  (done 0 :type integer)
  ;; The file that was begun last and has not ended.
  (file nil)
  (failure nil :type list)
  ;; Whether the load goes on behind a file that does not compile, and the native names of those.
  (keep-going nil :type boolean)
  (broken '() :type list)
  ;; The native names of the files with names that are undefined as yet where the load was left, of which the compiler would have
  ;; told at the end of the compilation unit; T: it may be any file.
  (untold t :type (or list (eql t)))
  ;; True if the stack was left near its end, so that the failure is to be described from its copy.
  (copied nil :type boolean)
  (restarts '() :type list)
  ;; Native name of each source file that was compiled or loaded -> :COMPILED, or :CACHED if its fasl was there, in that order.
  (files (make-hash-table :test 'equal) :type hash-table)
  (diagnostics '() :type list)
  ;; Those of the diagnostics that come up only when a file is compiled.
  (compiler-said '() :type list)
  ;; Sentences that the answer gives beside the outcome.
  (cautions '() :type list)
  ;; The constants that were defined in this load.
  (constants (make-hash-table :test 'eq) :type hash-table)
  (seen (make-hash-table :test 'equal) :type hash-table)
  ;; Native name of each source file that was read -> its version then.
  (versions (make-hash-table :test 'equal) :type hash-table)
  ;; Native name of each source file that was compiled -> its fasl.
  (fasls (make-hash-table :test 'equal) :type hash-table)
  ;; Native name of each fasl record that was read -> its stamp then, and what it says.
  (records (make-hash-table :test 'equal) :type hash-table)
  ;; Each pathname that ASDF has asked the date of -> the name under which ASDF keeps that.
  (stamped (make-hash-table :test 'equal) :type hash-table)
  ;; The names of the systems that ASDF was told are settled, or that it has made plans to do something for.
  (settled (make-hash-table :test 'equal) :type hash-table)
  ;; The components whose fasls were looked at before ASDF asked for their dates.
  (checked (make-hash-table :test 'eq) :type hash-table)
  (taps (make-hash-table :test 'equal) :type hash-table))

(defun name-table (names)
  "A hash table with NAMES, strings, as keys."
  (let ((table (make-hash-table :test 'equal)))
    (dolist (name names table)
      (setf (gethash name table) t))))

(defun note-file (session file how)
  "Remember that FILE, a native name, was :COMPILED in SESSION or, as HOW may say, loaded from a :CACHED fasl; a file that was compiled is
loaded from its fasl as well."
  (let ((files (load-session-files session)))
    (unless (eq (gethash file files) :compiled)
      (setf (gethash file files) how))))

(defun files-noted (session how)
  "The files that were noted in SESSION as HOW says, in the order in which they were first."
  (loop for file being the hash-keys of (load-session-files session) using (hash-value noted)
        when (eq noted how)
          collect file))

(defvar *load-session* nil
  "The load that is under way on this thread, or NIL.")

(defvar *loading* nil
  "True while a file is loaded on this thread, and nothing is compiled inside of that.")

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
    (leave 'end-of-load
      (list :status (if late :timed-out :cancelled)
            :failure (list :kind (if late :timed-out :cancelled)
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

;;; Files

(defun native-truename (path)
  "The native name of the truename of the file PATH, or of PATH if there is no such file."
  ;; TRUENAME makes pathnames of all that it meets, which takes ten times as long. Overlays are known to that alone.
  (or (and (typep path '(and pathname (not logical-pathname)))
           (not (overlay path))
           (let ((name (when-file-permits (sb-ext:native-namestring path))))
             (and name (eql 0 (position #\/ name)) (real-file-name name))))
      (sb-ext:native-namestring (or (when-file-permits (truename path)) path))))

(defun source-file-of (component)
  "The native name of the source file of COMPONENT."
  (let ((path (asdf:component-pathname component)))
    (when path
      (native-truename path))))

(defun call-with-file (session file function)
  "Call FUNCTION, which compiles or loads FILE, with FILE as the current file."
  (let ((before (load-session-file session))
        (*file* file))
    (setf (load-session-file session) file)
    ;; Not after a non-local exit: it may have left the load, and then this is the file that did.
    (multiple-value-prog1 (funcall function)
      (setf (load-session-file session) before))))

;;; Systems

(defun registered-names ()
  "The names of the systems that ASDF has registered. ASDF's own list of them is an error if a definition was left in the
middle."
  (loop for name being the hash-keys of asdf/system-registry:*registered-systems*
        collect name))
