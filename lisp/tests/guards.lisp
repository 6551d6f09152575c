;;;; Errors that are not passed on: where, and which.

(in-package :steelbank-tests)

(deftest no-error-is-dropped-but-by-a-guard
    (loop for path in (directory (merge-pathnames "**/*.lisp" (asdf:system-source-directory "steelbank")))
          unless (member (first (last (pathname-directory path))) '("tests") :test #'equal)
            nconc (with-open-file (stream path :external-format :utf-8)
                    (loop for line = (read-line stream nil)
                          while line
                          when (search "(ignore-errors" line)
                            collect (format nil "~A.lisp: ~A" (pathname-name path) line))))
  nil)

(deftest a-file-that-is-of-no-use-is-none
    (mapcar (lambda (name) (steelbank::when-file-permits (sb-ext:native-namestring (truename (pathname name)))))
            '("/no/such/file" "*.lisp" "a[b" "/etc/passwd/below"))
  (nil nil nil nil))

(deftest other-errors-around-files-are-passed-on
    (handler-case (steelbank::when-file-permits (car (identity 1)))
      (type-error () :passed))
  :passed)

(deftest a-mistake-is-told-once
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
  (nil nil nil 2 ("A mistake of ours while looking: no looking" "A mistake of ours while thinking: no thinking")))

(deftest every-operator-has-a-type-and-a-lambda-list-that-can-be-told
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
