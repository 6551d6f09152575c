;;;; The compiler part of the tap: records uses by top-level code, for which SBCL records no cross
;;;; references, and names that are bound locally.

(in-package :steelbank)

(defun own-tap (source-info)
  "Return the current tap if it records the file of SOURCE-INFO, or NIL."
  (let ((tap *tap*))
    (when (and tap source-info)
      (let ((file-info (source-info-file-info source-info)))
        (when (and (null (tap-file-info tap))
                   (tap-source-load tap)
                   (eq (tap-stream tap) (source-info-stream source-info)))
          (setf (tap-file-info tap) file-info))
        (when (eq (tap-file-info tap) file-info)
          tap)))))

(defun tap-node-uses (tap function path)
  "Call FUNCTION with a functional for recording uses; add these uses, in form PATH, to TAP."
  (let ((context (or (tap-context tap) (setf (tap-context tap) (make-functional)))))
    (setf (functional-uses context) nil)
    (funcall function context)
    (loop for (kind records) on (functional-uses context) by #'cddr
          do (loop for (name . number) in records
                   do (push (list (use-kind-number kind) name
                                  (source-path-toplevel-form path) number)
                            (tap-uses tap))))))

(defun note-local (tap toplevel name bit)
  "Record that NAME, if it is a symbol in the file, is bound locally in top-level form TOPLEVEL."
  ;; BIT is 1 for a function and 0 for a variable.
  (let ((index (and (symbolp name) (gethash name (tap-names tap)))))
    (when index
      (setf (gethash (logior (ash toplevel 32) (* 2 index) bit) (tap-locals tap)) t))))

(defun global-variable-p (name)
  "Return true if NAME is a special or global variable or a constant, not a lexical variable."
  (and (symbolp name)
       (member (variable-kind name) '(:special :global :constant :always-bound))
       t))

(defun note-lambda-locals (tap toplevel clambda)
  "Record in TAP the names that CLAMBDA binds in form TOPLEVEL: its local name and its variables."
  (let ((name (functional-name clambda)))
    (when (typep name '(cons (member flet labels) cons))
      (note-local tap toplevel (second name) 1))
    (dolist (variable (lambda-variables clambda))
      ;; Entry points of a function with optional parameters have lexical copies of special
      ;; variables.
      (unless (or (variable-special-p variable)
                  (global-variable-p (variable-name variable)))
        (note-local tap toplevel (variable-name variable) 0)))))

(defun note-component-locals (tap component)
  "Record the names bound in COMPONENT, which belongs to the form read last."
  ;; The compiler is compiling this form or the definition of a macro inside it.
  (let ((toplevel (and (tap-file-info tap)
                       (1- (length (file-info-forms (tap-file-info tap)))))))
    (when (and toplevel (>= toplevel 0))
      (dolist (clambda (component-lambdas component))
        (note-lambda-locals tap toplevel clambda)
        (dolist (inner (let-converted-lambdas clambda))
          (note-lambda-locals tap toplevel inner))))))

(defun tapped-record-component-xrefs (function component)
  "Wrap RECORD-COMPONENT-XREFS: record uses by top-level code, and local names, in the tap."
  ;; SBCL records nothing for top-level code.
  (funcall function component)
  (let ((tap (own-tap (current-source-info))))
    (when *tap*
      (note-component-locals *tap* component))
    (when (and tap (component-toplevel-p component))
      (do-component-blocks (block component)
        (when (toplevel-block-p block)
          (do-block-nodes (node block)
            (let ((path (node-path node)))
              (when (source-path-form-number path)
                (tap-node-uses tap (lambda (context) (note-node-uses node context)) path))))
          (loop for (kind what path) in (block-xrefs block)
                when (source-path-form-number path)
                  do (tap-node-uses tap
                                    (lambda (context) (note-use kind what context path))
                                    path)))))))
