;;;; Looks up and prints names, without interning.

(in-package :steelbank)

(defun find-named-symbol (name package-name)
  "Find the symbol called NAME in the package called PACKAGE-NAME, both exactly as given."
  ;; Return the symbol and :INTERNAL, :EXTERNAL or :INHERITED, or NIL and :NO-SYMBOL or :NO-PACKAGE.
  (check-type name string)
  (check-type package-name string)
  (let ((package (find-package package-name)))
    (if (null package)
        (values nil :no-package)
        (multiple-value-bind (symbol status) (find-symbol name package)
          (values symbol (or status :no-symbol))))))

(defmacro with-plain-printing (&body body)
  "Run BODY with the printer's variables at their standard values, whatever user code has set."
  `(let ((*print-array* t) (*print-base* 10) (*print-case* :upcase) (*print-circle* nil)
         (*print-escape* t) (*print-gensym* t) (*print-length* nil) (*print-level* nil)
         (*print-lines* nil) (*print-miser-width* nil) (*print-pretty* nil) (*print-radix* nil)
         (*print-pprint-dispatch* *plain-pprint-dispatch*)
         (*print-readably* nil) (*print-right-margin* nil)
         (*read-default-float-format* 'single-float) (*readtable* *plain-readtable*)
         (*package* (find-package :steelbank-nothing)))
     ,@body))

(defpackage :steelbank-nothing
  (:documentation "An empty package. Printing from it gives every symbol a package prefix.")
  (:use))

(defvar *plain-readtable* (copy-readtable nil)
  "A copy of the standard readtable that user code cannot change.")

(defvar *plain-pprint-dispatch* (copy-pprint-dispatch nil)
  "A copy of the standard dispatch table that user code cannot change.")

;;; Symbols are printed with their home package and two colons, in standard syntax. Exceptions:
;;; symbols without a home package have the prefix #:. Keywords and lambda-list keywords in
;;; arguments and specializers are printed as in source code. The first symbol of a name in a list,
;;; such as SETF, and EQL in a specializer have no prefix.

(defmacro with-plain-string ((name) &body body)
  "Compile BODY once for each type of string that the variable NAME, a PLAIN-STRING, can have."
  `(etypecase ,name
     (simple-base-string ,@body)
     ((simple-array character (*)) ,@body)))

(deftype plain-string ()
  "A string of a type that the reader creates for names of symbols."
  '(or simple-base-string (simple-array character (*))))

(defun plain-name-p (name)
  "Return true if NAME certainly needs no escapes in standard syntax and is not read as a number."
  (flet ((letter-p (character) (char<= #\A character #\Z))
         (digit-p (character) (char<= #\0 character #\9))
         (mark-p (character)
           (case character
             ((#\* #\% #\+ #\< #\> #\= #\/ #\! #\? #\& #\$ #\_ #\- #\@) t))))
    (declare (inline letter-p digit-p mark-p))
    (and (typep name 'plain-string)
         (plusp (length name))
         (with-plain-string (name)
           ;; A token that begins with a letter is not a potential number.
           (let ((digits (letter-p (char name 0))))
             (loop for character across name
                   always (or (letter-p character)
                              (mark-p character)
                              (and digits (digit-p character)))))))))

(defun escaped-name (name)
  "Return NAME as the printer writes a symbol of that name in standard syntax, without a package."
  (check-type name string)
  (if (plain-name-p name)
      name
      (with-standard-io-syntax
        (let ((*print-gensym* nil) (*print-readably* nil))
          (prin1-to-string (make-symbol name))))))

(defun qualified-name (symbol)
  "Return SYMBOL's name with its home package and two colons, or with #: if it has no package."
  (let* ((package (symbol-package symbol))
         ;; A package that another thread has just deleted has no name.
         (package-name (and package (package-name package)))
         (name (escaped-name (symbol-name symbol))))
    (if package-name
        (concatenate 'string (escaped-name package-name) "::" name)
        (concatenate 'string "#:" name))))

;; Objects in EQL specializers can be of any size, or circular.
(defvar *parts-left* 0
  "The number of list elements that may still be printed as part of the current name.")

(defun write-form (form stream depth)
  "Write FORM, an argument or a specializer in a name, with qualified symbols."
  (cond ((keywordp form)
         (write-char #\: stream) (write-string (escaped-name (symbol-name form)) stream))
        ((and (symbolp form) (member form lambda-list-keywords))
         (write-string (symbol-name form) stream))
        ((and (null form) (zerop depth)) (write-string "()" stream))
        ((symbolp form) (write-string (qualified-name form) stream))
        ((and (consp form) (< depth 8) (plusp *parts-left*))
         (write-char #\( stream)
         (loop for (part . rest) on form
               for count from 0
               do (cond ((and (zerop count) (or (eq part 'eql) (eq part +class-eq+)))
                         (write-string (symbol-name part) stream))
                        ((minusp (decf *parts-left*)) (write-string "..." stream) (return))
                        (t (write-form part stream (1+ depth))))
                  (cond ((null rest))
                        ((consp rest) (write-char #\Space stream))
                        (t (write-string " . " stream) (write-form rest stream (1+ depth)))))
         (write-char #\) stream))
        ((consp form) (write-string "(...)" stream))
        (t (write-object form stream))))

(defun write-plainly (object stream)
  "Write OBJECT, a number, character or string, in standard syntax."
  (with-standard-io-syntax
    (let ((*print-readably* nil))
      (prin1 object stream))))

(defun write-object (object stream)
  "Write OBJECT, which is neither a symbol nor a list."
  ;; Print fixnums, floats, characters, the start of strings, and the names of classes. For any
  ;; other object, print only the type, because the object may be large and printing it may run user
  ;; code.
  (typecase object
    ((or fixnum float character)
     (write-plainly object stream))
    (string (write-plainly (if (> (length object) 200) (subseq object 0 200) object) stream))
    (class (write-form (class-name object) stream 0))
    (t (write-string "#<" stream)
       (write-form (type-of object) stream 7)
       (write-string ">" stream))))

(defun write-name (name stream)
  "Write NAME, the name of a function or of something that it uses, as answers show it."
  ;; Examples are (SETF PKG::NAME) and (METHOD PKG::NAME (PKG::CLASS)).
  (cond ((symbolp name) (write-string (qualified-name name) stream))
        ((stringp name) (write-object name stream))
        ((and (consp name) (symbolp (first name)) (proper-list-p name))
         (write-char #\( stream)
         (write-string (if (or (eq (first name) +fast-method+) (eq (first name) +slow-method+))
                           "METHOD"
                           (escaped-name (symbol-name (first name))))
                       stream)
         (loop with in = nil
               for count from 0
               for part in (rest name)
               do (write-char #\Space stream)
                  (cond ((or in (and (zerop count) (consp part)
                                     (or (member (first part) '(setf sb-ext:cas))
                                         (eq (first part) +slot-accessor+))))
                         (write-name part stream))
                        (t (write-form part stream 0)))
                  (setf in (eq part :in)))
         (write-char #\) stream))
        (t (write-form name stream 0))))

(defun name-text (name)
  "Return NAME as answers show it."
  (if (symbolp name)
      (qualified-name name)
      (let ((*print-pretty* nil)
            (*parts-left* 500))
        (with-output-to-string (stream) (write-name name stream)))))

(defun symbol-text (symbol)
  "Return SYMBOL as answers show it."
  (check-type symbol symbol)
  (name-text symbol))
