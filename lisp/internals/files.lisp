;;;; Streams, the reader, fasls, and the file system.

(in-package :steelbank)

;;; Streams that know where each form of a file begins

(define-inline form-tracking-stream-p (object)
  "True if OBJECT is a stream that tells an observer what is read from it."
  (sb-impl::form-tracking-stream-p object))

(define-inline (setf stream-observer) (observer stream)
  "Have OBSERVER be told of each list and token that is read from STREAM: start, end and object."
  (setf (sb-impl::form-tracking-stream-observer stream) observer))

(define-inline form-start-position (stream)
  "Where the top-level form begins that was read from STREAM last, in characters."
  (sb-impl::form-tracking-stream-form-start-char-pos stream))

(defun newline-positions (stream)
  "Where the newlines are that were read from STREAM, in characters, as a vector."
  (sb-impl::track-newlines stream)
  (sb-impl::form-tracking-stream-newlines stream))

(defun stream-line-and-column (stream &optional position)
  "Line and column, both from 1 and in characters, of POSITION in STREAM, or of where it has been read to."
  (let ((place (if position
                   (sb-impl::line/col-from-charpos stream position)
                   (sb-impl::line/col-from-charpos stream))))
    (values (car place) (1+ (cdr place)))))

;;; What the reader makes, and signals

(defconstant +quasiquote+ 'sb-int:quasiquote
  "The operator of the form that the reader makes of a backquote.")

(define-inline comma-p (object)
  "True if OBJECT is what the reader makes of a comma."
  (sb-int:comma-p object))

(define-inline comma-form (comma)
  "The form after COMMA."
  (sb-int:comma-expr comma))

(deftype decoding-error ()
  "Octets of a file are no characters."
  'sb-int:stream-decoding-error)

(define-inline decoding-error-octets (condition)
  "The octets of CONDITION, a DECODING-ERROR."
  (sb-int:character-decoding-error-octets condition))

(deftype comment-decoding-error ()
  "Octets of a comment are no characters."
  'sb-kernel:character-decoding-error-in-comment)

(define-inline comment-decoding-error-stream (condition)
  "The stream of CONDITION, a COMMENT-DECODING-ERROR."
  (sb-kernel::decoding-error-in-comment-stream condition))

(define-inline comment-decoding-error-position (condition)
  "Where CONDITION, a COMMENT-DECODING-ERROR, was found, in characters."
  (sb-kernel::decoding-error-in-comment-position condition))

;;; Streams of file descriptors

(define-inline stream-pathname (stream)
  "The pathname of the file of STREAM, or NIL if it has none."
  (and (typep stream 'sb-sys:fd-stream)
       (sb-impl::fd-stream-file stream)
       (pathname stream)))

(define-inline rename-file-stream (stream pathname)
  "Have STREAM say that it reads PATHNAME, which is a whole one."
  (when (typep stream 'sb-sys:fd-stream)
    (setf (sb-impl::fd-stream-file stream)
          (sb-ext:native-namestring (translate-logical-pathname pathname) :as-file t)
          (sb-impl::fd-stream-pathname stream) pathname)))

;;; Fasls

(deftype invalid-fasl ()
  "A file is no fasl of this SBCL."
  'sb-fasl::invalid-fasl)

(define-inline invalid-fasl-stream (condition)
  "The stream of CONDITION, an INVALID-FASL."
  (sb-fasl::invalid-fasl-stream condition))

(define-inline fasl-features ()
  "The features that SBCL writes into a fasl, and wants to find there."
  (sb-fasl::compute-features-affecting-fasl-format))

;;; The file system

(define-inline current-directory-defaults ()
  "The defaults of pathnames, made whole by the current directory."
  (sb-impl::sane-default-pathname-defaults))

(define-inline real-path (name)
  "The native name NAME without links, or NIL if there is no such file."
  (values (sb-unix:unix-realpath name)))

(defvar *real-folders* nil
  "While many names are asked for: a table of the real names of folders by their native names. Else NIL.")

(defun real-file-name (name)
  "The native name NAME, which begins with a slash, without links, or NIL if there is no such file."
  (let ((end (1+ (position #\/ name :from-end t)))
        (mode (and *real-folders* (nth-value 3 (sb-unix:unix-lstat name)))))
    (if (eql (logand sb-unix:s-ifmt (or mode 0)) sb-unix:s-ifreg)
        (let* ((folder (subseq name 0 end))
               (real (or (gethash folder *real-folders*)
                         (setf (gethash folder *real-folders*) (real-path folder)))))
          (and real (concatenate 'string (string-right-trim "/" real) "/" (subseq name end))))
        (real-path name))))

(defmacro with-real-folders (&body body)
  "Evaluate BODY, in which each folder's real name is asked for once."
  `(let ((*real-folders* (or *real-folders* (make-hash-table :test 'equal))))
     ,@body))

(defun special-file-p (name)
  "True if NAME, a native name, leads to what is no plain file: to open a FIFO or a device may wait for ever."
  (let ((mode (nth-value 3 (sb-unix:unix-stat name))))
    (and mode (/= (logand sb-unix:s-ifmt mode) sb-unix:s-ifreg))))

(defun native-file-octets (name size)
  "The first SIZE octets of the plain file NAME, a native name, with zeros where it is shorter; NIL if it cannot be read. It is read
without a stream, which takes several times as long to make as to use."
  (handler-case
      (let ((descriptor (sb-posix:open name (logior sb-posix:o-rdonly sb-posix:o-nonblock)))
            (octets (make-array size :element-type '(unsigned-byte 8))))
        (unwind-protect
             (sb-sys:with-pinned-objects (octets)
               (loop for at = 0 then (+ at count)
                     for count = (sb-posix:read descriptor (sb-sys:sap+ (sb-sys:vector-sap octets) at) (- size at))
                     while (plusp count)))
          (sb-posix:close descriptor))
        octets)
    (sb-posix:syscall-error () nil)))

(define-inline symbolic-link-p (name)
  "True if the native name NAME is a link's."
  (eql (logand sb-unix:s-ifmt (or (nth-value 3 (sb-unix:unix-lstat name)) 0))
       sb-unix:s-iflnk))

(defun user-home ()
  "The home folder of the process's user, or NIL if the user is not known."
  (handler-case (sb-unix:uid-homedir (sb-unix:unix-getuid))
    (simple-error () nil)))
