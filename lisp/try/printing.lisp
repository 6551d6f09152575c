;;;; Values for people, printed within limits. Printing runs the user's methods: an error in one is part of the answer; one that
;;;; does not return is interrupted by the host, which asks again with PLAINLY.

(in-package :steelbank)

(defun type-name-text (object)
  "The name of the class of OBJECT: methods on CLASS-NAME are not called."
  (name-text (let ((class (class-of object)))
               (handler-case (class-name class)
                 (serious-condition () 'standard-object)))))

(defun plain-text (object limit)
  "OBJECT printed without running anyone's code, at most LIMIT characters."
  (let ((text (typecase object
                ((or number character string symbol) (name-text object))
                (t (format nil "#<~a>" (type-name-text object))))))
    (if (> (length text) limit) (concatenate 'string (subseq text 0 limit) "...") text)))

(defun printed-value (object package limit &key plainly (length 1000) (level 20))
  "OBJECT as PRIN1 prints it in PACKAGE, at most LIMIT characters, LENGTH elements and LEVEL levels of it; second, whether it
was cut; third, whether it could not be printed. With PLAINLY nobody's code runs."
  (if plainly
      (values (plain-text object limit) nil (not (typep object '(or number character string symbol))))
      (handler-case
          (let* ((stream (make-instance 'limited-output :limit limit :when-full (lambda () (throw 'enough t))))
                 (cut (catch 'enough
                        (with-plain-printing
                          (let ((*print-length* length) (*print-level* level)
                                ;; In a short text, what is shared only obscures.
                                (*print-circle* (> limit 200))
                                (*read-default-float-format* 'single-float)
                                (*package* package))
                            (prin1 object stream)))
                        nil)))
            (values (copy-seq (output-text stream)) cut nil))
        (serious-condition (condition)
          (values (format nil "#<~a, which cannot be printed: ~a>" (type-name-text object) (type-name-text condition))
                  nil t)))))

(defun atomic-p (object)
  "True if OBJECT has no parts that are worth a handle."
  (or (typep object '(or number character symbol))
      (and (stringp object) (<= (length object) 200))))

(defun value-object (object package limit &key handle plainly (length 1000))
  "The JSON object for OBJECT: its printed text, and HANDLE unless the text says all."
  (multiple-value-bind (text cut failed) (printed-value object package limit :plainly plainly :length length)
    (object "text" text
            "cut" (and cut :true)
            "unprintable" (and failed :true)
            "handle" (and (or cut (not (typep object '(or number character symbol string)))) handle))))

(defun package-named (name)
  "The package called NAME, or CL-USER."
  (or (find-package name) (find-package :common-lisp-user)))

(define-question "print-values" (package limit plainly &rest handles)
  "The objects that HANDLES stand for, printed in PACKAGE, at most LIMIT characters of each."
  (loop with package = (package-named package)
        with limit = (parse-integer limit)
        for handle in handles
        collect (multiple-value-bind (value known) (handle-object handle)
                  (if known
                      (value-object value package limit :handle handle :plainly (given plainly))
                      (object "text" "#<forgotten>" "unprintable" :true)))))

(define-question "report-condition" (handle)
  "The report and the type of the condition that HANDLE stands for."
  (let ((condition (handle-object handle)))
    (object "report" (describe-condition condition))))
