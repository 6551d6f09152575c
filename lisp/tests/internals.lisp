;;;; The table of SBCL's internals: it is right, and whole.

(in-package :steelbank-tests)

(defun used-internals ()
  "The symbols of SBCL's packages that the Lisp half's sources write with two colons, as (package . name)."
  (let ((used '())
        (root (asdf:system-source-directory "steelbank")))
    (dolist (component (asdf:component-children (asdf:find-system "steelbank")))
      (with-open-file (stream (asdf:component-pathname component) :external-format :utf-8)
        (loop for line = (read-line stream nil)
              while line
              do (loop with start = 0
                       for colons = (search "::" line :start2 start)
                       while colons
                       do (let* ((before (or (position-if-not (lambda (c) (or (alphanumericp c) (char= c #\-)))
                                                              line :end colons :from-end t)
                                             -1))
                                 (end (or (position-if (lambda (c) (find c " ()'\"`,;")) line :start (+ colons 2))
                                          (length line)))
                                 (package (string-upcase (subseq line (1+ before) colons)))
                                 (name (string-right-trim ".:" (string-upcase (subseq line (+ colons 2) end)))))
                            (when (and (uiop:string-prefix-p "SB-" package) (plusp (length name)))
                              (pushnew (cons package name) used :test #'equal))
                            (setf start (+ colons 2)))))))
    (values used root)))

(deftest internals-are-what-they-were
    (steelbank::internal-differences)
  nil)

(deftest the-table-of-internals-is-whole
    (let ((used (used-internals))
          (known (loop for (package name) in steelbank::*internals* collect (cons package name))))
      (list (> (length used) 100)
            (set-difference used known :test #'equal)
            (set-difference known used :test #'equal)))
  (t nil nil))

(deftest a-difference-is-told-by-name
    (list (steelbank::internal-difference "SB-C" "NO-SUCH-THING" :function "()")
          (steelbank::internal-difference "SB-IMPL" "%DEFPACKAGE" :macro "()"))
  ("SB-C::NO-SUCH-THING is not there."
   "SB-IMPL::%DEFPACKAGE is a function (NAME NICKNAMES SIZE SHADOWS SHADOWING-IMPORTS USE IMPORTS INTERNS EXPORTS IMPLEMENT LOCAL-NICKNAMES LOCK SOURCE-LOCATION &OPTIONAL DOC), and was a macro ()."))
