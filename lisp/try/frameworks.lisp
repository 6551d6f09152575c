;;;; Adapters for test frameworks. The symbols of a framework are looked up at run time, because the
;;;; framework need not be loaded.

(in-package :steelbank)

(defmacro define-framework (name package (&key tests run remove) &rest forms)
  "Define the framework NAME, which is recognized by PACKAGE."
  ;; TESTS is a form that returns the tests. RUN is a list of one variable. FORMS run the test that
  ;; the variable designates and return its assertions. If the assertions do not determine the
  ;; status, FORMS also return the status and a message. REMOVE is a function that removes the test
  ;; of its argument, a designator, from the framework's tables.
  (let ((list (intern (format nil "TESTS-OF-~:@(~a~)" name) :steelbank))
        (runner (intern (format nil "RUN-TEST-OF-~:@(~a~)" name) :steelbank)))
    `(progn
       (defun ,list () ,(format nil "Return the tests of ~a." name) ,tests)
       (defun ,runner ,run ,(format nil "Run a test of ~a and return its assertions." name) ,@forms)
       (setf *frameworks*
             (append (remove ,name *frameworks* :key #'framework-name :test #'string=)
                     (list (make-framework :name ,name :package ,package
                                           :list ',list :run ',runner :remove ,remove)))))))

(defun report-text (condition)
  "Return the report of CONDITION, or CONDITION itself if it is a string."
  (if (stringp condition) condition (describe-condition condition)))

(defun one-line (text)
  "Return TEXT with each run of white space replaced by one space."
  (let ((words (uiop:split-string text :separator '(#\Space #\Tab #\Newline #\Return))))
    (format nil "~{~a~^ ~}" (remove "" words :test #'string=))))

(defparameter *equality-predicates*
  '(= char= char-equal eq eql equal equalp string= string-equal tree-equal)
  "Predicates for which a constant argument is the expected value.")

(defun compared-assertion (predicate values &rest initargs)
  "Return the assertion that PREDICATE holds for VALUES, conses of a form and its value."
  ;; If PREDICATE tests equality and one of two forms is constant, the constant is the expected
  ;; value. Otherwise it is unknown which value is expected, and constants are omitted.
  (let ((constants (remove-if-not #'constantp values :key #'car))
        (others (remove-if #'constantp values :key #'car)))
    (apply #'make-assertion
           (append (if (and (member predicate *equality-predicates*)
                            (= (length constants) (length others) 1))
                       (list :expected (list (cdr (first constants)))
                             :actual (list (cdr (first others))))
                       (list :values others))
                   initargs))))

;;; FiveAM

(defvar *fiveam-comparisons* '()
  "The failed checks, as lists of the check's form and its report's format control and arguments.")

(defun noted-process-failure (function form &optional control &rest arguments)
  "Wrap FiveAM's PROCESS-FAILURE, the only function that receives the compared values."
  (push (list form control arguments) *fiveam-comparisons*)
  (apply function form control arguments))

(defun fiveam-assertion (result)
  "Return RESULT, a result of a check in FiveAM, as an assertion."
  (flet ((is (name) (is-a result "IT.BESE.FIVEAM" name)))
    (let* ((form (its-slot result "TEST-EXPR"))
           (noted (find form *fiveam-comparisons* :key #'first))
           (arguments (third noted))
           (compared (and (stringp (second noted)) (= (length arguments) 4)
                          (consp form) (= (length form) 3)
                          ;; The arguments are the second compared form, its value, the predicate,
                          ;; and the value of the first compared form.
                          (equal (first arguments) (third form)))))
      (compared-assertion (first (and compared form))
                          (and compared
                               (list (cons (second form) (fourth arguments))
                                     (cons (third form) (second arguments))))
                          ;; FiveAM's report counts an unexpected error as a failure.
                          :status (cond ((is "TEST-PASSED") :passed)
                                        ((is "TEST-SKIPPED") :skipped)
                                        (t :failed))
                          :form form
                          :message (let ((reason (its-slot result "REASON")))
                                     (and (stringp reason)
                                          (one-line reason)))))))

(define-framework "fiveam" "IT.BESE.FIVEAM"
    (:tests (loop with known = (symbol-value (its "IT.BESE.FIVEAM" "*TEST*"))
                  ;; Newer versions have an object with a table.
                  with table = (if (hash-table-p known) known (its-slot known "TESTS"))
                  for test being the hash-values of table
                  when (is-a test "IT.BESE.FIVEAM" "TEST-CASE")
                    collect (make-test :name (its-slot test "NAME")
                                       :package (its-slot test "RUNTIME-PACKAGE")
                                       :function (its-slot test "TEST-LAMBDA") :designator test))
     :remove (lambda (test &aux (suite (its-slot test "TEST-SUITE")))
               (call-its "IT.BESE.FIVEAM" "REM-TEST" (its-slot test "NAME"))
               (when suite
                 (progv (list (its "IT.BESE.FIVEAM" "*TEST*")) (list (its-slot suite "TESTS"))
                   (call-its "IT.BESE.FIVEAM" "REM-TEST" (its-slot test "NAME")))))
     :run (test))
  (let ((*fiveam-comparisons* '()))
    (encapsulate (its "IT.BESE.FIVEAM" "PROCESS-FAILURE") 'steelbank #'noted-process-failure)
    (unwind-protect
         (progv (mapcar (lambda (name) (its "IT.BESE.FIVEAM" name))
                        '("*ON-ERROR*" "*ON-FAILURE*" "*PRINT-NAMES*" "*TEST-DRIBBLE*"))
             (list nil nil nil (make-broadcast-stream))
           ;; FiveAM also runs the tests that TEST depends on; those have separate results.
           (loop for result in (reverse (call-its "IT.BESE.FIVEAM" "RUN" test))
                 when (eq (its-slot result "TEST-CASE") test)
                   collect (fiveam-assertion result)))
      (unencapsulate (its "IT.BESE.FIVEAM" "PROCESS-FAILURE") 'steelbank))))

;;; RT, in two versions

(defun rt-entry-parts (entry)
  "Return name, form and expected values of ENTRY, a structure of RT or a list of SBCL's RT."
  (if (consp entry)
      (values (second entry) (third entry) (cdddr entry))
      (values (its-slot entry "NAME") (its-slot entry "FORM") (its-slot entry "VALS"))))

(defun rt-entries (package)
  "Return the entries of the RT in PACKAGE."
  (rest (symbol-value (its package "*ENTRIES*"))))

(defun rt-test (entry)
  "Return the test for ENTRY of RT."
  (named-test (values (rt-entry-parts entry)) nil entry))

(defun rt-assertions (package name)
  "Run the test NAME of the RT in PACKAGE, and return its assertions."
  (let ((entry (find name (rt-entries package) :key #'rt-entry-parts :test #'equal))
        (output (make-string-output-stream)))
    (multiple-value-bind (name form values) (rt-entry-parts entry)
      (declare (ignore name))
      (if (call-its package "DO-ENTRY" entry output)
          (list (make-assertion :form form))
          (let* ((text (get-output-stream-string output))
                 (actual (search "Actual value" text :from-end t))
                 (colon (and actual (position #\: text :start actual)))
                 (value (and colon (string-left-trim " " (subseq text (1+ colon))))))
            (list (make-assertion :status :failed
                                  :form form
                                  :expected (list (if (= (length values) 1) (first values) values))
                                  :message (and value
                                                (format nil "Actual value: ~a"
                                                        (string-right-trim '(#\. #\Newline #\Space)
                                                                           value))))))))))

(define-framework "rt" "REGRESSION-TEST"
    (:tests (mapcar #'rt-test (rt-entries "REGRESSION-TEST"))
     :remove (lambda (name) (call-its "REGRESSION-TEST" "REM-TEST" name))
     :run (name))
  (rt-assertions "REGRESSION-TEST" name))

(define-framework "sb-rt" "SB-RT"
    (:tests (mapcar #'rt-test (rt-entries "SB-RT"))
     :remove (lambda (name) (call-its "SB-RT" "REM-TEST" name))
     :run (name))
  (rt-assertions "SB-RT" name))

;;; Fiasco

(defun fiasco-values (form arguments)
  "Return the predicate of FORM, an asserted form, and conses of its parts and their values."
  ;; The values are from ARGUMENTS, the arguments of the failure's report. Return NIL if the
  ;; arguments have no known form.
  (cond ((not (and (consp form) (consp (first arguments)))) nil)
        ;; The arguments are (predicate x y), then each form followed by its value.
        ((and (= (length form) 3) (= (length arguments) 5) (eq (first form) (caar arguments)))
         (values (first form) (plist-alist (rest arguments))))
        ;; The arguments are the form, a word, then number, form and value of each part.
        ((equal form (first arguments))
         (values nil (loop for (nil part value) on (cddr arguments) by #'cdddr
                           collect (cons part value))))))

(defun fiasco-called (context run)
  "Return the names of the tests that the test of RUN called, down to the one of CONTEXT."
  (reverse (loop for part = context then (its-slot part "PARENT-CONTEXT")
                 until (or (null part) (eq part run))
                 collect (its-slot (its-slot part "TEST") "NAME"))))

(defun fiasco-assertion (failure run)
  "Return FAILURE, a condition of Fiasco in the context RUN, as an assertion."
  (flet ((is (name) (is-a failure "FIASCO" name)))
    (let ((form (its-slot failure "FORM"))
          (called (fiasco-called (its-slot failure "CONTEXT") run)))
      (multiple-value-bind (predicate values)
          (when (is "FAILED-ASSERTION")
            (fiasco-values (second form) (simple-condition-format-arguments failure)))
        (compared-assertion predicate values
                            :status (if (is "UNEXPECTED-ERROR") :error :failed)
                            :within (mapcar #'name-text called)
                            :test (first (last called))
                            :form (cond ((is "FAILED-ASSERTION") form)
                                        ;; For SIGNALS, the form is the body.
                                        ((rest form) (cons 'progn form))
                                        (t (first form)))
                            ;; Use DESCRIBE-OBJECT, because the condition's report only repeats the
                            ;; name of the test.
                            :message (reporting-own-errors ("reading Fiasco's report")
                                       (with-output-to-string (stream)
                                         (describe-object failure stream))))))))

(defun fiasco-packages ()
  "Return a table from Fiasco's suites that belong to a package to that package."
  (let ((packages (make-hash-table :test 'eq))
        (suites (symbol-value (its "FIASCO" "*PACKAGE-BOUND-SUITES*"))))
    (loop for package being the hash-keys of suites using (hash-value suite)
          do (setf (gethash suite packages) (find-package package)))
    packages))

(defun fiasco-test (test packages)
  "Return the test for Fiasco's TEST, in the package that PACKAGES has for its parent, if any."
  (let* ((name (its-slot test "NAME"))
         (known (named-test name (fdefinition name)))
         (package (gethash (its-slot test "PARENT") packages)))
    (when package
      (setf (test-package known) package))
    known))

(define-framework "fiasco" "FIASCO"
    (:tests (loop with packages = (fiasco-packages)
                  for test being the hash-values of (symbol-value (its "FIASCO" "*TESTS*"))
                  for lambda-list = (its-slot test "LAMBDA-LIST")
                  when (and (fboundp (its-slot test "NAME"))
                            (zerop (hash-table-count (its-slot test "CHILDREN")))
                            (or (null lambda-list)
                                (member (first lambda-list) lambda-list-keywords)))
                    collect (fiasco-test test packages))
     :remove (lambda (name) (call-its "FIASCO" "DELETE-TEST" name))
     :run (name))
  ;; A test that no other test called returns its context last. *LAST-TEST-RESULT* may be that of
  ;; another thread.
  (let* ((context (progv (mapcar (lambda (name) (its "FIASCO" name))
                                 '("*DEBUG-ON-UNEXPECTED-ERROR*" "*DEBUG-ON-ASSERTION-FAILURE*"
                                   "*PRINT-TEST-RUN-PROGRESS*"))
                      '(nil nil nil)
                    (first (last (multiple-value-list (funcall name))))))
         (failures (loop for failure in (reverse (call-its "FIASCO" "FAILURES-OF" context))
                         collect (fiasco-assertion failure context)))
         (count (length (call-its "FIASCO" "ASSERTIONS-OF" context)))
         (failed (count :failed failures :key #'assertion-status)))
    (values (append (loop repeat (max 0 (- count failed)) collect (make-assertion))
                    (loop repeat (call-its "FIASCO" "SKIPS-OF" context)
                          collect (make-assertion :status :skipped))
                    failures)
            ;; A test that skips its rest is skipped, though assertions before that passed.
            (and (null failures) (its-slot context "SELF-SKIPPED") :skipped))))

;;; 1AM: a failed check signals an error, which ends the test

(defvar *failed-check* nil
  "The last error that left a SIGNALS form of 1AM, or NIL. Such an error is a failed check.")

(defun noted-signals (function expected body)
  "Wrap 1AM's %SIGNALS: record the errors that leave it."
  (handler-bind ((error (lambda (condition) (setf *failed-check* condition))))
    (funcall function expected body)))

(defvar *assert-control*
  (handler-case (assert (null *standard-output*))
    (simple-error (condition) (simple-condition-format-control condition)))
  "The format control of the error that SBCL's ASSERT signals.")

(defun assert-failure-p (condition)
  "Return true if CONDITION was signalled by SBCL's ASSERT."
  (and (typep condition 'simple-error)
       (equal (simple-condition-format-control condition) *assert-control*)))

(defun 1am-failure (condition)
  "Return the assertion that failed with CONDITION."
  (if (assert-failure-p condition)
      (destructuring-bind (form &optional values &rest more)
          (simple-condition-format-arguments condition)
        (declare (ignore more))
        (let* ((values (and (listp values) (plist-alist values)))
               (constants (and (consp form)
                               (loop for part in (rest form)
                                     when (constantp part) collect (cons part (eval part))))))
          (compared-assertion (and (consp form) (= (length form) 3) (first form))
                              (append constants values)
                              :status :failed :form form :message (report-text condition))))
      (make-assertion :status (if (eq condition *failed-check*) :failed :error)
                      :message (report-text condition))))

(define-framework "1am" "1AM"
    (:tests (loop for name in (reverse (symbol-value (its "1AM" "*TESTS*")))
                  collect (named-test name (fdefinition name)))
     :remove (lambda (name &aux (tests (its "1AM" "*TESTS*")))
               (setf (symbol-value tests) (remove name (symbol-value tests))))
     :run (name))
  ;; Bind the counter as 1AM does, so that it does not count the checks of other threads.
  (let ((*failed-check* nil)
        (counter (its "1AM" "*PASS-COUNT*")))
    (encapsulate (its "1AM" "%SIGNALS") 'steelbank #'noted-signals)
    (unwind-protect
         (progv (list counter (its "1AM" "*RUNNING*")) (list 0 t)
           (let ((failure (handler-case (progn (funcall name) nil)
                            (error (condition) (list (1am-failure condition))))))
             (append (loop repeat (symbol-value counter) collect (make-assertion)) failure)))
      (unencapsulate (its "1AM" "%SIGNALS") 'steelbank))))

;;; Rove

(defun rove-equality ()
  "Return the symbol of Rove's predicate for macro expansions, or NIL if this version has none."
  (let ((package (find-package "ROVE/CORE/ASSERTION")))
    (and package (find-symbol "EQUAL*" package))))

(defun rove-assertions (result test)
  "Return the assertions in RESULT, a test or an assertion of Rove, of the test called TEST."
  (flet ((is (name) (is-a result "ROVE/CORE/RESULT" name)))
    (if (is "TEST")
        (loop for part in '("PASSED" "FAILED" "PENDING")
              append (loop for inner in (coerce (its-slot result part) 'list)
                           append (rove-assertions inner test)))
        (let* ((reason (its-slot result "REASON"))
               ;; FORM is the expansion of the asserted form, which is the first of STEPS.
               (form (its-slot result "FORM"))
               (written (if (its-slot result "STEPS") (first (its-slot result "STEPS")) form))
               (values (mapcar #'cons (its-slot result "ARGS") (its-slot result "VALUES")))
               (own (and (consp form) (loop for part in (rest form)
                                            for known = (find part values :key #'car :test #'eq)
                                            when known collect known)))
               (message (cond ((typep reason 'condition) (report-text reason))
                              (reason (princ-to-string reason))
                              ((not (is "PASSED"))
                               (call-its "ROVE/CORE/RESULT" "ASSERTION-DESCRIPTION" result)))))
          (list (compared-assertion (and (consp form) (= (length form) 3) (= (length own) 2)
                                         (not (its-slot result "NEGATIVE"))
                                         ;; EXPANDS expands to Rove's own predicate of equality.
                                         (if (eq (first form) (rove-equality)) 'equal (first form)))
                                    (and (is "FAILED") (null reason)
                                         (if (= (length own) 2) own values))
                                    :status (cond ((is "PASSED") :passed)
                                                  ((is "PENDING") :skipped)
                                                  ((typep reason 'condition) :error)
                                                  (t :failed))
                                    :form (if (eq written t) nil written)
                                    :within (remove test (its-slot result "LABELS"))
                                    :message message))))))

(define-framework "rove" "ROVE"
    (:tests (loop for suite in (call-its "ROVE/CORE/SUITE/PACKAGE" "ALL-SUITES")
                  nconc (loop for name in (call-its "ROVE/CORE/SUITE/PACKAGE" "SUITE-TESTS" suite)
                              for function = (call-its "ROVE/CORE/SUITE/PACKAGE" "GET-TEST" name)
                              collect (make-test :name name :package (its-slot suite "PACKAGE")
                                                 :function function :designator (cons suite name))))
     :remove (lambda (designator)
               (call-its "ROVE/CORE/SUITE/PACKAGE" "REMOVE-TEST" (cdr designator)))
     :run (designator))
  (destructuring-bind (suite . name) designator
    (let ((stats (make-instance (its "ROVE/CORE/STATS" "STATS"))))
      (flet ((hooks (part) (dolist (hook (reverse (its-slot suite part))) (funcall (cdr hook)))))
        (progv (list (its "ROVE/CORE/STATS" "*STATS*")) (list stats)
          (when (its-slot suite "SETUP") (funcall (its-slot suite "SETUP")))
          (unwind-protect
               (progn (hooks "BEFORE-HOOKS")
                      (funcall (call-its "ROVE/CORE/SUITE/PACKAGE" "GET-TEST" name)))
            (hooks "AFTER-HOOKS")
            (when (its-slot suite "TEARDOWN") (funcall (its-slot suite "TEARDOWN"))))
          (loop for result in (reverse (its-slot stats "RESULTS"))
                append (rove-assertions result name)))))))

;;; Parachute

(defun parachute-assertion (result)
  "Return RESULT, a result in a report of Parachute, as an assertion."
  (flet ((is (name) (is-a result "ORG.SHIRAKUMO.PARACHUTE" name)))
    (let* ((failed (eq (its-slot result "STATUS") :failed))
           (compared (and failed (is "COMPARISON-RESULT")))
           (raised (typep (its-slot result "VALUE") 'error)))
      (make-assertion :status (case (its-slot result "STATUS")
                                (:failed (if (and raised (not compared)) :error :failed))
                                (:skipped :skipped)
                                (t :passed))
                      :form (and (not (is "TEST-RESULT")) (its-slot result "EXPRESSION"))
                      :expected (and compared (list (its-slot result "EXPECTED")))
                      :actual (and compared (list (its-slot result "VALUE")))
                      :message (and failed
                                    (call-its "ORG.SHIRAKUMO.PARACHUTE" "FORMAT-RESULT"
                                              result :extensive))))))

(defun parachute-results (result)
  "Return the results in RESULT that Parachute's own report counts: all but test results."
  (loop for part across (its-slot result "RESULTS")
        unless (is-a part "ORG.SHIRAKUMO.PARACHUTE" "TEST-RESULT")
          append (append (and (its-slot part "RESULTS") (parachute-results part)) (list part))))

(defun call-with-children (chain function)
  "Call FUNCTION while each test of CHAIN has the next test as its only child, and the last none."
  ;; The first test is the outermost one.
  (let ((had (mapcar (lambda (test) (its-slot test "CHILDREN")) chain)))
    (flet ((put (test children)
             (setf (slot-value test (its "ORG.SHIRAKUMO.PARACHUTE" "CHILDREN")) children)))
      (loop for (test next) on chain do (put test (and next (list next))))
      (unwind-protect (funcall function)
        (mapc #'put chain had)))))

(defun parachute-skip-reason (test report)
  "Return why TEST was skipped in the run of REPORT."
  ;; Either a dependency did not pass, or the parent of TEST skips it.
  (labels ((tests (combination)
             (loop for part in (rest combination)
                   append (if (consp part) (tests part) (list part))))
           (passed-p (test)
             (find-if (lambda (result)
                        (and (eq (its-slot result "EXPRESSION") test)
                             (eq (its-slot result "STATUS") :passed)))
                      (its-slot report "RESULTS"))))
    (let* ((needed (tests (call-its "ORG.SHIRAKUMO.PARACHUTE" "DEPENDENCIES" test)))
           (unmet (remove-if #'passed-p (remove-duplicates needed))))
      (if unmet
          (format nil "The test depends on ~{~a~^, ~}, which did not pass."
                  (mapcar (lambda (test) (its-slot test "NAME")) unmet))
          "The test's parent skips it."))))

(define-framework "parachute" "ORG.SHIRAKUMO.PARACHUTE"
    (:tests (loop with indexes = (symbol-value (its "ORG.SHIRAKUMO.PARACHUTE" "*TEST-INDEXES*"))
                  for index being the hash-values of indexes
                  nconc (loop for test being the hash-values of index
                              collect (make-test :name (string (its-slot test "NAME"))
                                                 :package (its-slot test "HOME")
                                                 :function (first (its-slot test "TESTS"))
                                                 :designator test)))
     :remove (lambda (test)
               (call-its "ORG.SHIRAKUMO.PARACHUTE" "REMOVE-TEST"
                         (its-slot test "NAME") (its-slot test "HOME")))
     :run (test))
  ;; Run the test within its parents, because their fixtures, dependencies and skips apply to it.
  ;; Its children are separate tests.
  (let* ((chain (reverse (loop for part = test then (its-slot part "PARENT")
                               while part collect part)))
         (report (call-with-children chain
                   (lambda ()
                     (call-its "ORG.SHIRAKUMO.PARACHUTE" "TEST" (first chain)
                               :report (its "ORG.SHIRAKUMO.PARACHUTE" "PLAIN")
                               :output (make-broadcast-stream)))))
         (result (find-if (lambda (result)
                            (and (is-a result "ORG.SHIRAKUMO.PARACHUTE" "TEST-RESULT")
                                 (eq (its-slot result "EXPRESSION") test)))
                          (its-slot report "RESULTS")))
         (assertions (and result (mapcar #'parachute-assertion
                                         (remove-duplicates (parachute-results result))))))
    (cond ((or (null result) (eq (its-slot result "STATUS") :skipped))
           (list (make-assertion :status :skipped :message (parachute-skip-reason test report))))
          ((and (eq (its-slot result "STATUS") :failed)
                (notany (lambda (assertion) (eq (assertion-status assertion) :failed)) assertions))
           ;; An error outside any assertion fails the test itself and is not an assertion.
           (values assertions :error (its-slot result "DESCRIPTION")))
          (t assertions))))

;;; lisp-unit2

(defun lisp-unit2-failure (failure)
  "Return FAILURE, a failure or error that lisp-unit2 recorded, as an assertion."
  (flet ((told (slot)
           (let ((values (its-slot failure slot)))
             (list (if (and (consp values) (null (rest values))) (first values) values)))))
    (if (typep failure 'condition)
        (make-assertion :status :error :message (report-text failure))
        (make-assertion :status :failed
                        :form (its-slot failure "FORM")
                        :expected (told "EXPECTED")
                        :actual (told "ACTUAL")))))

(define-framework "lisp-unit2" "LISP-UNIT2"
    (:tests (loop for test in (call-its "LISP-UNIT2" "LIST-TESTS")
                  for name = (its-slot test "NAME")
                  collect (make-test :name name :package (its-slot test "EVAL-PACKAGE")
                                     :function (and (fboundp name) (fdefinition name))
                                     :designator test))
     :remove (lambda (test) (call-its "LISP-UNIT2" "UNINSTALL-TEST" test))
     :run (test))
  (call-its "LISP-UNIT2" "RUN-TESTS" :tests (list (its-slot test "NAME")))
  ;; The run's results lack a test if a context fails before it calls the test.
  (let ((result (its-slot test "MOST-RECENT-RESULT")))
    (flet ((all (part)
             (let ((collected (its-slot result part)))
               (if (listp collected) collected (call-its "LISP-UNIT2" "HEAD" collected)))))
      (let ((assertions
              (append (loop repeat (length (all "PASSED")) collect (make-assertion))
                      (mapcar #'lisp-unit2-failure (append (all "FAILED") (all "ERRORS"))))))
        (values assertions (and (null assertions) :empty))))))

;;; Frameworks without named tests: their assertions are recorded while a system's test-op runs

(defvar *noted-assertions* '()
  "The assertions of ptester and prove in this run, newest first.")

(defun ptester-check (function &rest arguments &key expected-result test-results test-form
                                                 known-failure &allow-other-keys)
  "Wrap ptester's TEST-CHECK, which every test calls at its end."
  ;; The test failed if the error counter increases.
  (let* ((counter (its "PTESTER" "*TEST-ERRORS*"))
         (before (symbol-value counter)))
    (multiple-value-prog1 (apply function arguments)
      (let ((failed (> (symbol-value counter) before))
            (condition (and (typep test-results 'condition) test-results)))
        (push (make-assertion :status (cond ((not failed) :passed) (known-failure :skipped)
                                            (condition :error) (t :failed))
                              :form test-form
                              :expected (list expected-result)
                              :actual (and (consp test-results) (list (second test-results)))
                              :message (and condition (report-text condition)))
              *noted-assertions*)))))

(defvar *prove-subtests* '()
  "The descriptions of prove's subtests that are running, innermost first.")

(defun prove-subtest (function description body)
  "Wrap prove's %SUBTEST: record DESCRIPTION while BODY runs."
  (let ((*prove-subtests* (cons description *prove-subtests*)))
    (funcall function description body)))

(defun prove-assertion (report)
  "Return REPORT, prove's report of an assertion, as an assertion."
  (flet ((is (name) (is-a report "PROVE.REPORT" name)))
    (let* ((got (its-slot report "GOT"))
           (form (its-slot report "GOT-FORM"))
           (raised (is "ERROR-TEST-REPORT"))
           (compared (and (is "FAILED-TEST-REPORT") (not raised)))
           (description (its-slot report "DESCRIPTION"))
           ;; An error inside an assertion fails the assertion; an error outside any assertion has
           ;; no form.
           (outside (and raised (symbolp form) (null (symbol-package form)))))
      (make-assertion :status (cond (outside :error)
                                    ((is "FAILED-TEST-REPORT") :failed)
                                    ((is "SKIPPED-TEST-REPORT") :skipped)
                                    (t :passed))
                      ;; If prove does not have the form, it stores the value instead.
                      :form (if (or outside (eq form got)) nil form)
                      :expected (and compared (list (its-slot report "EXPECTED")))
                      :actual (and compared (list got))
                      :message (cond (raised (report-text got))
                                     ((is "SKIPPED-TEST-REPORT") description))
                      :within (append (reverse *prove-subtests*)
                                      (and (not outside) (is "FAILED-TEST-REPORT") description
                                           (list description)))))))

(defun prove-add-report (function report suite)
  "Wrap prove's ADD-REPORT, which every assertion calls at its end."
  (when (is-a report "PROVE.REPORT" "NORMAL-TEST-REPORT")
    (push (prove-assertion report) *noted-assertions*))
  (funcall function report suite))

;; These frameworks have no named tests.
(defparameter *assertion-hooks*
  '(("PTESTER" "TEST-CHECK" ptester-check)
    ("PROVE.SUITE" "ADD-REPORT" prove-add-report)
    ("PROVE.TEST" "%SUBTEST" prove-subtest))
  "Functions that assertions or subtests call: package, name, and the encapsulating function.")

(defun call-with-assertions-noted (function)
  "Call FUNCTION, and return the assertions that were recorded during the call."
  (let* ((*noted-assertions* '())
         (symbols (loop for (package name around) in *assertion-hooks*
                        for symbol = (and (find-package package) (find-symbol name package))
                        when (and symbol (fboundp symbol))
                          do (encapsulate symbol 'steelbank (symbol-function around))
                          and collect symbol)))
    (unwind-protect (progn (funcall function) (reverse *noted-assertions*))
      (dolist (symbol symbols)
        (unencapsulate symbol 'steelbank)))))
