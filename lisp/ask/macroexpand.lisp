;;;; macroexpand: expands a form as the compiler does, which runs the code of the macros.

(in-package :steelbank)

(defparameter *expansion-limit* 30000
  "The maximum number of characters of an expansion in an answer.")

(defun printed-form (form package limit)
  "Return FORM pretty-printed for PACKAGE, at most LIMIT characters, and whether it was truncated."
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
  "The maximum number of steps of an expansion in an answer.")

(defun only-form (text)
  "Read TEXT, which must be exactly one form, and return it."
  ;; An error gives line and column instead of the stream.
  (with-input-from-string (stream text)
    (flet ((fail (what)
             (let* ((read (subseq text 0 (min (file-position stream) (length text))))
                    (line (count #\Newline read))
                    (start (position #\Newline read :from-end t)))
               (error "Cannot read the form (line ~D, column ~D): ~A" (1+ line)
                      (max 1 (- (length read) (if start (1+ start) 0)))
                      what))))
      (handler-case
          (let* ((end (list nil))
                 (form (read stream nil end)))
            (when (eq form end) (error "The text contains no form."))
            (unless (eq (read stream nil end) end) (error "The text contains more than one form."))
            form)
        (end-of-file () (fail "it is not closed: a parenthesis, quote or bar is missing."))
        (reader-error (condition) (fail (describe-condition condition)))))))

;;; Without permission to evaluate, no local definition becomes a function, neither one in the given
;;; form nor one that a macro generates. Code that uses SBCL's walker, such as DEFMETHOD and
;;; SB-CLTL2, leaves such forms unexpanded, because they may define names in them. Likewise no
;;; function is called because its call looks constant. The macros themselves run, as everywhere.

(defvar *left-forms* :none
  "Forms left unexpanded so far, newest first; :NONE if all forms may be expanded.")

(defparameter *packages-of-the-core* (remove (find-package "COMMON-LISP-USER") (list-all-packages))
  "The packages that existed before any user's: SBCL's and ASDF's.")

(defvar *refusing-evaluation* nil
  "True while a macro of SBCL or ASDF runs and *LEFT-FORMS* is in force, because some of them
evaluate their arguments.")

(defun defines-locally-p (operator)
  "Return true if compiling or walking a form of OPERATOR evaluates parts of it."
  (let ((environments (find-package "SB-CLTL2")))
    (and operator
         (or (eq operator 'macrolet)
             (and environments (eq operator (find-symbol "COMPILER-LET" environments)))))))

(defun leave-form (form context environment)
  "Record FORM as left, and return it without walking it."
  (declare (ignore context environment))
  (pushnew form *left-forms* :test #'eq)
  form)

(defun careful-walker-template (function operator context)
  "Wrap +WALKER-TEMPLATE+: leave forms with local definitions unexpanded if *LEFT-FORMS* is set."
  (if (and (listp *left-forms*) (defines-locally-p operator))
      'leave-form
      (funcall function operator context)))

(defun careful-constant-call-p (function &rest arguments)
  "Wrap +CONSTANT-CALL-P+ so that no function call is constant if *LEFT-FORMS* is in force."
  ;; A constant call would be executed, and a function such as SOME calls another.
  (unless (listp *left-forms*)
    (apply function arguments)))

(defun careful-eval (function form)
  "Wrap EVAL: signal an error if a macro of SBCL or ASDF evaluates FORM while that is refused,
unless FORM is constant."
  (when (and *refusing-evaluation* (not (constantp form)))
    (error "The expansion would evaluate ~A, which requires permission to evaluate code (serve --allow-eval)."
           (printed-form form *package* 300)))
  (let ((*refusing-evaluation* nil))
    (funcall function form)))

(defun expand-carefully (hook function form environment)
  "Expand FORM by HOOK, as *MACROEXPAND-HOOK* is called."
  ;; Refuse evaluation to the macros of SBCL and ASDF.
  (let* ((operator (and (consp form) (first form)))
         (*refusing-evaluation*
           (and (symbolp operator) (member (symbol-package operator) *packages-of-the-core*) t)))
    (funcall hook function form environment)))

(sb-ext:define-load-time-global *careful-calls* 0
  "The number of active calls of CALL-CAREFULLY. A call on an abandoned lane may end at any time.")

(sb-ext:define-load-time-global *careful-calls-lock* (sb-thread:make-mutex :name "steelbank macroexpand")
  "Held while *CAREFUL-CALLS* and the encapsulations are updated together.")

(defun count-careful-call (change)
  "Add CHANGE to *CAREFUL-CALLS*."
  ;; EVAL, CONSTANTP and the walker are encapsulated while it is positive.
  (sb-thread:with-mutex (*careful-calls-lock*)
    (cond ((plusp (incf *careful-calls* change))
           (encapsulate +walker-template+ 'steelbank-macroexpand #'careful-walker-template)
           (encapsulate +constant-call-p+ 'steelbank-macroexpand #'careful-constant-call-p)
           (encapsulate 'eval 'steelbank-macroexpand #'careful-eval))
          (t
           (dolist (name (list +walker-template+ +constant-call-p+ 'eval))
             (unencapsulate name 'steelbank-macroexpand))))))

(defun call-carefully (function)
  "Call FUNCTION without evaluating local definitions."
  (let ((*left-forms* '())
        (counted nil))
    (unwind-protect
         (progn
           (sb-sys:without-interrupts
             (count-careful-call 1)
             (setf counted t))
           (funcall function))
      (when counted
        (sb-sys:without-interrupts
          (count-careful-call -1))))))

(define-question "macroexpand" (text package-name depth read-eval evaluate)
  "Expand the form TEXT, read in the package PACKAGE-NAME."
  ;; DEPTH is once for one step, full to expand until it is not a macro form, or all to expand the
  ;; forms inside it too. Return the expansion and the macro of each step. #. is an error unless
  ;; READ-EVAL is given. Forms with local definitions are left unexpanded unless EVALUATE is given.
  (let ((package (find-package package-name)))
    (if (null package)
        (missing-object :no-package)
        (let ((form (let ((*package* package) (*read-eval* (and (given read-eval) t)))
                      (only-form text))))
          (if (given evaluate)
              (expansion-object form package depth)
              (call-carefully (lambda () (expansion-object form package depth))))))))

(defun expansion-object (form package depth)
  "Return the answer of macroexpand for FORM."
  (let* ((steps '())
         (count 0)
         (given-hook *macroexpand-hook*)
         (hook (if (listp *left-forms*)
                   (lambda (function form environment) (expand-carefully given-hook function form environment))
                   given-hook)))
    (flet ((note (function form environment)
             ;; Do not count expansions that a macro function or the printer makes internally.
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
                  "steps" (nreverse steps)
                  "left" (and (listp *left-forms*)
                              (loop for left in (reverse *left-forms*)
                                    repeat *steps-shown*
                                    collect (printed-form left package 300)))))))))
