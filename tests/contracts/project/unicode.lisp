(in-package :my-package)

(defun größe (x) "Größe von X — «ä»." #| äöü |# (my-function x))
(defun λ-user () (größe 1))
