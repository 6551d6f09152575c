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
  "The function that *FORM* calls."
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

(defparameter *three-forms*
  (format nil "(defvar *taken* 1)~%(defun take (x)~%  (list \"é\" (car x)))~%(take (list *taken*))~%")
  "The text of a file with three top-level forms.")

(defparameter *places*
  '(((0 0) 1 1) ((1 0) 2 1) ((1 2) 3 3) ((1 3) 3 13) ((2 0) 4 1) ((2 1) 4 7))
  "The places of forms of *THREE-FORMS*: top-level form and form number, line, column.")

(defun half (name &rest arguments)
  "Call the Lisp half's function called NAME."
  (apply (find-symbol name "STEELBANK") arguments))

(defun call-with-folder (function)
  "Call FUNCTION with the pathname of a new folder, which is removed afterwards."
  (let ((folder (merge-pathnames (format nil "steelbank-~36R/" (random (expt 2 64) (make-random-state t)))
                                 (sb-ext:parse-native-namestring (or (sb-ext:posix-getenv "TMPDIR") "/tmp")
                                                                 nil *default-pathname-defaults* :as-directory t))))
    (unwind-protect (progn (ensure-directories-exist folder)
                           (funcall function folder))
      (sb-ext:delete-directory folder :recursive t))))

(defun load-lisp-half (folder)
  "Compile the Lisp half beside this file into FOLDER, and load it. Nothing else of this machine is looked at."
  (require "ASDF")
  (flet ((asdf (name &rest arguments)
           (apply (find-symbol name "ASDF") arguments)))
    (asdf "INITIALIZE-SOURCE-REGISTRY" '(:source-registry :ignore-inherited-configuration))
    (asdf "INITIALIZE-OUTPUT-TRANSLATIONS"
          `(:output-translations (t (,folder :**/ :*.*.*)) :ignore-inherited-configuration))
    (asdf "LOAD-ASD" (merge-pathnames "steelbank.asd" *load-truename*))
    (handler-bind ((warning #'muffle-warning))
      (asdf "LOAD-SYSTEM" "steelbank"))))

(defun tapped-places (folder)
  "Compile *THREE-FORMS*, a file in FOLDER, under the tap: the size of the sidecar, and the places it has for *PLACES*."
  (let ((path (merge-pathnames "three.lisp" folder))
        (size 0)
        (places '()))
    (with-open-file (stream path :direction :output :external-format :utf-8)
      (write-string *three-forms* stream))
    (half "INSTALL-TAP")
    (progv (list (find-symbol "*TAP-SINK*" "STEELBANK"))
        (list (lambda (tap sidecar)
                (setf size (length sidecar)
                      places (loop for ((form number)) in *places*
                                   collect (multiple-value-list
                                            (half "TAP-LINE-AND-COLUMN" tap
                                                  (values (half "TAP-POSITION" tap form number))))))))
      (compile-file path :external-format :utf-8))
    (values size places)))

(defun check-tap ()
  "The tap must see what SBCL's reader reads while it compiles: exact places come from it."
  (let ((*standard-output* (make-broadcast-stream))
        (*error-output* (make-broadcast-stream))
        (said *standard-output*))
    (call-with-folder
     (lambda (folder)
       (load-lisp-half folder)
       (multiple-value-bind (size places) (tapped-places folder)
         (let ((expected (mapcar #'rest *places*))
               (*standard-output* said))
           (report (and (plusp size) (equal places expected))
                   "the tap gives three forms a sidecar of ~D octet~:P and ~:[no places~;~:*the places ~{~{~D:~D~}~^ ~}~] (they are at ~{~{~D:~D~}~^ ~})."
                   size places expected)))))))

(defun check-used-internals ()
  "What the Lisp half uses of SBCL's internals must be what it was written for: this names what is not."
  (handler-bind ((warning #'muffle-warning))
    (dolist (file '("package.lisp" "internals/table.lisp"))
      (load (merge-pathnames file *load-truename*))))
  (let ((differences (half "INTERNAL-DIFFERENCES"))
        (used (length (symbol-value (find-symbol "*INTERNALS*" "STEELBANK")))))
    (dolist (difference differences)
      (report nil "~A" difference))
    (report (null differences)
            "~[~:;~:*~D of ~]~D internal symbols are ~:[not ~;~]what the Lisp half uses them as."
            (length differences) used (null differences))))

(defun run ()
  "Run every check and leave Lisp with the exit code that says whether all of them hold."
  (handler-case (progn (check-internals) (check-form-numbers) (check-used-internals) (check-tap))
    (error (condition)
      (report nil "the self-test itself stopped: ~A" condition)))
  (format t "~:[SBCL ~A fails the self-test~;SBCL ~A passes the self-test~].~%"
          (zerop *failures*) (lisp-implementation-version))
  (finish-output)
  (sb-ext:exit :code (if (zerop *failures*) 0 1) :abort t))

(run)
