;;;; Checks whether an SBCL is suitable for steelbank. This is a plain script: load it with the SBCL
;;;; in question. It prints one line for each check, and exits with 0 if all pass and with 1
;;;; otherwise.

(require "SB-INTROSPECT")

(defpackage "STEELBANK-SELF-TEST"
  (:use "COMMON-LISP"))

(in-package "STEELBANK-SELF-TEST")

;; The number of records differs between versions: 2.5.2 has 505, 2.6.3 has 489. A build without the
;; cross references of SBCL's own code has none.
(defparameter *least-callers-of-mapcar* '(("2.5.2" . 500) (t . 400))
  "The minimum number of records that who-calls MAPCAR must find, by version.")

(defparameter *form*
  '(lambda (x)
    (list (callee x) (callee (car x)) (callee (cdr x))))
  "A function with three calls of CALLEE at different positions, in known order.")

(defvar *failures* 0
  "The number of failed checks.")

(defun report (holds control &rest arguments)
  "Print one line for a check: whether it HOLDS, and CONTROL applied to ARGUMENTS."
  ;; Count failed checks.
  (unless holds (incf *failures*))
  (format t "~:[FAILED~;ok~]: ~?~%" holds control arguments))

(defun callee (x)
  "Return X. *FORM* calls this function."
  x)

(defun caller (x)
  "Return X. Replaced by the function compiled from *FORM*."
  x)

(declaim (notinline callee caller))

(defun calls-in-form (translations)
  "Return the form numbers of the calls of CALLEE in *FORM*, according to TRANSLATIONS."
  ;; Walk *FORM* along the paths in TRANSLATIONS. A path is a form number, then indices from the
  ;; inside out; the last index is that of the top-level form.
  (loop for (number . indices) across translations
        for path = (rest (reverse indices))
        for form = (reduce (lambda (form index) (nth index form)) path :initial-value *form*)
        when (and (consp form) (eq (first form) 'callee))
          collect number))

(defun recorded-calls ()
  "Return the form numbers of the recorded cross references to CALLEE in the compiled *FORM*."
  (setf (fdefinition 'caller) (compile nil *form*))
  (sort (loop for (nil . source) in (sb-introspect:who-calls 'callee)
              collect (sb-introspect:definition-source-form-number source))
        #'<))

(defun check-internals ()
  "Check that SBCL's own code has cross references, which the contracts' examples need."
  (let* ((count (length (sb-introspect:who-calls 'mapcar)))
         (version (lisp-implementation-version))
         (least (rest (or (assoc version *least-callers-of-mapcar* :test #'equal)
                          (assoc t *least-callers-of-mapcar*)))))
    (report (>= count least)
            "who-calls MAPCAR finds ~D records in SBCL's own code (at least ~D required)."
            count least)))

(defun check-form-numbers ()
  "Check that three calls at three positions are recorded with the three expected form numbers."
  (let ((expected (calls-in-form (sb-di:form-number-translations *form* 0)))
        (recorded (recorded-calls)))
    (report (and (= 3 (length expected)) (equal expected recorded))
            "three calls in one function are recorded at form numbers ~{~D~^, ~} (expected ~
             ~{~D~^, ~})."
            recorded expected)))

(defparameter *three-forms*
  (format nil "(defvar *taken* 1)~%(defun take (x)~%  (list \"é\" (car x)))~%~
               (take (list *taken*))~%")
  "The text of a file with three top-level forms.")

(defparameter *places*
  '(((0 0) 1 1) ((1 0) 2 1) ((1 2) 3 3) ((1 3) 3 13) ((2 0) 4 1) ((2 1) 4 7))
  "The positions of forms in *THREE-FORMS*: top-level form and form number, line, column.")

(defun half (name &rest arguments)
  "Call the function NAME of the Lisp half."
  (apply (find-symbol name "STEELBANK") arguments))

(defun call-with-folder (function)
  "Call FUNCTION with the pathname of a new folder, which is deleted afterwards."
  (let* ((name (format nil "steelbank-~36R/" (random (expt 2 64) (make-random-state t))))
         (parent (sb-ext:parse-native-namestring (or (sb-ext:posix-getenv "TMPDIR") "/tmp") nil
                                                 *default-pathname-defaults* :as-directory t))
         (folder (merge-pathnames name parent)))
    (unwind-protect (progn (ensure-directories-exist folder)
                           (funcall function folder))
      (sb-ext:delete-directory folder :recursive t))))

(defun load-lisp-half (folder)
  "Compile the Lisp half in this file's folder into FOLDER, and load it."
  ;; Ignore this machine's ASDF configuration.
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
  "Compile *THREE-FORMS*, a file in FOLDER, with the tap."
  ;; Return the size of the sidecar, and its positions for *PLACES*.
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
                                   for position = (values (half "TAP-POSITION" tap form number))
                                   collect (multiple-value-list
                                            (half "TAP-LINE-AND-COLUMN" tap position))))))
      (compile-file path :external-format :utf-8))
    (values size places)))

(defun check-tap ()
  "Check that the tap records what the reader reads during compilation, for exact positions."
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
                   "the tap writes a sidecar of ~D octet~:P for three forms, with ~:[no ~
                    positions~;~:*the positions ~{~{~D:~D~}~^ ~}~] (expected ~{~{~D:~D~}~^ ~})."
                   size places expected)))))))

(defun check-used-internals ()
  "Check that SBCL's internals are as the Lisp half expects, and report those that differ."
  (handler-bind ((warning #'muffle-warning))
    (dolist (file '("package.lisp" "internals/table.lisp"))
      (load (merge-pathnames file *load-truename*))))
  (let ((differences (half "INTERNAL-DIFFERENCES"))
        (used (length (symbol-value (find-symbol "*INTERNALS*" "STEELBANK")))))
    (dolist (difference differences)
      (report nil "~A" difference))
    (report (null differences)
            "~[~:;~:*~D of ~]~D internal symbols are ~:[not ~;~]as the Lisp half expects."
            (length differences) used (null differences))))

(defun run ()
  "Run every check, and exit with a code that reports whether all passed."
  (handler-case (progn (check-internals) (check-form-numbers) (check-used-internals) (check-tap))
    (error (condition)
      (report nil "the self-test itself failed: ~A" condition)))
  (format t "~:[SBCL ~A fails the self-test~;SBCL ~A passes the self-test~].~%"
          (zerop *failures*) (lisp-implementation-version))
  (finish-output)
  (sb-ext:exit :code (if (zerop *failures*) 0 1) :abort t))

(run)
