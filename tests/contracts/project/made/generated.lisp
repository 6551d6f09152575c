(in-package :my-package)

(defun generated ()
  (my-function 5))
