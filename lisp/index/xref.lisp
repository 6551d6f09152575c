;;;; Cross references: one pass over the code objects of the image, every record decoded once, packed for the host.
;;;;
;;;; sb-introspect decodes all records for every question. Here they are decoded once; the host keeps the inverted index.

(in-package :steelbank)

(defparameter *xref-kinds* #(:calls :macroexpands :binds :references :sets :specializes)
  "What a record may say, in the order of the host's own enumeration.")

(defparameter *name-roles* #(:plain setf sb-ext:cas compiler-macro :method sb-pcl::slot-accessor :other)
  "How a used name is made from its principal symbol, in the order of the host's own enumeration.")

(defparameter *function-kinds*
  #(:function setf macro-function compiler-macro sb-pcl::fast-method :local lambda
    sb-impl::setf-expander sb-impl::type-expander :transform sb-c::vop :other)
  "What a function is by its name, in the order of the host's own enumeration.")

(defconstant +unknown+ 0 "No global name says whether the function is still in use.")
(defconstant +current+ 1 "The function is what its name is bound to.")
(defconstant +replaced+ 2 "The function's name is bound to something else, or to nothing.")

(defun kind-number (kind)
  "The number of the record kind KIND."
  (position kind *xref-kinds*))

(defun name-role (name)
  "The number that says how NAME is made from its principal symbol."
  (position (cond ((symbolp name) :plain)
                  ((atom name) :other)
                  ((member (first name) '(sb-pcl::fast-method sb-pcl::slow-method)) :method)
                  ((find (first name) *name-roles*) (first name))
                  (t :other))
            *name-roles*))

(defun function-kind (name)
  "The number that says what a function called NAME is."
  (position (cond ((symbolp name) :function)
                  ((atom name) :other)
                  ((member (first name) '(flet labels)) :local)
                  ((member (first name) '(:source-transform sb-c:deftransform)) :transform)
                  ((eq (first name) 'sb-impl::%defsetf) 'sb-impl::setf-expander)
                  ((eq (first name) 'sb-pcl::slow-method) 'sb-pcl::fast-method)
                  ((find (first name) *function-kinds*) (first name))
                  (t :other))
            *function-kinds*))

;;; Freshness: is a function that the image still holds the one that its name means today?

(defun underlying-function (function)
  "The simple function behind FUNCTION, through closures and encapsulations. NIL for a generic function."
  (typecase function
    (sb-kernel:simple-fun function)
    (sb-kernel:closure
     (let ((inner (sb-kernel:%closure-fun function)))
       (if (eq (sb-kernel:%fun-name inner) 'sb-impl::encapsulation)
           (underlying-function (sb-impl::encapsulation-info-definition (sb-impl::encapsulation-info function)))
           inner)))
    (t nil)))

(defun bound-function (name)
  "What the global definition called NAME is bound to now, and true if NAME is of a kind that has global definitions."
  (labels ((first-function (value)
           (cond ((functionp value) value)
                 ((consp value) (or (first-function (car value)) (first-function (cdr value)))))))
    (cond ((and (symbolp name) name)
           (values (cond ((macro-function name))
                         ((fboundp name) (fdefinition name)))
                   t))
          ((not (and (consp name) (sb-int:proper-list-p name) (= (length name) 2))) (values nil nil))
          (t
           (let ((of (second name)))
             (case (first name)
               ((setf sb-ext:cas)
                (if (sb-int:legal-fun-name-p name)
                    (values (and (fboundp name) (fdefinition name)) t)
                    (values nil nil)))
               (macro-function (values (and (symbolp of) (macro-function of)) t))
               (compiler-macro (values (and (sb-int:legal-fun-name-p of) (compiler-macro-function of)) t))
               (sb-impl::type-expander
                (values (and (symbolp of) (first-function (sb-int:info :type :expander of))) t))
               ((sb-impl::setf-expander sb-impl::%defsetf)
                (values (and (symbolp of) (first-function (sb-int:info :setf :expander of))) t))
               (t (values nil nil))))))))

(defun method-functions (generic-function)
  "The simple functions of the methods of GENERIC-FUNCTION."
  (loop for method in (sb-mop:generic-function-methods generic-function)
        for function = (sb-pcl::safe-method-function method)
        for fast = (sb-pcl::safe-method-fast-function method)
        when fast collect (underlying-function fast)
        when (typep function 'sb-kernel:funcallable-instance)
          collect (underlying-function (sb-kernel:%funcallable-instance-fun function))
        when (typep function '(or sb-kernel:simple-fun sb-kernel:closure))
          collect (underlying-function function)))

(defun all-bound-functions ()
  "A table of the simple functions to which any global name is bound."
  (let ((table (make-hash-table :test 'eq)))
    (sb-int:call-with-each-globaldb-name
     (lambda (name)
       (when (and (sb-int:legal-fun-name-p name) (fboundp name)
                  (not (and (symbolp name) (or (macro-function name) (special-operator-p name)))))
         (let ((function (underlying-function (fdefinition name))))
           (when function (setf (gethash function table) t))))))
    table))

(defstruct (freshness (:constructor make-freshness ()))
  "What one export has found out about current definitions."
  (methods (make-hash-table :test 'equal) :read-only t)
  (bound nil)
  (sources (make-hash-table :test 'equal) :read-only t))

(defun same-code-p (function other)
  "True if FUNCTION and OTHER, simple functions, stand in one code object."
  (and other (eq (sb-kernel:fun-code-header function) (sb-kernel:fun-code-header other))))

(defun named-status (freshness function name)
  "Whether FUNCTION is what NAME, its own name, means now: +CURRENT+, +REPLACED+ or +UNKNOWN+."
  (if (typep name '(cons (member sb-pcl::fast-method sb-pcl::slow-method) cons))
      (let* ((owner (second name))
             (methods (freshness-methods freshness))
             (functions (multiple-value-bind (known found) (gethash owner methods)
                          (if found
                              known
                              (setf (gethash owner methods)
                                    (and (sb-int:legal-fun-name-p owner) (fboundp owner)
                                         (typep (fdefinition owner) 'generic-function)
                                         (method-functions (fdefinition owner))))))))
        (if (find function functions :test #'same-code-p) +current+ +replaced+))
      (multiple-value-bind (bound global) (bound-function name)
        (cond ((not global) +unknown+)
              ((same-code-p function (underlying-function bound)) +current+)
              ((gethash function (or (freshness-bound freshness)
                                     (setf (freshness-bound freshness) (all-bound-functions))))
               +current+)
              (t +replaced+)))))

(defun code-source (code)
  "The debug source of CODE, or NIL."
  (let ((info (sb-kernel:%code-debug-info code)))
    (and (typep info 'sb-c::debug-info)
         (let ((source (sb-c::debug-info-source info)))
           (and (typep source 'sb-c::debug-source) source)))))

(defun note-source (freshness code)
  "Remember the newest version of CODE's file."
  (let* ((source (code-source code))
         (path (and source (sb-c::debug-source-namestring source)))
         (created (and path (sb-c::debug-source-created source)))
         (sources (freshness-sources freshness)))
    (when (and created (> created (gethash path sources 0)))
      (setf (gethash path sources) created))))

(defun outdated-source-p (freshness code)
  "True if code from a newer version of CODE's file has been loaded."
  (let* ((source (code-source code))
         (path (and source (sb-c::debug-source-namestring source)))
         (created (and path (sb-c::debug-source-created source))))
    (and created (< created (gethash path (freshness-sources freshness) 0)))))

(defun code-functions (code)
  "The functions of CODE that hold records, each with its entry number."
  (loop for entry below (sb-kernel:code-n-entries code)
        for function = (sb-kernel:%code-entry-point code entry)
        when (sb-kernel:%simple-fun-xrefs function)
          collect (cons function entry)))

(defun code-statuses (freshness code functions)
  "The status of each of FUNCTIONS, which stand in CODE. One without a global name shares the fate of those that have one."
  (let* ((statuses (loop for (function) in functions
                         collect (named-status freshness function (sb-kernel:%simple-fun-name function))))
         (others (loop for entry below (sb-kernel:code-n-entries code)
                       for function = (sb-kernel:%code-entry-point code entry)
                       unless (find function functions :key #'car)
                         collect (named-status freshness function (sb-kernel:%simple-fun-name function))))
         (all (append statuses others))
         (shared (cond ((member +current+ all) +current+)
                       ((member +replaced+ all) +replaced+)
                       ((outdated-source-p freshness code) +replaced+)
                       (t +unknown+))))
    (substitute shared +unknown+ statuses)))

;;; Rows

(defun state-name (state name)
  "The number of the used name NAME."
  (let ((numbers (state-name-numbers state)))
    (or (gethash name numbers)
        (setf (gethash name numbers)
              (multiple-value-bind (symbol found) (principal-symbol name)
                (add-row (state-names state)
                         (and found (state-symbol state symbol))
                         (name-role name)
                         (if (symbolp name) +none+ (state-string state (name-text name)))))))))

(defun native-path (namestring)
  "NAMESTRING as the operating system writes it, or in its canonical form if it is logical."
  (handler-case
      (let ((pathname (parse-namestring namestring)))
        (if (typep pathname 'logical-pathname) (namestring pathname) (sb-ext:native-namestring pathname)))
    (error () namestring)))

(defun state-source (state source)
  "The number of SOURCE, a debug source, or NIL if it is no file."
  (and source
       (stringp (sb-c::debug-source-namestring source))
       (let ((numbers (state-source-numbers state)))
         (or (gethash source numbers)
             (setf (gethash source numbers)
                   (let ((created (or (sb-c::debug-source-created source) 0)))
                     (add-row (state-sources state)
                              (state-string state (native-path (sb-c::debug-source-namestring source)))
                              (ldb (byte 32 0) created)
                              (ldb (byte 32 32) created))))))))

(defun function-position (function)
  "The number of the top-level form that FUNCTION stands in, and that form's offset in the file. Either may be NIL."
  (let* ((code (sb-kernel:fun-code-header function))
         (source (code-source code))
         (debug-fun (ignore-errors (sb-di::fun-debug-fun function)))
         (form (and debug-fun
                    (sb-c::compiled-debug-fun-tlf-number (sb-di::compiled-debug-fun-compiler-debug-fun debug-fun))))
         (starts (and form source (sb-c::debug-source-start-positions source))))
    (values form (and starts (< form (length starts)) (elt starts form)))))

(defun add-function (state name source form offset serial entry status)
  "Append the row of a function called NAME. Returns its number."
  (multiple-value-bind (symbol found) (principal-symbol name)
    (add-row (state-functions state)
             (state-string state (name-text name))
             (and found (state-symbol state symbol))
             (function-kind name)
             source form offset serial entry status)))

(defun export-function (state function serial entry status)
  "Append FUNCTION and its records."
  (multiple-value-bind (form offset) (function-position function)
    (let ((row (add-function state (sb-kernel:%simple-fun-name function)
                             (state-source state (code-source (sb-kernel:fun-code-header function)))
                             form offset serial entry status))
          (records (state-records state)))
      (sb-c:map-packed-xref-data
       (lambda (kind name form-number)
         (add-row records (kind-number kind) (state-name state name) row form-number))
       (sb-kernel:%simple-fun-xrefs function)))))

(defun own-code-p (code)
  "True if CODE was compiled from a file of ours (see build-core.lisp), or one of its functions has a name of ours."
  (let* ((source (code-source code))
         (path (and source (sb-c::debug-source-namestring source))))
    (or (and (stringp path) (eql (mismatch "steelbank/lisp/" path) (length "steelbank/lisp/")))
        (loop for entry below (sb-kernel:code-n-entries code)
                thereis (own-name-p (sb-kernel:%simple-fun-name (sb-kernel:%code-entry-point code entry)))))))

(defun code-with-records (above)
  "The code objects, in the order of their making, that hold records, are not ours, and have a serial number higher
than ABOVE; and the highest serial number of all code with records, ours as well."
  (check-type above (integer -1 #xFFFFFFFF))
  (let ((codes '())
        (highest 0))
    ;; The walk allocates little, as it must while no collection can run.
    (map-code
     (lambda (code)
       (when (and (> (sb-kernel:%code-serialno code) above)
                  (loop for entry below (sb-kernel:code-n-entries code)
                        thereis (sb-kernel:%simple-fun-xrefs (sb-kernel:%code-entry-point code entry))))
         (setf highest (max highest (sb-kernel:%code-serialno code)))
         (unless (own-code-p code)
           (push code codes))))
     ;; The baseline has all records of the core.
     (and *baseline* (>= above (baseline-serial *baseline*))))
    ;; The heap's order differs from build to build.
    (values (sort codes #'< :key #'sb-kernel:%code-serialno) highest)))

(defun export-code (state since)
  "Append the functions and records of code newer than SINCE, and what has become of older code.
Returns the highest serial number seen."
  (let* ((baseline (state-baseline state))
         (base (if baseline (baseline-serial baseline) -1))
         (freshness (make-freshness)))
    (multiple-value-bind (codes highest)
        (code-with-records (if (and baseline (definitions-kept-p baseline)) base -1))
      (dolist (code codes)
        (when (> (sb-kernel:%code-serialno code) base) (note-source freshness code)))
      (dolist (code codes (max highest since))
        (let* ((serial (sb-kernel:%code-serialno code))
               (functions (code-functions code))
               (statuses (code-statuses freshness code functions)))
          (loop for (function . entry) in functions
                for status in statuses
                do (cond ((or (null baseline) (> serial since))
                          (export-function state function serial entry status))
                         ((> serial base) (add-row (state-survivors state) serial entry status))
                         ((= status +replaced+) (add-row (state-refuted state) serial entry)))))))))

(defun note-definitions (baseline)
  "Let BASELINE remember what the global names of functions with records are bound to."
  (let ((names (make-hash-table :test 'equal)))
    (dolist (code (code-with-records -1))
      (loop for (function) in (code-functions code)
            for name = (sb-kernel:%simple-fun-name function)
            do (cond ((gethash name names))
                     ((typep name '(cons (member sb-pcl::fast-method sb-pcl::slow-method) cons))
                      (unless (gethash (second name) names)
                        (setf (gethash (second name) names) t)
                        (note-definition baseline (second name))))
                     (t
                      (setf (gethash name names) t)
                      (note-definition baseline name)))))))

(defun note-definition (baseline name)
  "Let BASELINE remember what NAME is bound to, and the methods if it is a generic function."
  (let ((bound (bound-function name)))
    (cond ((null bound))
          ((and (symbolp name) (eq (sb-impl::%symbol-function name) bound))
           (push (cons name bound) (baseline-functions baseline)))
          (t (push (cons name bound) (baseline-others baseline))))
    (when (typep bound 'generic-function)
      (push (cons bound (sb-mop:generic-function-methods bound)) (baseline-generics baseline)))))

(defun definitions-kept-p (baseline)
  "True if all that BASELINE remembers still holds: no function of the saved core has been replaced."
  (flet ((same-p (now then)
           (or (eq now then)
               (let ((function (and now (underlying-function now))))
                 (and function (eq function (underlying-function then)))))))
    (and (loop for (name . then) in (baseline-functions baseline)
               always (same-p (sb-impl::%symbol-function name) then))
         (loop for (name . then) in (baseline-others baseline)
               always (same-p (bound-function name) then))
         (loop for (generic-function . then) in (baseline-generics baseline)
               for now = (sb-mop:generic-function-methods generic-function)
               always (or (eq now then)
                          (subsetp then now :test #'eq))))))

;;; Methods, by the classes on which they specialize. The compiler does not record them; the object system knows.

(defun map-specializations (function)
  "Call FUNCTION with a class's name and each method that specializes on the class directly, or on an instance of it."
  (sb-pcl::map-specializers
   (lambda (specializer)
     (let ((class (typecase specializer
                    (sb-pcl::class-eq-specializer (sb-pcl::specializer-object specializer))
                    (sb-pcl::eql-specializer (class-of (sb-mop:eql-specializer-object specializer)))
                    (sb-pcl::standard-specializer specializer))))
       (when (and (typep class 'class) (class-name class) (eq (find-class (class-name class) nil) class))
         (dolist (method (sb-mop:specializer-direct-methods specializer))
           (funcall function (class-name class) method)))))))

(defun method-name (method)
  "The name of METHOD, as its function is called."
  (list* 'sb-pcl::fast-method
         (sb-mop:generic-function-name (sb-mop:method-generic-function method))
         (append (method-qualifiers method)
                 (list (loop for specializer in (sb-mop:method-specializers method)
                             collect (typecase specializer
                                       (class (or (class-name specializer) specializer))
                                       (sb-mop:eql-specializer
                                        (list 'eql (sb-mop:eql-specializer-object specializer)))
                                       (sb-pcl::class-eq-specializer
                                        (list 'sb-pcl::class-eq
                                              (class-name (sb-pcl::specializer-object specializer))))
                                       (t specializer)))))))

(defun export-method (state method number)
  "Append the row of METHOD."
  (let* ((fast (sb-pcl::safe-method-fast-function method))
         (function (and fast (underlying-function fast)))
         (own (and function
                   (typep (sb-kernel:%simple-fun-name function) '(cons (eql sb-pcl::fast-method))))))
    (multiple-value-bind (form offset) (if own (function-position function) (values nil nil))
      (add-function state (method-name method)
                    (and own (state-source state (code-source (sb-kernel:fun-code-header function))))
                    form offset +none+ number +current+))))

(defun export-methods (state)
  "Append all methods that are not in the baseline, and the numbers of those that no longer exist.
Returns a table of the methods met and their numbers."
  (let* ((baseline (state-baseline state))
         (known (and baseline (baseline-methods baseline)))
         (seen (make-hash-table :test 'eq))
         (rows (make-hash-table :test 'eq))
         (next (if baseline (baseline-method-count baseline) 0)))
    (map-specializations
     (lambda (class method)
       (let ((old (and known (gethash method known))))
         (cond (old (setf (gethash method seen) old))
               ((own-name-p (method-name method)))
               (t (add-row (state-records state)
                           (kind-number :specializes)
                           (state-name state class)
                           (or (gethash method rows)
                               (setf (gethash method seen) next
                                     (gethash method rows)
                                     (prog1 (export-method state method next) (incf next))))
                           +none+))))))
    (when baseline
      (let ((alive (make-array (baseline-method-count baseline) :element-type 'bit :initial-element 0)))
        (loop for number being the hash-values of seen
              when (< number (length alive)) do (setf (aref alive number) 1))
        (loop for bit across alive
              for number from 0
              when (zerop bit) do (add-row (state-refuted state) +none+ number))))
    seen))

;;; The exports

(defun pack-state (state since highest)
  "STATE as one octet vector."
  (pack "SBXREF01" (list sb-vm::*code-alloc-count* since highest) (state-pool state) (state-tables state)))

(defun unreferenced-code-p (since)
  "True if there is code newer than SINCE whose functions have no current name, so that only a collection tells if it is garbage."
  (let ((freshness (make-freshness)))
    (some (lambda (code)
            (notany (lambda (status) (= status +current+))
                    (code-statuses freshness code (code-functions code))))
          (code-with-records since))))

(defun xref-export (since)
  "All that the host's index must learn: code newer than the serial number SINCE, and the fate of older code, names and methods.
With no baseline, or a SINCE before it, everything after the baseline."
  (check-type since (unsigned-byte 32))
  (let* ((state (make-export-state *baseline*))
         (since (max since (if *baseline* (baseline-serial *baseline*) 0))))
    ;; What compiling leaves behind is young; a full collection takes as long as loading a small file.
    (when (unreferenced-code-p since) (sb-ext:gc :gen 1))
    (export-packages state)
    (let ((highest (export-code state since)))
      (export-methods state)
      (pack-state state since highest))))

(defun xref-baseline ()
  "Everything, to be embedded in the host; what comes later is measured against it. Call it just before the core is saved."
  (setf *baseline* nil)
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
  (with-open-file (stream path :direction :output :if-exists :supersede :element-type '(unsigned-byte 8))
    (write-sequence octets stream))
  path)
