;;;; SBCL's knowledge of names: what its global database holds of a symbol, the tables of packages, and the symbols in function names.

(in-package :steelbank)

;;; Lists and names

(define-inline proper-list-p (object)
  "True if OBJECT is a list that ends in NIL."
  (sb-int:proper-list-p object))

(define-inline function-name-p (object)
  "True if OBJECT may name a function."
  (and (sb-int:legal-fun-name-p object) t))

(define-inline map-global-names (function)
  "Call FUNCTION with each name that the global database knows."
  (sb-int:call-with-each-globaldb-name function))

;;; The global database

(define-inline variable-kind (symbol)
  "The kind of SYMBOL as a variable: :SPECIAL, :GLOBAL, :ALWAYS-BOUND, :CONSTANT, :MACRO, :ALIEN or :UNKNOWN."
  (sb-int:info :variable :kind symbol))

(define-inline variable-source-location (symbol)
  "The source location of SYMBOL's definition as a variable, or NIL."
  (sb-int:info :source-location :variable symbol))

(defun variable-type (symbol)
  "The type specifier that SYMBOL was proclaimed with as a variable; second, whether it says anything."
  (let ((type (sb-int:info :variable :type symbol)))
    (if (eq type sb-kernel:*universal-type*)
        (values t nil)
        (values (sb-kernel:type-specifier type) t))))

(define-inline operator-kind (name)
  "The kind of NAME as an operator: :FUNCTION, :MACRO, :SPECIAL-FORM or NIL."
  (sb-int:info :function :kind name))

(define-inline inline-declaration (name)
  "The inline declaration of the function NAME: INLINE, NOTINLINE, another word of SBCL's, or NIL."
  (sb-int:info :function :inlinep name))

(define-inline setf-expander (symbol)
  "The expander of SETF of SYMBOL: a function, a list with one in it, a symbol; NIL if there is none."
  (sb-int:info :setf :expander symbol))

(define-inline type-expander (symbol)
  "The expander of the type SYMBOL, in the forms that SETF-EXPANDER returns."
  (sb-int:info :type :expander symbol))

(define-inline defined-type-p (symbol)
  "True if DEFTYPE defined SYMBOL."
  (eq (sb-int:info :type :kind symbol) :defined))

(define-inline alien-type-name-p (symbol)
  "True if SYMBOL names an alien type."
  (sb-alien-internals:alien-type-p (sb-int:info :alien-type :definition symbol)))

(define-inline global-symbol-function (symbol)
  "The content of SYMBOL's function cell, or NIL."
  (sb-impl::%symbol-function symbol))

;;; Packages

(define-inline system-package-p (package)
  "True if PACKAGE is one of SBCL's."
  (sb-int:system-package-p package))

(define-inline internal-symbol-table (package)
  "The table of the internal symbols of PACKAGE."
  (sb-impl::package-internal-symbols package))

(define-inline external-symbol-table (package)
  "The table of the external symbols of PACKAGE."
  (sb-impl::package-external-symbols package))

(define-inline symbol-table-cells (table)
  "The vector of the cells of TABLE: symbols, and the markers of empty cells."
  (the simple-vector (cdr (sb-impl::symtbl-%cells table))))

(define-inline symbol-hash (symbol)
  "The hash of SYMBOL's name."
  (sb-impl::symbol-name-hash symbol))

(deftype package-at-variance ()
  "A package has what its definition does not name."
  'sb-kernel::package-at-variance-error)

(defconstant +keep-variance+ 'sb-impl::keep-them
  "The restart by which a package keeps the exports that its definition does not name.")

;;; The symbols in the names of functions

(defconstant +fast-method+ 'sb-pcl::fast-method
  "The first element of the name of a method's function.")

(defconstant +slow-method+ 'sb-pcl::slow-method
  "The first element of the name of a method's function that takes its arguments as a list.")

(defconstant +slot-accessor+ 'sb-pcl::slot-accessor
  "The first element of the name of a global slot accessor.")

(defconstant +class-eq+ 'sb-pcl::class-eq
  "The first element of a specializer that is for direct instances alone.")

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
  "The name of a method's function that takes its arguments as they come."
  '(cons (eql sb-pcl::fast-method)))
