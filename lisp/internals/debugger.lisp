;;;; The debugger's interface: frames, the places of their code, and their variables.

(in-package :steelbank)

(deftype no-debug-information ()
  "Debug information was not kept when the code of a frame was compiled, or the frame cannot be read."
  '(or sb-di:debug-condition sb-di:debug-error))

(defmacro when-debug-information (&body body)
  "The values of BODY, or NIL if the debug information that it asks for was not kept when the code was compiled."
  `(handler-case (progn ,@body)
     (no-debug-information () nil)))

;;; Functions

(deftype assembly-frame-function ()
  "The debug function of a frame that is not Lisp's."
  'sb-di::bogus-debug-fun)

(define-inline debug-function-name (function)
  "The name of FUNCTION, a frame's."
  (sb-di:debug-fun-name function))

(define-inline debug-function-start (function)
  "The code location at which FUNCTION, a frame's, begins; NIL if it is not known."
  (when-debug-information (sb-di:debug-fun-start-location function)))

(defun code-debug-functions (code)
  "What is known of the functions of CODE for debugging, as a vector; NIL if nothing is. It is unpacked anew each time."
  (let ((info (sb-kernel:%code-debug-info code)))
    (and (typep info 'sb-c::compiled-debug-info)
         (sb-di::get-debug-info-fun-map info))))

(defun function-toplevel-form (function debug-functions)
  "The number of the top-level form of its file in which FUNCTION, a simple one, stands, or NIL. DEBUG-FUNCTIONS are those of its code."
  ;; As SB-DI has it, which unpacks them for each function, and keeps an object for each.
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
           (sb-c::compiled-debug-fun-tlf-number (sb-di::compiled-debug-fun-compiler-debug-fun debug-function))))))

;;; Code locations

(define-inline location-source (location)
  "The debug source of the code at LOCATION; NIL if it has none, as that of an assembly routine."
  (unless (typep (sb-di:code-location-debug-fun location) 'assembly-frame-function)
    (when-debug-information (sb-di:code-location-debug-source location))))

(define-inline location-toplevel-form (location)
  "The number of the top-level form at LOCATION; NIL if it was not kept."
  (when-debug-information (sb-di:code-location-toplevel-form-offset location)))

(define-inline location-form-number (location)
  "The form number at LOCATION; NIL if it was not kept."
  (when-debug-information (sb-di:code-location-form-number location)))

;;; Frames

(defun map-frames (function &key (count 1000))
  "Call FUNCTION with each frame of the stack, the innermost first, at most COUNT. Ends at a frame that cannot be read: where a signal
came while it was made, what stands for its return address is anything."
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
  "The function of FRAME."
  (sb-di:frame-debug-fun frame))

(define-inline frame-location (frame)
  "The code location of FRAME."
  (sb-di:frame-code-location frame))

(defun return-address-place (address)
  "The function and the code location to which ADDRESS, a number, returns, or NIL."
  (let ((component (sb-di::code-header-from-pc address)))
    (when (typep component 'sb-kernel:code-component)
      ;; A frame that was being made has what was there before: it need not be an address of an instruction.
      (let* ((offset (- address (sb-sys:sap-int (sb-kernel:code-instructions component))))
             (function (and (plusp offset) (sb-di::debug-fun-from-pc component offset))))
        (and function
             (values function (sb-di::code-location-from-pc function offset nil)))))))

(defun interrupted-caller (frame)
  "The caller of the assembly routine that was interrupted in FRAME: function and code location, or NIL. SBCL takes its
frame for the routine's; the return address is on top of the stack."
  (let ((context (sb-di::compiled-frame-escaped frame)))
    (when context
      (return-address-place
       (sb-sys:sap-ref-word (sb-sys:int-sap (sb-vm:context-register context sb-vm::rsp-offset)) 0)))))

;;; Variables

(define-inline debug-function-variables (function)
  "The variables of FUNCTION, a frame's, as a vector; empty if they were not kept."
  (or (when-debug-information (sb-di::debug-fun-debug-vars function)) #()))

(define-inline debug-variable-symbol (variable)
  "The name of VARIABLE."
  (sb-di:debug-var-symbol variable))

(define-inline debug-variable-valid-p (variable location)
  "True if VARIABLE has a value at LOCATION."
  (eq (when-debug-information (sb-di:debug-var-validity variable location)) :valid))

(define-inline debug-variable-value (variable frame)
  "The value of VARIABLE in FRAME."
  (sb-di:debug-var-value variable frame))
