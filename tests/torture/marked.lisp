(in-package :torture) (defun marked (x) (target x))

(defun after-mark (x)
  (target x))
