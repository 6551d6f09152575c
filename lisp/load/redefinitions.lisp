;;;; Redefinitions that only a reload meets: packages that lost exports, constants with new values, structures with new slots. A
;;;; load takes the restart that continues, as a person would, and says so in its answer.

(in-package :steelbank)

(sb-ext:define-load-time-global *package-definitions* (make-hash-table :test 'equal :synchronized t)
  "Name of each package that a DEFPACKAGE form defined in a load of ours -> what that form named last: a property list of
:EXPORTS, :SHADOWS (names) and :USES (names of packages).")

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
  "The names of the packages that USE, an option of DEFPACKAGE, designates."
  (loop for designator in (if (listp use) use '())
        for package = (find-package designator)
        when package
          collect (package-name package)))

(defun taken-out (now before given)
  "The names to take out of a package: those of NOW, which it has, that its definition BEFORE gave and its new one,
GIVEN, does not. What code added when it ran stays. When BEFORE is :UNKNOWN, all that is not GIVEN is taken out."
  (remove-if (lambda (name)
               (or (member name given :test #'string=)
                   (not (or (eq before :unknown)
                            (member name before :test #'string=)))))
             now))

(defun external-names (package)
  "The names of the external symbols of PACKAGE."
  (let ((names '()))
    (do-external-symbols (symbol package names)
      (push (symbol-name symbol) names))))

(defun shrink-package (package exports uses shadows)
  "Take out of PACKAGE what its definition, which names EXPORTS, USES and SHADOWS now, does not name any more."
  (let* ((name (package-name package))
         (before (gethash name *package-definitions*))
         (no-exports (taken-out (external-names package) (getf before :exports :unknown) exports))
         (no-uses (taken-out (mapcar #'package-name (package-use-list package)) (getf before :uses :unknown) uses))
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
      (note-caution "Package ~A does not export ~{~A~^, ~} any more: its definition does not name ~:[them~;it~] now. What is ~
                     not compiled again still has the old ~:[symbols~;symbol~]."
                    name (sort no-exports #'string<) (null (rest no-exports)) (null (rest no-exports))))
    (when no-uses
      (note-caution "Package ~A does not use ~{~A~^, ~} any more." name no-uses))
    (when no-shadows
      (note-caution "Package ~A does not shadow ~{~A~^, ~} any more." name no-shadows))))

(defun keep-variance (condition)
  "Take the restart that keeps what a package has beyond its definition: code added it when it ran."
  (let ((restart (find-restart +keep-variance+ condition)))
    (when restart
      (invoke-restart restart))))

(defun noted-defpackage (function name nicknames size shadows shadowing-imports use imports interns exports &rest more)
  "Around %DEFPACKAGE: within a load, a package becomes what its definition says now."
  (flet ((define ()
           (apply function name nicknames size shadows shadowing-imports use imports interns exports more)))
    (if (null *load-session*)
        (define)
        (let ((package (find-package name))
              (uses (used-package-names use))
              (shadows (append shadows (mapcan (lambda (import) (copy-list (rest import))) shadowing-imports))))
          (when (and package (string= name (package-name package)))
            (shrink-package package exports uses shadows))
          (multiple-value-prog1 (let ((sb-ext:*on-package-variance* '(:error t)))
                                  (handler-bind ((package-at-variance #'keep-variance))
                                    (define)))
            (setf (gethash name *package-definitions*)
                  (list :exports (copy-list exports) :uses uses :shadows shadows)))))))

;;; Constants and structures

(defun noted-defconstant (function name value &rest more)
  "Around %DEFCONSTANT: a constant that was defined before this load may get another value."
  (let ((session *load-session*))
    (if (null session)
        (apply function name value more)
        (handler-bind ((sb-ext:defconstant-uneql
                         (lambda (condition)
                           (unless (gethash name (load-session-constants session))
                             (note-caution "The constant ~S has another value now. What is not compiled again still has the ~
                                            old one."
                                           name)
                             (continue condition)))))
          (multiple-value-prog1 (apply function name value more)
            (setf (gethash name (load-session-constants session)) t))))))

(defun note-new-structure (name)
  "Note that the structure NAME has other slots now."
  (note-caution "The structure ~S has other slots now: its old instances, and code that is not compiled again, are of no ~
                 use any more."
                name))

(defun continue-with-new-structure (condition)
  "When CONDITION says that a structure is defined anew with other slots, have the new definition hold."
  (when (and (typep condition 'simple-error)
             (find-restart +continue-recklessly+ condition)
             (find-restart 'continue condition))
    (note-new-structure (second (simple-condition-format-arguments condition)))
    (continue condition)))

(defun noted-compiler-defstruct (function dd &rest more)
  "Around %COMPILER-DEFSTRUCT: accept a changed structure, which is what a reload is for."
  (if (and *load-session* (find-class (structure-name dd) nil))
      (handler-bind ((warning (lambda (condition)
                                (note-new-structure (structure-name dd))
                                (muffle-warning condition))))
        (apply function dd more))
      (apply function dd more)))
