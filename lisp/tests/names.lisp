;;;; Tests of names: they are found without interning and printed in full.

(in-package :steelbank-tests)

(deftest find-named-symbol
    (list (multiple-value-list (steelbank::find-named-symbol "CAR" "CL"))
          (multiple-value-list (steelbank::find-named-symbol "CAR" "COMMON-LISP-USER"))
          (multiple-value-list (steelbank::find-named-symbol "car" "CL"))
          (multiple-value-list (steelbank::find-named-symbol "CAR" "NO-SUCH-PACKAGE"))
          (multiple-value-list (steelbank::find-named-symbol "NIL" "CL")))
  ((car :external) (car :inherited) (nil :no-symbol) (nil :no-package) (nil :external)))

(deftest lookup-does-not-intern
    (let ((name "THIS-NAME-IS-ONLY-ASKED-FOR"))
      (steelbank::find-named-symbol name "STEELBANK-TESTS")
      (find-symbol name "STEELBANK-TESTS"))
  nil nil)

(deftest symbol-text
    (mapcar #'steelbank::symbol-text
            (list 'car :test nil 'steelbank::symbol-text
                  (make-symbol "LONELY") (make-symbol "so so")))
  ("COMMON-LISP::CAR" "KEYWORD::TEST" "COMMON-LISP::NIL" "STEELBANK::SYMBOL-TEXT" "#:LONELY"
   "#:|so so|"))

(deftest symbol-text-ignores-printer-variables
    (let ((*print-case* :downcase) (*print-base* 2) (*package* (find-package :cl))
          (*readtable* (copy-readtable nil)))
      (setf (readtable-case *readtable*) :invert)
      (steelbank::symbol-text 'car))
  "COMMON-LISP::CAR")

(deftest name-text
    (mapcar #'steelbank::name-text
            `((setf car) (,steelbank::+fast-method+ print-object (t t)) nil (a . b) "x" 12))
  ("(SETF COMMON-LISP::CAR)" "(METHOD COMMON-LISP::PRINT-OBJECT (COMMON-LISP::T COMMON-LISP::T))"
   "COMMON-LISP::NIL" "(STEELBANK-TESTS::A . STEELBANK-TESTS::B)" "\"x\"" "12"))

(deftest json
    (json-string (object "text" (format nil "a\"b\\c~%~a" (code-char 233)) "number" 12 "none" nil
                         "list" (list "x" :true :false :null) "empty" '() "inner" (object "k" "v")))
  "{\"text\":\"a\\\"b\\\\c\\u000Aé\",\"number\":12,\"list\":[\"x\",true,false,null],\"inner\":{\"k\":\"v\"}}")

(deftest json-of-a-surrogate
    (json-string (string (code-char #xD800)))
  "\"�\"")

(deftest limited-output
    (let ((stream (make-instance 'steelbank::limited-output :limit 5)))
      (format stream "ab~acd" "xyz")
      (list (copy-seq (steelbank::output-text stream)) (steelbank::output-dropped stream)))
  ("abxyz" 2))

(deftest limited-output-calls-when-full
    (catch 'full
      (let ((stream (make-instance 'steelbank::limited-output
                                   :limit 3 :when-full (lambda () (throw 'full :full)))))
        (loop (write-char #\x stream))))
  :full)

(deftest input-is-at-its-end
    (let ((stream (make-instance 'steelbank::empty-input)))
      (list (read-char stream nil :end) (read-line stream nil :end) (read stream nil :end)))
  (:end :end :end))

(defun wrongly-escaped (name)
  "Return the printer's form of NAME as a symbol name if it differs from ours, else NIL."
  (let ((printed (with-standard-io-syntax
                   (let ((*print-gensym* nil) (*print-readably* nil))
                     (prin1-to-string (make-symbol name))))))
    (unless (string= (steelbank::escaped-name name) printed)
      (list name printed))))

(deftest symbol-names-are-escaped-like-the-printer
    (let ((wrong '()))
      (do-all-symbols (symbol wrong)
        (let ((found (wrongly-escaped (symbol-name symbol))))
          (when found (push found wrong)))))
  nil)

(deftest potential-numbers-are-escaped-like-the-printer
    (let ((wrong '()))
      (labels ((extend (name)
                 (let ((found (wrongly-escaped name)))
                   (when found (push found wrong)))
                 (when (< (length name) 4)
                   (loop for character across "AE17+-/.^_$a"
                         do (extend (concatenate 'string name (string character)))))))
        (extend ""))
      wrong)
  nil)
