(in-package :my-package)
(defun crlf (x)
  "One.
Two."
  (my-function x))
