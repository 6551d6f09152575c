;;;; Tests of the tap: the recorded positions and sidecars of files.

(in-package :steelbank-tests)

(defun call-with-file (name text function)
  "Call FUNCTION with the pathname of a new file called NAME that contains TEXT, in a new folder."
  (let* ((id (random (expt 2 64) (make-random-state t)))
         (folder (merge-pathnames (format nil "steelbank-~36R/" id) (uiop:temporary-directory)))
         (path (merge-pathnames name folder)))
    (ensure-directories-exist path)
    (unwind-protect
         (progn
           (with-open-file (stream path :direction :output :external-format :utf-8)
             (write-string text stream))
           (funcall function path))
      (uiop:delete-directory-tree folder :validate t))))

(defun tapped (text function)
  "Compile a file that contains TEXT, and call FUNCTION with its tap and its sidecar."
  (steelbank::install-tap)
  (call-with-file
   "tapped.lisp" text
   (lambda (path)
     (let ((result nil)
           (sink (make-broadcast-stream)))
       (let ((steelbank::*tap-sink* (lambda (tap sidecar)
                                      (setf result (funcall function tap sidecar))))
             (*standard-output* sink) (*error-output* sink)
             (*compile-verbose* nil) (*compile-print* nil))
         (handler-bind ((warning #'muffle-warning))
           (compile-file path :output-file (merge-pathnames "tapped.fasl" path))))
       result))))

(defun position-of (text toplevel-form form-number)
  "Return line and column of a form of TEXT, and whether the position is exact."
  (tapped text
          (lambda (tap sidecar)
            (declare (ignore sidecar))
            (multiple-value-bind (position exact)
                (steelbank::tap-position tap toplevel-form form-number)
              (append (multiple-value-list (steelbank::tap-line-and-column tap position))
                      (list exact))))))

(deftest forms-have-lines-and-columns
    (let ((text (format nil "(defvar *a* 1)~%~%(defun f (x)~%~C(list \"é\" (car x)))~%" #\Tab)))
      (loop for number from 0 to 3 collect (position-of text 1 number)))
  ((3 1 t) (3 10 t) (4 2 t) (4 12 t)))

(deftest skipped-text-has-no-form-number
    (position-of (format nil "(list #+(or) (never) #|(nor)|# (car ()))~%") 0 1)
  (1 32 t))

(defun number-of (part form)
  "Return the number that SBCL gives PART of the top-level form FORM."
  ;; SBCL up to 2.5.10 does not number quoted lists.
  (loop for (number . indices) across (sb-di:form-number-translations form 0)
        when (equal part (reduce (lambda (form index) (and (consp form) (nth index form)))
                                 (rest (reverse indices)) :initial-value form))
          return number))

(deftest read-time-form-is-at-its-text
    (let* ((text (format nil "(list '(a) #.(list 'car (list 'quote nil)) (cdr ()))~%"))
           (form (read-from-string text)))
      (loop for part in '((car (quote nil)) (quote nil) (cdr nil))
            collect (position-of text 0 (number-of part form))))
  ((1 12 t) (1 12 nil) (1 44 t)))

(deftest quoted-lists-have-sbcls-form-numbers
    (let ((text (format nil "(list '(a (b)) `(c ,(d) ,e (f)) (rest))~%")))
      (position-of text 0 (number-of '(rest) (read-from-string text))))
  (1 33 t))

(deftest sidecar-header-identifies-the-file
    (tapped (format nil "(list 'a)~%")
            (lambda (tap sidecar)
              (declare (ignore tap))
              (list (map 'string #'code-char (subseq sidecar 0 5))
                    (aref sidecar 5)
                    (= (aref sidecar 6) steelbank::+sidecar-version+)
                    (aref sidecar 7)
                    (loop for index below 8
                          sum (ash (aref sidecar (+ 8 index)) (* 8 index)) into hash
                          finally (return (= hash (steelbank::fnv-1a
                                                   (map 'steelbank::octets #'char-code
                                                        (format nil "(list 'a)~%")))))))))
  ("SBTAP" 0 t 1 t))

(deftest circular-constants-are-compiled
    (flet ((tap-count (text)
             (tapped text (lambda (tap sidecar)
                            (declare (ignore sidecar))
                            (steelbank::tap-form-count tap)))))
      (list (tap-count (format nil "(defvar *a* '#1=(nil . #1#))~%(list 1)~%"))
            (tap-count (format nil "(defun f (x)~% (mapcar #'cons x ~
                                    '#1=(a #1# (b . #1#) #2=#(1 #2# #1#))))~%"))
            (tap-count (format nil "(defvar *b* '(#1=(a b . #1#) c . #1#))~%"))))
  (2 1 1))

(deftest top-level-calls-are-recorded
    (tapped (format nil "(defun called-at-top () 1)~%(print (called-at-top))~%")
            (lambda (tap sidecar)
              (declare (ignore sidecar))
              (loop for (kind name form number) in (steelbank::tap-uses tap)
                    when (and (symbolp name) (string= name "CALLED-AT-TOP"))
                      collect (list kind form number))))
  ((1 1 1)))

(deftest nothing-is-recorded-without-a-sink
    (let ((steelbank::*tap-sink* nil))
      (steelbank::install-tap)
      (call-with-file "plain.lisp" "(list 1)"
                      (lambda (path)
                        (let ((*standard-output* (make-broadcast-stream)))
                          (load path)
                          steelbank::*tap*))))
  nil)
