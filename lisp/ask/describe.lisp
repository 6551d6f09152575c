;;;; describe-symbol: returns every facet of one symbol. A facet is what the symbol names in one
;;;; namespace, such as its function or class. User code runs only in methods on DOCUMENTATION, in
;;;; methods on the user's own metaclasses, and, in PRINT-VALUE, in methods on PRINT-OBJECT.

(in-package :steelbank)

(defun symbol-classification (symbol)
  "Return the classification of SYMBOL, the word in brackets in the describe-symbol contract."
  (cond ((and (fboundp symbol) (macro-function symbol)) "MACRO")
        ((and (fboundp symbol) (typep (fdefinition symbol) 'generic-function)) "GENERIC-FUNCTION")
        ((fboundp symbol) "FUNCTION")
        ((find-class symbol nil) "CLASS")
        ((boundp symbol) "VARIABLE")
        (t "SYMBOL")))

(defun lambda-list-text (lambda-list &optional (parts 500))
  "Return LAMBDA-LIST, or another form, as text without package prefixes."
  ;; NIL is printed as NIL inside a list, and as () elsewhere. Defaults can be of any size, or
  ;; circular, so print at most PARTS list elements.
  (labels ((text (form)
             (typecase form
               (null "()")
               (symbol (token form))
               (cons (case (and (plusp parts) (car form))
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
                     do (when (minusp (decf parts))
                          (write-string "..." stream)
                          (return))
                        (write-string (if (null element) "NIL" (text element)) stream)
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

(defun form-text (form)
  "Return FORM as text without package prefixes, truncated after 60 list elements."
  (if (null form) "NIL" (lambda-list-text form 60)))

(defun source-object (name kind)
  "Return the definition sources of NAME as KIND, as a list of JSON objects."
  ;; KIND is a definition kind of sb-introspect. The octet offset in an object is the one that SBCL
  ;; records: the number of octets before the white space in front of the top-level form.
  (let ((sources (around-user-code (sb-introspect:find-definition-sources-by-name name kind))))
    (loop for source in sources
          for json = (definition-source-json source)
          when json collect json)))

(defun definition-source-json (source)
  "Return the definition source SOURCE as a JSON object, or NIL if it, or its buffer, has no file."
  (let* ((pathname (sb-introspect:definition-source-pathname source))
         (file (and pathname (source-file-text pathname)))
         (properties (sb-introspect:definition-source-plist source))
         (buffer (buffer-text-p properties))
         (date (sb-introspect:definition-source-file-write-date source))
         (version (version-or-text file date properties)))
    (when (and file (or version (not buffer)))
      (object "file" file
              "octet_offset" (unless buffer
                               (sb-introspect:definition-source-character-offset source))
              "form_path" (sb-introspect:definition-source-form-path source)
              "form_number" (sb-introspect:definition-source-form-number source)
              "write_date" version))))

(defun source-file-text (pathname)
  "Return PATHNAME as answers show it: upper case if logical, native otherwise."
  (if (typep pathname 'logical-pathname)
      (with-plain-printing (string-upcase (namestring pathname)))
      (sb-ext:native-namestring pathname)))

(defun documentation-text (thing kind)
  "Return the documentation string of THING as KIND, or NIL."
  ;; Methods on DOCUMENTATION are user code, so an error counts as no documentation.
  (let ((text (around-user-code (documentation thing kind))))
    (and (stringp text) text)))

(defun type-text (specifier)
  "Return the type SPECIFIER as a string, printed in the package COMMON-LISP."
  (with-plain-printing
    (let ((*package* (find-package :common-lisp)))
      (prin1-to-string specifier))))

(defun ordered-type (type)
  "Return the type specifier TYPE, from the compiler, with members and alternatives in text order."
  ;; The compiler's order depends on whether the type was read from a fasl.
  (if (not (and (consp type) (proper-list-p type)))
      type
      (case (first type)
        ((eql) type)
        ((member) (cons 'member (sort (copy-list (rest type)) #'string< :key #'type-text)))
        (t (let ((parts (mapcar #'ordered-type type)))
             (if (member (first type) '(and or))
                 (cons (first type) (sort (rest parts) #'string< :key #'type-text))
                 parts))))))

(defparameter *methods-shown* 100
  "The maximum number of methods, or subclasses, in a description.")

(defun combination-text (function)
  "Return the method combination of the generic function FUNCTION, with its options."
  (let ((combination (sb-mop:generic-function-method-combination function)))
    (form-text (let ((name (method-combination-name combination))
                     (options (method-combination-arguments combination)))
                 (if options (cons name options) name)))))

(defun method-json (method)
  "Return METHOD as a JSON object."
  (let ((source (around-user-code (sb-introspect:find-definition-source method))))
    (object "name" (name-text (method-name method))
            "qualifiers" (mapcar #'form-text (method-qualifiers method))
            "specializers"
            (mapcar (lambda (specializer)
                      (name-text (if (typep specializer 'sb-mop:eql-specializer)
                                     `(eql ,(sb-mop:eql-specializer-object specializer))
                                     (or (class-name specializer) specializer))))
                    (sb-mop:method-specializers method))
            "arglist" (lambda-list-text (sb-mop:method-lambda-list method))
            "documentation" (documentation-text method t)
            "sources" (let ((json (and source (definition-source-json source))))
                        (and json (list json))))))

(defun methods-json (function)
  "Return the methods of FUNCTION, at most *METHODS-SHOWN*, sorted by name, as JSON objects."
  (let ((methods (sort (mapcar (lambda (method) (cons (name-text (method-name method)) method))
                               (others-methods function))
                       #'string< :key #'car)))
    (loop for (nil . method) in methods
          repeat *methods-shown*
          collect (method-json method))))

(defun known-lambda-list (function)
  "Return the lambda list of FUNCTION, a function or its name, and whether that list is known."
  (let ((found (around-user-code (list (sb-introspect:function-lambda-list function)))))
    (values (first found) (and found t))))

(defun function-facet (name)
  "Return the facet of NAME (a symbol or a SETF list) as an operator, or NIL."
  (when (fboundp name)
    (let* ((symbol (and (symbolp name) name))
           (special (and symbol (special-operator-p symbol)))
           (macro (and symbol (not special) (macro-function symbol)))
           (function (cond (special nil) (macro) (t (global-function name))))
           (generic (typep function 'generic-function)))
      (multiple-value-bind (lambda-list known)
          (known-lambda-list (or function name))
        (object "name" (name-text name)
                "kind" (cond (special "special-operator") (macro "macro")
                             (generic "generic-function") (t "function"))
                "arglist" (and known (lambda-list-text lambda-list))
                "documentation" (documentation-text name 'function)
                "type" (and (not special) (not macro)
                            (type-text (ordered-type (sb-introspect:function-type name))))
                "combination" (and generic (combination-text function))
                "method_count" (and generic (length (others-methods function)))
                "methods" (and generic (methods-json function))
                "traced" (and symbol function
                              (member name (trace))
                              :true)
                "inline" (case (inline-declaration name)
                           ((inline) "inline") ((notinline) "notinline") (t nil))
                "sources" (source-object name (cond (special :special-operator) (macro :macro)
                                                    (generic :generic-function) (t :function))))))))

(defun variable-facet (symbol)
  "Return the facet of SYMBOL as a variable, or NIL."
  (let ((kind (variable-kind symbol))
        (bound (boundp symbol)))
    (when (or bound (not (eq kind :unknown)))
      (object "kind" (ecase kind
                       (:constant "constant") (:special "special") (:global "global")
                       (:macro "symbol-macro") (:alien "alien") (:always-bound "special")
                       (:unknown "undeclared"))
              "bound" (json-boolean bound)
              "documentation" (documentation-text symbol 'variable)
              "type" (multiple-value-bind (type known) (variable-type symbol)
                       (and known (type-text (ordered-type type))))
              "sources" (source-object symbol (case kind
                                                (:constant :constant)
                                                (:macro :symbol-macro)
                                                (t :variable)))))))

(defun class-text (class)
  "Return the name of CLASS."
  (name-text (or (class-name class) class)))

(defun written-initform (slot owner)
  "Return the initform of SLOT, a direct slot of the class OWNER, as its definition has it."
  ;; SBCL quotes the initform of a condition's slot.
  (let ((form (sb-mop:slot-definition-initform slot)))
    (if (and (typep owner 'condition-class)
             (typep form '(cons (eql quote) (cons t null))))
        (second form)
        form)))

(defun slot-json (slot owner inherited)
  "Return SLOT, a direct slot of the class OWNER, as a JSON object."
  ;; INHERITED is true if the class that is being described is a subclass of OWNER.
  (let* ((description (and (typep owner 'structure-class)
                           (structure-description (class-name owner))))
         (structure-slot (and description
                              (structure-slot description (sb-mop:slot-definition-name slot))))
         (type (sb-mop:slot-definition-type slot))
         (allocation (sb-mop:slot-definition-allocation slot)))
    (object "name" (name-text (sb-mop:slot-definition-name slot))
            "initargs" (mapcar #'form-text (sb-mop:slot-definition-initargs slot))
            "readers" (if structure-slot
                          (list (name-text (structure-slot-accessor structure-slot)))
                          (mapcar #'name-text (sb-mop:slot-definition-readers slot)))
            "writers" (if (and structure-slot (not (structure-slot-read-only-p structure-slot)))
                          (list (name-text `(setf ,(structure-slot-accessor structure-slot))))
                          (mapcar #'name-text (sb-mop:slot-definition-writers slot)))
            "type" (unless (eq type t) (type-text type))
            "initform" (and (sb-mop:slot-definition-initfunction slot)
                            (form-text (written-initform slot owner)))
            "allocation" (unless (eq allocation :instance) (form-text allocation))
            "documentation" (and (typep slot 'sb-mop:standard-direct-slot-definition)
                                 (documentation-text slot t))
            "from" (and inherited (class-text owner)))))

(defun superclasses (class)
  "Return CLASS and its superclasses, most specific first, without base classes such as T."
  ;; If CLASS is not finalized, its precedence list is unknown: return the classes depth first.
  (let ((all '()))
    (labels ((visit (each)
               (unless (member each all)
                 (push each all)
                 (mapc #'visit (sb-mop:class-direct-superclasses each)))))
      (if (sb-mop:class-finalized-p class)
          (setf all (reverse (sb-mop:class-precedence-list class)))
          (visit class)))
    (remove-if (lambda (each)
                 (or (typep each 'built-in-class)
                     (member (class-name each)
                             `(t standard-object structure-object condition ,+slot-object+
                                 sb-mop:funcallable-standard-object))))
               (nreverse all))))

(defun slots-json (class)
  "Return the slots of CLASS as JSON objects: direct slots, then inherited slots not redefined."
  (unless (typep class 'built-in-class)
    (let ((seen '()))
      (loop for owner in (superclasses class)
            nconc (loop for slot in (sb-mop:class-direct-slots owner)
                        for name = (sb-mop:slot-definition-name slot)
                        unless (and (member name seen) (not (eq owner class)))
                          collect (slot-json slot owner (not (eq owner class)))
                        do (push name seen))))))

(defun structure-json (name)
  "Return the constructors, predicate and copier of the structure NAME as a JSON object, or NIL."
  (let ((description (structure-description name)))
    (when description
      (object "constructors" (loop for (constructor) in (structure-constructors description)
                                   collect (function-call-text constructor))
              "predicate" (let ((predicate (structure-predicate description)))
                            (and predicate (name-text predicate)))
              "copier" (let ((copier (structure-copier description)))
                         (and copier (name-text copier)))))))

(defun function-call-text (name)
  "Return a call of the function NAME with its lambda list, or only NAME if that is unknown."
  (multiple-value-bind (lambda-list known) (known-lambda-list name)
    (cond ((not known) (name-text name))
          ((null lambda-list) (format nil "(~a)" (name-text name)))
          (t (format nil "(~a ~a" (name-text name) (subseq (lambda-list-text lambda-list) 1))))))

(defun class-facet (symbol)
  "Return the facet of SYMBOL as a class, or NIL."
  (let ((class (find-class symbol nil)))
    (when class
      (let ((kind (typecase class
                    (structure-class "structure-class")
                    (built-in-class "built-in-class")
                    (condition-class "condition-class")
                    (sb-mop:funcallable-standard-class "funcallable-standard-class")
                    (standard-class "standard-class")
                    (t "class")))
            (subclasses (others-classes (sb-mop:class-direct-subclasses class)))
            (initargs (and (typep class 'slot-class) (sb-mop:class-direct-default-initargs class))))
        (object "kind" kind
                "metaclass" (symbol-text (class-name (class-of class)))
                "documentation" (documentation-text symbol 'type)
                "superclasses" (mapcar #'class-text (sb-mop:class-direct-superclasses class))
                ;; Finalizing a class would run methods of its metaclass.
                "precedence" (and (sb-mop:class-finalized-p class)
                                  (mapcar #'class-text (sb-mop:class-precedence-list class)))
                "subclass_count" (length subclasses)
                "subclasses" (loop for name in (sort (mapcar #'class-text subclasses) #'string<)
                                   repeat *methods-shown*
                                   collect name)
                "slots" (slots-json class)
                "default_initargs"
                (loop for (key form) in initargs
                      collect (format nil "~a ~a" (form-text key) (form-text form)))
                "structure" (and (typep class 'structure-class) (structure-json symbol))
                "sources" (source-object symbol (typecase class
                                                  (structure-class :structure)
                                                  (condition-class :condition)
                                                  (t :class))))))))

(defun type-facet (symbol)
  "Return the facet of SYMBOL as a type defined by DEFTYPE, or NIL."
  (when (defined-type-p symbol)
    (object "kind" "type"
            "arglist" (multiple-value-bind (lambda-list known)
                          (sb-introspect:deftype-lambda-list symbol)
                        (and known (lambda-list-text lambda-list)))
            "documentation" (documentation-text symbol 'type)
            "sources" (source-object symbol :type))))

(defun compiler-macro-facet (name)
  "Return the facet of NAME's compiler macro, or NIL."
  (when (compiler-macro-function name)
    (object "documentation" (documentation-text name 'compiler-macro)
            "arglist" (multiple-value-bind (lambda-list known)
                          (known-lambda-list (compiler-macro-function name))
                        (and known (lambda-list-text lambda-list)))
            "sources" (source-object name :compiler-macro))))

(defun method-combination-facet (symbol)
  "Return the facet of SYMBOL as a method combination, or NIL."
  (when (method-combination-known-p symbol)
    (object "documentation" (documentation-text symbol 'method-combination)
            "sources" (source-object symbol :method-combination))))

(defun describe-symbol-facets (symbol status)
  "Return every facet of SYMBOL, except its value, as a JSON object. STATUS is FIND-SYMBOL's."
  ;; PRINT-VALUE returns the value.
  (check-type symbol symbol)
  (object "status" "found" "symbol" (symbol-text symbol) "name" (symbol-name symbol)
          "package" (if (symbol-package symbol) (package-name (symbol-package symbol)) :null)
          "accessibility" (string-downcase status)
          "type" (symbol-classification symbol)
          "function" (function-facet symbol)
          "setf_function" (function-facet `(setf ,symbol))
          "setf_expander" (and (setf-expander symbol) :true)
          "setf_expander_sources" (and (setf-expander symbol) (source-object symbol :setf-expander))
          "compiler_macro" (compiler-macro-facet symbol)
          "variable" (variable-facet symbol) "class" (class-facet symbol)
          "deftype" (type-facet symbol)
          "method_combination" (method-combination-facet symbol)
          "package_of_that_name" (and (find-package (symbol-name symbol))
                                      (package-name (find-package (symbol-name symbol))))
          "properties" (loop for (key) on (symbol-plist symbol) by #'cddr
                             collect (name-text key))))

(defparameter *value-limit* 10000
  "The maximum number of characters of a value in an answer.")

(defun print-value (symbol)
  "Return the printed value of SYMBOL, and whether it was truncated."
  ;; The print limits are those of the describe-symbol contract, with at most *VALUE-LIMIT*
  ;; characters. Runs print-object methods.
  (let* ((stream (make-instance 'limited-output
                                :limit *value-limit* :when-full (lambda () (throw 'enough t))))
         (cut (catch 'enough
                (with-plain-printing
                  (let ((*print-length* 20) (*print-level* 3) (*print-circle* t)
                        (*package* (find-package :common-lisp-user)))
                    (prin1 (symbol-value symbol) stream)))
                nil)))
    (values (output-text stream) cut)))
