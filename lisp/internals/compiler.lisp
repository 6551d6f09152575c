;;;; The running compiler: source info, source paths, error contexts, policy, and its intermediate
;;;; representation.

(in-package :steelbank)

;;; The current compilation

(define-inline current-source-info ()
  "Return the source info of the current compilation on this thread, or NIL."
  (and (boundp 'sb-c::*source-info*) sb-c::*source-info*))

(define-inline source-info-file-info (source-info)
  "Return the file info of SOURCE-INFO."
  (sb-c::source-info-file-info source-info))

(define-inline source-info-stream (source-info)
  "Return the stream that SOURCE-INFO is read from, or NIL."
  (sb-c::source-info-stream source-info))

(define-inline file-info-forms (file-info)
  "Return the vector of the top-level forms of FILE-INFO that were read so far."
  (sb-c::file-info-forms file-info))

(define-inline file-info-pathname (file-info)
  "Return the pathname of FILE-INFO, as it was passed to the compiler."
  (sb-c::file-info-pathname file-info))

(define-inline file-info-write-date (file-info)
  "Return the write date of the file of FILE-INFO."
  (sb-c::file-info-write-date file-info))

(define-inline make-text-source-info (forms starts)
  "Return a source info for a text that is not in a file."
  ;; FORMS and STARTS are adjustable vectors of the text's top-level forms and their start
  ;; positions.
  (sb-c::make-source-info
   ;; SBCL versions differ in the name of the truename's keyword.
   :file-info (sb-c::make-file-info :%truename :lisp :truename :lisp :allow-other-keys t
                                    :forms forms :positions starts)))

(defmacro with-numbered-form ((form index source-info) &body body)
  "Run BODY, which evaluates FORM, number INDEX of SOURCE-INFO, with numbered sub-forms."
  `(let ((sb-c::*source-info* ,source-info)
         ;; This is NIL until the compiler sets it, because no form is being compiled yet.
         (sb-c::*current-path* nil))
     (sb-c::with-source-paths
       (sb-c::find-source-paths ,form ,index)
       ,@body)))

(defun evaluate-toplevel-form (form index)
  "Evaluate FORM, number INDEX of the current source."
  (sb-impl::eval-tlf form index))

;;; Source paths

(define-inline source-path (form)
  "Return the compiler's source path of FORM in the last top-level form, or NIL."
  (gethash form sb-c::*source-paths*))

(define-inline source-path-form-number (path)
  "Return the form number in PATH, or NIL."
  (sb-c::source-path-form-number path))

(define-inline source-path-toplevel-form (path)
  "Return the number of the top-level form in PATH."
  (sb-c::source-path-tlf-number path))

;;; Error contexts

(define-inline compiler-error-context ()
  "Return the current error context of the compiler, or NIL."
  ;; While a form is compiled, the context describes that form. In the summary of a compilation
  ;; unit, it describes the current item, and the source is no longer available.
  (and (boundp 'sb-c::*source-info*)
       (sb-c::find-error-context nil)))

(define-inline error-context-file (context)
  "Return the pathname of the file of CONTEXT, or a substitute for it."
  (sb-c::compiler-error-context-file-name context))

(define-inline error-context-path (context)
  "Return the source path of CONTEXT, or NIL."
  (sb-c::compiler-error-context-path context))

(define-inline error-context-form (context)
  "Return the form of CONTEXT, printed."
  (sb-c::compiler-error-context-original-source context))

;;; Conditions of the compiler

(deftype compiler-error ()
  "A form cannot be compiled; the compiler continues after it."
  'sb-c:compiler-error)

(deftype fatal-compiler-error ()
  "The compilation of a file must end."
  'sb-c:fatal-compiler-error)

(defun carriage-return-directive-p (condition)
  "Return true if CONDITION reports a tilde before CR LF in a format control string."
  (and (typep condition 'sb-format:format-error)
       (let ((control (sb-format::format-error-control-string condition))
             (offset (sb-format::format-error-offset condition)))
         (and (stringp control)
              (integerp offset)
              (eql (search (coerce '(#\Return #\Newline) 'string) control :start2 offset)
                   offset)))))

(deftype late-inline-definition ()
  "Calls were compiled before the inline function or structure accessor was defined."
  'sb-c:inlining-dependency-failure)

(deftype late-compiler-macro ()
  "Calls were compiled before the compiler macro was defined."
  'sb-c:compiler-macro-application-missed-warning)

(deftype source-input-error ()
  "A file that is being compiled cannot be read."
  'sb-c::input-error-in-compile-file)

(define-inline source-input-error-place (condition)
  "Return the position of CONDITION, a SOURCE-INPUT-ERROR, as a cons of line and column, or NIL."
  ;; The position is the start of a form. Lines count from 1, columns from 0.
  (sb-c::input-error-in-compile-file-line/col condition))

(deftype encapsulated-condition ()
  "A condition that wraps another condition."
  'sb-int:encapsulated-condition)

(define-inline encapsulated-condition (condition)
  "Return the condition that CONDITION wraps."
  (sb-int:encapsulated-condition condition))

(deftype uninteresting-redefinition ()
  "A redefinition that does not deserve a warning."
  'sb-kernel::uninteresting-redefinition)

(defconstant +continue-recklessly+ 'sb-kernel::recklessly-continue
  "The restart that accepts a structure with different slots and keeps its instances.")

(defun style-warning-of (control &rest arguments)
  "Return a style warning that reports CONTROL, formatted with ARGUMENTS."
  (make-condition 'sb-int:simple-style-warning :format-control control :format-arguments arguments))

;;; Undefined names, which the compiler reports at the end of a compilation unit

(define-inline undefined-names ()
  "Return the undefined names in the current compilation unit, or NIL if there is no such unit."
  (and (boundp 'sb-c::*undefined-warnings*) sb-c::*undefined-warnings*))

(define-inline forget-undefined-names ()
  "Prevent the compilation unit from reporting undefined names."
  (setf sb-c::*undefined-warnings* '()))

(define-inline undefined-name (undefined)
  "Return the name of UNDEFINED, one of UNDEFINED-NAMES."
  (sb-c::undefined-warning-name undefined))

(define-inline undefined-name-kind (undefined)
  "Return the kind of the uses of UNDEFINED: :FUNCTION, :VARIABLE or :TYPE."
  (sb-c::undefined-warning-kind undefined))

(define-inline undefined-name-contexts (undefined)
  "Return the error contexts of the uses of UNDEFINED."
  (sb-c::undefined-warning-warnings undefined))

;;; Policy

(defconstant +store-xref-data+ 'sb-c::store-xref-data
  "The policy quality that determines for which functions uses are recorded.")

(defmacro with-least-quality ((quality value) &body body)
  "Run BODY with a minimum of VALUE for QUALITY in all policies."
  `(let ((sb-c::*policy-min* sb-c::*policy-min*))
     (sb-ext:restrict-compiler-policy ,quality ,value)
     ,@body))

(define-inline current-policy ()
  "Return the policy of the code that is being compiled."
  sb-c::*policy*)

(define-inline declaimed-policy (specifier policy)
  "Return POLICY, modified by SPECIFIER, an OPTIMIZE declaration."
  (sb-c::process-optimize-decl specifier policy))

(defmacro with-policy ((policy) &body body)
  "Run BODY with POLICY."
  `(let ((sb-c::*policy* ,policy))
     ,@body))

;;; The intermediate representation: components of blocks of nodes, and functionals

(define-inline component-lambdas (component)
  "Return the functionals of COMPONENT that are not LET-converted."
  (sb-c::component-lambdas component))

(define-inline component-toplevel-p (component)
  "Return true if COMPONENT has code that runs when its file is loaded."
  (some (lambda (functional) (sb-c::functional-kind-eq functional sb-c::toplevel))
        (component-lambdas component)))

(defmacro do-component-blocks ((block component) &body body)
  "Run BODY with BLOCK bound to each block of COMPONENT."
  `(sb-c::do-blocks (,block ,component)
     ,@body))

(defmacro do-block-nodes ((node block) &body body)
  "Run BODY with NODE bound to each node of BLOCK."
  `(sb-c::do-nodes (,node nil ,block)
     ,@body))

(define-inline node-path (node)
  "Return the source path of NODE."
  (sb-c::node-source-path node))

(define-inline block-xrefs (block)
  "Return the uses by macros and constants in BLOCK: lists of kind, name and source path."
  (sb-c::block-xrefs block))

(defun toplevel-block-p (block)
  "Return true if BLOCK belongs to no function for which SBCL records uses."
  (let ((functional (sb-c::block-home-lambda block)) (recorded nil))
    (unless (or (sb-c::functional-kind-eq functional sb-c::deleted)
                (sb-c::functional-inline-expanded functional))
      (sb-c::call-with-block-external-functionals block (lambda (entry)
                                                          (declare (ignore entry))
                                                          (setf recorded t)))
      (not recorded))))

(define-inline make-functional ()
  "Return an empty functional, for recording uses."
  (sb-c::make-functional))

(define-inline functional-uses (functional)
  "Return the uses recorded in FUNCTIONAL, alternating kinds and lists of (name . form number)."
  (sb-c::functional-xref functional))

(define-inline (setf functional-uses) (uses functional)
  "Set the uses recorded in FUNCTIONAL to USES."
  (setf (sb-c::functional-xref functional) uses))

(define-inline note-node-uses (node functional)
  "Record the uses by NODE in FUNCTIONAL."
  (sb-c::record-node-xrefs node functional))

(define-inline note-use (kind name functional path)
  "Record the use of NAME as KIND at the source PATH in FUNCTIONAL."
  (sb-c::record-xref kind name functional nil path))

(define-inline use-kind-number (kind)
  "Return the number of KIND, a kind of use."
  (position kind sb-c::+xref-kinds+))

(define-inline functional-name (functional)
  "Return the name of FUNCTIONAL in debug information."
  (sb-c::functional-debug-name functional))

(define-inline let-converted-lambdas (functional)
  "Return the functionals that were LET-converted into FUNCTIONAL."
  (sb-c::lambda-lets functional))

(define-inline lambda-variables (functional)
  "Return the variables that FUNCTIONAL binds."
  (sb-c::lambda-vars functional))

(define-inline variable-special-p (variable)
  "Return true if VARIABLE, of LAMBDA-VARIABLES, is bound dynamically."
  (and (sb-c::lambda-var-specvar variable) t))

(define-inline variable-name (variable)
  "Return the name of VARIABLE, of LAMBDA-VARIABLES."
  (sb-c::leaf-debug-name variable))

;;; Macroexpansion

(defun expanded-everywhere (form)
  "Return FORM with all macro forms in it expanded, in the null lexical environment."
  (sb-walker:macroexpand-all form))
