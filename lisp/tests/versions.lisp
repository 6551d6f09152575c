;;;; Tests that files are read only when their stamps do not suffice.

(in-package :steelbank-tests)

(defun call-counting-reads (function)
  "Call FUNCTION with a function that returns how many files were read since its last call."
  ;; All files look old.
  (let ((reads 0))
    (unwind-protect
         (progn
           (steelbank::encapsulate 'steelbank::older-than-clock-grain-p 'old (constantly t))
           (steelbank::encapsulate 'steelbank::current-version 'counted
                               (lambda (function path)
                                 (incf reads)
                                 (funcall function path)))
           (funcall function (lambda () (shiftf reads 0))))
      (steelbank::unencapsulate 'steelbank::older-than-clock-grain-p 'old)
      (steelbank::unencapsulate 'steelbank::current-version 'counted))))

(defun stamp-now (path version stamp)
  "Return the stamp of PATH as VERSION-NOW returns it, and whether the contents match VERSION."
  (multiple-value-bind (found stamp)
      (steelbank::version-now path version stamp #'steelbank::reliable-stamp)
    (values stamp (steelbank::same-contents-p found version))))

(deftest untouched-file-is-not-read-again
    (call-with-file
     "kept.lisp" "(list 1)"
     (lambda (path)
       (let ((version (steelbank::current-version path))
             (date (sb-posix:stat-mtime (sb-posix:stat path))))
         (call-counting-reads
          (lambda (reads)
            (multiple-value-bind (stamp same) (stamp-now path version nil)
              (flet ((again () (list (nth-value 1 (stamp-now path version stamp)) (funcall reads))))
                (let ((first (list same (funcall reads))) (second (again)))
                  ;; File dates advance in steps of some milliseconds.
                  (sleep 0.05)
                  (write-text path "(list 2)")
                  (sb-posix:utimes path date date)
                  (list first second (again))))))))))
  ((t 1) (t 0) (nil 1)))

(deftest recently-written-file-is-always-read
    (call-with-file "young.lisp" "(list 1)"
                    (lambda (path)
                      (let ((version (steelbank::current-version path)))
                        (nth-value 1 (steelbank::version-now path version nil
                                                             #'steelbank::reliable-stamp)))))
  nil)

(deftest hard-link-keeps-the-written-stamp
    (call-with-file "linked.lisp" "(list 1)"
                    (lambda (path)
                      (call-counting-reads
                       (lambda (reads)
                         (declare (ignore reads))
                         (let* ((name (sb-ext:native-namestring path))
                                (link (concatenate 'string name ".link"))
                                (written (steelbank::written-stamp name))
                                (whole (steelbank::reliable-stamp name)))
                           (sleep 0.05)
                           (sb-posix:link name link)
                           (unwind-protect (list (equal written (steelbank::written-stamp name))
                                                 (equal whole (steelbank::reliable-stamp name)))
                             (sb-posix:unlink link)))))))
  (t nil))

(deftest failed-truename-is-retried
    (loop for condition in (list (make-condition 'type-error :datum nil :expected-type 'pathname)
                                 (make-condition 'file-error :pathname #p"a"))
          collect (let ((calls 0))
                    (steelbank::steady-query
                     (lambda (path query error-p)
                       (declare (ignore error-p))
                       (if (= 1 (incf calls)) (error condition) (list path query calls)))
                     "a" :truename nil)))
  (("a" :truename 2) ("a" :truename 2)))

(deftest compilation-is-retried-after-a-missing-file
    (call-with-file "there.fasl" ""
                    (lambda (path)
                      (let ((steelbank::*cache-directory* (uiop:pathname-directory-pathname path))
                            (calls 0))
                        (steelbank::call-in-shared-cache (lambda ()
                                                           (if (< (incf calls) 3)
                                                               (error 'file-error :pathname path)
                                                               calls))))))
  3)

(deftest native-file-octets-reads-whole-files
    (call-with-file "octets" "abc"
                    (lambda (path)
                      (let* ((name (sb-ext:native-namestring path))
                             (gone (concatenate 'string name "-gone")))
                        (list (coerce (steelbank::native-file-octets name 3) 'list)
                              (coerce (steelbank::native-file-octets name 2) 'list)
                              (coerce (steelbank::native-file-octets name 5) 'list)
                              (steelbank::native-file-octets gone 3)
                              (mapcar #'steelbank::special-file-p (list name gone "/dev/zero" "/"))
                              (length (steelbank::octets-if-any #p"/dev/zero"))
                              (steelbank::stamp-size (steelbank::file-stamp name))))))
  ((97 98 99) (97 98) (97 98 99 0 0) nil (nil nil t t) 0 3))
