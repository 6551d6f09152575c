;;;; inspect: lists the parts of an object, or of the part of an object at a given path.

(in-package :steelbank)

(defstruct (anatomy (:constructor make-anatomy (kind facts count part)))
  "The structure of an object: its KIND, its FACTS, and the COUNT of its parts."
  ;; FACTS are conses of a key and a string. PART is a function of an index that returns the part's
  ;; label, its value, and whether it has a value.
  (kind "" :type string)
  (facts '() :type list)
  (count 0 :type unsigned-byte)
  (part (constantly nil) :type function))

(defparameter *list-length-limit* 1000000
  "The maximum number of elements of a list that are counted.")

(defun plist-alist (plist)
  "Return the keys and values of PLIST as an alist."
  (loop for (key value) on plist by #'cddr collect (cons key value)))

(defun named-parts (kind facts names-and-values)
  "Return the anatomy of an object with named parts."
  ;; NAMES-AND-VALUES alternates names and functions. Each function returns a value and whether the
  ;; part has one.
  (let ((parts (coerce (plist-alist names-and-values) 'vector)))
    (make-anatomy kind facts (length parts)
                  (lambda (index)
                    (destructuring-bind (name . function) (aref parts index)
                      (multiple-value-bind (value present) (funcall function)
                        (values name value present)))))))

(defmacro parts (kind facts &body names-and-forms)
  "Return the anatomy of a KIND with FACTS, alternating keys and values, and named parts."
  ;; NAMES-AND-FORMS alternates names and forms, each evaluated when its part is requested.
  `(named-parts ,kind (facts ,@facts)
                (list ,@(loop for (name form) on names-and-forms by #'cddr
                              append (list name `(lambda () (values ,form t)))))))

(defun facts (&rest keys-and-values)
  "Return conses of keys and texts. Omit pairs with the value NIL."
  (loop for (key value) on keys-and-values by #'cddr
        when value
          collect (cons key (if (stringp value)
                                value
                                (with-plain-printing
                                  (let ((*print-length* 20) (*package* (find-package :common-lisp)))
                                    (princ-to-string value)))))))

(defun list-anatomy (list)
  "Return the anatomy of LIST, a cons."
  (let ((conses 0) (tail list) (seen (make-hash-table :test 'eq)) (circular nil))
    (loop while (and (consp tail) (< conses *list-length-limit*))
          do (when (gethash tail seen)
               (setf circular t)
               (return))
             (setf (gethash tail seen) t)
             (incf conses)
             (setf tail (cdr tail)))
    (let ((dotted (and tail (atom tail))))
      (make-anatomy (cond (circular "circular-list") (dotted "dotted-list") (t "list"))
                    (facts "length" (format nil "~:[~;at least ~]~d"
                                            (and (consp tail) (not circular)) conses))
                    (if dotted (1+ conses) conses)
                    (lambda (index)
                      (if (= index conses)
                          (values "." tail t)
                          (values nil (nth index list) t)))))))

(defun array-anatomy (array)
  "Return the anatomy of ARRAY."
  (make-anatomy (cond ((stringp array) "string") ((vectorp array) "vector") (t "array"))
                (facts "dimensions" (format nil "~{~d~^ x ~}" (array-dimensions array))
                       "element type" (type-text (array-element-type array))
                       "fill pointer" (and (array-has-fill-pointer-p array) (fill-pointer array))
                       "adjustable" (and (adjustable-array-p array) "yes"))
                (cond ((stringp array) 0) ((vectorp array) (length array))
                      (t (array-total-size array)))
                (lambda (index)
                  (values (and (not (vectorp array))
                               (let ((rest index) (subscripts '()))
                                 (dolist (dimension (reverse (array-dimensions array)))
                                   (multiple-value-bind (quotient remainder) (floor rest dimension)
                                     (setf rest quotient)
                                     (push remainder subscripts)))
                                 (format nil "~{~d~^ ~}" subscripts)))
                          (row-major-aref array index)
                          t))))

(defun hash-table-entry (table index)
  "Return key and value of entry INDEX of TABLE, in iteration order, and whether it exists."
  (loop for key being the hash-keys of table using (hash-value value)
        for number from 0
        when (= number index)
          return (values key value t)))

(defun table-anatomy (table)
  "Return the anatomy of the hash table TABLE."
  ;; The parts are the values, and their labels are the keys.
  (make-anatomy "hash-table"
                (facts "count" (hash-table-count table)
                       "test" (let ((test (hash-table-test table)))
                                (name-text test))
                       "weakness" (sb-ext:hash-table-weakness table))
                (hash-table-count table)
                (lambda (index)
                  (multiple-value-bind (key value present) (hash-table-entry table index)
                    (values key value present)))))

(defun slots-anatomy (kind object &rest facts)
  "Return the anatomy of OBJECT, a KIND of object with slots."
  (let ((slots (coerce (sb-mop:class-slots (class-of object)) 'vector)))
    (make-anatomy kind
                  (append (facts "class" (type-name-text object)) facts)
                  (length slots)
                  (lambda (index)
                    (let ((name (sb-mop:slot-definition-name (aref slots index))))
                      (if (slot-boundp object name)
                          (values (name-text name) (slot-value object name) t)
                          (values (name-text name) nil nil)))))))

(defun function-anatomy (function)
  "Return the anatomy of FUNCTION."
  (let ((closed (closed-values function))
        (methods (and (typep function 'generic-function) (others-methods function)))
        (name (function-own-name function)))
    (make-anatomy (cond (methods "generic-function") (closed "closure") (t "function"))
                  (facts "name" (and name (name-text name))
                         "lambda list" (multiple-value-bind (lambda-list known)
                                           (known-lambda-list function)
                                         (and known (lambda-list-text lambda-list)))
                         "type" (type-text (ordered-type (sb-introspect:function-type function)))
                         "documentation" (documentation-text function t))
                  (+ (length closed) (length methods))
                  (lambda (index)
                    (values nil (nth index (append closed methods)) t)))))

(defun number-facts (number)
  "Return the facts about NUMBER for an inspection."
  (etypecase number
    (integer (facts "hexadecimal" (format nil "~x" number) "octal" (format nil "~o" number)
                    "binary" (and (< (integer-length number) 200) (format nil "~b" number))
                    "bits" (integer-length number)))
    (float (if (or (sb-ext:float-infinity-p number) (sb-ext:float-nan-p number))
               (facts "type" (type-text (type-of number)))
               (multiple-value-bind (significand exponent sign) (integer-decode-float number)
                 (facts "type" (type-text (type-of number)) "significand" significand
                        "exponent" exponent "sign" sign "rational" (rational number)))))
    (number '())))

(defun stream-facts (stream)
  "Return the facts about STREAM for an inspection."
  (facts "open" (if (around-user-code (open-stream-p stream)) "yes" "no")
         "direction" (format nil "~:[~;input~]~:[~; output~]"
                             (around-user-code (input-stream-p stream))
                             (around-user-code (output-stream-p stream)))
         "element type" (around-user-code (type-text (stream-element-type stream)))
         "external format" (and (typep stream 'file-stream)
                                (around-user-code (stream-external-format stream)))
         "position" (around-user-code (file-position stream))
         "file" (and (stream-pathname stream)
                     (when-file-permits (sb-ext:native-namestring (stream-pathname stream))))))

(defun anatomy (object)
  "Return the anatomy of OBJECT: its kind, its facts and its parts."
  (typecase object
    (null (parts "symbol" ()))
    (cons (list-anatomy object))
    (symbol
     (named-parts "symbol" '()
                  (list "name" (lambda () (values (symbol-name object) t))
                        "package" (lambda () (values (symbol-package object) t))
                        "value" (lambda () (and (boundp object) (values (symbol-value object) t)))
                        "function" (lambda ()
                                     (and (fboundp object) (values (symbol-function object) t)))
                        "plist" (lambda () (values (symbol-plist object) t)))))
    (ratio (parts "ratio" () "numerator" (numerator object) "denominator" (denominator object)))
    (complex (parts "complex" () "real part" (realpart object) "imaginary part" (imagpart object)))
    (number (make-anatomy (if (integerp object) "integer" "float")
                          (number-facts object) 0 (constantly nil)))
    (character (make-anatomy "character" (facts "code" (char-code object) "name" (char-name object))
                             0 (constantly nil)))
    (array (array-anatomy object))
    (hash-table (table-anatomy object))
    (package (parts "package" ("name" (package-name object))
               "nicknames" (package-nicknames object)
               "uses" (package-use-list object)
               "used by" (others-packages (package-used-by-list object))
               "shadowing symbols" (package-shadowing-symbols object)
               "exported symbols" (let ((symbols '()))
                                    (do-external-symbols (symbol object) (push symbol symbols))
                                    (sort symbols #'string<))))
    (class (parts "class" ("metaclass" (type-name-text object)
                           "name" (name-text (class-name object)))
             "direct superclasses" (sb-mop:class-direct-superclasses object)
             "direct subclasses" (others-classes (sb-mop:class-direct-subclasses object))
             "precedence list" (and (sb-mop:class-finalized-p object)
                                    (sb-mop:class-precedence-list object))
             "direct slots" (sb-mop:class-direct-slots object)
             "prototype" (and (sb-mop:class-finalized-p object) (sb-mop:class-prototype object))))
    (function (function-anatomy object))
    (pathname (parts "pathname" ("native" (when-file-permits (sb-ext:native-namestring object)))
                "host" (pathname-host object) "device" (pathname-device object)
                "directory" (pathname-directory object) "name" (pathname-name object)
                "type" (pathname-type object) "version" (pathname-version object)))
    (sb-ext:weak-pointer
     (named-parts "weak-pointer" '()
                  (list "value" (lambda () (sb-ext:weak-pointer-value object)))))
    (stream (apply #'slots-anatomy "stream" object (stream-facts object)))
    (condition (slots-anatomy "condition" object (cons "report" (describe-condition object))))
    (structure-object (slots-anatomy "structure" object))
    (standard-object (slots-anatomy "standard-object" object))
    (t (make-anatomy (string-downcase (type-name-text object)) '() 0 (constantly nil)))))

;;; Paths

(define-condition no-such-part (error)
  ((step :initarg :step :reader no-such-part-step)
   (count :initarg :count :reader no-such-part-count))
  (:report (lambda (condition stream)
             (format stream "There is no part ~a: the object has ~d parts."
                     (no-such-part-step condition) (no-such-part-count condition))))
  (:documentation "A path does not lead to a part."))

(defun part-at (object step)
  "Return the part of OBJECT at STEP, a step of a path."
  (let* ((anatomy (anatomy object))
         (end (position-if-not #'digit-char-p step))
         (index (and (plusp (length step)) (not (eql end 0)) (parse-integer step :end end))))
    (flet ((missing ()
             (error 'no-such-part :step step :count (anatomy-count anatomy))))
      (unless (and index
                   (< index (anatomy-count anatomy))
                   (or (null end) (and (hash-table-p object) (string= step "k" :start1 end))))
        (missing))
      (multiple-value-bind (label value present) (funcall (anatomy-part anatomy) index)
        (unless present
          (missing))
        (if end label value)))))

(defun part-of (object path)
  "Return the part of OBJECT at PATH, steps separated by slashes."
  (let ((object object))
    (dolist (step (uiop:split-string path :separator '(#\/)) object)
      (when (plusp (length step))
        (setf object (part-at object step))))))

(defun part-json (anatomy index path package plainly)
  "Return part INDEX of ANATOMY, of the object at PATH, as a JSON object."
  (flet ((text (value limit)
           (printed-value value package limit :plainly plainly :length 20 :level 4)))
    (multiple-value-bind (label value present)
        (handler-case (funcall (anatomy-part anatomy) index)
          (serious-condition (condition)
            (values nil (format nil "(reading it signalled ~a)" (type-name-text condition)) t)))
      (let ((here (format nil "~a~:[~;/~]~d" path (plusp (length path)) index))
            (keyed (string= (anatomy-kind anatomy) "hash-table")))
        (object "path" here
                "name" (cond (keyed (text label 120))
                             ((stringp label) label))
                "key_path" (and keyed (not (atomic-p label)) (concatenate 'string here "k"))
                "value" (if present (text value 200) "(unbound)")
                "parts" (and present (not (atomic-p value)) :true))))))

(defun inspection (object handle path package offset limit plainly)
  "Return the inspection of OBJECT as a JSON object, with at most LIMIT parts from OFFSET on."
  ;; OBJECT is the part at PATH of the object of HANDLE.
  (let* ((anatomy (anatomy object))
         (count (anatomy-count anatomy)))
    (multiple-value-bind (text cut failed)
        (printed-value object package 2000 :plainly plainly :length 100 :level 8)
      (object "status" "found"
              "handle" handle
              "path" (given path)
              "type" (if (arrayp object)
                         (bounded-text (type-text (type-of object)) 300)
                         (type-name-text object))
              "kind" (anatomy-kind anatomy)
              "text" text
              "cut" (and cut :true)
              "unprintable" (and failed :true)
              "facts" (loop for (key . value) in (anatomy-facts anatomy)
                            collect (object "name" key "value" (bounded-text value 500)))
              "count" count
              "parts" (loop for index from offset below (min count (+ offset limit))
                            collect (part-json anatomy index path package plainly))))))

(define-question "inspect" (handle path package offset limit plainly)
  "Inspect the part at PATH of the object of HANDLE, with at most LIMIT parts from OFFSET on."
  (multiple-value-bind (object known before) (handle-object handle)
    (if known
        (handler-case
            (inspection (part-of object path) handle path (package-named package)
                        (parse-integer offset) (parse-integer limit) (given plainly))
          (no-such-part (condition) (object "status" "no-part" "text" (princ-to-string condition))))
        (object "status" (if before "gone" "unknown")))))
