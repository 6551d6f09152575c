;;;; find-definitions: returns every definition of a symbol, of any kind, without running user code.

(in-package :steelbank)

(defparameter *definition-kinds*
  '(:special-operator :function :generic-function :macro :compiler-macro :setf-expander :variable
    :constant :symbol-macro :class :structure :condition :type :method-combination :declaration
    :alien-type :package)
  "The kinds of definition to find through sb-introspect. METHOD-DEFINITIONS finds methods.")

(defun definition-json (kind name sources)
  "Return the definition of NAME as KIND at SOURCES as a JSON object."
  (object "kind" (string-downcase kind)
          "name" (if (eq kind :package)
                     (escaped-name (string name))
                     (name-text name))
          "sources" sources
          "alias" (and (member kind '(:function :macro)) (alias-p name) :true)))

(defun alias-p (name)
  "Return true if the function NAME was not created under this name."
  (let ((function (entry-function (or (and (symbolp name) (macro-function name))
                                      (global-function name))))
        (own (if (and (symbolp name) (macro-function name)) (list 'macro-function name) name)))
    (not (equal (simple-function-name function) own))))

(defun method-definitions (name)
  "Return the methods of NAME that have a source file, as JSON objects; NIL if it is not generic."
  (let ((function (and (fboundp name)
                       (not (and (symbolp name)
                                 (or (macro-function name) (special-operator-p name))))
                       (fdefinition name))))
    (when (typep function 'generic-function)
      (loop for method in (others-methods function)
            for source = (around-user-code (sb-introspect:find-definition-source method))
            for json = (and source (definition-source-json source))
            when json
              collect (definition-json :method (method-name method) (list json))))))

(defun definitions-json (symbol)
  "Return the definitions of SYMBOL and (SETF SYMBOL) in recorded files, as JSON objects."
  (check-type symbol symbol)
  (append
   (loop for kind in *definition-kinds*
         for sources = (if (eq kind :package)
                           (and (find-package symbol) (source-object symbol kind))
                           (source-object symbol kind))
         when sources
           collect (definition-json kind symbol sources))
   (method-definitions symbol)
   (let ((setf (list 'setf symbol)))
     (append
      (when (fboundp setf)
        (loop for kind in '(:function :generic-function)
              for sources = (source-object setf kind)
              when sources collect (definition-json kind setf sources)))
      (method-definitions setf)))))
