;;;; evaluate: the forms of a text, one after the other, and what became of them.

(in-package :steelbank)

(sb-ext:define-load-time-global *codes* 0
  "Counts texts that were evaluated.")

(defparameter *warnings-shown* 50
  "How many warnings of an evaluation are told.")

(defparameter *values-shown* 50
  "How many values of a form are told.")

(defun compiler-position ()
  "Top-level form and form number of what is being compiled, as a property list, or NIL."
  (let* ((context (and (boundp 'sb-c::*source-info*)
                       (ignore-errors (sb-c::find-error-context nil))))
         (path (and context (sb-c::compiler-error-context-path context))))
    (and path
         (list :form (sb-c::source-path-tlf-number path)
               :number (sb-c::source-path-form-number path)))))

(defun note-trial-warning (trial condition &optional (position (compiler-position)))
  "Add CONDITION to the warnings of TRIAL, with the place in the code, once."
  (let ((severity (severity condition)))
    (when severity
      (let* ((frame (and (null position)
                         (first (with-form-frame
                                 trial (ignore-errors (user-frames (trial-code trial) :locals nil))))))
             (warning (object "severity" severity
                              "message" (condition-text condition)
                              "form" (getf position :form)
                              "number" (getf position :number)
                              "frame" frame)))
        (unless (gethash (list severity (condition-text condition) position) (trial-seen trial))
          (setf (gethash (list severity (condition-text condition) position) (trial-seen trial)) t)
          (when (<= (incf (trial-warning-count trial)) *warnings-shown*)
            (push warning (trial-warnings trial))))))))

(defun muffle (condition)
  "Have nobody else hear of CONDITION."
  (let ((restart (find-restart 'muffle-warning condition)))
    (when restart
      (invoke-restart restart))))

(defun note-names-without-definition (trial)
  "Add the warnings that a compilation unit gives at its end: about names that are still undefined."
  (dolist (undefined sb-c::*undefined-warnings*)
    (let ((name (sb-c::undefined-warning-name undefined))
          (kind (sb-c::undefined-warning-kind undefined)))
      (unless (and (eq kind :function) (fboundp name))
        (dolist (context (sb-c::undefined-warning-warnings undefined))
          (let ((path (sb-c::compiler-error-context-path context)))
            (note-trial-warning trial
                                (make-condition (if (eq kind :variable) 'simple-warning 'sb-int:simple-style-warning)
                                                :format-control "undefined ~(~a~): ~s"
                                                :format-arguments (list kind name))
                                (and path (list :form (sb-c::source-path-tlf-number path)
                                                :number (sb-c::source-path-form-number path)))))))))
  (setf sb-c::*undefined-warnings* '()))

(defun call-as-code (trial function)
  "Call FUNCTION, which evaluates the code of TRIAL, as one compilation unit whose warnings are noted."
  (let ((output *error-output*))
    ;; The unit's own summary says in words what is told with places.
    (let ((*error-output* (make-broadcast-stream)))
      (with-compilation-unit (:override t :source-plist (list :steelbank-code (trial-code trial)))
        (unwind-protect
             (let ((*error-output* output)
                   (sb-c::*policy-min* sb-c::*policy-min*))
               (sb-ext:restrict-compiler-policy 'debug 2)
               (handler-bind ((sb-ext:compiler-note #'muffle)
                              (sb-c:compiler-error (lambda (condition) (note-trial-warning trial condition)))
                              (warning (lambda (condition)
                                         (note-trial-warning trial condition)
                                         (muffle condition))))
                 (funcall function)))
          (note-names-without-definition trial))))))

(defun call-for-forms (text trial function)
  "Call FUNCTION with each form of TEXT and its number, read when the one before was evaluated, such that the compiler knows
both. The values of the last call."
  (let* ((forms (make-array 8 :adjustable t :fill-pointer 0))
         (info (sb-c::make-source-info
                :file-info (sb-c::make-file-info :%truename :lisp :forms forms :positions (trial-starts trial))))
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
          (let ((index (vector-push-extend form forms))
                (sb-c::*source-info* info)
                ;; Nothing is being compiled unless the compiler says so.
                (sb-c::*current-path* nil))
            (setf (trial-form trial) index
                  values
                  (multiple-value-list
                   (sb-c::with-source-paths
                     (sb-c::find-source-paths form index)
                     (funcall function form index))))))))))

(defun evaluate-text (text trial)
  "Evaluate the forms of TEXT as the code of TRIAL. The values of the last."
  (call-as-code trial (lambda () (call-for-forms text trial #'sb-impl::eval-tlf))))

(defun evaluation (package-name text)
  "Evaluate TEXT in the package called PACKAGE-NAME. The trial and its outcome."
  (let ((trial (make-trial :code (sb-thread:with-mutex (*handle-lock*) (incf *codes*)))))
    (values trial
            (let ((*package* (find-package package-name)))
              (trial-outcome trial (lambda () (evaluate-text text trial)))))))

(defun unread-position (trial condition)
  "Up to where the code of TRIAL had been read when CONDITION was found in it, in characters; NIL: it was not found there."
  (and (typep condition 'stream-error)
       (trial-stream trial)
       (eq (ignore-errors (stream-error-stream condition)) (trial-stream trial))
       (trial-read-to trial)))

(defun trial-failure (trial outcome)
  "What is told of OUTCOME, of TRIAL, if it is a failure."
  (destructuring-bind (&key status condition &allow-other-keys) outcome
    (cond (condition
           (apply #'object
                  "kind" (condition-kind condition)
                  "condition" (name-text (type-of condition))
                  "handle" (make-handle condition)
                  (stack-json trial)))
          ((string= status "stopped")
           (apply #'object "kind" "interrupted" (stack-json trial))))))

(defun evaluation-json (trial outcome)
  "What the host is told of an evaluation. It asks for the values and the condition by their handles."
  (destructuring-bind (&key status values condition) outcome
    (object "status" status
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
