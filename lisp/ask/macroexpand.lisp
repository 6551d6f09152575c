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

;;; Without permission to evaluate, no local definition becomes a function: not one of the form that was given, and not one
;;; that a macro makes. Whoever walks code with SBCL's walker, DEFMETHOD and SB-CLTL2 too, leaves such forms as they stand:
;;; names in them may be theirs. Nor is a function called because its call looks constant. The macros themselves run, as everywhere.

(defvar *left-forms* :none
  "The forms that were left as they stand in this expansion, the last first; :NONE if none is to be left.")

(defparameter *packages-of-the-core* (remove (find-package "COMMON-LISP-USER") (list-all-packages))
  "The packages that were there before any user's: SBCL's and ASDF's.")

(defvar *refusing-evaluation* nil
  "True while a macro of SBCL's or ASDF's runs, and *LEFT-FORMS* is in force: some evaluate what they are given.")

(defun defines-locally-p (operator)
  "True if forms of OPERATOR have definitions or values that are evaluated when they are compiled or walked."
  (let ((environments (find-package "SB-CLTL2")))
    (and operator
         (or (eq operator 'macrolet)
             (and environments (eq operator (find-symbol "COMPILER-LET" environments)))))))

(defun leave-form (form context environment)
  "Walk nothing of FORM, and note it."
  (declare (ignore context environment))
  (pushnew form *left-forms* :test #'eq)
  form)

(defun careful-walker-template (function operator context)
  "Around +WALKER-TEMPLATE+: forms with local definitions are left, where that is in force."
  (if (and (listp *left-forms*) (defines-locally-p operator))
      'leave-form
      (funcall function operator context)))

(defun careful-constant-call-p (function &rest arguments)
  "Around +CONSTANT-CALL-P+: no call of a function is constant, where that is in force. It would be made, if the function is
one like SOME, which calls another."
  (unless (listp *left-forms*)
    (apply function arguments)))

(defun careful-eval (function form)
  "Around EVAL: refuse FORM to a macro of SBCL's or ASDF's, where that is in force, unless it is constant."
  (when (and *refusing-evaluation* (not (constantp form)))
    (error "To expand this, ~A would be evaluated. That needs the permission to evaluate code (serve --allow-eval)."
           (printed-form form *package* 300)))
  (let ((*refusing-evaluation* nil))
    (funcall function form)))

(defun expand-carefully (hook function form environment)
  "Expand FORM by HOOK, as *MACROEXPAND-HOOK* is called. Evaluation is refused to SBCL's and ASDF's macros, not to others."
  (let* ((operator (and (consp form) (first form)))
         (*refusing-evaluation*
           (and (symbolp operator) (member (symbol-package operator) *packages-of-the-core*) t)))
    (funcall hook function form environment)))

(sb-ext:define-load-time-global *careful-calls* 0
  "How many calls of CALL-CAREFULLY there are. One on a lane that was given up may end at any time.")

(sb-ext:define-load-time-global *careful-calls-lock* (sb-thread:make-mutex :name "steelbank macroexpand")
  "Held while *CAREFUL-CALLS* and the encapsulations are made to agree.")

(defun count-careful-call (change)
  "Add CHANGE to *CAREFUL-CALLS*. While there are any, EVAL, CONSTANTP and the walker are encapsulated."
  (sb-thread:with-mutex (*careful-calls-lock*)
    (cond ((plusp (incf *careful-calls* change))
           (encapsulate +walker-template+ 'steelbank-macroexpand #'careful-walker-template)
           (encapsulate +constant-call-p+ 'steelbank-macroexpand #'careful-constant-call-p)
           (encapsulate 'eval 'steelbank-macroexpand #'careful-eval))
          (t
           (dolist (name (list +walker-template+ +constant-call-p+ 'eval))
             (unencapsulate name 'steelbank-macroexpand))))))

(defun call-carefully (function)
  "Call FUNCTION, in which no local definition is evaluated."
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
  "The expansion of the form TEXT, read in the package PACKAGE-NAME, by one step (DEPTH is once), until it is no macro
form (full), or with all forms in it (all); and which macro made each step. #. is refused unless READ-EVAL is given; forms
with local definitions are left as they stand unless EVALUATE is given."
  (let ((package (find-package package-name)))
    (if (null package)
        (missing-object :no-package)
        (let ((form (let ((*package* package) (*read-eval* (and (given read-eval) t)))
                      (only-form text))))
          (if (given evaluate)
              (expansion-object form package depth)
              (call-carefully (lambda () (expansion-object form package depth))))))))

(defun expansion-object (form package depth)
  "The answer of macroexpand for FORM."
  (let* ((steps '())
         (count 0)
         (given-hook *macroexpand-hook*)
         (hook (if (listp *left-forms*)
                   (lambda (function form environment) (expand-carefully given-hook function form environment))
                   given-hook)))
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
                  "steps" (nreverse steps)
                  "left" (and (listp *left-forms*)
                              (loop for left in (reverse *left-forms*)
                                    repeat *steps-shown*
                                    collect (printed-form left package 300)))))))))
