;;;; Finds definitions that are in the image although their file no longer contains them.
;;;;
;;;; The code of a function records the write date of its source file. For variables, classes,
;;;; generic functions and methods, SBCL records a source location, an object that is created each
;;;; time the definition is evaluated. If the object is the same after the file was reloaded, the
;;;; definition was not evaluated again. Constants and DEFTYPE types are not searched.

(in-package :steelbank)

(defstruct (mark (:constructor make-mark (kind name file object version created)))
  "The definition of NAME as KIND in FILE."
  ;; For a method, NAME is the method. Each evaluation of the definition creates another OBJECT.
  ;; VERSION is the version of the file that was loaded. For a function, CREATED is the write date
  ;; that the file had when the function was compiled.
  kind name file object version created)

(sb-ext:define-load-time-global *marks* '()
  "The definitions that the last call of MARK-DEFINITIONS found.")

(defun user-packages ()
  "Return the packages that belong to neither SBCL, ASDF with UIOP, nor steelbank."
  (remove-if (lambda (package)
               (let ((name (package-name package)))
                 (or (null name)
                     (system-package-p package)
                     (member name '("KEYWORD" "STEELBANK") :test #'string=)
                     (uiop:string-prefix-p "ASDF" name)
                     (uiop:string-prefix-p "UIOP" name))))
             (list-all-packages)))

(defun location-file (location)
  "Return the native name of the file of LOCATION, a source location, or NIL."
  (let ((name (source-location-namestring location)))
    (and name (native-name name))))

(defun native-name (namestring)
  "Return the native name of the file NAMESTRING, with links resolved if possible, or NIL."
  (let ((path (when-file-permits (parse-namestring namestring))))
    (and path
         (sb-ext:native-namestring (or (when-file-permits (truename path))
                                       (when-file-permits (translate-logical-pathname path))
                                       path)))))

(defun function-file (function)
  "Return the native name and write date of the file that FUNCTION was compiled from."
  ;; The date is the file's write date at the time of compilation. Return NIL if there is no file.
  (let* ((source (code-source (function-code (entry-function function))))
         (file (and source (debug-source-namestring source))))
    (and file (values (native-name file) (debug-source-created source)))))

(defun function-mark (kind name function)
  "Return the mark of FUNCTION, the definition of NAME as KIND, or NIL if it is not from a file."
  (multiple-value-bind (file created) (function-file function)
    (and file (make-mark kind name file (entry-function function) nil created))))

(defun location-mark (kind name location)
  "Return the mark of NAME, defined as KIND at LOCATION, or NIL if LOCATION is not in a file."
  (let ((file (location-file location)))
    (and file (make-mark kind name file location nil nil))))

(defun function-marks (name)
  "Return the marks of NAME as a function, macro, or generic function with its methods."
  (let ((function (cond ((not (fboundp name)) nil)
                        ((and (symbolp name) (special-operator-p name)) nil)
                        ((and (symbolp name) (macro-function name)))
                        (t (global-function name)))))
    (cond ((null function) '())
          ((typep function 'generic-function)
           (cons (location-mark :generic-function name (metaobject-source-location function))
                 (loop for method in (sb-mop:generic-function-methods function)
                       collect (location-mark :method method (metaobject-source-location method)))))
          (t (let ((kind (if (and (symbolp name) (macro-function name)) :macro :function)))
               (list (function-mark kind name function)))))))

(defun symbol-marks (symbol)
  "Return the marks of the definitions of SYMBOL and of (SETF SYMBOL)."
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
                    (standard-class
                     (location-mark :class symbol (metaobject-source-location class))))))))

(defun definitions-in (files)
  "Return the marks of all definitions in FILES, native names, and a list of their symbols."
  (let ((wanted (make-hash-table :test 'equal))
        (marks '())
        (symbols '()))
    (dolist (file files)
      (setf (gethash file wanted) t))
    (dolist (package (user-packages))
      (do-symbols (symbol package)
        (when (eq (symbol-package symbol) package)
          (dolist (mark (reporting-own-errors ("listing a symbol's definitions")
                          (symbol-marks symbol)))
            (when (and mark (gethash (mark-file mark) wanted))
              (setf (mark-version mark) (gethash (mark-file mark) *loaded-files*))
              (unless (eq symbol (first symbols))
                (push symbol symbols))
              (push mark marks))))))
    (values marks symbols)))

(defun marks-by-name ()
  "Return *MARKS* as a table by kind and name."
  (let ((table (make-hash-table :test 'equal)))
    (dolist (mark *marks* table)
      (setf (gethash (list (mark-kind mark) (mark-name mark)) table) mark))))

(defun mark-definitions (files)
  "Record the current definitions of FILES, and return their number."
  ;; A definition that was not redefined since the last call keeps the file version recorded then.
  (let ((before (marks-by-name)))
    (setf *marks* (definitions-in files))
    (dolist (mark *marks*)
      (let ((old (gethash (list (mark-kind mark) (mark-name mark)) before)))
        (when (and old (eq (mark-object old) (mark-object mark)))
          (setf (mark-version mark) (mark-version old)))))
    (length *marks*)))

(defun not-defined-again-p (mark before)
  "Return true if MARK is the same definition as BEFORE although its file was loaded since."
  (and before
       (eq (mark-object mark) (mark-object before))
       (not (eq (mark-version mark) (mark-version before)))))

(defun leftovers (files gone)
  "Return the marks of the definitions of FILES that the files no longer contain."
  ;; The contents are those that were last loaded. Files in GONE count as empty.
  (let ((before (marks-by-name)))
    (let ((found (remove-if-not
                  (lambda (mark)
                    (let ((version (mark-version mark))
                          (key (list (mark-kind mark) (mark-name mark))))
                      (or (member (mark-file mark) gone :test #'string=)
                          (and version (mark-created mark)
                               (/= (mark-created mark) (file-version-write-date version)))
                          (not-defined-again-p mark (gethash key before)))))
                  (definitions-in files))))
      ;; Keep a generic function as long as some of its methods remain.
      (remove-if (lambda (mark)
                   (and (eq (mark-kind mark) :generic-function)
                        (set-difference
                         (sb-mop:generic-function-methods (fdefinition (mark-name mark)))
                         (loop for other in found
                               when (eq (mark-kind other) :method)
                                 collect (mark-name other)))))
                 found))))

(defun remove-definition (mark)
  "Remove the definition MARK from the image. Return true on success."
  (let ((name (mark-name mark)))
    (handler-case
        ;; Package locks do not apply: the definition's own file was allowed to create it.
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
  "Return the name that MARK defines as text; for a method, with qualifiers and specializers."
  (let ((name (mark-name mark)))
    (if (eq (mark-kind mark) :method)
        (name-text (list* 'method
                          (sb-mop:generic-function-name (sb-mop:method-generic-function name))
                          (append (method-qualifiers name)
                                  (list (mapcar #'specializer-name
                                                (sb-mop:method-specializers name))))))
        (name-text name))))

(defun leftovers-json (files gone remove)
  "Return the leftovers of FILES as JSON objects, sorted by their keys: file, kind and name."
  ;; Files in GONE count as empty. REMOVE is a list of the keys of definitions to remove from the
  ;; image.
  (flet ((key (mark)
           (format nil "~A ~(~A~) ~A" (mark-file mark) (mark-kind mark) (leftover-text mark))))
    (loop for mark in (sort (leftovers files gone) #'string< :key #'key)
          collect (object "kind" (string-downcase (mark-kind mark))
                          "name" (leftover-text mark)
                          "path" (mark-file mark)
                          "removed" (json-boolean (and (member (key mark) remove :test #'string=)
                                                       (remove-definition mark)))))))

(defun remove-leftovers (files gone keys)
  "Remove those leftovers of FILES that KEYS list, forget the files GONE, and return all leftovers."
  (dolist (file gone)
    (remhash file *loaded-files*))
  (when keys
    (note-difference-from-text))
  (leftovers-json files gone keys))
