;;;; Definitions that the image still has, although the file that made them does not have them any more.
;;;;
;;;; A function's code knows the write date of its source. Of variables, classes and types SBCL keeps a source location, an
;;;; object that each evaluation of the definition makes anew: what has the same one after its file was loaded again was not
;;;; defined again.

(in-package :steelbank)

(defstruct (mark (:constructor make-mark (kind name file object version created)))
  "A definition: its KIND and NAME (a method for methods), its FILE, an OBJECT that is another after it was defined again,
the VERSION of the file that was loaded then, and of a function the write date of the file that it was CREATED from."
  kind name file object version created)

(sb-ext:define-load-time-global *marks* '()
  "The definitions as MARK-DEFINITIONS found them last.")

(defun own-packages ()
  "The packages that are neither SBCL's, ASDF's nor ours."
  (remove-if (lambda (package)
               (let ((name (package-name package)))
                 (or (null name)
                     (system-package-p package)
                     (member name '("KEYWORD" "STEELBANK") :test #'string=)
                     (uiop:string-prefix-p "ASDF" name)
                     (uiop:string-prefix-p "UIOP" name))))
             (list-all-packages)))

(defun location-file (location)
  "The native name of the file of LOCATION, a source location, or NIL."
  (let ((name (source-location-namestring location)))
    (and name (native-name name))))

(defun native-name (namestring)
  "The native name of the file that NAMESTRING names, its links resolved if it is there."
  (let ((path (when-file-permits (parse-namestring namestring))))
    (and path
         (sb-ext:native-namestring (or (when-file-permits (truename path))
                                       (when-file-permits (translate-logical-pathname path))
                                       path)))))

(defun function-file (function)
  "The native name of the file that FUNCTION was compiled from, NIL when its source is none, and the file's write date then."
  (let* ((source (code-source (function-code (entry-function function))))
         (file (and source (debug-source-namestring source))))
    (and file (values (native-name file) (debug-source-created source)))))

(defun function-mark (kind name function)
  "The mark of FUNCTION, the definition of NAME as a thing of KIND, or NIL when its source is no file."
  (multiple-value-bind (file created) (function-file function)
    (and file (make-mark kind name file (entry-function function) nil created))))

(defun location-mark (kind name location)
  "The mark of NAME, defined as a thing of KIND at LOCATION, or NIL when that is no file."
  (let ((file (location-file location)))
    (and file (make-mark kind name file location nil nil))))

(defun function-marks (name)
  "The marks of NAME as a function, generic function with its methods, or macro."
  (let ((function (cond ((not (fboundp name)) nil)
                        ((and (symbolp name) (special-operator-p name)) nil)
                        ((and (symbolp name) (macro-function name)))
                        (t (global-function name)))))
    (cond ((null function) '())
          ((typep function 'generic-function)
           (cons (location-mark :generic-function name (metaobject-source-location function))
                 (loop for method in (sb-mop:generic-function-methods function)
                       collect (location-mark :method method (metaobject-source-location method)))))
          (t (list (function-mark (if (and (symbolp name) (macro-function name)) :macro :function) name function))))))

(defun symbol-marks (symbol)
  "The marks of the definitions of SYMBOL and of (SETF SYMBOL)."
  (let ((class (find-class symbol nil)))
    (append (function-marks symbol)
            (function-marks (list 'setf symbol))
            (list (and (compiler-macro-function symbol)
                       (function-mark :compiler-macro symbol (compiler-macro-function symbol)))
                  (and (boundp symbol)
                       (member (variable-kind symbol) '(:special :global))
                       (location-mark :variable symbol (variable-source-location symbol)))
                  (typecase class
                    ((or structure-class condition-class)
                     (location-mark (if (typep class 'structure-class) :structure :condition)
                                    symbol
                                    (class-source-location symbol)))
                    (standard-class (location-mark :class symbol (metaobject-source-location class))))))))

(defun definitions-in (files)
  "The marks of all definitions that stand in FILES, native names."
  (let ((wanted (make-hash-table :test 'equal))
        (marks '()))
    (dolist (file files)
      (setf (gethash file wanted) t))
    (dolist (package (own-packages))
      (do-symbols (symbol package)
        (when (eq (symbol-package symbol) package)
          (dolist (mark (reporting-own-errors ("looking at a symbol's definitions")
                          (symbol-marks symbol)))
            (when (and mark (gethash (mark-file mark) wanted))
              (setf (mark-version mark) (gethash (mark-file mark) *loaded-files*))
              (push mark marks))))))
    marks))

(defun marks-by-name ()
  "*MARKS* by kind and name."
  (let ((table (make-hash-table :test 'equal)))
    (dolist (mark *marks* table)
      (setf (gethash (list (mark-kind mark) (mark-name mark)) table) mark))))

(defun mark-definitions (files)
  "Remember the definitions of FILES as they are now. What was not defined again since it was remembered last keeps the
version of its file of that time. Returns how many there are."
  (let ((before (marks-by-name)))
    (setf *marks* (definitions-in files))
    (dolist (mark *marks*)
      (let ((old (gethash (list (mark-kind mark) (mark-name mark)) before)))
        (when (and old (eq (mark-object old) (mark-object mark)))
          (setf (mark-version mark) (mark-version old)))))
    (length *marks*)))

(defun not-defined-again-p (mark before)
  "True when MARK is what it was at BEFORE, although its file was loaded since."
  (and before
       (eq (mark-object mark) (mark-object before))
       (not (eq (mark-version mark) (mark-version before)))))

(defun leftovers (files gone)
  "The marks of those definitions of FILES that the files, as they were loaded last, do not have, or that are in GONE."
  (let ((before (marks-by-name)))
    (let ((found (remove-if-not
                  (lambda (mark)
                    (let ((version (mark-version mark)))
                      (or (member (mark-file mark) gone :test #'string=)
                          (and version (mark-created mark)
                               (/= (mark-created mark) (file-version-write-date version)))
                          (not-defined-again-p mark (gethash (list (mark-kind mark) (mark-name mark)) before)))))
                  (definitions-in files))))
      ;; Keep a generic function that no DEFGENERIC makes as long as it has methods that stay.
      (remove-if (lambda (mark)
                   (and (eq (mark-kind mark) :generic-function)
                        (set-difference (sb-mop:generic-function-methods (fdefinition (mark-name mark)))
                                        (loop for other in found
                                              when (eq (mark-kind other) :method)
                                                collect (mark-name other)))))
                 found))))

(defun remove-definition (mark)
  "Take the definition MARK out of the image. True if that could be done."
  (let ((name (mark-name mark)))
    (handler-case
        ;; Ignore the lock: the definition's own file, which is in the package, was free to make it.
        (sb-ext:without-package-locks
          (ecase (mark-kind mark)
            ((:function :macro :generic-function) (fmakunbound name))
            (:compiler-macro (setf (compiler-macro-function name) nil))
            (:method (remove-method (sb-mop:method-generic-function name) name))
            (:variable (makunbound name))
            ((:class :structure :condition) (setf (find-class name) nil))))
      (:no-error (&rest values) (declare (ignore values)) t)
      (error () nil))))

(defun leftover-text (mark)
  "The beginning of the form that defines MARK, for display."
  (let ((name (mark-name mark)))
    (if (eq (mark-kind mark) :method)
        (name-text (list* 'method
                          (sb-mop:generic-function-name (sb-mop:method-generic-function name))
                          (append (method-qualifiers name)
                                  (list (loop for specializer in (sb-mop:method-specializers name)
                                              collect (if (typep specializer 'sb-mop:eql-specializer)
                                                          (list 'eql (sb-mop:eql-specializer-object specializer))
                                                          (or (class-name specializer) specializer)))))))
        (name-text name))))

(defun leftovers-json (files gone remove)
  "The leftovers of FILES, of which GONE are no more, as objects, by file and name. REMOVE takes them out of the image."
  (let ((marks (leftovers files gone)))
    (when remove
      (dolist (file gone)
        (remhash file *loaded-files*)))
    (flet ((key (mark) (format nil "~A ~A ~A" (mark-file mark) (mark-kind mark) (leftover-text mark))))
      (loop for (nil . mark) in (sort (loop for mark in marks collect (cons (key mark) mark)) #'string< :key #'car)
            for text = (leftover-text mark)
            collect (object "kind" (string-downcase (mark-kind mark))
                            "name" text
                            "path" (mark-file mark)
                            "removed" (json-boolean (and remove (remove-definition mark))))))))
