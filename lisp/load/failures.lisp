;;;; Failures: classifies the condition that stopped a load, and explains it to a reader who does not know ASDF's insides.

(in-package :steelbank)

(defun missing-name (condition)
  "The name of the system or component that CONDITION says is missing."
  (let ((name (asdf/find-component:missing-requires condition)))
    (if (stringp name) name (string-downcase (princ-to-string name)))))

(defun dependent (condition)
  "The path of the component whose dependency CONDITION says is missing, or NIL."
  (let* ((component (and (typep condition 'asdf:missing-dependency)
                         (asdf/find-component:missing-required-by condition)))
         ;; While a system is being defined, as for :defsystem-depends-on, ASDF names none.
         (action (first (asdf/session:visiting-action-list asdf/session:*asdf-session*))))
    (cond (component (component-path component))
          ((and action (typep condition 'asdf:missing-dependency))
           (component-path (cdr action))))))

(defun known-version (condition)
  "The present version of the system of which CONDITION wants another, or NIL."
  (around-user-code (asdf:component-version (asdf:find-system (missing-name condition)))))

(defun failure-names (condition)
  "The kind of CONDITION and the names that it mentions, as a property list."
  (typecase condition
    (asdf:missing-component
     (list :kind (cond ((typep condition 'asdf:missing-component-of-version) :version-mismatch)
                       ((not (typep condition 'asdf:missing-dependency)) :unknown-system)
                       ((typep (asdf/find-component:missing-required-by condition) '(or null asdf:system))
                        :missing-dependency)
                       (t :missing-component))
           :name (missing-name condition)
           :required-by (dependent condition)))
    (asdf:circular-dependency
     (list :kind :circular-dependency
           :name (format nil "~{~A~^ -> ~}"
                         (remove-duplicates
                          (loop for (nil . component) in (asdf/action:circular-dependency-actions condition)
                                collect (component-path component))
                          :test #'equal :from-end t))))
    (asdf:load-system-definition-error
     (list :kind :system-definition
           :name (princ-to-string (asdf:error-name condition))
           :path (sb-ext:native-namestring (asdf:error-pathname condition))))
    ((or uiop:compile-file-error asdf:compile-error uiop:compile-failed-warning)
     (list :kind :compile))
    (heap-share-exhausted
     (list :kind :heap))
    ((satisfies cache-trouble-p)
     (list :kind :cache
           :path (sb-ext:native-namestring *cache-directory*)))
    (file-error
     (list :kind :file
           :path (around-user-code (sb-ext:native-namestring (file-error-pathname condition)))))
    (package-error
     (list :kind :load :name (missing-package condition)))
    (t (list :kind :load))))

(defun missing-package (condition)
  "The name of the package that CONDITION, a package error, says there is not, or NIL."
  (let ((name (around-user-code (package-error-package condition))))
    (and (typep name '(or string symbol character))
         (not (find-package name))
         (string name))))

(defun component-path (component)
  "The names of COMPONENT and what it is part of, outermost first, joined by slashes."
  (format nil "~{~A~^/~}" (asdf:component-find-path component)))

(defun failure (condition &optional place)
  "The description of what stopped the load: a property list of kind, message, file and what can be tried. PLACE is
where it happened."
  (let ((names (failure-names condition)))
    (append names
            (unless (getf names :path)
              (list :path (or *file* (getf place :path))))
            (list :message (failure-text names condition)
                  :restarts (remove-duplicates
                             (loop for restart in (compute-restarts condition)
                                   unless (or (eq (restart-name restart) 'abort)
                                              (member restart (load-session-restarts *load-session*)))
                                     collect (bounded-text (princ-to-string restart) 200))
                             :test #'equal)))))

(defun failure-text (names condition)
  "The explanation of CONDITION, with its NAMES, for a reader who does not know ASDF's insides."
  (destructuring-bind (&key kind name required-by path) names
    (cond ((eq kind :missing-dependency)
           (format nil "System ~A,~@[ which ~A depends on,~] is not known to ASDF." name required-by))
          ((eq kind :missing-component)
           (format nil "Component ~A, which ~A depends on, is not defined beside it." name required-by))
          ((eq kind :version-mismatch)
           (format nil "System ~A is of version ~A; ~:[~A is asked for~;~:*~A depends on version ~A~]."
                   name (or (known-version condition) "none") required-by
                   (asdf/find-component:missing-version condition)))
          ((eq kind :unknown-system)
           (format nil "System ~A is not known to ASDF." name))
          ((eq kind :circular-dependency)
           (format nil "These depend on each other in a circle: ~A." name))
          ((eq kind :compile)
           (format nil "~A does not compile; the diagnostics say why." *file*))
          ((eq kind :cache)
           (format nil "The cache folder ~A cannot be used: ~A" path (condition-text condition)))
          ((wild-fasl-p condition)
           (format nil "ASDF compiles no file that has *, ? or [ in its name~@[, such as ~A~]: give it another." *file*))
          ((typep condition 'heap-share-exhausted)
           (heap-text condition))
          ((typep condition 'serious-condition)
           (condition-text condition))
          (t
           (format nil "The debugger was called: ~A" (condition-text condition))))))

(defun heap-text (condition)
  "The text for CONDITION, a full heap, which says whether what was loaded keeps it full."
  (sb-ext:gc :full t)
  (let ((used (heap-in-use)))
    (format nil "~A~@[ What was loaded keeps ~D MiB, so that whatever needs much memory fails from now on: start ~
                 again with a larger --dynamic-space-size.~]"
            (condition-text condition)
            (and (> used (* 3/4 (heap-limit))) (floor used (* 1024 1024))))))

(defun failure-json (failure)
  "FAILURE as an object."
  (destructuring-bind (&key kind name required-by path message restarts) failure
    (object "kind" (word kind) "name" name "required_by" required-by "path" path "message" message
            "restarts" restarts)))
