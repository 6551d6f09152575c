;;;; A project's systems: where ASDF finds them, and whether they are loaded.

(in-package :steelbank)

(defvar *project-root* nil
  "The directory of the project, or NIL if there is none.")

(defun registry-directives (parameter)
  "Return the directives of PARAMETER, a source registry in any form that ASDF accepts."
  (etypecase parameter
    (null '(:inherit-configuration))
    (cons (rest parameter))
    (string (rest (asdf/source-registry::parse-source-registry-string parameter)))
    (pathname `((:include ,parameter) :inherit-configuration))
    (symbol (registry-directives (funcall parameter)))))

(defun project-registry ()
  "Return the configured source registry, preceded by the project's systems."
  (let ((configured asdf/source-registry:*source-registry-parameter*))
    (if (null *project-root*)
        configured
        (let ((tree `(:tree ,*project-root*)))
          `(:source-registry ,tree
                             ,@(remove tree (registry-directives configured) :test #'equal))))))

(defun rescan-systems ()
  "Search for system definitions again, in the project and where ASDF is configured to search."
  ;; Other threads use the old registry until the search ends.
  (let ((parameter (project-registry))
        (registry (make-hash-table :test 'equal)))
    (asdf/source-registry::compute-source-registry parameter registry)
    (setf asdf/source-registry:*source-registry-parameter* parameter
          asdf/source-registry:*source-registry* registry)))

(define-condition unfit-registry (error)
  ((cause :initarg :cause :reader unfit-registry-cause))
  (:report (lambda (condition stream)
             (format stream "Cannot initialize ASDF's source registry: ~A~
                             ~@[ CL_SOURCE_REGISTRY is ~S.~]"
                     (condition-text (unfit-registry-cause condition))
                     (uiop:getenvp "CL_SOURCE_REGISTRY"))))
  (:documentation "ASDF's configuration is invalid."))

(defun set-up-registry ()
  "Call RESCAN-SYSTEMS, and signal its errors as configuration errors."
  (handler-bind ((error (lambda (condition)
                          (error 'unfit-registry :cause condition))))
    (rescan-systems)))

(defun set-up-file (path)
  "Return a function that loads the file PATH, if it exists."
  (lambda ()
    (when (and path (uiop:file-exists-p path))
      (load path))))

(defun open-project (root cache &key userinit timeout-seconds)
  "Open a project: register the systems below ROOT with ASDF, and store fasls in CACHE."
  ;; Both are native names of directories. ROOT may be NIL. CACHE also stores sidecars. Honour
  ;; CL_SOURCE_REGISTRY and a qlot setup, and load USERINIT, a native file name, unless it is NIL.
  ;; Return the outcome, as LOAD-SYSTEM does, of the step that failed, or of the last step. :STEP
  ;; names the step.
  (check-type root (or null string))
  (check-type cache string)
  (check-type userinit (or null string))
  (install-load-hooks)
  (flet ((directory-named (name)
           (uiop:ensure-directory-pathname (sb-ext:parse-native-namestring name))))
    (setf *project-root* (and root (directory-named root)))
    (let ((directory (directory-named cache)))
      ;; Ignore a folder that cannot be created; the first write there reports it.
      (when-file-permits (make-private-directories directory))
      (set-cache-directory (or (when-file-permits (truename directory)) directory)))
    (let ((session (make-session nil nil timeout-seconds)))
      (loop for (step function)
              in `((:qlot
                    ,(set-up-file (and root (merge-pathnames ".qlot/setup.lisp" *project-root*))))
                   (:init-file
                    ,(set-up-file (and userinit (sb-ext:parse-native-namestring userinit))))
                   (:source-registry set-up-registry))
            for outcome = (list* :step step (call-with-load-session session function))
            while (eq (getf outcome :status) :loaded)
            finally (return outcome)))))

(defun system-files (system)
  "Return the Lisp source files of SYSTEM, an ASDF system, as components."
  (let ((files '()))
    (labels ((walk (component)
               (typecase component
                 (asdf:cl-source-file (push component files))
                 (asdf:parent-component (mapc #'walk (asdf:component-children component))))))
      (walk system))
    (nreverse files)))

(defun definition-file (system)
  "Return the .asd file of SYSTEM, and whether ASDF inferred SYSTEM from a package definition."
  (let ((file (asdf:system-source-file system))
        (primary (asdf:registered-system (asdf:primary-system-name system))))
    (if (or (not (typep primary 'asdf:package-inferred-system))
            ;; ASDF defines an inferred system with this option, since 3.3.2 with the .asd file.
            (and file (not (getf (rest (gethash (asdf:component-name system) *defined-systems*))
                                 :source-file))))
        (values file nil)
        (values (asdf:system-source-file primary) t))))

(defun known-systems ()
  "Return the registered systems that are defined in files."
  ;; Each system is a property list of :NAME, :ASD, :LOADED, :INFERRED and, if it is below the
  ;; project's root, :FILES.
  (loop for name in (registered-names)
        for system = (asdf:registered-system name)
        ;; A name has no system while its definition is read, and after reading it failed.
        for (asd inferred) = (and (typep system 'asdf:system)
                                  (multiple-value-list (definition-file system)))
        when asd
          collect (list :name name
                        :asd (native-truename asd)
                        :loaded (and (asdf:component-loaded-p system) t)
                        :inferred inferred
                        :files (and *project-root*
                                    (uiop:subpathp asd *project-root*)
                                    (loop for component in (system-files system)
                                          for file = (around-user-code (source-file-of component))
                                          when file collect file)))))

(defun system-json (system)
  "Return SYSTEM, of KNOWN-SYSTEMS, as a JSON object."
  (destructuring-bind (&key name asd loaded inferred files) system
    (object "name" name "asd" asd "loaded" (json-boolean loaded) "inferred" (json-boolean inferred)
            "files" files)))
