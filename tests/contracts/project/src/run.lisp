(in-package :cl-mcp)

(defun run (&key transport port)
  "Run the server."
  (list transport port))

(defun main ()
  (run :transport :tcp :port 1))
