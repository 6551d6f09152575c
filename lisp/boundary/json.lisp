;;;; Reads and writes JSON. The core contains no library for it, because that could conflict with
;;;; the user's version.

(in-package :steelbank)

(defun object (&rest keys-and-values)
  "Return a JSON object of KEYS-AND-VALUES, in their order. Keys are strings."
  ;; Pairs with the value NIL are omitted, because the host's types represent a missing value by an
  ;; absent key.
  (cons :object (loop for (key value) on keys-and-values by #'cddr
                      when value
                        collect (cons key value))))

(defun object-field (object key)
  "Return the value of KEY in OBJECT, a JSON object, or NIL if there is none."
  (cdr (assoc key (rest object) :test #'string=)))

(defun write-json-string (string stream)
  "Write STRING as a JSON string. Surrogates, which UTF-8 cannot encode, become U+FFFD."
  (write-char #\" stream)
  (loop for character across string
        for code = (char-code character)
        do (cond ((char= character #\") (write-string "\\\"" stream))
                 ((char= character #\\) (write-string "\\\\" stream))
                 ((< code 32) (format stream "\\u~4,'0x" code))
                 ((<= #xD800 code #xDFFF) (write-char (code-char #xFFFD) stream))
                 (t (write-char character stream))))
  (write-char #\" stream))

(defun write-json-float (float stream)
  "Write FLOAT as a JSON number, or as null if it is not finite."
  (if (or (sb-ext:float-infinity-p float) (sb-ext:float-nan-p float))
      (write-string "null" stream)
      (let ((*read-default-float-format* (type-of float)))
        (prin1 float stream))))

(defun write-json (value stream)
  "Write VALUE: an OBJECT, string, integer, float, :TRUE, :FALSE, :NULL, list or vector."
  (etypecase value
    (string (write-json-string value stream))
    (integer (let ((*print-base* 10) (*print-radix* nil))
               (princ value stream)))
    (float (write-json-float value stream))
    ((eql :true) (write-string "true" stream))
    ((eql :false) (write-string "false" stream))
    ((eql :null) (write-string "null" stream))
    ((cons (eql :object))
     (write-char #\{ stream)
     (loop for ((key . element) . more) on (cdr value)
           do (write-json-string key stream)
              (write-char #\: stream)
              (write-json element stream)
              (when more (write-char #\, stream)))
     (write-char #\} stream))
    (list
     (write-char #\[ stream)
     (loop for (element . more) on value
           do (write-json element stream)
              (when more (write-char #\, stream)))
     (write-char #\] stream))
    (vector (write-json (coerce value 'list) stream))))

(defun json-string (value)
  "Return VALUE as a JSON text; see WRITE-JSON."
  (with-output-to-string (stream)
    (write-json value stream)))

(defun word (keyword)
  "Return the JSON spelling of KEYWORD, or NIL if KEYWORD is NIL."
  (check-type keyword (or null keyword))
  (and keyword (string-downcase keyword)))

(defun json-boolean (generalized-boolean)
  "Return GENERALIZED-BOOLEAN as :TRUE or :FALSE."
  (if generalized-boolean :true :false))

(defun value-json (value)
  "Return VALUE, a Lisp object, as a value for WRITE-JSON. NIL becomes null and T true."
  ;; Characters and symbols become strings, and ratios become floats. Proper lists and vectors
  ;; become arrays. Hash tables become objects, with their keys printed. Results of OBJECT keep
  ;; their keys, and :TRUE, :FALSE and :NULL are returned unchanged. Signal an error for other
  ;; objects.
  (typecase value
    (null :null)
    ((eql t) :true)
    ((or integer float string (member :true :false :null)) value)
    (ratio (coerce value 'double-float))
    ((or character symbol) (string value))
    (hash-table (cons :object (loop for key being the hash-keys of value using (hash-value element)
                                    collect (cons (princ-to-string key) (value-json element)))))
    ((cons (eql :object)) (cons :object (loop for (key . element) in (rest value)
                                              collect (cons key (value-json element)))))
    ((or vector (satisfies proper-list-p)) (map 'vector #'value-json value))
    (t (error "Cannot convert an object of type ~a to JSON." (name-text (type-of value))))))

(defun read-json (text)
  "Return the value of TEXT, the JSON of a question's arguments, as the host writes it."
  ;; TEXT contains no objects, no fractions, and no white space outside strings. Arrays become
  ;; lists, null and false become NIL, and true becomes T.
  (declare (type (simple-array character (*)) text))
  (let ((at 0))
    (declare (type fixnum at))
    (labels ((take ()
               (prog1 (schar text at) (incf at)))
             (word (value length)
               (incf at length)
               value)
             (value ()
               (case (schar text at)
                 (#\[ (elements))
                 (#\" (characters))
                 (#\n (word nil 4)) (#\f (word nil 5)) (#\t (word t 4))
                 (t (multiple-value-bind (number end) (parse-integer text :start at :junk-allowed t)
                      (setf at end)
                      (or number (error "Invalid JSON at position ~d of ~a" at text))))))
             (elements ()
               (take)
               (if (char= (schar text at) #\])
                   (word '() 1)
                   (loop collect (value)
                         while (char= (take) #\,))))
             (characters ()
               (take)
               (let* ((stop (loop for end of-type fixnum = at
                                    then (+ end (if (char= (schar text end) #\\) 2 1))
                                  when (char= (schar text end) #\") return end))
                      (result (make-string (- stop at)))
                      (length 0))
                 (declare (type fixnum length))
                 (loop for character = (take)
                       until (char= character #\")
                       do (setf (schar result length)
                                (if (char= character #\\) (escaped) character))
                          (incf length))
                 (subseq result 0 length)))
             (escaped ()
               (let ((character (take)))
                 (case character
                   (#\n #\Newline) (#\t #\Tab) (#\r #\Return) (#\b #\Backspace) (#\f #\Page)
                   (#\u (incf at 4)
                    (code-char (parse-integer text :start (- at 4) :end at :radix 16)))
                   (t character)))))
      (value))))
