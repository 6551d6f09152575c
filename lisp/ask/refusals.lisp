;;;; The writes that the kernel refuses to a confined scratch image: noted, so that who reads its answer knows of them.

(in-package :steelbank)

(defparameter *refusals-kept* 20
  "The most files of refused writes that are kept.")

(sb-ext:define-load-time-global *refused-writes* '()
  "Native names of the files to which writes were refused, the last first, each once.")

(defun note-if-refused (name outcome)
  "Note NAME if OUTCOME, the values of a system call as a list, says that the kernel refused it; return these values."
  (destructuring-bind (done &optional errno &rest more) outcome
    (declare (ignore more))
    (when (and (null done)
               (member errno (list sb-posix:eacces sb-posix:eperm sb-posix:exdev))
               (< (length *refused-writes*) *refusals-kept*)
               (not (member name *refused-writes* :test #'equal)))
      (sb-ext:atomic-push name (symbol-value '*refused-writes*))))
  (values-list outcome))

(defun noting-refused-open (function name flags &rest arguments)
  "Around +OPEN-FILE+: note NAME if it may not be written."
  (let ((outcome (multiple-value-list (apply function name flags arguments))))
    (if (logtest flags (logior sb-posix:o-wronly sb-posix:o-rdwr sb-posix:o-creat))
        (note-if-refused name outcome)
        (values-list outcome))))

(defun noting-refused-change (function name &rest arguments)
  "Around *WRITING-CALLS*: note NAME if it may not be made, removed or given another name."
  (note-if-refused name (multiple-value-list (apply function name arguments))))

(define-question "refused-writes" ()
  "The files to which writes were refused since this was asked first. What foreign code and other programs tried is not
seen."
  (unless (encapsulated-p +open-file+ 'steelbank-refusals)
    (encapsulate +open-file+ 'steelbank-refusals #'noting-refused-open)
    (dolist (name *writing-calls*)
      (encapsulate name 'steelbank-refusals #'noting-refused-change)))
  (object "paths" (reverse *refused-writes*)))
