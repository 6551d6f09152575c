;;;; The cache of fasls and sidecars: where they are stored, and when they can be loaded.
;;;;
;;;; Next to each fasl is a *record* file. It contains the version of the source that the fasl was
;;;; compiled from, the fasl's size and hash, the version of ASDF that provided UIOP's macros, and
;;;; the compiler's diagnostics. ASDF compares write dates in whole seconds. The record also detects
;;;; an edit within the same second, an older file that was restored, a damaged fasl, and a failed
;;;; compilation.
;;;;
;;;; A fasl in the cache is what a new image compiles from the project's text. An image in which a
;;;; file was loaded before, or code was evaluated, may have definitions that the text does not have
;;;; at that place. Its fasls are *private*: their records name the image, and other images compile
;;;; the files again.

(in-package :steelbank)

(defvar *cache-directory* nil
  "The directory of fasls and sidecars, which is separate from the user's own cache.")

(defvar *lower-cache* nil
  "The directory of the lower cache, from which a scratch image takes files, or NIL.")

(defvar *image-id* nil
  "A string that identifies this image, or NIL if it has no cache.")

(defvar *differs-from-text* nil
  "True if this image may have definitions that a new image would not have at the same step.")

(defun note-difference-from-text ()
  "Record that this image may have definitions that a new image would not have at the same step."
  (setf *differs-from-text* t))

(defvar *compiled-files* (make-hash-table :test 'equal :synchronized t)
  "The native truenames of the source files that were compiled in this image, as keys.")

(defun set-cache-directory (directory)
  "Store fasls and sidecars in DIRECTORY from now on."
  ;; An image from a snapshot must not have the name of the image that was saved.
  (setf *image-id* (format nil "~36R" (random (ash 1 64) (make-random-state t)))
        *cache-directory* directory
        *lower-cache* (uiop:directory-exists-p (merge-pathnames "lower/" directory))))

(defvar *loaded-files* (make-hash-table :test 'equal :synchronized t)
  "Maps the native truename of each source file loaded by us to its FILE-VERSION at that time.")

(defun use-own-cache ()
  "Have ASDF store fasls in the cache, whatever an init file or a system has configured."
  (when *cache-directory*
    (asdf:initialize-output-translations
     `(:output-translations (t (,*cache-directory* "fasls" :implementation :**/ :*.*.*))
                            :ignore-inherited-configuration))))

;;; A scratch image has its own cache, the upper cache, on top of the main image's, the lower cache.
;;; New files are written to the upper cache. Files that only the lower cache has are linked or
;;; copied to the upper cache.

(defvar *files-from-lower-cache* (make-hash-table :test 'equal :synchronized t)
  "Native names of the files of this cache that were already looked up in the lower cache.")

(defun from-lower-cache (path)
  "Return PATH, a file of the cache."
  ;; At the first call for PATH, if the file is missing, link or copy it from the lower cache.
  (let ((lower *lower-cache*))
    (when (and lower (in-cache-p path))
      (let ((name (sb-ext:native-namestring path)))
        (unless (gethash name *files-from-lower-cache*)
          (setf (gethash name *files-from-lower-cache*) t)
          (let ((from (merge-pathnames (uiop:enough-pathname path *cache-directory*) lower)))
            (when (and (not (probe-file path)) (probe-file from)
                       (not (special-file-p (sb-ext:native-namestring from))))
              ;; On failure, the file is compiled again.
              (handler-case
                  (progn
                    (make-private-directories path)
                    ;; A confined image cannot link files that it cannot write.
                    (handler-case (sb-posix:link (sb-ext:native-namestring from) name)
                      (sb-posix:syscall-error () (uiop:copy-file from path))))
                ((or file-error sb-posix:syscall-error) () nil))))))))
  path)

(defun lower-cache-translation (function path)
  "Wrap ASDF:APPLY-OUTPUT-TRANSLATIONS to provide files of the lower cache."
  (let ((translated (funcall function path)))
    (when (and *lower-cache* (pathnamep translated))
      (from-lower-cache (record-path translated))
      (from-lower-cache translated))
    translated))

(defun sidecar-directory ()
  "Return the directory of the sidecars."
  (merge-pathnames "taps/" *cache-directory*))

(defun in-cache-p (path)
  "Return true if PATH is a pathname in the cache."
  (and (pathnamep path)
       *cache-directory*
       (let ((cache (pathname-directory *cache-directory*)))
         (eql (or (mismatch cache (pathname-directory path) :test #'equal) (length cache))
              (length cache)))))

(defun wild-fasl-p (condition)
  "Return true if CONDITION reports a wild pathname in the cache."
  ;; UIOP creates a wild pathname for a source file with *, ? or [ in its name.
  (and (typep condition 'file-error)
       (in-cache-p (file-error-pathname condition))
       (wild-pathname-p (file-error-pathname condition))))

(defun cache-trouble-p (condition)
  "Return true if CONDITION reports that a file of the cache cannot be read or written."
  (typecase condition
    ((satisfies wild-fasl-p) nil)
    (file-error (in-cache-p (file-error-pathname condition)))
    (end-of-file nil)
    (stream-error (let ((stream (stream-error-stream condition)))
                    (in-cache-p (stream-pathname stream))))))

;;; Records

;; DIAGNOSTICS is :PENDING until the end of the compilation unit if the compiler will report more
;; then. The stamps are those of source, fasl and sidecar when each was last verified; NIL means
;; that the file must be read next time.
(defstruct (fasl-record (:constructor make-fasl-record (source fasl &key diagnostics source-stamp
                                                                      fasl-stamp sidecar-stamp
                                                                      (asdf (asdf:asdf-version))
                                                                      image)))
  "The record of a fasl: the versions of SOURCE and FASL, and the DIAGNOSTICS of the compilation."
  (source nil :type file-version)
  (fasl nil :type file-version)
  (diagnostics '() :type (or list (eql :pending)))
  (asdf nil :type (or null string))
  ;; The image with this private fasl, or NIL if the fasl is not private.
  (image nil :type (or null string))
  (source-stamp '() :type list) (fasl-stamp '() :type list) (sidecar-stamp '() :type list)
  ;; The stamps in the record's file.
  (written '() :type list))

(defun pending-p (record)
  "Return true if the compilation unit of RECORD's fasl may report more diagnostics."
  (eq (fasl-record-diagnostics record) :pending))

(defun record-diagnostics (record)
  "Return the diagnostics in RECORD, or NIL while they are pending."
  (if (pending-p record) '() (fasl-record-diagnostics record)))

(defun record-stamps (record)
  "Return the stamps of RECORD, as its file stores them."
  (list (fasl-record-source-stamp record) (fasl-record-fasl-stamp record)
        (fasl-record-sidecar-stamp record)))

(defparameter *record-head* (format nil "steelbank fasl record 5~%")
  "The first line of a record's file. The next line is the hash of the lines that follow it.")

(defun record-path (fasl)
  "Return the path of the record of FASL."
  (sb-ext:parse-native-namestring (concatenate 'string (sb-ext:native-namestring fasl) ".record")))

(defun utf-8 (string)
  "Return the octets of STRING, with U+FFFD for characters that UTF-8 cannot encode."
  (coerce (sb-ext:string-to-octets string :external-format '(:utf-8 :replacement #\ufffd)) 'octets))

(defun version-list (version)
  "Return VERSION, a file version, as a list for a record."
  (list (file-version-write-date version) (file-version-size version) (file-version-hash version)))

(defun write-record (fasl record)
  "Write RECORD next to FASL. Ignore an unwritable cache; the code that needs the fasl reports it."
  (let* ((stamps (record-stamps record))
         (body (utf-8 (with-standard-io-syntax
                        (prin1-to-string
                         (list :source (version-list (fasl-record-source record))
                               :fasl (version-list (fasl-record-fasl record))
                               :asdf (fasl-record-asdf record)
                               :image (fasl-record-image record)
                               :stamps stamps
                               :diagnostics (fasl-record-diagnostics record))))))
         (head (utf-8 (format nil "~A~16,'0X~%" *record-head* (fnv-1a body)))))
    (setf (fasl-record-written record) stamps)
    (handler-case (replace-file (record-path fasl) (concatenate 'octets head body))
      ((or file-error stream-error) () nil))))

(defun parse-record (octets)
  "Return the record that OCTETS encode, or NIL if they are damaged."
  (let* ((head (utf-8 *record-head*))
         (start (+ (length head) 17)))
    (when (and (> (length octets) start)
               (null (mismatch head octets :end2 (length head))))
      (let ((body (subseq octets start)))
        (when (equalp (subseq octets (length head) start)
                      (utf-8 (format nil "~16,'0X~%" (fnv-1a body))))
          ;; The hash matches, so the text is what PRIN1 wrote and can be read.
          (destructuring-bind (&key source fasl asdf image stamps diagnostics)
              (with-standard-io-syntax
                (let ((*read-eval* nil))
                  (read-from-string (sb-ext:octets-to-string body :external-format :utf-8))))
            (destructuring-bind (source-stamp fasl-stamp sidecar-stamp) stamps
              (let ((record (make-fasl-record (apply #'make-file-version source)
                                              (apply #'make-file-version fasl)
                                              :asdf asdf :image image
                                              :diagnostics diagnostics :source-stamp source-stamp
                                              :fasl-stamp fasl-stamp :sidecar-stamp sidecar-stamp)))
                (setf (fasl-record-written record) stamps)
                record))))))))

(defun read-record (fasl)
  "Return the record of FASL, or NIL if it is missing, damaged or private to another image."
  ;; A load parses a record only once, unless the record's file is replaced.
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
               (found (and octets (parse-record octets)))
               (record (and found
                            (member (fasl-record-image found) (list nil *image-id*) :test #'equal)
                            found)))
          (when records
            (setf (gethash name records) (cons stamp record)))
          record))))

(defun discard-fasl (fasl)
  "Delete FASL, or whatever is at its path, and its record."
  (uiop:delete-file-if-exists (record-path fasl))
  (let ((found (probe-file fasl)))
    (cond ((null found))
          ((uiop:directory-pathname-p found)
           (uiop:delete-directory-tree found :validate #'in-cache-p))
          (t (uiop:delete-file-if-exists fasl)))))

(defun source-now (source record)
  "Return the current version of SOURCE, the source file of RECORD, or NIL if it cannot be read."
  (multiple-value-bind (version stamp)
      (version-now source (fasl-record-source record) (fasl-record-source-stamp record)
                   #'reliable-stamp)
    (setf (fasl-record-source-stamp record) stamp)
    version))

(defun intact-record (fasl)
  "Return the record of FASL if FASL has not changed since the record was made, else NIL."
  (let ((record (read-record fasl)))
    (when record
      (multiple-value-bind (version stamp)
          (version-now fasl (fasl-record-fasl record) (fasl-record-fasl-stamp record)
                       #'written-stamp)
        (setf (fasl-record-fasl-stamp record) stamp)
        (and version
             (same-contents-p version (fasl-record-fasl record))
             record)))))

(defun make-record (fasl source &optional diagnostics)
  "Write a record next to FASL, which was compiled from SOURCE, a file version, with DIAGNOSTICS."
  ;; Return the record, or NIL if there is no fasl. Restrict access to the fasl before its stamp is
  ;; taken, because a change of permissions changes the stamp.
  (close-to-others fasl)
  (let ((version (current-version fasl)))
    (when version
      (let ((record (make-fasl-record source version :diagnostics diagnostics
                                                     :image (and *differs-from-text* *image-id*))))
        (write-record fasl record)
        record))))

;;; Validity

(defun damaged-fasl-p (condition fasl)
  "Return true if CONDITION, signalled while FASL is loaded, reports that FASL is unusable."
  ;; A fasl is unusable if it is missing, or if it is not an intact fasl of this SBCL.
  (flet ((this-p (stream)
           (let ((path (stream-pathname stream)))
           (and path (uiop:pathname-equal path fasl)))))
    (typecase condition
      (invalid-fasl (this-p (invalid-fasl-stream condition)))
      (end-of-file (this-p (stream-error-stream condition)))
      ;; FASL is missing; another process may have deleted it.
      (file-error (uiop:pathname-equal (file-error-pathname condition) fasl))
      (simple-error (let ((control (simple-condition-format-control condition)))
                      (and (stringp control)
                           (or (search "empty FASL file" control)
                               (search "corrupt fasl file" control))))))))

(defun compiled-source (component)
  "Return the source file that the fasl of COMPONENT is compiled from, or NIL if there is none."
  (let ((file (first (asdf:input-files (asdf:make-operation 'asdf:compile-op) component))))
    (and file (probe-file file))))

(defun sidecar-lost-p (component record)
  "Return true if the sidecar of the source in RECORD is missing from the cache or unusable."
  ;; The sidecar is unusable if it is damaged, incomplete, or of another file or other contents.
  ;; COMPONENT is the component of the fasl.
  (let ((source (compiled-source component)))
    (and source
         (let* ((date (file-version-write-date (fasl-record-source record)))
                (name (sb-ext:parse-native-namestring (sidecar-name source date)))
                (sidecar (from-lower-cache (merge-pathnames name (sidecar-directory))))
                (stamp (written-stamp (sb-ext:native-namestring sidecar))))
           (not (or (and stamp (equal stamp (fasl-record-sidecar-stamp record)))
                    (when (multiple-value-bind (state hash name)
                              (sidecar-state (octets-if-any sidecar))
                            (and (eq state :complete)
                                 (= hash (file-version-hash (fasl-record-source record)))
                                 (string= name (sb-ext:native-namestring source))))
                      (setf (fasl-record-sidecar-stamp record) stamp)
                      t)))))))

(defun recompile (component)
  "Compile COMPONENT as ASDF does."
  (asdf:perform (asdf:make-operation 'asdf:compile-op) component))

(defun own-record (fasl component)
  "Return the record of FASL if this load has compiled it and another process now replaces it."
  ;; Compiling again would see what the first compilation has defined. Wait for the other process.
  (let ((source (compiled-source component)))
    (when (and source
               (gethash (sb-ext:native-namestring source) (load-session-fasls *load-session*)))
      (loop repeat 50
            do (sleep 0.02)
            thereis (intact-record fasl)))))

(defun valid-record (fasl component)
  "Return the record of FASL, the fasl of COMPONENT, or NIL if FASL or its source cannot be read."
  ;; First recompile FASL if it or its record is damaged or missing, or if its sidecar is unusable.
  ;; The compilation of a system with its own compilation method writes no record; in that case,
  ;; write a record here.
  (let ((record (or (intact-record fasl) (own-record fasl component))))
    (cond ((and record (not (sidecar-lost-p component record)))
           (unless (equal (record-stamps record) (fasl-record-written record))
             (write-record fasl record))
           record)
          (t
           ;; Keep the fasl until ASDF replaces it: another process may be about to load it.
           (when (special-file-p (sb-ext:native-namestring fasl))
             (discard-fasl fasl))
           (recompile component)
           (or (intact-record fasl)
               (let* ((source (compiled-source component))
                      (version (and source (current-version source))))
                 (and version (make-record fasl version))))))))

(defun call-with-intact-fasl (fasl component function)
  "Call FUNCTION, which loads FASL, the fasl of COMPONENT. Return the record of FASL."
  ;; If a fasl in the cache proves damaged or missing, recompile it and call FUNCTION again. Do this
  ;; at most twice, because another process may delete the fasl at any time. Keep what is there when
  ;; a fasl was missing: another process may have compiled it again.
  (loop repeat 2
        do (let ((record (valid-record fasl component)))
             (block missing
               (block damaged
                 (handler-bind ((error (lambda (condition)
                                         (when (damaged-fasl-p condition fasl)
                                           (if (typep condition 'file-error)
                                               (return-from missing)
                                               (return-from damaged))))))
                   (funcall function)
                   (return-from call-with-intact-fasl record)))
               (discard-fasl fasl))))
  (let ((record (valid-record fasl component)))
    (funcall function)
    record))

(defun call-in-shared-cache (function)
  "Call FUNCTION, which compiles into the cache."
  ;; Another process may replace the same files meanwhile. After a file error in the cache, call
  ;; FUNCTION again, at most twice.
  (loop repeat 2
        do (block moved
             (handler-bind ((file-error (lambda (condition)
                                          ;; The file may exist again by now.
                                          (when (cache-trouble-p condition)
                                            (return-from moved)))))
               (return-from call-in-shared-cache (funcall function)))))
  (funcall function))

(sb-ext:define-load-time-global *fasl-features* (fasl-features)
  "The features that this SBCL writes into fasls and expects to find there.")

(defun constant-fasl-features (function)
  "Replace FASL-FEATURES by the features that SBCL was built with."
  ;; Code that changes *FEATURES* does not make fasls incompatible.
  (declare (ignore function))
  *fasl-features*)

;;; Staleness

(defun stale-fasl-p (fasl source component)
  "Return true if FASL, the fasl of COMPONENT, is not from the current contents of SOURCE."
  ;; Also return true if SOURCE was loaded with other contents and ASDF would not reload FASL,
  ;; because ASDF compares only dates.
  (let* ((record (read-record fasl))
         (version (and record (source-now source record)))
         (loaded (gethash (sb-ext:native-namestring source) *loaded-files*)))
    (and version
         (or (not (same-contents-p version (fasl-record-source record)))
             (and loaded
                  (not (same-contents-p version loaded))
                  (let ((stamp (asdf/action:component-operation-time
                                (asdf:make-operation 'asdf:load-op) component)))
                    (and (realp stamp) (>= stamp (file-write-date fasl)))))))))

(defun incomplete-record-p (record source)
  "Return true if there is no RECORD, or if its diagnostics are pending since an earlier load."
  (or (null record)
      (and (pending-p record)
           (not (gethash (sb-ext:native-namestring source) (load-session-fasls *load-session*))))))

(defun part-of-asdf-p (component)
  "Return true if COMPONENT is part of ASDF."
  (equal (asdf:primary-system-name (asdf:component-system component)) "asdf"))

(defun other-asdf-p (record component)
  "Return true if the fasl of COMPONENT with RECORD was compiled with another version of ASDF."
  ;; Code that a macro of UIOP expands to may need that version. ASDF's own fasl is always compiled
  ;; by another version.
  (not (or (null record)
           (equal (fasl-record-asdf record) (asdf:asdf-version))
           (part-of-asdf-p component))))

(defun discard-stale-fasl (operation component)
  "Delete the fasl that OPERATION, a COMPILE-OP, produces for COMPONENT, if it is stale."
  ;; Also delete the fasl if it is not a regular file, or if its record is missing or incomplete.
  ;; ASDF then recompiles the file and its dependents.
  (let ((fasl (first (asdf:output-files operation component)))
        (source (compiled-source component)))
    (cond ((not (and source (in-cache-p fasl))))
          ((not (probe-file fasl))
           ;; ASDF would create the folders with the permissions of the umask.
           (when-file-permits (make-private-directories fasl)))
          ((or (special-file-p (sb-ext:native-namestring fasl))
               (incomplete-record-p (read-record fasl) source)
               (other-asdf-p (read-record fasl) component)
               (stale-fasl-p fasl source component))
           (discard-fasl fasl)))))

(defun undetected-change (path loaded)
  "Compare the file PATH with LOADED, the file version that was read."
  ;; Return :CHANGED if the file differs and ASDF may not notice, because the file is not newer.
  ;; Return :SAME if the contents are the same, and NIL if the file is newer, so that ASDF notices,
  ;; or if the file cannot be read.
  (and (<= (or (when-file-permits (file-write-date path)) 0) (file-version-write-date loaded))
       (let ((version (current-version path)))
         (cond ((null version) nil)
               ((same-contents-p version loaded) :same)
               (t :changed)))))

;; The keys are native names. The stamp is the file's stamp when it was found unchanged.
(sb-ext:define-load-time-global *definitions-as-read* (make-hash-table :test 'equal :synchronized t)
  "Maps each system definition that was found unchanged to its version as read and its stamp.")

(defun definition-as-read-p (file loaded)
  "Return true if the system definition FILE was not touched since it was found to match LOADED."
  ;; FILE is a native name, and LOADED a file version.
  (destructuring-bind (&optional version &rest stamp) (gethash file *definitions-as-read*)
    (and version (eq version loaded) (equal stamp (file-stamp file)))))

(defun changed-definitions ()
  "Return the system definitions that changed without ASDF noticing."
  ;; Unchanged definitions are not read again until they are touched.
  (flet ((definition-p (file)
           (let ((start (- (length file) 4)))
             (and (plusp start) (string= ".asd" file :start2 start)))))
    (loop for (file . loaded) in (loop for file being the hash-keys of *loaded-files*
                                         using (hash-value loaded)
                                       when (definition-p file)
                                         collect (cons file loaded))
          for path = (sb-ext:parse-native-namestring file)
          unless (definition-as-read-p file loaded)
            ;; Take the stamp before reading the file, so that a later write has another stamp.
            nconc (let ((stamp (reliable-stamp file)))
                    (ecase (undetected-change path loaded)
                      (:changed (list path))
                      (:same (when (consp stamp)
                               (setf (gethash file *definitions-as-read*) (cons loaded stamp)))
                       '())
                      ((nil) '()))))))

(defun read-changed-definitions ()
  "Have ASDF reread the system definitions that CHANGED-DEFINITIONS returns."
  (mapc #'asdf:load-asd (changed-definitions)))
