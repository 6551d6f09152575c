;;;; One definition for each test framework. Their symbols are looked up when they are needed, since none of the frameworks
;;;; need be loaded.

(in-package :steelbank)

(defmacro define-framework (name package (&key tests run) &rest forms)
  "Recognise the framework NAME by PACKAGE. TESTS is a form whose value lists its tests as (name . function); RUN is
(variable) and FORMS, which run the test of that name and return assertions."
  (let ((list (intern (format nil "TESTS-OF-~:@(~a~)" name) :steelbank))
        (runner (intern (format nil "RUN-TEST-OF-~:@(~a~)" name) :steelbank)))
    `(progn
       (defun ,list () ,(format nil "The tests that ~a knows." name) ,tests)
       (defun ,runner ,run ,(format nil "The assertions of a test of ~a." name) ,@forms)
       (setf *frameworks*
             (append (remove ,name *frameworks* :key #'framework-name :test #'string=)
                     (list (make-framework :name ,name :package ,package :list ',list :run ',runner)))))))

(defun report-text (condition)
  "The report of CONDITION, or CONDITION itself if it is a string."
  (if (stringp condition) condition (describe-condition condition)))

;;; FiveAM

(defvar *fiveam-comparisons* '()
  "The failed checks: conses of the check's form and the arguments of its report.")

(defun noted-process-failure (function form &optional control &rest arguments)
  "Around FiveAM's PROCESS-FAILURE, which alone has the values that were compared."
  (push (list form control arguments) *fiveam-comparisons*)
  (apply function form control arguments))

(defun fiveam-assertion (result)
  "RESULT as an assertion."
  (flet ((is (name) (is-a result "IT.BESE.FIVEAM" name)))
    (let* ((form (its-slot result "TEST-EXPR"))
           (noted (find form *fiveam-comparisons* :key #'first))
           (arguments (third noted))
           (compared (and (stringp (second noted)) (= (length arguments) 4) (search "evaluated to" (second noted)))))
      (make-assertion :status (cond ((is "TEST-PASSED") :passed)
                                    ((is "UNEXPECTED-TEST-FAILURE") :error)
                                    ((is "TEST-SKIPPED") :skipped)
                                    (t :failed))
                      :form form
                      :expected (and compared (list (fourth arguments)))
                      :actual (and compared (list (second arguments)))
                      :message (let ((reason (its-slot result "REASON")))
                                 (and (stringp reason)
                                      (substitute #\Space #\Newline (remove #\Return reason))))))))

(define-framework "fiveam" "IT.BESE.FIVEAM"
    (:tests (loop for test being the hash-values of (symbol-value (its "IT.BESE.FIVEAM" "*TEST*"))
                  when (is-a test "IT.BESE.FIVEAM" "TEST-CASE")
                    collect (cons (its-slot test "NAME") (its-slot test "TEST-LAMBDA")))
     :run (name))
  (let ((*fiveam-comparisons* '()))
    (encapsulate (its "IT.BESE.FIVEAM" "PROCESS-FAILURE") 'steelbank #'noted-process-failure)
    (unwind-protect
         (progv (list (its "IT.BESE.FIVEAM" "*ON-ERROR*") (its "IT.BESE.FIVEAM" "*ON-FAILURE*")
                      (its "IT.BESE.FIVEAM" "*PRINT-NAMES*") (its "IT.BESE.FIVEAM" "*TEST-DRIBBLE*"))
             (list nil nil nil (make-broadcast-stream))
           (mapcar #'fiveam-assertion (reverse (call-its "IT.BESE.FIVEAM" "RUN" name))))
      (unencapsulate (its "IT.BESE.FIVEAM" "PROCESS-FAILURE") 'steelbank))))

;;; RT, of which there are two

(defun rt-entry-parts (entry)
  "Name, form and expected values of ENTRY of RT: a structure, or a list in the one that comes with SBCL."
  (if (consp entry)
      (values (second entry) (third entry) (cdddr entry))
      (values (its-slot entry "NAME") (its-slot entry "FORM") (its-slot entry "VALS"))))

(defun rt-entries (package)
  "The entries of the RT in PACKAGE."
  (rest (symbol-value (its package "*ENTRIES*"))))

(defun rt-assertions (package name)
  "Run the test NAME of the RT in PACKAGE."
  (let ((entry (find name (rt-entries package) :key (lambda (entry) (values (rt-entry-parts entry))) :test #'equal))
        (output (make-string-output-stream)))
    (multiple-value-bind (name form values) (rt-entry-parts entry)
      (declare (ignore name))
      (if (call-its package "DO-ENTRY" entry output)
          (list (make-assertion :form form))
          (let* ((text (get-output-stream-string output))
                 (actual (search "Actual value" text :from-end t))
                 (colon (and actual (position #\: text :start actual))))
            (list (make-assertion :status :failed
                                  :form form
                                  :expected (list (if (= (length values) 1) (first values) values))
                                  :message (and colon
                                                (format nil "Actual value: ~a"
                                                        (string-right-trim '(#\. #\Newline #\Space)
                                                                           (string-left-trim " "
                                                                                             (subseq text (1+ colon)))))))))))))

(define-framework "rt" "REGRESSION-TEST"
    (:tests (loop for entry in (rt-entries "REGRESSION-TEST") collect (list (values (rt-entry-parts entry))))
     :run (name))
  (rt-assertions "REGRESSION-TEST" name))

(define-framework "sb-rt" "SB-RT"
    (:tests (loop for entry in (rt-entries "SB-RT") collect (list (values (rt-entry-parts entry))))
     :run (name))
  (rt-assertions "SB-RT" name))

;;; Fiasco

(defun fiasco-assertion (failure)
  "FAILURE, a condition of Fiasco's, as an assertion."
  (let ((arguments (and (typep failure 'simple-condition) (simple-condition-format-arguments failure)))
        (control (and (typep failure 'simple-condition) (simple-condition-format-control failure)))
        (error-p (is-a failure "FIASCO" "UNEXPECTED-ERROR")))
    (let ((compared (and (stringp control) (= (length arguments) 5) (prefix-p "Binary predicate" control))))
      (make-assertion :status (if error-p :error :failed)
                      :form (its-slot failure "FORM")
                      :expected (and compared (list (third arguments)))
                      :actual (and compared (list (fifth arguments)))
                      :message (report-text (if error-p (its-slot failure "ERROR") failure))))))

(define-framework "fiasco" "FIASCO"
    (:tests (loop for test being the hash-values of (symbol-value (its "FIASCO" "*TESTS*"))
                  when (and (fboundp (its-slot test "NAME"))
                            (zerop (hash-table-count (its-slot test "CHILDREN")))
                            (or (null (its-slot test "LAMBDA-LIST"))
                                (member (first (its-slot test "LAMBDA-LIST")) lambda-list-keywords)))
                    collect (cons (its-slot test "NAME") (fdefinition (its-slot test "NAME"))))
     :run (name))
  (progv (list (its "FIASCO" "*DEBUG-ON-UNEXPECTED-ERROR*") (its "FIASCO" "*DEBUG-ON-ASSERTION-FAILURE*")
               (its "FIASCO" "*PRINT-TEST-RUN-PROGRESS*"))
      '(nil nil nil)
    (funcall name))
  (let* ((context (symbol-value (its "FIASCO" "*LAST-TEST-RESULT*")))
         (failures (mapcar #'fiasco-assertion (reverse (call-its "FIASCO" "FAILURES-OF" context))))
         (count (length (call-its "FIASCO" "ASSERTIONS-OF" context)))
         (failed (count :failed failures :key #'assertion-status)))
    (append (loop repeat (max 0 (- count failed)) collect (make-assertion))
            (when (plusp (call-its "FIASCO" "SKIPS-OF" context))
              (list (make-assertion :status :skipped)))
            failures)))

;;; 1AM: a check that fails signals an error, which ends the test

(define-framework "1am" "1AM"
    (:tests (loop for name in (reverse (symbol-value (its "1AM" "*TESTS*"))) collect (cons name (fdefinition name)))
     :run (name))
  (let ((passed 0))
    (flet ((count-check (function) (incf passed) (funcall function)))
      (encapsulate (its "1AM" "PASSED") 'steelbank #'count-check)
      (unwind-protect
           (handler-case (funcall name)
             (error (condition)
               (return-from run-test-of-1am
                 (append (loop repeat passed collect (make-assertion))
                         (list (make-assertion :status (if (search "assertion" (report-text condition)) :failed :error)
                                               :message (report-text condition)))))))
        (unencapsulate (its "1AM" "PASSED") 'steelbank)))
    (loop repeat passed collect (make-assertion))))

;;; Rove

(defun rove-assertions (result)
  "The assertions in RESULT, a test or an assertion of Rove's."
  (flet ((is (name) (is-a result "ROVE/CORE/RESULT" name)))
    (if (is "TEST")
        (loop for part in '("PASSED" "FAILED" "PENDING")
              append (mapcan #'rove-assertions (coerce (its-slot result part) 'list)))
        (let ((reason (its-slot result "REASON")))
          (list (make-assertion :status (cond ((is "PASSED") :passed)
                                              ((is "PENDING") :skipped)
                                              ((typep reason 'condition) :error)
                                              (t :failed))
                                :form (its-slot result "FORM")
                                :message (cond (reason (report-text (if (typep reason 'condition)
                                                                        reason
                                                                        (princ-to-string reason))))
                                               ((is "FAILED")
                                                (format nil "~a~:{ ~s = ~s~}"
                                                        (call-its "ROVE/CORE/RESULT" "ASSERTION-DESCRIPTION" result)
                                                        (remove-if #'constantp
                                                                   (mapcar #'list (its-slot result "ARGS")
                                                                           (its-slot result "VALUES"))
                                                                   :key #'first))))))))))

(define-framework "rove" "ROVE"
    (:tests (loop for suite in (call-its "ROVE/CORE/SUITE/PACKAGE" "ALL-SUITES")
                  nconc (loop for name in (call-its "ROVE/CORE/SUITE/PACKAGE" "SUITE-TESTS" suite)
                              collect (cons name (call-its "ROVE/CORE/SUITE/PACKAGE" "GET-TEST" name))))
     :run (name))
  (let* ((suite (call-its "ROVE/CORE/SUITE/PACKAGE" "PACKAGE-SUITE" (symbol-package name)))
         (stats (make-instance (its "ROVE/CORE/STATS" "STATS"))))
    (flet ((hooks (part) (dolist (hook (reverse (its-slot suite part))) (funcall (cdr hook)))))
      (progv (list (its "ROVE/CORE/STATS" "*STATS*")) (list stats)
        (when (its-slot suite "SETUP") (funcall (its-slot suite "SETUP")))
        (unwind-protect
             (progn (hooks "BEFORE-HOOKS")
                    (funcall (call-its "ROVE/CORE/SUITE/PACKAGE" "GET-TEST" name)))
          (hooks "AFTER-HOOKS")
          (when (its-slot suite "TEARDOWN") (funcall (its-slot suite "TEARDOWN"))))
        (mapcan #'rove-assertions (reverse (its-slot stats "RESULTS")))))))

;;; Parachute

(defun parachute-assertion (result)
  "RESULT as an assertion, or NIL if it only holds others."
  (unless (or (is-a result "ORG.SHIRAKUMO.PARACHUTE" "PARENT-RESULT")
              (is-a result "ORG.SHIRAKUMO.PARACHUTE" "TEST-RESULT"))
    (let ((compared (is-a result "ORG.SHIRAKUMO.PARACHUTE" "COMPARISON-RESULT"))
          (failed (eq (its-slot result "STATUS") :failed)))
      (make-assertion :status (case (its-slot result "STATUS") (:failed :failed) (:skipped :skipped) (t :passed))
                      :form (its-slot result "EXPRESSION")
                      :expected (and failed compared (list (its-slot result "EXPECTED")))
                      :actual (and failed compared (list (its-slot result "VALUE")))
                      :message (and failed
                                    (call-its "ORG.SHIRAKUMO.PARACHUTE" "FORMAT-RESULT" result :extensive))))))

(define-framework "parachute" "ORG.SHIRAKUMO.PARACHUTE"
    (:tests (loop for index being the hash-values of (symbol-value (its "ORG.SHIRAKUMO.PARACHUTE" "*TEST-INDEXES*"))
                  nconc (loop for test being the hash-values of index
                              collect (list (its-slot test "NAME"))))
     :run (name))
  (let ((report (call-its "ORG.SHIRAKUMO.PARACHUTE" "TEST" name
                          :report (its "ORG.SHIRAKUMO.PARACHUTE" "PLAIN") :output (make-broadcast-stream))))
    (let* ((results (coerce (call-its "ORG.SHIRAKUMO.PARACHUTE" "RESULTS" report) 'list))
           (assertions (remove nil (mapcar #'parachute-assertion results))))
      (if (and (eq (its-slot report "STATUS") :failed)
               (notany (lambda (assertion) (eq (assertion-status assertion) :failed)) assertions))
          ;; An error outside of any assertion fails the test itself.
          (append assertions
                  (list (make-assertion :status :error
                                        :message (find-if #'stringp
                                                          (mapcar (lambda (result) (its-slot result "DESCRIPTION"))
                                                                  results)))))
          assertions))))

;;; lisp-unit2

(defun lisp-unit2-failure (failure)
  "FAILURE as an assertion."
  (if (typep failure 'condition)
      (make-assertion :status :error :message (report-text failure))
      (make-assertion :status :failed
                      :form (its-slot failure "FORM")
                      :expected (list (its-slot failure "EXPECTED"))
                      :actual (list (its-slot failure "ACTUAL")))))

(define-framework "lisp-unit2" "LISP-UNIT2"
    (:tests (loop for package in (list-all-packages)
                  nconc (loop for test in (call-its "LISP-UNIT2" "GET-TESTS" :package package)
                              for name = (its-slot test "NAME")
                              when (eq (symbol-package name) package)
                                collect (cons name (and (fboundp name) (fdefinition name)))))
     :run (name))
  (let* ((all (call-its "LISP-UNIT2" "RUN-TESTS" :tests (list name)))
         (result (elt (its-slot all "RESULTS") 0)))
    (flet ((all (part)
             (let ((collected (its-slot result part)))
               (if (listp collected) collected (call-its "LISP-UNIT2" "HEAD" collected)))))
      (append (loop repeat (length (all "PASSED")) collect (make-assertion))
              (mapcar #'lisp-unit2-failure (append (all "FAILED") (all "ERRORS")))))))

;;; Frameworks without named tests: their assertions are noted while a system's test-op runs

(defvar *noted-assertions* '()
  "The assertions that ptester and prove have made in this run, newest first.")

(defun ptester-check (function &rest arguments &key expected-result test-results test-form known-failure
                      &allow-other-keys)
  "Around ptester's TEST-CHECK, which every test ends in: whether it counts an error tells how it went."
  (let* ((counter (its "PTESTER" "*TEST-ERRORS*"))
         (before (symbol-value counter)))
    (multiple-value-prog1 (apply function arguments)
      (let ((failed (> (symbol-value counter) before))
            (condition (and (typep test-results 'condition) test-results)))
        (push (make-assertion :status (cond ((not failed) :passed) (known-failure :skipped) (condition :error) (t :failed))
                              :form test-form
                              :expected (list expected-result)
                              :actual (and (consp test-results) (list (second test-results)))
                              :message (and condition (report-text condition)))
              *noted-assertions*)))))

(defun prove-add-report (function report suite)
  "Around prove's ADD-REPORT, which every assertion ends in."
  (flet ((is (name) (is-a report "PROVE.REPORT" name)))
    (when (is "NORMAL-TEST-REPORT")
      (push (make-assertion :status (cond ((is "ERROR-TEST-REPORT") :error)
                                          ((is "FAILED-TEST-REPORT") :failed)
                                          ((is "SKIPPED-TEST-REPORT") :skipped)
                                          (t :passed))
                            :form (its-slot report "GOT-FORM")
                            :expected (list (its-slot report "EXPECTED"))
                            :actual (list (its-slot report "GOT"))
                            :message (its-slot report "DESCRIPTION"))
            *noted-assertions*)))
  (funcall function report suite))

(defparameter *assertion-hooks*
  '(("PTESTER" "TEST-CHECK" ptester-check)
    ("PROVE.SUITE" "ADD-REPORT" prove-add-report))
  "Functions of frameworks without named tests that every assertion goes through, and the functions that encapsulate
them.")

(defun call-with-assertions-noted (function)
  "Call FUNCTION. Returns the assertions that were made meanwhile."
  (let* ((*noted-assertions* '())
         (symbols (loop for (package name around) in *assertion-hooks*
                        for symbol = (and (find-package package) (find-symbol name package))
                        when (and symbol (fboundp symbol))
                          do (encapsulate symbol 'steelbank (symbol-function around))
                          and collect symbol)))
    (unwind-protect (progn (funcall function) (reverse *noted-assertions*))
      (dolist (symbol symbols)
        (unencapsulate symbol 'steelbank)))))
