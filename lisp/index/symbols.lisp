;;;; Exports the packages and symbols of the image as tables, so that the host can answer
;;;; FIND-SYMBOL without Lisp.

(in-package :steelbank)

;;; The contents of the saved core

(defstruct (baseline (:constructor make-baseline ()))
  "The contents of the index embedded in the host. Later exports omit what has not changed."
  ;; SERIAL is the highest serial number of the code. FUNCTIONS are conses of a symbol and the
  ;; function in its function cell. OTHERS are conses of another name, or of a macro's name, and its
  ;; definition. GENERICS are conses of a generic function and its methods. PACKAGES maps each
  ;; package to a cons of number and checksum, and METHODS maps each method to its number.
  (serial 0 :type (unsigned-byte 32))
  (method-count 0 :type (unsigned-byte 32))
  (functions '() :type list) (others '() :type list) (generics '() :type list)
  (packages (make-hash-table :test 'eq) :read-only t)
  (methods (make-hash-table :test 'eq :weakness :key) :read-only t))

(defvar *baseline* nil
  "The baseline of this image, or NIL while every export is complete.")

;;; Our own packages, which answers do not show

(defparameter *own-packages* '("STEELBANK" "STEELBANK-NOTHING" "STEELBANK-BUILD")
  "The names of our packages. Exports omit them, and all code with their symbols in its name.")

(defun own-package-p (package)
  "Return true if PACKAGE is part of the Lisp half or its builder."
  (and (member (package-name package) *own-packages* :test #'equal) t))

(defun own-name-p (name &optional (depth 4))
  "Return true if NAME, a function's name, contains a symbol of ours, at most DEPTH lists deep."
  (typecase name
    (symbol (let ((home (symbol-package name)))
              (and home (own-package-p home))))
    ;; An object in an EQL specializer may be a circular list.
    (cons (and (plusp depth)
               (loop for rest = name then (cdr rest)
                     repeat 32
                     while (consp rest)
                       thereis (own-name-p (car rest) (1- depth)))))))

(defun others-packages (packages)
  "Return PACKAGES without ours."
  (remove-if #'own-package-p packages))

(defun others-classes (classes)
  "Return CLASSES without ours."
  (remove-if (lambda (class) (own-name-p (class-name class))) classes))

(defun others-methods (function)
  "Return the methods of the generic FUNCTION, except ours and methods that are being replaced."
  (remove-if (lambda (method)
               (let ((name (method-name method)))
                 (or (null name) (own-name-p name))))
             (sb-mop:generic-function-methods function)))

(defun exported-packages ()
  "Return the packages in an export, sorted by name."
  (sort (others-packages (list-all-packages)) #'string< :key #'package-name))

;;; One export

(defstruct (export-state (:conc-name state-) (:constructor make-export-state (baseline)))
  "The tables of one export, and the numbers already assigned."
  ;; PRESENTS lists the symbols present in each package. SURVIVORS lists the current status of
  ;; functions that are newer than the baseline but not new in this export. REFUTED lists the
  ;; functions and methods of the baseline that were replaced or removed.
  (baseline nil :read-only t)
  (pool (make-string-pool) :read-only t)
  (package-numbers (make-hash-table :test 'eq) :read-only t)
  (symbol-numbers (make-hash-table :test 'eq) :read-only t)
  (name-numbers (make-hash-table :test 'equal) :read-only t)
  (source-numbers (make-hash-table :test 'eq) :read-only t)
  (packages (make-table 4) :read-only t) (nicknames (make-table 2) :read-only t)
  (uses (make-table 2) :read-only t) (local-nicknames (make-table 3) :read-only t)
  (symbols (make-table 3) :read-only t) (presents (make-table 3) :read-only t)
  (names (make-table 3) :read-only t) (sources (make-table 3) :read-only t)
  (functions (make-table 9) :read-only t) (records (make-table 4) :read-only t)
  (survivors (make-table 3) :read-only t) (refuted (make-table 2) :read-only t))

(defun state-tables (state)
  "Return the tables of STATE in the order that the host expects."
  (list (state-packages state) (state-nicknames state) (state-uses state)
        (state-local-nicknames state) (state-symbols state) (state-presents state)
        (state-names state) (state-sources state) (state-functions state) (state-records state)
        (state-survivors state) (state-refuted state)))

;;; Names

(defun principal-symbol (name)
  "Return the symbol under which NAME is indexed, and true, or NIL and false if there is none."
  ;; The symbol is F for (SETF F), (METHOD F ...) and (LABELS G :IN F).
  (cond ((and (symbolp name) name) (values name t))
        ((null name) (values nil t))
        ((not (and (consp name) (proper-list-p name) (rest name))) (values nil nil))
        ((member (first name) '(flet labels lambda))
         (let ((in (member :in name)))
           (if in (principal-symbol (second in)) (values nil nil))))
        ((eq (first name) +slot-accessor+) (principal-symbol (third name)))
        (t (principal-symbol (second name)))))

;;; Tables

(defun state-string (state string)
  "Return the number of STRING in STATE's pool."
  (pool-string (state-pool state) string))

(defun state-package (state package)
  "Return the number of PACKAGE, or NIL if it is not in the export."
  (and package (gethash package (state-package-numbers state))))

(defun state-symbol (state symbol)
  "Return the number of SYMBOL, after appending its row if it is new."
  (let ((numbers (state-symbol-numbers state)))
    (or (gethash symbol numbers)
        (setf (gethash symbol numbers)
              (let ((name (symbol-name symbol)))
                (add-row (state-symbols state)
                         (state-package state (symbol-package symbol))
                         (state-string state name)
                         (unless (plain-name-p name)
                           (state-string state (escaped-name name)))))))))

(defun package-checksum (package)
  "Return a number that almost certainly changes when the symbols of PACKAGE change."
  ;; A change adds or removes a symbol, or changes its status.
  (let ((sum 0))
    (declare (type (unsigned-byte 62) sum) (optimize speed))
    (flet ((add (table factor)
             (declare (type (integer 1 3) factor))
             (loop for cell across (symbol-table-cells table)
                   when (and cell (symbolp cell))
                     do (setf sum (ldb (byte 62 0)
                                       (+ sum
                                          (* factor (symbol-hash cell))
                                          (if (eq (symbol-package cell) package) 0 12345)))))))
      (add (internal-symbol-table package) 1)
      (add (external-symbol-table package) 3))
    sum))

(defun export-presents (state package)
  "Append the symbols that are present in PACKAGE."
  (let ((number (state-package state package))
        (presents (state-presents state)))
    (with-package-iterator (next package :internal :external)
      (loop
        (multiple-value-bind (more symbol status) (next)
          (unless more (return))
          (add-row presents number (state-symbol state symbol) (if (eq status :external) 1 0)))))))

(defun export-packages (state)
  "Append all packages with their nicknames and used packages."
  ;; Append the symbols only of packages that differ from the baseline.
  (let ((packages (exported-packages))
        (numbers (state-package-numbers state))
        (known (and (state-baseline state) (baseline-packages (state-baseline state)))))
    (loop for package in packages
          for number from 0
          do (setf (gethash package numbers) number))
    (dolist (package packages)
      (let* ((old (and known (gethash package known)))
             (same (and old (= (cdr old) (package-checksum package))))
             ;; Another thread may have deleted the package in the meantime.
             (name (or (package-name package) "")))
        (add-row (state-packages state)
                 (state-string state name)
                 (state-string state (escaped-name name))
                 (car old)
                 (if same 1 0))
        (unless same (export-presents state package))
        (dolist (nickname (package-nicknames package))
          (add-row (state-nicknames state) (gethash package numbers) (state-string state nickname)))
        (dolist (used (others-packages (package-use-list package)))
          (add-row (state-uses state) (gethash package numbers) (gethash used numbers)))
        (loop for (nickname . actual) in (sb-ext:package-local-nicknames package)
              unless (own-package-p actual)
                do (add-row (state-local-nicknames state) (gethash package numbers)
                            (state-string state nickname) (gethash actual numbers)))))))

(defun note-packages (baseline state)
  "Record the packages of STATE in BASELINE, by number and checksum."
  (maphash (lambda (package number)
             (setf (gethash package (baseline-packages baseline))
                   (cons number (package-checksum package))))
           (state-package-numbers state)))
