;;;; disassemble: returns the machine code of a function as SBCL prints it.

(in-package :steelbank)

(defun named-code (symbol operator)
  "Return the functions of SYMBOL, as OPERATOR selects, as conses of name and function."
  ;; For a generic function, return the functions of its methods.
  (let* ((setf (equalp operator "setf"))
         (name (if setf (list 'setf symbol) symbol))
         (function (cond ((equalp operator "compiler-macro") (compiler-macro-function symbol))
                         ((not (fboundp name)) nil)
                         ((and (not setf) (special-operator-p symbol)) nil)
                         ((and (not setf) (macro-function symbol)))
                         (t (global-function name)))))
    (cond ((null function) '())
          ((typep function 'generic-function)
           (loop for method in (sb-mop:generic-function-methods function)
                 collect (cons (name-text (method-name method))
                               (or (method-fast-function method)
                                   (sb-mop:method-function method)))))
          (t (list (cons (name-text name) function))))))

(defun disassembly (name function)
  "Return the machine code of FUNCTION, called NAME, as a JSON object."
  (object "name" name
          "lines" (lines-of (with-output-to-string (stream)
                              (with-plain-printing
                                (let ((*package* (find-package :common-lisp))
                                      (*print-length* 10) (*print-level* 3))
                                  (disassemble function :stream stream)))))))

(define-question "disassemble" (name package operator)
  "Return the machine code of the function NAME in PACKAGE."
  ;; If OPERATOR is setf or compiler-macro, return the code of NAME's SETF function or compiler
  ;; macro.
  (multiple-value-bind (symbol status) (find-named-symbol name package)
    (if (member status '(:no-symbol :no-package))
        (missing-object status)
        (object "status" "found"
                "symbol" (symbol-text symbol)
                "functions" (loop for (name . function) in (named-code symbol operator)
                                  collect (disassembly name function))))))
