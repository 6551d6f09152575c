;;;; The Lisp part of the oracle: writes what sb-introspect and FIND-SYMBOL return for everything in
;;;; the image, as lines of text.
;;;;
;;;; SB-INTROSPECT:WHO-CALLS and its relatives call COLLECT-XREF, which walks all code objects of
;;;; the image for each query. A query takes 16 ms, and there are some 12,000 names and five kinds.
;;;; But COLLECT-XREF takes the code objects from a cache, *CODEBLOB-CACHE*. One pass with
;;;; SB-C:MAP-PACKED-XREF-DATA, the decoder that COLLECT-XREF uses, finds the code objects with
;;;; records of each kind and name. For each query, the cache is filled with only these code
;;;; objects; COLLECT-XREF still decodes them and selects the records. The omitted code objects have
;;;; no record of the name, and names without records have no answer. SPOT-CHECK repeats a sample of
;;;; the queries with the full cache.
;;;;
;;;; steelbank's own code and symbols are omitted, because its answers do not contain them.

(defpackage :steelbank-oracle (:use :common-lisp))

(in-package :steelbank-oracle)

(defun code-objects ()
  "Return all code objects except steelbank's."
  (let ((codes '()))
    (sb-vm:map-code-objects (lambda (code)
                              (unless (steelbank::own-code-p code) (push code codes))))
    codes))

(defun mentions ()
  "Return a table from each kind and used name to the code objects with a record of them."
  (sb-ext:gc :full t)
  (let ((table (make-hash-table :test 'equal)))
    (dolist (code (code-objects) table)
      (dotimes (entry (sb-kernel:code-n-entries code))
        (let ((xrefs (sb-kernel:%simple-fun-xrefs (sb-kernel:%code-entry-point code entry))))
          (when xrefs
            (sb-c:map-packed-xref-data
             (lambda (kind name form)
               (declare (ignore form))
               (let ((key (cons kind name)))
                 (unless (or (steelbank::own-name-p name) (eq (first (gethash key table)) code))
                   (push code (gethash key table)))))
             xrefs)))))))

(defun ask (question name codes)
  "Return the answer of QUESTION, a function of sb-introspect, about NAME, using only CODES."
  (let ((vector (coerce codes 'simple-vector)))
    (sb-sys:with-pinned-objects (vector)
      (setf sb-introspect::*codeblob-cache*
            (cons sb-vm::*code-alloc-count* (sb-ext:make-weak-pointer vector)))
      (multiple-value-prog1 (funcall question name)
        (assert (eq (sb-ext:weak-pointer-value (cdr sb-introspect::*codeblob-cache*)) vector))))))

(defun question (kind)
  "Return the function of sb-introspect that answers queries of KIND."
  (ecase kind
    (:calls #'sb-introspect:who-calls)
    (:macroexpands #'sb-introspect:who-macroexpands)
    (:binds #'sb-introspect:who-binds)
    (:references #'sb-introspect:who-references)
    (:sets #'sb-introspect:who-sets)))

(defun plain-caller (name)
  "Return NAME without the argument types that sb-introspect adds to the name of a DEFTRANSFORM."
  (if (typep name '(cons (eql sb-c:deftransform) cons)) (subseq name 0 2) name))

(defun key (name)
  "Return the role of the symbol in NAME, and that symbol."
  (typecase name
    (symbol (values "plain" name))
    ((cons (eql setf) (cons symbol null)) (values "setf" (second name)))
    ((cons (eql sb-ext:cas) (cons symbol null)) (values "cas" (second name)))
    ((cons (eql compiler-macro) (cons symbol null)) (values "compiler-macro" (second name)))
    ((cons (eql sb-pcl::slot-accessor)) (values "slot-accessor" (third name)))
    (t (values "other" (second name)))))

(defun text (name)
  "Return NAME as the index prints it, because only the answers are compared, not their printing."
  (steelbank::name-text name))

(defun write-line-of (stream &rest fields)
  "Write FIELDS on one line, separated by tabs. Tabs and newlines in them become spaces."
  (loop for (field . more) on fields
        do (write-string (substitute-if #\Space
                                        (lambda (char) (find char '(#\Tab #\Newline #\Return)))
                                        (princ-to-string field))
                         stream)
           (write-char (if more #\Tab #\Newline) stream)))

(defun file-text (source)
  "Return the file of SOURCE as the index prints it."
  (let ((pathname (sb-introspect:definition-source-pathname source)))
    (cond ((null pathname) "-")
          ((typep pathname 'logical-pathname) (namestring pathname))
          (t (sb-ext:native-namestring pathname)))))

(defun write-uses (stream)
  "Write a line for each use: kind, role, symbol, caller, file, offset, form number."
  (let ((table (mentions)) (count 0))
    (loop for (kind . name) being the hash-keys of table using (hash-value codes)
          do (multiple-value-bind (role symbol) (key name)
               (let ((symbol (text symbol)))
                 (loop for (caller . source) in (ask (question kind) name codes)
                       do (incf count)
                          (write-line-of
                           stream (string-downcase kind) role symbol (text (plain-caller caller))
                           (file-text source)
                           (or (sb-introspect:definition-source-character-offset source) "-")
                           (sb-introspect:definition-source-form-number source))))))
    (spot-check table)
    count))

(defun spot-check (table)
  "Repeat the queries for a sample of the names with all code objects in the cache, and compare."
  (let ((all (code-objects))
        (names (loop for (nil . name) being the hash-keys of table for number from 0
                     when (zerop (mod number 500)) collect name)))
    (dolist (name names)
      (dolist (kind '(:calls :macroexpands :binds :references :sets))
        (let ((few (ask (question kind) name (gethash (cons kind name) table)))
              (many (ask (question kind) name all)))
          (assert (and (= (length few) (length many))
                       (null (set-exclusive-or few many :test #'equalp)))))))))

(defun write-specializations (stream)
  "Write a line for each method that specializes on a class: kind, class, generic function."
  (let ((classes '()))
    (do-all-symbols (symbol)
      (when (find-class symbol nil) (pushnew symbol classes)))
    (dolist (class classes)
      (loop for (name . source) in (sb-introspect:who-specializes-directly class)
            unless (or (steelbank::own-name-p name)
                       ;; The description contains the classes that the method specializes on.
                       (steelbank::own-name-p
                        (sb-introspect::definition-source-description source)))
              do (write-line-of stream "specializes" "plain" (text class) (text (second name))
                                "-" "-" "-")))))

(defun write-symbols (stream)
  "Write a line for each accessible symbol: package, status, name, and the symbol as printed."
  (dolist (package (steelbank::exported-packages))
    (let ((seen (make-hash-table :test 'eq)))
      (do-symbols (symbol package)
        (unless (gethash symbol seen)
          (setf (gethash symbol seen) t)
          (multiple-value-bind (found status) (find-symbol (symbol-name symbol) package)
            (assert (eq found symbol))
            (write-line-of stream (package-name package) (string-downcase status)
                           (symbol-name symbol) (text symbol))))))))

(defun write-packages (stream)
  "Write a line for each name and nickname of a package: that name, and the name of the package."
  (dolist (package (steelbank::exported-packages))
    (dolist (name (cons (package-name package) (package-nicknames package)))
      (write-line-of stream name (package-name package)))))

(defun write-own-symbols (stream)
  "Write a line for each symbol of steelbank, as the index prints it: #: instead of its package."
  (dolist (package (remove-if-not #'find-package steelbank::*own-packages*))
    (do-symbols (symbol package)
      (when (steelbank::own-name-p symbol)
        (write-line-of stream (concatenate 'string "#:"
                                           (steelbank::escaped-name (symbol-name symbol))))))))

(defun write-oracle (folder)
  "Write the files uses.txt, own.txt, symbols.txt and packages.txt into FOLDER."
  ;; FOLDER is a native path that ends in a slash. Return the serial number of the last code object
  ;; that was created before this call.
  (flet ((write-file (name writer)
           (with-open-file (stream (sb-ext:parse-native-namestring
                                    (concatenate 'string folder name))
                                   :direction :output :if-exists :supersede :external-format :utf-8)
             (funcall writer stream))))
    (let ((last sb-vm::*code-alloc-count*))
      (write-file "symbols.txt" #'write-symbols) (write-file "packages.txt" #'write-packages)
      (write-file "own.txt" #'write-own-symbols)
      (write-file "uses.txt" (lambda (stream) (write-uses stream) (write-specializations stream)))
      last)))
