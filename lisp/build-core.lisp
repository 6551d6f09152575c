;;;; Saves the core. Run by build-core.sh, with a folder in the variable STEELBANK_BUILD.

(setf *compile-verbose* nil *compile-print* nil *load-verbose* nil)

(defpackage :steelbank-build
  (:documentation "The builder of the core, which no answer shows.")
  (:use :common-lisp))

(in-package :steelbank-build)

(defun path-from-environment (name &rest options)
  "The pathname that build-core.sh put in the environment variable NAME."
  (apply #'sb-ext:parse-native-namestring
         (or (sb-ext:posix-getenv name) (error "~a is not set." name))
         nil *default-pathname-defaults* options))

(defparameter *out* (path-from-environment "STEELBANK_BUILD" :as-directory t)
  "The folder of the build's results.")

(defparameter *core* (merge-pathnames "steelbank.core" *out*)
  "The core to write.")

(defparameter *loaded* (merge-pathnames "loaded.core" *out*)
  "The core with everything loaded, from which the core is made.")

(defparameter *fasls* (merge-pathnames "fasls/" *out*)
  "The folder of the Lisp half's fasls.")

(defparameter *xref* (sb-ext:native-namestring (merge-pathnames "xref.export" *out*))
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

(require "asdf")

;; Nothing of this machine: ASDF would put a newer ASDF of its registry in place of SBCL's.
(asdf:initialize-source-registry '(:source-registry :ignore-inherited-configuration))
(asdf:initialize-output-translations
 '(:output-translations :disable-cache :ignore-inherited-configuration))

(mapc #'require *preloaded*)

;; Immutable: a mere preloaded system gives way to an .asd that ASDF finds, and would be loaded a second time.
(dolist (name *preloaded*)
  (asdf:register-immutable-system name))

(defun load-lisp-half ()
  "Compile and load the components of system steelbank, in the system's order; a warning ends the build."
  (let ((folder (make-pathname :name nil :type nil :defaults *load-truename*)))
    (asdf:load-asd (merge-pathnames "steelbank.asd" folder))
    (with-compilation-unit ()
      (dolist (component (asdf:component-children (asdf:find-system "steelbank")))
        (let ((source (asdf:component-pathname component)))
          (multiple-value-bind (fasl warnings failure)
              (handler-bind ((sb-ext:compiler-note #'muffle-warning))
                ;; The core must not say in which folder it was built.
                (with-compilation-unit (:source-namestring (format nil "steelbank/lisp/~a.lisp"
                                                                   (asdf:component-name component)))
                  (compile-file source
                                :external-format :utf-8
                                :output-file (merge-pathnames (make-pathname :name (pathname-name source)
                                                                             :type "fasl")
                                                              *fasls*))))
            (declare (ignore warnings))
            (when (or failure (null fasl))
              (format *error-output* "~&The Lisp half does not compile: ~a~%" source)
              (sb-ext:exit :code 1 :abort t))
            (load fasl)))))
    (mapc #'asdf:clear-system (list "steelbank" "steelbank/tests"))))

(load-lisp-half)

(defun write-practice-file (folder name text)
  "Write TEXT to the file NAME in FOLDER."
  (with-open-file (stream (merge-pathnames name folder) :direction :output :if-exists :supersede)
    (write-string text stream)))

(defun practise-loading ()
  "Load a small system twice, once from its fasls, and forget it: ASDF's generic functions have their dispatch functions and caches then,
which else each process makes anew."
  (let ((folder (merge-pathnames "practice/" *out*)))
    (ensure-directories-exist folder)
    (write-practice-file folder "steelbank-practice.asd"
                         "(defsystem \"steelbank-practice\" :version \"1.0\" :serial t :pathname \"\"
                            :depends-on (\"steelbank-practice/base\" (:version \"steelbank-practice/base\" \"1.0\"))
                            :in-order-to ((test-op (test-op \"steelbank-practice/base\")))
                            :components ((:static-file \"text.txt\")
                                         (:module \"parts\" :pathname \"\"
                                          :components ((:file \"one\") (:file \"two\" :depends-on (\"one\"))))))
                          (defsystem \"steelbank-practice/base\" :version \"1.0\" :components ((:file \"base\")))")
    (write-practice-file folder "text.txt" "")
    (dolist (name '("base" "one" "two"))
      (write-practice-file folder (concatenate 'string name ".lisp")
                           (format nil "(in-package :steelbank-build) (defun practise-~A () ~:*~S)~%" name)))
    (loop repeat 2
          do (asdf:load-asd (merge-pathnames "steelbank-practice.asd" folder))
             (asdf:load-system "steelbank-practice")
             (mapc #'asdf:clear-system '("steelbank-practice" "steelbank-practice/base")))))

(practise-loading)

(setf steelbank::*contribs* (contribs))
(push 'steelbank::provide-contrib sb-ext:*module-provider-functions*)
;; Last: a project's own wins.
(setf asdf:*system-definition-search-functions*
      (append asdf:*system-definition-search-functions* '(steelbank::find-contrib-system)))

;; Settings of the machine that builds must not be found on the machine that runs, nor those made above.
(asdf:clear-configuration)
(setf asdf/source-registry:*source-registry-parameter* nil
      asdf/output-translations:*output-translations-parameter* nil)
(setf sb-ext:*evaluator-mode* :compile)

;; ASDF's and ours: else each process compiles those that it calls.
(steelbank::compile-constructors)

(defparameter *save* (fdefinition 'sb-ext:save-lisp-and-die)
  "The function that saves a core. Its name will refuse, as every exit does.")

(defun save-with-index ()
  "In a core that was just saved, as whose toplevel function this is: export the cross references, and save the core without a trace of the
builder. What the build replaced is no more then: the old core's code is collected by a save alone, and the stack keeps nothing."
  (handler-case (steelbank::write-octets (steelbank::xref-baseline) *xref*)
    (error (condition)
      (format *error-output* "~&The cross references cannot be exported: ~a~%" condition)
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
  "Refuse every exit, and save the core from which SAVE-WITH-INDEX starts."
  ;; The object system makes now what the export calls.
  (steelbank::xref-baseline)
  (steelbank::refuse-exits)
  (steelbank::replace-debugger)
  (steelbank::leave-ending-signals-to-host)
  (setf *package* (find-package :common-lisp-user))
  (funcall *save* *loaded* :toplevel #'save-with-index))

(save)
