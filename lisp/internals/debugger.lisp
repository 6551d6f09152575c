;;;; The debugger interface: frames, the positions of their code, and their variables.

(in-package :steelbank)

(deftype no-debug-information ()
  "A frame cannot be read, or its code was compiled without debug information."
  '(or sb-di:debug-condition sb-di:debug-error))

(defmacro when-debug-information (&body body)
  "Return the values of BODY, or NIL if the debug information that it needs was not recorded."
  `(handler-case (progn ,@body)
     (no-debug-information () nil)))

;;; Functions

(deftype assembly-frame-function ()
  "The debug function of a frame that does not belong to Lisp code."
  'sb-di::bogus-debug-fun)

(define-inline debug-function-name (function)
  "Return the name of FUNCTION, a frame's debug function."
  (sb-di:debug-fun-name function))

(define-inline debug-function-start (function)
  "Return the start of FUNCTION, a debug function, as a code location, or NIL."
  (when-debug-information (sb-di:debug-fun-start-location function)))

(defun code-debug-functions (code)
  "Return the debug functions of CODE as a vector, or NIL. They are unpacked at each call."
  (let ((info (sb-kernel:%code-debug-info code)))
    (and (typep info 'sb-c::compiled-debug-info)
         (sb-di::get-debug-info-fun-map info))))

(defun function-toplevel-form (function debug-functions)
  "Return the number of the top-level form that contains FUNCTION, a simple function, or NIL."
  ;; DEBUG-FUNCTIONS are the debug functions of FUNCTION's code. SB-DI has a function for the same
  ;; purpose, but that function unpacks the debug functions at each call, and retains an object for
  ;; each.
  (let* ((name (sb-kernel:%simple-fun-name function))
         (found (find-if (lambda (entry)
                           (and (sb-c::compiled-debug-fun-p entry)
                                (null (sb-c::compiled-debug-fun-kind entry))
                                (equal (sb-c::compiled-debug-fun-name entry) name)))
                         debug-functions))
         (debug-function (and (null found)
                              (when-debug-information (sb-di::fun-debug-fun function)))))
    (cond (found
           (sb-c::compiled-debug-fun-tlf-number found))
          (debug-function
           (sb-c::compiled-debug-fun-tlf-number
            (sb-di::compiled-debug-fun-compiler-debug-fun debug-function))))))

;;; Code locations

(define-inline location-source (location)
  "Return the debug source of the code at LOCATION, or NIL, as in an assembly routine."
  (unless (typep (sb-di:code-location-debug-fun location) 'assembly-frame-function)
    (when-debug-information (sb-di:code-location-debug-source location))))

(define-inline location-toplevel-form (location)
  "Return the number of the top-level form at LOCATION, or NIL if it was not recorded."
  (when-debug-information (sb-di:code-location-toplevel-form-offset location)))

(define-inline location-form-number (location)
  "Return the form number at LOCATION, or NIL if it was not recorded."
  (when-debug-information (sb-di:code-location-form-number location)))

;;; Frames

(defun map-frames (function &key (count 1000))
  "Call FUNCTION with each frame of the stack, innermost first, at most COUNT."
  ;; Stop at a frame that cannot be read: if a signal arrived while the frame was created, its
  ;; return address may be anything.
  (let ((walking t))
    (handler-bind ((type-error (lambda (condition)
                                 (declare (ignore condition))
                                 (when walking
                                   (return-from map-frames nil)))))
      (sb-debug:map-backtrace (lambda (frame)
                                (setf walking nil)
                                (funcall function frame)
                                (setf walking t))
                              :count count))))

(define-inline frame-function (frame)
  "Return the debug function of FRAME."
  (sb-di:frame-debug-fun frame))

(define-inline frame-location (frame)
  "Return the code location of FRAME."
  (sb-di:frame-code-location frame))

(defun return-address-place (address)
  "Return the debug function and code location of ADDRESS, a return address, or NIL."
  (let ((component (sb-di::code-header-from-pc address)))
    (when (typep component 'sb-kernel:code-component)
      ;; An incomplete frame contains older data, so the address need not be that of an instruction.
      (let* ((offset (- address (sb-sys:sap-int (sb-kernel:code-instructions component))))
             (function (and (plusp offset) (sb-di::debug-fun-from-pc component offset))))
        (and function
             (values function (sb-di::code-location-from-pc function offset nil)))))))

(defun interrupted-caller (frame)
  "Return function and code location of the caller of the routine interrupted in FRAME, or NIL."
  ;; The routine is an assembly routine. SBCL mistakes the caller's frame for the routine's; the
  ;; return address is on top of the stack.
  (let ((context (sb-di::compiled-frame-escaped frame)))
    (when context
      (let ((stack (sb-sys:int-sap (sb-vm:context-register context sb-vm::rsp-offset))))
        (return-address-place (sb-sys:sap-ref-word stack 0))))))

;;; Variables

(define-inline debug-function-variables (function)
  "Return the recorded variables of FUNCTION, a debug function, as a vector."
  (or (when-debug-information (sb-di::debug-fun-debug-vars function)) #()))

(define-inline debug-variable-symbol (variable)
  "Return the symbol that names VARIABLE."
  (sb-di:debug-var-symbol variable))

(define-inline debug-variable-valid-p (variable location)
  "Return true if VARIABLE has a value at LOCATION."
  (eq (when-debug-information (sb-di:debug-var-validity variable location)) :valid))

(define-inline debug-variable-value (variable frame)
  "Return the value of VARIABLE in FRAME."
  (sb-di:debug-var-value variable frame))
