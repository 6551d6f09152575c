;;;; Versions and stamps of files: a version identifies the contents, and a stamp detects whether a
;;;; file was touched.

(in-package :steelbank)

;;; Contents

(defstruct (file-version (:constructor make-file-version (write-date size hash)))
  "A file's write date (universal time), size in octets, and FNV-1a hash of its octets."
  (write-date 0 :type (integer 0))
  (size 0 :type (integer 0))
  (hash 0 :type (unsigned-byte 64)))

(defun same-contents-p (version other)
  "Return true if VERSION and OTHER, file versions, have the same contents, whatever their dates."
  (and (= (file-version-size version) (file-version-size other))
       (= (file-version-hash version) (file-version-hash other))))

(defun current-version (path)
  "Return the current version of the file PATH, or NIL if it cannot be read."
  (handler-case (let ((write-date (file-write-date path))
                      (octets (file-octets path)))
                  (make-file-version write-date (length octets) (fnv-1a octets)))
    (file-error () nil)
    (stream-error () nil)))

;;; Stamps

(defconstant +at-fdcwd+ -100 "AT_FDCWD.")
(defconstant +statx-basic-stats+ #x7ff "STATX_BASIC_STATS.")

(defun file-stamp (file)
  "Return the stamp of FILE, a native name, for detecting later changes."
  ;; A stamp is a list of the change time and the write time, each in seconds since 1970 and
  ;; nanoseconds, and of size, inode and device. Return :ABSENT if the file is missing or
  ;; inaccessible, and NIL if it has an overlay.
  (unless (overlay file)
    (sb-alien:with-alien ((buffer (array (sb-alien:unsigned 8) 256)))
      (let ((sap (sb-alien:alien-sap buffer)))
        (if (zerop (sb-alien:alien-funcall
                    (sb-alien:extern-alien
                     "statx"
                     (function sb-alien:int sb-alien:int sb-alien:c-string sb-alien:int
                               sb-alien:unsigned-int sb-sys:system-area-pointer))
                    +at-fdcwd+ file 0 +statx-basic-stats+ sap))
            ;; struct statx has the same layout on all machines.
            (list (sb-sys:signed-sap-ref-64 sap 96)
                  (sb-sys:sap-ref-32 sap 104)
                  (sb-sys:signed-sap-ref-64 sap 112)
                  (sb-sys:sap-ref-32 sap 120)
                  (sb-sys:sap-ref-64 sap 40)
                  (sb-sys:sap-ref-64 sap 32)
                  (sb-sys:sap-ref-64 sap 136))
            :absent)))))

(defun stamp-size (stamp)
  "Return the size in octets of the file with STAMP, a list."
  (fifth stamp))

(defun older-than-clock-grain-p (seconds)
  "Return true if SECONDS since 1970 are so long ago that a write now would get another date."
  (< seconds (- (sb-ext:get-time-of-day) 2)))

(defun reliable-stamp (file)
  "Return the stamp of FILE, or NIL if another write now could leave the same stamp."
  (let ((stamp (file-stamp file)))
    (and (or (eq stamp :absent)
             (and stamp (older-than-clock-grain-p (max (first stamp) (third stamp)))))
         stamp)))

(defun written-stamp (file)
  "Return the reliable stamp of FILE without its change time, or NIL if there is none."
  ;; A hard link updates the change time, too.
  (let ((stamp (file-stamp file)))
    (and (consp stamp)
         (older-than-clock-grain-p (third stamp))
         (cddr stamp))))

(defun version-now (path version stamp stamp-function)
  "Return the current version of the file PATH, or NIL if it cannot be read."
  ;; The second value is the file's stamp according to STAMP-FUNCTION, or NIL if there is none or
  ;; the contents differ from VERSION. If PATH still has STAMP, the stamp of VERSION, the file is
  ;; not read. Take the stamp before reading the file, so that a later write has another stamp.
  (let ((now (funcall stamp-function (sb-ext:native-namestring path))))
    (if (and (consp now) (equal now stamp))
        (values version stamp)
        (let ((found (current-version path)))
          (values found
                  (and (consp now) found (same-contents-p found version) now))))))

;;; Truenames in a shared cache

(defun steady-query (function path query error-p)
  "Wrap %QUERY-FILE-SYSTEM: retry once if a truename cannot be determined."
  ;; SBCL checks the file, then requests its real path. If another process deletes the file in
  ;; between, SBCL mistakes the device number for an error number, and PROBE-FILE signals a
  ;; TYPE-ERROR.
  (flet ((ask () (funcall function path query error-p)))
    (if (eq query :truename)
        (handler-case (ask)
          ((or file-error type-error) () (ask)))
        (ask))))
