;;;; A project's systems: where ASDF finds them, and what of them is loaded.

(in-package :steelbank)

(defvar *project-root* nil
  "The directory of the project, or NIL if there is none.")

(defun registry-directives (parameter)
  "The directives of PARAMETER, a source registry in any form that ASDF takes."
  (etypecase parameter
    (null '(:inherit-configuration))
    (cons (rest parameter))
    (string (rest (asdf/source-registry::parse-source-registry-string parameter)))
    (pathname `((:include ,parameter) :inherit-configuration))
    (symbol (registry-directives (funcall parameter)))))

(defun project-registry ()
  "The source registry as it is configured, the project's systems before all others."
  (let ((configured asdf/source-registry:*source-registry-parameter*))
    (if (null *project-root*)
        configured
        (let ((tree `(:tree ,*project-root*)))
          `(:source-registry ,tree ,@(remove tree (registry-directives configured) :test #'equal))))))

(defun rescan-systems ()
  "Look for system definitions, where ASDF is configured to look. Until that is done, other threads find the old ones."
  (let ((parameter (project-registry))
        (registry (make-hash-table :test 'equal)))
    (asdf/source-registry::compute-source-registry parameter registry)
    (setf asdf/source-registry:*source-registry-parameter* parameter
          asdf/source-registry:*source-registry* registry)))

(define-condition unfit-registry (error)
  ((cause :initarg :cause :reader unfit-registry-cause))
  (:report (lambda (condition stream)
             (format stream "ASDF's source registry cannot be set up: ~A~@[ CL_SOURCE_REGISTRY is ~S.~]"
                     (condition-text (unfit-registry-cause condition))
                     (uiop:getenvp "CL_SOURCE_REGISTRY"))))
  (:documentation "A configuration of ASDF that cannot be used."))

(defun set-up-registry ()
  "Call RESCAN-SYSTEMS, and signal its errors as the configuration's."
  (handler-bind ((error (lambda (condition)
                          (error 'unfit-registry :cause condition))))
    (rescan-systems)))

(defun set-up-file (path)
  "A function that loads the file PATH, if it exists."
  (lambda ()
    (when (and path (uiop:file-exists-p path))
      (load path))))

(defun open-project (root cache &key userinit timeout-seconds)
  "Register the systems below ROOT with ASDF, unless NIL, keep fasls and sidecars in CACHE (both native directory
names), honour CL_SOURCE_REGISTRY and a qlot set-up, and load USERINIT, a native file name, unless NIL. Returns the
outcome as of LOAD-SYSTEM, of the step that failed, or of the last. :STEP names it."
  (check-type root (or null string))
  (check-type cache string)
  (check-type userinit (or null string))
  (install-load-hooks)
  (flet ((directory-named (name)
           (uiop:ensure-directory-pathname (sb-ext:parse-native-namestring name))))
    (setf *project-root* (and root (directory-named root)))
    (let ((directory (directory-named cache)))
      ;; Ignore a folder that cannot be made: the first write there reports it.
      (when-file-permits (make-private-directories directory))
      (keep-cache-in (or (when-file-permits (truename directory)) directory)))
    (let ((session (make-session nil nil timeout-seconds)))
      (loop for (step function)
              in `((:qlot ,(set-up-file (and root (merge-pathnames ".qlot/setup.lisp" *project-root*))))
                   (:init-file ,(set-up-file (and userinit (sb-ext:parse-native-namestring userinit))))
                   (:source-registry set-up-registry))
            for outcome = (list* :step step (call-with-load-session session function))
            while (eq (getf outcome :status) :loaded)
            finally (return outcome)))))

(defun system-files (system)
  "The Lisp source files of SYSTEM, an ASDF system, as components."
  (let ((files '()))
    (labels ((walk (component)
               (typecase component
                 (asdf:cl-source-file (push component files))
                 (asdf:parent-component (mapc #'walk (asdf:component-children component))))))
      (walk system))
    (nreverse files)))

(defun known-systems ()
  "The systems that ASDF knows and somebody's file defines: for each a property list of :NAME, :ASD, :LOADED and, if it
is below the project's root, :FILES."
  (loop for name in (registered-names)
        for system = (asdf:registered-system name)
        ;; A name has no system while its definition is read, and after reading it has failed.
        for asd = (and (typep system 'asdf:system) (asdf:system-source-file system))
        when asd
          collect (list :name name
                        :asd (native-truename asd)
                        :loaded (and (asdf:component-loaded-p system) t)
                        :files (and *project-root*
                                    (uiop:subpathp asd *project-root*)
                                    (loop for component in (system-files system)
                                          for file = (around-user-code (source-file-of component))
                                          when file collect file)))))

(defun system-json (system)
  "SYSTEM, of KNOWN-SYSTEMS, as an object."
  (destructuring-bind (&key name asd loaded files) system
    (object "name" name "asd" asd "loaded" (json-boolean loaded) "files" files)))
