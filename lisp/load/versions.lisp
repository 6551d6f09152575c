;;;; The versions and stamps of files: what a file holds, and whether it was touched since.

(in-package :steelbank)

;;; Contents

(defstruct (file-version (:constructor make-file-version (write-date size hash)))
  "The version of a file: its write date (universal time), its size in octets, the FNV-1a hash of its octets."
  (write-date 0 :type (integer 0))
  (size 0 :type (integer 0))
  (hash 0 :type (unsigned-byte 64)))

(defun same-contents-p (version other)
  "True when VERSION and OTHER, file versions, are of one text, whatever their dates."
  (and (= (file-version-size version) (file-version-size other))
       (= (file-version-hash version) (file-version-hash other))))

(defun current-version (path)
  "The version of the file PATH now, or NIL when it cannot be read."
  (handler-case (let ((write-date (file-write-date path))
                      (octets (file-octets path)))
                  (make-file-version write-date (length octets) (fnv-1a octets)))
    (file-error () nil)
    (stream-error () nil)))

;;; Stamps

(defconstant +at-fdcwd+ -100
  "AT_FDCWD.")
(defconstant +statx-basic-stats+ #x7ff
  "STATX_BASIC_STATS.")

(defun file-stamp (file)
  "The stamp of FILE, a native name, by which a later look tells whether it was touched, as a list: when it was changed, in seconds since
1970 and nanoseconds, when it was written, its size, inode and device. :ABSENT if there is no such file. NIL if FILE is not what is on disk."
  (unless (overlay file)
    (sb-alien:with-alien ((buffer (array (sb-alien:unsigned 8) 256)))
      (let ((sap (sb-alien:alien-sap buffer)))
        (if (zerop (sb-alien:alien-funcall
                    (sb-alien:extern-alien "statx" (function sb-alien:int sb-alien:int sb-alien:c-string sb-alien:int
                                                             sb-alien:unsigned-int sb-sys:system-area-pointer))
                    +at-fdcwd+ file 0 +statx-basic-stats+ sap))
            ;; struct statx is of one layout on all machines.
            (list (sb-sys:signed-sap-ref-64 sap 96)
                  (sb-sys:sap-ref-32 sap 104)
                  (sb-sys:signed-sap-ref-64 sap 112)
                  (sb-sys:sap-ref-32 sap 120)
                  (sb-sys:sap-ref-64 sap 40)
                  (sb-sys:sap-ref-64 sap 32)
                  (sb-sys:sap-ref-64 sap 136))
            :absent)))))

(defun stamp-size (stamp)
  "The size in octets of the file of which STAMP, a list, is."
  (fifth stamp))

(defun older-than-clock-grain-p (seconds)
  "True if SECONDS since 1970 are so long past that what is written now has another date."
  (< seconds (- (sb-ext:get-time-of-day) 2)))

(defun reliable-stamp (file)
  "The stamp of FILE, or NIL if it is so young that another write could leave the same."
  (let ((stamp (file-stamp file)))
    (and (or (eq stamp :absent)
             (and stamp (older-than-clock-grain-p (max (first stamp) (third stamp)))))
         stamp)))

(defun written-stamp (file)
  "The reliable stamp of FILE without the date of its change, which a hard link to it changes as well; NIL if there is none."
  (let ((stamp (file-stamp file)))
    (and (consp stamp)
         (older-than-clock-grain-p (third stamp))
         (cddr stamp))))

(defun version-now (path version stamp stamp-function)
  "The version of the file PATH now, NIL if it cannot be read; second, its stamp as STAMP-FUNCTION tells it, NIL if PATH does not hold
what VERSION says. PATH is not read if it has STAMP, that of VERSION, still."
  ;; Take the stamp before the file is read: what is written meanwhile has another one.
  (let ((now (funcall stamp-function (sb-ext:native-namestring path))))
    (if (and (consp now) (equal now stamp))
        (values version stamp)
        (let ((found (current-version path)))
          (values found
                  (and (consp now) found (same-contents-p found version) now))))))

;;; Truenames in a cache that others use

(defun steady-query (function path query error-p)
  "Around %QUERY-FILE-SYSTEM: ask once more if a truename cannot be told. SBCL looks at the file, then asks for its real path; of a file
that another process takes away in between, it takes the number of the device for that of an error, and PROBE-FILE signals a TYPE-ERROR."
  (flet ((ask () (funcall function path query error-p)))
    (if (eq query :truename)
        (handler-case (ask)
          ((or file-error type-error) () (ask)))
        (ask))))
