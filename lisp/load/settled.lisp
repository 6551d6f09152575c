;;;; Settled systems: loaded, and unchanged since, so that ASDF's plan need not look at them.
;;;;
;;;; ASDF's plan looks at each file and each fasl of all that a system depends on, however indirectly. Where a plan has found that
;;;; nothing was left to do for a system, and no file of it or of what it depends on was touched since, the next one would find the
;;;; same, so it is told.

(in-package :steelbank)

(defstruct (settled-system (:constructor make-settled-system (system features files dependencies)))
  "A SYSTEM for which a plan that was made under FEATURES had nothing to do; its FILES, an alist of native names and stamps; the
names of the systems that its actions depend on."
  (system nil :type asdf:system)
  (features '() :type list)
  (files '() :type list)
  (dependencies '() :type list))

(sb-ext:define-load-time-global *settled-systems* (make-hash-table :test 'equal)
  "The settled systems by name, as the last plan that looked at each found it.")

(defparameter *standard-searches* (copy-list asdf:*system-definition-search-functions*)
  "The default value of ASDF's system search functions.")

;;; Recording what a plan found

(defun system-sources (system actions)
  "The native names of the files that ACTIONS, on SYSTEM and what is in it, read, and of the one that defines it; not of what they
make, which is in the cache."
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
  "The names of the other systems on which ACTIONS, on SYSTEM and what is in it, and the reading of its definition
depend."
  (let ((names '())
        (primary (asdf:registered-system (asdf:primary-system-name system))))
    (flet ((note (operation component)
             (let ((other (asdf:component-system component)))
               ;; A system depends on the definition of its primary one, not on that being loaded; that it is defined in the
               ;; same file is among its sources.
               (unless (or (eq other system)
                           (and (eq other primary) (typep operation 'asdf:define-op)))
                 (pushnew (asdf:component-name other) names :test #'equal)))))
      (loop for (operation . component) in actions
            do (asdf/plan:map-direct-dependencies operation component #'note))
      (when primary
        (loop for (operation . component) in (asdf/system:definition-dependency-list primary)
              do (note operation component))))
    names))

(defun note-settled-systems (except)
  "Remember the systems for which the plan that was made in ASDF's present session has nothing to do, except those whose
names are in the table EXCEPT: these were just loaded, or were told to be settled, so that the plan says nothing of
them."
  (let ((actions (make-hash-table :test 'eq))
        (load (asdf:make-operation 'asdf:load-op))
        (features (copy-list *features*))
        (visited (asdf/session:visited-actions asdf/session:*asdf-session*)))
    (flet ((status (operation component)
             (gethash (cons operation component) visited)))
      (loop for (operation . component) being the hash-keys of visited
            do (push (cons operation component) (gethash (asdf:component-system component) actions)))
      (loop for system being the hash-keys of actions using (hash-value on-it)
            for status = (status load system)
            for name = (asdf:component-name system)
            when (and status
                      (asdf/plan:status-done-p status)
                      (eq system (asdf:registered-system name))
                      (not (gethash name except)))
              do (let ((files (mapcar (lambda (file) (cons file (reliable-stamp file))) (system-sources system on-it))))
                   (if (every #'cdr files)
                       (setf (gethash name *settled-systems*)
                             (make-settled-system system features files (system-dependencies system on-it)))
                       (remhash name *settled-systems*)))))))

(defun settle-loaded-systems ()
  "Make a plan to load each system that is loaded, and remember those for which it has nothing to do, and the definitions that are as
they were read."
  (changed-definitions)
  (asdf/session:with-asdf-session (:override t)
    (dolist (name (registered-names))
      (let ((system (asdf:registered-system name)))
        (when (and (typep system 'asdf:system) (asdf:component-loaded-p system))
          ;; What cannot be planned is looked at when it is loaded.
          (around-user-code (asdf:make-plan nil 'asdf:load-op system)))))
    (note-settled-systems (name-table '()))))

;;; Telling the next plan

(defun same-features-p (features)
  "True if *FEATURES* holds what FEATURES does."
  (null (set-exclusive-or features *features* :test #'equal)))

(defun built-in-p (name)
  "True if the system NAME came with the image and has no files, as UIOP: each plan has actions for it, which do
nothing."
  (let ((system (asdf:registered-system name)))
    (and (typep system 'asdf:system)
         (null (asdf:system-source-file system))
         (null (asdf:component-children system)))))

(defun unchanged-systems ()
  "The settled systems of which nothing was touched since."
  (let ((verdicts (make-hash-table :test 'equal))
        (features (make-hash-table :test 'eq)))
    (labels ((unchanged-p (settled)
               (and (eq (settled-system-system settled)
                        (asdf:registered-system (asdf:component-name (settled-system-system settled))))
                    (let ((then (settled-system-features settled)))
                      (multiple-value-bind (same known) (gethash then features)
                        (if known same (setf (gethash then features) (same-features-p then)))))
                    (loop for (file . stamp) in (settled-system-files settled)
                          always (equal stamp (file-stamp file)))))
             (settled-p (name)
               (multiple-value-bind (verdict known) (gethash name verdicts)
                 (if known
                     verdict
                     (let ((settled (gethash name *settled-systems*)))
                       ;; Systems that depend on each other in a circle are not settled.
                       (setf (gethash name verdicts) nil)
                       (setf (gethash name verdicts)
                             (if settled
                                 (and (unchanged-p settled)
                                      (every #'settled-p (settled-system-dependencies settled)))
                                 (built-in-p name))))))))
      (loop for name being the hash-keys of *settled-systems* using (hash-value settled)
            when (settled-p name)
              collect (settled-system-system settled)))))

(defun standard-search-p ()
  "True if ASDF looks for systems by its registry alone, and among the contribs."
  (and (null asdf:*central-registry*)
       (equal (remove 'find-contrib-system asdf:*system-definition-search-functions*) *standard-searches*)))

(defun register-settled-systems (target told)
  "Tell ASDF's session, which begins, of the loaded systems that have not changed, and put their names into the table TOLD; not of
TARGET, a name, which is asked for."
  (let ((load (asdf:make-operation 'asdf:load-op))
        (search (not (standard-search-p)))
        (session asdf/session:*asdf-session*))
    (dolist (system (unchanged-systems))
      (let ((name (asdf:component-name system)))
        (multiple-value-bind (stamp done) (asdf/action:component-operation-time load system)
          (when (and done (not (equal name target)))
            (setf (gethash name told) t
                  (gethash (cons load system) (asdf/session:visited-actions session))
                  (asdf/plan::make-action-status :bits asdf/plan::+good-bits+
                                                 :stamp stamp
                                                 :index (incf (asdf/session:total-action-count session))))
            (unless search
              (asdf/session::set-asdf-cache-entry (list 'asdf:find-system name) (list system)))))))))

(defun call-with-settled-systems (target told function)
  "Call FUNCTION, which loads TARGET, in a session of ASDF's that knows what is settled. TOLD as of REGISTER-SETTLED-SYSTEMS."
  (asdf/session:with-asdf-session ()
    (let ((session (asdf/session:toplevel-asdf-session)))
      ;; Upgrade ASDF now: the first OPERATE of a session does, and then goes on in a new one, which would know nothing.
      (unless (asdf/session:asdf-upgraded-p session)
        (setf (asdf/session:asdf-upgraded-p session) t)
        (asdf:upgrade-asdf)))
    (asdf/session:with-asdf-session (:override t :override-cache t)
      (register-settled-systems target told)
      (funcall function))))
