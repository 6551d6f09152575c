;;;; Encapsulations of ASDF, the compiler and the loader. Those that record progress and versions,
;;;; check fasls, stop loads or handle redefinitions act only during our loads. Those around system
;;;; definitions, constructors, the file system, fasl features, output translations and
;;;; configuration files always act.

(in-package :steelbank)

(defun checked-find-source-paths (function form toplevel-form)
  "Wrap FIND-SOURCE-PATHS, which runs between top-level forms, where it is safe to stop."
  (check-load-session)
  (funcall function form toplevel-form))

(defun call-for-component (session component what function)
  "Report progress, then call FUNCTION, which compiles or loads COMPONENT."
  ;; WHAT is :COMPILE or :LOAD. Return the component's file.
  (check-load-session)
  (let ((file (source-file-of component))
        (*loading* (eq what :load)))
    (when (< (load-session-total session) (incf (load-session-done session)))
      ;; Forced and generated files are not counted in the plan, so the total is no longer known.
      (setf (load-session-total session) 0))
    (when (load-session-progress session)
      (funcall (load-session-progress session)
               (load-session-done session) (load-session-total session) what file))
    (call-as-memory-owner (asdf:component-name (asdf:component-system component))
                          (lambda ()
                            (flet ((load-file () (call-noting-tests file function)))
                              (call-with-file session file (if *loading* #'load-file function)))))
    file))

(defun compiled-version (session source)
  "Return the version of SOURCE that was compiled in SESSION, or its current version."
  (or (gethash (sb-ext:native-namestring source) (load-session-versions session))
      (current-version source)))

(defun note-compiled-file (component file)
  "Record that FILE of COMPONENT was compiled, and whether this image still fits the text."
  ;; When a file is compiled again, the image may have definitions of its end, of later files, or
  ;; definitions that the text no longer has. The same is true for a new file of a loaded system.
  (when (or (gethash file *loaded-files*)
            (gethash file *compiled-files*)
            (asdf:component-loaded-p (asdf:component-system component)))
    (note-difference-from-text))
  (setf (gethash file *compiled-files*) t))

(defun noted-compilation (function operation component)
  "Wrap ASDF's compilation of one file. Write a record only if compilation succeeds."
  (let ((session *load-session*)
        (fasl (first (asdf:output-files operation component))))
    (if (null session)
        (funcall function operation component)
        (let ((kept (in-cache-p fasl))
              (undefined (undefined-contexts)))
          (when kept
            (uiop:delete-file-if-exists (record-path fasl)))
          (let ((file (call-for-component session component :compile
                                          (lambda ()
                                            (call-in-shared-cache
                                             (lambda () (funcall function operation component))))))
                (source (compiled-source component)))
            (note-file session file :compiled)
            (when (and kept source)
              (let ((version (compiled-version session source)))
                (when version
                  (note-compiled-file component (sb-ext:native-namestring source))
                  (make-record fasl version (diagnostics-so-far session file undefined))
                  (setf (gethash (sb-ext:native-namestring source) (load-session-fasls session))
                        fasl)))))))))

(defun note-loaded-file (session file version)
  "Record that FILE with version VERSION is loaded in SESSION."
  (when version
    (setf (gethash file *loaded-files*) version))
  (note-file session file :cached))

(defun component-version (component)
  "Return the current version of COMPONENT's file, or NIL if it does not exist."
  (let ((path (asdf:component-pathname component)))
    (and path (current-version path))))

(defun noted-load-fasl (function operation component)
  "Wrap ASDF's loading of a fasl."
  (let ((session *load-session*)
        (fasl (first (asdf:input-files operation component))))
    (flet ((load-fasl ()
             (if (part-of-asdf-p component)
                 ;; If stopped at a deadline, it would leave a mixture of two versions of ASDF.
                 (sb-sys:without-interrupts (funcall function operation component))
                 (funcall function operation component))))
      ;; The cache may contain the fasl of a source file that has been deleted.
      (when (and session
                 (in-cache-p fasl)
                 (typep component 'asdf:cl-source-file)
                 (not (uiop:file-exists-p (asdf:component-pathname component))))
        (error 'no-such-file :pathname (asdf:component-pathname component)))
      (cond ((null session)
             (call-noting-tests (source-file-of component) #'load-fasl))
            ((not (and (in-cache-p fasl) (typep component 'asdf:cl-source-file)))
             (let* ((version (component-version component))
                    (file (call-for-component session component :load #'load-fasl)))
               (note-loaded-file session file version)))
            (t
             (let* ((record nil)
                    (file (call-for-component
                           session component :load
                           (lambda ()
                             (setf record (call-with-intact-fasl fasl component #'load-fasl)))))
                    (compiled (eq (gethash file (load-session-files session)) :compiled)))
               (when (and record (not compiled))
                 (add-stored-diagnostics session record))
               (note-loaded-file session file (if record
                                                  (fasl-record-source record)
                                                  (component-version component)))))))))

(defun noted-load-source (function operation component)
  "Wrap ASDF's loading of one file as source."
  (let ((session *load-session*)
        (version (component-version component)))
    (flet ((load-source () (funcall function operation component)))
      (if (null session)
          (call-noting-tests (source-file-of component) #'load-source)
          (note-loaded-file session
                            (call-for-component session component :load #'load-source)
                            version)))))

(defun noted-action-stamp (function plan operation component &rest options &key just-done)
  "Wrap ASDF's function that returns when an action was last done: delete an invalid fasl first."
  (let ((session *load-session*))
    (when (and session
               (not just-done)
               (typep operation 'asdf:compile-op)
               (typep component 'asdf:cl-source-file)
               (not (gethash component (load-session-checked session))))
      (setf (gethash component (load-session-checked session)) t)
      (discard-stale-fasl operation component)))
  (apply function plan operation component options))

(defun remembered-namestring (function pathname)
  "Wrap ASDF's function that computes the cache key for the date of PATHNAME."
  ;; ASDF caches the date, but would resolve the links of PATHNAME each time.
  (if (and *load-session* (uiop:absolute-pathname-p pathname))
      (let ((stamped (load-session-stamped *load-session*)))
        (or (gethash pathname stamped)
            (setf (gethash pathname stamped) (funcall function pathname))))
      (funcall function pathname)))

(defun note-plan (session plan)
  "Record in SESSION what PLAN, which is about to be performed, will do."
  (note-up-to-date-systems (load-session-up-to-date session))
  (let ((actions (asdf/plan:plan-actions plan)))
    (loop for (nil . component) in actions
          for name = (asdf:component-name (asdf:component-system component))
          do (setf (gethash name (load-session-up-to-date session)) t))
    (setf (load-session-total session)
          (+ (load-session-done session)
             (count-if (lambda (action)
                         (and (typep (cdr action) 'asdf:cl-source-file)
                              (typep (car action)
                                     '(or asdf:compile-op asdf:load-op asdf:load-source-op))))
                       actions)))))

(defun noted-perform-plan (function plan &rest options)
  "Wrap ASDF's execution of a plan."
  (when (and *load-session* (typep plan 'asdf/plan:sequential-plan))
    (note-plan *load-session* plan))
  (apply function plan options))

(defun noted-load-as-source (function stream &rest arguments)
  "Wrap LOAD-AS-SOURCE: make its file the current file, so that a failure names this file."
  (let ((file (file-of-stream stream)))
    (if (and *load-session* file)
        (call-with-file *load-session* file
                        (lambda () (apply function stream arguments)))
        (apply function stream arguments))))

(defun readable-forms (function file &rest keys)
  "Wrap UIOP:READ-FILE-FORMS, which also reads configuration files."
  ;; If an unreadable file is in a folder of configuration files, warn and ignore it, so that the
  ;; other files take effect.
  (handler-bind ((error (lambda (condition)
                          (when (uiop:string-suffix-p
                                 (or (first (last (pathname-directory file))) "") ".conf.d")
                            (warn "Ignoring ~A, which cannot be read: ~A"
                                  (sb-ext:native-namestring file) (condition-text condition))
                            (return-from readable-forms '())))))
    (apply function file keys)))

(defun checked-dependencies (function file &rest system)
  "Wrap ASDF's inference of the dependencies of FILE from its package definition."
  ;; The innermost ECASE over the options has no clause for an option that this ASDF does not know.
  (handler-bind ((type-error
                   (lambda (condition)
                     (let ((option (type-error-datum condition)))
                       (when (and (keywordp option)
                                  (typep (type-error-expected-type condition) '(cons (eql member))))
                         (let ((*file* (native-truename file)))
                           (error 'unknown-package-option :option option)))))))
    (apply function file system)))

(defun checked-clauses (function package clauses)
  "Wrap the parser of UIOP:DEFINE-PACKAGE."
  (when (and (assoc :local-nicknames clauses)
             (uiop:version< (asdf:asdf-version) "3.3.5"))
    (error 'unknown-package-option :option :local-nicknames))
  (funcall function package clauses))

(defun install-load-hooks ()
  "Install the tap, and the hooks that the top of this file describes."
  (install-tap)
  (loop for (name function)
          in `((asdf/lisp-action:perform-lisp-compilation noted-compilation)
               (asdf/lisp-action:perform-lisp-load-fasl noted-load-fasl)
               (asdf/lisp-action:perform-lisp-load-source noted-load-source)
               (asdf/action:compute-action-stamp noted-action-stamp)
               (asdf/session:normalize-namestring remembered-namestring)
               (asdf/plan:perform-plan noted-perform-plan)
               (asdf/parse-defsystem:register-system-definition preserving-operations)
               (asdf/package-inferred-system::package-inferred-system-file-dependencies
                checked-dependencies)
               (uiop/package:parse-define-package-form checked-clauses)
               (,+define-package+ noted-defpackage)
               (,+define-constant+ noted-defconstant)
               (,+define-structure+ noted-compiler-defstruct)
               (,+load-as-source+ noted-load-as-source)
               (,+fasl-features+ constant-fasl-features)
               (,+query-file-system+ steady-query)
               (,+compile-constructor+ compile-constructor-late)
               (asdf/output-translations:apply-output-translations lower-cache-translation)
               (,+find-source-paths+ checked-find-source-paths)
               (uiop:read-file-forms readable-forms))
        do (encapsulate name 'steelbank-load (symbol-function function)))
  t)
