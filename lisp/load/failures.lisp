;;;; Classifies the condition that stopped a load, and explains it to a reader who does not know
;;;; ASDF's internals.

(in-package :steelbank)

(defun missing-name (condition)
  "Return the name of the system or component that CONDITION reports as missing."
  (let ((name (asdf/find-component:missing-requires condition)))
    (if (stringp name) name (string-downcase (princ-to-string name)))))

(defun dependent (condition)
  "Return the component with the missing dependency that CONDITION reports, or NIL."
  (let* ((component (and (typep condition 'asdf:missing-dependency)
                         (asdf/find-component:missing-required-by condition)))
         ;; While a system is being defined, for example for :defsystem-depends-on, ASDF names no
         ;; component. Then use the component of the action in progress.
         (action (first (asdf/session:visiting-action-list asdf/session:*asdf-session*))))
    (or component
        (and action (typep condition 'asdf:missing-dependency) (cdr action)))))

(defun known-version (condition)
  "Return the version of the system that CONDITION reports as having the wrong version, or NIL."
  (around-user-code (asdf:component-version (asdf:find-system (missing-name condition)))))

(define-condition unknown-package-option (asdf:system-definition-error)
  ((option :initarg :option :reader unknown-package-option))
  (:report (lambda (condition stream)
             (let ((option (unknown-package-option condition)))
               (format stream "ASDF ~A does not support option ~S of a package definition~
                               ~:[~;; version 3.3.5 does~]."
                       (asdf:asdf-version) option (eq option :local-nicknames)))))
  (:documentation "A package definition that ASDF or UIOP reads has an option unknown to it."))

(defun required-version-place (condition)
  "Return the :PATH and :CLAUSE of the version that CONDITION reports as missing, or NIL."
  (let* ((component (and (typep condition 'asdf:missing-component-of-version)
                         (dependent condition)))
         (path (and component (definition-file (asdf:component-system component)))))
    (and path
         (list :path (native-truename path)
               :clause (list "VERSION" (missing-name condition)
                             (princ-to-string
                              (asdf/find-component:missing-version condition)))))))

(defun missing-file-place (path)
  "Return the :CLAUSE of the component with the missing file PATH, and the :CLAUSE-PATH, or NIL."
  (let ((component (and (not (uiop:file-exists-p path))
                        (loop for name in (registered-names)
                              for system = (asdf:registered-system name)
                                thereis (and (typep system 'asdf:system)
                                             (find path (system-files system)
                                                   :key #'asdf:component-pathname
                                                   :test #'uiop:pathname-equal))))))
    (when component
      (list :clause (list "FILE" (asdf:component-name component))
            :clause-path (native-truename
                          (definition-file (asdf:component-system component)))))))

(defun failure-names (condition)
  "Return the kind of CONDITION and the names that it mentions, as a property list."
  ;; :CLAUSE is the start of the list in the file :CLAUSE-PATH or :PATH that causes the failure: a
  ;; keyword's name, and strings.
  (typecase condition
    (asdf:missing-component
     (list* :kind (cond ((typep condition 'asdf:missing-component-of-version) :version-mismatch)
                        ((not (typep condition 'asdf:missing-dependency)) :unknown-system)
                        ((typep (asdf/find-component:missing-required-by condition)
                                '(or null asdf:system))
                         :missing-dependency)
                        (t :missing-component))
            :name (missing-name condition)
            :required-by (and (dependent condition) (component-path (dependent condition)))
            (required-version-place condition)))
    (unknown-package-option
     (list :kind :version-mismatch
           :name "asdf"
           :clause (list (symbol-name (unknown-package-option condition)))))
    (asdf:circular-dependency
     (list :kind :circular-dependency
           :name (format nil "~{~A~^ -> ~}"
                         (remove-duplicates
                          (mapcar (lambda (action) (component-path (cdr action)))
                                  (asdf/action:circular-dependency-actions condition))
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
     (list* :kind :file
            :path (around-user-code (sb-ext:native-namestring (file-error-pathname condition)))
            (around-user-code (missing-file-place (file-error-pathname condition)))))
    (package-error
     (list :kind :load :name (missing-package condition)))
    (t (list :kind :load))))

(defun missing-package (condition)
  "Return the name of the package that CONDITION, a package error, reports as missing, or NIL."
  (let ((name (around-user-code (package-error-package condition))))
    (and (typep name '(or string symbol character))
         (not (find-package name))
         (string name))))

(defun component-path (component)
  "Return the names of COMPONENT and its parents, outermost first, joined by slashes."
  (format nil "~{~A~^/~}" (asdf:component-find-path component)))

(defun failure (condition &optional place)
  "Return a property list that describes CONDITION, which stopped the load."
  ;; The list has the properties of FAILURE-NAMES, :PATH, :MESSAGE, and :RESTARTS, the descriptions
  ;; of the restarts that were established during the load, except ABORT. PLACE is the position of
  ;; the failure.
  (let ((names (failure-names condition)))
    (append names
            (unless (getf names :path)
              (list :path (or *file* (getf place :path))))
            (list :message (failure-text names condition)
                  :restarts (remove-duplicates
                             (loop for restart in (compute-restarts condition)
                                   unless (or (eq (restart-name restart) 'abort)
                                              (member restart
                                                      (load-session-restarts *load-session*)))
                                     collect (bounded-text (princ-to-string restart) 200))
                             :test #'equal)))))

(defun failure-text (names condition)
  "Return an explanation of CONDITION without ASDF's internals. NAMES is from FAILURE-NAMES."
  (destructuring-bind (&key kind name required-by path clause clause-path) names
    (declare (ignore clause clause-path))
    (cond ((typep condition 'unknown-package-option)
           (condition-text condition))
          ((eq kind :missing-dependency)
           (format nil "ASDF cannot find system ~A~@[, which ~A depends on~]." name required-by))
          ((eq kind :missing-component)
           (format nil "Component ~A, which ~A depends on, is not defined in the same module."
                   name required-by))
          ((eq kind :version-mismatch)
           (format nil "System ~A has version ~A; ~:[version ~A was requested~;~:*~A depends on ~
                        version ~A~]."
                   name (or (known-version condition) "none") required-by
                   (asdf/find-component:missing-version condition)))
          ((eq kind :unknown-system)
           (format nil "ASDF cannot find system ~A." name))
          ((eq kind :circular-dependency)
           (format nil "Circular dependency: ~A." name))
          ((eq kind :compile)
           (format nil "~A failed to compile; see the diagnostics." *file*))
          ((eq kind :cache)
           (format nil "Cannot use the cache folder ~A: ~A" path (condition-text condition)))
          ((wild-fasl-p condition)
           (format nil "ASDF cannot compile files with *, ? or [ in their names~@[, such as ~A~]; ~
                        rename the file." *file*))
          ((typep condition 'heap-share-exhausted)
           (heap-text condition))
          ((typep condition 'serious-condition)
           (condition-text condition))
          (t
           (format nil "The debugger was called: ~A" (condition-text condition))))))

(defun heap-text (condition)
  "Return the text for CONDITION, a full heap. Also report if loaded code keeps the heap full."
  (sb-ext:gc :full t)
  (let ((used (heap-in-use)))
    (format nil "~A~@[ Loaded code occupies ~D MiB, so anything that needs much memory will fail. ~
                 Restart with a larger --dynamic-space-size.~]"
            (condition-text condition)
            (and (> used (* 3/4 (heap-limit))) (floor used (* 1024 1024))))))

(defun failure-json (failure)
  "Return FAILURE as a JSON object."
  (destructuring-bind (&key kind name required-by path clause clause-path message restarts)
      failure
    (object "kind" (word kind) "name" name "required_by" required-by "path" path "clause" clause
            "clause_path" clause-path "message" message "restarts" restarts)))
