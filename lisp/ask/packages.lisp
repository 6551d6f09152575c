;;;; package-info: returns what a package exports, uses and shadows.

(in-package :steelbank)

(defun sorted-texts (objects function)
  "Return the sorted strings that FUNCTION returns for OBJECTS."
  (sort (mapcar function objects) #'string<))

(defun home-name (symbol)
  "Return the name of SYMBOL's home package, or an empty string if it has none."
  (let ((package (symbol-package symbol)))
    (if package (package-name package) "")))

(define-question "package-info" (name)
  "Return the package NAME: nicknames, used and using packages, and symbols."
  (let ((package (find-package name)))
    (if (null package)
        (missing-object :no-package)
        (let ((exported '()) (internal 0) (imported '()) (home 0)
              (local (sort (copy-list (sb-ext:package-local-nicknames package))
                           #'string< :key #'car)))
          (do-external-symbols (symbol package)
            (push symbol exported))
          (with-package-iterator (next package :internal :external)
            (loop
              (multiple-value-bind (more symbol status) (next)
                (unless more (return))
                ;; Do not count symbols without a definition. Whether they are interned depends on
                ;; whether a file was read or its fasl was loaded.
                (let ((counts (if (symbol-kinds symbol) 1 0)))
                  (when (eq status :internal) (incf internal counts))
                  (if (eq (symbol-package symbol) package)
                      (incf home counts)
                      (push symbol imported))))))
          (object "status" "found"
                  "name" (package-name package)
                  "documentation" (documentation-text package t)
                  "nicknames" (sort (copy-list (package-nicknames package)) #'string<)
                  "local_nicknames" (loop for (nickname . actual) in local
                                          collect (format nil "~a = ~a" nickname
                                                          (package-name actual)))
                  "uses" (sorted-texts (package-use-list package) #'package-name)
                  "used_by" (sorted-texts (others-packages (package-used-by-list package))
                                          #'package-name)
                  "shadowing" (sorted-texts (package-shadowing-symbols package) #'symbol-text)
                  "implements" (remove (package-name package)
                                       (sorted-texts (sb-ext:package-implements-list package)
                                                     #'package-name)
                                       :test #'string=)
                  "locked" (and (sb-ext:package-locked-p package) :true)
                  "own_symbols" home
                  "internal_symbols" internal
                  "exports" (loop for symbol in (sort exported #'string< :key #'symbol-name)
                                  collect (object "name" (symbol-text symbol)
                                                  "package" (home-name symbol)
                                                  "symbol" (symbol-name symbol)
                                                  "kinds" (mapcar #'word (symbol-kinds symbol))))
                  "imports" (loop for symbol in (sort imported #'string< :key #'symbol-name)
                                  collect (object "name" (symbol-text symbol)
                                                  "package" (home-name symbol)
                                                  "symbol" (symbol-name symbol)))
                  "sources" (source-object (package-name package) :package))))))
