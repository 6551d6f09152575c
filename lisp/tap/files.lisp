;;;; Reads, hashes and atomically replaces files as octets.

(in-package :steelbank)

(defun fnv-1a (octets &optional (end (length octets)))
  "Return the 64-bit FNV-1a hash of OCTETS before END."
  (declare (type octets octets) (type (integer 0 #.array-dimension-limit) end) (optimize speed))
  (let ((hash #xcbf29ce484222325))
    (declare (type (unsigned-byte 64) hash))
    (dotimes (index end hash)
      (setf hash (ldb (byte 64 0) (* (logxor hash (aref octets index)) #x100000001b3))))))

(defun file-octets (path)
  "Return the octets of the file PATH. Signal a FILE-ERROR if it is not a regular file."
  (when (special-file-p (sb-ext:native-namestring path))
    (error 'file-error :pathname path))
  (with-open-file (stream path :element-type '(unsigned-byte 8))
    (let ((octets (make-array (file-length stream) :element-type '(unsigned-byte 8))))
      (read-sequence octets stream)
      octets)))

(defun octets-if-any (path)
  "Return the octets of the file PATH, or an empty vector if it cannot be read."
  (handler-case (file-octets path)
    ((or file-error stream-error) () (make-array 0 :element-type '(unsigned-byte 8)))))

(defun make-private-directories (path)
  "Create the missing directories of PATH, a file of the cache, with access for their owner only."
  ;; Return PATH.
  (ensure-directories-exist path :mode #o700))

(defun close-to-others (file)
  "Restrict access to FILE, a stream or pathname of the cache, to its owner, if that is possible."
  (handler-case (if (streamp file)
                    (sb-posix:fchmod file #o600)
                    (sb-posix:chmod file #o600))
    (sb-posix:syscall-error () nil)))

(defun replace-file (path octets)
  "Replace the file PATH by one with OCTETS, atomically. Delete a folder of that name first."
  (declare (type pathname path) (type octets octets))
  (let ((temporary (sb-ext:parse-native-namestring
                    (format nil "~A.~36R" (sb-ext:native-namestring path)
                            (random (expt 2 64) (make-random-state t)))))
        (folder (uiop:ensure-directory-pathname path)))
    (make-private-directories path)
    (when (uiop:directory-exists-p folder)
      (uiop:delete-directory-tree folder :validate t))
    (with-open-file (stream temporary :direction :output :element-type '(unsigned-byte 8)
                                      :if-exists :supersede)
      (close-to-others stream)
      (write-sequence octets stream))
    (rename-file temporary path)
    path))
