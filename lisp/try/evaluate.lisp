;;;; evaluate: the forms of a text, one after the other, and their outcome.

(in-package :steelbank)

(sb-ext:define-load-time-global *codes* 0
  "Counts texts that were evaluated.")

(defparameter *warnings-shown* 50
  "The most warnings of an evaluation that an answer lists.")

(defparameter *values-shown* 50
  "The most values of a form that an answer lists.")

(defun compiler-position ()
  "Top-level form and form number of what is being compiled, as a property list, or NIL."
  (let* ((context (compiler-error-context))
         (path (and context (error-context-path context))))
    (and path
         (list :form (source-path-toplevel-form path)
               :number (source-path-form-number path)))))

(defun note-trial-warning (trial condition &optional (position (compiler-position)))
  "Add CONDITION to the warnings of TRIAL, with the place in the code, once."
  (let ((severity (severity condition)))
    (when severity
      (let* ((frame (and (null position)
                         (first (with-form-frame
                                 trial (reporting-own-errors ("looking at the stack")
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
  "Muffle CONDITION: no outer handler sees it."
  (let ((restart (find-restart 'muffle-warning condition)))
    (when restart
      (invoke-restart restart))))

(defun note-names-without-definition (trial)
  "Add the warnings that a compilation unit gives at its end: about names that are still undefined."
  (dolist (undefined (undefined-names))
    (let ((name (undefined-name undefined))
          (kind (undefined-name-kind undefined)))
      (unless (and (eq kind :function) (fboundp name))
        (dolist (context (undefined-name-contexts undefined))
          (let ((path (error-context-path context)))
            (note-trial-warning trial
                                (if (eq kind :variable)
                                    (make-condition 'simple-warning :format-control "undefined variable: ~s"
                                                                    :format-arguments (list name))
                                    (style-warning-of "undefined ~(~a~): ~s" kind name))
                                (and path (list :form (source-path-toplevel-form path)
                                                :number (source-path-form-number path)))))))))
  (forget-undefined-names))

(defun call-as-code (trial function)
  "Call FUNCTION, which evaluates the code of TRIAL, as one compilation unit whose warnings are noted."
  (let ((output *error-output*))
    ;; Drop the unit's own summary: the noted warnings say the same, with places.
    (let ((*error-output* (make-broadcast-stream)))
      (with-compilation-unit (:override t :source-plist (list :steelbank-code (trial-code trial)))
        (unwind-protect
             (let ((*error-output* output))
               (with-least-quality ('debug 2)
                 (handler-bind ((sb-ext:compiler-note #'muffle)
                                (compiler-error (lambda (condition) (note-trial-warning trial condition)))
                                (warning (lambda (condition)
                                           (note-trial-warning trial condition)
                                           (muffle condition))))
                   (funcall function))))
          (note-names-without-definition trial))))))

(defun call-for-forms (text trial function)
  "Call FUNCTION with each form of TEXT and its number, read when the one before was evaluated, such that the compiler
knows both. Returns the values of the last call."
  (let* ((forms (make-array 8 :adjustable t :fill-pointer 0))
         (info (make-text-source-info forms (trial-starts trial)))
         (end (list nil))
         (values '()))
    ;; Not on the stack: the condition that is kept may name it.
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
  "Evaluate the forms of TEXT as the code of TRIAL. Returns the values of the last."
  (call-as-code trial (lambda () (call-for-forms text trial #'evaluate-toplevel-form))))

(defun evaluation (package-name text)
  "Evaluate TEXT in the package called PACKAGE-NAME. Returns the trial and its outcome."
  (let ((trial (make-trial :code (sb-thread:with-mutex (*handle-lock*) (incf *codes*)))))
    (values trial
            (let ((*package* (find-package package-name)))
              (trial-outcome trial (lambda () (evaluate-text text trial)))))))

(defun unread-position (trial condition)
  "The position, in characters, up to which the code of TRIAL had been read when CONDITION was found in it; NIL if it
was not found there."
  (and (typep condition 'stream-error)
       (trial-stream trial)
       (eq (around-user-code (stream-error-stream condition)) (trial-stream trial))
       (trial-read-to trial)))

(defun trial-failure (trial outcome)
  "The failure that OUTCOME, of TRIAL, describes, as an object; NIL if there is none."
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
  "The answer to an evaluation. The host asks for the values and the condition by their handles."
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
