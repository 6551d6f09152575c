;;;; describe-symbol: every facet of one symbol. Only PRINT-VALUE runs code of the user's (print-object methods).

(in-package :steelbank)

(defun symbol-classification (symbol)
  "The one word that the describe-symbol contract puts in brackets."
  (cond ((and (fboundp symbol) (macro-function symbol)) "MACRO")
        ((and (fboundp symbol) (typep (fdefinition symbol) 'generic-function)) "GENERIC-FUNCTION")
        ((fboundp symbol) "FUNCTION")
        ((find-class symbol nil) "CLASS")
        ((boundp symbol) "VARIABLE")
        (t "SYMBOL")))

(defun lambda-list-text (lambda-list)
  "LAMBDA-LIST with its names as the programmer wrote them, without package prefixes; () if it is empty."
  (labels ((text (form)
             (typecase form
               (null "()")
               (symbol (token form))
               (cons (case (car form)
                       (quote (if (and (consp (cdr form)) (null (cddr form)))
                                  (concatenate 'string "'" (text (cadr form)))
                                  (list-text form)))
                       (function (if (and (consp (cdr form)) (null (cddr form)))
                                     (concatenate 'string "#'" (text (cadr form)))
                                     (list-text form)))
                       (t (list-text form))))
               (t (name-text form))))
           (list-text (form)
             (with-output-to-string (stream)
               (write-char #\( stream)
               (loop for (element . more) on form
                     do (write-string (if (and (null element)) "NIL" (text element)) stream)
                        (cond ((null more))
                              ((consp more) (write-char #\space stream))
                              (t (format stream " . ~a" (text more))
                                 (return))))
               (write-char #\) stream)))
           (token (symbol)
             (with-plain-printing
               (if (keywordp symbol)
                   (prin1-to-string symbol)
                   (let ((*print-gensym* nil))
                     (prin1-to-string (make-symbol (symbol-name symbol))))))))
    (text lambda-list)))

(defun source-object (name kind)
  "Where NAME is defined as a thing of KIND (as sb-introspect calls it): a list of JSON objects, the best known first.
A position is SBCL's own: octets before the top-level form and the white space in front of it."
  (let ((sources (handler-case (sb-introspect:find-definition-sources-by-name name kind)
                   (error () '()))))
    (loop for source in sources
          for pathname = (sb-introspect:definition-source-pathname source)
          when pathname
            collect (object "file" (source-file-text pathname)
                            "octet_offset" (sb-introspect:definition-source-character-offset source)
                            "form_path" (sb-introspect:definition-source-form-path source)
                            "form_number" (sb-introspect:definition-source-form-number source)
                            "write_date" (sb-introspect:definition-source-file-write-date source)))))

(defun source-file-text (pathname)
  "PATHNAME as answers show it: logical if it is, native otherwise."
  (if (typep pathname 'logical-pathname)
      (with-plain-printing (string-upcase (namestring pathname)))
      (sb-ext:native-namestring pathname)))

(defun documentation-text (thing kind)
  "The documentation string of THING as KIND, or NIL. Methods on DOCUMENTATION are anybody's, so errors count as none."
  (let ((text (ignore-errors (documentation thing kind))))
    (and (stringp text) text)))

(defun type-text (specifier)
  "A type specifier as it reads in COMMON-LISP."
  (with-plain-printing
    (let ((*package* (find-package :common-lisp)))
      (prin1-to-string specifier))))

(defun function-facet (name)
  "The facet of NAME (a symbol or a SETF list) as an operator, or NIL."
  (when (fboundp name)
    (let* ((symbol (and (symbolp name) name))
           (special (and symbol (special-operator-p symbol)))
           (macro (and symbol (not special) (macro-function symbol)))
           (function (cond (special nil) (macro) (t (fdefinition name))))
           (generic (typep function 'generic-function)))
      (multiple-value-bind (lambda-list known)
          (handler-case (values (sb-introspect:function-lambda-list (or function name)) t)
            (error () (values nil nil)))
        (object "name" (name-text name)
                "kind" (cond (special "special-operator") (macro "macro") (generic "generic-function")
                             (t "function"))
                "arglist" (and known (lambda-list-text lambda-list))
                "documentation" (documentation-text name 'function)
                "type" (and (not special) (not macro)
                            (ignore-errors (type-text (sb-introspect:function-type name))))
                "methods" (and generic (length (sb-mop:generic-function-methods function)))
                "traced" (and symbol function
                              (member name (ignore-errors (trace)))
                              :true)
                "inline" (case (sb-int:info :function :inlinep name)
                           ((inline) "inline") ((notinline) "notinline") (t nil))
                "sources" (source-object name (cond (special :special-operator) (macro :macro)
                                                    (generic :generic-function) (t :function))))))))

(defun variable-facet (symbol)
  "The facet of SYMBOL as a variable, or NIL."
  (let ((kind (sb-int:info :variable :kind symbol))
        (bound (boundp symbol)))
    (when (or bound (not (eq kind :unknown)))
      (object "kind" (ecase kind
                       (:constant "constant") (:special "special") (:global "global")
                       (:macro "symbol-macro") (:alien "alien") (:always-bound "special")
                       (:unknown "undeclared"))
              "bound" (json-boolean bound)
              "documentation" (documentation-text symbol 'variable)
              "type" (let ((type (sb-int:info :variable :type symbol)))
                       (unless (eq type sb-kernel:*universal-type*)
                         (ignore-errors (type-text (sb-kernel:type-specifier type)))))
              "sources" (source-object symbol (case kind
                                                (:constant :constant)
                                                (:macro :symbol-macro)
                                                (t :variable)))))))

(defun class-facet (symbol)
  "The facet of SYMBOL as a class, or NIL."
  (let ((class (find-class symbol nil)))
    (when class
      (let ((kind (typecase class
                    (structure-class "structure-class")
                    (built-in-class "built-in-class")
                    (sb-pcl::condition-class "condition-class")
                    (sb-mop:funcallable-standard-class "funcallable-standard-class")
                    (standard-class "standard-class")
                    (t "class"))))
        (object "kind" kind
                "metaclass" (symbol-text (class-name (class-of class)))
                "documentation" (documentation-text symbol 'type)
                "superclasses" (mapcar (lambda (class) (name-text (class-name class)))
                                       (sb-mop:class-direct-superclasses class))
                "subclasses" (length (sb-mop:class-direct-subclasses class))
                "slots" (mapcar (lambda (slot) (name-text (sb-mop:slot-definition-name slot)))
                                (sb-mop:class-direct-slots class))
                "sources" (source-object symbol (typecase class
                                                  (structure-class :structure)
                                                  (sb-pcl::condition-class :condition)
                                                  (t :class))))))))

(defun type-facet (symbol)
  "The facet of SYMBOL as a type that DEFTYPE made, or NIL."
  (when (eq (sb-int:info :type :kind symbol) :defined)
    (object "kind" "type"
            "arglist" (multiple-value-bind (lambda-list known)
                          (ignore-errors (sb-introspect:deftype-lambda-list symbol))
                        (and known (lambda-list-text lambda-list)))
            "documentation" (documentation-text symbol 'type)
            "sources" (source-object symbol :type))))

(defun compiler-macro-facet (name)
  "The facet of NAME's compiler macro, or NIL."
  (when (compiler-macro-function name)
    (object "documentation" (documentation-text name 'compiler-macro)
            "arglist" (ignore-errors
                       (lambda-list-text (sb-introspect:function-lambda-list (compiler-macro-function name))))
            "sources" (source-object name :compiler-macro))))

(defun method-combination-facet (symbol)
  "The facet of SYMBOL as a method combination, or NIL."
  (when (gethash symbol sb-pcl::**method-combinations**)
    (object "documentation" (documentation-text symbol 'method-combination)
            "sources" (source-object symbol :method-combination))))

(defun describe-symbol-facets (symbol status)
  "A JSON object with every facet of SYMBOL, which was found with STATUS. Its value is left to PRINT-VALUE."
  (check-type symbol symbol)
  (object "status" "found"
          "symbol" (symbol-text symbol)
          "name" (symbol-name symbol)
          "package" (if (symbol-package symbol) (package-name (symbol-package symbol)) :null)
          "accessibility" (string-downcase status)
          "type" (symbol-classification symbol)
          "function" (function-facet symbol)
          "setf_function" (function-facet `(setf ,symbol))
          "setf_expander" (and (sb-int:info :setf :expander symbol) :true)
          "compiler_macro" (compiler-macro-facet symbol)
          "variable" (variable-facet symbol)
          "class" (class-facet symbol)
          "deftype" (type-facet symbol)
          "method_combination" (method-combination-facet symbol)
          "package_of_that_name" (and (find-package (symbol-name symbol))
                                      (package-name (find-package (symbol-name symbol))))
          "properties" (loop for (key) on (symbol-plist symbol) by #'cddr
                             collect (name-text key))))

(defparameter *value-limit* 10000
  "How many characters of a value are printed.")

(defun print-value (symbol)
  "The printed value of SYMBOL, with the print limits of the describe-symbol contract, cut at *VALUE-LIMIT* characters;
and whether it was cut. Runs print-object methods."
  (let ((stream (make-instance 'limited-output :limit *value-limit* :when-full (lambda () (throw 'enough t)))))
    (let ((cut (catch 'enough
                 (with-plain-printing
                   (let ((*print-length* 20) (*print-level* 3) (*print-circle* t)
                         (*package* (find-package :common-lisp-user)))
                     (prin1 (symbol-value symbol) stream)))
                 nil)))
      (values (output-text stream) cut))))
