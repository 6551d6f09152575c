;;;; apropos: returns short descriptions of the symbols that the host has found by their names.

(in-package :steelbank)

(defun symbol-kinds (symbol)
  "Return keywords for the kinds of thing that SYMBOL names, or NIL if it names nothing."
  (let ((setf `(setf ,symbol))
        (class (find-class symbol nil)))
    (flet ((present (&rest kinds) (remove nil kinds)))
      (present
       (when (fboundp symbol)
         (cond ((special-operator-p symbol) :special-operator)
               ((macro-function symbol) :macro)
               ((typep (fdefinition symbol) 'generic-function) :generic-function)
               (t :function)))
       (when (or (fboundp setf) (setf-expander symbol)) :setf)
       (unless (keywordp symbol)
         (case (variable-kind symbol)
           (:constant :constant)
           ((:special :global :always-bound :alien) :variable)
           (:macro :symbol-macro)
           (t (and (boundp symbol) :variable))))
       (typecase class
         (null nil) (structure-class :structure) (condition-class :condition) (t :class))
       (when (defined-type-p symbol) :type)
       (when (method-combination-known-p symbol) :method-combination)
       (when (alien-type-name-p symbol) :alien-type)))))

(defun principal-sources (symbol kind)
  "Return the definition sources of SYMBOL as KIND, one of SYMBOL-KINDS, as JSON objects."
  (if (eq kind :setf)
      (let ((setf `(setf ,symbol)))
        (or (and (fboundp setf)
                 (or (source-object setf :function) (source-object setf :generic-function)))
            (source-object symbol :setf-expander)))
      (source-object symbol kind)))

(defun exported-p (symbol)
  "Return true if SYMBOL is external in its home package."
  (let ((package (symbol-package symbol)))
    (and package
         (eq (nth-value 1 (find-symbol (symbol-name symbol) package)) :external))))

(defun summary-json (symbol kinds)
  "Return the summary of SYMBOL, which names KINDS, as a JSON object."
  (let ((operator (and (fboundp symbol)
                       (multiple-value-bind (lambda-list known) (known-lambda-list symbol)
                         (and known (lambda-list-text lambda-list))))))
    (object "name" (symbol-text symbol)
            "kinds" (mapcar #'word kinds)
            "arglist" operator
            "documentation" (first-line
                             (or (and (fboundp symbol) (documentation-text symbol 'function))
                                 (documentation-text symbol 'variable)
                                 (documentation-text symbol 'type)))
            "external" (and (exported-p symbol) :true)
            "sources" (and kinds (principal-sources symbol (first kinds))))))

(defun wanted-kinds (text)
  "Return the comma-separated kinds in TEXT as a list; NIL, for all kinds, if TEXT is empty."
  (and (given text) (uiop:split-string text :separator ",")))

(define-question "apropos" (kinds offset limit &rest names)
  "Return summaries of the symbols NAMES that name something of KINDS, at most LIMIT of them."
  ;; NAMES alternates package names and symbol names. Skip the first OFFSET symbols that match
  ;; KINDS, and also return the total number of symbols that match. Without KINDS, external symbols
  ;; match even if they name nothing. Whether internal symbols that name nothing exist depends on
  ;; whether a file was read or its fasl was loaded.
  (let ((wanted (wanted-kinds kinds))
        (offset (parse-integer offset))
        (limit (parse-integer limit))
        (total 0)
        (shown '()))
    (loop for (package name) on names by #'cddr
          do (multiple-value-bind (symbol status) (find-named-symbol name package)
               (unless (member status '(:no-symbol :no-package))
                 (let ((is (symbol-kinds symbol)))
                   (when (if wanted
                             (intersection is wanted :test #'string-equal)
                             (or is (exported-p symbol)))
                     (when (and (>= total offset) (< total (+ offset limit)))
                       (push (summary-json symbol is) shown))
                     (incf total))))))
    (object "total" total "symbols" (nreverse shown))))
