;;;; Exports cross references. One pass over the code objects of the image decodes each record once
;;;; and packs it for the host.
;;;;
;;;; sb-introspect decodes all records for every query. Here they are decoded once, and the host
;;;; maintains the inverted index.

(in-package :steelbank)

(defparameter *xref-kinds* #(:calls :macroexpands :binds :references :sets :specializes)
  "The kinds of record, in the order of the host's enumeration.")

(defparameter *name-roles*
  (vector :plain 'setf 'sb-ext:cas 'compiler-macro :method +slot-accessor+ :other)
  "The roles of a principal symbol in a used name, in the order of the host's enumeration.")

(defparameter *function-kinds*
  (vector :function 'setf 'macro-function 'compiler-macro +fast-method+ :local 'lambda
          +setf-expander+ +type-expander+ :transform +vop+ :other)
  "The kinds of function, as their names distinguish them, in the order of the host's enumeration.")

(defconstant +unknown+ 0
  "It is unknown whether the function is still in use, because it has no global name.")
(defconstant +current+ 1 "The function is the current definition of its name.")
(defconstant +replaced+ 2 "The function's name has another definition, or none.")

;; Either the definition was removed, or the code that makes it has not run. CODE-STATUSES replaces
;; this status with +CURRENT+ or +REPLACED+.
(defconstant +not-installed+ 3
  "The function's name has no definition.")

(declaim (inline place-in))
(defun place-in (vector element)
  "Return the index of ELEMENT in VECTOR, or NIL."
  ;; Unlike POSITION, this function does not determine the type of sequence at each call.
  (declare (type simple-vector vector))
  (loop for known across vector
        for place of-type (unsigned-byte 32) from 0
        when (eq known element)
          return place))

(defun kind-number (kind)
  "Return the number of the record kind KIND."
  (place-in *xref-kinds* kind))

(defun name-role (name)
  "Return the number of the role of NAME's principal symbol."
  (place-in *name-roles*
            (cond ((symbolp name) :plain)
                  ((atom name) :other)
                  ((or (eq (first name) +fast-method+) (eq (first name) +slow-method+)) :method)
                  ((place-in *name-roles* (first name)) (first name))
                  (t :other))))

(defun function-kind (name)
  "Return the number of the kind of a function called NAME."
  (place-in *function-kinds*
            (cond ((symbolp name) :function)
                  ((atom name) :other)
                  ((member (first name) '(flet labels)) :local)
                  ((or (eq (first name) :source-transform) (eq (first name) +deftransform+))
                   :transform)
                  ((eq (first name) +defsetf+) +setf-expander+)
                  ((eq (first name) +slow-method+) +fast-method+)
                  ((place-in *function-kinds* (first name)) (first name))
                  (t :other))))

;;; Freshness: whether a function in the image is the current definition of its name

(defun underlying-function (function)
  "Return the simple function inside closures and encapsulations; NIL for a generic function."
  (typecase function
    (simple-function function)
    (closure
     (let ((inner (encapsulated-function function)))
       (if inner
           (underlying-function inner)
           (closure-function function))))
    (t nil)))

(defun bound-function (name)
  "Return the global definition of NAME, and true if names of its kind can have one."
  (labels ((first-function (value)
           (cond ((functionp value) value)
                 ((consp value) (or (first-function (car value)) (first-function (cdr value)))))))
    (cond ((and (symbolp name) name)
           (values (cond ((macro-function name))
                         ((fboundp name) (global-function name)))
                   t))
          ((not (and (consp name) (proper-list-p name) (= (length name) 2))) (values nil nil))
          (t
           (let ((role (first name)) (target (second name)))
             (cond ((or (eq role 'setf) (eq role 'sb-ext:cas))
                    (if (function-name-p name)
                        (values (and (fboundp name) (global-function name)) t)
                        (values nil nil)))
                   ((eq role 'macro-function)
                    (values (and (symbolp target) (macro-function target)) t))
                   ((eq role 'compiler-macro)
                    (values (and (function-name-p target) (compiler-macro-function target)) t))
                   ((eq role +type-expander+)
                    (values (and (symbolp target) (first-function (type-expander target))) t))
                   ((or (eq role +setf-expander+) (eq role +defsetf+))
                    (values (and (symbolp target) (first-function (setf-expander target))) t))
                   (t (values nil nil))))))))

(defun method-functions (generic-function)
  "Return the simple functions of the methods of GENERIC-FUNCTION."
  (loop for method in (sb-mop:generic-function-methods generic-function)
        for function = (method-list-function method)
        for fast = (method-fast-function method)
        when fast collect (underlying-function fast)
        when (typep function 'funcallable-instance)
          collect (underlying-function (funcallable-instance-function function))
        when (typep function '(or simple-function closure))
          collect (underlying-function function)))

(defun all-bound-functions ()
  "Return a hash table of the simple functions that are global definitions, except macros."
  (let ((table (make-hash-table :test 'eq)))
    (map-global-names
     (lambda (name)
       (when (and (function-name-p name) (fboundp name)
                  (not (and (symbolp name) (or (macro-function name) (special-operator-p name)))))
         (let ((function (underlying-function (fdefinition name))))
           (when function (setf (gethash function table) t))))))
    table))

(defstruct (freshness (:constructor make-freshness ()))
  "A cache for one export: current definitions, and the newest write date of each file."
  ;; METHODS maps each name of a generic function to METHOD-FUNCTIONS of it. BOUND is the table
  ;; ALL-BOUND-FUNCTIONS, or NIL until it is needed. SOURCES maps names of files to write dates.
  (methods (make-hash-table :test 'equal) :read-only t)
  (bound nil)
  (sources (make-hash-table :test 'equal) :read-only t))

(defun same-code-p (function other)
  "Return true if FUNCTION and OTHER, simple functions, are in the same code object."
  (and other (eq (function-code function) (function-code other))))

(defun named-status (freshness function name)
  "Return the status of FUNCTION, which was compiled with NAME, as a definition of NAME."
  ;; Return +CURRENT+, +REPLACED+, +NOT-INSTALLED+ or +UNKNOWN+.
  (if (typep name 'method-function-name)
      (let* ((owner (second name))
             (methods (freshness-methods freshness))
             (functions (multiple-value-bind (known found) (gethash owner methods)
                          (if found
                              known
                              (setf (gethash owner methods)
                                    (and (function-name-p owner) (fboundp owner)
                                         (typep (fdefinition owner) 'generic-function)
                                         (method-functions (fdefinition owner))))))))
        (cond ((find function functions :test #'same-code-p) +current+)
              ((find name functions :key #'simple-function-name :test #'equal) +replaced+)
              (t +not-installed+)))
      (multiple-value-bind (bound global) (bound-function name)
        (cond ((not global) +unknown+)
              ((same-code-p function (underlying-function bound)) +current+)
              ((gethash function (or (freshness-bound freshness)
                                     (setf (freshness-bound freshness) (all-bound-functions))))
               +current+)
              (t (if bound +replaced+ +not-installed+))))))

(defun file-created (source)
  "Return the write date of the file of SOURCE, or NIL for a text from a buffer."
  ;; Such a text is a part of a file and does not replace the file.
  (and (not (buffer-text-p (debug-source-properties source)))
       (debug-source-created source)))

(defun note-source (freshness code)
  "Record the version of CODE's file in FRESHNESS if it is the newest so far."
  (let* ((source (code-source code))
         (path (and source (debug-source-namestring source)))
         (created (and path (file-created source)))
         (sources (freshness-sources freshness)))
    (when (and created (> created (gethash path sources 0)))
      (setf (gethash path sources) created))))

(defun outdated-source-p (freshness code)
  "Return true if code from a newer version of CODE's file has been loaded."
  (let* ((source (code-source code))
         (path (and source (debug-source-namestring source)))
         (created (and path (file-created source))))
    (and created (< created (gethash path (freshness-sources freshness) 0)))))

(defun code-functions (code)
  "Return the functions of CODE that have records, each with its entry number."
  (loop for entry below (code-entry-count code)
        for function = (code-entry code entry)
        when (function-xrefs function)
          collect (cons function entry)))

(defun code-statuses (freshness code functions)
  "Return the status of each of FUNCTIONS, which are in CODE."
  ;; Functions without a global name get +CURRENT+ if a named function of CODE is current. Otherwise
  ;; they get +REPLACED+ if CODE has a named function, which is then not current, or if a newer
  ;; version of the file was loaded. Otherwise they keep +UNKNOWN+.
  (let* ((statuses (loop for (function) in functions
                         collect (named-status freshness function (simple-function-name function))))
         (others (loop for entry below (code-entry-count code)
                       for function = (code-entry code entry)
                       unless (find function functions :key #'car)
                         collect (named-status freshness function (simple-function-name function))))
         (all (append statuses others))
         (shared (cond ((member +current+ all) +current+)
                       ((or (member +replaced+ all) (member +not-installed+ all)) +replaced+)
                       ((outdated-source-p freshness code) +replaced+)
                       (t +unknown+))))
    ;; A definition inside a function is compiled with that function, and installed when that
    ;; function runs. Until then, it is as current as the function.
    (substitute (if (eql shared +current+) +current+ +replaced+) +not-installed+
                (substitute shared +unknown+ statuses))))

;;; Rows

(defun state-name (state name)
  "Return the number of the used name NAME, after appending its row if it is new."
  (let ((numbers (state-name-numbers state)))
    (or (gethash name numbers)
        (setf (gethash name numbers)
              (multiple-value-bind (symbol found) (principal-symbol name)
                (add-row (state-names state)
                         (and found (state-symbol state symbol))
                         (name-role name)
                         (if (symbolp name) +none+ (state-string state (name-text name)))))))))

(defun native-path (namestring)
  "Return NAMESTRING as a native name, or in its canonical form if it is logical."
  ;; Return NAMESTRING unchanged if it cannot be parsed.
  (handler-case
      (let ((pathname (parse-namestring namestring)))
        (if (typep pathname 'logical-pathname)
            (namestring pathname)
            (sb-ext:native-namestring pathname)))
    (unusable-file () namestring)))

(defun state-source (state source)
  "Return the number of SOURCE, a debug source, or NIL if it, or its buffer, has no file."
  (and source
       (stringp (debug-source-namestring source))
       (let ((numbers (state-source-numbers state))
             (properties (debug-source-properties source)))
         (or (gethash source numbers)
             (let* ((path (native-path (debug-source-namestring source)))
                    (created (version-or-text path (debug-source-created source) properties)))
               (and (or created (not (buffer-text-p properties)))
                    (setf (gethash source numbers)
                          (add-row (state-sources state)
                                   (state-string state path)
                                   (ldb (byte 32 0) (or created 0))
                                   (ldb (byte 32 32) (or created 0))))))))))

(defun function-position (function debug-functions)
  "Return the number of the top-level form that contains FUNCTION, and the form's offset."
  ;; The offset is that of the form in its file. Either value may be NIL. DEBUG-FUNCTIONS are those
  ;; of FUNCTION's code.
  (let* ((source (code-source (function-code function)))
         (form (function-toplevel-form function debug-functions))
         ;; For a text from a buffer, the starts are not offsets in the file.
         (starts (and form source
                      (not (buffer-text-p (debug-source-properties source)))
                      (debug-source-starts source))))
    (values form (and starts (< form (length starts)) (elt starts form)))))

(defun add-function (state name source form offset serial entry status)
  "Append the row of a function called NAME. Return its number."
  (multiple-value-bind (symbol found) (principal-symbol name)
    (add-row (state-functions state)
             (state-string state (name-text name))
             (and found (state-symbol state symbol))
             (function-kind name)
             source form offset serial entry status)))

(defun export-function (state function debug-functions serial entry status)
  "Append FUNCTION and its records. DEBUG-FUNCTIONS are those of FUNCTION's code."
  (multiple-value-bind (form offset) (function-position function debug-functions)
    (let ((row (add-function state (simple-function-name function)
                             (state-source state (code-source (function-code function)))
                             form offset serial entry status))
          (records (state-records state)))
      (map-function-xrefs
       (lambda (kind name form-number)
         (add-row records (kind-number kind) (state-name state name) row form-number))
       function))))

(defun own-code-p (code)
  "Return true if CODE is from our files, or the name of one of its functions contains our symbols."
  (let* ((source (code-source code))
         (path (and source (debug-source-namestring source))))
    (or (and (stringp path)
             (>= (length path) (length "steelbank/lisp/"))
             (string= "steelbank/lisp/" path :end2 (length "steelbank/lisp/")))
        (loop for entry below (code-entry-count code)
                thereis (own-name-p (simple-function-name (code-entry code entry)))))))

(defun code-with-records (above)
  "Return the code objects with records and a serial number higher than ABOVE, except ours."
  ;; The objects are in the order of their creation. Second value: the highest serial number of all
  ;; code with records, including ours.
  (check-type above (integer -1 #xFFFFFFFF))
  (let ((codes '())
        (highest 0))
    ;; The walk allocates little, because no collection can run.
    (map-code
     (lambda (code)
       (when (and (> (code-serial code) above)
                  (loop for entry below (code-entry-count code)
                        thereis (function-xrefs (code-entry code entry))))
         (setf highest (max highest (code-serial code)))
         (unless (own-code-p code)
           (push code codes))))
     ;; Skip the core if the baseline has its records.
     (and *baseline* (>= above (baseline-serial *baseline*))))
    ;; Sort the code objects, because their order in the heap differs between builds.
    (values (sort codes #'< :key #'code-serial) highest)))

(defun export-code (state since)
  "Append the functions and records of code newer than SINCE, and the current status of older code."
  ;; For code in the baseline, append only the functions that have been replaced. Return the highest
  ;; serial number seen.
  (let* ((baseline (state-baseline state))
         (base (if baseline (baseline-serial baseline) -1))
         (freshness (make-freshness)))
    (multiple-value-bind (codes highest)
        (code-with-records (if (and baseline (definitions-unchanged-p baseline)) base -1))
      (dolist (code codes)
        (when (> (code-serial code) base) (note-source freshness code)))
      (dolist (code codes (max highest since))
        (let* ((serial (code-serial code))
               (functions (code-functions code))
               (statuses (code-statuses freshness code functions))
               (new (or (null baseline) (> serial since)))
               (debug-functions (and new (code-debug-functions code))))
          (loop for (function . entry) in functions
                for status in statuses
                do (cond (new
                          (export-function state function debug-functions serial entry status))
                         ((> serial base) (add-row (state-survivors state) serial entry status))
                         ((= status +replaced+) (add-row (state-refuted state) serial entry)))))))))

(defun note-definitions (baseline)
  "Record in BASELINE the global definitions of functions that have records."
  (let ((names (make-hash-table :test 'equal)))
    (dolist (code (code-with-records -1))
      (loop for (function) in (code-functions code)
            for name = (simple-function-name function)
            do (cond ((gethash name names))
                     ((typep name 'method-function-name)
                      (unless (gethash (second name) names)
                        (setf (gethash (second name) names) t)
                        (note-definition baseline (second name))))
                     (t
                      (setf (gethash name names) t)
                      (note-definition baseline name)))))))

(defun note-definition (baseline name)
  "Record in BASELINE the definition of NAME, with its methods if it is a generic function."
  (let ((bound (bound-function name)))
    (cond ((null bound))
          ((and (symbolp name) (eq (global-symbol-function name) bound))
           (push (cons name bound) (baseline-functions baseline)))
          (t (push (cons name bound) (baseline-others baseline))))
    (when (typep bound 'generic-function)
      (push (cons bound (sb-mop:generic-function-methods bound)) (baseline-generics baseline)))))

(defun definitions-unchanged-p (baseline)
  "Return true if no function of the saved core, described by BASELINE, was replaced or removed."
  (flet ((same-p (now then)
           (or (eq now then)
               (let ((function (and now (underlying-function now))))
                 (and function (eq function (underlying-function then)))))))
    (and (loop for (name . then) in (baseline-functions baseline)
               always (same-p (global-symbol-function name) then))
         (loop for (name . then) in (baseline-others baseline)
               always (same-p (bound-function name) then))
         (loop for (generic-function . then) in (baseline-generics baseline)
               for now = (sb-mop:generic-function-methods generic-function)
               always (or (eq now then)
                          (subsetp then now :test #'eq))))))

;;; Methods by the classes that they specialize on. The object system records these; the compiler
;;; does not.

(defun map-specializations (function)
  "Call FUNCTION with class name and method for each method that specializes on a named class."
  ;; An EQL specializer counts as its object's class.
  (map-specializers
   (lambda (specializer)
     (let ((class (typecase specializer
                    (class-eq-specializer (class-eq-specializer-class specializer))
                    (sb-mop:eql-specializer (class-of (sb-mop:eql-specializer-object specializer)))
                    (class-specializer specializer))))
       (when (and (typep class 'class) (class-name class)
                  (eq (find-class (class-name class) nil) class))
         (dolist (method (sb-mop:specializer-direct-methods specializer))
           (funcall function (class-name class) method)))))))

(defun specializer-name (specializer)
  "Return SPECIALIZER as the name of a method shows it."
  (typecase specializer
    (class (or (class-name specializer) specializer))
    (sb-mop:eql-specializer (list 'eql (sb-mop:eql-specializer-object specializer)))
    (class-eq-specializer
     (list +class-eq+ (class-name (class-eq-specializer-class specializer))))
    (t specializer)))

(defun method-name (method)
  "Return the name that SBCL gives the function of METHOD, or NIL if METHOD is being replaced."
  ;; While another thread replaces METHOD, the method belongs to no generic function and has no
  ;; name. Read the generic function only once, because it may become NIL at any time.
  (let ((generic-function (sb-mop:method-generic-function method)))
    (and generic-function
         (list* +fast-method+
                (sb-mop:generic-function-name generic-function)
                (append (method-qualifiers method)
                        (list (mapcar #'specializer-name (sb-mop:method-specializers method))))))))

(defconstant +most-walks+ 8
  "The maximum number of walks over all methods in one export while other threads replace methods.")

(defun specializations ()
  "Return the methods that specialize on a class, as lists of class name, method and method name."
  ;; Repeat the walk while methods are being replaced. Methods that are being replaced in the last
  ;; walk have no name.
  (loop repeat +most-walks+
        for found = (let ((rows '()))
                      (map-specializations
                       (lambda (class method)
                         (push (list class method (method-name method)) rows)))
                      (nreverse rows))
        until (every #'third found)
        finally (return found)))

(sb-ext:define-load-time-global *left-out* '()
  "The methods without a name in the last export.")

(sb-ext:define-load-time-global *incomplete-exports* 0
  "The number of exports that found a nameless method which was not in *LEFT-OUT* before.")

(defun note-unnamed-methods (methods)
  "Record that this export found METHODS without names."
  ;; Count the export in *INCOMPLETE-EXPORTS*, unless the previous export found all of METHODS, too.
  (when (set-difference methods *left-out* :test #'eq)
    (incf *incomplete-exports*))
  (setf *left-out* methods))

(defun export-method (state method name number)
  "Append the row of METHOD, called NAME."
  (let* ((fast (method-fast-function method))
         (function (and fast (underlying-function fast)))
         (own (and function
                   (typep (simple-function-name function) 'fast-method-name))))
    (multiple-value-bind (form offset)
        (if own
            (function-position function (code-debug-functions (function-code function)))
            (values nil nil))
      (add-function state name
                    (and own (state-source state (code-source (function-code function))))
                    form offset +none+ number +current+))))

(defun export-methods (state)
  "Append the methods that the baseline lacks, and the numbers of its methods that were removed."
  ;; Return a table of the methods found and their numbers.
  (let* ((baseline (state-baseline state))
         (known (and baseline (baseline-methods baseline)))
         (seen (make-hash-table :test 'eq))
         (rows (make-hash-table :test 'eq))
         (next (if baseline (baseline-method-count baseline) 0))
         (left-out '()))
    (loop for (class method name) in (specializations)
          for old = (and known (gethash method known))
          unless name
            do (pushnew method left-out :test #'eq)
          do (cond (old (setf (gethash method seen) old))
                   ((null name))
                   ((own-name-p name))
                   (t (add-row (state-records state)
                               (kind-number :specializes)
                               (state-name state class)
                               (or (gethash method rows)
                                   (setf (gethash method seen) next
                                         (gethash method rows)
                                         (prog1 (export-method state method name next)
                                           (incf next))))
                               +none+))))
    (note-unnamed-methods left-out)
    (when baseline
      (let ((alive (make-array (baseline-method-count baseline)
                               :element-type 'bit :initial-element 0)))
        (loop for number being the hash-values of seen
              when (< number (length alive)) do (setf (aref alive number) 1))
        (loop for bit across alive
              for number from 0
              when (zerop bit) do (add-row (state-refuted state) +none+ number))))
    seen))

;;; The exports

(defun pack-state (state since highest)
  "Return STATE as one octet vector."
  (pack "SBXREF01" (list (last-code-serial) since highest) (state-pool state) (state-tables state)))

(defun unreferenced-code-p (since)
  "Return true if some code that is newer than SINCE contains no current definition."
  ;; Only a collection can determine whether such code is garbage.
  (let ((freshness (make-freshness)))
    (some (lambda (code)
            (notany (lambda (status) (= status +current+))
                    (code-statuses freshness code (code-functions code))))
          (code-with-records since))))

(sb-ext:define-load-time-global *consed-by-loads* 0
  "The number of octets that loads have allocated since an export last collected their garbage.")

(defun export-since (since)
  "Return the export of everything newer than the serial number SINCE."
  (let ((state (make-export-state *baseline*)))
    (export-packages state)
    (let ((highest (export-code state since)))
      (export-methods state)
      (pack-state state since highest))))

(defun xref-export (since)
  "Return an export for the host's index: what is newer than the serial number SINCE."
  ;; The export also contains the current status of older code, packages and methods. If SINCE is
  ;; before the baseline, export everything after the baseline; without a baseline, export
  ;; everything. After large loads, also collect their garbage, which would otherwise stay resident
  ;; until the next load.
  (check-type since (unsigned-byte 32))
  (let ((since (max since (if *baseline* (baseline-serial *baseline*) 0))))
    (flet ((collect-and-give-back ()
             ;; The runtime returns memory to the system only if it has collected generation 1.
             (sb-ext:gc :gen 2)))
      (cond ((> *consed-by-loads* (ash 1 26))
             (setf *consed-by-loads* 0)
             (collect-and-give-back)
             (prog1 (export-since since)
               ;; The tables of this export are garbage now, and as large as what was loaded. The
               ;; collection is fast, because there is little else to collect.
               (collect-and-give-back)))
            (t
             ;; Collect only young generations: the compiler's garbage is young, and a full
             ;; collection takes as long as loading a small file.
             (when (unreferenced-code-p since) (sb-ext:gc :gen 1))
             (export-since since))))))

(defun xref-baseline ()
  "Return an export of everything, to be embedded in the host; later exports are relative to it."
  ;; Must be called just before the core is saved.
  (setf *baseline* nil
        *consed-by-loads* 0)
  (sb-ext:gc :full t)
  (let ((state (make-export-state nil))
        (baseline (make-baseline)))
    (export-packages state)
    (let ((highest (export-code state 0)))
      (maphash (lambda (method number) (setf (gethash method (baseline-methods baseline)) number))
               (export-methods state))
      (setf (baseline-serial baseline) highest
            (baseline-method-count baseline) (hash-table-count (baseline-methods baseline)))
      (note-packages baseline state)
      (note-definitions baseline)
      (setf *baseline* baseline)
      (pack-state state 0 highest))))

(defun write-octets (octets path)
  "Write OCTETS to the file PATH."
  (check-type octets octets)
  (with-open-file (stream path :direction :output :if-exists :supersede
                               :element-type '(unsigned-byte 8))
    (write-sequence octets stream))
  path)
