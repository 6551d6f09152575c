;;;; Is this SBCL fit for steelbank? A plain script: load it with the SBCL in question. It prints what it
;;;; found, one line a check, and exits with 0 when all of them hold and with 1 otherwise.

(require "SB-INTROSPECT")

(defpackage "STEELBANK-SELF-TEST"
  (:use "COMMON-LISP"))

(in-package "STEELBANK-SELF-TEST")

(defparameter *least-callers-of-mapcar* '(("2.5.2" . 500) (t . 400))
  "How many records who-calls MAPCAR must find, by version. Versions differ by a few: 2.5.2 has 505, 2.6.3 has 489.
A build that has thrown away the cross references of SBCL's own code has none.")

(defparameter *form*
  '(lambda (x)
    (list (callee x) (callee (car x)) (callee (cdr x))))
  "A function with three calls of CALLEE. The calls stand at different places, in known order.")

(defvar *failures* 0
  "How many checks have failed so far.")

(defun report (holds control &rest arguments)
  "Print one line about a check: whether it HOLDS, and CONTROL applied to ARGUMENTS. Count it if it does not."
  (unless holds (incf *failures*))
  (format t "~:[FAILED~;ok~]: ~?~%" holds control arguments))

(defun callee (x)
  "What *FORM* calls."
  x)

(defun caller (x)
  "Stands in for the function compiled from *FORM* until there is one."
  x)

(declaim (notinline callee caller))

(defun calls-in-form (translations)
  "The form numbers of the calls of CALLEE in *FORM*, found by walking *FORM* along the paths in TRANSLATIONS."
  ;; A path is a form number, then indices from the inside out; the outermost is the top-level form's own.
  (loop for (number . indices) across translations
        for path = (rest (reverse indices))
        for form = (reduce (lambda (form index) (nth index form)) path :initial-value *form*)
        when (and (consp form) (eq (first form) 'callee))
          collect number))

(defun recorded-calls ()
  "The form numbers that cross references give for the calls of CALLEE in the compiled *FORM*."
  (setf (fdefinition 'caller) (compile nil *form*))
  (sort (loop for (nil . source) in (sb-introspect:who-calls 'callee)
              collect (sb-introspect:definition-source-form-number source))
        #'<))

(defun check-internals ()
  "SBCL's own code must carry cross references: the contracts' examples ask for them."
  (let ((count (length (sb-introspect:who-calls 'mapcar)))
        (least (rest (or (assoc (lisp-implementation-version) *least-callers-of-mapcar* :test #'equal)
                         (assoc t *least-callers-of-mapcar*)))))
    (report (>= count least)
            "who-calls MAPCAR finds ~D records in SBCL's own code (at least ~D are needed)."
            count least)))

(defun check-form-numbers ()
  "Three calls at three places must have three form numbers, and the right ones."
  (let ((expected (calls-in-form (sb-di:form-number-translations *form* 0)))
        (recorded (recorded-calls)))
    (report (and (= 3 (length expected)) (equal expected recorded))
            "three calls in one function are recorded at form numbers ~{~D~^, ~} (they are at ~{~D~^, ~})."
            recorded expected)))

(defun run ()
  "Run every check and leave Lisp with the exit code that says whether all of them hold."
  (handler-case (progn (check-internals) (check-form-numbers))
    (error (condition)
      (report nil "the self-test itself stopped: ~A" condition)))
  (format t "~:[SBCL ~A fails the self-test~;SBCL ~A passes the self-test~].~%"
          (zerop *failures*) (lisp-implementation-version))
  (finish-output)
  (sb-ext:exit :code (if (zerop *failures*) 0 1) :abort t))

(run)
