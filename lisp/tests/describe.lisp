;;;; The facets of symbols.

(in-package :steelbank-tests)

(defun facet (symbol &rest path)
  "The part of SYMBOL's description at PATH, a list of keys."
  (let ((value (describe-symbol-facets symbol :external)))
    (dolist (key path value)
      (setf value (cdr (assoc key (rest value) :test #'equal))))))

(deftest classification
    (mapcar #'steelbank::symbol-classification
            '(mapcar loop print-object if standard-object *print-base* pi nil :test no-such-thing))
  ("FUNCTION" "MACRO" "GENERIC-FUNCTION" "FUNCTION" "CLASS" "VARIABLE" "VARIABLE" "VARIABLE" "VARIABLE" "SYMBOL"))

(defgeneric described (thing &key deep)
  (:documentation "A generic function to describe."))
(defmethod described ((thing integer) &key deep) (list thing deep))
(defmacro described-macro (&body body) "A macro." `(progn ,@body))
(define-compiler-macro described (&whole form &rest more) "No change." (declare (ignore more)) form)
(defun (setf described-place) (new thing) "A setf function." (setf (car thing) new))
(defvar *described* 12 "A variable.")
(define-symbol-macro described-symbol-macro (car *features*))
(defclass described-class () ((slot)) (:documentation "A class."))
(defstruct described-structure "A structure." slot)
(define-condition described-condition (error) ())
(deftype described-type (size) "A type." `(vector t ,size))
(sb-ext:defglobal **described** nil)

(deftest lambda-lists
    (list (facet 'described "function" "arglist")
          (facet 'described-macro "function" "arglist")
          (facet 'mapcar "function" "arglist")
          (facet 'if "function" "arglist")
          (steelbank::lambda-list-text '())
          (steelbank::lambda-list-text '(a &optional (b 'c) (d #'e) (f nil) &key ((:g h) "x" i-p) &rest |j k|)))
  ("(THING &KEY DEEP)" "(&BODY BODY)" "(FUNCTION LIST &REST MORE-LISTS)" "(TEST THEN &OPTIONAL ELSE)" "()"
   "(A &OPTIONAL (B 'C) (D #'E) (F NIL) &KEY ((:G H) \"x\" I-P) &REST |j k|)"))

(deftest kinds
    (list (facet 'described "function" "kind") (facet 'described-macro "function" "kind")
          (facet 'if "function" "kind") (facet 'car "function" "kind")
          (facet '*described* "variable" "kind") (facet 'pi "variable" "kind")
          (facet 'described-symbol-macro "variable" "kind") (facet '**described** "variable" "kind")
          (facet 'described-class "class" "kind") (facet 'described-structure "class" "kind")
          (facet 'described-condition "class" "kind") (facet 'cons "class" "kind"))
  ("generic-function" "macro" "special-operator" "function" "special" "constant" "symbol-macro" "global"
   "standard-class" "structure-class" "condition-class" "built-in-class"))

(deftest documentation-of-every-facet
    (list (facet 'described "function" "documentation") (facet 'described-macro "function" "documentation")
          (facet 'described "compiler_macro" "documentation")
          (facet 'described-place "setf_function" "documentation")
          (facet '*described* "variable" "documentation") (facet 'described-class "class" "documentation")
          (facet 'described-structure "class" "documentation") (facet 'described-type "deftype" "documentation"))
  ("A generic function to describe." "A macro." "No change." "A setf function." "A variable." "A class."
   "A structure." "A type."))

(deftest details
    (list (facet 'described "function" "methods") (facet 'described-class "class" "slots")
          (facet 'described-type "deftype" "arglist") (facet 'described-place "setf_function" "name")
          (facet 'car "setf_function" "name") (facet 'car "symbol") (facet :test "package"))
  (1 ("STEELBANK-TESTS::SLOT") "(SIZE)" "(SETF STEELBANK-TESTS::DESCRIBED-PLACE)"
   "(SETF COMMON-LISP::CAR)" "COMMON-LISP::CAR" "KEYWORD"))

(deftest every-symbol-can-be-described
    (let ((failed '()))
      (do-all-symbols (symbol failed)
        (handler-case (json-string (describe-symbol-facets symbol :internal))
          (error (condition) (push (cons symbol (type-of condition)) failed)))))
  nil)

(defclass unprintable () ())
(defmethod print-object ((object unprintable) stream) (loop (write-string "again " stream)))
(defvar *unprintable* (make-instance 'unprintable))
(defvar *wide* (loop for i below 100 collect i))
(defvar *deep* '(1 (2 (3 (4 (5))))))

(deftest values-within-limits
    (list (print-value '*described*) (print-value '*wide*) (print-value '*deep*)
          (multiple-value-list (print-value 'nil)))
  ("12" "(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 ...)" "(1 (2 (3 #)))" ("NIL" nil)))
