(in-package :my-package)
(defun bom (x) (my-function x))
