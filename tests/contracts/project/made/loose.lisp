(in-package :my-package)

(defun loose ()
  (my-function 6))
