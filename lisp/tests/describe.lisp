;;;; Tests of the facets of symbols.

(in-package :steelbank-tests)

(defun facet (symbol &rest path)
  "Return the part of SYMBOL's description at PATH, a list of keys."
  (let ((value (describe-symbol-facets symbol :external)))
    (dolist (key path value)
      (setf value (cdr (assoc key (rest value) :test #'equal))))))

(deftest classification
    (mapcar #'steelbank::symbol-classification
            '(mapcar loop print-object if standard-object *print-base* pi nil :test no-such-thing))
  ("FUNCTION" "MACRO" "GENERIC-FUNCTION" "FUNCTION" "CLASS" "VARIABLE" "VARIABLE" "VARIABLE"
   "VARIABLE" "SYMBOL"))

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

(deftest types-have-one-order
    (flet ((text (type) (steelbank::type-text (steelbank::ordered-type type))))
      (list (text '(function ((or null hash-table)) (values (member t nil :b) &optional)))
            (text '(function ((or hash-table null)) (values (member :b nil t) &optional)))
            (text '(or (and list (not null)) (eql (or :b :a))))
            (text 't)))
  ("(FUNCTION ((OR HASH-TABLE NULL)) (VALUES (MEMBER :B NIL T) &OPTIONAL))"
   "(FUNCTION ((OR HASH-TABLE NULL)) (VALUES (MEMBER :B NIL T) &OPTIONAL))"
   "(OR (AND (NOT NULL) LIST) (EQL (OR :B :A)))"
   "T"))

(deftest lambda-lists
    (list (facet 'described "function" "arglist") (facet 'described-macro "function" "arglist")
          (facet 'mapcar "function" "arglist") (facet 'if "function" "arglist")
          (steelbank::lambda-list-text '())
          (steelbank::lambda-list-text
           '(a &optional (b 'c) (d #'e) (f nil) &key ((:g h) "x" i-p) &rest |j k|)))
  ("(THING &KEY DEEP)" "(&BODY BODY)" "(FUNCTION LIST &REST MORE-LISTS)"
   "(TEST THEN &OPTIONAL ELSE)" "()"
   "(A &OPTIONAL (B 'C) (D #'E) (F NIL) &KEY ((:G H) \"x\" I-P) &REST |j k|)"))

(deftest kinds
    (list (facet 'described "function" "kind") (facet 'described-macro "function" "kind")
          (facet 'if "function" "kind") (facet 'car "function" "kind")
          (facet '*described* "variable" "kind") (facet 'pi "variable" "kind")
          (facet 'described-symbol-macro "variable" "kind") (facet '**described** "variable" "kind")
          (facet 'described-class "class" "kind") (facet 'described-structure "class" "kind")
          (facet 'described-condition "class" "kind") (facet 'cons "class" "kind"))
  ("generic-function" "macro" "special-operator" "function" "special" "constant" "symbol-macro"
   "global" "standard-class" "structure-class" "condition-class" "built-in-class"))

(deftest documentation-of-every-facet
    (loop for (symbol namespace) in '((described "function") (described-macro "function")
                                      (described "compiler_macro") (described-place "setf_function")
                                      (*described* "variable") (described-class "class")
                                      (described-structure "class") (described-type "deftype"))
          collect (facet symbol namespace "documentation"))
  ("A generic function to describe." "A macro." "No change." "A setf function." "A variable."
   "A class." "A structure." "A type."))

;; The slot of DIAMOND is that of DIAMOND-RIGHT, which precedes DIAMOND-TOP.
(defclass diamond-top () ((size :initform 1)))
(defclass diamond-left (diamond-top) ())
(defclass diamond-right (diamond-top) ((size :initform 2)))
(defclass diamond (diamond-left diamond-right) ())

(deftest inherited-slot-of-a-diamond
    (progn
      (make-instance 'diamond)
      (loop for slot in (facet 'diamond "class" "slots")
            collect (cdr (assoc "from" (rest slot) :test #'equal))))
  ("STEELBANK-TESTS::DIAMOND-RIGHT"))

(deftest details
    (list (facet 'described "function" "method_count")
          (mapcar (lambda (slot) (rest slot)) (facet 'described-class "class" "slots"))
          (facet 'described-type "deftype" "arglist")
          (facet 'described-place "setf_function" "name") (facet 'car "setf_function" "name")
          (facet 'car "symbol") (facet :test "package"))
  (1 ((("name" . "STEELBANK-TESTS::SLOT"))) "(SIZE)" "(SETF STEELBANK-TESTS::DESCRIBED-PLACE)"
   "(SETF COMMON-LISP::CAR)" "COMMON-LISP::CAR" "KEYWORD"))

(defclass described-base ()
  ((kept :initarg :kept :accessor described-kept :initform (list 1 2) :type list
         :documentation "Kept.")
   (shared :allocation :class :reader described-shared))
  (:default-initargs :kept '(1)))
(defclass described-derived (described-base)
  ((kept :initform 3) (own :writer (setf described-own))))
(defstruct (described-point (:constructor describe-point (x &optional y))
                            (:predicate described-point-p))
  (x 0 :type fixnum) (y nil :read-only t))
(defgeneric described-sum (thing) (:method-combination + :most-specific-last))
(defmethod described-sum + ((thing described-derived)) "A method." 1)
(defmethod described-sum :around ((thing (eql 3))) 2)

(deftest slots
    (mapcar #'rest (facet 'described-derived "class" "slots"))
  ((("name" . "STEELBANK-TESTS::KEPT") ("initform" . "3"))
   (("name" . "STEELBANK-TESTS::OWN") ("writers" "(SETF STEELBANK-TESTS::DESCRIBED-OWN)"))
   (("name" . "STEELBANK-TESTS::SHARED") ("readers" "STEELBANK-TESTS::DESCRIBED-SHARED")
    ("allocation" . ":CLASS") ("from" . "STEELBANK-TESTS::DESCRIBED-BASE"))))

(deftest base-slot
    (list (rest (first (facet 'described-base "class" "slots")))
          (facet 'described-base "class" "default_initargs")
          (facet 'described-base "class" "subclasses"))
  ((("name" . "STEELBANK-TESTS::KEPT") ("initargs" ":KEPT")
    ("readers" "STEELBANK-TESTS::DESCRIBED-KEPT")
    ("writers" "(SETF STEELBANK-TESTS::DESCRIBED-KEPT)") ("type" . "LIST")
    ("initform" . "(LIST 1 2)") ("documentation" . "Kept."))
   (":KEPT '(1)") ("STEELBANK-TESTS::DESCRIBED-DERIVED")))

(deftest structures
    (list (rest (facet 'described-point "class" "structure"))
          (mapcar #'rest (facet 'described-point "class" "slots"))
          (facet 'described-point "class" "precedence"))
  ((("constructors" "(STEELBANK-TESTS::DESCRIBE-POINT X &OPTIONAL Y)")
    ("predicate" . "STEELBANK-TESTS::DESCRIBED-POINT-P")
    ("copier" . "STEELBANK-TESTS::COPY-DESCRIBED-POINT"))
   ((("name" . "STEELBANK-TESTS::X") ("readers" "STEELBANK-TESTS::DESCRIBED-POINT-X")
     ("writers" "(SETF STEELBANK-TESTS::DESCRIBED-POINT-X)") ("type" . "FIXNUM") ("initform" . "0"))
    (("name" . "STEELBANK-TESTS::Y") ("readers" "STEELBANK-TESTS::DESCRIBED-POINT-Y")
     ("initform" . "NIL")))
   ("STEELBANK-TESTS::DESCRIBED-POINT" "COMMON-LISP::STRUCTURE-OBJECT" "SB-PCL::SLOT-OBJECT"
    "COMMON-LISP::T")))

(deftest methods-and-combinations
    (list (facet 'described-sum "function" "combination")
          (loop for method in (facet 'described-sum "function" "methods")
                collect (remove "sources" (rest method) :key #'car :test #'string=)))
  ("(+ :MOST-SPECIFIC-LAST)"
   ((("name" . "(METHOD STEELBANK-TESTS::DESCRIBED-SUM :AROUND ((EQL 3)))")
     ("qualifiers" ":AROUND") ("specializers" "(EQL 3)") ("arglist" . "(THING)"))
    (("name" . "(METHOD STEELBANK-TESTS::DESCRIBED-SUM COMMON-LISP::+ (STEELBANK-TESTS::DESCRIBED-DERIVED))")
     ("qualifiers" "+") ("specializers" "STEELBANK-TESTS::DESCRIBED-DERIVED")
     ("arglist" . "(THING)") ("documentation" . "A method.")))))

(deftest class-facets-agree-with-metaobjects
    (let ((wrong '()))
      (do-all-symbols (symbol wrong)
        (let ((class (find-class symbol nil)))
          (when (and class (typep class 'standard-class) (sb-mop:class-finalized-p class))
            (let ((said (mapcar (lambda (slot) (cdr (assoc "name" (rest slot) :test #'equal)))
                                (facet symbol "class" "slots")))
                  (true (mapcar (lambda (slot)
                                  (steelbank::name-text (sb-mop:slot-definition-name slot)))
                                (sb-mop:class-slots class))))
              (when (set-exclusive-or said true :test #'string=)
                (pushnew symbol wrong)))))))
  nil)

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

(defun ours-p (text)
  "Return true if TEXT names a symbol of the Lisp half."
  (search "STEELBANK::" text))

(deftest answers-omit-the-lisp-half
    (list (loop with class = (steelbank::make-handle (find-class 'error))
                for (question . arguments) in `(("package-info" "COMMON-LISP")
                                                ("subclasses" "ERROR" "COMMON-LISP")
                                                ("inspect" ,class "" "CL-USER" "0" "100" ""))
                for answer = (apply (gethash question steelbank::*questions*) arguments)
                collect (ours-p (json-string answer)))
          (loop for name in '(sb-gray:stream-write-char sb-gray:stream-read-char)
                collect (ours-p (json-string (steelbank::function-facet name))))
          (ours-p (json-string (steelbank::class-facet 'error)))
          (ours-p (json-string (steelbank::definitions-json 'sb-gray:stream-write-char)))
          (find "STEELBANK" (steelbank::others-packages (package-used-by-list :common-lisp))
                :key #'package-name :test #'string=))
  ((nil nil nil) (nil nil) nil nil nil))

(deftest buffer-texts-have-distinct-versions
    (let* ((known (length steelbank::*buffer-texts*))
           (first (+ steelbank::+first-text-version+ known)))
      (flet ((version (text &optional (position 1) (file "/a.lisp"))
               (let ((version (steelbank::version-or-text
                               "/a.lisp" 7 (list :emacs-buffer "a.lisp" :emacs-filename file
                                                 :emacs-position position :emacs-string text))))
                 (and version (- version first)))))
        (list (version "(a)") (version "(b)") (version "(a)") (version "(a)" 9)
              (version "(c)" 1 nil) (steelbank::version-or-text "/a.lisp" 7 '())
              (steelbank::version-or-text "/a.lisp" 7 '(:emacs-string . "(a)"))
              (length (steelbank::buffer-texts-json (1+ known))))))
  (0 1 0 2 nil 7 7 2))
