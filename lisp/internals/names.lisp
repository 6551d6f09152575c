;;;; SBCL's information on names: the global database, the tables of packages, and the symbols in
;;;; function names.

(in-package :steelbank)

;;; Lists and names

(define-inline proper-list-p (object)
  "Return true if OBJECT is a list that ends in NIL."
  (sb-int:proper-list-p object))

(define-inline function-name-p (object)
  "Return true if OBJECT is a valid function name."
  (and (sb-int:legal-fun-name-p object) t))

(define-inline map-global-names (function)
  "Call FUNCTION with each name in the global database."
  (sb-int:call-with-each-globaldb-name function))

;;; The global database

(define-inline variable-kind (symbol)
  "Return the kind of SYMBOL as a variable."
  ;; It is :SPECIAL, :GLOBAL, :ALWAYS-BOUND, :CONSTANT, :MACRO, :ALIEN or :UNKNOWN.
  (sb-int:info :variable :kind symbol))

(define-inline variable-source-location (symbol)
  "Return the source location of SYMBOL's definition as a variable, or NIL."
  (sb-int:info :source-location :variable symbol))

(defun variable-type (symbol)
  "Return the proclaimed type of the variable SYMBOL, and whether it has one."
  (let ((type (sb-int:info :variable :type symbol)))
    (if (eq type sb-kernel:*universal-type*)
        (values t nil)
        (values (sb-kernel:type-specifier type) t))))

(define-inline operator-kind (name)
  "Return the kind of NAME as an operator: :FUNCTION, :MACRO, :SPECIAL-FORM or NIL."
  (sb-int:info :function :kind name))

(define-inline inline-declaration (name)
  "Return how NAME is declared: INLINE, NOTINLINE, another symbol of SBCL's, or NIL."
  (sb-int:info :function :inlinep name))

(define-inline setf-expander (symbol)
  "Return the SETF expander of SYMBOL: a function, a list with one, a symbol, or NIL."
  (sb-int:info :setf :expander symbol))

(define-inline type-expander (symbol)
  "Return the expander of the type SYMBOL, in the same form as SETF-EXPANDER."
  (sb-int:info :type :expander symbol))

(define-inline defined-type-p (symbol)
  "Return true if DEFTYPE defined SYMBOL."
  (eq (sb-int:info :type :kind symbol) :defined))

(define-inline alien-type-name-p (symbol)
  "Return true if SYMBOL names an alien type."
  (sb-alien-internals:alien-type-p (sb-int:info :alien-type :definition symbol)))

(define-inline global-symbol-function (symbol)
  "Return the contents of SYMBOL's function cell, or NIL."
  (sb-impl::%symbol-function symbol))

;;; Packages

(define-inline system-package-p (package)
  "Return true if PACKAGE is one of SBCL's."
  (sb-int:system-package-p package))

(define-inline internal-symbol-table (package)
  "Return the table of the internal symbols of PACKAGE."
  (sb-impl::package-internal-symbols package))

(define-inline external-symbol-table (package)
  "Return the table of the external symbols of PACKAGE."
  (sb-impl::package-external-symbols package))

(define-inline symbol-table-cells (table)
  "Return the vector of the cells of TABLE: symbols, and markers of empty cells."
  (the simple-vector (cdr (sb-impl::symtbl-%cells table))))

(define-inline symbol-hash (symbol)
  "Return the hash of SYMBOL's name."
  (sb-impl::symbol-name-hash symbol))

(deftype package-at-variance ()
  "A package has exports or other properties that its definition does not list."
  'sb-kernel::package-at-variance-error)

(defconstant +keep-variance+ 'sb-impl::keep-them
  "The restart that keeps the exports of a package that its definition does not list.")

;;; The symbols in the names of functions

(defconstant +fast-method+ 'sb-pcl::fast-method
  "The first element of the name of a method's function.")

(defconstant +slow-method+ 'sb-pcl::slow-method
  "The first element of the name of a method's function that takes its arguments as a list.")

(defconstant +slot-accessor+ 'sb-pcl::slot-accessor
  "The first element of the name of a global slot accessor.")

(defconstant +class-eq+ 'sb-pcl::class-eq
  "The first element of a specializer that applies only to direct instances.")

(defconstant +setf-expander+ 'sb-impl::setf-expander
  "The first element of the name of a DEFINE-SETF-EXPANDER's function.")

(defconstant +defsetf+ 'sb-impl::%defsetf
  "The first element of the name of a DEFSETF's function.")

(defconstant +type-expander+ 'sb-impl::type-expander
  "The first element of the name of a DEFTYPE's function.")

(defconstant +deftransform+ 'sb-c:deftransform
  "The first element of the name of a compiler transform.")

(defconstant +vop+ 'sb-c::vop
  "The first element of the name of a VOP's function.")

(deftype method-function-name ()
  "The name of a method's function."
  '(cons (member sb-pcl::fast-method sb-pcl::slow-method) cons))

(deftype fast-method-name ()
  "The name of a method's function that takes its arguments individually."
  '(cons (eql sb-pcl::fast-method)))
