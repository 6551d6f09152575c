;;;; Fasls and sidecars in a cache of our own: where they go, when they are fit to be loaded, and when they are stale.

(in-package :steelbank)

(defvar *cache-directory* nil
  "Where fasls and sidecars go: a directory of our own, so that they never clash with the user's.")

(defvar *loaded-files* (make-hash-table :test 'equal :synchronized t)
  "Native truename of each source file loaded through us -> its write date at that time.")

(defvar *racy-files* (make-hash-table :test 'equal)
  "Native truename of each source file that was read within the second in which it was written -> the hash of
what was read. ASDF compares dates in seconds, and would not see a change within that second.")

(defun use-own-cache ()
  "Have ASDF keep fasls in the cache. An init file or a system may have told it something else."
  (when *cache-directory*
    (asdf:initialize-output-translations
     `(:output-translations (t (,*cache-directory* "fasls" :implementation :**/ :*.*.*))
                            :ignore-inherited-configuration))))

(defun sidecar-directory ()
  "Where sidecars are kept."
  (merge-pathnames "taps/" *cache-directory*))

(defun in-cache-p (path)
  "True when PATH names something in the cache."
  (and path
       *cache-directory*
       (ignore-errors (uiop:subpathp path *cache-directory*))
       t))

(defun cache-trouble-p (condition)
  "True when CONDITION says that a file of the cache cannot be read or written."
  (typecase condition
    (file-error (in-cache-p (file-error-pathname condition)))
    (end-of-file nil)
    (stream-error (let ((stream (stream-error-stream condition)))
                    (and (typep stream 'file-stream) (in-cache-p (ignore-errors (pathname stream))))))))

;;; Fit to be loaded

(defun damaged-fasl-p (condition fasl)
  "True when CONDITION, signalled while the file FASL is loaded, says that it is not there, or no whole fasl of this
SBCL."
  (flet ((this-p (stream)
           (and (typep stream 'file-stream)
                (uiop:pathname-equal (ignore-errors (pathname stream)) fasl))))
    (typecase condition
      (sb-fasl::invalid-fasl (this-p (sb-fasl::invalid-fasl-stream condition)))
      (end-of-file (this-p (stream-error-stream condition)))
      (file-error (and (uiop:pathname-equal (file-error-pathname condition) fasl)
                       (not (probe-file fasl))))
      (simple-error (let ((control (simple-condition-format-control condition)))
                      (and (stringp control)
                           (or (search "empty FASL file" control)
                               (search "corrupt fasl file" control))))))))

(defun fasl-file-p (path)
  "True when the file PATH begins as a fasl. SBCL loads any other as source, and an empty one not at all."
  (with-open-file (stream path :element-type '(unsigned-byte 8) :if-does-not-exist nil)
    (and stream (sb-fasl::fasl-header-p stream))))

(defun compiled-source (component)
  "The source file that the fasl of COMPONENT is compiled from, or NIL if there is none."
  (let ((file (first (asdf:input-files (asdf:make-operation 'asdf:compile-op) component))))
    (and file (probe-file file))))

(defun sidecar-lost-p (component)
  "True when the sidecar of what the fasl of COMPONENT was compiled from is not in the cache."
  (let ((source (compiled-source component)))
    (and source
         (not (probe-file (merge-pathnames
                           (sb-ext:parse-native-namestring (sidecar-name source (file-write-date source)))
                           (sidecar-directory)))))))

(defun recompile (component)
  "Compile COMPONENT as ASDF does."
  (asdf:perform (asdf:make-operation 'asdf:compile-op) component))

(defun call-with-whole-fasl (fasl component function)
  "Call FUNCTION, which loads FASL, of COMPONENT. A fasl of the cache that turns out to be damaged or gone is compiled
again, and FUNCTION called once more."
  (block whole
    (block damaged
      (handler-bind ((error (lambda (condition)
                              (when (damaged-fasl-p condition fasl)
                                (return-from damaged)))))
        (when (fasl-file-p fasl)
          (return-from whole (funcall function)))))
    (uiop:delete-file-if-exists fasl)
    (recompile component)
    (funcall function)))

(defun call-in-shared-cache (function)
  "Call FUNCTION, which compiles into the cache. Another process may do the same at that moment, and have taken a file
away to put its own there: then call FUNCTION again, at most twice."
  (loop repeat 2
        do (block moved
             (handler-bind ((file-error (lambda (condition)
                                          (when (and (cache-trouble-p condition)
                                                     (not (probe-file (file-error-pathname condition))))
                                            (return-from moved)))))
               (return-from call-in-shared-cache (funcall function)))))
  (funcall function))

(sb-ext:define-load-time-global *fasl-features* (sb-fasl::compute-features-affecting-fasl-format)
  "The features that this SBCL writes into fasls, and wants to find there.")

(defun constant-fasl-features (function)
  "Around SB-FASL::COMPUTE-FEATURES-AFFECTING-FASL-FORMAT: they are what SBCL was built with. Code that has changed
*FEATURES* has not changed that, and its fasls are good."
  (declare (ignore function))
  *fasl-features*)

;;; Stale

(defun note-racy-file (tap)
  "Remember what was read of the file of TAP if a change of it could have the same date."
  (let ((file (sb-ext:native-namestring (truename (tap-stream tap)))))
    (if (<= (- (get-universal-time) (sb-c::file-info-write-date (tap-file-info tap))) 1)
        (setf (gethash file *racy-files*) (tap-content-hash tap))
        (remhash file *racy-files*))))

(defun changed-unseen-p (file path loaded)
  "True when FILE, now at PATH, is another than when it was LOADED, and ASDF, for which a file changes by becoming
newer, may not see it."
  (let ((hash (gethash file *racy-files*)))
    (or (< (file-write-date path) loaded)
        (and hash (/= hash (fnv-1a (file-octets path)))))))

(defun forget-stale-files ()
  "Have ASDF compile or read again what has changed without its seeing it."
  (loop for file being the hash-keys of *loaded-files* using (hash-value loaded)
        for path = (probe-file (sb-ext:parse-native-namestring file))
        when (and path loaded (changed-unseen-p file path loaded))
          collect path into changed
        finally (dolist (path changed)
                  (if (equal (pathname-type path) "asd")
                      (asdf:load-asd path)
                      (uiop:delete-file-if-exists
                       (asdf:apply-output-translations (compile-file-pathname path)))))))
