;;;; run-tests: lists the tests of the loaded frameworks, and runs one test, however it ends. The
;;;; adapters for frameworks are in frameworks.lisp.

(in-package :steelbank)

(defstruct framework
  "A test framework: its NAME, and the PACKAGE by which it is recognized."
  ;; LIST is a function that returns the tests. RUN is a function that runs the test of a
  ;; designator. RUN returns the assertions. If they do not determine the status, it also returns
  ;; the status and a message. REMOVE is a function that removes the test of a designator from the
  ;; framework's tables.
  (name "" :type string) (package "" :type string)
  (list nil :type symbol) (run nil :type symbol) (remove nil :type function))

(defvar *frameworks* '()
  "The supported frameworks.")

(defstruct test
  "A test of a framework."
  ;; NAME is a symbol, a string, or another object in RT. PACKAGE is the package of the definition,
  ;; if known, and FUNCTION the test's function, if it has one. The framework runs DESIGNATOR. ENTRY
  ;; is RT's entry.
  (name nil)
  (package nil :type (or null package))
  (function nil :type (or null function))
  (designator nil)
  (entry nil))

(defun test-identity (test)
  "Return an object that the framework creates again whenever the form of TEST is evaluated."
  (or (test-function test) (test-entry test) (test-designator test)))

(defun named-test (name &optional function entry)
  "Return the test with FUNCTION for a framework that identifies tests by NAME alone."
  (let ((symbol (if (consp name) (first name) name)))
    (make-test :name name :package (and (symbolp symbol) (symbol-package symbol))
               :function function :designator name :entry entry)))

(defun test-text (test)
  "Return the name of TEST as answers show it. It is unique within a framework."
  (if (and (stringp (test-name test)) (test-package test))
      (format nil "~a::~a" (package-name (test-package test)) (test-name test))
      (name-text (test-name test))))

(defstruct assertion
  "The result of one assertion. STATUS is :PASSED, :FAILED, :ERROR or :SKIPPED."
  ;; EXPECTED and ACTUAL are lists of one value, or empty if that value is unknown.
  ;; VALUES are conses of a form and its value. WITHIN are the names of the enclosing sections of
  ;; the test, outermost first. TEST is the name of the called test that contains the assertion, if
  ;; any.
  (status :passed :type keyword)
  (form nil)
  (expected '() :type list) (actual '() :type list)
  (values '() :type list) (within '() :type list) (test nil :type symbol)
  (message nil :type (or null string)))

(defun known-framework (name)
  "Return the framework called NAME, or NIL."
  (find name *frameworks* :key #'framework-name :test #'string=))

(defun its (package name)
  "Return the symbol NAME of PACKAGE, a framework's package. Signal an error if there is none."
  (or (let ((package (find-package package)))
        (and package (find-symbol name package)))
      (error "The test framework does not define ~a::~a; its version is not supported."
             package name)))

(defun call-its (package name &rest arguments)
  "Call the function NAME of PACKAGE, a framework's package, and return the result."
  (apply (its package name) arguments))

(sb-ext:define-load-time-global *slot-names*
    (make-hash-table :test 'eq :weakness :key :synchronized t)
  "Maps the list of a class's slots to an alist from strings to the slots' names or NIL.")

(defun slot-called (object name)
  "Return the name of the slot of OBJECT called NAME, in any package, or NIL if there is none."
  ;; Cache the result, because each load looks up slots of all tests. A redefined class has another
  ;; list of slots, and so another entry in the cache.
  (let* ((slots (sb-mop:class-slots (class-of object)))
         (known (assoc name (gethash slots *slot-names*) :test #'string=)))
    (if known
        (cdr known)
        (let ((slot (find name slots :key #'sb-mop:slot-definition-name :test #'string=)))
          (cdar (push (cons name (and slot (sb-mop:slot-definition-name slot)))
                      (gethash slots *slot-names*)))))))

(defun its-slot (object name)
  "Return the value of the slot of OBJECT called NAME, in any package, or NIL if there is none."
  (let ((slot (slot-called object name)))
    (and slot (slot-boundp object slot) (slot-value object slot))))

(defun is-a (object package name)
  "Return true if OBJECT is of the class NAME of PACKAGE."
  (typep object (its package name)))

(defun assertion-text (value package limit &key (circle t))
  "Return the printed text of VALUE, an expected or actual value of an assertion."
  (if (stringp value)
      (bounded-text (prin1-to-string value) limit)
      (values (printed-value value package limit :length 50 :level 8 :circle circle))))

(defun assertion-form-text (form package)
  "Return the printed text of FORM, an asserted form."
  ;; The compiler shares equal parts of constants. Labels for them are not in the source.
  (assertion-text form package 400 :circle nil))

(defun assertion-json (assertion package)
  "Return ASSERTION, which did not pass, as a JSON object. Names are printed relative to PACKAGE."
  (object "status" (word (assertion-status assertion))
          "form" (and (assertion-form assertion)
                      (assertion-form-text (assertion-form assertion) package))
          "expected" (and (assertion-expected assertion)
                          (assertion-text (first (assertion-expected assertion)) package 400))
          "actual" (and (assertion-actual assertion)
                        (assertion-text (first (assertion-actual assertion)) package 400))
          "values" (loop for (form . value) in (assertion-values assertion)
                         repeat 8
                         collect (object "form" (assertion-form-text form package)
                                         "value" (assertion-text value package 400)))
          "within" (loop for part in (assertion-within assertion)
                         collect (bounded-text (princ-to-string part) 200))
          "called" (let ((test (assertion-test assertion)))
                     (and test (symbol-package test)
                          (list (package-name (symbol-package test)) (symbol-name test))))
          "message" (and (assertion-message assertion)
                         (bounded-text (assertion-message assertion) 600))))

(defun test-status (outcome assertions &optional told)
  "Return the status of a test from the OUTCOME of its trial and its ASSERTIONS."
  ;; TOLD is the status that the framework reports separately, or NIL.
  (flet ((any (status) (find status assertions :key #'assertion-status)))
    (cond ((eq (getf outcome :status) :stopped) :timed-out)
          ((getf outcome :condition) :error)
          (told told)
          ((any :error) :error)
          ((any :failed) :failed)
          ((and (any :skipped) (not (any :passed))) :skipped)
          (t :passed))))

(defun call-as-test (function package)
  "Call FUNCTION as a trial, and return the test's JSON object."
  ;; FUNCTION returns assertions, and optionally a status and a message.
  (let* ((trial (make-trial))
         (start (get-internal-real-time))
         (outcome (handler-bind ((warning (lambda (condition)
                                            (when (typep condition 'style-warning)
                                              (muffle condition)))))
                    (trial-outcome trial function)))
         (time (- (get-internal-real-time) start)))
    (destructuring-bind (&optional assertions status message) (getf outcome :values)
      (object "status" (word (test-status outcome assertions status))
            "microseconds" (round (* 1000000 time) internal-time-units-per-second)
            "checks" (apply #'object
                            (loop for status in '(:passed :failed :error :skipped)
                                  for count = (count status assertions :key #'assertion-status)
                                  unless (zerop count) nconc (list (word status) count)))
            "message" (and message (bounded-text message 600))
            "assertions" (loop for assertion in (remove :passed assertions :key #'assertion-status)
                               repeat 50
                               collect (assertion-json assertion package))
            "failure" (trial-failure trial outcome)))))

(defun loaded-frameworks ()
  "Return the supported frameworks that are loaded."
  (remove-if-not #'find-package *frameworks* :key #'framework-package))

;;; The origins of tests. Frameworks record no files, and keep a test after its form was deleted.

(sb-ext:define-load-time-global *test-origins*
    (make-hash-table :test 'eq :weakness :key :synchronized t)
  "Maps each test's identity to the load that created it: a list (FILE), or NIL if it was no file.")

(sb-ext:define-load-time-global *file-loads* (make-hash-table :test 'equal :synchronized t)
  "The last successful load of each file, as in *TEST-ORIGINS*.")

(defun note-tests (origin)
  "Record ORIGIN for the tests that have no recorded origin."
  (dolist (framework (loaded-frameworks))
    ;; Ignore an error here; "list-tests" signals it again.
    (dolist (test (around-user-code (funcall (framework-list framework))))
      (unless (nth-value 1 (gethash (test-identity test) *test-origins*))
        (setf (gethash (test-identity test) *test-origins*) origin)))))

(defun call-noting-tests (file function)
  "Call FUNCTION, which loads FILE, and record FILE as the origin of the new tests."
  (multiple-value-prog1 (funcall function)
    (note-tests (setf (gethash file *file-loads*) (list file)))))

(define-question "list-tests" ()
  "Return the tests of all supported frameworks that are loaded."
  ;; A test is outdated if its file was loaded again and did not create it.
  (loop for framework in (loaded-frameworks)
        nconc (loop for test in (funcall (framework-list framework))
                    for name = (first (uiop:ensure-list (test-name test)))
                    for origin = (gethash (test-identity test) *test-origins*)
                    for function = (test-function test)
                    ;; The function may be of another file, with a helper that makes tests.
                    for file = (or (first origin)
                                   (and function (values (function-file function))))
                    for last-load = (gethash (first origin) *file-loads*)
                    for package = (and (test-package test) (package-name (test-package test)))
                    collect (object
                             "framework" (framework-name framework)
                             "test" (test-text test)
                             "name" (if (symbolp name) (symbol-name name) (princ-to-string name))
                             "package" package
                             "file" file
                             "outdated" (json-boolean (and origin (not (eq origin last-load))))))))

(defun test-called (framework name)
  "Return the test of FRAMEWORK with the printed name NAME."
  (or (find name (funcall (framework-list framework)) :key #'test-text :test #'string=)
      (error "There is no test ~a." name)))

(define-question "remove-tests" (&rest names)
  "Remove tests from the tables of their frameworks, and return the number of removed tests."
  ;; NAMES are the names of frameworks and the printed names of tests, in turn.
  (loop for (framework name) on names by #'cddr
        count (around-user-code
                (let ((framework (known-framework framework)))
                  (funcall (framework-remove framework)
                           (test-designator (test-called framework name)))
                  t))))

(define-question "run-test" (framework test)
  "Run the test of FRAMEWORK with the printed name TEST."
  (let* ((framework (or (known-framework framework)
                        (error "There is no framework ~a." framework)))
         (known (test-called framework test))
         (package (or (test-package known) *package*)))
    (call-as-test (lambda ()
                    (let ((*package* package))
                      (funcall (framework-run framework) (test-designator known))))
                  package)))

;;; Systems

(defun dependency-names (operation system)
  "Return the names of the systems that OPERATION on SYSTEM depends on."
  ;; The definition of each secondary system depends on that of its primary system.
  (loop for (needed . components) in (asdf:component-depends-on operation system)
        unless (typep needed '(or (eql asdf:define-op) asdf:define-op))
          nconc (loop for component in components
                      for name = (typecase component
                                   (string component)
                                   (symbol (string-downcase component))
                                   (asdf:system (asdf:component-name component)))
                      when (and name (asdf:find-system name nil))
                        collect name)))

(defun test-dependencies (system)
  "Return the names of the systems that probably contain tests of SYSTEM."
  ;; They have usual names, are dependencies of SYSTEM's test-op, or are parts of SYSTEM. A system
  ;; that SYSTEM only uses has its own tests.
  (let* ((own (asdf:component-name system))
         (primary (asdf:primary-system-name system))
         (empty (null (asdf:component-children system))))
    (flet ((related-p (name)
             (or (string= (asdf:primary-system-name name) primary)
                 (search "test" name :test #'char-equal)))
           (part-p (name)
             (or (uiop:string-prefix-p (concatenate 'string own "/") name)
                 (and (string= (asdf:primary-system-name name) primary)
                      (typep (asdf:find-system name) 'asdf:package-inferred-system)))))
      (remove-duplicates
       (append
        ;; Many test-ops name the system with the tests only in code, so try the usual names.
        (loop for suffix in '("/test" "/tests" "-test" "-tests")
              for name = (concatenate 'string own suffix)
              when (asdf:find-system name nil)
                collect name)
        (remove-if-not #'related-p (dependency-names 'asdf:test-op system))
        ;; A system without files collects others.
        (remove-if-not (if empty #'related-p #'part-p) (dependency-names 'asdf:load-op system)))
       :test #'string=))))

(define-question "test-systems" (name)
  "Return the system NAME and the systems that probably contain its tests, each with its files."
  (let ((name (find-system-name name)))
    (if (null name)
        (object "status" "unknown")
        (let ((names '()))
          (labels ((visit (name)
                     (unless (member name names :test #'string=)
                       (push name names)
                       (mapc #'visit (test-dependencies (asdf:find-system name))))))
            (visit name))
          (object "status" "found"
                  "systems" (loop for name in (nreverse names)
                                  for files = (mapcar #'source-file-of
                                                      (system-files (asdf:find-system name)))
                                  collect (object "name" name "files" (remove nil files))))))))

(defun asdf-name-p (symbol)
  "Return true if SYMBOL is in one of ASDF's packages."
  ;; Extensions have packages such as ASDF-ENCODINGS, which do not count.
  (let ((package (symbol-package symbol)))
    (and package
         (or (eq package (find-package :asdf))
             (eql 0 (search "ASDF/" (package-name package)))))))

(defun own-perform-p (system)
  "Return true if a method of PERFORM other than ASDF's applies to the test-op of SYSTEM."
  (flet ((general-p (specializer)
           (and (typep specializer 'class)
                (or (eq specializer (find-class t)) (asdf-name-p (class-name specializer))))))
    (loop with arguments = (list (asdf:make-operation 'asdf:test-op) system)
          for method in (compute-applicable-methods #'asdf:perform arguments)
            thereis (notevery #'general-p (sb-mop:method-specializers method)))))

(defun test-op-acts-p (system &optional seen)
  "Return true if the test-op of SYSTEM does more than load systems."
  ;; Only the methods of PERFORM, and the operations that the test-op depends on, are examined. SEEN
  ;; are the systems already visited.
  (flet ((tested-p (component)
           (let ((tested (and (typep component '(or string symbol asdf:system))
                              (asdf:find-system component nil))))
             (and tested
                  (not (member tested (cons system seen)))
                  (test-op-acts-p tested (cons system seen))))))
    (or (own-perform-p system)
        (loop for (operation . components) in (asdf:component-depends-on 'asdf:test-op system)
              for name = (if (typep operation 'asdf:operation) (type-of operation) operation)
                thereis (cond ((eq name 'asdf:test-op) (some #'tested-p components))
                              (t (not (asdf-name-p name))))))))

(define-question "test-operations" (name &rest others)
  "Return the names of the systems to perform test-op on, to test the system NAME."
  ;; Return NAME if its test-op does more than load systems. Otherwise return those of OTHERS for
  ;; which that is true.
  (flet ((acts-p (name) (test-op-acts-p (asdf:find-system name))))
    (if (acts-p name)
        (list name)
        (remove-if-not #'acts-p others))))

(define-question "run-test-op" (system)
  "Perform SYSTEM's test-op."
  ;; Assertions of frameworks without named tests are reported individually.
  (call-as-test (lambda () (call-with-assertions-noted (lambda () (asdf:test-system system))))
                (find-package :common-lisp-user)))
