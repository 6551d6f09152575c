;;; Lines end in carriage return and line feed, and start with tabs.
(in-package :torture)

(defun endings (x)
	(target
		(target x)) ; (target)
)
