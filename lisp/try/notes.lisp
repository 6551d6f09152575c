;;;; compiler-notes: compiles one definition and lists the compiler's notes. The definition is
;;;; wrapped in a function that is never called, so nothing in the image is redefined.

(in-package :steelbank)

(defun file-policy (forms)
  "Return the image's policy as modified by FORMS, the DECLAIM forms of a file."
  (let ((policy (current-policy)))
    (dolist (form forms policy)
      (dolist (specifier (rest form))
        (when (typep specifier '(cons (eql optimize)))
          (setf policy (declaimed-policy specifier policy)))))))

(defun note-severity (condition)
  "Return the severity of CONDITION as SEVERITY does, or :NOTE for a compiler note."
  (if (typep condition 'sb-ext:compiler-note) :note (severity condition)))

(defun note-text (condition)
  "Return the report of CONDITION as the compiler would print it."
  (bounded-text (let ((*print-pretty* t) (*print-right-margin* 100))
                  (handler-case (princ-to-string condition)
                    (serious-condition () (condition-text condition))))
                2000))

(defun notes-of (form policy)
  "Return the compiler's notes on FORM with POLICY, as JSON objects with sub-form numbers."
  ;; FORM is not evaluated.
  (let ((notes '()) (seen (make-hash-table :test 'equal)))
    (flet ((note (condition)
             (let* ((severity (note-severity condition))
                    (number (getf (compiler-position) :number))
                    (text (note-text condition))
                    (key (list severity number text)))
               (when (and severity (not (gethash key seen)))
                 (setf (gethash key seen) t)
                 ;; Number 0 is the wrapping function.
                 (push (object "severity" (word severity) "message" text
                               "number" (and number (max 0 (1- number))))
                       notes))
               (muffle condition))))
      (let ((*error-output* (make-broadcast-stream)))
        (with-policy (policy)
          (with-compilation-unit (:override t)
            (unwind-protect
                 (handler-bind ((sb-ext:compiler-note #'note)
                                (compiler-error #'note)
                                (warning #'note))
                   (compile nil `(lambda () ,form)))
              (forget-undefined-names))))))
    (nreverse notes)))

(define-question "compiler-notes" (package text declaims)
  "Return the compiler's notes on the form TEXT, read in PACKAGE, with the policy of DECLAIMS."
  ;; DECLAIMS is the text of the forms that set the policy.
  (let* ((*package* (package-named package))
         (form (read-from-string text))
         (policy (let ((*read-eval* nil))
                   (file-policy (with-input-from-string (stream declaims)
                                  (loop with end = (list nil)
                                        for form = (read stream nil end)
                                        until (eq form end)
                                        collect form))))))
    (object "notes" (notes-of form policy))))
