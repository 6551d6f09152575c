;;;; Settled systems: those that have not changed, of which a plan is told.

(in-package :steelbank-tests)

(defun write-text (path text)
  "Have the file PATH hold TEXT."
  (ensure-directories-exist path)
  (with-open-file (stream path :direction :output :if-exists :supersede)
    (write-string text stream))
  path)

(defun call-with-settled-project (function)
  "Call FUNCTION with the folder of a system with a document that is not there, and with a part of its own, after both were loaded and
settled; then have ASDF forget them."
  (let ((folder (uiop:ensure-directory-pathname
                 (format nil "~Asteelbank-settled-~36R/" (sb-ext:native-namestring (uiop:temporary-directory))
                         (random (expt 2 64) (make-random-state t))))))
    (unwind-protect
         (progn
           (write-text (merge-pathnames "settling.asd" folder)
                       "(defsystem \"settling\" :depends-on (\"settling/base\")
                          :components ((:static-file \"missing.txt\") (:file \"whole\")))
                        (defsystem \"settling/base\" :components ((:file \"base\")))")
           (write-text (merge-pathnames "base.lisp" folder) "(in-package :cl-user)")
           (write-text (merge-pathnames "whole.lisp" folder) "(in-package :cl-user)")
           (clrhash steelbank::*settled-systems*)
           ;; Make all files count as old: no test waits for that.
           (steelbank::encapsulate 'steelbank::file-stamp 'old
                               (lambda (function file)
                                 (let ((found (funcall function file)))
                                   (when (consp found)
                                     (decf (first found) 3600)
                                     (decf (third found) 3600))
                                   found)))
           (asdf:load-asd (merge-pathnames "settling.asd" folder))
           (asdf:load-system "settling")
           (steelbank::settle-loaded-systems)
           (funcall function folder))
      (steelbank::unencapsulate 'steelbank::file-stamp 'old)
      (asdf:clear-system "settling")
      (asdf:clear-system "settling/base")
      (uiop:delete-directory-tree folder :validate t :if-does-not-exist :ignore))))

(defun settled-names ()
  "The names of the systems of CALL-WITH-SETTLED-PROJECT that have not changed."
  (remove "settling" (sort (mapcar #'asdf:component-name (steelbank::unchanged-systems)) #'string<)
          :test-not (lambda (prefix name) (eql 0 (search prefix name)))))

(deftest systems-with-parts-and-without-a-document-are-settled
    (call-with-settled-project (lambda (folder) (declare (ignore folder)) (settled-names)))
  ("settling" "settling/base"))

(deftest a-document-that-comes-to-be-unsettles-its-system-alone
    (call-with-settled-project (lambda (folder)
                                 (write-text (merge-pathnames "missing.txt" folder) "here")
                                 (settled-names)))
  ("settling/base"))

(deftest a-definition-that-is-touched-unsettles-all-of-its-systems
    (call-with-settled-project (lambda (folder)
                                 (write-text (merge-pathnames "settling.asd" folder)
                                             "(defsystem \"settling\")")
                                 (settled-names)))
  nil)

(deftest a-part-that-changes-unsettles-what-depends-on-it
    (call-with-settled-project (lambda (folder)
                                 (write-text (merge-pathnames "base.lisp" folder) "(in-package :cl-user) 1")
                                 (settled-names)))
  nil)

;;; Definitions that are as they were read

(defun call-with-read-definition (function)
  "Call FUNCTION with the path and the native name of a system definition that was read, and that is known to be as it was."
  (call-with-file "defined.asd" "(defsystem \"defined\")"
                  (lambda (path)
                    (let ((file (sb-ext:native-namestring path))
                          (steelbank::*loaded-files* (make-hash-table :test 'equal :synchronized t)))
                      (write-text path "(defsystem \"defined\")")
                      (setf (gethash file steelbank::*loaded-files*) (steelbank::current-version path)
                            (gethash file steelbank::*definitions-as-read*)
                            (cons (gethash file steelbank::*loaded-files*) (steelbank::file-stamp file)))
                      (unwind-protect (funcall function path file)
                        (remhash file steelbank::*definitions-as-read*))))))

(deftest a-definition-that-was-not-touched-is-as-it-was-read
    (call-with-read-definition
     (lambda (path file)
       (declare (ignore path))
       (and (steelbank::definition-as-read-p file (gethash file steelbank::*loaded-files*)) t)))
  t)

(deftest a-definition-of-another-text-and-the-same-date-is-read-again
    (call-with-read-definition
     (lambda (path file)
       (declare (ignore file))
       (write-text path "(defsystem \"DEFINED\")")
       (sb-posix:utime path 0 0)
       (mapcar #'pathname-name (steelbank::changed-definitions))))
  ("defined"))

(deftest a-definition-that-was-read-again-is-looked-at-again
    (call-with-read-definition
     (lambda (path file)
       (setf (gethash file steelbank::*loaded-files*) (steelbank::current-version path))
       (steelbank::definition-as-read-p file (gethash file steelbank::*loaded-files*))))
  nil)

;;; Names of files

(deftest truenames-follow-links-as-truename-does
    (call-with-file "here.lisp" ""
                    (lambda (path)
                      (let ((link (merge-pathnames "link.lisp" path)))
                        (sb-posix:symlink path link)
                        (unwind-protect
                             (flet ((named ()
                                      (list (equal (steelbank::native-truename link)
                                                   (sb-ext:native-namestring (truename link)))
                                            (equal (steelbank::native-truename path)
                                                   (sb-ext:native-namestring (truename path)))
                                            (equal (steelbank::native-truename (merge-pathnames "absent.lisp" path))
                                                   (sb-ext:native-namestring (merge-pathnames "absent.lisp" path))))))
                               ;; A folder that is known does not hide that its file is a link, or absent.
                               (append (named)
                                       (steelbank::with-real-folders
                                         (append (named) (named)))))
                          (delete-file link)))))
  (t t t t t t t t t))
