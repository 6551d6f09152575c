;;;; How names are looked up and printed. Nothing here interns.

(in-package :steelbank)

(defun find-named-symbol (name package-name)
  "Find the symbol called NAME in the package called PACKAGE-NAME, both exactly as given.
Returns the symbol, and :INTERNAL, :EXTERNAL or :INHERITED; or NIL and :NO-SYMBOL or :NO-PACKAGE."
  (check-type name string)
  (check-type package-name string)
  (let ((package (find-package package-name)))
    (if (null package)
        (values nil :no-package)
        (multiple-value-bind (symbol status) (find-symbol name package)
          (values symbol (or status :no-symbol))))))

(defmacro with-plain-printing (&body body)
  "Run BODY with the printer's variables at plain values, whatever the user's code has made of them."
  `(let ((*print-array* t) (*print-base* 10) (*print-case* :upcase) (*print-circle* nil)
         (*print-escape* t) (*print-gensym* t) (*print-length* nil) (*print-level* nil)
         (*print-lines* nil) (*print-miser-width* nil) (*print-pprint-dispatch* *plain-pprint-dispatch*)
         (*print-pretty* nil) (*print-radix* nil) (*print-readably* nil) (*print-right-margin* nil)
         (*read-default-float-format* 'single-float)
         (*readtable* *plain-readtable*)
         (*package* (find-package :steelbank-nothing)))
     ,@body))

(defpackage :steelbank-nothing
  (:documentation "An empty package: to print from, so that every symbol gets its prefix.")
  (:use))

(defvar *plain-readtable* (copy-readtable nil)
  "The standard readtable, out of reach of the user's changes.")

(defvar *plain-pprint-dispatch* (copy-pprint-dispatch nil)
  "The standard dispatch table, out of reach of the user's changes.")

(defun symbol-text (symbol)
  "SYMBOL as readers of answers see it: home package's full name, two colons, name, always; #: where it has no home."
  (check-type symbol symbol)
  (let ((package (symbol-package symbol)))
    (with-plain-printing
      (flet ((token (string)
               ;; An uninterned symbol of that name prints with the bars and backslashes that it needs.
               (let ((*print-gensym* nil))
                 (prin1-to-string (make-symbol string)))))
        (if package
            (concatenate 'string (token (package-name package)) "::" (token (symbol-name symbol)))
            (concatenate 'string "#:" (token (symbol-name symbol))))))))

(defun name-text (name)
  "A function name or a list that names code, such as (SETF PKG::NAME), with every symbol as in SYMBOL-TEXT."
  (typecase name
    (symbol (symbol-text name))
    (cons (with-output-to-string (stream)
            (write-char #\( stream)
            (loop for (element . more) on name
                  do (write-string (if (null element) "()" (name-text element)) stream)
                     (cond ((null more))
                           ((consp more) (write-char #\space stream))
                           (t (format stream " . ~a" (name-text more))
                              (return))))
            (write-char #\) stream)))
    (string (with-plain-printing (prin1-to-string name)))
    (t (handler-case (with-plain-printing
                       (let ((*print-length* 10) (*print-level* 3))
                         (prin1-to-string name)))
         (error () "#<unprintable>")))))
