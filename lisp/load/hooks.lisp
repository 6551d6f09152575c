;;;; Encapsulations of ASDF, the compiler and the loader. Those that record progress and versions act only within a load of ours; those
;;;; around system definitions, constructors, the file system, fasl features and output translations act always.

(in-package :steelbank)

(defun checked-find-source-paths (function form toplevel-form)
  "Around FIND-SOURCE-PATHS: between two top-level forms it is safe to stop."
  (check-load-session)
  (funcall function form toplevel-form))

(defun call-for-component (session component what function)
  "Report progress, then call FUNCTION, which compiles or loads COMPONENT. Returns the component's file."
  (check-load-session)
  (let ((file (source-file-of component))
        (*loading* (eq what :load)))
    (when (< (load-session-total session) (incf (load-session-done session)))
      ;; Forced and generated files are not in the plan that was counted.
      (setf (load-session-total session) 0))
    (when (load-session-progress session)
      (funcall (load-session-progress session)
               (load-session-done session) (load-session-total session) what file))
    (call-as-memory-owner (asdf:component-name (asdf:component-system component))
                          (lambda () (call-with-file session file function)))
    file))

(defun compiled-version (session source)
  "The version of the file SOURCE that was compiled in SESSION: as it was read, else as it is."
  (or (gethash (sb-ext:native-namestring source) (load-session-versions session))
      (current-version source)))

(defun noted-compilation (function operation component)
  "Around ASDF's compilation of one file. A record stands only beside the fasl of a compilation that was a success."
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
                  (make-record fasl version (said-so-far session file undefined))
                  (setf (gethash (sb-ext:native-namestring source) (load-session-fasls session)) fasl)))))))))

(defun note-loaded-file (session file version)
  "Remember that FILE, as it was at VERSION, is loaded in SESSION."
  (when version
    (setf (gethash file *loaded-files*) version))
  (note-file session file :cached))

(defun component-version (component)
  "The version of the file of COMPONENT now, or NIL if there is none."
  (let ((path (asdf:component-pathname component)))
    (and path (current-version path))))

(defun noted-load-fasl (function operation component)
  "Around ASDF's loading of one file from its fasl."
  (let ((session *load-session*)
        (fasl (first (asdf:input-files operation component))))
    (flet ((load-fasl () (funcall function operation component)))
      ;; A fasl may be in the cache whose source is gone.
      (when (and session
                 (in-cache-p fasl)
                 (typep component 'asdf:cl-source-file)
                 (not (uiop:file-exists-p (asdf:component-pathname component))))
        (error 'no-such-file :pathname (asdf:component-pathname component)))
      (cond ((null session)
             (load-fasl))
            ((not (and (in-cache-p fasl) (typep component 'asdf:cl-source-file)))
             (let ((version (component-version component)))
               (note-loaded-file session (call-for-component session component :load #'load-fasl) version)))
            (t
             (let* ((record nil)
                    (file (call-for-component session component :load
                                              (lambda ()
                                                (setf record (call-with-whole-fasl fasl component #'load-fasl)))))
                    (compiled (eq (gethash file (load-session-files session)) :compiled)))
               (when (and record (not compiled))
                 (note-kept-diagnostics session record))
               (note-loaded-file session file (if record
                                                  (fasl-record-source record)
                                                  (component-version component)))))))))

(defun noted-load-source (function operation component)
  "Around ASDF's loading of one file as source."
  (let ((session *load-session*)
        (version (component-version component)))
    (if (null session)
        (funcall function operation component)
        (note-loaded-file session
                          (call-for-component session component :load
                                              (lambda () (funcall function operation component)))
                          version))))

(defun noted-action-stamp (function plan operation component &rest options &key just-done)
  "Around ASDF's function that tells when an action was done last: a fasl that is not fit is removed before."
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
  "Around ASDF's function that makes the name under which it keeps the date of PATHNAME: ASDF keeps the date, and follows the links of
PATHNAME each time it asks."
  (if (and *load-session* (uiop:absolute-pathname-p pathname))
      (let ((stamped (load-session-stamped *load-session*)))
        (or (gethash pathname stamped)
            (setf (gethash pathname stamped) (funcall function pathname))))
      (funcall function pathname)))

(defun note-plan (session plan)
  "Remember in SESSION what PLAN, which is about to be carried out, will do."
  (note-settled-systems (load-session-settled session))
  (let ((actions (asdf/plan:plan-actions plan)))
    (loop for (nil . component) in actions
          do (setf (gethash (asdf:component-name (asdf:component-system component)) (load-session-settled session)) t))
    (setf (load-session-total session)
          (+ (load-session-done session)
             (count-if (lambda (action)
                         (and (typep (cdr action) 'asdf:cl-source-file)
                              (typep (car action) '(or asdf:compile-op asdf:load-op asdf:load-source-op))))
                       actions)))))

(defun noted-perform-plan (function plan &rest options)
  "Around ASDF's carrying out of a plan."
  (when (and *load-session* (typep plan 'asdf/plan:sequential-plan))
    (note-plan *load-session* plan))
  (apply function plan options))

(defun noted-load-as-source (function stream &rest arguments)
  "Around LOAD-AS-SOURCE: system definitions and init files, too, are files that can fail."
  (let ((file (file-of-stream stream)))
    (if (and *load-session* file)
        (call-with-file *load-session* file
                        (lambda () (apply function stream arguments)))
        (apply function stream arguments))))

(defun readable-forms (function file &rest keys)
  "Read the forms of FILE by FUNCTION, UIOP's. Of one among others in a folder of configuration that cannot be read, warn: the others
count."
  (handler-bind ((error (lambda (condition)
                          (when (uiop:string-suffix-p (or (first (last (pathname-directory file))) "") ".conf.d")
                            (warn "~A cannot be read, and is left out: ~A"
                                  (sb-ext:native-namestring file) (condition-text condition))
                            (return-from readable-forms '())))))
    (apply function file keys)))

(defun install-load-hooks ()
  "Put the notes of progress, the safe points and the memory of definitions in place."
  (install-tap)
  (loop for (name function)
          in `((asdf/lisp-action:perform-lisp-compilation noted-compilation)
               (asdf/lisp-action:perform-lisp-load-fasl noted-load-fasl)
               (asdf/lisp-action:perform-lisp-load-source noted-load-source)
               (asdf/action:compute-action-stamp noted-action-stamp)
               (asdf/session:normalize-namestring remembered-namestring)
               (asdf/plan:perform-plan noted-perform-plan)
               (asdf/parse-defsystem:register-system-definition keeping-definition)
               (,+define-package+ noted-defpackage)
               (,+define-constant+ noted-defconstant)
               (,+define-structure+ noted-compiler-defstruct)
               (,+load-as-source+ noted-load-as-source)
               (,+fasl-features+ constant-fasl-features)
               (,+query-file-system+ steady-query)
               (,+compile-constructor+ compile-constructor-late)
               (asdf/output-translations:apply-output-translations borrowing-translation)
               (,+find-source-paths+ checked-find-source-paths)
               (uiop:read-file-forms readable-forms))
        do (encapsulate name 'steelbank-load (symbol-function function)))
  t)
