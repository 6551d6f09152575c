;;;; impact: finds the subclasses of a class, and the files that are recompiled when a file changes.

(in-package :steelbank)

(define-question "subclasses" (name package-name)
  "Return all direct and indirect subclasses of the class NAME of PACKAGE-NAME."
  (multiple-value-bind (symbol status) (find-named-symbol name package-name)
    (if (member status '(:no-symbol :no-package))
        (missing-object status)
        (let ((class (find-class symbol nil))
              (all '()))
          (labels ((visit (class)
                     (dolist (below (others-classes (sb-mop:class-direct-subclasses class)))
                       (unless (member below all)
                         (push below all)
                         (visit below)))))
            (when class (visit class)))
          (object "status" "found"
                  "subclasses" (sort (mapcar #'class-text all) #'string<))))))

(defun source-components ()
  "Return all Lisp files of loaded systems, as an alist of components and native truenames."
  (let ((found '()))
    (labels ((visit (component)
               (typecase component
                 (asdf:parent-component (mapc #'visit (asdf:component-children component)))
                 (asdf:cl-source-file
                  (let ((path (around-user-code (truename (asdf:component-pathname component)))))
                    (when path (push (cons component (sb-ext:native-namestring path)) found)))))))
      (dolist (name (asdf:already-loaded-systems))
        (let ((system (asdf:registered-system name)))
          (when system (visit system)))))
    (nreverse found)))

(defun files-below (component)
  "Return the source files in COMPONENT, a system, module or file."
  (typecase component
    (asdf:parent-component (mapcan #'files-below (copy-list (asdf:component-children component))))
    (asdf:cl-source-file (list component))))

(defun registered-dependency (dependency)
  "Return the registered system for DEPENDENCY, an entry of a system's dependencies, or NIL."
  ;; ASDF's own lookup would reread a definition that has changed.
  (typecase dependency
    ((or string symbol) (asdf:registered-system (asdf:coerce-name dependency)))
    ((cons (eql :version)) (registered-dependency (second dependency)))
    ((cons (eql :feature)) (and (uiop:featurep (second dependency))
                                (registered-dependency (third dependency))))))

(defun needed-components (component)
  "Return the declared dependencies of COMPONENT, of its enclosing modules and of its system."
  (let ((needed '()))
    (loop for at = component then (asdf:component-parent at)
          while at
          do (dolist (dependency (around-user-code (asdf:component-sideway-dependencies at)))
               (let ((found (around-user-code
                             (if (typep at 'asdf:system)
                                 (registered-dependency dependency)
                                 (asdf:find-component (asdf:component-parent at) dependency)))))
                 (when found (push found needed)))))
    needed))

(define-question "recompiled" (&rest paths)
  "Return the files of loaded systems that are in PATHS, or are recompiled if PATHS change."
  (let* ((components (source-components))
         (changed (remove-if-not (lambda (entry) (member (cdr entry) paths :test #'string=))
                                 components))
         (dependents (make-hash-table :test 'eq))
         (reached '()))
    (loop for (component) in components
          do (dolist (needed (needed-components component))
               (dolist (file (files-below needed))
                 (push component (gethash file dependents)))))
    (labels ((visit (component)
               (unless (member component reached)
                 (push component reached)
                 (mapc #'visit (gethash component dependents)))))
      (loop for (component) in changed do (visit component)))
    (object "files" (sort (loop for component in reached
                                collect (cdr (assoc component components)))
                          #'string<))))
