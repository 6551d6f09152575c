;;;; Tests of loading files and systems: outcomes, diagnostics, safe points.

(in-package :steelbank-tests)

(defun alone (function &rest arguments)
  "Call FUNCTION with ARGUMENTS outside the handlers that the tests establish."
  (sb-thread:join-thread (sb-thread:make-thread (lambda () (apply function arguments)))))

(defun load-text (text &rest options)
  "Return the outcome of loading a file that contains TEXT."
  (call-with-file "loaded.lisp" text
                  (lambda (path)
                    (let ((name (sb-ext:native-namestring path)))
                      (apply #'alone #'steelbank::load-file name options)))))

(defun places (outcome)
  "Return severity, line and column of each diagnostic of OUTCOME."
  (loop for diagnostic in (getf outcome :diagnostics)
        collect (loop for key in '(:severity :line :column) collect (getf diagnostic key))))

(deftest a-file-is-loaded
    (let ((outcome (load-text "(in-package :cl-user) (list 1)")))
      (list (getf outcome :status) (length (getf outcome :compiled)) (places outcome)))
  (:loaded 1 nil))

(deftest warnings-have-lines
    (let ((outcome (load-text (format nil "(in-package :cl-user)~%(defun warned-of (x)~%  ~
                                           (let ((y 1))~%    x))~%"))))
      (list (getf outcome :status) (places outcome)))
  (:loaded ((:style-warning 3 9))))

(deftest unreadable-files-are-not-loaded
    (let ((outcome (load-text (format nil "(list 1)~%(no-such-package:name)~%"))))
      (list (getf outcome :status) (getf (getf outcome :failure) :kind) (places outcome)))
  (:failed :compile ((:read-error 2 22))))

(deftest a-failing-form-is-located
    (let ((outcome (load-text (format nil "(defun failing-form (x)~%  (car x))~%~
                                           (failing-form 3)~%"))))
      (list (getf outcome :status) (getf (getf outcome :failure) :kind) (places outcome)))
  (:failed :load ((:error 2 3))))

(deftest cancelled-load-stops
    (getf (load-text "(list 1)" :stop (constantly t)) :status)
  :cancelled)

(deftest load-stops-at-its-deadline
    (getf (load-text "(eval-when (:compile-toplevel) (sleep 0.2)) (list 2) (list 3)"
                     :timeout-seconds 0) :status)
  :timed-out)

(deftest failure-names-the-unknown-system
    (let ((failure (getf (alone #'steelbank::load-system "no-such-system-anywhere") :failure)))
      (list (getf failure :kind) (getf failure :name)))
  (:unknown-system "no-such-system-anywhere"))

(deftest uses-are-recorded-under-any-space-policy
    (progn
      (load-text "(declaim (optimize (space 3)))
                  (defun cl-user::used-in-space () 1)
                  (defun cl-user::user-in-space () (cl-user::used-in-space))")
      (mapcar #'car (sb-introspect:who-calls 'cl-user::used-in-space)))
  (cl-user::user-in-space))

(deftest unhandled-signal-does-not-end-a-load
    (getf (load-text "(signal 'error) (signal 'sb-kernel::heap-exhausted-error)") :status)
  :loaded)

(deftest every-exit-from-a-load-is-a-failure
    (loop for text in '("(break)" "(invoke-debugger (make-condition 'condition))" "(abort)"
                        "(throw 'nobody-there nil)"
                        "(catch 'x (unwind-protect (throw 'x 1) (error \"inner\")))")
          collect (getf (load-text text) :status))
  (:failed :failed :failed :failed :failed))

(deftest reading-standard-input-is-explained
    (let ((*standard-input* steelbank::*empty-input*))
      (steelbank::condition-text (nth-value 1 (ignore-errors (read-line)))))
  "The code tried to read from standard input, but there is no terminal.")

(deftest read-time-errors-are-located
    (places (load-text (format nil "(list 1)~%(list 2)~%  #.(error \"read time\")~%")))
  ((:read-error 3 24)))

(deftest calls-before-their-macro-are-errors
    (let ((outcome (load-text
                    "(in-package :cl-user)
(defun early-caller () (late-macro (early 1)))
(defun early-setter (x) (setf (late-place x) 2))
(defmacro late-macro (x) x)
(defsetf late-place list)
(defun late-caller () (late-macro 1))")))
      (list (getf outcome :status)
            (loop for diagnostic in (getf outcome :diagnostics)
                  when (eq (getf diagnostic :severity) :error)
                    collect (list (getf diagnostic :subject) (getf diagnostic :line)) into errors
                  finally (return (sort errors #'< :key #'second)))))
  (:loaded (("LATE-MACRO" 2) ("LATE-PLACE" 3) ("LATE-MACRO" 4))))

;; The earlier evaluation has called the macro as a function, but the text has not.
(deftest earlier-calls-do-not-make-the-order-wrong
    (progn (load-text "(defun cl-user::by-hand () (cl-user::later-macro 1))")
           (places (load-text "(defmacro cl-user::later-macro (x) x)
                               (defun cl-user::ordered () (cl-user::later-macro 1))")))
  ((:style-warning 1 1)))

(deftest late-inline-definitions-are-warnings
    (places (load-text "(in-package :cl-user)
(defun early-inline-caller () (late-inline 1) (late-expanded 1))
(declaim (inline late-inline))
(defun late-inline (x) x)
(defun late-expanded (x) x)
(define-compiler-macro late-expanded (x) x)"))
  ((:warning 3 1) (:warning 6 1)))

(deftest tilde-before-cr-lf-is-explained
    (loop for line-end in (list (coerce '(#\Return #\Newline) 'string) (string #\Return))
          for text = (format nil "(defun cl-user::joined ()~%(format nil \"a ~~~A b\"))" line-end)
          for outcome = (load-text text)
          collect (loop for diagnostic in (getf outcome :diagnostics)
                        collect (getf diagnostic :line)
                        collect (and (search "CR LF" (getf diagnostic :message)) t)))
  ((2 t) (2 nil)))

(deftest top-level-atoms-have-lines
    (places (load-text (format nil "(list 1)~%~%  cl-user::unbound-atom~%~
                                    (list cl-user::unbound-argument)~%")))
  ((:warning 4 1) (:warning 3 3)))

(deftest run-time-warnings-are-located
    (places (load-text (format nil "(list 1)~%~%(warn \"careful\")~%")))
  ((:warning 3 1)))

(deftest undefined-names-are-subjects-of-warnings
    (loop with text = (format nil "(in-package :cl-user)~%~
                                   ~:{(defun undefined-user-~D () (list undefined-~:*~D))~%~}~
                                   ~:{(defun undefined-caller-~D () (undefined-~:*~D))~%~}"
                              '((4) (1) (7) (2) (6) (3) (5))
                              '((14) (11) (17) (12) (16) (13) (15)))
          for diagnostic in (getf (load-text text) :diagnostics)
          collect (list (getf diagnostic :severity) (getf diagnostic :subject)) into said
          finally (return (sort said #'string< :key #'second)))
  ((:warning "UNDEFINED-1") (:style-warning "UNDEFINED-11") (:style-warning "UNDEFINED-12")
   (:style-warning "UNDEFINED-13") (:style-warning "UNDEFINED-14") (:style-warning "UNDEFINED-15")
   (:style-warning "UNDEFINED-16") (:style-warning "UNDEFINED-17") (:warning "UNDEFINED-2")
   (:warning "UNDEFINED-3") (:warning "UNDEFINED-4") (:warning "UNDEFINED-5")
   (:warning "UNDEFINED-6") (:warning "UNDEFINED-7")))
