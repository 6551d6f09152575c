;;;; The compiler while it works: source info, source paths, error contexts, policy, and its intermediate representation.

(in-package :steelbank)

;;; What is being compiled

(define-inline current-source-info ()
  "The source info of what is being compiled on this thread, or NIL."
  (and (boundp 'sb-c::*source-info*) sb-c::*source-info*))

(define-inline source-info-file-info (source-info)
  "The file info of SOURCE-INFO."
  (sb-c::source-info-file-info source-info))

(define-inline source-info-stream (source-info)
  "The stream that SOURCE-INFO is read from, or NIL."
  (sb-c::source-info-stream source-info))

(define-inline file-info-forms (file-info)
  "The vector of the top-level forms of FILE-INFO that were read so far."
  (sb-c::file-info-forms file-info))

(define-inline file-info-pathname (file-info)
  "The pathname of FILE-INFO, as the compiler was given it."
  (sb-c::file-info-pathname file-info))

(define-inline file-info-write-date (file-info)
  "The write date of the file of FILE-INFO."
  (sb-c::file-info-write-date file-info))

(define-inline make-text-source-info (forms starts)
  "A source info for a text of no file. FORMS and STARTS are adjustable vectors of its top-level forms and where they begin."
  (sb-c::make-source-info
   ;; The truename's keyword has been renamed.
   :file-info (sb-c::make-file-info :%truename :lisp :truename :lisp :forms forms :positions starts :allow-other-keys t)))

(defmacro with-numbered-form ((form index source-info) &body body)
  "Run BODY, which evaluates FORM, number INDEX of SOURCE-INFO, with its sub-forms numbered."
  `(let ((sb-c::*source-info* ,source-info)
         ;; Nothing is being compiled unless the compiler says so.
         (sb-c::*current-path* nil))
     (sb-c::with-source-paths
       (sb-c::find-source-paths ,form ,index)
       ,@body)))

(defun evaluate-toplevel-form (form index)
  "Evaluate FORM, number INDEX of what is being compiled."
  (sb-impl::eval-tlf form index))

;;; Source paths

(define-inline source-path (form)
  "The source path that the compiler noted of FORM, a part of the top-level form that it read last; or NIL."
  (gethash form sb-c::*source-paths*))

(define-inline source-path-form-number (path)
  "The form number in PATH, or NIL."
  (sb-c::source-path-form-number path))

(define-inline source-path-toplevel-form (path)
  "The number of the top-level form in PATH."
  (sb-c::source-path-tlf-number path))

;;; Error contexts

(define-inline compiler-error-context ()
  "The error context of what is being compiled, or of what the summary of a compilation unit reports; NIL if there is
none."
  ;; In the summary there is a context, and no source any more.
  (and (boundp 'sb-c::*source-info*)
       (sb-c::find-error-context nil)))

(define-inline error-context-file (context)
  "The pathname of the file of CONTEXT, or what stands for one."
  (sb-c::compiler-error-context-file-name context))

(define-inline error-context-path (context)
  "The source path of CONTEXT, or NIL."
  (sb-c::compiler-error-context-path context))

(define-inline error-context-form (context)
  "The form of CONTEXT, printed."
  (sb-c::compiler-error-context-original-source context))

;;; What the compiler signals

(deftype compiler-error ()
  "A form cannot be compiled; the compiler goes on after it."
  'sb-c:compiler-error)

(deftype fatal-compiler-error ()
  "A file cannot be compiled any further."
  'sb-c:fatal-compiler-error)

(deftype source-input-error ()
  "A file that is being compiled cannot be read."
  'sb-c::input-error-in-compile-file)

(define-inline source-input-error-place (condition)
  "Line, from 1, and column, from 0, where the form of CONDITION, a SOURCE-INPUT-ERROR, begins: a cons, or NIL."
  (sb-c::input-error-in-compile-file-line/col condition))

(deftype encapsulated-condition ()
  "A condition that passes another one on."
  'sb-int:encapsulated-condition)

(define-inline encapsulated-condition (condition)
  "The condition that CONDITION passes on."
  (sb-int:encapsulated-condition condition))

(deftype uninteresting-redefinition ()
  "A redefinition that is not worth a warning."
  'sb-kernel::uninteresting-redefinition)

(defconstant +continue-recklessly+ 'sb-kernel::recklessly-continue
  "The restart by which a structure gets other slots, and its instances stay.")

(defun style-warning-of (control &rest arguments)
  "A style warning whose report is CONTROL formatted with ARGUMENTS."
  (make-condition 'sb-int:simple-style-warning :format-control control :format-arguments arguments))

;;; Names without a definition, which the compiler tells of when a compilation unit ends

(define-inline undefined-names ()
  "The names without a definition that the compilation unit has seen; none outside of one."
  (and (boundp 'sb-c::*undefined-warnings*) sb-c::*undefined-warnings*))

(define-inline forget-undefined-names ()
  "Have the compilation unit say nothing of names without a definition."
  (setf sb-c::*undefined-warnings* '()))

(define-inline undefined-name (undefined)
  "The name that UNDEFINED, one of UNDEFINED-NAMES, is about."
  (sb-c::undefined-warning-name undefined))

(define-inline undefined-name-kind (undefined)
  "The kind of the uses of UNDEFINED: :FUNCTION, :VARIABLE or :TYPE."
  (sb-c::undefined-warning-kind undefined))

(define-inline undefined-name-contexts (undefined)
  "The error contexts of the uses of UNDEFINED."
  (sb-c::undefined-warning-warnings undefined))

;;; Policy

(defconstant +store-xref-data+ 'sb-c::store-xref-data
  "The quality of a policy that says for which functions uses are recorded.")

(defmacro with-least-quality ((quality value) &body body)
  "Run BODY with no policy in which QUALITY is less than VALUE."
  `(let ((sb-c::*policy-min* sb-c::*policy-min*))
     (sb-ext:restrict-compiler-policy ,quality ,value)
     ,@body))

(define-inline current-policy ()
  "The policy of the code that is being compiled."
  sb-c::*policy*)

(define-inline declaimed-policy (specifier policy)
  "POLICY as SPECIFIER, of an OPTIMIZE declaration, changes it."
  (sb-c::process-optimize-decl specifier policy))

(defmacro with-policy ((policy) &body body)
  "Run BODY with POLICY."
  `(let ((sb-c::*policy* ,policy))
     ,@body))

;;; The intermediate representation: components of blocks of nodes, and functionals

(define-inline component-lambdas (component)
  "The functionals of COMPONENT that are not LET-converted."
  (sb-c::component-lambdas component))

(define-inline component-toplevel-p (component)
  "True if COMPONENT has code that runs when its file is loaded."
  (some (lambda (functional) (sb-c::functional-kind-eq functional sb-c::toplevel))
        (component-lambdas component)))

(defmacro do-component-blocks ((block component) &body body)
  "Run BODY with BLOCK standing for each block of COMPONENT."
  `(sb-c::do-blocks (,block ,component)
     ,@body))

(defmacro do-block-nodes ((node block) &body body)
  "Run BODY with NODE standing for each node of BLOCK."
  `(sb-c::do-nodes (,node nil ,block)
     ,@body))

(define-inline node-path (node)
  "The source path of NODE."
  (sb-c::node-source-path node))

(define-inline block-xrefs (block)
  "The uses that macros and constants left in BLOCK: lists of kind, name and source path."
  (sb-c::block-xrefs block))

(defun toplevel-block-p (block)
  "True if BLOCK belongs to no function that SBCL records uses for."
  (let ((functional (sb-c::block-home-lambda block)) (recorded nil))
    (unless (or (sb-c::functional-kind-eq functional sb-c::deleted)
                (sb-c::functional-inline-expanded functional))
      (sb-c::call-with-block-external-functionals block (lambda (entry)
                                                          (declare (ignore entry))
                                                          (setf recorded t)))
      (not recorded))))

(define-inline make-functional ()
  "A functional of nothing, for uses to be noted in."
  (sb-c::make-functional))

(define-inline functional-uses (functional)
  "The uses noted in FUNCTIONAL: kinds and lists of (name . form number) in turn."
  (sb-c::functional-xref functional))

(define-inline (setf functional-uses) (uses functional)
  "Set the uses noted in FUNCTIONAL to USES."
  (setf (sb-c::functional-xref functional) uses))

(define-inline note-node-uses (node functional)
  "Note in FUNCTIONAL the uses by NODE."
  (sb-c::record-node-xrefs node functional))

(define-inline note-use (kind name functional path)
  "Note in FUNCTIONAL the use of NAME as KIND at the source PATH."
  (sb-c::record-xref kind name functional nil path))

(define-inline use-kind-number (kind)
  "The number of the KIND of a use."
  (position kind sb-c::+xref-kinds+))

(define-inline functional-name (functional)
  "The name of FUNCTIONAL in debug information."
  (sb-c::functional-debug-name functional))

(define-inline let-converted-lambdas (functional)
  "The functionals that were LET-converted into FUNCTIONAL."
  (sb-c::lambda-lets functional))

(define-inline lambda-variables (functional)
  "The variables that FUNCTIONAL binds."
  (sb-c::lambda-vars functional))

(define-inline variable-special-p (variable)
  "True if VARIABLE, of LAMBDA-VARIABLES, is bound dynamically."
  (and (sb-c::lambda-var-specvar variable) t))

(define-inline variable-name (variable)
  "The name of VARIABLE, of LAMBDA-VARIABLES."
  (sb-c::leaf-debug-name variable))

;;; Macroexpansion

(defun expanded-everywhere (form)
  "FORM with all macro forms in it expanded, in the null lexical environment."
  (sb-walker:macroexpand-all form))
