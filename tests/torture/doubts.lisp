;;; Names with several definitions, and positions that only look like uses.
(in-package :torture)

(defmacro -> (x &rest forms)
  (reduce (lambda (so-far form) (if (consp form) (list* (first form) so-far (rest form)) (list form so-far)))
          forms :initial-value x))
(defun parse (x) (list x))
(defun hidden-by-let (s) (-> (let ((parse s)) parse) parse))
(defun hidden-by-parameter (parse) (-> parse car parse))
(defun not-hidden (s) (-> s parse list))

(defun log-it (s) s)
(defmacro logged (form) `(progn (log-it 1) ,form))
(defun quoted-inside (x) (logged (list x 'log-it)))
(defun local-function-inside (x) (logged (flet ((log-it (s) s)) x)))
(defun key-inside (x) (logged (case x (log-it 1) ((other log-it) 2))))
(defun block-inside (x) (logged (block log-it x)))
(defun nothing-inside (x) (logged x))

(defun helper (x) x)
(defun shadows-helper (helper) helper)
(defmacro helped (x) (helper x) `(helper ,x))
(defun beside-quoted (x) (list (helper x) 'helper))

(eval-when (:compile-toplevel :load-toplevel :execute) (defclass zone () ()))
(defgeneric zoned (zone) (:method ((zone zone)) zone))
(declaim (ftype (function (zone) list) zone-list))
(defun zone-list (zone) (declare (type (or null zone) zone)) (list zone))
(defun zones (list) (loop for zone of-type zone in list collect zone))
(defun zone-array (zone) (declare (type (simple-array zone (*)) zone)) zone)

(defun work (x) x)
(defun dropped () (flet ((unused (work) (list work))) 1))
(defun restarted () (restart-case (work 1) (work () 2)))
(defun keyed-parameter (&key ((work z) 1)) z)
(defmacro with-it ((name) &body body) `(symbol-macrolet ((,name 1)) ,@body))
(defun symbol-macro-of-a-macro () (with-it (work) (list work)))

(defvar *opt* 1)
(defun special-parameter (*opt* &key (more 1)) (list *opt* more))
(defun reads-opt () (list *opt*))

(defstruct pair left (right 0))
(defstruct (pair+ (:include pair (left 1)) (:constructor make-it (right))) more)

(defun (setf work) (v x) (list v x))
(defun local-setf () (flet (((setf work) (v x) (list v x))) (setf (work 1) 2)))
(defun global-setf () (setf (work 1) 2))
