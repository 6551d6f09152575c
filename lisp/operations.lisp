;;;; The operations that the host can ask for: one entry for each of enum steelbank_operation.

(in-package :steelbank)

(define-operation identify 1 ()
  "Versions and sizes of the image, as JSON."
  (json-string (object "lisp" (lisp-implementation-version)
                       "machine" (machine-type)
                       "abi" +abi+
                       "packages" (length (list-all-packages))
                       "dynamic_space_octets" (sb-ext:dynamic-space-size)
                       "dynamic_space_used_octets" (heap-usage)
                       "threads" (mapcar #'describe-thread (sb-thread:list-all-threads))
                       "modules" (sort (remove-duplicates (mapcar #'string-downcase *modules*) :test #'string=)
                                       #'string<)
                       "background_output" (let ((text (output-text *background-output*)))
                                             (and (plusp (length text)) (copy-seq text))))))

(define-operation describe-symbol 2 (name package)
  "Every facet of the symbol called NAME in PACKAGE, as JSON, or that there is none."
  (multiple-value-bind (symbol status) (find-named-symbol name package)
    (if (member status '(:no-symbol :no-package))
        (json-string (missing-object status))
        (json-string (describe-symbol-facets symbol status)))))

(define-operation print-value 3 (name package)
  "The value of the variable called NAME in PACKAGE, printed within limits, as JSON."
  (multiple-value-bind (symbol status) (find-named-symbol name package)
    (cond ((member status '(:no-symbol :no-package))
           (json-string (missing-object status)))
          ((not (boundp symbol))
           (json-string (object "status" "unbound")))
          (t
           (multiple-value-bind (text cut) (print-value symbol)
             (json-string (object "status" "printed" "text" text "cut" (and cut :true))))))))

(defun call-with-values-of (package source function)
  "Read and evaluate the forms of SOURCE in PACKAGE, and call FUNCTION with the list of the last one's values."
  (let ((*package* (or (find-package package)
                       (error "Package ~a not found." package)))
        (values '()))
    (with-input-from-string (stream source)
      (loop with end = (list nil)
            for form = (read stream nil end)
            until (eq form end)
            do (setf values (multiple-value-list (eval form)))))
    (funcall function values)))

(define-operation evaluate 4 (package source)
  "Read and evaluate the forms of SOURCE in PACKAGE. The values of the last one, printed within limits, as JSON."
  (flet ((text (value)
           (let ((stream (make-instance 'limited-output :limit *value-limit*
                                                        :when-full (lambda () (throw 'enough nil)))))
             (catch 'enough
               (let ((*print-length* 100) (*print-level* 10) (*print-circle* t))
                 (prin1 value stream)))
             (output-text stream))))
    (call-with-values-of package source
                         (lambda (values)
                           (json-string (object "values" (mapcar #'text values)))))))

(define-operation evaluate-json 25 (package source)
  "Read and evaluate the forms of SOURCE in PACKAGE. The last one's first value itself as JSON; see VALUE-JSON."
  (call-with-values-of package source (lambda (values) (json-string (value-json (first values))))))

(defun outcome-text (function milliseconds)
  "The outcome that FUNCTION, called with a number of seconds, returns. It is not lost if the host interrupts when the
load is over anyway, or if the load has left the heap full."
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

(define-operation load-system 11 (system definition force milliseconds)
  "Load SYSTEM, which the file DEFINITION defines unless that is empty, through ASDF, from scratch when FORCE is
\"force\", within MILLISECONDS. When the first line of FORCE is \"before\", the load ends before the first of the files
that the other lines name. Progress is reported meanwhile."
  (outcome-text (lambda (seconds)
                  (destructuring-bind (&optional how &rest files) (lines-of force)
                    (load-system system :definition (and (plusp (length definition)) definition)
                                        :force (equal how "force")
                                        :before (and (equal how "before") files)
                                        :timeout-seconds seconds
                                        :progress #'send-progress)))
                milliseconds))

(define-operation load-file 12 (path milliseconds)
  "Compile and load the file PATH within MILLISECONDS."
  (outcome-text (lambda (seconds) (load-file path :timeout-seconds seconds)) milliseconds))

(define-operation list-systems 13 ()
  "The contents of the image: the files that were loaded through us, and the systems that ASDF knows."
  (json-string (image-json)))

(defun lines-of (text)
  "The lines of TEXT as a list of strings; none of an empty text."
  (with-input-from-string (stream text)
    (loop for line = (read-line stream nil)
          while line collect line)))

(define-operation mark-definitions 15 (files)
  "Remember the definitions that stand in FILES, native names, one a line, for LEFTOVERS."
  (json-string (object "marked" (mark-definitions (lines-of files)))))

(define-operation leftovers 16 (files remove)
  "The definitions that the image has and FILES, one a line, do not have any more. They are taken out when REMOVE is
\"remove\"."
  (json-string (leftovers-json (lines-of files) (string= remove "remove"))))

(define-operation find-definitions 14 (name package)
  "Every definition of the symbol called NAME in PACKAGE, and of its SETF function, whose source file is known, as JSON."
  (multiple-value-bind (symbol status) (find-named-symbol name package)
    (if (member status '(:no-symbol :no-package))
        (json-string (missing-object status))
        (json-string (object "status" "found" "definitions" (definitions-json symbol))))))

(define-operation xref-export 5 (since)
  "The export of what the host's index lacks since the code serial number SINCE, as packed columns."
  (xref-export (parse-integer since)))

(define-operation record-inputs 24 ()
  "Start recording the files and environment variables that are read, for SNAPSHOT-INPUTS."
  (record-inputs)
  (json-string (object)))

(define-operation snapshot-inputs 20 (extent)
  "The inputs of the image, as JSON. When EXTENT is \"part\", systems of which nothing is loaded are forgotten before
that."
  (json-string (snapshot-inputs (string= extent "part"))))

(define-operation xref-baseline 21 ()
  "All cross references, as packed columns. Later exports are measured against this one."
  (xref-baseline))

(define-operation prepare-save 22 (path)
  "Have the core be saved as PATH once the host gives the main thread back. Returns the obstacles, a JSON array of
sentences."
  (json-string (coerce (prepare-save path) 'vector)))

(define-operation set-overlays 23 (cache lines)
  "Make this a scratch image, which writes to the folder CACHE. LINES are files and what holds their texts, in turn; an empty
line means that the file is as good as deleted."
  (use-cache cache)
  (set-overlays (loop for (file text) on (uiop:split-string lines :separator '(#\Newline)) by #'cddr
                      when (plusp (length file))
                        collect (list file (and (plusp (length text)) text))))
  (json-string (object)))

(define-operation ask 30 (question &rest arguments)
  "The answer to one of the questions that DEFINE-QUESTION defines, as JSON."
  (json-string (answer-question question arguments)))
