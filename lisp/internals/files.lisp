;;;; Streams, the reader, fasls, and the file system.

(in-package :steelbank)

;;; Form-tracking streams, which record the start of each form

(define-inline form-tracking-stream-p (object)
  "Return true if OBJECT is a stream that reports what is read from it to an observer."
  (sb-impl::form-tracking-stream-p object))

(define-inline (setf stream-observer) (observer stream)
  "Report each list and token that is read from STREAM to OBSERVER: start, end and object."
  (setf (sb-impl::form-tracking-stream-observer stream) observer))

(define-inline form-start-position (stream)
  "Return the start of the top-level form that was read last from STREAM, in characters."
  (sb-impl::form-tracking-stream-form-start-char-pos stream))

(defun newline-positions (stream)
  "Return the positions of the newlines read from STREAM, in characters, as a vector."
  (sb-impl::track-newlines stream)
  (sb-impl::form-tracking-stream-newlines stream))

(defun stream-line-and-column (stream &optional position)
  "Return line and column, from 1, of POSITION in STREAM, by default the read position."
  (let ((place (if position
                   (sb-impl::line/col-from-charpos stream position)
                   (sb-impl::line/col-from-charpos stream))))
    (values (car place) (1+ (cdr place)))))

;;; Objects and conditions of the reader

(defconstant +quasiquote+ 'sb-int:quasiquote
  "The operator of the form that the reader creates for a backquote.")

(define-inline comma-p (object)
  "Return true if OBJECT is what the reader creates for a comma."
  (sb-int:comma-p object))

(define-inline comma-form (comma)
  "Return the form after COMMA."
  (sb-int:comma-expr comma))

(deftype decoding-error ()
  "Octets of a file are not valid in its encoding."
  'sb-int:stream-decoding-error)

(define-inline decoding-error-octets (condition)
  "Return the octets of CONDITION, a DECODING-ERROR."
  (sb-int:character-decoding-error-octets condition))

(deftype comment-decoding-error ()
  "Octets of a comment are not valid in the encoding of the file."
  'sb-kernel:character-decoding-error-in-comment)

(define-inline comment-decoding-error-stream (condition)
  "Return the stream of CONDITION, a COMMENT-DECODING-ERROR."
  (sb-kernel::decoding-error-in-comment-stream condition))

(define-inline comment-decoding-error-position (condition)
  "Return the position of CONDITION, a COMMENT-DECODING-ERROR, in octets."
  (sb-kernel::decoding-error-in-comment-position condition))

;;; Streams of file descriptors

(define-inline stream-pathname (stream)
  "Return the pathname of the file of STREAM, or NIL if it has none."
  (and (typep stream 'sb-sys:fd-stream)
       (sb-impl::fd-stream-file stream)
       (pathname stream)))

(define-inline rename-file-stream (stream pathname)
  "Make STREAM report PATHNAME, a complete pathname, as the file that it reads."
  (when (typep stream 'sb-sys:fd-stream)
    (setf (sb-impl::fd-stream-file stream)
          (sb-ext:native-namestring (translate-logical-pathname pathname) :as-file t)
          (sb-impl::fd-stream-pathname stream) pathname)))

;;; Fasls

(deftype invalid-fasl ()
  "A file is not a fasl of this SBCL."
  'sb-fasl::invalid-fasl)

(define-inline invalid-fasl-stream (condition)
  "Return the stream of CONDITION, an INVALID-FASL."
  (sb-fasl::invalid-fasl-stream condition))

(define-inline fasl-features ()
  "Return the features that SBCL writes into a fasl and expects to find there."
  (sb-fasl::compute-features-affecting-fasl-format))

;;; The file system

(define-inline current-directory-defaults ()
  "Return the default pathname, completed by the current directory."
  (sb-impl::sane-default-pathname-defaults))

(define-inline real-path (name)
  "Return the native name NAME with links resolved, or NIL if the file does not exist."
  (values (sb-unix:unix-realpath name)))

(defvar *real-folders* nil
  "A table from folders to their real names while many names are resolved; otherwise NIL.")

(defun real-file-name (name)
  "Return NAME, an absolute native name, with links resolved, or NIL if there is no such file."
  (let ((end (1+ (position #\/ name :from-end t)))
        (mode (and *real-folders* (nth-value 3 (sb-unix:unix-lstat name)))))
    (if (eql (logand sb-unix:s-ifmt (or mode 0)) sb-unix:s-ifreg)
        (let* ((folder (subseq name 0 end))
               (real (or (gethash folder *real-folders*)
                         (setf (gethash folder *real-folders*) (real-path folder)))))
          (and real (concatenate 'string (string-right-trim "/" real) "/" (subseq name end))))
        (real-path name))))

(defmacro with-real-folders (&body body)
  "Evaluate BODY, resolving each folder's real name only once."
  `(let ((*real-folders* (or *real-folders* (make-hash-table :test 'equal))))
     ,@body))

(defun special-file-p (name)
  "Return true if NAME, a native name, exists and is not a regular file."
  ;; Opening a FIFO or a device might block forever.
  (let ((mode (nth-value 3 (sb-unix:unix-stat name))))
    (and mode (/= (logand sb-unix:s-ifmt mode) sb-unix:s-ifreg))))

(defun native-file-octets (name size)
  "Return the first SIZE octets of the regular file NAME, or NIL if it cannot be read."
  ;; NAME is a native name. The octets are padded with zeros. No stream is used, because creating a
  ;; stream takes several times as long as reading from it.
  (handler-case
      (let ((descriptor (sb-posix:open name (logior sb-posix:o-rdonly sb-posix:o-nonblock)))
            (octets (make-array size :element-type '(unsigned-byte 8))))
        (unwind-protect
             (sb-sys:with-pinned-objects (octets)
               (loop for at = 0 then (+ at count)
                     for rest = (sb-sys:sap+ (sb-sys:vector-sap octets) at)
                     for count = (sb-posix:read descriptor rest (- size at))
                     while (plusp count)))
          (sb-posix:close descriptor))
        octets)
    (sb-posix:syscall-error () nil)))

(define-inline symbolic-link-p (name)
  "Return true if the native name NAME is a symbolic link."
  (eql (logand sb-unix:s-ifmt (or (nth-value 3 (sb-unix:unix-lstat name)) 0))
       sb-unix:s-iflnk))

(defun user-home ()
  "Return the home folder of the process's user, or NIL if the user is unknown."
  (handler-case (sb-unix:uid-homedir (sb-unix:unix-getuid))
    (simple-error () nil)))
