;;;; Drops errors in three cases: in the user's code, in the user's files, and in our own reporting of a failure, which must not
;;;; hide that failure. Nothing else in the Lisp half drops an error; lisp/tests/guards.lisp holds that.

(in-package :steelbank)

(defmacro around-user-code (&body body)
  "The values of BODY, or NIL if it signals an error. For calls of code that may be the user's: a report, a print method, a stream's
methods, a condition's slots, the methods of ASDF's components, of metaobjects."
  `(handler-case (progn ,@body)
     (error () nil)))

(deftype unusable-file ()
  "The errors of SBCL's for a file that is missing or forbidden, and for a name that no file can have."
  '(or file-error stream-error parse-error))

(defmacro when-file-permits (&body body)
  "The values of BODY, or NIL if a file that it reads is missing or forbidden, or has a name that no file can have."
  `(handler-case (progn ,@body)
     (unusable-file () nil)))

(defvar *own-errors-reported* '()
  "Our own errors that were reported to the host, newest first.")

(defun report-own-error (what condition)
  "Report to the host, once, that CONDITION, an error of ours, kept us from WHAT."
  (let ((sentence (format nil "A mistake of ours while ~A: ~A" what (describe-condition condition))))
    (unless (or (member sentence *own-errors-reported* :test #'string=)
                (> (length *own-errors-reported*) 100))
      (push sentence *own-errors-reported*)
      (report sentence))))

(defmacro reporting-own-errors ((what) &body body)
  "The values of BODY, or NIL if it signals an error, which is reported to the host. For code that describes a failure of the
user's code: an error of ours there must not hide that failure. WHAT completes \"a mistake while\"."
  `(handler-case (progn ,@body)
     (error (condition)
       (report-own-error ,what condition)
       nil)))
