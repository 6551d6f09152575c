;;;; macroexpand: expands a form as the compiler does, which runs the code of the macros.

(in-package :steelbank)

(defparameter *expansion-limit* 30000
  "The most characters of an expansion that an answer prints.")

(defun printed-form (form package limit)
  "FORM pretty-printed as it would be written in PACKAGE, at most LIMIT characters of it, and whether it was cut."
  (let ((stream (make-instance 'limited-output :limit limit :when-full (lambda () (throw 'enough t)))))
    (let ((cut (catch 'enough
                 (with-plain-printing
                   (let ((*package* package) (*print-pretty* t) (*print-right-margin* 100) (*print-case* :downcase)
                         (*print-gensym* t) (*print-circle* t)
                         (*print-pprint-dispatch* *plain-pprint-dispatch*))
                     (prin1 form stream)))
                 nil)))
      (values (output-text stream) cut))))

(defparameter *steps-shown* 100
  "The most steps of an expansion that an answer lists.")

(defun only-form (text)
  "Read TEXT, which must be exactly one form, and return it. An error names line and column, not the stream."
  (with-input-from-string (stream text)
    (flet ((fail (what)
             (let* ((read (subseq text 0 (min (file-position stream) (length text))))
                    (line (count #\Newline read))
                    (start (position #\Newline read :from-end t)))
               (error "The form cannot be read (line ~D, column ~D): ~A" (1+ line)
                      (max 1 (- (length read) (if start (1+ start) 0)))
                      what))))
      (handler-case
          (let* ((end (list nil))
                 (form (read stream nil end)))
            (when (eq form end) (error "The text has no form."))
            (unless (eq (read stream nil end) end) (error "The text has more than one form."))
            form)
        (end-of-file () (fail "it ends before it is closed: a parenthesis, quote or bar is missing."))
        (reader-error (condition) (fail (describe-condition condition)))))))

(define-question "macroexpand" (text package-name depth read-eval)
  "The expansion of the form TEXT, read in the package PACKAGE-NAME, by one step (DEPTH is once), until it is no macro
form (full), or with all forms in it (all); and which macro made each step. #. is refused unless READ-EVAL is given."
  (let ((package (find-package package-name)))
    (if (null package)
        (missing-object :no-package)
        (let ((form (let ((*package* package) (*read-eval* (and (given read-eval) t)))
                      (only-form text)))
              (steps '())
              (count 0)
              (hook *macroexpand-hook*))
          (flet ((note (function form environment)
                   ;; Expansions that a macro function or the printer makes for itself are no steps.
                   (let* ((*macroexpand-hook* hook)
                          (expansion (funcall hook function form environment)))
                     (incf count)
                     (when (<= count *steps-shown*)
                       (push (object "macro" (name-text (if (consp form) (first form) form))
                                     "form" (printed-form form package 300)
                                     "into" (printed-form expansion package 300))
                             steps))
                     expansion)))
            (multiple-value-bind (expansion expanded)
                (let ((*macroexpand-hook* #'note) (*package* package))
                  (cond ((string= depth "once") (macroexpand-1 form))
                        ((string= depth "full") (macroexpand form))
                        (t (let ((expansion (expanded-everywhere form)))
                             (values expansion (plusp count))))))
              (multiple-value-bind (printed cut) (printed-form expansion package *expansion-limit*)
                (object "status" "found"
                        "package" (package-name package)
                        "expanded" (json-boolean expanded)
                        "expansion" printed
                        "cut" (and cut :true)
                        "compiler_macro" (and (consp form) (symbolp (first form)) (compiler-macro-function (first form))
                                              :true)
                        "step_count" count
                        "steps" (nreverse steps)))))))))
