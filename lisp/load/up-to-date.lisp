;;;; Tracks up-to-date systems, which are loaded and unchanged, so that ASDF's plan can skip them.
;;;;
;;;; ASDF's plan checks each file and fasl of all direct and indirect dependencies of a system.
;;;; Assume that a plan found nothing to do for a system, and that the system's files, its
;;;; dependencies' files and *FEATURES* have not changed since. Then the next plan would find
;;;; nothing to do, either. Such systems are registered in ASDF's session as done.

(in-package :steelbank)

(defstruct (up-to-date-system
            (:constructor make-up-to-date-system (system features files dependencies)))
  "A SYSTEM for which a plan, made while *FEATURES* was FEATURES, had nothing to do."
  ;; FILES is an alist of native names and stamps. DEPENDENCIES are the names of the systems that
  ;; its actions depend on.
  (system nil :type asdf:system)
  (features '() :type list)
  (files '() :type list) (dependencies '() :type list))

(sb-ext:define-load-time-global *up-to-date-systems* (make-hash-table :test 'equal)
  "Maps the name of a system to its record from the last plan that had nothing to do for it.")

(defparameter *standard-searches* (copy-list asdf:*system-definition-search-functions*)
  "The default value of ASDF's system search functions.")

;;; Recording the results of a plan

(defun system-sources (system actions)
  "Return native names of the files that ACTIONS, on SYSTEM and its components, read."
  ;; Include the file that defines SYSTEM. Omit the outputs, which are in the cache.
  (let ((files (make-hash-table :test 'equal)))
    (flet ((note (path)
             (unless (in-cache-p path)
               (setf (gethash (sb-ext:native-namestring path) files) t))))
      (when (asdf:system-source-file system)
        (note (asdf:system-source-file system)))
      (loop for (operation . component) in actions
            do (mapc #'note (asdf:input-files operation component))
               (when (typep component 'asdf:file-component)
                 (note (asdf:component-pathname component)))))
    (loop for file being the hash-keys of files collect file)))

(defun system-dependencies (system actions)
  "Return the names of the other systems on which ACTIONS and SYSTEM's definition depend."
  ;; ACTIONS are on SYSTEM and its components.
  (let ((names '())
        (primary (asdf:registered-system (asdf:primary-system-name system))))
    (flet ((note (operation component)
             (let ((other (asdf:component-system component)))
               ;; A system depends on the definition of its primary system but not on loading it.
               ;; The file that defines both systems is among the sources of SYSTEM.
               (unless (or (eq other system)
                           (and (eq other primary) (typep operation 'asdf:define-op)))
                 (pushnew (asdf:component-name other) names :test #'equal)))))
      (loop for (operation . component) in actions
            do (asdf/plan:map-direct-dependencies operation component #'note))
      (when primary
        (loop for (operation . component) in (asdf/system:definition-dependency-list primary)
              do (note operation component))))
    names))

(defun note-up-to-date-systems (except)
  "Record the systems for which the plan in ASDF's current session has nothing to do."
  ;; Skip the systems in the table EXCEPT: this load registered them as up to date, so that the plan
  ;; did not examine them, or has already planned operations on them.
  (let ((actions (make-hash-table :test 'eq))
        (load (asdf:make-operation 'asdf:load-op))
        (features (copy-list *features*))
        (visited (asdf/session:visited-actions asdf/session:*asdf-session*)))
    (flet ((status (operation component)
             (gethash (cons operation component) visited)))
      (loop for (operation . component) being the hash-keys of visited
            do (push (cons operation component)
                     (gethash (asdf:component-system component) actions)))
      (loop for system being the hash-keys of actions using (hash-value on-it)
            for status = (status load system)
            for name = (asdf:component-name system)
            when (and status
                      (asdf/plan:status-done-p status)
                      (eq system (asdf:registered-system name))
                      (not (gethash name except)))
              do (let ((files (mapcar (lambda (file) (cons file (reliable-stamp file)))
                                      (system-sources system on-it))))
                   (if (every #'cdr files)
                       (setf (gethash name *up-to-date-systems*)
                             (make-up-to-date-system system features files
                                                     (system-dependencies system on-it)))
                       (remhash name *up-to-date-systems*)))))))

(defun note-loaded-systems ()
  "Plan to load each loaded system, and record the systems for which there is nothing to do."
  ;; Also record the definitions that have not changed.
  (changed-definitions)
  (asdf/session:with-asdf-session (:override t)
    (dolist (name (registered-names))
      (let ((system (asdf:registered-system name)))
        (when (and (typep system 'asdf:system) (asdf:component-loaded-p system))
          ;; If planning fails, the system is checked when it is loaded.
          (around-user-code (asdf:make-plan nil 'asdf:load-op system)))))
    (note-up-to-date-systems (name-table '()))))

;;; Informing the next plan

(defun same-features-p (features)
  "Return true if *FEATURES* contains the same features as FEATURES."
  (null (set-exclusive-or features *features* :test #'equal)))

(defun built-in-p (name)
  "Return true if the system NAME is built into the image and has no files, such as UIOP."
  ;; The actions that each plan has for such a system do nothing.
  (let ((system (asdf:registered-system name)))
    (and (typep system 'asdf:system)
         (null (asdf:system-source-file system))
         (null (asdf:component-children system)))))

(defun unchanged-systems ()
  "Return the systems in *UP-TO-DATE-SYSTEMS* that, with their dependencies, are still unchanged."
  (let ((verdicts (make-hash-table :test 'equal))
        (features (make-hash-table :test 'eq)))
    (labels ((unchanged-p (up-to-date)
               (and (let ((system (up-to-date-system-system up-to-date)))
                      (eq system (asdf:registered-system (asdf:component-name system))))
                    (let ((then (up-to-date-system-features up-to-date)))
                      (multiple-value-bind (same known) (gethash then features)
                        (if known same (setf (gethash then features) (same-features-p then)))))
                    (loop for (file . stamp) in (up-to-date-system-files up-to-date)
                          always (equal stamp (file-stamp file)))))
             (up-to-date-p (name)
               (multiple-value-bind (verdict known) (gethash name verdicts)
                 (if known
                     verdict
                     (let ((up-to-date (gethash name *up-to-date-systems*)))
                       ;; Systems in a dependency cycle are not up to date.
                       (setf (gethash name verdicts) nil)
                       (setf (gethash name verdicts)
                             (if up-to-date
                                 (and (unchanged-p up-to-date)
                                      (every #'up-to-date-p
                                             (up-to-date-system-dependencies up-to-date)))
                                 (built-in-p name))))))))
      (loop for name being the hash-keys of *up-to-date-systems* using (hash-value up-to-date)
            when (up-to-date-p name)
              collect (up-to-date-system-system up-to-date)))))

(defun standard-search-p ()
  "Return true if ASDF searches for systems only in its registry and among SBCL's contribs."
  (and (null asdf:*central-registry*)
       (equal (remove 'find-contrib-system asdf:*system-definition-search-functions*)
              *standard-searches*)))

(defun register-up-to-date-systems (target told)
  "Register the unchanged loaded systems as done in ASDF's session, and add their names to TOLD."
  ;; TOLD is a table. Skip TARGET, the name of the system being loaded.
  (let ((load (asdf:make-operation 'asdf:load-op))
        (search (not (standard-search-p)))
        (session asdf/session:*asdf-session*))
    (dolist (system (unchanged-systems))
      (let ((name (asdf:component-name system)))
        (multiple-value-bind (stamp done) (asdf/action:component-operation-time load system)
          (when (and done (not (equal name target)))
            (setf (gethash name told) t
                  (gethash (cons load system) (asdf/session:visited-actions session))
                  (asdf/plan::make-action-status
                   :bits asdf/plan::+good-bits+ :stamp stamp
                   :index (incf (asdf/session:total-action-count session))))
            (unless search
              (asdf/session::set-asdf-cache-entry
               (list 'asdf:find-system name) (list system)))))))))

(defun call-with-up-to-date-systems (target told function)
  "Call FUNCTION, which loads TARGET, in an ASDF session that has up-to-date systems registered."
  ;; TOLD is as for REGISTER-UP-TO-DATE-SYSTEMS.
  (asdf/session:with-asdf-session ()
    ;; Otherwise the first OPERATE of a session would try to upgrade ASDF again, and continue in a
    ;; new session, without the registered systems.
    (setf (asdf/session:asdf-upgraded-p (asdf/session:toplevel-asdf-session)) t)
    (asdf/session:with-asdf-session (:override t :override-cache t)
      (register-up-to-date-systems target told)
      (funcall function))))
