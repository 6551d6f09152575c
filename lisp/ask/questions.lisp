;;;; The host's questions about the image and its symbols, the host's orders to load and save,
;;;; and helper functions for both.

(in-package :steelbank)

(defun missing-object (status)
  "Return the answer for a missing symbol or package. STATUS is as from FIND-NAMED-SYMBOL."
  (object "status" (ecase status
                     (:no-package "no-package")
                     (:no-symbol "no-symbol"))))

(defun given (text)
  "Return TEXT, or NIL if it is empty, which is how the host passes an omitted argument."
  (and (plusp (length text)) text))

(defun first-line (text)
  "Return the first line of TEXT that is not blank, trimmed and truncated, or NIL."
  (when text
    (with-input-from-string (stream text)
      (loop for line = (read-line stream nil)
            while line
            do (let ((line (string-trim '(#\Space #\Tab) line)))
                 (when (plusp (length line))
                   (return (if (> (length line) 160)
                               (concatenate 'string (subseq line 0 160) "...")
                               line))))))))

(defun lines-of (text)
  "Return the lines of TEXT as a list of strings."
  (with-input-from-string (stream text)
    (loop for line = (read-line stream nil)
          while line collect line)))

(define-question "identify" ()
  "Return versions, sizes, threads, modules and background output of the image."
  (object "lisp" (lisp-implementation-version) "machine" (machine-type) "abi" +abi+
          "packages" (length (list-all-packages))
          "dynamic_space_octets" (sb-ext:dynamic-space-size)
          "dynamic_space_used_octets" (heap-usage)
          "threads" (mapcar #'describe-thread (sb-thread:list-all-threads))
          "modules" (sort (remove-duplicates (mapcar #'string-downcase *modules*) :test #'string=)
                          #'string<)
          "background_output" (let ((text (output-text *background-output*)))
                                (and (plusp (length text)) (copy-seq text)))))

(defmacro with-named-symbol ((symbol status) (name package) &body body)
  "Run BODY with SYMBOL and STATUS bound to the results of FIND-NAMED-SYMBOL."
  ;; If there is no such symbol, return MISSING-OBJECT.
  `(multiple-value-bind (,symbol ,status) (find-named-symbol ,name ,package)
     (if (member ,status '(:no-symbol :no-package))
         (missing-object ,status)
         (progn ,@body))))

(define-question "describe-symbol" (name package)
  "Return every facet of the symbol called NAME in PACKAGE, except its value."
  (with-named-symbol (symbol status) (name package)
    (describe-symbol-facets symbol status)))

(define-question "print-value" (name package)
  "Return the value of the variable called NAME in PACKAGE, printed within limits."
  ;; Runs print-object methods.
  (with-named-symbol (symbol status) (name package)
    (if (boundp symbol)
        (multiple-value-bind (text cut) (print-value symbol)
          (object "status" "printed" "text" text "cut" (and cut :true)))
        (object "status" "unbound"))))

(define-question "find-definitions" (name package)
  "Return the definitions, in recorded files, of symbol NAME of PACKAGE and of its SETF function."
  (with-named-symbol (symbol status) (name package)
    (object "status" "found"
            "defined" (and (or (fboundp symbol)
                               (find-class symbol nil)
                               (not (eq (variable-kind symbol) :unknown)))
                           :true)
            "definitions" (definitions-json symbol))))

(define-question "definitions-in" (&rest files)
  "Return name, package and definitions of each symbol that one of FILES, native names, defines."
  (loop for symbol in (nth-value 1 (definitions-in files))
        collect (list (symbol-name symbol) (package-name (symbol-package symbol))
                      (definitions-json symbol))))

(define-question "values" (package source &optional json)
  "Read and evaluate the forms of SOURCE in PACKAGE; an error ends the call."
  ;; Return the values of the last form, printed within limits. With JSON, return the first value,
  ;; as VALUE-JSON converts it.
  (let ((*package* (or (find-package package)
                       (error "Package ~a not found." package)))
        (values '()))
    (note-difference-from-text)
    (with-input-from-string (stream source)
      (loop with end = (list nil)
            for form = (read stream nil end)
            until (eq form end)
            do (setf values (multiple-value-list (eval form)))))
    (flet ((text (value)
             (let ((stream (make-instance 'limited-output
                                          :limit *value-limit*
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
  "Call FUNCTION with MILLISECONDS converted to seconds, and return the outcome as JSON in octets."
  ;; SYSTEMS is as for OUTCOME-JSON. The outcome must not be lost if the host interrupts when the
  ;; load has just ended, or if the load has filled the heap.
  (let ((*leave-call* (constantly nil))
        (*checking-heap* t))
    (let ((outcome (funcall function (/ milliseconds 1000))))
      (text-octets (json-string (outcome-json outcome :systems systems))))))

(define-question "open-project" (root cache userinit milliseconds)
  "Register the systems below ROOT, if given, and store fasls and sidecars in CACHE."
  ;; Also load the file USERINIT, if given. Stop after MILLISECONDS.
  (outcome-of (lambda (seconds)
                (open-project root cache :userinit userinit :timeout-seconds seconds))
              milliseconds))

(define-question "load-system" (system definition force keep-going milliseconds)
  "Load SYSTEM through ASDF within MILLISECONDS. DEFINITION is the file that defines it, if given."
  ;; FORCE recompiles the system's own files, and KEEP-GOING continues after files that fail to
  ;; compile. Report progress.
  (outcome-of (lambda (seconds)
                (load-system system :definition definition :force force :keep-going keep-going
                                    :progress #'send-progress :timeout-seconds seconds))
              milliseconds))

(define-question "load-systems" (systems keep-going milliseconds)
  "Load SYSTEMS, pairs of a name and the file that defines it, through ASDF within MILLISECONDS."
  ;; KEEP-GOING continues after files that fail to compile.
  (outcome-of (lambda (seconds)
                (load-systems systems :keep-going keep-going :timeout-seconds seconds))
              milliseconds))

(define-question "load-file" (path systems milliseconds)
  "Compile and load PATH within MILLISECONDS. With SYSTEMS, also list the registered systems."
  (outcome-of (lambda (seconds) (load-file path :timeout-seconds seconds))
              milliseconds :systems systems))

(define-question "mark-definitions" (files)
  "Record the definitions in FILES, native names, for \"leftovers\"."
  (object "marked" (mark-definitions files)))

(define-question "leftovers" (files gone)
  "Return the definitions of FILES that were not evaluated when the files were last loaded."
  ;; Files in GONE no longer exist.
  (leftovers-json files gone '()))

(define-question "remove-leftovers" (files gone keys)
  "Remove the leftovers with the KEYS, strings \"FILE KIND NAME\", and return all leftovers."
  (remove-leftovers files gone keys))

;;; The index, snapshots and scratch images

(define-question "xref-export" (since)
  "Return what is newer than the code serial number SINCE for the host's index, as packed columns."
  (xref-export since))

(define-question "xref-baseline" ()
  "Return all cross references, as packed columns. Later exports are relative to this export."
  (xref-baseline))

(define-question "record-inputs" ()
  "Start recording the files and environment variables that are read, for \"snapshot-inputs\"."
  (record-inputs)
  (object))

(define-question "snapshot-inputs" ()
  "Return the files, variables and other inputs that the image depends on; end the recording."
  (snapshot-inputs))

(define-question "load-order" ()
  "Return the systems that were loaded since \"record-inputs\", in order."
  (load-order))

(define-question "prepare-save" (path)
  "Arrange for the core to be saved as PATH when the host returns control to the main thread."
  ;; Return the obstacles as sentences. If there are any, do not arrange the save.
  (prepare-save path))

(define-question "set-overlays" (cache overlays)
  "Make this image a scratch image, which writes to the folder CACHE."
  ;; OVERLAYS is a list of pairs. The first element of a pair is a file. The second is the file with
  ;; the text that replaces its contents, or null if the first file counts as deleted.
  (use-huge-pages)
  (use-cache cache)
  (set-overlays overlays)
  (object))
