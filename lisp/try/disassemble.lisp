;;;; disassemble: the machine code of a function, as SBCL writes it.

(in-package :steelbank)

(defun named-code (symbol operator)
  "The functions that have code under SYMBOL, or under the list of OPERATOR and it: conses of a name and the function. Of a
generic function they are its methods' functions."
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
  "The machine code of FUNCTION, called NAME, as an object."
  (object "name" name
          "lines" (lines-of (with-output-to-string (stream)
                              (with-plain-printing
                                (let ((*package* (find-package :common-lisp)) (*print-length* 10) (*print-level* 3))
                                  (disassemble function :stream stream)))))))

(define-question "disassemble" (name package operator)
  "The machine code of what is called NAME in PACKAGE: the function, or with OPERATOR setf or compiler-macro that."
  (multiple-value-bind (symbol status) (find-named-symbol name package)
    (if (member status '(:no-symbol :no-package))
        (missing-object status)
        (object "status" "found"
                "symbol" (symbol-text symbol)
                "functions" (loop for (name . function) in (named-code symbol operator)
                                  collect (disassembly name function))))))
