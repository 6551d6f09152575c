;;;; Tests of up-to-date systems, which have not changed and are registered as done for ASDF's plan.

(in-package :steelbank-tests)

(defun write-text (path text)
  "Write TEXT to the file PATH."
  (ensure-directories-exist path)
  (with-open-file (stream path :direction :output :if-exists :supersede)
    (write-string text stream))
  path)

(defun call-with-up-to-date-project (function)
  "Call FUNCTION with the folder of a system that is loaded and recorded as up to date."
  ;; The system has a missing document and a secondary system. Make ASDF forget both systems
  ;; afterwards.
  (let ((folder (uiop:ensure-directory-pathname
                 (format nil "~Asteelbank-up-to-date-~36R/"
                         (sb-ext:native-namestring (uiop:temporary-directory))
                         (random (expt 2 64) (make-random-state t))))))
    (unwind-protect
         (progn
           (write-text (merge-pathnames "settling.asd" folder)
                       "(defsystem \"settling\" :depends-on (\"settling/base\")
                          :components ((:static-file \"missing.txt\") (:file \"whole\")))
                        (defsystem \"settling/base\" :components ((:file \"base\")))")
           (write-text (merge-pathnames "base.lisp" folder) "(in-package :cl-user)")
           (write-text (merge-pathnames "whole.lisp" folder) "(in-package :cl-user)")
           (clrhash steelbank::*up-to-date-systems*)
           ;; Make all files look old, so that tests need not wait.
           (steelbank::encapsulate 'steelbank::file-stamp 'old
                               (lambda (function file)
                                 (let ((found (funcall function file)))
                                   (when (consp found)
                                     (decf (first found) 3600)
                                     (decf (third found) 3600))
                                   found)))
           (asdf:load-asd (merge-pathnames "settling.asd" folder))
           (asdf:load-system "settling")
           (steelbank::note-loaded-systems)
           (funcall function folder))
      (steelbank::unencapsulate 'steelbank::file-stamp 'old)
      (asdf:clear-system "settling")
      (asdf:clear-system "settling/base")
      (uiop:delete-directory-tree folder :validate t :if-does-not-exist :ignore))))

(defun up-to-date-names ()
  "Return the names of the systems of CALL-WITH-UP-TO-DATE-PROJECT that have not changed."
  (remove "settling" (sort (mapcar #'asdf:component-name (steelbank::unchanged-systems)) #'string<)
          :test-not (lambda (prefix name) (eql 0 (search prefix name)))))

(deftest system-with-missing-document-is-up-to-date
    (call-with-up-to-date-project (lambda (folder) (declare (ignore folder)) (up-to-date-names)))
  ("settling" "settling/base"))

(deftest new-document-affects-only-its-system
    (call-with-up-to-date-project (lambda (folder)
                                 (write-text (merge-pathnames "missing.txt" folder) "here")
                                 (up-to-date-names)))
  ("settling/base"))

(deftest touched-definition-affects-all-its-systems
    (call-with-up-to-date-project (lambda (folder)
                                 (write-text (merge-pathnames "settling.asd" folder)
                                             "(defsystem \"settling\")")
                                 (up-to-date-names)))
  nil)

(deftest changed-system-affects-its-dependents
    (call-with-up-to-date-project (lambda (folder)
                                 (write-text (merge-pathnames "base.lisp" folder)
                                             "(in-package :cl-user) 1")
                                 (up-to-date-names)))
  nil)

;;; Unchanged system definitions

(defun call-with-read-definition (function)
  "Call FUNCTION with path and native name of a system definition that is recorded as unchanged."
  (call-with-file
   "defined.asd" "(defsystem \"defined\")"
   (lambda (path)
     (let ((file (sb-ext:native-namestring path))
           (steelbank::*loaded-files* (make-hash-table :test 'equal :synchronized t)))
       (write-text path "(defsystem \"defined\")")
       (setf (gethash file steelbank::*loaded-files*) (steelbank::current-version path)
             (gethash file steelbank::*definitions-as-read*)
             (cons (gethash file steelbank::*loaded-files*) (steelbank::file-stamp file)))
       (unwind-protect (funcall function path file)
         (remhash file steelbank::*definitions-as-read*))))))

(deftest untouched-definition-is-unchanged
    (call-with-read-definition
     (lambda (path file)
       (declare (ignore path))
       (and (steelbank::definition-as-read-p file (gethash file steelbank::*loaded-files*)) t)))
  t)

(deftest changed-definition-with-same-date-is-reread
    (call-with-read-definition
     (lambda (path file)
       (declare (ignore file))
       (write-text path "(defsystem \"DEFINED\")")
       (sb-posix:utime path 0 0)
       (mapcar #'pathname-name (steelbank::changed-definitions))))
  ("defined"))

(deftest reread-definition-is-checked-again
    (call-with-read-definition
     (lambda (path file)
       (setf (gethash file steelbank::*loaded-files*) (steelbank::current-version path))
       (steelbank::definition-as-read-p file (gethash file steelbank::*loaded-files*))))
  nil)

;;; Names of files

(deftest native-truename-agrees-with-truename
    (call-with-file
     "here.lisp" ""
     (lambda (path)
       (let ((link (merge-pathnames "link.lisp" path))
             (absent (merge-pathnames "absent.lisp" path)))
         (sb-posix:symlink path link)
         (unwind-protect
              (flet ((named ()
                       (list (equal (steelbank::native-truename link)
                                    (sb-ext:native-namestring (truename link)))
                             (equal (steelbank::native-truename path)
                                    (sb-ext:native-namestring (truename path)))
                             (equal (steelbank::native-truename absent)
                                    (sb-ext:native-namestring absent)))))
                ;; A cached folder must not hide that its file is a link or missing.
                (append (named)
                        (steelbank::with-real-folders (append (named) (named)))))
           (delete-file link)))))
  (t t t t t t t t t))
