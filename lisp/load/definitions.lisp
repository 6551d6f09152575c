;;;; System definitions that ASDF reads again.
;;;;
;;;; ASDF reads a definition again when it looks for a secondary system that is not there, and in each session that asks for a system
;;;; in a file of another name. It then resets all systems of the file, loaded ones too, and knows nothing more of what was done for
;;;; them. What a definition that is as it was says was done is still done.

(in-package :steelbank)

(sb-ext:define-load-time-global *defined-systems* (make-hash-table :test 'equal :synchronized t)
  "The name of each system -> the file and the options of the DEFSYSTEM form that defined it last.")

(defun same-atom-p (one other)
  "True if ONE and OTHER are EQUAL, or symbols without a package and of the same name."
  (or (equal one other)
      (and (symbolp one)
           (symbolp other)
           (null (symbol-package one))
           (null (symbol-package other))
           (string= one other))))

(defun done-operations (system)
  "What ASDF knows to be done for SYSTEM and for what is in it: for each component its path, its class and its operation times."
  (let ((done '()))
    (labels ((walk (component)
               (push (list (asdf:component-find-path component)
                           (type-of component)
                           (asdf/component:component-operation-times component))
                     done)
               (when (typep component 'asdf:parent-component)
                 (mapc #'walk (asdf:component-children component)))))
      (walk system))
    done))

(defun restore-done-operations (system done)
  "Have ASDF know again what was DONE, of DONE-OPERATIONS, for SYSTEM, which has been reset since."
  (loop for (path class times) in (done-operations system)
        for (nil nil then) = (find-if (lambda (entry)
                                        (and (equal (first entry) path) (eq (second entry) class)))
                                      done)
        when then
          do (loop for operation being the hash-keys of then using (hash-value stamp)
                   do (setf (gethash operation times) stamp))))

(defun keeping-definition (function name &rest options)
  "Around ASDF's carrying out of a DEFSYSTEM form. If it is the one that defined the system before, what was done stays done."
  (let* ((name (or (around-user-code (asdf:coerce-name name)) name))
         (system (asdf:registered-system name))
         (before (gethash name *defined-systems*))
         (done (and before
                    (typep system 'asdf:system)
                    (around-user-code (done-operations system)))))
    (remhash name *defined-systems*)
    (multiple-value-prog1 (apply function name options)
      (let* ((system (asdf:registered-system name))
             (definition (and (typep system 'asdf:system)
                              (cons (asdf:system-source-file system) options))))
        (when (and done (tree-equal before definition :test #'same-atom-p))
          (around-user-code (restore-done-operations system done)))
        (when definition
          (setf (gethash name *defined-systems*) definition))))))
