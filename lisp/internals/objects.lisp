;;;; The object system beyond the metaobject protocol, and the descriptions that DEFSTRUCT stores.

(in-package :steelbank)

;;; Classes

(deftype condition-class ()
  "The metaclass of conditions."
  'sb-pcl::condition-class)

(deftype slot-class ()
  "A class that defines its instances by slots and initialization arguments."
  'sb-pcl::std-class)

(defconstant +slot-object+ 'sb-pcl::slot-object
  "The name of the class that all objects with slots share.")

(define-inline metaobject-source-location (metaobject)
  "Return the source location of METAOBJECT, a class, generic function or method, or NIL."
  (sb-pcl::definition-source metaobject))

(define-inline class-source-location (name)
  "Return the source location of the structure or condition NAME, or NIL."
  (sb-kernel::classoid-source-location (sb-kernel:find-classoid name)))

;;; Methods

(deftype class-specializer ()
  "A specializer that is or acts as a class."
  'sb-pcl::standard-specializer)

(deftype class-eq-specializer ()
  "A specializer that applies only to direct instances of a class."
  'sb-pcl::class-eq-specializer)

(define-inline class-eq-specializer-class (specializer)
  "Return the class of SPECIALIZER, a CLASS-EQ-SPECIALIZER."
  (sb-pcl::specializer-object specializer))

(define-inline map-specializers (function)
  "Call FUNCTION with each specializer that methods may have."
  (sb-pcl::map-specializers function))

(define-inline method-fast-function (method)
  "Return the function of METHOD that takes its arguments individually, or NIL."
  (sb-pcl::safe-method-fast-function method))

(define-inline method-list-function (method)
  "Return the function of METHOD that takes its arguments as a list, or NIL."
  (sb-pcl::safe-method-function method))

;;; Constructors: funcallable instances, one for each MAKE-INSTANCE with a constant class and
;;; constant names of initialization arguments

(defconstant +compile-constructor+ 'sb-pcl::install-optimized-constructor
  "Compiles its argument, a constructor; called at the constructor's first call.")

(defun compile-constructors ()
  "Compile the constructors that are not compiled yet, if their classes exist."
  (loop for constructor being the hash-values of sb-pcl::*all-ctors*
        for class = (sb-pcl::ctor-class-or-name constructor)
        when (and (null (sb-pcl::ctor-class constructor))
                  (or (typep class 'class) (find-class class nil)))
          do (sb-pcl::install-optimized-constructor constructor)))

(define-inline constructor-class (constructor)
  "Return the class that CONSTRUCTOR instantiates, or the name of the class."
  (sb-pcl::ctor-class-or-name constructor))

(defun constructor-initargs (constructor arguments)
  "Return all initialization arguments of a call of CONSTRUCTOR with ARGUMENTS."
  ;; ARGUMENTS is the list of the values that are not constant. MAKE-INSTANCE with the result is
  ;; equivalent to the call.
  (loop for (name value) on (sb-pcl::ctor-initargs constructor) by #'cddr
        collect name
        collect (if (constantp value)
                    (sb-int:constant-form-value value)
                    (pop arguments))))

(define-inline (setf constructor-function) (function constructor)
  "Make CONSTRUCTOR call FUNCTION."
  (setf (sb-kernel:%funcallable-instance-fun constructor) function))

;;; Method combinations

(define-inline method-combination-known-p (symbol)
  "Return true if SYMBOL names a method combination."
  (and (gethash symbol sb-pcl::**method-combinations**) t))

(define-inline method-combination-name (combination)
  "Return the name of COMBINATION's type."
  (sb-pcl::method-combination-type-name combination))

(define-inline method-combination-arguments (combination)
  "Return the options of COMBINATION."
  (sb-pcl::method-combination-options combination))

;;; Structures

(define-inline structure-description (name)
  "Return DEFSTRUCT's description of the structure NAME, or NIL."
  (sb-kernel:find-defstruct-description name nil))

(define-inline structure-name (description)
  "Return the name of the structure of DESCRIPTION."
  (sb-kernel:dd-name description))

(define-inline structure-constructors (description)
  "Return the constructors of DESCRIPTION, as lists that begin with a name."
  (sb-kernel:dd-constructors description))

(define-inline structure-predicate (description)
  "Return the name of the predicate of DESCRIPTION, or NIL."
  (sb-kernel::dd-predicate-name description))

(define-inline structure-copier (description)
  "Return the name of the copier of DESCRIPTION, or NIL."
  (sb-kernel::dd-copier-name description))

(define-inline structure-slot (description name)
  "Return the slot of DESCRIPTION called NAME, or NIL."
  (find name (sb-kernel:dd-slots description) :key #'sb-kernel:dsd-name))

(define-inline structure-slot-accessor (slot)
  "Return the name of the accessor of SLOT, a structure slot."
  (sb-kernel:dsd-accessor-name slot))

(define-inline structure-slot-read-only-p (slot)
  "Return true if SLOT, a structure slot, is read-only."
  (sb-kernel:dsd-read-only slot))
