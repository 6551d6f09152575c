(in-package :cl-user)

(defun test-run ()
  (list (cl-mcp:run :transport :stdio) (cl-mcp:run)))
