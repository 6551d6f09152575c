;;;; symbol-facts returns facts about very many symbols at once, in a shorter form than
;;;; describe-symbol. package-owners returns the loaded systems, and which of them define given
;;;; packages.

(in-package :steelbank)

(defun name-pair (name)
  "Return the home package and name of NAME's symbol as a list."
  ;; NAME is a symbol or the list (SETF symbol).
  (let ((symbol (if (consp name) (second name) name)))
    (list (home-name symbol) (symbol-name symbol))))

(defun operator-facts (name)
  "Return the facts about NAME, a symbol or the list (SETF symbol), as an operator, or NIL."
  (when (fboundp name)
    (let* ((symbol (and (symbolp name) name))
           (special (and symbol (special-operator-p symbol)))
           (macro (and symbol (not special) (macro-function symbol)))
           (function (cond (special nil) (macro) (t (global-function name)))))
      (multiple-value-bind (lambda-list known) (known-lambda-list (or function name))
        (object "kind" (cond (special "special-operator") (macro "macro")
                             ((typep function 'generic-function) "generic-function")
                             (t "function"))
                "arglist" (and known (lambda-list-text lambda-list))
                "documentation" (documentation-text name 'function))))))

(defun variable-facts (symbol)
  "Return the facts about SYMBOL as a variable, or NIL."
  (let ((kind (variable-kind symbol)))
    (unless (or (keywordp symbol) (and (eq kind :unknown) (not (boundp symbol))))
      (object "kind" (case kind (:constant "constant") (:macro "symbol-macro") (t "special"))
              "documentation" (documentation-text symbol 'variable)))))

(defun slot-facts (slot structure)
  "Return the facts about SLOT, a direct slot."
  ;; STRUCTURE is the description of the structure with SLOT, or NIL for a slot of another class.
  (let* ((part (and structure (structure-slot structure (sb-mop:slot-definition-name slot))))
         (type (sb-mop:slot-definition-type slot)))
    (object "name" (name-pair (sb-mop:slot-definition-name slot))
            "readers" (mapcar #'name-pair (if part
                                              (list (structure-slot-accessor part))
                                              (sb-mop:slot-definition-readers slot)))
            "writers" (mapcar #'name-pair (cond ((null part) (sb-mop:slot-definition-writers slot))
                                                ((structure-slot-read-only-p part) '())
                                                (t (list (structure-slot-accessor part)))))
            "type" (unless (eq type t) (type-text type))
            "documentation" (and (typep slot 'sb-mop:standard-direct-slot-definition)
                                 (documentation-text slot t)))))

(defun class-facts (symbol)
  "Return the facts about SYMBOL as a class, or NIL."
  (let* ((class (find-class symbol nil))
         (structure (and (typep class 'structure-class) (structure-description symbol))))
    (when class
      (flet ((names (classes)
               (loop for each in classes
                     for name = (class-name each)
                     when (and name (symbolp name)) collect (name-pair name))))
        (object "kind" (typecase class
                         (structure-class "structure")
                         (condition-class "condition")
                         (t "class"))
                "documentation" (documentation-text symbol 'type)
                "superclasses" (names (sb-mop:class-direct-superclasses class))
                "slots" (unless (typep class 'built-in-class)
                          (loop for slot in (sb-mop:class-direct-slots class)
                                collect (slot-facts slot structure)))
                "made" (when structure
                         (let ((constructors (mapcar #'first (structure-constructors structure))))
                           (mapcar #'name-pair
                                   (remove nil (list* (structure-predicate structure)
                                                      (structure-copier structure)
                                                      constructors))))))))))

(defun symbol-facts-json (symbol)
  "Return the facts about SYMBOL, as a JSON object with a field for each namespace."
  (object "exported" (and (exported-p symbol) :true)
          "function" (operator-facts symbol)
          "setf" (operator-facts `(setf ,symbol))
          "variable" (variable-facts symbol)
          "class" (class-facts symbol)
          "type" (when (and (defined-type-p symbol) (not (find-class symbol nil)))
                   (object "kind" "type" "documentation" (documentation-text symbol 'type)
                           "arglist" (multiple-value-bind (lambda-list known)
                                         (sb-introspect:deftype-lambda-list symbol)
                                       (and known (lambda-list-text lambda-list)))))))

(define-question "symbol-facts" (&rest names)
  "Return the facts about the symbols NAMES, in order, and null for a symbol that does not exist."
  ;; NAMES alternates package names and symbol names.
  (loop for (package name) on names by #'cddr
        collect (multiple-value-bind (symbol status) (find-named-symbol name package)
                  (if (member status '(:no-symbol :no-package)) :null (symbol-facts-json symbol)))))

(define-question "package-owners" (&rest packages)
  "Return the Lisp version, and the loaded systems with their versions and descriptions."
  ;; For each of PACKAGES that exists, also return its documentation, used packages and nicknames.
  ;; If known, also return the system that contains the file with the package's definition.
  (let ((systems (make-hash-table :test 'equal)))
    (loop for (component . path) in (source-components)
          do (setf (gethash path systems) (asdf:component-name (asdf:component-system component))))
    (object "lisp" (lisp-implementation-version)
            "systems" (loop for name in (sort (copy-list (asdf:already-loaded-systems)) #'string<)
                            for system = (asdf:registered-system name)
                            for version = (around-user-code (asdf:component-version system))
                            for text = (around-user-code (asdf:system-description system))
                            when system
                              collect (object "name" name
                                              "version" (and (stringp version) version)
                                              "description" (and (stringp text) text)))
            "packages"
            (loop for name in packages
                  for package = (find-package name)
                  for source = (and package (around-user-code
                                              (sb-introspect:find-definition-source package)))
                  for pathname = (and source (sb-introspect:definition-source-pathname source))
                  for path = (and pathname (not (typep pathname 'logical-pathname))
                                  (around-user-code (sb-ext:native-namestring (truename pathname))))
                  when package
                    collect (object "name" name
                                    "system" (and path (gethash path systems))
                                    "documentation" (documentation-text package t)
                                    "uses" (sorted-texts (package-use-list package) #'package-name)
                                    "nicknames" (sort (copy-list (package-nicknames package))
                                                      #'string<))))))
