;;;; Builds and saves the core. Run by build-core.sh, with a folder in the environment variable
;;;; STEELBANK_BUILD.

(setf *compile-verbose* nil *compile-print* nil *load-verbose* nil)

(defpackage :steelbank-build
  (:documentation "The builder of the core. Answers do not show it.")
  (:use :common-lisp))

(in-package :steelbank-build)

(defun path-from-environment (name &rest options)
  "Return the pathname that build-core.sh passed in the environment variable NAME."
  (apply #'sb-ext:parse-native-namestring
         (or (sb-ext:posix-getenv name) (error "~a is not set." name))
         nil *default-pathname-defaults* options))

(defparameter *out* (path-from-environment "STEELBANK_BUILD" :as-directory t)
  "The folder for the build's results.")

(defparameter *core* (merge-pathnames "steelbank.core" *out*)
  "The core to write.")

(defparameter *loaded* (merge-pathnames "loaded.core" *out*)
  "The core with everything loaded, from which the final core is created.")

(defparameter *fasls* (merge-pathnames "fasls/" *out*)
  "The folder for the Lisp half's fasls.")

(defparameter *xref* (sb-ext:native-namestring (merge-pathnames "xref.export" *out*))
  "The file for the export of the core's cross references.")

(defparameter *preloaded*
  '("asdf" "uiop" "sb-introspect" "sb-posix" "sb-bsd-sockets" "sb-cltl2" "sb-md5" "sb-rotate-byte"
    "sb-concurrency" "sb-sprof" "sb-rt" "sb-grovel")
  "The modules that projects commonly depend on.")

(defun contribs ()
  "Return the names of the contrib modules of this SBCL."
  (mapcar #'pathname-name
          (directory (merge-pathnames "contrib/*.fasl"
                                      (path-from-environment "SBCL_HOME" :as-directory t)))))

(require "asdf")

;; Ignore this machine's configuration. With it, ASDF would replace SBCL's ASDF by a newer version
;; from the configured registry.
(asdf:initialize-source-registry '(:source-registry :ignore-inherited-configuration))
(asdf:initialize-output-translations
 '(:output-translations :disable-cache :ignore-inherited-configuration))

(mapc #'require *preloaded*)

;; Make the modules immutable. A system that is only preloaded would be replaced by an .asd file
;; that ASDF finds, and loaded a second time. ASDF can upgrade itself, which includes UIOP.
(dolist (name (remove "asdf" *preloaded* :test #'string=))
  (asdf:register-immutable-system name))

(defun load-lisp-half ()
  "Compile and load the components of system steelbank, in the system's order."
  ;; Any warning except a style warning ends the build.
  (let ((folder (make-pathname :name nil :type nil :defaults *load-truename*)))
    (asdf:load-asd (merge-pathnames "steelbank.asd" folder))
    (with-compilation-unit ()
      (dolist (component (asdf:component-children (asdf:find-system "steelbank")))
        (let ((source (asdf:component-pathname component)))
          (multiple-value-bind (fasl warnings failure)
              (handler-bind ((sb-ext:compiler-note #'muffle-warning))
                ;; The core must not reveal the path of its build folder.
                (with-compilation-unit (:source-namestring (format nil "steelbank/lisp/~a.lisp"
                                                                   (asdf:component-name component)))
                  (let ((name (make-pathname :name (pathname-name source) :type "fasl")))
                    (compile-file source :external-format :utf-8
                                         :output-file (merge-pathnames name *fasls*)))))
            (declare (ignore warnings))
            (when (or failure (null fasl))
              (format *error-output* "~&Failed to compile the Lisp half: ~a~%" source)
              (sb-ext:exit :code 1 :abort t))
            (load fasl)))))
    (mapc #'asdf:clear-system (list "steelbank" "steelbank/tests"))))

(load-lisp-half)

(defun write-practice-file (folder name text)
  "Write TEXT to the file NAME in FOLDER."
  (with-open-file (stream (merge-pathnames name folder) :direction :output :if-exists :supersede)
    (write-string text stream)))

(defun practise-loading ()
  "Load a small system twice, once from its fasls, and forget it."
  ;; This creates the dispatch functions and caches of ASDF's generic functions, which each process
  ;; would otherwise create again.
  (let ((folder (merge-pathnames "practice/" *out*)))
    (ensure-directories-exist folder)
    (write-practice-file folder "steelbank-practice.asd"
                         "(defsystem \"steelbank-practice\" :version \"1.0\" :serial t
                            :depends-on (\"steelbank-practice/base\"
                                         (:version \"steelbank-practice/base\" \"1.0\"))
                            :in-order-to ((test-op (test-op \"steelbank-practice/base\")))
                            :pathname \"\" :components
                            ((:static-file \"text.txt\")
                             (:module \"parts\" :pathname \"\" :components
                              ((:file \"one\") (:file \"two\" :depends-on (\"one\"))))))
                          (defsystem \"steelbank-practice/base\" :version \"1.0\"
                            :components ((:file \"base\")))")
    (write-practice-file folder "text.txt" "")
    (dolist (name '("base" "one" "two"))
      (let ((text (format nil "(in-package :steelbank-build) (defun practise-~A () ~:*~S)~%" name)))
        (write-practice-file folder (concatenate 'string name ".lisp") text)))
    (loop repeat 2
          do (asdf:load-asd (merge-pathnames "steelbank-practice.asd" folder))
             (asdf:load-system "steelbank-practice")
             (mapc #'asdf:clear-system '("steelbank-practice" "steelbank-practice/base")))))

(practise-loading)

(setf steelbank::*contribs* (contribs))
(push 'steelbank::provide-contrib sb-ext:*module-provider-functions*)
;; Search contribs last, so that a project's own system takes precedence.
(setf asdf:*system-definition-search-functions*
      (append asdf:*system-definition-search-functions* '(steelbank::find-contrib-system)))

;; Clear the settings of the build machine and the settings made above, which must not affect the
;; target machine.
(asdf:clear-configuration)
(setf asdf/source-registry:*source-registry-parameter* nil
      asdf/output-translations:*output-translations-parameter* nil)
(setf sb-ext:*evaluator-mode* :compile)

;; Compile ASDF's and our constructors now; otherwise each process compiles the constructors that it
;; calls.
(steelbank::compile-constructors)

(defparameter *save* (fdefinition 'sb-ext:save-lisp-and-die)
  "The function that saves a core. Calls of SAVE-LISP-AND-DIE will be refused, like every exit.")

(defun save-with-index ()
  "Export the cross references, and save the core without the builder."
  ;; This is the toplevel function of a core that was just saved. So code that the build replaced no
  ;; longer exists: saving collected it. Other collections skip the code of the core that a process
  ;; started from, and retain code that the stack refers to.
  (handler-case (steelbank::write-octets (steelbank::xref-baseline) *xref*)
    (error (condition)
      (format *error-output* "~&Could not export the cross references: ~a~%" condition)
      (finish-output *error-output*)
      (sb-posix:kill (sb-posix:getpid) sb-posix:sigkill)))
  (let ((core *core*)
        (save *save*))
    (do-symbols (symbol :steelbank-build)
      (when (and (eq (symbol-package symbol) (find-package :steelbank-build))
                 (fboundp symbol))
        (fmakunbound symbol)))
    (delete-package :steelbank-build)
    (funcall save core :toplevel #'steelbank:main)))

(defun save ()
  "Refuse every exit, and save a core that starts in SAVE-WITH-INDEX."
  ;; Call this now, so that the object system compiles here what the export will need.
  (steelbank::xref-baseline)
  (steelbank::refuse-exits)
  (steelbank::replace-debugger)
  (steelbank::leave-ending-signals-to-host)
  (setf *package* (find-package :common-lisp-user))
  (funcall *save* *loaded* :toplevel #'save-with-index))

(save)
