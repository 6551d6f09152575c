;;;; Errors that are not passed on: those of the user's code, of his files, and mistakes of ours that must not take the place of what
;;;; he did. Nothing else in the Lisp half drops an error; lisp/tests/guards.lisp holds that.

(in-package :steelbank)

(defmacro around-user-code (&body body)
  "What BODY returns, or NIL if it signals an error. For calls of what may be the user's: a report, a print method, a stream's
methods, a condition's slots, the methods of ASDF's components, of metaobjects."
  `(handler-case (progn ,@body)
     (error () nil)))

(deftype unusable-file ()
  "What SBCL signals if a file is not there or may not be touched, or if a name is none of a file."
  '(or file-error stream-error parse-error))

(defmacro when-file-permits (&body body)
  "What BODY returns, or NIL if a file that it looks at, or the file's name, is of no use."
  `(handler-case (progn ,@body)
     (unusable-file () nil)))

(defvar *mistakes-told* '()
  "The mistakes of ours that were told to the host, newest first.")

(defun tell-mistake (what condition)
  "Tell the host, once, that CONDITION kept us from WHAT."
  (let ((sentence (format nil "A mistake of ours while ~A: ~A" what (describe-condition condition))))
    (unless (or (member sentence *mistakes-told* :test #'string=)
                (> (length *mistakes-told*) 100))
      (push sentence *mistakes-told*)
      (report sentence))))

(defmacro telling-mistakes ((what) &body body)
  "What BODY returns, or NIL if it signals an error, which the host is told. For what is told about a failure of the user's code: a
mistake in that must not take the failure's place. WHAT completes \"a mistake while\"."
  `(handler-case (progn ,@body)
     (error (condition)
       (tell-mistake ,what condition)
       nil)))
