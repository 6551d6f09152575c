;;;; Prints the answers of sb-introspect and Swank as lines FILE:LINE. It is loaded into the SBCL
;;;; that apt installs, and evaluates each form that it reads from standard input.

(require :asdf)
(require :sb-introspect)

(defun place (file offset)
  "Print FILE and the line of the first text after OFFSET characters that is not white space."
  (with-open-file (stream file)
    (let ((line 1))
      (loop repeat offset when (eql (read-char stream nil) #\Newline) do (incf line))
      (loop for next = (read-char stream nil)
            while (member next '(#\Newline #\Space)) when (eql next #\Newline) do (incf line))
      (format t "~a:~d~%" (file-namestring file) line))))

(defun form-offset (file number)
  "Return the position in FILE after NUMBER top-level forms."
  (with-open-file (stream file)
    (let ((*read-suppress* t)) (loop repeat number do (read stream)))
    (file-position stream)))

(defun sources (sources)
  (dolist (source sources)
    (let ((file (sb-introspect:definition-source-pathname source))
          (form (first (sb-introspect:definition-source-form-path source))))
      (when file
        (place file (or (sb-introspect:definition-source-character-offset source)
                        (form-offset file (or form 0))))))))

(defun who (question name)
  "Print the positions that sb-introspect's function QUESTION returns for NAME."
  (sources (mapcar #'cdr (funcall (find-symbol (string question) :sb-introspect) name))))

(defun defined (name &rest kinds)
  (dolist (kind kinds) (sources (sb-introspect:find-definition-sources-by-name name kind))))

(defun named (part package)
  "Print the positions of the functions with PART in their names."
  (dolist (symbol (apropos-list part package)) (defined symbol :function)))

(defun locations (answers)
  "Print the positions in ANSWERS, which are Swank's lists of a name and a location."
  (loop for (nil location) in answers
        for (kind (nil file) (nil position)) = location
        when (eq kind :location) do (place file (1- position))))

(defun swank (function &rest arguments)
  (progv (list (find-symbol "*BUFFER-PACKAGE*" :swank) (find-symbol "*BUFFER-READTABLE*" :swank))
      (list *package* *readtable*)
    (apply (find-symbol (string function) :swank) arguments)))

(defun swank-who (kind name) (locations (swank :xref kind name)))

(defun swank-defined (name) (locations (swank :find-definitions-for-emacs name)))

(defun swank-named (part package)
  (dolist (found (swank :apropos-list-for-emacs part nil nil package))
    (swank-defined (getf found :designator))))

(defun answer ()
  (loop for form = (read *standard-input* nil)
        while form do (handler-case (eval form)
                        (error (condition) (format t "; ~a~%" (type-of condition))))
                      (format t "~&;;; end~%") (finish-output)))
