;;;; Saves the core. Run by build.rs:
;;;;   sbcl --noinform --no-sysinit --no-userinit --non-interactive --load build-core.lisp
;;;; with the variables STEELBANK_BUILD_CORE, STEELBANK_BUILD_FASLS and STEELBANK_BUILD_XREF.

(setf *compile-verbose* nil *compile-print* nil *load-verbose* nil)

(defpackage :steelbank-build
  (:documentation "What the core builder alone needs.")
  (:use :common-lisp))

(in-package :steelbank-build)

(defun path-from-environment (name &rest options)
  "The pathname that build.rs put in the environment variable NAME."
  (apply #'sb-ext:parse-native-namestring
         (or (sb-ext:posix-getenv name) (error "~a is not set." name))
         nil *default-pathname-defaults* options))

(defparameter *core* (path-from-environment "STEELBANK_BUILD_CORE")
  "The core to write.")

(defparameter *fasls* (path-from-environment "STEELBANK_BUILD_FASLS" :as-directory t)
  "Where the Lisp half's fasls go.")

(defparameter *xref* (sb-ext:native-namestring (path-from-environment "STEELBANK_BUILD_XREF"))
  "The export of the core's cross references to write.")

(defparameter *preloaded*
  '("asdf" "uiop" "sb-introspect" "sb-posix" "sb-bsd-sockets" "sb-cltl2" "sb-md5" "sb-rotate-byte"
    "sb-concurrency" "sb-sprof" "sb-rt" "sb-grovel")
  "The modules that projects commonly depend on.")

(defun contribs ()
  "The names of the contrib modules of this SBCL."
  (mapcar #'pathname-name
          (directory (merge-pathnames "contrib/*.fasl"
                                      (path-from-environment "SBCL_HOME" :as-directory t)))))

(mapc #'require *preloaded*)

(defun load-lisp-half ()
  "Compile and load the components of system steelbank, in the system's order; a warning ends the build."
  (let ((folder (make-pathname :name nil :type nil :defaults *load-truename*)))
    (asdf:load-asd (merge-pathnames "steelbank.asd" folder))
    (with-compilation-unit ()
      (dolist (component (asdf:component-children (asdf:find-system "steelbank")))
        (let ((source (asdf:component-pathname component)))
          (multiple-value-bind (fasl warnings failure)
              (handler-bind ((sb-ext:compiler-note #'muffle-warning))
                (compile-file source
                              :output-file (merge-pathnames (make-pathname :name (pathname-name source)
                                                                           :type "fasl")
                                                            *fasls*)))
            (declare (ignore warnings))
            (when (or failure (null fasl))
              (format *error-output* "~&The Lisp half does not compile: ~a~%" source)
              (sb-ext:exit :code 1 :abort t))
            (load fasl)))))
    (asdf:clear-system "steelbank")))

(load-lisp-half)

;; Immutable: a mere preloaded system gives way to an .asd that ASDF finds, and would be loaded a second time.
(dolist (name *preloaded*)
  (asdf:register-immutable-system name))

(setf steelbank::*contribs* (contribs))
(push 'steelbank::provide-contrib sb-ext:*module-provider-functions*)

;; Settings of the machine that builds must not be found on the machine that runs.
(asdf:clear-configuration)
(setf sb-ext:*evaluator-mode* :compile)

(defun save ()
  "Refuse every way out, and write the core without a trace of the builder."
  (let ((core *core*)
        (xref *xref*)
        ;; Not #': the compiler would look the function up when it is called.
        (save-lisp-and-die (fdefinition 'sb-ext:save-lisp-and-die)))
    (steelbank::refuse-exits)
    (steelbank::replace-debugger)
    (setf *package* (find-package :common-lisp-user))
    ;; A function outlives its package, and would be found among the callers of what it calls. This one stays: it runs
    ;; while the cross references are exported, and the core must have what the export says.
    (do-symbols (symbol :steelbank-build)
      (when (and (eq (symbol-package symbol) (find-package :steelbank-build))
                 (not (eq symbol 'save))
                 (fboundp symbol))
        (fmakunbound symbol)))
    (delete-package :steelbank-build)
    (steelbank::write-octets (steelbank::xref-baseline) xref)
    (funcall save-lisp-and-die core :toplevel #'steelbank:main)))

(save)
