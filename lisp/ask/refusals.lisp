;;;; Records the writes that the kernel denies to a confined scratch image, so that answers can
;;;; report them.

(in-package :steelbank)

(defparameter *refusals-recorded* 20
  "The maximum number of files recorded.")

(sb-ext:define-load-time-global *refused-writes* '()
  "Native names of the files to which writes were denied, newest first, without duplicates.")

(defun note-if-refused (name outcome)
  "Record NAME if OUTCOME, the values of a system call as a list, shows that the kernel denied it."
  ;; Return the values of the call.
  (destructuring-bind (done &optional errno &rest more) outcome
    (declare (ignore more))
    (when (and (null done)
               (member errno (list sb-posix:eacces sb-posix:eperm sb-posix:exdev))
               (< (length *refused-writes*) *refusals-recorded*)
               (not (member name *refused-writes* :test #'equal)))
      (sb-ext:atomic-push name (symbol-value '*refused-writes*))))
  (values-list outcome))

(defun noting-refused-open (function name flags &rest arguments)
  "Wrap +OPEN-FILE+: record NAME if opening it for writing is denied."
  (let ((outcome (multiple-value-list (apply function name flags arguments))))
    (if (logtest flags (logior sb-posix:o-wronly sb-posix:o-rdwr sb-posix:o-creat))
        (note-if-refused name outcome)
        (values-list outcome))))

(defun noting-refused-change (function name &rest arguments)
  "Wrap *WRITING-CALLS*: record NAME if creating, deleting or renaming it is denied."
  (note-if-refused name (multiple-value-list (apply function name arguments))))

(define-question "refused-writes" ()
  "Return the files to which writes were denied since the first call of this question."
  ;; Writes by foreign code and other programs are not recorded.
  (unless (encapsulated-p +open-file+ 'steelbank-refusals)
    (encapsulate +open-file+ 'steelbank-refusals #'noting-refused-open)
    (dolist (name *writing-calls*)
      (encapsulate name 'steelbank-refusals #'noting-refused-change)))
  (object "paths" (reverse *refused-writes*)))
