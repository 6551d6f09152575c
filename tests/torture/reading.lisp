;;; Text and how the reader treats it: (exported 0) in a comment is no use.
(in-package :torture)

(defun exported (x) "Not a use: (exported 1)." x)

(defun said (x) x) (defun keyed (x) x)

(defun conditional (x)
  #+sbcl (exported x)
  #-sbcl (exported (exported x))
  #+(or) (exported nil)
  #|  (exported 2)  |# (list #+sbcl #-(and) (exported 3) x))

(defun evaluated ()
  (list '#.(list 1 2) (exported #.(+ 1 2)) (exported 4)))

(defun dotted (x)
  (progn . ((exported x) (exported 5))))

(defun labelled ()
  (list '#1=(exported) '#1# (exported '#2=(a . b)) "(exported 6)" #\( (exported 7)))

(defun prefixed (x)
  (list (torture:exported x) (torture::exported x) (|EXPORTED| x) (ex\PORTED x)))

(eval-when (:compile-toplevel :load-toplevel :execute)
  (setf *readtable* (copy-readtable))
  (set-macro-character #\[ (lambda (stream char)
                             (declare (ignore char))
                             (cons 'exported (read-delimited-list #\] stream t))))
  (set-macro-character #\] (get-macro-character #\))))

(defun bracketed (x)
  (list [x] [(exported x)] (exported x)))

(in-package :torture.other)

(defun elsewhere (x) (exported x))

(in-package :torture.namesake)

(defun exported (x) (list x))

(defun own (x) (exported x))
