;;;; The object system beyond the metaobject protocol, and what DEFSTRUCT keeps.

(in-package :steelbank)

;;; Classes

(deftype condition-class ()
  "The metaclass of conditions."
  'sb-pcl::condition-class)

(deftype slot-class ()
  "A class whose instances were defined with slots and initial arguments."
  'sb-pcl::std-class)

(defconstant +slot-object+ 'sb-pcl::slot-object
  "The name of the class that all objects with slots share.")

(define-inline metaobject-source-location (metaobject)
  "The source location of METAOBJECT, a class, generic function or method; or NIL."
  (sb-pcl::definition-source metaobject))

(define-inline class-source-location (name)
  "The source location of the structure or condition called NAME, or NIL."
  (sb-kernel::classoid-source-location (sb-kernel:find-classoid name)))

;;; Methods

(deftype class-specializer ()
  "A specializer that is a class, or as good as one."
  'sb-pcl::standard-specializer)

(deftype class-eq-specializer ()
  "A specializer for direct instances of a class alone."
  'sb-pcl::class-eq-specializer)

(define-inline class-eq-specializer-class (specializer)
  "The class of SPECIALIZER, a CLASS-EQ-SPECIALIZER."
  (sb-pcl::specializer-object specializer))

(define-inline map-specializers (function)
  "Call FUNCTION with each specializer that methods may have."
  (sb-pcl::map-specializers function))

(define-inline method-fast-function (method)
  "The function of METHOD that takes its arguments as they come, or NIL."
  (sb-pcl::safe-method-fast-function method))

(define-inline method-list-function (method)
  "The function of METHOD that takes its arguments as a list, or NIL."
  (sb-pcl::safe-method-function method))

;;; Constructors: funcallable instances, one for each MAKE-INSTANCE with a constant class and constant names of initial arguments

(defconstant +compile-constructor+ 'sb-pcl::install-optimized-constructor
  "Compiles a constructor, its argument, which is done at its first call.")

(defun compile-constructors ()
  "Compile the constructors that are not yet compiled and whose classes are known."
  (loop for constructor being the hash-values of sb-pcl::*all-ctors*
        for class = (sb-pcl::ctor-class-or-name constructor)
        when (and (null (sb-pcl::ctor-class constructor))
                  (or (typep class 'class) (find-class class nil)))
          do (sb-pcl::install-optimized-constructor constructor)))

(define-inline constructor-class (constructor)
  "The class of which CONSTRUCTOR makes instances, or its name."
  (sb-pcl::ctor-class-or-name constructor))

(defun constructor-initargs (constructor arguments)
  "The initial arguments with which MAKE-INSTANCE does what CONSTRUCTOR does when it is called with ARGUMENTS, a list: the values that are
no constants."
  (loop for (name value) on (sb-pcl::ctor-initargs constructor) by #'cddr
        collect name
        collect (if (constantp value)
                    (sb-int:constant-form-value value)
                    (pop arguments))))

(define-inline (setf constructor-function) (function constructor)
  "Have FUNCTION be called when CONSTRUCTOR is."
  (setf (sb-kernel:%funcallable-instance-fun constructor) function))

;;; Method combinations

(define-inline method-combination-known-p (symbol)
  "True if SYMBOL names a method combination."
  (and (gethash symbol sb-pcl::**method-combinations**) t))

(define-inline method-combination-name (combination)
  "The name of COMBINATION's type."
  (sb-pcl::method-combination-type-name combination))

(define-inline method-combination-arguments (combination)
  "The options that COMBINATION was made with."
  (sb-pcl::method-combination-options combination))

;;; Structures

(define-inline structure-description (name)
  "The description that DEFSTRUCT keeps of the structure NAME, or NIL."
  (sb-kernel:find-defstruct-description name nil))

(define-inline structure-name (description)
  "The name of the structure of DESCRIPTION."
  (sb-kernel:dd-name description))

(define-inline structure-constructors (description)
  "The constructors of DESCRIPTION: lists that begin with a name."
  (sb-kernel:dd-constructors description))

(define-inline structure-predicate (description)
  "The name of the predicate of DESCRIPTION, or NIL."
  (sb-kernel::dd-predicate-name description))

(define-inline structure-copier (description)
  "The name of the copier of DESCRIPTION, or NIL."
  (sb-kernel::dd-copier-name description))

(define-inline structure-slot (description name)
  "The slot of DESCRIPTION that is called NAME, or NIL."
  (find name (sb-kernel:dd-slots description) :key #'sb-kernel:dsd-name))

(define-inline structure-slot-accessor (slot)
  "The name of the accessor of SLOT, a structure's."
  (sb-kernel:dsd-accessor-name slot))

(define-inline structure-slot-read-only-p (slot)
  "True if SLOT, a structure's, is never set."
  (sb-kernel:dsd-read-only slot))
