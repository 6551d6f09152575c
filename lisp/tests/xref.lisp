;;;; Tests of the files in lisp/index/. tests/it/oracle.rs compares a complete export with
;;;; sb-introspect.

(in-package :steelbank-tests)

(defpackage :steelbank-tests.names
  (:documentation "Symbols that need bars, and symbols in their own package.")
  (:use))

(defun texts (&rest names)
  "Return the printed forms of NAMES."
  (mapcar #'steelbank::name-text names))

(deftest xref-names-are-qualified
    (texts 'cl:car 'car :key (make-symbol "GENSYM") nil)
  ("COMMON-LISP::CAR" "COMMON-LISP::CAR" "KEYWORD::KEY" "#:GENSYM" "COMMON-LISP::NIL"))

(deftest xref-names-are-escaped
    (let ((*print-case* :downcase) (*print-base* 2) (*package* (find-package :keyword)))
      (texts (intern "a b" :steelbank-tests.names) (intern "12" :steelbank-tests.names)
             '1+ (intern "A|B" :steelbank-tests.names) (intern "" :steelbank-tests.names)))
  ("STEELBANK-TESTS.NAMES::|a b|" "STEELBANK-TESTS.NAMES::|12|" "COMMON-LISP::1+"
   "STEELBANK-TESTS.NAMES::|A\\|B|" "STEELBANK-TESTS.NAMES::||"))

(deftest xref-names-that-are-lists
    (texts '(setf car)
           `(,steelbank::+fast-method+ print-object (string t))
           `(,steelbank::+slow-method+ (setf documentation) :around (t (eql function)))
           '(labels foo :in (setf car))
           '(lambda (x &optional (y 1)) :in "file.lisp")
           '(macro-function when)
           '(compiler-macro (setf car)))
  ("(SETF COMMON-LISP::CAR)"
   "(METHOD COMMON-LISP::PRINT-OBJECT (COMMON-LISP::STRING COMMON-LISP::T))"
   "(METHOD (SETF COMMON-LISP::DOCUMENTATION) :AROUND (COMMON-LISP::T (EQL COMMON-LISP::FUNCTION)))"
   "(LABELS STEELBANK-TESTS::FOO :IN (SETF COMMON-LISP::CAR))"
   "(LAMBDA (STEELBANK-TESTS::X &OPTIONAL (STEELBANK-TESTS::Y 1)) :IN \"file.lisp\")"
   "(MACRO-FUNCTION COMMON-LISP::WHEN)"
   "(COMPILER-MACRO (SETF COMMON-LISP::CAR))"))

(deftest xref-names-are-indexed-by-principal-symbol
    (mapcar #'steelbank::principal-symbol
            `(car (setf cdr) (,steelbank::+fast-method+ (setf foo) (t))
              (flet x :in (labels y :in bar)) (lambda (x)) "name"
              (,steelbank::+slot-accessor+ :global slot reader)))
  (car cdr foo bar nil nil slot))

(deftest xref-circular-and-strange-names-are-printed
    (let ((circle (make-list 40 :initial-element nil)))
      (map-into circle (constantly circle))
      (setf (first circle) 'eql)
      (every #'stringp
             (texts (list steelbank::+fast-method+ 'foo (list circle)) '(a . b) 7 '((1 2) 3)
                    (list steelbank::+fast-method+ 'foo (list (list 'eql (make-hash-table)))))))
  t)

;;; Freshness

(defun status-of (function name)
  "Return the status that the export gives FUNCTION, which was compiled with NAME."
  (steelbank::named-status (steelbank::make-freshness)
                           (steelbank::underlying-function function) name))

(defmacro define-now (form)
  "Compile and run the definition FORM, even if it redefines something."
  `(handler-bind ((warning #'muffle-warning))
     (funcall (compile nil '(lambda () ,form)))))

(deftest xref-redefined-function-is-replaced
    (let ((first (progn (define-now (defun fresh-f () (list 1))) (fdefinition 'fresh-f)))
          (second (progn (define-now (defun fresh-f () (list 2))) (fdefinition 'fresh-f))))
      (list (status-of first 'fresh-f) (status-of second 'fresh-f)))
  (2 1))

(deftest xref-unbound-function-is-not-installed
    (let ((function (progn (define-now (defun fresh-g () (list 1))) (fdefinition 'fresh-g))))
      (list (status-of function 'fresh-g)
            (progn (fmakunbound 'fresh-g) (status-of function 'fresh-g))))
  (1 3))

(deftest xref-function-with-another-name-stays-current
    (let ((function (progn (define-now (defun fresh-h () (list 1))) (fdefinition 'fresh-h))))
      (setf (fdefinition 'fresh-alias) function
            (fdefinition 'fresh-h) #'list)
      (list (status-of function 'fresh-h)
            (progn (fmakunbound 'fresh-alias) (status-of function 'fresh-h))))
  (1 2))

(deftest xref-redefined-method-is-replaced
    (flet ((fast-function ()
             (steelbank::method-fast-function
              (find-method (fdefinition 'fresh-m) '() (list (find-class 'integer))))))
      (let* ((first (progn (define-now (defmethod fresh-m ((x integer)) (list x))) (fast-function)))
             (second (progn (define-now (defmethod fresh-m ((x integer)) (vector x)))
                            (fast-function)))
             (name (list steelbank::+fast-method+ 'fresh-m '(integer))))
        (list (status-of first name) (status-of second name)
              (progn (fmakunbound 'fresh-m) (status-of second name)))))
  (2 1 3))

(deftest xref-macros-and-setf-functions-have-a-status
    (progn
      (define-now (defmacro fresh-macro (x) (list 'list x)))
      (define-now (defun (setf fresh-place) (v x) (setf (car x) v)))
      (define-now (define-compiler-macro fresh-place (x) (list 'car x)))
      (let ((macro (macro-function 'fresh-macro))
            (setf-function (fdefinition '(setf fresh-place)))
            (compiler-macro (compiler-macro-function 'fresh-place)))
        (define-now (defmacro fresh-macro (x) (list 'vector x)))
        (list (status-of macro '(macro-function fresh-macro))
              (status-of (macro-function 'fresh-macro) '(macro-function fresh-macro))
              (status-of setf-function '(setf fresh-place))
              (status-of compiler-macro '(compiler-macro fresh-place))
              (progn (setf (compiler-macro-function 'fresh-place) nil)
                     (status-of compiler-macro '(compiler-macro fresh-place))))))
  (2 1 1 1 3))

(deftest xref-encapsulated-function-is-current
    (let ((function (progn (define-now (defun fresh-traced () (list 1)))
                           (fdefinition 'fresh-traced))))
      (steelbank::encapsulate 'fresh-traced 'test
                              (lambda (function &rest arguments) (apply function arguments)))
      (unwind-protect (status-of function 'fresh-traced)
        (steelbank::unencapsulate 'fresh-traced 'test)))
  1)

(deftest xref-function-without-global-name-is-unknown
    (status-of (compile nil '(lambda (x) (list x))) '(lambda (x)))
  0)

;;; Methods that are being replaced

(defclass made-anew () ()
  (:documentation "A class on which a method of MAKE-ANEW specializes."))

(defgeneric make-anew (x)
  (:documentation "A generic function with a method that is being replaced.")
  (:method ((x made-anew)) (list x)))

(defun method-in-exports (baseline)
  "Export the methods before, during and after the replacement of MAKE-ANEW's method."
  ;; Export all methods, or only the methods that BASELINE lacks; export twice during the
  ;; replacement. For each export, return the number of records of the method's class, the number of
  ;; methods that the export reports as removed, and whether the export must be repeated.
  (let* ((class (find-class 'made-anew))
         (method (find-method #'make-anew '() (list class))))
    (when baseline
      (setf (gethash method (steelbank::baseline-methods baseline)) 0
            (steelbank::baseline-method-count baseline) 1))
    (flet ((export-now ()
             (let* ((state (steelbank::make-export-state baseline))
                    (records (steelbank::state-records state))
                    (before steelbank::*incomplete-exports*))
               (steelbank::export-packages state)
               (steelbank::export-methods state)
               (list (let ((name (gethash 'made-anew (steelbank::state-name-numbers state))))
                       (loop for row below (steelbank::table-count records)
                             count (eql (steelbank::row-cell records row 1) name)))
                     (steelbank::table-count (steelbank::state-refuted state))
                     (> steelbank::*incomplete-exports* before)))))
      (list (export-now)
            (progn
              ;; Stop halfway through the removal of a method.
              (remove-method #'make-anew method)
              (sb-mop:add-direct-method class method)
              (unwind-protect (list (export-now) (export-now))
                (sb-mop:remove-direct-method class method)
                (add-method #'make-anew method)))
            (export-now)))))

(deftest xref-export-during-method-replacement-is-incomplete
    (method-in-exports nil)
  ((1 0 nil) ((0 0 t) (0 0 nil)) (1 0 nil)))

(deftest xref-baseline-method-survives-its-replacement
    (method-in-exports (steelbank::make-baseline))
  ((0 0 nil) ((0 0 t) (0 0 nil)) (0 0 nil)))

;;; Packages

(deftest xref-package-checksum-detects-changes
    (let ((package (make-package "STEELBANK-TESTS.CHANGING" :use '()))
          (sums '()))
      (unwind-protect
           (flet ((note () (push (steelbank::package-checksum package) sums)))
             (note)
             (intern "A" package) (note)
             (export (intern "A" package) package) (note)
             (import 'car package) (note)
             (unintern 'car package)
             (list (length (remove-duplicates sums))
                   (= (steelbank::package-checksum package) (second sums))))
        (delete-package package)))
  (4 t))

;;; Packing

(deftest columns-are-packed-little-endian
    (let ((table (steelbank::make-table 2))
          (pool (steelbank::make-string-pool)))
      (steelbank::add-row table 1 256)
      (steelbank::add-row table 2 nil)
      (steelbank::pool-string pool "é")
      (steelbank::pool-string pool "a")
      (steelbank::pool-string pool "é")
      (coerce (steelbank::pack "HEADING!" '(#x100000002) pool (list table)) 'list))
  (72 69 65 68 73 78 71 33
   2 0 0 0 1 0 0 0
   2 0 0 0 2 0 0 0 3 0 0 0 #xC3 #xA9 97 0
   2 0 0 0 1 0 0 0 2 0 0 0 0 1 0 0 255 255 255 255))

(deftest export-has-callers-of-mapcar
    (let ((state (steelbank::make-export-state nil)))
      (steelbank::export-packages state)
      (steelbank::export-code state 0)
      (let ((name (gethash 'mapcar (steelbank::state-name-numbers state)))
            (records (steelbank::state-records state))
            (calls (steelbank::kind-number :calls)))
        (plusp (loop for row below (steelbank::table-count records)
                     count (and (= (steelbank::row-cell records row 0) calls)
                                (= (steelbank::row-cell records row 1) name))))))
  t)

(defun call-with-core-text-end (end function)
  "Call FUNCTION as if the code of the core ended at the address END."
  (let ((before steelbank::*core-text-end*))
    (setf steelbank::*core-text-end* end)
    (unwind-protect (funcall function)
      (setf steelbank::*core-text-end* before))))

(deftest later-code-is-newer-than-the-core
    (let ((before -1))
      (flet ((compile-some ()
               (loop repeat 200
                     collect (compile (gensym) '(lambda (x) (mapcar #'list x)))
                     do (compile nil '(lambda (x) (nreverse x)))))
             (serials (later)
               (let ((serials '()))
                 (steelbank::map-code (lambda (code)
                                        (when (> (steelbank::code-serial code) before)
                                          (push (steelbank::code-serial code) serials)))
                                      later)
                 serials)))
        ;; Garbage leaves free space, which later code would reuse.
        (compile-some)
        (setf before (reduce #'max (serials nil)))
        (let ((kept (compile-some)))
          (sb-ext:gc :full t)
          (push (compile-some) kept)
          ;; The allocator starts where the core ended when this process was started.
          (call-with-core-text-end
           (sb-alien:extern-alien "tlsf_mem_start" sb-alien:unsigned)
           (lambda ()
             (let ((later (serials t)))
               (list (set-exclusive-or (serials nil) later) (>= (length later) 400)
                     (consp kept))))))))
  (nil t t))
