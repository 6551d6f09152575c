;;;; Preserves ASDF's operation times when ASDF rereads system definitions.
;;;;
;;;; ASDF rereads a definition when it searches for a secondary system that does not exist, and once
;;;; in each session that searches for a system defined in a file of another name. ASDF then resets
;;;; all systems of the file, even loaded systems, and forgets which operations were performed. If
;;;; the definition has not changed, those operations are still valid.

(in-package :steelbank)

(sb-ext:define-load-time-global *defined-systems* (make-hash-table :test 'equal :synchronized t)
  "Maps each system's name to the file and options of its last DEFSYSTEM form.")

(defun same-atom-p (one other)
  "Return true if ONE and OTHER are EQUAL, or uninterned symbols of the same name."
  (or (equal one other)
      (and (symbolp one)
           (symbolp other)
           (null (symbol-package one))
           (null (symbol-package other))
           (string= one other))))

(defun done-operations (system)
  "Return the operations that ASDF has performed for SYSTEM and its components."
  ;; For each component, return a list of its path, its class and its operation times.
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
  "Restore the operation times DONE, from DONE-OPERATIONS, in SYSTEM, which ASDF has reset."
  (loop for (path class times) in (done-operations system)
        for (nil nil then) = (find-if (lambda (entry)
                                        (and (equal (first entry) path) (eq (second entry) class)))
                                      done)
        when then
          do (loop for operation being the hash-keys of then using (hash-value stamp)
                   do (setf (gethash operation times) stamp))))

(defun preserving-operations (function name &rest options)
  "Wrap ASDF's evaluation of a DEFSYSTEM form."
  ;; If the form is unchanged since it last defined the system, restore the operation times.
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
