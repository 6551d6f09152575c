;;;; Handles redefinitions that occur only on a reload: packages that lost exports, used packages or
;;;; shadowing symbols, constants with new values, and structures with other slots. A load takes the
;;;; restart that continues, as a user would, and reports the redefinition as a caution in its
;;;; answer.

(in-package :steelbank)

;; Each value is a property list of :EXPORTS, :SHADOWS (names) and :USES (names of packages).
(sb-ext:define-load-time-global *package-definitions* (make-hash-table :test 'equal :synchronized t)
  "Maps the name of a package to the names in its last DEFPACKAGE form in our loads.")

(defun note-caution (control &rest arguments)
  "Add the caution CONTROL, formatted with ARGUMENTS, to the answer of this load, once."
  (let ((session *load-session*)
        (text (with-plain-printing
                (let ((*package* (find-package :keyword)))
                  (apply #'format nil control arguments)))))
    (when session
      (pushnew text (load-session-cautions session) :test #'string=))))

;;; Packages

(defun used-package-names (use)
  "Return the names of the packages that USE, an option of DEFPACKAGE, designates."
  (loop for designator in (if (listp use) use '())
        for package = (find-package designator)
        when package
          collect (package-name package)))

(defun taken-out (now before given)
  "Return the names to remove from NOW, the current names in a package."
  ;; They are the names that the previous definition BEFORE listed and the new one, GIVEN, does not.
  ;; Names that code added at run time remain. If BEFORE is :UNKNOWN, return all names not in GIVEN.
  (remove-if (lambda (name)
               (or (member name given :test #'string=)
                   (not (or (eq before :unknown)
                            (member name before :test #'string=)))))
             now))

(defun external-names (package)
  "Return the names of the external symbols of PACKAGE."
  (let ((names '()))
    (do-external-symbols (symbol package names)
      (push (symbol-name symbol) names))))

(defun shrink-package (package exports uses shadows)
  "Remove from PACKAGE what its definition no longer lists."
  ;; The definition now lists EXPORTS, USES and SHADOWS.
  (let* ((name (package-name package))
         (before (gethash name *package-definitions*))
         (no-exports (taken-out (external-names package) (getf before :exports :unknown) exports))
         (no-uses (taken-out (mapcar #'package-name (package-use-list package))
                             (getf before :uses :unknown) uses))
         (no-shadows (taken-out (mapcar #'symbol-name (package-shadowing-symbols package))
                                (getf before :shadows :unknown) shadows)))
    (sb-ext:without-package-locks
      (dolist (shadow no-shadows)
        (unintern (find-symbol shadow package) package))
      (dolist (use no-uses)
        (unuse-package use package))
      (dolist (export no-exports)
        (let ((symbol (find-symbol export package)))
          (unexport symbol package))))
    (when no-exports
      (note-caution "Package ~A no longer exports ~{~A~^, ~}, because ~:[they were~;it was~] ~
                     removed from its definition. Code that is not recompiled still uses the old ~
                     ~:[symbols~;symbol~]."
                    name (sort no-exports #'string<)
                    (null (rest no-exports)) (null (rest no-exports))))
    (when no-uses
      (note-caution "Package ~A no longer uses ~{~A~^, ~}." name no-uses))
    (when no-shadows
      (note-caution "Package ~A no longer shadows ~{~A~^, ~}." name no-shadows))))

(defun keep-variance (condition)
  "Invoke the restart that keeps exports of a package that its definition does not list."
  (let ((restart (find-restart +keep-variance+ condition)))
    (when restart
      (invoke-restart restart))))

(defun noted-defpackage (function name nicknames size shadows shadowing-imports use imports interns
                         exports &rest more)
  "Wrap %DEFPACKAGE: within a load, make a package match its new definition."
  (flet ((define ()
           (apply function name nicknames size shadows shadowing-imports use imports interns
                  exports more)))
    (if (null *load-session*)
        (define)
        (let ((package (find-package name))
              (uses (used-package-names use))
              (shadows (append shadows (mapcan (lambda (import) (copy-list (rest import)))
                                               shadowing-imports))))
          (when (and package (string= name (package-name package)))
            (shrink-package package exports uses shadows))
          (multiple-value-prog1 (let ((sb-ext:*on-package-variance* '(:error t)))
                                  (handler-bind ((package-at-variance #'keep-variance))
                                    (define)))
            (setf (gethash name *package-definitions*)
                  (list :exports (copy-list exports) :uses uses :shadows shadows)))))))

;;; Constants and structures

(defun noted-defconstant (function name value &rest more)
  "Wrap %DEFCONSTANT: allow a constant that was defined before this load to change its value."
  (let ((session *load-session*))
    (if (null session)
        (apply function name value more)
        (handler-bind ((sb-ext:defconstant-uneql
                         (lambda (condition)
                           (unless (gethash name (load-session-constants session))
                             (note-caution "The constant ~S has a new value. Code that is not ~
                                            recompiled still uses the old value."
                                           name)
                             (continue condition)))))
          (multiple-value-prog1 (apply function name value more)
            (setf (gethash name (load-session-constants session)) t))))))

(defun note-new-structure (name)
  "Add a caution that the structure NAME has different slots now."
  (note-caution "The structure ~S has different slots now. Its old instances, and code that is not ~
                 recompiled, are invalid."
                name))

(defun continue-with-new-structure (condition)
  "If CONDITION reports a structure redefined with other slots, accept the new definition."
  (when (and (typep condition 'simple-error)
             (find-restart +continue-recklessly+ condition)
             (find-restart 'continue condition))
    (note-new-structure (second (simple-condition-format-arguments condition)))
    (continue condition)))

(defun noted-compiler-defstruct (function dd &rest more)
  "Wrap %COMPILER-DEFSTRUCT: accept a changed structure, which is the purpose of a reload."
  (if (and *load-session* (find-class (structure-name dd) nil))
      (handler-bind ((warning (lambda (condition)
                                (note-new-structure (structure-name dd))
                                (muffle-warning condition))))
        (apply function dd more))
      (apply function dd more)))
