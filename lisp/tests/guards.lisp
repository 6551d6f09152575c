;;;; Tests of the guards that ignore errors.

(in-package :steelbank-tests)

(deftest only-guards-ignore-errors
    (loop for path in (directory (merge-pathnames "**/*.lisp"
                                                  (asdf:system-source-directory "steelbank")))
          unless (member (first (last (pathname-directory path))) '("tests") :test #'equal)
            nconc (with-open-file (stream path :external-format :utf-8)
                    (loop for line = (read-line stream nil)
                          while line
                          when (search "(ignore-errors" line)
                            collect (format nil "~A.lisp: ~A" (pathname-name path) line))))
  nil)

(deftest unusable-file-is-nil
    (mapcar (lambda (name)
              (steelbank::when-file-permits
                (sb-ext:native-namestring (truename (pathname name)))))
            '("/no/such/file" "*.lisp" "a[b" "/etc/passwd/below"))
  (nil nil nil nil))

(deftest other-errors-around-files-are-signalled
    (handler-case (steelbank::when-file-permits (car (identity 1)))
      (type-error () :passed))
  :passed)

(deftest internal-error-is-reported-once
    (let ((said '())
          (steelbank::*own-errors-reported* '()))
      (steelbank::encapsulate 'steelbank::report 'test (lambda (function sentence)
                                                         (declare (ignore function))
                                                         (push sentence said)))
      (unwind-protect
           (flet ((mistaken (what) (steelbank::reporting-own-errors (what) (error "no ~A" what))))
             (list (mistaken "looking") (mistaken "looking") (mistaken "thinking")
                   (steelbank::reporting-own-errors ("adding") (+ 1 1))
                   (reverse said)))
        (steelbank::unencapsulate 'steelbank::report 'test)))
  (nil nil nil 2 ("Internal error while looking: no looking"
                  "Internal error while thinking: no thinking")))

(deftest every-operator-has-type-and-lambda-list
    (let ((failed '()))
      (do-all-symbols (symbol)
        (when (fboundp symbol)
          (handler-case (progn (sb-introspect:function-type symbol)
                               (steelbank::known-lambda-list symbol)
                               (when (compiler-macro-function symbol)
                                 (steelbank::known-lambda-list (compiler-macro-function symbol))))
            (error () (pushnew symbol failed))))
        (when (steelbank::defined-type-p symbol)
          (handler-case (sb-introspect:deftype-lambda-list symbol)
            (error () (pushnew symbol failed)))))
      failed)
  nil)
