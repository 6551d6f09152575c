;;;; Questions about the image and about symbols, the orders of the host, and what questions share.

(in-package :steelbank)

(defun missing-object (status)
  "The answer for a symbol or package that is not there; STATUS as from FIND-NAMED-SYMBOL."
  (object "status" (ecase status
                     (:no-package "no-package")
                     (:no-symbol "no-symbol"))))

(defun given (text)
  "TEXT, or NIL if it is empty, which is how the host passes an argument that was left out."
  (and (plusp (length text)) text))

(defun first-line (text)
  "The first line of TEXT that is not blank, without the blanks around it; NIL if there is none."
  (when text
    (with-input-from-string (stream text)
      (loop for line = (read-line stream nil)
            while line
            do (let ((line (string-trim '(#\Space #\Tab) line)))
                 (when (plusp (length line))
                   (return (if (> (length line) 160) (concatenate 'string (subseq line 0 160) "...") line))))))))

(defun lines-of (text)
  "The lines of TEXT as a list of strings; none of an empty text."
  (with-input-from-string (stream text)
    (loop for line = (read-line stream nil)
          while line collect line)))

(define-question "identify" ()
  "Versions and sizes of the image."
  (object "lisp" (lisp-implementation-version)
          "machine" (machine-type)
          "abi" +abi+
          "packages" (length (list-all-packages))
          "dynamic_space_octets" (sb-ext:dynamic-space-size)
          "dynamic_space_used_octets" (heap-usage)
          "threads" (mapcar #'describe-thread (sb-thread:list-all-threads))
          "modules" (sort (remove-duplicates (mapcar #'string-downcase *modules*) :test #'string=) #'string<)
          "background_output" (let ((text (output-text *background-output*)))
                                (and (plusp (length text)) (copy-seq text)))))

(defmacro with-named-symbol ((symbol status) (name package) &body body)
  "The values of BODY, with SYMBOL and STATUS standing for what FIND-NAMED-SYMBOL finds; if nothing, the answer for that."
  `(multiple-value-bind (,symbol ,status) (find-named-symbol ,name ,package)
     (if (member ,status '(:no-symbol :no-package))
         (missing-object ,status)
         (progn ,@body))))

(define-question "describe-symbol" (name package)
  "Every facet of the symbol called NAME in PACKAGE, its value excepted, or that there is none."
  (with-named-symbol (symbol status) (name package)
    (describe-symbol-facets symbol status)))

(define-question "print-value" (name package)
  "The value of the variable called NAME in PACKAGE, printed within limits. Runs print-object methods."
  (with-named-symbol (symbol status) (name package)
    (if (boundp symbol)
        (multiple-value-bind (text cut) (print-value symbol)
          (object "status" "printed" "text" text "cut" (and cut :true)))
        (object "status" "unbound"))))

(define-question "find-definitions" (name package)
  "Every definition of the symbol called NAME in PACKAGE, and of its SETF function, whose source file is known."
  (with-named-symbol (symbol status) (name package)
    (object "status" "found" "definitions" (definitions-json symbol))))

(define-question "values" (package source &optional json)
  "Read and evaluate the forms of SOURCE in PACKAGE, with nothing around them: an error ends the call. The values of the last one,
printed within limits; or with JSON its first value itself, see VALUE-JSON."
  (let ((*package* (or (find-package package)
                       (error "Package ~a not found." package)))
        (values '()))
    (with-input-from-string (stream source)
      (loop with end = (list nil)
            for form = (read stream nil end)
            until (eq form end)
            do (setf values (multiple-value-list (eval form)))))
    (flet ((text (value)
             (let ((stream (make-instance 'limited-output :limit *value-limit*
                                                          :when-full (lambda () (throw 'enough nil)))))
               (catch 'enough
                 (let ((*print-length* 100) (*print-level* 10) (*print-circle* t))
                   (prin1 value stream)))
               (output-text stream))))
      (if json
          (value-json (first values))
          (object "values" (mapcar #'text values))))))

;;; Loads

(defun outcome-of (function milliseconds &key (systems t))
  "The outcome that FUNCTION, called with a number of seconds, returns, as octets; SYSTEMS is as of OUTCOME-JSON. It is not lost if
the host interrupts when the load is over anyway, or if the load has left the heap full."
  (let ((*leave-call* (constantly nil))
        (*checking-heap* t))
    (text-octets (json-string (outcome-json (funcall function (/ milliseconds 1000)) :systems systems)))))

(define-question "open-project" (root cache userinit milliseconds)
  "Register the systems below ROOT, if given, with fasls and sidecars in CACHE; load the file USERINIT, if given. Within
MILLISECONDS."
  (outcome-of (lambda (seconds)
                (open-project root cache :userinit userinit :timeout-seconds seconds))
              milliseconds))

(define-question "load-system" (system definition force keep-going milliseconds)
  "Load SYSTEM through ASDF, which the file DEFINITION defines, if given, within MILLISECONDS; with FORCE, from scratch; with
KEEP-GOING, also behind files that do not compile. Progress is reported meanwhile."
  (outcome-of (lambda (seconds)
                (load-system system :definition definition :force force :keep-going keep-going
                                    :progress #'send-progress :timeout-seconds seconds))
              milliseconds))

(define-question "load-systems" (systems keep-going milliseconds)
  "Load SYSTEMS, pairs of a name and the file that defines it, through ASDF within MILLISECONDS; with KEEP-GOING, also behind files
that do not compile."
  (outcome-of (lambda (seconds) (load-systems systems :keep-going keep-going :timeout-seconds seconds)) milliseconds))

(define-question "load-file" (path systems milliseconds)
  "Compile and load the file PATH within MILLISECONDS. With SYSTEMS, the outcome lists them."
  (outcome-of (lambda (seconds) (load-file path :timeout-seconds seconds)) milliseconds :systems systems))

(define-question "mark-definitions" (files)
  "Remember the definitions that stand in FILES, native names, for \"leftovers\"."
  (object "marked" (mark-definitions files)))

(define-question "leftovers" (files gone remove)
  "The definitions that the image has and FILES, of which GONE are no more, do not have. REMOVE takes them out."
  (leftovers-json files gone remove))

;;; The index, snapshots and copies

(define-question "xref-export" (since)
  "The export of what the host's index lacks since the code serial number SINCE, as packed columns."
  (xref-export since))

(define-question "xref-baseline" ()
  "All cross references, as packed columns. Later exports are measured against this one."
  (xref-baseline))

(define-question "record-inputs" ()
  "Start recording the files and environment variables that are read, for \"snapshot-inputs\"."
  (record-inputs)
  (object))

(define-question "snapshot-inputs" ()
  "The inputs of the image."
  (snapshot-inputs))

(define-question "load-order" ()
  "The systems that were loaded since \"record-inputs\", in order."
  (load-order))

(define-question "prepare-save" (path)
  "Have the core be saved as PATH once the host gives the main thread back. Returns the obstacles as sentences."
  (prepare-save path))

(define-question "set-overlays" (cache overlays)
  "Make this a scratch image, which writes to the folder CACHE. OVERLAYS are pairs of a file and what holds its text; without that, the
file is as good as deleted."
  (use-huge-pages)
  (use-cache cache)
  (set-overlays overlays)
  (object))
