;;;; Prints values within limits. Printing runs the user's methods. An error in a method is part of
;;;; the answer. If a method does not return, the host interrupts it and repeats the call with
;;;; PLAINLY.

(in-package :steelbank)

(defun type-name-text (object)
  "Return the name of the class of OBJECT, without calling methods on CLASS-NAME."
  (name-text (let ((class (class-of object)))
               (handler-case (class-name class)
                 (serious-condition () 'standard-object)))))

(defun plain-text (object limit)
  "Return OBJECT printed without running user code, truncated to LIMIT characters and \"...\"."
  (let ((text (typecase object
                ((or number character string symbol) (name-text object))
                (t (format nil "#<~a>" (type-name-text object))))))
    (if (> (length text) limit) (concatenate 'string (subseq text 0 limit) "...") text)))

(defun printed-value (object package limit
                      &key plainly (length 1000) (level 20) (circle (> limit 200)))
  "Return OBJECT as PRIN1 prints it in PACKAGE, at most LIMIT characters."
  ;; LENGTH and LEVEL limit the elements and levels. With CIRCLE, shared objects have labels; in a
  ;; short text, labels would only obscure the value. Second value: whether the text was truncated.
  ;; Third value: whether printing failed. With PLAINLY, no user code runs.
  (if plainly
      (values (plain-text object limit) nil
              (not (typep object '(or number character string symbol))))
      (handler-case
          (let* ((stream (make-instance 'limited-output
                                        :limit limit :when-full (lambda () (throw 'enough t))))
                 (cut (catch 'enough
                        (with-plain-printing
                          (let ((*print-length* length) (*print-level* level)
                                (*print-circle* circle)
                                (*read-default-float-format* 'single-float)
                                (*package* package))
                            (prin1 object stream)))
                        nil)))
            (values (copy-seq (output-text stream)) cut nil))
        (serious-condition (condition)
          (values (format nil "#<~a, which cannot be printed: ~a>"
                          (type-name-text object) (type-name-text condition))
                  nil t)))))

(defun atomic-p (object)
  "Return true if OBJECT has no parts that are worth a handle."
  (or (typep object '(or number character symbol))
      (and (stringp object) (<= (length object) 200))))

(defun value-object (object package limit &key handle plainly (length 1000))
  "Return the JSON object for OBJECT: its text, and HANDLE if the text is cut or OBJECT has parts."
  ;; Only numbers, characters, symbols and strings count as objects without parts.
  (multiple-value-bind (text cut failed)
      (printed-value object package limit :plainly plainly :length length)
    (object "text" text
            "cut" (and cut :true)
            "unprintable" (and failed :true)
            "handle" (and (or cut (not (typep object '(or number character symbol string))))
                          handle))))

(defun package-named (name)
  "Return the package called NAME, or CL-USER."
  (or (find-package name) (find-package :common-lisp-user)))

(define-question "print-values" (package limit plainly &rest handles)
  "Print the objects of HANDLES in PACKAGE, at most LIMIT characters each."
  (loop with package = (package-named package)
        with limit = (parse-integer limit)
        for handle in handles
        collect (multiple-value-bind (value known) (handle-object handle)
                  (if known
                      (value-object value package limit :handle handle :plainly (given plainly))
                      (object "text" "#<forgotten>" "unprintable" :true)))))

(define-question "report-condition" (handle)
  "Return the report of the condition of HANDLE."
  (let ((condition (handle-object handle)))
    (object "report" (describe-condition condition))))
