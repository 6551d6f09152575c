;;;; Questions that the host asks by name. One entry each, beside the code that answers it.

(in-package :steelbank)

(sb-ext:define-load-time-global *questions* (make-hash-table :test 'equal)
  "A table from the names of questions to the functions that answer them.")

(defmacro define-question (name (&rest arguments) documentation &body body)
  "Define the answer to the question called NAME, a string: a value that WRITE-JSON takes. ARGUMENTS are strings."
  (check-type name string)
  (check-type documentation string)
  (let ((function (intern (format nil "ANSWER-~:@(~a~)" name) :steelbank)))
    `(progn
       (defun ,function ,arguments
         ,documentation
         ,@body)
       (setf (gethash ,name *questions*) ',function))))

(defun answer-question (name arguments)
  "The answer to the question called NAME with ARGUMENTS, a list of strings."
  (let ((function (or (gethash name *questions*)
                      (error "This image does not know the question ~s. Core and program may be of different builds."
                             name))))
    (apply function arguments)))

(defun missing-object (status)
  "The answer for a symbol or package that is not there; STATUS as from FIND-NAMED-SYMBOL."
  (object "status" (ecase status
                     (:no-package "no-package")
                     (:no-symbol "no-symbol"))))

(defun given (text)
  "TEXT, or NIL if it is empty, which is how the host passes an argument that was left out."
  (and (plusp (length text)) text))

(defun first-line (text)
  "The first line of TEXT that is not blank, without the blanks around it; NIL if there is none."
  (when text
    (with-input-from-string (stream text)
      (loop for line = (read-line stream nil)
            while line
            do (let ((line (string-trim '(#\Space #\Tab) line)))
                 (when (plusp (length line))
                   (return (if (> (length line) 160) (concatenate 'string (subseq line 0 160) "...") line))))))))
