;;;; evaluate: evaluates the forms of a text in order, and reports the outcome.

(in-package :steelbank)

(sb-ext:define-load-time-global *codes* 0
  "The number of texts evaluated so far.")

(defparameter *warnings-shown* 50
  "The maximum number of warnings in the answer to an evaluation.")

(defparameter *values-shown* 50
  "The maximum number of values in the answer to an evaluation.")

(defun compiler-position ()
  "Return top-level form and form number of the form being compiled, as a plist, or NIL."
  (let* ((context (compiler-error-context))
         (path (and context (error-context-path context))))
    (and path
         (list :form (source-path-toplevel-form path)
               :number (source-path-form-number path)))))

(defun note-trial-warning (trial condition &optional (position (compiler-position)))
  "Add CONDITION to the warnings of TRIAL, with its position in the code, once."
  (let ((severity (severity condition)))
    (when severity
      (let* ((frame (and (null position)
                         (first (with-form-frame
                                 trial (reporting-own-errors ("examining the stack")
                                         (user-frames (trial-code trial) :locals nil))))))
             (warning (object "severity" (word severity)
                              "message" (condition-text condition)
                              "form" (getf position :form)
                              "number" (getf position :number)
                              "frame" frame)))
        (unless (gethash (list severity (condition-text condition) position) (trial-seen trial))
          (setf (gethash (list severity (condition-text condition) position) (trial-seen trial)) t)
          (when (<= (incf (trial-warning-count trial)) *warnings-shown*)
            (push warning (trial-warnings trial))))))))

(defun muffle (condition)
  "Muffle CONDITION, so that no outer handler sees it."
  (let ((restart (find-restart 'muffle-warning condition)))
    (when restart
      (invoke-restart restart))))

(defun note-names-without-definition (trial)
  "Add to TRIAL the warnings about undefined names that a compilation unit gives at its end."
  (dolist (undefined (undefined-names))
    (let ((name (undefined-name undefined))
          (kind (undefined-name-kind undefined)))
      (unless (and (eq kind :function) (fboundp name))
        (dolist (context (undefined-name-contexts undefined))
          (let ((path (error-context-path context)))
            (note-trial-warning trial
                                (if (eq kind :variable)
                                    (make-condition 'simple-warning
                                                    :format-control "undefined variable: ~s"
                                                    :format-arguments (list name))
                                    (style-warning-of "undefined ~(~a~): ~s" kind name))
                                (and path (list :form (source-path-toplevel-form path)
                                                :number (source-path-form-number path)))))))))
  (forget-undefined-names))

(defun call-as-code (trial function)
  "Call FUNCTION, which evaluates the code of TRIAL, as a compilation unit; record its warnings."
  (let ((output *error-output*))
    ;; Discard the unit's own summary; the recorded warnings are the same, with positions.
    (let ((*error-output* (make-broadcast-stream)))
      (with-compilation-unit (:override t :source-plist (list :steelbank-code (trial-code trial)))
        (unwind-protect
             (let ((*error-output* output))
               (with-least-quality ('debug 2)
                 (handler-bind ((sb-ext:compiler-note #'muffle)
                                (compiler-error (lambda (condition)
                                                  (note-trial-warning trial condition)))
                                (warning (lambda (condition)
                                           (note-trial-warning trial condition)
                                           (muffle condition))))
                   (funcall function))))
          (note-names-without-definition trial))))))

(defun call-for-forms (text trial function)
  "Call FUNCTION with each form of TEXT and its number, and make both available to the compiler."
  ;; Each form is read after the previous one was evaluated. Return the values of the last call.
  (let* ((forms (make-array 8 :adjustable t :fill-pointer 0))
         (info (make-text-source-info forms (trial-starts trial)))
         (end (list nil))
         (values '()))
    ;; The stream is not allocated on the stack, because a recorded condition may refer to it.
    (let ((stream (make-string-input-stream text)))
      (setf (trial-stream trial) stream)
      (loop
        (vector-push-extend (file-position stream) (trial-starts trial))
        (setf (trial-form trial) nil)
        (let ((form (read stream nil end)))
          (when (eq form end)
            (return (values-list values)))
          (let ((index (vector-push-extend form forms)))
            (setf (trial-form trial) index
                  values
                  (multiple-value-list
                   (with-numbered-form (form index info)
                     (funcall function form index))))))))))

(defun evaluate-text (text trial)
  "Evaluate the forms of TEXT as the code of TRIAL. Return the values of the last form."
  (when (plusp (length text))
    (note-difference-from-text))
  (call-as-code trial (lambda () (call-for-forms text trial #'evaluate-toplevel-form))))

(defun evaluation (package-name text)
  "Evaluate TEXT in the package PACKAGE-NAME. Return the trial and its outcome."
  (let ((trial (make-trial :code (sb-thread:with-mutex (*handle-lock*) (incf *codes*)))))
    (values trial
            (let ((*package* (find-package package-name)))
              (trial-outcome trial (lambda () (evaluate-text text trial)))))))

(defun unread-position (trial condition)
  "Return the position up to which the code of TRIAL had been read when CONDITION was signalled."
  ;; The position is in characters. Return NIL if CONDITION is not about reading the code.
  (and (typep condition 'stream-error)
       (trial-stream trial)
       (eq (around-user-code (stream-error-stream condition)) (trial-stream trial))
       (trial-read-to trial)))

(defun trial-failure (trial outcome)
  "Return the failure in OUTCOME, of TRIAL, as a JSON object, or NIL if there is none."
  (destructuring-bind (&key status condition &allow-other-keys) outcome
    (cond (condition
           (apply #'object
                  "kind" (word (condition-kind condition))
                  "condition" (name-text (type-of condition))
                  "handle" (make-handle condition)
                  (stack-json trial)))
          ((eq status :stopped)
           (apply #'object "kind" "interrupted" (stack-json trial))))))

(defun evaluation-json (trial outcome)
  "Return the answer to an evaluation."
  ;; The host fetches the values and the condition by their handles.
  (destructuring-bind (&key status values condition) outcome
    (object "status" (word status)
            "values" (loop for value in values
                           repeat *values-shown*
                           collect (make-handle value))
            "value_count" (length values)
            "failure" (trial-failure trial outcome)
            "unread_at" (unread-position trial condition)
            "starts" (trial-starts trial)
            "warnings" (reverse (trial-warnings trial))
            "warning_count" (trial-warning-count trial))))

(define-question "evaluate" (package text)
  "Evaluate the forms of TEXT in the package called PACKAGE."
  (if (find-package package)
      (multiple-value-call #'evaluation-json (evaluation package text))
      (object "status" "no-package")))
