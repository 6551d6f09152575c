;;;; Fasls and sidecars in a cache of our own: where they go, and when they are fit to be loaded.
;;;;
;;;; Beside each fasl stands its *record*: which contents of which source it was compiled from, its own size and hash, and
;;;; what the compiler said. ASDF compares dates in whole seconds; the record tells an edit within that second, an older
;;;; file that was put back, a damaged fasl, and a compilation that failed.

(in-package :steelbank)

(defvar *cache-directory* nil
  "Where fasls and sidecars go: a directory of our own, so that they never clash with the user's.")

(defvar *lower-cache* nil
  "The directory of the cache below this one, or NIL if there is none.")

(defun keep-cache-in (directory)
  "From now on keep fasls and sidecars in DIRECTORY."
  (setf *cache-directory* directory
        *lower-cache* (uiop:directory-exists-p (merge-pathnames "lower/" directory))))

(defvar *loaded-files* (make-hash-table :test 'equal :synchronized t)
  "Native truename of each source file loaded through us -> its FILE-VERSION at that time.")

(defun use-own-cache ()
  "Have ASDF keep fasls in the cache. An init file or a system may have told it something else."
  (when *cache-directory*
    (asdf:initialize-output-translations
     `(:output-translations (t (,*cache-directory* "fasls" :implementation :**/ :*.*.*))
                            :ignore-inherited-configuration))))

;;; A cache over a lower one: what is made goes here, what the lower one has is taken from there. A scratch image has
;;; such a cache.

(defvar *borrowed-files* (make-hash-table :test 'equal :synchronized t)
  "Native names of the files of this cache that were looked for in the lower one.")

(defun borrowed (path)
  "Return PATH, a file of the cache. The first time, if the file is missing, it is taken from the lower cache."
  (let ((lower *lower-cache*))
    (when (and lower (in-cache-p path))
      (let ((name (sb-ext:native-namestring path)))
        (unless (gethash name *borrowed-files*)
          (setf (gethash name *borrowed-files*) t)
          (let ((from (merge-pathnames (uiop:enough-pathname path *cache-directory*) lower)))
            (when (and (not (probe-file path)) (probe-file from)
                       (not (special-file-p (sb-ext:native-namestring from))))
              ;; What cannot be taken is made again.
              (handler-case
                  (progn
                    (make-private-directories path)
                    ;; A confined image may not link what it may not write.
                    (handler-case (sb-posix:link (sb-ext:native-namestring from) name)
                      (sb-posix:syscall-error () (uiop:copy-file from path))))
                ((or file-error sb-posix:syscall-error) () nil))))))))
  path)

(defun borrowing-translation (function path)
  "Around ASDF:APPLY-OUTPUT-TRANSLATIONS: what the lower cache has is here, too."
  (let ((translated (funcall function path)))
    (when (and *lower-cache* (pathnamep translated))
      (borrowed (record-path translated))
      (borrowed translated))
    translated))

(defun sidecar-directory ()
  "The directory of the sidecars."
  (merge-pathnames "taps/" *cache-directory*))

(defun in-cache-p (path)
  "True when PATH, which need not be a pathname, names something in the cache."
  (and (pathnamep path)
       *cache-directory*
       (let ((cache (pathname-directory *cache-directory*)))
         (eql (or (mismatch cache (pathname-directory path) :test #'equal) (length cache))
              (length cache)))))

(defun wild-fasl-p (condition)
  "True when CONDITION is of a wild pathname in the cache: UIOP makes one of the name of a source with *, ? or [ in it."
  (and (typep condition 'file-error)
       (in-cache-p (file-error-pathname condition))
       (wild-pathname-p (file-error-pathname condition))))

(defun cache-trouble-p (condition)
  "True when CONDITION says that a file of the cache cannot be read or written."
  (typecase condition
    ((satisfies wild-fasl-p) nil)
    (file-error (in-cache-p (file-error-pathname condition)))
    (end-of-file nil)
    (stream-error (let ((stream (stream-error-stream condition)))
                    (in-cache-p (stream-pathname stream))))))

;;; Records

(defstruct (fasl-record (:constructor make-fasl-record (source fasl &key diagnostics source-stamp fasl-stamp sidecar-stamp)))
  "The record of a fasl: the versions of its SOURCE and of the FASL itself, the DIAGNOSTICS of its compilation, or :PENDING as long as
the compilation unit goes on that tells the rest of them, and the stamps of source, fasl and sidecar when each was last found to be
what it must be, NIL if it is to be read next time."
  (source nil :type file-version)
  (fasl nil :type file-version)
  (diagnostics '() :type (or list (eql :pending)))
  (source-stamp '() :type list)
  (fasl-stamp '() :type list)
  (sidecar-stamp '() :type list)
  ;; The stamps that stand in the record's file.
  (written '() :type list))

(defun pending-p (record)
  "True when more is to be said of the compilation of RECORD's fasl than RECORD says."
  (eq (fasl-record-diagnostics record) :pending))

(defun known-diagnostics (record)
  "The diagnostics that RECORD has."
  (if (pending-p record) '() (fasl-record-diagnostics record)))

(defun record-stamps (record)
  "The stamps of RECORD, as its file has them."
  (list (fasl-record-source-stamp record) (fasl-record-fasl-stamp record) (fasl-record-sidecar-stamp record)))

(defparameter *record-head* (format nil "steelbank fasl record 3~%")
  "The first line of a record's file; the hash of the rest follows.")

(defun record-path (fasl)
  "The path of the record of FASL."
  (sb-ext:parse-native-namestring (concatenate 'string (sb-ext:native-namestring fasl) ".record")))

(defun utf-8 (string)
  "The octets of STRING. A character that UTF-8 has no form for becomes U+FFFD."
  (coerce (sb-ext:string-to-octets string :external-format '(:utf-8 :replacement #\ufffd)) 'octets))

(defun version-list (version)
  "VERSION, a file version, as the list that is written."
  (list (file-version-write-date version) (file-version-size version) (file-version-hash version)))

(defun write-record (fasl record)
  "Put RECORD beside FASL. An unwritable cache is no error here: whoever needs it reports it."
  (let* ((stamps (record-stamps record))
         (body (utf-8 (with-standard-io-syntax
                        (prin1-to-string
                         (list :source (version-list (fasl-record-source record))
                               :fasl (version-list (fasl-record-fasl record))
                               :stamps stamps
                               :diagnostics (fasl-record-diagnostics record)))))))
    (setf (fasl-record-written record) stamps)
    (handler-case (replace-file (record-path fasl)
                                (concatenate 'octets (utf-8 (format nil "~A~16,'0X~%" *record-head* (fnv-1a body)))
                                             body))
      ((or file-error stream-error) () nil))))

(defun parse-record (octets)
  "The record that OCTETS encode, or NIL if they are damaged."
  (let* ((head (utf-8 *record-head*))
         (start (+ (length head) 17)))
    (when (and (> (length octets) start)
               (null (mismatch head octets :end2 (length head))))
      (let ((body (subseq octets start)))
        (when (equalp (subseq octets (length head) start) (utf-8 (format nil "~16,'0X~%" (fnv-1a body))))
          ;; These are the octets that were written, so they can be read.
          (destructuring-bind (&key source fasl stamps diagnostics)
              (with-standard-io-syntax
                (let ((*read-eval* nil))
                  (read-from-string (sb-ext:octets-to-string body :external-format :utf-8))))
            (destructuring-bind (source-stamp fasl-stamp sidecar-stamp) stamps
              (let ((record (make-fasl-record (apply #'make-file-version source) (apply #'make-file-version fasl)
                                              :diagnostics diagnostics
                                              :source-stamp source-stamp :fasl-stamp fasl-stamp
                                              :sidecar-stamp sidecar-stamp)))
                (setf (fasl-record-written record) stamps)
                record))))))))

(defun read-record (fasl)
  "The record of FASL, or NIL if there is none that is whole. A load parses it once, unless it is replaced."
  (let* ((path (record-path fasl))
         (name (sb-ext:native-namestring path))
         (stamp (file-stamp name))
         (records (and *load-session* (load-session-records *load-session*)))
         (known (and records (gethash name records))))
    (if (and (consp stamp) known (equal (car known) stamp))
        (cdr known)
        (let* ((octets (and (consp stamp)
                            (not (special-file-p name))
                            (native-file-octets name (stamp-size stamp))))
               (record (and octets (parse-record octets))))
          (when records
            (setf (gethash name records) (cons stamp record)))
          record))))

(defun discard-fasl (fasl)
  "Remove FASL, or whatever stands at its path, and its record."
  (uiop:delete-file-if-exists (record-path fasl))
  (let ((found (probe-file fasl)))
    (cond ((null found))
          ((uiop:directory-pathname-p found)
           (uiop:delete-directory-tree found :validate #'in-cache-p))
          (t (uiop:delete-file-if-exists fasl)))))

(defun source-now (source record)
  "The version of SOURCE, the source file of RECORD, now, or NIL if it cannot be read."
  (multiple-value-bind (version stamp)
      (version-now source (fasl-record-source record) (fasl-record-source-stamp record) #'reliable-stamp)
    (setf (fasl-record-source-stamp record) stamp)
    version))

(defun whole-record (fasl)
  "The record of FASL if it tells that FASL is what was written; else NIL."
  (let ((record (read-record fasl)))
    (when record
      (multiple-value-bind (version stamp)
          (version-now fasl (fasl-record-fasl record) (fasl-record-fasl-stamp record) #'written-stamp)
        (setf (fasl-record-fasl-stamp record) stamp)
        (and version
             (same-contents-p version (fasl-record-fasl record))
             record)))))

(defun make-record (fasl source &optional diagnostics)
  "Put a record beside FASL, which was compiled from SOURCE, a file version, with DIAGNOSTICS. Returns the record, or NIL if there
is no fasl."
  ;; Before its stamp is taken.
  (close-to-others fasl)
  (let ((version (current-version fasl)))
    (when version
      (let ((record (make-fasl-record source version :diagnostics diagnostics)))
        (write-record fasl record)
        record))))

;;; Fit to be loaded

(defun damaged-fasl-p (condition fasl)
  "True when CONDITION, signalled while the file FASL is loaded, says that it is not there, or no whole fasl of this
SBCL."
  (flet ((this-p (stream)
           (let ((path (stream-pathname stream)))
           (and path (uiop:pathname-equal path fasl)))))
    (typecase condition
      (invalid-fasl (this-p (invalid-fasl-stream condition)))
      (end-of-file (this-p (stream-error-stream condition)))
      ;; Another process may have put one there meanwhile.
      (file-error (uiop:pathname-equal (file-error-pathname condition) fasl))
      (simple-error (let ((control (simple-condition-format-control condition)))
                      (and (stringp control)
                           (or (search "empty FASL file" control)
                               (search "corrupt fasl file" control))))))))

(defun compiled-source (component)
  "The source file that the fasl of COMPONENT is compiled from, or NIL if there is none."
  (let ((file (first (asdf:input-files (asdf:make-operation 'asdf:compile-op) component))))
    (and file (probe-file file))))

(defun sidecar-lost-p (component record)
  "True when the sidecar of the source from which RECORD says that COMPONENT's fasl was compiled is not in the cache, or
is damaged, incomplete or another file's."
  (let ((source (compiled-source component)))
    (and source
         (let* ((sidecar (borrowed
                          (merge-pathnames
                           (sb-ext:parse-native-namestring
                            (sidecar-name source (file-version-write-date (fasl-record-source record))))
                           (sidecar-directory))))
                (stamp (written-stamp (sb-ext:native-namestring sidecar))))
           (not (or (and stamp (equal stamp (fasl-record-sidecar-stamp record)))
                    (when (multiple-value-bind (state hash name) (sidecar-state (octets-if-any sidecar))
                            (and (eq state :complete)
                                 (= hash (file-version-hash (fasl-record-source record)))
                                 (string= name (sb-ext:native-namestring source))))
                      (setf (fasl-record-sidecar-stamp record) stamp)
                      t)))))))

(defun recompile (component)
  "Compile COMPONENT as ASDF does."
  (asdf:perform (asdf:make-operation 'asdf:compile-op) component))

(defun fit-record (fasl component)
  "The record of FASL, of COMPONENT, after FASL was compiled again if it is damaged, gone, or has lost its sidecar. A
system that compiles in a way of its own writes no record: then one is made."
  (let ((record (whole-record fasl)))
    (cond ((and record (not (sidecar-lost-p component record)))
           (unless (equal (record-stamps record) (fasl-record-written record))
             (write-record fasl record))
           record)
          (t
           (discard-fasl fasl)
           (recompile component)
           (or (whole-record fasl)
               (let* ((source (compiled-source component))
                      (version (and source (current-version source))))
                 (and version (make-record fasl version))))))))

(defun call-with-whole-fasl (fasl component function)
  "Call FUNCTION, which loads FASL, of COMPONENT, and return its record. A fasl of the cache that turns out to be damaged or
gone is compiled again, and FUNCTION called once more, at most twice: another process may take it away at any moment."
  (loop repeat 2
        do (let ((record (fit-record fasl component)))
             (block damaged
               (handler-bind ((error (lambda (condition)
                                       (when (damaged-fasl-p condition fasl)
                                         (return-from damaged)))))
                 (funcall function)
                 (return-from call-with-whole-fasl record))))
           (discard-fasl fasl))
  (let ((record (fit-record fasl component)))
    (funcall function)
    record))

(defun call-in-shared-cache (function)
  "Call FUNCTION, which compiles into the cache. Another process may do the same at that moment, and have taken a file
away to put its own there: then call FUNCTION again, at most twice."
  (loop repeat 2
        do (block moved
             (handler-bind ((file-error (lambda (condition)
                                          ;; The file may be there again by now.
                                          (when (cache-trouble-p condition)
                                            (return-from moved)))))
               (return-from call-in-shared-cache (funcall function)))))
  (funcall function))

(sb-ext:define-load-time-global *fasl-features* (fasl-features)
  "The features that this SBCL writes into fasls, and wants to find there.")

(defun constant-fasl-features (function)
  "Around FASL-FEATURES: they are what SBCL was built with. Code that has changed
*FEATURES* has not changed that, and its fasls are good."
  (declare (ignore function))
  *fasl-features*)

;;; Stale

(defun stale-fasl-p (fasl source component)
  "True when FASL, of COMPONENT, was not compiled from what SOURCE holds now, or when SOURCE was loaded with other
contents and ASDF, for which a file changes by becoming newer, would not load FASL again."
  (let* ((record (read-record fasl))
         (version (and record (source-now source record)))
         (loaded (gethash (sb-ext:native-namestring source) *loaded-files*)))
    (and version
         (or (not (same-contents-p version (fasl-record-source record)))
             (and loaded
                  (not (same-contents-p version loaded))
                  (let ((stamp (asdf/action:component-operation-time (asdf:make-operation 'asdf:load-op) component)))
                    (and (realp stamp) (>= stamp (file-write-date fasl)))))))))

(defun untold-p (record source)
  "True when there is no RECORD, or one that another load of SOURCE has not completed, or never will."
  (or (null record)
      (and (pending-p record)
           (not (gethash (sb-ext:native-namestring source) (load-session-fasls *load-session*))))))

(defun discard-stale-fasl (operation component)
  "Remove the fasl that OPERATION, a COMPILE-OP, makes of COMPONENT, if it is not fit: without a whole record, or stale.
Then ASDF makes it again, and what depends on it."
  (let ((fasl (first (asdf:output-files operation component)))
        (source (compiled-source component)))
    (cond ((not (and source (in-cache-p fasl))))
          ((not (probe-file fasl))
           ;; ASDF would make them as the umask says.
           (when-file-permits (make-private-directories fasl)))
          ((or (special-file-p (sb-ext:native-namestring fasl))
               (untold-p (read-record fasl) source)
               (stale-fasl-p fasl source component))
           (discard-fasl fasl)))))

(defun unseen-change (path loaded)
  "Compare the file PATH with LOADED, the file version in which it was read. :CHANGED if it differs and ASDF may not see
it, because it is not newer; :SAME if it holds what it held; NIL if ASDF sees the change, or there is no such file."
  (and (<= (or (when-file-permits (file-write-date path)) 0) (file-version-write-date loaded))
       (let ((version (current-version path)))
         (cond ((null version) nil)
               ((same-contents-p version loaded) :same)
               (t :changed)))))

(sb-ext:define-load-time-global *definitions-as-read* (make-hash-table :test 'equal :synchronized t)
  "Native name of each system definition that was found to hold what was read of it -> the file version that was read, and the
stamp of the file then.")

(defun definition-as-read-p (file loaded)
  "True if the system definition FILE, a native name, was not touched since it was found to hold what LOADED, a file version, says."
  (destructuring-bind (&optional version &rest stamp) (gethash file *definitions-as-read*)
    (and version (eq version loaded) (equal stamp (file-stamp file)))))

(defun changed-definitions ()
  "The system definitions that have changed without ASDF's seeing it. Those that have not are not read once more until they are
touched."
  (flet ((definition-p (file)
           (let ((start (- (length file) 4)))
             (and (plusp start) (string= ".asd" file :start2 start)))))
    (loop for (file . loaded) in (loop for file being the hash-keys of *loaded-files* using (hash-value loaded)
                                       when (definition-p file)
                                         collect (cons file loaded))
          for path = (sb-ext:parse-native-namestring file)
          unless (definition-as-read-p file loaded)
            ;; Take the stamp before the file is read: what is written meanwhile has another one.
            nconc (let ((stamp (reliable-stamp file)))
                    (ecase (unseen-change path loaded)
                      (:changed (list path))
                      (:same (when (consp stamp)
                               (setf (gethash file *definitions-as-read*) (cons loaded stamp)))
                       '())
                      ((nil) '()))))))

(defun read-changed-definitions ()
  "Have ASDF read again the system definitions that have changed without its seeing it."
  (mapc #'asdf:load-asd (changed-definitions)))
