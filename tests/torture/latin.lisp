;;; café: in Latin-1.
(in-package :torture)

(defun naïve (x) "éè" (target "à") (target x))

(defun other (x) (naïve x))
