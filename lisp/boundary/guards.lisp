;;;; Ignores errors in three cases: in user code, in user files, and in our own reporting of a
;;;; failure, which must not hide that failure. Other code in the Lisp half must not use
;;;; IGNORE-ERRORS; lisp/tests/guards.lisp enforces that.

(in-package :steelbank)

(defmacro around-user-code (&body body)
  "Return the values of BODY, or NIL if it signals an error."
  ;; For calls of potential user code: reports, print methods, methods of streams, slots of
  ;; conditions, and methods of ASDF's components and of metaobjects.
  `(handler-case (progn ,@body)
     (error () nil)))

(deftype unusable-file ()
  "SBCL's errors for a missing or inaccessible file, and for a name that no file can have."
  '(or file-error stream-error parse-error))

(defmacro when-file-permits (&body body)
  "Return the values of BODY, or NIL if a file that it reads is unusable; see UNUSABLE-FILE."
  `(handler-case (progn ,@body)
     (unusable-file () nil)))

(defvar *own-errors-reported* '()
  "Our own errors that were reported to the host, newest first.")

(defun report-own-error (what condition)
  "Report CONDITION, an error in our own code, to the host, once."
  ;; WHAT describes what the code was doing.
  (let ((sentence (format nil "Internal error while ~A: ~A" what (describe-condition condition))))
    (unless (or (member sentence *own-errors-reported* :test #'string=)
                (> (length *own-errors-reported*) 100))
      (push sentence *own-errors-reported*)
      (report sentence))))

(defmacro reporting-own-errors ((what) &body body)
  "Return the values of BODY, or NIL if it signals an error, which is reported to the host."
  ;; For code that describes a failure of user code, because our own error there must not hide that
  ;; failure. WHAT completes "Internal error while".
  `(handler-case (progn ,@body)
     (error (condition)
       (report-own-error ,what condition)
       nil)))
