;;;; What the host can ask for. One entry each of enum steelbank_operation.

(in-package :steelbank)

(defun missing-json (status)
  "The answer for a symbol or package that is not there; STATUS as from FIND-NAMED-SYMBOL."
  (json-string (object "status" (ecase status
                                  (:no-package "no-package")
                                  (:no-symbol "no-symbol")))))

(define-operation identify 1 ()
  "Versions and sizes of the image, as JSON."
  (json-string (object "lisp" (lisp-implementation-version)
                       "machine" (machine-type)
                       "abi" +abi+
                       "packages" (length (list-all-packages))
                       "dynamic_space_octets" (sb-ext:dynamic-space-size)
                       "dynamic_space_used_octets" (sb-kernel:dynamic-usage)
                       "threads" (mapcar #'describe-thread (sb-thread:list-all-threads))
                       "modules" (sort (mapcar #'string-downcase *modules*) #'string<)
                       "background_output" (let ((text (output-text *background-output*)))
                                             (and (plusp (length text)) (copy-seq text))))))

(define-operation describe-symbol 2 (name package)
  "Every facet of the symbol called NAME in PACKAGE, as JSON, or that there is none."
  (multiple-value-bind (symbol status) (find-named-symbol name package)
    (if (member status '(:no-symbol :no-package))
        (missing-json status)
        (json-string (describe-symbol-facets symbol status)))))

(define-operation print-value 3 (name package)
  "The value of the variable called NAME in PACKAGE, printed within limits, as JSON."
  (multiple-value-bind (symbol status) (find-named-symbol name package)
    (cond ((member status '(:no-symbol :no-package))
           (missing-json status))
          ((not (boundp symbol))
           (json-string (object "status" "unbound")))
          (t
           (multiple-value-bind (text cut) (print-value symbol)
             (json-string (object "status" "printed" "text" text "cut" (and cut :true))))))))

(define-operation evaluate 4 (package source)
  "Read and evaluate the forms of SOURCE in PACKAGE. The values of the last one, printed within limits, as JSON."
  (let ((*package* (or (find-package package)
                       (error "Package ~a not found." package)))
        (values '()))
    (with-input-from-string (stream source)
      (loop with end = (list nil)
            for form = (read stream nil end)
            until (eq form end)
            do (setf values (multiple-value-list (eval form)))))
    (json-string
     (object "values" (mapcar (lambda (value)
                                (let ((stream (make-instance 'limited-output :limit *value-limit*
                                                             :when-full (lambda () (throw 'enough nil)))))
                                  (catch 'enough
                                    (let ((*print-length* 100) (*print-level* 10) (*print-circle* t))
                                      (prin1 value stream)))
                                  (output-text stream)))
                              values)))))

(defun outcome-text (function milliseconds)
  "The outcome that FUNCTION, called with a number of seconds, returns. That the host interrupts when the load is over
anyway, or that the load has left the heap full, is no reason to lose it."
  (let ((*leave-call* (constantly nil))
        (*checking-heap* t))
    (json-string (outcome-json (funcall function (/ (parse-integer milliseconds) 1000))))))

(define-operation open-project 10 (root cache userinit milliseconds)
  "Register the systems below ROOT unless empty, with fasls and sidecars in CACHE; load the file USERINIT unless empty.
Within MILLISECONDS."
  (flet ((given (text) (and (plusp (length text)) text)))
    (outcome-text (lambda (seconds)
                    (open-project (given root) cache :userinit (given userinit) :timeout-seconds seconds))
                  milliseconds)))

(define-operation load-system 11 (system force milliseconds)
  "Load SYSTEM through ASDF, from scratch when FORCE is \"force\", within MILLISECONDS. News comes meanwhile."
  (outcome-text (lambda (seconds)
                  (load-system system :force (string= force "force")
                                      :timeout-seconds seconds
                                      :progress #'send-progress))
                milliseconds))

(define-operation load-file 12 (path milliseconds)
  "Compile and load the file PATH within MILLISECONDS."
  (outcome-text (lambda (seconds) (load-file path :timeout-seconds seconds)) milliseconds))

(define-operation list-systems 13 (root)
  "What the project at ROOT defines, what of it is loaded, and what has changed on disk since."
  (json-string (mapcar #'system-json (list-systems root))))

(define-operation find-definitions 14 (name package)
  "Where the symbol called NAME in PACKAGE is defined, as whatever it is defined, as JSON."
  (multiple-value-bind (symbol status) (find-named-symbol name package)
    (if (member status '(:no-symbol :no-package))
        (missing-json status)
        (json-string (object "status" "found" "definitions" (definitions-json symbol))))))

(define-operation xref-export 5 (since)
  "What the host's index must learn since the code serial number SINCE, as packed columns."
  (xref-export (parse-integer since)))
